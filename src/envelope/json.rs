//! Splicing what is absent into a JSON answer, and nothing else.

use std::{mem, ops::Range};

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
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
struct Answer {
    result: Option<ResultObject>,
    error_code: Option<Range<usize>>,
    /// Whether there is a result, and an error, of any form.
    has_result: bool,
    has_error: bool,
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

/// Stamps an answer whose result begins at `result` and lacks all that is stamped.
pub(super) fn stamp_plain(text: &[u8], result: usize, stamp: &Stamp) -> Stamped {
    let at = Object {
        inside: result + 1,
        is_empty: false,
    };
    let answer = Answer {
        result: Some(ResultObject {
            at,
            ..ResultObject::default()
        }),
        ..Answer::default()
    };
    stamp_answer(text, &answer, stamp)
}

/// Stamps one message of a stream, if it is an answer.
// rules V5, V9
pub(super) fn stamp_event(text: &[u8], stamp: &Stamp) -> Event {
    match read(text) {
        Ok(message) if message.ambiguous => Event::Pass,
        Ok(message) if message.has_result || message.has_error => {
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
    let mut error = answer.error_code.clone().and_then(|span| {
        let code = std::str::from_utf8(&text[span]).ok()?;
        code.parse().ok()
    });
    // rule V8
    let replacement = error.and_then(status::replacement);
    error = replacement.map(i64::from).or(error);
    let code = replacement.map(|code| code.to_string());
    let ttl = stamp.hint().map(CacheHint::ttl_json);

    let mut edits = Edits::default();
    if let Some(result) = &answer.result {
        edits.result(text, result, stamp, ttl.as_deref());
    }
    if let (Some(span), Some(code)) = (&answer.error_code, &code) {
        edits.replace(span.clone(), code.as_bytes());
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
                answer.ambiguous |= mem::replace(&mut answer.has_result, true);
                let (result, repeats) = read_result(cursor)?;
                answer.ambiguous |= repeats;
                answer.result = result;
            }
            b"error" => {
                answer.ambiguous |= mem::replace(&mut answer.has_error, true);
                answer.error_code = read_error(cursor)?;
            }
            b"method" => answer.method = Some(cursor.value()?),
            b"id" => {
                cursor.value()?;
                answer.has_id = true;
            }
            _ => {
                cursor.unread_value()?;
            }
        }
        Ok(())
    })?;
    cursor.end()?;
    Ok(answer)
}

/// Reads a result, and whether a member of it that counts occurs twice.
fn read_result(cursor: &mut Cursor<'_>) -> Result<(Option<ResultObject>, bool), Malformed> {
    let mut result = ResultObject::default();
    let mut repeats = false;
    let value = cursor.object(|cursor, key| {
        match &*key.name() {
            b"resultType" => repeats |= result.result_type.replace(cursor.value()?).is_some(),
            b"ttlMs" => repeats |= result.ttl.replace(cursor.value()?).is_some(),
            b"cacheScope" => repeats |= result.scope.replace(cursor.value()?).is_some(),
            b"_meta" => {
                let value = cursor.object(|cursor, key| {
                    const SERVER_INFO: &[u8] = meta::SERVER_INFO.as_bytes();
                    result.has_server_info |= *key.name() == *SERVER_INFO;
                    cursor.value()?;
                    Ok(())
                })?;
                result.meta_at = object(cursor, &value);
                repeats |= result.meta.replace(value).is_some();
            }
            _ => {
                cursor.unread_value()?;
            }
        }
        Ok(())
    })?;
    let result = object(cursor, &value).map(|at| ResultObject { at, ..result });
    Ok((result, repeats))
}

