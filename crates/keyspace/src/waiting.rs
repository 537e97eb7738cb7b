//! Who waits for which key: the clients of blocking commands.
//!
//! A waiter stands in the queue of each of its keys, in their partitions, under their locks. Three
//! may end its wait: who makes a key ready, its deadline, and its client's end; the state word lets
//! exactly one of them win.
//!
//! Invariant: queues keep the order of arrival; a waiter whose wait is over is out of all queues
//! once `unregister` ran, and until then everyone passes over it.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const SERVED_NOW: u8 = 1;
/// As `SERVED_NOW`, and its session would like to give up.
const WEARY: u8 = 2;
const OVER: u8 = 3;

/// A client in a blocking command.
pub struct Waiter {
    state: AtomicU8,
    /// Whether it wants to know when a key goes away too (`XREADGROUP`).
    heeds_deletion: bool,
    owner: Box<dyn Any + Send + Sync>,
}

/// What became of an attempt to give up waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// The wait is over, and nobody will serve it any more.
    Now,
    /// It is being served this moment: its outcome comes soon, or it may try again.
    BeingServed,
    /// It has been served already.
    TooLate,
}

/// The queues of a partition: by logical database and key.
#[derive(Default)]
pub(crate) struct WaitingKeys(HashMap<(usize, Box<[u8]>), Queue>);

/// Those who wait for one key, the first to come in front.
pub type Queue = VecDeque<Arc<Waiter>>;

impl Waiter {
    /// A waiter that nobody knows yet. `owner` is whatever is needed to serve it.
    #[must_use]
    pub fn new(heeds_deletion: bool, owner: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WAITING), heeds_deletion, owner })
    }

    /// Whatever is needed to serve it.
    #[must_use]
    pub fn owner(&self) -> &(dyn Any + Send + Sync) {
        &*self.owner
    }

    /// Claims the waiter for being served; `false` if somebody else ended its wait.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.turn(WAITING, SERVED_NOW)
    }

    /// It was served: the wait is over.
    pub fn conclude(&self) {
        let before = self.state.swap(OVER, Ordering::AcqRel);
        debug_assert!(matches!(before, SERVED_NOW | WEARY), "only who claimed it concludes");
    }

    /// It could not be served after all and waits on. Tells whether its session tried to give up
    /// meanwhile, and is to be woken to try again.
    #[must_use]
    pub fn wait_on(&self) -> bool {
        let before = self.state.swap(WAITING, Ordering::AcqRel);
        debug_assert!(matches!(before, SERVED_NOW | WEARY), "only who claimed it lets it wait on");
        before == WEARY
    }

    /// Ends the wait without being served: its time is over, or its client is gone.
    pub fn give_up(&self) -> GaveUp {
        if self.turn(WAITING, OVER) {
            return GaveUp::Now;
        }
        if self.turn(SERVED_NOW, WEARY) {
            return GaveUp::BeingServed;
        }
        // It may wait on since the first look.
        match self.state.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => GaveUp::Now,
            Err(OVER) => GaveUp::TooLate,
            Err(_) => GaveUp::BeingServed,
        }
    }

    /// Whether it wants to know when a key goes away too.
    #[must_use]
    pub fn heeds_deletion(&self) -> bool {
        self.heeds_deletion
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether its wait has ended, however it did.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVER
    }
}

/// Gives back what a map took when it held much more. Each entry that goes pays for a part, so that
/// a map whose size goes up and down is left as it is.
pub(crate) fn fit<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.is_empty() {
        *map = HashMap::new();
    } else if map.capacity() > 4 * map.len() + SPARE {
        map.shrink_to(2 * map.len());
    }
}

/// Room that may stay though nothing needs it.
const SPARE: usize = 8;

impl WaitingKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many keys somebody waits for.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Puts a waiter at the end of a key's queue, unless it stands there already.
    pub(crate) fn add(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let queue = self.0.entry((database, key.into())).or_default();
        if !queue.iter().rev().take(1).any(|last| Arc::ptr_eq(last, waiter)) {
            queue.push_back(Arc::clone(waiter));
        }
    }

    /// Takes a waiter out of a key's queue.
    pub(crate) fn remove(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let name = (database, key.into());
        let Some(queue) = self.0.get_mut(&name) else { return };
        queue.retain(|other| !Arc::ptr_eq(other, waiter) && !other.is_over());
        if queue.is_empty() {
            self.0.remove(&name);
            fit(&mut self.0);
        } else if queue.capacity() > 4 * queue.len() + SPARE {
            queue.shrink_to(2 * queue.len());
        }
    }

    /// Takes a key's queue out.
    pub(crate) fn take(&mut self, database: usize, key: &[u8]) -> Queue {
        self.0.remove(&(database, Box::from(key))).unwrap_or_default()
    }

    /// Puts a queue back.
    pub(crate) fn put(&mut self, database: usize, key: &[u8], queue: Queue) {
        if queue.is_empty() {
            fit(&mut self.0);
        } else {
            self.0.insert((database, key.into()), queue);
        }
    }

    /// Whether anybody waits for a key to come, or for it to go.
    pub(crate) fn heeds(&self, database: usize, key: &[u8], gone: bool) -> bool {
        let Some(queue) = self.0.get(&(database, Box::from(key))) else { return false };
        queue.iter().any(|waiter| !waiter.is_over() && (!gone || waiter.heeds_deletion))
    }

    /// All keys that somebody waits for, with their logical databases.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.keys().map(|(database, key)| (*database, &**key))
    }
}
