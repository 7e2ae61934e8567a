//! The gateway in front of servers that misbehave on cue.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, handler::Handler};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use mcp_layers::{McpLayer, ServerInfo};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};
use tower::{Layer, ServiceExt};

use self::gateway::{
    proxy::{Gateway, handle},
    upstream::Upstream,
};

mod support;

#[path = "../examples/gateway"]
mod gateway {
    pub(crate) mod answer;
    pub(crate) mod events;
    pub(crate) mod proxy;
    pub(crate) mod session;
    pub(crate) mod upstream;
}

/// A request that reached the upstream server.
#[derive(Clone, Debug)]
struct Seen {
    method: Method,
    headers: HeaderMap,
    text: String,
    body: Value,
}

impl Seen {
    /// What to call it: the JSON-RPC method, or that of HTTP.
    fn name(&self) -> String {
        match self.body["method"].as_str() {
            Some(method) => method.to_owned(),
            None if self.method == Method::POST => "an answer".to_owned(),
            None => self.method.to_string(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

type Log = Arc<Mutex<Vec<Seen>>>;

fn names(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(Seen::name).collect()
}

fn count(log: &Log, name: &str) -> usize {
    names(log).iter().filter(|it| *it == name).count()
}

/// Waits until something has happened that happens soon.
async fn until(mut happened: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if happened() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen");
}

/// Serves what `answer` answers, and writes down what was asked.
async fn upstream<F>(
    answer: impl Fn(Seen) -> F + Clone + Send + Sync + 'static,
) -> (SocketAddr, Log)
where
    F: Future<Output = Response<Body>> + Send,
{
    let log = Log::default();
    let seen = Arc::clone(&log);
    let serve = move |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let request = Seen {
            method: head.method,
            headers: head.headers,
            body: serde_json::from_slice(&text).unwrap_or_default(),
            text: String::from_utf8(text.to_vec()).unwrap(),
        };
        seen.lock().unwrap().push(request.clone());
        answer(request).await
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/up", axum::routing::any(serve));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, log)
}

/// What a server with sessions of the handshake era says to everything but calls.
fn handshake(seen: &Seen) -> Option<Response<Body>> {
    let result = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": { "listChanged": true }, "logging": {} },
        "serverInfo": { "name": "up", "version": "7" },
    });
    Some(match &*seen.name() {
        "server/discover" => status(400),
        "initialize" => {
            let answer = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result });
            let mut answer = json_answer(&answer);
            let session = "session-1".parse().unwrap();
            answer.headers_mut().insert("mcp-session-id", session);
            answer
        }
        "GET" => status(405),
        "DELETE" => status(204),
        "an answer" => status(202),
        name if name.starts_with("notifications/") => status(202),
        _ => return None,
    })
}

fn status(status: u16) -> Response<Body> {
    let response = Response::builder().status(status);
    response.body(Body::empty()).unwrap()
}

fn json_answer(answer: &Value) -> Response<Body> {
    let response = Response::builder().header("content-type", "application/json");
    response.body(Body::from(answer.to_string())).unwrap()
}

/// An empty result for the request.
fn result(seen: &Seen) -> Value {
    json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": {} })
}

/// A stream of events that are sent one by one.
fn stream() -> (mpsc::Sender<Bytes>, Response<Body>) {
    let (sender, receiver) = mpsc::channel(8);
    let response = Response::builder().header("content-type", "text/event-stream");
    (sender, response.body(Body::new(Sent(receiver))).unwrap())
}

struct Sent(mpsc::Receiver<Bytes>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        // An empty piece stands for a failure.
        self.0.poll_recv(cx).map(|data| match data {
            Some(data) if data.is_empty() => Some(Err(std::io::Error::other("broken"))),
            data => data.map(Frame::data).map(Ok),
        })
    }
}

fn event(message: &Value) -> Bytes {
    format!("data: {message}\n\n").into()
}

/// The gateway as the example puts it together.
struct Front {
    gateway: Gateway,
}

impl Front {
    fn of(address: SocketAddr, timeout: Duration) -> Self {
        let uri = format!("http://{address}/up").parse().unwrap();
        Self {
            gateway: Gateway::new(Upstream::new(uri, timeout)),
        }
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        let mcp = McpLayer::new(ServerInfo::new("gateway", "1")).legacy_streams(true);
        let service = mcp.layer(handle.with_state(self.gateway.clone()));
        service.oneshot(request).await.unwrap().map(Body::new)
    }

