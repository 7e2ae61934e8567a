//! Refusing requests whose headers contradict their body.
//!
//! Load balancers and gateways route, limit and log modern requests by headers that repeat parts
//! of the body. A client that sends `Mcp-Name: harmless` over a body that calls something else
//! would be judged by the one and served by the other. So each header that is compared
//!
//! 1. has to be there on a request, once, as visible ASCII;
//! 2. has to equal its source byte for byte: `MCP-Protocol-Version` the version in `_meta`,
//!    `Mcp-Method` the method, `Mcp-Name` the name, URI or task id that the method acts on;
//! 3. may wrap its value as `=?base64?…?=` where that is defined (`Mcp-Name`, `Mcp-Param-*`).
//!
//! A notification needs none of them; one that it sends has to agree. On messages of the handshake
//! era the headers mean nothing and are ignored: route those by the [`Message`].
//!
//! # Example
//!
//! ```
//! use axum::{Router, routing::post};
//! use mcp_layers::MirrorHeaderValidatorLayer;
//!
//! let app: Router = Router::new()
//!     .route("/mcp", post(|| async { "the headers can be trusted here" }))
//!     .layer(MirrorHeaderValidatorLayer::new());
//! ```
//!
//! # Arguments that headers repeat
//!
//! A tool's input schema can ask for more: an argument that is annotated with `x-mcp-header` is
//! repeated as `Mcp-Param-{name}`, so that a load balancer can route by region or a gateway limit
//! by tenant. Which headers those are stands in the tools' schemas, so **the check is off until the
//! layer has a source of them**:
//!
//! - [`ToolHeaders`]: a fixed set, from the schemas themselves; invalid annotations are an error.
//! - [`LearnedTools`]: learns from the answers to `tools/list` that pass, for handlers whose tools
//!   nobody wants to tell twice, and for servers behind a gateway.
//! - [`ToolSchemas`]: anything else that can answer from memory.
//!
//! ```
//! use axum::{Router, routing::post};
//! use mcp_layers::{MirrorHeaderValidatorLayer, ToolHeaders};
//! use serde_json::json;
//!
//! let tools = ToolHeaders::new().tool("execute_sql", &json!({
//!     "type": "object",
//!     "properties": {
//!         "region": { "type": "string", "x-mcp-header": "Region" },
//!         "query": { "type": "string" },
//!     },
//! }))?;
//! let app: Router = Router::new()
//!     .route("/mcp", post(|| async { "Mcp-Param-Region can be trusted here" }))
//!     .layer(MirrorHeaderValidatorLayer::new().tool_schemas(tools));
//! # Ok::<_, mcp_layers::mirror::InvalidAnnotation>(())
//! ```
//!
//! On a call of a known tool, each of its headers is compared with the argument:
//!
//! 1. An argument that is there needs its header, with an equal value; one that is absent or
//!    `null` may not have one.
//! 2. Whole numbers are compared as numbers, exactly and in any spelling of JSON: `42` equals
//!    `42.0` and `4.2e1`. Booleans are `true` or `false`, strings are compared byte for byte.
//! 3. A value that no header can repeat is refused, whatever the header: a number that has a
//!    fraction or is outside of ±(2^53 − 1), an object, an array.
//! 4. A value of another type than the schema declares is compared as it prints. If that is equal
//!    it passes: the type is for the tool to report.
//! 5. An annotated argument, or an object around one, that occurs twice is refused: the tool could
//!    take the other one.
//!
//! Other `Mcp-Param-*` headers pass unseen, so nothing inside may trust them, and so do all calls
//! of a tool that the source does not know. [`refuse_unknown_tools`] closes that gap.
//!
//! # Alone
//!
//! Alone, the layer has to tell the eras apart, and refuses all that an
//! [`EraResolverLayer`](crate::EraResolverLayer) refuses as that is made. Put one outside of it to
//! serve streams of sessions, to switch eras or to tolerate wrong clients: what that decides holds.
//!
//! See [Server Validation] and [Custom Headers from Tool Parameters] in the specification.
//!
//! [`refuse_unknown_tools`]: MirrorHeaderValidatorLayer::refuse_unknown_tools
//! [Custom Headers from Tool Parameters]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
//! [Server Validation]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation

