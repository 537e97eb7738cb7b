//! A blocking command that waits: for keys, for a time, or for copies.
//!
//! Invariant: its command is booked when the wait is over, and not if its client goes before.

use keyspace::{Acquisition, Lsn};
use proto::Reply;

use super::forwarding::ForwardedWait;
use super::suspension::ExecutedCommand;
use super::waiting::{KeyWait, Waiting};
use crate::journal::LinePlace;

/// A blocking command that waits.
pub struct Blocked {
    /// The command and what it took so far: both are booked when the wait is over.
    pub ran: ExecutedCommand,
    /// When it gives up, on the monotonic clock in microseconds; never if `None`.
    pub until_us: Option<i64>,
    /// What it replies when it gives up or is unblocked.
    pub on_timeout: fn(&mut Reply<'_>),
    /// Its place in the queues, if it waits for keys.
    pub place: Option<KeyWait>,
    /// The copies that it waits for.
    pub ack_wait: Option<AckWait>,
    /// The other node of the cluster where it waits.
    pub forwarded: Option<ForwardedWait>,
    /// Whether the keys are to be looked at though nobody changes them.
    pub recheck: Recheck,
}

/// Whether the keys that a client waits for are to be looked at though nobody changes them.
pub enum Recheck {
    /// The keys are looked at only when a commit changes one.
    No,
    /// The keys are looked at as soon as their locks can be asked for.
    Due,
    /// Once their locks are there; how often these were too few.
    Underway(Acquisition, u32),
}

/// A wait for copies of what was written up to an LSN, as WAIT and WAITAOF have it.
pub struct AckWait {
    /// What is to be copied.
    pub lsn: Lsn,
    /// Where copies are to be.
    pub awaited: AckRequirement,
    /// Where the session stands among those that are told when the journal is safe up to `lsn`.
    pub place: LinePlace,
    /// Whether replicas were asked how far they are.
    pub asks: bool,
}

/// Where copies are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckRequirement {
    /// WAIT: so many replicas have applied it.
    Applied {
        /// How many.
        replicas: usize,
    },
    /// WAITAOF: the write is synced.
    Synced {
        /// In our own append-only file.
        here: bool,
        /// On so many replicas.
        replicas: usize,
    },
}

impl AckWait {
    /// Waits until the copies up to `lsn` are there.
    pub fn new(lsn: Lsn, awaited: AckRequirement) -> Self {
        Self { lsn, awaited, place: LinePlace::default(), asks: false }
    }
}

impl Blocked {
    /// A wait for a time, or for CLIENT UNBLOCK.
    pub fn on_time(
        ran: ExecutedCommand,
        until_us: Option<i64>,
        on_timeout: fn(&mut Reply<'_>),
    ) -> Self {
        Self {
            ran,
            until_us,
            on_timeout,
            place: None,
            ack_wait: None,
            forwarded: None,
            recheck: Recheck::No,
        }
    }

    /// A wait for copies, or for a time.
    pub fn on_copies(ran: ExecutedCommand, until_us: Option<i64>, ack_wait: AckWait) -> Self {
        // How many copies there are is looked up when it gives up.
        let on_timeout = |reply: &mut Reply<'_>| reply.null_array();
        Self { ack_wait: Some(ack_wait), ..Self::on_time(ran, until_us, on_timeout) }
    }

    /// A wait at another node of the cluster, by whose clock it ends.
    pub(crate) fn elsewhere(ran: ExecutedCommand, forwarded: ForwardedWait) -> Self {
        let on_timeout = |reply: &mut Reply<'_>| reply.null_array();
        Self { forwarded: Some(forwarded), ..Self::on_time(ran, None, on_timeout) }
    }

    /// A wait for keys.
    pub fn on_keys(ran: ExecutedCommand, waiting: Waiting) -> Self {
        let Waiting { place, until_us } = waiting;
        let on_timeout = |reply: &mut Reply<'_>| reply.null_array();
        Self { place: Some(place), ..Self::on_time(ran, until_us, on_timeout) }
    }
}
