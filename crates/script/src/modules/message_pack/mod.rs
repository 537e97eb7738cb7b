//! `cmsgpack`: values to MessagePack and back.

#[allow(unsafe_code, reason = "values are read and made on Lua's own stack")]
mod ffi;

pub(crate) use ffi::cmsgpack;