pub(crate) mod encoding;
mod learn;
mod observe;
mod param;
mod schema;
mod source;

pub(crate) use self::observe::Observer;
pub use self::{
    learn::LearnedTools,
    schema::{InvalidAnnotation, InvalidAnnotationKind, ParamHeaders},
    source::{Lookup, ToolHeaders, ToolSchemas},
};

use std::{borrow::Cow, fmt, sync::Arc};

use tower_layer::Layer;

use crate::{
    envelope::EnvelopeRules,
    era::EraRules,
    gate::{Gate, Limits, Rules, sealed::Sealed},
    head::{Field, Head, NamedVersion},
    message::{Claim, Message},
    protocol::method,
    rejection::{Data, Rejection, RejectionKind},
};

/// Layer that compares mirrored headers with the body.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct MirrorHeaderValidatorLayer {
    rules: MirrorRules,
    limits: Limits,
}

impl MirrorHeaderValidatorLayer {
    /// Compares `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name`, and no `Mcp-Param-*`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares the `Mcp-Param-*` headers that these tools demand.
    ///
    /// Without it they are not compared at all. See the [module docs](self).
    pub fn tool_schemas(mut self, schemas: impl ToolSchemas + 'static) -> Self {
        self.rules = self.rules.with_schemas(schemas);
        self
    }

    /// Refuses calls of tools whose schemas are not known; off by default.
    ///
    /// The `Mcp-Param-*` headers of such a call cannot be compared. Set this where something
    /// outside decides by them. Clients answer the refusal by listing the tools, which is also what
    /// a [`LearnedTools`] needs, and calling again. It means nothing without
    /// [`tool_schemas`](Self::tool_schemas).
    pub fn refuse_unknown_tools(mut self, yes: bool) -> Self {
        self.rules = self.rules.with_unknown_refused(yes);
        self
    }

    /// Reads bodies of up to `limit` bytes. The default is 4 MiB.
    ///
    /// Behind another layer of this crate, that one's limit has been applied.
    pub fn body_limit(mut self, limit: usize) -> Self {
        self.limits.modern = limit;
        self
    }
}

impl<S> Layer<S> for MirrorHeaderValidatorLayer {
    type Service = MirrorHeaderValidator<S>;

    fn layer(&self, inner: S) -> MirrorHeaderValidator<S> {
        Gate::new(inner, self.rules.clone(), self.limits)
    }
}

/// Middleware that refuses messages whose headers contradict their body.
///
/// See the [module docs](self) for an example.
pub type MirrorHeaderValidator<S> = Gate<S, MirrorRules>;

/// What a [`MirrorHeaderValidator`] applies.
#[derive(Clone, Debug, Default)]
pub struct MirrorRules {
    // Alone, the validator has to tell the eras apart itself.
    eras: EraRules,
    schemas: Option<Schemas>,
    refuse_unknown: bool,
}

#[derive(Clone)]
struct Schemas(Arc<dyn ToolSchemas>);

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schemas").finish_non_exhaustive()
    }
}

impl Sealed for MirrorRules {}

impl Rules for MirrorRules {
    fn eras(&self) -> &EraRules {
        &self.eras
    }

    fn mirror(&self) -> Option<&MirrorRules> {
        Some(self)
    }

    fn envelope(&self) -> Option<&EnvelopeRules> {
        None
    }
}

impl MirrorRules {
    pub(crate) fn with_schemas(mut self, schemas: impl ToolSchemas + 'static) -> Self {
        self.schemas = Some(Schemas(Arc::new(schemas)));
        self
    }

    pub(crate) fn with_unknown_refused(mut self, yes: bool) -> Self {
        self.refuse_unknown = yes;
        self
    }

    /// Who learns from the answer to this message.
    // rule P5
    pub(crate) fn pupil(&self, message: &Message) -> Option<Arc<dyn ToolSchemas>> {
        let Schemas(schemas) = self.schemas.as_ref()?;
        let lists = message.is_request() && message.method() == Some(method::TOOLS_LIST);
        (lists && schemas.observes()).then(|| Arc::clone(schemas))
    }

