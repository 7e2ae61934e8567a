//! A source that learns the schemas of tools from the lists that pass.

mod support;

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use mcp_layers::{
    EnvelopeLayer, EraResolverLayer, LearnedTools, McpLayer, MirrorHeaderValidatorLayer,
    ServerInfo, ToolSchemas, mirror::Lookup,
};
use serde_json::{Value, json};
use support::{Broken, Chunks, Step, inner, modern, modern_body, plain, post, send};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, util::BoxCloneService};

fn tool(name: &str, header: &str) -> Value {
    let region = json!({ "type": "string", "x-mcp-header": header });
    json!({ "name": name, "inputSchema": { "properties": { "region": region } } })
}

fn list(tools: &[Value]) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools, "nextCursor": "more" } })
        .to_string()
}

/// The headers of a tool, or how it is not known.
fn known(tools: &LearnedTools, name: &str) -> String {
    match tools.lookup(name) {
        Lookup::Known(headers) => headers.names().collect::<Vec<_>>().join(" "),
        Lookup::Unchecked => "unchecked".into(),
        _ => "unknown".into(),
    }
}

fn learn(tools: &LearnedTools, list_of: &[Value]) {
    tools.learn(list(list_of).as_bytes());
}

// rule P5
#[test]
fn pages_are_merged_and_a_list_that_lacks_a_tool_forgets_nothing() {
    let tools = LearnedTools::new();
    assert_eq!(known(&tools, "a"), "unknown");
    learn(&tools, &[tool("a", "A"), json!({ "name": "plain" })]);
    learn(&tools, &[tool("b", "B")]);
    learn(&tools, &[]);
    assert_eq!(known(&tools, "a"), "Mcp-Param-A");
    assert_eq!(known(&tools, "b"), "Mcp-Param-B");
    assert_eq!(known(&tools, "plain"), "");
    assert_eq!(known(&tools.clone(), "b"), "Mcp-Param-B");
}

// rule P5
#[test]
fn a_tool_that_is_seen_again_replaces_what_was_known() {
    let tools = LearnedTools::new();
    learn(&tools, &[tool("a", "A")]);
    learn(&tools, &[tool("a", "B")]);
    assert_eq!(known(&tools, "a"), "Mcp-Param-B");
    learn(&tools, &[json!({ "name": "a", "inputSchema": {} })]);
    assert_eq!(known(&tools, "a"), "");
    learn(&tools, &[tool("a", "not a token")]);
    assert_eq!(known(&tools, "a"), "unchecked");
    learn(&tools, &[tool("a", "A"), tool("a", "C")]);
    assert_eq!(known(&tools, "a"), "Mcp-Param-C");
}

// rule P5
#[test]
fn what_is_no_list_teaches_nothing() {
    let tools = LearnedTools::new();
    let good = list(&[tool("a", "A")]);
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"error":{"code":1}}"#,
        r#"{"result":null}"#,
        r#"{"result":{"tools":{"name":"a"}}}"#,
        r#"{"result":{"tools":[1,[],{"name":1},{"name":"\ud800"},{}]}}"#,
        r#"{"params":{"tools":[{"name":"a"}]}}"#,
        r#"{"tools":[{"name":"a"}]}"#,
        &good[..good.len() - 1],
        &format!("{good}x"),
        &format!("[{good}]"),
    ] {
        tools.learn(text.as_bytes());
        assert_eq!(format!("{tools:?}"), "LearnedTools(0 tools)", "{text}");
    }
    tools.learn(&[good.as_bytes(), b"\xff"].concat());
    assert_eq!(known(&tools, "a"), "unknown");
    tools.learn(format!("\n{good} ").as_bytes());
    assert_eq!(known(&tools, "a"), "Mcp-Param-A");
}

