//! Notes of a stream in a journal: annotations that say for how many bytes of a primary's stream
//! the commands behind them stand, where those are not the same bytes.
//!
//! ```text
//!  #STREAM:31:0                   31 bytes of the stream left nothing here
//!  #STREAM:76:27                  the next 27 bytes are what 76 bytes of the stream did here
//! ```
//!
//! Invariant: the commands begin right behind the note, and end with a whole unit.

const WORD: &str = "#STREAM:";

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamNote {
    /// Bytes of the stream.
    pub stream: u64,
    /// Bytes of commands that stand for them.
    pub kept: u64,
}

impl StreamNote {
    /// The line to write.
    #[must_use]
    pub fn line(self) -> Vec<u8> {
        let Self { stream, kept } = self;
        format!("{WORD}{stream}:{kept}\r\n").into_bytes()
    }
}
