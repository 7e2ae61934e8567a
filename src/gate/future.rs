//! Read, decide, forward, stamp.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE, request, response,
};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{Limits, Outcome, ReadBody, Rules};
use crate::{
    body::{RequestBody, ResponseBody, Rest},
    check::{HeadVerdict, Judge, too_long},
    discover::{self, Ask, DiscoverRules, Discovery},
    envelope::{Events, Stamp, Treatment},
    era::{Era, EraRules},
    head::{self, Head},
    message::Message,
    mirror::{Observer, ToolSchemas},
    protocol::header,
    rejection::{Rejection, RejectionKind},
};

pin_project! {
    /// Response future of [`Gate`](super::Gate).
    ///
    /// Dropping it releases the inner service, its future and both bodies: nothing is spawned.
    pub struct ResponseFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<RequestBody<ReqBody>>>,
        ReqBody: Body,
    {
        #[pin]
        state: State<S, R, ReqBody, ResBody, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, R, ReqBody, ResBody, F> {
        Reading {
            #[pin]
            read: ReadBody<ReqBody>,
            // How many bytes are read before the era is known; `None` until the head is judged.
            limit: Option<usize>,
            forward: Option<Forward<S, R>>,
        },
        // As above, for a gate that has to give the body back if it cannot read it whole.
        Borrowing {
            read: Option<ReadBody<Pin<Box<ReqBody>>>>,
            limit: usize,
            forward: Option<Forward<S, R>>,
        },
        Answering {
            #[pin]
            future: F,
            plan: Plan,
        },
        Stamping {
            read: Option<ReadBody<Pin<Box<ResBody>>>>,
            head: Option<response::Parts>,
            stamp: Stamp,
            observer: Option<Box<Observer>>,
        },
        // Asks the inner service what it can do.
        Asking {
            #[pin]
            ask: Ask<S, F, ResBody>,
            // Boxed, so that the state of every other message stays small.
            discovering: Option<Box<Discovering<R>>>,
        },
        Answered { answer: Option<Response<[Bytes; 2]>> },
        Rejected { rejection: Option<Box<Rejection>> },
    }
}

/// What is needed to answer `server/discover`.
struct Discovering<R> {
    rules: R,
    message: Message,
    plan: Plan,
}

impl<R: Rules> Discovering<R> {
    fn eras(&self) -> &EraRules {
        let resolved = self.message.resolved();
        resolved.map_or(self.rules.eras(), |(_, eras)| eras)
    }

    /// Answers in place of the inner service, as if that had answered.
    // rule D1
    fn answer(
        mut self,
        found: Option<&Arc<Discovery>>,
    ) -> Result<Response<[Bytes; 2]>, Box<Rejection>> {
        let era = self.message.era();
        let (Some(found), Some((_, eras))) = (found, self.message.resolved()) else {
            let text = "The server cannot tell what it is able to do";
            return Err(Rejection::new(RejectionKind::DiscoveryFailed, text)
                .answering(self.message.answerable_id())
                .of(era.clone()));
        };
        let body = discover::answer(found, &self.message, eras);
        let (mut head, ()) = Response::new(()).into_parts();
        let json = HeaderValue::from_static("application/json");
        head.headers.insert(CONTENT_TYPE, json);
        head.extensions.insert(era.clone());
        let body = match self.plan.stamp.take() {
            Some(stamp) => stamp.apply(&mut head, body),
            None => [body, Bytes::new()],
        };
        Ok(Response::from_parts(head, body))
    }
}

/// What is needed once the body has been read.
pub(super) struct Forward<S, R> {
    pub(super) head: request::Parts,
    pub(super) inner: S,
    pub(super) rules: R,
    pub(super) limits: Limits,
}

/// A request that goes on and what happens to its answer, or why it does not.
type Judged<B> = Result<(RequestBody<B>, Plan), Box<Rejection>>;

/// What happens to the inner service's answer.
pub(super) struct Plan {
    era: Option<Era>,
    stamp: Option<Stamp>,
    /// Who learns from the answer.
    pupil: Option<Arc<dyn ToolSchemas>>,
    /// Whether the message is answered in place of the inner service.
    discovers: bool,
}

impl Plan {
    /// Only tells outer layers the era.
    pub(super) fn untouched(era: Option<Era>) -> Self {
        Self {
            era,
            stamp: None,
            pupil: None,
            discovers: false,
        }
    }

    /// Tells outer layers the era, and returns who watches the answer.
    fn on_answer(&mut self, head: &mut response::Parts) -> Option<Box<Observer>> {
        if let Some(era) = self.era.take() {
            // rule E8
            if era.is_modern() {
                head::remove_rare(&mut head.headers, &[header::MCP_SESSION_ID]);
            }
            // rule E9
            if head.extensions.get::<Era>().is_none() {
                head.extensions.insert(era);
            }
        }
        // rule P5
        Observer::of(self.pupil.take()?, head)
    }
}

impl<S, R: Rules> Forward<S, R> {
    /// Reads the body and judges it; the head, too, if that was not done before.
    fn read<B: Body<Data = Bytes>>(
        &mut self,
        body: Pin<&mut ReadBody<B>>,
        limit: &mut Option<usize>,
        cx: &mut Context<'_>,
    ) -> Poll<Judged<B>> {
        let judge = Judge::of(&self.rules, self.limits);
        let request::Parts {
            method,
            headers,
            extensions,
            ..
        } = &mut self.head;
        let mut seen = None;
        let limit = if let Some(limit) = *limit {
            limit
        } else {
            let head = seen.insert(Head::from(&*headers));
            *limit.insert(match judge.head(method.as_str(), head)? {
                HeadVerdict::Read(limit) => limit,
                HeadVerdict::Unread(_) => judge.limit(head),
            })
        };
        Poll::Ready(match ready!(body.poll(cx, limit)) {
            Outcome::Complete(body, trailers) => {
                let plan = match judge_body(judge, headers, seen, extensions, &body) {
                    Ok(of_a_session) => self.settle(of_a_session),
                    Err(rejection) if self.rules.refuses() => return Poll::Ready(Err(rejection)),
                    Err(_) => self.guess(&body),
                };
                Ok((RequestBody::replay(body, trailers), plan))
            }
            Outcome::TooLong(_) => Err(too_long(limit)),
            Outcome::Failed(..) => Err(Rejection::new(
                RejectionKind::BodyUnreadable,
                "The body could not be read to its end",
            )),
        })
    }

    /// Judges a body that was read; if the verdict is bad, the plan is a guess.
    fn judge_or_guess(&mut self, body: &Bytes) -> Plan {
        let judge = Judge::of(&self.rules, self.limits);
        let request::Parts {
            headers,
            extensions,
            ..
        } = &mut self.head;
        match judge_body(judge, headers, None, extensions, body) {
            Ok(of_a_session) => self.settle(of_a_session),
            Err(_) => self.guess(body),
        }
    }

    /// Makes the request one of its era, and plans the answer.
    fn settle(&mut self, of_a_session: bool) -> Plan {
        let message = self.head.extensions.get();
        let plan = message.map_or_else(|| Plan::untouched(None), |message| self.plan(message));
        // rule E8
        if plan.era.as_ref().is_some_and(Era::is_modern) {
            if of_a_session {
                self.head.headers.remove(header::MCP_SESSION_ID);
                self.head.headers.remove(header::LAST_EVENT_ID);
            }
            // rule E12
            if let Some(version) = self.rules.discover().and_then(DiscoverRules::presents_as) {
                let shown = version.clone();
                self.head
                    .headers
                    .insert(header::MCP_PROTOCOL_VERSION, shown);
            }
        }
        plan
    }

    fn plan(&self, message: &Message) -> Plan {
        let era = message.era();
        let envelope = self.rules.envelope().filter(|_| era.is_modern());
        Plan {
            era: Some(era.clone()),
            stamp: envelope.map(|envelope| envelope.plan(message)),
            pupil: self.rules.mirror().and_then(|it| it.pupil(message)),
            discovers: self.rules.discover().is_some_and(|it| it.answers(message)),
        }
    }

    /// Goes on with a message that was let through.
    fn proceed<B, ResBody>(
        mut self,
        body: RequestBody<B>,
        plan: Plan,
    ) -> State<S, R, B, ResBody, S::Future>
    where
        S: Service<Request<RequestBody<B>>>,
        B: Body,
    {
        if plan.discovers {
            if let Some(message) = self.head.extensions.remove::<Message>() {
                let known = self.rules.discover().and_then(DiscoverRules::known);
                let discovering = Discovering {
                    rules: self.rules,
                    message,
                    plan,
                };
                return match known {
                    Some(known) => answered(discovering.answer(Some(&known))),
                    None => State::Asking {
                        ask: Ask::new(self.inner, &self.head, discovering.eras()),
                        discovering: Some(Box::new(discovering)),
                    },
                };
            }
        }
        let request = Request::from_parts(self.head, body);
        let future = self.inner.call(request);
        State::Answering { future, plan }
    }
}

impl<S, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    R: Rules,
    ReqBody: Body<Data = Bytes>,
{
    pub(super) fn reading(body: ReqBody, limit: Option<usize>, forward: Forward<S, R>) -> Self {
        Self {
            state: State::Reading {
                read: ReadBody::new(body),
                limit,
                forward: Some(forward),
            },
        }
    }

    pub(super) fn borrowing(body: ReqBody, limit: usize, forward: Forward<S, R>) -> Self {
        Self {
            state: State::Borrowing {
                read: Some(ReadBody::new(Box::pin(body))),
                limit,
                forward: Some(forward),
            },
        }
    }
}

impl<S, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    pub(super) fn answering(future: S::Future, plan: Plan) -> Self {
        Self {
            state: State::Answering { future, plan },
        }
    }

    pub(super) fn rejected(rejection: Box<Rejection>) -> Self {
        Self {
            state: State::Rejected {
                rejection: Some(rejection),
            },
        }
    }
}

