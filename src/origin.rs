//! Turning away requests that somebody else's web page sends.

mod host;

#[doc(inline)]
pub use self::host::{InvalidEntryKind, InvalidHost, Scheme};
