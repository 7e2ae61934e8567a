//! A handler at work, and the stream that its answer becomes.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;

use super::{answer, outlet::Outlet};

/// Resolves to the text of an answer.
pub(super) type Answering = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// The future of a handler, and what the handler sends meanwhile.
///
/// Dropping it drops the handler.
pub(super) struct Work {
    /// Never locked: it lets a body be shared, as some callers demand of all bodies.
    answer: Mutex<Answering>,
    outlet: Option<Arc<Outlet>>,
}

impl Work {
    pub(super) fn new(answer: Answering, outlet: Option<Arc<Outlet>>) -> Self {
        Self {
            answer: Mutex::new(answer),
            outlet,
        }
    }

    /// Works on, until there is an answer or something to send before it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let answer = self.answer.get_mut();
        let answer = answer.unwrap_or_else(PoisonError::into_inner);
        match answer.as_mut().poll(cx) {
            Poll::Ready(text) => {
                // rule R5: nothing is sent behind the answer
                self.close();
                let sent = self.holds_message(cx);
                Poll::Ready(Step::Answer(text, sent))
            }
            Poll::Pending if self.holds_message(cx) => Poll::Ready(Step::Stream),
            Poll::Pending => Poll::Pending,
        }
    }

    /// The answer alone. What the handler sends goes nowhere: there must be no outlet.
    pub(super) async fn into_answer(mut self) -> Vec<u8> {
        debug_assert!(self.outlet.is_none(), "nobody would take what is sent");
        poll_fn(|cx| match self.poll(cx) {
            Poll::Ready(Step::Answer(text, _)) => Poll::Ready(text),
            _ => Poll::Pending,
        })
        .await
    }

    fn holds_message(&self, cx: &Context<'_>) -> bool {
        let outlet = self.outlet.as_ref();
        outlet.is_some_and(|outlet| outlet.holds_message(cx))
    }

    fn take(&self) -> Option<Vec<u8>> {
        self.outlet.as_ref()?.take()
    }

    fn close(&self) {
        if let Some(outlet) = &self.outlet {
            outlet.close();
        }
    }
}

impl Drop for Work {
    // Tasks of the handler's own may still wait to send.
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("outlet", &self.outlet)
            .finish_non_exhaustive()
    }
}

/// What a [`Work`] has come to.
#[derive(Debug)]
pub(super) enum Step {
    /// There is something to send, with or without an answer.
    Stream,
    /// The answer, and whether there is something to send before it.
    Answer(Vec<u8>, bool),
}

/// Sends what a handler has to say, and its answer at the end.
///
/// It drives the handler, and works on only when a message has left.
#[derive(Debug)]
pub(super) struct Stream {
    work: Work,
    state: State,
}

#[derive(Debug)]
enum State {
    Working,
    Answered(Vec<u8>),
    Ended,
}

impl Stream {
    /// Goes on with `work`, which may have come to its answer.
    pub(super) fn new(work: Work, answer: Option<Vec<u8>>) -> Self {
        let state = answer.map_or(State::Working, State::Answered);
        Self { work, state }
    }

    /// The next event, as long as there is one.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(message) = self.work.take() {
                return Poll::Ready(Some(answer::event(&message)));
            }
            match &self.state {
                State::Working => match ready!(self.work.poll(cx)) {
                    Step::Stream => {}
                    Step::Answer(text, _) => self.state = State::Answered(text),
                },
                State::Answered(text) => {
                    let event = answer::event(text);
                    self.state = State::Ended;
                    return Poll::Ready(Some(event));
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}
