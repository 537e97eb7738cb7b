//! Partition locks: which transaction may touch a partition, and which wait for it without a
//! thread.
//!
//! A lock is one word: HELD, LONG while its holder will keep it for long, HANDED until the one that
//! was handed it has come for it, and QUEUED while tickets wait. Taking a free lock and giving back
//! one nobody queues for is one compare-and-swap. A busy lock is not waited for: the caller queues
//! a `Ticket` with a waker in the parking lot and goes away.
//!
//! Two kinds of tickets: a *barging* one is woken when the lock is given back and tries again with
//! everybody else; a *handoff* one (its owner was beaten several times, for long) is handed the
//! lock itself, in turn, so nobody starves. One that holds other locks meanwhile is not queued for
//! a lock that is held for long, and is woken when its holder says so. Invariants:
//! - QUEUED is set exactly while a ticket of the partition is queued (both change under the lot's
//!   mutex), so a release cannot miss it, and only while the lock is held;
//! - a transaction that is handed a lock owns it until it releases it; dropping a granted ticket
//!   releases;
//! - a panic while a queue changes, or before all are woken that are to be, ends the process.

pub(crate) mod acquisition;
pub(crate) mod claims;
pub(crate) mod held_locks;
pub(crate) mod partition;

use std::collections::{BTreeMap, VecDeque};
use std::task::{Poll, Waker};

use base::step_count;

use claims::Claims;
use partition::PartitionIndex;

use crate::critical_section::CriticalSection;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, lock, spin_loop};

const HELD: u32 = 1;
const QUEUED: u32 = 2;
const LONG: u32 = 4;
const HANDED: u32 = 8;

/// How often a busy lock is looked at before the caller goes away: a few microseconds, longer
/// than almost any command holds one, shorter than a park and a wake. Only while its holder is at
/// work and nobody queues.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 200 };

/// One partition's lock word.
pub(crate) struct LockWord(AtomicU32);

/// The queues of all locks, in a few independently locked lots.
pub(crate) struct ParkingLot {
    lots: Box<[Mutex<PartitionQueues>]>,
    claims: Claims,
}

/// The queues of some partitions; only those with a ticket have one.
type PartitionQueues = BTreeMap<PartitionIndex, LockQueue>;

/// The tickets that wait for one lock.
#[derive(Default)]
struct LockQueue {
    barging: Vec<Parked>,
    handoff: VecDeque<Parked>,
}

/// A place in a lock's queue.
pub(crate) struct Ticket {
    shared: Arc<TicketState>,
    index: PartitionIndex,
}

struct Parked {
    ticket: Arc<TicketState>,
    waker: Waker,
    mode: WaitMode,
}

/// How a ticket waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// To be told when it is free.
    Barging,
    /// To be handed it, holding nothing.
    Handoff,
    /// To be handed it, holding others.
    HandoffHolding,
}

/// What came of an attempt to queue for a busy lock.
pub(crate) enum Queued {
    /// The lock came free meanwhile and is now held by the caller.
    Acquired,
    At(Ticket),
    /// The lock is held for long, and the caller holds others.
    Refused,
}

/// WAITING, then WOKEN (try again) or GRANTED (the lock is yours).
struct TicketState(AtomicU32);

const WAITING: u32 = 0;
const WOKEN: u32 = 1;
const GRANTED: u32 = 2;

/// What a wait for a ticket ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The lock came free; try again.
    TryAgain,
    /// The lock is held on behalf of the ticket's owner.
    Granted,
}

impl LockWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        seen & HELD == 0
            && self
                .0
                .compare_exchange(seen, seen | HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes the lock, looking again for a few microseconds if it is busy.
    #[inline]
    pub(crate) fn acquire_spinning(&self) -> bool {
        self.try_acquire() || self.spin()
    }

    /// Whether its holder will keep it for long.
    pub(crate) fn is_held_for_long(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LONG != 0
    }

    /// The holder will keep it for long: waiters that hold others meanwhile do so no more.
    pub(crate) fn prolong(&self, lot: &ParkingLot, index: PartitionIndex) {
        if self.0.fetch_or(LONG, Ordering::Relaxed) & QUEUED != 0 {
            lot.wake_holders(self, index);
        }
    }

    /// The caller has come for the lock that it was handed.
    pub(crate) fn accept_handoff(&self) {
        self.0.fetch_and(!HANDED, Ordering::Relaxed);
    }

    #[cold]
    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) & (QUEUED | LONG | HANDED) != 0 {
                return false;
            }
            spin_loop();
            if self.try_acquire() {
                return true;
            }
        }
        false
    }

    /// Gives the lock back; the caller must hold it.
    #[inline]
    pub(crate) fn release(&self, lot: &ParkingLot, index: PartitionIndex) {
        let uncontended =
            self.0.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_ok();
        if !uncontended {
            lot.release_queued(self, index);
        }
    }
}

impl LockQueue {
    fn is_empty(&self) -> bool {
        self.barging.is_empty() && self.handoff.is_empty()
    }

    fn find_mut(&mut self, ticket: &Ticket) -> Option<&mut Parked> {
        let mut parked = self.barging.iter_mut().chain(&mut self.handoff);
        parked.find(|parked| Arc::ptr_eq(&parked.ticket, &ticket.shared))
    }

    fn remove(&mut self, ticket: &Ticket) -> Option<Parked> {
        let is_it = |parked: &Parked| Arc::ptr_eq(&parked.ticket, &ticket.shared);
        if let Some(at) = self.barging.iter().position(is_it) {
            return Some(self.barging.swap_remove(at));
        }
        let at = self.handoff.iter().position(is_it)?;
        self.handoff.remove(at)
    }
}