// rule P5
#[test]
fn the_oldest_tools_are_forgotten_when_there_are_too_many() {
    let tools = LearnedTools::new().max_tools(3);
    for name in ["a", "b", "c"] {
        learn(&tools, &[tool(name, "X")]);
    }
    // Seen again, changed or not, they are no longer the oldest.
    learn(&tools, &[tool("a", "X"), tool("b", "Y")]);
    let found = || ["a", "b", "c", "d", "e"].map(|name| known(&tools, name) != "unknown");
    learn(&tools, &[tool("d", "X")]);
    assert_eq!(found(), [true, true, false, true, false]);
    learn(&tools, &[tool("e", "X")]);
    assert_eq!(found(), [false, true, false, true, true]);
    let none = LearnedTools::new().max_tools(0);
    learn(&none, &[tool("a", "X")]);
    assert_eq!(known(&none, "a"), "unknown");
}

// rule P5
#[test]
fn the_default_bounds_hold() {
    let tools = LearnedTools::new();
    let all: Vec<_> = (0..1500).map(|it| tool(&it.to_string(), "X")).collect();
    learn(&tools, &all);
    assert_eq!(format!("{tools:?}"), "LearnedTools(1024 tools)");
    let mut long = tool("long", "X");
    long["inputSchema"]["description"] = "x".repeat(64 * 1024).into();
    let name = "n".repeat(64 * 1024 + 1);
    learn(&tools, &[long, tool(&name, "X")]);
    assert_eq!(known(&tools, "long"), "unchecked");
    assert_eq!(known(&tools, &name), "unknown");
}

// rule P5
#[test]
fn a_tool_that_is_too_large_is_left_unchecked() {
    let small = tool("a", "A");
    let size = small["inputSchema"].to_string().len() + 1;
    for (limit, expected) in [(size, "Mcp-Param-A"), (size - 1, "unchecked")] {
        let tools = LearnedTools::new().max_bytes_per_tool(limit);
        learn(&tools, std::slice::from_ref(&small));
        assert_eq!(known(&tools, "a"), expected, "{limit}");
    }
}

/// A way to put a source that learns around a service.
#[derive(Clone, Copy, Debug)]
enum Stack {
    Validator,
    Row,
    Mcp,
}

type Boxed = BoxCloneService<Request<Chunks>, Response<UnsyncBoxBody<Bytes, Broken>>, Infallible>;

impl Stack {
    const ALL: [Self; 3] = [Self::Validator, Self::Row, Self::Mcp];

    fn around<F>(self, tools: &LearnedTools, service: support::Inner<F>) -> Boxed
    where
        F: Fn() -> Response<Chunks> + Clone + Send + 'static,
    {
        let server = || ServerInfo::new("test", "1");
        let validator = MirrorHeaderValidatorLayer::new().tool_schemas(tools.clone());
        match self {
            Self::Validator => boxed(validator.layer(service)),
            Self::Row => boxed(
                ServiceBuilder::new()
                    .layer(EraResolverLayer::new())
                    .layer(validator)
                    .layer(EnvelopeLayer::new(server()))
                    .service(service),
            ),
            Self::Mcp => boxed(
                McpLayer::new(server())
                    .tool_schemas(tools.clone())
                    .layer(service),
            ),
        }
    }
}

fn boxed<S, B>(service: S) -> Boxed
where
    S: Service<Request<Chunks>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes, Error = Broken> + Send + 'static,
{
    service
        .map_response(|answer: Response<B>| answer.map(BodyExt::boxed_unsync))
        .boxed_clone()
}

fn answering(
    kind: &'static str,
    body: impl Fn() -> Chunks + Clone + Send + 'static,
) -> support::Inner<impl Fn() -> Response<Chunks> + Clone + Send + 'static> {
    inner(move || {
        let response = Response::builder().header("content-type", kind);
        response.body(body()).unwrap()
    })
}

fn modern_list() -> Request<Chunks> {
    modern("tools/list", modern_body("tools/list", ""))
}

fn legacy_list() -> Request<Chunks> {
    post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
}

