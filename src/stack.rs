//! All checks, in the order in which a request meets them.
//!
//! Out of order the layers still refuse what they refuse, but other things go wrong: an
//! authentication outside of the origin check tells a page whether the user has credentials, one
//! inside of the message checks lets strangers spend them. [`McpLayer`] cannot be put together
//! wrongly, and reads the headers of a request only once.
//!
//! # Example
//!
//! ```
//! use axum::{Json, Router, routing::post};
//! use mcp_layers::{McpLayer, OriginGuardLayer, ServerInfo};
//! use serde_json::{Value, json};
//!
//! /// A handler that knows nothing of either era.
//! async fn handler(Json(request): Json<Value>) -> Json<Value> {
//!     Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "tools": [] } }))
//! }
//!
//! let mcp = McpLayer::new(ServerInfo::new("weather", "1.2.0"))
//!     .origin(OriginGuardLayer::new().allow_origin("https://app.example")?);
//! let app: Router = Router::new()
//!     .route("/mcp", post(handler).layer(mcp))
//!     .route("/health", post(|| async { "well" })); // stays outside
//! # Ok::<_, mcp_layers::origin::InvalidOrigin>(())
//! ```
//!
//! Authentication has a place of its own, where it sees only admitted origins and no body:
//!
//! ```
//! use axum::{extract::Request, http::StatusCode, middleware::{Next, from_fn}, response::Response};
//! use mcp_layers::{McpLayer, ServerInfo};
//!
//! async fn authenticate(request: Request, next: Next) -> Result<Response, StatusCode> {
//!     match request.headers().get("authorization") {
//!         Some(value) if value == "Bearer secret" => Ok(next.run(request).await),
//!         _ => Err(StatusCode::UNAUTHORIZED),
//!     }
//! }
//!
//! let app: axum::Router = axum::Router::new()
//!     .route("/mcp", axum::routing::post(|| async { "hello" }))
//!     .layer(McpLayer::new(ServerInfo::new("weather", "1.2.0")).authenticate(from_fn(authenticate)));
//! ```

use std::sync::Arc;

use tower_layer::{Identity, Layer};

use crate::{
    discover::{DiscoverLayer, DiscoverRules},
    envelope::{CacheHint, EnvelopeRules, ServerInfo},
    era::{EraRules, Eras, InvalidVersion, Quirk},
    gate::{Gate, Limits, Rules, sealed::Sealed},
    message::Message,
    mirror::{MirrorRules, ToolSchemas},
    origin::{OriginGuard, OriginGuardLayer},
};

/// Layer that applies every check of this crate, and stamps the answers.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct McpLayer<Auth = Identity> {
    origin: OriginGuardLayer,
    auth: Auth,
    rules: McpRules,
    limits: Limits,
}

impl McpLayer {
    /// Serves both eras under this identity, to no page of another origin.
    #[allow(clippy::needless_pass_by_value)] // who configures hands over
    pub fn new(server: ServerInfo) -> Self {
        Self {
            origin: OriginGuardLayer::new(),
            auth: Identity::new(),
            rules: McpRules(Arc::new(Parts {
                eras: EraRules::default(),
                mirror: MirrorRules::default(),
                envelope: EnvelopeRules::new(&server),
                discover: None,
            })),
            limits: Limits::default(),
        }
    }
}

impl<Auth> McpLayer<Auth> {
    /// Admits the origins and hosts that `guard` admits.
    pub fn origin(mut self, guard: OriginGuardLayer) -> Self {
        self.origin = guard;
        self
    }

    /// Authenticates behind the origin check and before the body is read.
    pub fn authenticate<Other>(self, layer: Other) -> McpLayer<Other> {
        McpLayer {
            origin: self.origin,
            auth: layer,
            rules: self.rules,
            limits: self.limits,
        }
    }

    /// Serves these eras.
    pub fn eras(self, eras: Eras) -> Self {
        self.with(|parts| parts.eras = parts.eras.clone().with_eras(eras))
    }

    /// Lets `GET` and `DELETE` through without a modern header, for an inner service with sessions.
    ///
    /// Admitted pages may then send them too.
    pub fn legacy_streams(self, yes: bool) -> Self {
        self.with(|parts| parts.eras = parts.eras.clone().with_legacy_streams(yes))
    }

    /// Also takes `version` for one of the handshake era.
    ///
    /// See [`EraResolverLayer::legacy_version`](crate::EraResolverLayer::legacy_version).
    ///
    /// # Errors
    ///
    /// [`InvalidVersion`] if it can be none.
    pub fn legacy_version(mut self, version: &str) -> Result<Self, InvalidVersion> {
        let parts = Arc::make_mut(&mut self.rules.0);
        parts.eras = parts.eras.clone().with_legacy_version(version)?;
        Ok(self)
    }

