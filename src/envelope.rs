//! Stamping modern answers with what the revision demands of every result.
//!
//! Clients of revision 2026-07-28 show nothing at all if a list lacks `resultType`, `ttlMs` or
//! `cacheScope`, and take a method for missing only by the HTTP status. A handler that knows
//! nothing of the revision need not learn it: where a JSON answer to a modern request lacks them,
//! this layer adds
//!
//! 1. `resultType: "complete"`;
//! 2. the server's identity in `_meta`, beside what is there;
//! 3. `ttlMs` and `cacheScope` on complete results of the methods that clients may cache.
//!
//! What the handler set wins, and every other byte stays as it was: numbers, escapes, order and
//! blanks. The one exception are answers to a retry, which may not be cached. Errors get the HTTP
//! status of their code, and the two codes that the revision forbids are replaced.
//!
//! In a stream of server-sent events each answer is stamped, and everything else passes as it came
//! and when it came; `X-Accel-Buffering: no` keeps proxies from holding the stream back. A request
//! of the server, which the revision forbids there, and log messages that the client has not asked
//! for are taken out.
//!
//! Of an answer, only what decides about these is read. What is inside of other members is passed over,
//! and whether it is well-formed is left to the client.
//!
//! Untouched are answers of the handshake era, answers with a `Content-Encoding` (so compression
//! belongs outside), bodies that are neither JSON nor events, and answers longer than the limit.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::{Json, Router, routing::post};
//! use mcp_layers::{CacheHint, EnvelopeLayer, ServerInfo};
//! use serde_json::json;
//!
//! let app: Router = Router::new()
//!     .route("/mcp", post(|| async { Json(json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } })) }))
//!     .layer(
//!         EnvelopeLayer::new(ServerInfo::new("weather", "1.2.0"))
//!             .cache("tools/list", CacheHint::public(Duration::from_secs(300))),
//!     );
//! ```
//!
//! See [ResultType], [Caching] and [Error Codes] in the specification.
//!
//! [ResultType]: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#resulttype
//! [Caching]: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cacheable-results
//! [Error Codes]: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes

mod json;
mod sse;
mod status;

pub(crate) use self::sse::{EventReader, Events};

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header, response};
use serde_json::{Map, Value};
use tower_layer::Layer;

use self::json::Edited;
use crate::{
    body::is_same_buffer,
    era::EraRules,
    gate::{DEFAULT_BODY_LIMIT, Gate, Limits, Rules, sealed::Sealed},
    head,
    message::Message,
    mirror::MirrorRules,
    protocol::method,
};

/// The name and version under which a server introduces itself.
///
/// It is shown and logged, never verified.
///
/// ```
/// use mcp_layers::ServerInfo;
///
/// let info = ServerInfo::new("weather", env!("CARGO_PKG_VERSION")).title("Weather");
/// assert_eq!(info.name(), "weather");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerInfo(Map<String, Value>);

impl ServerInfo {
    /// A server of this name and version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Self(Map::new());
        info.with("name", name.into())
            .with("version", version.into())
    }

    /// Adds the name to show to people.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into())
    }

    /// Adds what the server is for.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into())
    }

    /// Adds the address of the server's web site.
    #[must_use]
    pub fn website_url(self, url: impl Into<String>) -> Self {
        self.with("websiteUrl", url.into())
    }

    /// The server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    fn with(mut self, key: &str, value: String) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// As the specification's `Implementation`.
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// How long, and by whom, a result may be kept.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layers::CacheHint;
///
/// let hint = CacheHint::private(Duration::from_secs(60));
/// assert_eq!(hint.ttl(), Duration::from_secs(60));
/// ```
///
/// See [Choosing a Cache Scope] in the specification.
///
/// [Choosing a Cache Scope]: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#choosing-a-cache-scope
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheHint {
    ttl: Duration,
    public: bool,
}

impl CacheHint {
    /// May be kept for `ttl`, in whole milliseconds, for whoever asked.
    #[must_use]
    pub fn private(ttl: Duration) -> Self {
        Self { ttl, public: false }
    }

    /// May be kept for `ttl`, in whole milliseconds, and be shown to everybody.
    ///
    /// # Warning
    ///
    /// This discloses: a shared cache may serve the result to users who could not have asked for
    /// it themselves. Choose it only for results that are the same for all of them.
    #[must_use]
    pub fn public(ttl: Duration) -> Self {
        Self { ttl, public: true }
    }

