//! Intersection, union and difference of sets, streamed: no input is copied, and nothing is
//! remembered of what came before.
//!
//! Members whose deadline is at or before `now` are taken for absent.

use base::UnixMillis;

use super::SetRef;
use crate::members::{MemberRef, Text};

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
    alive(smallest, now).filter(move |member| others.iter().all(|set| holds(*set, *member, now)))
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
    alive(Some(first), now)
        .filter(move |member| !others.iter().any(|set| holds(*set, *member, now)))
}

/// The members that are in any set, each once: first those of the largest. Takes a look-up for each
/// member in each set that came before its own.
pub fn union<'a>(sets: &[SetRef<'a>], now: UnixMillis) -> impl Iterator<Item = Text<'a>> + use<'a> {
    let mut sets = sets.to_vec();
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    (0..sets.len()).flat_map(move |number| {
        let before = sets[..number].to_vec();
        alive(Some(sets[number]), now)
            .filter(move |member| !before.iter().any(|set| holds(*set, *member, now)))
    })
}

fn alive<'a>(set: Option<SetRef<'a>>, now: UnixMillis) -> impl Iterator<Item = Text<'a>> + use<'a> {
    let members = set.into_iter().flat_map(SetRef::iter);
    members.filter(move |member| member.is_alive(now)).map(|member| member.member)
}

fn holds(set: SetRef<'_>, member: Text<'_>, now: UnixMillis) -> bool {
    match set.earliest_deadline() {
        Some(earliest) if earliest <= now => {
            set.get(member).is_some_and(|member: MemberRef<'_>| member.is_alive(now))
        }
        _ => set.contains(member),
    }
}
