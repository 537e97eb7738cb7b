//! What a link to a primary wants done.
//!
//! Invariants: actions are in the order in which they must be done; a range lies in the bytes of
//! the call that made it.

use std::borrow::Cow;
use std::ops::Range;

use crate::history::SavedHistory;
use crate::ids::ReplicationId;
use crate::primary::LogLevel;

/// How the end of a primary's data is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdbFraming {
    /// After so many bytes.
    Length(u64),
    /// By a mark that the primary chose.
    Marked,
}

/// How data from a primary takes the place of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMode {
    /// By way of a file: what is there goes when all has arrived.
    Disk,
    /// What is there goes first.
    Flush,
    /// What is there goes when all is loaded beside it.
    Swap,
}

/// Data that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    /// How its end is found.
    pub framing: RdbFraming,
    /// Of which history it is, and up to where; `None` from a primary that does not tell.
    pub of: Option<(ReplicationId, u64)>,
    /// How the data are taken in.
    pub mode: LoadMode,
    /// Whether what is there is of that history too, so that it may be read meanwhile.
    pub is_our_history: bool,
}

/// Which connection to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimaryChannel {
    /// The one that the stream comes on.
    Main,
    /// A second one, for the data of one full sync.
    Rdb,
}

/// Commands of units that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCommands {
    /// How many there are.
    pub count: u64,
    /// Where the last one begins, from the first byte of the units.
    pub last: Option<usize>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    /// Connect, and tell how that went.
    Connect {
        /// Which connection.
        wire: PrimaryChannel,
        /// The host's name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// Send these bytes to the primary.
    Send {
        /// On which connection.
        wire: PrimaryChannel,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Close the connection, or stop connecting. What was held of it is forgotten.
    Close {
        /// Which connection.
        wire: PrimaryChannel,
    },
    /// These bytes are of the stream, and are to be held until its data are loaded.
    Hold(Range<usize>),
    /// Make ready to take data in.
    BeginLoad(LoadOrder),
    /// These bytes are data.
    Rdb(Range<usize>),
    /// All of the data has come: tell how the load went.
    EndOfRdb,
    /// The rest of the data will not come.
    AbortLoad,
    /// The load is done: begin the history of the data, with an empty backlog, and close the links
    /// of our own replicas. `None`: the data's history is unknown, a fresh one begins at 0.
    SetHistory(Option<SavedHistory>),
    /// The primary goes on under another id.
    Follow {
        /// The id.
        id: ReplicationId,
        /// From this offset on.
        at: u64,
    },
    /// These bytes are whole units of the stream.
    Stream {
        /// Where they are.
        range: Range<usize>,
        /// The offset behind them.
        end: u64,
        /// The databases that are selected before and behind them.
        databases: [u32; 2],
        /// Their commands.
        commands: StreamCommands,
    },
    /// Tell as soon as all units up to this offset are on disk. What was waited for before is not
    /// any more.
    AwaitSync(u64),
    /// Write a line to the log.
    Log {
        /// How urgent.
        level: LogLevel,
        /// The line.
        line: Cow<'static, str>,
    },
}

/// Actions that wait to be fetched.
#[derive(Debug, Default)]
pub(super) struct Outbox(Vec<ReplicaAction>);

impl Outbox {
    pub(super) fn push(&mut self, action: ReplicaAction) {
        self.0.push(action);
    }

    pub(super) fn send(&mut self, bytes: impl Into<Vec<u8>>) {
        self.send_on(PrimaryChannel::Main, bytes);
    }

    pub(super) fn send_on(&mut self, wire: PrimaryChannel, bytes: impl Into<Vec<u8>>) {
        self.push(ReplicaAction::Send { wire, bytes: bytes.into() });
    }

    pub(super) fn notice(&mut self, line: impl Into<Cow<'static, str>>) {
        self.push(ReplicaAction::Log { level: LogLevel::Notice, line: line.into() });
    }

    pub(super) fn warning(&mut self, line: impl Into<Cow<'static, str>>) {
        self.push(ReplicaAction::Log { level: LogLevel::Warning, line: line.into() });
    }

    pub(super) fn take(&mut self) -> Vec<ReplicaAction> {
        std::mem::take(&mut self.0)
    }
}
