//! From what the server answers to a call in a session, to what a client of revision 2026-07-28
//! gets.

use std::{
    collections::VecDeque,
    convert::Infallible,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header, response},
};
use http_body::Frame;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};

use super::{
    events::{self, Event, Events, Told},
    session::Call,
    upstream::{self, Fault, drain, is_stream, read},
};

/// How long a stream may take to its first message before it is passed on as a stream.
///
/// What the server answers at once becomes an answer in JSON, which has an HTTP status of its own:
/// revision 2026-07-28 tells a missing method by that.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a stream may be taken up again without any news.
const ATTEMPTS: u8 = 5;

pub(crate) async fn of(mut call: Call, response: Response<Body>) -> Result<Response<Body>, Fault> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    if head.status.is_success() && is_stream(&head.headers) {
        return Ok(of_stream(head, Answers::new(call, body)).await);
    }
    let text = read(body).await?;
    call.end();
    if call.line().is_lost(head.status, &text) {
        call.end_session();
        return Err(Fault::Gone);
    }
    let asks_for_credentials = matches!(
        head.status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
    );
    match events::answer_as(&text, call.id()) {
        Some(text) => Ok(Response::from_parts(head, Body::from(text))),
        None if asks_for_credentials => Ok(Response::from_parts(head, Body::from(text))),
        None => Err(Fault::Odd(format!(
            "The upstream server answers with {} and no JSON-RPC message",
            head.status
        ))),
    }
}

async fn of_stream(head: response::Parts, mut answers: Answers) -> Response<Body> {
    let first = timeout(PATIENCE, async {
        loop {
            match answers.next().await {
                Some(Part::Alive) => {}
                part => return part,
            }
        }
    });
    let first = match first.await {
        Ok(Some(Part::Answer(status, text))) => return upstream::answer(status, text),
        Ok(first) => first,
        Err(_) => None,
    };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(answers.pump(first, sender));
    Response::from_parts(head, Body::new(Pumped(receiver)))
}

/// What a client gets of a stream.
enum Part {
    /// Nothing yet.
    Alive,
    /// The last message, and the HTTP status that it would have by itself.
    Answer(StatusCode, Bytes),
    Notification(Bytes),
}

impl Part {
    fn into_event(self) -> Bytes {
        let text = match self {
            Self::Alive => return Bytes::from_static(b":\n\n"),
            Self::Answer(_, text) | Self::Notification(text) => text,
        };
        // Line ends are blanks to JSON.
        let text = text
            .split(|&byte| byte == b'\n')
            .collect::<Vec<_>>()
            .join(&b' ');
        [b"event: message\ndata: ", &*text, b"\n\n"].concat().into()
    }
}

/// Reads the stream that answers a call, and takes it up again where the server leaves off.
struct Answers {
    call: Call,
    body: Body,
    events: Events,
    parts: VecDeque<Part>,
    is_over: bool,
    /// When the server has been silent for too long.
    deadline: Instant,
    last_event: Option<HeaderValue>,
    wait: Duration,
    attempts: u8,
    resuming: Option<Resuming>,
}

enum News {
    Frame(Option<Result<Frame<Bytes>, axum::Error>>),
    Resumed(Result<Body, Fault>),
}

type Resuming = Pin<Box<dyn Future<Output = Result<Body, Fault>> + Send>>;

impl Answers {
    fn new(call: Call, body: Body) -> Self {
        Self {
            deadline: Instant::now() + call.line().patience(),
            call,
            body,
            events: Events::default(),
            parts: VecDeque::new(),
            is_over: false,
            last_event: None,
            wait: Duration::from_secs(1),
            attempts: 0,
            resuming: None,
        }
    }

