//! A small MCP server, to try the layers on and to begin a server of your own with.
//!
//! It answers `server/discover`, `initialize`, `ping`, `tools/list` and `tools/call`, and what you
//! register: [prompts](Prompt), [resources](Resource) and [templates](ResourceTemplate),
//! [completions](Completion), [log levels](ReferenceService::logging), [subscriptions](Notifier)
//! and any further method. It answers each message in the plainest form, and the layers around it
//! do the rest: of eras it knows only what it may not send to a client of the other. What it
//! stands by:
//!
//! 1. it advertises only what a registered handler backs;
//! 2. lists are in the order of registration, and encoded once;
//! 3. an answer repeats the bytes of the request's id;
//! 4. arguments that a tool can't take are a result with `isError: true`, which the model gets to
//!    see; a handler that fails or panics is "Internal error" (-32603) without details, and the
//!    server lives on;
//! 5. it has no sessions: it neither makes nor reads an `Mcp-Session-Id`;
//! 6. an array of messages, as revision 2025-03-26 had them, is answered by an array, one message
//!    after the other.
//!
//! # Example
//!
//! ```
//! use axum::Router;
//! use mcp_layers::{
//!     McpLayer, ServerInfo,
//!     reference::{ReferenceService, Tool, ToolCall, ToolError, ToolResult},
//! };
//! use serde::Deserialize;
//! use serde_json::json;
//! use tower_layer::Layer;
//!
//! #[derive(Deserialize)]
//! struct Echo {
//!     text: String,
//! }
//!
//! async fn echo(call: ToolCall) -> Result<ToolResult, ToolError> {
//!     let Echo { text } = call.arguments()?;
//!     Ok(ToolResult::text(text))
//! }
//!
//! let server = ServerInfo::new("example", "1.0.0");
//! let schema = json!({
//!     "type": "object",
//!     "properties": { "text": { "type": "string" } },
//!     "required": ["text"],
//! });
//! let service = ReferenceService::new(server.clone())
//!     .instructions("Call `echo` to hear yourself.")
//!     .tool(Tool::new("echo", schema).description("Returns what it is given"), echo);
//!
//! let app: Router = Router::new()
//!     .route_service("/mcp", McpLayer::new(server).layer(service));
//! ```
//!
//! Arguments are checked by what a handler makes of them. A validator of your own, such as one for
//! JSON Schema, comes before that; and a handler reads what the layers have left:
//!
//! ```
//! use mcp_layers::{
//!     ServerInfo,
//!     reference::{MethodCall, MethodError, ReferenceService},
//! };
//! use serde_json::json;
//!
//! /// What your authentication leaves in the request's extensions.
//! #[derive(Clone)]
//! struct Principal(String);
//!
//! let service = ReferenceService::new(ServerInfo::new("example", "1.0.0"))
//!     .validate_arguments(|tool, arguments| {
//!         let required = tool.input_schema()["required"].as_array();
//!         match required.into_iter().flatten().find(|it| arguments.get(it.as_str().unwrap_or_default()).is_none()) {
//!             Some(missing) => Err(format!("{missing} is missing")),
//!             None => Ok(()),
//!         }
//!     })
//!     .method("example/whoami", |call: MethodCall| async move {
//!         match call.extensions().get::<Principal>() {
//!             Some(Principal(name)) => Ok(json!({ "name": name })),
//!             None => Err(MethodError::new(-32000, "Nobody")),
//!         }
//!     });
//! ```
//!
//! # Streams
//!
//! A handler can tell how far it is, and what happens, while it works:
//!
//! ```
//! use mcp_layers::reference::{LogLevel, Progress, ToolCall, ToolError, ToolResult};
//!
//! async fn count(call: ToolCall) -> Result<ToolResult, ToolError> {
//!     call.log(LogLevel::Info, "Counting").await;
//!     for number in 1..=3 {
//!         call.progress(Progress::new(number.into()).total(3.0)).await;
//!     }
//!     Ok(ToolResult::text("1, 2, 3"))
//! }
//! ```
//!
//! The first notification turns the answer into a stream of events; without one it is plain JSON.
//! Progress is sent only if the request has a `progressToken`, a log message only if
//! [`logging`](ReferenceService::logging) is on and the client wants its level: where the client
//! wants nothing, these calls do nothing. Otherwise they wait until the notification has left, so
//! a handler is as slow as its client, and nothing piles up. A message in an array gets its answer
//! alone.
//!
//! The body of the answer drives the handler. A client that closes the stream drops it.
//!
//! # Deployment
//!
//! - Alone it is a server of the handshake era without any checks. Put it behind
//!   [`McpLayer`](crate::McpLayer).
//! - Bodies end at [4 MiB](crate::gate::DEFAULT_BODY_LIMIT), unless a layer has read a longer one,
//!   and arrays at 1,000 messages.
//! - Handlers run inside of the response's future and body: a client that hangs up drops them.
//! - Each open subscription keeps what it asked for, up to 1,000 URIs. How many a client may open
//!   is for a limit on connections to say.
//! - Panics are caught by unwinding. With `panic = "abort"` they end the process.
//!
//! See [Tools], [Discovery] and [Lifecycle] in the specification.
//!
//! [Tools]: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
//! [Discovery]: https://modelcontextprotocol.io/specification/2026-07-28/server/discover
//! [Lifecycle]: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle

