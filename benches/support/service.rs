//! The service that is measured bare and behind layers, and how one request is driven through.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use mcp_layers::ServerInfo;
use tower::Service;

/// Reads a request to its end and answers always alike.
#[derive(Clone, Debug)]
pub struct Bare {
    content_type: HeaderValue,
    frames: Arc<[Bytes]>,
}

impl Bare {
    /// Answers with one JSON text.
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self {
            content_type: HeaderValue::from_static("application/json"),
            frames: Arc::new([text.into()]),
        }
    }

    /// Answers with a stream of this many equal events, each in a frame of its own.
    pub fn events(event: &'static str, count: usize) -> Self {
        Self {
            content_type: HeaderValue::from_static("text/event-stream"),
            frames: vec![Bytes::from_static(event.as_bytes()); count].into(),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Service<Request<B>> for Bare
where
    B::Error: fmt::Debug,
{
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = Answering<B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering<B> {
        Answering {
            request,
            bare: self.clone(),
        }
    }
}

/// Response future of [`Bare`].
#[derive(Debug)]
pub struct Answering<B> {
    request: Request<B>,
    bare: Bare,
}

impl<B: Body<Data = Bytes> + Unpin> Future for Answering<B>
where
    B::Error: fmt::Debug,
{
    type Output = Result<Response<Frames>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(frame) = ready!(Pin::new(self.request.body_mut()).poll_frame(cx)) {
            frame.expect("the request can be read");
        }
        let mut response = Response::new(Frames {
            frames: Arc::clone(&self.bare.frames),
            next: 0,
        });
        let content_type = self.bare.content_type.clone();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        Poll::Ready(Ok(response))
    }
}

/// Response body of [`Bare`].
#[derive(Debug)]
pub struct Frames {
    frames: Arc<[Bytes]>,
    next: usize,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.frames.get(self.next).cloned();
        self.next += 1;
        Poll::Ready(frame.map(Frame::data).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.frames.len()
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.frames {
            [only] if self.next == 0 => SizeHint::with_exact(only.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// What stands around a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stack {
    Nothing,
    OriginGuard,
    EraResolver,
    MirrorHeaderValidator,
    Envelope,
    /// The four of them, in the right order.
    Row,
    McpLayer,
}

impl Stack {
    pub const ALL: [Self; 7] = [
        Self::Nothing,
        Self::OriginGuard,
        Self::EraResolver,
        Self::MirrorHeaderValidator,
        Self::Envelope,
        Self::Row,
        Self::McpLayer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "bare service",
            Self::OriginGuard => "OriginGuard",
            Self::EraResolver => "EraResolver",
            Self::MirrorHeaderValidator => "MirrorHeaderValidator",
            Self::Envelope => "Envelope",
            Self::Row => "the four in a row",
            Self::McpLayer => "McpLayer",
        }
    }
}

/// Handles one request, and tells the answer's status and length.
pub type Run = Box<dyn FnMut(Request<Full<Bytes>>) -> (StatusCode, usize)>;

pub fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

/// Drives requests through a service. All bodies are ready, so nothing waits.
pub fn run<S, B>(mut service: S) -> Run
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + 'static,
    B: Body<Data = Bytes>,
{
    Box::new(move |request| {
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(service.poll_ready(cx).is_ready());
        let future = pin!(service.call(request));
        let Poll::Ready(Ok(response)) = future.poll(cx) else {
            panic!("the answer is not ready");
        };
        let status = response.status();
        let (_head, body) = response.into_parts();
        let (mut body, mut length) = (pin!(body), 0);
        while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(cx) {
            length += frame.data_ref().map_or(0, Bytes::len);
        }
        (status, length)
    })
}
