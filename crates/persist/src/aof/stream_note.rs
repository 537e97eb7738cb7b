//! Notes of a stream in a journal: annotations that say where in a history of replication the data
//! stand at that place, and for how many bytes of its stream the commands behind them stand, where
//! those are not the same bytes.
//!
//! ```text
//!  #HISTORY:0123..cdef 4711 0     the data stand at offset 4711 of this history, in database 0
//!  #HISTORY:-                     they stand in none
//!  #STREAM:31:0                   31 bytes of the stream left nothing here
//!  #STREAM:76:27                  the next 27 bytes are what 76 bytes of the stream did here
//! ```
//!
//! Invariants: the commands begin right behind the note, and end with a whole unit; a journal
//! stands in a history only as far as check lines say that it is as it was written. Another server
//! that writes to it knows nothing of notes.

const HISTORY_WORD: &str = "#HISTORY:";
const NONE: &str = "-";

/// The line that says where the data stand: a text of the writer's, if they stand anywhere.
#[must_use]
pub fn history_line(text: Option<&str>) -> Vec<u8> {
    format!("{HISTORY_WORD}{}\r\n", text.unwrap_or(NONE)).into_bytes()
}

/// What such a line says, which is without its end.
pub(super) fn parse_history(line: &[u8]) -> Option<Option<&[u8]>> {
    let text = line.strip_prefix(HISTORY_WORD.as_bytes())?;
    Some((text != NONE.as_bytes()).then_some(text))
}

/// How far the data of a journal stand behind what a note in it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPlace {
    /// What the last note says.
    pub note: Box<[u8]>,
    /// So many bytes of the stream came since.
    pub since: u64,
}

/// Follows the notes of a file.
#[derive(Debug, Default)]
pub(super) struct StreamPosition {
    /// Where the last unit ends, or the last note stands.
    place: Option<HistoryPlace>,
    /// Bytes of the stream behind that, of a unit that is not whole yet.
    open: u64,
    /// Bytes of commands that count already.
    kept: u64,
}

impl StreamPosition {
    /// Where the last whole unit ends.
    pub(super) fn place(&self) -> Option<&HistoryPlace> {
        self.place.as_ref()
    }

    /// The data stand somewhere.
    pub(super) fn set(&mut self, note: Option<&[u8]>) {
        self.place = note.map(|note| HistoryPlace { note: note.into(), since: 0 });
        (self.open, self.kept) = (0, 0);
    }

    /// What follows stands for other bytes.
    pub(super) fn note(&mut self, note: StreamNote) {
        self.open = self.open.saturating_add(note.stream);
        self.kept = note.kept;
    }

    /// A command of this length comes.
    pub(super) fn pass(&mut self, length: u64) {
        match self.kept {
            0 => self.open = self.open.saturating_add(length),
            kept => self.kept = kept.saturating_sub(length),
        }
    }

    /// A unit is whole, or there is nothing more.
    pub(super) fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if let Some(place) = &mut self.place {
            place.since = place.since.saturating_add(open);
        }
    }
}

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

    /// The note in a line, which is without its end.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (stream, kept) = str::from_utf8(line).ok()?.strip_prefix(WORD)?.split_once(':')?;
        Some(Self { stream: stream.parse().ok()?, kept: kept.parse().ok()? })
    }
}
