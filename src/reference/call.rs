//! What a handler is called with.

use std::sync::Arc;

use bytes::Bytes;
use http::Extensions;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    CompletionRef, LogLevel, MethodError, Progress, StateError, StateSeal, ToolError, answer,
    client::{capabilities, declares, missing},
    completion::Completing,
    notification::{self, progress_token},
    outlet::Outlet,
    params,
};
use crate::message::Message;

/// One `tools/call`.
#[derive(Clone, Debug)]
pub struct ToolCall(pub(super) Call);

/// One `prompts/get`.
#[derive(Clone, Debug)]
pub struct PromptCall(pub(super) Call);

/// One `resources/read`.
#[derive(Clone, Debug)]
pub struct ResourceCall(pub(super) Call, pub(super) Variables);

/// The names and values of the variables in a URI.
pub(super) type Variables = Vec<(String, String)>;

/// One `completion/complete`.
#[derive(Clone, Debug)]
pub struct CompletionCall(pub(super) Call, pub(super) Completing);

/// One request of a method that was registered by itself.
#[derive(Clone, Debug)]
pub struct MethodCall(pub(super) Call);

/// What all calls know.
#[derive(Clone, Debug)]
pub(super) struct Call {
    message: Message,
    extensions: Extensions,
    outlet: Option<Arc<Outlet>>,
    seal: Option<Arc<StateSeal>>,
}

/// A call of any kind.
pub(super) trait AsCall {
    fn as_call(&self) -> &Call;
}

/// The methods that calls of every kind have.
macro_rules! common {
    ($($call:ident),+) => {$(
        impl $call {
            /// The JSON text of the request's id.
            #[must_use]
            pub fn id(&self) -> &[u8] {
                self.0.message.id().unwrap_or_default()
            }

            /// The whole request, as a layer read it: in its era, if there was such a layer.
            #[must_use]
            pub fn message(&self) -> &Message {
                &self.0.message
            }

            /// What layers have left in the HTTP request, such as the principal that it was
            /// authenticated for.
            #[must_use]
            pub fn extensions(&self) -> &Extensions {
                &self.0.extensions
            }

            /// Whether the client declared a capability, such as `["elicitation", "url"]`.
            ///
            /// A client of the handshake era declared its capabilities for a session, which this
            /// service has none of: here it has none.
            #[must_use]
            pub fn has_capability(&self, path: &[&str]) -> bool {
                declares(capabilities(&self.0.message), path)
            }

            /// Demands a capability.
            ///
            /// ```
            /// use mcp_layers::reference::{ToolCall, ToolError, ToolResult};
            ///
            /// async fn log_in(call: ToolCall) -> Result<ToolResult, ToolError> {
            ///     call.require_capability(&["elicitation", "url"])?;
            ///     Ok(ToolResult::text("Follow the link"))
            /// }
            /// ```
            ///
            /// # Errors
            ///
            /// -32021, which names the capability, if the client did not declare it. It becomes the
            /// answer of a handler that returns it with `?`.
            pub fn require_capability(&self, path: &[&str]) -> Result<(), MethodError> {
                if self.has_capability(path) {
                    Ok(())
                } else {
                    Err(missing([path]))
                }
            }

            /// Tells the client how far the handler is, if it wants to know, and waits until that
            /// has left. See [Streams](super#streams).
            ///
            /// What is no further than before, or not finite, is not sent.
            pub async fn progress(&self, progress: Progress) {
                self.0.progress(&progress).await;
            }

            /// Sends a log message, if the client wants those of this level, and waits until it
            /// has left. See [Streams](super#streams).
            pub async fn log(&self, level: LogLevel, data: impl Into<Value>) {
                self.0.log(level, None, data.into()).await;
            }

            /// Sends a log message that names the part of the server it comes from.
            pub async fn log_as(&self, logger: &str, level: LogLevel, data: impl Into<Value>) {
                self.0.log(level, Some(logger), data.into()).await;
            }
        }

        impl AsCall for $call {
            fn as_call(&self) -> &Call {
                &self.0
            }
        }
    )+};
}

common!(
    CompletionCall,
    MethodCall,
    PromptCall,
    ResourceCall,
    ToolCall
);

