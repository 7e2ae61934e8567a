//! Answering `server/discover` for a service that does not know it.
//!
//! Hosted clients open with `server/discover` and give up on a server that only knows
//! `initialize`. The layer answers in its place, from values that you give or from what the
//! service says of itself when it is asked to `initialize`:
//!
//! 1. `supportedVersions` are those that the endpoint serves, the newest first;
//! 2. `capabilities` lack what the revision has removed: `logging` and `tasks` as a whole,
//!    `listChanged` and `subscribe` in others, since a service of the handshake era has no way to
//!    tell a modern client of a change;
//! 3. `instructions`, and the server's identity in `_meta`.
//!
//! A derived answer is asked for without anything of a caller's request but its address: no
//! credentials, none of the extensions that outer layers have left. Until one answer is kept, each
//! discovery asks; a failure is not kept. A session that the service opens on the occasion is
//! closed again.
//!
//! Some services also refuse the version header of a revision that they do not know. They can be
//! [shown a legacy one](DiscoverLayer::present_as), after all checks.
//!
//! # Example
//!
//! ```
//! use axum::{Json, Router, handler::Handler, routing::any};
//! use mcp_layers::{DiscoverLayer, McpLayer, ServerInfo};
//! use serde_json::{Value, json};
//!
//! /// A handler that only knows the handshake.
//! async fn handler(Json(request): Json<Value>) -> Json<Value> {
//!     let result = match request["method"].as_str() {
//!         Some("initialize") => json!({
//!             "protocolVersion": "2025-11-25",
//!             "capabilities": { "tools": {} },
//!             "serverInfo": { "name": "handmade", "version": "1.0.0" },
//!         }),
//!         _ => json!({ "tools": [] }),
//!     };
//!     Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
//! }
//!
//! let mcp = McpLayer::new(ServerInfo::new("handmade", "1.0.0"))
//!     .discover(DiscoverLayer::from_initialize());
//! let app: Router = Router::new().route("/mcp", any(handler.layer(mcp)));
//! ```
//!
//! With values of your own:
//!
//! ```
//! use mcp_layers::{DiscoverLayer, discover::Discovery};
//!
//! let layer = DiscoverLayer::new(
//!     Discovery::new()
//!         .capability("tools")
//!         .instructions("Ask for the weather by region."),
//! );
//! ```
//!
//! See [Discovery] in the specification.
//!
//! [Discovery]: https://modelcontextprotocol.io/specification/2026-07-28/server/discover

mod ask;

pub(crate) use self::ask::Ask;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use tower_layer::Layer;

use crate::{
    envelope::EnvelopeRules,
    era::{EraRules, InvalidVersion},
    gate::{Gate, Limits, Rules, sealed::Sealed},
    message::Message,
    mirror::MirrorRules,
    protocol::{meta, method},
};

/// What a server tells of itself.
///
/// ```
/// use mcp_layers::discover::Discovery;
///
/// let discovery = Discovery::new().capability("tools").capability("prompts");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Discovery {
    capabilities: Map<String, Value>,
    instructions: Option<Value>,
    server: Option<Value>,
}

impl Discovery {
    /// A server without capabilities.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a capability without further settings.
    pub fn capability(mut self, name: impl Into<String>) -> Self {
        self.capabilities.insert(name.into(), json!({}));
        self
    }

    /// Sets what models are told of the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into().into());
        self
    }

    /// Takes over what an `initialize` result says.
    fn from_initialize(mut result: Value) -> Option<Self> {
        let mut take = |key| result.get_mut(key).map(Value::take);
        let Some(Value::Object(mut capabilities)) = take("capabilities") else {
            return None;
        };
        // rule D2
        capabilities.retain(|name, _| !matches!(&**name, "logging" | "tasks"));
        for capability in capabilities.values_mut().filter_map(Value::as_object_mut) {
            capability.remove("listChanged");
            capability.remove("subscribe");
        }
        Some(Self {
            capabilities,
            instructions: take("instructions").filter(Value::is_string),
            server: take("serverInfo").filter(Value::is_object),
        })
    }

    // rule D1
    fn to_json<'a>(&self, supported: impl Iterator<Item = &'a str>) -> Value {
        let mut result = json!({
            "supportedVersions": supported.collect::<Vec<_>>(),
            "capabilities": self.capabilities,
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.clone();
        }
        if let Some(server) = &self.server {
            result["_meta"] = json!({ meta::SERVER_INFO: server });
        }
        result
    }
}

/// Layer that answers `server/discover`.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct DiscoverLayer {
    rules: DiscoverRules,
}

