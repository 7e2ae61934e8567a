//! Turning away requests that somebody else's web page sends.
//!
//! A server on the user's own machine, or inside a company's network, is within reach of every page
//! that the user's browser opens. Such a page can post to `http://localhost:8080/mcp` without
//! asking (a drive-by request), and by pointing its own domain at `127.0.0.1` (DNS rebinding) it
//! can even read the answers, because to the browser it then talks to its own server. Neither needs
//! a password. What gives both away is the head of the request: `Origin` names the page, and `Host`
//! names the server that the page believes it talks to.
//!
//! The guard passes a request if
//!
//! 1. `Host` occurs at most once and agrees with the authority of the request's URI;
//! 2. it has no `Origin`, as is usual for everything but browsers. A `GET` or `HEAD` then needs a
//!    *known* host, since browsers leave `Origin` off there;
//! 3. or its one `Origin` is well-formed and [listed](OriginGuardLayer::allow_origin);
//! 4. or its one `Origin` is the host that the request is addressed to, and that host is known.
//!
//! Known are the loopback names (`localhost`, `*.localhost`, `127.0.0.0/8`, `[::1]`) on any port,
//! and the hosts that you [list](OriginGuardLayer::allow_host). Everything else is answered with
//! `403 Forbidden`, whatever the method, and without a look at the body. The answer says which
//! setting would have admitted the request.
//!
//! Without any setting, the guard suits a server that only local programs and its own pages use:
//!
//! ```
//! use mcp_layers::OriginGuardLayer;
//! use tower::ServiceBuilder;
//!
//! let stack = ServiceBuilder::new().layer(OriginGuardLayer::new());
//! ```
//!
//! A server with a public name lists that name, and the pages of others that may call it:
//!
//! ```
//! use mcp_layers::{OriginGuardLayer, origin::Scheme};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let guard = OriginGuardLayer::new()
//!     .allow_host("mcp.example.com")?
//!     .public_scheme(Scheme::Https)
//!     .allow_origin("https://app.example.com")?
//!     .allow_origin("https://*.preview.example.com")?
//!     .allow_origin("http://localhost:*")?
//!     .allow_origin("vscode-webview://*")?;
//! # Ok(())
//! # }
//! ```
//!
//! # What browsers are told
//!
//! A browser lets a page read an answer of another origin, and send it more than a form could, only
//! if the server says so (CORS). The guard says it to the pages that it admits, and to no other:
//!
//! - every answer that passes the guard names the origin in `Access-Control-Allow-Origin`, as it
//!   was sent and in place of what the inner service says. Results can be read, and so can
//!   refusals of inner layers, the challenge in a `401`, and the id of a session;
//! - a preflight is answered by the guard itself: `POST` and the headers of MCP are allowed, every
//!   `Mcp-Param-*` that is asked for, and [what you add](OriginGuardLayer::allow_header). Any other
//!   `OPTIONS` goes to the inner service;
//! - `Vary` names `Origin`, also where none was sent: no cache may mistake one answer for another.
//!
//! # Deploying
//!
//! What follows holds for a `POST`, as the messages of MCP are, unless another method is named.
//!
//! ## Where the guard stands
//!
//! On the MCP route. Health checks and well-known documents are everybody's, whatever name they
//! are asked for under:
//!
//! ```
//! use axum::{Router, routing::{get, post}};
//! use mcp_layers::OriginGuardLayer;
//!
//! let app: Router = Router::new()
//!     .route("/mcp", post(|| async { "…" }).layer(OriginGuardLayer::new()))
//!     .route("/health", get(|| async { "well" }))
//!     .route("/.well-known/oauth-protected-resource", get(|| async { "{}" }));
//! ```
//!
//! - Put it around the route with `layer`. With `route_layer`, a `post` route answers preflights
//!   with `405` before the guard sees them.
//! - Put it outside of the authentication. A preflight has no token, a page can read a challenge
//!   only if the guard completes it, and a foreign page shall not learn who is logged in.
//! - What a layer outside of the guard answers, say to a slow request, no page of another origin
//!   can read.
//!
//! ## On the user's own machine
//!
//! | who asks | `Origin` | `Host` | settings | outcome |
//! |---|---|---|---|---|
//! | a program | none | `localhost:8080` | none | passes |
//! | the server's own page | `http://localhost:8080` | `localhost:8080` | none | passes |
//! | the same by address | `http://127.0.0.1:8080` | `127.0.0.1:8080` | none | passes |
//! | a page of another port | `http://localhost:5173` | `localhost:8080` | none | refused |
//! | the same | `http://localhost:5173` | `localhost:8080` | `allow_origin("http://localhost:*")` | passes |
//! | the same by address | `http://127.0.0.1:5173` | `localhost:8080` | `allow_origin("http://localhost:*")` | refused |
//! | a foreign page | `https://evil.example` | `localhost:8080` | none | refused |
//! | a program that was misled | none | `evil.example:8080` | none | passes |
//! | the same | none | `evil.example:8080` | `require_known_host(true)` | refused |
//!
//! Listen on a loopback address only, and set
//! [`require_known_host`](OriginGuardLayer::require_known_host): the server has no other names. An
//! entry for any port admits the pages of whatever else runs on the machine.
//!
//! ## Behind nginx with TLS
//!
//! nginx replaces `Host` by the address it connects to. Let it keep the name, and list that:
//!
//! ```nginx
//! location /mcp {
//!     proxy_pass http://127.0.0.1:8080;
//!     proxy_set_header Host $host;
//! }
//! ```
//!
//! What then becomes of the pages of `https://mcp.example.com` (and of `http`, where it says so):
//!
//! | `Host` | settings | outcome |
//! |---|---|---|
//! | `mcp.example.com` | none | refused |
//! | `mcp.example.com` | `allow_host("mcp.example.com")` | passes |
//! | `mcp.example.com`, page of `http` | `allow_host("mcp.example.com")` | passes |
//! | `mcp.example.com`, page of `http` | `allow_host("mcp.example.com")`, `public_scheme(Scheme::Https)` | refused |
//! | `127.0.0.1:8080` | `allow_host("mcp.example.com")` | refused |
//! | `127.0.0.1:8080` | `allow_origin("https://mcp.example.com")` | passes |
//! | `127.0.0.1:8080`, `X-Forwarded-Host: mcp.example.com` | `allow_host("mcp.example.com")` | refused |
//! | `127.0.0.1:8080`, `X-Forwarded-Host: mcp.example.com` | `allow_host("mcp.example.com")`, `dangerously_trust_forwarded_host(true)` | passes |
//!
//! On another port than 443, keep that too: `Host $host:$server_port`.
//!
//! Where `Host` is replaced, every name seems to be known: a `GET` under a rebound one passes. That
//! is why it should be kept. Trust `X-Forwarded-Host` only if the proxy overwrites it, as with
//! `proxy_set_header X-Forwarded-Host $host`.
//!
//! ## A browser client on another origin
//!
//! List its origin, as in `allow_origin("https://app.example.com")`. It then can read all that the
//! server answers. What it may send depends:
//!
//! | what the page sends | needs |
//! |---|---|
//! | a token in `Authorization` | nothing more |
//! | `Mcp-Param-Region`, or `traceparent` | nothing more |
//! | `X-Api-Key` | `allow_header(HeaderName::from_static("x-api-key"))` |
//! | `DELETE`, to end a session | `legacy_streams(true)` |
//! | cookies | `allow_credentials(true)` |
//!
//! Origins that come and go need no restart: [`with_handle`](OriginGuardLayer::with_handle).
//!
//! ## Desktop webviews and extensions
//!
//! | program | `Origin` | entry |
//! |---|---|---|
//! | webview of VS Code | `vscode-webview://1f0c9d7e-4bbb`, another each time | `vscode-webview://*` |
//! | Tauri on macOS and Linux | `tauri://localhost` | `tauri://localhost` |
//! | Tauri on Windows and Android | `http://tauri.localhost` | `http://tauri.localhost` |
//! | extension of Chromium | `chrome-extension://abcdefghijklmnop` | `chrome-extension://abcdefghijklmnop` |
//! | extension of Firefox | `moz-extension://0b5c1c5e-8a5f`, another on each machine | `moz-extension://*` |
//! | page from a file | `null` | `null` |
//!
//! An entry for a whole scheme admits every program that uses it, and `null` every sandboxed frame:
//! give files an origin instead, and ask for a token.
//!
//! ## Containers
//!
//! | who asks | `Origin` | `Host` | settings | outcome |
//! |---|---|---|---|---|
//! | a program, through a published port | none | `localhost:9000` | none | passes |
//! | a page, through that port | `http://localhost:9000` | `localhost:9000` | none | passes |
//! | another container | none | `mcp:8080` | none | passes |
//! | the same by `GET` | none | `mcp:8080` | none | refused |
//! | the same by `GET` | none | `mcp:8080` | `allow_host("mcp")` | passes |
//! | a page from another machine | `http://box.lan:9000` | `box.lan:9000` | none | refused |
//! | the same | `http://box.lan:9000` | `box.lan:9000` | `allow_host("box.lan")` | passes |
//! | a page under the wildcard address | `http://0.0.0.0:9000` | `0.0.0.0:9000` | none | refused |
//!
//! Which port the server listens on plays no part, nor does its address: `0.0.0.0` is no name of
//! it, and [`allow_host`](OriginGuardLayer::allow_host) says so.
//!
//! ## What same-origin protects from, and what not
//!
//! | who asks | `Origin` | `Host` | outcome |
//! |---|---|---|---|
//! | a foreign page, by script, form or `text/plain` | `https://evil.example` | `localhost:8080` | refused |
//! | a page whose name was rebound to this server | `http://evil.example:8080` | `evil.example:8080` | refused |
//! | the same by `GET`, as of an `EventSource` | none | `evil.example:8080` | refused |
//! | a sandboxed frame | `null` | `localhost:8080` | refused |
//! | a page of another name of this machine | `http://other.localhost:8080` | `localhost:8080` | refused |
//! | a program, whoever runs it | none | `localhost:8080` | passes |
//! | a program that calls itself our page | `http://localhost:8080` | `localhost:8080` | passes |
//! | whatever else is served under our host and port | `http://localhost:8080` | `localhost:8080` | passes |
//! | a link or an image on a foreign page, by `GET` | none | `localhost:8080` | passes |
//!
//! So it is no substitute for authentication, a script that slips into a page of ours can do what
//! the page can, and a `GET` must not change anything. [`McpLayer`](crate::McpLayer) answers it with
//! `405` unless told to serve [streams](crate::McpLayer::legacy_streams).
//!
//! See [Security & Endpoint] in the specification.
//!
//! [Security & Endpoint]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-%26-endpoint

