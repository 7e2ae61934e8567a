//! The reference service: alone, and behind the layers.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use mcp_layers::{
    EraResolverLayer, Eras, McpLayer, ServerInfo,
    reference::{
        AnswerBody, MethodCall, MethodError, ReferenceService, ResponseFuture, Tool, ToolCall,
        ToolError, ToolResult,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Answer, Chunks, META, Step, modern, modern_body, post, send};
use tower::{Layer, Service, ServiceExt};

const SCHEMA: &str = r#"{"type":"object"}"#;

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

fn tool(name: &str) -> Tool {
    Tool::new(name, serde_json::from_str(SCHEMA).unwrap())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

/// Left in the extensions by an outer layer.
#[derive(Clone)]
struct Principal(&'static str);

fn service() -> ReferenceService {
    ReferenceService::new(server())
        .instructions("Ask for the weather.")
        .tool(
            tool("zeta").title("Last letter"),
            |call: ToolCall| async move {
                let Text { text } = call.arguments()?;
                Ok(ToolResult::text(text))
            },
        )
        .tool(
            tool("alpha").description("First letter"),
            |call: ToolCall| async move {
                Ok(ToolResult::structured(json!({
                    "arguments": String::from_utf8_lossy(call.raw_arguments()),
                    "id": String::from_utf8_lossy(call.id()),
                    "name": call.name(),
                    "method": call.message().method(),
                    "era": format!("{:?}", call.message().era().kind()),
                "version": call.message().era().version(),
                    "principal": call.extensions().get::<Principal>().map(|it| it.0),
                })))
            },
        )
        .tool(tool("refuse"), |_| async {
            Err(ToolError::invalid("not today"))
        })
        .tool(tool("fail"), |_| async {
            Err(ToolError::internal(io::Error::other(
                "the secret of the database",
            )))
        })
        .tool(tool("panic_at_once"), panic_at_once)
        .tool(tool("panic_later"), |_| async {
            tokio::task::yield_now().await;
            panic!("the secret of the poll")
        })
        .method("x/echo", |call: MethodCall| async move {
            let params: Value = call.params()?;
            Ok(json!({ "name": call.name(), "params": params }))
        })
        .method("x/text", |call: MethodCall| async move {
            let Text { text } = call.params()?;
            Ok(json!({ "text": text }))
        })
        .method("x/fail", |_| async {
            Err(MethodError::new(-32000, "No luck").with_data(json!({ "try": [1, 2] })))
        })
        .method("x/internal", |_| async {
            Err(MethodError::internal("the secret of the method"))
        })
        .method("x/panic", |_| async { panic!("the secret of the method") })
}

#[allow(clippy::manual_async_fn)] // panics in the call, not in the future
fn panic_at_once(_: ToolCall) -> impl Future<Output = Result<ToolResult, ToolError>> {
    assert!(Bytes::new().len() == 1, "the secret of the call");
    async { Ok(ToolResult::default()) }
}

async fn ask(body: &str) -> Answer {
    send(service(), post(body.to_owned())).await
}

/// Sends a request with the id 1 and returns its result.
async fn result(method: &str, params: &str) -> Value {
    let answer = ask(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
    ))
    .await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.head.headers["content-type"], "application/json");
    let mut json = answer.json();
    assert_eq!(json["jsonrpc"], "2.0");
    assert_eq!(json["id"], 1);
    assert_eq!(json.as_object().unwrap().len(), 3, "{json}");
    json["result"].take()
}

/// Sends a request with the id 1 and returns the code and message of its error.
async fn error(method: &str, params: &str) -> (i64, String) {
    let answer = ask(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
    ))
    .await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.json()["id"], 1);
    code(&answer.json())
}

fn code(answer: &Value) -> (i64, String) {
    assert!(answer.get("result").is_none(), "{answer}");
    let error = &answer["error"];
    let message = error["message"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"));
    (error["code"].as_i64().unwrap(), message.to_owned())
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

#[test]
fn all_public_types_can_be_sent_and_shown() {
    fn shared<T: Clone + std::fmt::Debug + Send + Sync + 'static>() {}
    fn sent<T: std::fmt::Debug + Send + 'static>() {}
    fn boxed<T: std::fmt::Debug + Send + Sync + 'static>() {}
    shared::<ReferenceService>();
    boxed::<AnswerBody>();
    shared::<Tool>();
    shared::<ToolResult>();
    shared::<ToolCall>();
    shared::<MethodCall>();
    sent::<ToolError>();
    sent::<MethodError>();
    sent::<ResponseFuture<Chunks>>();
}

// rule R2
#[tokio::test]
async fn initialize_answers_with_the_asked_version_or_the_newest_of_the_handshake() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
        ("2025-11-25 ", "2025-11-25"),
        (r"2024\u002d11-05", "2024-11-05"),
    ] {
        let params = format!(
            r#"{{"protocolVersion":"{asked}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#
        );
        assert_eq!(
            result("initialize", &params).await,
            json!({
                "protocolVersion": answered,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "weather", "version": "1.2.0" },
                "instructions": "Ask for the weather.",
            }),
            "{asked}"
        );
    }
}

