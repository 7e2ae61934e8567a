//! What the envelope adds to modern answers, and what it leaves alone.

mod support;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use mcp_layers::{
    CacheHint, EnvelopeLayer, Era, EraResolverLayer, McpLayer, Message, RequestBody, ServerInfo,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{Answer, Chunks, Seen, Step, inner, modern, modern_body, send, tools_call};
use tower::{Layer, ServiceBuilder, ServiceExt};

fn info() -> ServerInfo {
    ServerInfo::new("test", "1")
}

const SERVER: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}"#;

fn call(method: &str, params: &str) -> Request<Chunks> {
    let mut request = modern(method, modern_body(method, params));
    for name in ["name", "uri"] {
        let prefix = format!(r#""{name}":""#);
        if let Some(rest) = params.strip_prefix(&prefix) {
            let value = rest.split('"').next().unwrap();
            request
                .headers_mut()
                .insert("mcp-name", value.parse().unwrap());
        }
    }
    request
}

fn list() -> Request<Chunks> {
    call("tools/list", "")
}

fn answer(status: u16, headers: &[(&str, &str)], body: Chunks) -> Response<Chunks> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

fn json_answer(text: impl Into<Bytes>) -> Response<Chunks> {
    answer(
        200,
        &[("content-type", "application/json")],
        Chunks::one(text),
    )
}

/// Sends a request through the layer alone and through the stack, which have to agree.
async fn through(
    request: impl Fn() -> Request<Chunks>,
    make: impl Fn() -> Response<Chunks> + Clone + Send + 'static,
) -> Answer {
    let alone = send(
        EnvelopeLayer::new(info()).layer(inner(make.clone())),
        request(),
    )
    .await;
    let mut stack = send(McpLayer::new(info()).layer(inner(make)), request()).await;
    // The guard's, not the envelope's.
    assert_eq!(stack.head.headers.remove("vary").unwrap(), "Origin");
    assert_eq!(alone.status(), stack.status());
    assert_eq!(alone.body, stack.body);
    assert_eq!(alone.head.headers, stack.head.headers);
    stack
}

async fn text_of(request: impl Fn() -> Request<Chunks>, text: &'static str) -> String {
    let answer = through(request, move || json_answer(text)).await;
    assert_eq!(answer.status(), 200);
    String::from_utf8(answer.body.to_vec()).unwrap()
}

// rule V1
#[rustfmt::skip] // a table
#[tokio::test]
async fn a_result_gains_what_it_lacks_in_front_of_what_it_has() {
    let full = format!(r#""resultType":"complete","_meta":{{{SERVER}}}"#);
    for (before, after) in [
        (r#"{"id":1,"result":{}}"#, format!(r#"{{"id":1,"result":{{{full}}}}}"#)),
        (r#"{"id":1,"result":{ }}"#, format!(r#"{{"id":1,"result":{{{full} }}}}"#)),
        ("{\"result\" :\n{ \"a\":1 } , \"id\":1}\r\n", format!("{{\"result\" :\n{{{full}, \"a\":1 }} , \"id\":1}}\r\n")),
        (r#"{"result":{"resultType":"complete"}}"#, format!(r#"{{"result":{{"_meta":{{{SERVER}}},"resultType":"complete"}}}}"#)),
        (r#"{"result":{"_meta":{}}}"#, format!(r#"{{"result":{{"resultType":"complete","_meta":{{{SERVER}}}}}}}"#)),
        (r#"{"result":{"_meta":{"a":{}},"b":1}}"#, format!(r#"{{"result":{{"resultType":"complete","_meta":{{{SERVER},"a":{{}}}},"b":1}}}}"#)),
        (r#"{"result":{"res\u0075ltType":"task","_meta":{"io.modelcontextprotocol/serverInfo":null}}}"#, r#"{"result":{"res\u0075ltType":"task","_meta":{"io.modelcontextprotocol/serverInfo":null}}}"#.into()),
        (r#"{"result":{"_meta":null}}"#, r#"{"result":{"resultType":"complete","_meta":null}}"#.into()),
        (r#"{"result":{"_meta":[1],"resultType":1}}"#, r#"{"result":{"_meta":[1],"resultType":1}}"#.into()),
    ] {
        assert_eq!(text_of(tools_call, before).await, after);
    }
}

// rule V1
#[tokio::test]
async fn every_other_byte_stays() {
    let odd = r#""n":[18446744073709551616,0.10,1E400,-0,1.0],"s":"\ud83d \/ \u00e9 é","d":[[[[{"result":{}}]]]],"dup":1,"dup":2"#;
    let before: &'static str =
        Box::leak(format!(r#"{{"id":9007199254740993,"result":{{{odd}}}}}"#).into_boxed_str());
    let after = text_of(tools_call, before).await;
    assert!(after.ends_with(&format!(",{odd}}}}}")), "{after}");
    assert!(
        after.starts_with(r#"{"id":9007199254740993,"result":{"resultType":"complete","#),
        "{after}"
    );
}

// rules V1, V2
#[rustfmt::skip] // a table
#[tokio::test]
async fn complete_results_of_cacheable_methods_gain_a_hint_that_lets_nobody_keep_them() {
    for (method, params, hinted) in [
        ("server/discover", "", true), ("tools/list", "", true), ("prompts/list", "", true),
        ("resources/list", "", true), ("resources/templates/list", "", true),
        ("resources/read", r#""uri":"a""#, true), ("tools/call", r#""name":"a""#, false),
        ("prompts/get", r#""name":"a""#, false), ("completion/complete", "", false), ("x/y", "", false),
    ] {
        let answer = through(|| call(method, params), || json_answer(r#"{"id":1,"result":{}}"#)).await;
        let result = &answer.json()["result"];
        assert_eq!(result.get("ttlMs").is_some(), hinted, "{method}");
        assert_eq!(result.get("cacheScope").is_some(), hinted, "{method}");
        if hinted {
            assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        }
    }
}

// rules V1, V4
#[rustfmt::skip] // a table
#[tokio::test]
async fn what_the_handler_set_wins_and_incomplete_results_get_no_hint() {
    for (before, ttl, scope) in [
        (r#"{"result":{"ttlMs":5}}"#, json!(5), json!("private")),
        (r#"{"result":{"cacheScope":"public"}}"#, json!(0), json!("public")),
        (r#"{"result":{"ttlMs":null,"cacheScope":null}}"#, Value::Null, Value::Null),
        (r#"{"result":{"resultType":"complete"}}"#, json!(0), json!("private")),
        (r#"{"result":{"resultType":"compl\u0065te"}}"#, json!(0), json!("private")),
        (r#"{"result":{"resultType":"input_required"}}"#, json!("absent"), json!("absent")),
        (r#"{"result":{"resultType":null}}"#, json!("absent"), json!("absent")),
        (r#"{"result":{"resultType":"task","ttlMs":7}}"#, json!(7), json!("absent")),
    ] {
        let answer = through(list, move || json_answer(before)).await;
        let json = answer.json();
        let get = |key| json["result"].get(key).cloned().unwrap_or(json!("absent"));
        assert_eq!((get("ttlMs"), get("cacheScope")), (ttl, scope), "{before}");
    }
}

// rule V2
#[rustfmt::skip] // a table
#[tokio::test]
async fn hints_are_chosen_by_method_and_by_request() {
    let layer = EnvelopeLayer::new(info())
        .cache("tools/list", CacheHint::public(Duration::from_millis(300_001)))
        .cache("resources/read", CacheHint::private(Duration::from_secs(1)))
        .cache("tools/call", CacheHint::public(Duration::from_secs(1)))
        .cache_with(|message: &Message| {
            (message.name() == Some("file:///public")).then(|| CacheHint::public(Duration::from_secs(2)))
        });
    for (method, params, ttl, scope) in [
        ("tools/list", "", json!(300_001), json!("public")),
        ("tools/list", r#""cursor":"x""#, json!(300_001), json!("public")),
        ("resources/read", r#""uri":"file:///private""#, json!(1000), json!("private")),
        ("resources/read", r#""uri":"file:///public""#, json!(2000), json!("public")),
        ("prompts/list", "", json!(0), json!("private")),
        ("tools/call", r#""name":"file:///public""#, Value::Null, Value::Null),
    ] {
        let service = layer.layer(inner(|| json_answer(r#"{"result":{}}"#)));
        let result = &send(service, call(method, params)).await.json()["result"];
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&ttl, &scope), "{method} {params}");
    }
}

// rule V3
#[tokio::test]
async fn the_answer_to_a_retry_may_not_be_kept_whatever_the_handler_says() {
    for retry in [
        r#""uri":"a","inputResponses":{}"#,
        r#""uri":"a","requestState":"x""#,
        r#""uri":"a","requestState":null"#,
    ] {
        let kept = EnvelopeLayer::new(info()).layer(inner(|| {
            json_answer(r#"{"result":{"ttlMs":9,"resultType":"x","cacheScope":"public"}}"#)
        }));
        let json = send(kept, call("tools/call", &retry.replace("uri", "name")))
            .await
            .json();
        assert_eq!(
            (&json["result"]["ttlMs"], &json["result"]["cacheScope"]),
            (&json!(0), &json!("private"))
        );
        for before in [
            r#"{"result":{}}"#,
            r#"{"result":{"cacheScope":"public","x":1,"ttlMs":99999}}"#,
            r#"{"result":{"ttlMs":5}}"#,
        ] {
            let layer = EnvelopeLayer::new(info())
                .cache("resources/read", CacheHint::public(Duration::from_secs(9)));
            let service = layer.layer(inner(move || json_answer(before)));
            let json = send(service, call("resources/read", retry)).await.json();
            let result = &json["result"];
            assert_eq!(
                (&result["ttlMs"], &result["cacheScope"]),
                (&json!(0), &json!("private")),
                "{retry} {before}"
            );
        }
    }
}

// rule V6
#[rustfmt::skip] // a table
#[tokio::test]
async fn an_error_gets_the_status_of_its_code_where_the_inner_status_is_200() {
    for (code, status) in [
        (-32601, 404), (-32020, 400), (-32021, 400), (-32022, 400), (-32700, 400), (-32600, 400),
        (-32602, 200), (-32603, 200), (-32000, 200), (1, 200), (0, 200),
    ] {
        let error: &'static str = Box::leak(format!(r#"{{"id":1,"error":{{"code":{code},"message":"x"}}}}"#).into_boxed_str());
        let found = through(tools_call, move || json_answer(error)).await;
        assert_eq!(found.status(), status, "{code}");
        assert_eq!(found.body, error);
        let other = through(tools_call, move || answer(503, &[("content-type", "application/json")], Chunks::one(error))).await;
        assert_eq!(other.status(), 503, "{code}");
    }
    let in_a_result = through(tools_call, || json_answer(r#"{"result":{"error":{"code":-32601}}}"#)).await;
    assert_eq!(in_a_result.status(), 200);
}

// rule V8
#[rustfmt::skip] // a table
#[tokio::test]
async fn codes_that_the_revision_forbids_are_replaced_and_nothing_else() {
    for (before, after) in [
        (r#"{ "error":{ "message":"-32002", "code" : -32002,"data":{"code":-32002}} }"#, r#"{ "error":{ "message":"-32002", "code" : -32602,"data":{"code":-32002}} }"#),
        (r#"{"error":{"code":-32042}}"#, r#"{"error":{"code":-32603}}"#),
        (r#"{"error":{"code":-32003}}"#, r#"{"error":{"code":-32003}}"#),
        (r#"{"error":{"code":"-32002"}}"#, r#"{"error":{"code":"-32002"}}"#),
        (r#"{"error":-32002}"#, r#"{"error":-32002}"#),
    ] {
        assert_eq!(text_of(tools_call, before).await, after);
    }
}

// rule V7
#[rustfmt::skip] // a table
#[tokio::test]
async fn what_is_not_a_plain_json_answer_is_untouched() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    const RESULT: &str = r#"{"id":1,"result":{}}"#;
    let cases = [
        ("compressed", 200, &[JSON, ("content-encoding", "gzip")][..], RESULT),
        ("text", 200, &[("content-type", "text/plain")], RESULT),
        ("no type", 200, &[], RESULT),
        ("another JSON", 200, &[("content-type", "application/json-seq")], RESULT),
        ("accepted", 202, &[JSON], RESULT),
        ("no content", 204, &[JSON], ""),
        ("empty", 200, &[JSON], ""),
        ("not JSON", 200, &[JSON], "<html>"),
        ("cut short", 200, &[JSON], r#"{"id":1,"result":{}"#),
        ("two texts", 200, &[JSON], r#"{"result":{}}{"result":{}}"#),
        ("a result that is no object", 200, &[JSON], r#"{"id":1,"result":[]}"#),
        ("a batch", 200, &[JSON], r#"[{"id":1,"result":{}}]"#),
        ("two results", 200, &[JSON], r#"{"result":{},"result":{}}"#),
        ("two results, one of them no object", 200, &[JSON], r#"{"result":1,"result":{}}"#),
        ("a member twice", 200, &[JSON], r#"{"result":{"_meta":{},"_meta":{}}}"#),
    ];
    for (name, status, headers, body) in cases {
        let found = through(tools_call, move || answer(status, headers, Chunks::one(body))).await;
        assert_eq!(found.status(), status, "{name}");
        assert_eq!(found.body, body, "{name}");
        for (header, value) in headers {
            assert_eq!(found.head.headers[*header], *value, "{name}");
        }
    }
}

// rule V7
#[tokio::test]
async fn an_answer_above_the_limit_passes_whole_and_one_below_is_stamped() {
    let text = r#"{"id":1,"result":{"content":[]}}"#;
    for (limit, stamped) in [(text.len(), true), (text.len() - 1, false), (0, false)] {
        for size in [1, 10, 1000] {
            let layer = McpLayer::new(info()).answer_limit(limit);
            let service = layer.layer(inner(move || {
                answer(
                    200,
                    &[("content-type", "application/json")],
                    Chunks::cut(text, size),
                )
            }));
            let found = send(service, tools_call()).await;
            if stamped {
                assert!(found.json()["result"].get("resultType").is_some());
            } else {
                assert_eq!(found.body, text, "limit {limit}, chunks of {size}");
            }
        }
    }
}

// rule V7
#[tokio::test]
async fn content_length_is_right_or_absent_and_trailers_survive() {
    let text = r#"{"id":1,"result":{}}"#;
    let with_length = move |text: &'static str| {
        let length = text.len().to_string();
        let headers = [
            ("content-type", "application/json"),
            ("content-length", &*length),
            ("content-digest", "x"),
        ];
        answer(200, &headers, Chunks::one(text))
    };
    let stamped = through(tools_call, move || with_length(text)).await;
    assert!(!stamped.head.headers.contains_key("content-length"));
    assert!(!stamped.head.headers.contains_key("content-digest"));
    let error = r#"{"id":1,"error":{"code":1}}"#;
    let untouched = through(tools_call, move || with_length(error)).await;
    assert_eq!(
        untouched.head.headers["content-length"],
        error.len().to_string()
    );
    let trailers = through(tools_call, move || {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let steps = [Step::Data(text.into()), Step::Trailers(trailers)];
        answer(
            200,
            &[("content-type", "APPLICATION/json; charset=utf-8")],
            Chunks::of(steps),
        )
    })
    .await;
    assert_eq!(trailers.json()["result"]["resultType"], "complete");
    assert_eq!(trailers.trailers.unwrap()["x-sum"], "1");
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_where_it_did() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let service = McpLayer::new(info()).layer(inner(|| {
        let steps = [
            Step::Data("{\"id\"".into()),
            Step::Data(":1".into()),
            Step::Fail,
        ];
        answer(
            200,
            &[("content-type", "application/json")],
            Chunks::of(steps),
        )
    }));
    let mut body = service.oneshot(tools_call()).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "{\"id\":1");
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn the_identity_is_written_as_it_was_given() {
    let info = ServerInfo::new("a\"b", "1")
        .title("T")
        .description("é")
        .website_url("https://x.example");
    let service = EnvelopeLayer::new(info).layer(inner(|| json_answer(r#"{"result":{}}"#)));
    let json = send(service, tools_call()).await.json();
    assert_eq!(
        json["result"]["_meta"]["io.modelcontextprotocol/serverInfo"],
        json!({ "name": "a\"b", "version": "1", "title": "T", "description": "é", "websiteUrl": "https://x.example" })
    );
}

/// Replaces a body that an outer layer has read.
async fn replaced(body: String) -> (Answer, Seen) {
    let inner = inner(|| json_answer(r#"{"result":{}}"#));
    let seen = inner.seen();
    let stack = ServiceBuilder::new()
        .layer(EraResolverLayer::new())
        .map_request(move |request: Request<_>| {
            request.map(|_: RequestBody<Chunks>| Chunks::one(body.clone()))
        })
        .layer(EnvelopeLayer::new(info()))
        .service(inner);
    let answer = send(stack, list()).await;
    let seen = seen.lock().unwrap().pop().unwrap();
    (answer, seen)
}

#[tokio::test]
async fn a_body_that_was_replaced_by_a_broken_one_is_not_refused_and_its_message_is_forgotten() {
    let length = modern_body("tools/list", "").len();
    for body in ["x".repeat(length), "x".into(), " ".repeat(5 << 20)] {
        let (answer, seen) = replaced(body.clone()).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(seen.body, body);
        assert!(Message::get(&seen.head.extensions).is_none());
        assert!(Era::get(&seen.head.extensions).is_some());
    }
    let (answer, _) = replaced("x".repeat(length)).await;
    assert_eq!(answer.json()["result"]["resultType"], "complete");
}

#[tokio::test]
async fn the_end_of_a_long_answer_is_not_copied() {
    let tools = r#"{"name":"a"},"#.repeat(1_000);
    let text = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}0]}}}}"#
    ));
    let (answer, end) = (text.clone(), text.slice(text.len() - tools.len()..));
    let service = McpLayer::new(info()).layer(inner(move || json_answer(answer.clone())));
    let response = service.oneshot(list()).await.unwrap();

    let mut body = response.into_body();
    let length = body.size_hint().exact().unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    let [front, rest] = &frames[..] else {
        panic!("{} frames", frames.len());
    };
    assert_eq!((front.len() + rest.len()) as u64, length);
    assert_eq!(rest.as_ptr_range().end, end.as_ptr_range().end);
    assert!(rest.ends_with(&end));
    let json: Value = serde_json::from_slice(&frames.concat()).unwrap();
    assert_eq!(json["result"]["resultType"], "complete");
    assert_eq!(json["result"]["tools"].as_array().unwrap().len(), 1_001);
}

/// Any JSON value, a few levels deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(".{0,4}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// A result object: any members, and some that the envelope looks at.
fn result() -> impl Strategy<Value = Map<String, Value>> {
    let known = prop::sample::subsequence(
        vec!["resultType", "_meta", "ttlMs", "cacheScope", "other"],
        0..=5,
    );
    (known, value(), prop::option::of(value()), any::<bool>()).prop_map(
        |(keys, any, meta, complete)| {
            let mut result = Map::new();
            for key in keys {
                let value = match (key, &meta) {
                    ("resultType", _) if complete => json!("complete"),
                    ("_meta", Some(meta)) => json!({ "x": meta }),
                    _ => any.clone(),
                };
                result.insert(key.into(), value);
            }
            result
        },
    )
}

/// What the envelope should make of a result, on a tree.
fn oracle(mut result: Map<String, Value>) -> Value {
    let complete = result
        .get("resultType")
        .is_none_or(|kind| kind == "complete");
    result.entry("resultType").or_insert(json!("complete"));
    let meta = result.entry("_meta").or_insert(json!({}));
    if let Value::Object(meta) = meta {
        let server = json!({ "name": "test", "version": "1" });
        meta.entry("io.modelcontextprotocol/serverInfo")
            .or_insert(server);
    }
    if complete {
        result.entry("ttlMs").or_insert(json!(0));
        result.entry("cacheScope").or_insert(json!("private"));
    }
    json!({ "jsonrpc": "2.0", "id": 1, "result": result })
}

proptest! {
    #[test]
    fn the_splice_equals_an_oracle_on_trees_and_only_inserts(
        mut result in result(),
        long in prop::option::of(0..2_000usize),
        pretty in any::<bool>(),
    ) {
        if let Some(long) = long {
            result.insert("x".into(), json!(["}]\"\\", { "y": "é[{".repeat(long) }]));
        }
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        let before = if pretty { serde_json::to_string_pretty(&answer) } else { serde_json::to_string(&answer) }.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let text = before.clone();
        let service = EnvelopeLayer::new(info()).layer(inner(move || json_answer(text.clone())));
        let after = runtime.block_on(send(service, list()));
        prop_assert_eq!(after.json(), oracle(result));
        // The old text is what is left when the insertions are taken out.
        let mut old = before.bytes().peekable();
        for byte in &after.body {
            old.next_if_eq(byte);
        }
        prop_assert!(old.next().is_none(), "{} became {:?}", before, after.body);
    }
}
