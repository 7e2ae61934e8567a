//! The body that goes in and comes out, and the service in the middle.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tower::Service;

use super::{
    case::Case,
    json::{is_rpc_id, member},
};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Hold(Hold),
}

/// Why a body gives nothing for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hold {
    /// Until the reader has taken all that came before.
    UntilRead,
    Forever,
}

/// A body that does what the case says, step by step.
#[derive(Debug)]
pub(crate) struct Frames {
    steps: VecDeque<Step>,
    length: Option<u64>,
    watch: Arc<Watch>,
}

impl Frames {
    pub(crate) fn sized(bytes: Bytes) -> Self {
        let length = Some(bytes.len() as u64);
        let steps = if bytes.is_empty() {
            VecDeque::new()
        } else {
            [Step::Data(bytes)].into()
        };
        Self {
            steps,
            length,
            watch: Arc::default(),
        }
    }

    /// A body that doesn't tell how long it is.
    pub(crate) fn unsized_of(steps: VecDeque<Step>) -> Self {
        Self {
            steps,
            length: None,
            watch: Arc::default(),
        }
    }

    /// All the data that the body will ever give.
    fn all_data(&self) -> Vec<u8> {
        let data = self.steps.iter().filter_map(|step| match step {
            Step::Data(bytes) => Some(&bytes[..]),
            _ => None,
        });
        data.collect::<Vec<_>>().concat()
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(Step::Hold(hold)) = this.steps.front() {
            if this.watch.holds(*hold, cx.waker()) {
                return Poll::Pending;
            }
            this.steps.pop_front();
        }
        Poll::Ready(this.steps.pop_front().map(|step| {
            Ok(match step {
                Step::Data(bytes) => {
                    if let Some(length) = &mut this.length {
                        *length -= bytes.len() as u64;
                    }
                    Frame::data(bytes)
                }
                Step::Trailers(trailers) => Frame::trailers(trailers),
                Step::Hold(_) => panic!("two holds follow each other"),
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.watch.state().dropped = true;
    }
}

/// A look at a body from outside.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    held: Option<(Hold, Waker)>,
    released: bool,
    dropped: bool,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap()
    }

    fn holds(&self, hold: Hold, waker: &Waker) -> bool {
        let mut state = self.state();
        if std::mem::take(&mut state.released) {
            return false;
        }
        state.held = Some((hold, waker.clone()));
        true
    }

    /// Why the body gives nothing at this moment.
    pub(crate) fn held(&self) -> Option<Hold> {
        self.state().held.as_ref().map(|(hold, _)| *hold)
    }

    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.released = true;
        if let Some((_, waker)) = state.held.take() {
            waker.wake();
        }
    }

    pub(crate) fn dropped(&self) -> bool {
        self.state().dropped
    }
}

/// What the probe got and gave.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: usize,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) answer_headers: HeaderMap,
    pub(crate) answer: Vec<u8>,
    pub(crate) watch: Option<Arc<Watch>>,
}

/// The wrapped service of a case. Its clones are not ready, as the contract allows.
#[derive(Debug)]
pub(crate) struct Probe {
    case: Arc<Case>,
    seen: Arc<Mutex<Seen>>,
    ready: bool,
}

impl Probe {
    pub(crate) fn new(case: Arc<Case>) -> (Self, Arc<Mutex<Seen>>) {
        let seen = Arc::default();
        let probe = Self {
            case,
            seen: Arc::clone(&seen),
            ready: false,
        };
        (probe, seen)
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        Self {
            case: Arc::clone(&self.case),
            seen: Arc::clone(&self.seen),
            ready: false,
        }
    }
}

impl<B> Service<Request<B>> for Probe
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Frames>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.ready),
            "the inner service was called on an instance that was not polled ready"
        );
        let (case, seen) = (Arc::clone(&self.case), Arc::clone(&self.seen));
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let read = body
                .collect()
                .await
                .expect("the request's body is readable");
            let trailers = read.trailers().cloned();
            let body = read.to_bytes();
            let response = match &case.inner_response {
                Some(given) => given.to_response(),
                None => plain(&body),
            };

            let mut seen = seen.lock().unwrap();
            seen.calls += 1;
            seen.headers = head.headers;
            seen.body = body;
            seen.trailers = trailers;
            seen.answer_headers = response.headers().clone();
            seen.answer = response.body().all_data();
            seen.watch = Some(Arc::clone(&response.body().watch));
            Ok(response)
        })
    }
}

/// The answer of a plain service.
fn plain(body: &[u8]) -> Response<Frames> {
    let id = std::str::from_utf8(body)
        .ok()
        .and_then(|text| member(text, "id"))
        .filter(|id| is_rpc_id(id));
    let mut response = Response::new(Frames::sized(Bytes::new()));
    if id.is_none() && !body.is_empty() {
        *response.status_mut() = StatusCode::ACCEPTED;
        return response;
    }
    let id = id.unwrap_or("0");
    *response.body_mut() =
        Frames::sized(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}