fn read_error(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>, Malformed> {
    let mut code = None;
    cursor.object(|cursor, key| {
        let is_code = *key.name() == *b"code";
        let value = cursor.value()?;
        if is_code && value.kind == Kind::Number {
            code = Some(value.span());
        }
        Ok(())
    })?;
    Ok(code)
}

fn object(cursor: &Cursor<'_>, value: &Value) -> Option<Object> {
    (value.kind == Kind::Object).then(|| Object {
        inside: value.span().start + 1,
        is_empty: cursor.is_empty(*value),
    })
}

/// New pieces of a text, each for a stretch of the old one.
///
/// They are slices, and few, so that an answer is stamped with one allocation.
#[derive(Default)]
struct Edits<'a> {
    pieces: [(Range<usize>, &'a [u8]); 16],
    count: usize,
}

impl<'a> Edits<'a> {
    fn replace(&mut self, span: Range<usize>, new: &'a [u8]) {
        self.pieces[self.count] = (span, new);
        self.count += 1;
    }

    /// Inserts the pieces of members, each member with a comma behind it, at the front of an object.
    fn insert(&mut self, object: Object, members: &[&'a [u8]]) {
        let last = members.iter().rposition(|piece| !piece.is_empty());
        for (at, &piece) in members.iter().enumerate() {
            let piece = match piece {
                [piece @ .., b','] if object.is_empty && Some(at) == last => piece,
                piece => piece,
            };
            if !piece.is_empty() {
                self.replace(object.inside..object.inside, piece);
            }
        }
    }

    fn result(
        &mut self,
        text: &[u8],
        result: &ResultObject,
        stamp: &'a Stamp,
        ttl: Option<&'a str>,
    ) {
        const NONE: [&[u8]; 3] = [b""; 3];
        let kind = match result.result_type {
            None => [&br#""resultType":"complete","#[..], b"", b""],
            Some(_) => NONE,
        };
        let server_info = stamp.server_info();
        let meta = match (&result.meta, result.meta_at) {
            (None, _) => [&br#""_meta":{"#[..], server_info, b"},"],
            (Some(_), Some(at)) if !result.has_server_info => {
                self.insert(at, &[server_info, b","]);
                NONE
            }
            // What the handler set wins, even if it is no object.
            (Some(_), _) => NONE,
        };
        // rule V3
        if stamp.is_retry() {
            for (set, new) in [(&result.ttl, "0"), (&result.scope, r#""private""#)] {
                if let Some(set) = set {
                    self.replace(set.span(), new.as_bytes());
                }
            }
        }
        // rule V4
        let complete = result
            .result_type
            .as_ref()
            .is_none_or(|kind| kind.is_string(text, "complete"));
        let hint = stamp.hint().filter(|_| complete);
        // rule V2
        let (ttl, scope) = match (hint, ttl) {
            (Some(hint), Some(ttl)) => (
                [br#""ttlMs":"#, ttl.as_bytes(), b","],
                [br#""cacheScope":"#, hint.scope_json().as_bytes(), b","],
            ),
            _ => (NONE, NONE),
        };
        let ttl = if result.ttl.is_none() { ttl } else { NONE };
        let scope = if result.scope.is_none() { scope } else { NONE };
        self.insert(result.at, [kind, meta, ttl, scope].as_flattened());
    }

    fn apply(&mut self, text: &[u8]) -> Option<Bytes> {
        let pieces = &mut self.pieces[..self.count];
        if pieces.is_empty() {
            return None;
        }
        // Pieces of one place stay in their order.
        pieces.sort_by_key(|(span, _)| span.start);
        let old = pieces.iter().map(|(span, _)| span.len()).sum::<usize>();
        let new = pieces.iter().map(|(_, new)| new.len()).sum::<usize>();
        // Of exactly this length: a buffer with room to spare would be allocated for again.
        let mut edited = Vec::with_capacity(text.len() - old + new);
        let mut from = 0;
        for (span, new) in pieces {
            edited.extend_from_slice(&text[from..span.start]);
            edited.extend_from_slice(new);
            from = span.end;
        }
        edited.extend_from_slice(&text[from..]);
        Some(edited.into())
    }
}