// rules R2, E1
#[tokio::test]
async fn initialize_knows_the_versions_that_the_operator_added() {
    let layer = McpLayer::new(server())
        .legacy_version("2024-10-07")
        .unwrap();
    let layer = layer.legacy_version("2026-01-01").unwrap();
    let stack = layer.layer(service());
    for (asked, answered) in [
        ("2024-10-07", "2024-10-07"),
        ("2026-01-01", "2026-01-01"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{asked}"}}}}"#
        );
        let answer = send(stack.clone(), post(body)).await.json();
        assert_eq!(answer["result"]["protocolVersion"], answered, "{asked}");
    }
}

// rule R2
#[tokio::test]
async fn initialize_without_a_version_is_no_initialize() {
    for params in [
        "{}",
        r#"{"protocolVersion":20250618}"#,
        r#"{"protocolVersion":null}"#,
        r#"{"protocolVersion":["2025-06-18"]}"#,
        r#"{"protocolVersion":"\ud800"}"#,
        r#"{"clientInfo":{"protocolVersion":"2025-06-18"}}"#,
    ] {
        assert_eq!(error("initialize", params).await.0, -32602, "{params}");
    }
    let answer = ask(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).await;
    assert_eq!(code(&answer.json()).0, -32602);
}

// rule R2
#[tokio::test]
async fn a_session_is_neither_made_nor_read() {
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    ] {
        let mut request = post(body);
        let id = "never-made-here".parse().unwrap();
        request.headers_mut().insert("mcp-session-id", id);
        let answer = send(service(), request).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.head.headers.contains_key("mcp-session-id"));
        assert!(answer.json().get("result").is_some());
    }
}

// rule R2
#[tokio::test]
async fn ping_is_answered_by_nothing_at_all() {
    assert_eq!(result("ping", "{}").await, json!({}));
    let answer = ask(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).await;
    assert_eq!(text(&answer), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
}

// rule D1
#[tokio::test]
async fn discover_tells_versions_capabilities_and_identity() {
    assert_eq!(
        result("server/discover", "{}").await,
        json!({
            "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            "capabilities": { "tools": {} },
            "instructions": "Ask for the weather.",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "weather", "version": "1.2.0" } },
        })
    );
}

// rule D1, E5
#[tokio::test]
async fn discover_and_the_refusal_of_a_version_name_the_same_versions() {
    let legacy = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    for (eras, expected) in [
        (Eras::Both, [&["2026-07-28"], &legacy[..]].concat()),
        (Eras::ModernOnly, vec!["2026-07-28"]),
        (Eras::LegacyOnly, legacy.to_vec()),
    ] {
        let stack = McpLayer::new(server()).eras(eras).layer(service());
        let refused = {
            let mut request = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
            let version = "1999-01-01".parse().unwrap();
            request
                .headers_mut()
                .insert("mcp-protocol-version", version);
            send(stack.clone(), request).await
        };
        assert_eq!(refused.status(), 400);
        assert_eq!(refused.json()["error"]["code"], -32022);
        assert_eq!(
            refused.json()["error"]["data"]["supported"],
            json!(expected)
        );

        if eras != Eras::LegacyOnly {
            let request = modern("server/discover", modern_body("server/discover", ""));
            let answer = send(stack.clone(), request).await;
            assert_eq!(answer.status(), 200, "{answer:?}");
            assert_eq!(
                answer.json()["result"]["supportedVersions"],
                json!(expected)
            );
        }
        if eras != Eras::ModernOnly {
            let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
            let answer = send(stack, request).await;
            assert_eq!(answer.status(), 200, "{answer:?}");
            assert_eq!(
                answer.json()["result"]["supportedVersions"],
                json!(expected)
            );
        }
    }
}

// rule D1, V1
#[tokio::test]
async fn discover_is_stamped_in_the_modern_era_only() {
    let stack = McpLayer::new(server()).layer(service());
    let request = modern("server/discover", modern_body("server/discover", ""));
    let answer = send(stack.clone(), request).await.json();
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["ttlMs"], 0);
    assert_eq!(result["cacheScope"], "private");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "weather"
    );
    assert_eq!(text_of_count(&answer, "serverInfo"), 1);

    let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
    let answer = send(stack, request).await.json();
    let keys: Vec<_> = answer["result"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["_meta", "capabilities", "instructions", "supportedVersions"]
    );
}

