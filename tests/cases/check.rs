//! What a case demands, against what came out.

use http::{HeaderMap, StatusCode, header};

use super::{
    case::{Case, ContentLength, Expect, OnClientDrop, Streaming},
    json::{at, events, is_rpc_id, member, members, reads_as},
    probe::Seen,
};

/// What came out of a stack.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Status and code of the `Rejection` in the extensions.
    pub(crate) rejection: Option<(StatusCode, i64)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
    /// The length that the body told before it was read.
    pub(crate) told_length: Option<u64>,
    /// How much of the body was read each time when the inner body was held.
    pub(crate) read_when_held: Vec<usize>,
    /// The body was left before its end.
    pub(crate) left: bool,
    /// The inner body was gone as soon as the response was dropped.
    pub(crate) inner_dropped: bool,
    /// How many requests were sent; this outcome is one of theirs.
    pub(crate) requests: usize,
    pub(crate) seen: Seen,
}

impl Outcome {
    fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.body).map_err(|_| "the body is not UTF-8".to_owned())
    }

    fn is_stream(&self) -> bool {
        self.has_content_type("text/event-stream")
    }

    fn has_content_type(&self, wanted: &str) -> bool {
        self.headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(wanted.as_bytes()))
    }

    /// The answer, or the last event with a result.
    fn message(&self) -> Result<String, String> {
        let text = self.text()?;
        if !self.is_stream() {
            members(text).map_err(|error| format!("the body is no object: {error}"))?;
            return Ok(text.to_owned());
        }
        let last = events(text)
            .into_iter()
            .rfind(|data| member(data, "result").is_some());
        last.ok_or_else(|| "no event has a result".to_owned())
    }

    fn result(&self) -> Result<String, String> {
        let message = self.message()?;
        let result = member(&message, "result").ok_or("the answer has no result")?;
        members(result).map_err(|error| format!("the result is no object: {error}"))?;
        Ok(result.to_owned())
    }
}

/// Collects what differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    /// Adds what a check found to be wrong.
    fn from(&mut self, checked: Result<(), String>) {
        self.0.extend(checked.err());
    }
}

/// Returns one line for each thing that is not as the case demands.
pub(crate) fn differences(case: &Case, outcome: &Outcome) -> Vec<String> {
    let mut found = Differences::default();
    answer(&case.expect, outcome, &mut found);
    headers(&case.expect, outcome, &mut found);
    result(&case.expect, outcome, &mut found);
    body(&case.expect, outcome, &mut found);
    error(case, outcome, &mut found);
    inner(case, outcome, &mut found);
    found.0
}

fn answer(expect: &Expect, outcome: &Outcome, found: &mut Differences) {
    found.unless(expect.status.admits(outcome.status.as_u16()), || {
        format!("status {}, not {:?}", outcome.status, expect.status)
    });
    let calls = if expect.reaches_inner {
        outcome.requests
    } else {
        0
    };
    found.unless(outcome.seen.calls == calls, || {
        format!(
            "{} calls of the inner service, not {calls}",
            outcome.seen.calls
        )
    });
}

fn headers(expect: &Expect, outcome: &Outcome, found: &mut Differences) {
    for (name, wanted) in &expect.response_headers {
        let values: Vec<_> = outcome
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        let holds = match wanted.as_deref() {
            None => values.is_empty(),
            Some(wanted) => match wanted.strip_prefix("contains:") {
                None => values == [wanted],
                Some(wanted) => {
                    let joined = values.join(",").to_ascii_lowercase();
                    let members: Vec<_> = joined.split(',').map(str::trim).collect();
                    wanted
                        .to_ascii_lowercase()
                        .split(',')
                        .all(|member| members.contains(&member))
                }
            },
        };
        found.unless(holds, || format!("{name} is {values:?}, not {wanted:?}"));
    }
    for (name, wanted) in &expect.trailers {
        let got = outcome.trailers.as_ref().and_then(|map| map.get(name));
        found.unless(got.is_some_and(|value| value == wanted), || {
            format!("trailer {name} is {got:?}, not {wanted}")
        });
    }
    // Held for every case; one of them asks for it by name.
    let (None | Some(ContentLength::RightOrAbsent)) = expect.content_length;
    let length = outcome.body.len().to_string();
    for value in outcome.headers.get_all(header::CONTENT_LENGTH) {
        found.unless(*value == length, || {
            format!("Content-Length is {value:?}, the body has {length} bytes")
        });
    }
    if let Some(told) = outcome.told_length {
        found.unless(told.to_string() == length, || {
            format!("the body told {told} bytes and had {length}")
        });
    }
}

