//! Which keys may be the biggest: noted where a value grows past a power of two.
//!
//! Few keys are held, and what falls below the smallest of them costs a comparison. A key that is
//! held may have shrunk or gone since; the caller looks at each, and has it forgotten then.
//!
//! Invariants: so many keys are held at most, none with a long name; of the others that grew while
//! there was room, none that is bigger by a power of two than one that is held was left out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::entry::EntryRef;
use crate::keyspace::Keyspace;
use crate::sizes::power_of;

/// What keys are big by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BigKeyMetric {
    /// The bytes that a key takes.
    Memory,
    /// The elements that its value has.
    Elements,
}

/// So many keys are held for each.
const CANDIDATES: usize = 128;

/// Keys with longer names are not held: copies of names are memory that no eviction frees.
const NAME_MAX: usize = 1024;

/// What is smaller than 1 KB, or has fewer than 128 elements, is not big: the powers below these.
const LEAST: [u8; 2] = [10, 7];

/// Nothing is larger, so nothing is noted.
const OFF: u8 = u8::MAX;

/// A key's database, by its own number, and its name.
type Name = (usize, Box<[u8]>);

/// The keys that may be the biggest.
pub struct BigKeys {
    /// What is to be noted has more than this power; `OFF` for nothing.
    floors: [AtomicU8; 2],
    /// The keys, each with the power that it grew to.
    held: [Mutex<HashMap<Name, u8>>; 2],
}

impl Default for BigKeys {
    fn default() -> Self {
        Self { floors: [OFF, OFF].map(AtomicU8::new), held: Default::default() }
    }
}

impl BigKeys {
    /// Has keys noted from here on, or not; those that were are forgotten.
    pub fn switch(&self, is_on: bool) {
        if self.is_on() == is_on {
            return;
        }
        for (place, held) in self.held.iter().enumerate() {
            let mut held = lock(held);
            held.clear();
            let floor = if is_on { LEAST[place] } else { OFF };
            self.floors[place].store(floor, Ordering::Relaxed);
        }
    }

    /// Whether any is held.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.is_on() && self.held.iter().any(|held| !lock(held).is_empty())
    }

    /// Whether keys are noted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.floors[0].load(Ordering::Relaxed) != OFF
    }

    /// Notes a key whose size was of one power and is of another.
    #[inline]
    pub(crate) fn note<'a>(
        &self,
        by: BigKeyMetric,
        (before, after): (u8, u8),
        name: impl FnOnce() -> (usize, &'a [u8]),
    ) {
        if after > before && after > self.floors[by as usize].load(Ordering::Relaxed) {
            self.hold(by, name(), after);
        }
    }

    #[cold]
    fn hold(&self, by: BigKeyMetric, (database, key): (usize, &[u8]), power: u8) {
        if key.len() > NAME_MAX {
            return;
        }
        let mut held = lock(&self.held[by as usize]);
        if self.is_on() {
            held.insert((database, key.into()), power);
            self.fit(by, &mut held);
        }
    }

    /// Gives up one of the smallest if there are too many, and says what is too small from now on.
    fn fit(&self, by: BigKeyMetric, held: &mut HashMap<Name, u8>) {
        let smallest = |held: &HashMap<Name, u8>| {
            held.iter().min_by_key(|(_, power)| **power).map(|(name, _)| name.clone())
        };
        if held.len() > CANDIDATES
            && let Some(name) = smallest(held)
        {
            held.remove(&name);
        }
        let least = held.values().min().copied().filter(|_| held.len() >= CANDIDATES);
        let floor = least.unwrap_or(0).max(LEAST[by as usize]);
        self.floors[by as usize].store(floor, Ordering::Relaxed);
    }

    fn names(&self, by: BigKeyMetric) -> Vec<Name> {
        lock(&self.held[by as usize]).keys().cloned().collect()
    }

    /// A key turned out to have so much, 0 if it is gone; whether it is big.
    fn renew(&self, by: BigKeyMetric, name: &Name, size: u64) -> bool {
        let power = power_of(size);
        let is_big = power > LEAST[by as usize];
        let mut held = lock(&self.held[by as usize]);
        match held.get_mut(name) {
            Some(known) if is_big => *known = power,
            _ => _ = held.remove(name),
        }
        if self.is_on() {
            self.fit(by, &mut held);
        }
        is_big
    }
}