fn text_of_count(json: &Value, part: &str) -> usize {
    json.to_string().matches(part).count()
}

// rule R1
#[tokio::test]
async fn only_what_a_handler_backs_is_advertised() {
    async fn capabilities(service: ReferenceService) -> Value {
        let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
        send(service, request).await.json()["result"]["capabilities"].take()
    }
    let none = ReferenceService::new(server());
    assert_eq!(capabilities(none.clone()).await, json!({}));
    let nothing = |_: MethodCall| async { Ok(json!({})) };
    let custom = none.clone().method("x/custom", nothing);
    assert_eq!(capabilities(custom).await, json!({}));
    let prompts = none.clone().method("prompts/list", nothing);
    assert_eq!(capabilities(prompts).await, json!({ "prompts": {} }));
    let tools = none.clone().method("tools/list", nothing);
    assert_eq!(capabilities(tools).await, json!({ "tools": {} }));
    let all = service()
        .method("resources/list", nothing)
        .method("completion/complete", nothing);
    assert_eq!(
        capabilities(all).await,
        json!({ "completions": {}, "resources": {}, "tools": {} })
    );
    // without instructions there are none
    let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
    let answer = send(none, request).await.json();
    assert_eq!(answer["result"].get("instructions"), None);
}

// rule R3
#[tokio::test]
async fn tools_are_listed_in_the_order_of_registration() {
    let names = |list: &Value| -> Vec<String> {
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let list = result("tools/list", "{}").await;
    assert_eq!(
        names(&list),
        [
            "zeta",
            "alpha",
            "refuse",
            "fail",
            "panic_at_once",
            "panic_later"
        ]
    );
    assert_eq!(list.as_object().unwrap().len(), 1);
    assert_eq!(
        list["tools"][0],
        json!({ "name": "zeta", "title": "Last letter", "inputSchema": { "type": "object" } })
    );
    let empty = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let answer = send(ReferenceService::new(server()), empty).await;
    assert_eq!(
        text(&answer),
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#
    );
}

#[tokio::test]
async fn a_tool_of_the_same_name_replaces_the_first_in_its_place() {
    let replaced = service().tool(tool("zeta").title("Omega"), |_| async {
        Ok(ToolResult::text("replaced"))
    });
    let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = send(replaced.clone(), request).await.json();
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 6);
    assert_eq!(tools[0]["title"], "Omega");
    let request =
        post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zeta"}}"#);
    let answer = send(replaced, request).await.json();
    assert_eq!(answer["result"]["content"][0]["text"], "replaced");
}

#[tokio::test]
async fn a_clone_that_is_configured_further_leaves_the_other_as_it_was() {
    let first = service();
    let second = first
        .clone()
        .tool(tool("new"), |_| async { Ok(ToolResult::default()) });
    for (service, count) in [(first, 6), (second, 7)] {
        let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let list = send(service, request).await.json();
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), count);
    }
}

// rule R3
#[tokio::test]
async fn there_is_no_second_page_of_tools() {
    for params in [
        r#"{"cursor":"abc"}"#,
        r#"{"cursor":""}"#,
        r#"{"cursor":null}"#,
        r#"{"c\u0075rsor":"abc"}"#,
        r#"{"_meta":{},"cursor":1,"more":2}"#,
    ] {
        assert_eq!(error("tools/list", params).await.0, -32602, "{params}");
    }
    for params in ["{}", r#"{"_meta":{"cursor":"abc"}}"#, r#"{"cursors":1}"#] {
        assert!(result("tools/list", params).await["tools"].is_array());
    }
}

// rule R3
#[tokio::test]
async fn a_tool_is_called_with_its_arguments() {
    assert_eq!(
        result(
            "tools/call",
            r#"{"name":"zeta","arguments":{"text":"grüß \"dich\""}}"#
        )
        .await,
        json!({ "content": [{ "type": "text", "text": "grüß \"dich\"" }] })
    );
    let answer = result(
        "tools/call",
        r#"{"name":"alpha","arguments":{"n":123456789012345678901234567890.10}}"#,
    )
    .await;
    let seen = json!({
        "arguments": r#"{"n":123456789012345678901234567890.10}"#,
        "id": "1",
        "name": "alpha",
        "method": "tools/call",
        "era": "Legacy",
        "version": null,
        "principal": null,
    });
    assert_eq!(answer["structuredContent"], seen);
    assert_eq!(answer["content"][0]["text"], seen.to_string());
    assert_eq!(answer.get("isError"), None);
}