    /// The next part; may be dropped and called again.
    async fn next(&mut self) -> Option<Part> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Some(part);
            }
            if self.is_over {
                return None;
            }
            let news = timeout_at(self.deadline, async {
                match &mut self.resuming {
                    Some(resuming) => News::Resumed(resuming.await),
                    None => News::Frame(self.body.frame().await),
                }
            });
            match news.await {
                Ok(News::Resumed(body)) => {
                    self.resuming = None;
                    match body {
                        Ok(body) => self.body = body,
                        Err(_) => self.fail(&Fault::BrokeOff),
                    }
                }
                Ok(News::Frame(Some(Ok(frame)))) => {
                    match self.events.feed(&frame.into_data().unwrap_or_default()) {
                        Ok(events) => events.into_iter().for_each(|event| self.take(event)),
                        Err(fault) => self.fail(&fault),
                    }
                }
                Ok(News::Frame(_)) => self.resume(),
                Err(_) => self.fail(&Fault::Slow),
            }
        }
    }

    fn take(&mut self, event: Event) {
        if let Some(id) = event.id.and_then(|id| HeaderValue::from_bytes(&id).ok()) {
            self.last_event = Some(id);
            self.attempts = 0;
        }
        self.wait = event.retry.unwrap_or(self.wait);
        if !event.data.is_empty() {
            self.deadline = Instant::now() + self.call.line().patience();
        }
        match Told::read(&event.data) {
            Told::Answer { .. } => {
                let text = events::answer_as(&event.data, self.call.id());
                self.finish(StatusCode::OK, text.unwrap_or_default());
                self.call.end();
                drain(mem::take(&mut self.body));
            }
            Told::Request { method, .. } if self.call.line().is_stateless() => {
                self.finish(StatusCode::BAD_REQUEST, cannot_ask(&method, self.call.id()));
            }
            Told::Request { id, method } => {
                tokio::spawn(self.call.line().clone().refuse(id, method));
            }
            Told::Notification => self.parts.push_back(Part::Notification(event.data.into())),
            Told::Nothing => self.parts.push_back(Part::Alive),
        }
    }

    fn resume(&mut self) {
        self.events = Events::default();
        match self.last_event.clone() {
            Some(last) if self.attempts < ATTEMPTS => {
                self.attempts += 1;
                let line = self.call.line().clone();
                self.resuming = Some(Box::pin(line.resume(last, self.wait)));
            }
            _ => self.fail(&Fault::BrokeOff),
        }
    }

    fn fail(&mut self, fault: &Fault) {
        self.finish(fault.status(), fault.to_json(Some(self.call.id())));
    }

    /// The answer ends the stream.
    fn finish(&mut self, status: StatusCode, text: Bytes) {
        self.parts.push_back(Part::Answer(status, text));
        self.is_over = true;
    }

    /// Hands all parts over, until the client leaves.
    async fn pump(mut self, first: Option<Part>, client: mpsc::Sender<Bytes>) {
        let mut part = first;
        loop {
            if let Some(part) = part {
                if client.send(part.into_event()).await.is_err() {
                    return;
                }
            }
            part = tokio::select! {
                () = client.closed() => return,
                part = self.next() => part,
            };
            if part.is_none() {
                return;
            }
        }
    }
}

/// The answer to a call that needs something of the client which it cannot be asked for: without a
/// session, the server could not be told.
fn cannot_ask(method: &str, id: &[u8]) -> Bytes {
    let capability = match method {
        "elicitation/create" => "elicitation",
        "roots/list" => "roots",
        "sampling/createMessage" => "sampling",
        _ => {
            let text = format!("The upstream server asks for {method}, and cannot be answered");
            return Fault::Odd(text).to_json(Some(id));
        }
    };
    let error = json!({
        "code": -32021,
        "message": format!("The upstream server asks for {method}, which the client cannot be asked for here"),
        "data": { "requiredCapabilities": { capability: {} } },
    });
    let error = error.to_string();
    [
        &br#"{"jsonrpc":"2.0","id":"#[..],
        id,
        br#","error":"#,
        error.as_bytes(),
        b"}",
    ]
    .concat()
    .into()
}

/// A body that a task fills.
struct Pumped(mpsc::Receiver<Bytes>);

impl http_body::Body for Pumped {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|data| data.map(Frame::data).map(Ok))
    }
}
