//! `struct`: values packed into bytes by a format, and back.

#[allow(unsafe_code, reason = "values are read and made on Lua's own stack")]
mod ffi;
mod format;

pub(crate) use ffi::structs;
