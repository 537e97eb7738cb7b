//! Whether a snapshot that was taken in the midst of writes is the state at one instant.
//!
//! Clients write steps whose effect follows from their numbers, and note by a clock that all of
//! them share when each was sent and answered. So a snapshot tells which steps are in it, and
//! [`check`] whether there was a moment between the request for it and the answer at which just
//! those had happened.
//!
//! Invariant: [`check`] is a pure function of what was noted, and whatever it finds cannot be where
//! a snapshot is of one instant.

mod check;
mod role;
mod run;
mod store;

pub use check::check;
pub use run::{Plan, look, run};

use role::{Role, Step};

/// All that can be found in a snapshot: database and key, and the value as text.
pub type State = std::collections::BTreeMap<(usize, String), String>;

/// What was noted while clients wrote.
pub struct History {
    writers: Vec<Writer>,
    sights: Vec<Sight>,
    /// The snapshots taken meanwhile.
    pub snapshots: Vec<Snapshot>,
}

impl History {
    /// How many steps were answered.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.writers.iter().map(|writer| writer.notes.len()).sum()
    }
}

/// One client and its steps, the first of which has number 1.
struct Writer {
    role: Role,
    notes: Vec<Note>,
}

/// A step that was answered.
struct Note {
    step: Step,
    /// When the command was sent, by the common clock.
    sent: u64,
    /// When its answer was there.
    answered: u64,
    /// How often all had been flushed when it happened.
    epoch: u64,
    /// Whether databases 1 and 2 had changed places then.
    is_swapped: bool,
    /// A counter that it raised, and to what.
    raised: Option<(String, u64)>,
}

/// What a reader saw of all writers at once.
struct Sight {
    sent: u64,
    answered: u64,
    epoch: u64,
    /// Under the key of each that a reader looks at.
    numbers: Vec<u64>,
}

/// A snapshot.
#[derive(Clone)]
pub struct Snapshot {
    /// When the snapshot was asked for.
    called: u64,
    /// When the server said that it was begun.
    begun: u64,
    /// The file.
    pub bytes: Vec<u8>,
}
