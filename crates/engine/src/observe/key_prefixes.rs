//! Keys by the beginnings of their names: how many there are, and what they take.
//!
//! A survey goes through all partitions on a background thread: nothing is counted while commands
//! run.
//!
//! Invariant: so many prefixes are told apart at most, whatever clients call their keys.

use std::collections::HashMap;

use base::time::UnixMillis;
use keyspace::{Keyspace, PARTITIONS, PartitionIndex, Refusal, usage};

use super::key_survey::KeySurvey;

/// What ends a prefix where none are declared.
const DELIMITER: u8 = b':';

/// What is longer is no prefix.
const PREFIX_MAX: usize = 128;

/// So many prefixes are told apart; keys of others are counted together.
const PREFIXES_MOST: usize = 10_000;

/// Which part of a name is its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixRule {
    /// The prefixes there are, the longest first; if there are none, what stands up to the first
    /// colon is one.
    declared: Vec<Box<[u8]>>,
}

/// The keys of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTotals {
    /// How many there are.
    pub keys: u64,
    /// What they take, as MEMORY USAGE tells it.
    pub bytes: u64,
}

/// What a survey found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixStats {
    /// When the survey ended, in Unix milliseconds.
    pub ended_ms: UnixMillis,
    /// The prefixes with their keys, those that take most first.
    pub prefixes: Vec<(Box<[u8]>, KeyTotals)>,
    /// Keys without a prefix.
    pub without: KeyTotals,
    /// Keys of prefixes beyond those that are told apart.
    pub others: KeyTotals,
}

impl PrefixRule {
    /// The rule of a directive: prefixes with blanks between them, or none.
    #[must_use]
    pub fn of(words: &[u8]) -> Self {
        let words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut declared: Vec<Box<[u8]>> = words.map(Into::into).collect();
        declared.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        Self { declared }
    }

    /// The prefix of a name, if it has one.
    #[must_use]
    pub fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let length = match self.declared.is_empty() {
            true => key.iter().take(PREFIX_MAX).position(|byte| *byte == DELIMITER)? + 1,
            false => self.declared.iter().find(|prefix| key.starts_with(prefix))?.len(),
        };
        Some(&key[..length])
    }
}

/// Goes through all keys, on a background thread of this lane.
pub fn scan_prefixes(
    keyspace: &'static Keyspace,
    lane: usize,
    rule: &PrefixRule,
) -> Result<PrefixStats, Refusal> {
    let mut tally = PrefixCounts::default();
    let mut survey = KeySurvey::begin(keyspace, lane)?;
    for partition in 0..PARTITIONS as PartitionIndex {
        survey.visit(partition, |entry| {
            tally.count(rule.prefix_of(entry.key()), usage(entry) as u64);
        })?;
    }
    Ok(tally.stats(keyspace.clock().now_ms()))
}

#[derive(Default)]
struct PrefixCounts {
    prefixes: HashMap<Box<[u8]>, KeyTotals>,
    without: KeyTotals,
    others: KeyTotals,
}

impl PrefixCounts {
    fn count(&mut self, prefix: Option<&[u8]>, bytes: u64) {
        let totals = match prefix {
            None => &mut self.without,
            Some(prefix) => {
                if !self.prefixes.contains_key(prefix) && self.prefixes.len() < PREFIXES_MOST {
                    self.prefixes.insert(prefix.into(), KeyTotals::default());
                }
                self.prefixes.get_mut(prefix).unwrap_or(&mut self.others)
            }
        };
        totals.keys += 1;
        totals.bytes += bytes;
    }

    fn stats(self, ended_ms: UnixMillis) -> PrefixStats {
        let Self { prefixes, without, others } = self;
        let mut prefixes: Vec<_> = prefixes.into_iter().collect();
        prefixes.sort_unstable_by(|(one, of_one), (other, of_other)| {
            of_other.bytes.cmp(&of_one.bytes).then_with(|| one.cmp(other))
        });
        PrefixStats { ended_ms, prefixes, without, others }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyTotals, PREFIXES_MOST, PrefixCounts, PrefixRule};

    #[test]
    fn a_prefix_ends_at_the_first_colon_unless_some_are_declared() {
        let plain = PrefixRule::of(b"");
        for (key, prefix) in
            [("user:1:name", Some("user:")), (":x", Some(":")), ("plain", None), ("", None)]
        {
            assert_eq!(plain.prefix_of(key.as_bytes()), prefix.map(str::as_bytes), "{key}");
        }
        assert_eq!(plain.prefix_of(&[b"x".repeat(128), b":".to_vec()].concat()), None);
        let declared = PrefixRule::of(b"  user user:vip: \t order/ ");
        for (key, prefix) in [
            ("user:vip:1", Some("user:vip:")),
            ("user:1", Some("user")),
            ("order/1", Some("order/")),
            ("other:1", None),
        ] {
            assert_eq!(declared.prefix_of(key.as_bytes()), prefix.map(str::as_bytes), "{key}");
        }
    }

    #[test]
    fn keys_beyond_so_many_prefixes_are_counted_together() {
        let mut tally = PrefixCounts::default();
        for number in 0..PREFIXES_MOST + 5 {
            tally.count(Some(format!("{number}:").as_bytes()), 1);
        }
        tally.count(Some(b"7:"), 100);
        tally.count(None, 3);
        let stats = tally.stats(9);
        assert_eq!(stats.prefixes.len(), PREFIXES_MOST);
        assert_eq!(stats.prefixes[0], (b"7:"[..].into(), KeyTotals { keys: 2, bytes: 101 }));
        assert_eq!(stats.others, KeyTotals { keys: 5, bytes: 5 });
        assert_eq!(stats.without, KeyTotals { keys: 1, bytes: 3 });
    }
}
