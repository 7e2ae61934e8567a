//! Writing answers: the text around a result or an error.

use bytes::Bytes;
use serde_json::{Value, json};

use super::MethodError;

/// The longest part of a request that a message of ours repeats, in bytes.
const QUOTE: usize = 100;

/// The answer to `id` with a result that is JSON text already.
// rule R3: the id is echoed byte for byte
pub(super) fn encoded(id: &[u8], result: &[u8]) -> Vec<u8> {
    let mut text = open(id, result.len());
    text.extend_from_slice(result);
    text.push(b'}');
    text
}

/// The answer to `id` with a result or an error.
pub(super) fn outcome(id: &[u8], outcome: &Result<Value, MethodError>) -> Vec<u8> {
    // Room for a short result; a longer one grows it.
    const ROOM: usize = 256;
    match outcome {
        Ok(result) => {
            let mut text = open(id, ROOM);
            #[allow(clippy::expect_used)] // its keys are strings, and a Vec takes all bytes
            serde_json::to_writer(&mut text, result).expect("a Value is JSON");
            text.push(b'}');
            text
        }
        Err(error) => failure(Some(id), error),
    }
}

/// An error, without an `id` where none can be read: never with `"id":null`.
pub(super) fn failure(id: Option<&[u8]>, error: &MethodError) -> Vec<u8> {
    let mut object = json!({ "code": error.code(), "message": error.message() });
    if let Some(data) = error.data() {
        object["data"] = data.clone();
    }
    let object = object.to_string();
    let id = id.map(|id| [br#""id":"#, id, b","].concat());
    [
        br#"{"jsonrpc":"2.0","#,
        id.as_deref().unwrap_or_default(),
        br#""error":"#,
        object.as_bytes(),
        b"}",
    ]
    .concat()
}

/// The event that carries a message. JSON that we write holds no line ends.
pub(super) fn event(message: &[u8]) -> Bytes {
    [b"data: ", message, b"\n\n"].concat().into()
}

/// Everything in front of a result that has `room` bytes.
fn open(id: &[u8], room: usize) -> Vec<u8> {
    const BEFORE: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
    const BETWEEN: &[u8] = br#","result":"#;
    let mut text = Vec::with_capacity(BEFORE.len() + id.len() + BETWEEN.len() + room + 1);
    text.extend_from_slice(BEFORE);
    text.extend_from_slice(id);
    text.extend_from_slice(BETWEEN);
    text
}

/// The beginning of a name out of a request, to be repeated in a message.
pub(super) fn quote(name: &str) -> &str {
    let end = (0..=QUOTE).rev().find(|&end| name.is_char_boundary(end));
    if name.len() <= QUOTE {
        name
    } else {
        &name[..end.unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_known_length_is_written_into_one_allocation() {
        let text = encoded(b"12345", br#"{"tools":[]}"#);
        assert_eq!(
            text,
            br#"{"jsonrpc":"2.0","id":12345,"result":{"tools":[]}}"#
        );
        assert_eq!(text.len(), text.capacity());
    }

    #[test]
    fn long_names_are_quoted_up_to_a_whole_character() {
        assert_eq!(quote("echo"), "echo");
        assert_eq!(quote(&"x".repeat(100)).len(), 100);
        assert_eq!(quote(&"x".repeat(101)).len(), 100);
        assert_eq!(quote(&"é".repeat(5_000)).len(), 100);
        assert_eq!(quote(&"世".repeat(5_000)).len(), 99);
    }
}
