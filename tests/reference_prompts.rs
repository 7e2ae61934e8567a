//! The prompts of the reference service.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        MethodCall, MethodError, Prompt, PromptArgument, PromptCall, PromptResult, ReferenceService,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{ask, ask_modern};
use tower::Layer;

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

#[derive(Deserialize)]
struct Review {
    code: String,
    language: Option<String>,
}

async fn review(call: PromptCall) -> Result<PromptResult, MethodError> {
    let Review { code, language } = call.arguments()?;
    let language = language.unwrap_or_default();
    Ok(PromptResult::new()
        .description("A review")
        .user(format!("{} {language}: {code}", call.name()))
        .assistant_content(json!({ "type": "image", "data": "", "mimeType": "image/png" }))
        .assistant("Well")
        .user_content(json!({ "type": "text", "text": "Go on" })))
}

fn service() -> ReferenceService {
    let code = PromptArgument::new("code").description("The code");
    ReferenceService::new(server())
        .prompt(
            Prompt::new("review")
                .title("Review")
                .description("Asks for a review")
                .argument(code.required())
                .argument(PromptArgument::new("language")),
            review,
        )
        .prompt(Prompt::new("hello"), |_| async {
            Ok(PromptResult::new().user("Hello"))
        })
        .prompt(Prompt::new("fail"), |_| async {
            Err(MethodError::internal("the secret of the prompt"))
        })
        .prompt(Prompt::new("panic"), |_| async {
            panic!("the secret of the prompt")
        })
}

// rule R5
#[tokio::test]
async fn prompts_are_listed_in_the_order_of_registration() {
    let answer = ask(&service(), "prompts/list", "{}").await;
    assert_eq!(
        answer["result"],
        json!({ "prompts": [
            {
                "name": "review",
                "title": "Review",
                "description": "Asks for a review",
                "arguments": [
                    { "name": "code", "description": "The code", "required": true },
                    { "name": "language", "required": false },
                ],
            },
            { "name": "hello" },
            { "name": "fail" },
            { "name": "panic" },
        ] })
    );
}

// rule R5
#[tokio::test]
async fn a_prompt_is_made_of_its_arguments() {
    let params = r#"{"name":"review","arguments":{"code":"a\n","language":"Rust","more":"x"}}"#;
    let expected = json!({
        "description": "A review",
        "messages": [
            { "role": "user", "content": { "type": "text", "text": "review Rust: a\n" } },
            { "role": "assistant", "content": { "type": "image", "data": "", "mimeType": "image/png" } },
            { "role": "assistant", "content": { "type": "text", "text": "Well" } },
            { "role": "user", "content": { "type": "text", "text": "Go on" } },
        ],
    });
    let answer = ask(&service(), "prompts/get", params).await;
    assert_eq!(answer["result"], expected);
    let stack = McpLayer::new(server()).layer(service());
    assert_eq!(ask(&stack, "prompts/get", params).await, answer);
    let params = params.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let answer = ask_modern(&stack, "prompts/get", params, "{}").await;
    let answer = answer.json();
    assert_eq!(answer["result"]["messages"], expected["messages"]);
    assert_eq!(answer["result"]["resultType"], "complete");
    let answer = ask(&service(), "prompts/get", r#"{"name":"hello"}"#).await;
    assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Hello");
    assert_eq!(answer["result"].get("description"), None);
}

// rule R5
#[tokio::test]
async fn params_that_ask_for_no_prompt_are_invalid_params() {
    for (params, message) in [
        ("{}", "Invalid params: `name` is not a string"),
        (r#"{"name":1}"#, "Invalid params: `name` is not a string"),
        (r#"{"name":"none"}"#, "Unknown prompt: none"),
        (r#"{"name":"Review"}"#, "Unknown prompt: Review"),
        (
            r#"{"name":"review"}"#,
            "Invalid params: the argument `code` is missing",
        ),
        (
            r#"{"name":"review","arguments":{"language":"Rust"}}"#,
            "Invalid params: the argument `code` is missing",
        ),
        (
            r#"{"name":"review","arguments":{"code":7}}"#,
            "Invalid params: an argument is not a string",
        ),
        (
            r#"{"name":"hello","arguments":{"x":null}}"#,
            "Invalid params: an argument is not a string",
        ),
        (
            r#"{"name":"hello","arguments":[]}"#,
            "Invalid params: `arguments` is not an object",
        ),
        (
            r#"{"name":"hello","arguments":null}"#,
            "Invalid params: `arguments` is not an object",
        ),
    ] {
        let answer = ask(&service(), "prompts/get", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
        assert_eq!(answer["error"]["message"], message, "{params}");
    }
    let lone = r#"{"name":"review","arguments":{"code":"\ud800"}}"#;
    let answer = ask(&service(), "prompts/get", lone).await;
    assert_eq!(answer["error"]["code"], -32602);
}

// rule R3
#[tokio::test]
async fn a_prompt_that_fails_tells_nothing() {
    for name in ["fail", "panic"] {
        let answer = ask(
            &service(),
            "prompts/get",
            &format!(r#"{{"name":"{name}"}}"#),
        )
        .await;
        assert_eq!(
            answer["error"],
            json!({ "code": -32603, "message": "Internal error" })
        );
    }
}

// rule R1
#[tokio::test]
async fn without_prompts_there_are_neither_methods_nor_a_capability() {
    let none = ReferenceService::new(server());
    for method in ["prompts/list", "prompts/get"] {
        let answer = ask(&none, method, r#"{"name":"hello"}"#).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    for (service, prompts) in [(none, None), (service(), Some(json!({})))] {
        for (method, params) in [
            ("server/discover", "{}"),
            ("initialize", r#"{"protocolVersion":"2025-11-25"}"#),
        ] {
            let answer = ask(&service, method, params).await;
            let capabilities = &answer["result"]["capabilities"];
            assert_eq!(capabilities.get("prompts").cloned(), prompts);
        }
    }
}

#[tokio::test]
async fn a_prompt_of_the_same_name_replaces_the_first_in_its_place() {
    let replaced = service().prompt(Prompt::new("review").title("New"), |_| async {
        Ok(PromptResult::new().user("replaced"))
    });
    let list = ask(&replaced, "prompts/list", "{}").await;
    let prompts: &Vec<Value> = list["result"]["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 4);
    assert_eq!(prompts[0], json!({ "name": "review", "title": "New" }));
    let answer = ask(&replaced, "prompts/get", r#"{"name":"review"}"#).await;
    assert_eq!(
        answer["result"]["messages"][0]["content"]["text"],
        "replaced"
    );
    let method = replaced.method("prompts/list", |_: MethodCall| async {
        Ok(json!({ "x": 1 }))
    });
    let list = ask(&method, "prompts/list", "{}").await;
    assert_eq!(list["result"], json!({ "x": 1 }));
}
