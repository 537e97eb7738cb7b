//! A client that waits for keys: what stands for it in their queues, and what it gets.
//!
//! Invariant: whichever way a wait ends, its waiter leaves the queues; no client is served whose
//! session is gone.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::time::UnixMillis;
use commands::Group;
use keyspace::{Acquisition, BlockingKeys, Cancelled, EntryRef, Keyspace, Kind, Tx, Wait, Waiter};
use proto::{Output, OwnedArgs, Resp};
use smallvec::{SmallVec, smallvec};

use super::timer::after;
use crate::clients::client_id::ClientId;
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::{Client, Signal};
use crate::clients::unregistration::{Registered, Unregistration};
use crate::journal::ReplyLsn;
use crate::runtime::background::BETWEEN_LOOKS;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// A blocked client as its server sees it; the owner of a `Waiter`.
pub struct BlockedClient {
    pub(crate) client: Arc<Client>,
    pub(crate) entry: &'static CommandEntry,
    pub(crate) resp: Resp,
    /// Whose copies of what it reads are tracked.
    pub(crate) reader: Option<ClientId>,
    pub(crate) database: usize,
    /// Its keys, each with the request that serves the client once it is ready.
    pub(crate) awaited: Arc<BlockingKeys>,
    /// What these take, here and in the queues.
    pub(crate) memory: usize,
    pub(crate) outcome: Mutex<Option<Served>>,
    /// When its client is to be looked at again; `NEVER` if not by itself.
    pub(crate) again: AtomicI64,
    /// Whether CLIENT UNBLOCK, if it ends the wait, asks for an error.
    pub(crate) ends_with_error: AtomicBool,
    /// How often the server had become a replica when the wait began.
    pub(crate) demotions: u64,
}

/// As a time: not at all.
pub const NEVER: UnixMillis = UnixMillis::MAX;

/// What a blocked client got.
pub struct Served {
    /// Its reply.
    pub output: Output,
    /// What the reply must wait for.
    pub seen: ReplyLsn,
    /// What the reply is: an element, an error of the command, or a refusal.
    pub answer: ServedWith,
}

/// What the reply of a blocked client is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServedWith {
    /// What the client waited for.
    Element,
    /// An error of its command, which ran.
    Error,
    /// What kept its command from running.
    Refusal,
}

/// A client's place in the queues.
pub struct KeyWait {
    pub(crate) server: &'static Shared,
    pub(crate) waiter: Arc<Waiter>,
    /// Whether it stands there still: the service of a client takes it from that one queue.
    pub(crate) stands: Cell<bool>,
}

/// A wait that has begun.
pub struct Waiting {
    pub(crate) place: KeyWait,
    /// Until when it lasts at most, on the monotonic clock in microseconds; for ever if `None`.
    pub(crate) until_us: Option<i64>,
}

impl BlockedClient {
    /// Whether the server has become a replica since the wait began: then the client is told so,
    /// and nobody serves it.
    pub(crate) fn is_demoted(&self, server: &Shared) -> bool {
        self.demotions != server.gates.replica_role.demotions()
    }

    /// What may serve its client now that its `nth` key is ready and others may be by the same
    /// transaction, in this order: its command goes by its own order of keys, whichever changed
    /// first, and one that reads streams reads all of them.
    pub(crate) fn ask(&self, tx: &Tx, waiter: &Waiter, nth: u32) -> SmallVec<[OwnedArgs; 1]> {
        let request = |place: usize| self.awaited.request(place).collect();
        if self.awaited.len() == 1 {
            return smallvec![request(0)];
        }
        let served = self.awaited.key(nth as usize);
        let is_ready = |place: &usize| {
            let key = self.awaited.key(*place);
            let kind = || tx.peek(key).ok().flatten().map(EntryRef::kind);
            // A key that is named twice is in the line of those that are ready no more.
            key == served
                || tx.is_ready(key) && (waiter.wakes_on_deletion() || self.accepts(kind()))
        };
        let ready = (0..self.awaited.len()).filter(is_ready);
        if self.entry.spec.group != Group::Stream {
            return ready.map(request).collect();
        }
        let requests: Vec<OwnedArgs> = ready.map(request).collect();
        let requests: Vec<_> = requests.iter().map(OwnedArgs::as_args).collect();
        // Each ends with one key and one ID.
        let head = requests[0].iter().take(requests[0].len() - 2);
        let ends = |from_end| requests.iter().map(move |args| &args[args.len() - from_end]);
        smallvec![head.chain(ends(2)).chain(ends(1)).collect()]
    }

