//! Why a request was turned away, and the response that says so.
//!
//! A refusal is always a JSON-RPC error object on one line. It echoes the request's `id` byte for
//! byte where that is a string or an integer, and has no `id` at all otherwise. The [`Rejection`]
//! itself travels in the response's extensions, so that an outer layer can log or count it without
//! reading the body:
//!
//! ```
//! use http::Response;
//! use mcp_layers::{Rejection, RejectionKind};
//!
//! fn log<B>(response: &Response<B>) {
//!     if let Some(rejection) = Rejection::get(response.extensions()) {
//!         let kind: RejectionKind = rejection.kind();
//!         eprintln!("refused with {} ({kind:?}): {rejection}", kind.status());
//!     }
//! }
//! ```
//!
//! See [Error Responses] in the specification.
//!
//! [Error Responses]: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-responses

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::{Extensions, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::Body;
use serde_json::{Value, json};

use crate::{body::ResponseBody, era::Era, protocol::code};

/// A request was turned away.
///
/// Only this crate makes one: a found value is proof that one of its layers refused.
#[derive(Clone, Debug)]
pub struct Rejection {
    kind: RejectionKind,
    message: Cow<'static, str>,
    data: Option<Value>,
    id: Option<Bytes>,
    header: Option<(HeaderName, HeaderValue)>,
    bodiless: bool,
    era: Option<Era>,
}

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RejectionKind {
    /// The body is longer than the limit.
    BodyTooLarge,
    /// The body could not be read to its end.
    BodyUnreadable,
    /// The inner service tells nothing that `server/discover` could be answered with.
    DiscoveryFailed,
    /// A mirrored header and the body name different values.
    HeaderMismatch,
    /// `Host` is repeated, contradicts the request's URI, or names a host that is not ours.
    ForbiddenHost,
    /// `Origin` is present and not admitted.
    ForbiddenOrigin,
    /// The envelope of a modern request lacks a key, or one has the wrong type.
    IncompleteEnvelope,
    /// The body is JSON but not one JSON-RPC request or notification.
    InvalidRequest,
    /// A mirrored header holds bytes or an encoding that it may not hold.
    MalformedHeader,
    /// The HTTP method carries no message.
    MethodNotAllowed,
    /// A header that a modern request needs is absent.
    MissingHeader,
    /// The body is not JSON.
    ParseError,
    /// The JSON-RPC method no longer exists in the revision that the request names.
    RemovedMethod,
    /// A member that the rules read occurs twice in the body.
    RepeatedMember,
    /// A mirrored header occurs more than once.
    RepeatedHeader,
    /// The schema of the called tool is not known, and only known tools may be called.
    UnknownTool,
    /// The body has a `Content-Encoding`.
    UnsupportedContentEncoding,
    /// The body is not declared as `application/json`.
    UnsupportedMediaType,
    /// The protocol version is not served here.
    UnsupportedProtocolVersion,
}

impl RejectionKind {
    /// The HTTP status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::ForbiddenHost | Self::ForbiddenOrigin => StatusCode::FORBIDDEN,
            Self::DiscoveryFailed => StatusCode::BAD_GATEWAY,
            Self::RemovedMethod => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedContentEncoding | Self::UnsupportedMediaType => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::BodyUnreadable
            | Self::HeaderMismatch
            | Self::IncompleteEnvelope
            | Self::InvalidRequest
            | Self::MalformedHeader
            | Self::MissingHeader
            | Self::ParseError
            | Self::RepeatedHeader
            | Self::RepeatedMember
            | Self::UnknownTool
            | Self::UnsupportedProtocolVersion => StatusCode::BAD_REQUEST,
        }
    }

    /// The JSON-RPC error code of the response.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::ParseError => code::PARSE_ERROR,
            Self::DiscoveryFailed => code::INTERNAL_ERROR,
            Self::RemovedMethod => code::METHOD_NOT_FOUND,
            Self::IncompleteEnvelope => code::INVALID_PARAMS,
            Self::HeaderMismatch
            | Self::MalformedHeader
            | Self::MissingHeader
            | Self::RepeatedHeader
            | Self::UnknownTool => code::HEADER_MISMATCH,
            Self::UnsupportedProtocolVersion => code::UNSUPPORTED_PROTOCOL_VERSION,
            Self::BodyTooLarge
            | Self::BodyUnreadable
            | Self::ForbiddenHost
            | Self::ForbiddenOrigin
            | Self::InvalidRequest
            | Self::MethodNotAllowed
            | Self::RepeatedMember
            | Self::UnsupportedContentEncoding
            | Self::UnsupportedMediaType => code::INVALID_REQUEST,
        }
    }
}

impl Rejection {
    // Boxed at once: a rejection travels through many results, and is rare.
    pub(crate) fn new(kind: RejectionKind, message: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self {
            kind,
            message: message.into(),
            data: None,
            id: None,
            header: None,
            bodiless: false,
            era: None,
        })
    }

    /// Adds `error.data`.
    pub(crate) fn with_data(mut self: Box<Self>, data: Value) -> Box<Self> {
        self.data = Some(data);
        self
    }

    /// Adds a header to the response.
    pub(crate) fn with_header(
        mut self: Box<Self>,
        name: HeaderName,
        value: HeaderValue,
    ) -> Box<Self> {
        self.header = Some((name, value));
        self
    }

    /// Answers the request with this id: the JSON text of a string or of an integer.
    pub(crate) fn answering(mut self: Box<Self>, id: Option<Bytes>) -> Box<Self> {
        self.id = id;
        self
    }

    /// Leaves the body out, as the answer to a `HEAD` request must.
    pub(crate) fn without_body(mut self: Box<Self>, bodiless: bool) -> Box<Self> {
        self.bodiless = bodiless;
        self
    }

    /// Refuses a message whose era is known.
    pub(crate) fn of(mut self: Box<Self>, era: Era) -> Box<Self> {
        self.era = Some(era);
        self
    }

    /// Returns the rejection that a layer left in a response's extensions.
    #[must_use]
    pub fn get(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Why the request was turned away.
    #[must_use]
    pub fn kind(&self) -> RejectionKind {
        self.kind
    }

    /// The body of the response: a JSON-RPC error on one line; empty for the answer to `HEAD`.
    #[must_use]
    pub fn body(&self) -> Bytes {
        if self.bodiless {
            Bytes::new()
        } else {
            self.to_json().into()
        }
    }

    fn to_json(&self) -> Vec<u8> {
        let mut error = json!({ "code": self.kind.code(), "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let mut text = Vec::with_capacity(256);
        text.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        if let Some(id) = &self.id {
            text.extend_from_slice(br#""id":"#);
            text.extend_from_slice(id);
            text.push(b',');
        }
        text.extend_from_slice(br#""error":"#);
        text.extend_from_slice(error.to_string().as_bytes());
        text.push(b'}');
        text
    }

    pub(crate) fn into_response<B: Body>(mut self) -> Response<ResponseBody<B>> {
        let mut response = Response::new(ResponseBody::replay(self.body(), None));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some((name, value)) = &self.header {
            headers.insert(name, value.clone());
        }
        if let Some(era) = self.era.take() {
            response.extensions_mut().insert(era);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the message that the client was sent.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}
