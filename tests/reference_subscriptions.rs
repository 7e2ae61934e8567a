//! The subscriptions of the reference service.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use http::Request;
use http_body::Body;
use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        AnswerBody, MethodCall, Notifier, Prompt, PromptResult, ReferenceService, Resource,
        ResourceResult, Tool, ToolResult,
    },
};
use serde_json::{Value, json};
use support::{Chunks, ask, ask_modern, modern, modern_body, post, send};
use tokio::time::timeout;
use tower::{Layer, Service};

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

fn tools_only() -> ReferenceService {
    let tool = Tool::new("a", json!({ "type": "object" }));
    ReferenceService::new(server()).tool(tool, |_| async { Ok(ToolResult::default()) })
}

fn everything() -> ReferenceService {
    tools_only()
        .prompt(Prompt::new("a"), |_| async { Ok(PromptResult::new()) })
        .resource(Resource::new("x://a", "a"), |_| async {
            Ok(ResourceResult::new())
        })
}

fn service() -> (ReferenceService, Notifier) {
    let notifier = Notifier::new();
    (everything().notifier(notifier.clone()), notifier)
}

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x://a","x://b"]}"#;

fn listen(id: &str, filter: &str) -> Request<Chunks> {
    post(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{filter}}}}}"#
    ))
}