impl DiscoverLayer {
    /// Answers with these values.
    pub fn new(discovery: Discovery) -> Self {
        Self::of(Source::Fixed(Arc::new(discovery)))
    }

    /// Answers with what the inner service says when it is asked to `initialize`.
    pub fn from_initialize() -> Self {
        Self::of(Source::Initialize(Arc::default()))
    }

    fn of(source: Source) -> Self {
        Self {
            rules: DiscoverRules {
                eras: EraRules::default(),
                source,
                leaves_legacy: false,
                presents_as: None,
            },
        }
    }

    /// Leaves requests of the handshake era to the inner service.
    pub fn leave_legacy(mut self, yes: bool) -> Self {
        self.rules.leaves_legacy = yes;
        self
    }

    /// Shows modern requests to the inner service under this version of the handshake era.
    ///
    /// Services of 2025-06-18 and later have to refuse a version header that they do not know. The
    /// header is replaced after all checks; the era in the extensions stays.
    ///
    /// ```
    /// use mcp_layers::DiscoverLayer;
    ///
    /// let layer = DiscoverLayer::from_initialize().present_as("2025-11-25")?;
    /// # Ok::<_, mcp_layers::era::InvalidVersion>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidVersion`] if `version` is empty, holds a comma or other bytes than visible ASCII,
    /// or is a modern version.
    pub fn present_as(mut self, version: &str) -> Result<Self, InvalidVersion> {
        let legacy = EraRules::default().with_legacy_version(version);
        let value = legacy
            .and_then(|_| HeaderValue::from_str(version).map_err(|_| InvalidVersion::new(version)));
        self.rules.presents_as = Some(value?);
        Ok(self)
    }

    pub(crate) fn into_rules(self) -> DiscoverRules {
        self.rules
    }
}

impl<S> Layer<S> for DiscoverLayer {
    type Service = Discover<S>;

    fn layer(&self, inner: S) -> Discover<S> {
        Gate::new(inner, self.rules.clone(), Limits::default())
    }
}

/// Middleware that answers `server/discover`.
///
/// See the [module docs](self) for an example.
pub type Discover<S> = Gate<S, DiscoverRules>;

/// What a [`Discover`] applies.
#[derive(Clone, Debug)]
pub struct DiscoverRules {
    eras: EraRules,
    source: Source,
    leaves_legacy: bool,
    presents_as: Option<HeaderValue>,
}

#[derive(Clone)]
enum Source {
    Fixed(Arc<Discovery>),
    /// What the inner service said, once it was asked.
    Initialize(Arc<Mutex<Option<Arc<Discovery>>>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Initialize(_) => "Initialize",
        })
    }
}

impl Sealed for DiscoverRules {}

impl Rules for DiscoverRules {
    fn eras(&self) -> &EraRules {
        &self.eras
    }

    fn mirror(&self) -> Option<&MirrorRules> {
        None
    }

    fn envelope(&self) -> Option<&EnvelopeRules> {
        None
    }

    fn discover(&self) -> Option<&DiscoverRules> {
        Some(self)
    }

    fn refuses(&self) -> bool {
        false
    }
}

impl DiscoverRules {
    /// Whether this message is answered here.
    pub(crate) fn answers(&self, message: &Message) -> bool {
        message.is_request()
            && message.id().is_some()
            && message.method() == Some(method::DISCOVER)
            && (message.era().is_modern() || !self.leaves_legacy)
    }

    /// The version to show to the inner service in place of a modern one.
    // rule E12
    pub(crate) fn presents_as(&self) -> Option<&HeaderValue> {
        self.presents_as.as_ref()
    }

    /// What is known without asking.
    pub(crate) fn known(&self) -> Option<Arc<Discovery>> {
        match &self.source {
            Source::Fixed(discovery) => Some(Arc::clone(discovery)),
            Source::Initialize(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Keeps what the inner service said.
    pub(crate) fn keep(&self, discovery: &Arc<Discovery>) {
        if let Source::Initialize(kept) = &self.source {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(discovery));
        }
    }
}

/// The answer to a discovery, as JSON text.
pub(crate) fn answer(discovery: &Discovery, message: &Message, eras: &EraRules) -> Bytes {
    let result = discovery.to_json(eras.supported()).to_string();
    // Only requests with a valid id are answered.
    let id = message.id().unwrap_or_default();
    let parts = [
        br#"{"jsonrpc":"2.0","id":"#,
        id,
        br#","result":"#,
        result.as_bytes(),
        b"}",
    ];
    parts.concat().into()
}
