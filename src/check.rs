//! The verdict of the layers without the layers: for gateways, other transports and other stacks.
//!
//! [`Checks`] judges a request by its method, its headers and its body, and needs neither Tower nor
//! a type of the `http` crate. The layers ask the same functions, so both give one verdict. What
//! stays with you is what needs a connection: the origin of a page, and reading no more of a body
//! than you want to judge.
//!
//! ```
//! use mcp_layers::check::Checks;
//!
//! let checks = Checks::new();
//! let headers = [
//!     ("Content-Type", &b"application/json"[..]),
//!     ("MCP-Protocol-Version", b"2026-07-28"),
//!     ("Mcp-Method", b"tools/list"),
//! ];
//! let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
//!     "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!     "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//!
//! let checked = checks.check("POST", headers, body).expect("this is a complete request");
//! assert_eq!(checked.era().and_then(|era| era.version()), Some("2026-07-28"));
//!
//! let rejection = checks.check("POST", headers, r#"{"jsonrpc":"2.0","id":1}"#).unwrap_err();
//! assert_eq!((rejection.kind().status().as_u16(), rejection.kind().code()), (400, -32600));
//! assert!(rejection.body().starts_with(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"#));
//! ```
//!
//! Two things are worth doing as the layers do: take the headers `Mcp-Session-Id` and
//! `Last-Event-ID` off a request of the modern era, and hand on exactly the body that was judged.

use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    era::{Era, EraRules, Eras, InvalidVersion, Quirk},
    gate::{Limits, Rules},
    head::{Head, NamedVersion},
    message::Message,
    mirror::{MirrorRules, ToolSchemas},
    rejection::{Rejection, RejectionKind},
};

/// All checks of a request but that of its origin.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Checks {
    eras: EraRules,
    mirror: MirrorRules,
    limits: Limits,
}

impl Checks {
    /// The checks of an [`McpLayer`](crate::McpLayer) as it is made.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves these eras.
    pub fn eras(mut self, eras: Eras) -> Self {
        self.eras = self.eras.with_eras(eras);
        self
    }

    /// Lets `GET` and `DELETE` pass without a modern header.
    pub fn legacy_streams(mut self, yes: bool) -> Self {
        self.eras = self.eras.with_legacy_streams(yes);
        self
    }

    /// Also takes `version` for one of the handshake era.
    ///
    /// # Errors
    ///
    /// [`InvalidVersion`] if it can be none.
    pub fn legacy_version(mut self, version: &str) -> Result<Self, InvalidVersion> {
        self.eras = self.eras.with_legacy_version(version)?;
        Ok(self)
    }

    /// Weakens a check: tolerates a known kind of wrong client.
    ///
    /// # Warning
    ///
    /// Read at [`Quirk`] what each of them costs, and switch it off when its warnings have ceased.
    pub fn tolerate(mut self, quirk: Quirk) -> Self {
        self.eras = self.eras.with_tolerance(quirk);
        self
    }

    /// Compares the `Mcp-Param-*` headers that these tools demand.
    pub fn tool_schemas(mut self, schemas: impl ToolSchemas + 'static) -> Self {
        self.mirror = self.mirror.with_schemas(schemas);
        self
    }

    /// Refuses calls of tools whose schemas are not known; off by default.
    pub fn refuse_unknown_tools(mut self, yes: bool) -> Self {
        self.mirror = self.mirror.with_unknown_refused(yes);
        self
    }

    /// Takes bodies of up to `limit` bytes, of both eras. The default is 4 MiB.
    ///
    /// Whatever the limit, a body of more than 4 GiB is no JSON.
    pub fn body_limit(mut self, limit: usize) -> Self {
        self.limits.modern = limit;
        self
    }

    /// Takes bodies of the handshake era of up to `limit` bytes; unset, the limit of both.
    pub fn legacy_body_limit(mut self, limit: usize) -> Self {
        self.limits.legacy = Some(limit);
        self
    }

