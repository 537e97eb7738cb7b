//! Who waits for which key: the clients of blocking commands.
//!
//! A waiter stands in the queue of each of its keys, in their partitions, under their locks. Three
//! may end its wait: who makes a key ready, its deadline, and its client's end; the state word lets
//! exactly one of them win.
//!
//! Invariants: queues keep the order of arrival, which is that of the waiters' numbers; a waiter
//! whose wait is over is out of all queues once `unregister` ran, and until then everyone passes
//! over it. To join a queue, to leave it and to find whom a change concerns take no more steps than
//! the logarithm of its length.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WAITING: u8 = 0;
const SERVED_NOW: u8 = 1;
/// As `SERVED_NOW`, and its session would like to give up.
const WEARY: u8 = 2;
const OVER: u8 = 3;

/// A client in a blocking command.
pub struct Waiter {
    /// Later waiters have higher ones. It is given under the locks of the waiter's keys.
    number: u64,
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
pub(crate) struct WaitingKeys(HashMap<NamedKey, Queue>);

/// Those who wait for one key, the first to come in front. Mostly that is one, who takes no memory
/// beside its place here.
pub struct Queue(Standings);

enum Standings {
    One(Standing),
    /// Several, or some that are left of several; nobody is none.
    Several(Option<Box<Several>>),
}

#[derive(Default)]
struct Several {
    standing: VecDeque<Standing>,
    /// How many of them want to know when the key goes away.
    heedful: usize,
}

/// A waiter's place in the queue of one of its keys.
#[derive(Clone)]
pub struct Standing {
    /// The waiter.
    pub waiter: Arc<Waiter>,
    /// Which of its keys this is the queue of, in the waiter's own order.
    pub nth: u32,
}

/// A key of a logical database.
pub(crate) type NamedKey = (usize, Box<[u8]>);

/// Keys that those who wait for them are to be told of, each once, in the order of their changes.
/// Most transactions have none, which is one word.
#[derive(Default)]
pub(crate) struct ReadyKeys(Option<Box<Line<NamedKey>>>);

/// Distinct things in a line. No step takes longer because it is long.
struct Line<T> {
    order: VecDeque<T>,
    known: HashSet<T>,
}

impl Waiter {
    /// A waiter that nobody knows yet. `owner` is whatever is needed to serve it.
    #[must_use]
    pub fn new(heeds_deletion: bool, owner: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        /// The number of the next one.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, state: AtomicU8::new(WAITING), heeds_deletion, owner })
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

    /// Puts a waiter into a key's queue, unless it stands there already; the key is the waiter's
    /// `nth`.
    pub(crate) fn add(&mut self, database: usize, key: &[u8], waiter: &Arc<Waiter>, nth: u32) {
        let standing = Standing { waiter: Arc::clone(waiter), nth };
        self.0.entry((database, key.into())).or_default().join(standing);
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
        self.0.get(&(database, Box::from(key))).is_some_and(|queue| queue.heeds(gone))
    }

    /// All keys that somebody waits for, with their logical databases and queues.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (usize, &[u8], &Queue)> {
        self.0.iter().map(|((database, key), queue)| (*database, &**key, queue))
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self(Standings::Several(None))
    }
}

impl Queue {
    /// Whether nobody stands in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many stand in it.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Standings::One(_) => 1,
            Standings::Several(several) => several.as_ref().map_or(0, |it| it.standing.len()),
        }
    }

    /// Who stands at a place, from the front.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Standing> {
        match &self.0 {
            Standings::One(standing) => (place == 0).then_some(standing),
            Standings::Several(several) => several.as_ref()?.standing.get(place),
        }
    }

    /// Whether somebody in it wants to know when the key goes away.
    #[must_use]
    pub fn heeds_deletion(&self) -> bool {
        match &self.0 {
            Standings::One(standing) => standing.waiter.heeds_deletion,
            Standings::Several(several) => several.as_ref().is_some_and(|it| it.heedful > 0),
        }
    }

    /// Whether anybody who waits on heeds a key that came or changed, or one that is `gone`.
    pub(crate) fn heeds(&self, gone: bool) -> bool {
        let heeds = |waiter: &Waiter| !waiter.is_over() && (!gone || waiter.heeds_deletion);
        let all = (0..self.len()).filter_map(|place| self.get(place));
        (!gone || self.heeds_deletion()) && all.into_iter().any(|it| heeds(&it.waiter))
    }

    /// Stands a waiter where its number puts it, unless it stands there already.
    pub fn join(&mut self, standing: Standing) {
        if self.is_empty() {
            self.0 = Standings::One(standing);
            return;
        }
        if let Standings::One(first) = &self.0 {
            let mut several = Box::<Several>::default();
            several.join(first.clone());
            self.0 = Standings::Several(Some(several));
        }
        let Standings::Several(Some(several)) = &mut self.0 else {
            unreachable!("it is not empty")
        };
        several.join(standing);
    }

    /// Takes out those at these places, which rise.
    pub fn take_out(&mut self, places: &[usize]) -> Vec<Standing> {
        let taken = match std::mem::take(self).0 {
            Standings::One(standing) if places.is_empty() => {
                self.0 = Standings::One(standing);
                Vec::new()
            }
            Standings::One(standing) => vec![standing],
            Standings::Several(mut several) => {
                let taken = several.as_mut().map_or(Vec::new(), |it| it.take_out(places));
                self.0 = Standings::Several(several);
                taken
            }
        };
        self.fit();
        taken
    }

    fn leave(&mut self, waiter: &Waiter) {
        match &mut self.0 {
            Standings::One(standing) if standing.waiter.number == waiter.number => {
                *self = Self::default();
            }
            Standings::One(_) | Standings::Several(None) => {}
            Standings::Several(Some(several)) => several.leave(waiter),
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
    fn join(&mut self, standing: Standing) {
        if let Err(place) = self.place_of(&standing.waiter) {
            self.heedful += usize::from(standing.waiter.heeds_deletion);
            self.standing.insert(place, standing);
        }
    }

    fn take_out(&mut self, places: &[usize]) -> Vec<Standing> {
        let in_front = places.last().is_none_or(|last| last + 1 == places.len());
        let taken: Vec<_> = if in_front {
            self.standing.drain(..places.len()).collect()
        } else {
            let (mut place, mut left, mut taken) = (0, places.iter().peekable(), Vec::new());
            self.standing.retain(|standing| {
                let leaves = left.next_if(|next| **next == place).is_some();
                taken.extend(leaves.then(|| standing.clone()));
                place += 1;
                !leaves
            });
            taken
        };
        self.heedful -= taken.iter().filter(|it| it.waiter.heeds_deletion).count();
        self.fit();
        taken
    }

    fn leave(&mut self, waiter: &Waiter) {
        if let Ok(place) = self.place_of(waiter) {
            self.heedful -= usize::from(waiter.heeds_deletion);
            self.standing.remove(place);
            self.fit();
        }
    }

    fn fit(&mut self) {
        let length = self.standing.len();
        if self.standing.capacity() > 4 * length + SPARE {
            self.standing.shrink_to(2 * length);
        }
    }

    fn place_of(&self, waiter: &Waiter) -> Result<usize, usize> {
        self.standing.binary_search_by_key(&waiter.number, |it| it.waiter.number)
    }
}

impl ReadyKeys {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |line| line.order.len())
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
        self.0.as_ref().is_some_and(|line| line.known.contains(&(database, key.into())))
    }

    /// Takes the first one out.
    pub(crate) fn next(&mut self) -> Option<NamedKey> {
        let line = self.0.as_mut()?;
        let first = line.next();
        if line.order.is_empty() {
            self.0 = None;
        }
        first
    }

    /// Forgets all but so many of the first.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Some(line) if len > 0 => line.truncate(len),
            _ => self.0 = None,
        }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), known: HashSet::new() }
    }
}