/// A stream that is read by hand.
struct Stream {
    body: Pin<Box<AnswerBody>>,
    woken: Arc<Count>,
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stream {
    async fn open(service: &ReferenceService, id: &str, filter: &str) -> Self {
        let response = service.clone().call(listen(id, filter)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self {
            body: Box::pin(response.into_body()),
            woken: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Option<String>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut cx = Context::from_waker(&waker);
        self.body.as_mut().poll_frame(&mut cx).map(|frame| {
            let data = frame?.unwrap().into_data().unwrap();
            let text = String::from_utf8(data.to_vec()).unwrap();
            let text = text
                .strip_prefix("data: ")
                .unwrap()
                .strip_suffix("\n\n")
                .unwrap();
            assert!(!text.contains('\n'));
            Some(text.to_owned())
        })
    }

    fn next(&mut self) -> Value {
        match self.poll() {
            Poll::Ready(Some(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Everything that has been told, without the tags.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Poll::Ready(Some(text)) = self.poll() {
            let event: Value = serde_json::from_str(&text).unwrap();
            let uri = event["params"].get("uri").map(Value::to_string);
            let method = event["method"].as_str().unwrap_or("closed");
            told.push(format!("{method}{}", uri.unwrap_or_default()));
        }
        told
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }
}

// rule R5
#[tokio::test]
async fn the_acknowledgement_comes_first_and_every_message_is_tagged() {
    for id in [
        "7",
        r#""a\u0062\n""#,
        "123456789012345678901234567890",
        "1e2",
    ] {
        let (service, notifier) = service();
        let mut stream = Stream::open(&service, id, ALL).await;
        notifier.tools_list_changed();
        let tag = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let mut messages = Vec::new();
        let Poll::Ready(Some(first)) = stream.poll() else {
            panic!()
        };
        messages.push(first);
        notifier.prompts_list_changed();
        notifier.resources_list_changed();
        notifier.resource_updated("x://b");
        notifier.close();
        while let Poll::Ready(Some(text)) = stream.poll() {
            messages.push(text);
        }
        assert!(stream.body.is_end_stream());
        assert_eq!(stream.poll(), Poll::Ready(None));
        for message in &messages {
            assert!(message.contains(&tag), "{message}");
        }
        let last = messages.pop().unwrap();
        assert_eq!(
            last,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{tag}}}}}"#)
        );
        let parsed: Vec<Value> = messages
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        let methods: Vec<_> = parsed
            .iter()
            .map(|it| it["method"].as_str().unwrap())
            .collect();
        assert_eq!(
            methods,
            [
                "notifications/subscriptions/acknowledged",
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
                "notifications/resources/list_changed",
                "notifications/resources/updated",
            ]
        );
        let all: Value = serde_json::from_str(ALL).unwrap();
        assert_eq!(parsed[0]["params"]["notifications"], all);
        assert_eq!(parsed[4]["params"]["uri"], "x://b");
    }
}

// rule R5
#[tokio::test]
async fn a_subscriber_hears_only_of_what_it_asked_for() {
    for (filter, told) in [
        ("{}", &[][..]),
        (
            r#"{"toolsListChanged":true}"#,
            &["notifications/tools/list_changed"],
        ),
        (
            r#"{"promptsListChanged":true,"toolsListChanged":false}"#,
            &["notifications/prompts/list_changed"],
        ),
        (
            r#"{"resourcesListChanged":true}"#,
            &["notifications/resources/list_changed"],
        ),
        (
            r#"{"resourceSubscriptions":["x://a"]}"#,
            &[r#"notifications/resources/updated"x://a""#],
        ),
        (
            r#"{"resourceSubscriptions":["x://\u0061","x://a"]}"#,
            &[r#"notifications/resources/updated"x://a""#],
        ),
        (r#"{"resourceSubscriptions":[],"unknown":7}"#, &[]),
    ] {
        let (service, notifier) = service();
        let mut stream = Stream::open(&service, "1", filter).await;
        stream.next();
        notifier.tools_list_changed();
        notifier.prompts_list_changed();
        notifier.resources_list_changed();
        for uri in ["x://a", "x://A", "x://b", ""] {
            notifier.resource_updated(uri);
        }
        assert_eq!(stream.told(), told, "{filter}");
    }
}

// rule R5
#[tokio::test]
async fn the_acknowledgement_leaves_out_what_is_not_served() {
    let notifier = Notifier::new();
    let tools = tools_only().notifier(notifier.clone());
    let mut stream = Stream::open(&tools, "1", ALL).await;
    let accepted = stream.next()["params"]["notifications"].take();
    assert_eq!(accepted, json!({ "toolsListChanged": true }));
    notifier.prompts_list_changed();
    notifier.resources_list_changed();
    notifier.resource_updated("x://a");
    assert_eq!(stream.poll(), Poll::Pending);
    assert_eq!(stream.woken(), 0);
    let (service, _) = service();
    for (filter, accepted) in [
        ("{}", json!({})),
        (r#"{"toolsListChanged":false}"#, json!({})),
        (
            r#"{"resourceSubscriptions":["a","b","a"]}"#,
            json!({ "resourceSubscriptions": ["a", "b"] }),
        ),
    ] {
        let mut stream = Stream::open(&service, "1", filter).await;
        assert_eq!(stream.next()["params"]["notifications"], accepted);
    }
}

// rule R5
#[tokio::test]
async fn what_is_no_filter_is_invalid_params() {
    let (service, notifier) = service();
    let many = |count| format!(r#"{{"resourceSubscriptions":{}}}"#, json!(vec!["x"; count]));
    let too_many = many(1_001);
    for filter in [
        "null",
        "[]",
        "true",
        r#""toolsListChanged""#,
        r#"{"toolsListChanged":1}"#,
        r#"{"promptsListChanged":null}"#,
        r#"{"resourcesListChanged":"true"}"#,
        r#"{"resourceSubscriptions":null}"#,
        r#"{"resourceSubscriptions":"x://a"}"#,
        r#"{"resourceSubscriptions":{}}"#,
        r#"{"resourceSubscriptions":["x://a",1]}"#,
        r#"{"resourceSubscriptions":[["x://a"]]}"#,
        r#"{"resourceSubscriptions":["\ud800"]}"#,
        &too_many,
    ] {
        let answer = send(service.clone(), listen("1", filter)).await;
        assert_eq!(answer.head.headers["content-type"], "application/json");
        assert_eq!(answer.json()["error"]["code"], -32602, "{filter:.80}");
    }
    for params in ["{}", r#"{"toolsListChanged":true}"#] {
        let answer = ask(&service, "subscriptions/listen", params).await;
        assert_eq!(answer["error"]["code"], -32602);
    }
    assert_eq!(notifier.subscribers(), 0);
    let mut stream = Stream::open(&service, "1", &many(1_000)).await;
    stream.next();
}

// rule R5
#[tokio::test]
async fn a_slow_subscriber_is_told_once_of_what_happened_often() {
    let (service, notifier) = service();
    let mut slow = Stream::open(&service, "1", ALL).await;
    for _ in 0..10_000 {
        notifier.tools_list_changed();
        notifier.resource_updated("x://b");
        notifier.resource_updated("x://a");
    }
    slow.next();
    let told = [
        "notifications/tools/list_changed",
        r#"notifications/resources/updated"x://b""#,
        r#"notifications/resources/updated"x://a""#,
    ];
    assert_eq!(slow.told(), told);
    // what happens after it was told is told again
    notifier.resource_updated("x://b");
    notifier.resource_updated("x://b");
    assert_eq!(slow.told(), [told[1]]);
    assert_eq!(slow.poll(), Poll::Pending);
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_once_for_what_concerns_it() {
    let (service, notifier) = service();
    let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["x://a"]}"#;
    let mut stream = Stream::open(&service, "1", filter).await;
    stream.next();
    assert_eq!(stream.poll(), Poll::Pending);
    notifier.prompts_list_changed();
    notifier.resource_updated("x://b");
    assert_eq!(stream.woken(), 0);
    notifier.tools_list_changed();
    assert_eq!(stream.woken(), 1);
    notifier.resource_updated("x://a");
    assert_eq!(stream.woken(), 1);
    assert_eq!(stream.told().len(), 2);
    notifier.close();
    assert_eq!(stream.woken(), 2);
    assert_eq!(stream.told(), ["closed"]);
}

// rule R5
#[tokio::test]
async fn closing_the_stream_unsubscribes() {
    let (service, notifier) = service();
    let response = service.clone().call(listen("1", ALL)).await.unwrap();
    assert_eq!(notifier.subscribers(), 1);
    drop(response);
    assert_eq!(notifier.subscribers(), 0);
    let mut first = Stream::open(&service, "1", ALL).await;
    let mut second = Stream::open(&service, "1", ALL).await;
    assert_eq!(notifier.subscribers(), 2);
    first.next();
    second.next();
    assert_eq!(first.poll(), Poll::Pending);
    let woken = Arc::clone(&first.woken);
    drop(first);
    assert_eq!(notifier.subscribers(), 1);
    notifier.tools_list_changed();
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    assert_eq!(second.told(), ["notifications/tools/list_changed"]);
    // through the layers as well
    let mut stack = McpLayer::new(server()).layer(service);
    let params = format!(r#""notifications":{ALL}"#);
    let body = modern_body("subscriptions/listen", &params);
    let response = stack
        .call(modern("subscriptions/listen", body))
        .await
        .unwrap();
    assert_eq!(notifier.subscribers(), 2);
    let mut body = Box::pin(response.into_body());
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
    assert!(frame.unwrap().unwrap().is_data());
    drop(body);
    assert_eq!(notifier.subscribers(), 1);
}

// rules R5, V5
#[tokio::test]
async fn a_closed_notifier_ends_old_and_new_streams_with_a_result() {
    let (service, notifier) = service();
    let mut old = Stream::open(&service, "1", ALL).await;
    notifier.tools_list_changed();
    notifier.clone().close();
    notifier.close();
    assert_eq!(
        old.next()["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(old.told(), ["notifications/tools/list_changed", "closed"]);
    let stack = McpLayer::new(server()).layer(service.clone());
    let params = format!(r#""notifications":{ALL}"#);
    let answer = ask_modern(&stack, "subscriptions/listen", &params, "{}").await;
    assert_eq!(answer.head.headers["content-type"], "text/event-stream");
    let text = std::str::from_utf8(&answer.body).unwrap();
    let events: Vec<Value> = text
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1]["id"], 1);
    assert_eq!(events[1]["result"]["resultType"], "complete");
    let meta = &events[1]["result"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], 1);
    assert_eq!(
        meta["io.modelcontextprotocol/serverInfo"]["name"],
        "weather"
    );
}

// rules R1, D2
#[tokio::test]
async fn changes_are_advertised_by_discover_and_where_there_is_something_to_change() {
    let tools = tools_only().notifier(Notifier::new());
    let changing = json!({ "listChanged": true });
    let resources = json!({ "listChanged": true, "subscribe": true });
    let all = json!({ "prompts": changing, "resources": resources, "tools": changing });
    let methods = ReferenceService::new(server())
        .method("prompts/list", |_: MethodCall| async { Ok(json!({})) })
        .notifier(Notifier::new());
    for (service, expected) in [
        (
            everything(),
            json!({ "prompts": {}, "resources": {}, "tools": {} }),
        ),
        (service().0, all),
        (tools, json!({ "tools": changing })),
        (methods, json!({ "prompts": changing })),
        (
            ReferenceService::new(server()).notifier(Notifier::new()),
            json!({}),
        ),
    ] {
        let answer = ask(&service, "server/discover", "{}").await;
        assert_eq!(answer["result"]["capabilities"], expected);
        let params = r#"{"protocolVersion":"2025-11-25"}"#;
        let answer = ask(&service, "initialize", params).await;
        let capabilities = answer["result"]["capabilities"].as_object().unwrap();
        assert_eq!(capabilities.len(), expected.as_object().unwrap().len());
        assert!(capabilities.values().all(|value| *value == json!({})));
    }
}

// rules R1, R4
#[tokio::test]
async fn there_is_no_stream_without_a_notifier_and_none_from_an_array() {
    let params = format!(r#"{{"notifications":{ALL}}}"#);
    let answer = ask(&everything(), "subscriptions/listen", &params).await;
    assert_eq!(answer["error"]["code"], -32601);
    let (service, notifier) = service();
    let body = format!(
        r#"[{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{params}}},{{"jsonrpc":"2.0","id":2,"method":"ping"}}]"#
    );
    let answer = send(service, post(body)).await.json();
    assert_eq!(answer[0]["error"]["code"], -32600);
    assert_eq!(answer[0]["id"], 1);
    assert_eq!(answer[1]["result"], json!({}));
    assert_eq!(notifier.subscribers(), 0);
}

#[tokio::test]
async fn changes_are_told_across_threads() {
    let (service, notifier) = service();
    let mut body = Stream::open(&service, "1", ALL).await.body;
    let teller = std::thread::spawn(move || {
        for number in 0..1_000 {
            notifier.resource_updated(if number % 2 == 0 { "x://a" } else { "x://b" });
        }
        notifier.close();
    });
    let mut events = 0;
    let reading = async {
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            frame.unwrap();
            events += 1;
        }
    };
    let read = timeout(Duration::from_secs(10), reading).await;
    read.expect("the stream ends");
    teller.join().unwrap();
    assert!((4..=1_002).contains(&events), "{events}");
}

#[test]
fn a_notifier_can_be_shared_and_shown() {
    fn shared<T: Clone + std::fmt::Debug + Default + Send + Sync + 'static>() {}
    shared::<Notifier>();
    assert_eq!(
        format!("{:?}", Notifier::new()),
        "Notifier { subscribers: 0 }"
    );
}
