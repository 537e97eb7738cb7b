//! Commands that were not admitted, or have done nothing in the end.
//!
//! Invariant: a client that queues commands learns at EXEC that one was refused.

use commands::Role;
use keyspace::Refusal;
use proto::{Args, Output, Reply, Resp};

use crate::commit::accounting::feed_monitors;
use crate::lane::Lane;
use crate::limits::slot_map::is_redirection;
use crate::session::Session;
use crate::session::aborted;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// Refuses a command that was not admitted. EXEC will be refused too then; and EXEC itself says so
/// in words of its own, ends the transaction if there is one, and is shown to monitors, which were
/// shown its MULTI.
#[cold]
pub(super) fn reject(
    lane: &Lane,
    session: &mut Session,
    entry: Option<&'static CommandEntry>,
    args: Args<'_>,
    out: &mut Output,
    refusal: &Refusal,
) {
    let (server, resp) = (lane.shared, session.resp);
    match entry {
        Some(entry) if is_exec(entry) => {
            refuse(server, entry, refusal, resp, out);
            session.end_transaction(server);
            if !is_redirection(refusal) {
                feed_monitors(lane, session, session.database, entry, args);
            }
        }
        _ => {
            server.refuse(refusal, &mut Reply::new(out, resp));
            if let Some(multi) = &mut session.multi {
                multi.mark_dirty();
            }
        }
    }
    let _ = lane.tick();
}

/// Replies a refusal of a command that did nothing: EXEC has words of its own, but where the client
/// is to go to another node.
#[cold]
pub(crate) fn refuse(
    server: &Shared,
    entry: &CommandEntry,
    refusal: &Refusal,
    resp: Resp,
    out: &mut Output,
) {
    let mut reply = Reply::new(out, resp);
    if !is_exec(entry) {
        return server.refuse(refusal, &mut reply);
    }
    if is_redirection(refusal) {
        return server.refuse(refusal, &mut reply);
    }
    server.refuse(&aborted(refusal), &mut reply);
}

fn is_exec(entry: &CommandEntry) -> bool {
    entry.spec.role == Role::Exec
}
