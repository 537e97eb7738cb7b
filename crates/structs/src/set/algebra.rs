//! Intersection, union and difference of sets, streamed: no input is copied, and nothing is
//! remembered of what came before.
//!
//! Members whose deadline is at or before `now` are taken for absent.

use base::UnixMillis;

use super::SetRef;
use crate::members::Text;

/// The members that are in all sets, in the order of the smallest. Takes a look-up in each other
/// set for each member of the smallest.
pub fn intersection<'a>(
    sets: &[SetRef<'a>],
    now: UnixMillis,
) -> impl Iterator<Item = Text<'a>> + use<'a> {
    let mut sets = sets.to_vec();
    // The smaller a set, the likelier it lacks a member.
    sets.sort_by_key(|set| set.len());
    let smallest = sets.first().copied();
    let others: Vec<SetRef<'a>> = sets.into_iter().skip(1).collect();
    let members = smallest.into_iter().flat_map(move |set| set.alive(now));
    members.filter(move |member| others.iter().all(|set| set.holds(*member, now)))
}

/// The members that are in the first set and in none of the others, in the order of the first.
/// Takes a look-up in each other set for each member of the first.
pub fn difference<'a>(
    first: SetRef<'a>,
    others: &[SetRef<'a>],
    now: UnixMillis,
) -> impl Iterator<Item = Text<'a>> + use<'a> {
    let mut others = others.to_vec();
    // The larger a set, the likelier it has a member.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    first.alive(now).filter(move |member| !others.iter().any(|set| set.holds(*member, now)))
}

/// The members that are in any set, each once: first those of the largest. Takes a look-up for each
/// member in each set that came before its own.
pub fn union<'a>(sets: &[SetRef<'a>], now: UnixMillis) -> impl Iterator<Item = Text<'a>> + use<'a> {
    let mut sets = sets.to_vec();
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    (0..sets.len()).flat_map(move |number| {
        let before = sets[..number].to_vec();
        let members = sets[number].alive(now);
        members.filter(move |member| !before.iter().any(|set| set.holds(*member, now)))
    })
}