impl<S, R, ReqBody, ResBody> Future for ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    R: Rules,
    ReqBody: Body<Data = Bytes>,
    ResBody: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    #[allow(clippy::expect_used)] // an option is emptied only where its state ends
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProj::Reading {
                    read,
                    limit,
                    forward,
                } => {
                    let reading = forward.as_mut().expect("reading ends once");
                    let verdict = ready!(reading.read(read, limit, cx));
                    let forward = forward.take().expect("reading ends once");
                    match verdict {
                        Ok((body, plan)) => forward.proceed(body, plan),
                        Err(rejection) => rejected(rejection),
                    }
                }
                StateProj::Borrowing {
                    read,
                    limit,
                    forward,
                } => {
                    let reading = read.as_mut().expect("reading ends once");
                    let outcome = ready!(Pin::new(reading).poll(cx, *limit));
                    let read = read.take().expect("reading ends once");
                    let mut forward = forward.take().expect("reading ends once");
                    let (body, plan) = match outcome {
                        Outcome::Complete(body, trailers) => {
                            let plan = forward.judge_or_guess(&body);
                            (RequestBody::replay(body, trailers), plan)
                        }
                        Outcome::TooLong(start) => {
                            #[cfg(feature = "tracing")]
                            tracing::warn!("a body is longer than the limit and passes unread");
                            forward.forget();
                            let rest = Rest::Body(read.into_body());
                            (RequestBody::resume(start, rest), Plan::untouched(None))
                        }
                        Outcome::Failed(start, error) => {
                            forward.forget();
                            let rest = Rest::Failed(Some(error));
                            (RequestBody::resume(start, rest), Plan::untouched(None))
                        }
                    };
                    forward.proceed(body, plan)
                }
                StateProj::Answering { future, plan } => {
                    let (mut head, body) = ready!(future.poll(cx))?.into_parts();
                    let observer = plan.on_answer(&mut head);
                    let stamp = plan.stamp.take().map(|stamp| (Treatment::of(&head), stamp));
                    match stamp {
                        Some((Treatment::Stamp, stamp)) => State::Stamping {
                            read: Some(ReadBody::new(Box::pin(body))),
                            head: Some(head),
                            stamp,
                            observer,
                        },
                        Some((Treatment::StampEvents, stamp)) => {
                            Stamp::apply_to_stream(&mut head);
                            let body = ResponseBody::events(Events::new(body, stamp));
                            let body = body.observed_by(observer);
                            return Poll::Ready(Ok(Response::from_parts(head, body)));
                        }
                        Some((Treatment::Pass, _)) | None => {
                            let body = ResponseBody::passthrough(body).observed_by(observer);
                            return Poll::Ready(Ok(Response::from_parts(head, body)));
                        }
                    }
                }
                StateProj::Stamping {
                    read,
                    head,
                    stamp,
                    observer,
                } => {
                    let reading = read.as_mut().expect("reading ends once");
                    let outcome = ready!(Pin::new(reading).poll(cx, stamp.limit()));
                    let read = read.take().expect("reading ends once");
                    let mut head = head.take().expect("reading ends once");
                    let body = stamped(outcome, read, &mut head, stamp, observer.take());
                    return Poll::Ready(Ok(Response::from_parts(head, body)));
                }
                StateProj::Asking { ask, discovering } => {
                    let found = ready!(ask.poll(cx))?;
                    let discovering = discovering.take().expect("asking ends once");
                    if let (Some(rules), Some(found)) = (discovering.rules.discover(), &found) {
                        rules.keep(found);
                    }
                    answered(discovering.answer(found.as_ref()))
                }
                StateProj::Answered { answer } => {
                    let answer = answer.take().expect("polled after completion");
                    return Poll::Ready(Ok(answer.map(|body| ResponseBody::pieces(body, None))));
                }
                StateProj::Rejected { rejection } => {
                    let rejection = rejection.take().expect("polled after completion");
                    return Poll::Ready(Ok(rejection.into_response()));
                }
            };
            state.set(next);
        }
    }
}