// rule R3
#[tokio::test]
async fn absent_arguments_are_an_empty_object() {
    let answer = result("tools/call", r#"{"name":"alpha"}"#).await;
    assert_eq!(answer["structuredContent"]["arguments"], "{}");
}

// rule R3
#[tokio::test]
async fn params_that_are_no_call_are_invalid_params() {
    for params in [
        "{}",
        r#"{"name":1}"#,
        r#"{"name":null}"#,
        r#"{"name":["zeta"]}"#,
        r#"{"name":"\ud83d"}"#,
        r#"{"arguments":{"text":"a"}}"#,
        r#"{"name":"zeta","arguments":[]}"#,
        r#"{"name":"zeta","arguments":null}"#,
        r#"{"name":"zeta","arguments":"{}"}"#,
        r#"{"name":"zeta","arguments":1}"#,
        r#"{"uri":"zeta"}"#,
    ] {
        assert_eq!(error("tools/call", params).await.0, -32602, "{params}");
    }
    let answer = ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(code(&answer.json()).0, -32602);
}

// rule R3
#[tokio::test]
async fn an_unknown_tool_is_invalid_params_and_is_named() {
    for name in ["nothing", "Zeta", "zeta ", "", "tools/list"] {
        assert_eq!(
            error("tools/call", &format!(r#"{{"name":"{name}"}}"#)).await,
            (-32602, format!("Unknown tool: {name}"))
        );
    }
    let long = format!(r#"{{"name":"{}"}}"#, "é".repeat(100_000));
    assert!(error("tools/call", &long).await.1.len() < 150);
}

// rule R3
#[tokio::test]
async fn an_unknown_method_is_answered_with_status_200() {
    for method in [
        "nothing",
        "Ping",
        "tools/list/",
        "",
        "resources/list",
        "notifications/x",
    ] {
        assert_eq!(
            error(method, "{}").await,
            (-32601, format!("Method not found: {method}"))
        );
    }
}

// rule R3, V6
#[tokio::test]
async fn behind_the_layers_an_unknown_method_has_the_status_of_its_era() {
    let stack = McpLayer::new(server()).layer(service());
    let answer = send(stack.clone(), modern("x/none", modern_body("x/none", ""))).await;
    assert_eq!(
        (answer.status().as_u16(), code(&answer.json()).0),
        (404, -32601)
    );
    let answer = send(stack, post(r#"{"jsonrpc":"2.0","id":1,"method":"x/none"}"#)).await;
    assert_eq!(
        (answer.status().as_u16(), code(&answer.json()).0),
        (200, -32601)
    );
}

// rule R3
#[tokio::test]
async fn arguments_that_the_tool_cannot_take_are_told_to_the_model() {
    let deep = format!(r#"{{"text":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    for arguments in [
        "{}",
        r#"{"text":1}"#,
        r#"{"text":"a","more":1}"#,
        r#"{"text":"\ud83d"}"#,
        r#"{"text":"a","text":"b"}"#,
        &deep,
    ] {
        let params = format!(r#"{{"name":"zeta","arguments":{arguments}}}"#);
        let answer = result("tools/call", &params).await;
        assert_eq!(answer["isError"], true, "{arguments:.60}");
        let message = answer["content"][0]["text"].as_str().unwrap();
        assert!(message.starts_with("Invalid arguments: "), "{message}");
    }
    let answer = result("tools/call", r#"{"name":"refuse"}"#).await;
    assert_eq!(
        answer,
        json!({ "content": [{ "type": "text", "text": "not today" }], "isError": true })
    );
}

// rule R3
#[tokio::test]
async fn a_validator_is_asked_before_the_tool() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let service = service()
        .validate_arguments(|tool, arguments| match arguments.get("bad") {
            Some(Value::String(_)) => panic!("the secret of the validator"),
            Some(bad) => Err(format!("{} does not take {bad}", tool.name())),
            None => Ok(()),
        })
        .tool(tool("count"), move |_| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(ToolResult::text("counted"))
            }
        });
    let call = async |arguments: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"count","arguments":{arguments}}}}}"#
        );
        send(service.clone(), post(body)).await
    };
    let answer = call(r#"{"bad":[1,2]}"#).await.json();
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "Invalid arguments: count does not take [1,2]"
    );
    // what no `Value` can hold is no fault of the server
    for arguments in [r#"{"a":"\udc00"}"#, r#"{"a":1e999}"#] {
        assert_eq!(call(arguments).await.json()["result"]["isError"], true);
    }
    let answer = call(r#"{"bad":"x"}"#).await;
    assert_eq!(code(&answer.json()), (-32603, "Internal error".into()));
    assert!(!text(&answer).contains("secret"));
    assert_eq!(called.load(Ordering::SeqCst), 0);
    assert!(call("{}").await.json()["result"].get("isError").is_none());
    assert_eq!(called.load(Ordering::SeqCst), 1);
}

