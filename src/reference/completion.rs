//! Suggestions for the arguments of prompts and the variables of templates.

use serde_json::{Value, json};

use super::{MethodError, handler::Outcome, params};
use crate::message::Message;

/// The most suggestions that an answer may hold.
const MOST: usize = 100;

/// What a completion is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CompletionRef {
    /// The prompt of this name.
    Prompt(String),
    /// The resource or the template that is written like this.
    Resource(String),
}

/// The params of a `completion/complete`.
#[derive(Clone, Debug)]
pub(super) struct Completing {
    pub(super) reference: CompletionRef,
    pub(super) argument: String,
    pub(super) value: String,
}

impl Completing {
    // rule R5
    pub(super) fn read(message: &Message) -> Result<Self, MethodError> {
        let invalid = |what: &str| {
            let fault = format!("Invalid params: {what} is missing or not what it should be");
            MethodError::invalid_params(fault)
        };
        let reference = params::member(message, "ref").and_then(|reference| {
            let string = |name| params::string_in(reference, name);
            match string("type")?.as_str() {
                "ref/prompt" => string("name").map(CompletionRef::Prompt),
                "ref/resource" => string("uri").map(CompletionRef::Resource),
                _ => None,
            }
        });
        let argument = params::member(message, "argument");
        let string = |name| params::string_in(argument?, name);
        Ok(Self {
            reference: reference.ok_or_else(|| invalid("`ref`"))?,
            argument: string("name").ok_or_else(|| invalid("`argument.name`"))?,
            value: string("value").ok_or_else(|| invalid("`argument.value`"))?,
        })
    }
}

/// Suggestions, the best first.
///
/// ```
/// use mcp_layers::{
///     ServerInfo,
///     reference::{
///         Completion, CompletionCall, CompletionRef, MethodError, Prompt, PromptArgument,
///         PromptResult, ReferenceService,
///     },
/// };
///
/// async fn complete(call: CompletionCall) -> Result<Completion, MethodError> {
///     let values = match (call.reference(), call.argument()) {
///         (CompletionRef::Prompt(name), "language") if name == "review" => ["Python", "Rust"],
///         _ => return Ok(Completion::new([""; 0])),
///     };
///     let matching = values.into_iter().filter(|value| value.starts_with(call.value()));
///     Ok(Completion::new(matching))
/// }
///
/// let prompt = Prompt::new("review").argument(PromptArgument::new("language"));
/// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0"))
///     .prompt(prompt, |_| async { Ok(PromptResult::new().user("Review this")) })
///     .completion(complete);
/// ```
///
/// See [Completion] in the specification.
///
/// [Completion]: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Completion {
    values: Vec<String>,
    total: Option<u64>,
}

impl Completion {
    /// These suggestions. Of more than 100 the first 100 are sent, with word that there are more.
    pub fn new<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self {
            values: values.into_iter().map(Into::into).collect(),
            total: None,
        }
    }

    /// Tells how many there are in all, those included that were not given.
    pub fn total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }
}

impl Outcome for Completion {
    fn into_json(mut self) -> Value {
        let given = self.values.len() as u64;
        self.values.truncate(MOST);
        let sent = self.values.len() as u64;
        let total = self.total.map_or(given, |total| total.max(given));
        json!({ "completion": { "values": self.values, "total": total, "hasMore": total > sent } })
    }
}