    /// How long the result may be kept.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether everybody may see the result.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.public
    }
}

/// Layer that stamps modern answers.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct EnvelopeLayer {
    rules: EnvelopeRules,
}

impl EnvelopeLayer {
    /// Stamps answers with this identity, and with hints that let nobody keep them.
    #[allow(clippy::needless_pass_by_value)] // who configures hands over
    pub fn new(server: ServerInfo) -> Self {
        Self {
            rules: EnvelopeRules::new(&server),
        }
    }

    /// Sets the hint of one of the methods that clients may cache.
    ///
    /// Methods that clients may not cache get no hint. All pages of a list get the same.
    pub fn cache(mut self, method: impl Into<String>, hint: CacheHint) -> Self {
        self.rules = self.rules.with_hint(method.into(), hint);
        self
    }

    /// Chooses the hint by the request; it comes before those of [`cache`](Self::cache).
    ///
    /// Decide by what is asked for, never by the cursor: the pages of one list share their scope.
    pub fn cache_with(
        mut self,
        hint: impl Fn(&Message) -> Option<CacheHint> + Send + Sync + 'static,
    ) -> Self {
        self.rules = self.rules.with_hints(hint);
        self
    }

    /// Stamps answers of up to `limit` bytes; longer ones pass as they are. The default is 4 MiB.
    pub fn answer_limit(mut self, limit: usize) -> Self {
        self.rules = self.rules.with_limit(limit);
        self
    }
}

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Envelope<S>;

    fn layer(&self, inner: S) -> Envelope<S> {
        Gate::new(inner, self.rules.clone(), Limits::default())
    }
}

/// Middleware that stamps modern answers.
///
/// See the [module docs](self) for an example.
pub type Envelope<S> = Gate<S, EnvelopeRules>;

/// What an [`Envelope`] applies.
#[derive(Clone, Debug)]
pub struct EnvelopeRules(Arc<Config>);

#[derive(Clone)]
struct Config {
    eras: EraRules,
    identity: json::Identity,
    hints: Vec<(String, CacheHint)>,
    hint_of: Option<Arc<HintOf>>,
    limit: usize,
}

type HintOf = dyn Fn(&Message) -> Option<CacheHint> + Send + Sync;

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("hints", &self.hints)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Sealed for EnvelopeRules {}

impl Rules for EnvelopeRules {
    fn eras(&self) -> &EraRules {
        &self.0.eras
    }

    fn mirror(&self) -> Option<&MirrorRules> {
        None
    }

    fn envelope(&self) -> Option<&EnvelopeRules> {
        Some(self)
    }

    fn refuses(&self) -> bool {
        false
    }
}

impl EnvelopeRules {
    pub(crate) fn new(server: &ServerInfo) -> Self {
        Self(Arc::new(Config {
            eras: EraRules::default(),
            identity: json::Identity::new(server),
            hints: Vec::new(),
            hint_of: None,
            limit: DEFAULT_BODY_LIMIT,
        }))
    }

    pub(crate) fn with_hint(mut self, method: String, hint: CacheHint) -> Self {
        Arc::make_mut(&mut self.0).hints.push((method, hint));
        self
    }

    pub(crate) fn with_hints(
        mut self,
        hint: impl Fn(&Message) -> Option<CacheHint> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.0).hint_of = Some(Arc::new(hint));
        self
    }

    pub(crate) fn with_limit(mut self, limit: usize) -> Self {
        Arc::make_mut(&mut self.0).limit = limit;
        self
    }

    /// Prepares the stamp of the answer to `message`.
    pub(crate) fn plan(&self, message: &Message) -> Stamp {
        let cacheable = message
            .method()
            .filter(|method| method::CACHEABLE.contains(method));
        Stamp {
            rules: self.clone(),
            hint: cacheable.map(|method| self.hint(method, message)),
            retry: message.is_retry(),
            wants_log: message.wants_log(),
        }
    }

    // rules V2, V3
    fn hint(&self, method: &str, message: &Message) -> CacheHint {
        if message.is_retry() {
            return CacheHint::default();
        }
        let config = &self.0;
        let chosen = config.hint_of.as_ref().and_then(|hint_of| hint_of(message));
        chosen
            .or_else(|| {
                let mut hints = config.hints.iter().rev();
                hints.find(|(of, _)| of == method).map(|(_, hint)| *hint)
            })
            .unwrap_or_default()
    }
}

