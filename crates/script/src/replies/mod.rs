//! Replies of nested commands as Lua values, and Lua values as replies.

#[allow(unsafe_code, reason = "values are read and made on Lua's own stack")]
mod ffi;

pub(crate) use ffi::{Fields, ResultTooLarge, push_reply, write_value};
