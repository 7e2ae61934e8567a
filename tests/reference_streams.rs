//! What handlers of the reference service send while they work.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use http::{Request, Response};
use http_body::Body;
use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        AnswerBody, LogLevel, MethodCall, Progress, ReferenceService, Tool, ToolCall, ToolResult,
    },
};
use serde_json::{Value, json};
use support::{Answer, Chunks, META, modern, post, send};
use tokio::{sync::Notify, time::timeout};
use tower::{Layer, Service};

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

fn tool(name: &str) -> Tool {
    Tool::new(name, json!({ "type": "object" }))
}

const LEVELS: [LogLevel; 8] = [
    LogLevel::Debug,
    LogLevel::Info,
    LogLevel::Notice,
    LogLevel::Warning,
    LogLevel::Error,
    LogLevel::Critical,
    LogLevel::Alert,
    LogLevel::Emergency,
];

fn silent() -> ReferenceService {
    ReferenceService::new(server())
        .tool(tool("count"), |call: ToolCall| async move {
            for number in [1.0, 2.5, 2.5, 2.0, f64::NAN, f64::INFINITY, 3.0] {
                call.progress(Progress::new(number).total(3.0).message("counting"))
                    .await;
            }
            Ok(ToolResult::text("counted"))
        })
        .tool(tool("tell"), |call: ToolCall| async move {
            for level in LEVELS {
                call.log(level, level.as_str()).await;
            }
            call.log_as("database", LogLevel::Emergency, json!({ "a": [1, "\n\r"] }))
                .await;
            Ok(ToolResult::text("told"))
        })
        .tool(tool("quiet"), |_| async { Ok(ToolResult::text("quiet")) })
        .tool(tool("break"), |call: ToolCall| async move {
            call.progress(Progress::new(1.0)).await;
            panic!("the secret of the handler")
        })
        .method("x/count", |call: MethodCall| async move {
            call.progress(Progress::new(1.0)).await;
            call.log(LogLevel::Error, 7).await;
            Ok(json!({}))
        })
}

fn service() -> ReferenceService {
    silent().logging(LogLevel::Warning)
}

/// A legacy call with these members of `_meta`.
fn call(name: &str, meta: &str) -> Request<Chunks> {
    post(format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"{name}","_meta":{{{meta}}}}}}}"#
    ))
}

/// A modern call with these further members of `_meta`.
fn modern_call(name: &str, meta: &str) -> Request<Chunks> {
    let comma = if meta.is_empty() { "" } else { "," };
    let meta = format!("{}{comma}{meta}}}", META.strip_suffix('}').unwrap());
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"{name}",{meta}}}}}"#
    );
    let mut request = modern("tools/call", body);
    let name = name.parse().unwrap();
    request.headers_mut().insert("mcp-name", name);
    request
}

/// The messages in a stream of events.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status(), 200, "{answer:?}");
    let headers = &answer.head.headers;
    assert_eq!(headers["content-type"], "text/event-stream", "{answer:?}");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers["cache-control"], "no-store");
    assert!(!headers.contains_key("content-length"));
    let text = std::str::from_utf8(&answer.body).unwrap();
    let text = text.strip_suffix("\n\n").expect("a last event");
    let events = text.split("\n\n").map(|event| {
        let data = event.strip_prefix("data: ").expect("one data line");
        assert!(!data.contains(['\n', '\r']), "{data}");
        serde_json::from_str(data).unwrap()
    });
    events.collect()
}

fn assert_plain(answer: &Answer) {
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.head.headers["content-type"], "application/json");
    assert!(answer.json().get("result").is_some(), "{answer:?}");
}

