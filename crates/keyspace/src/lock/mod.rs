//! Partition locks: who may touch a partition, and who waits for it without a thread.
//!
//! A lock is one word: HELD, and QUEUED while tickets wait. Taking a free lock and giving back one
//! nobody queues for is one compare-and-swap. A busy lock is not waited for: the caller queues a
//! `Ticket` with a waker in the parking lot and goes away.
//!
//! Two kinds of tickets: a *hopeful* one is woken when the lock comes free and tries again with
//! everybody else; an *insisting* one (its owner was beaten several times) is handed the lock
//! itself, so nobody starves. Invariants:
//! - QUEUED is set whenever a ticket of the partition is queued (both change under the lot's
//!   mutex), so a release cannot miss it;
//! - whoever is handed a lock owns it until it releases it; dropping a granted ticket releases.

pub(crate) mod acquisition;
pub(crate) mod partition;

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use partition::PartitionIndex;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, lock, spin_loop};

const HELD: u32 = 1;
const QUEUED: u32 = 2;

/// How often a busy lock is looked at before the caller goes away: a few microseconds, longer
/// than almost any command holds one, shorter than a park and a wake.
const SPINS: u32 = 200;

/// One partition's lock word.
pub(crate) struct LockWord(AtomicU32);

/// The queues of all locks, in a few independently locked lots.
pub(crate) struct ParkingLot {
    lots: Box<[Mutex<VecDeque<Parked>>]>,
}

/// A place in a lock's queue.
pub(crate) struct Ticket {
    shared: Arc<TicketState>,
    index: PartitionIndex,
}

struct Parked {
    index: PartitionIndex,
    ticket: Arc<TicketState>,
    waker: Waker,
}

struct TicketState {
    /// WAITING, then WOKEN (try again) or GRANTED (the lock is yours).
    state: AtomicU32,
    insists: bool,
}

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

    #[cold]
    fn spin(&self) -> bool {
        for _ in 0..SPINS {
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

    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HELD != 0
    }
}

impl ParkingLot {
    pub(crate) fn new(lots: usize) -> Self {
        Self { lots: (0..lots).map(|_| Mutex::new(VecDeque::new())).collect() }
    }

    /// Queues for a busy lock; `None` if it came free meanwhile and is now held by the caller.
    pub(crate) fn park(
        &self,
        word: &LockWord,
        index: PartitionIndex,
        insists: bool,
        waker: &Waker,
    ) -> Option<Ticket> {
        let mut queue = lock(self.lot(index));
        loop {
            let seen = word.0.load(Ordering::Relaxed);
            let next = if seen & HELD == 0 { seen | HELD } else { seen | QUEUED };
            let swapped = word.0.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed);
            match swapped {
                Ok(_) if seen & HELD == 0 => return None,
                Ok(_) => break,
                Err(_) => {}
            }
        }
        let shared = Arc::new(TicketState { state: AtomicU32::new(WAITING), insists });
        let waker = waker.clone();
        queue.push_back(Parked { index, ticket: Arc::clone(&shared), waker });
        Some(Ticket { shared, index })
    }

    /// Forgets a ticket. If the lock had been handed to it, the lock is now the caller's to
    /// release: `true`.
    pub(crate) fn withdraw(&self, word: &LockWord, ticket: Ticket) -> bool {
        let mut queue = lock(self.lot(ticket.index));
        queue.retain(|parked| !Arc::ptr_eq(&parked.ticket, &ticket.shared));
        if !queue.iter().any(|parked| parked.index == ticket.index) {
            word.0.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        ticket.shared.state.load(Ordering::Acquire) == GRANTED
    }

    /// The slow half of a release: hand the lock to the first who insists, else wake everybody.
    #[cold]
    fn release_queued(&self, word: &LockWord, index: PartitionIndex) {
        let mut queue = lock(self.lot(index));
        let insisting =
            queue.iter().position(|parked| parked.index == index && parked.ticket.insists);
        if let Some(heir) = insisting.and_then(|at| queue.remove(at)) {
            if !queue.iter().any(|parked| parked.index == index) {
                word.0.store(HELD, Ordering::Relaxed);
            }
            heir.ticket.state.store(GRANTED, Ordering::Release);
            drop(queue);
            heir.waker.wake();
            return;
        }
        let mut woken = Vec::new();
        for _ in 0..queue.len() {
            let parked = queue.pop_front().expect("counted above");
            if parked.index == index {
                parked.ticket.state.store(WOKEN, Ordering::Release);
                woken.push(parked.waker);
            } else {
                queue.push_back(parked);
            }
        }
        word.0.store(0, Ordering::Release);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    fn lot(&self, index: PartitionIndex) -> &Mutex<VecDeque<Parked>> {
        &self.lots[usize::from(index) % self.lots.len()]
    }
}

impl Ticket {
    /// Which partition the ticket waits for.
    pub(crate) fn index(&self) -> PartitionIndex {
        self.index
    }

    /// Whether the wait is over. The waker given to `park` is woken when it is.
    pub(crate) fn poll(&self) -> Poll<Woken> {
        match self.shared.state.load(Ordering::Acquire) {
            WAITING => Poll::Pending,
            WOKEN => Poll::Ready(Woken::TryAgain),
            _ => Poll::Ready(Woken::Granted),
        }
    }
}