// rule R3
#[tokio::test]
async fn a_failing_or_panicking_handler_tells_nothing_and_the_server_lives_on() {
    let service = service();
    for (method, params) in [
        ("tools/call", r#"{"name":"fail"}"#),
        ("tools/call", r#"{"name":"panic_at_once"}"#),
        ("tools/call", r#"{"name":"panic_later"}"#),
        ("x/internal", "{}"),
        ("x/panic", "{}"),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
        let answer = send(service.clone(), post(body)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(
            text(&answer),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"Internal error"}}"#
        );
    }
    let answer = send(service, post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await;
    assert_eq!(answer.status(), 200);
}

// rule R1
#[tokio::test]
async fn further_methods_are_registered_by_name() {
    assert_eq!(
        result("x/echo", r#"{"a":[1,{}]}"#).await,
        json!({ "name": "x/echo", "params": { "a": [1, {}] } })
    );
    let answer = ask(r#"{"jsonrpc":"2.0","id":1,"method":"x\/ech\u006f"}"#).await;
    assert_eq!(
        answer.json()["result"],
        json!({ "name": "x/echo", "params": {} })
    );
    assert_eq!(error("x/text", "{}").await.0, -32602);
    let answer = ask(r#"{"jsonrpc":"2.0","id":1,"method":"x/fail"}"#).await;
    assert_eq!(
        answer.json()["error"],
        json!({ "code": -32000, "message": "No luck", "data": { "try": [1, 2] } })
    );
}

#[tokio::test]
async fn a_method_of_the_same_name_replaces_the_first_even_a_built_in_one() {
    let service = service()
        .method("x/echo", |_| async { Ok(json!({ "x": 2 })) })
        .method("ping", |_| async { Ok(json!({ "pong": true })) });
    for (method, expected) in [
        ("x/echo", json!({ "x": 2 })),
        ("ping", json!({ "pong": true })),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(
            send(service.clone(), post(body)).await.json()["result"],
            expected
        );
    }
}

// rule R3
#[tokio::test]
async fn every_answer_echoes_the_bytes_of_the_id() {
    let long = format!("\"{}\"", "x".repeat(5_000));
    for id in [
        "0",
        "-0",
        "-7",
        "1.0",
        "1e2",
        "123456789012345678901234567890",
        "-9223372036854775809",
        r#""""#,
        r#""null""#,
        r#""a\"b\\c\/d\u00e9\ud83d\ude00""#,
        r#""é世😀""#,
        &long,
    ] {
        for (rest, begins) in [
            (r#""method":"ping""#, "\"result\":{}}"),
            (r#""method":"tools/list""#, "\"result\":{\"tools\":["),
            (r#""method":"none""#, "\"error\":{\"code\":-32601"),
            (
                r#""method":"tools/call","params":{"name":"alpha"}"#,
                "\"result\":{\"content\":[",
            ),
            (
                r#""method":"tools/call","params":{"name":"panic_later"}"#,
                "\"error\":{\"code\":-32603",
            ),
            (
                r#""method":"ping","params":1"#,
                "\"error\":{\"code\":-32600",
            ),
            (r#""x":1"#, "\"error\":{\"code\":-32600"),
        ] {
            let answer = ask(&format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#)).await;
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},{begins}"#);
            assert!(text(&answer).starts_with(&expected), "{answer:?}");
            answer.json();
        }
    }
}

#[tokio::test]
async fn the_order_of_members_and_blanks_do_not_matter() {
    for body in [
        r#"{"params":{"arguments":{"text":"hi"},"name":"zeta"},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#,
        " { \"id\" :\t1 , \"params\" :\r\n{ \"name\" : \"zeta\" , \"arguments\" : { \"text\":\"hi\" } } , \"jsonrpc\":\"2.0\", \"method\":\"tools/call\" } \n",
        r#"{"\u0069d":1,"m\u0065thod":"tools/call","p\u0061rams":{"n\u0061me":"zet\u0061","\u0061rguments":{"t\u0065xt":"h\u0069"}},"jsonrpc":"2\u002e0"}"#,
        r#"{"extra":{"id":9,"method":"x"},"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zeta","arguments":{"text":"hi"},"more":[[]]}}"#,
    ] {
        let answer = ask(body).await;
        assert_eq!(
            text(&answer),
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"hi","type":"text"}]}}"#,
            "{body}"
        );
    }
}

fn assert_accepted(answer: &Answer, body: &str) {
    assert_eq!(answer.status(), 202, "{body}");
    assert!(answer.body.is_empty(), "{body}");
    assert!(!answer.head.headers.contains_key("content-type"), "{body}");
}

// rules R3, R4
#[tokio::test]
async fn notifications_and_posted_responses_are_accepted_without_an_answer() {
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/never/heard/of"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}"#,
    ] {
        assert_accepted(&ask(body).await, body);
        let stack = McpLayer::new(server()).layer(service());
        assert_accepted(&send(stack, post(body)).await, body);
    }
}

// rule R3
#[tokio::test]
async fn what_is_not_json_is_a_parse_error_without_an_id() {
    for body in [
        &b""[..],
        b" ",
        b"{",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        b"[",
        br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        b"{'id':1}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffng\"}",
        b"\0",
        b"id=1&method=ping",
    ] {
        let answer = send(service(), post(Bytes::from_static(body))).await;
        assert_eq!(answer.status(), 400, "{body:?}");
        assert_eq!(answer.head.headers["content-type"], "application/json");
        assert_eq!(code(&answer.json()).0, -32700, "{body:?}");
        assert_eq!(answer.json().get("id"), None, "{body:?}");
    }
}

// rule R4
#[tokio::test]
async fn json_that_is_no_message_is_an_invalid_request() {
    for (body, id) in [
        ("1", None),
        ("null", None),
        (r#""ping""#, None),
        ("{}", None),
        (r#"{"jsonrpc":"2.0"}"#, None),
        (r#"{"jsonrpc":"2.0","id":3}"#, Some(json!(3))),
        (r#"{"id":3,"method":"ping"}"#, Some(json!(3))),
        (
            r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
            Some(json!("a")),
        ),
        (r#"{"jsonrpc":2.0,"id":3,"method":"ping"}"#, Some(json!(3))),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, Some(json!(3))),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"\ud800"}"#,
            Some(json!(3)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}"#,
            Some(json!(3)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":null}"#,
            Some(json!(3)),
        ),
        // a request that forgot its id is told so
        (r#"{"jsonrpc":"2.0","method":"tools/list"}"#, None),
        // two readers must not disagree
        (r#"{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}"#, None),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","method":"none"}"#,
            Some(json!(3)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"zeta","name":"alpha"}}"#,
            Some(json!(3)),
        ),
    ] {
        let answer = ask(body).await;
        assert_eq!(answer.status(), 400, "{body}");
        assert_eq!(code(&answer.json()).0, -32600, "{body}");
        assert_eq!(answer.json().get("id").cloned(), id, "{body}");
    }
}

// rule R4
#[tokio::test]
async fn an_array_is_answered_by_an_array() {
    let body = r#" [ {"jsonrpc":"2.0","id":"a\u0062","method":"ping"},
        {"jsonrpc":"2.0","method":"notifications/initialized"},
        {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"zeta","arguments":{"text":"hi"}}},
        {"jsonrpc":"2.0","id":3,"result":{}},
        {"jsonrpc":"2.0","id":4,"method":"none"},
        {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"panic_at_once"}},
        {"jsonrpc":"2.0","id":null,"method":"ping"},
        {"jsonrpc":"2.0","id":6},
        [], 7,
        {"jsonrpc":"2.0","id":8,"method":"x/fail"} ] "#;
    let expected = concat!(
        r#"[{"jsonrpc":"2.0","id":"a\u0062","result":{}},"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"hi","type":"text"}]}},"#,
        r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found: none"}},"#,
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"Internal error"}},"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: `id` is neither a string nor an integer"}},"#,
        r#"{"jsonrpc":"2.0","id":6,"error":{"code":-32600,"message":"Invalid Request: `method` is missing"}},"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: the body is not one JSON-RPC message"}},"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: the body is not one JSON-RPC message"}},"#,
        r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32000,"data":{"try":[1,2]},"message":"No luck"}}]"#,
    );
    let answer = ask(body).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.head.headers["content-type"], "application/json");
    assert_eq!(text(&answer), expected);
    let stack = McpLayer::new(server()).layer(service());
    let mut request = post(body);
    let version = "2025-03-26".parse().unwrap();
    request
        .headers_mut()
        .insert("mcp-protocol-version", version);
    assert_eq!(text(&send(stack, request).await), expected);
}

