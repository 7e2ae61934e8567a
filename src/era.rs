//! Telling which generation of the protocol a message speaks.
//!
//! One endpoint that serves both generations must not be talked into treating a message of one as
//! a message of the other: a modern request taken for a legacy one escapes the checks of its
//! headers, a legacy one taken for a modern one gets an answer that its client cannot read. So the
//! body decides, and the `MCP-Protocol-Version` header is a cross-check:
//!
//! 1. `initialize` is the handshake, unless it carries a complete modern envelope.
//! 2. A claim (`io.modelcontextprotocol/protocolVersion` in `params._meta`) names the era; a
//!    header that names another version is refused.
//! 3. Without a claim, a header that names a legacy version, or none at all, means legacy.
//! 4. A modern header without a claim is a modern request that lacks its envelope, and is refused.
//! 5. Whatever names an unknown version is refused with the list of those that are served.
//!
//! A modern message is also refused if it is not exactly one JSON-RPC request or notification, if
//! its envelope is incomplete, or if its method is one that the revision removed. A legacy message
//! passes byte for byte, except where a member that decides occurs twice, an array hides a modern
//! message, or the body is longer than the limit.
//!
//! # Example
//!
//! ```
//! use axum::{Extension, Router, routing::post};
//! use mcp_layers::{EraKind, EraResolverLayer, Message};
//!
//! async fn handler(Extension(message): Extension<Message>) -> &'static str {
//!     match message.era().kind() {
//!         EraKind::Modern => "no handshake needed",
//!         _ => "welcome back",
//!     }
//! }
//!
//! let app: Router = Router::new()
//!     .route("/mcp", post(handler))
//!     .layer(EraResolverLayer::new());
//! ```
//!
//! An inner service with sessions also needs `GET` and `DELETE`, and may take longer bodies:
//!
//! ```
//! use mcp_layers::EraResolverLayer;
//!
//! let layer = EraResolverLayer::new()
//!     .legacy_streams(true)
//!     .body_limit(16 * 1024 * 1024);
//! ```
//!
//! # Deployment
//!
//! - What reads the body behind these layers should read JSON as they do: in UTF-8, without
//!   comments or `NaN`, after no decompression. A legacy body is handed on even if it is not JSON,
//!   unless it mentions a claim.
//! - A `POST` of media type `application/grpc` without a version header passes unread, so that gRPC
//!   can share the port. Serve no JSON under that type.
//! - A slow body holds the instance of the inner service that was polled ready. Limit the time
//!   that a body may take outside of the layers.
//!
//! See [Versioning] in the specification.
//!
//! [Versioning]: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#terminology

use std::{borrow::Cow, fmt, sync::Arc};

use http::{Extensions, HeaderValue, header};
use tower_layer::Layer;

use crate::{
    envelope::EnvelopeRules,
    gate::{Gate, Limits, Rules, sealed::Sealed},
    head::{Head, NamedVersion},
    message::{Claim, Message},
    mirror::MirrorRules,
    protocol::{LEGACY_VERSIONS, MODERN_VERSIONS, method},
    rejection::{Data, Rejection, RejectionKind},
};

/// The era that a message belongs to.
///
/// Only this crate makes one, so a found value is proof that a layer has decided.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Era {
    kind: EraKind,
    version: Option<Version>,
}

/// A version that is served: one of the specification's, or one that the operator added.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Version {
    Added(Arc<str>),
    Known(&'static str),
}

impl Version {
    fn as_str(&self) -> &str {
        match self {
            Self::Added(version) => version,
            Self::Known(version) => version,
        }
    }
}

/// The two kinds of [`Era`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EraKind {
    /// A revision with an `initialize` handshake: 2025-11-25 or earlier.
    Legacy,
    /// A revision with metadata on every request: 2026-07-28 or later.
    Modern,
}

/// The eras that an endpoint serves.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Eras {
    /// Both generations.
    #[default]
    Both,
    /// Only the handshake era: the switch to pull when modern traffic must stop.
    LegacyOnly,
    /// Only revision 2026-07-28 and later.
    ModernOnly,
}

