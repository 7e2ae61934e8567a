//! What a handler sends while it works, on its way into the stream of its answer.
//!
//! A notification waits here until the body of the answer takes it, and whoever sends it waits with
//! it. So a handler is never ahead of a slow client by more than one notification for each of its
//! tasks, and nothing has to be dropped.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::LogLevel;

/// Between the handler of one request and the body of its answer.
///
/// There is none where the client wants to hear nothing: most requests go without.
pub(super) struct Outlet {
    progress_token: Option<Bytes>,
    log_level: Option<LogLevel>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// How many messages were ever put in, and how many have left: the difference is in here.
    sent: u64,
    left: u64,
    /// How far the handler said that it is.
    progress: Option<f64>,
    /// Nobody listens any more, or the answer is given.
    closed: bool,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl Outlet {
    /// For a request with this raw progress token, that wants log messages from this level on.
    pub(super) fn new(progress_token: Option<Bytes>, log_level: Option<LogLevel>) -> Option<Self> {
        (progress_token.is_some() || log_level.is_some()).then(|| Self {
            progress_token,
            log_level,
            queue: Mutex::default(),
        })
    }

    /// The token to report progress with, if the client wants to hear of it.
    pub(super) fn progress_token(&self) -> Option<&[u8]> {
        self.progress_token.as_deref()
    }

    /// Whether the client wants log messages of this level.
    pub(super) fn wants_log(&self, level: LogLevel) -> bool {
        self.log_level.is_some_and(|lowest| level >= lowest)
    }

    /// Remembers how far the handler is, and tells whether that is further than before.
    pub(super) fn advance(&self, progress: f64) -> bool {
        let mut queue = self.lock();
        let further = queue.progress.is_none_or(|before| progress > before);
        if further {
            queue.progress = Some(progress);
        }
        further
    }

    /// Puts a message in and waits until it has left, or until nobody is left to take it.
    pub(super) async fn send(&self, message: Vec<u8>) {
        let ticket = {
            let mut queue = self.lock();
            if queue.closed {
                return;
            }
            queue.messages.push_back(message);
            queue.sent += 1;
            let (ticket, reader) = (queue.sent, queue.reader.take());
            drop(queue);
            if let Some(reader) = reader {
                reader.wake();
            }
            ticket
        };
        poll_fn(|cx| self.poll_left(ticket, cx)).await;
    }

    fn poll_left(&self, ticket: u64, cx: &Context<'_>) -> Poll<()> {
        let mut queue = self.lock();
        if queue.closed || queue.left >= ticket {
            return Poll::Ready(());
        }
        let waker = cx.waker();
        if !queue.writers.iter().any(|known| known.will_wake(waker)) {
            queue.writers.push(waker.clone());
        }
        Poll::Pending
    }

    /// Takes the next message out.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        let message = queue.messages.pop_front()?;
        queue.left += 1;
        let writers = mem::take(&mut queue.writers);
        drop(queue);
        writers.into_iter().for_each(Waker::wake);
        Some(message)
    }

    /// Whether there is a message to take. If not, whoever asked is woken when there is.
    pub(super) fn holds_message(&self, cx: &Context<'_>) -> bool {
        let mut queue = self.lock();
        if !queue.messages.is_empty() {
            return true;
        }
        let former = queue.reader.replace(cx.waker().clone());
        // It may own more than it seems to: it goes when the lock is free.
        drop(queue);
        drop(former);
        false
    }

    /// Takes nothing in from now on. What is in here can still be taken.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        let writers = mem::take(&mut queue.writers);
        drop(queue);
        writers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("log_level", &self.log_level)
            .finish_non_exhaustive()
    }
}
