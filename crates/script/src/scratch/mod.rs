//! What functions need that work on Lua's own stack, beside their arguments.

#[allow(unsafe_code, reason = "functions of Lua's C interface are made and ended here")]
mod ffi;

pub(crate) use ffi::{Problem, Scratch, bytes_at, finish, function, lend, tick};
