//! The response future of a layer that only looks at the head: the inner answer, or a rejection.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::{body::ResponseBody, rejection::Rejection};

pin_project! {
    /// Resolves to the inner service's response, or to a rejection without calling it.
    pub struct AnswerFuture<F> {
        #[pin]
        kind: Kind<F>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<F> {
        Inner { #[pin] future: F },
        Rejected { rejection: Option<Box<Rejection>> },
    }
}

impl<F> AnswerFuture<F> {
    pub(crate) fn inner(future: F) -> Self {
        Self {
            kind: Kind::Inner { future },
        }
    }

    pub(crate) fn rejected(rejection: Box<Rejection>) -> Self {
        Self {
            kind: Kind::Rejected {
                rejection: Some(rejection),
            },
        }
    }
}

impl<F, B, E> Future for AnswerFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(match self.project().kind.project() {
            KindProj::Inner { future } => ready!(future.poll(cx))?.map(ResponseBody::passthrough),
            #[allow(clippy::expect_used)] // the contract of Future: not polled after Ready
            KindProj::Rejected { rejection } => rejection
                .take()
                .expect("AnswerFuture polled after completion")
                .into_response(),
        }))
    }
}

impl<F> fmt::Debug for AnswerFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerFuture").finish_non_exhaustive()
    }
}