/// A known way in which clients break the rules of eras, which an endpoint can tolerate.
///
/// Each is off unless [`tolerate`](EraResolverLayer::tolerate) switches it on, and is logged as a
/// warning (feature `tracing`) whenever it acts: once the log stays silent, it is no longer needed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Quirk {
    /// Weakens the cross-check of versions: a header that names a legacy version goes with a claim
    /// that names a modern one, and the claim is trusted.
    ///
    /// A hosted connector sends `MCP-Protocol-Version: 2025-11-25` on requests whose `_meta` names
    /// 2026-07-28. Everything else is checked as on any modern request. What it costs: whatever
    /// stands in front of this server and routes by the header takes such a request for a legacy
    /// one.
    LegacyHeaderOnModernClaim,
    /// Weakens the demand for an envelope: a modern header without a claim, on a request that
    /// carries `Mcp-Session-Id`, is served as legacy.
    ///
    /// Some clients keep the header of their first attempt after they have fallen back to the
    /// handshake. What it costs: whatever stands in front of this server and trusts the mirrored
    /// headers of a request with a modern header trusts headers that nobody has compared.
    ModernHeaderInSession,
}

/// A version string that no legacy version can have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidVersion {
    version: Box<str>,
}

impl InvalidVersion {
    pub(crate) fn new(version: &str) -> Self {
        Self {
            version: version.into(),
        }
    }
}

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no legacy version: it has to be visible ASCII without commas, and no modern version",
            self.version
        )
    }
}

impl std::error::Error for InvalidVersion {}

impl Era {
    pub(crate) const UNNAMED: Self = Self {
        kind: EraKind::Legacy,
        version: None,
    };

    /// Returns the era of a request or of a response, from its extensions.
    #[must_use]
    pub fn get(extensions: &Extensions) -> Option<&Self> {
        match Message::get(extensions) {
            Some(message) => Some(message.era()),
            None => extensions.get(),
        }
    }

    /// Which kind of era this is.
    #[must_use]
    pub fn kind(&self) -> EraKind {
        self.kind
    }

    /// The protocol version that the message names, if it names one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_ref().map(Version::as_str)
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.kind == EraKind::Modern
    }

    fn modern(version: Version) -> Self {
        Self {
            kind: EraKind::Modern,
            version: Some(version),
        }
    }

    fn legacy(version: Option<Version>) -> Self {
        Self {
            kind: EraKind::Legacy,
            version,
        }
    }
}

/// Layer that decides the era of every message.
///
/// See the [module docs](self) for an example.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct EraResolverLayer {
    rules: EraRules,
    limits: Limits,
}

impl EraResolverLayer {
    /// Serves both eras, and no streams of the handshake era.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves these eras.
    pub fn eras(mut self, eras: Eras) -> Self {
        self.rules = self.rules.with_eras(eras);
        self
    }

    /// Lets `GET` and `DELETE` through without a modern header, for an inner service with sessions.
    pub fn legacy_streams(mut self, yes: bool) -> Self {
        self.rules = self.rules.with_legacy_streams(yes);
        self
    }

    /// Also takes `version` for one of the handshake era, like the four that the specification
    /// knows.
    ///
    /// ```
    /// use mcp_layers::EraResolverLayer;
    ///
    /// let layer = EraResolverLayer::new().legacy_version("2024-10-07")?;
    /// # Ok::<_, mcp_layers::era::InvalidVersion>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidVersion`] if `version` is empty, holds a comma or other bytes than visible ASCII,
    /// or is a modern version.
    pub fn legacy_version(mut self, version: &str) -> Result<Self, InvalidVersion> {
        self.rules = self.rules.with_legacy_version(version)?;
        Ok(self)
    }

    /// Weakens a check: tolerates a known kind of wrong client.
    ///
    /// # Warning
    ///
    /// Read at [`Quirk`] what each of them costs, and switch it off when its warnings have ceased.
    pub fn tolerate(mut self, quirk: Quirk) -> Self {
        self.rules = self.rules.with_tolerance(quirk);
        self
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
}

impl<S> Layer<S> for EraResolverLayer {
    type Service = EraResolver<S>;

    fn layer(&self, inner: S) -> EraResolver<S> {
        Gate::new(inner, self.rules.clone(), self.limits)
    }
}

/// Middleware that decides the era of every message.
///
/// See the [module docs](self) for an example.
pub type EraResolver<S> = Gate<S, EraRules>;

/// What an [`EraResolver`] applies.
#[derive(Clone, Debug, Default)]
pub struct EraRules(Arc<Config>);

#[derive(Clone, Debug, Default)]
struct Config {
    eras: Eras,
    legacy_streams: bool,
    /// Legacy versions besides those of the specification.
    added: Vec<Arc<str>>,
    tolerated: Vec<Quirk>,
}

impl Sealed for EraRules {}

impl Rules for EraRules {
    fn eras(&self) -> &EraRules {
        self
    }

    fn mirror(&self) -> Option<&MirrorRules> {
        None
    }

