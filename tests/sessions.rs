//! A server with sessions of the handshake era works through the layers as if they were not there:
//! streams in both directions, frame by frame, and everything that hangs on a session.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

mod support;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use mcp_layers::{
    DiscoverLayer, EnvelopeLayer, EraResolverLayer, LearnedTools, McpLayer,
    MirrorHeaderValidatorLayer, OriginGuardLayer, ServerInfo,
};
use serde_json::{Value, json};
use support::{Chunks, post};
use tokio::sync::{mpsc, oneshot};
use tower::{Layer, Service, ServiceBuilder, service_fn};

/// How long a frame may take that comes at once; only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A body whose frames are sent one by one.
#[derive(Debug)]
struct Stream(mpsc::UnboundedReceiver<Bytes>);

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.0.poll_recv(cx);
        data.map(|data| data.map(Frame::data).map(Ok))
    }
}

/// Sends events with ids of their own, and keeps them for those who come back.
#[derive(Debug, Default)]
struct Log {
    events: Vec<Bytes>,
    listener: Option<mpsc::UnboundedSender<Bytes>>,
}

impl Log {
    fn send(&mut self, name: &str, message: &Value) {
        let id = self.events.len();
        let event: Bytes = format!("id: {name}-{id}\nevent: message\ndata: {message}\n\n").into();
        self.events.push(event.clone());
        if let Some(listener) = &self.listener {
            let _ = listener.send(event);
        }
    }

    /// A stream of what comes after so many events.
    fn listen(&mut self, after: usize) -> Stream {
        let (listener, stream) = mpsc::unbounded_channel();
        for event in &self.events[after..] {
            listener.send(event.clone()).unwrap();
        }
        self.listener = Some(listener);
        Stream(stream)
    }
}

/// What a server keeps of one client.
#[derive(Debug, Default)]
struct Session {
    /// The streams by name: `own` for the server's own messages, else that of a call.
    logs: HashMap<String, Log>,
    /// Who waits for answers of the client, by the id of the question.
    questions: HashMap<String, oneshot::Sender<Value>>,
}

type Sessions = Arc<Mutex<HashMap<String, Session>>>;

fn full(status: u16, text: impl Into<Bytes>) -> Response<Stream> {
    let (sender, stream) = mpsc::unbounded_channel();
    let text = text.into();
    let mut response = Response::builder().status(status);
    if !text.is_empty() {
        response = response.header("content-type", "application/json");
        sender.send(text).unwrap();
    }
    response.body(Stream(stream)).unwrap()
}

fn events(stream: Stream) -> Response<Stream> {
    Response::builder()
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-cache")
        .body(stream)
        .unwrap()
}

