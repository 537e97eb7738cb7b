//! Which term wrote what of a log.
//!
//! Invariants: terms rise and starts do not fall; a start is noted before the first byte of its
//! term is written, so that what a log has is never taken for an older term's.

use crate::position::{Offset, Position, Term};

/// So many terms are kept. A log that ends before the first of them is fetched anew.
const TERMS_MAX: usize = 1000;

/// Where what a term wrote begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermStart {
    /// The term.
    pub term: Term,
    /// The length of the log when it began.
    pub offset: Offset,
}

/// The terms of a log, oldest first; never empty. A log may be shorter than the last start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History(Vec<TermStart>);

impl Default for History {
    fn default() -> History {
        History(vec![TermStart { term: Term(0), offset: 0 }])
    }
}

impl History {
    /// The history of these terms, if they are one.
    pub fn from_starts(starts: Vec<TermStart>) -> Option<History> {
        let rises =
            |pair: &[TermStart]| pair[0].term < pair[1].term && pair[0].offset <= pair[1].offset;
        (!starts.is_empty() && starts.windows(2).all(rises)).then_some(History(starts))
    }

    /// The terms, oldest first.
    pub fn starts(&self) -> &[TermStart] {
        &self.0
    }

    /// Whether this term has ever begun here.
    pub fn contains(&self, term: Term) -> bool {
        self.0.iter().any(|start| start.term == term)
    }

    /// The last term.
    pub fn last(&self) -> TermStart {
        *self.0.last().expect("a history has a term")
    }

    /// A term begins at the end of the log. Of terms that begin behind it the log has nothing.
    pub(crate) fn begin(&mut self, term: Term, end: Offset) {
        self.0.retain(|start| start.offset <= end);
        debug_assert!(self.0.last().is_none_or(|last| last.term < term));
        self.0.push(TermStart { term, offset: end });
        let surplus = self.0.len().saturating_sub(TERMS_MAX);
        self.0.drain(..surplus);
    }

    /// Where a log of this history stands that is so long; nowhere if its term was forgotten.
    pub fn position(&self, offset: Offset) -> Option<Position> {
        let start = self.0.iter().rev().find(|start| start.offset <= offset)?;
        Some(Position { term: start.term, offset })
    }

    /// Whether a log that stands at `other` is the beginning of the log of this history, which is
    /// `end` long: a term has one primary, so what two logs have of it is the same.
    pub fn continues(&self, end: Offset, other: Position) -> bool {
        let Some(index) = self.0.iter().position(|start| start.term == other.term) else {
            return false;
        };
        let until = self.0.get(index + 1).map_or(end, |next| next.offset);
        (self.0[index].offset..=until).contains(&other.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{History, TERMS_MAX, TermStart};
    use crate::position::{Position, Term};

    fn history(starts: &[(u64, u64)]) -> History {
        let starts =
            starts.iter().map(|(term, offset)| TermStart { term: Term(*term), offset: *offset });
        History::from_starts(starts.collect()).expect("the test has it right")
    }

    fn at(term: u64, offset: u64) -> Position {
        Position { term: Term(term), offset }
    }

    #[test]
    fn a_log_stands_in_the_term_that_wrote_its_end() {
        let history = history(&[(0, 0), (2, 100), (3, 100), (7, 150)]);
        for (offset, term) in [(0, 0), (99, 0), (100, 3), (149, 3), (150, 7), (900, 7)] {
            assert_eq!(history.position(offset), Some(at(term, offset)));
        }
    }

    #[test]
    fn a_log_is_continued_only_where_it_is_a_beginning() {
        let history = history(&[(0, 0), (2, 100), (7, 150)]);
        let cases = [
            (at(0, 100), true),
            (at(0, 101), false),
            (at(2, 100), true),
            (at(2, 99), false),
            (at(2, 150), true),
            (at(2, 151), false),
            (at(3, 120), false),
            (at(7, 200), true),
            (at(7, 201), false),
            (at(8, 120), false),
        ];
        for (position, is_continued) in cases {
            assert_eq!(history.continues(200, position), is_continued, "{position:?}");
        }
    }

    #[test]
    fn what_is_no_history_is_refused() {
        assert!(History::from_starts(Vec::new()).is_none());
        for wrong in [[(1, 5), (1, 6)], [(2, 5), (1, 6)], [(1, 5), (2, 4)]] {
            let starts = wrong.map(|(term, offset)| TermStart { term: Term(term), offset });
            assert!(History::from_starts(starts.to_vec()).is_none());
        }
    }

    #[test]
    fn a_log_whose_term_was_forgotten_stands_nowhere() {
        let mut history = History::default();
        for term in 1..=TERMS_MAX as u64 {
            history.begin(Term(term), term * 10);
        }
        assert_eq!(history.starts().len(), TERMS_MAX);
        assert_eq!(history.position(9), None);
        assert!(!history.continues(20_000, at(0, 9)));
        assert_eq!(history.position(10), Some(at(1, 10)));
    }
}
