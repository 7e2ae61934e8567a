//! The error object that a method answers with.

use std::{borrow::Cow, error::Error, fmt};

use serde_json::{Value, json};

use crate::protocol::code;

/// A JSON-RPC error.
///
/// ```
/// use mcp_layers::reference::MethodError;
/// use serde_json::json;
///
/// let error = MethodError::new(-32602, "Unknown note").with_data(json!({ "note": 7 }));
/// assert_eq!(error.code(), -32602);
/// ```
///
/// See [Error Responses] in the specification.
///
/// [Error Responses]: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-responses
#[derive(Debug)]
pub struct MethodError {
    code: i32,
    message: Cow<'static, str>,
    data: Option<Value>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl MethodError {
    /// An error with this code, and a message that the client is shown.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
            source: None,
        }
    }

    /// The params are not what the method takes: -32602.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Something failed that is none of the client's business: it is told -32603, "Internal error",
    /// and nothing else. With the feature `tracing`, the error is logged.
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let mut internal = Self::anonymous();
        internal.source = Some(error.into());
        internal
    }

    /// Adds `data`, which the client is shown.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The error's code.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The message that the client is shown.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The data that the client is shown.
    #[must_use]
    pub fn data(&self) -> Option<&Value> {
        self.data.as_ref()
    }

    /// -32603 without a cause.
    pub(super) fn anonymous() -> Self {
        Self::new(code::INTERNAL_ERROR, "Internal error")
    }

    // rule R5
    pub(super) fn resource_not_found(uri: &str) -> Self {
        Self::invalid_params("Resource not found").with_data(json!({ "uri": uri }))
    }

    pub(super) fn invalid_request(fault: impl fmt::Display) -> Self {
        Self::new(code::INVALID_REQUEST, format!("Invalid Request: {fault}"))
    }
}

impl fmt::Display for MethodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl Error for MethodError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}
