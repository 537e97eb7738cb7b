//! Intersection, union and difference of sets, streamed: no input is copied, and nothing is
//! remembered of what came before.
//!
//! Members whose deadline is at or before `now` are taken for absent.

use std::rc::Rc;

use base::UnixMillis;

use super::{LargeSet, Set, SetRef};
use crate::members::{Lifetime, Text};

/// The members that are in all sets, in the order of the smallest. Takes a look-up in each other
/// set for each member of the smallest.
pub fn intersection<'a>(
    mut sets: Vec<SetRef<'a>>,
    now: UnixMillis,
) -> impl Iterator<Item = Text<'a>> + use<'a> {
    // The smaller a set, the likelier it lacks a member.
    sets.sort_by_key(|set| set.len());
    let members = sets.first().copied().into_iter().flat_map(move |set| set.alive(now));
    members.filter(move |member| sets[1..].iter().all(|set| set.holds(*member, now)))
}

/// The members that are in the first set and in none of the others, in the order of the first.
/// Takes a look-up in each other set for each member of the first.
pub fn difference<'a>(
    first: SetRef<'a>,
    mut others: Vec<SetRef<'a>>,
    now: UnixMillis,
) -> impl Iterator<Item = Text<'a>> + use<'a> {
    // The larger a set, the likelier it has a member.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    first.alive(now).filter(move |member| !others.iter().any(|set| set.holds(*member, now)))
}

/// The members that are in any set, each once: first those of the largest. Takes a look-up for each
/// member in each set that came before its own.
pub fn union<'a>(
    mut sets: Vec<SetRef<'a>>,
    now: UnixMillis,
) -> impl Iterator<Item = Text<'a>> + use<'a> {
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let sets = Rc::new(sets);
    (0..sets.len()).flat_map(move |number| {
        let before = Rc::clone(&sets);
        let members = sets[number].alive(now);
        members.filter(move |member| !before[..number].iter().any(|set| set.holds(*member, now)))
    })
}

/// The same as a set of its own: the largest, which is a large one without deadlines, with what the
/// others have beside it. `None` if it is another.
pub fn grown_union(sets: &[SetRef<'_>], now: UnixMillis) -> Option<Set> {
    let (largest, SetRef::Large(large)) =
        sets.iter().enumerate().max_by_key(|(_, set)| set.len()).map(|(at, set)| (at, *set))?
    else {
        return None;
    };
    if large.members.earliest_deadline().is_some() {
        return None;
    }
    let mut members = large.members.clone();
    for (_, set) in sets.iter().enumerate().filter(|(at, _)| *at != largest) {
        for member in set.alive(now) {
            members.insert(member, Text::Bytes(&[]), Lifetime::Keep);
        }
    }
    Some(Set::Large(LargeSet::new(members)))
}
