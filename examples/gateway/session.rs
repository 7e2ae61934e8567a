//! The one session that all clients of revision 2026-07-28 share, on a server that only knows the
//! handshake.
//!
//! Two clients may well use the same id at the same time, and within one session the server would
//! mix up their answers. So every call goes under an id of the session's own. That is all that the
//! gateway changes in a body, and the answer gets the client's id back.

use std::{
    convert::Infallible,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request},
};
use http_body_util::BodyExt as _;
use mcp_layers::{DiscoverLayer, EnvelopeLayer, Message, RequestBody, ServerInfo};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{
    answer,
    events::{self, Events, Told},
    upstream::{self, Fault, Upstream, is_stream, message},
};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    line: Line,
    /// What the server answered to `initialize`.
    told: Bytes,
    server: ServerInfo,
    next_id: AtomicU64,
    /// Whether the server has ended the session, or was asked to.
    is_over: AtomicBool,
    listening: Option<AbortHandle>,
}

impl Session {
    /// Shakes hands.
    pub(crate) async fn open(upstream: Arc<Upstream>) -> Result<Self, Fault> {
        let initialize = json!({
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                // The gateway cannot be asked for anything: it has nobody to pass it on to.
                "capabilities": {},
                "clientInfo": { "name": "mcp-layers-gateway", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let (head, told) = upstream.ask(message(initialize.to_string())).await?;
        let answer = serde_json::from_slice::<Value>(&told).unwrap_or_default();
        let result = &answer["result"];
        let version = result["protocolVersion"].as_str();
        let Some(version) = version.and_then(|version| version.parse().ok()) else {
            return Err(Fault::Odd(format!(
                "The upstream server answers `initialize` with {} and no result",
                head.status()
            )));
        };
        let about = |key: &str| result["serverInfo"][key].as_str().unwrap_or("unknown");
        let mut session = Self {
            line: Line {
                upstream,
                id: head.headers().get(SESSION_ID).cloned(),
                version,
            },
            server: ServerInfo::new(about("name"), about("version")),
            told,
            next_id: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            listening: None,
        };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.line.tell(&initialized).await?;
        if session.line.id.is_some() {
            let (listens, is_listening) = oneshot::channel();
            let listening = tokio::spawn(session.line.clone().listen(listens));
            session.listening = Some(listening.abort_handle());
            let _ = timeout(Duration::from_secs(1), is_listening).await;
        }
        Ok(session)
    }

    /// Answers a message of revision 2026-07-28.
    ///
    /// The layers work alone, around anything. Here a session has two of its own, so that clients
    /// see the server's name in place of the gateway's, and learn from `server/discover` what the
    /// server said when the session began.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Fault> {
        let message = Message::get(request.extensions()).cloned();
        let message = message.ok_or(Fault::Odd("The message was not read".to_owned()))?;
        if message.method() == Some("server/discover") {
            let told = self.told.clone();
            let initialize = service_fn(move |_: Request<RequestBody<Body>>| {
                let answer = upstream::answer(StatusCode::OK, told.clone());
                ready(Ok::<_, Infallible>(answer))
            });
            let discover = DiscoverLayer::from_initialize().layer(initialize);
            return match discover.oneshot(request).await {
                Ok(answer) => Ok(answer.map(Body::new)),
                Err(never) => match never {},
            };
        }
        let envelope = EnvelopeLayer::new(self.server.clone());
        let call = service_fn(move |request: Request<RequestBody<Body>>| {
            let (head, _) = request.into_parts();
            Arc::clone(&self).call(head, message.clone())
        });
        let answer = envelope.layer(call).oneshot(request).await?;
        Ok(answer.map(Body::new))
    }

    async fn call(
        self: Arc<Self>,
        head: request::Parts,
        message: Message,
    ) -> Result<Response<Body>, Fault> {
        // What is to be told of one client's doings would be taken for those of all.
        let Some(id) = message.id() else {
            let mut accepted = Response::new(Body::empty());
            *accepted.status_mut() = StatusCode::ACCEPTED;
            return Ok(accepted);
        };
        let call = Call {
            number: self.next_id.fetch_add(1, Ordering::Relaxed),
            id: message.body().slice_ref(id),
            is_open: true,
            session: self,
        };
        let start = id.as_ptr().addr() - message.body().as_ptr().addr();
        let number = call.number.to_string();
        let body = events::replace(message.body(), start..start + id.len(), number.as_bytes());
        let line = &call.session.line;
        let mut request = line.request(Method::POST, body);
        let mut headers = head.headers;
        headers.remove(header::ACCEPT_ENCODING);
        headers.remove(header::CONTENT_LENGTH);
        for (name, value) in request.headers() {
            headers.insert(name, value.clone());
        }
        *request.headers_mut() = headers;
        let response = line.upstream.send(request).await?;
        answer::of(call, response).await
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.line.clone().close().await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
        if !*self.is_over.get_mut() {
            spawn(self.line.clone().close());
        }
    }
}

/// One request of a client, as the session knows it.
#[derive(Debug)]
pub(crate) struct Call {
    session: Arc<Session>,
    /// The id within the session.
    number: u64,
    /// The client's id, as JSON text.
    id: Bytes,
    is_open: bool,
}

impl Call {
    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    pub(crate) fn line(&self) -> &Line {
        &self.session.line
    }

    /// The server has answered.
    pub(crate) fn end(&mut self) {
        self.is_open = false;
    }

    /// The server does not know the session any more.
    pub(crate) fn end_session(&mut self) {
        self.end();
        self.session.is_over.store(true, Ordering::Relaxed);
    }
}

/// A client that leaves has cancelled. In the handshake era a connection that ends tells nothing.
impl Drop for Call {
    fn drop(&mut self) {
        if self.is_open {
            let cancelled = json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": { "requestId": self.number, "reason": "nobody waits for the answer" },
            });
            let line = self.session.line.clone();
            spawn(async move {
                let _ = line.tell(&cancelled).await;
            });
        }
    }
}