// rule R5
#[tokio::test]
async fn progress_is_sent_only_with_a_token_which_is_echoed_byte_for_byte() {
    for token in [
        "7",
        "1e2",
        "-0",
        "123456789012345678901234567890",
        r#""\u00e9é\n""#,
    ] {
        let meta = format!(r#""progressToken":{token}"#);
        let bare = send(service(), call("count", &meta)).await;
        let stack = McpLayer::new(server()).layer(service());
        let layered = send(stack, modern_call("count", &meta)).await;
        for answer in [bare, layered] {
            let text = std::str::from_utf8(&answer.body).unwrap();
            let sent = format!(r#""params":{{"progressToken":{token},"progress":1,"#);
            assert!(text.contains(&sent), "{text}");
            let events = events(&answer);
            let progress: Vec<_> = events[..3]
                .iter()
                .map(|event| {
                    assert_eq!(event["method"], "notifications/progress");
                    assert_eq!(event["params"]["message"], "counting");
                    assert_eq!(event["params"]["total"].as_f64(), Some(3.0));
                    event["params"]["progress"].as_f64().unwrap()
                })
                .collect();
            // what is no further than before is left out
            assert_eq!(progress, [1.0, 2.5, 3.0]);
            assert_eq!(events.len(), 4);
            assert_eq!(events[3]["id"], "a");
            assert_eq!(events[3]["result"]["content"][0]["text"], "counted");
        }
    }
    for meta in [
        "",
        r#""progressToken":null"#,
        r#""progressToken":1.5"#,
        r#""progressToken":[1]"#,
        r#""progressToken":true"#,
        r#""deep":{"progressToken":1}"#,
    ] {
        assert_plain(&send(service(), call("count", meta)).await);
    }
}

// rules R5, V5
#[tokio::test]
async fn the_answer_at_the_end_of_a_modern_stream_is_stamped() {
    let stack = McpLayer::new(server()).layer(service());
    let answer = send(stack, modern_call("count", r#""progressToken":1"#)).await;
    let last = events(&answer).pop().unwrap();
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(
        last["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "weather"
    );
}

// rule R5
#[tokio::test]
async fn log_messages_are_sent_from_the_level_of_the_request_on() {
    let stack = McpLayer::new(server()).layer(service());
    for (index, level) in LEVELS.into_iter().enumerate() {
        let meta = format!(r#""io.modelcontextprotocol/logLevel":"{}""#, level.as_str());
        let bare = send(service(), call("tell", &meta)).await;
        let layered = send(stack.clone(), modern_call("tell", &meta)).await;
        for answer in [bare, layered] {
            let mut events = events(&answer);
            assert_eq!(events.pop().unwrap()["id"], "a");
            assert_eq!(
                events.pop().unwrap()["params"],
                json!({ "level": "emergency", "logger": "database", "data": { "a": [1, "\n\r"] } })
            );
            assert_eq!(events.len(), LEVELS.len() - index);
            for (event, level) in events.iter().zip(&LEVELS[index..]) {
                assert_eq!(event["method"], "notifications/message");
                let name = level.as_str();
                assert_eq!(event["params"], json!({ "level": name, "data": name }));
            }
        }
    }
    // none without a level
    assert_plain(&send(stack, modern_call("tell", "")).await);
}

// rule R5
#[tokio::test]
async fn clients_of_the_handshake_get_log_messages_from_the_level_of_the_operator_on() {
    let stack = McpLayer::new(server()).layer(service());
    for meta in [
        "",
        r#""io.modelcontextprotocol/logLevel":"debug""#,
        r#""io.modelcontextprotocol/logLevel":"x""#,
    ] {
        let answer = send(stack.clone(), call("tell", meta)).await;
        let events = events(&answer);
        assert_eq!(events[0]["params"]["level"], "warning");
        assert_eq!(events.len(), 5 + 2);
    }
    assert_eq!(
        events(&send(service(), call("tell", "")).await).len(),
        5 + 2
    );
}

// rule R5
#[tokio::test]
async fn without_logging_nothing_is_logged_and_no_level_can_be_set() {
    let debug = r#""io.modelcontextprotocol/logLevel":"debug""#;
    assert_plain(&send(silent(), call("tell", debug)).await);
    let stack = McpLayer::new(server()).layer(silent());
    assert_plain(&send(stack, modern_call("tell", debug)).await);
    let set = r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#;
    let answer = send(silent(), post(set)).await.json();
    assert_eq!(answer["error"]["code"], -32601);
}

// rules R1, R5
#[tokio::test]
async fn logging_is_advertised_where_it_is_on() {
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    for (service, logging) in [(silent(), None), (service(), Some(json!({})))] {
        let answer = send(service, post(discover)).await.json();
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities.get("logging").cloned(), logging);
    }
}

// rule R5
#[tokio::test]
async fn every_known_level_can_be_set_and_no_other() {
    let stack = McpLayer::new(server()).layer(service());
    let set = async |params: &str| {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{params}}}"#);
        send(stack.clone(), post(body)).await.json()
    };
    for level in LEVELS {
        let answer = set(&format!(r#"{{"level":"{}"}}"#, level.as_str())).await;
        assert_eq!(answer["result"], json!({}));
    }
    for params in [
        "{}",
        r#"{"level":"trace"}"#,
        r#"{"level":1}"#,
        r#"{"level":["info"]}"#,
    ] {
        assert_eq!(set(params).await["error"]["code"], -32602, "{params}");
    }
}

// rule R5
#[tokio::test]
async fn an_unknown_level_is_refused_on_every_modern_request() {
    for service in [silent(), service()] {
        let stack = McpLayer::new(server()).layer(service);
        for level in [r#""trace""#, r#""INFO""#, "1", "null", r#"["info"]"#] {
            let meta = format!(r#""io.modelcontextprotocol/logLevel":{level}"#);
            let answer = send(stack.clone(), modern_call("quiet", &meta)).await;
            assert_eq!(answer.json()["error"]["code"], -32602, "{level}");
            assert_eq!(answer.json()["id"], "a");
        }
    }
}

#[tokio::test]
async fn a_handler_that_sends_nothing_answers_with_json() {
    let meta = r#""progressToken":1,"io.modelcontextprotocol/logLevel":"debug""#;
    let answer = send(service(), call("quiet", meta)).await;
    assert_plain(&answer);
    let stack = McpLayer::new(server()).layer(service());
    assert_plain(&send(stack, modern_call("quiet", meta)).await);
}

#[tokio::test]
async fn a_handler_that_panics_in_a_stream_ends_it_with_an_error() {
    let answer = send(service(), call("break", r#""progressToken":1"#)).await;
    let events = events(&answer);
    assert_eq!(events.len(), 2);
    assert_eq!(
        events[1],
        json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32603, "message": "Internal error" } })
    );
}

#[tokio::test]
async fn methods_of_their_own_send_too() {
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"x/count","params":{"_meta":{"progressToken":1}}}"#;
    let events = events(&send(service(), post(body)).await);
    let methods: Vec<_> = events
        .iter()
        .map(|event| event["method"].as_str())
        .collect();
    assert_eq!(
        methods,
        [
            Some("notifications/progress"),
            Some("notifications/message"),
            None
        ]
    );
    assert_eq!(
        events[0]["params"],
        json!({ "progressToken": 1, "progress": 1 })
    );
}

// rule R4
#[tokio::test]
async fn in_an_array_there_are_only_answers() {
    let meta = r#""_meta":{"progressToken":1}"#;
    let call = |name| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}",{meta}}}}}"#
        )
    };
    let body = format!("[{},{}]", call("count"), call("tell"));
    let answer = send(service(), post(body)).await;
    assert_eq!(answer.head.headers["content-type"], "application/json");
    assert_eq!(answer.json().as_array().unwrap().len(), 2);
}

/// A service whose tool tells how far it got, waits for a nod, and tells when it is dropped.
struct Steps {
    service: ReferenceService,
    reached: Arc<AtomicUsize>,
    nod: Arc<Notify>,
    dropped: Arc<AtomicUsize>,
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn steps() -> Steps {
    let (reached, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let nod = Arc::new(Notify::new());
    let parts = (Arc::clone(&reached), Arc::clone(&dropped), Arc::clone(&nod));
    let service = ReferenceService::new(server()).tool(tool("steps"), move |call: ToolCall| {
        let (reached, dropped, nod) = parts.clone();
        async move {
            let _guard = OnDrop(dropped);
            for step in 1..=3 {
                reached.store(step, Ordering::SeqCst);
                #[allow(clippy::cast_precision_loss)]
                call.progress(Progress::new(step as f64)).await;
            }
            nod.notified().await;
            Ok(ToolResult::text("done"))
        }
    });
    Steps {
        service,
        reached,
        nod,
        dropped,
    }
}

type Frames = Pin<Box<AnswerBody>>;

/// The head of the answer, and its body to be read by hand.
async fn begin(service: &mut ReferenceService, request: Request<Chunks>) -> (Response<()>, Frames) {
    let response = service.call(request).await.unwrap();
    let (head, body) = response.into_parts();
    (Response::from_parts(head, ()), Box::pin(body))
}

/// Polls once.
fn poll(body: &mut Frames) -> Poll<Option<String>> {
    let mut cx = Context::from_waker(Waker::noop());
    body.as_mut().poll_frame(&mut cx).map(|frame| {
        let data = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    })
}

fn next(body: &mut Frames) -> String {
    match poll(body) {
        Poll::Ready(Some(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn events_leave_as_they_are_sent_and_the_handler_is_as_slow_as_its_client() {
    let mut steps = steps();
    let (head, mut body) = begin(&mut steps.service, call("steps", r#""progressToken":1"#)).await;
    assert_eq!(head.headers()["content-type"], "text/event-stream");
    for step in 1..=3 {
        assert!(next(&mut body).contains(&format!(r#""progress":{step}"#)));
        assert_eq!(steps.reached.load(Ordering::SeqCst), step);
    }
    assert_eq!(poll(&mut body), Poll::Pending);
    assert!(!body.is_end_stream());
    steps.nod.notify_one();
    assert!(next(&mut body).contains(r#""text":"done""#));
    assert!(body.is_end_stream());
    assert_eq!(steps.dropped.load(Ordering::SeqCst), 1);
    assert_eq!(poll(&mut body), Poll::Ready(None));
    assert_eq!(poll(&mut body), Poll::Ready(None));
}

#[tokio::test]
async fn closing_the_stream_drops_the_handler() {
    for read in 0..=3 {
        let mut steps = steps();
        let (_, mut body) = begin(&mut steps.service, call("steps", r#""progressToken":1"#)).await;
        for _ in 0..read {
            next(&mut body);
        }
        assert_eq!(steps.dropped.load(Ordering::SeqCst), 0);
        drop(body);
        assert_eq!(steps.dropped.load(Ordering::SeqCst), 1, "{read} read");
    }
}

#[tokio::test]
async fn closing_the_stream_drops_the_handler_through_the_layers() {
    let steps = steps();
    let mut stack = McpLayer::new(server()).layer(steps.service);
    let request = modern_call("steps", r#""progressToken":1"#);
    let response = stack.call(request).await.unwrap();
    let mut body = Box::pin(response.into_body());
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
    assert!(frame.unwrap().unwrap().is_data());
    assert_eq!(steps.dropped.load(Ordering::SeqCst), 0);
    drop(body);
    assert_eq!(steps.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_outlives_its_request_sends_nothing_and_waits_for_nobody() {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let mut service = ReferenceService::new(server()).tool(tool("keep"), move |call: ToolCall| {
        *keep.lock().unwrap() = Some(call.clone());
        async move {
            call.progress(Progress::new(1.0)).await;
            if call.raw_arguments() == b"{}" {
                pending::<()>().await;
            }
            Ok(ToolResult::text("kept"))
        }
    });
    // the answer is given
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","arguments":{"a":1},"_meta":{"progressToken":1}}}"#;
    let (_, mut body) = begin(&mut service, post(body)).await;
    assert!(next(&mut body).contains("notifications/progress"));
    assert!(next(&mut body).contains("kept"));
    let call_kept: ToolCall = kept.lock().unwrap().take().unwrap();
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut sending = Box::pin(call_kept.progress(Progress::new(2.0)));
    assert!(sending.as_mut().poll(&mut cx).is_ready());
    assert_eq!(poll(&mut body), Poll::Ready(None));
    // the client has gone
    let (_, mut body) = begin(&mut service, call("keep", r#""progressToken":1"#)).await;
    next(&mut body);
    let call_kept: ToolCall = kept.lock().unwrap().take().unwrap();
    let mut sending = Box::pin(call_kept.progress(Progress::new(2.0)));
    assert!(sending.as_mut().poll(&mut cx).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(body);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(sending.as_mut().poll(&mut cx).is_ready());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn tasks_of_a_handler_send_into_its_stream() {
    let service = ReferenceService::new(server())
        .logging(LogLevel::Debug)
        .tool(tool("tasks"), |call: ToolCall| async move {
            let tasks: Vec<_> = (0..20)
                .map(|number| {
                    let call = call.clone();
                    tokio::spawn(async move { call.log(LogLevel::Info, number).await })
                })
                .collect();
            for task in tasks {
                task.await
                    .map_err(mcp_layers::reference::ToolError::internal)?;
            }
            Ok(ToolResult::text("done"))
        });
    let answer = send(service, call("tasks", ""));
    let answer = timeout(Duration::from_secs(10), answer).await;
    let answer = answer.expect("nobody waits for ever");
    let mut events = events(&answer);
    assert_eq!(
        events.pop().unwrap()["result"]["content"][0]["text"],
        "done"
    );
    let mut numbers: Vec<_> = events
        .iter()
        .map(|event| event["params"]["data"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}