fn rejected<S, R, ReqBody, ResBody, F>(
    rejection: Box<Rejection>,
) -> State<S, R, ReqBody, ResBody, F> {
    State::Rejected {
        rejection: Some(rejection),
    }
}

fn answered<S, R, ReqBody, ResBody, F>(
    answer: Result<Response<[Bytes; 2]>, Box<Rejection>>,
) -> State<S, R, ReqBody, ResBody, F> {
    match answer {
        Ok(answer) => State::Answered {
            answer: Some(answer),
        },
        Err(rejection) => rejected(rejection),
    }
}

/// The body of an answer that was read in order to be stamped.
fn stamped<B: Body<Data = Bytes>>(
    outcome: Outcome<B::Error>,
    read: ReadBody<Pin<Box<B>>>,
    head: &mut response::Parts,
    stamp: &Stamp,
    observer: Option<Box<Observer>>,
) -> ResponseBody<B> {
    match outcome {
        Outcome::Complete(body, trailers) => {
            if let Some(mut observer) = observer {
                observer.see_all(&body);
            }
            ResponseBody::pieces(stamp.apply(head, body), trailers)
        }
        Outcome::TooLong(start) => {
            stamp.report_too_long();
            let body = ResponseBody::resume(start, Rest::Body(read.into_body()));
            body.observed_by(observer)
        }
        Outcome::Failed(start, error) => ResponseBody::resume(start, Rest::Failed(Some(error))),
    }
}

