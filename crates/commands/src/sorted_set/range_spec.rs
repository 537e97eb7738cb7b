//! Parts of a sorted set that requests name: by rank, by score, by member.
//!
//! Invariant: a range of ranks that comes out of here lies within the set.

use std::ops::{Bound, Range};

use base::number::{parse_f64_of_any_range, parse_i64};
use keyspace::{Refusal, Tx};
use structs::sorted_set::SortedSetRef;

use crate::errors::NOT_AN_INTEGER;

const NOT_SCORES: Refusal = Refusal::error("ERR min or max is not a float");
const NOT_MEMBERS: Refusal = Refusal::error("ERR min or max not valid string range item");

/// What a range is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Ranks, from 0; negative ones count from the end.
    Rank,
    /// Scores.
    Score,
    /// Members, where all have the same score.
    Member,
}

/// How scores may be spelt at the ends of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As Redis 8.2 and Valkey take them.
    Present,
    /// As Redis 7.0 took and journalled them, too: blanks lead, and digits may be hexadecimal.
    Former,
}

impl Spelling {
    /// What is run again was accepted by the server that wrote the journal.
    pub(super) fn of(tx: &Tx) -> Self {
        if tx.replays() { Self::Former } else { Self::Present }
    }
}

/// A range of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RangeSpec<'a> {
    /// From this rank to that one, both included.
    Rank(i64, i64),
    /// From this score to that one.
    Score(Bound<f64>, Bound<f64>),
    /// From this member to that one.
    Member(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// Beyond all members, whatever there are.
    Nothing,
}

impl<'a> RangeSpec<'a> {
    /// The range between two words of a request, the lesser one first.
    pub(super) fn parse(
        by: By,
        least: &'a [u8],
        most: &'a [u8],
        spelling: Spelling,
    ) -> Result<Self, Refusal> {
        match by {
            By::Rank => {
                let rank = |word| parse_i64(word).ok_or(NOT_AN_INTEGER);
                Ok(Self::Rank(rank(least)?, rank(most)?))
            }
            By::Score => {
                let bound = |word| score_bound(word, spelling).ok_or(NOT_SCORES);
                Ok(Self::Score(bound(least)?, bound(most)?))
            }
            By::Member => {
                let edge = |word| Edge::parse(word).ok_or(NOT_MEMBERS);
                Ok(match (edge(least)?, edge(most)?) {
                    (Edge::AfterAll, _) | (_, Edge::BeforeAll) => Self::Nothing,
                    (least, most) => Self::Member(least.bound(), most.bound()),
                })
            }
        }
    }

    /// The ranks of its members. Of a falling order, ranks in the request count from the end.
    pub(super) fn ranks(self, set: SortedSetRef<'_>, falling: bool) -> Range<u64> {
        match self {
            Self::Rank(start, stop) => {
                let ranks = clamp(start, stop, set.len());
                let len = set.len();
                if falling { len - ranks.end..len - ranks.start } else { ranks }
            }
            Self::Score(least, most) => set.ranks_by_score(least, most),
            Self::Member(least, most) => set.ranks_by_member(least, most, falling),
            Self::Nothing => 0..0,
        }
    }
}

/// The ranks of so many members that lie between two, where negative ones count from the end.
fn clamp(start: i64, stop: i64, len: u64) -> Range<u64> {
    let from_end = |rank: i64| len.saturating_sub(rank.unsigned_abs());
    let start = if start < 0 { from_end(start) } else { start as u64 };
    let end = match stop {
        0.. => (stop as u64 + 1).min(len),
        _ => len.saturating_sub(stop.unsigned_abs() - 1),
    };
    if start < end { start..end } else { 0..0 }
}

/// A score, after a parenthesis if it does not belong to the range. As in Redis, no digits are 0,
/// what is beyond all numbers is infinite, there are no hexadecimal digits, and a NUL ends it.
fn score_bound(word: &[u8], spelling: Spelling) -> Option<Bound<f64>> {
    match word {
        [b'(', score @ ..] => score_of(score, spelling).map(Bound::Excluded),
        score => score_of(score, spelling).map(Bound::Included),
    }
}

fn score_of(word: &[u8], spelling: Spelling) -> Option<f64> {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
    let mut word = &word[..end];
    if spelling == Spelling::Former {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
        let blanks = word.iter().take_while(|byte| is_blank(byte)).count();
        word = &word[blanks..];
        if blanks > 0 && word.is_empty() {
            return None;
        }
    }
    if word.is_empty() {
        return Some(0.0);
    }
    let score = std::str::from_utf8(word).ok()?.parse().ok();
    let hexadecimal = || parse_f64_of_any_range(word).filter(|_| spelling == Spelling::Former);
    score.or_else(hexadecimal).filter(|score| !score.is_nan())
}

/// Where a range of members begins or ends.
enum Edge<'a> {
    BeforeAll,
    AfterAll,
    At(&'a [u8]),
    Beside(&'a [u8]),
}

impl<'a> Edge<'a> {
    fn parse(word: &'a [u8]) -> Option<Self> {
        match word {
            b"-" => Some(Self::BeforeAll),
            b"+" => Some(Self::AfterAll),
            [b'[', member @ ..] => Some(Self::At(member)),
            [b'(', member @ ..] => Some(Self::Beside(member)),
            _ => None,
        }
    }

    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            Self::BeforeAll | Self::AfterAll => Bound::Unbounded,
            Self::At(member) => Bound::Included(member),
            Self::Beside(member) => Bound::Excluded(member),
        }
    }
}

/// The part of a range that `LIMIT` leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Members that are passed over; a negative number is as good as all.
    pub(super) offset: i64,
    /// Members that are left at most; all if negative.
    pub(super) count: i64,
}

impl Limit {
    /// No limit at all.
    pub(super) const NONE: Self = Self { offset: 0, count: -1 };

    /// The part of a range of ranks that is left, from its end if the order is falling.
    pub(super) fn apply(self, ranks: Range<u64>, falling: bool) -> Range<u64> {
        let len = ranks.end - ranks.start;
        let skipped = u64::try_from(self.offset).map_or(len, |offset| offset.min(len));
        let count = u64::try_from(self.count).map_or(len, |count| count.min(len));
        let count = count.min(len - skipped);
        if falling {
            let end = ranks.end - skipped;
            end - count..end
        } else {
            let start = ranks.start + skipped;
            start..start + count
        }
    }
}