mod answer;
mod body;
mod call;
mod catch;
mod client;
mod completion;
mod dispatch;
mod future;
mod handler;
mod input;
mod list;
mod listen;
mod method;
mod notification;
mod notifier;
mod outlet;
mod params;
mod prompt;
mod resource;
mod state;
mod template;
mod tool;
mod work;

pub use self::{
    body::AnswerBody,
    call::{CompletionCall, MethodCall, PromptCall, ResourceCall, ToolCall},
    completion::{Completion, CompletionRef},
    future::ResponseFuture,
    input::{InputRequest, InputRequired},
    method::MethodError,
    notification::{LogLevel, Progress},
    notifier::Notifier,
    prompt::{Prompt, PromptArgument, PromptResult},
    resource::{Resource, ResourceContents, ResourceResult},
    state::{InvalidKey, StateError, StateErrorKind, StateSeal},
    template::{InvalidTemplate, ResourceTemplate},
    tool::{Tool, ToolError, ToolResult},
};

use std::{
    convert::Infallible,
    future::Future,
    num::NonZeroUsize,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use serde_json::Value;
use tower_service::Service;

use self::dispatch::Config;
use crate::{
    envelope::ServerInfo,
    mirror::{InvalidAnnotation, ToolHeaders},
};

/// A small MCP server.
///
/// Clones share one configuration. See the [module docs](self) for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReferenceService {
    config: Arc<Config>,
}

impl ReferenceService {
    /// A server of this identity that can do nothing yet.
    pub fn new(server: ServerInfo) -> Self {
        Self {
            config: Arc::new(Config::new(server)),
        }
    }

