//! Turning away requests that somebody else's web page sends.

mod host;
mod policy;

#[doc(inline)]
pub use self::{
    host::{InvalidEntryKind, InvalidHost, Scheme},
    policy::{InvalidOrigin, Origin},
};
