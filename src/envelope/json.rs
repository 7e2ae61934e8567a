//! Splicing what is absent into a JSON answer, and nothing else.

use std::ops::Range;

use bytes::Bytes;

use super::{CacheHint, Stamp, status};
use crate::{
    json::{Cursor, Kind, Malformed, Value},
    protocol::{meta, method::LOG},
};

/// An answer after stamping.
pub(super) struct Stamped {
    /// The new text, if it differs from the old one.
    pub(super) text: Option<Bytes>,
    /// The code of the error that the answer carries.
    pub(super) error: Option<i64>,
}

/// What becomes of a message in a stream.
pub(super) enum Event {
    Drop,
    Pass,
    Replace(Bytes),
}

/// What an answer holds, where it stands.
#[derive(Default)]
struct Answer {
    result: Option<ResultObject>,
    error_code: Option<Range<usize>>,
    /// Whether there is a result or an error of any form.
    answers: bool,
    method: Option<Value>,
    has_id: bool,
    /// Members that two readers could understand differently.
    ambiguous: bool,
}

#[derive(Default)]
struct ResultObject {
    /// The object itself.
    at: Object,
    result_type: Option<Value>,
    meta: Option<Value>,
    meta_at: Option<Object>,
    has_server_info: bool,
    ttl: Option<Value>,
    scope: Option<Value>,
}

/// Where an object's first member stands or would stand.
#[derive(Clone, Copy, Default)]
struct Object {
    inside: usize,
    is_empty: bool,
}

/// Stamps one JSON text.
// rules V1, V7
pub(super) fn stamp(text: &[u8], stamp: &Stamp) -> Stamped {
    let untouched = Stamped {
        text: None,
        error: None,
    };
    match read(text) {
        Ok(answer) if !answer.ambiguous => stamp_answer(text, &answer, stamp),
        _ => untouched,
    }
}

/// Stamps one message of a stream, if it is an answer.
// rules V5, V9
pub(super) fn stamp_event(text: &[u8], stamp: &Stamp) -> Event {
    match read(text) {
        Ok(message) if message.ambiguous => Event::Pass,
        Ok(message) if message.answers => {
            let stamped = stamp_answer(text, &message, stamp);
            stamped.text.map_or(Event::Pass, Event::Replace)
        }
        Ok(Answer {
            method: Some(method),
            has_id,
            ..
        }) if has_id || (method.is_string(text, LOG) && !stamp.wants_log()) => {
            stamp.report_dropped(has_id);
            Event::Drop
        }
        _ => Event::Pass,
    }
}

fn stamp_answer(text: &[u8], answer: &Answer, stamp: &Stamp) -> Stamped {
    let mut edits = Edits::default();
    if let Some(result) = &answer.result {
        edits.result(text, result, stamp);
    }
    let mut error = None;
    if let Some(span) = answer.error_code.clone() {
        error = std::str::from_utf8(&text[span.clone()])
            .ok()
            .and_then(|code| code.parse().ok());
        // rule V8
        if let Some(code) = error.and_then(status::replacement) {
            edits.replace(span, code.to_string().as_bytes());
            error = Some(code.into());
        }
    }
    Stamped {
        text: edits.apply(text),
        error,
    }
}

fn read(text: &[u8]) -> Result<Answer, Malformed> {
    let mut answer = Answer::default();
    let mut cursor = Cursor::new(text);
    cursor.object(|cursor, key| {
        match &*key.name() {
            b"result" => {
                answer.ambiguous |= answer.result.is_some();
                answer.answers = true;
                answer.result = read_result(cursor)?;
            }
            b"error" => {
                answer.ambiguous |= answer.error_code.is_some();
                answer.answers = true;
                answer.error_code = read_error(cursor)?;
            }
            b"method" => answer.method = Some(cursor.value()?),
            b"id" => {
                cursor.value()?;
                answer.has_id = true;
            }
            _ => {
                cursor.value()?;
            }
        }
        Ok(())
    })?;
    cursor.end()?;
    Ok(answer)
}

