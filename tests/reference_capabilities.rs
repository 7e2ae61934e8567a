//! What handlers of the reference service demand of a client.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        MethodCall, Prompt, PromptCall, PromptResult, ReferenceService, Resource, ResourceCall,
        ResourceResult, Tool, ToolCall, ToolResult,
    },
};
use serde_json::{Value, json};
use support::{ask, ask_modern, post, send};
use tower::Layer;

const URL: &[&str] = &["elicitation", "url"];

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

fn service() -> ReferenceService {
    ReferenceService::new(server())
        .tool(
            Tool::new("a", json!({ "type": "object" })),
            |call: ToolCall| async move {
                call.require_capability(URL)?;
                Ok(ToolResult::text(
                    call.has_capability(&["sampling"]).to_string(),
                ))
            },
        )
        .prompt(Prompt::new("a"), |call: PromptCall| async move {
            call.require_capability(URL)?;
            Ok(PromptResult::new())
        })
        .resource(
            Resource::new("x://a", "a"),
            |call: ResourceCall| async move {
                call.require_capability(URL)?;
                Ok(ResourceResult::text(""))
            },
        )
        .method("x/a", |call: MethodCall| async move {
            call.require_capability(URL)?;
            Ok(json!({}))
        })
}

const REQUESTS: [(&str, &str); 4] = [
    ("tools/call", r#""name":"a""#),
    ("prompts/get", r#""name":"a""#),
    ("resources/read", r#""uri":"x://a""#),
    ("x/a", ""),
];

fn expected() -> Value {
    json!({ "requiredCapabilities": { "elicitation": { "url": {} } } })
}

// rules R5, V6
#[tokio::test]
async fn what_the_client_did_not_declare_is_named() {
    let stack = McpLayer::new(server()).layer(service());
    for (method, params) in REQUESTS {
        for declared in [
            "{}",
            r#"{"elicitation":{}}"#,
            r#"{"elicitation":{"url":true}}"#,
            r#"{"url":{}}"#,
        ] {
            let answer = ask_modern(&stack, method, params, declared).await;
            assert_eq!(answer.status(), 400, "{method} {declared}");
            let error = answer.json()["error"].take();
            assert_eq!(error["code"], -32021);
            assert_eq!(error["data"], expected());
        }
        let declared = r#"{"elicitation":{"url":{}}}"#;
        let answer = ask_modern(&stack, method, params, declared).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert!(answer.json()["result"].is_object());
    }
}

// rule R5
#[tokio::test]
async fn a_client_of_the_handshake_has_no_capabilities_here() {
    let meta =
        r#""_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}"#;
    let stack = McpLayer::new(server()).layer(service());
    for (method, params) in REQUESTS {
        let comma = if params.is_empty() { "" } else { "," };
        let params = format!("{{{params}{comma}{meta}}}");
        let answer = ask(&stack, method, &params).await;
        assert_eq!(answer["error"]["code"], -32021, "{method}");
        assert_eq!(answer["error"]["data"], expected());
        // alone, the service takes a request for what it says it is
        assert!(ask(&service(), method, &params).await["result"].is_object());
    }
}

// rule R5
#[tokio::test]
async fn a_handler_can_ask_without_demanding() {
    let stack = McpLayer::new(server()).layer(service());
    for (declared, has) in [
        (r#"{"elicitation":{"url":{}}}"#, "false"),
        (r#"{"elicitation":{"url":{}},"sampling":{}}"#, "true"),
    ] {
        let answer = ask_modern(&stack, "tools/call", r#""name":"a""#, declared).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], has);
    }
    let array = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}]"#;
    let answer = send(service(), post(array)).await.json();
    assert_eq!(answer[0]["error"]["data"], expected());
}