// rule R4
#[tokio::test]
async fn an_array_of_one_request_is_answered_by_an_array_of_one() {
    let answer = ask(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).await;
    assert_eq!(text(&answer), r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#);
}

// rule R4
#[tokio::test]
async fn an_array_to_which_no_answer_is_due_is_accepted() {
    for body in [
        r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/x"}]"#,
    ] {
        assert_accepted(&ask(body).await, body);
        let stack = McpLayer::new(server()).layer(service());
        assert_accepted(&send(stack, post(body)).await, body);
    }
}

// rule R4
#[tokio::test]
async fn an_array_that_is_empty_too_long_or_holds_initialize_is_refused() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
    let pings = |count| format!("[{}]", vec![ping; count].join(","));
    for body in [
        "[]".to_owned(),
        "[ ]".to_owned(),
        format!("[{initialize}]"),
        format!("[{ping},{initialize}]"),
        pings(1_001),
        format!("[{}1]", "1,".repeat(1_000_000)),
    ] {
        let answer = ask(&body).await;
        assert_eq!(answer.status(), 400, "{body:.60}");
        assert_eq!(code(&answer.json()).0, -32600, "{body:.60}");
        assert_eq!(answer.json().get("id"), None, "{body:.60}");
    }
    let answer = ask(&pings(1_000)).await;
    assert_eq!(answer.json().as_array().unwrap().len(), 1_000);
}

