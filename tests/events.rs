//! What the envelope does to a stream of server-sent events.

mod support;

use std::{pin::pin, task::Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use mcp_layers::{CacheHint, EnvelopeLayer, McpLayer, ServerInfo};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Answer, Chunks, Step, inner, modern, modern_body, send, tools_call};
use tower::{Layer, ServiceExt};

const SERVER: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}"#;

fn layer() -> EnvelopeLayer {
    EnvelopeLayer::new(ServerInfo::new("test", "1"))
}

fn stream(body: Chunks) -> Response<Chunks> {
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(body)
        .unwrap()
}

fn stamp() -> String {
    format!(r#""resultType":"complete","_meta":{{{SERVER}}}"#)
}

async fn answer_to(request: Request<Chunks>, layer: EnvelopeLayer, pieces: Vec<Vec<u8>>) -> Answer {
    let service = layer.layer(inner(move || {
        stream(Chunks::of(
            pieces.clone().into_iter().map(Bytes::from).map(Step::Data),
        ))
    }));
    send(service, request).await
}

async fn out(text: &str) -> String {
    let answer = answer_to(tools_call(), layer(), vec![text.into()]).await;
    assert_eq!(answer.status(), 200);
    String::from_utf8(answer.body.to_vec()).unwrap()
}

// rule V5
#[rustfmt::skip] // a table
#[tokio::test]
async fn answers_are_stamped_and_the_rest_passes_byte_for_byte() {
    let stamp = stamp();
    for (before, after) in [
        ("data: {\"id\":1,\"result\":{}}\n\n", format!("data: {{\"id\":1,\"result\":{{{stamp}}}}}\n\n")),
        ("data:{\"result\":{}}\r\n\r\n", format!("data:{{\"result\":{{{stamp}}}}}\r\n\r\n")),
        ("data: {\"result\":{}}\r\r", format!("data: {{\"result\":{{{stamp}}}}}\r\r")),
        ("id:17\nretry:3000\nevent:message\ndata:{\"result\":{}}\n: c\nid: 18\n\n", format!("id:17\nretry:3000\nevent:message\ndata:{{\"result\":{{{stamp}}}}}\n: c\nid: 18\n\n")),
        ("data: {\ndata:  \"result\":\nid: 1\ndata:{}}\n\n", format!("data: {{\ndata:  \"result\":\nid: 1\ndata:{{{stamp}}}}}\n\n")),
        ("\u{feff}data: {\"result\":{}}\n\n", format!("\u{feff}data: {{\"result\":{{{stamp}}}}}\n\n")),
        ("data: {\"result\":{}}", format!("data: {{\"result\":{{{stamp}}}}}")),
        ("data: {\"result\":{}}\n", format!("data: {{\"result\":{{{stamp}}}}}\n")),
        ("data: {\"error\":{\"code\":-32002}}\n\n", "data: {\"error\":{\"code\":-32602}}\n\n".into()),
        ("data: {\"result\":{}}\n\ndata: {\"result\":{}}\n\n", format!("data: {{\"result\":{{{stamp}}}}}\n\ndata: {{\"result\":{{{stamp}}}}}\n\n")),
        ("data: {\"result\":{},\"method\":\"x\",\"id\":1}\n\n", format!("data: {{\"result\":{{{stamp}}},\"method\":\"x\",\"id\":1}}\n\n")),
    ] {
        assert_eq!(out(before).await, after, "{before:?}");
    }
    for same in [
        "", "\n", "\r\n\r\n", ":\r\n\r\n", ": keep-alive\n\n", "id: p_0\nretry: 1000\ndata:\n\n", "data\n\n", "data\ndata\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1.0}}\n\n",
        "data: {\"id\":5,\"method\":\"x\",\"params\":{\"a\":NaN}}\n\n", "data: {\"method\":\"notifications/message\",\"params\":{oops]}\n\n",
        "event: endpoint\ndata: /messages?x\n\n", "data: not JSON\n\n", "data: [{\"result\":{}}]\n\n",
        "data: {\"result\":[]}\n\n", "data: {\"result\":{}\n\n", "datax: {\"result\":{}}\n\n", "DATA: {\"result\":{}}\n\n",
        " data: {\"result\":{}}\n\n", ": data: {\"result\":{}}\n\n", "data: {\"error\":{\"code\":-32601}}\n\n",
        "data: {\"result\":{}}\ndata: x\n\n", "\u{feff}\u{feff}data: {\"result\":{}}\n\n",
        "data: {\"id\":1,\"result\":{\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{}}}}\n\n",
    ] {
        assert_eq!(out(same).await, same);
    }
}

// rule V3
#[tokio::test]
async fn a_hint_that_spans_lines_is_not_torn_apart() {
    let body = modern_body("tools/call", r#""name":"get_weather","requestState":"x""#);
    let mut retry = tools_call();
    *retry.body_mut() = Chunks::one(body);
    let event = "data: {\"result\":{\"ttlMs\":[1,\ndata: 2]}}\n\n";
    let answer = answer_to(retry, layer(), vec![event.into()]).await;
    assert_eq!(answer.body, event);
}

// rule V9
#[rustfmt::skip] // a table
#[tokio::test]
async fn requests_of_the_server_and_unasked_log_messages_are_taken_out() {
    let request = r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#;
    for message in [request, log] {
        let whole = format!("id: 1\nevent: message\ndata: {message}\n\n: c\n\n");
        assert_eq!(out(&whole).await, "id: 1\nevent: message\n:\n\n: c\n\n");
        let (first, second) = message.split_at(message.find(',').unwrap() + 1);
        let lines = format!("data: {first}\r\nid: 5\r\ndata: {second}\r\nretry: 1\r\n\r\n");
        assert_eq!(out(&lines).await, ":\r\nid: 5\r\n:\r\nretry: 1\r\n\r\n");
    }
    for (level, kept) in [
        (r#""debug""#, true), (r#""emergency""#, true), (r#""inf\u006f""#, true), (r#""loud""#, false),
        ("1", false), ("null", false), (r#""INFO""#, false),
    ] {
        let body = modern_body("tools/call", r#""name":"get_weather""#)
            .replace("\"_meta\":{", &format!("\"_meta\":{{\"io.modelcontextprotocol/logLevel\":{level},"));
        let mut asking = tools_call();
        *asking.body_mut() = Chunks::one(body);
        let event = format!("data: {log}\n\n");
        let answer = answer_to(asking, layer(), vec![event.clone().into()]).await;
        assert_eq!(answer.body, if kept { &*event } else { ":\n\n" }, "{level}");
    }
}

// rules V2, V3
#[tokio::test]
async fn streamed_results_get_hints_like_others() {
    let event = b"data: {\"id\":1,\"result\":{\"tools\":[]}}\n\n".to_vec();
    let list = || modern("tools/list", modern_body("tools/list", ""));
    let hint = CacheHint::public(std::time::Duration::from_secs(1));
    let answer = answer_to(list(), layer().cache("tools/list", hint), vec![event]).await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    assert!(
        text.contains(r#""ttlMs":1000,"cacheScope":"public","#),
        "{text}"
    );
}

// rule V5
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_stream_keeps_its_status_and_is_not_held_back_by_proxies() {
    for (kind, stamped) in [
        ("text/event-stream", true), ("Text/Event-Stream; charset=utf-8", true), ("text/event-streams", false),
    ] {
        let service = McpLayer::new(ServerInfo::new("test", "1")).layer(inner(move || {
            Response::builder()
                .status(203)
                .header("content-type", kind)
                .header("content-length", "49")
                .header("mcp-session-id", "s")
                .body(Chunks::one("data: {\"error\":{\"code\":-32601}}\n\ndata: {\"result\":{}}"))
                .unwrap()
        }));
        let answer = send(service, tools_call()).await;
        assert_eq!(answer.status(), 203);
        let headers = &answer.head.headers;
        assert_eq!(headers.get("x-accel-buffering").is_some(), stamped, "{kind}");
        assert_eq!(headers.get("content-length").is_none(), stamped, "{kind}");
        assert!(!headers.contains_key("mcp-session-id"));
    }
    let service = layer().layer(inner(|| {
        let mut response = stream(Chunks::default());
        response.headers_mut().insert("x-accel-buffering", "yes".parse().unwrap());
        response
    }));
    assert_eq!(send(service, tools_call()).await.head.headers["x-accel-buffering"], "yes");
}

#[tokio::test]
async fn what_can_leave_leaves_at_once() {
    let mut left = String::new();
    for (piece, leaves) in [
        (": hello\n", ": hello\n"),
        ("\nid: 1\neve", "\nid: 1\n"),
        ("nt: message\n", "event: message\n"),
        ("data: {\"method\":\"notifications/progress\"", ""),
        ("}\n", ""),
        ("\n", "data: {\"method\":\"notifications/progress\"}\n\n"),
        ("data: x\r\r", "data: x\r\r"),
        ("\n: c\n", "\n: c\n"),
    ] {
        left.push_str(piece);
        let steps = [Step::Data(left.clone().into()), Step::Pending];
        let body = std::sync::Mutex::new(Some(Chunks::of(steps)));
        let body = std::sync::Arc::new(body);
        let service = layer().layer(inner(move || stream(body.lock().unwrap().take().unwrap())));
        let mut answer = service.oneshot(tools_call()).await.unwrap().into_body();
        let mut found = Vec::new();
        loop {
            let frame = pin!(answer.frame());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            match std::future::Future::poll(frame, &mut cx) {
                Poll::Ready(Some(Ok(frame))) => found.extend(frame.into_data().unwrap()),
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => break,
            }
        }
        let found = String::from_utf8(found).unwrap();
        assert!(found.ends_with(leaves), "{piece:?}: {found:?}");
        let held = left.len() - found.len();
        assert!(left.starts_with(&found), "{found:?}");
        assert!(
            leaves.is_empty() || held <= 3,
            "{held} bytes are held behind {piece:?}"
        );
    }
}

#[tokio::test]
async fn an_event_above_the_limit_passes_whole_and_the_next_is_stamped() {
    let long = format!("data: {{\"result\":{{\"x\":\"{}\"}}}}\n", "x".repeat(300));
    let stamped = format!("data: {{\"result\":{{{}}}}}\n\n", stamp());
    for size in (1..60).chain([10_000]) {
        for more in ["\n", "data: y\n\n", "\r\n", "id: 1\n\n"] {
            let text = format!("{long}{more}data: {{\"result\":{{}}}}\n\n");
            let pieces = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let answer = answer_to(tools_call(), layer().answer_limit(200), pieces).await;
            let body = std::str::from_utf8(&answer.body).unwrap();
            assert_eq!(body, format!("{long}{more}{stamped}"), "chunks of {size}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_hands_out_what_it_held_and_its_failure() {
    let service = layer().layer(inner(|| {
        stream(Chunks::of([
            Step::Data(": a\ndata: {\"res".into()),
            Step::Fail,
        ]))
    }));
    let mut body = service.oneshot(tools_call()).await.unwrap().into_body();
    let mut found = Vec::new();
    let failed = loop {
        match body.frame().await {
            Some(Ok(frame)) => found.extend(frame.into_data().unwrap()),
            Some(Err(_)) => break true,
            None => break false,
        }
    };
    assert!(failed);
    assert_eq!(found, b": a\ndata: {\"res");
}

#[tokio::test]
async fn trailers_follow_the_last_event() {
    let service = layer().layer(inner(|| {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        stream(Chunks::of([
            Step::Data("data: {\"result\":{}}".into()),
            Step::Trailers(trailers),
        ]))
    }));
    let answer = send(service, tools_call()).await;
    assert_eq!(answer.body, format!("data: {{\"result\":{{{}}}}}", stamp()));
    assert_eq!(answer.trailers.unwrap()["x-sum"], "1");
}

/// Pieces that streams are made of.
fn piece() -> impl Strategy<Value = String> {
    let message = prop_oneof![
        Just(r#"{"id":1,"result":{"a":"é"}}"#.to_owned()),
        Just(r#"{"id":1,"result":{"_meta":{"x":1},"content":[1]}}"#.to_owned()),
        Just(r#"{"id":1,"error":{"code":-32042}}"#.to_owned()),
        Just(r#"{"method":"notifications/progress"}"#.to_owned()),
        Just(r#"{"id":2,"method":"roots/list"}"#.to_owned()),
        Just(r#"{"method":"notifications/message"}"#.to_owned()),
        "[a-z :]{0,6}",
    ];
    let line = prop_oneof![
        4 => (message, prop::sample::select(vec!["data:", "data: ", "data:  "])).prop_map(|(text, start)| format!("{start}{text}")),
        1 => Just(r#"data: {"id":1,"#.to_owned()),
        1 => Just(r#"data: "result":{}}"#.to_owned()),
        1 => prop::sample::select(vec![": c", "id: 1", "event: message", "retry: 5", "data", "datum: x", "\u{feff}"]).prop_map(str::to_owned),
        4 => Just(String::new()),
    ];
    (line, prop::sample::select(vec!["\n", "\r\n", "\r"])).prop_map(|(line, end)| line + end)
}

/// What becomes of a message, on a tree; `None` if it is taken out.
fn oracle(data: &str) -> Option<String> {
    let Ok(Value::Object(mut message)) = serde_json::from_str(data) else {
        return Some(data.into());
    };
    if message.contains_key("method") {
        let dropped = message.contains_key("id") || message["method"] == "notifications/message";
        return (!dropped).then(|| data.into());
    }
    if let Some(Value::Object(result)) = message.get_mut("result") {
        result.entry("resultType").or_insert(json!("complete"));
        let meta = result.entry("_meta").or_insert(json!({}));
        meta["io.modelcontextprotocol/serverInfo"] = json!({ "name": "test", "version": "1" });
    }
    if message
        .get("error")
        .is_some_and(|error| error["code"] == -32042)
    {
        message["error"]["code"] = json!(-32603);
    }
    Some(Value::Object(message).to_string())
}

/// The events of a stream as a client reads them: other lines, and the data if there is any.
fn events(text: &str) -> Vec<(Vec<String>, Option<String>)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.split('\n').collect::<Vec<_>>();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let mut all = Vec::new();
    let (mut others, mut data) = (Vec::new(), None::<String>);
    for line in lines.into_iter().chain([""]) {
        if line.is_empty() {
            all.push((std::mem::take(&mut others), data.take()));
        } else if line == "data" || line.starts_with("data:") {
            let value = line.get(5..).unwrap_or_default();
            let value = value.strip_prefix(' ').unwrap_or(value);
            data = Some(data.map_or(value.into(), |data| format!("{data}\n{value}")));
        } else if line != ":" {
            others.push(line.into());
        }
    }
    all
}

/// Equal as JSON where both are, as text where not.
fn same(a: &str, b: &str) -> bool {
    match (
        serde_json::from_str::<Value>(a),
        serde_json::from_str::<Value>(b),
    ) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

fn run(pieces: Vec<Vec<u8>>) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime
        .block_on(answer_to(tools_call(), layer(), pieces))
        .body
        .to_vec()
}

proptest! {
    #[test]
    fn a_stream_is_stamped_as_an_oracle_says_however_it_is_cut(
        pieces in prop::collection::vec(piece(), 0..12),
        sizes in prop::collection::vec(1usize..9, 1..8),
    ) {
        let text = pieces.concat();
        let whole = run(vec![text.clone().into()]);
        let found = events(std::str::from_utf8(&whole).unwrap());
        let expected = events(&text).into_iter().map(|(others, data)| {
            (others, data.and_then(|data| oracle(&data)))
        }).collect::<Vec<_>>();
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(&found.0, &expected.0);
            let equal = match (&found.1, &expected.1) {
                (Some(found), Some(expected)) => same(found, expected),
                (found, expected) => found == expected,
            };
            prop_assert!(equal, "{:?} is not {:?}", found, expected);
        }
        let mut rest = text.as_bytes();
        let mut cut = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            cut.push(piece.to_vec());
            rest = after;
        }
        prop_assert_eq!(run(cut), whole.clone(), "random chunks");
        for at in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            prop_assert_eq!(run(vec![a.to_vec(), b.to_vec()]), whole.clone(), "cut at {}", at);
        }
    }
}