/// Whether a call that lacks the header is refused.
async fn is_checked(stack: Stack, tools: &LearnedTools) -> bool {
    let params = r#""name":"a","arguments":{"region":"x"}"#;
    let mut request = modern("tools/call", modern_body("tools/call", params));
    request
        .headers_mut()
        .insert("mcp-name", "a".parse().unwrap());
    let answer = send(stack.around(tools, plain()), request).await;
    if answer.status() == 400 {
        assert_eq!(
            answer.json()["error"]["data"]["header"],
            "Mcp-Param-A",
            "{stack:?}"
        );
    }
    answer.status() == 400
}

// rule P5
#[tokio::test]
async fn answers_of_both_eras_teach_however_they_are_cut() {
    let text = list(&[tool("a", "A")]);
    for stack in Stack::ALL {
        for request in [modern_list, legacy_list] {
            for size in [1, 7, 64, 4096] {
                let tools = LearnedTools::new();
                assert!(!is_checked(stack, &tools).await);
                let (copy, sized) = (text.clone(), size == 4096);
                let service = answering("application/json; charset=utf-8", move || {
                    if sized {
                        Chunks::one(copy.clone())
                    } else {
                        Chunks::cut(&copy, size)
                    }
                });
                send(stack.around(&tools, service), request()).await;
                assert!(is_checked(stack, &tools).await, "{stack:?} {size}");
            }
        }
    }
}

// rule P5
#[tokio::test]
async fn events_teach_as_soon_as_they_end() {
    let pretty =
        serde_json::to_string_pretty(&json!({ "id": 1, "result": { "tools": [tool("a", "A")] } }));
    let data = pretty.unwrap().replace('\n', "\ndata: ");
    let event = format!(": hello\n\nevent: message\nid: 7\ndata: {data}");
    for stack in Stack::ALL {
        for request in [modern_list, legacy_list] {
            for line_end in ["\n", "\r", "\r\n"] {
                for size in [1, 2, 5, 4096] {
                    let tools = LearnedTools::new();
                    let text = format!("{event}\n\n: more").replace('\n', line_end);
                    let service = answering("text/event-stream", move || {
                        let pieces = text.as_bytes().chunks(size);
                        let data = pieces.map(|it| Step::Data(Bytes::copy_from_slice(it)));
                        Chunks::of(data.chain([Step::Pending]))
                    });
                    // The stream stays open.
                    let mut service = stack.around(&tools, service);
                    let answer = service
                        .ready()
                        .await
                        .unwrap()
                        .call(request())
                        .await
                        .unwrap();
                    let mut body = pin!(answer.into_body());
                    std::future::poll_fn(|cx| {
                        while body.as_mut().poll_frame(cx).is_ready() {}
                        std::task::Poll::Ready(())
                    })
                    .await;
                    assert!(
                        is_checked(stack, &tools).await,
                        "{stack:?} {line_end:?} {size}"
                    );
                }
            }
            let tools = LearnedTools::new();
            let text = event.clone();
            let service = answering("text/event-stream", move || Chunks::one(text.clone()));
            send(stack.around(&tools, service), request()).await;
            assert!(is_checked(stack, &tools).await, "{stack:?}: no blank line");
        }
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    Data(Bytes),
    Trailers(http::HeaderMap),
    Failed,
}

async fn told(service: Boxed, request: Request<Chunks>) -> Vec<Told> {
    let answer = service.oneshot(request).await.unwrap();
    let mut body = pin!(answer.into_body());
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => Told::Data(data),
            Ok(Err(frame)) => Told::Trailers(frame.into_trailers().unwrap()),
            Err(_) => Told::Failed,
        });
    }
    frames
}