/// Judges a body that was read, and leaves what is known in the extensions.
///
/// `seen` is the head, if that was looked at in the same poll. Returns whether the head may hold what
/// only sessions of the handshake era have.
fn judge_body<'h>(
    judge: Judge<'_>,
    headers: &'h HeaderMap,
    seen: Option<Head<'h>>,
    extensions: &mut Extensions,
    body: &Bytes,
) -> Result<bool, Box<Rejection>> {
    let head = || seen.unwrap_or_else(|| Head::from(headers));
    let known = extensions.get::<Message>();
    if let Some(known) = known.filter(|known| known.is_of(body)) {
        if judge.mirrors(known) {
            judge.mirror(&head(), known)?;
        }
        return Ok(true);
    }
    let head = head();
    let decided = known.and_then(Message::resolved).map(|(_, eras)| eras);
    let mut message = Message::parse(body.clone());
    judge.message(&head, &mut message, decided)?;
    extensions.insert(message);
    Ok(head.has_session || head.resumes)
}

impl<S, R: Rules> Forward<S, R> {
    /// Takes out a message that is not that of the body, since this was replaced; its era stays.
    fn forget(&mut self) {
        if let Some(stale) = self.head.extensions.remove::<Message>() {
            self.head.extensions.insert(stale.era().clone());
        }
    }

    /// The plan of a gate that refuses nothing for a message that breaks a rule: whoever names a
    /// modern version is answered in its terms.
    fn guess(&mut self, body: &Bytes) -> Plan {
        self.forget();
        let message = Message::parse(body.clone());
        let head = Head::from(&self.head.headers);
        let eras = self.rules.eras();
        let modern = eras.header_is_modern(&head) || eras.claim_is_modern(&message);
        let envelope = self.rules.envelope().filter(|_| modern);
        Plan {
            stamp: envelope.map(|envelope| envelope.plan(&message)),
            ..Plan::untouched(None)
        }
    }
}

impl<S, R, ReqBody, ResBody> fmt::Debug for ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