    /// Compares the headers of a message whose era is resolved.
    // rules M2, M3
    pub(crate) fn check(&self, head: &Head<'_>, message: &Message) -> Result<(), Box<Rejection>> {
        if !message.era().is_modern() {
            return Ok(());
        }
        let request = message.is_request();
        check_version(head, message, request)?;
        let method = message.method().unwrap_or_default();
        if request || head.method != Field::Absent {
            let header = "Mcp-Method";
            if one(header, head.method)? != method.as_bytes() {
                return Err(refuse(RejectionKind::HeaderMismatch, header));
            }
        }
        if request && has_name(method) {
            let header = "Mcp-Name";
            if message.name_bytes() != Some(&*decoded(header, head.name)?) {
                return Err(refuse(RejectionKind::HeaderMismatch, header));
            }
        }
        if request && method == method::TOOLS_CALL {
            self.check_params(head, message)?;
        }
        Ok(())
    }

    // rule P4
    fn check_params(&self, head: &Head<'_>, message: &Message) -> Result<(), Box<Rejection>> {
        let Some(Schemas(schemas)) = &self.schemas else {
            return Ok(());
        };
        let Some(tool) = message.name() else {
            return Ok(());
        };
        match schemas.lookup(tool) {
            Lookup::Known(params) => param::check(&params, message.arguments(), head),
            Lookup::Unknown if self.refuse_unknown => Err(refuse_because(
                RejectionKind::UnknownTool,
                "Mcp-Name",
                "unknown",
                "names a tool whose schema is not known here",
            )),
            Lookup::Unchecked | Lookup::Unknown => Ok(()),
        }
    }
}

/// Whether the method acts on something that `Mcp-Name` repeats.
fn has_name(name: &str) -> bool {
    matches!(
        name,
        method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ
    ) || method::names_task(name)
}

/// Whether the version header is there and agrees with the claim.
///
/// An outer layer has compared them already; between the two, the header may have changed.
fn check_version(head: &Head<'_>, message: &Message, request: bool) -> Result<(), Box<Rejection>> {
    let header = "MCP-Protocol-Version";
    match (head.version.named(), message.claim()) {
        (NamedVersion::Absent, _) if request => Err(refuse(RejectionKind::MissingHeader, header)),
        (NamedVersion::One(version), Claim::Named(claim)) if *version != *claim => {
            match message.resolved() {
                Some((_, eras)) if eras.tolerates_header(version, &claim) => Ok(()),
                _ => Err(refuse(RejectionKind::HeaderMismatch, header)),
            }
        }
        (NamedVersion::Contradictory, _) => Err(refuse(RejectionKind::RepeatedHeader, header)),
        (NamedVersion::Malformed, _) => Err(refuse(RejectionKind::MalformedHeader, header)),
        _ => Ok(()),
    }
}

/// The value of a header that has to be there once.
// rule M4
fn one<'a>(header: &str, field: Field<'a>) -> Result<&'a [u8], Box<Rejection>> {
    let value = match field {
        Field::Absent => return Err(refuse(RejectionKind::MissingHeader, header)),
        Field::Repeated => return Err(refuse(RejectionKind::RepeatedHeader, header)),
        Field::One(value) => value,
    };
    let visible = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    if value.iter().all(visible) {
        Ok(value)
    } else {
        Err(refuse(RejectionKind::MalformedHeader, header))
    }
}

/// The value of a header that has to be there once, and may be wrapped.
fn decoded<'a>(header: &str, field: Field<'a>) -> Result<Cow<'a, [u8]>, Box<Rejection>> {
    encoding::decode(one(header, field)?)
        .ok_or_else(|| refuse(RejectionKind::MalformedHeader, header))
}

// rule M1
pub(crate) fn refuse(kind: RejectionKind, header: &str) -> Box<Rejection> {
    let (reason, text) = match kind {
        RejectionKind::MissingHeader => ("missing", "is missing"),
        RejectionKind::MalformedHeader => ("malformed", "is malformed"),
        RejectionKind::RepeatedHeader => ("repeated", "occurs more than once"),
        _ => ("mismatch", "does not match the body"),
    };
    refuse_because(kind, header, reason, text)
}

fn refuse_because(kind: RejectionKind, header: &str, reason: &str, text: &str) -> Box<Rejection> {
    let data = Data::new()
        .string("header", header)
        .string("reason", reason);
    Rejection::new(kind, ["Header mismatch: ", header, " ", text].concat()).with_data(data)
}