    /// Whether a value of this type may be what its client waits for.
    pub(crate) fn accepts(&self, kind: Option<Kind>) -> bool {
        match self.entry.spec.group {
            Group::List => kind == Some(Kind::List),
            Group::SortedSet => kind == Some(Kind::SortedSet),
            Group::Stream => kind == Some(Kind::Stream),
            _ => kind.is_some(),
        }
    }
}

/// The command of a client that waits.
#[derive(Clone, Copy)]
pub struct WaitingCommand {
    pub(crate) server: &'static Shared,
    pub(crate) entry: &'static CommandEntry,
    pub(crate) resp: Resp,
    /// Whose copies of what it reads are tracked.
    pub(crate) reader: Option<ClientId>,
}

impl Waiting {
    /// Stands a client in the queues of its keys, whose locks the transaction holds.
    pub(crate) fn begin(
        tx: &mut Tx,
        client: &Arc<Client>,
        work: WaitingCommand,
        wait: Wait,
    ) -> Self {
        let WaitingCommand { server, entry, resp, reader } = work;
        let blocked = BlockedClient {
            memory: memory_of(&wait.awaited),
            client: Arc::clone(client),
            entry,
            resp,
            reader,
            database: tx.database(),
            awaited: Arc::new(wait.awaited),
            outcome: Mutex::default(),
            again: AtomicI64::new(wait.again.unwrap_or(NEVER)),
            ends_with_error: AtomicBool::new(false),
            demotions: server.gates.replica_role.demotions(),
        };
        let waiter = Waiter::new(wait.wakes_on_deletion, Box::new(blocked));
        // The waiter leaves the queues by its end, even where it comes to stand in some only.
        let place = KeyWait { server, waiter: Arc::clone(&waiter), stands: Cell::new(true) };
        for (nth, key) in (0..).zip(self::blocked(&waiter).awaited.keys()) {
            tx.register(key, &waiter, nth).expect("the keys of a command are locked");
        }
        let millis = |deadline| u64::try_from(deadline - tx.now()).unwrap_or(0);
        let left = wait.deadline.map(|deadline| Duration::from_millis(millis(deadline)));
        let until_us = left.map(|left| after(server.keyspace.clock().monotonic_us(), left));
        Self { place, until_us }
    }
}

impl KeyWait {
    /// What the client got, if somebody served it.
    pub fn outcome(&self) -> Option<Served> {
        let BlockedClient { outcome, awaited, .. } = blocked(&self.waiter);
        let served = outcome.lock().expect("no critical section here panics").take();
        if served.is_some() && awaited.len() == 1 {
            self.stands.set(false);
        }
        served
    }

    /// The requests that would serve the client.
    pub fn requests(&self) -> impl Iterator<Item = OwnedArgs> {
        let awaited = &blocked(&self.waiter).awaited;
        (0..awaited.len()).map(|nth| awaited.request(nth).collect())
    }

    /// Ends the wait. `false` if somebody was quicker: the outcome is there or comes in a moment,
    /// with a signal.
    pub fn cancel(&self) -> bool {
        self.waiter.cancel() == Cancelled::Now
    }

    /// Whether the server has become a replica since the wait began.
    pub fn is_demoted(&self) -> bool {
        blocked(&self.waiter).is_demoted(self.server)
    }

    /// Whether CLIENT UNBLOCK or a demotion has ended the wait, and if so, whether with an error.
    /// To be asked where there is no outcome.
    pub fn unblocked(&self) -> Option<bool> {
        if self.is_demoted() && self.cancel() {
            return Some(true);
        }
        let blocked = blocked(&self.waiter);
        // The thread that serves leaves the outcome first, and ends the wait then.
        let is_unserved = self.waiter.is_over()
            && blocked.outcome.lock().expect("no critical section here panics").is_none();
        is_unserved.then(|| blocked.ends_with_error.load(Ordering::Relaxed))
    }

    /// What stands in the queues, for others that end the wait.
    pub fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// When the client is to be looked at again, though nobody changes a key.
    pub fn again(&self) -> Option<UnixMillis> {
        Some(blocked(&self.waiter).again.load(Ordering::Relaxed)).filter(|again| *again != NEVER)
    }

