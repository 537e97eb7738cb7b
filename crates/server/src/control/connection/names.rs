//! What clients call themselves.
//!
//! Invariant: a name that was accepted is printable and has no spaces, so that a line of CLIENT
//! LIST can be taken apart at its spaces.

use commands::errors::showing;
use keyspace::Refusal;

/// The name of a client, if it may be one.
pub(super) fn checked_client_name(name: &[u8]) -> Result<&[u8], Refusal> {
    checked(name, b"Client names")
}

/// A text that CLIENT LIST shows; the error speaks of `what`.
pub(super) fn checked<'a>(text: &'a [u8], what: &[u8]) -> Result<&'a [u8], Refusal> {
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(text);
    }
    let after = " cannot contain spaces, newlines or special characters.";
    Err(showing("ERR ", what, after))
}
