//! The body of an answer.

use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{listen::Subscription, work::Stream};

/// The response body of a [`ReferenceService`](super::ReferenceService).
///
/// It is one JSON text, or a stream of events that drives the handler: dropping the body drops the
/// handler, or ends the subscription.
#[derive(Debug, Default)]
pub struct AnswerBody(Kind);

#[derive(Debug)]
enum Kind {
    Listen(Box<Subscription>),
    Stream(Box<Stream>),
    Whole(Bytes),
}

impl AnswerBody {
    pub(super) fn new(data: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(data.into()))
    }

    pub(super) fn listen(subscription: Subscription) -> Self {
        Self(Kind::Listen(Box::new(subscription)))
    }

    pub(super) fn stream(stream: Stream) -> Self {
        Self(Kind::Stream(Box::new(stream)))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Kind::Listen(subscription) => ready!(subscription.poll_next(cx)),
            Kind::Stream(stream) => ready!(stream.poll_next(cx)),
            Kind::Whole(data) => Some(mem::take(data)).filter(|data| !data.is_empty()),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Listen(subscription) => subscription.has_ended(),
            Kind::Stream(stream) => stream.has_ended(),
            Kind::Whole(data) => data.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Listen(_) | Kind::Stream(_) => SizeHint::default(),
            Kind::Whole(data) => SizeHint::with_exact(data.len() as u64),
        }
    }
}

impl Default for Kind {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}
