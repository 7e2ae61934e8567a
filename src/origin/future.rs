//! The response future of the origin guard: the inner answer, or one of its own.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::Grant;
use crate::{body::ResponseBody, rejection::Rejection};

pin_project! {
    /// Resolves to the inner service's response, or to the guard's own without calling it.
    pub struct ResponseFuture<F> {
        #[pin]
        kind: Kind<F>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<F> {
        Inner { #[pin] future: F, grant: Grant },
        Preflight { response: Option<Box<Response<()>>> },
        Rejected { rejection: Option<Box<Rejection>> },
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) fn inner(future: F, grant: Grant) -> Self {
        Self {
            kind: Kind::Inner { future, grant },
        }
    }

    pub(crate) fn preflight(response: Box<Response<()>>) -> Self {
        Self {
            kind: Kind::Preflight {
                response: Some(response),
            },
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

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    #[allow(clippy::expect_used)] // the contract of Future: not polled after Ready
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const POLLED_AGAIN: &str = "ResponseFuture polled after completion";

        Poll::Ready(Ok(match self.project().kind.project() {
            KindProj::Inner { future, grant } => {
                let mut response = ready!(future.poll(cx))?.map(ResponseBody::passthrough);
                mem::take(grant).apply(response.headers_mut());
                response
            }
            KindProj::Preflight { response } => response
                .take()
                .expect(POLLED_AGAIN)
                .map(|()| ResponseBody::replay(Bytes::new(), None)),
            KindProj::Rejected { rejection } => {
                rejection.take().expect(POLLED_AGAIN).into_response()
            }
        }))
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
