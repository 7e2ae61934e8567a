//! Watching an answer to `tools/list` as it passes.

use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, header, response};
use http_body::Frame;

use super::source::ToolSchemas;
use crate::{
    envelope::EventReader,
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
    Stream(EventReader),
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
            Form::Stream(EventReader::default())
        } else {
            return None;
        };
        Some(Box::new(Self { source, form }))
    }

    /// Sees a whole answer.
    pub(crate) fn see_all(&mut self, answer: &[u8]) {
        match &mut self.form {
            Form::Json(_) => self.source.observe(answer),
            Form::Stream(stream) => {
                stream.feed(answer, |data| self.source.observe(data));
                stream.end(|data| self.source.observe(data));
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
            Form::Stream(stream) => {
                let data = data.map_or(&[][..], |data| data);
                stream.feed(data, |data| self.source.observe(data));
                if stream.len() > DEFAULT_BODY_LIMIT {
                    return self.give_up();
                }
                if is_last {
                    stream.end(|data| self.source.observe(data));
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
