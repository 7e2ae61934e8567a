//! Keeping the panic of a handler to its own request.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

pin_project! {
    /// Resolves to what the future resolves to, or to [`Panicked`] as soon as polling it panics.
    pub(super) struct CatchUnwind<F> {
        #[pin]
        future: F,
    }
}

/// The future panicked. What it panicked with went to the panic hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Panicked;

impl<F> CatchUnwind<F> {
    pub(super) fn new(future: F) -> Self {
        Self { future }
    }
}

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        // Whatever state the panic left behind is only dropped: nobody polls the future again.
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}
