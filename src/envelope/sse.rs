//! Stamping the answers in a stream of server-sent events.
//!
//! An event whose data is an answer is stamped like a JSON answer; every other byte passes as it
//! came, as soon as it came: comments, ids, retry times, empty events, notifications. An event is
//! held back from its first data line until its end is seen, and never more than one; one that
//! outgrows the limit passes unstamped. Lines end in CR, LF or CRLF, and chunks may cut anywhere.
//!
//! Two kinds of messages do not belong into a modern stream and become comments: requests of the
//! server, which the revision forbids, and log messages that nobody asked for.
//!
//! Format: [Server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).

use std::{
    borrow::Cow,
    collections::VecDeque,
    mem,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame};
use pin_project_lite::pin_project;

use super::{
    Stamp,
    json::{self, Event},
};
use crate::gate::DEFAULT_BODY_LIMIT;
use crate::word;

pin_project! {
    /// A stream of events whose answers are stamped.
    pub(crate) struct Events<B: Body> {
        #[pin]
        body: B,
        // Boxed, so that the bodies of other answers stay small.
        rewriter: Box<Rewriter>,
        last: Option<Last<B::Error>>,
    }
}

/// What follows the data of a stream.
enum Last<E> {
    End,
    Error(E),
    Frame(Box<Frame<Bytes>>),
}

