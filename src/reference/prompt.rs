//! Prompts, and what comes out of asking for one.

use serde_json::{Map, Value, json};

use super::{
    InputRequired, MethodError, answer,
    call::PromptCall,
    handler::{Handler, Outcome},
    list::Listed,
};
use crate::json::{Cursor, Kind};

/// A prompt as `prompts/list` shows it.
///
/// ```
/// use mcp_layers::{
///     ServerInfo,
///     reference::{MethodError, Prompt, PromptArgument, PromptCall, PromptResult, ReferenceService},
/// };
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Review {
///     code: String,
/// }
///
/// async fn review(call: PromptCall) -> Result<PromptResult, MethodError> {
///     let Review { code } = call.arguments()?;
///     Ok(PromptResult::new().user(format!("Review this:\n{code}")))
/// }
///
/// let prompt = Prompt::new("review")
///     .description("Asks for a review of some code")
///     .argument(PromptArgument::new("code").description("The code").required());
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0")).prompt(prompt, review);
/// ```
///
/// See [Prompts] in the specification.
///
/// [Prompts]: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Prompt {
    name: String,
    arguments: Vec<PromptArgument>,
    others: Map<String, Value>,
}

impl Prompt {
    /// A prompt of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            arguments: Vec::new(),
            others: Map::new(),
        }
    }

    /// Sets the name to show to people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into())
    }

    /// Sets what the prompt is for.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into())
    }

    /// Adds an argument, behind those that are there.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The prompt's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn with(mut self, key: &str, value: String) -> Self {
        self.others.insert(key.into(), value.into());
        self
    }

    /// Refuses arguments that are not strings, and the lack of one that is required.
    // rule R5
    pub(super) fn check(&self, arguments: Option<&[u8]>) -> Result<(), MethodError> {
        let invalid = |fault: &str| MethodError::invalid_params(format!("Invalid params: {fault}"));
        let text = arguments.unwrap_or(b"{}");
        let (mut given, mut wrong) = (vec![false; self.arguments.len()], false);
        let read = Cursor::new(text).object(|cursor, key| {
            let value = cursor.value()?;
            wrong |= !matches!(value.kind, Kind::String { .. });
            for (given, argument) in given.iter_mut().zip(&self.arguments) {
                *given |= key.is(&argument.name);
            }
            Ok(())
        });
        if !read.is_ok_and(|value| value.kind == Kind::Object) {
            return Err(invalid("`arguments` is not an object"));
        }
        if wrong {
            return Err(invalid("an argument is not a string"));
        }
        let mut arguments = self.arguments.iter().zip(given);
        match arguments.find(|(argument, given)| argument.required && !given) {
            Some((argument, _)) => {
                let name = answer::quote(&argument.name);
                Err(invalid(&format!("the argument `{name}` is missing")))
            }
            None => Ok(()),
        }
    }
}

impl Listed for Prompt {
    type Handler = Handler<PromptCall>;

    const MEMBER: &'static str = "prompts";

    fn key(&self) -> &str {
        &self.name
    }

    fn to_json(&self) -> Value {
        let mut prompt = self.others.clone();
        prompt.insert("name".into(), self.name.clone().into());
        if !self.arguments.is_empty() {
            let arguments = self.arguments.iter().map(PromptArgument::to_json);
            prompt.insert("arguments".into(), arguments.collect());
        }
        Value::Object(prompt)
    }
}

/// An argument of a [`Prompt`]. Its value is a string.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct PromptArgument {
    name: String,
    description: Option<String>,
    required: bool,
}

impl PromptArgument {
    /// An argument of this name, which may be left out.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            required: false,
        }
    }

    /// Sets what the argument is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Refuses requests without the argument.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    fn to_json(&self) -> Value {
        let mut argument = json!({ "name": self.name, "required": self.required });
        if let Some(description) = &self.description {
            argument["description"] = description.as_str().into();
        }
        argument
    }
}

/// The messages that a prompt stands for.
///
/// ```
/// use mcp_layers::reference::PromptResult;
/// use serde_json::json;
///
/// let picture = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
/// let result = PromptResult::new()
///     .description("A question about a picture")
///     .user_content(picture)
///     .user("What is this?")
///     .assistant("A");
/// ```
///
/// One made of an [`InputRequired`] asks the client for more.
///
/// See [PromptMessage] in the specification.
///
/// [PromptMessage]: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#promptmessage
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct PromptResult {
    description: Option<String>,
    messages: Vec<Value>,
    input: Option<InputRequired>,
}

impl PromptResult {
    /// No messages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the messages are for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a text that the user says.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.user_content(json!({ "type": "text", "text": text.into() }))
    }

    /// Adds a text that the model says.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.assistant_content(json!({ "type": "text", "text": text.into() }))
    }

    /// Adds a content block of any type that the user says.
    pub fn user_content(self, block: Value) -> Self {
        self.message("user", block)
    }

    /// Adds a content block of any type that the model says.
    pub fn assistant_content(self, block: Value) -> Self {
        self.message("assistant", block)
    }

    #[allow(clippy::needless_pass_by_value)] // goes into the message
    fn message(mut self, role: &str, content: Value) -> Self {
        let message = json!({ "role": role, "content": content });
        self.messages.push(message);
        self
    }
}

impl From<InputRequired> for PromptResult {
    fn from(input: InputRequired) -> Self {
        Self {
            input: Some(input),
            ..Self::default()
        }
    }
}

impl Outcome for PromptResult {
    fn into_json(self) -> Value {
        if let Some(input) = self.input {
            return input.into_json();
        }
        let mut result = json!({ "messages": self.messages });
        if let Some(description) = self.description {
            result["description"] = description.into();
        }
        result
    }
}
