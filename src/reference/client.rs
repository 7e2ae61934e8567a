//! What the client of a request said that it can do.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{MethodError, params::member_of};
use crate::{
    era::EraKind,
    json::{Cursor, Kind},
    message::Message,
    protocol::{code, method},
};

/// The client of one request, as far as its answer depends on it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// What it declared, as JSON text.
    capabilities: Option<Bytes>,
    /// Whether the answer may ask for more input.
    pub(super) can_be_asked: bool,
}

impl Client {
    pub(super) fn of(message: &Message) -> Self {
        let capabilities = capabilities(message);
        let era = message.resolved().map(|(era, _)| era.kind());
        let asks = message
            .method()
            .is_some_and(|it| method::ASKING.contains(&it));
        Self {
            capabilities: capabilities.map(|text| message.body().slice_ref(text)),
            can_be_asked: asks && era != Some(EraKind::Legacy),
        }
    }

    pub(super) fn declares(&self, path: &[&str]) -> bool {
        declares(self.capabilities.as_deref(), path)
    }
}

/// The client's capabilities. One of the handshake era declared them for a session.
pub(super) fn capabilities(message: &Message) -> Option<&[u8]> {
    match message.resolved() {
        Some((era, _)) if era.kind() == EraKind::Legacy => None,
        _ => message.client_capabilities(),
    }
}

/// Whether the capabilities hold an object at this path.
// rule R5
pub(super) fn declares(capabilities: Option<&[u8]>, path: &[&str]) -> bool {
    let Some(mut value) = capabilities else {
        return false;
    };
    for (depth, name) in path.iter().enumerate() {
        value = match member_of(value, name) {
            Some(member) => member,
            // An elicitation that names no mode has that of forms.
            None => return path == ["elicitation", "form"] && depth == 1 && is_empty(value),
        };
    }
    value.starts_with(b"{")
}

fn is_empty(object: &[u8]) -> bool {
    let mut cursor = Cursor::new(object);
    cursor
        .value()
        .is_ok_and(|value| value.kind == Kind::Object && cursor.is_empty(value))
}

/// The error that names capabilities which the client did not declare.
// rule R5
pub(super) fn missing<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> MethodError {
    let mut required = json!({});
    for path in paths {
        let mut value = &mut required;
        for name in path {
            value = match value {
                Value::Object(map) => map.entry(*name).or_insert_with(|| Map::new().into()),
                // Only objects are put in.
                other => other,
            };
        }
    }
    MethodError::new(
        code::MISSING_CLIENT_CAPABILITY,
        "Missing required client capability",
    )
    .with_data(json!({ "requiredCapabilities": required }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_capabilities() {
        let all = r#"{"sampling":{"tools":{}},"elicitation":{"url":{}},"roots":true,"extensions":{"a.b/c":{}}}"#;
        for (path, declared) in [
            (&["sampling"][..], true),
            (&["sampling", "tools"], true),
            (&["sampling", "context"], false),
            (&["sampling", "tools", "x"], false),
            (&["elicitation"], true),
            (&["elicitation", "url"], true),
            (&["elicitation", "form"], false),
            (&["roots"], false),
            (&["roots", "x"], false),
            (&["Sampling"], false),
            (&["extensions", "a.b/c"], true),
            (&[], true),
        ] {
            assert_eq!(declares(Some(all.as_bytes()), path), declared, "{path:?}");
            assert!(!declares(None, path));
        }
        let form = ["elicitation", "form"];
        for (text, declared) in [
            (r#"{"elicitation":{}}"#, true),
            (r#"{"elicitation":{"form":{}}}"#, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true),
            (r#"{"elicitation":{"other":{}}}"#, false),
            (r#"{"elicitation":[]}"#, false),
            (r#"{"elicitation":""}"#, false),
            (r#"{"elicitation":null}"#, false),
            ("{}", false),
        ] {
            assert_eq!(declares(Some(text.as_bytes()), &form), declared, "{text}");
        }
    }

    #[test]
    fn missing_capabilities_are_named_by_one_object() {
        let error = missing([
            &["elicitation", "url"][..],
            &["sampling"],
            &["elicitation", "form"],
            &["sampling", "tools"],
        ]);
        assert_eq!(error.code(), -32021);
        let required =
            json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} } });
        assert_eq!(
            error.data(),
            Some(&json!({ "requiredCapabilities": required }))
        );
    }
}
