//! Reading a body to its end, up to a limit.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use pin_project_lite::pin_project;

use crate::body::Trailers;

pin_project! {
    /// Collects the frames of a body.
    pub(crate) struct ReadBody<B> {
        #[pin]
        body: B,
        read: Read,
        trailers: Trailers,
    }
}

/// The data that was read.
pub(crate) enum Read {
    /// A body that is one buffer stays that buffer: nothing is copied, and the next layer knows
    /// it again.
    One(Bytes),
    Many(BytesMut),
}

/// How reading ended.
pub(crate) enum Outcome<E> {
    /// All of the body is here.
    Complete(Bytes, Trailers),
    /// The body failed behind these bytes.
    Failed(Bytes, E),
    /// These bytes are more than the limit, or more are announced.
    TooLong(Bytes),
}

impl<B: Body<Data = Bytes>> ReadBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self {
            body,
            read: Read::default(),
            trailers: None,
        }
    }

    /// Reads up to `limit` bytes.
    pub(crate) fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Outcome<B::Error>> {
        let mut this = self.project();
        loop {
            let announced = this.body.size_hint().lower();
            let room = limit.saturating_sub(this.read.len());
            if announced > room as u64 {
                return Poll::Ready(Outcome::TooLong(this.read.take()));
            }
            let frame = match ready!(this.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Outcome::Failed(this.read.take(), error)),
                None => break,
            };
            match frame.into_data() {
                Ok(data) => {
                    let fits = data.len() <= room;
                    this.read.push(data);
                    if !fits {
                        return Poll::Ready(Outcome::TooLong(this.read.take()));
                    }
                }
                Err(frame) => *this.trailers = frame.into_trailers().ok().map(Box::new),
            }
        }
        Poll::Ready(Outcome::Complete(this.read.take(), this.trailers.take()))
    }
}

impl<B> ReadBody<Pin<Box<B>>> {
    /// Gives the body back, to be read on by somebody else.
    pub(crate) fn into_body(self) -> Pin<Box<B>> {
        self.body
    }
}

impl Default for Read {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl Read {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(data) => data.len(),
            Self::Many(data) => data.len(),
        }
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        match self {
            Self::One(first) if first.is_empty() => *first = data,
            Self::One(first) => {
                let mut all = BytesMut::with_capacity(2 * first.len() + data.len());
                all.extend_from_slice(first);
                all.extend_from_slice(&data);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.extend_from_slice(&data),
        }
    }

    pub(crate) fn take(&mut self) -> Bytes {
        match self {
            Self::One(data) => std::mem::take(data),
            Self::Many(data) => data.split().freeze(),
        }
    }
}
