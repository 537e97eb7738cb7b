//! Replies of nested commands as Lua values, and Lua values as replies.

mod from_lua;
mod to_lua;

pub(crate) use from_lua::{Fields, write_value};
pub(crate) use to_lua::{Received, receive};