    /// Judges one request.
    ///
    /// `method` is HTTP's; names of headers are taken in any case, and a name may occur again.
    ///
    /// # Errors
    ///
    /// The [`Rejection`] that the layers would answer with, of every kind but
    /// [`ForbiddenHost`](RejectionKind::ForbiddenHost),
    /// [`ForbiddenOrigin`](RejectionKind::ForbiddenOrigin),
    /// [`BodyUnreadable`](RejectionKind::BodyUnreadable) and
    /// [`DiscoveryFailed`](RejectionKind::DiscoveryFailed).
    pub fn check<'a>(
        &self,
        method: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        body: impl Into<Bytes>,
    ) -> Result<Checked, Box<Rejection>> {
        let headers = headers.into_iter();
        let headers = headers.map(|(name, value)| (lower_case(name), value));
        let headers = headers.collect::<Vec<_>>();
        let head = Head::new(headers.iter().map(|(name, value)| (&**name, *value)));
        let judge = Judge {
            eras: &self.eras,
            mirror: Some(&self.mirror),
            limits: self.limits,
        };
        let body = body.into();
        match judge.head(method, &head)? {
            HeadVerdict::Unread(era) => Ok(Checked { era, message: None }),
            HeadVerdict::Read(limit) if body.len() > limit => Err(too_long(limit)),
            HeadVerdict::Read(_) => {
                let mut message = Message::parse(body);
                judge.message(&head, &mut message, None)?;
                Ok(Checked {
                    era: Some(message.era().clone()),
                    message: Some(message),
                })
            }
        }
    }
}

fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// A request that passed.
#[derive(Clone, Debug)]
pub struct Checked {
    era: Option<Era>,
    message: Option<Message>,
}

impl Checked {
    /// The era of the request; `None` for one of gRPC, which has none.
    #[must_use]
    pub fn era(&self) -> Option<&Era> {
        self.era.as_ref()
    }

    /// What the body holds; `None` for a request whose body holds no message.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }
}

/// The rules that decide whether a request passes.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    eras: &'a EraRules,
    mirror: Option<&'a MirrorRules>,
    limits: Limits,
}

/// What the head of a request says of its body.
pub(crate) enum HeadVerdict {
    /// To be read, up to this many bytes.
    Read(usize),
    /// To be left alone, in this era if there is one.
    Unread(Option<Era>),
}

impl<'a> Judge<'a> {
    pub(crate) fn of(rules: &'a impl Rules, limits: Limits) -> Self {
        Self {
            eras: rules.eras(),
            mirror: rules.mirror(),
            limits,
        }
    }

    /// Judges by the head alone.
    // rules E7, B1, B6
    pub(crate) fn head(self, method: &str, head: &Head<'_>) -> Result<HeadVerdict, Box<Rejection>> {
        if method != "POST" {
            let era = self.eras.check_method(method, head)?;
            return Ok(HeadVerdict::Unread(Some(era)));
        }
        // gRPC shares the port, not the protocol.
        if head.is_grpc() && head.version.named() == NamedVersion::Absent {
            return Ok(HeadVerdict::Unread(None));
        }
        let modern = self.eras.header_is_modern(head);
        let limit = self.limit(head);
        let announced = head.content_length().unwrap_or_default();
        if announced > limit as u64 {
            return Err(too_long(limit));
        }
        if modern {
            head.check_media()?;
        }
        Ok(HeadVerdict::Read(limit))
    }

    /// How many bytes are read before the era is known.
    pub(crate) fn limit(self, head: &Head<'_>) -> usize {
        if self.eras.header_is_modern(head) {
            self.limits.modern
        } else {
            self.limits.legacy()
        }
    }

    /// Judges a message by the head that came with it, and leaves the decision in it.
    ///
    /// `decided` are the rules of an outer layer, by which a body is judged that was replaced since.
    pub(crate) fn message(
        self,
        head: &Head<'_>,
        message: &mut Message,
        decided: Option<&EraRules>,
    ) -> Result<(), Box<Rejection>> {
        let eras = decided.unwrap_or(self.eras);
        let too_long_for_modern = message.body().len() > self.limits.modern;
        let era = if too_long_for_modern && eras.claim_is_modern(message) {
            Err(too_long(self.limits.modern))
        } else {
            eras.resolve(head, message)
        };
        let era = era.map_err(|rejection| rejection.answering(message.answerable_id()))?;
        message.resolve(era, eras.clone());
        self.mirror(head, message)
    }

    /// Whether the headers of a message, whose era is decided, have to be compared with it.
    pub(crate) fn mirrors(self, message: &Message) -> bool {
        self.mirror.is_some() && message.era().is_modern()
    }

    /// Compares the headers with a message whose era is decided.
    pub(crate) fn mirror(self, head: &Head<'_>, message: &Message) -> Result<(), Box<Rejection>> {
        let Some(mirror) = self.mirror else {
            return Ok(());
        };
        mirror.check(head, message).map_err(|rejection| {
            let rejection = rejection.answering(message.answerable_id());
            rejection.of(message.era().clone())
        })
    }
}

// rule B1
pub(crate) fn too_long(limit: usize) -> Box<Rejection> {
    let text = format!("The body is longer than {limit} bytes");
    Rejection::new(RejectionKind::BodyTooLarge, text)
}