/// The methods of calls whose answer may ask for more input.
macro_rules! asking {
    ($($call:ident),+) => {$(
        impl $call {
            /// What the client sent when it was [asked](super::InputRequired) under this key.
            ///
            /// # Errors
            ///
            /// [`MethodError::invalid_params`] if `T` can't be made of it.
            pub fn input_response<T: DeserializeOwned>(
                &self,
                key: &str,
            ) -> Result<Option<T>, MethodError> {
                self.0.input_response(key)
            }

            /// Seals a state, for the next round of this request. See [`StateSeal`].
            ///
            /// # Errors
            ///
            /// [`MethodError::internal`] if the state is nothing that JSON can write, or if the
            /// service has no seal.
            pub fn seal(&self, state: &impl Serialize) -> Result<String, MethodError> {
                self.0.seal(state)
            }

            /// The state that this request was given in its last round, if it had one.
            ///
            /// # Errors
            ///
            /// Its [kind](StateError::kind) is
            /// [`Malformed`](super::StateErrorKind::Malformed) or
            /// [`Forged`](super::StateErrorKind::Forged) for what was not sealed by
            /// [`seal`](Self::seal) for the same principal and request,
            /// [`Expired`](super::StateErrorKind::Expired) for what is too old,
            /// [`Unexpected`](super::StateErrorKind::Unexpected) if `T` can't be made of it, and
            /// [`NoSeal`](super::StateErrorKind::NoSeal) if the service has no seal.
            pub fn unseal<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
                self.0.unseal()
            }
        }
    )+};
}

asking!(PromptCall, ResourceCall, ToolCall);

impl ToolCall {
    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.message.name().unwrap_or_default()
    }

    /// The arguments, as a value.
    ///
    /// # Errors
    ///
    /// [`ToolError::invalid`] if `T` can't be made of them: a handler that returns it with `?` tells
    /// the model what is wrong.
    pub fn arguments<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ToolError> {
        serde_json::from_slice(self.raw_arguments())
            .map_err(|error| ToolError::invalid(format!("Invalid arguments: {error}")))
    }

    /// The JSON text of the arguments: an object, empty if the request has none.
    #[must_use]
    pub fn raw_arguments(&self) -> &[u8] {
        self.0.message.arguments().unwrap_or(b"{}")
    }
}

impl PromptCall {
    /// The name of the prompt.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.message.name().unwrap_or_default()
    }

    /// The arguments, as a value. Each of them is a string, and none that is required is missing.
    ///
    /// # Errors
    ///
    /// [`MethodError::invalid_params`] if `T` can't be made of them.
    pub fn arguments<'a, T: Deserialize<'a>>(&'a self) -> Result<T, MethodError> {
        serde_json::from_slice(self.raw_arguments())
            .map_err(|error| MethodError::invalid_params(format!("Invalid arguments: {error}")))
    }

    /// The JSON text of the arguments: an object, empty if the request has none.
    #[must_use]
    pub fn raw_arguments(&self) -> &[u8] {
        self.0.message.arguments().unwrap_or(b"{}")
    }
}

impl ResourceCall {
    /// The URI of the resource.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.0.message.name().unwrap_or_default()
    }

    /// What stands in the URI for this variable of the template, without percent-encoding.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.1.iter();
        let (_, value) = variables.find(|(variable, _)| variable == name)?;
        Some(value)
    }

    /// There is no such resource: -32602, with the URI.
    #[must_use]
    pub fn not_found(&self) -> MethodError {
        MethodError::resource_not_found(self.uri())
    }
}

impl CompletionCall {
    /// What the argument belongs to: something that is registered.
    #[must_use]
    pub fn reference(&self) -> &CompletionRef {
        &self.1.reference
    }

    /// The name of the argument to complete.
    #[must_use]
    pub fn argument(&self) -> &str {
        &self.1.argument
    }

    /// What was written so far.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.1.value
    }

    /// The value that another argument has already got.
    #[must_use]
    pub fn resolved(&self, argument: &str) -> Option<String> {
        let context = params::member(&self.0.message, "context")?;
        params::string_in(params::member_of(context, "arguments")?, argument)
    }
}

