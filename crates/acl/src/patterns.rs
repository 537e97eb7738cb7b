//! Patterns of a user's rules, found by what every match begins with: of thousands that name one
//! tenant each, a key is held against those few that begin as it does.
//!
//! Invariant: a pattern stands below its literal beginning, and the length of that among the
//! lengths; patterns come one by one and go all together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::glob;

use crate::ordered::Ordered;

/// Patterns in the order in which they were said, each with a value.
#[derive(Clone)]
pub(crate) struct Patterns<V> {
    all: Ordered<Arc<[u8]>, V>,
    by_beginning: HashMap<Box<[u8]>, Vec<Arc<[u8]>>>,
    /// How long the beginnings are.
    lengths: BTreeSet<usize>,
}

impl<V> Default for Patterns<V> {
    fn default() -> Self {
        let (by_beginning, lengths) = (HashMap::new(), BTreeSet::new());
        Self { all: Ordered::default(), by_beginning, lengths }
    }
}

impl<V> Patterns<V> {
    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Arc<[u8]>, V)> {
        self.all.iter()
    }

    pub(crate) fn get_mut(&mut self, pattern: &[u8]) -> Option<&mut V> {
        self.all.get_mut(pattern)
    }

    /// Adds a pattern that is not there.
    pub(crate) fn push(&mut self, pattern: &[u8], value: V) {
        let (pattern, beginning) = (Arc::<[u8]>::from(pattern), glob::literal_prefix(pattern));
        self.lengths.insert(beginning.len());
        self.by_beginning.entry(beginning.into()).or_default().push(Arc::clone(&pattern));
        self.all.push(pattern, value);
    }

    /// Whether the name matches a pattern whose value is fit.
    pub(crate) fn match_any(&self, name: &[u8], is_fit: impl Fn(&V) -> bool) -> bool {
        let beginnings = self.lengths.range(..=name.len()).map(|length| &name[..*length]);
        let mut likely = beginnings.filter_map(|beginning| self.by_beginning.get(beginning));
        likely.any(|patterns| {
            let matching = |pattern: &&Arc<[u8]>| glob::matches(pattern, name, false);
            let mut values = patterns.iter().filter(matching).filter_map(|it| self.all.get(&**it));
            values.any(&is_fit)
        })
    }
}

#[cfg(test)]
mod tests {
    use base::glob;

    use super::Patterns;

    /// Whatever the patterns are, a name matches one of them if it matches one of them.
    #[test]
    fn no_pattern_is_passed_over() {
        let letters = ["", "a", "b", "*", "?", "\\", "\\*", "[a", "[^b]"];
        let words = |most: u32| {
            (0..letters.len().pow(most)).map(move |number| {
                let letter = |place| letters[number / letters.len().pow(place) % letters.len()];
                (0..most).map(letter).collect::<String>().into_bytes()
            })
        };
        let names: Vec<Vec<u8>> = words(2).chain([b"aab".to_vec(), b"ab*".to_vec()]).collect();
        for pattern in words(3).filter(|pattern| ![&b"aba"[..], b"bb*"].contains(&&**pattern)) {
            let mut patterns = Patterns::default();
            patterns.push(b"aba", 1);
            patterns.push(b"bb*", 1);
            patterns.push(&pattern, 2);
            for name in &names {
                let is_match = glob::matches(&pattern, name, false);
                assert_eq!(patterns.match_any(name, |value| *value == 2), is_match);
                let others = [&b"aba"[..], b"bb*"].map(|it| glob::matches(it, name, false));
                assert_eq!(patterns.match_any(name, |value| *value == 1), others.contains(&true));
            }
        }
    }

    #[test]
    fn few_of_thousands_of_patterns_are_looked_at() {
        let mut patterns = Patterns::default();
        for number in 0..5000 {
            patterns.push(format!("tenant{number}:*").as_bytes(), ());
        }
        assert!(patterns.lengths.len() <= 4 && patterns.by_beginning.len() == 5000);
        assert!(patterns.match_any(b"tenant4999:x", |()| true));
        assert!(!patterns.match_any(b"tenant5000:x", |()| true));
    }
}
