//! Admission: everything that may keep a command from running, in one list.
//!
//! Invariant: a gate looks and never changes anything; the first one that objects decides.

use keyspace::Refusal;
use proto::Args;

use crate::session::{Session, Stage};
use crate::table::Entry;
use crate::worker::Worker;
use commands::Flags;

/// Whether a command may run.
pub(crate) enum Verdict {
    Admitted,
    Refused(Refusal),
    /// Not now: the stage says when to ask again.
    Postponed(Stage),
}

/// Asks all gates.
#[inline]
pub(crate) fn admit(worker: &Worker, session: &Session, entry: &Entry, args: Args<'_>) -> Verdict {
    if !entry.spec.arity.admits(args.len()) {
        return Verdict::Refused(commands::errors::wrong_arity(&entry.full_name));
    }
    if !session.authenticated && !entry.spec.flags.has(Flags::NO_AUTH) {
        return Verdict::Refused(Refusal::error("NOAUTH Authentication required."));
    }
    if worker.server.pause.may_hold(entry.spec.flags)
        && let Some(stage) = worker.server.pause.hold(worker.now_ms(), entry.spec.flags)
    {
        return Verdict::Postponed(stage);
    }
    Verdict::Admitted
}