    /// The locks of its keys, which are still to come.
    pub fn acquisition(&self, keyspace: &'static Keyspace) -> Acquisition {
        let keys = blocked(&self.waiter).awaited.keys();
        let partitions = keys.map(|key| keyspace.locate(key).partition());
        Acquisition::of_partitions(keyspace, partitions.collect())
    }

    /// Leaves all queues: what is to be done for that, as their locks come free. Until then the
    /// waiter is passed over.
    pub fn leave(mut self) -> Option<Unregistration> {
        self.cancel();
        self.leaving()
    }

    /// What is to be done for that; nothing where the transaction that served the client did it.
    fn leaving(&mut self) -> Option<Unregistration> {
        if !std::mem::take(self.stands.get_mut()) {
            return None;
        }
        let BlockedClient { database, awaited, .. } = blocked(&self.waiter);
        let waiter = Arc::clone(&self.waiter);
        let registered = Registered::Waiter(waiter, *database, Arc::clone(awaited));
        Some(Unregistration::new(&self.server.unregistrar, registered))
    }
}

impl Drop for KeyWait {
    fn drop(&mut self) {
        // No waiter is to be served whose session is gone, on whatever way that went.
        self.waiter.cancel();
        drop(self.leaving());
    }
}

/// So often is a waiter that is being served looked at again, before there is something better to
/// do: most services are short.
const LOOKS: usize = 1000;

/// Ends a client's wait for keys, with an error or as its timeout would; `false` if it was served,
/// or is over for another reason. From here on no thread serves it; its session is still to be
/// told. `None` if it is being served, and that takes long.
pub fn unblock(waiter: &Waiter, with_error: bool) -> Option<bool> {
    for _ in 0..LOOKS {
        if waiter.is_over() {
            return Some(false);
        }
        blocked(waiter).ends_with_error.store(with_error, Ordering::Relaxed);
        match waiter.cancel() {
            Cancelled::Now => return Some(true),
            Cancelled::TooLate => return Some(false),
            // The thread that serves it is at the end of a transaction, and waits for nothing.
            Cancelled::BeingServed => std::thread::yield_now(),
        }
    }
    None
}

/// Ends the wait of a client that is blocked, with an error or as its timeout would; `false` if it
/// is over, `None` if it is being served, and that takes long. The caller wakes workers when its
/// batch is over.
pub fn end_wait(
    server: &Shared,
    client: &Arc<Client>,
    with_error: bool,
    wakes: &PendingWakes,
) -> Option<bool> {
    let names = client.names();
    // One at a time says how the wait ends.
    let ended = match names.waiter() {
        Some(waiter) => Some(unblock(&waiter, with_error)?),
        None => names.waits_for_keys().then_some(false),
    };
    drop(names);
    let signal = match ended {
        Some(false) => return Some(false),
        Some(true) => Signal::Served,
        None if with_error => Signal::UnblockError,
        None => Signal::Unblock,
    };
    let is_new = server.mailboxes.signal(client, signal, wakes);
    Some(ended.is_some() || is_new)
}

/// As `end_wait`, on a thread that may wait until the client is served.
pub fn await_end_of_wait(server: &Shared, client: &Arc<Client>, with_error: bool) -> bool {
    let wakes = PendingWakes::default();
    loop {
        if let Some(ended) = end_wait(server, client, with_error, &wakes) {
            server.mailboxes.wake(&wakes);
            return ended;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn memory_of(awaited: &BlockingKeys) -> usize {
    /// A key's place in its partition's map, and what its name takes there beside its bytes.
    const PLACE: usize = 96;
    let names: usize = awaited.keys().map(<[u8]>::len).sum();
    awaited.memory() + awaited.len() * PLACE + names
}

/// What the keys that a client waits for take.
pub fn memory(waiter: &Waiter) -> usize {
    blocked(waiter).memory
}

/// The keys that a client waits for and whose end it wants to know, with their database.
pub fn keys_on_nokey(waiter: &Waiter) -> impl Iterator<Item = (usize, &[u8])> {
    let blocked = Some(blocked(waiter)).filter(|_| waiter.wakes_on_deletion());
    blocked
        .into_iter()
        .flat_map(|blocked| blocked.awaited.keys().map(|key| (blocked.database, key)))
}

/// What stands behind a waiter.
pub fn blocked(waiter: &Waiter) -> &BlockedClient {
    waiter.owner().downcast_ref().expect("the server makes all waiters")
}
