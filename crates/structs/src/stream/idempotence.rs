//! What producers have sent lately, so that what they send twice is added once (`XADD IDMP`).
//!
//! Invariant: a producer has at most as many IDs as the settings allow; the oldest leave first.
//! The time of an ID is that of its entry.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::counter::Counter;
use super::group::{NAMED, Name};
use super::id::EntryId;

/// How long and how many IDs of producers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotenceLimits {
    /// Seconds.
    pub duration: u64,
    /// IDs of one producer.
    pub size: usize,
}

impl IdempotenceLimits {
    /// The most seconds that a command can say.
    pub const DURATION_MAX: u64 = 86_400;
    /// The most IDs of one producer that a command can say.
    pub const SIZE_MAX: usize = 10_000;

    /// The limits that are nearest to two numbers.
    #[must_use]
    pub fn new(duration: u64, size: u64) -> IdempotenceLimits {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        IdempotenceLimits {
            duration: duration.clamp(1, Self::DURATION_MAX),
            size: size.clamp(1, Self::SIZE_MAX),
        }
    }
}

/// The messages of producers by the IDs they gave them.
#[derive(Clone)]
pub struct Idempotence {
    limits: IdempotenceLimits,
    producers: BTreeMap<Name, Arc<Producer>>,
    added: Counter,
    duplicates: Counter,
    tracked: u64,
    memory: usize,
}

#[derive(Clone, Default)]
struct Producer {
    entries: HashMap<Name, EntryId>,
    order: VecDeque<Name>,
}

impl Idempotence {
    /// Nothing sent yet.
    #[must_use]
    pub fn new(limits: IdempotenceLimits) -> Idempotence {
        Idempotence {
            limits,
            producers: BTreeMap::new(),
            added: Counter::default(),
            duplicates: Counter::default(),
            tracked: 0,
            memory: 0,
        }
    }

    /// How long and how many.
    #[must_use]
    pub fn limits(&self) -> IdempotenceLimits {
        self.limits
    }

    /// How many producers are known.
    #[must_use]
    pub fn producer_count(&self) -> u64 {
        self.producers.len() as u64
    }

    /// How many IDs are known, of all producers.
    #[must_use]
    pub fn tracked_count(&self) -> u64 {
        self.tracked
    }

    /// How many entries were ever added under an ID.
    #[must_use]
    pub fn added_count(&self) -> Counter {
        self.added
    }

    /// How many times an ID was found to be sent again.
    #[must_use]
    pub fn duplicate_count(&self) -> Counter {
        self.duplicates
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Idempotence>() + self.memory
    }

    /// The entry that a producer sent under an ID, unless that is too long ago.
    #[must_use]
    pub fn find(&self, producer: &[u8], id: &[u8], now: i64) -> Option<EntryId> {
        let entry = *self.producers.get(producer)?.entries.get(id)?;
        (!self.is_over(entry, now)).then_some(entry)
    }

    /// The producers with what they sent, the oldest first.
    pub fn producers(
        &self,
    ) -> impl ExactSizeIterator<Item = (&[u8], impl ExactSizeIterator<Item = (&[u8], EntryId)>)>
    {
        self.producers.iter().map(|(name, known)| {
            let sent = known.order.iter().map(|id| (&**id, known.entries[id]));
            (&**name, sent)
        })
    }

    /// Puts an ID back that was known behind all others of its producer; `false` if it is known.
    pub fn restore(&mut self, producer: &[u8], id: &[u8], entry: EntryId) -> bool {
        let is_known = |known: &Arc<Producer>| known.entries.contains_key(id);
        if self.producers.get(producer).is_some_and(is_known) {
            return false;
        }
        let known = self.open(producer);
        let id = Name::from(id);
        known.entries.insert(Arc::clone(&id), entry);
        known.order.push_back(Arc::clone(&id));
        self.tracked += 1;
        self.memory += weight(&id);
        true
    }

    /// Sets how many entries were added under IDs, and how many IDs came again.
    pub fn set_counts(&mut self, added: Counter, duplicates: Counter) {
        (self.added, self.duplicates) = (added, duplicates);
    }

    /// What is known of a producer, from now on if nothing was.
    fn open(&mut self, producer: &[u8]) -> &mut Producer {
        if !self.producers.contains_key(producer) {
            self.memory += NAMED + producer.len() + size_of::<Producer>();
        }
        Arc::make_mut(self.producers.entry(Name::from(producer)).or_default())
    }

    /// Counts a message that came again.
    pub fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.next();
    }

    /// Notes an entry that a producer sent under an ID, and forgets what is too old or too much.
    pub fn record(&mut self, producer: &[u8], id: &[u8], entry: EntryId, now: i64) {
        let limits = self.limits;
        let name = match self.producers.get_key_value(producer) {
            Some((name, _)) => Arc::clone(name),
            None => {
                self.memory += NAMED + producer.len() + size_of::<Producer>();
                Name::from(producer)
            }
        };
        let mut known = self.producers.remove(producer).unwrap_or_default();
        let sent = Arc::make_mut(&mut known);
        let id = Name::from(id);
        if sent.entries.insert(Arc::clone(&id), entry).is_none() {
            self.tracked += 1;
            self.memory += weight(&id);
        } else {
            sent.order.retain(|other| *other != id);
        }
        sent.order.push_back(id);
        self.added = self.added.next();
        while let Some(oldest) = sent.order.front() {
            let is_over = sent.entries.get(oldest).is_none_or(|entry| over(limits, *entry, now));
            if sent.order.len() <= limits.size && !is_over {
                break;
            }
            self.tracked -= 1;
            self.memory -= weight(oldest);
            sent.entries.remove(oldest);
            sent.order.pop_front();
        }
        match sent.order.is_empty() {
            true => self.memory -= NAMED + name.len() + size_of::<Producer>(),
            false => _ = self.producers.insert(name, known),
        }
    }

    fn is_over(&self, entry: EntryId, now: i64) -> bool {
        over(self.limits, entry, now)
    }
}

fn over(limits: IdempotenceLimits, entry: EntryId, now: i64) -> bool {
    let now = u64::try_from(now).unwrap_or(0);
    entry.ms.saturating_add(limits.duration.saturating_mul(1000)) < now
}

/// What an ID takes: in the map and in the order.
fn weight(id: &Name) -> usize {
    NAMED + id.len() + size_of::<(Name, EntryId)>()
}
