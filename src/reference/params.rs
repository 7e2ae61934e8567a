//! Single members of `params`.

use crate::{json::Cursor, message::Message};

/// The JSON text of a member of the message's params.
pub(super) fn member<'a>(message: &'a Message, name: &str) -> Option<&'a [u8]> {
    let params = message.params()?;
    let mut member = None;
    // Well-formed: it was read before.
    let _ = Cursor::new(params).object(|cursor, key| {
        let value = cursor.value()?;
        if key.is(name) {
            member = Some(&params[value.span]);
        }
        Ok(())
    });
    member
}
