//! Single members of objects in a request.

use crate::{json::Cursor, message::Message};

/// The JSON text of a member of the message's params.
pub(super) fn member<'a>(message: &'a Message, name: &str) -> Option<&'a [u8]> {
    member_of(message.params()?, name)
}

/// The JSON text of a member of an object, which is JSON text.
pub(super) fn member_of<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut member = None;
    // Well-formed: it was read before.
    let _ = Cursor::new(object).object(|cursor, key| {
        let value = cursor.value()?;
        if key.is(name) {
            member = Some(&object[value.span()]);
        }
        Ok(())
    });
    member
}

/// A string that is a member of an object, which is JSON text.
pub(super) fn string_in(object: &[u8], name: &str) -> Option<String> {
    string(member_of(object, name)?)
}

/// The string that a JSON text is.
pub(super) fn string(text: &[u8]) -> Option<String> {
    let value = Cursor::new(text).value().ok()?;
    let string = value.string(text)?.decode()?;
    Some(string.into_owned())
}