fn result(expect: &Expect, outcome: &Outcome, found: &mut Differences) {
    if expect.result_has.is_empty()
        && expect.result_lacks.is_empty()
        && expect.result_unchanged_paths.is_empty()
    {
        return;
    }
    let result = match outcome.result() {
        Ok(result) => result,
        Err(error) => return found.unless(false, || error),
    };
    for wanted in &expect.result_has {
        let holds = if let Some((path, least)) = wanted.split_once(">=") {
            at(&result, path)
                .and_then(|text| text.parse::<f64>().ok())
                .is_some_and(|number| number >= least.parse().unwrap())
        } else if let Some((path, wanted)) = wanted.split_once('=') {
            at(&result, path).is_some_and(|text| reads_as(text, wanted))
        } else {
            at(&result, wanted).is_some()
        };
        found.unless(holds, || format!("the result does not have {wanted}"));
    }
    for path in &expect.result_lacks {
        let got = at(&result, path);
        found.unless(got.is_none(), || {
            format!("the result has {path}: {}", got.unwrap())
        });
    }
    for path in &expect.result_unchanged_paths {
        let inner = std::str::from_utf8(&outcome.seen.answer)
            .ok()
            .and_then(|text| at(text, &format!("result.{path}")));
        found.unless(inner.is_some() && inner == at(&result, path), || {
            format!("{path} of the result is not {inner:?} any more")
        });
    }
}

fn body(expect: &Expect, outcome: &Outcome, found: &mut Differences) {
    let seen = &outcome.seen;
    if expect.body_identical_to_inner {
        found.unless(outcome.body == seen.answer, || {
            "the body is not the inner one".to_owned()
        });
        for (name, value) in &seen.answer_headers {
            let kept = outcome.headers.get_all(name).iter().any(|v| v == value);
            found.unless(kept, || format!("{name}: {value:?} got lost"));
        }
    }
    if expect.body_complete {
        found.from(complete(outcome));
    }
    for wanted in &expect.contains_text {
        let holds = outcome.text().is_ok_and(|text| text.contains(wanted));
        found.unless(holds, || format!("the body does not contain {wanted}"));
    }
    if let Some(wanted) = expect.events {
        let got = outcome.text().map_or(0, |text| events(text).len());
        found.unless(outcome.is_stream() && got == wanted, || {
            format!("{got} events, not {wanted}")
        });
    }
    if let Some(Streaming::AtOnce) = expect.streaming {
        found.from(readable_at_once(outcome));
    }
    if let Some(OnClientDrop::InnerBodyDropped) = expect.on_client_drop {
        found.unless(outcome.left, || "the body came to its end".to_owned());
        found.unless(outcome.inner_dropped, || {
            "the inner body outlived the response".to_owned()
        });
    }
}

/// Either the inner answer as it was, or one that kept every member of its result.
fn complete(outcome: &Outcome) -> Result<(), String> {
    if outcome.body == outcome.seen.answer {
        return Ok(());
    }
    let given = String::from_utf8_lossy(&outcome.seen.answer);
    let given = member(&given, "result").ok_or("the inner answer has no result")?;
    let result = outcome.result()?;
    for (key, value) in members(given)? {
        if member(&result, &key) != Some(value) {
            return Err(format!("{key} of the result is not complete"));
        }
    }
    Ok(())
}