impl MethodCall {
    /// The name of the method.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.message.method().unwrap_or_default()
    }

    /// The params, as a value.
    ///
    /// # Errors
    ///
    /// [`MethodError::invalid_params`] if `T` can't be made of them.
    pub fn params<'a, T: Deserialize<'a>>(&'a self) -> Result<T, MethodError> {
        serde_json::from_slice(self.raw_params())
            .map_err(|error| MethodError::invalid_params(format!("Invalid params: {error}")))
    }

    /// The JSON text of the params: an object, empty if the request has none.
    #[must_use]
    pub fn raw_params(&self) -> &[u8] {
        self.0.message.params().unwrap_or(b"{}")
    }
}

impl Call {
    pub(super) fn new(message: Message, extensions: Extensions) -> Self {
        Self {
            message,
            extensions,
            outlet: None,
            seal: None,
        }
    }

    pub(super) fn with_seal(mut self, seal: Option<Arc<StateSeal>>) -> Self {
        self.seal = seal;
        self
    }

    /// Lets the handler send what the client wants to hear.
    // rule R5: progress only where the request has a token
    pub(super) fn with_outlet(mut self, log_level: Option<LogLevel>) -> Self {
        let token = self.message.meta().and_then(progress_token);
        let token = token.map(|token| self.message.body().slice_ref(token));
        self.outlet = Outlet::new(token, log_level).map(Arc::new);
        self
    }

    pub(super) fn outlet(&self) -> Option<&Arc<Outlet>> {
        self.outlet.as_ref()
    }

    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// Refuses what is no second round.
    // rule R5
    pub(super) fn check_retry(message: &Message) -> Result<(), MethodError> {
        let begins = |name, first: &[u8]| {
            let member = params::member(message, name);
            member.is_none_or(|text| text.starts_with(first))
        };
        if !begins("inputResponses", b"{") {
            return Err(MethodError::invalid_params(
                "Invalid params: `inputResponses` is not an object",
            ));
        }
        if !begins("requestState", b"\"") {
            return Err(MethodError::invalid_params(
                "Invalid params: `requestState` is not a string",
            ));
        }
        Ok(())
    }

    fn input_response<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, MethodError> {
        let responses = params::member(&self.message, "inputResponses");
        let Some(response) = responses.and_then(|it| params::member_of(it, key)) else {
            return Ok(None);
        };
        let response = serde_json::from_slice(response);
        response.map(Some).map_err(|error| {
            let key = answer::quote(key);
            MethodError::invalid_params(format!("Invalid params: input response `{key}`: {error}"))
        })
    }

    fn seal(&self, state: &impl Serialize) -> Result<String, MethodError> {
        let seal = self.seal.as_ref().ok_or(StateError::NO_SEAL)?;
        seal.seal(state, &self.message, &self.extensions)
    }

    fn unseal<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
        let Some(state) = params::member(&self.message, "requestState") else {
            return Ok(None);
        };
        let seal = self.seal.as_ref().ok_or(StateError::NO_SEAL)?;
        // A lone surrogate is nothing that was sealed.
        let state = params::string(state).unwrap_or_default();
        let state = seal.unseal(&state, &self.message, &self.extensions);
        state.map(Some)
    }

    /// The id of the request, apart from the call that its handler takes.
    pub(super) fn answerable_id(&self) -> Bytes {
        self.message.answerable_id().unwrap_or_default()
    }

    /// What the request is about, for those who read the logs.
    pub(super) fn subject(&self) -> &str {
        let message = &self.message;
        message.name().or(message.method()).unwrap_or_default()
    }

    async fn progress(&self, progress: &Progress) {
        let Some(outlet) = &self.outlet else { return };
        let Some(token) = outlet.progress_token() else {
            return;
        };
        if progress.value().is_finite() && outlet.advance(progress.value()) {
            outlet.send(progress.write(token)).await;
        }
    }

    async fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        let outlet = self.outlet.as_ref();
        if let Some(outlet) = outlet.filter(|outlet| outlet.wants_log(level)) {
            outlet.send(notification::log(level, logger, &data)).await;
        }
    }
}
