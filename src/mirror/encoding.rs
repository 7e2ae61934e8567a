//! The encoding of values that a header cannot hold as they are.
//!
//! See [Value Encoding] in the specification.
//!
//! [Value Encoding]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};

/// Decodes the value of `Mcp-Name` or of an `Mcp-Param-*` header; `None` if it is malformed.
// rule M5
pub(crate) fn decode(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    // Prefix and suffix may not overlap: `=?base64?=` is a literal.
    let wrapped = value
        .strip_prefix(b"=?base64?")
        .and_then(|rest| rest.strip_suffix(b"?="));
    let Some(encoded) = wrapped else {
        return Some(Cow::Borrowed(value));
    };
    let decoded = BASE64_STANDARD.decode(encoded).ok()?;
    std::str::from_utf8(&decoded).ok()?;
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    fn decode(value: &str) -> Option<String> {
        let decoded = super::decode(value.as_bytes())?;
        Some(String::from_utf8(decoded.into()).unwrap())
    }

    #[test]
    fn wrapped_values_are_decoded() {
        assert_eq!(decode("=?base64?SGVsbG8=?=").unwrap(), "Hello");
        assert_eq!(decode("=?base64??=").unwrap(), "");
        assert_eq!(
            decode("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=").unwrap(),
            "=?base64?literal?="
        );
    }

    #[test]
    fn half_wrapped_values_are_literals() {
        for literal in [
            "",
            "=?base64?=",
            "=?base64?SGVsbG8=",
            "SGVsbG8=?=",
            "=?BASE64?SGVsbG8=?=",
        ] {
            assert_eq!(decode(literal).unwrap(), literal);
        }
    }

    #[test]
    fn what_the_alphabet_padding_or_utf_8_forbids_is_malformed() {
        for malformed in [
            "=?base64?SGVsbG8?=",
            "=?base64?SGVs bG8=?=",
            "=?base64?SGVsbG9=?=",
            "=?base64?_-8=?=",
            "=?base64?//4=?=",
            "=?base64?SGVsbG8==?=",
            "=?base64?literal?=",
        ] {
            assert_eq!(decode(malformed), None, "{malformed}");
        }
    }
}
