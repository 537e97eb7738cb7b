//! Keeping commands for EXEC.
//!
//! Invariant: what is queued together is queued as if it had come one by one: each command is
//! admitted in its turn, and one that is not, or that is run at once, ends the run of them.

use std::sync::atomic::Ordering;

use commands::arguments::database;
use commands::{Flags, Role};
use keyspace::{Location, Refusal};
use proto::{Args, Output, Reply};

use super::{Resolved, reject};
use crate::admission::gates;
use crate::admission::quota;
use crate::commit::accounting::charge_queued;
use crate::lane::Lane;
use crate::limits::budget;
use crate::reclaim::evict;
use crate::session::MultiState;
use crate::session::Session;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

const NOT_IN_MULTI: Refusal = Refusal::error("ERR Command not allowed inside a transaction");

/// What the client of a queued command is told.
const QUEUED: &[u8] = b"+QUEUED\r\n";

/// Keeps an admitted command for EXEC.
pub(super) fn queue(
    lane: &Lane,
    session: &mut Session,
    entry: &'static CommandEntry,
    location: Option<Location>,
    args: Args<'_>,
    out: &mut Output,
) {
    if is_kept_from_units(entry.spec.flags) {
        lane.shared.observed.stats.rejected(lane.number, entry.id);
        return reject(lane, session, Some(entry), args, out, &NOT_IN_MULTI);
    }
    let resp = session.resp;
    if let Some(multi) = session.multi.as_deref_mut() {
        keep(lane.shared, multi, args, Resolved { entry, location });
        Reply::new(out, resp).raw(QUEUED);
    }
    charge_queued(lane, session, session.next_database(), (args.extent(), QUEUED.len()));
    session.show_multi();
}

/// Queues requests that one client sent together, as far as nothing else is to be done for them;
/// how many.
pub fn queue_together<'a>(
    lane: &Lane,
    session: &mut Session,
    requests: impl Iterator<Item = (Args<'a>, Option<Resolved>)>,
    out: &mut Output,
) -> usize {
    if !session.is_undisturbed() {
        return 0;
    }
    // While the queue is out of the session more can be put into it, and a gate that asks for it is
    // at most stricter: then the command goes by itself.
    let Some(mut multi) = session.multi.take() else { return 0 };
    let mut before = None;
    let mut count = 0;
    if multi.is_queueing() {
        for (args, resolved) in requests {
            let Some(Resolved { entry, location }) = resolved else { break };
            let flags = entry.spec.flags;
            if flags.has(Flags::IMMEDIATE) || is_kept_from_units(flags) {
                break;
            }
            // Of what is limited each is asked for, and booked, by itself.
            let there = multi.selected().unwrap_or(session.database);
            if quota::is_limited(lane, session, there) {
                break;
            }
            evict::prepare(lane, || budget::bytes_needed(flags, args));
            // Of two scripts each says for itself what it does.
            let alike = before.filter(|_| !gates::may_declare(entry));
            if !gates::admits_batched(lane, session, alike, entry, (args, location.as_slice())) {
                break;
            }
            keep(lane.shared, &mut multi, args, Resolved { entry, location });
            Reply::new(out, session.resp).raw(QUEUED);
            let there = multi.selected().unwrap_or(session.database);
            charge_queued(lane, session, there, (args.extent(), QUEUED.len()));
            (count, before) = (count + 1, Some(entry));
        }
    }
    session.multi = Some(multi);
    if let Some(last) = before {
        session.client.live.last_command.store(last.id as u32, Ordering::Relaxed);
        session.show_multi();
    }
    count
}

/// Whether a command is none of those that EXEC runs.
fn is_kept_from_units(flags: Flags) -> bool {
    flags.has(Flags::NO_MULTI) || flags.has(Flags::NOT_IN_UNIT)
}

/// Keeps a command that is admitted, if EXEC may run it: what will not run takes no memory.
#[inline]
fn keep(server: &Shared, multi: &mut MultiState, args: Args<'_>, resolved: Resolved) {
    if multi.is_lost() {
        return;
    }
    let Resolved { entry, location } = resolved;
    if let Some(queue) = multi.queue_mut() {
        if entry.spec.role == Role::Select
            && let Ok(selected) = database(&args[1], server.keyspace.database_count())
        {
            queue.select(selected);
        }
        // A program may meet other keys than its own.
        queue.push(entry, args, location.filter(|_| entry.has_first_key));
    }
}