    fn envelope(&self) -> Option<&EnvelopeRules> {
        None
    }
}

/// What a version string stands for here.
enum Named {
    Legacy(Version),
    Modern(Version),
    Unknown,
}

impl EraRules {
    pub(crate) fn with_eras(mut self, eras: Eras) -> Self {
        Arc::make_mut(&mut self.0).eras = eras;
        self
    }

    pub(crate) fn with_legacy_streams(mut self, yes: bool) -> Self {
        Arc::make_mut(&mut self.0).legacy_streams = yes;
        self
    }

    pub(crate) fn with_legacy_version(mut self, version: &str) -> Result<Self, InvalidVersion> {
        let valid = !version.is_empty()
            && version
                .bytes()
                .all(|it| it.is_ascii_graphic() && it != b',');
        if !valid || MODERN_VERSIONS.contains(&version) {
            return Err(InvalidVersion::new(version));
        }
        if matches!(self.named(version), Named::Unknown) {
            Arc::make_mut(&mut self.0).added.push(version.into());
        }
        Ok(self)
    }

    pub(crate) fn with_tolerance(mut self, quirk: Quirk) -> Self {
        if !self.tolerates(quirk) {
            Arc::make_mut(&mut self.0).tolerated.push(quirk);
        }
        self
    }

    fn tolerates(&self, quirk: Quirk) -> bool {
        self.0.tolerated.contains(&quirk)
    }

    /// Whether `GET` and `DELETE` are served.
    // rule E7
    pub(crate) fn has_streams(&self) -> bool {
        self.0.legacy_streams && self.serves_legacy()
    }

    /// Every version that is served, newest first.
    pub(crate) fn supported(&self) -> impl Iterator<Item = &str> {
        let modern = MODERN_VERSIONS.iter().filter(|_| self.serves_modern());
        let mut legacy = Vec::new();
        if self.serves_legacy() {
            legacy.extend(LEGACY_VERSIONS);
            legacy.extend(self.0.added.iter().map(|version| &**version));
            // Versions are dates: the newest is the greatest.
            legacy.sort_unstable_by(|a, b| b.cmp(a));
        }
        modern.copied().chain(legacy)
    }

    fn serves_modern(&self) -> bool {
        self.0.eras != Eras::LegacyOnly
    }

    fn serves_legacy(&self) -> bool {
        self.0.eras != Eras::ModernOnly
    }

    fn named(&self, version: &str) -> Named {
        let known = |versions: &'static [&'static str]| {
            let mut versions = versions.iter();
            versions
                .find(|it| **it == version)
                .map(|it| Version::Known(it))
        };
        if let Some(version) = known(&MODERN_VERSIONS).filter(|_| self.serves_modern()) {
            return Named::Modern(version);
        }
        let added = || {
            let mut added = self.0.added.iter();
            added
                .find(|it| ***it == *version)
                .cloned()
                .map(Version::Added)
        };
        known(&LEGACY_VERSIONS)
            .or_else(added)
            .map_or(Named::Unknown, Named::Legacy)
    }

    fn is_modern(&self, version: &str) -> bool {
        matches!(self.named(version), Named::Modern(_))
    }

    fn is_legacy(&self, claim: &Claim<'_>) -> bool {
        match claim {
            Claim::Named(version) => matches!(self.named(version), Named::Legacy(_)),
            _ => false,
        }
    }

    /// Whether the header names a modern version that is served.
    pub(crate) fn header_is_modern(&self, head: &Head<'_>) -> bool {
        head.version.any(|version| self.is_modern(version)) && !self.is_session(head)
    }

    /// Whether the request is tolerated as one of a session, whatever version its header names.
    // rule E11
    fn is_session(&self, head: &Head<'_>) -> bool {
        head.has_session && self.serves_legacy() && self.tolerates(Quirk::ModernHeaderInSession)
    }

    /// Whether the header may name another version than the claim.
    // rule E11
    pub(crate) fn tolerates_header(&self, header: &str, claim: &str) -> bool {
        self.tolerates(Quirk::LegacyHeaderOnModernClaim)
            && matches!(self.named(header), Named::Legacy(_))
            && self.is_modern(claim)
    }

    /// Whether the claim names a modern version that is served.
    pub(crate) fn claim_is_modern(&self, message: &Message) -> bool {
        matches!(message.claim(), Claim::Named(version) if self.is_modern(&version))
    }

