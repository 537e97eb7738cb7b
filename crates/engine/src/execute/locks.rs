//! How any request gets to its locks: the gates, the attempt to take all at once, and the wait.
//!
//! Invariant: whatever begins, or goes on behind a wait, has asked the gates since it was asked
//! for; where they object, the locks that it waited for go back.

use keyspace::{Acquisition, BUSY};

use crate::admission::gates::GateVerdict;
use crate::lane::Lane;
use crate::reclaim::evict;
use crate::session::{LockWaitEnd, Parked, RequestAttempt, Step, Suspension};
use crate::table::flag_set::FlagSet;

/// The locks of a request, if they have come.
pub(super) type Granted = Option<(Acquisition, RequestAttempt)>;

/// Of the keys of a request so many are fetched from memory together, under its locks. More would
/// drive each other out of the nearest cache.
pub(super) const PREFETCHED_MAX: usize = 64;

/// Whether a request may begin, for which `room` is needed, or go on with what came of its wait.
/// Inlined for the sake of the locks that pass through.
#[inline(always)]
pub(super) fn enter(
    lane: &Lane,
    grant: Option<LockWaitEnd>,
    room: impl FnOnce() -> usize,
    admit: impl FnOnce() -> GateVerdict,
) -> (GateVerdict, Granted) {
    let granted = match grant {
        None => {
            evict::prepare(lane, room);
            None
        }
        Some(LockWaitEnd::Busy) => return (GateVerdict::Refused(BUSY), None),
        // Rights, a pause or a load may have come while it waited: then the locks go back.
        Some(LockWaitEnd::Locks(acquisition, attempt)) => Some((acquisition, attempt)),
    };
    let verdict = admit();
    let is_admitted = matches!(verdict, GateVerdict::Admitted);
    (verdict, granted.filter(|_| is_admitted))
}

/// Takes the locks of a plan if all are there at once, for what has these flags.
#[inline]
pub(super) fn acquire(
    lane: &Lane,
    flags: impl FnOnce() -> FlagSet,
    acquisition: &mut Acquisition,
) -> bool {
    !acquisition.wants_world() && lane.enter_past_gates(flags) && acquisition.attempt()
}

/// Leaves a request until its locks are there.
#[cold]
pub(super) fn park(lane: &Lane, acquisition: Acquisition, attempt: RequestAttempt) -> Step {
    Step::Postpone(Suspension::Locks(Parked::new(acquisition, attempt, lane.ticked_us())))
}

/// Leaves a request until the locks are there that it turned out to need in this round.
#[cold]
pub(super) fn park_wider(lane: &Lane, wider: Acquisition, attempt: &RequestAttempt) -> Step {
    park(
        lane,
        wider,
        RequestAttempt { widenings: attempt.widenings + 1, ..RequestAttempt::default() },
    )
}
