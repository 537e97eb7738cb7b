//! What clients call themselves.
//!
//! Invariant: a name that was accepted is printable and has no spaces, so that a line of CLIENT
//! LIST can be taken apart at its spaces.

use std::borrow::Cow;

use keyspace::Refusal;

/// The name of a client, if it may be one.
pub(super) fn checked_client_name(name: &[u8]) -> Result<&[u8], Refusal> {
    checked(name, "Client names")
}

/// A text that CLIENT LIST shows; the error speaks of `what`.
pub(super) fn checked<'a>(text: &'a [u8], what: &str) -> Result<&'a [u8], Refusal> {
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(text);
    }
    let line = format!("ERR {what} cannot contain spaces, newlines or special characters.");
    Err(Refusal::Error(Cow::Owned(line)))
}