/// The server: as the specification of 2025-11-25 describes one, with all it may do.
async fn serve<B>(sessions: Sessions, request: Request<B>) -> Response<Stream>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap());

    if message["method"] == "initialize" {
        let mut sessions = sessions.lock().unwrap();
        let id = format!("session-{}", sessions.len());
        sessions.insert(id.clone(), Session::default());
        let result = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "sessions", "version": "1" },
        });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let mut answer = full(200, answer.to_string());
        let headers = answer.headers_mut();
        headers.insert("mcp-session-id", id.parse().unwrap());
        return answer;
    }
    let Some(id) = header("mcp-session-id") else {
        return full(
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no session"}}"#,
        );
    };
    let mut all = sessions.lock().unwrap();
    let Some(session) = all.get_mut(id) else {
        return full(404, "");
    };
    match head.method {
        Method::DELETE => {
            all.remove(id);
            full(204, "")
        }
        Method::GET => {
            let (name, after) = match header("last-event-id") {
                Some(last) => {
                    let (name, index) = last.rsplit_once('-').unwrap();
                    (name, index.parse::<usize>().unwrap() + 1)
                }
                None => ("own", 0),
            };
            let log = session.logs.entry(name.to_owned()).or_default();
            events(log.listen(after))
        }
        _ if message.get("method").is_none() => {
            let question = session.questions.remove(message["id"].as_str().unwrap());
            question.unwrap().send(message["result"].clone()).unwrap();
            full(202, "")
        }
        _ if message.get("id").is_none() => full(202, ""),
        _ => {
            let name = message["id"].to_string();
            let log = session.logs.entry(name.clone()).or_default();
            let stream = log.listen(0);
            let (asked, answered) = oneshot::channel();
            session.questions.insert(format!("q-{name}"), asked);
            let (id, sessions) = (id.to_owned(), Arc::clone(&sessions));
            tokio::spawn(async move {
                let send = |message: &Value| {
                    let mut sessions = sessions.lock().unwrap();
                    let log = sessions.get_mut(&id).unwrap().logs.get_mut(&name);
                    log.unwrap().send(&name, message);
                };
                let leave_off = || {
                    let mut sessions = sessions.lock().unwrap();
                    let log = sessions.get_mut(&id).unwrap().logs.get_mut(&name);
                    log.unwrap().listener = None;
                };
                send(
                    &json!({ "jsonrpc": "2.0", "id": format!("q-{name}"), "method": "roots/list" }),
                );
                if message["params"]["name"] == "leaves_off" {
                    leave_off();
                }
                let answer = answered.await.unwrap();
                send(
                    &json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "thanks" } }),
                );
                send(
                    &json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": [], "roots": answer } }),
                );
                leave_off();
                let mut sessions = sessions.lock().unwrap();
                let own = sessions.get_mut(&id).unwrap().logs.entry("own".to_owned());
                own.or_default().send(
                    "own",
                    &json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
                );
            });
            events(stream)
        }
    }
}

/// All that a client is told, in its order.
#[derive(Debug, Default, PartialEq)]
struct Told(Vec<String>);

/// A client that writes everything down.
struct Client<S> {
    service: S,
    told: Told,
    session: Option<String>,
    /// Whether answers say that they vary by the origin.
    varies: bool,
}

impl<S, B> Client<S>
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes, Error = Infallible>,
{
    async fn send(
        &mut self,
        method: Method,
        body: &Value,
        last_event: Option<&str>,
    ) -> Pin<Box<B>> {
        let mut request = post(if body.is_null() {
            String::new()
        } else {
            body.to_string()
        });
        *request.method_mut() = method;
        let headers = request.headers_mut();
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
            headers.insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        }
        if let Some(last) = last_event {
            headers.insert("last-event-id", last.parse().unwrap());
        }
        poll_fn(|cx| self.service.poll_ready(cx)).await.unwrap();
        let (mut head, body) = self.service.call(request).await.unwrap().into_parts();
        // rule O7
        assert_eq!(head.headers.remove("vary").is_some(), self.varies);
        self.told
            .0
            .push(format!("{} {:?}", head.status, head.headers));
        if let Some(session) = head.headers.get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        Box::pin(body)
    }

    async fn post(&mut self, body: Value) -> Pin<Box<B>> {
        self.send(Method::POST, &body, None).await
    }

    async fn get(&mut self, last_event: Option<&str>) -> Pin<Box<B>> {
        self.send(Method::GET, &Value::Null, last_event).await
    }

    /// Reads one frame, which has to be there without any further doing.
    async fn frame(&mut self, body: &mut Pin<Box<B>>) {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("no frame after {:?}", self.told));
        self.told.0.push(match frame {
            None => "end".to_owned(),
            Some(Ok(frame)) => format!("{:?}", frame.into_data().unwrap()),
            Some(Err(never)) => match never {},
        });
    }

    async fn end(&mut self, mut body: Pin<Box<B>>) {
        loop {
            self.frame(&mut body).await;
            if self.told.0.last().is_some_and(|last| last == "end") {
                return;
            }
        }
    }
}

fn call(id: u8, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {} });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn answer(question: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": question, "result": { "roots": [] } })
}

