//! Requests whose keys another node of the cluster serves, on their way to that node.
//!
//! Invariant: the gates have let pass what is sent on, for its own client. Behind a request that
//! was sent on a session executes nothing before the reply; only requests of the same pipeline for
//! the same node, one behind the other, go together.

use std::sync::Arc;

use commands::{Flags, Role};
use proto::Args;
use tokio::sync::oneshot;

use super::{Executor, Located, Resolved};
use crate::admission::{gates, script_flags};
use crate::commit::accounting::feed_monitors;
use crate::lane::Lane;
use crate::session::{
    Blocked, ExecutedCommand, ForwardBatch, ForwardBody, ForwardOrder, ForwardedRequest,
    ForwardedWait, QueuedRequests, Session, Step, Suspension,
};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// A request, as it was looked up.
type EnteredCommand<'a> = (&'static CommandEntry, Args<'a>);

/// Begins a batch for a node, which is to be told that a slot is on the move to it if the second
/// of `to` says so.
#[cold]
pub(super) fn begin(
    lane: &Lane,
    session: &mut Session,
    (entry, args): EnteredCommand<'_>,
    to: (Box<str>, bool),
) -> Step {
    let server = lane.shared;
    let body = body_of(server, session, (entry, args));
    if entry.spec.role == Role::Exec {
        session.end_transaction(server);
    }
    let ceiling = server.output_ceiling(&session.client);
    let request = ForwardedRequest { ran: ExecutedCommand::begun(entry, args), body };
    let _ = lane.tick();
    let talk = (session.database, session.resp, ceiling);
    Step::Forward(ForwardBatch::new(to, &session.client, talk, request))
}

fn body_of(server: &Shared, session: &Session, (entry, args): EnteredCommand<'_>) -> ForwardBody {
    match entry.spec.role {
        Role::Exec => {
            let queue = session.multi.as_ref().and_then(|multi| multi.queue_for_elsewhere());
            let queue = Arc::clone(queue.expect("the gate has looked at it"));
            ForwardBody::Transaction(QueuedRequests::new(queue))
        }
        Role::RunDigest => {
            let digits = args.get(1).unwrap_or_default();
            let script = server.scripts.cache.get_by_digits(digits);
            ForwardBody::Program(script.map(|script| script.source().into()))
        }
        role if script_flags::may_declare(role) => ForwardBody::Program(None),
        _ if may_wait(entry, args) => ForwardBody::Blocking,
        _ => ForwardBody::Plain,
    }
}

/// Whether a request may wait for an element. A read of streams does only with the word BLOCK,
/// wherever that stands: a key of that name costs no more than a link.
fn may_wait(entry: &CommandEntry, args: Args<'_>) -> bool {
    let is_block = |word: &[u8]| word.eq_ignore_ascii_case(b"BLOCK");
    let needs_word = matches!(entry.spec.name, "XREAD" | "XREADGROUP");
    entry.spec.flags.has(Flags::BLOCKING) && (!needs_word || args.iter().any(is_block))
}

/// Adds the request behind a batch to it, if it is for the same node and may go along.
#[cold]
pub fn join_forward(
    executor: Executor<'_>,
    session: &Session,
    batch: &mut ForwardBatch,
    args: Args<'_>,
    located: &Located,
) -> bool {
    let lane = executor.lane;
    if !batch.may_grow() || !session.may_batch() {
        return false;
    }
    let resolved = located.resolved().map_or_else(|| Resolved::of(lane.shared, args), Ok);
    let Ok(Resolved { entry, .. }) = resolved else { return false };
    if entry.spec.role == Role::Exec || may_wait(entry, args) {
        return false;
    }
    let asked = (args, located.locations());
    let is_alike = gates::destination_batched(lane, session, entry, asked)
        .is_some_and(|node| node == batch.node);
    if is_alike {
        let body = body_of(lane.shared, session, (entry, args));
        batch.push(ForwardedRequest { ran: ExecutedCommand::begun(entry, args), body });
    }
    is_alike
}

/// Sends a batch on; how its session waits for the replies.
#[cold]
pub fn send_on(executor: Executor<'_>, session: &Session, batch: Box<ForwardBatch>) -> Suspension {
    let Executor { engine, lane, .. } = executor;
    let (sender, receiver) = oneshot::channel();
    let (unblock, unblocked) = oneshot::channel();
    let suspension = match batch.blocking() {
        Some(ran) => {
            let (entry, args) = (ran.entry, ran.args.clone());
            // What waits is told when the wait begins.
            feed_monitors(lane, session, session.database, entry, args.as_args());
            let ran = ExecutedCommand { entry, args, micros: 0, failed: false, program: None };
            let wait = ForwardedWait::new(receiver, unblock);
            Suspension::Blocked(Box::new(Blocked::elsewhere(ran, wait)))
        }
        None => Suspension::Forwarded(receiver),
    };
    engine.cluster_proxy().forward(ForwardOrder { batch, sender, unblocked });
    suspension
}
