//! Requests that the reference service answers in several rounds.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mcp_layers::{
    McpLayer, ServerInfo,
    gate::Gate,
    reference::{
        InputRequest, InputRequired, MethodCall, MethodError, Prompt, PromptCall, PromptResult,
        ReferenceService, Resource, ResourceCall, ResourceResult, ResourceTemplate, StateError,
        StateErrorKind, StateSeal, Tool, ToolCall, ToolError, ToolResult,
    },
    stack::{Mcp, McpRules},
};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Answer, ask, ask_modern, post, send};
use tower::Layer;

const KEY: [u8; 32] = [7; 32];
const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#;

fn server() -> ServerInfo {
    ServerInfo::new("weather", "1.2.0")
}

fn tool(name: &str) -> Tool {
    Tool::new(name, json!({ "type": "object" }))
}

/// Left in the extensions by an outer layer.
#[derive(Clone)]
struct Principal(&'static str);

#[derive(Deserialize)]
struct Accepted {
    action: String,
    content: Value,
}

fn everything() -> InputRequired {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    InputRequired::new()
        .request("form", InputRequest::elicit("Who?", schema))
        .request(
            "url",
            InputRequest::elicit_url("Log in", "https://example.com"),
        )
        .request(
            "model",
            InputRequest::sample(json!({ "messages": [], "maxTokens": 1 })),
        )
        .request(
            "tools",
            InputRequest::sample(json!({ "messages": [], "tools": [] })),
        )
        .request("roots", InputRequest::roots())
}

fn one(request: InputRequest) -> InputRequired {
    InputRequired::new().request("one", request)
}

async fn greet(call: ToolCall) -> Result<ToolResult, ToolError> {
    match call.input_response::<Accepted>("one")? {
        Some(it) => Ok(ToolResult::text(format!("{} {}", it.action, it.content))),
        None => Ok(one(InputRequest::elicit("Who?", json!({}))).into()),
    }
}

/// Counts its rounds in a sealed state.
async fn count(call: ToolCall) -> Result<ToolResult, ToolError> {
    let round: u32 = call.unseal()?.unwrap_or(0);
    if round == 3 {
        return Ok(ToolResult::text("three"));
    }
    Ok(InputRequired::new().state(call.seal(&(round + 1))?).into())
}

fn unsealed() -> ReferenceService {
    ReferenceService::new(server())
        .tool(tool("all"), |_| async { Ok(everything().into()) })
        .tool(tool("greet"), greet)
        .tool(tool("count"), count)
        .tool(tool("other"), count)
        .tool(tool("kinds"), |call: ToolCall| async move {
            let kind = call.unseal::<String>().map_err(|error| error.kind());
            Ok(ToolResult::text(format!("{kind:?}")))
        })
        .tool(tool("nothing"), |_| async {
            Ok(InputRequired::new().into())
        })
        .tool(tool("roots"), |_| async {
            Ok(one(InputRequest::roots()).into())
        })
        .tool(tool("sample"), |_| async {
            Ok(one(InputRequest::sample(json!({}))).into())
        })
        .tool(tool("choose"), |_| async {
            Ok(one(InputRequest::sample(json!({ "toolChoice": {} }))).into())
        })
        .tool(tool("url"), |_| async {
            Ok(one(InputRequest::elicit_url("", "")).into())
        })
        .prompt(Prompt::new("greet"), |call: PromptCall| async move {
            match call.input_response::<Accepted>("one")? {
                Some(it) => Ok(PromptResult::new().user(it.action)),
                None => Ok(one(InputRequest::elicit("Who?", json!({})))
                    .state(call.seal(&1)?)
                    .into()),
            }
        })
        .prompt(Prompt::new("count"), |call: PromptCall| async move {
            let round: Option<u32> = call.unseal()?;
            Ok(PromptResult::new().user(format!("{round:?}")))
        })
        .resource(
            Resource::new("x://greet", "greet"),
            |call: ResourceCall| async move {
                match call.unseal::<String>()? {
                    Some(state) => Ok(ResourceResult::text(state)),
                    None => Ok(InputRequired::new().state(call.seal(&"sealed")?).into()),
                }
            },
        )
        .resource_template(
            ResourceTemplate::new("x://{other}", "other").unwrap(),
            |call: ResourceCall| async move {
                let state: Option<String> = call.unseal()?;
                Ok(ResourceResult::text(format!("{state:?}")))
            },
        )
        .method("x/ask", |_: MethodCall| async {
            Ok(json!({ "resultType": "input_required", "requestState": "x" }))
        })
}

fn service() -> ReferenceService {
    let seal = StateSeal::new(KEY).unwrap();
    let seal = seal.principal(|it| it.get::<Principal>().map(|it| it.0.to_owned()));
    unsealed().state_seal(seal)
}

fn stack() -> Mcp<Gate<ReferenceService, McpRules>> {
    McpLayer::new(server()).layer(service())
}

/// A modern call of a tool with these further params, by a client that can do everything.
async fn call(name: &str, params: &str) -> Answer {
    let comma = if params.is_empty() { "" } else { "," };
    let params = format!(r#""name":"{name}"{comma}{params}"#);
    ask_modern(&stack(), "tools/call", &params, ALL).await
}

fn error(answer: &Answer) -> (i64, Value) {
    let json = answer.json();
    let error = &json["error"];
    (
        error["code"].as_i64().unwrap_or_else(|| panic!("{json}")),
        error["data"].clone(),
    )
}

// rules R5, V4
#[tokio::test]
async fn a_result_can_ask_for_everything_that_a_client_can_give() {
    let answer = call("all", "").await;
    assert_eq!(answer.status(), 200);
    let result = &answer.json()["result"];
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(
        result["inputRequests"],
        json!({
            "form": { "method": "elicitation/create", "params": {
                "mode": "form",
                "message": "Who?",
                "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
            } },
            "url": { "method": "elicitation/create", "params": {
                "mode": "url", "message": "Log in", "url": "https://example.com",
            } },
            "model": { "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } },
            "tools": { "method": "sampling/createMessage", "params": { "messages": [], "tools": [] } },
            "roots": { "method": "roots/list", "params": {} },
        })
    );
    for absent in ["requestState", "content", "ttlMs"] {
        assert_eq!(result.get(absent), None, "{absent}");
    }
}

// rules R5, V6
#[tokio::test]
async fn a_client_is_asked_only_for_what_it_declared() {
    let form = json!({ "elicitation": { "form": {} } });
    let url = json!({ "elicitation": { "url": {} } });
    let tools = json!({ "sampling": { "tools": {} } });
    for (name, declared, missing) in [
        ("greet", "{}", Some(&form)),
        ("greet", r#"{"sampling":{},"roots":{}}"#, Some(&form)),
        ("greet", r#"{"elicitation":{"url":{}}}"#, Some(&form)),
        ("greet", r#"{"elicitation":{}}"#, None),
        ("greet", r#"{"elicitation":{"form":{}}}"#, None),
        ("url", r#"{"elicitation":{}}"#, Some(&url)),
        ("url", r#"{"elicitation":{"url":{}}}"#, None),
        ("sample", "{}", Some(&json!({ "sampling": {} }))),
        ("sample", r#"{"sampling":{}}"#, None),
        ("choose", r#"{"sampling":{}}"#, Some(&tools)),
        ("choose", r#"{"sampling":{"tools":{}}}"#, None),
        (
            "roots",
            r#"{"elicitation":{}}"#,
            Some(&json!({ "roots": {} })),
        ),
        ("roots", r#"{"roots":{}}"#, None),
        (
            "all",
            r#"{"sampling":{},"elicitation":{"form":{}}}"#,
            Some(
                &json!({ "elicitation": { "url": {} }, "sampling": { "tools": {} }, "roots": {} }),
            ),
        ),
    ] {
        let params = format!(r#""name":"{name}""#);
        let answer = ask_modern(&stack(), "tools/call", &params, declared).await;
        match missing {
            None => assert_eq!(answer.json()["result"]["resultType"], "input_required"),
            Some(missing) => {
                assert_eq!(answer.status(), 400, "{name} {declared}");
                let required = json!({ "requiredCapabilities": missing });
                assert_eq!(error(&answer), (-32021, required), "{declared}");
            }
        }
    }
}

// rule R5
#[tokio::test]
async fn a_client_of_the_handshake_is_never_asked() {
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/clientCapabilities":{ALL}}}"#);
    let greet = format!(r#"{{"name":"greet",{meta}}}"#);
    for (method, params, code) in [
        ("tools/call", greet.as_str(), -32021),
        ("prompts/get", greet.as_str(), -32021),
        ("tools/call", r#"{"name":"count"}"#, -32603),
        ("resources/read", r#"{"uri":"x://greet"}"#, -32603),
    ] {
        let answer = ask(&stack(), method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}");
    }
    // alone, the service takes a request for what it says it is
    let answer = ask(&service(), "tools/call", &greet).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
}

// rule R5
#[tokio::test]
async fn only_tools_prompts_and_resources_ask() {
    let answer = ask_modern(&stack(), "x/ask", "", ALL).await;
    assert_eq!(error(&answer), (-32603, Value::Null));
    let greet = r#""name":"greet""#;
    let answer = ask_modern(&stack(), "prompts/get", greet, ALL).await.json();
    assert_eq!(answer["result"]["resultType"], "input_required");
    assert!(answer["result"]["requestState"].is_string());
    assert_eq!(answer["result"].get("messages"), None);
    let answer = ask_modern(&stack(), "resources/read", r#""uri":"x://greet""#, ALL).await;
    let answer = answer.json();
    assert_eq!(answer["result"]["resultType"], "input_required");
    for absent in ["inputRequests", "contents", "ttlMs", "cacheScope"] {
        assert_eq!(answer["result"].get(absent), None, "{absent}");
    }
}

// rule R5
#[tokio::test]
async fn methods_that_take_the_place_of_tools_ask_under_the_same_rules() {
    for (result, code) in [
        (
            json!({ "resultType": "input_required", "requestState": "x" }),
            None,
        ),
        (json!({ "resultType": "input_required" }), Some(-32603)),
        (
            json!({ "resultType": "input_required", "inputRequests": {} }),
            Some(-32603),
        ),
        (
            json!({ "resultType": "input_required", "inputRequests": [] }),
            Some(-32603),
        ),
        (
            json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "roots/list" } } }),
            Some(-32021),
        ),
        (
            json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "ping" } } }),
            Some(-32603),
        ),
    ] {
        let service = unsealed().method("tools/call", move |_: MethodCall| {
            let result = result.clone();
            async { Ok(result) }
        });
        let answer = ask(&service, "tools/call", r#"{"name":"a"}"#).await;
        assert_eq!(answer["error"]["code"].as_i64(), code, "{answer}");
    }
    let answer = call("nothing", "").await;
    assert_eq!(error(&answer), (-32603, Value::Null));
}

// rule R5
#[tokio::test]
async fn a_second_round_brings_what_was_asked_for() {
    let accepted = r#"{"action":"accept","content":{"name":"é"}}"#;
    let answer = call(
        "greet",
        &format!(r#""inputResponses":{{"one":{accepted}}}"#),
    )
    .await;
    let text = r#"accept {"name":"é"}"#;
    assert_eq!(answer.json()["result"]["content"][0]["text"], text);
    // what nobody asked for is ignored
    let more = format!(r#""inputResponses":{{"x":1,"one":{accepted},"y":{accepted}}}"#);
    assert_eq!(
        call("greet", &more).await.json()["result"]["content"][0]["text"],
        text
    );
    // what is missing is asked for again
    for missing in ["{}", r#"{"wrong":{}}"#, r#"{"One":1}"#] {
        let answer = call("greet", &format!(r#""inputResponses":{missing}"#)).await;
        assert_eq!(
            answer.json()["result"]["resultType"],
            "input_required",
            "{missing}"
        );
    }
    for wrong in [
        "12345",
        "null",
        "\"accept\"",
        "[]",
        r#"{"action":1}"#,
        r#"{"action":"accept"}"#,
    ] {
        let answer = call("greet", &format!(r#""inputResponses":{{"one":{wrong}}}"#)).await;
        assert_eq!(error(&answer).0, -32602, "{wrong}");
    }
}

// rule R5
#[tokio::test]
async fn what_is_no_second_round_is_refused_whoever_would_read_it() {
    for retry in [
        r#""inputResponses":null"#,
        r#""inputResponses":[]"#,
        r#""inputResponses":"{}""#,
        r#""inputResponses":1"#,
        r#""requestState":null"#,
        r#""requestState":1"#,
        r#""requestState":{}"#,
        r#""requestState":["x"]"#,
    ] {
        for name in ["greet", "all", "count"] {
            assert_eq!(error(&call(name, retry).await).0, -32602, "{name} {retry}");
        }
        let params = format!(r#"{{"name":"greet",{retry}}}"#);
        let answer = ask(&service(), "prompts/get", &params).await;
        assert_eq!(answer["error"]["code"], -32602, "{retry}");
        let params = format!(r#"{{"uri":"x://greet",{retry}}}"#);
        let answer = ask(&service(), "resources/read", &params).await;
        assert_eq!(answer["error"]["code"], -32602, "{retry}");
    }
}

/// A legacy call of a tool, by this principal.
async fn call_as(
    service: &ReferenceService,
    principal: Option<&'static str>,
    params: &str,
) -> Value {
    let mut request = post(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
    ));
    if let Some(principal) = principal {
        request.extensions_mut().insert(Principal(principal));
    }
    send(service.clone(), request).await.json()
}

async fn state(service: &ReferenceService, params: &str) -> String {
    let answer = call_as(service, None, params).await;
    answer["result"]["requestState"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

/// The code of what became of a state, in a call of `count`.
async fn refusal(state: &str) -> Option<i64> {
    let params = json!({ "name": "count", "requestState": state }).to_string();
    let answer = call_as(&service(), None, &params).await;
    let code = answer["error"]["code"].as_i64();
    assert_eq!(code.is_none(), answer["result"].is_object(), "{answer}");
    code
}

// rule R5
#[tokio::test]
async fn a_state_goes_round_until_the_work_is_done() {
    let mut params = r#"{"name":"count"}"#.to_owned();
    let mut states = Vec::new();
    loop {
        let answer = call_as(&service(), None, &params).await;
        let Some(state) = answer["result"]["requestState"].as_str() else {
            assert_eq!(answer["result"]["content"][0]["text"], "three");
            break;
        };
        states.push(state.to_owned());
        params = json!({ "name": "count", "requestState": states.last() }).to_string();
    }
    assert_eq!(states.len(), 3);
    states.dedup();
    assert_eq!(states.len(), 3);
    let url_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    assert!(states.concat().bytes().all(url_safe));
}

// rule R5
#[tokio::test]
async fn a_state_that_was_changed_anywhere_is_refused() {
    let state = state(&service(), r#"{"name":"count"}"#).await;
    assert_eq!(refusal(&state).await, None);
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(&state).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let changed = BASE64_URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(
                refusal(&changed).await,
                Some(-32602),
                "byte {at}, bit {bit}"
            );
        }
        let cut = BASE64_URL_SAFE_NO_PAD.encode(&bytes[..at]);
        assert_eq!(refusal(&cut).await, Some(-32602), "cut at {at}");
        let cut = BASE64_URL_SAFE_NO_PAD.encode(&bytes[at + 1..]);
        assert_eq!(refusal(&cut).await, Some(-32602), "cut up to {at}");
    }
    for at in 0..state.len() {
        for other in ["A", "-", "_", "=", "%", " ", "é", "\0"] {
            let changed = format!("{}{other}{}", &state[..at], &state[at + 1..]);
            if changed != state {
                assert_eq!(refusal(&changed).await, Some(-32602), "{changed}");
            }
        }
        assert_eq!(refusal(&state[..at]).await, Some(-32602), "cut at {at}");
    }
    for more in ["A", "=", "-TAMPERED", "\n", " "] {
        assert_eq!(
            refusal(&format!("{state}{more}")).await,
            Some(-32602),
            "{more:?}"
        );
    }
    let long = "A".repeat(1_000_000);
    assert_eq!(refusal(&long).await, Some(-32602));
    // rule B2
    let surrogate = r#"{"name":"count","requestState":"\ud800"}"#;
    let answer = call_as(&service(), None, surrogate).await;
    assert_eq!(answer["error"]["code"], -32600);
}

// rule R5
#[tokio::test]
async fn a_state_of_another_principal_is_refused() {
    let service = service();
    let principals = [None, Some(""), Some("ada"), Some("eve"), Some("adaeve")];
    for mine in principals {
        let answer = call_as(&service, mine, r#"{"name":"count"}"#).await;
        let state = &answer["result"]["requestState"];
        let params = json!({ "name": "count", "requestState": state }).to_string();
        for theirs in principals {
            let answer = call_as(&service, theirs, &params).await;
            assert_eq!(
                answer["result"].is_object(),
                mine == theirs,
                "{mine:?} {theirs:?}"
            );
        }
    }
}

// rule R5
#[tokio::test]
async fn a_state_of_another_request_is_refused() {
    let service = service();
    let state = state(&service, r#"{"name":"count","arguments":{"a":1}}"#).await;
    let retry = format!(r#""requestState":"{state}""#);
    for (method, params, same) in [
        ("tools/call", r#""name":"count","arguments":{"a":1}"#, true),
        (
            "tools/call",
            r#""arguments":{"a":1},"name":"co\u0075nt""#,
            true,
        ),
        ("tools/call", r#""name":"other","arguments":{"a":1}"#, false),
        ("tools/call", r#""name":"count","arguments":{"a":2}"#, false),
        ("tools/call", r#""name":"count","arguments":{}"#, false),
        ("tools/call", r#""name":"count""#, false),
        (
            "prompts/get",
            r#""name":"count","arguments":{"a":"1"}"#,
            false,
        ),
        ("prompts/get", r#""name":"count""#, false),
        ("resources/read", r#""uri":"x://count""#, false),
    ] {
        let answer = ask(&service, method, &format!("{{{params},{retry}}}")).await;
        assert_eq!(answer["result"].is_object(), same, "{params} {answer}");
        if !same {
            assert_eq!(answer["error"]["code"], -32602, "{params}");
        }
    }
    let answer = ask(&service, "resources/read", r#"{"uri":"x://greet"}"#).await;
    let state = &answer["result"]["requestState"];
    for (uri, text) in [("x://greet", Some("sealed")), ("x://other", None)] {
        let params = json!({ "uri": uri, "requestState": state }).to_string();
        let answer = ask(&service, "resources/read", &params).await;
        assert_eq!(
            answer["result"]["contents"][0]["text"].as_str(),
            text,
            "{answer}"
        );
    }
    // absent arguments are no arguments
    let absent = self::state(&service, r#"{"name":"count"}"#).await;
    let params = format!(r#"{{"name":"count","arguments":{{}},"requestState":"{absent}"}}"#);
    assert!(call_as(&service, None, &params).await["result"].is_object());
    // a prompt of the same name is not the tool
    let answer = ask(&service, "prompts/get", &params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

// rule R5
#[tokio::test]
async fn a_state_of_another_key_or_an_old_one_is_refused() {
    let seal = |key: &[u8]| StateSeal::new(key).unwrap();
    let mine = unsealed().state_seal(seal(&KEY));
    let params = r#"{"name":"count"}"#;
    let other = state(&unsealed().state_seal(seal(&[8; 32])), params).await;
    let longer = state(&unsealed().state_seal(seal(&[7; 33])), params).await;
    let old = state(
        &unsealed().state_seal(seal(&KEY).lifetime(Duration::ZERO)),
        params,
    )
    .await;
    let same = state(
        &unsealed().state_seal(seal(&KEY).lifetime(Duration::MAX)),
        params,
    )
    .await;
    for (state, good) in [(other, false), (longer, false), (old, false), (same, true)] {
        let params = json!({ "name": "count", "requestState": state }).to_string();
        let answer = call_as(&mine, None, &params).await;
        assert_eq!(answer["result"].is_object(), good, "{answer}");
    }
}

// rule R5
#[tokio::test]
async fn the_kind_of_an_error_tells_what_is_wrong() {
    let seal = |lifetime| StateSeal::new(KEY).unwrap().lifetime(lifetime);
    let long = unsealed().state_seal(seal(Duration::from_secs(60)));
    let kind = async |service: &ReferenceService, state: &str| {
        let params = json!({ "name": "kinds", "requestState": state }).to_string();
        let answer = call_as(service, None, &params).await;
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let minting = |lifetime| {
        unsealed()
            .tool(tool("kinds"), |call: ToolCall| async move {
                Ok(InputRequired::new()
                    .state(call.seal(&call.raw_arguments().len())?)
                    .into())
            })
            .state_seal(seal(lifetime))
    };
    let number = state(&minting(Duration::from_secs(60)), r#"{"name":"kinds"}"#).await;
    let expired = state(&minting(Duration::ZERO), r#"{"name":"kinds"}"#).await;
    let foreign = state(&long, r#"{"name":"count"}"#).await;
    assert_eq!(kind(&long, &number).await, "Err(Unexpected)");
    assert_eq!(kind(&long, &expired).await, "Err(Expired)");
    assert_eq!(kind(&long, &foreign).await, "Err(Forged)");
    assert_eq!(kind(&long, "").await, "Err(Malformed)");
    assert_eq!(kind(&long, "?").await, "Err(Malformed)");
    assert_eq!(kind(&unsealed(), &number).await, "Err(NoSeal)");
    let answer = call_as(&long, None, r#"{"name":"kinds"}"#).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ok(None)");
}

// rule R5
#[tokio::test]
async fn without_a_key_nothing_is_sealed() {
    let answer = call_as(&unsealed(), None, r#"{"name":"count"}"#).await;
    assert_eq!(
        answer["error"],
        json!({ "code": -32603, "message": "Internal error" })
    );
    let params = r#"{"name":"count","requestState":"AAAA"}"#;
    let answer = call_as(&unsealed(), None, params).await;
    assert_eq!(
        answer["error"],
        json!({ "code": -32603, "message": "Internal error" })
    );
}

#[test]
fn a_short_key_is_refused_and_no_key_is_shown() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn thrown<T: std::error::Error + Send + Sync + 'static>() {}
    for length in [0, 1, 16, 31] {
        let error = StateSeal::new(vec![1; length]).unwrap_err();
        assert_eq!(error.to_string(), "a key has at least 32 bytes");
    }
    for length in [32, 64, 100] {
        let seal = StateSeal::new(vec![251; length]).unwrap();
        let shown = format!("{seal:?} {:?}", unsealed().state_seal(seal.clone()));
        assert!(!shown.contains("251"), "{shown}");
    }
    shared(&StateSeal::new(KEY).unwrap());
    thrown::<StateError>();
    assert_ne!(StateErrorKind::Expired, StateErrorKind::Forged);
    let error = MethodError::invalid_params("why");
    assert_eq!(ToolError::from(error).to_string(), "the tool failed");
}