/// What a key's place in its table takes: a word, and a share of those that are free.
const PLACE_BYTES: usize = 11;

/// What a key takes, with its place.
#[must_use]
pub fn usage(entry: EntryRef<'_>) -> usize {
    entry.memory() + PLACE_BYTES
}

/// How many elements a value has, if it is of a type that has any.
#[must_use]
pub fn elements(entry: EntryRef<'_>) -> Option<u64> {
    entry.stored()?.elements(entry.kind())
}

impl Keyspace {
    /// The keys that may be the biggest.
    #[must_use]
    pub fn big_keys(&self) -> &BigKeys {
        &self.big_keys
    }

    /// The keys that may be the biggest by one of these, each with its logical database.
    #[must_use]
    pub fn big_key_candidates(&self, by: BigKeyMetric) -> Vec<(usize, Box<[u8]>)> {
        let names = self.big_keys.names(by).into_iter();
        names.filter_map(|(physical, key)| Some((self.logical(physical)?, key))).collect()
    }

    /// A key that was one of these turned out to have so much, 0 if it is gone; whether it is big.
    pub fn renew_big_key(&self, by: BigKeyMetric, database: usize, key: &[u8], size: u64) -> bool {
        self.big_keys.renew(by, &(self.physical(database), key.into()), size)
    }

    /// The logical database before a physical one, if clients can select it.
    fn logical(&self, physical: usize) -> Option<usize> {
        let logical = self.databases().logical(physical);
        let is_before = logical < self.database_count() && self.physical(logical) == physical;
        is_before.then_some(logical)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no critical section here panics")
}

#[cfg(test)]
mod tests {
    use super::{BigKeyMetric, BigKeys, CANDIDATES, NAME_MAX};

    fn note(keys: &BigKeys, number: usize, powers: (u8, u8)) {
        let name = number.to_string();
        keys.note(BigKeyMetric::Memory, powers, || (0, name.as_bytes()));
    }

    fn held(keys: &BigKeys) -> usize {
        keys.names(BigKeyMetric::Memory).len()
    }

    #[test]
    fn only_what_grows_to_be_big_is_held() {
        let keys = BigKeys::default();
        note(&keys, 1, (0, 40));
        assert_eq!(held(&keys), 0, "it is off");
        keys.switch(true);
        for powers in [(0, 10), (12, 12), (13, 12), (0, 9)] {
            note(&keys, 1, powers);
            assert_eq!(held(&keys), 0, "{powers:?}");
        }
        note(&keys, 1, (10, 11));
        note(&keys, 1, (11, 12));
        assert_eq!(held(&keys), 1);
        keys.switch(false);
        assert_eq!(held(&keys), 0);
    }

    #[test]
    fn a_key_with_a_long_name_is_not_held() {
        let keys = BigKeys::default();
        keys.switch(true);
        for (length, expected) in [(NAME_MAX + 1, 0), (NAME_MAX, 1)] {
            let name = vec![b'x'; length];
            keys.note(BigKeyMetric::Memory, (0, 30), || (0, &name));
            assert_eq!(held(&keys), expected, "{length}");
        }
    }

    #[test]
    fn the_biggest_stay_when_there_are_too_many() {
        let keys = BigKeys::default();
        keys.switch(true);
        for number in 0..10_000 {
            note(&keys, number, (0, if number % 1000 == 999 { 30 } else { 12 }));
        }
        assert_eq!(held(&keys), CANDIDATES);
        for number in (0..10).map(|thousand| thousand * 1000 + 999) {
            let name = (0, number.to_string().into_bytes().into_boxed_slice());
            assert!(keys.names(BigKeyMetric::Memory).contains(&name), "{number}");
        }
        // Where some have gone there is room again.
        let names = keys.names(BigKeyMetric::Memory);
        names.into_iter().for_each(|name| assert!(!keys.renew(BigKeyMetric::Memory, &name, 0)));
        assert_eq!(held(&keys), 0);
        note(&keys, 1, (0, 12));
        assert_eq!(held(&keys), 1);
    }
}
