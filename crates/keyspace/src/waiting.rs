//! Which clients of blocking commands wait for which key.
//!
//! A waiter is in the queue of each of its keys, in their partitions, under their locks. Three may
//! end its wait: a transaction that makes a key ready, its deadline, and its client's end; the
//! state word lets exactly one of them win.
//!
//! Invariants: queues keep the order of arrival, which is that of the waiters' numbers; a waiter
//! whose wait is over is out of all queues once `unregister` ran, and until then everyone passes
//! over it. To join a queue, to leave it and to find the waiters that a change concerns take no
//! more steps than the logarithm of its length.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WAITING: u8 = 0;
const SERVED_NOW: u8 = 1;
/// As `SERVED_NOW`, and the waiter's session asked to end the wait.
const CANCEL_REQUESTED: u8 = 2;
const OVER: u8 = 3;

/// A client in a blocking command.
pub struct Waiter {
    /// Later waiters have higher ones. The number is given under the locks of the waiter's keys.
    number: u64,
    state: AtomicU8,
    /// Whether the waiter is looked at when a key goes away, too (`XREADGROUP`).
    wakes_on_deletion: bool,
    owner: Box<dyn Any + Send + Sync>,
}

/// What became of an attempt to end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The wait is over, and nobody will serve it any more.
    Now,
    /// The waiter is being served this moment: its outcome comes soon, or it may try again.
    BeingServed,
    /// The waiter has been served already.
    TooLate,
}

/// The queues of a partition: by logical database and key.
#[derive(Default)]
pub(crate) struct WaitingKeys(HashMap<NamedKey, WaitQueue>);

/// The waiters for one key, the first to come in front. Mostly that is one, which takes no memory
/// beside its place here.
pub struct WaitQueue(QueueRepr);

enum QueueRepr {
    One(QueuedWaiter),
    /// Several, or some that are left of several; nobody is none.
    Several(Option<Box<Several>>),
}

#[derive(Default)]
struct Several {
    queued: VecDeque<QueuedWaiter>,
    /// How many of them are looked at when the key goes away.
    wakes_on_deletion: usize,
}

/// A waiter's place in the queue of one of its keys.
#[derive(Clone)]
pub struct QueuedWaiter {
    /// The waiter.
    pub waiter: Arc<Waiter>,
    /// Which of its keys this is the queue of, in the waiter's own order.
    pub nth: u32,
}

/// A key of a logical database.
pub(crate) type NamedKey = (usize, Box<[u8]>);

/// Keys that clients which wait for them are to be told of, each once, in the order of their
/// changes. Most transactions have none, which is one word.
#[derive(Default)]
pub(crate) struct ReadyKeys(Option<Box<DistinctQueue<NamedKey>>>);

/// A queue without duplicates. No step takes longer because the queue is long.
struct DistinctQueue<T> {
    order: VecDeque<T>,
    known: HashSet<T>,
}

impl Waiter {
    /// A waiter that nobody knows yet. `owner` is whatever is needed to serve it.
    #[must_use]
    pub fn new(wakes_on_deletion: bool, owner: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        /// The number of the next one.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, state: AtomicU8::new(WAITING), wakes_on_deletion, owner })
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

    /// The waiter was served: the wait is over.
    pub fn conclude(&self) {
        let before = self.state.swap(OVER, Ordering::AcqRel);
        debug_assert!(
            matches!(before, SERVED_NOW | CANCEL_REQUESTED),
            "only who claimed it concludes"
        );
    }

    /// The waiter could not be served after all and waits on. Tells whether its session tried to
    /// give up meanwhile, and is to be woken to try again.
    #[must_use]
    pub fn wait_on(&self) -> bool {
        let before = self.state.swap(WAITING, Ordering::AcqRel);
        debug_assert!(
            matches!(before, SERVED_NOW | CANCEL_REQUESTED),
            "only who claimed it lets it wait on"
        );
        before == CANCEL_REQUESTED
    }

    /// Ends the wait without being served: its time is over, or its client is gone.
    pub fn cancel(&self) -> Cancelled {
        if self.turn(WAITING, OVER) {
            return Cancelled::Now;
        }
        if self.turn(SERVED_NOW, CANCEL_REQUESTED) {
            return Cancelled::BeingServed;
        }
        // The waiter may wait on since the first look.
        match self.state.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Cancelled::Now,
            Err(OVER) => Cancelled::TooLate,
            Err(_) => Cancelled::BeingServed,
        }
    }

