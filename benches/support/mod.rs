//! What the benches and `tests/allocations.rs` measure: requests, services and layers around them.
#![allow(dead_code, unreachable_pub)] // not every bench uses all of it
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod cases;
pub mod counting;
pub mod service;
