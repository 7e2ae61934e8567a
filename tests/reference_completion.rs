//! The completions of the reference service.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use mcp_layers::{
    McpLayer, ServerInfo,
    reference::{
        Completion, CompletionCall, CompletionRef, MethodCall, MethodError, Prompt, PromptResult,
        ReferenceService, Resource, ResourceResult, ResourceTemplate,
    },
};
use serde_json::{Value, json};
use support::{ask, ask_modern};
use tower::Layer;

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

async fn complete(call: CompletionCall) -> Result<Completion, MethodError> {
    let of = match call.reference() {
        CompletionRef::Prompt(name) => format!("prompt {name}"),
        CompletionRef::Resource(uri) => format!("resource {uri}"),
        other => panic!("{other:?}"),
    };
    let other = call.resolved("other").unwrap_or_default();
    match call.value() {
        "many" => Ok(Completion::new((0..101).map(|number| number.to_string()))),
        "hundred" => Ok(Completion::new((0..100).map(|number| number.to_string()))),
        "total" => Ok(Completion::new(["a"]).total(150)),
        "wrong" => Ok(Completion::new(["a", "b"]).total(1)),
        "fail" => Err(MethodError::internal("the secret of the completion")),
        value => Ok(Completion::new([
            of,
            call.argument().into(),
            value.into(),
            other,
        ])),
    }
}

fn without() -> ReferenceService {
    ReferenceService::new(server())
        .prompt(Prompt::new("review"), |_| async { Ok(PromptResult::new()) })
        .resource(Resource::new("x://one", "one"), |_| async {
            Ok(ResourceResult::new())
        })
        .resource_template(ResourceTemplate::new("x://{a}", "a").unwrap(), |_| async {
            Ok(ResourceResult::new())
        })
}

fn service() -> ReferenceService {
    without().completion(complete)
}

fn params(reference: &Value, value: &str) -> String {
    json!({
        "ref": reference,
        "argument": { "name": "language", "value": value },
        "context": { "arguments": { "other": "é" } },
    })
    .to_string()
}

fn review() -> Value {
    json!({ "type": "ref/prompt", "name": "review" })
}

// rule R5
#[tokio::test]
async fn the_handler_learns_what_is_completed() {
    let stack = McpLayer::new(server()).layer(service());
    for (reference, of) in [
        (review(), "prompt review"),
        (
            json!({ "type": "ref/resource", "uri": "x://{a}" }),
            "resource x://{a}",
        ),
        (
            json!({ "type": "ref/resource", "uri": "x://one" }),
            "resource x://one",
        ),
    ] {
        let params = params(&reference, "p\"y");
        let answer = ask(&service(), "completion/complete", &params).await;
        let expected =
            json!({ "values": [of, "language", "p\"y", "é"], "total": 4, "hasMore": false });
        assert_eq!(answer["result"], json!({ "completion": expected }));
        assert_eq!(ask(&stack, "completion/complete", &params).await, answer);
        let params = params.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        let answer = ask_modern(&stack, "completion/complete", params, "{}")
            .await
            .json();
        assert_eq!(answer["result"]["completion"], expected);
        assert_eq!(answer["result"]["resultType"], "complete");
    }
}

// rule R5
#[tokio::test]
async fn at_most_a_hundred_are_sent() {
    for (value, sent, total, more) in [
        ("many", 100, 101, true),
        ("hundred", 100, 100, false),
        ("total", 1, 150, true),
        ("wrong", 2, 2, false),
    ] {
        let answer = ask(&service(), "completion/complete", &params(&review(), value)).await;
        let completion = &answer["result"]["completion"];
        assert_eq!(
            completion["values"].as_array().unwrap().len(),
            sent,
            "{value}"
        );
        assert_eq!(completion["total"], total, "{value}");
        assert_eq!(completion["hasMore"], more, "{value}");
    }
}

// rule R5
#[tokio::test]
async fn params_that_complete_nothing_are_invalid_params() {
    let argument = r#""argument":{"name":"a","value":"b"}"#;
    let reference = format!(r#""ref":{}"#, review());
    for params in [
        "{}".to_owned(),
        format!("{{{argument}}}"),
        format!("{{{reference}}}"),
        format!(r#"{{{reference},"argument":{{"name":"a"}}}}"#),
        format!(r#"{{{reference},"argument":{{"value":"a"}}}}"#),
        format!(r#"{{{reference},"argument":{{"name":"a","value":1}}}}"#),
        format!(r#"{{{reference},"argument":{{"name":"a","value":"\ud800"}}}}"#),
        format!(r#"{{{reference},"argument":["a","b"]}}"#),
        format!(r#"{{"ref":"review",{argument}}}"#),
        format!(r#"{{"ref":{{"type":"ref/prompt"}},{argument}}}"#),
        format!(r#"{{"ref":{{"type":"ref/tool","name":"review"}},{argument}}}"#),
        format!(r#"{{"ref":{{"type":"ref/prompt","uri":"review"}},{argument}}}"#),
        format!(r#"{{"ref":{{"type":"ref/prompt","name":"none"}},{argument}}}"#),
        format!(r#"{{"ref":{{"type":"ref/resource","uri":"x://two"}},{argument}}}"#),
    ] {
        let answer = ask(&service(), "completion/complete", &params).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
    let answer = ask(
        &service(),
        "completion/complete",
        &params(&review(), "fail"),
    )
    .await;
    assert_eq!(
        answer["error"],
        json!({ "code": -32603, "message": "Internal error" })
    );
}

// rule R5
#[tokio::test]
async fn prompts_of_a_method_of_their_own_are_left_to_the_handler() {
    let service = service().method("prompts/get", |_: MethodCall| async { Ok(json!({})) });
    let other = json!({ "type": "ref/prompt", "name": "other" });
    let answer = ask(&service, "completion/complete", &params(&other, "")).await;
    assert_eq!(answer["result"]["completion"]["values"][0], "prompt other");
}

// rule R1
#[tokio::test]
async fn without_a_handler_there_is_neither_the_method_nor_the_capability() {
    let answer = ask(&without(), "completion/complete", &params(&review(), "")).await;
    assert_eq!(answer["error"]["code"], -32601);
    for (service, completions) in [(without(), None), (service(), Some(json!({})))] {
        let answer = ask(&service, "server/discover", "{}").await;
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities.get("completions").cloned(), completions);
    }
}
