//! Tower middleware.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
pub mod body;
mod protocol;
pub mod rejection;

#[doc(inline)]
pub use self::{
    body::{RequestBody, ResponseBody},
    rejection::{Rejection, RejectionKind},
};
