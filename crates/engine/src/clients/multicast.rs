//! Subscribers: clients that get the same messages. The watchers of MONITOR are some; a channel has
//! its own.
//!
//! Invariants: a client stands in the list of the worker it lives at, or in that of those in
//! transit; messages to the same subscribers have one order, which each member sees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::{Mailboxes, PendingWakes};
use crate::clients::registry::{Client, Delivery, MessageBatch};

/// Some clients, by worker.
#[derive(Default)]
pub struct Subscribers {
    size: AtomicUsize,
    by_worker: Mutex<Vec<(usize, Arc<WorkerSubscribers>)>>,
}

/// The members that live at one worker.
#[derive(Default)]
pub struct WorkerSubscribers(Mutex<BTreeMap<ClientId, Member>>);

struct Member {
    client: Arc<Client>,
    /// The last letter to its worker that came before it did.
    joined_after: u64,
}

impl Subscribers {
    /// Whether there is nobody: one load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Takes a client in that is no member yet. Messages from here on are for it, too.
    pub fn join(&self, mailboxes: &Mailboxes, lane: usize, client: &Arc<Client>) {
        let mut by_worker = self.by_worker();
        add(&mut by_worker, mailboxes, lane, client);
        self.size.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets a member go. Messages that `settle` does not hand out to it never reach it.
    pub fn leave(&self, client: &Client, settle: impl FnOnce()) {
        let mut by_worker = self.by_worker();
        settle();
        if remove(&mut by_worker, client) {
            self.size.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Leaves a message for all members; the caller wakes workers when its batch is over. Returns
    /// how many members there are.
    pub fn publish(&self, mailboxes: &Mailboxes, wakes: &PendingWakes, bytes: &Arc<[u8]>) -> usize {
        let by_worker = self.by_worker();
        for (lane, subscribers) in by_worker.iter() {
            mailboxes.post_message(*lane, wakes, subscribers, bytes);
        }
        self.len()
    }

    fn by_worker(&self) -> MutexGuard<'_, Vec<(usize, Arc<WorkerSubscribers>)>> {
        self.by_worker.lock().expect("no critical section here panics")
    }
}

/// Follows a subscriber of all these to another worker. `settle` hands out the letters that
/// are under way to the present one: behind it they would not find the member any more, and before
/// it others could still come, were they not locked. All of them are, since messages of
/// two of them have an order, too, where one publisher sent both.
pub fn migrate(
    mut sets: Vec<&Subscribers>,
    mailboxes: &Mailboxes,
    client: &Arc<Client>,
    lane: usize,
    settle: impl FnOnce(),
) {
    if sets.is_empty() {
        return;
    }
    // Only a client that moves holds more than one of them, and all that move lock them in one
    // order.
    sets.sort_unstable_by_key(|&set| std::ptr::from_ref(set).addr());
    let mut locked: Vec<_> = sets.into_iter().map(Subscribers::by_worker).collect();
    settle();
    for by_worker in &mut locked {
        if remove(by_worker, client) {
            add(by_worker, mailboxes, lane, client);
        }
    }
}

fn add(
    by_worker: &mut Vec<(usize, Arc<WorkerSubscribers>)>,
    mailboxes: &Mailboxes,
    lane: usize,
    client: &Arc<Client>,
) {
    let member = Member { client: Arc::clone(client), joined_after: mailboxes.last_number(lane) };
    if let Some((_, subscribers)) = by_worker.iter().find(|(own, _)| *own == lane) {
        subscribers.members().insert(client.id, member);
    } else {
        by_worker.push((
            lane,
            Arc::new(WorkerSubscribers(Mutex::new(BTreeMap::from([(client.id, member)])))),
        ));
    }
}

/// Takes a client off its list, and the list out if it is empty then; whether it was there.
fn remove(by_worker: &mut Vec<(usize, Arc<WorkerSubscribers>)>, client: &Client) -> bool {
    let remove = |members: &mut BTreeMap<ClientId, Member>| {
        members.remove(&client.id)?;
        Some(members.is_empty())
    };
    let found =
        (0..by_worker.len()).find_map(|at| Some((at, remove(&mut by_worker[at].1.members())?)));
    if let Some((at, true)) = found {
        by_worker.swap_remove(at);
    }
    found.is_some()
}

impl WorkerSubscribers {
    /// Gives messages with rising numbers to the members that they are for, and the members that
    /// are to be woken for them to `wake`. Returns how many members there are.
    pub(crate) fn deliver(
        &self,
        messages: &[(u64, Arc<[u8]>)],
        wake: &mut dyn FnMut(&Arc<Client>),
    ) -> usize {
        let later_than = |number: u64| -> MessageBatch {
            let later = messages.iter().filter(|(own, _)| *own > number);
            later.map(|(_, bytes)| Arc::clone(bytes)).collect()
        };
        let (whole, members) = (later_than(0), self.members());
        for member in members.values() {
            let is_early = messages.first().is_some_and(|(first, _)| *first > member.joined_after);
            let messages =
                if is_early { Arc::clone(&whole) } else { later_than(member.joined_after) };
            if !messages.is_empty() && member.client.deliver(Delivery::Messages(messages)) {
                wake(&member.client);
            }
        }
        members.len()
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<ClientId, Member>> {
        self.0.lock().expect("no critical section here panics")
    }
}