fn read_result(cursor: &mut Cursor<'_>) -> Result<Option<ResultObject>, Malformed> {
    let mut result = ResultObject::default();
    let value = cursor.object(|cursor, key| {
        match &*key.name() {
            b"resultType" => result.result_type = Some(cursor.value()?),
            b"ttlMs" => result.ttl = Some(cursor.value()?),
            b"cacheScope" => result.scope = Some(cursor.value()?),
            b"_meta" => {
                let value = cursor.object(|cursor, key| {
                    const SERVER_INFO: &[u8] = meta::SERVER_INFO.as_bytes();
                    result.has_server_info |= *key.name() == *SERVER_INFO;
                    cursor.value()?;
                    Ok(())
                })?;
                result.meta_at = object(cursor, &value);
                result.meta = Some(value);
            }
            _ => {
                cursor.value()?;
            }
        }
        Ok(())
    })?;
    Ok(object(cursor, &value).map(|at| ResultObject { at, ..result }))
}

fn read_error(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>, Malformed> {
    let mut code = None;
    cursor.object(|cursor, key| {
        let is_code = *key.name() == *b"code";
        let value = cursor.value()?;
        if is_code && value.kind == Kind::Number {
            code = Some(value.span);
        }
        Ok(())
    })?;
    Ok(code)
}

fn object(cursor: &Cursor<'_>, value: &Value) -> Option<Object> {
    (value.kind == Kind::Object).then(|| Object {
        inside: value.span.start + 1,
        is_empty: cursor.is_empty(value),
    })
}

/// Changes to a text, each at a place of its own.
#[derive(Default)]
struct Edits(Vec<(Range<usize>, Vec<u8>)>);

impl Edits {
    fn replace(&mut self, span: Range<usize>, new: &[u8]) {
        self.0.push((span, new.to_vec()));
    }

    /// Inserts members, each written with a comma behind it, at the front of an object.
    fn insert(&mut self, object: Object, mut members: Vec<u8>) {
        if object.is_empty {
            members.pop();
        }
        if !members.is_empty() {
            self.0.push((object.inside..object.inside, members));
        }
    }

    fn result(&mut self, text: &[u8], result: &ResultObject, stamp: &Stamp) {
        let mut members = Vec::with_capacity(192);
        if result.result_type.is_none() {
            members.extend_from_slice(br#""resultType":"complete","#);
        }
        let server_info = stamp.server_info();
        match (&result.meta, result.meta_at) {
            (None, _) => {
                members.extend_from_slice(br#""_meta":{"#);
                members.extend_from_slice(server_info);
                members.extend_from_slice(b"},");
            }
            (Some(_), Some(at)) if !result.has_server_info => {
                self.insert(at, [server_info, b","].concat());
            }
            // What the handler set wins, even if it is no object.
            (Some(_), _) => {}
        }
        // rule V3
        if stamp.is_retry() {
            let hint = CacheHint::default();
            let (ttl, scope) = (hint.ttl_json(), hint.scope_json());
            for (set, new) in [(&result.ttl, &*ttl), (&result.scope, scope)] {
                if let Some(set) = set {
                    self.replace(set.span.clone(), new.as_bytes());
                }
            }
        }
        // rule V4
        let complete = result
            .result_type
            .as_ref()
            .is_none_or(|kind| kind.is_string(text, "complete"));
        if complete {
            Self::hint(result, stamp, &mut members);
        }
        self.insert(result.at, members);
    }

    // rule V2
    fn hint(result: &ResultObject, stamp: &Stamp, members: &mut Vec<u8>) {
        let Some(hint) = stamp.hint() else {
            return;
        };
        let (ttl, scope) = (hint.ttl_json(), hint.scope_json());
        if result.ttl.is_none() {
            members.extend_from_slice(format!(r#""ttlMs":{ttl},"#).as_bytes());
        }
        if result.scope.is_none() {
            members.extend_from_slice(format!(r#""cacheScope":{scope},"#).as_bytes());
        }
    }

    fn apply(mut self, text: &[u8]) -> Option<Bytes> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by_key(|(span, _)| span.start);
        let added = self.0.iter().map(|(_, new)| new.len()).sum::<usize>();
        let mut edited = Vec::with_capacity(text.len() + added);
        let mut from = 0;
        for (span, new) in &self.0 {
            edited.extend_from_slice(&text[from..span.start]);
            edited.extend_from_slice(new);
            from = span.end;
        }
        edited.extend_from_slice(&text[from..]);
        Some(edited.into())
    }
}