    /// Whether the waiter is looked at when a key goes away, too.
    #[must_use]
    pub fn wakes_on_deletion(&self) -> bool {
        self.wakes_on_deletion
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

    /// Puts a waiter into a key's queue, unless it is there already; the key is the waiter's
    /// `nth`.
    pub(crate) fn add(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>, nth: u32) {
        let queued = QueuedWaiter { waiter: Arc::clone(waiter), nth };
        self.0.entry((database, key.into())).or_default().join(queued);
    }

    /// Takes a waiter out of a key's queue.
    pub(crate) fn remove(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let name = (database, key.into());
        let Some(queue) = self.0.get_mut(&name) else { return };
        queue.leave(waiter);
        if queue.is_empty() {
            self.0.remove(&name);
            fit(&mut self.0);
        }
    }

    /// Takes a key's queue out.
    pub(crate) fn take(&mut self, database: usize, key: &[u8]) -> WaitQueue {
        self.0.remove(&(database, Box::from(key))).unwrap_or_default()
    }

    /// Puts a queue back.
    pub(crate) fn put(&mut self, database: usize, key: &[u8], queue: WaitQueue) {
        if queue.is_empty() {
            fit(&mut self.0);
        } else {
            self.0.insert((database, key.into()), queue);
        }
    }

    /// Whether anybody waits for a key to come, or for it to go.
    pub(crate) fn wakes_on(&self, database: usize, key: &[u8], gone: bool) -> bool {
        self.0.get(&(database, Box::from(key))).is_some_and(|queue| queue.wakes_on(gone))
    }

    /// All keys that somebody waits for, with their logical databases and queues.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (usize, &[u8], &WaitQueue)> {
        self.0.iter().map(|((database, key), queue)| (*database, &**key, queue))
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self(QueueRepr::Several(None))
    }
}

impl WaitQueue {
    /// Whether the queue has no waiter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many waiters the queue has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            QueueRepr::One(_) => 1,
            QueueRepr::Several(several) => several.as_ref().map_or(0, |it| it.queued.len()),
        }
    }

    /// The waiter at a place, from the front.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&QueuedWaiter> {
        match &self.0 {
            QueueRepr::One(queued) => (place == 0).then_some(queued),
            QueueRepr::Several(several) => several.as_ref()?.queued.get(place),
        }
    }

    /// Whether a waiter in the queue is looked at when the key goes away.
    #[must_use]
    pub fn wakes_on_deletion(&self) -> bool {
        match &self.0 {
            QueueRepr::One(queued) => queued.waiter.wakes_on_deletion,
            QueueRepr::Several(several) => {
                several.as_ref().is_some_and(|it| it.wakes_on_deletion > 0)
            }
        }
    }

    /// Whether a waiter of the queue is looked at when the key came or changed, or is `gone`.
    pub(crate) fn wakes_on(&self, gone: bool) -> bool {
        let wakes_on = |waiter: &Waiter| !waiter.is_over() && (!gone || waiter.wakes_on_deletion);
        let all = (0..self.len()).filter_map(|place| self.get(place));
        (!gone || self.wakes_on_deletion()) && all.into_iter().any(|it| wakes_on(&it.waiter))
    }

    /// Puts a waiter where its number puts it, unless the queue has it already.
    pub fn join(&mut self, queued: QueuedWaiter) {
        if self.is_empty() {
            self.0 = QueueRepr::One(queued);
            return;
        }
        if let QueueRepr::One(first) = &self.0 {
            let mut several = Box::<Several>::default();
            several.join(first.clone());
            self.0 = QueueRepr::Several(Some(several));
        }
        let QueueRepr::Several(Some(several)) = &mut self.0 else {
            unreachable!("it is not empty")
        };
        several.join(queued);
    }

    /// Takes out those at these places, which rise.
    pub fn take_out(&mut self, places: &[usize]) -> Vec<QueuedWaiter> {
        let taken = match std::mem::take(self).0 {
            QueueRepr::One(queued) if places.is_empty() => {
                self.0 = QueueRepr::One(queued);
                Vec::new()
            }
            QueueRepr::One(queued) => vec![queued],
            QueueRepr::Several(mut several) => {
                let taken = several.as_mut().map_or(Vec::new(), |it| it.take_out(places));
                self.0 = QueueRepr::Several(several);
                taken
            }
        };
        self.fit();
        taken
    }

    fn leave(&mut self, waiter: &Waiter) {
        match &mut self.0 {
            QueueRepr::One(queued) if queued.waiter.number == waiter.number => {
                *self = Self::default();
            }
            QueueRepr::One(_) | QueueRepr::Several(None) => {}
            QueueRepr::Several(Some(several)) => several.leave(waiter),
        }
        self.fit();
    }

    /// Keeps nothing where nobody is left.
    fn fit(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

impl Several {
    fn join(&mut self, queued: QueuedWaiter) {
        if let Err(place) = self.place_of(&queued.waiter) {
            self.wakes_on_deletion += usize::from(queued.waiter.wakes_on_deletion);
            self.queued.insert(place, queued);
        }
    }

    fn take_out(&mut self, places: &[usize]) -> Vec<QueuedWaiter> {
        let in_front = places.last().is_none_or(|last| last + 1 == places.len());
        let taken: Vec<_> = if in_front {
            self.queued.drain(..places.len()).collect()
        } else {
            let (mut place, mut left, mut taken) = (0, places.iter().peekable(), Vec::new());
            self.queued.retain(|queued| {
                let leaves = left.next_if(|next| **next == place).is_some();
                taken.extend(leaves.then(|| queued.clone()));
                place += 1;
                !leaves
            });
            taken
        };
        self.wakes_on_deletion -= taken.iter().filter(|it| it.waiter.wakes_on_deletion).count();
        self.fit();
        taken
    }

    fn leave(&mut self, waiter: &Waiter) {
        if let Ok(place) = self.place_of(waiter) {
            self.wakes_on_deletion -= usize::from(waiter.wakes_on_deletion);
            self.queued.remove(place);
            self.fit();
        }
    }

    fn fit(&mut self) {
        let length = self.queued.len();
        if self.queued.capacity() > 4 * length + SPARE {
            self.queued.shrink_to(2 * length);
        }
    }

    fn place_of(&self, waiter: &Waiter) -> Result<usize, usize> {
        self.queued.binary_search_by_key(&waiter.number, |it| it.waiter.number)
    }
}

impl ReadyKeys {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |keys| keys.order.len())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a key unless it is among them.
    pub(crate) fn add(&mut self, database: usize, key: &[u8]) {
        self.0.get_or_insert_default().add((database, key.into()));
    }

    /// Whether a key is among them.
    pub(crate) fn has(&self, database: usize, key: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|keys| keys.known.contains(&(database, key.into())))
    }

    /// Takes the first one out.
    pub(crate) fn next(&mut self) -> Option<NamedKey> {
        let keys = self.0.as_mut()?;
        let first = keys.next();
        if keys.order.is_empty() {
            self.0 = None;
        }
        first
    }

    /// Forgets all but so many of the first.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Some(keys) if len > 0 => keys.truncate(len),
            _ => self.0 = None,
        }
    }
}