/// How the messages of a session reach the server.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    upstream: Arc<Upstream>,
    /// A server without sessions names none.
    id: Option<HeaderValue>,
    version: HeaderValue,
}

impl Line {
    pub(crate) fn is_stateless(&self) -> bool {
        self.id.is_none()
    }

    /// How long the server may be silent.
    pub(crate) fn patience(&self) -> Duration {
        self.upstream.patience()
    }

    fn request(&self, method: Method, body: impl Into<Body>) -> Request<Body> {
        let mut request = message(body);
        *request.method_mut() = method;
        let headers = request.headers_mut();
        headers.insert(PROTOCOL_VERSION, self.version.clone());
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        request
    }

    /// Sends a message that gets no answer.
    async fn tell(&self, message: &Value) -> Result<(), Fault> {
        let request = self.request(Method::POST, message.to_string());
        self.upstream.send(request).await.map(drop)
    }

    /// Answers a request of the server: nobody can be asked.
    ///
    /// Without an answer, whatever waits for it would wait for ever.
    pub(crate) async fn refuse(self, id: Value, method: String) {
        let answer = if method == "ping" {
            json!({ "jsonrpc": "2.0", "id": id, "result": {} })
        } else {
            let text = format!("The client cannot be asked for {method}");
            let error = json!({ "code": -32601, "message": text });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        let _ = self.tell(&answer).await;
    }

    /// Opens a stream of the server's own messages.
    async fn open(&self, last_event: Option<HeaderValue>) -> Result<Body, Fault> {
        let mut request = self.request(Method::GET, Body::empty());
        let headers = request.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        if let Some(last_event) = last_event {
            headers.insert(LAST_EVENT_ID, last_event);
        }
        let response = self.upstream.send(request).await?;
        if response.status().is_success() && is_stream(response.headers()) {
            Ok(response.into_body())
        } else {
            Err(Fault::Gone)
        }
    }

    /// Takes a stream up again that the server has left off.
    pub(crate) async fn resume(self, last: HeaderValue, wait: Duration) -> Result<Body, Fault> {
        sleep(wait).await;
        self.open(Some(last)).await
    }

    /// Refuses what the server asks for outside of any call, as long as the session lasts.
    async fn listen(self, listens: oneshot::Sender<()>) {
        const LONGEST: Duration = Duration::from_secs(30);
        let (mut listens, mut wait) = (Some(listens), Duration::from_millis(100));
        loop {
            match self.open(None).await {
                // Servers need not have such a stream.
                Err(Fault::Gone) => return,
                Err(_) => wait = LONGEST.min(wait * 2),
                Ok(mut body) => {
                    drop(listens.take());
                    let mut events = Events::default();
                    while let Some(Ok(frame)) = body.frame().await {
                        let data = frame.into_data().unwrap_or_default();
                        for event in events.feed(&data).unwrap_or_default() {
                            if let Told::Request { id, method } = Told::read(&event.data) {
                                self.clone().refuse(id, method).await;
                            }
                        }
                    }
                }
            }
            sleep(wait).await;
        }
    }

    /// Whether the server refuses a call because it does not know the session (any more), or is
    /// by now a server of another kind.
    pub(crate) fn is_lost(&self, status: StatusCode, text: &[u8]) -> bool {
        let text = || String::from_utf8_lossy(text).to_lowercase();
        match status {
            StatusCode::NOT_FOUND if self.id.is_some() => true,
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => {
                let signs = ["session", "not initialized", "-32020", "-32022"];
                let text = text();
                signs.into_iter().any(|sign| text.contains(sign))
            }
            _ => false,
        }
    }

    async fn close(self) {
        if self.id.is_some() {
            let request = self.request(Method::DELETE, Body::empty());
            let _ = self.upstream.send(request).await;
        }
    }
}

/// Goes on when whoever asked for it is gone.
fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(future);
    }
}
