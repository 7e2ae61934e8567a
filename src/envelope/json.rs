//! Splicing what is absent into a JSON answer, and nothing else.

use std::{borrow::Cow, mem, ops::Range};

use bytes::Bytes;

use super::{CacheHint, ServerInfo, Stamp, status};
use crate::{
    json::{Cursor, Kind, Malformed, Value},
    protocol::{meta, method::LOG},
};

/// An answer after stamping.
pub(super) struct Stamped {
    /// What is new, if anything is.
    pub(super) edited: Option<Edited>,
    /// The code of the error that the answer carries.
    pub(super) error: Option<i64>,
}

/// A text whose beginning is new.
pub(super) struct Edited {
    pub(super) front: Vec<u8>,
    /// Where the old text goes on.
    pub(super) end: usize,
}

/// From this length on, the end of a text is not copied.
const LONG: usize = 2 * 1024;

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
    match read(text) {
        Ok(answer) if !answer.ambiguous => stamp_answer(text, &answer, stamp, LONG),
        _ => Stamped {
            edited: None,
            error: None,
        },
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
    stamp_answer(text, &answer, stamp, LONG)
}

/// Stamps one message of a stream, if it is an answer.
// rules V5, V9
pub(super) fn stamp_event(text: &[u8], stamp: &Stamp) -> Event {
    match read(text) {
        Ok(message) if message.ambiguous => Event::Pass,
        Ok(message) if message.has_result || message.has_error => {
            let stamped = stamp_answer(text, &message, stamp, usize::MAX);
            let edited = stamped.edited;
            edited.map_or(Event::Pass, |edited| Event::Replace(edited.front.into()))
        }
        Ok(Answer {
            method: Some(method),
            has_id,
            ..
        }) if (has_id || (method.is_string(text, LOG) && !stamp.wants_log())) && is_json(text) => {
            stamp.report_dropped(has_id);
            Event::Drop
        }
        _ => Event::Pass,
    }
}

