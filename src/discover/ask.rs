//! Asking the inner service to `initialize`.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version, header, request};
use http_body::Body;
use pin_project_lite::pin_project;
use serde_json::{Value, json};
use tower_service::Service;

use super::Discovery;
use crate::{
    body::RequestBody,
    envelope::EventReader,
    era::{Era, EraRules},
    head,
    message::Message,
    protocol::{LEGACY_VERSIONS, header::MCP_SESSION_ID, method},
};

pin_project! {
    /// Resolves to what the inner service tells of itself; `None` if it tells nothing usable.
    pub(crate) struct Ask<S, F, ResBody> {
        inner: S,
        address: Address,
        #[pin]
        step: Step<F, ResBody>,
    }
}

pin_project! {
    #[project = StepProj]
    enum Step<F, ResBody> {
        Initialize { #[pin] future: F },
        Read {
            #[pin]
            body: ResBody,
            answer: Answer,
            session: Option<HeaderValue>,
        },
        // Waits until the session can be closed.
        Finish {
            session: HeaderValue,
            found: Option<Arc<Discovery>>,
        },
        Close {
            #[pin]
            future: F,
            found: Option<Arc<Discovery>>,
        },
    }
}

/// Where the inner service was called.
struct Address {
    eras: EraRules,
    uri: Uri,
    version: Version,
    host: Option<HeaderValue>,
}

impl Address {
    fn of(head: &request::Parts, eras: &EraRules) -> Self {
        Self {
            eras: eras.clone(),
            uri: head.uri.clone(),
            version: head.version,
            host: head.headers.get(header::HOST).cloned(),
        }
    }

    // rule D2: nothing of the caller but the address
    fn request<B: Body>(&self, method: Method, body: Bytes) -> Request<RequestBody<B>> {
        let mut request = Request::new(RequestBody::replay(body, None));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        if let Some(host) = &self.host {
            request.headers_mut().insert(header::HOST, host.clone());
        }
        request
    }

    fn initialize<B: Body>(&self) -> Request<RequestBody<B>> {
        let message = json!({
            "jsonrpc": "2.0",
            "id": "mcp-layers/discover",
            "method": method::INITIALIZE,
            "params": {
                "protocolVersion": LEGACY_VERSIONS[0],
                "capabilities": {},
                "clientInfo": { "name": "mcp-layers", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let text = Bytes::from(message.to_string());
        let length = text.len();
        let mut request = self.request(Method::POST, text.clone());
        // rule E9: a handler finds what it finds on every request
        let mut message = Message::parse(text);
        message.resolve(Era::UNNAMED, self.eras.clone());
        request.extensions_mut().insert(message);
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_LENGTH, length.into());
        for (name, value) in [
            (header::CONTENT_TYPE, "application/json"),
            (header::ACCEPT, "application/json, text/event-stream"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        request
    }

    fn close<B: Body>(&self, session: HeaderValue) -> Request<RequestBody<B>> {
        let mut request = self.request(Method::DELETE, Bytes::new());
        request.headers_mut().insert(MCP_SESSION_ID, session);
        request.extensions_mut().insert(Era::UNNAMED);
        request
    }
}

/// The longest answer that is read, in bytes.
const LIMIT: usize = 1024 * 1024;

/// What was read of the answer.
enum Answer {
    Json(BytesMut),
    Stream(Box<EventReader>),
}

impl Answer {
    fn new(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.map_or(&b""[..], |kind| head::media_type(kind.as_bytes()));
        if kind.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Stream(Box::default())
        } else {
            Self::Json(BytesMut::new())
        }
    }

    /// Reads on. A stream may go on behind the result.
    fn feed(&mut self, data: &[u8]) -> ControlFlow<Option<Value>> {
        let mut found = None;
        let length = match self {
            Self::Json(text) => {
                text.extend_from_slice(data);
                text.len()
            }
            Self::Stream(events) => {
                events.feed(data, |event| found = found.take().or_else(|| result(event)));
                events.len()
            }
        };
        match found {
            None if length <= LIMIT => ControlFlow::Continue(()),
            found => ControlFlow::Break(found),
        }
    }

    /// The result at the end.
    fn end(&mut self) -> Option<Value> {
        let mut found = None;
        match self {
            Self::Json(text) => found = result(text),
            Self::Stream(events) => events.end(|event| found = result(event)),
        }
        found
    }
}

/// The result of a message that has one.
fn result(message: &[u8]) -> Option<Value> {
    let mut message = serde_json::from_slice::<Value>(message).ok()?;
    message.get_mut("result").map(Value::take)
}

impl<S, F, ResBody> Ask<S, F, ResBody> {
    /// Asks with an instance that was polled ready.
    pub(crate) fn new<B>(mut inner: S, head: &request::Parts, eras: &EraRules) -> Self
    where
        S: Service<Request<RequestBody<B>>, Future = F>,
        B: Body,
    {
        let address = Address::of(head, eras);
        let future = inner.call(address.initialize());
        Self {
            inner,
            address,
            step: Step::Initialize { future },
        }
    }

    pub(crate) fn poll<B>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Arc<Discovery>>, S::Error>>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<ResBody>, Future = F>,
        F: Future<Output = Result<Response<ResBody>, S::Error>>,
        B: Body,
        ResBody: Body<Data = Bytes>,
    {
        let mut this = self.project();
        loop {
            let next = match this.step.as_mut().project() {
                StepProj::Initialize { future } => {
                    let (head, body) = ready!(future.poll(cx))?.into_parts();
                    Step::Read {
                        body,
                        answer: Answer::new(&head.headers),
                        session: head.headers.get(MCP_SESSION_ID).cloned(),
                    }
                }
                StepProj::Read {
                    body,
                    answer,
                    session,
                } => {
                    let result = match ready!(body.poll_frame(cx)) {
                        Some(Ok(frame)) => {
                            match answer.feed(&frame.into_data().unwrap_or_default()) {
                                ControlFlow::Continue(()) => continue,
                                ControlFlow::Break(result) => result,
                            }
                        }
                        Some(Err(_)) => None,
                        None => answer.end(),
                    };
                    let found = result.and_then(Discovery::from_initialize).map(Arc::new);
                    match session.take() {
                        None => return Poll::Ready(Ok(found)),
                        Some(session) => Step::Finish { session, found },
                    }
                }
                StepProj::Finish { session, found } => {
                    // Whether the service can close sessions is its own affair.
                    if ready!(this.inner.poll_ready(cx)).is_err() {
                        return Poll::Ready(Ok(found.take()));
                    }
                    let future = this.inner.call(this.address.close(session.clone()));
                    Step::Close {
                        future,
                        found: found.take(),
                    }
                }
                StepProj::Close { future, found } => {
                    drop(ready!(future.poll(cx)));
                    return Poll::Ready(Ok(found.take()));
                }
            };
            this.step.set(next);
        }
    }
}
