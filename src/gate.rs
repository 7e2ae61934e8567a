//! The one service of this crate that reads bodies.
//!
//! Every layer that looks at a message is a [`Gate`] with other [`Rules`]. A gate reads a `POST`
//! body once, up to a limit, decides, and forwards exactly the bytes it has seen:
//!
//! 1. by the head alone: the HTTP method, the media type, the announced length;
//! 2. the body is read, or taken over from an outer gate that has read it already;
//! 3. the era is resolved, and the mirrored headers are compared;
//! 4. the inner service answers;
//! 5. the answer is stamped, if the gate has an envelope.
//!
//! A gate spawns nothing and holds nothing but its future: dropping that releases all of it. The
//! instance of the inner service that was polled ready waits in the future until the body has
//! been read, so a slow body holds what that instance has reserved: limits on the time a body may
//! take belong outside of these layers.

mod future;
mod read;

pub use self::future::ResponseFuture;

use std::{
    mem,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body::Body;
use tower_service::Service;

use self::future::{Forward, Plan};
pub(crate) use self::read::{Outcome, Read, ReadBody};
use crate::{
    body::{RequestBody, ResponseBody},
    check::{HeadVerdict, Judge},
    discover::DiscoverRules,
    envelope::EnvelopeRules,
    era::{Era, EraRules},
    head::Head,
    message::Message,
    mirror::MirrorRules,
    rejection::Rejection,
};

/// The longest body that is read unless told otherwise: 4 MiB.
///
/// The official SDKs stop there too, and axum's own extractors at half of it.
pub const DEFAULT_BODY_LIMIT: usize = 4 * 1024 * 1024;

/// What a [`Gate`] applies to a message.
///
/// Sealed: the rules are those of this crate.
pub trait Rules: sealed::Sealed {
    /// How eras are told apart.
    fn eras(&self) -> &EraRules;

    /// How mirrored headers are compared, if they are.
    fn mirror(&self) -> Option<&MirrorRules>;

    /// How answers are stamped, if they are.
    fn envelope(&self) -> Option<&EnvelopeRules>;

    /// How `server/discover` is answered, if it is.
    fn discover(&self) -> Option<&DiscoverRules> {
        None
    }

    /// Whether a message that breaks a rule is refused, or let through as it is.
    fn refuses(&self) -> bool {
        true
    }
}

pub(crate) mod sealed {
    #[allow(unnameable_types)] // that is what seals it
    pub trait Sealed {}
}

/// How many bytes of a request's body are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) modern: usize,
    /// Unset, the same.
    pub(crate) legacy: Option<usize>,
}

impl Limits {
    pub(crate) fn legacy(self) -> usize {
        self.legacy.unwrap_or(self.modern)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            modern: DEFAULT_BODY_LIMIT,
            legacy: None,
        }
    }
}

/// Middleware that applies [`Rules`] to every message.
#[derive(Clone, Debug)]
pub struct Gate<S, R> {
    inner: S,
    rules: R,
    limits: Limits,
}

impl<S, R> Gate<S, R> {
    pub(crate) fn new(inner: S, rules: R, limits: Limits) -> Self {
        Self {
            inner,
            rules,
            limits,
        }
    }

    /// Gets a reference to the underlying service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Gets a mutable reference to the underlying service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Consumes `self`, returning the underlying service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for Gate<S, R>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Clone,
    R: Rules + Clone,
    ReqBody: Body<Data = Bytes>,
    ResBody: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, ReqBody, ResBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        match self.triage(&request) {
            Triage::Forward(era) => self.forward(request, era),
            Triage::Reject(rejection) => ResponseFuture::rejected(rejection),
            Triage::Read(limit) => {
                let (forward, body) = self.reserve(request);
                ResponseFuture::reading(body, limit, forward)
            }
            Triage::Borrow(limit) => {
                let (forward, body) = self.reserve(request);
                ResponseFuture::borrowing(body, limit, forward)
            }
        }
    }
}

/// What the head decides.
enum Triage {
    /// Forward the request unread, in this era if that is known.
    Forward(Option<Era>),
    /// Read the body up to so many bytes; `None` leaves judging the head to the future.
    Read(Option<usize>),
    /// The same, but a body that is longer must go on.
    Borrow(usize),
    Reject(Box<Rejection>),
}

impl<S, R: Rules> Gate<S, R> {
    fn triage<B: Body>(&self, request: &Request<B>) -> Triage {
        let known = request.extensions();
        // An outer layer that let a request through may serve more than this one by itself.
        if request.method() != Method::POST {
            if let Some(era) = Era::get(known) {
                return Triage::Forward(Some(era.clone()));
            }
        }
        let borrows = !self.rules.refuses();
        let read = |limit| {
            if borrows {
                Triage::Borrow(limit)
            } else {
                Triage::Read(Some(limit))
            }
        };
        if let Some(message) = Message::get(known) {
            let length = message.body().len();
            let limit = self.limits.legacy().max(length);
            return match request.body().size_hint().exact() {
                // The body that was read before is no longer than that.
                Some(exact) if exact == length as u64 => Triage::Read(Some(limit)),
                _ => read(limit),
            };
        }
        // A body that is there at once is judged by the same look at the head.
        if !borrows && is_json_message(request) {
            return Triage::Read(None);
        }
        let head = Head::from(request.headers());
        let judge = Judge::of(&self.rules, self.limits);
        match judge.head(request.method().as_str(), &head) {
            Ok(HeadVerdict::Unread(era)) => Triage::Forward(era),
            Ok(HeadVerdict::Read(limit)) => read(limit),
            Err(rejection) if !borrows => Triage::Reject(rejection),
            Err(_) if request.method() != Method::POST => Triage::Forward(None),
            Err(_) => read(judge.limit(&head)),
        }
    }
}

/// Whether the body is read in any case, unless the request is refused.
fn is_json_message<B>(request: &Request<B>) -> bool {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    request.method() == Method::POST && media_type.is_some_and(|it| it == "application/json")
}

impl<S: Clone, R: Clone> Gate<S, R> {
    /// Takes the instance of the inner service that was polled ready, for when the body is read.
    fn reserve<B>(&mut self, request: Request<B>) -> (Forward<S, R>, B) {
        // Its clone stays behind.
        // <https://docs.rs/tower-service/0.3/tower_service/trait.Service.html#be-careful-when-cloning-inner-services>
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let (head, body) = request.into_parts();
        let forward = Forward {
            head,
            inner,
            rules: self.rules.clone(),
            limits: self.limits,
        };
        (forward, body)
    }
}

impl<S, R> Gate<S, R> {
    /// Calls the inner service with a body that was not read.
    fn forward<ReqBody, ResBody>(
        &mut self,
        mut request: Request<ReqBody>,
        era: Option<Era>,
    ) -> ResponseFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
        ReqBody: Body<Data = Bytes>,
        ResBody: Body<Data = Bytes>,
    {
        // rule E9
        if let Some(era) = &era {
            request.extensions_mut().insert(era.clone());
        }
        let future = self.inner.call(request.map(RequestBody::passthrough));
        ResponseFuture::answering(future, Plan::untouched(era))
    }
}