/// A whole life of a session.
async fn live<S, B>(service: S, varies: bool) -> Told
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes, Error = Infallible>,
{
    let mut client = Client {
        service,
        told: Told::default(),
        session: None,
        varies,
    };

    let body = client.post(call(0, "too_early")).await;
    client.end(body).await;
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} }, "clientInfo": { "name": "c", "version": "1" } });
    let body = client
        .post(json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params }))
        .await;
    client.end(body).await;
    let body = client
        .post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    client.end(body).await;

    // The server's own stream is open all the while, and a call asks the client before it answers.
    let mut own = client.get(None).await;
    let mut stream = client.post(call(1, "asks")).await;
    client.frame(&mut stream).await;
    let body = client.post(answer("q-1")).await;
    client.end(body).await;
    client.end(stream).await;
    client.frame(&mut own).await;

    // A call whose stream the server leaves off is taken up where it ended.
    let mut stream = client.post(call(2, "leaves_off")).await;
    client.frame(&mut stream).await;
    client.end(stream).await;
    let body = client.post(answer("q-2")).await;
    client.end(body).await;
    client.frame(&mut own).await;
    let mut stream = client.get(Some("2-0")).await;
    client.frame(&mut stream).await;
    client.frame(&mut stream).await;
    drop(stream);

    // So is the server's own.
    drop(own);
    let mut own = client.get(Some("own-0")).await;
    client.frame(&mut own).await;

    let body = client.send(Method::DELETE, &Value::Null, None).await;
    client.end(body).await;
    client.end(own).await;
    let body = client.post(call(3, "too_late")).await;
    client.end(body).await;
    client.told
}

fn server<B>()
-> impl Service<Request<B>, Response = Response<Stream>, Error = Infallible, Future: Send> + Clone
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    let sessions = Sessions::default();
    service_fn(move |request| {
        let sessions = Arc::clone(&sessions);
        async move { Ok(serve(sessions, request).await) }
    })
}

#[tokio::test]
async fn the_server_of_these_tests_does_what_they_are_about() {
    let Told(told) = live(server(), false).await;
    let told = told.join("\n");
    for sign in [
        StatusCode::BAD_REQUEST.as_str(),
        r#""mcp-session-id": "session-0""#,
        StatusCode::ACCEPTED.as_str(),
        r#"\"id\":\"q-1\",\"jsonrpc\":\"2.0\",\"method\":\"roots/list\""#,
        r#"id: 1-2\nevent: message\ndata: {\"id\":1,"#,
        "id: own-0",
        r#"id: 2-2\nevent: message\ndata: {\"id\":2,"#,
        "id: own-1",
        StatusCode::NO_CONTENT.as_str(),
        StatusCode::NOT_FOUND.as_str(),
    ] {
        assert!(told.contains(sign), "{sign} in {told}");
    }
    assert_eq!(told.matches("own-1").count(), 2, "{told}");
}

macro_rules! same_as_bare {
    ($($name:literal $($varies:ident)?: $layer:expr;)*) => {$(
        let varies = !stringify!($($varies)?).is_empty();
        let layered = live(Layer::layer(&$layer, server()), varies).await;
        assert_eq!(layered, live(server(), false).await, "{}", $name);
    )*};
}

// rule E7
#[tokio::test]
async fn a_session_lives_through_each_layer_as_without() {
    let info = || ServerInfo::new("test", "1");
    let eras = || EraResolverLayer::new().legacy_streams(true);
    same_as_bare! {
        "OriginGuard" varies: OriginGuardLayer::new();
        "EraResolver": eras();
        "MirrorHeaderValidator": ServiceBuilder::new()
            .layer(eras())
            .layer(MirrorHeaderValidatorLayer::new().tool_schemas(LearnedTools::new()));
        "Envelope": EnvelopeLayer::new(info());
        "Discover": DiscoverLayer::from_initialize().present_as("2025-11-25").unwrap();
        "McpLayer" varies: McpLayer::new(info()).legacy_streams(true);
        "McpLayer with everything" varies: McpLayer::new(info())
            .legacy_streams(true)
            .tool_schemas(LearnedTools::new())
            .discover(DiscoverLayer::from_initialize().present_as("2025-06-18").unwrap());
        "the row" varies: ServiceBuilder::new()
            .layer(OriginGuardLayer::new())
            .layer(eras())
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EnvelopeLayer::new(info()))
            .layer(DiscoverLayer::from_initialize());
    }
}