fn readable_at_once(outcome: &Outcome) -> Result<(), String> {
    let read = *outcome.read_when_held.first().ok_or("nothing was held")?;
    let read = std::str::from_utf8(&outcome.body[..read]).map_err(|error| error.to_string())?;
    // Cut off where the hold is, the text ends with a whole event.
    match events(read).first() {
        Some(first) if members(first).is_ok() => Ok(()),
        _ => Err(format!("only {read:?} is readable while the body is held")),
    }
}

fn error(case: &Case, outcome: &Outcome, found: &mut Differences) {
    let expect = &case.expect;
    let text = outcome.text().unwrap_or_default();
    let error = member(text, "error");
    if let Some(wanted) = expect.jsonrpc_error_code {
        let got = error.and_then(|error| member(error, "code"));
        found.unless(got == Some(&wanted.to_string()), || {
            format!("error code {got:?}, not {wanted}")
        });
    }
    if let Some(wanted) = &expect.error_id_raw {
        let got = member(text, "id");
        found.unless(error.is_some() && got == Some(wanted), || {
            format!("the error's id is {got:?}, not {wanted}")
        });
    }
    for (path, wanted) in &expect.error_data_has {
        let got = error.and_then(|error| at(error, &format!("data.{path}")));
        let holds = got.is_some_and(|got| match wanted.strip_prefix("contains:") {
            None => reads_as(got, wanted),
            Some(wanted) => serde_json::from_str::<Vec<String>>(got)
                .is_ok_and(|list| list.iter().any(|entry| entry == wanted)),
        });
        found.unless(holds, || {
            format!("{path} of the error's data is {got:?}, not {wanted}")
        });
    }
    if error.is_some() {
        found.unless(outcome.has_content_type("application/json"), || {
            "an error that is not application/json".to_owned()
        });
        found.unless(member(text, "id") != Some("null"), || {
            "an error with \"id\":null".to_owned()
        });
    }
    if !expect.reaches_inner && outcome.status.is_client_error() {
        found.from(refusal(case, outcome));
    }
}

/// Checks what every refusal has in common.
fn refusal(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let Some((status, code)) = outcome.rejection else {
        return Err("the refusal carries no Rejection".to_owned());
    };
    if status != outcome.status {
        return Err(format!(
            "{} carries the Rejection of {status}",
            outcome.status
        ));
    }
    let text = outcome.text()?;
    let error = member(text, "error").ok_or("the refusal is no error object")?;
    let got = member(error, "code");
    if got != Some(&code.to_string()) {
        return Err(format!("code {got:?} carries the Rejection of {code}"));
    }
    if member(error, "message").is_none() || member(text, "jsonrpc") != Some("\"2.0\"") {
        return Err(format!("the refusal is no JSON-RPC error: {text}"));
    }
    if text.contains('\n') {
        return Err("the refusal has more than one line".to_owned());
    }
    // The head alone tells no id. An unreadable body tells none either; one that was not read to
    // its end may.
    let request = case.request.bytes();
    let asked = std::str::from_utf8(&request)
        .ok()
        .filter(|_| outcome.status != StatusCode::FORBIDDEN)
        .and_then(|text| member(text, "id"))
        .filter(|id| is_rpc_id(id));
    let got = member(text, "id");
    let was_read = matches!(
        outcome.status,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND
    );
    if got != asked && (was_read || got.is_some()) {
        return Err(format!("the refusal has the id {got:?}, not {asked:?}"));
    }
    Ok(())
}

fn inner(case: &Case, outcome: &Outcome, found: &mut Differences) {
    let (expect, seen) = (&case.expect, &outcome.seen);
    if let Some((name, wanted)) = &expect.inner_sees_header {
        let got = seen.headers.get(name);
        found.unless(got.is_some_and(|value| value == wanted), || {
            format!("the inner service sees {name}: {got:?}, not {wanted}")
        });
    }
    // Held for every case; some ask for it by name.
    if expect.inner_sees_body_identical || seen.calls > 0 {
        found.unless(seen.body == case.request.bytes(), || {
            "the inner service sees another body".to_owned()
        });
        found.unless(seen.trailers == case.request.trailers(), || {
            format!("the inner service sees the trailers {:?}", seen.trailers)
        });
    }
}