// rule P5
#[tokio::test]
async fn learning_changes_no_byte_and_no_frame() {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    let text = list(&[tool("a", "A")]);
    let mut steps: Vec<_> = text
        .as_bytes()
        .chunks(9)
        .map(Bytes::copy_from_slice)
        .collect();
    steps.insert(3, Bytes::new());
    for kind in ["application/json", "text/event-stream", "text/plain"] {
        for end in ["end", "trailers", "failure"] {
            for (stack, request) in [
                (Stack::Validator, modern_list as fn() -> _),
                (Stack::Validator, legacy_list),
                (Stack::Mcp, legacy_list),
            ] {
                let (sent, last) = (steps.clone(), trailers.clone());
                let service = answering(kind, move || {
                    let data = sent.iter().cloned().map(Step::Data);
                    Chunks::of(data.chain(match end {
                        "trailers" => Some(Step::Trailers(last.clone())),
                        "failure" => Some(Step::Fail),
                        _ => None,
                    }))
                });
                let tools = LearnedTools::new();
                let found = told(stack.around(&tools, service), request()).await;
                let mut expected: Vec<_> = steps.iter().cloned().map(Told::Data).collect();
                match end {
                    "trailers" => expected.push(Told::Trailers(trailers.clone())),
                    "failure" => expected.push(Told::Failed),
                    _ => {}
                }
                assert_eq!(found, expected, "{stack:?} {kind} {end}");
                // A failed answer is none.
                let learned = kind == "application/json" && end != "failure";
                assert_eq!(is_checked(stack, &tools).await, learned, "{kind} {end}");
            }
        }
    }
}

// rule P5
#[tokio::test]
async fn a_body_that_tells_its_end_teaches_before_it_is_polled_again() {
    let text = list(&[tool("a", "A")]);
    for stack in Stack::ALL {
        let (tools, copy) = (LearnedTools::new(), text.clone());
        let service = answering("application/json", move || Chunks::one(copy.clone()));
        let answer = stack.around(&tools, service).oneshot(legacy_list()).await;
        let mut body = pin!(answer.unwrap().into_body());
        std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
        assert!(body.is_end_stream());
        assert_eq!(known(&tools, "a"), "Mcp-Param-A", "{stack:?}");
    }
}