impl<B: Body> Events<B> {
    pub(crate) fn new(body: B, stamp: Stamp) -> Self {
        Self {
            body,
            rewriter: Box::new(Rewriter::new(stamp)),
            last: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Events<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        loop {
            if let Some(data) = this.rewriter.next() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            match this.last.take() {
                Some(Last::Frame(frame)) => return Poll::Ready(Some(Ok(*frame))),
                Some(Last::Error(error)) => return Poll::Ready(Some(Err(error))),
                Some(Last::End) => {
                    *this.last = Some(Last::End);
                    return Poll::Ready(None);
                }
                None => {}
            }
            match ready!(this.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rewriter.feed(&data),
                    Err(frame) => {
                        this.rewriter.finish();
                        *this.last = Some(Last::Frame(Box::new(frame)));
                    }
                },
                Some(Err(error)) => {
                    this.rewriter.give_up();
                    *this.last = Some(Last::Error(error));
                }
                None => {
                    this.rewriter.finish();
                    *this.last = Some(Last::End);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.last, Some(Last::End)) && self.rewriter.ready.is_empty()
    }
}

/// Cuts a stream into events and replaces those that have to change.
struct Rewriter {
    stamp: Stamp,
    scanner: Scanner,
    /// What cannot leave yet: the end of the stream so far.
    held: BytesMut,
    /// What can leave.
    ready: VecDeque<Bytes>,
}

/// New bytes for a stretch of the text.
struct Edit {
    span: Range<usize>,
    new: Bytes,
}

impl Rewriter {
    fn new(stamp: Stamp) -> Self {
        Self {
            stamp,
            scanner: Scanner::default(),
            held: BytesMut::new(),
            ready: VecDeque::new(),
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    fn feed(&mut self, chunk: &Bytes) {
        if self.held.is_empty() {
            // Most chunks hold whole events: their bytes pass without being copied.
            let (done, edits) = self.scan(chunk);
            self.held.extend_from_slice(&chunk[done..]);
            self.release(&chunk.slice(..done), edits);
        } else {
            self.held.extend_from_slice(chunk);
            let mut held = mem::take(&mut self.held);
            let (done, edits) = self.scan(&held);
            let text = held.split_to(done).freeze();
            self.held = held;
            self.release(&text, edits);
        }
    }

    /// The stream has ended, perhaps without the blank line that ends its last event.
    fn finish(&mut self) {
        let text = mem::take(&mut self.held).freeze();
        self.scanner.end(&text);
        let edits = self.edit(&text, text.len()).into_iter().collect();
        self.scanner = Scanner::default();
        self.release(&text, edits);
    }

    /// The stream has failed: what is held leaves as it is.
    fn give_up(&mut self) {
        let text = mem::take(&mut self.held).freeze();
        self.scanner = Scanner::default();
        self.release(&text, Vec::new());
    }

    /// Reads on in `text` and tells up to where it can leave, and what has to change in there.
    fn scan(&mut self, text: &[u8]) -> (usize, Vec<Edit>) {
        let (mut done, mut edits) = (0, Vec::new());
        while let Some(end) = self.scanner.next_event(text) {
            if self.scanner.passes {
                // Its beginning has left.
            } else if end - self.scanner.passable() > self.stamp.limit() {
                self.stamp.report_too_long();
            } else {
                edits.extend(self.edit(text, end));
            }
            self.scanner.start_event(end);
            done = end;
        }
        // Lines in front of the first data line belong to no answer yet.
        done = done.max(self.scanner.passable());
        if text.len() - done > self.stamp.limit() && !self.scanner.passes {
            self.stamp.report_too_long();
            self.scanner.passes = true;
        }
        if self.scanner.passes {
            done = text.len();
        }
        self.scanner.forget(done);
        (done, edits)
    }

    /// The change that the event that ends at `end` needs.
    fn edit(&mut self, text: &[u8], end: usize) -> Option<Edit> {
        let lines = &self.scanner.lines;
        let start = lines.first()?.start;
        let event = &text[start..end];
        let data = &*self.scanner.data(text);
        let mut new = Vec::new();
        let mut from = start;
        match json::stamp_event(data, &self.stamp) {
            Event::Pass => return None,
            // A value that spans lines would take their ends along when it is replaced.
            Event::Replace(changed) if lines.len() > 1 && count_lines(&changed) != lines.len() => {
                return None;
            }
            Event::Replace(changed) => {
                new.reserve(event.len() - data.len() + changed.len());
                let values = changed.splitn(lines.len(), |&byte| byte == b'\n');
                for (line, value) in lines.iter().zip(values) {
                    new.extend_from_slice(&text[from..line.value.start]);
                    new.extend_from_slice(value);
                    from = line.value.end;
                }
            }
            // A comment keeps the line, and so the line ends around it, apart.
            Event::Drop => {
                for line in lines {
                    new.extend_from_slice(&text[from..line.start]);
                    new.push(b':');
                    from = line.value.end;
                }
            }
        }
        new.extend_from_slice(&text[from..end]);
        Some(Edit {
            span: start..end,
            new: new.into(),
        })
    }

    fn release(&mut self, text: &Bytes, edits: Vec<Edit>) {
        let mut from = 0;
        for Edit { span, new } in edits {
            self.push(text.slice(from..span.start));
            self.push(new);
            from = span.end;
        }
        self.push(text.slice(from..));
    }

    fn push(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.ready.push_back(data);
        }
    }
}

/// Reads the data of events in passing, and keeps no more than one event.
#[derive(Default)]
pub(crate) struct EventReader {
    scanner: Scanner,
    held: BytesMut,
}

impl EventReader {
    /// How many bytes are kept.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Reads on, and hands the data of each event that has ended to `event`.
    pub(crate) fn feed(&mut self, data: &[u8], mut event: impl FnMut(&[u8])) {
        self.held.extend_from_slice(data);
        let mut done = 0;
        while let Some(end) = self.scanner.next_event(&self.held) {
            let data = self.scanner.data(&self.held);
            if data.len() <= DEFAULT_BODY_LIMIT {
                event(&data);
            }
            self.scanner.start_event(end);
            done = end;
        }
        self.held.advance(done);
        self.scanner.forget(done);
    }

    /// Hands over an event that no blank line ends.
    pub(crate) fn end(&mut self, mut event: impl FnMut(&[u8])) {
        self.scanner.end(&self.held);
        event(&self.scanner.data(&self.held));
    }
}

fn count_lines(text: &[u8]) -> usize {
    text.split(|&byte| byte == b'\n').count()
}

/// Finds lines and events; all places are counted from the first byte that has not left.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
struct Scanner {
    /// Where the current line starts.
    line: usize,
    /// Up to where the current line was looked at.
    at: usize,
    /// The data lines of the current event.
    lines: Vec<DataLine>,
    /// A CR ended the last line: a LF that follows belongs to it.
    after_cr: bool,
    /// Whether a byte of the stream was seen: a byte-order mark may stand before it.
    begun: bool,
    /// The current event is too long and passes as it is.
    passes: bool,
    /// The current line has begun in bytes that have left.
    begun_before: bool,
}

struct DataLine {
    start: usize,
    value: Range<usize>,
}

impl Scanner {
    /// Looks for the end of the current event.
    fn next_event(&mut self, text: &[u8]) -> Option<usize> {
        loop {
            if self.after_cr && self.at < text.len() {
                self.after_cr = false;
                if text[self.at] == b'\n' {
                    self.at += 1;
                    self.line = self.at;
                }
            }
            let rest = &text[self.at.min(text.len())..];
            let Some(length) = word::line_end(rest) else {
                self.at = text.len();
                return None;
            };
            let end = self.at + length;
            let next = match &text[end..] {
                [b'\r', b'\n', ..] => end + 2,
                _ => end + 1,
            };
            self.after_cr = text[end] == b'\r' && next == end + 1;
            let begun = mem::take(&mut self.begun_before);
            let blank = end == self.line && !begun;
            self.end_line(text, end, next);
            if blank {
                return Some(next);
            }
        }
    }

    /// Takes what is left for the last line.
    fn end(&mut self, text: &[u8]) {
        if self.line < text.len() {
            self.end_line(text, text.len(), text.len());
        }
    }

    fn end_line(&mut self, text: &[u8], end: usize, next: usize) {
        let mut start = self.line;
        if !mem::replace(&mut self.begun, true) && text[start..end].starts_with(b"\xef\xbb\xbf") {
            start += 3;
        }
        let line = &text[start..end];
        if let Some(value) = line.strip_prefix(b"data") {
            let colon = match value {
                [] => Some(4),
                [b':', b' ', ..] => Some(6),
                [b':', ..] => Some(5),
                _ => None,
            };
            if let Some(colon) = colon {
                self.lines.push(DataLine {
                    start,
                    value: start + colon..end,
                });
            }
        }
        self.line = next;
        self.at = next;
    }

    /// The data of the current event, as far as its lines have ended.
    fn data<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match self.lines.as_slice() {
            [line] => text[line.value.clone()].into(),
            lines => {
                let values = lines.iter().map(|line| &text[line.value.clone()]);
                values.collect::<Vec<_>>().join(&b'\n').into()
            }
        }
    }

    /// Leaves the current event behind, and counts on from its end.
    fn start_event(&mut self, at: usize) {
        self.lines.clear();
        self.passes = false;
        self.line = at;
        self.at = at;
    }

    /// Up to where the text holds no data of the current event.
    fn passable(&self) -> usize {
        self.lines.first().map_or(self.line, |first| first.start)
    }

    /// Counts from `done` on.
    fn forget(&mut self, done: usize) {
        // Else each chunk of an event of many lines would cost all of them.
        if done == 0 {
            return;
        }
        self.at -= done;
        if self.passes {
            self.begun_before |= self.line < done;
            self.lines.clear();
        }
        self.line = self.line.saturating_sub(done);
        for line in &mut self.lines {
            line.start -= done;
            line.value = line.value.start - done..line.value.end - done;
        }
    }
}
