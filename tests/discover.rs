//! Who answers `server/discover`, and what the inner service is asked for it.

mod support;

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use mcp_layers::{
    DiscoverLayer, EnvelopeLayer, Era, EraKind, EraResolverLayer, Eras, McpLayer, Message,
    MirrorHeaderValidatorLayer, Rejection, RejectionKind, RequestBody, ServerInfo,
    discover::Discovery,
};
use serde_json::{Value, json};
use support::{Chunks, Step, inner, modern, modern_body, plain, post, send, tools_call};
use tower::{Layer, Service, ServiceBuilder, service_fn};

fn info() -> ServerInfo {
    ServerInfo::new("layers", "1")
}

fn discover() -> Request<Chunks> {
    modern("server/discover", modern_body("server/discover", ""))
}

fn legacy_discover() -> Request<Chunks> {
    post(r#"{"jsonrpc":"2.0","id":"d","method":"server/discover"}"#)
}

fn fixed() -> DiscoverLayer {
    DiscoverLayer::new(Discovery::new().capability("tools").instructions("Ask."))
}

/// A request that reached the inner service.
#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    headers: HeaderMap,
    body: Value,
    had_message: bool,
    had_secret: bool,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// A server of the handshake era: answers `initialize` by `answer`, everything else by an empty
/// result.
fn server(
    log: &Log,
    answer: impl Fn() -> Response<Chunks> + Clone + Send + 'static,
) -> impl Service<
    Request<RequestBody<Chunks>>,
    Response = Response<Chunks>,
    Error = Infallible,
    Future: Send,
> + Clone {
    let log = Arc::clone(log);
    service_fn(move |request: Request<RequestBody<Chunks>>| {
        let (log, answer) = (Arc::clone(&log), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let is_initialize = matches!(&body, Value::Object(it) if it.get("method") == Some(&json!("initialize")));
            log.lock().unwrap().push(Asked {
                method: head.method,
                headers: head.headers,
                body,
                had_message: Message::get(&head.extensions).is_some_and(|message| {
                    message.method() == Some("initialize")
                        && message.era().kind() == EraKind::Legacy
                }),
                had_secret: head.extensions.get::<u8>().is_some(),
            });
            Ok(if is_initialize {
                answer()
            } else {
                json_answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            })
        }
    })
}

fn json_answer(text: impl Into<Bytes>) -> Response<Chunks> {
    Response::builder()
        .header("content-type", "application/json")
        .body(Chunks::one(text))
        .unwrap()
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":"mcp-layers/discover","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true,"x":1},"resources":{"subscribe":true,"listChanged":true},"prompts":{},"logging":{},"tasks":{},"completions":{}},"serverInfo":{"name":"inner","version":"7"},"instructions":"Hello.","_meta":{}}}"#;

fn derived() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "capabilities": { "tools": { "x": 1 }, "resources": {}, "prompts": {}, "completions": {} },
        "instructions": "Hello.",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "inner", "version": "7" } },
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

// rule D1
#[tokio::test]
async fn fixed_values_are_answered_in_both_eras_and_stamped_in_the_modern_one() {
    let stack = || McpLayer::new(info()).discover(fixed());
    let all = [
        "2026-07-28",
        "2025-11-25",
        "2025-06-18",
        "2025-03-26",
        "2024-11-05",
    ];
    let service = plain();
    let seen = service.seen();
    let answer = send(stack().layer(service), discover()).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.head.headers["content-type"], "application/json");
    let expected = json!({
        "resultType": "complete",
        "supportedVersions": all,
        "capabilities": { "tools": {} },
        "instructions": "Ask.",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "layers", "version": "1" } },
        "ttlMs": 0,
        "cacheScope": "private",
    });
    assert_eq!(
        answer.json(),
        json!({ "jsonrpc": "2.0", "id": 1, "result": expected })
    );
    assert_eq!(
        Era::get(&answer.head.extensions).unwrap().kind(),
        EraKind::Modern
    );
    assert!(seen.lock().unwrap().is_empty(), "nobody was asked");

    let legacy = send(stack().layer(plain()), legacy_discover()).await.json();
    let plain_result = json!({ "supportedVersions": all, "capabilities": { "tools": {} }, "instructions": "Ask." });
    assert_eq!(
        legacy,
        json!({ "jsonrpc": "2.0", "id": "d", "result": plain_result })
    );
}

