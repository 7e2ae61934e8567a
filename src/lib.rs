//! Tower middleware that lets any HTTP JSON-RPC service serve both generations of the Model Context
//! Protocol on one endpoint: [revision 2026-07-28][spec] and the handshake era (2024-11-05 to
//! 2025-11-25).
//!
//! # The path of a request
//!
//! ```text
//!   Request<B>
//!      |
//!      v
//!   OriginGuard             head only                  403, 204 to preflights
//!      |
//!      v
//!   (your authentication)   sees only accepted origins, reads no body
//!      |
//!      v
//!   EraResolver             reads the body once        413 415 400 404 405
//!      |                    Message, Era -> extensions
//!      v
//!   MirrorHeaderValidator   uses the same Message      400 -32020
//!      |
//!      v
//!   (rate limits, routing, audit by tool name: in the modern era the headers can be trusted from
//!      |  here on; in the handshake era they are unchecked: use the Message)
//!      v
//!   Envelope                stamps modern results on the way out, maps status
//!      |
//!      v
//!   Discover                optional                   answers server/discover, or 502
//!      |
//!      v
//!   Request<RequestBody<B>> -> your service
//! ```
//!
//! Each is a layer of its own, works alone, and reaches the verdict that it would reach in the row:
//! [`OriginGuardLayer`], [`EraResolverLayer`], [`MirrorHeaderValidatorLayer`], [`EnvelopeLayer`],
//! [`DiscoverLayer`].
//! [`McpLayer`] is the whole list in the right order, with a place for authentication.
//!
//! # Example
//!
//! ```
//! use axum::{Json, Router, handler::Handler, routing::any};
//! use mcp_layers::{McpLayer, ServerInfo};
//! use serde_json::{Value, json};
//!
//! /// A handler that knows tools, and nothing of eras.
//! async fn handler(Json(request): Json<Value>) -> Json<Value> {
//!     Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "tools": [] } }))
//! }
//!
//! let mcp = McpLayer::new(ServerInfo::new("weather", "1.2.0"));
//! let app: Router = Router::new()
//!     .route("/mcp", any(handler.layer(mcp)))
//!     .route("/health", any(|| async { "well" })); // stays outside of the layers
//! ```
//!
//! # What a layer leaves behind
//!
//! A request that was let through carries a [`Message`] in its extensions: the JSON-RPC message,
//! read once, and its [`Era`]. A response carries the [`Era`], and every refusal a [`Rejection`].
//! Only this crate makes them: a found value is proof of a check.
//!
//! # Features
//!
//! - `tracing` (default): warns when a weakening acts, and when an answer passes unstamped.
//! - `reference`: the reference service (module `reference`), to try the layers on and to build on.
//!
//! [spec]: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::unwrap_used))]

pub mod body;
pub mod check;
pub mod discover;
pub mod envelope;
pub mod era;
pub mod gate;
mod head;
mod json;
pub mod message;
pub mod mirror;
mod number;
pub mod origin;
mod protocol;
#[cfg(feature = "reference")]
pub mod reference;
pub mod rejection;
pub mod stack;
mod word;

#[doc(inline)]
pub use self::{
    body::{RequestBody, ResponseBody},
    discover::DiscoverLayer,
    envelope::{CacheHint, EnvelopeLayer, ServerInfo},
    era::{Era, EraKind, EraResolverLayer, Eras, Quirk},
    message::{Message, MessageKind},
    mirror::{LearnedTools, MirrorHeaderValidatorLayer, ToolHeaders, ToolSchemas},
    origin::OriginGuardLayer,
    rejection::{Rejection, RejectionKind},
    stack::McpLayer,
};

/// The README's example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
