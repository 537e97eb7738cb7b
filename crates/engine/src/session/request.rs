//! A request on its way: what became of it, and what an attempt at it has from those before.
//!
//! Invariant: a request that is begun again knows how often that was, and what it waits for.

use keyspace::{Acquisition, HeavyPass, Refusal, TxOptions};

use super::{ForwardBatch, Session, Suspension};
use crate::clients::registry::client_flags;
use crate::lane::Lane;

/// Which attempt at a request this is.
#[derive(Default)]
pub struct RequestAttempt {
    /// How often it was widened.
    pub widenings: u32,
    /// Leave for heavy work, if that is what it turned out to be.
    pub pass: Option<HeavyPass>,
    /// Whether it turned out to be that in the middle, and moves before it begins.
    pub moves: bool,
    /// When it began to wait for what it has now, or still waits for, if it has waited: on the
    /// monotonic clock in microseconds.
    pub began_us: Option<i64>,
    /// What of it was ended by others in an attempt before, if it is a program.
    pub killed: Vec<usize>,
}

/// What the wait of a request ended with.
pub enum LockWaitEnd {
    /// All its locks.
    Locks(Acquisition, RequestAttempt),
    /// The end of its patience.
    Busy,
}

/// What became of a request.
pub enum Step {
    /// The request was answered.
    Done,
    /// The request was answered, and the connection is to be closed.
    Close,
    /// The request cannot run yet and is to be given again when the suspension is over.
    Postpone(Suspension),
    /// The request runs on; the session waits for its end.
    Wait(Suspension),
    /// Another node of the cluster is to run it, with those behind it that are for the same node.
    Forward(Box<ForwardBatch>),
}

/// How a session's transactions are begun.
#[inline]
pub fn tx_options(lane: &Lane, session: &Session) -> TxOptions {
    let ClientView { sees_expired, touches } = ClientView::of(lane, session);
    let now_us = lane.now_us();
    TxOptions {
        lane: lane.number,
        database: session.database,
        now: now_us / 1000,
        now_us,
        sees_expired,
        touches,
        undoable: false,
        heavy: false,
        serves_within_budget: false,
        unrecorded: false,
        origin: session.client.id,
    }
}

/// What a client has said of how its commands see the data, and are seen.
#[derive(Clone, Copy)]
pub(crate) struct ClientView {
    /// Whether keys are there for it whose time is over.
    pub(crate) sees_expired: bool,
    /// Whether its reads are noted as a use of their keys.
    pub(crate) touches: bool,
}

impl ClientView {
    /// That of a session at present.
    #[inline]
    pub(crate) fn of(lane: &Lane, session: &Session) -> Self {
        // CLIENT IMPORT-SOURCE has its effect in import mode only.
        let imports = lane.shared.keyspace.settings().suspends_expiry()
            && session.client.has_flag(client_flags::IMPORT_SOURCE);
        let sees_expired = imports || session.is_importing_slots();
        Self { sees_expired, touches: !session.no_touch }
    }
}

/// What EXEC says where it is refused.
pub fn aborted(refusal: &Refusal) -> Refusal {
    let line = refusal.line().unwrap_or_default();
    let why = line.strip_prefix(b"ERR ").unwrap_or(line);
    Refusal::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}
