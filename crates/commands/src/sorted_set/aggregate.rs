//! Union, intersection and difference of sorted sets and sets; a set's members have the score 1.
//!
//! Invariant: as in Redis, smaller inputs come before larger ones, so that sums of scores round
//! alike; and a score that would be no number is 0.

use std::borrow::Cow;
use std::collections::HashMap;

use base::time::UnixMillis;
use keyspace::{EntryRef, Kind, Refusal, Tx};
use structs::members::Text;
use structs::set::{Set, SetRef};
use structs::sorted_set::{ItemRef, SortedSet, SortedSetLimits, SortedSetRef};

/// How the scores of one member become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
    /// The weights of the inputs that have the member, whatever its scores.
    Count,
}

/// One input.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    source: InputSet<'a>,
    /// What its scores are multiplied with.
    pub(super) weight: f64,
    now: UnixMillis,
}

#[derive(Clone, Copy)]
enum InputSet<'a> {
    Sorted(SortedSetRef<'a>),
    Plain(SetRef<'a>),
    Absent,
}

/// A member of a result.
pub(super) struct ScoredMember<'a> {
    pub(super) member: Cow<'a, [u8]>,
    pub(super) score: f64,
}

impl Aggregate {
    /// Of what is no number a sum makes 0, and the others make nothing.
    fn combine(self, these: f64, those: f64) -> f64 {
        match self {
            Self::Sum | Self::Count => number_or_zero(these + those),
            Self::Min => these.min(those),
            Self::Max => these.max(those),
        }
    }

    /// What one input contributes; no number if that is an infinite score without weight.
    fn value(self, score: f64, weight: f64) -> f64 {
        match self {
            Self::Count => weight,
            Self::Sum | Self::Min | Self::Max => score * weight,
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl<'a> Input<'a> {
    /// What a key holds, to be read.
    pub(super) fn of_key(tx: &'a Tx, key: &[u8]) -> Result<Self, Refusal> {
        let kind = tx.peek(key)?.map(EntryRef::kind);
        let source = match kind {
            Some(Kind::Set) => tx.view::<Set>(key)?.map(InputSet::Plain),
            _ => tx.view::<SortedSet>(key)?.map(InputSet::Sorted),
        };
        Ok(Self {
            source: source.unwrap_or(InputSet::Absent),
            weight: 1.0,
            now: tx.expired_until(),
        })
    }

    /// How many members it has.
    pub(super) fn len(&self) -> u64 {
        match self.source {
            InputSet::Sorted(set) => set.len(),
            InputSet::Plain(set) => set.len(),
            InputSet::Absent => 0,
        }
    }

    /// All members with their scores.
    fn each(self) -> impl Iterator<Item = (Cow<'a, [u8]>, f64)> {
        let (sorted, plain) = match self.source {
            InputSet::Sorted(set) => (Some(set), None),
            InputSet::Plain(set) => (None, Some(set)),
            InputSet::Absent => (None, None),
        };
        let sorted = sorted.into_iter().flat_map(|set| set.items(0..set.len()));
        let plain = plain.into_iter().flat_map(SetRef::iter);
        let plain = plain.filter(move |member| member.is_alive(self.now));
        let sorted = sorted.map(|item| (bytes_of(item.member), item.score));
        sorted.chain(plain.map(|member| (bytes_of(member.member), 1.0)))
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self.source {
            InputSet::Sorted(set) => set.score(member),
            InputSet::Plain(set) => {
                set.get(Text::Bytes(member)).filter(|found| found.is_alive(self.now)).map(|_| 1.0)
            }
            InputSet::Absent => None,
        }
    }
}

fn bytes_of(text: Text<'_>) -> Cow<'_, [u8]> {
    match text {
        Text::Bytes(bytes) => Cow::Borrowed(bytes),
        Text::Integer(_) | Text::Long(_) => Cow::Owned(text.to_vec()),
    }
}

/// The members of any input.
pub(super) fn union<'a>(mut inputs: Vec<Input<'a>>, aggregate: Aggregate) -> Vec<ScoredMember<'a>> {
    inputs.sort_by_key(Input::len);
    let mut scores: HashMap<Cow<'a, [u8]>, f64> = HashMap::new();
    for input in inputs {
        for (member, score) in input.each() {
            let value = number_or_zero(aggregate.value(score, input.weight));
            scores
                .entry(member)
                .and_modify(|score| *score = aggregate.combine(*score, value))
                .or_insert(value);
        }
    }
    in_order(scores.into_iter().map(|(member, score)| ScoredMember { member, score }).collect())
}

/// The members of all inputs.
pub(super) fn intersection<'a>(
    inputs: Vec<Input<'a>>,
    aggregate: Aggregate,
) -> Vec<ScoredMember<'a>> {
    in_order(common(inputs, aggregate).collect())
}

/// How many members all inputs have, which is counted up to a limit.
pub(super) fn intersection_len(inputs: Vec<Input<'_>>, limit: usize) -> usize {
    common(inputs, Aggregate::Sum).take(limit).count()
}

fn common<'a>(
    mut inputs: Vec<Input<'a>>,
    aggregate: Aggregate,
) -> impl Iterator<Item = ScoredMember<'a>> {
    inputs.sort_by_key(Input::len);
    let smallest = inputs.first().copied();
    smallest.into_iter().flat_map(Input::each).filter_map(move |(member, score)| {
        let (first, others) = inputs.split_first()?;
        // As in Redis, only the first is a number in any case.
        let value = number_or_zero(aggregate.value(score, first.weight));
        let score = others.iter().try_fold(value, |score, other| {
            let value = aggregate.value(other.score(&member)?, other.weight);
            Some(aggregate.combine(score, value))
        })?;
        Some(ScoredMember { member, score })
    })
}

/// The members of the first input that none of the others has.
pub(super) fn difference<'a>(inputs: &[Input<'a>]) -> Vec<ScoredMember<'a>> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let is_left = |member: &[u8]| others.iter().all(|other| other.score(member).is_none());
    let left = first.each().filter(|(member, _)| is_left(member));
    in_order(left.map(|(member, score)| ScoredMember { member, score }).collect())
}

fn in_order(mut members: Vec<ScoredMember<'_>>) -> Vec<ScoredMember<'_>> {
    members.sort_unstable_by(|this, that| {
        let by_score = this.score.partial_cmp(&that.score).expect("no score is NaN");
        by_score.then_with(|| this.member.cmp(&that.member))
    });
    members
}

/// A result as a sorted set.
pub(super) fn to_sorted_set(members: &[ScoredMember<'_>], limits: &SortedSetLimits) -> SortedSet {
    let items: Vec<ItemRef<'_>> = members
        .iter()
        .map(|scored| ItemRef {
            member: Text::Bytes(&scored.member),
            score: scored.score,
            deadline: None,
        })
        .collect();
    SortedSet::from_sorted(&items, limits)
}