// rule P5
#[tokio::test]
async fn what_is_no_plain_answer_to_a_list_teaches_nothing() {
    let text = list(&[tool("a", "A")]);
    let call = || {
        let params = r#""name":"a","arguments":{}"#;
        let mut request = modern("tools/call", modern_body("tools/call", params));
        let headers = request.headers_mut();
        headers.insert("mcp-name", "a".parse().unwrap());
        request
    };
    let legacy_call =
        || post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#);
    let batch = || post(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#);
    let requests = [
        ("a call", call as fn() -> Request<Chunks>),
        ("a legacy call", legacy_call),
        ("a batch", batch),
    ];
    for stack in Stack::ALL {
        for (name, request) in requests {
            let (tools, copy) = (LearnedTools::new(), text.clone());
            let service = answering("application/json", move || Chunks::one(copy.clone()));
            send(stack.around(&tools, service), request()).await;
            assert_eq!(known(&tools, "a"), "unknown", "{name} {stack:?}");
        }
        for (name, value) in [("content-encoding", "gzip"), ("content-type", "text/plain")] {
            let (tools, copy) = (LearnedTools::new(), text.clone());
            let service = inner(move || {
                let mut response = Response::new(Chunks::one(copy.clone()));
                let headers = response.headers_mut();
                headers.insert("content-type", "application/json".parse().unwrap());
                headers.insert(name, value.parse().unwrap());
                response
            });
            send(stack.around(&tools, service), legacy_list()).await;
            assert_eq!(known(&tools, "a"), "unknown", "{name} {stack:?}");
        }
    }
}

// rule P5
#[tokio::test]
async fn an_answer_above_the_limit_passes_and_teaches_nothing() {
    let limit = 4 << 20;
    // What is held of a stream ends with a chunk.
    for (kind, before, after, chunk) in [
        ("application/json", "", "", 1),
        ("text/event-stream", "data: ", "\n\n", 1 << 20),
    ] {
        for (length, learned) in [(limit, true), (limit + chunk, false)] {
            let mut text = format!("{before}{}", list(&[tool("a", "A")]));
            text.push_str(&" ".repeat(length - text.len()));
            text.push_str(after);
            for stack in Stack::ALL {
                let (tools, copy) = (LearnedTools::new(), text.clone());
                let service = answering(kind, move || Chunks::cut(&copy, 1 << 20));
                let answer = send(stack.around(&tools, service), legacy_list()).await;
                assert!(answer.body == text, "{kind} {stack:?} {length}");
                let found = known(&tools, "a") != "unknown";
                assert_eq!(found, learned, "{kind} {stack:?} {length}");
            }
        }
    }
}

// rule P5
#[tokio::test]
async fn an_answer_too_long_to_be_stamped_still_teaches() {
    let text = list(&[tool("a", "A")]);
    let (tools, copy) = (LearnedTools::new(), text.clone());
    let service = answering("application/json", move || Chunks::cut(&copy, 16));
    let layer = McpLayer::new(ServerInfo::new("test", "1"))
        .answer_limit(20)
        .tool_schemas(tools.clone());
    let answer = send(layer.layer(service), modern_list()).await;
    assert_eq!(answer.body, text);
    assert!(is_checked(Stack::Mcp, &tools).await);
}

// rule P5
#[tokio::test]
async fn trailers_end_an_answer() {
    let text = list(&[tool("a", "A")]);
    for stack in [Stack::Validator, Stack::Mcp] {
        let (tools, copy) = (LearnedTools::new(), text.clone());
        let service = answering("application/json", move || {
            let data = Step::Data(copy.clone().into());
            Chunks::of([data, Step::Trailers(http::HeaderMap::new()), Step::Pending])
        });
        let answer = stack.around(&tools, service).oneshot(legacy_list()).await;
        let mut body = pin!(answer.unwrap().into_body());
        for expected in ["unknown", "Mcp-Param-A"] {
            std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
            assert_eq!(known(&tools, "a"), expected, "{stack:?}");
        }
    }
}

// rules P1, P4
#[tokio::test]
async fn a_tool_that_cannot_be_checked_is_not_unknown() {
    let tools = LearnedTools::new();
    learn(&tools, &[tool("a", "not a token")]);
    for (tool, status) in [("a", 200), ("b", 400)] {
        let params = format!(r#""name":"{tool}","arguments":{{"region":"x"}}"#);
        let mut request = modern("tools/call", modern_body("tools/call", &params));
        request
            .headers_mut()
            .insert("mcp-name", tool.parse().unwrap());
        let layer = MirrorHeaderValidatorLayer::new()
            .tool_schemas(tools.clone())
            .refuse_unknown_tools(true);
        let answer = send(layer.layer(plain()), request).await;
        assert_eq!(answer.status(), status, "{tool}");
    }
}

/// Keeps what it is shown.
#[derive(Default)]
struct Audience {
    shown: Mutex<Vec<Vec<u8>>>,
    is_away: bool,
}

impl ToolSchemas for Audience {
    fn lookup(&self, _: &str) -> Lookup {
        Lookup::Unknown
    }

    fn observes(&self) -> bool {
        !self.is_away
    }

    fn observe(&self, answer: &[u8]) {
        self.shown.lock().unwrap().push(answer.to_vec());
    }
}

// rule P5
#[tokio::test]
async fn any_source_can_watch_each_answer_once() {
    let text = list(&[tool("a", "A")]);
    for (request, cut) in [
        (modern_list as fn() -> _, 9),
        (legacy_list, 9),
        (modern_list, 4096),
    ] {
        let (audience, copy) = (Arc::new(Audience::default()), text.clone());
        let service = answering("application/json", move || Chunks::cut(&copy, cut));
        let layer = McpLayer::new(ServerInfo::new("test", "1")).tool_schemas(Arc::clone(&audience));
        send(layer.layer(service), request()).await;
        assert_eq!(*audience.shown.lock().unwrap(), [text.as_bytes()]);
    }
    let audience = Arc::new(Audience {
        is_away: true,
        ..Audience::default()
    });
    let service = answering("application/json", move || Chunks::one(text.clone()));
    let layer = McpLayer::new(ServerInfo::new("test", "1")).tool_schemas(Arc::clone(&audience));
    send(layer.layer(service), modern_list()).await;
    assert_eq!(*audience.shown.lock().unwrap(), [""; 0].map(Vec::from));
}
