//! How a run ends without a reply.
//!
//! Invariant: an error's text is complete, with its code and, where Redis adds them, the script and
//! the line.

use crate::host::Stop;

/// Why a run wrote no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host ended the run.
    Stop(Stop),
    /// The script failed.
    Error(ScriptError),
}

/// The error that the client of a script gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The text, its code first.
    pub text: Vec<u8>,
    /// Whether the error is to be counted: an error that a nested command made already was.
    pub is_new: bool,
}

impl ScriptError {
    /// An error that nobody has counted yet.
    pub(crate) fn new(text: impl Into<Vec<u8>>) -> ScriptError {
        ScriptError { text: text.into(), is_new: true }
    }
}

/// The text of an error or a status as far as Redis has it, which keeps both as C strings.
pub(crate) fn before_nul(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}