    /// Tells models how to use the server.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        let instructions = instructions.into();
        self.with(|config| config.set_instructions(instructions))
    }

    /// Adds a tool. One of the same name is replaced, in its place in the list.
    pub fn tool<F, Fut>(self, tool: Tool, handler: F) -> Self
    where
        F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        let tool = Arc::new(tool);
        let handler = handler::tool(Arc::clone(&tool), handler);
        self.with(|config| config.add_tool(tool, handler))
    }

    /// Adds a prompt. One of the same name is replaced, in its place in the list.
    ///
    /// See [`Prompt`] for an example.
    pub fn prompt<F, Fut>(self, prompt: Prompt, handler: F) -> Self
    where
        F: Fn(PromptCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<PromptResult, MethodError>> + Send + 'static,
    {
        let handler = handler::of(handler);
        self.with(|config| config.add_prompt(prompt, handler))
    }

    /// Adds a resource. One at the same URI is replaced, in its place in the list.
    ///
    /// See [`Resource`] for an example.
    pub fn resource<F, Fut>(self, resource: Resource, handler: F) -> Self
    where
        F: Fn(ResourceCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ResourceResult, MethodError>> + Send + 'static,
    {
        let handler = handler::resource(resource.content_type(), handler);
        self.with(|config| config.add_resource(resource, handler))
    }

    /// Adds a template, which reads what no resource stands for. The first that matches wins; the
    /// same one again is replaced, in its place in the list.
    ///
    /// See [`ResourceTemplate`] for an example.
    pub fn resource_template<F, Fut>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: Fn(ResourceCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ResourceResult, MethodError>> + Send + 'static,
    {
        let handler = handler::resource(template.content_type(), handler);
        self.with(|config| config.add_template(template, handler))
    }

    /// Suggests values for the arguments of prompts and the variables of templates.
    ///
    /// See [`Completion`] for an example.
    pub fn completion<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(CompletionCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Completion, MethodError>> + Send + 'static,
    {
        let handler = handler::of(handler);
        self.with(|config| config.set_completion(handler))
    }

    /// Shows lists in pages of this many. Without it each list stands on one page.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    ///
    /// use mcp_layers::{ServerInfo, reference::ReferenceService};
    ///
    /// let size = NonZeroUsize::new(50).ok_or("a page of nothing")?;
    /// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0")).page_size(size);
    /// # Ok::<_, &str>(())
    /// ```
    pub fn page_size(self, size: NonZeroUsize) -> Self {
        self.with(|config| config.set_page_size(size))
    }

    /// Adds a method. One of the same name is replaced, even one that the service has by itself.
    ///
    /// Notifications need no handler: all of them are accepted.
    ///
    /// A handler of `prompts/list`, `resources/list` or `completion/complete` backs the capability
    /// of that name, which is then advertised.
    pub fn method<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(MethodCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, MethodError>> + Send + 'static,
    {
        let name = name.into();
        let handler = handler::of(handler);
        self.with(|config| config.add_method(name, handler))
    }

    /// Asks this function about the arguments of every call before the tool sees them.
    ///
    /// What it finds wrong becomes a result with `isError: true`, which the model gets to see.
    pub fn validate_arguments(
        self,
        validate: impl Fn(&Tool, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.set_validate(Arc::new(validate)))
    }

    /// The headers that the tools demand, for [`McpLayer::tool_schemas`].
    ///
    /// ```
    /// use mcp_layers::{
    ///     McpLayer, ServerInfo,
    ///     reference::{ReferenceService, Tool, ToolResult},
    /// };
    /// use serde_json::json;
    /// use tower_layer::Layer;
    ///
    /// let schema = json!({
    ///     "type": "object",
    ///     "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    /// });
    /// let server = ServerInfo::new("weather", "1.0.0");
    /// let service = ReferenceService::new(server.clone())
    ///     .tool(Tool::new("get_weather", schema), |_| async { Ok(ToolResult::text("Rain")) });
    /// let mcp = McpLayer::new(server).tool_schemas(service.tool_headers()?);
    /// let service = mcp.layer(service);
    /// # Ok::<_, mcp_layers::mirror::InvalidAnnotation>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if an annotation of a tool is invalid, as
    /// [`ParamHeaders::of`](crate::mirror::ParamHeaders::of) does.
    ///
    /// [`McpLayer::tool_schemas`]: crate::McpLayer::tool_schemas
    pub fn tool_headers(&self) -> Result<ToolHeaders, InvalidAnnotation> {
        let mut tools = self.config.tools();
        tools.try_fold(ToolHeaders::new(), |headers, tool| {
            headers.tool(tool.name(), tool.input_schema())
        })
    }

    /// Serves `subscriptions/listen`, and advertises that the lists and resources may change.
    ///
    /// See [`Notifier`] for an example. Clients of the handshake era subscribe for a session, which
    /// this service has none of: nothing is advertised to them.
    pub fn notifier(self, notifier: Notifier) -> Self {
        self.with(|config| config.set_notifier(notifier))
    }

    /// Lets handlers give the client a state to bring back.
    ///
    /// See [`StateSeal`] for an example.
    pub fn state_seal(self, seal: StateSeal) -> Self {
        self.with(|config| config.set_seal(seal))
    }

    /// Lets handlers send log messages, and advertises it.
    ///
    /// Clients of revision 2026-07-28 get those of the level that their request names, and none
    /// without. Clients of the handshake era set a level for their session, and this service has no
    /// sessions: it accepts any known level and sends them everything from `legacy_level` on.
    ///
    /// ```
    /// use mcp_layers::{ServerInfo, reference::{LogLevel, ReferenceService}};
    ///
    /// let service = ReferenceService::new(ServerInfo::new("example", "1.0.0")).logging(LogLevel::Warning);
    /// ```
    pub fn logging(self, legacy_level: LogLevel) -> Self {
        self.with(|config| config.set_log_level(legacy_level))
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<B: Body<Data = Bytes>> Service<Request<B>> for ReferenceService {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = ResponseFuture<B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<B> {
        let (head, body) = request.into_parts();
        ResponseFuture::new(Arc::clone(&self.config), head, body)
    }
}