    /// Judges a request that is no `POST` and so carries no message.
    // rule E7
    pub(crate) fn check_method(
        &self,
        method: &str,
        head: &Head<'_>,
    ) -> Result<Era, Box<Rejection>> {
        if method != "OPTIONS" && (!self.has_streams() || self.header_is_modern(head)) {
            let rejection = Rejection::new(
                RejectionKind::MethodNotAllowed,
                "This endpoint takes messages by POST",
            );
            return Err(rejection
                .with_header(header::ALLOW, HeaderValue::from_static("POST"))
                .without_body(method == "HEAD"));
        }
        // rule E1: an unknown version is refused on every method
        if head.version.named() == NamedVersion::Absent {
            return Ok(Era::UNNAMED);
        }
        self.named_by_header(head)
            .map_err(|rejection| rejection.without_body(method == "HEAD"))
    }

    /// Decides the era of a message, or why it is refused.
    pub(crate) fn resolve(
        &self,
        head: &Head<'_>,
        message: &Message,
    ) -> Result<Era, Box<Rejection>> {
        let modern = self.header_is_modern(head) || self.claim_is_modern(message);
        if modern {
            head.check_media()?;
        }
        let hidden = message.mentions_claim() || message.claims().any(|it| !self.is_legacy(&it));
        // rules B4, B5
        let strict = modern || !self.serves_legacy();
        if (strict || hidden) && !message.is_json() {
            let text = "Parse error: the body is not one JSON text in UTF-8";
            return Err(Rejection::new(RejectionKind::ParseError, text));
        }
        if let Some(member) = message.repeated().filter(|_| message.is_json()) {
            let text = format!("Invalid Request: `{member}` occurs twice");
            return Err(Rejection::new(RejectionKind::RepeatedMember, text));
        }
        if let Some(fault) = strict.then(|| message.fault()).flatten() {
            return Err(invalid_request(fault));
        }
        if hidden {
            return Err(invalid_request("an array holds a message of another era"));
        }
        let complete = || self.claim_is_modern(message) && message.has_complete_envelope();
        if message.is_request() && message.method() == Some(method::INITIALIZE) && !complete() {
            return self.resolve_handshake(head, message);
        }
        let era = self.resolve_version(head, message)?;
        if era.is_modern() && message.is_request() {
            check_envelope(message)?;
            check_removed(message)?;
        }
        Ok(era)
    }

    // rule E2
    fn resolve_handshake(&self, head: &Head<'_>, message: &Message) -> Result<Era, Box<Rejection>> {
        if head.version.named() == NamedVersion::Malformed {
            return Err(malformed_version());
        }
        if self.header_is_modern(head) {
            return Err(mismatch(
                "`initialize` opens the handshake era, but MCP-Protocol-Version names a version without a handshake",
            ));
        }
        let header = match head.version.named() {
            NamedVersion::One(version) => Some(version),
            _ => None,
        };
        // rule E10
        if !self.serves_legacy() {
            let asked = message.asked_version().map(Cow::into_owned);
            let claimed = match message.claim() {
                Claim::Named(version) => Some(version.into_owned()),
                _ => None,
            };
            let named = [asked, claimed, header.map(str::to_owned)];
            // rule E5: what is served is never what is refused
            let refused = named.into_iter().flatten().find(|it| !self.is_modern(it));
            return Err(refused.map_or_else(
                || self.missing_version(),
                |version| self.unsupported(&version),
            ));
        }
        Ok(Era::legacy(header.and_then(
            |version| match self.named(version) {
                Named::Legacy(version) => Some(version),
                _ => None,
            },
        )))
    }

    // rules E1, E6, E10
    fn resolve_version(&self, head: &Head<'_>, message: &Message) -> Result<Era, Box<Rejection>> {
        let claim = match message.claim() {
            Claim::Absent => return self.named_by_header(head),
            // rule B2
            Claim::Malformed => return Err(invalid_request("the claim holds a lone surrogate")),
            Claim::NotAString => None,
            Claim::Named(version) => Some(version),
        };
        let header = match head.version.named() {
            NamedVersion::Malformed => return Err(malformed_version()),
            NamedVersion::Contradictory => return Err(contradictory_version()),
            NamedVersion::One(header) => Some(header),
            NamedVersion::Absent => None,
        };
        let Some(claim) = claim else {
            return Err(incomplete_envelope(message));
        };
        match header {
            Some(header) if self.tolerates_header(header, &claim) => {
                log_tolerance(Quirk::LegacyHeaderOnModernClaim);
            }
            Some(header) if *header != *claim => {
                return Err(mismatch(
                    "MCP-Protocol-Version and the protocol version in `_meta` differ",
                ));
            }
            Some(_) | None => {}
        }
        match self.named(&claim) {
            Named::Modern(version) => Ok(Era::modern(version)),
            Named::Legacy(version) if self.serves_legacy() => Ok(Era::legacy(Some(version))),
            Named::Legacy(_) | Named::Unknown => Err(self.unsupported(&claim)),
        }
    }

