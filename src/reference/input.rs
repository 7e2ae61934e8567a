//! Asking the client for what a request lacks.

use serde_json::{Map, Value, json};

use super::{
    MethodError,
    client::{self, Client},
};

/// The answer that asks for more: the client sends its request again, with what was asked for.
///
/// It is the result of a tool, a prompt or a resource. A client that did not declare what it is
/// asked for gets -32021 instead. Nothing says that it comes back, or that it brings everything:
/// a handler asks again for what is still missing.
///
/// ```
/// use mcp_layers::reference::{InputRequest, InputRequired, ToolCall, ToolError, ToolResult};
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Deserialize)]
/// #[serde(tag = "action", rename_all = "lowercase")]
/// enum Answer {
///     Accept { content: Person },
///     Decline,
///     Cancel,
/// }
///
/// #[derive(Deserialize)]
/// struct Person {
///     name: String,
/// }
///
/// async fn greet(call: ToolCall) -> Result<ToolResult, ToolError> {
///     match call.input_response("person")? {
///         Some(Answer::Accept { content }) => Ok(ToolResult::text(format!("Hello, {}", content.name))),
///         Some(Answer::Decline | Answer::Cancel) => Ok(ToolResult::text("Hello, stranger")),
///         None => {
///             let schema = json!({
///                 "type": "object",
///                 "properties": { "name": { "type": "string" } },
///                 "required": ["name"],
///             });
///             let ask = InputRequest::elicit("What is your name?", schema);
///             Ok(InputRequired::new().request("person", ask).into())
///         }
///     }
/// }
/// ```
///
/// What a handler has to know again goes into a [sealed](super::ToolCall::seal) state.
///
/// See [Multi Round-Trip Requests][mrtr] in the specification.
///
/// [mrtr]: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct InputRequired {
    requests: Map<String, Value>,
    state: Option<String>,
}

impl InputRequired {
    /// Asks for nothing yet. It must ask for something or carry a state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for something under a key of the server's. One of the same key is replaced.
    pub fn request(mut self, key: impl Into<String>, request: InputRequest) -> Self {
        self.requests.insert(key.into(), request.0);
        self
    }

    /// Adds a state, which the client gives back as it is. Make it with `seal` of the call: the
    /// client could write any other.
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.state = Some(state.into());
        self
    }

    pub(super) fn into_json(self) -> Value {
        let mut result = json!({ "resultType": "input_required" });
        if !self.requests.is_empty() {
            result["inputRequests"] = self.requests.into();
        }
        if let Some(state) = self.state {
            result["requestState"] = state.into();
        }
        result
    }
}

/// One thing that a client is asked for.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct InputRequest(Value);

impl InputRequest {
    /// The user fills in a form, whose fields the flat JSON Schema describes.
    #[allow(clippy::needless_pass_by_value)] // goes into the request
    pub fn elicit(message: impl Into<String>, schema: Value) -> Self {
        let message = message.into();
        Self::new(
            "elicitation/create",
            json!({ "mode": "form", "message": message, "requestedSchema": schema }),
        )
    }

    /// The user opens a web page.
    pub fn elicit_url(message: impl Into<String>, url: impl Into<String>) -> Self {
        let (message, url) = (message.into(), url.into());
        Self::new(
            "elicitation/create",
            json!({ "mode": "url", "message": message, "url": url }),
        )
    }

    /// The client's model answers; these are the params of `sampling/createMessage`.
    pub fn sample(params: Value) -> Self {
        Self::new("sampling/createMessage", params)
    }

    /// The client lists its roots.
    pub fn roots() -> Self {
        Self::new("roots/list", json!({}))
    }

    #[allow(clippy::needless_pass_by_value)] // goes into the request
    fn new(method: &str, params: Value) -> Self {
        Self(json!({ "method": method, "params": params }))
    }
}

/// Refuses a result that asks for what the client may not be asked for.
// rule R5
pub(super) fn check(result: Value, client: &Client) -> Result<Value, MethodError> {
    if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
        return Ok(result);
    }
    let fault = |fault: &str| Err(MethodError::internal(fault));
    let empty = Map::new();
    let requests = match result.get("inputRequests") {
        None => &empty,
        Some(Value::Object(requests)) => requests,
        Some(_) => return fault("`inputRequests` is not an object"),
    };
    if requests.is_empty() && !result.get("requestState").is_some_and(Value::is_string) {
        return fault("an answer asks for input and does not say for which");
    }
    let mut missing = Vec::new();
    for request in requests.values() {
        let Some(needed) = needed(request) else {
            return fault("an answer asks for what no client can be asked for");
        };
        if !client.declares(needed) {
            missing.push(needed);
        }
    }
    if !missing.is_empty() {
        return Err(client::missing(missing));
    }
    if !client.can_be_asked {
        return fault("an answer asks for input where the protocol has no room for that");
    }
    Ok(result)
}

/// The capability that a client needs to fulfil a request.
fn needed(request: &Value) -> Option<&'static [&'static str]> {
    let params = &request["params"];
    Some(match request["method"].as_str()? {
        "elicitation/create" if params["mode"] == "url" => &["elicitation", "url"],
        "elicitation/create" => &["elicitation", "form"],
        "roots/list" => &["roots"],
        "sampling/createMessage" if params.get("tools").or(params.get("toolChoice")).is_some() => {
            &["sampling", "tools"]
        }
        "sampling/createMessage" => &["sampling"],
        _ => return None,
    })
}
