//! Eviction: looking for keys that are worth least, and removing them.
//!
//! To wait for memory is what it costs: these keys were not used for long. So some partitions are
//! looked at together, and what all looks will touch is on its way before the first goes on.
//!
//! Invariant: a look touches a bounded number of entries of a held partition; of all that were
//! looked at those go that are worth least, under the same locks, so none was used meanwhile.

use std::cmp::Reverse;

use base::time::UnixMillis;
use smallvec::SmallVec;

use super::Tx;
use crate::entry::{EntryRef, EntryTable, Identity};
use crate::ghost_list::{RankParameters, Sample};
use crate::keyspace::Location;
use crate::lock::partition::PartitionIndex;

/// What makes a key worth least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// Its access clock lies furthest back.
    Idle,
    /// The key is accessed most seldom.
    Frequency,
    /// The key expires first.
    Deadline,
    /// The key was not used for long, for as often as it was before and as few bytes as it takes.
    Worth,
    /// Nothing: each is worth the same.
    Random,
}

/// Which keys may be evicted, and which of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Which first.
    pub order: EvictionOrder,
    /// Whether only keys that expire may be.
    pub only_volatile: bool,
}

/// Where to look. No two that belong together are for the same partition.
#[derive(Clone, Copy, Debug)]
pub struct EvictionSample {
    /// Which partition; one that is not held is passed over.
    pub partition: PartitionIndex,
    /// Says from where on.
    pub random: u64,
    /// How many keys are to be looked at, or a few more; where only keys that expire may go, of
    /// those.
    pub count: usize,
}

impl EvictionSample {
    /// The place to begin at: the first, where all there is will be looked at anyway.
    fn begin(&self, table: &EntryTable) -> u64 {
        if table.len() <= self.count { 0 } else { self.random }
    }
}

/// How much is to go.
#[derive(Clone, Copy, Debug)]
pub struct EvictionNeed {
    /// So many bytes, and what the last key has beyond.
    pub bytes: usize,
    /// So many keys at most.
    pub keys: usize,
    /// One of so many that are looked at, at most; but one in any case.
    pub samples: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Keys that were looked at and might have gone.
    pub seen: usize,
    /// Keys that went.
    pub keys: usize,
    /// Their memory.
    pub bytes: usize,
}

/// A key that is worth least, until the next one comes.
#[derive(Debug)]
struct Victim {
    database: usize,
    /// Its position is as exact as the table keeps it, unless more than the table asks for it.
    location: Location,
    entry: Identity,
}

/// An entry that is looked at.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// How little it is worth: the one with more goes first. Chance, until that is known.
    rank: u64,
    partition: PartitionIndex,
    database: usize,
    /// As much of it as the table keeps: enough to find it there.
    position: u64,
    pub(super) entry: EntryRef<'a>,
}

/// All that are looked at together; rarely more than there is room for in place.
pub(super) type Candidates<'a> = SmallVec<[Candidate<'a>; 256]>;

/// Entries passed in search of some to look at. What is passed is their words in the table, not
/// themselves.
const PASSED: usize = 4096;

