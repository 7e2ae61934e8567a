//! Tools, and what comes out of calling one.

use std::{borrow::Cow, error::Error, fmt};

use serde_json::{Map, Value, json};

use super::{
    InputRequired, MethodError, StateError,
    handler::{Outcome, ToolHandler},
    list::Listed,
};

/// A tool as `tools/list` shows it.
///
/// ```
/// use mcp_layers::reference::Tool;
/// use serde_json::json;
///
/// let tool = Tool::new(
///     "echo",
///     json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] }),
/// )
/// .title("Echo")
/// .description("Returns what it is given");
/// assert_eq!(tool.name(), "echo");
/// ```
///
/// See [Tool] in the specification.
///
/// [Tool]: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Tool {
    name: String,
    input_schema: Value,
    others: Map<String, Value>,
}

impl Tool {
    /// A tool of this name, which takes the arguments that the JSON Schema describes.
    ///
    /// Clients leave out a tool whose schema is not an object with `"type": "object"`.
    pub fn new(name: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            input_schema,
            others: Map::new(),
        }
    }

    /// Sets the name to show to people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into().into())
    }

    /// Sets what the tool is for, written for models.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into().into())
    }

    /// Sets the JSON Schema of the tool's structured results.
    pub fn output_schema(self, schema: Value) -> Self {
        self.with("outputSchema", schema)
    }

    /// Sets what the tool does to its surroundings, such as `{ "readOnlyHint": true }`.
    pub fn annotations(self, annotations: Value) -> Self {
        self.with("annotations", annotations)
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The JSON Schema of the tool's arguments.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.others.insert(key.into(), value);
        self
    }
}

impl Listed for Tool {
    type Handler = ToolHandler;

    const MEMBER: &'static str = "tools";

    fn key(&self) -> &str {
        &self.name
    }

    fn to_json(&self) -> Value {
        let mut tool = self.others.clone();
        tool.insert("name".into(), self.name.clone().into());
        tool.insert("inputSchema".into(), self.input_schema.clone());
        Value::Object(tool)
    }
}

/// What a tool answers.
///
/// ```
/// use mcp_layers::reference::ToolResult;
/// use serde_json::json;
///
/// let plain = ToolResult::text("12 degrees");
/// let structured = ToolResult::structured(json!({ "degrees": 12 }));
/// let failed = ToolResult::error("There is no such place");
/// let picture = ToolResult::text("A map")
///     .content(json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" }));
/// ```
///
/// One made of an [`InputRequired`] asks the client for more.
///
/// See [Tool Result] in the specification.
///
/// [Tool Result]: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct ToolResult {
    content: Vec<Value>,
    structured: Option<Value>,
    is_error: bool,
    input: Option<InputRequired>,
}

impl ToolResult {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().content(json!({ "type": "text", "text": text.into() }))
    }

    /// A JSON value, which is also given as text to clients that only read that.
    ///
    /// Clients of the handshake era accept only an object here.
    pub fn structured(value: Value) -> Self {
        let mut result = Self::text(value.to_string());
        result.structured = Some(value);
        result
    }

    /// A failure that the model is told of, so that it can try again in another way.
    pub fn error(text: impl Into<String>) -> Self {
        let mut result = Self::text(text);
        result.is_error = true;
        result
    }

    /// Adds a content block of any type, behind those that are there.
    pub fn content(mut self, block: Value) -> Self {
        self.content.push(block);
        self
    }
}

impl From<InputRequired> for ToolResult {
    fn from(input: InputRequired) -> Self {
        Self {
            input: Some(input),
            ..Self::default()
        }
    }
}

impl Outcome for ToolResult {
    fn into_json(self) -> Value {
        if let Some(input) = self.input {
            return input.into_json();
        }
        let mut result = Map::new();
        result.insert("content".into(), self.content.into());
        if let Some(structured) = self.structured {
            result.insert("structuredContent".into(), structured);
        }
        if self.is_error {
            result.insert("isError".into(), true.into());
        }
        Value::Object(result)
    }
}

/// Why a tool did not answer.
///
/// A [`MethodError`] becomes the error that the client gets: the model is not told of it.
#[derive(Debug)]
pub struct ToolError(Kind);

#[derive(Debug)]
enum Kind {
    Invalid(Cow<'static, str>),
    Method(MethodError),
}

impl ToolError {
    /// The arguments are not what the tool takes: the model is told why, by a result with
    /// `isError: true`.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Kind::Invalid(message.into()))
    }

    /// Something failed that is none of the client's business: it is told "Internal error" and
    /// nothing else. With the feature `tracing`, the error is logged.
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Kind::Method(MethodError::internal(error)))
    }

    /// The result to answer with, or the error.
    pub(super) fn into_result(self) -> Result<ToolResult, MethodError> {
        match self.0 {
            Kind::Invalid(message) => Ok(ToolResult::error(message)),
            Kind::Method(error) => Err(error),
        }
    }
}

impl From<MethodError> for ToolError {
    fn from(error: MethodError) -> Self {
        Self(Kind::Method(error))
    }
}

impl From<StateError> for ToolError {
    fn from(error: StateError) -> Self {
        MethodError::from(error).into()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Invalid(message) => f.write_str(message),
            Kind::Method(_) => f.write_str("the tool failed"),
        }
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Invalid(_) => None,
            Kind::Method(error) => Some(error),
        }
    }
}
