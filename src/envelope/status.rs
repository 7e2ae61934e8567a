//! The status and the code that revision 2026-07-28 gives an error.

use http::StatusCode;

use crate::protocol::code;

/// The HTTP status of an answer whose error has this code; `None` where the inner one stands.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#protocol-version-header>
// rule V6
pub(super) fn status(error: i64) -> Option<StatusCode> {
    const NOT_FOUND: i64 = code::METHOD_NOT_FOUND as i64;
    const HEADER_MISMATCH: i64 = code::HEADER_MISMATCH as i64;
    const MISSING_CAPABILITY: i64 = code::MISSING_CLIENT_CAPABILITY as i64;
    const UNSUPPORTED_VERSION: i64 = code::UNSUPPORTED_PROTOCOL_VERSION as i64;
    const PARSE_ERROR: i64 = code::PARSE_ERROR as i64;
    const INVALID_REQUEST: i64 = code::INVALID_REQUEST as i64;
    match error {
        NOT_FOUND => Some(StatusCode::NOT_FOUND),
        HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION | PARSE_ERROR
        | INVALID_REQUEST => Some(StatusCode::BAD_REQUEST),
        _ => None,
    }
}

/// The code in place of one that the revision forbids.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes>
// rule V8
pub(super) fn replacement(error: i64) -> Option<i32> {
    match error {
        -32002 => Some(code::INVALID_PARAMS),
        -32042 => Some(code::INTERNAL_ERROR),
        _ => None,
    }
}