/// Stamps an answer, and leaves its end uncopied if that is `long`.
fn stamp_answer(text: &[u8], answer: &Answer, stamp: &Stamp, long: usize) -> Stamped {
    let mut error = answer.error_code.clone().and_then(|span| {
        let code = std::str::from_utf8(&text[span]).ok()?;
        code.parse().ok()
    });
    // rule V8
    let replacement = error.and_then(status::replacement);
    error = replacement.map(i64::from).or(error);
    let code = replacement.map(|code| code.to_string());

    let mut edits = Edits::default();
    let hint;
    if let Some(result) = &answer.result {
        // rule V4
        let complete = result
            .result_type
            .is_none_or(|kind| kind.is_string(text, "complete"));
        hint = stamp.hint().filter(|_| complete).map(CacheHint::to_members);
        edits.result(result, stamp, hint.as_ref());
    }
    if let (Some(span), Some(code)) = (&answer.error_code, &code) {
        edits.replace(span.clone(), code.as_bytes());
    }
    Stamped {
        edited: edits.apply(text, long),
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

/// Whether all of a text is well-formed, also what [`read`] passes over.
fn is_json(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.value().and_then(|_| cursor.end()).is_ok()
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
    pieces: [(Range<usize>, &'a [u8]); 8],
    count: usize,
}

impl<'a> Edits<'a> {
    fn replace(&mut self, span: Range<usize>, new: &'a [u8]) {
        if !new.is_empty() {
            self.pieces[self.count] = (span, new);
            self.count += 1;
        }
    }

    /// Inserts members, each with a comma behind it, at the front of an object.
    fn insert(&mut self, object: Object, members: [&'a [u8]; 2]) {
        for (at, new) in members.into_iter().enumerate() {
            let is_last = members[at + 1..].iter().all(|it| it.is_empty());
            let new = match new {
                [new @ .., b','] if object.is_empty && is_last => new,
                new => new,
            };
            self.replace(object.inside..object.inside, new);
        }
    }

    // rules V1, V2: what the handler set wins
    fn result(&mut self, result: &ResultObject, stamp: &'a Stamp, hint: Option<&'a HintMembers>) {
        let identity = stamp.identity();
        let own = match (result.result_type, result.meta) {
            (None, None) => identity.all(),
            (None, Some(_)) => Identity::RESULT_TYPE,
            (Some(_), None) => identity.meta(),
            (Some(_), Some(_)) => b"",
        };
        let hint = match (hint, result.ttl, result.scope) {
            (Some(hint), None, None) => hint.all(),
            (Some(hint), None, Some(_)) => hint.ttl(),
            (Some(hint), Some(_), None) => hint.scope(),
            _ => b"",
        };
        self.insert(result.at, [own, hint]);
        // A `_meta` that is no object stays.
        if let Some(meta) = result.meta_at.filter(|_| !result.has_server_info) {
            self.insert(meta, [identity.server_info(), b","]);
        }
        // rule V3
        if stamp.is_retry() {
            for (set, new) in [(result.ttl, "0"), (result.scope, r#""private""#)] {
                if let Some(set) = set {
                    self.replace(set.span(), new.as_bytes());
                }
            }
        }
    }

    fn apply(&mut self, text: &[u8], long: usize) -> Option<Edited> {
        let pieces = &mut self.pieces[..self.count];
        // Pieces of one place stay in their order.
        pieces.sort_by_key(|(span, _)| span.start);
        let (last, _) = pieces.last()?;
        let end = if text.len() - last.end < long {
            text.len()
        } else {
            last.end
        };
        let old = pieces.iter().map(|(span, _)| span.len()).sum::<usize>();
        let new = pieces.iter().map(|(_, new)| new.len()).sum::<usize>();
        // Of exactly this length: a buffer with room to spare would be allocated for again.
        let mut front = Vec::with_capacity(end - old + new);
        let mut from = 0;
        for (span, new) in pieces {
            front.extend_from_slice(&text[from..span.start]);
            front.extend_from_slice(new);
            from = span.end;
        }
        front.extend_from_slice(&text[from..end]);
        Some(Edited { front, end })
    }
}

/// What every answer gains, as JSON text that is made once.
#[derive(Clone)]
pub(super) struct Identity(Box<[u8]>);

impl Identity {
    const RESULT_TYPE: &[u8] = br#""resultType":"complete","#;
    const META: &[u8] = br#""_meta":{"#;
    const END: &[u8] = b"},";

    pub(super) fn new(server: &ServerInfo) -> Self {
        let server_info = format!("\"{}\":{}", meta::SERVER_INFO, server.to_json());
        let parts = [
            Self::RESULT_TYPE,
            Self::META,
            server_info.as_bytes(),
            Self::END,
        ];
        Self(parts.concat().into())
    }

    fn all(&self) -> &[u8] {
        &self.0
    }

    /// `_meta` as a whole.
    fn meta(&self) -> &[u8] {
        &self.0[Self::RESULT_TYPE.len()..]
    }

    /// The member of `_meta` that names the server, without a comma.
    fn server_info(&self) -> &[u8] {
        let meta = self.meta();
        &meta[Self::META.len()..meta.len() - Self::END.len()]
    }
}

/// The two members that a hint becomes, as JSON text.
pub(super) struct HintMembers {
    text: Cow<'static, str>,
    scope_at: usize,
}

impl HintMembers {
    fn all(&self) -> &[u8] {
        self.text.as_bytes()
    }

    fn ttl(&self) -> &[u8] {
        &self.all()[..self.scope_at]
    }

    fn scope(&self) -> &[u8] {
        &self.all()[self.scope_at..]
    }
}

impl CacheHint {
    fn to_members(self) -> HintMembers {
        // What is never configured is never written anew.
        if self == Self::default() {
            return HintMembers {
                text: Cow::Borrowed(r#""ttlMs":0,"cacheScope":"private","#),
                scope_at: r#""ttlMs":0,"#.len(),
            };
        }
        let scope = if self.public { "public" } else { "private" };
        let ttl = format!(r#""ttlMs":{},"#, self.ttl.as_millis());
        HintMembers {
            scope_at: ttl.len(),
            text: Cow::Owned(ttl + r#""cacheScope":""# + scope + r#"","#),
        }
    }
}