// rule R4
#[tokio::test]
async fn each_message_of_an_array_is_called_in_its_era_with_what_layers_left() {
    let stack = EraResolverLayer::new()
        .eras(Eras::LegacyOnly)
        .layer(service());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha"}}"#;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    let mut request = post(format!("[{call},{call},{discover}]"));
    let version = "2025-03-26".parse().unwrap();
    request
        .headers_mut()
        .insert("mcp-protocol-version", version);
    request.extensions_mut().insert(Principal("ada"));
    let answer = send(stack, request).await.json();
    for answer in &answer.as_array().unwrap()[..2] {
        let seen = &answer["result"]["structuredContent"];
        assert_eq!(seen["principal"], "ada");
        assert_eq!(seen["era"], "Legacy");
        assert_eq!(seen["version"], "2025-03-26");
    }
    // rule D1
    assert_eq!(answer[2]["result"]["supportedVersions"][0], "2025-11-25");
}

// rule R1
#[tokio::test]
async fn handlers_see_what_the_layers_left() {
    let stack = McpLayer::new(server()).layer(service());
    let body = modern_body("tools/call", r#""name":"alpha","arguments":{}"#);
    let mut request = modern("tools/call", body);
    request
        .headers_mut()
        .insert("mcp-name", "alpha".parse().unwrap());
    request.extensions_mut().insert(Principal("ada"));
    let answer = send(stack, request).await;
    let answer = answer.json();
    assert_eq!(answer["result"]["resultType"], "complete");
    let seen = &answer["result"]["structuredContent"];
    assert_eq!(seen["era"], "Modern");
    assert_eq!(seen["principal"], "ada");
}

// rule R1
#[tokio::test]
async fn legacy_answers_through_the_layers_are_those_of_the_service_alone() {
    let stack = McpLayer::new(server()).layer(service());
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zeta","arguments":{"text":"hi"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        "[]",
        "nonsense",
        "",
    ] {
        let alone = send(service(), post(body)).await;
        let behind = send(stack.clone(), post(body)).await;
        assert_eq!(alone.status(), behind.status(), "{body}");
        let (mine, theirs) = (&alone.head.headers, &behind.head.headers);
        assert_eq!(
            mine.get("content-type"),
            theirs.get("content-type"),
            "{body}"
        );
        assert_eq!(alone.body, behind.body, "{body}");
        for field in ["resultType", "ttlMs", "cacheScope"] {
            assert!(!text(&alone).contains(field), "{body}");
        }
    }
}

#[tokio::test]
async fn other_http_methods_than_post_are_not_allowed() {
    for method in ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "BREW"] {
        let mut request = post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        *request.method_mut() = method.parse().unwrap();
        let answer = send(service(), request).await;
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.head.headers["allow"], "POST", "{method}");
        if method == Method::HEAD {
            assert!(answer.body.is_empty());
        } else {
            assert_eq!(code(&answer.json()).0, -32600, "{method}");
        }
    }
}

#[tokio::test]
async fn bodies_are_read_in_pieces_and_up_to_four_mebibytes() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let request = |length: usize| {
        let (before, after) = (r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":""#, r#""}"#);
        let filling = "x".repeat(length - before.len() - after.len());
        format!("{before}{filling}{after}")
    };
    let pieces = |body: &str, size| post("").map(|_: Chunks| Chunks::cut(body, size));
    let ping = request(60);
    for size in 1..=ping.len() {
        assert_eq!(send(service(), pieces(&ping, size)).await.status(), 200);
    }
    for (length, status) in [(LIMIT, 200), (LIMIT + 1, 413)] {
        let body = request(length);
        assert_eq!(
            send(service(), pieces(&body, 65_536)).await.status(),
            status
        );
        let answer = send(service(), post(body.clone())).await;
        assert_eq!(answer.status(), status);
        if status == 413 {
            assert_eq!(code(&answer.json()).0, -32600);
        }
        // a layer that reads more decides about more
        let stack = McpLayer::new(server())
            .body_limit(2 * LIMIT)
            .layer(service());
        assert_eq!(send(stack, post(body)).await.status(), 200);
    }
}

#[tokio::test]
async fn a_body_that_fails_is_a_bad_request() {
    let body = Chunks::of([Step::Data(Bytes::from_static(b"{\"jsonrpc\"")), Step::Fail]);
    let answer = send(service(), post("").map(|_| body)).await;
    assert_eq!(answer.status(), 400);
    assert_eq!(code(&answer.json()).0, -32600);
    assert_eq!(answer.json().get("id"), None);
}