    /// The era that the header names, where nothing else names one.
    fn named_by_header(&self, head: &Head<'_>) -> Result<Era, Box<Rejection>> {
        let version = match head.version.named() {
            NamedVersion::One(version) => version,
            NamedVersion::Malformed => return Err(malformed_version()),
            NamedVersion::Contradictory => return Err(contradictory_version()),
            NamedVersion::Absent if self.serves_legacy() => return Ok(Era::UNNAMED),
            NamedVersion::Absent => return Err(self.missing_version()),
        };
        match self.named(version) {
            Named::Modern(_) if self.is_session(head) => {
                log_tolerance(Quirk::ModernHeaderInSession);
                Ok(Era::UNNAMED)
            }
            Named::Modern(version) => Ok(Era::modern(version)),
            Named::Legacy(version) if self.serves_legacy() => Ok(Era::legacy(Some(version))),
            Named::Legacy(_) | Named::Unknown => Err(self.unsupported(version)),
        }
    }

    // rule E10
    fn missing_version(&self) -> Box<Rejection> {
        let text = "Header mismatch: MCP-Protocol-Version is missing";
        let data = Data::new()
            .string("header", "MCP-Protocol-Version")
            .string("reason", "missing")
            .list("supported", self.supported());
        Rejection::new(RejectionKind::MissingHeader, text).with_data(data)
    }

    // rule E5
    fn unsupported(&self, requested: &str) -> Box<Rejection> {
        // No version is that long: the answer does not grow with the request.
        let mut ends = (0..=requested.len().min(100)).rev();
        let end = ends.find(|&end| requested.is_char_boundary(end));
        let requested = &requested[..end.unwrap_or_default()];
        let data = Data::new()
            .string("requested", requested)
            .list("supported", self.supported());
        let text = "Unsupported protocol version";
        Rejection::new(RejectionKind::UnsupportedProtocolVersion, text).with_data(data)
    }
}

/// Tells the operator that a weakening acts.
fn log_tolerance(quirk: Quirk) {
    #[cfg(feature = "tracing")]
    tracing::warn!(?quirk, "a wrong client is tolerated");
    #[cfg(not(feature = "tracing"))]
    let _ = quirk;
}

// rule E3
fn check_envelope(message: &Message) -> Result<(), Box<Rejection>> {
    if message.has_complete_envelope() {
        Ok(())
    } else {
        Err(incomplete_envelope(message))
    }
}

// rule E4
fn check_removed(message: &Message) -> Result<(), Box<Rejection>> {
    match message.method() {
        Some(method) if method::REMOVED.contains(&method) => Err(Rejection::new(
            RejectionKind::RemovedMethod,
            format!("Method not found: {method} does not exist in this revision"),
        )),
        _ => Ok(()),
    }
}

fn incomplete_envelope(message: &Message) -> Box<Rejection> {
    let (missing, invalid) = message.envelope_faults();
    let faulty = missing.iter().chain(&invalid).copied().collect::<Vec<_>>();
    Rejection::new(
        RejectionKind::IncompleteEnvelope,
        format!("Invalid params: `_meta` needs {}", faulty.join(", ")),
    )
    .with_data(
        Data::new()
            .list("invalid", invalid)
            .list("missing", missing),
    )
}

fn invalid_request(fault: &'static str) -> Box<Rejection> {
    let text = format!("Invalid Request: {fault}");
    Rejection::new(RejectionKind::InvalidRequest, text)
}

fn mismatch(text: &'static str) -> Box<Rejection> {
    version_header(RejectionKind::HeaderMismatch, "mismatch", text)
}

fn malformed_version() -> Box<Rejection> {
    let text = "MCP-Protocol-Version holds other bytes than visible ASCII";
    version_header(RejectionKind::MalformedHeader, "malformed", text)
}

fn contradictory_version() -> Box<Rejection> {
    let text = "MCP-Protocol-Version names different versions";
    version_header(RejectionKind::RepeatedHeader, "repeated", text)
}

fn version_header(kind: RejectionKind, reason: &str, text: &str) -> Box<Rejection> {
    let data = Data::new()
        .string("header", "MCP-Protocol-Version")
        .string("reason", reason);
    Rejection::new(kind, ["Header mismatch: ", text].concat()).with_data(data)
}