// rule O9: the docs above show where the guard belongs.
mod cors;
mod future;
mod handle;
mod host;
mod policy;

use std::{
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

#[cfg(feature = "tracing")]
use self::policy::Grounds;
use self::{handle::Source, policy::Verdict};
use crate::{body::ResponseBody, rejection::Rejection};

pub(crate) use self::cors::Grant;
pub use self::future::ResponseFuture;
#[doc(inline)]
pub use self::{
    handle::OriginHandle,
    host::{InvalidEntryKind, InvalidHost, Scheme},
    policy::{InvalidOrigin, Origin},
};

/// Layer that applies [`OriginGuard`].
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OriginGuardLayer {
    source: Source,
    legacy_streams: bool,
}

impl OriginGuardLayer {
    /// A guard that admits no page but those served under a loopback name of this very server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also admits the pages of an origin.
    ///
    /// | entry | admits |
    /// |---|---|
    /// | `https://app.example.com` | this origin; a missing port is the scheme's own |
    /// | `http://localhost:*` | this scheme and host on any port |
    /// | `https://*.example.com` | all names below `example.com`, but not that name itself |
    /// | `https://*.example.com:*` | the same on any port |
    /// | `chrome-extension://abcdef` | this authority, compared with case |
    /// | `vscode-webview://*` | every origin of a scheme that is neither `http` nor `https` |
    /// | `null` | pages without an origin of their own, such as files and sandboxed frames |
    /// | `*` | every origin, see below |
    ///
    /// Upper case and one trailing slash make no difference in an entry.
    ///
    /// # Warning
    ///
    /// The entry `*` admits every page on the web, `null` included, to a server that may stand on
    /// the user's own machine, and `null` admits any page that puts itself into a sandboxed frame.
    /// They are for servers that ask every request for a token which no page can come by. With the
    /// feature `tracing`, `*` is logged as a warning here, and at debug level each time that
    /// nothing else would have admitted the request.
    ///
    /// # Errors
    ///
    /// [`InvalidOrigin`] if no browser could send what the entry names. Its
    /// [kind](InvalidOrigin::kind) is
    ///
    /// - [`Empty`](InvalidEntryKind::Empty) without a host,
    /// - [`Scheme`](InvalidEntryKind::Scheme) without a well-formed scheme in front of `://`,
    /// - [`Path`](InvalidEntryKind::Path) with a path, query or fragment,
    /// - [`Userinfo`](InvalidEntryKind::Userinfo) with a user name or password,
    /// - [`NotAscii`](InvalidEntryKind::NotAscii) for a host that is not in punycode,
    /// - [`Host`](InvalidEntryKind::Host) for any other host that is not well-formed, or an IPv4
    ///   address that is not four decimal numbers,
    /// - [`Port`](InvalidEntryKind::Port) for a port that is not a number from 0 to 65535,
    /// - [`Wildcard`](InvalidEntryKind::Wildcard) for a `*` in any other place, as in `https://*`.
    ///
    /// ```
    /// use mcp_layers::{OriginGuardLayer, origin::InvalidEntryKind};
    ///
    /// let error = OriginGuardLayer::new()
    ///     .allow_origin("https://app.example.com/mcp")
    ///     .unwrap_err();
    /// assert_eq!(error.kind(), InvalidEntryKind::Path);
    /// ```
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, InvalidOrigin> {
        self.source.change(|policy| policy.origins.add(origin))?;
        #[cfg(feature = "tracing")]
        if origin == "*" {
            tracing::warn!("the origin guard is told to admit every origin");
        }
        Ok(self)
    }

    /// Also admits the pages of every origin for which the function returns `true`.
    ///
    /// It is asked about well-formed origins that are not listed otherwise, and never about `null`.
    ///
    /// ```
    /// use mcp_layers::OriginGuardLayer;
    ///
    /// let guard = OriginGuardLayer::new().allow_origin_if(|origin| {
    ///     origin.scheme() == "https"
    ///         && origin.host().ends_with(".example.com")
    ///         && !origin.host().starts_with("sandbox-")
    /// });
    /// ```
    pub fn allow_origin_if(
        mut self,
        predicate: impl Fn(&Origin<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.source
            .change(|policy| policy.origins.add_predicate(predicate));
        self
    }

    /// Makes a host known as a name of this server.
    ///
    /// An entry without a port matches every port, one with port 80 or 443 also a `Host` without.
    ///
    /// # Errors
    ///
    /// [`InvalidHost`] if no client could name the host. Its [kind](InvalidHost::kind) is
    ///
    /// - [`Unspecified`](InvalidEntryKind::Unspecified) for `0.0.0.0` and `[::]`, which are
    ///   addresses to listen on,
    /// - [`Scheme`](InvalidEntryKind::Scheme) if there is a scheme,
    /// - [`Wildcard`](InvalidEntryKind::Wildcard) if there is a `*`,
    /// - one of the kinds that [`allow_origin`](Self::allow_origin) lists otherwise.
    pub fn allow_host(mut self, host: &str) -> Result<Self, InvalidHost> {
        self.source.change(|policy| policy.hosts.add(host))?;
        Ok(self)
    }

    /// Names the scheme under which browsers reach this server.
    ///
    /// A page of the same host then must have been loaded under this scheme. By default either
    /// scheme will do: behind a proxy where TLS ends, the server can't tell.
    pub fn public_scheme(mut self, scheme: Scheme) -> Self {
        self.source
            .change(|policy| policy.public_scheme = Some(scheme));
        self
    }

    /// Refuses every request to a host that is not known, by default only those of browsers.
    pub fn require_known_host(mut self, yes: bool) -> Self {
        self.source.change(|policy| policy.require_known_host = yes);
        self
    }

    /// Takes `X-Forwarded-Host` for the host of a request where it is present.
    ///
    /// `Host` must still occur at most once and agree with the URI. If there are several forwarded
    /// hosts, the host is unknown.
    ///
    /// # Warning
    ///
    /// Any client can send this header, a rebound page included. It is safe only if every request
    /// comes through a proxy that removes the client's own value.
    pub fn dangerously_trust_forwarded_host(mut self, yes: bool) -> Self {
        self.source
            .change(|policy| policy.trust_forwarded_host = yes);
        self
    }

    /// Lets admitted pages send another request header.
    ///
    /// The headers of MCP, `Authorization`, `Content-Type`, `Accept` and those of the trace context
    /// are allowed anyway, and so is every `Mcp-Param-*` that a page asks for.
    ///
    /// ```
    /// use http::HeaderName;
    /// use mcp_layers::OriginGuardLayer;
    ///
    /// let guard = OriginGuardLayer::new().allow_header(HeaderName::from_static("x-api-key"));
    /// ```
    #[allow(clippy::needless_pass_by_value)] // names are given as constants
    pub fn allow_header(mut self, name: HeaderName) -> Self {
        self.source.change(|policy| policy.cors.allow_header(&name));
        self
    }

    /// Lets admitted pages send cookies and other credentials that the browser keeps, and read the
    /// answers to such requests.
    ///
    /// A token that the page itself puts into `Authorization` needs no such permission.
    ///
    /// It is never given to an origin that only the entries `*` or `null` admit, whichever was set
    /// first: any page can come by such an origin. Without it, a permission that the inner service
    /// gives to a page is taken back.
    ///
    /// # Warning
    ///
    /// Every page of the listed origins then acts as the user who is logged in.
    pub fn allow_credentials(mut self, yes: bool) -> Self {
        self.source.change(|policy| policy.cors.credentials = yes);
        self
    }

    /// Lets the pages of listed origins into a private network, where a browser asks for that with
    /// `Access-Control-Request-Private-Network`.
    ///
    /// It is never given to an origin that only the entries `*` or `null` admit. Chromium asks so
    /// from version 98 on; from 142 on it asks the user instead.
    pub fn allow_private_network(mut self, yes: bool) -> Self {
        self.source
            .change(|policy| policy.cors.private_network = yes);
        self
    }

    /// Lets browsers keep the answer to a preflight for this long, in whole seconds.
    ///
    /// The default is two hours, the longest that Chromium does. An origin that is no longer
    /// admitted is refused all the same: each request is judged by itself.
    pub fn preflight_max_age(mut self, age: Duration) -> Self {
        self.source.change(|policy| policy.cors.set_max_age(age));
        self
    }

    /// Lets admitted pages also send `GET` and `DELETE`, for an inner service with sessions.
    ///
    /// [`McpLayer::legacy_streams`](crate::McpLayer::legacy_streams) sets this too.
    pub fn legacy_streams(mut self, yes: bool) -> Self {
        self.legacy_streams = yes;
        self
    }

    /// Makes a handle that replaces the policy of all guards built from this layer and its clones.
    ///
    /// A setting that is made on the layer afterwards is made for all of them. See [`OriginHandle`]
    /// for an example.
    pub fn with_handle(self) -> (Self, OriginHandle) {
        let (source, handle) = self.source.with_handle();
        let layer = Self {
            source,
            legacy_streams: self.legacy_streams,
        };
        (layer, handle)
    }
}

impl<S> Layer<S> for OriginGuardLayer {
    type Service = OriginGuard<S>;

    fn layer(&self, inner: S) -> OriginGuard<S> {
        OriginGuard {
            inner,
            source: self.source.clone(),
            legacy_streams: self.legacy_streams,
        }
    }
}

/// Middleware that answers `403 Forbidden` to the requests of unknown pages.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug)]
pub struct OriginGuard<S> {
    inner: S,
    source: Source,
    legacy_streams: bool,
}

impl<S> OriginGuard<S> {
    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, mutably.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Takes the inner service out.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for OriginGuard<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        match self.judge(&request) {
            Ok(Passage::Inner(grant)) => ResponseFuture::inner(self.inner.call(request), grant),
            Ok(Passage::Preflight(response)) => ResponseFuture::preflight(response),
            Err(rejection) => ResponseFuture::rejected(rejection),
        }
    }
}

/// What happens to a request that is not refused.
enum Passage {
    Inner(Grant),
    Preflight(Box<Response<()>>),
}

impl<S> OriginGuard<S> {
    fn judge<B>(&self, request: &Request<B>) -> Result<Passage, Box<Rejection>> {
        let (method, headers) = (request.method(), request.headers());
        self.source.with(|policy| {
            let verdict = policy.check(method, request.uri(), headers)?;
            log_weakening(verdict, headers);
            let grant = policy.grant(verdict, headers);
            Ok(
                if grant.is_for_a_page() && cors::is_preflight(method, headers) {
                    let response = policy.cors.answer(headers, grant, self.legacy_streams);
                    Passage::Preflight(Box::new(response))
                } else {
                    Passage::Inner(grant)
                },
            )
        })
    }
}

#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
fn log_weakening(verdict: Verdict, headers: &HeaderMap) {
    #[cfg(feature = "tracing")]
    {
        if verdict.grounds == Grounds::EveryOrigin {
            let origin = headers.get(http::header::ORIGIN);
            tracing::debug!(?origin, "passed only because every origin is admitted");
        }
        if verdict.forwarded {
            let host = headers.get("x-forwarded-host");
            tracing::debug!(?host, "passed because of a forwarded host");
        }
    }
}