/// Replaces the body behind the layer that has read it.
#[derive(Clone)]
struct Replace<S>(S, &'static str);

impl<S, B> Service<Request<B>> for Replace<S>
where
    S: Service<Request<Chunks>, Error = Infallible>,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let body = Chunks::one(self.1);
        self.0.call(request.map(|_| body))
    }
}

#[tokio::test]
async fn a_body_that_was_replaced_behind_the_layers_is_read_again() {
    let inner = Replace(service(), r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let stack = EraResolverLayer::new().layer(inner);
    let answer = send(stack, post(r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#)).await;
    assert_eq!(text(&answer), r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
}

#[tokio::test]
async fn dropping_the_response_drops_the_handler() {
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (started, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = (Arc::clone(&started), Arc::clone(&dropped));
    let mut service = service().tool(tool("wait"), move |_| {
        let (started, dropped) = count.clone();
        async move {
            let _guard = OnDrop(dropped);
            started.fetch_add(1, Ordering::SeqCst);
            pending().await
        }
    });
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}"#;
    for body in [body.to_owned(), format!("[{body}]")] {
        started.store(0, Ordering::SeqCst);
        dropped.store(0, Ordering::SeqCst);
        let mut future = Box::pin(service.call(post(body)));
        poll_fn(|cx| {
            assert!(future.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert_eq!(started.load(Ordering::SeqCst), 1);
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(future);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn any_bytes_are_answered_with_json_or_accepted() {
    let whole = format!(
        r#"[{{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{{"name":"alpha","arguments":{{"a":[1.5e3,null,"\ud83d\ude00"]}},{META}}}}},{{"jsonrpc":"2.0","method":"notifications/x"}}]"#
    );
    let check = async |body: Vec<u8>| {
        let shown = String::from_utf8_lossy(&body).into_owned();
        let answer = send(service(), post(body)).await;
        match answer.status().as_u16() {
            200 | 400 => {
                answer.json();
                assert!(!text(&answer).contains(r#""id":null"#), "{shown}");
            }
            202 => assert!(answer.body.is_empty(), "{shown}"),
            other => panic!("{other} for {shown}"),
        }
    };
    let bytes = whole.as_bytes();
    for cut in 0..bytes.len() {
        check(bytes[..cut].to_vec()).await;
        check([&bytes[..cut], &bytes[cut + 1..]].concat()).await;
        for other in [b'"', b'{', b'}', b'[', b']', b'0', b',', 0xff, b'\\'] {
            let mut changed = bytes.to_vec();
            changed[cut] = other;
            check(changed).await;
        }
    }
}

#[tokio::test]
async fn a_service_is_ready_at_once_and_works_as_a_tower_service() {
    let request = post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let response: Response<AnswerBody> = service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.body().size_hint().exact(), Some(36));
    assert!(!response.body().is_end_stream());
    assert!(AnswerBody::default().is_end_stream());
}

#[test]
fn nothing_is_shown_of_handlers() {
    let shown = format!("{:?}", service());
    assert!(
        shown.contains("zeta") && shown.contains("x/echo"),
        "{shown}"
    );
    let error = ToolError::internal(io::Error::other("secret"));
    assert_eq!(error.to_string(), "the tool failed");
    assert_eq!(ToolError::invalid("why").to_string(), "why");
    let error = MethodError::internal("secret");
    assert_eq!(error.to_string(), "Internal error (-32603)");
}

// rule P5
#[tokio::test]
async fn the_service_tells_the_layers_which_headers_its_tools_demand() {
    let annotated = |kind: &str| {
        let region = json!({ "type": kind, "x-mcp-header": "Region" });
        let schema = json!({ "type": "object", "properties": { "region": region } });
        let handler = |_| async { Ok(ToolResult::text("Rain")) };
        ReferenceService::new(server()).tool(Tool::new("get_weather", schema), handler)
    };
    let service = annotated("string");
    let mcp = McpLayer::new(server()).tool_schemas(service.tool_headers().unwrap());
    let arguments = r#""name":"get_weather","arguments":{"region":"x"}"#;
    for (region, status) in [("x", 200), ("y", 400)] {
        let mut request = modern("tools/call", modern_body("tools/call", arguments));
        let headers = request.headers_mut();
        headers.insert("mcp-name", "get_weather".parse().unwrap());
        headers.insert("mcp-param-region", region.parse().unwrap());
        let answer = send(mcp.layer(service.clone()), request).await;
        assert_eq!(answer.status(), status);
    }
    let invalid = annotated("number").tool_headers().unwrap_err();
    assert_eq!(invalid.tool(), "get_weather");
}