impl<T> Default for DistinctQueue<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), known: HashSet::new() }
    }
}

impl<T: Clone + Eq + Hash> DistinctQueue<T> {
    fn add(&mut self, one: T) {
        if self.known.insert(one.clone()) {
            self.order.push_back(one);
        }
    }

    fn next(&mut self) -> Option<T> {
        let first = self.order.pop_front()?;
        self.known.remove(&first);
        Some(first)
    }

    fn truncate(&mut self, len: usize) {
        for one in self.order.drain(len.min(self.order.len())..) {
            self.known.remove(&one);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};

    use std::sync::Arc;

    use super::{DistinctQueue, QueuedWaiter, WaitQueue, Waiter};

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts how often one is compared.
    #[derive(Clone, Eq)]
    struct Counted(usize);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    fn waiter(wakes_on_deletion: bool) -> Arc<Waiter> {
        Waiter::new(wakes_on_deletion, Box::new(()))
    }

    /// A queue of however many does as a list does that is sorted by arrival.
    #[test]
    fn a_queue_of_one_and_of_several_do_the_same() {
        let waiters: Vec<_> = (0..6).map(|number| waiter(number % 3 == 0)).collect();
        let mut random = base::random::Random::from_seed(14);
        let (mut queue, mut model) = (WaitQueue::default(), Vec::<usize>::new());
        for _ in 0..5_000 {
            let number = random.below(6) as usize;
            match random.below(4) {
                0 | 1 => {
                    queue.join(QueuedWaiter { waiter: Arc::clone(&waiters[number]), nth: 0 });
                    if !model.contains(&number) {
                        model.push(number);
                        model.sort_unstable();
                    }
                }
                2 => {
                    queue.leave(&waiters[number]);
                    model.retain(|it| *it != number);
                }
                _ => {
                    let places: Vec<_> =
                        (0..model.len()).filter(|_| random.below(3) == 0).collect();
                    let taken = queue.take_out(&places);
                    let expected: Vec<_> = places.iter().map(|place| model[*place]).collect();
                    let same = taken.iter().zip(&expected);
                    assert!(taken.len() == expected.len());
                    assert!(
                        same.into_iter().all(|(it, one)| Arc::ptr_eq(&it.waiter, &waiters[*one]))
                    );
                    model.retain(|it| !expected.contains(it));
                }
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            let wakes_on_deletion = model.iter().any(|number| number % 3 == 0);
            assert_eq!(
                (queue.wakes_on_deletion(), queue.wakes_on(true)),
                (wakes_on_deletion, wakes_on_deletion)
            );
            assert_eq!(queue.wakes_on(false), !model.is_empty());
            for (place, number) in model.iter().enumerate() {
                let queued = queue.get(place).expect("the model has it");
                assert!(Arc::ptr_eq(&queued.waiter, &waiters[*number]));
            }
            assert!(queue.get(model.len()).is_none());
        }
        drop(queue);
        assert!(waiters.iter().all(|waiter| Arc::strong_count(waiter) == 1));
    }

    #[test]
    fn a_queue_of_one_takes_no_more_than_its_place() {
        assert_eq!(size_of::<WaitQueue>(), size_of::<QueuedWaiter>());
    }

    #[test]
    fn a_distinct_queue_compares_each_with_few_others_however_long_it_is() {
        const MANY: usize = 20_000;
        let mut distinct = DistinctQueue::default();
        for _ in 0..2 {
            (0..MANY).for_each(|number| distinct.add(Counted(number)));
        }
        distinct.truncate(MANY / 2);
        assert_eq!(std::iter::from_fn(|| distinct.next()).count(), MANY / 2);
        assert!(COMPARED.get() < 4 * MANY, "{}", COMPARED.get());
    }
}
