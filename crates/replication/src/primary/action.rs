//! What a primary wants done.
//!
//! Invariant: actions are in the order in which they must be done.

use std::fmt;

use super::attached::ReplicaId;
use super::replconf_state::Requirements;

/// The number of a round: one snapshot for some replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoundId(pub(super) u64);

impl fmt::Display for RoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a snapshot is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotTarget {
    /// To all replicas of the round while the snapshot is made, between two marks.
    Socket,
    /// To a file, whose length is known when the replicas are sent it.
    Disk,
}

/// How urgent a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For those that look closely.
    Verbose,
    /// What an operator may want to know.
    Notice,
    /// What an operator should know.
    Warning,
}

/// When a link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseWhen {
    /// At once.
    Now,
    /// When all that was to be sent has been.
    Flushed,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimaryAction {
    /// Send bytes that are not of the stream.
    Send {
        /// To this replica.
        replica: ReplicaId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Make a backlog at the end of the stream, since there is none.
    CreateBacklog,
    /// Free the backlog.
    FreeBacklog,
    /// Give a link a place in the backlog.
    Pin {
        /// The replica's.
        replica: ReplicaId,
        /// The offset: how many bytes the replica has, or will have with its snapshot.
        from: u64,
    },
    /// A link needs no place in the backlog any more.
    Unpin {
        /// The replica's.
        replica: ReplicaId,
    },
    /// Let the stream flow from the link's place on, for ever.
    Stream {
        /// To this replica.
        replica: ReplicaId,
    },
    /// Make a snapshot.
    StartSnapshot {
        /// Its number.
        round: RoundId,
        /// Where to.
        target: SnapshotTarget,
        /// What the snapshot must be like.
        requirements: Requirements,
        /// For which replicas; a snapshot to a file may be joined by others later.
        replicas: Vec<ReplicaId>,
    },
    /// Stop a snapshot that nobody waits for any more.
    AbortSnapshot {
        /// Its number.
        round: RoundId,
    },
    /// Send the file that a snapshot was written to.
    SendFile {
        /// To this replica.
        replica: ReplicaId,
        /// The snapshot's number.
        round: RoundId,
    },
    /// Call `body_sent` when the socket has taken all that was to be sent before this.
    NoteSent {
        /// To this replica.
        replica: ReplicaId,
    },
    /// Append a record to the stream.
    Append {
        /// All of its bytes.
        record: &'static [u8],
    },
    /// Close a link; the replica is attached no more.
    Close {
        /// The replica's.
        replica: ReplicaId,
        /// When.
        when: CloseWhen,
    },
    /// Write a line to the log.
    Log {
        /// How urgent.
        level: LogLevel,
        /// The line.
        line: String,
    },
}
