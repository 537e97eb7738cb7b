//! Blocking commands: a client that found nothing waits in the queues of its keys, and the command
//! that makes one of them ready serves it within the same transaction.
//!
//! Invariants: waiters of a key are served in the order they came; what a service changes is
//! committed in one record with what made it possible; a waiter that was claimed is served, or
//! waits on, before the locks are dropped.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use commands::Role;
use keyspace::{
    Acquisition, Effects, EmptyReply, EntryRef, QueuedWaiter, Refusal, Tx, TxOptions, WaitQueue,
    Waiter,
};
use proto::{Args, Output, OwnedArgs, Reply};

use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::Signal;
use crate::commit::handler::{self, AttemptEnd, HandlerCall};
use crate::commit::publish;
use crate::commit::served_request::ServedRequest;
use crate::journal::{CommandEffects, ReplyLsn};
use crate::lane::Lane;
use crate::observe::stats;
use crate::runtime::failpoint;
use crate::runtime::panics::contain;
use crate::session::{BlockedClient, KeyWait, NEVER, Served, ServedWith, blocked};
use crate::shared::{Shared, line_of, write_refusal};
use crate::table::command_table::{CommandEntry, Run};

/// What one transaction did for clients that waited.
#[derive(Default)]
pub(crate) struct Services {
    done: Vec<Service>,
    /// The waiter that is being served this moment.
    claimed: Option<Arc<Waiter>>,
    /// The queue that is looked at, and of which key.
    present: Option<(usize, Box<[u8]>, WaitQueue)>,
    /// The waiters that were taken out of the queues before, to stand there again if all is undone.
    taken: Vec<(usize, Box<[u8]>, Vec<QueuedWaiter>)>,
    /// The mailboxes with letters for their clients.
    wakes: PendingWakes,
    /// How many waiters were claimed.
    claims: usize,
}

/// A worker serves, or looks at, so many waiters for one transaction. What makes more of them ready
/// serves all of them on a background thread, under the same locks.
const CLAIMED_BY_WORKER: usize = 128;

/// What came of the attempt to serve a waiter.
struct Service {
    waiter: Arc<Waiter>,
    /// The request that served it.
    request: OwnedArgs,
    effects: Effects,
    output: Output,
    answer: ServedWith,
    /// The code of the error that is the reply, if it is one.
    error: Option<String>,
    /// Whether its client has its reply: one that found nothing may have changed something all the
    /// same, as a read for a group makes its consumer, or met what had expired.
    is_over: bool,
}

impl KeyWait {
    /// Has the client looked at under the locks of its keys, though nobody changes them. If more
    /// are needed to serve it, nothing was done, and those are returned.
    pub fn recheck(
        &self,
        lane: &Lane,
        acquisition: Acquisition,
        widenings: u32,
    ) -> Result<(), Acquisition> {
        // The attempt to serve the client says when to look next.
        blocked(&self.waiter).again.store(NEVER, Ordering::Relaxed);
        let mut tx = self.begin(lane, acquisition);
        blocked(&self.waiter).awaited.keys().for_each(|key| tx.signal_key_as_ready(key));
        match publish::commit(lane.shared, &lane.wakes, &mut tx, Args::default()) {
            Ok(_) => Ok(()),
            Err(_) => Err(tx.widen(widenings)),
        }
    }

    fn begin(&self, lane: &Lane, acquisition: Acquisition) -> Tx {
        lane.start_batch();
        let internal = TxOptions::internal(lane.number, lane.now_ms());
        let options = TxOptions { database: blocked(&self.waiter).database, ..internal };
        Tx::begin(acquisition, options)
    }
}

/// Serves the waiters that the transaction's changes have made ready, and those that this makes
/// ready. The transaction's own effects were taken before. `Widen` means that nobody was served:
/// the transaction is to be undone; so does `Heavy`, and a panic.
#[cold]
pub(crate) fn serve(server: &Shared, tx: &mut Tx) -> Result<Services, Refusal> {
    let (mut services, home) = (Services::default(), tx.database());
    let result = contain(|| serve_ready(server, tx, &mut services));
    if let Ok(Ok(())) = result {
        return Ok(services);
    }
    tx.switch_database(home);
    services.undo(server, tx);
    result.unwrap_or_else(|panic| resume_unwind(panic)).map(|()| unreachable!("it failed"))
}

