//! The one door of a write, where handlers run, and the waiters that a write serves.
//!
//! Invariant: what a transaction did leaves by `publish` and in no other way.

pub mod accounting;
pub mod blocking;
pub mod handler;
pub mod publish;
pub mod served_request;

#[cfg(test)]
mod tests;
