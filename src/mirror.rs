//! Refusing requests whose headers contradict their body.
//!
//! Load balancers and gateways route, limit and log modern requests by headers that repeat parts
//! of the body. A client that sends `Mcp-Name: harmless` over a body that calls something else
//! would be judged by the one and served by the other. So each header that is compared
//!
//! 1. has to be there on a request, once, as visible ASCII;
//! 2. has to equal its source byte for byte: `MCP-Protocol-Version` the version in `_meta`,
//!    `Mcp-Method` the method, `Mcp-Name` the name, URI or task id that the method acts on;
//! 3. may wrap its value as `=?base64?…?=` where that is defined (`Mcp-Name`).
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
//! See [Server Validation] in the specification.
//!
//! [Server Validation]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation

pub(crate) mod encoding;

use std::borrow::Cow;

use serde_json::json;
use tower_layer::Layer;

use crate::{
    envelope::EnvelopeRules,
    era::EraRules,
    gate::{Gate, Limits, Rules, sealed::Sealed},
    head::{Field, Head, NamedVersion},
    message::{Claim, Message},
    protocol::method,
    rejection::{Rejection, RejectionKind},
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
    /// Compares `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads bodies of up to `limit` bytes. The default is 4 MiB.
    ///
    /// Behind another layer of this crate, that one's limit has been applied.
    pub fn body_limit(mut self, limit: usize) -> Self {
        self.limits = Limits::both(limit);
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
    /// Compares the headers of a message whose era is resolved.
    // rules M2, M3
    #[allow(clippy::unused_self)] // later rules are configured
    pub(crate) fn check(&self, head: &Head<'_>, message: &Message) -> Result<(), Box<Rejection>> {
        if !message.era().is_modern() {
            return Ok(());
        }
        let request = message.is_request();
        check_version(head, message, request)?;
        let method = message.method().unwrap_or_default();
        if request || head.method != Field::Absent {
            let header = "Mcp-Method";
            if one(header, head.method)? != method {
                return Err(refuse(RejectionKind::HeaderMismatch, header));
            }
        }
        if request && has_name(method) {
            let header = "Mcp-Name";
            if message.name() != Some(&*decoded(header, head.name)?) {
                return Err(refuse(RejectionKind::HeaderMismatch, header));
            }
        }
        Ok(())
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
pub(crate) fn one<'a>(header: &str, field: Field<'a>) -> Result<&'a str, Box<Rejection>> {
    let value = match field {
        Field::Absent => return Err(refuse(RejectionKind::MissingHeader, header)),
        Field::Repeated => return Err(refuse(RejectionKind::RepeatedHeader, header)),
        Field::One(value) => value,
    };
    match std::str::from_utf8(value) {
        Ok(value)
            if value
                .bytes()
                .all(|byte| matches!(byte, b'\t' | b' '..=b'~')) =>
        {
            Ok(value)
        }
        _ => Err(refuse(RejectionKind::MalformedHeader, header)),
    }
}

/// The value of a header that has to be there once, and may be wrapped.
fn decoded<'a>(header: &str, field: Field<'a>) -> Result<Cow<'a, str>, Box<Rejection>> {
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
    Rejection::new(kind, format!("Header mismatch: {header} {text}"))
        .with_data(json!({ "header": header, "reason": reason }))
}
