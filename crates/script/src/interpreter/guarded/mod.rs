//! The base functions that Lua has otherwise: those that catch errors, those that compile, and the
//! collector's; and the seal of a table.

#[allow(unsafe_code, reason = "these are functions of Lua's own C interface")]
mod ffi;

pub(super) use ffi::{add, set_readonly, share_hash_key};