fn serve_ready(server: &Shared, tx: &mut Tx, services: &mut Services) -> Result<(), Refusal> {
    while let Some((database, key)) = tx.next_ready() {
        let home = tx.switch_database(database);
        let queue = tx.take_queue(&key);
        services.present = Some((database, key.clone(), queue));
        let mut over = Vec::new();
        let result = serve_queue(server, tx, &key, &mut over, services);
        if let Some((database, key, mut queue)) = services.present.take() {
            let taken = queue.take_out(&over);
            tx.put_queue(&key, queue);
            services.taken.push((database, key, taken));
        }
        tx.switch_database(home);
        result?;
    }
    Ok(())
}

/// Serves the waiters of the present queue that can be. The places of waits that are over go to
/// `over`; the others stay, in their order.
fn serve_queue(
    server: &Shared,
    tx: &mut Tx,
    key: &[u8],
    over: &mut Vec<usize>,
    services: &mut Services,
) -> Result<(), Refusal> {
    let kind_of = |tx: &Tx| Ok::<_, Refusal>(tx.peek(key)?.map(EntryRef::kind));
    let mut kind = kind_of(tx)?;
    for place in 0.. {
        let queue = services.present.as_ref().map(|(_, _, queue)| queue);
        let Some(queue) = queue.filter(|queue| kind.is_some() || queue.wakes_on_deletion()) else {
            // Without a key there is nothing for clients that wait for one.
            break;
        };
        let Some(standing) = queue.get(place) else { break };
        let waiter = &standing.waiter;
        if !blocked(waiter).accepts(kind) && !waiter.wakes_on_deletion() {
            continue;
        }
        if blocked(waiter).client.is_in_doubt() {
            // Its session has it rechecked if it may wait on.
            continue;
        }
        if services.claims >= CLAIMED_BY_WORKER && tx.serves_within_budget() {
            return Err(Refusal::Heavy);
        }
        // Its session may have ended the wait this moment.
        if !waiter.claim() {
            over.push(place);
            continue;
        }
        services.claims += 1;
        let standing = standing.clone();
        services.claimed = Some(Arc::clone(&standing.waiter));
        let result = serve_waiter(server, tx, &standing);
        services.claimed = None;
        match result {
            Ok(service) if service.is_over => {
                services.done.push(service);
                over.push(place);
                kind = kind_of(tx)?;
            }
            Ok(service) => {
                // Nothing for it, yet the look may have changed something, or met what had expired.
                let has_more = service.effects.changes() > 0 || service.effects.has_followers();
                services.done.extend(Some(service).filter(|_| has_more));
                kind = kind_of(tx)?;
                release_claim(server, &standing.waiter, &services.wakes);
                let blocked = blocked(&standing.waiter);
                if blocked.again.load(Ordering::Relaxed) != NEVER {
                    // Its session sets its timer anew.
                    server.mailboxes.signal(&blocked.client, Signal::Served, &services.wakes);
                }
            }
            Err(refusal) => {
                release_claim(server, &standing.waiter, &services.wakes);
                return Err(refusal);
            }
        }
    }
    Ok(())
}

/// Lets a claimed waiter wait on; its session is told if it wanted to give up meanwhile.
fn release_claim(server: &Shared, waiter: &Waiter, wakes: &PendingWakes) {
    if waiter.wait_on() {
        server.mailboxes.signal(&blocked(waiter).client, Signal::Served, wakes);
    }
}

/// Runs what may serve a claimed waiter, whose wait is over unless there is still nothing for it.
fn serve_waiter(server: &Shared, tx: &mut Tx, standing: &QueuedWaiter) -> Result<Service, Refusal> {
    let waiter = &standing.waiter;
    let blocked = blocked(waiter);
    let home = tx.switch_database(blocked.database);
    tx.modify_for(blocked.client.id);
    let mut output = Output::new();
    failpoint::trigger_at_service(tx.options().heavy);
    let (mut served, mut answer) = ((OwnedArgs::default(), None, false), ServedWith::Element);
    let requests = match blocked.is_demoted(server) {
        true => smallvec::SmallVec::default(),
        false => blocked.ask(tx, waiter, standing.nth),
    };
    for request in requests {
        let result = if let Some(refusal) = refuse_late(server, blocked.entry) {
            answer = ServedWith::Refusal;
            Some(Some(refuse(&refusal, blocked, &mut output)))
        } else {
            run_request(server, tx, blocked, request.as_args(), &mut output)?
        };
        let is_over = result.is_some();
        served = (request, result.flatten(), is_over);
        if is_over {
            break;
        }
    }
    tx.finish_command();
    let effects = tx.take_effects();
    tx.switch_database(home);
    let (request, error, is_over) = served;
    if error.is_some() && answer == ServedWith::Element {
        answer = ServedWith::Error;
    }
    Ok(Service { waiter: Arc::clone(waiter), request, effects, output, answer, error, is_over })
}

