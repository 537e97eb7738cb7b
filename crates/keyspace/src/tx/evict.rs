//! Eviction: looking for keys that are worth least, and removing one.
//!
//! Invariant: a look holds one partition, touches a bounded number of entries and changes nothing;
//! a key is removed only if it is still worth as little as when it was looked at.

use std::cell::Cell;

use base::time::UnixMillis;
use smallvec::SmallVec;

use super::Tx;
use crate::entry::EntryRef;
use crate::history::{Sample, Yardstick};
use crate::lock::partition::PartitionIndex;

/// What makes a key worth least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Its access clock lies furthest back.
    Idle,
    /// It is accessed most seldom.
    Frequency,
    /// It expires first.
    Deadline,
    /// It was not used for long, for as often as it was before and as few bytes as it takes.
    Worth,
    /// Nothing: each is worth the same.
    Random,
}

/// Which keys may be evicted, and which of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which first.
    pub order: Order,
    /// Whether only keys that expire may be.
    pub only_volatile: bool,
}

/// A key that may be evicted.
#[derive(Debug)]
pub struct Candidate {
    /// How little it is worth: who has more goes first.
    pub rank: u64,
    /// Where it is.
    pub partition: PartitionIndex,
    database: usize,
    key: SmallVec<[u8; 32]>,
}

impl Candidate {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether it is the same key.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.partition, self.database, &self.key) == (other.partition, other.database, &other.key)
    }
}

/// Entries passed in search of some that may be evicted, and where only keys that expire may be:
/// then it is their words in the table that are passed, not themselves.
const PASSED: usize = 512;
const WORDS_PASSED: usize = 4096;

impl Tx {
    /// Looks at about `count` keys of a held partition that may be evicted, of any database, from a
    /// random place on; how many there were. All that lie at the same place are looked at, so that
    /// none is passed over for ever. `wants` says whether a key of some rank is of
    /// interest, `offer` gets those that are.
    pub fn look_for_victims(
        &self,
        partition: PartitionIndex,
        rule: Rule,
        random: u64,
        count: usize,
        mut offer: impl FnMut(u64, &mut dyn FnMut() -> Candidate),
    ) -> usize {
        let Some(content) = self.grant.content(partition) else { return 0 };
        let yardstick = self.yardstick(rule);
        let limit = if rule.only_volatile { WORDS_PASSED } else { PASSED };
        let databases = content.databases();
        let (seen, sample) = (Cell::new(0), Cell::new(Sample::default()));
        let mut database = random as usize % databases;
        for _ in 0..databases {
            if let Some(table) = content.table(database).filter(|table| table.len() > 0) {
                let mut look = |entry: EntryRef<'_>| {
                    let Some(rank) = self.rank(rule, entry, random, yardstick) else { return };
                    seen.set(seen.get() + 1);
                    if rule.order == Order::Worth {
                        sample.set(self.with(sample.get(), entry));
                    }
                    let mut candidate = || {
                        let key = SmallVec::from_slice(entry.key());
                        Candidate { rank, partition, database, key }
                    };
                    offer(rank, &mut candidate);
                };
                let (mut from, mut passed, mut has_wrapped) = (random, 0, false);
                while seen.get() < count && passed < limit && !(has_wrapped && from > random) {
                    passed += count;
                    let next = table.walk_together(from, count, rule.only_volatile, &mut look);
                    // Behind the last place comes the first.
                    if next.is_none() && has_wrapped {
                        break;
                    }
                    has_wrapped |= next.is_none();
                    from = next.unwrap_or(0);
                }
            }
            if seen.get() >= count {
                break;
            }
            database = (database + 1) % databases;
        }
        if rule.order == Order::Worth {
            self.keyspace.history().note_look(sample.get());
        }
        seen.get()
    }

    /// The sample with an entry more.
    fn with(&self, sample: Sample, entry: EntryRef<'_>) -> Sample {
        Sample {
            keys: sample.keys + 1,
            late: sample.late + u32::from(self.access.is_late(entry.access_clock())),
            bytes: sample.bytes + entry.memory() as u64,
        }
    }

    /// Evicts a key of a held partition if it is still worth no more; whether it was. `witness` is
    /// shown what goes, with the time and for how many seconds it was not used.
    pub fn evict(
        &mut self,
        candidate: &Candidate,
        rule: Rule,
        witness: impl FnOnce(EntryRef<'_>, UnixMillis, u32),
    ) -> bool {
        let Candidate { rank, partition, database, key } = candidate;
        let (home, logical) = (self.physical, self.options.database);
        self.enter_physical(*database);
        let (location, yardstick) = (self.locate(key), self.yardstick(rule));
        debug_assert_eq!(location.partition, *partition, "a key stays in its partition");
        let victim = self.door(location).ok().and_then(|door| {
            let (place, _) = door.find(key)?;
            Some(place)
        });
        let is_worthless = victim.is_some_and(|place| {
            let content = self.grant.content(*partition).expect("its door was just open");
            let table = content.table(*database).expect("a place is in a table");
            self.rank(rule, table.entry(place), 0, yardstick).is_some_and(|now| now >= *rank)
                || rule.order == Order::Random
        });
        if let Some(place) = victim.filter(|_| is_worthless) {
            let mut door = self.door(location).expect("it was just open");
            let entry = door.remove(place);
            if rule.order == Order::Worth {
                let (uses, _) = self.access.uses_and_age(entry.borrow().access_clock());
                self.keyspace.history().note_evicted(location, uses, self.options.now);
            }
            let idle_s = self.idle_seconds(entry.borrow()).unwrap_or(0);
            witness(entry.borrow(), self.options.now, idle_s);
            self.discard(entry);
            self.counted.evicted.update(|evicted| evicted + 1);
            self.effects.note_evicted(self.options.database, key);
        }
        self.physical = home;
        self.options.database = logical;
        is_worthless
    }

    /// What worth is measured by, where the rule asks for it.
    fn yardstick(&self, rule: Rule) -> Yardstick {
        match rule.order {
            Order::Worth => self.keyspace.history().yardstick(),
            _ => Yardstick::default(),
        }
    }

    /// How little an entry is worth; `None` if it must stay.
    fn rank(
        &self,
        rule: Rule,
        entry: EntryRef<'_>,
        random: u64,
        yardstick: Yardstick,
    ) -> Option<u64> {
        let deadline = entry.deadline();
        if rule.only_volatile && deadline.is_none() || entry.is_sticky() {
            return None;
        }
        Some(match rule.order {
            Order::Idle => u64::from(self.access.idle_seconds(entry.access_clock())),
            Order::Frequency => 255 - u64::from(self.access.frequency(entry.access_clock())),
            Order::Deadline => u64::MAX - deadline.unwrap_or(i64::MAX).max(0) as u64,
            Order::Worth => {
                let (uses, age_ms) = self.access.uses_and_age(entry.access_clock());
                yardstick.rank(uses, age_ms, entry.memory(), entry.key())
            }
            Order::Random => random,
        })
    }
}
