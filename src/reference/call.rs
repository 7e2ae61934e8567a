//! What a handler is called with, and handlers of one type.

use std::{error::Error, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::Extensions;
use serde::Deserialize;
use serde_json::Value;

use super::{
    MethodError, Tool, ToolError, ToolResult, answer,
    catch::{CatchUnwind, Panicked},
};
use crate::message::Message;

/// One `tools/call`.
#[derive(Clone, Debug)]
pub struct ToolCall(Call);

/// One request of a method that was registered by itself.
#[derive(Clone, Debug)]
pub struct MethodCall(Call);

/// What both know.
#[derive(Clone, Debug)]
struct Call {
    message: Message,
    extensions: Extensions,
}

impl ToolCall {
    pub(super) fn new(message: Message, extensions: Extensions) -> Self {
        Self(Call {
            message,
            extensions,
        })
    }

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

    /// What layers have left in the HTTP request, such as the principal that it was authenticated
    /// for.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }

    /// Asks the user's own validator.
    fn validate(&self, tool: &Tool, validate: &Validate) -> Result<(), ToolError> {
        let arguments: Value = self.arguments()?;
        validate(tool, &arguments)
            .map_err(|fault| ToolError::invalid(format!("Invalid arguments: {fault}")))
    }
}

impl MethodCall {
    pub(super) fn new(message: Message, extensions: Extensions) -> Self {
        Self(Call {
            message,
            extensions,
        })
    }

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

    /// What layers have left in the HTTP request, such as the principal that it was authenticated
    /// for.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }
}

/// Resolves to the text of an answer.
pub(super) type Answering = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// Judges the arguments of a tool before its handler sees them.
pub(super) type Validate = dyn Fn(&Tool, &Value) -> Result<(), String> + Send + Sync;

/// The handler of a tool, whatever its type was.
pub(super) type ToolHandler = dyn Fn(ToolCall, Option<Arc<Validate>>) -> Answering + Send + Sync;

/// The handler of a method, whatever its type was.
pub(super) type MethodHandler = dyn Fn(MethodCall) -> Answering + Send + Sync;

// rule R3
pub(super) fn tool_handler<F, Fut>(tool: Arc<Tool>, handler: F) -> Arc<ToolHandler>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |call, validate| {
        let (tool, handler) = (Arc::clone(&tool), Arc::clone(&handler));
        Box::pin(async move {
            let id = id(&call.0);
            let result = CatchUnwind::new(async {
                if let Some(validate) = validate {
                    call.validate(&tool, &*validate)?;
                }
                handler(call).await
            });
            let outcome = match result.await {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => error.into_result().map_err(|error| {
                    report(tool.name(), &*error);
                    MethodError::anonymous()
                }),
                Err(Panicked) => Err(report_panic(tool.name())),
            };
            answer::outcome(&id, &outcome.map(ToolResult::into_json))
        })
    })
}

// rule R3
pub(super) fn method_handler<F, Fut>(handler: F) -> Arc<MethodHandler>
where
    F: Fn(MethodCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, MethodError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |call| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let id = id(&call.0);
            let name = call.name().to_owned();
            let result = CatchUnwind::new(async { handler(call).await });
            let outcome = result
                .await
                .unwrap_or_else(|Panicked| Err(report_panic(&name)));
            if let Some(source) = outcome.as_ref().err().and_then(Error::source) {
                report(&name, source);
            }
            answer::outcome(&id, &outcome)
        })
    })
}

/// The id of a request, apart from the call that its handler takes.
fn id(call: &Call) -> Bytes {
    call.message.answerable_id().unwrap_or_default()
}

/// Tells the operator what the client is not told.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
fn report(name: &str, error: &(dyn Error + 'static)) {
    #[cfg(feature = "tracing")]
    tracing::error!(name, error, "a handler failed");
}

#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
fn report_panic(name: &str) -> MethodError {
    #[cfg(feature = "tracing")]
    tracing::error!(name, "a handler panicked");
    MethodError::anonymous()
}