impl ParkingLot {
    pub(crate) fn new(lots: usize) -> Self {
        let lots = (0..lots).map(|_| Mutex::new(PartitionQueues::new())).collect();
        Self { lots, claims: Claims::default() }
    }

    /// The claims of what was kept from locks for long.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Queues for a busy lock.
    pub(crate) fn park(
        &self,
        word: &LockWord,
        index: PartitionIndex,
        mode: WaitMode,
        waker: &Waker,
    ) -> Queued {
        step_count::step();
        let mut lot = lock(self.lot(index));
        loop {
            let seen = word.0.load(Ordering::Relaxed);
            if seen & LONG != 0 && mode == WaitMode::HandoffHolding {
                return Queued::Refused;
            }
            let next = if seen & HELD == 0 { seen | HELD } else { seen | QUEUED };
            let swapped = word.0.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed);
            match swapped {
                Ok(_) if seen & HELD == 0 => return Queued::Acquired,
                Ok(_) => break,
                Err(_) => {}
            }
        }
        let shared = Arc::new(TicketState(AtomicU32::new(WAITING)));
        let parked = Parked { ticket: Arc::clone(&shared), waker: waker.clone(), mode };
        let queue = lot.entry(index).or_default();
        match mode {
            WaitMode::Barging => queue.barging.push(parked),
            WaitMode::Handoff | WaitMode::HandoffHolding => queue.handoff.push_back(parked),
        }
        Queued::At(Ticket { shared, index })
    }

    /// Whether a ticket's wait is over; if not, this waker is woken when it is.
    pub(crate) fn poll(&self, ticket: &Ticket, waker: &Waker) -> Poll<Woken> {
        if let Poll::Ready(woken) = ticket.state() {
            return Poll::Ready(woken);
        }
        let mut lot = lock(self.lot(ticket.index));
        if let Some(parked) = lot.get_mut(&ticket.index).and_then(|queue| queue.find_mut(ticket)) {
            parked.waker.clone_from(waker);
        }
        ticket.state()
    }

    /// Forgets a ticket. If the lock had been handed to it, the lock is now the caller's to
    /// release: `true`.
    pub(crate) fn withdraw(&self, word: &LockWord, ticket: &Ticket) -> bool {
        let change = CriticalSection::begin();
        step_count::step();
        let mut lot = lock(self.lot(ticket.index));
        let mut forgotten = None;
        if let Some(queue) = lot.get_mut(&ticket.index) {
            forgotten = queue.remove(ticket);
            if queue.is_empty() {
                lot.remove(&ticket.index);
                word.0.fetch_and(!QUEUED, Ordering::Relaxed);
            }
        }
        drop(lot);
        // Dropped without the mutex, as all wakers are: they may run other people's code.
        drop(forgotten);
        change.end();
        ticket.state() == Poll::Ready(Woken::Granted)
    }

    /// Wakes waiters that hold other locks while they wait for one that is held for long.
    #[cold]
    fn wake_holders(&self, word: &LockWord, index: PartitionIndex) {
        let change = CriticalSection::begin();
        let mut lot = lock(self.lot(index));
        let mut woken = VecDeque::new();
        if let Some(queue) = lot.get_mut(&index) {
            let (holding, others) = std::mem::take(&mut queue.handoff)
                .into_iter()
                .partition(|parked| parked.mode == WaitMode::HandoffHolding);
            queue.handoff = others;
            woken = holding;
            for parked in &woken {
                parked.ticket.0.store(WOKEN, Ordering::Release);
            }
            if queue.is_empty() {
                lot.remove(&index);
                word.0.fetch_and(!QUEUED, Ordering::Relaxed);
            }
        }
        drop(lot);
        step_count::step();
        woken.into_iter().for_each(|parked| parked.waker.wake());
        change.end();
    }

    /// The slow half of a release: hands the lock to the first handoff ticket, and wakes all
    /// barging ones: when they are beaten again they, too, will ask for a handoff.
    #[cold]
    fn release_queued(&self, word: &LockWord, index: PartitionIndex) {
        let change = CriticalSection::begin();
        let mut lot = lock(self.lot(index));
        let queue = lot.get_mut(&index);
        let (barging, heir, left) = queue.map_or((Vec::new(), None, false), |queue| {
            let heir = queue.handoff.pop_front();
            (std::mem::take(&mut queue.barging), heir, !queue.handoff.is_empty())
        });
        if !left {
            lot.remove(&index);
        }
        for parked in &barging {
            parked.ticket.0.store(WOKEN, Ordering::Release);
        }
        // While the lock is held nobody else changes the word without the mutex.
        let next = if heir.is_some() { HELD | HANDED } else { 0 } | if left { QUEUED } else { 0 };
        word.0.store(next, Ordering::Release);
        if let Some(heir) = &heir {
            heir.ticket.0.store(GRANTED, Ordering::Release);
        }
        drop(lot);
        step_count::step();
        heir.into_iter().chain(barging).for_each(|parked| parked.waker.wake());
        change.end();
    }

    fn lot(&self, index: PartitionIndex) -> &Mutex<PartitionQueues> {
        &self.lots[usize::from(index) % self.lots.len()]
    }
}

impl Ticket {
    /// Which partition the ticket waits for.
    pub(crate) fn index(&self) -> PartitionIndex {
        self.index
    }

    fn state(&self) -> Poll<Woken> {
        match self.shared.0.load(Ordering::Acquire) {
            WAITING => Poll::Pending,
            WOKEN => Poll::Ready(Woken::TryAgain),
            _ => Poll::Ready(Woken::Granted),
        }
    }
}