    /// Weakens a check: tolerates a known kind of wrong client.
    ///
    /// # Warning
    ///
    /// Read at [`Quirk`] what each of them costs, and switch it off when its warnings have ceased.
    pub fn tolerate(self, quirk: Quirk) -> Self {
        self.with(|parts| parts.eras = parts.eras.clone().with_tolerance(quirk))
    }

    /// Compares the `Mcp-Param-*` headers that these tools demand.
    ///
    /// See [`MirrorHeaderValidatorLayer::tool_schemas`].
    ///
    /// [`MirrorHeaderValidatorLayer::tool_schemas`]: crate::MirrorHeaderValidatorLayer::tool_schemas
    pub fn tool_schemas(self, schemas: impl ToolSchemas + 'static) -> Self {
        self.with(|parts| parts.mirror = parts.mirror.clone().with_schemas(schemas))
    }

    /// Refuses calls of tools whose schemas are not known; off by default.
    ///
    /// See [`MirrorHeaderValidatorLayer::refuse_unknown_tools`].
    ///
    /// [`MirrorHeaderValidatorLayer::refuse_unknown_tools`]: crate::MirrorHeaderValidatorLayer::refuse_unknown_tools
    pub fn refuse_unknown_tools(self, yes: bool) -> Self {
        self.with(|parts| parts.mirror = parts.mirror.clone().with_unknown_refused(yes))
    }

    /// Reads bodies of up to `limit` bytes, of both eras. The default is 4 MiB.
    ///
    /// Whatever the limit, a body of more than 4 GiB is no JSON.
    pub fn body_limit(mut self, limit: usize) -> Self {
        self.limits.modern = limit;
        self
    }

    /// Reads bodies of the handshake era of up to `limit` bytes; unset, the limit of both.
    pub fn legacy_body_limit(mut self, limit: usize) -> Self {
        self.limits.legacy = Some(limit);
        self
    }

    /// Sets the hint of one of the methods that clients may cache.
    ///
    /// See [`EnvelopeLayer::cache`](crate::EnvelopeLayer::cache).
    pub fn cache(self, method: impl Into<String>, hint: CacheHint) -> Self {
        self.with(|parts| parts.envelope = parts.envelope.clone().with_hint(method.into(), hint))
    }

    /// Chooses the hint by the request.
    ///
    /// See [`EnvelopeLayer::cache_with`](crate::EnvelopeLayer::cache_with).
    pub fn cache_with(
        self,
        hint: impl Fn(&Message) -> Option<CacheHint> + Send + Sync + 'static,
    ) -> Self {
        self.with(|parts| parts.envelope = parts.envelope.clone().with_hints(hint))
    }

    /// Answers `server/discover` for an inner service that does not.
    pub fn discover(self, layer: DiscoverLayer) -> Self {
        self.with(|parts| parts.discover = Some(layer.into_rules()))
    }

    /// Stamps answers of up to `limit` bytes; longer ones pass as they are. The default is 4 MiB.
    pub fn answer_limit(self, limit: usize) -> Self {
        self.with(|parts| parts.envelope = parts.envelope.clone().with_limit(limit))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.rules.0));
        self
    }
}

impl<S, Auth> Layer<S> for McpLayer<Auth>
where
    Auth: Layer<Gate<S, McpRules>>,
{
    type Service = Mcp<Auth::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        let gate = Gate::new(inner, self.rules.clone(), self.limits);
        // rules O8, E7: pages may ask for what is served
        let streams = self.rules.0.eras.has_streams();
        let origin = self.origin.clone().legacy_streams(streams);
        origin.layer(self.auth.layer(gate))
    }
}

/// Middleware that applies every check of this crate around `A`, the authentication.
///
/// See the [module docs](self) for an example.
pub type Mcp<A> = OriginGuard<A>;

/// What an [`McpLayer`] applies to a message.
#[derive(Clone, Debug)]
pub struct McpRules(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    eras: EraRules,
    mirror: MirrorRules,
    envelope: EnvelopeRules,
    discover: Option<DiscoverRules>,
}

impl Sealed for McpRules {}

impl Rules for McpRules {
    fn eras(&self) -> &EraRules {
        &self.0.eras
    }

    fn mirror(&self) -> Option<&MirrorRules> {
        Some(&self.0.mirror)
    }

    fn envelope(&self) -> Option<&EnvelopeRules> {
        Some(&self.0.envelope)
    }

    fn discover(&self) -> Option<&DiscoverRules> {
        self.0.discover.as_ref()
    }
}
