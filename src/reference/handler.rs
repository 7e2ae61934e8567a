//! Handlers of one type, whatever their own was: they answer with text, and keep failures secret.

use std::{error::Error, future::Future, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    MethodError, ResourceCall, ResourceResult, Tool, ToolCall, ToolError, ToolResult, answer,
    call::{AsCall, Call},
    catch::{CatchUnwind, Panicked},
    client::Client,
    input,
    work::Answering,
};

/// Judges the arguments of a tool before its handler sees them.
pub(super) type Validate = dyn Fn(&Tool, &Value) -> Result<(), String> + Send + Sync;

/// The handler of a tool.
pub(super) type ToolHandler = dyn Fn(ToolCall, Option<Arc<Validate>>) -> Answering + Send + Sync;

/// The handler of any other call.
pub(super) type Handler<C> = dyn Fn(C) -> Answering + Send + Sync;

/// What a handler makes, when all goes well.
pub(super) trait Outcome {
    /// The result to answer with.
    fn into_json(self) -> Value;
}

impl Outcome for Value {
    fn into_json(self) -> Value {
        self
    }
}

pub(super) fn tool<F, Fut>(tool: Arc<Tool>, handler: F) -> Arc<ToolHandler>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |call, validate| {
        let (tool, handler) = (Arc::clone(&tool), Arc::clone(&handler));
        Box::pin(async move {
            let asked = Asked::of(&call.0);
            let result = async {
                if let Some(validate) = validate {
                    check(&tool, &call, &*validate)?;
                }
                handler(call).await
            };
            let outcome = async {
                let result = result.await.or_else(ToolError::into_result);
                result.map(ToolResult::into_json)
            };
            asked.answer(tool.name(), outcome).await
        })
    })
}

pub(super) fn of<C, F, Fut, R>(handler: F) -> Arc<Handler<C>>
where
    C: AsCall + Send + 'static,
    F: Fn(C) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, MethodError>> + Send + 'static,
    R: Outcome,
{
    let handler = Arc::new(handler);
    Arc::new(move |call: C| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let asked = Asked::of(call.as_call());
            let name = call.as_call().subject().to_owned();
            let outcome = async { handler(call).await.map(Outcome::into_json) };
            asked.answer(&name, outcome).await
        })
    })
}

pub(super) fn resource<F, Fut>(mime_type: Option<&str>, handler: F) -> Arc<Handler<ResourceCall>>
where
    F: Fn(ResourceCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ResourceResult, MethodError>> + Send + 'static,
{
    let mime_type: Option<Arc<str>> = mime_type.map(Into::into);
    of(move |call: ResourceCall| {
        let (uri, mime_type) = (call.uri().to_owned(), mime_type.clone());
        let result = handler(call);
        async move {
            let result = result.await?;
            Ok(result.complete(&uri, mime_type.as_deref()))
        }
    })
}

/// Asks the user's own validator.
fn check(tool: &Tool, call: &ToolCall, validate: &Validate) -> Result<(), ToolError> {
    let arguments: Value = call.arguments()?;
    validate(tool, &arguments)
        .map_err(|fault| ToolError::invalid(format!("Invalid arguments: {fault}")))
}

/// What is known of a request after its call is handed over.
struct Asked {
    id: Bytes,
    client: Client,
}

impl Asked {
    fn of(call: &Call) -> Self {
        Self {
            id: call.answerable_id(),
            client: Client::of(call.message()),
        }
    }

    /// Lets a handler work, and writes its answer.
    // rule R3: a failing or panicking handler is -32603 without details
    async fn answer(
        &self,
        name: &str,
        handler: impl Future<Output = Result<Value, MethodError>>,
    ) -> Vec<u8> {
        let outcome = match CatchUnwind::new(handler).await {
            Ok(outcome) => outcome.and_then(|result| input::check(result, &self.client)),
            Err(Panicked) => Err(report_panic(name)),
        };
        if let Some(source) = outcome.as_ref().err().and_then(Error::source) {
            report(name, source);
        }
        answer::outcome(&self.id, &outcome)
    }
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
