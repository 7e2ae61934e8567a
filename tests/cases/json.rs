//! A naive reader of answers. Text is compared as text: `serde_json::Value` would change numbers,
//! and refuses lone surrogates and deep nesting.

use serde_json::value::RawValue;

const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// The members of an object, each value as it was written. A repeated key is an error.
pub(crate) fn members(text: &str) -> Result<Vec<(String, &str)>, String> {
    let mut found: Vec<(String, &str)> = Vec::new();
    let mut rest = expect(text, '{')?;
    loop {
        if let Ok(after) = expect(rest, '}') {
            return if after.trim_start_matches(BLANK).is_empty() {
                Ok(found)
            } else {
                Err(format!("text after the object: {after:.40}"))
            };
        }
        if !found.is_empty() {
            rest = expect(rest, ',')?;
        }
        let (key, after): (String, _) = value(rest)?;
        let (raw, after): (&RawValue, _) = value(expect(after, ':')?)?;
        rest = after;
        if found.iter().any(|(known, _)| *known == key) {
            return Err(format!("{key} occurs twice"));
        }
        found.push((key, raw.get()));
    }
}

fn expect(text: &str, wanted: char) -> Result<&str, String> {
    let text = text.trim_start_matches(BLANK);
    text.strip_prefix(wanted)
        .ok_or_else(|| format!("no {wanted} before {text:.40}"))
}

fn value<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<(T, &'a str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok((value, &text[values.byte_offset()..])),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the text ends in the middle of an object".to_owned()),
    }
}

/// One member of an object, as it was written.
pub(crate) fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let members = members(text).ok()?;
    members.into_iter().find(|(k, _)| k == key).map(|(_, v)| v)
}

/// The value at a dotted path. A key may have dots itself: the longest one that leads on wins.
pub(crate) fn at<'a>(object: &'a str, path: &str) -> Option<&'a str> {
    let mut members = members(object).ok()?;
    members.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    members.into_iter().find_map(|(key, value)| {
        let rest = path.strip_prefix(key.as_str())?;
        if rest.is_empty() {
            return Some(value);
        }
        at(value, rest.strip_prefix('.')?)
    })
}

/// Is this JSON text `wanted`, as a string's content or as it stands?
pub(crate) fn reads_as(text: &str, wanted: &str) -> bool {
    serde_json::from_str::<String>(text).map_or(text == wanted, |content| content == wanted)
}

/// Is this JSON text a string or an integer?
pub(crate) fn is_rpc_id(text: &str) -> bool {
    serde_json::from_str::<String>(text).is_ok()
        || text
            .parse::<f64>()
            .is_ok_and(|number| number.fract() == 0.0)
}

/// The data of each event of a stream.
pub(crate) fn events(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let mut data = Vec::new();
    for line in text.split('\n').chain([""]) {
        if line.is_empty() && !data.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    events
}

#[test]
fn a_path_finds_keys_with_dots() {
    let object = r#" { "a" : {"b.c/d":{"e":1.0}, "b":{"c/d":2}}, "a.b":[] } "#;
    assert_eq!(at(object, "a.b.c/d.e"), Some("1.0"));
    assert_eq!(at(object, "a.b.c/d"), Some(r#"{"e":1.0}"#));
    assert_eq!(at(object, "a.b"), Some("[]"));
    assert_eq!(at(object, "a.c"), None);
}

#[test]
fn a_repeated_key_and_text_behind_an_object_are_errors() {
    assert!(members(r#"{"a":1,"a":2}"#).is_err());
    assert!(members(r#"{"a":1}}"#).is_err());
    assert!(members(r#"{"a":1,}"#).is_err());
    assert_eq!(members(r#"{"a":"\ud83d"}"#).unwrap()[0].1, r#""\ud83d""#);
}

#[test]
fn an_event_is_counted_whatever_its_line_ends() {
    let text = ": hi\r\n\r\ndata:\n\ndata: {\r\rdata:1\r\ndata: 2\n\nid: 3\n\ndata: end";
    assert_eq!(events(text), ["", "{", "1\n2", "end"]);
}
