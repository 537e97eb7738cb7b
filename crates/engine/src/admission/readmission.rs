//! The gates for what begins a second time, in its middle.
//!
//! Invariant: each promise that a gate makes to others while the first attempt ran (rights, a
//! pause, a limit, a failed disk) holds for whatever takes its locks behind it.

use std::sync::Arc;

use commands::{Flags, Role};
use keyspace::{PartitionIndex, Refusal};

use crate::admission::gates::{FlagsOf, MASTERDOWN, may_write, script_flags_of};
use crate::admission::quota;
use crate::lane::Lane;
use crate::limits::budget;
use crate::limits::loading::LOADING;
use crate::limits::slot_map::TRYAGAIN;
use crate::session::{AclSubject, Request, Session};
use crate::shared::Shared;
use crate::table::flag_set::FlagSet;

/// So often a request that a gate holds gives its thread back, and begins anew at its session. The
/// same locks are needed again then, and the request would have to meet an open gate by chance each
/// time.
const PUT_OFFS_MAX: u8 = 2;

/// By what a request was let pass before it left its worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    /// The version of the cluster's table of slots.
    routed: u64,
    /// How often it was put off before.
    put_offs: u8,
}

impl Passage {
    pub(crate) fn of(lane: &Lane, session: &Session) -> Self {
        Self { routed: lane.routed(), put_offs: session.put_offs() }
    }

    fn may_be_put_off(self) -> bool {
        self.put_offs < PUT_OFFS_MAX
    }
}

/// The gates for one that begins a second time: its locks were given back in its middle, and others
/// ran since. What rights, a pause, a limit and a failed disk promise holds for whatever takes its
/// locks behind them.
///
/// Of the list in `gates` these are left out: what cannot have changed while its session waits for
/// it (the number of its arguments, its client's state), the patience of others with a script,
/// which it had for as long as its own lasts, and the rates of quotas, which were asked for and
/// charged when it came. The gate that waits for memory is open for it: what it holds itself may be
/// what is to be freed.
pub struct Readmission<'a> {
    pub(crate) server: &'static Shared,
    /// Whose it is.
    subject: Option<&'a Arc<AclSubject>>,
    request: Request<'a>,
    /// None if its keys are not asked for again.
    passage: Option<Passage>,
    effective: FlagSet,
    declared: Flags,
    /// Whether its session can begin it anew, so that it need not wait where it is.
    pub(crate) may_be_deferred: bool,
}

impl<'a> Readmission<'a> {
    /// For a command that waited: asks the same gates as before the wait.
    pub(crate) fn of_command(
        server: &'static Shared,
        subject: Option<&'a Arc<AclSubject>>,
        request: Request<'a>,
        passage: Passage,
    ) -> Self {
        let may_be_deferred = passage.may_be_put_off();
        Self {
            passage: Some(passage),
            may_be_deferred,
            ..Self::beside_slots(server, subject, request)
        }
    }

    /// For a command whose keys no table of slots is asked for: asks the other gates.
    pub fn beside_slots(
        server: &'static Shared,
        subject: Option<&'a Arc<AclSubject>>,
        request: Request<'a>,
    ) -> Self {
        let flags = request.entry.spec.flags;
        Self {
            server,
            subject,
            request,
            passage: None,
            effective: FlagSet::of(flags),
            declared: flags,
            may_be_deferred: true,
        }
    }

    /// For a program that is a command, or whose commands are queued: `queued` says what they do,
    /// and what they say that they do as this finds it.
    pub(crate) fn of_program(
        server: &'static Shared,
        subject: Option<&'a Arc<AclSubject>>,
        request: Request<'a>,
        (passage, may_be_deferred): (Passage, bool),
        queued: impl FnOnce(FlagsOf<'_>) -> Option<(FlagSet, Flags)>,
    ) -> Self {
        let of = script_flags_of(server);
        let Request { entry, args, .. } = request;
        let own = FlagSet::of(entry.spec.flags);
        let (effective, declared) = match queued(&of) {
            Some((queued, declared)) => (own.and(queued), declared),
            None => (own, of(entry, args)),
        };
        let may_be_deferred = may_be_deferred && passage.may_be_put_off();
        let passage = Some(passage);
        Self { server, subject, request, passage, effective, declared, may_be_deferred }
    }

    /// Whether it is not to begin now. An error says that it is not to begin at all. Asked while it
    /// has its locks, of these partitions or of all: a gate that is shut afterwards is shut behind
    /// all that it does.
    pub fn hold(&self, locked: Option<&[PartitionIndex]>) -> Result<bool, Refusal> {
        let Self { server, subject, request, effective, declared, .. } = *self;
        let routing = &server.gates.routing;
        let is_another = |passage: Passage| passage.routed != routing.version();
        let is_served = || locked.is_some_and(|slots| routing.table().serves_plainly(slots));
        if self.passage.is_some_and(is_another) && !is_served() {
            // The gates know the way; what cannot go back to them is not let in.
            return if self.may_be_deferred { Ok(true) } else { Err(TRYAGAIN) };
        }
        if server.gates.loading.refuses(|| effective) {
            return Err(LOADING);
        }
        if server.gates.replica_role.refuses_stale(|| effective) {
            return Err(MASTERDOWN);
        }
        if let Some(refusal) = subject.and_then(|subject| subject.refuse_again(server, request)) {
            return Err(refusal);
        }
        if let Some(refusal) =
            server.gates.write_refusals.refuse(&server.config, &server.journal, declared, Role::Any)
        {
            return Err(refusal);
        }
        let more = budget::bytes_needed(declared, request.args);
        let garbage = server.keyspace.lazy_free_queue().bytes();
        if let Some(refusal) =
            server.memory.budget.refuse_late(&server.config, declared, more, garbage)
        {
            return Err(refusal);
        }
        if let Some(refusal) = quota::refuse_again(server, request) {
            return Err(refusal);
        }
        let waits_for_disk =
            may_write(effective.any) && server.gates.write_backpressure().is_some();
        let now = || server.keyspace.clock().now_ms();
        Ok(waits_for_disk || server.gates.pause.holds(|| declared, now))
    }
}
