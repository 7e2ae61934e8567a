//! Tools that need something of the client.

use mcp_layers::reference::{
    InputRequest, InputRequired, MethodError, ReferenceService, ToolCall, ToolError, ToolResult,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tools::plain;

pub(crate) fn add(service: ReferenceService) -> ReferenceService {
    service
        .tool(plain("test_missing_capability", "Demands sampling"), demand)
        .tool(
            plain("test_streaming_elicitation", "Asks the user"),
            elicitation,
        )
        .tool(
            plain("test_input_required_result_elicitation", "Asks the user"),
            elicitation,
        )
        .tool(
            plain("test_input_required_result_sampling", "Asks the model"),
            sampling,
        )
        .tool(
            plain("test_input_required_result_list_roots", "Asks for roots"),
            roots,
        )
        .tool(
            plain("test_input_required_result_request_state", "Keeps a state"),
            confirm,
        )
        .tool(
            plain("test_input_required_result_tampered_state", "Keeps a state"),
            confirm,
        )
        .tool(
            plain(
                "test_input_required_result_multiple_inputs",
                "Asks for a lot",
            ),
            multiple,
        )
        .tool(
            plain("test_input_required_result_multi_round", "Asks twice"),
            rounds,
        )
        .tool(
            plain(
                "test_input_required_result_capabilities",
                "Asks who can answer",
            ),
            capabilities,
        )
}

/// What a user made of a form.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub(crate) enum Elicited<T> {
    Accept { content: T },
    Cancel,
    Decline,
}

/// A form with one field.
pub(crate) fn form(message: &str, field: &str, kind: &str) -> InputRequest {
    let schema = json!({
        "type": "object",
        "properties": { field: { "type": kind } },
        "required": [field],
    });
    InputRequest::elicit(message, schema)
}

fn question(text: &str, max_tokens: u32) -> InputRequest {
    let content = json!({ "type": "text", "text": text });
    let messages = json!([{ "role": "user", "content": content }]);
    InputRequest::sample(json!({ "messages": messages, "maxTokens": max_tokens }))
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Sampled {
    content: Text,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Roots {
    roots: Vec<Root>,
}

#[derive(Deserialize)]
struct Root {
    uri: String,
}

async fn demand(call: ToolCall) -> Result<ToolResult, ToolError> {
    call.require_capability(&["sampling"])?;
    Ok(ToolResult::text("The client can sample"))
}

async fn elicitation(call: ToolCall) -> Result<ToolResult, ToolError> {
    Ok(match call.input_response("user_name")? {
        Some(Elicited::Accept {
            content: Name { name },
        }) => ToolResult::text(format!("Hello, {name}!")),
        Some(Elicited::Cancel | Elicited::Decline) => ToolResult::text("Hello, stranger!"),
        None => InputRequired::new()
            .request("user_name", form("What is your name?", "name", "string"))
            .into(),
    })
}

async fn sampling(call: ToolCall) -> Result<ToolResult, ToolError> {
    Ok(match call.input_response("capital_question")? {
        Some(Sampled { content }) => ToolResult::text(content.text),
        None => InputRequired::new()
            .request(
                "capital_question",
                question("What is the capital of France?", 100),
            )
            .into(),
    })
}

async fn roots(call: ToolCall) -> Result<ToolResult, ToolError> {
    Ok(match call.input_response("client_roots")? {
        Some(Roots { roots }) => {
            let uris: Vec<_> = roots.into_iter().map(|root| root.uri).collect();
            ToolResult::text(format!("Roots: {}", uris.join(", ")))
        }
        None => InputRequired::new()
            .request("client_roots", InputRequest::roots())
            .into(),
    })
}

/// Asks until its own state comes back.
async fn confirm(call: ToolCall) -> Result<ToolResult, ToolError> {
    let state: Option<String> = call.unseal()?;
    let confirmed: Option<Elicited<Value>> = call.input_response("confirm")?;
    if state.is_some() && confirmed.is_some() {
        return Ok(ToolResult::text("state-ok"));
    }
    Ok(InputRequired::new()
        .request("confirm", form("Please confirm", "ok", "boolean"))
        .state(call.seal(&"confirming")?)
        .into())
}

async fn multiple(call: ToolCall) -> Result<ToolResult, ToolError> {
    let _: Option<()> = call.unseal()?;
    let name: Option<Elicited<Name>> = call.input_response("user_name")?;
    let greeting: Option<Sampled> = call.input_response("greeting")?;
    let roots: Option<Roots> = call.input_response("client_roots")?;
    match (name, greeting, roots) {
        (Some(Elicited::Accept { content }), Some(greeting), Some(roots)) => {
            let (name, count) = (content.name, roots.roots.len());
            let text = format!("{} {name}, you have {count} roots", greeting.content.text);
            Ok(ToolResult::text(text))
        }
        _ => Ok(InputRequired::new()
            .request("user_name", form("What is your name?", "name", "string"))
            .request("greeting", question("Generate a greeting", 50))
            .request("client_roots", InputRequest::roots())
            .state(call.seal(&())?)
            .into()),
    }
}

/// Where the dialogue is.
#[derive(Default, Deserialize, Serialize)]
struct Dialogue {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Color {
    color: String,
}

async fn rounds(call: ToolCall) -> Result<ToolResult, ToolError> {
    let mut dialogue: Dialogue = call.unseal()?.unwrap_or_default();
    if let Some(Elicited::Accept {
        content: Name { name },
    }) = call.input_response("step1")?
    {
        dialogue.name = Some(name);
    }
    let color = call.input_response("step2")?;
    let ask = match (&dialogue.name, color) {
        (
            Some(name),
            Some(Elicited::Accept {
                content: Color { color },
            }),
        ) => {
            return Ok(ToolResult::text(format!("{name} likes {color}")));
        }
        (Some(_), _) => {
            let ask = form("Step 2: What is your favorite color?", "color", "string");
            InputRequired::new().request("step2", ask)
        }
        (None, _) => {
            let ask = form("Step 1: What is your name?", "name", "string");
            InputRequired::new().request("step1", ask)
        }
    };
    Ok(ask.state(call.seal(&dialogue)?).into())
}

/// Asks whoever can answer.
async fn capabilities(call: ToolCall) -> Result<ToolResult, ToolError> {
    let model: Option<Sampled> = call.input_response("model")?;
    let user: Option<Elicited<Name>> = call.input_response("user")?;
    if model.is_some() || user.is_some() {
        return Ok(ToolResult::text("Somebody answered"));
    }
    let mut ask = InputRequired::new();
    if call.has_capability(&["sampling"]) {
        ask = ask.request("model", question("Who are you?", 50));
    }
    if call.has_capability(&["elicitation", "form"]) {
        ask = ask.request("user", form("Who are you?", "name", "string"));
    }
    if ask == InputRequired::new() {
        return Err(MethodError::invalid_params("Nobody can answer").into());
    }
    Ok(ask.into())
}