/// What is done to an answer, by its head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Treatment {
    Pass,
    Stamp,
    StampEvents,
}

impl Treatment {
    // rule V7
    pub(crate) fn of(head: &response::Parts) -> Self {
        if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Self::Pass;
        }
        let mut content_type = None;
        // Few headers are there: to look at all is cheaper than to hash two names.
        for (name, value) in &head.headers {
            if name == header::CONTENT_ENCODING {
                return Self::Pass;
            }
            if name == header::CONTENT_TYPE {
                content_type.get_or_insert(value);
            }
        }
        let media_type = content_type.map_or(&b""[..], |it| head::media_type(it.as_bytes()));
        if media_type.eq_ignore_ascii_case(b"application/json") {
            Self::Stamp
        } else if media_type.eq_ignore_ascii_case(b"text/event-stream") {
            Self::StampEvents
        } else {
            Self::Pass
        }
    }
}

/// Left in the extensions of a response by a service of this crate, to spare a layer reading the
/// answer: it says where the result begins, an object that is not empty and lacks all that is
/// stamped.
///
/// It holds for the very buffer it was made of, like a [`Message`].
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "reference"), allow(dead_code))] // made by that one only
pub(crate) struct PlainResult {
    body: Bytes,
    at: usize,
}

impl PlainResult {
    #[cfg(feature = "reference")]
    pub(crate) fn new(body: Bytes, at: usize) -> Self {
        Self { body, at }
    }

    /// Where the result begins in `body`, if this was made of it.
    fn of(&self, body: &Bytes) -> Option<usize> {
        is_same_buffer(&self.body, body).then_some(self.at)
    }
}

/// What the answer to one modern message gets.
#[derive(Debug)]
pub(crate) struct Stamp {
    rules: EnvelopeRules,
    hint: Option<CacheHint>,
    retry: bool,
    wants_log: bool,
}

impl Stamp {
    /// The longest answer that is stamped, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.rules.0.limit
    }

    fn identity(&self) -> &json::Identity {
        &self.rules.0.identity
    }

    fn hint(&self) -> Option<CacheHint> {
        self.hint
    }

    fn is_retry(&self) -> bool {
        self.retry
    }

    fn wants_log(&self) -> bool {
        self.wants_log
    }

    /// Prepares the head of a stream of events.
    // rule V5
    pub(crate) fn apply_to_stream(head: &mut response::Parts) {
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers
            .entry("x-accel-buffering")
            .or_insert(HeaderValue::from_static("no"));
    }

    /// Stamps a whole JSON answer, which then has two pieces: of a long one, the end stays.
    pub(crate) fn apply(&self, head: &mut response::Parts, body: Bytes) -> [Bytes; 2] {
        let plain = head.extensions.remove::<PlainResult>();
        let stamped = match plain.and_then(|plain| plain.of(&body)) {
            Some(result) => json::stamp_plain(&body, result, self),
            None => json::stamp(&body, self),
        };
        // rule V6
        if head.status == StatusCode::OK {
            head.status = stamped
                .error
                .and_then(status::status)
                .unwrap_or(head.status);
        }
        match stamped.edited {
            None => [body, Bytes::new()],
            Some(Edited { front, end }) => {
                const STALE: [HeaderName; 5] = [
                    // Whoever writes the message knows the new length; nobody knows a new digest.
                    header::CONTENT_LENGTH,
                    HeaderName::from_static("content-digest"),
                    HeaderName::from_static("content-md5"),
                    HeaderName::from_static("digest"),
                    HeaderName::from_static("repr-digest"),
                ];
                head::remove_rare(&mut head.headers, &STALE);
                [front.into(), body.slice(end..)]
            }
        }
    }

    pub(crate) fn report_too_long(&self) {
        #[cfg(feature = "tracing")]
        tracing::warn!(
            limit = self.limit(),
            "an answer is longer than the limit and passes unstamped"
        );
        #[cfg(not(feature = "tracing"))]
        let _ = self;
    }

    /// Tells that a message was taken out of a stream.
    #[allow(clippy::unused_self)] // beside the other report
    fn report_dropped(&self, request: bool) {
        #[cfg(feature = "tracing")]
        if request {
            tracing::warn!("a request of the server was taken out of a modern stream");
        } else {
            tracing::debug!("a log message that nobody asked for was taken out of a modern stream");
        }
        #[cfg(not(feature = "tracing"))]
        let _ = request;
    }
}
