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
use http::{Extensions, HeaderName, HeaderValue, Method, Response, StatusCode, header, request};
use http_body::Body;
use pin_project_lite::pin_project;

use super::{
    AnswerBody, MethodError, answer,
    dispatch::{Config, Reply},
    work::{Step, Stream, Work},
};
use crate::{
    envelope::PlainResult,
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
        Answering { work: Option<Work> },
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
                read: ReadBody::new(body),
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
                } => match ready!(read.poll(cx, *limit)) {
                    Outcome::Complete(body, _) => {
                        match config.receive(body, std::mem::take(extensions)) {
                            Reply::Accepted => State::answered(accepted()),
                            Reply::Answer(text) => State::answered(json(StatusCode::OK, text)),
                            Reply::Plain(text, result) => State::answered(plain(text, result)),
                            Reply::Listen(subscription) => {
                                State::answered(events(AnswerBody::listen(subscription)))
                            }
                            Reply::Later(work) => State::Answering { work: Some(work) },
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
                StateProj::Answering { work } => {
                    let (text, sent) = match ready!(poll_work(work, cx)) {
                        Step::Stream => (None, true),
                        Step::Answer(text, sent) => (Some(text), sent),
                    };
                    State::answered(match (text, work.take()) {
                        (text, Some(work)) if sent => {
                            events(AnswerBody::stream(Stream::new(work, text)))
                        }
                        (Some(text), _) if !text.is_empty() => json(StatusCode::OK, text),
                        _ => accepted(),
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

#[allow(clippy::expect_used)] // only taken where the state ends
fn poll_work(work: &mut Option<Work>, cx: &mut Context<'_>) -> Poll<Step> {
    work.as_mut().expect("a handler at work").poll(cx)
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

fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// An answer that an envelope need not read to stamp it.
fn plain(text: Vec<u8>, result: usize) -> Response<AnswerBody> {
    let body = Bytes::from(text);
    let mut response = json(StatusCode::OK, body.clone());
    let plain = PlainResult::new(body, result);
    response.extensions_mut().insert(plain);
    response
}

/// A stream that nobody on the way may keep or hold back.
// rule R5
fn events(body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
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
