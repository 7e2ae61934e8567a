//! The two body types that this crate adds to a stack.
//!
//! Both are opaque: what a variant holds is the business of the layer that made it.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::{envelope::Events, mirror::Observer};

/// What followed the data of a body. Boxed, since it is rare and bodies are moved often.
pub(crate) type Trailers = Option<Box<HeaderMap>>;

/// Whether both are one buffer, of which one is kept alive by who asks.
///
/// A `Bytes` never changes, so an equal address and an equal length mean equal content.
pub(crate) fn is_same_buffer(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

pin_project! {
    /// A request body that a layer of this crate has let through.
    ///
    /// Either the untouched body of the client, or the bytes that were read, checked and are now
    /// replayed in one piece: what a rule has seen is what the inner service gets.
    pub struct RequestBody<B: Body> {
        #[pin]
        kind: Kind<B>,
    }
}

impl<B: Body> RequestBody<B> {
    pub(crate) fn passthrough(body: B) -> Self {
        Self {
            kind: Kind::Passthrough { body },
        }
    }

    pub(crate) fn replay(data: Bytes, trailers: Trailers) -> Self {
        Self {
            kind: Kind::replay(data, trailers),
        }
    }

    pub(crate) fn resume(read: Bytes, rest: Rest<B>) -> Self {
        Self {
            kind: Kind::Resumed { read, rest },
        }
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().kind.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}

impl<B: Body> fmt::Debug for RequestBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestBody").field(&self.kind).finish()
    }
}

pin_project! {
    /// The response body of every service in this crate: the inner one's, a stamped one, or that
    /// of a rejection.
    pub struct ResponseBody<B: Body> {
        #[pin]
        kind: Kind<B>,
        observer: Option<Box<Observer>>,
    }
}

impl<B: Body> ResponseBody<B> {
    pub(crate) fn passthrough(body: B) -> Self {
        Self::new(Kind::Passthrough { body })
    }

    pub(crate) fn replay(data: Bytes, trailers: Trailers) -> Self {
        Self::new(Kind::replay(data, trailers))
    }

    pub(crate) fn pieces([data, more]: [Bytes; 2], trailers: Trailers) -> Self {
        Self::new(Kind::Replay {
            data,
            more,
            trailers,
        })
    }

    pub(crate) fn resume(read: Bytes, rest: Rest<B>) -> Self {
        Self::new(Kind::Resumed { read, rest })
    }

    pub(crate) fn events(events: Events<B>) -> Self {
        Self::new(Kind::Events { events })
    }

    fn new(kind: Kind<B>) -> Self {
        Self {
            kind,
            observer: None,
        }
    }

    /// Shows what passes to somebody.
    pub(crate) fn observed_by(self, observer: Option<Box<Observer>>) -> Self {
        Self { observer, ..self }
    }
}

/// Lets a `tower_http::cors::CorsLayer` wrap a layer of this crate.
impl<B: Body + Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::passthrough(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.kind.as_mut().poll_frame(cx));
        if let Some(observer) = this.observer {
            // A body that has told its end is not polled again.
            let is_last = this.kind.is_end_stream();
            if !observer.see(frame.as_ref(), is_last) {
                *this.observer = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}

impl<B: Body> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResponseBody").field(&self.kind).finish()
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<B: Body> {
        Passthrough { #[pin] body: B },
        // Bytes that were read before, then the trailers that came with them. There are no `more`
        // without `data`.
        Replay { data: Bytes, more: Bytes, trailers: Trailers },
        // A body of which the beginning was read before it had to be let go.
        Resumed { read: Bytes, rest: Rest<B> },
        Events { #[pin] events: Events<B> },
    }
}

/// What is left of a body whose beginning was read.
pub(crate) enum Rest<B: Body> {
    /// The body goes on.
    Body(Pin<Box<B>>),
    /// The body failed where the part that was read ends.
    Failed(Option<B::Error>),
}

impl<B: Body> Kind<B> {
    fn replay(data: Bytes, trailers: Trailers) -> Self {
        Self::Replay {
            data,
            more: Bytes::new(),
            trailers,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Kind<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            KindProj::Passthrough { body } => body.poll_frame(cx),
            KindProj::Replay {
                data,
                more,
                trailers,
            } => Poll::Ready(if data.is_empty() {
                trailers.take().map(|it| Ok(Frame::trailers(*it)))
            } else {
                Some(Ok(Frame::data(mem::replace(data, mem::take(more)))))
            }),
            KindProj::Resumed { read, .. } if !read.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(mem::take(read)))))
            }
            KindProj::Events { events } => events.poll_frame(cx),
            KindProj::Resumed { rest, .. } => match rest {
                Rest::Body(body) => body.as_mut().poll_frame(cx),
                Rest::Failed(error) => Poll::Ready(error.take().map(Err)),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Passthrough { body } => body.is_end_stream(),
            Self::Events { events } => events.is_end_stream(),
            Self::Replay { data, trailers, .. } => data.is_empty() && trailers.is_none(),
            Self::Resumed { read, rest } => {
                read.is_empty()
                    && match rest {
                        Rest::Body(body) => body.is_end_stream(),
                        Rest::Failed(error) => error.is_none(),
                    }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Passthrough { body } => body.size_hint(),
            Self::Events { events } => events.size_hint(),
            Self::Replay { data, more, .. } => {
                SizeHint::with_exact(data.len() as u64 + more.len() as u64)
            }
            Self::Resumed { read, rest } => {
                let read = read.len() as u64;
                let mut hint = SizeHint::new();
                match rest {
                    Rest::Body(body) => {
                        let rest = body.size_hint();
                        if let Some(upper) = rest.upper() {
                            hint.set_upper(read.saturating_add(upper));
                        }
                        hint.set_lower(read.saturating_add(rest.lower()));
                    }
                    // How long the body would have been stays unknown.
                    Rest::Failed(_) => hint.set_lower(read),
                }
                hint
            }
        }
    }
}

impl<B: Body> fmt::Debug for Kind<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passthrough { .. } => f.write_str("Passthrough"),
            Self::Replay { data, more, .. } => {
                write!(f, "Replay({} bytes)", data.len() + more.len())
            }
            Self::Events { .. } => f.write_str("Events"),
            Self::Resumed { read, .. } => write!(f, "Resumed({} bytes)", read.len()),
        }
    }
}