/// Runs a request for a waiter; the code of the error if it was answered with one. Nothing if there
/// is nothing for it.
fn run_request(
    server: &Shared,
    tx: &mut Tx,
    blocked: &BlockedClient,
    args: Args<'_>,
    output: &mut Output,
) -> Result<Option<Option<String>>, Refusal> {
    let Run::Data(handler) = blocked.entry.run else { unreachable!("only data is waited for") };
    let BlockedClient { client, entry, resp, .. } = blocked;
    let mut call = HandlerCall { handler, args, resp: *resp };
    let served = ServedRequest { server, client: Some(client.id), entry, args };
    let mut run = |tx: &mut Tx| served.serve(|| handler::attempt(tx, output, &mut call));
    match if tx.serves_within_budget() { run(tx) } else { tx.without_budget(run) } {
        AttemptEnd::Replied => Ok(Some(None)),
        AttemptEnd::Wait(wait) => {
            // Its other keys may have an earlier time.
            blocked.again.fetch_min(wait.again.unwrap_or(NEVER), Ordering::Relaxed);
            Ok(None)
        }
        AttemptEnd::Widen => Err(Refusal::Widen),
        AttemptEnd::Failed(refusal) => Ok(Some(Some(stats::code(line_of(&refusal)).to_owned()))),
        AttemptEnd::Heavy => Err(Refusal::Heavy),
    }
}

/// What keeps a blocking command from what is there for it by now. As in Redis it is one that runs
/// for the first time then, and it may be served by its own clock, with no command that has passed
/// a gate. Its session sees to its rights, and to what makes it wait.
#[inline]
fn refuse_late(server: &Shared, entry: &CommandEntry) -> Option<Refusal> {
    let flags = entry.spec.flags;
    let garbage = server.keyspace.lazy_free_queue().bytes();
    let refusals = &server.gates.write_refusals;
    refusals
        .refuse(&server.config, &server.journal, flags, Role::Any)
        .or_else(|| server.memory.budget.refuse_late(&server.config, flags, 0, garbage))
}

/// Writes an error for a waiter; its code.
fn refuse(refusal: &Refusal, blocked: &BlockedClient, output: &mut Output) -> String {
    stats::code(write_refusal(refusal, &mut Reply::new(output, blocked.resp))).to_owned()
}

impl Services {
    /// Puts everyone back where they stood.
    fn undo(self, server: &Shared, tx: &mut Tx) {
        let over = self.done.iter().filter(|service| service.is_over);
        let claimed = over.map(|service| &service.waiter).chain(&self.claimed);
        claimed.for_each(|waiter| release_claim(server, waiter, &self.wakes));
        if let Some((database, key, queue)) = self.present {
            let home = tx.switch_database(database);
            tx.put_queue(&key, queue);
            tx.switch_database(home);
        }
        for (database, key, standing) in self.taken {
            let home = tx.switch_database(database);
            tx.requeue(&key, standing);
            tx.switch_database(home);
        }
        server.mailboxes.wake(&self.wakes);
    }

    /// Whether nobody was served.
    pub(crate) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// How much was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.done.iter().map(|service| service.effects.changes()).sum()
    }

    /// What was done, for the journal.
    pub(crate) fn commands(&self) -> impl Iterator<Item = CommandEffects<'_, '_>> {
        self.done.iter().map(|service| {
            let (database, args) = (blocked(&service.waiter).database, service.request.as_args());
            CommandEffects { effects: &service.effects, database, args }
        })
    }

    /// Hands the replies over; the transaction that made them was committed at `seen`.
    pub(crate) fn hand_over(self, server: &Shared, seen: ReplyLsn) {
        for service in &self.done {
            server.notify(&self.wakes, &service.effects);
        }
        for service in self.done.into_iter().filter(|service| service.is_over) {
            let Service { waiter, request, effects, output, answer, error, .. } = service;
            let seen = ReplyLsn { is_own: seen.is_own && effects.changes() > 0, ..seen };
            error.iter().for_each(|code| server.observed.stats.errors_of(code, 1));
            let blocked = blocked(&waiter);
            if let Some(reader) = blocked.reader {
                server.remember(reader, blocked.entry.spec, request.as_args());
            }
            *blocked.outcome.lock().expect("no critical section here panics") =
                Some(Served { output, seen, answer });
            waiter.conclude();
            server.mailboxes.signal(&blocked.client, Signal::Served, &self.wakes);
        }
        server.mailboxes.wake(&self.wakes);
    }
}

/// Says that there is nothing.
pub(crate) fn reply_empty(empty: EmptyReply, reply: &mut Reply<'_>) {
    match empty {
        EmptyReply::Null => reply.null(),
        EmptyReply::NullArray => reply.null_array(),
    }
}
