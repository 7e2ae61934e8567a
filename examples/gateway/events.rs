//! Reading a stream of server-sent events, and the messages in it.

use std::{mem, ops::Range, time::Duration};

use axum::body::Bytes;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::upstream::{Fault, LIMIT};

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    event: Event,
    after_cr: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) data: Vec<u8>,
    pub(crate) id: Option<Vec<u8>>,
    /// How long to wait before the stream is taken up again.
    pub(crate) retry: Option<Duration>,
}

impl Events {
    /// Reads on, and returns the events that have ended.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Fault> {
        let mut ended = Vec::new();
        for &byte in bytes {
            let after_cr = mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\r' | b'\n' => ended.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        if self.line.len() + self.event.data.len() > LIMIT {
            let text = format!("The upstream server sends an event of more than {LIMIT} bytes");
            return Err(Fault::Odd(text));
        }
        Ok(ended)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            let mut event = mem::take(&mut self.event);
            event.data.pop(); // the line end after the last line
            return Some(event);
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.event.data.extend_from_slice(value);
                self.event.data.push(b'\n');
            }
            b"id" => self.event.id = Some(value.to_vec()),
            b"retry" => {
                let text = str(value).and_then(|text| text.parse().ok());
                self.event.retry = text.map(Duration::from_millis);
            }
            _ => {}
        }
        None
    }
}

/// What an upstream server tells in one message.
#[derive(Debug)]
pub(crate) enum Told {
    /// A result or an error, and where its id stands.
    Answer {
        id: Option<Range<usize>>,
    },
    Notification,
    Request {
        id: Value,
        method: String,
    },
    Nothing,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Tells a `null` from an absent member.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl Told {
    pub(crate) fn read(text: &[u8]) -> Self {
        let object = text.trim_ascii_start().starts_with(b"{");
        let members = str(text).filter(|_| object);
        let members = members.and_then(|text| serde_json::from_str::<Members<'_>>(text).ok());
        match members {
            Some(Members {
                method: Some(method),
                id,
                ..
            }) => match id {
                Some(id) => Self::Request {
                    id: serde_json::from_str(id.get()).unwrap_or_default(),
                    method,
                },
                None => Self::Notification,
            },
            Some(members) if members.result.is_some() || members.error.is_some() => {
                let id = members.id.map(|id| {
                    let start = id.get().as_ptr().addr() - text.as_ptr().addr();
                    start..start + id.get().len()
                });
                Self::Answer { id }
            }
            _ => Self::Nothing,
        }
    }
}

/// The same answer under another id; `None` if it is no answer.
pub(crate) fn answer_as(text: &[u8], id: &[u8]) -> Option<Bytes> {
    let text = text.trim_ascii_start();
    let Told::Answer { id: span } = Told::read(text) else {
        return None;
    };
    Some(match span {
        Some(span) => replace(text, span, id),
        None => replace(text, 1..1, &[br#""id":"#, id, b","].concat()),
    })
}

/// The same text with other bytes in one place.
pub(crate) fn replace(text: &[u8], span: Range<usize>, new: &[u8]) -> Bytes {
    [&text[..span.start], new, &text[span.end..]]
        .concat()
        .into()
}

fn str(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