impl<T: Clone + Eq + Hash> Line<T> {
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

    use super::{Line, Queue, Standing, Waiter};

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

    fn waiter(heeds_deletion: bool) -> Arc<Waiter> {
        Waiter::new(heeds_deletion, Box::new(()))
    }

    /// A queue of however many does as a list does that is sorted by arrival.
    #[test]
    fn a_queue_of_one_and_of_several_do_the_same() {
        let waiters: Vec<_> = (0..6).map(|number| waiter(number % 3 == 0)).collect();
        let mut random = base::random::Random::from_seed(14);
        let (mut queue, mut model) = (Queue::default(), Vec::<usize>::new());
        for _ in 0..5_000 {
            let number = random.below(6) as usize;
            match random.below(4) {
                0 | 1 => {
                    queue.join(Standing { waiter: Arc::clone(&waiters[number]), nth: 0 });
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
            let heedful = model.iter().any(|number| number % 3 == 0);
            assert_eq!((queue.heeds_deletion(), queue.heeds(true)), (heedful, heedful));
            assert_eq!(queue.heeds(false), !model.is_empty());
            for (place, number) in model.iter().enumerate() {
                let standing = queue.get(place).expect("the model has it");
                assert!(Arc::ptr_eq(&standing.waiter, &waiters[*number]));
            }
            assert!(queue.get(model.len()).is_none());
        }
        drop(queue);
        assert!(waiters.iter().all(|waiter| Arc::strong_count(waiter) == 1));
    }

    #[test]
    fn a_queue_of_one_takes_no_more_than_its_place() {
        assert_eq!(size_of::<Queue>(), size_of::<Standing>());
    }

    #[test]
    fn a_line_compares_each_with_few_others_however_long_it_is() {
        const MANY: usize = 20_000;
        let mut line = Line::default();
        for _ in 0..2 {
            (0..MANY).for_each(|number| line.add(Counted(number)));
        }
        line.truncate(MANY / 2);
        assert_eq!(std::iter::from_fn(|| line.next()).count(), MANY / 2);
        assert!(COMPARED.get() < 4 * MANY, "{}", COMPARED.get());
    }
}
