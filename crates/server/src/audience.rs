//! Audiences: clients that get the same messages. The watchers of MONITOR are one; a channel and
//! its subscribers are another.
//!
//! Invariants: a client stands in the roll of the worker it lives at, or in that of those in
//! transit; messages to an audience have one order, which each member sees.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::clients::Client;
use crate::mailbox::{Mailboxes, Rounds};

/// Some clients, by worker.
#[derive(Default)]
pub(crate) struct Audience {
    size: AtomicUsize,
    rolls: Mutex<Vec<(usize, Arc<Roll>)>>,
}

/// The members that live at one worker.
#[derive(Default)]
pub(crate) struct Roll(Mutex<Vec<Member>>);

struct Member {
    client: Arc<Client>,
    /// The last letter to its worker that came before it did.
    joined_after: u64,
}

impl Audience {
    /// Whether there is nobody: one load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.size.load(Ordering::Relaxed) == 0
    }

    /// Takes a client in that is no member yet. Messages from here on are for it, too.
    pub(crate) fn join(&self, mailboxes: &Mailboxes, lane: usize, client: &Arc<Client>) {
        let mut rolls = self.rolls();
        enlist(&mut rolls, mailboxes, lane, client);
        self.size.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets a member go; messages that have not reached it yet never do.
    pub(crate) fn leave(&self, client: &Client) {
        if strike_off(&mut self.rolls(), client) {
            self.size.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Follows a member to another worker. `settle` hands out the letters that are under way to the
    /// present one: behind it they would not find the member any more, and before it others could
    /// still come, were the audience not locked.
    pub(crate) fn relocate(
        &self,
        mailboxes: &Mailboxes,
        client: &Arc<Client>,
        lane: usize,
        settle: impl FnOnce(),
    ) {
        let mut rolls = self.rolls();
        settle();
        if strike_off(&mut rolls, client) {
            enlist(&mut rolls, mailboxes, lane, client);
        }
    }

    /// Leaves a message for all members; the caller rings when its batch is over.
    pub(crate) fn publish(&self, mailboxes: &Mailboxes, rounds: &Rounds, bytes: &Arc<[u8]>) {
        for (lane, roll) in self.rolls().iter() {
            mailboxes.leave_message(*lane, rounds, roll, bytes);
        }
    }

    fn rolls(&self) -> MutexGuard<'_, Vec<(usize, Arc<Roll>)>> {
        self.rolls.lock().expect("no critical section here panics")
    }
}

fn enlist(
    rolls: &mut Vec<(usize, Arc<Roll>)>,
    mailboxes: &Mailboxes,
    lane: usize,
    client: &Arc<Client>,
) {
    let member = Member { client: Arc::clone(client), joined_after: mailboxes.last_number(lane) };
    if let Some((_, roll)) = rolls.iter().find(|(own, _)| *own == lane) {
        roll.members().push(member);
    } else {
        rolls.push((lane, Arc::new(Roll(Mutex::new(vec![member])))));
    }
}

/// Takes a client off its roll, and the roll out if it is empty then; whether it was there.
fn strike_off(rolls: &mut Vec<(usize, Arc<Roll>)>, client: &Client) -> bool {
    let strike = |members: &mut Vec<Member>| {
        let place = members.iter().position(|member| member.client.id == client.id)?;
        members.swap_remove(place);
        Some(members.is_empty())
    };
    let found = (0..rolls.len()).find_map(|at| Some((at, strike(&mut rolls[at].1.members())?)));
    if let Some((at, true)) = found {
        rolls.swap_remove(at);
    }
    found.is_some()
}

impl Roll {
    /// Gives a message to the members that it is for; how many there are.
    pub(crate) fn deliver(&self, number: u64, bytes: &Arc<[u8]>) -> usize {
        let members = self.members();
        for member in members.iter().filter(|member| member.joined_after < number) {
            member.client.deliver(bytes);
        }
        members.len()
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().expect("no critical section here panics")
    }
}
