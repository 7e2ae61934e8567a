//! Tower middleware.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
pub mod body;
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
pub mod rejection;
pub mod stack;

#[doc(inline)]
pub use self::{
    body::{RequestBody, ResponseBody},
    envelope::{CacheHint, EnvelopeLayer, ServerInfo},
    era::{Era, EraKind, EraResolverLayer, Eras},
    message::{Message, MessageKind},
    mirror::{LearnedTools, MirrorHeaderValidatorLayer, ToolHeaders, ToolSchemas},
    origin::OriginGuardLayer,
    rejection::{Rejection, RejectionKind},
    stack::McpLayer,
};
