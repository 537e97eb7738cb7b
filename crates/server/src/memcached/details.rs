//! Counters by prefix, from `stats detail on` on: what is asked of the keys before their first
//! delimiter, `:` as a rule.
//!
//! Invariants: while they are off a request costs one load; what a request counts is booked once it
//! is final; however many prefixes clients make up, so many are kept and no more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What ends a prefix, where nothing else is said.
const DELIMITER: u8 = b':';

/// The most prefixes that are kept.
const PREFIXES_MAX: usize = 10_000;

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOperation {
    /// A read that found nothing.
    Miss,
    /// A read that found it.
    Hit,
    /// A store.
    Set,
    /// A deletion.
    Delete,
}

#[derive(Clone, Copy, Default)]
struct PrefixCounters {
    gets: u64,
    hits: u64,
    sets: u64,
    deletions: u64,
}

/// What one request asks, before it is certain that it counts; nothing where nobody counts.
#[derive(Default)]
pub(super) struct PendingDetails(Option<Notes>);

struct Notes {
    delimiter: u8,
    asked: Vec<(Box<[u8]>, KeyOperation)>,
}

impl PendingDetails {
    /// Notes what is asked of a key. One without a delimiter has no prefix.
    #[inline]
    pub(super) fn record(&mut self, key: &[u8], asked: KeyOperation) {
        if let Some(notes) = &mut self.0
            && let Some(end) = key.iter().position(|byte| *byte == notes.delimiter)
        {
            notes.asked.push((key[..end].into(), asked));
        }
    }
}

/// The counters of all prefixes.
#[derive(Default)]
pub(crate) struct Details {
    is_on: AtomicBool,
    /// What ends a prefix, where that was said at the start.
    delimiter: OnceLock<u8>,
    prefixes: Mutex<BTreeMap<Box<[u8]>, PrefixCounters>>,
}

impl Details {
    #[inline]
    pub(super) fn begin(&self) -> PendingDetails {
        PendingDetails(self.is_on().then(|| Notes {
            delimiter: self.delimiter.get().copied().unwrap_or(DELIMITER),
            asked: Vec::new(),
        }))
    }

    #[inline]
    pub(super) fn add(&self, noted: PendingDetails) {
        if let Some(notes) = noted.0 {
            self.add_notes(notes.asked);
        }
    }

    #[cold]
    fn add_notes(&self, noted: Vec<(Box<[u8]>, KeyOperation)>) {
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        for (prefix, asked) in noted {
            if prefixes.len() == PREFIXES_MAX && !prefixes.contains_key(&prefix) {
                continue;
            }
            let counters = prefixes.entry(prefix).or_default();
            match asked {
                KeyOperation::Miss => counters.gets += 1,
                KeyOperation::Hit => {
                    counters.gets += 1;
                    counters.hits += 1;
                }
                KeyOperation::Set => counters.sets += 1,
                KeyOperation::Delete => counters.deletions += 1,
            }
        }
    }

    /// Counts from the start, by another delimiter.
    pub(crate) fn delimit_by(&self, delimiter: u8) {
        let _ = self.delimiter.set(delimiter);
        self.set_on(true);
    }

    pub(super) fn set_on(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A line for each prefix.
    pub(super) fn lines(&self) -> Vec<Vec<u8>> {
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = prefixes.iter().map(|(prefix, counters)| {
            let PrefixCounters { gets, hits, sets, deletions } = counters;
            let line = format!(" get {gets} hit {hits} set {sets} del {deletions}");
            [b"PREFIX ", &**prefix, line.as_bytes()].concat()
        });
        lines.collect()
    }

    /// Begins again with none.
    pub(super) fn reset(&self) {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Details, KeyOperation, PREFIXES_MAX};

    #[test]
    fn a_delimiter_that_is_said_at_the_start_counts_from_then_on() {
        let details = Details::default();
        details.delimit_by(b'/');
        let mut noted = details.begin();
        noted.record(b"a:b/c", KeyOperation::Set);
        details.add(noted);
        assert_eq!(details.lines(), [b"PREFIX a:b get 0 hit 0 set 1 del 0".to_vec()]);
    }

    #[test]
    fn prefixes_are_counted_while_that_is_on_and_bounded() {
        let details = Details::default();
        let note = |key: &[u8], asked| {
            let mut noted = details.begin();
            noted.record(key, asked);
            details.add(noted);
        };
        note(b"a:1", KeyOperation::Set);
        assert!(details.lines().is_empty());
        details.set_on(true);
        for asked in
            [KeyOperation::Set, KeyOperation::Hit, KeyOperation::Miss, KeyOperation::Delete]
        {
            note(b"a:1", asked);
        }
        note(b"none", KeyOperation::Hit);
        assert_eq!(details.lines(), [b"PREFIX a get 2 hit 1 set 1 del 1".to_vec()]);
        (0..2 * PREFIXES_MAX).for_each(|it| note(format!("{it}:").as_bytes(), KeyOperation::Hit));
        assert_eq!(details.lines().len(), PREFIXES_MAX);
        note(b"a:2", KeyOperation::Set);
        assert!(details.lines().contains(&b"PREFIX a get 2 hit 1 set 2 del 1".to_vec()));
    }
}