    /// Sends a request and reads the whole answer.
    async fn ask(&self, request: Request<Body>) -> (StatusCode, String) {
        let (head, body) = self.send(request).await.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        (head.status, String::from_utf8(text.to_vec()).unwrap())
    }

    async fn ask_json(&self, request: Request<Body>) -> (StatusCode, Value) {
        let (status, text) = self.ask(request).await;
        (
            status,
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")),
        )
    }
}

const SOON: Duration = Duration::from_millis(300);
const LATE: Duration = Duration::from_secs(60);

fn call(id: &str) -> Request<Body> {
    let body = support::modern_body("tools/call", r#""name":"get_weather","arguments":{}"#);
    let body = body.replace(r#""id":1"#, &format!(r#""id":{id}"#));
    let mut request = support::modern("tools/call", body).map(Body::new);
    let headers = request.headers_mut();
    headers.insert("mcp-name", "get_weather".parse().unwrap());
    request
}

fn discover() -> Request<Body> {
    support::modern(
        "server/discover",
        support::modern_body("server/discover", ""),
    )
    .map(Body::new)
}

fn legacy(body: &'static str) -> Request<Body> {
    support::post(body).map(Body::new)
}

#[tokio::test]
async fn all_modern_clients_share_one_session_under_ids_of_its_own() {
    let (address, log) = upstream(|seen| async move {
        if seen.name() == "initialize" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        handshake(&seen).unwrap_or_else(|| json_answer(&result(&seen)))
    })
    .await;
    let front = Arc::new(Front::of(address, LATE));
    let ids = [
        "1",
        "1",
        r#""one""#,
        r#""\u00e9\/""#,
        "18446744073709551616",
        "-1",
        "1",
    ];
    let mut calls = Vec::new();
    for id in ids {
        let front = Arc::clone(&front);
        let mut request = call(id);
        let headers = request.headers_mut();
        headers.insert("authorization", "Bearer secret".parse().unwrap());
        headers.append("x-many", "1".parse().unwrap());
        headers.append("x-many", "2".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        calls.push(tokio::spawn(async move { front.ask(request).await }));
    }
    for (id, call) in ids.into_iter().zip(calls) {
        let (status, text) = call.await.unwrap();
        assert_eq!(status, 200);
        assert!(text.contains(&format!(r#""id":{id},"#)), "{id} in {text}");
        assert!(
            text.contains(r#"serverInfo":{"name":"up","version":"7"}"#),
            "{text}"
        );
    }
    for once in ["server/discover", "initialize", "notifications/initialized"] {
        assert_eq!(count(&log, once), 1, "{once}");
    }
    let log = log.lock().unwrap();
    let mut seen_ids = Vec::new();
    for seen in log.iter() {
        let is_call = seen.name() == "tools/call";
        assert_eq!(
            seen.header("authorization").is_some(),
            is_call,
            "{}",
            seen.name()
        );
        if is_call {
            assert_eq!(seen.header("mcp-session-id"), Some("session-1"));
            assert_eq!(seen.header("mcp-protocol-version"), Some("2025-06-18"));
            assert_eq!(seen.headers.get_all("x-many").iter().count(), 2);
            assert_eq!(
                seen.header("accept"),
                Some("application/json, text/event-stream")
            );
            let number = seen.body["id"].to_string();
            let restored = seen
                .text
                .replacen(&format!(r#""id":{number},"#), r#""id":1,"#, 1);
            let sent = support::modern_body("tools/call", r#""name":"get_weather","arguments":{}"#);
            assert_eq!(restored, sent, "nothing else was changed");
            seen_ids.push(number);
        }
    }
    seen_ids.sort();
    seen_ids.dedup();
    assert_eq!(seen_ids.len(), ids.len());
}

// rule D2
#[tokio::test]
async fn a_discovery_tells_what_the_upstream_said_and_asks_it_nothing_more() {
    let (address, log) =
        upstream(|seen| async move { handshake(&seen).unwrap_or_else(|| status(500)) }).await;
    let front = Front::of(address, LATE);
    for _ in 0..2 {
        let (status, answer) = front.ask_json(discover()).await;
        assert_eq!((status.as_u16(), &answer["id"]), (200, &json!(1)));
        let result = &answer["result"];
        assert_eq!(result["capabilities"], json!({ "tools": {} }));
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "up");
        assert_eq!(result["resultType"], "complete");
    }
    assert_eq!(count(&log, "initialize"), 1);
}

type Answer = fn() -> Response<Body>;

#[tokio::test]
async fn a_session_that_is_gone_is_opened_again_once() {
    let gone: [(&str, Answer); 4] = [
        ("404", || status(404)),
        ("400 that names the session", || {
            let mut refusal = json_answer(
                &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "No valid Session ID" } }),
            );
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal
        }),
        ("400 of a server that has started anew", || {
            let mut refusal = Response::new(Body::from("Bad Request: Server not initialized"));
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal
        }),
        ("400 of a modern server", || {
            let mut refusal = json_answer(&json!({ "error": { "code": -32020, "message": "x" } }));
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal
        }),
    ];
    for (what, gone) in gone {
        for times in [1, 2] {
            let calls = Arc::new(AtomicUsize::new(0));
            let (address, log) = upstream(move |seen| {
                let calls = Arc::clone(&calls);
                async move {
                    handshake(&seen).unwrap_or_else(|| {
                        if calls.fetch_add(1, Ordering::SeqCst) < times {
                            gone()
                        } else {
                            json_answer(&result(&seen))
                        }
                    })
                }
            })
            .await;
            let front = Front::of(address, LATE);
            let (status, answer) = front.ask_json(call("5")).await;
            assert_eq!(answer["id"], 5, "{what}");
            assert_eq!(
                status,
                if times == 1 { 200 } else { 502 },
                "{what} {answer}"
            );
            assert_eq!(count(&log, "tools/call"), 2, "{what}");
            assert_eq!(count(&log, "initialize"), 2, "{what}");
            let (status, _) = front.ask(call("6")).await;
            assert_eq!(status, 200, "{what}, next");
            assert_eq!(
                count(&log, "DELETE"),
                0,
                "{what}: there is nothing to close"
            );
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_found_when_it_is_back() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let front = Front::of(address, LATE);
    for (request, id) in [
        (call("\"a\""), Some(json!("a"))),
        (
            legacy(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#),
            Some(json!(3)),
        ),
        (
            legacy(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
            None,
        ),
    ] {
        let (status, answer) = front.ask_json(request).await;
        assert_eq!(status, 502);
        assert_eq!(
            (answer["error"]["code"].as_i64(), answer.get("id")),
            (Some(-32603), id.as_ref())
        );
    }
    let listener = TcpListener::bind(address).await.unwrap();
    let app = Router::new().route(
        "/up",
        axum::routing::any(|body: Bytes| async move {
            let body = serde_json::from_slice::<Value>(&body).unwrap_or_default();
            let method = body["method"].as_str().unwrap_or_default();
            let result = match method {
                "server/discover" => return status(404),
                "initialize" => {
                    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} })
                }
                _ => json!({}),
            };
            json_answer(&json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }))
        }),
    );
    tokio::spawn(async move { axum::serve(listener, app).await });
    assert_eq!(front.ask(call("1")).await.0, 200);
}

#[tokio::test]
async fn an_upstream_that_is_slow_is_told_that_nobody_waits() {
    let (address, log) = upstream(|seen| async move {
        match handshake(&seen) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    })
    .await;
    let front = Front::of(address, SOON);
    let (status, answer) = front.ask_json(call("4")).await;
    assert_eq!((status.as_u16(), &answer["id"]), (504, &json!(4)));
    until(|| count(&log, "notifications/cancelled") == 1).await;
    let find = |name: &str| {
        let log = log.lock().unwrap();
        log.iter().find(|seen| seen.name() == name).unwrap().clone()
    };
    let cancelled = find("notifications/cancelled");
    assert_eq!(
        cancelled.body["params"]["requestId"],
        find("tools/call").body["id"]
    );
    assert_eq!(cancelled.header("mcp-session-id"), Some("session-1"));
    let list = legacy(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#);
    let (status, answer) = front.ask_json(list).await;
    assert_eq!((status.as_u16(), &answer["id"]), (504, &json!(9)));
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_in_an_error() {
    const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
    let cases: [(&str, &str, Vec<Bytes>, u16); 6] = [
        (
            "JSON that fails",
            "application/json",
            vec!["{".into(), "".into()],
            502,
        ),
        ("JSON that ends", "application/json", vec!["{".into()], 502),
        ("what is no JSON", "text/html", vec!["<html>".into()], 502),
        (
            "a stream that fails",
            "text/event-stream",
            vec![": hi\n\n".into(), "".into()],
            502,
        ),
        ("a stream that ends", "text/event-stream", vec![], 502),
        (
            "a stream that ends on its way",
            "text/event-stream",
            vec![format!("data: {PROGRESS}\r\n\r\n").into()],
            200,
        ),
    ];
    for (what, kind, pieces, expected) in cases {
        let (address, _) = upstream(move |seen| {
            let pieces = pieces.clone();
            async move {
                if let Some(answer) = handshake(&seen) {
                    return answer;
                }
                let (sender, mut answer) = stream();
                answer
                    .headers_mut()
                    .insert("content-type", kind.parse().unwrap());
                for piece in pieces {
                    sender.send(piece).await.unwrap();
                }
                answer
            }
        })
        .await;
        let (status, text) = Front::of(address, LATE).ask(call("8")).await;
        assert_eq!(status, expected, "{what}: {text}");
        let last = text.lines().rfind(|line| line.contains('{')).unwrap();
        let answer: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(8), &json!(-32603)),
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_the_upstream_leaves_off_is_taken_up() {
    let (address, log) = upstream(|seen| async move {
        match (&*seen.name(), seen.header("last-event-id")) {
            ("GET", Some("e-2")) => {
                let (sender, answer) = stream();
                let text = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
                sender
                    .send(format!("id: e-3\ndata: {text}\n\n").into())
                    .await
                    .unwrap();
                answer
            }
            ("tools/call", _) => {
                let (sender, answer) = stream();
                let text = "id: e-1\ndata:\n\nretry: 10\nid: e-2\ndata:\n\n";
                sender.send(text.into()).await.unwrap();
                answer
            }
            _ => handshake(&seen).unwrap(),
        }
    })
    .await;
    let (status, answer) = Front::of(address, LATE).ask_json(call("\"r\"")).await;
    assert_eq!((status.as_u16(), &answer["id"]), (200, &json!("r")));
    assert_eq!(answer["result"]["resultType"], "complete");
    let log = log.lock().unwrap();
    let taken_up = log
        .iter()
        .find(|seen| seen.header("last-event-id").is_some());
    assert_eq!(
        taken_up.unwrap().header("mcp-session-id"),
        Some("session-1")
    );
}

#[tokio::test]
async fn what_the_upstream_asks_is_refused_at_once_on_every_stream() {
    let (own, own_stream) = mpsc::channel(8);
    let own_stream = Arc::new(Mutex::new(Some(own_stream)));
    let (address, log) = upstream(move |seen| {
        let own_stream = Arc::clone(&own_stream);
        async move {
            match &*seen.name() {
                "GET" => {
                    let Some(receiver) = own_stream.lock().unwrap().take() else {
                        return status(405);
                    };
                    let (_, answer) = stream();
                    answer.map(|_| Body::new(Sent(receiver)))
                }
                "tools/call" => {
                    let (sender, answer) = stream();
                    let ask = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {} });
                    sender.send(event(&ask)).await.unwrap();
                    sender.send(event(&result(&seen))).await.unwrap();
                    answer
                }
                _ => handshake(&seen).unwrap(),
            }
        }
    })
    .await;
    let front = Front::of(address, LATE);
    let (status, answer) = front.ask_json(call("1")).await;
    assert_eq!(status, 200, "{answer}");
    for (id, method) in [(7, "ping"), (8, "roots/list")] {
        let ask = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        own.send(event(&ask)).await.unwrap();
    }
    until(|| count(&log, "an answer") == 3).await;
    let log = log.lock().unwrap();
    let answers = log.iter().filter(|seen| seen.name() == "an answer");
    let mut answers = answers
        .map(|seen| (seen.body["id"].clone(), seen.body["error"]["code"].clone()))
        .collect::<Vec<_>>();
    answers.sort_by_key(|(id, _)| id.to_string());
    let refused = json!(-32601);
    assert_eq!(
        answers,
        [
            (json!("q"), refused.clone()),
            (json!(7), Value::Null),
            (json!(8), refused)
        ]
    );
}

#[tokio::test]
async fn a_client_that_leaves_cancels() {
    let (left, mut has_left) = mpsc::channel(8);
    let (address, log) = upstream(move |seen| {
        let left = left.clone();
        async move {
            match (&*seen.name(), seen.header("x-kind")) {
                ("tools/call", _) | ("GET", Some("legacy")) => {
                    let (sender, answer) = stream();
                    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
                    sender.send(event(&progress)).await.unwrap();
                    tokio::spawn(async move {
                        sender.closed().await;
                        left.send(seen.name()).await.unwrap();
                    });
                    answer
                }
                _ => handshake(&seen).unwrap(),
            }
        }
    })
    .await;
    let front = Front::of(address, LATE);

    let mut answer = front.send(call("1")).await;
    let first = answer
        .body_mut()
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    assert!(first.starts_with(b"event: message\ndata: {"), "{first:?}");
    assert_eq!(count(&log, "notifications/cancelled"), 0);
    drop(answer);
    assert_eq!(has_left.recv().await.unwrap(), "tools/call");
    until(|| count(&log, "notifications/cancelled") == 1).await;

    let request = Request::get("/mcp")
        .header("host", "localhost")
        .header("x-kind", "legacy");
    let mut answer = front.send(request.body(Body::empty()).unwrap()).await;
    assert!(answer.body_mut().frame().await.unwrap().unwrap().is_data());
    drop(answer);
    assert_eq!(has_left.recv().await.unwrap(), "GET");
    assert_eq!(
        count(&log, "notifications/cancelled"),
        1,
        "sessions of clients are their own"
    );
}

#[tokio::test]
async fn a_handshake_client_passes_straight_through() {
    const TEXT: &str = "{ \"jsonrpc\":\"2.0\", \"id\" : 1.0,\"method\":\"tools/list\" }";
    let (address, log) = upstream(|seen| async move {
        let response = Response::builder()
            .status(299)
            .header("content-type", "application/json")
            .header("mcp-session-id", "theirs")
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("proxy-authenticate", "Basic")
            .header("x-end", "to end");
        response
            .body(Body::from(format!("{} \n", seen.text)))
            .unwrap()
    })
    .await;
    let front = Front::of(address, LATE);
    let mut request = legacy(TEXT);
    *request.uri_mut() = "/mcp?a=b".parse().unwrap();
    let headers = request.headers_mut();
    for (name, value) in [
        ("connection", "x-hop, close"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("proxy-authorization", "Basic x"),
        ("proxy-x", "1"),
        ("origin", "http://127.0.0.1:8000"),
        ("mcp-session-id", "mine"),
        ("mcp-protocol-version", "2025-11-25"),
        ("authorization", "Bearer b"),
        ("x-end", "to end"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let (head, body) = front.send(request).await.into_parts();
    assert_eq!(head.status.as_u16(), 299);
    assert_eq!(
        body.collect().await.unwrap().to_bytes(),
        format!("{TEXT} \n")
    );
    for (name, expected) in [
        ("mcp-session-id", Some("theirs")),
        ("x-end", Some("to end")),
        ("x-hop", None),
        ("connection", None),
        ("keep-alive", None),
        ("proxy-authenticate", None),
    ] {
        let value = head.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(value, expected, "{name}");
    }
    let log = log.lock().unwrap();
    let [seen] = &log[..] else { panic!("{log:?}") };
    assert_eq!(seen.text, TEXT);
    let mut names = seen
        .headers
        .keys()
        .map(http::HeaderName::as_str)
        .collect::<Vec<_>>();
    names.sort_unstable();
    let expected = [
        "accept",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "mcp-protocol-version",
        "mcp-session-id",
        "x-end",
    ];
    assert_eq!(names, expected);
    assert_eq!(seen.header("host"), Some(&*address.to_string()));
    assert_eq!(seen.header("mcp-session-id"), Some("mine"));
}

#[tokio::test]
async fn a_modern_upstream_is_found_out_once_and_again_when_it_changes() {
    let is_modern = Arc::new(AtomicUsize::new(1));
    let kind = Arc::clone(&is_modern);
    let (address, log) = upstream(move |seen| {
        let is_modern = kind.load(Ordering::SeqCst) == 1;
        async move {
            if !is_modern {
                if seen.header("mcp-protocol-version") == Some("2026-07-28") {
                    return status(400);
                }
                return handshake(&seen).unwrap_or_else(|| json_answer(&result(&seen)));
            }
            let result = match &*seen.name() {
                "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete" }),
                _ => json!({ "resultType": "complete", "own": seen.header("mcp-protocol-version") }),
            };
            json_answer(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result }))
        }
    })
    .await;
    let front = Front::of(address, LATE);
    for _ in 0..2 {
        let (_, answer) = front.ask_json(call("77")).await;
        assert_eq!(
            (&answer["id"], &answer["result"]["own"]),
            (&json!(77), &json!("2026-07-28"))
        );
    }
    assert_eq!(names(&log), ["server/discover", "tools/call", "tools/call"]);
    is_modern.store(0, Ordering::SeqCst);
    let (status, answer) = front.ask_json(call("78")).await;
    assert_eq!(
        (status.as_u16(), &answer["id"]),
        (200, &json!(78)),
        "{answer}"
    );
    assert_eq!(answer["result"].get("own"), None);
    assert_eq!(count(&log, "initialize"), 1);
}

#[tokio::test]
async fn an_upstream_that_asks_for_credentials_asks_the_client() {
    let (address, log) = upstream(|_| async {
        let response = Response::builder()
            .status(401)
            .header("www-authenticate", "Bearer x");
        response.body(Body::empty()).unwrap()
    })
    .await;
    let answer = Front::of(address, LATE).send(call("1")).await;
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer x");
    assert_eq!(count(&log, "initialize"), 0);
}

#[tokio::test]
async fn a_notification_stays_in_the_gateway_and_the_session_ends_with_it() {
    let (address, log) =
        upstream(
            |seen| async move { handshake(&seen).unwrap_or_else(|| json_answer(&result(&seen))) },
        )
        .await;
    let front = Front::of(address, LATE);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let request = support::modern("notifications/cancelled", cancel).map(Body::new);
    let (status, text) = front.ask(request).await;
    assert_eq!((status.as_u16(), &*text), (202, ""));
    assert_eq!(count(&log, "notifications/cancelled"), 0);
    front.gateway.close().await;
    assert_eq!(count(&log, "DELETE"), 1);
    drop(front);
    assert_eq!(count(&log, "DELETE"), 1);
}

#[tokio::test]
async fn a_stateless_upstream_that_asks_ends_the_call_by_the_missing_capability() {
    let (address, _) = upstream(|seen| async move {
        if seen.name() == "tools/call" {
            let (sender, answer) = stream();
            let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage" });
            sender.send(event(&ask)).await.unwrap();
            tokio::spawn(async move { sender.closed().await });
            return answer;
        }
        let mut answer = handshake(&seen).unwrap();
        answer.headers_mut().remove("mcp-session-id");
        answer
    })
    .await;
    let (status, answer) = Front::of(address, LATE).ask_json(call("1")).await;
    assert_eq!(
        (status.as_u16(), &answer["error"]["code"]),
        (400, &json!(-32021))
    );
    let required = &answer["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "sampling": {} }));
}

#[test]
fn events_are_read_however_they_are_cut() {
    use self::gateway::events::Events;
    let text =
        "id: 1\r\nretry: 20\r\ndata: a\r\n\r\n: c\n\ndata:b\ndata\ndata:  c\n\ndata: d\r\rdata: e";
    for size in 1..=text.len() {
        let mut events = Events::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            found.extend(events.feed(piece).unwrap());
        }
        let data = found
            .iter()
            .map(|event| String::from_utf8_lossy(&event.data));
        assert_eq!(
            data.collect::<Vec<_>>(),
            ["a", "", "b\n\n c", "d"],
            "{size}"
        );
        assert_eq!(found[0].id.as_deref(), Some(&b"1"[..]));
        assert_eq!(found[0].retry, Some(Duration::from_millis(20)));
    }
}
