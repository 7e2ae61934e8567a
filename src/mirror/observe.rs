//! Watching an answer to `tools/list` as it passes.

use std::{mem, sync::Arc};

use bytes::Bytes;
use http::{StatusCode, header, response};
use http_body::Frame;

use super::source::ToolSchemas;
use crate::{
    gate::{DEFAULT_BODY_LIMIT, Read},
    head,
};

/// Collects what passes and shows it to a source of schemas.
///
/// Nothing is changed and nothing waits: a frame goes on as it came.
pub(crate) struct Observer {
    source: Arc<dyn ToolSchemas>,
    form: Form,
}

enum Form {
    Json(Read),
    Events(Events),
}

impl Observer {
    /// Watches an answer with this head; `None` if it holds nothing that can be read.
    pub(crate) fn of(source: Arc<dyn ToolSchemas>, head: &response::Parts) -> Option<Box<Self>> {
        let empty = matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        if empty || head.headers.contains_key(header::CONTENT_ENCODING) {
            return None;
        }
        let kind = head::media_type(head.headers.get(header::CONTENT_TYPE)?.as_bytes());
        let form = if kind.eq_ignore_ascii_case(b"application/json") {
            Form::Json(Read::default())
        } else if kind.eq_ignore_ascii_case(b"text/event-stream") {
            Form::Events(Events::default())
        } else {
            return None;
        };
        Some(Box::new(Self { source, form }))
    }

    /// Sees a whole answer.
    pub(crate) fn see_all(&mut self, answer: &[u8]) {
        match &mut self.form {
            Form::Json(_) => self.source.observe(answer),
            Form::Events(events) => {
                events.feed(answer, &*self.source);
                events.end(&*self.source);
            }
        }
    }

    /// Sees the next frame, or none at the end, and whether it is the last one; `false` if there
    /// is nothing more to see.
    pub(crate) fn see<E>(
        &mut self,
        frame: Option<&Result<Frame<Bytes>, E>>,
        is_last: bool,
    ) -> bool {
        let data = match frame {
            None => None,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => frame.data_ref(),
        };
        // Trailers come behind all data.
        let is_last = is_last || data.is_none();
        match &mut self.form {
            Form::Json(read) => {
                read.push(data.cloned().unwrap_or_default());
                if read.len() > DEFAULT_BODY_LIMIT {
                    return self.give_up();
                }
                if is_last {
                    self.source.observe(&read.take());
                }
            }
            Form::Events(events) => {
                events.feed(data.map_or(&[], |data| data), &*self.source);
                if events.len() > DEFAULT_BODY_LIMIT {
                    return self.give_up();
                }
                if is_last {
                    events.end(&*self.source);
                }
            }
        }
        !is_last
    }

    #[allow(clippy::unused_self)] // what the caller returns
    fn give_up(&self) -> bool {
        #[cfg(feature = "tracing")]
        tracing::warn!(
            limit = DEFAULT_BODY_LIMIT,
            "an answer to tools/list is longer than the limit and teaches nothing"
        );
        false
    }
}

/// The event of a stream that has begun.
///
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    /// Whether the last byte was a CR, which an LF may complete.
    after_cr: bool,
}

impl Events {
    fn len(&self) -> usize {
        self.line.len() + self.data.len()
    }

    fn feed(&mut self, mut bytes: &[u8], source: &dyn ToolSchemas) {
        let Some(last) = bytes.last() else {
            return;
        };
        if mem::replace(&mut self.after_cr, *last == b'\r') {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            self.line.extend_from_slice(&bytes[..end]);
            self.end_line(source);
            bytes = match &bytes[end..] {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.line.extend_from_slice(bytes);
    }

    fn end_line(&mut self, source: &dyn ToolSchemas) {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            if !self.data.is_empty() {
                source.observe(&mem::take(&mut self.data));
            }
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data
                .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
    }

    /// Shows an event that no blank line ends.
    fn end(&mut self, source: &dyn ToolSchemas) {
        self.end_line(source);
        self.end_line(source);
    }
}
