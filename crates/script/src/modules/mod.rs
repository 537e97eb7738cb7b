//! The libraries that Redis adds to Lua.
//!
//! Invariants: what they read is bounded by the bytes at hand, what they write by the limits of
//! each format; nesting is bounded, because each level takes stack; settings last for one run.

mod bit;
mod json;
mod message_pack;
mod pack;
mod random;

pub(crate) use bit::bit;
pub(crate) use json::{JsonSettings, cjson};
pub(crate) use message_pack::cmsgpack;
pub(crate) use pack::structs;
pub(crate) use random::{Seed, random};

/// How deep any format nests at most, whatever a script asks for.
const DEPTH_MAX: usize = 1000;
