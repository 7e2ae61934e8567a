//! Read the body, answer, or wait for the handler that does.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Extensions, HeaderValue, Method, Response, StatusCode, header, request};
use http_body::Body;
use pin_project_lite::pin_project;

use super::{
    AnswerBody, MethodError, answer,
    call::Answering,
    dispatch::{Config, Reply},
};
use crate::{
    gate::{DEFAULT_BODY_LIMIT, Outcome, ReadBody},
    message::Message,
};

pin_project! {
    /// Response future of a [`ReferenceService`](super::ReferenceService).
    ///
    /// Dropping it drops the handler's future: nothing is spawned.
    pub struct ResponseFuture<B> {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<B> {
        Reading {
            #[pin]
            read: ReadBody<B>,
            config: Arc<Config>,
            extensions: Extensions,
            limit: usize,
        },
        Answering { answer: Answering },
        Answered { response: Option<Response<AnswerBody>> },
    }
}

impl<B: Body<Data = Bytes>> ResponseFuture<B> {
    pub(super) fn new(config: Arc<Config>, head: request::Parts, body: B) -> Self {
        let state = if head.method == Method::POST {
            // A layer that reads longer bodies has decided about this one.
            let known = Message::get(&head.extensions).map_or(0, |message| message.body().len());
            let limit = DEFAULT_BODY_LIMIT.max(known);
            State::Reading {
                read: ReadBody::new(body, limit),
                config,
                extensions: head.extensions,
                limit,
            }
        } else {
            State::answered(wrong_method(&head.method))
        };
        Self { state }
    }
}

impl<B: Body<Data = Bytes>> Future for ResponseFuture<B> {
    type Output = Result<Response<AnswerBody>, Infallible>;

    #[allow(clippy::expect_used)] // the contract of Future: not polled after Ready
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProj::Reading {
                    read,
                    config,
                    extensions,
                    limit,
                } => match ready!(read.poll(cx)) {
                    Outcome::Complete(body, _) => {
                        match config.receive(body, std::mem::take(extensions)) {
                            Reply::Accepted => State::answered(accepted()),
                            Reply::Answer(text) => State::answered(json(StatusCode::OK, text)),
                            Reply::Later(answer) => State::Answering { answer },
                            Reply::Refused(text) => {
                                State::answered(json(StatusCode::BAD_REQUEST, text))
                            }
                        }
                    }
                    Outcome::Failed(..) => State::answered(refused(
                        StatusCode::BAD_REQUEST,
                        "the body can't be read to its end",
                    )),
                    Outcome::TooLong(_) => State::answered(refused(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        format_args!("the body is longer than {limit} bytes"),
                    )),
                },
                StateProj::Answering { answer } => {
                    let text = ready!(answer.as_mut().poll(cx));
                    State::answered(if text.is_empty() {
                        accepted()
                    } else {
                        json(StatusCode::OK, text)
                    })
                }
                StateProj::Answered { response } => {
                    return Poll::Ready(Ok(response.take().expect("polled after completion")));
                }
            };
            state.set(next);
        }
    }
}

impl<B> State<B> {
    fn answered(response: Response<AnswerBody>) -> Self {
        Self::Answered {
            response: Some(response),
        }
    }
}

impl<B> fmt::Debug for ResponseFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

fn json(status: StatusCode, text: Vec<u8>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn accepted() -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::default());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn refused(status: StatusCode, fault: impl fmt::Display) -> Response<AnswerBody> {
    let error = MethodError::invalid_request(fault);
    json(status, answer::failure(None, &error))
}

fn wrong_method(method: &Method) -> Response<AnswerBody> {
    let mut response = refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "this endpoint takes messages by POST",
    );
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static("POST"));
    if method == Method::HEAD {
        *response.body_mut() = AnswerBody::default();
    }
    response
}
