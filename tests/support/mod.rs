//! Requests, bodies and services that the tests share.
#![allow(dead_code, unreachable_pub)] // not every test uses all of it

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::Service;

/// A complete modern envelope.
pub const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The text of a modern request with these further members of `params`.
pub fn modern_body(method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{comma}{META}}}}}"#)
}

/// A modern `POST` of any body, with the headers of `method`.
pub fn modern(method: &str, body: impl Into<Bytes>) -> Request<Chunks> {
    let mut request = post(body);
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    headers.insert("mcp-method", method.parse().unwrap());
    request
}

/// A modern `tools/call` of `get_weather`.
pub fn tools_call() -> Request<Chunks> {
    let body = modern_body("tools/call", r#""name":"get_weather","arguments":{}"#);
    let mut request = modern("tools/call", body);
    let headers = request.headers_mut();
    headers.insert("mcp-name", "get_weather".parse().unwrap());
    request
}

/// A `POST` as clients of both eras send it.
pub fn post(body: impl Into<Bytes>) -> Request<Chunks> {
    Request::post("/mcp")
        .header("host", "127.0.0.1:8000")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Chunks::one(body))
        .unwrap()
}

/// A body of these frames, in this order.
#[derive(Debug, Default)]
pub struct Chunks {
    frames: std::collections::VecDeque<Step>,
    /// Whether the length is told in advance.
    sized: bool,
    dropped: Option<Arc<AtomicUsize>>,
}

/// What a [`Chunks`] does when it is polled.
#[derive(Debug)]
pub enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    /// Says nothing, for ever.
    Pending,
    Fail,
}

/// How a [`Chunks`] fails.
#[derive(Debug)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {}

impl Chunks {
    /// One piece, of a length that is told in advance.
    pub fn one(data: impl Into<Bytes>) -> Self {
        let data = data.into();
        let frames = (!data.is_empty()).then_some(Step::Data(data));
        Self {
            frames: frames.into_iter().collect(),
            sized: true,
            dropped: None,
        }
    }

    /// Several pieces, of a length that is not told.
    pub fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            frames: steps.into_iter().collect(),
            sized: false,
            dropped: None,
        }
    }

    /// The text in pieces of `size` bytes.
    pub fn cut(text: &str, size: usize) -> Self {
        let pieces = text.as_bytes().chunks(size);
        Self::of(pieces.map(|piece| Step::Data(Bytes::copy_from_slice(piece))))
    }

    /// Counts when the body is dropped.
    pub fn counting(mut self, dropped: &Arc<AtomicUsize>) -> Self {
        self.dropped = Some(Arc::clone(dropped));
        self
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl From<Bytes> for Chunks {
    fn from(data: Bytes) -> Self {
        Self::one(data)
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.frames.front() {
            Some(Step::Pending) => Poll::Pending,
            _ => Poll::Ready(self.frames.pop_front().map(|step| match step {
                Step::Data(data) => Ok(Frame::data(data)),
                Step::Trailers(trailers) => Ok(Frame::trailers(trailers)),
                _ => Err(Broken),
            })),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if !self.sized {
            return SizeHint::default();
        }
        let length = self.frames.iter().map(|step| match step {
            Step::Data(data) => data.len() as u64,
            _ => 0,
        });
        SizeHint::with_exact(length.sum())
    }
}

/// What an inner service saw.
#[derive(Debug)]
pub struct Seen {
    pub head: http::request::Parts,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

/// An inner service that records what reaches it and answers each request alike.
///
/// It panics when it is called on an instance that was not polled ready: cloning resets
/// readiness, as it does for a `ConcurrencyLimit` or a `Buffer`.
pub struct Inner<F> {
    answer: F,
    seen: Arc<Mutex<Vec<Seen>>>,
    ready: bool,
}

impl<F> Inner<F> {
    pub fn seen(&self) -> Arc<Mutex<Vec<Seen>>> {
        Arc::clone(&self.seen)
    }
}

/// Answers every request with what `answer` makes.
pub fn inner<F>(answer: F) -> Inner<F> {
    Inner {
        answer,
        seen: Arc::default(),
        ready: false,
    }
}

/// Answers every request with this JSON text.
pub fn json(text: &'static str) -> Inner<impl Fn() -> Response<Chunks> + Clone> {
    inner(move || {
        Response::builder()
            .header("content-type", "application/json")
            .body(Chunks::one(text))
            .unwrap()
    })
}

/// Answers every request with an empty result.
pub fn plain() -> Inner<impl Fn() -> Response<Chunks> + Clone> {
    json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
}

impl<F: Clone> Clone for Inner<F> {
    fn clone(&self) -> Self {
        Self {
            answer: self.answer.clone(),
            seen: self.seen(),
            ready: false,
        }
    }
}

impl<F> std::fmt::Debug for Inner<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl<F, B> Service<Request<B>> for Inner<F>
where
    F: Fn() -> Response<Chunks> + Clone + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Chunks>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.ready),
            "called without having been polled ready"
        );
        let (answer, seen) = (self.answer.clone(), self.seen());
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body
                .collect()
                .await
                .expect("the inner service reads its body");
            seen.lock().unwrap().push(Seen {
                head,
                trailers: body.trailers().cloned(),
                body: body.to_bytes(),
            });
            Ok(answer())
        })
    }
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub head: http::response::Parts,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }
}

/// Sends one request to a service and reads the answer.
pub async fn send<S, B, R>(mut service: S, request: Request<R>) -> Answer
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    std::future::poll_fn(|cx| service.poll_ready(cx))
        .await
        .unwrap();
    let (head, body) = service.call(request).await.unwrap().into_parts();
    let body = body.collect().await.expect("the answer can be read");
    Answer {
        head,
        trailers: body.trailers().cloned(),
        body: body.to_bytes(),
    }
}

/// Sends a request of the handshake era with the id 1 and returns the answer.
pub async fn ask<S, B>(service: &S, method: &str, params: &str) -> Value
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let answer = send(service.clone(), post(body)).await;
    assert_eq!(answer.head.headers["content-type"], "application/json");
    answer.json()
}

/// Sends a modern request with the id 1 and these params besides `_meta`, which declares these
/// capabilities.
pub async fn ask_modern<S, B>(service: &S, method: &str, params: &str, capabilities: &str) -> Answer
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let declared = format!(r#"Capabilities":{capabilities}"#);
    let body = modern_body(method, params).replace(r#"Capabilities":{}"#, &declared);
    let parsed: Value = serde_json::from_str(&body).unwrap();
    let params = &parsed["params"];
    let name = params.get("name").or(params.get("uri"));
    let mut request = modern(method, body);
    if let Some(name) = name.and_then(Value::as_str) {
        let name = name.parse().unwrap();
        request.headers_mut().insert("mcp-name", name);
    }
    send(service.clone(), request).await
}

/// A service that must not be reached.
#[derive(Clone, Debug)]
pub struct Unreachable;

impl<B> Service<Request<B>> for Unreachable {
    type Response = Response<Chunks>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::builder()
            .status(StatusCode::IM_A_TEAPOT)
            .body(Chunks::default())
            .unwrap()))
    }
}