#[tokio::test]
async fn other_messages_and_discoveries_that_are_left_reach_the_inner_service() {
    let other = |id: &str| {
        post(format!(
            r#"{{"jsonrpc":"2.0",{id}"method":"server/discover"}}"#
        ))
    };
    for (request, layer) in [
        (tools_call(), fixed()),
        (other(""), fixed()),
        (other("\"id\":null,"), fixed()),
        (other("\"id\":1.5,"), fixed()),
        (legacy_discover(), fixed().leave_legacy(true)),
    ] {
        let service = plain();
        let seen = service.seen();
        let stack = McpLayer::new(info()).discover(layer);
        assert_eq!(send(stack.layer(service), request).await.status(), 200);
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_discovery_is_checked_like_every_other_message() {
    let mut request = discover();
    request
        .headers_mut()
        .insert("mcp-method", "tools/list".parse().unwrap());
    let stack = McpLayer::new(info()).discover(fixed());
    let answer = send(stack.layer(plain()), request).await;
    assert_eq!(answer.json()["error"]["code"], -32020);
}

// rule D1
#[tokio::test]
async fn the_versions_are_those_that_a_refusal_lists() {
    for eras in [Eras::Both, Eras::ModernOnly] {
        let stack = McpLayer::new(info()).eras(eras).discover(fixed());
        let versions =
            send(stack.layer(plain()), discover()).await.json()["result"]["supportedVersions"]
                .clone();
        let mut unknown = discover();
        *unknown.body_mut() =
            Chunks::one(modern_body("server/discover", "").replace("2026-07-28", "x"));
        unknown
            .headers_mut()
            .insert("mcp-protocol-version", "x".parse().unwrap());
        let refusal = send(stack.layer(plain()), unknown).await.json();
        assert_eq!(refusal["error"]["data"]["supported"], versions);
    }
}

#[tokio::test]
async fn the_layer_works_alone_and_in_the_row() {
    let alone = send(fixed().layer(plain()), discover()).await.json();
    assert_eq!(alone["result"]["capabilities"], json!({ "tools": {} }));
    assert_eq!(alone["result"].get("resultType"), None, "nobody stamps");
    let row = ServiceBuilder::new()
        .layer(EraResolverLayer::new().eras(Eras::ModernOnly))
        .layer(MirrorHeaderValidatorLayer::new())
        .layer(EnvelopeLayer::new(info()))
        .layer(fixed())
        .service(plain());
    let result = send(row, discover()).await.json()["result"].clone();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["resultType"], "complete");
}

// rule D2
#[tokio::test]
async fn a_derived_answer_is_asked_for_once_without_anything_of_the_caller() {
    let log = Log::default();
    let service = McpLayer::new(info())
        .discover(DiscoverLayer::from_initialize())
        .layer(server(&log, || json_answer(INITIALIZED)));
    for _ in 0..3 {
        let mut request = discover();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("cookie", "a=b"),
            ("x-user", "me"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request.extensions_mut().insert(7_u8);
        assert_eq!(
            send(service.clone(), request).await.json()["result"],
            derived()
        );
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1);
    let Asked {
        method,
        headers,
        body,
        had_message,
        had_secret,
    } = &log[0];
    assert_eq!(method, Method::POST);
    assert!(*had_message && !had_secret);
    let mut names = headers
        .keys()
        .map(http::HeaderName::as_str)
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["accept", "content-length", "content-type", "host"]);
    assert_eq!(body["method"], "initialize");
    assert_eq!(body["params"]["protocolVersion"], "2025-11-25");
}

// rule D2
#[tokio::test]
async fn a_failure_is_told_and_asked_again() {
    let failures: [fn() -> Response<Chunks>; 6] = [
        || json_answer(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}"#),
        || json_answer("not JSON"),
        || json_answer(r#"{"jsonrpc":"2.0","id":1,"result":{"capabilities":[]}}"#),
        || {
            Response::builder()
                .status(500)
                .body(Chunks::default())
                .unwrap()
        },
        || json_answer(vec![b' '; 2 << 20]),
        || Response::new(Chunks::of([Step::Data("{".into()), Step::Fail])),
    ];
    for failure in failures {
        let (log, asked) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let service = McpLayer::new(info())
            .discover(DiscoverLayer::from_initialize())
            .layer(server(&log, move || {
                match count.fetch_add(1, Ordering::SeqCst) {
                    0 => failure(),
                    _ => json_answer(INITIALIZED),
                }
            }));
        let first = send(service.clone(), discover()).await;
        assert_eq!(first.status(), 502);
        let rejection = Rejection::get(&first.head.extensions).unwrap();
        assert_eq!(rejection.kind(), RejectionKind::DiscoveryFailed);
        assert_eq!(
            Era::get(&first.head.extensions).unwrap().kind(),
            EraKind::Modern
        );
        assert_eq!(
            (&first.json()["error"]["code"], &first.json()["id"]),
            (&json!(-32603), &json!(1))
        );
        let second = send(service, discover()).await;
        assert_eq!(second.json()["result"], derived());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}

// rule D2
#[tokio::test]
async fn a_session_that_was_opened_for_it_is_closed() {
    let log = Log::default();
    let service = McpLayer::new(info())
        .discover(DiscoverLayer::from_initialize())
        .layer(server(&log, || {
            let mut answer = json_answer(INITIALIZED);
            answer
                .headers_mut()
                .insert("mcp-session-id", "s-9".parse().unwrap());
            answer
        }));
    let answer = send(service, discover()).await;
    assert_eq!(answer.json()["result"], derived());
    assert!(!answer.head.headers.contains_key("mcp-session-id"));
    let log = log.lock().unwrap();
    let methods = log
        .iter()
        .map(|asked| asked.method.as_str())
        .collect::<Vec<_>>();
    assert_eq!(methods, ["POST", "DELETE"]);
    assert_eq!(log[1].headers["mcp-session-id"], "s-9");
}

#[tokio::test]
async fn an_initialize_that_is_answered_by_a_stream_is_read_up_to_its_result() {
    for end in [Step::Pending, Step::Fail, Step::Data("".into())] {
        let log = Log::default();
        let end = Arc::new(Mutex::new(Some(end)));
        let service = McpLayer::new(info())
            .discover(DiscoverLayer::from_initialize())
            .layer(server(&log, move || {
                let text = format!(": hi\r\n\r\ndata: {{\"method\":\"x\"}}\r\n\r\nevent: message\r\ndata: {INITIALIZED}\r\n\r\n");
                let (a, b) = text.split_at(200);
                let steps = [Step::Data(a.to_owned().into()), Step::Data(b.to_owned().into())];
                let end = end.lock().unwrap().take();
                Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(Chunks::of(steps.into_iter().chain(end)))
                    .unwrap()
            }));
        assert_eq!(send(service, discover()).await.json()["result"], derived());
    }
}

// rule E12
#[tokio::test]
async fn a_modern_request_is_shown_under_a_legacy_version_after_all_checks() {
    let layer = fixed().present_as("2025-06-18").unwrap();
    let legacy = || {
        let mut request = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        request
            .headers_mut()
            .insert("mcp-protocol-version", "2025-03-26".parse().unwrap());
        request
    };
    for (request, shown, kind) in [
        (tools_call(), "2025-06-18", EraKind::Modern),
        (legacy(), "2025-03-26", EraKind::Legacy),
    ] {
        let service = inner(|| json_answer(r#"{"result":{}}"#));
        let seen = service.seen();
        let row = ServiceBuilder::new()
            .layer(EraResolverLayer::new())
            .layer(MirrorHeaderValidatorLayer::new())
            .layer(EnvelopeLayer::new(info()))
            .layer(layer.clone())
            .service(service);
        assert_eq!(send(row, request).await.status(), 200);
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].head.headers["mcp-protocol-version"], shown);
        assert_eq!(Era::get(&seen[0].head.extensions).unwrap().kind(), kind);
    }
    let service = plain();
    let seen = service.seen();
    let stack = McpLayer::new(info()).discover(layer.clone());
    assert_eq!(send(stack.layer(service), tools_call()).await.status(), 200);
    assert_eq!(
        seen.lock().unwrap()[0].head.headers["mcp-protocol-version"],
        "2025-06-18"
    );
    for version in ["2026-07-28", "a b", ""] {
        assert!(fixed().present_as(version).is_err());
    }
    assert!(
        fixed().present_as("2024-10-07").is_ok(),
        "operators can add versions"
    );
}

// rule D2
#[tokio::test]
async fn a_session_that_cannot_be_closed_costs_nothing() {
    #[derive(Debug)]
    struct Down;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let inner = service_fn(move |request: Request<RequestBody<Chunks>>| {
        let count = Arc::clone(&count);
        async move {
            if request.method() == Method::DELETE {
                return Err(Down);
            }
            count.fetch_add(1, Ordering::SeqCst);
            let mut answer = json_answer(INITIALIZED);
            let session = http::HeaderValue::from_static("s");
            answer.headers_mut().insert("mcp-session-id", session);
            Ok(answer)
        }
    });
    let mut service = McpLayer::new(info())
        .discover(DiscoverLayer::from_initialize())
        .layer(inner);
    for _ in 0..2 {
        assert_eq!(service.call(discover()).await.unwrap().status(), 200);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what was found is kept");
}