impl Tx {
    /// Looks around and evicts keys of any database that are worth least. `witness` is shown what
    /// goes, with the time and for how many seconds it was not used.
    pub fn evict(
        &mut self,
        looks: &[EvictionSample],
        rule: EvictionPolicy,
        need: EvictionNeed,
        mut witness: impl FnMut(EntryRef<'_>, UnixMillis, u32),
    ) -> Evicted {
        let (seen, victims) = {
            let (seen, least) = self.find_least(looks, rule, need);
            (seen, self.victims(&least, rule))
        };
        let mut evicted = Evicted { seen, ..Evicted::default() };
        let (home, logical) = (self.physical, self.options.database);
        for victim in &victims {
            if evicted.bytes >= need.bytes {
                break;
            }
            self.enter_physical(victim.database);
            if let Some(bytes) = self.remove_victim(victim, rule, &mut witness) {
                evicted.bytes += bytes;
                evicted.keys += 1;
            }
        }
        self.physical = home;
        self.options.database = logical;
        evicted
    }

    /// How many keys there were to look at, and those of them that are worth least, the first to go
    /// first.
    pub(super) fn find_least(
        &self,
        looks: &[EvictionSample],
        rule: EvictionPolicy,
        need: EvictionNeed,
    ) -> (usize, Candidates<'_>) {
        self.fetch_tables(looks);
        let mut seen = Candidates::new();
        for look in looks {
            self.sample_partition(*look, rule, &mut seen);
        }
        self.rank_all(rule, &mut seen);
        let count = seen.len();
        let most = (count / need.samples.max(1)).clamp(1, need.keys.max(1));
        if count > most {
            seen.select_nth_unstable_by_key(most, |seen| Reverse(seen.rank));
            seen.truncate(most);
        }
        seen.sort_unstable_by_key(|seen| Reverse(seen.rank));
        (count, seen)
    }

    /// What is known of keys that are to go. All that their removal will touch is on its way from
    /// memory then, and all of their blocks too: what comes next is written there, and a write that
    /// waits for memory holds up the next lock.
    fn victims(&self, least: &[Candidate<'_>], rule: EvictionPolicy) -> SmallVec<[Victim; 16]> {
        for seen in least {
            seen.entry.prefetch_home();
            seen.entry.prefetch_whole();
        }
        let victims =
            least.iter().map(|&Candidate { partition, database, position, entry, .. }| {
                let mut location = Location::new(partition, position);
                if rule.order == EvictionOrder::Worth {
                    // What is remembered of a key takes all of its position.
                    location = self.keyspace.locate(entry.key());
                    self.keyspace.ghost_list().prefetch(location);
                }
                Victim { database, location, entry: entry.identity() }
            });
        victims.collect()
    }

    /// Has what looks will read of tables on its way from memory: all of it, as nothing is to wait
    /// while entries are asked for.
    fn fetch_tables(&self, looks: &[EvictionSample]) {
        for look in looks {
            let Some(content) = self.grant.content(look.partition) else { continue };
            let (_, table) = content.tables.nth(look.random as usize % content.tables.count());
            table.prefetch_walk(look.begin(table), look.count);
        }
    }

    /// Goes through keys of a partition, which are on their way from memory from then on. All that
    /// lie at the same place are taken, so that none is passed over for ever.
    fn sample_partition<'a>(
        &'a self,
        look: EvictionSample,
        rule: EvictionPolicy,
        all: &mut Candidates<'a>,
    ) {
        let Some(content) = self.grant.content(look.partition) else { return };
        // What another server brings is whole over there: a key that went here would come again,
        // as no more than what is done to it next.
        if self.keyspace.importing().contain(look.partition) {
            return;
        }
        let (tables, begun) = (content.tables.count(), all.len());
        let first = look.random as usize % tables;
        for number in (first..tables).chain(0..first) {
            let count = (begun + look.count).saturating_sub(all.len());
            if count == 0 {
                break;
            }
            let (database, table) = content.tables.nth(number);
            if table.len() > 0 {
                self.sample_table((database, table), EvictionSample { count, ..look }, rule, all);
            }
        }
    }

    /// As `sample_partition`, in one table.
    fn sample_table<'a>(
        &'a self,
        (database, table): (usize, &'a EntryTable),
        look: EvictionSample,
        rule: EvictionPolicy,
        all: &mut Candidates<'a>,
    ) {
        let enough = all.len() + look.count;
        let begin = look.begin(table);
        let (mut from, mut passed, mut has_wrapped) = (begin, 0, false);
        while all.len() < enough && passed < PASSED {
            passed += look.count;
            let next = table.walk_ahead(from, look.count, rule.only_volatile, |position, entry| {
                let (partition, rank) = (look.partition, look.random);
                all.push(Candidate { rank, partition, database, position, entry });
            });
            // Behind the last place comes the first, unless that was where this began.
            let has_seen_all = match next {
                Some(next) => has_wrapped && next > begin,
                None => has_wrapped || begin == 0,
            };
            if has_seen_all {
                break;
            }
            has_wrapped |= next.is_none();
            from = next.unwrap_or(0);
        }
    }

    /// Finds out how little all are worth, and leaves out what must stay.
    fn rank_all(&self, rule: EvictionPolicy, all: &mut Candidates<'_>) {
        let rank_parameters = self.rank_parameters(rule);
        all.retain(|seen| {
            let rank = self.rank(rule, seen, rank_parameters);
            seen.rank = rank.unwrap_or_default();
            rank.is_some()
        });
        if rule.order == EvictionOrder::Worth {
            self.note_sample(all);
        }
    }

    /// Has the policy learn from what was looked at.
    fn note_sample(&self, seen: &[Candidate<'_>]) {
        let mut sample = Sample::default();
        for Candidate { entry, .. } in seen {
            sample.keys += 1;
            sample.late += u32::from(self.access.is_late(entry.access_clock()));
            sample.bytes += entry.memory() as u64;
        }
        self.keyspace.ghost_list().note_sample(sample);
    }

    /// Removes a key that was found under the locks that are held; the memory that it took. `None`
    /// if it was found twice and is gone already.
    fn remove_victim(
        &mut self,
        Victim { location, entry, .. }: &Victim,
        rule: EvictionPolicy,
        witness: &mut impl FnMut(EntryRef<'_>, UnixMillis, u32),
    ) -> Option<usize> {
        let mut mutation = self.mutation(*location).expect("victims are found in held partitions");
        let place = mutation.find_same(*entry)?;
        let entry = mutation.remove(place);
        if rule.order == EvictionOrder::Worth {
            let (uses, _) = self.access.uses_and_age(entry.borrow().access_clock());
            self.keyspace.ghost_list().note_evicted(*location, uses, self.options.now);
        }
        let idle_s = self.idle_seconds(entry.borrow()).unwrap_or(0);
        witness(entry.borrow(), self.options.now, idle_s);
        let bytes = entry.borrow().memory();
        self.counted.evicted.update(|evicted| evicted + 1);
        self.effects.note_evicted(self.options.database, entry.borrow().key());
        self.discard(entry);
        Some(bytes)
    }

    /// What worth is measured by, where the rule asks for it.
    fn rank_parameters(&self, rule: EvictionPolicy) -> RankParameters {
        match rule.order {
            EvictionOrder::Worth => self.keyspace.ghost_list().rank_parameters(),
            _ => RankParameters::default(),
        }
    }

    /// How little an entry is worth; `None` if it must stay.
    fn rank(
        &self,
        rule: EvictionPolicy,
        seen: &Candidate<'_>,
        rank_parameters: RankParameters,
    ) -> Option<u64> {
        let Candidate { position, entry, .. } = *seen;
        let deadline = entry.deadline();
        if rule.only_volatile && deadline.is_none() || entry.is_sticky() {
            return None;
        }
        Some(match rule.order {
            EvictionOrder::Idle => u64::from(self.access.idle_seconds(entry.access_clock())),
            EvictionOrder::Frequency => {
                255 - u64::from(self.access.frequency(entry.access_clock()))
            }
            EvictionOrder::Deadline => u64::MAX - deadline.unwrap_or(i64::MAX).max(0) as u64,
            EvictionOrder::Worth => {
                let (uses, age_ms) = self.access.uses_and_age(entry.access_clock());
                rank_parameters.rank(uses, age_ms, entry.memory(), position)
            }
            EvictionOrder::Random => seen.rank,
        })
    }
}
