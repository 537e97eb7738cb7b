//! What several sets have in common, together, or one beyond the others: SINTER, SUNION, SDIFF and
//! their STORE forms.
//!
//! Invariant: all keys are looked at before anything changes, so one of another type is refused
//! wherever it stands. Where the work would grow with the product of sizes and sets, a set of its
//! own is built instead.

use std::collections::HashSet;

use base::UnixMillis;
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::members::{Builder, MemberRef, Text};
use structs::set::{self, LargeSet, Set, SetLimits, SetRef};
use xxhash_rust::xxh3::xxh3_64;

use super::{BUILT_NS, CHANGED_NS, FOUND_NS, PASSED_NS, limits};
use crate::DataCommand;
use crate::change::store_result;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, KeySpec, all_from, first};
use crate::text::reply_member;

pub(super) const SINTER: DataCommand = Command {
    spec: Spec {
        name: "SINTER",
        summary: "Returns the intersect of multiple sets.",
        complexity: INTERSECTION_COST,
        ..READING
    },
    subcommands: &[],
    run: |tx, args, reply| reply_members(tx, args, reply, SetOperation::Intersection),
};

pub(super) const SUNION: DataCommand = Command {
    spec: Spec {
        name: "SUNION",
        summary: "Returns the union of multiple sets.",
        complexity: SUM_COST,
        ..READING
    },
    subcommands: &[],
    run: |tx, args, reply| reply_members(tx, args, reply, SetOperation::Union),
};

pub(super) const SDIFF: DataCommand = Command {
    spec: Spec {
        name: "SDIFF",
        summary: "Returns the difference of multiple sets.",
        complexity: SUM_COST,
        ..READING
    },
    subcommands: &[],
    run: |tx, args, reply| reply_members(tx, args, reply, SetOperation::Difference),
};

pub(super) const SINTERSTORE: DataCommand = Command {
    spec: Spec {
        name: "SINTERSTORE",
        summary: "Stores the intersect of multiple sets in a key.",
        complexity: INTERSECTION_COST,
        ..STORING
    },
    subcommands: &[],
    run: |tx, args, reply| store(tx, args, reply, SetOperation::Intersection, "sinterstore"),
};

pub(super) const SUNIONSTORE: DataCommand = Command {
    spec: Spec {
        name: "SUNIONSTORE",
        summary: "Stores the union of multiple sets in a key.",
        complexity: SUM_COST,
        ..STORING
    },
    subcommands: &[],
    run: |tx, args, reply| store(tx, args, reply, SetOperation::Union, "sunionstore"),
};

pub(super) const SDIFFSTORE: DataCommand = Command {
    spec: Spec {
        name: "SDIFFSTORE",
        summary: "Stores the difference of multiple sets in a key.",
        complexity: SUM_COST,
        ..STORING
    },
    subcommands: &[],
    run: |tx, args, reply| store(tx, args, reply, SetOperation::Difference, "sdiffstore"),
};

/// What the three that reply have in common.
const READING: Spec = Spec {
    since: "1.0.0",
    group: Group::Set,
    syntax: "key [key ...]",
    arity: at_least(2),
    flags: Flags::READONLY,
    keys: &[all_from(1, Access::RO.and(Access::ACCESS))],
    tips: &["nondeterministic_output_order"],
    ..Spec::BASE
};

/// What the three that store have in common.
const STORING: Spec = Spec {
    since: "1.0.0",
    group: Group::Set,
    syntax: "destination key [key ...]",
    arity: at_least(3),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
    keys: DESTINATION_AND_SOURCES,
    ..Spec::BASE
};

const DESTINATION_AND_SOURCES: &[KeySpec] =
    &[first(Access::OW.and(Access::UPDATE)), all_from(2, Access::RO.and(Access::ACCESS))];

pub(super) const INTERSECTION_COST: &str = "O(N*M) worst case where N is the cardinality of the \
                                            smallest set and M is the number of sets.";

pub(super) const SUM_COST: &str = "O(N) where N is the total number of elements in all given sets.";

/// Up to so many sets, a member's way through the others is shorter than its way into a new set.
const FEW: usize = 4;

/// What is made of several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SetOperation {
    Intersection,
    Union,
    Difference,
}

/// Members as they are found, or all of them at once.
pub(super) enum SetResult<'a> {
    Each(Box<dyn Iterator<Item = Text<'a>> + 'a>),
    All(Set),
}

/// What is where a command's keys point.
pub(super) struct Sources<'a> {
    sets: SmallVec<[Option<SetRef<'a>>; 4]>,
    now: UnixMillis,
}

fn reply_members(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: SetOperation,
) -> Result<(), Refusal> {
    let sources = Sources::read(tx, args.skip(1))?;
    tx.charge(sources.cost(operation))?;
    let (mark, mut count) = (reply.defer(), 0);
    let mut each = |member: Text<'_>| {
        reply_member(member, reply);
        count += 1;
    };
    match sources.combine(operation) {
        SetResult::Each(members) => members.for_each(each),
        SetResult::All(set) => set.borrow().iter().for_each(|member| each(member.member)),
    }
    reply.finish_set(mark, count);
    Ok(())
}

fn store(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: SetOperation,
    event: &'static str,
) -> Result<(), Refusal> {
    let (destination, keys, limits) = (&args[1], args.skip(2), limits(tx));
    let sources = match tx.lookup_ahead(|tx| Sources::peek(tx, keys)) {
        // What reads them refuses them, and counts.
        Err(Refusal::WrongType) => return Sources::read(tx, keys).map(drop),
        sources => sources?,
    };
    tx.charge(sources.cost(operation) + sources.most(operation) * BUILT_NS)?;
    let has_expired = sources.sets.iter().flatten().any(|set| set.has_expired(tx.expired_until()));
    drop(sources);
    if has_expired {
        // The journal gets the command as it was sent: a replay must find the same members.
        for key in keys.iter() {
            tx.expire_members(key, usize::MAX)?;
        }
    }
    let result = tx.compute(|tx| {
        let sources = Sources::read(tx, keys)?;
        let found = match operation {
            SetOperation::Union => sources.grown_union(),
            SetOperation::Intersection | SetOperation::Difference => None,
        };
        let mut set = found.unwrap_or_else(|| sources.combine(operation)).into_set(&limits);
        if operation == SetOperation::Difference {
            sources.keep_form_of_first(&mut set, &limits);
        }
        Ok(set)
    })?;
    let count = result.borrow().len();
    store_result(tx, destination, result, EventClass::Set, event)?;
    reply.integer(count as i64);
    Ok(())
}

impl<'a> Sources<'a> {
    /// The sets at these keys, as a reading command sees them.
    pub(super) fn read(tx: &'a Tx, keys: Args<'_>) -> Result<Self, Refusal> {
        let sets = keys.iter().map(|key| tx.view::<Set>(key)).collect::<Result<_, _>>()?;
        Ok(Self { sets, now: tx.expired_until() })
    }

    /// The same once more, leaving no trace.
    fn peek(tx: &'a Tx, keys: Args<'_>) -> Result<Self, Refusal> {
        let sets = keys.iter().map(|key| tx.peek_view::<Set>(key)).collect::<Result<_, _>>()?;
        Ok(Self { sets, now: tx.expired_until() })
    }

    /// Members of all sets, each counted as often as it occurs.
    pub(super) fn len(&self) -> u64 {
        self.sets.iter().flatten().map(|set| set.len()).sum()
    }

    /// Those that exist.
    pub(super) fn present(&self) -> Vec<SetRef<'a>> {
        self.sets.iter().flatten().copied().collect()
    }

    /// Those that exist, each once however often it is named.
    fn distinct(&self) -> Vec<SetRef<'a>> {
        let mut sets = self.present();
        if sets.len() > FEW {
            let mut met = HashSet::new();
            sets.retain(|set| met.insert(set.address()));
            return sets;
        }
        let mut place = 0;
        while let Some(set) = sets.get(place) {
            match sets[..place].iter().any(|other| other.address() == set.address()) {
                true => _ = sets.remove(place),
                false => place += 1,
            }
        }
        sets
    }

    /// The most members that a result can have.
    fn most(&self, operation: SetOperation) -> u64 {
        let sizes = self.sets.iter().map(|set| set.map_or(0, SetRef::len));
        match operation {
            SetOperation::Intersection => sizes.min().unwrap_or(0),
            SetOperation::Union => sizes.sum(),
            SetOperation::Difference => self.sets[0].map_or(0, SetRef::len),
        }
    }

    /// Nanoseconds that an operation takes at most.
    pub(super) fn cost(&self, operation: SetOperation) -> u64 {
        let sets = self.sets.len() as u64;
        let smallest = || self.sets.iter().map(|set| set.map_or(0, SetRef::len)).min();
        match operation {
            SetOperation::Intersection => {
                smallest().unwrap_or(0) * (PASSED_NS + (sets - 1) * FOUND_NS)
            }
            SetOperation::Union if self.present().len() <= 1 => self.len() * PASSED_NS,
            SetOperation::Union => self.len() * CHANGED_NS,
            SetOperation::Difference => {
                let first = self.sets[0].map_or(0, SetRef::len);
                let others = self.len() - first;
                first * PASSED_NS + (first * (sets - 1) * FOUND_NS).min(others * CHANGED_NS)
            }
        }
    }

    /// The union of a few sets as the largest of them with what it lacks, which is less work than a
    /// set of its own.
    fn grown_union(&self) -> Option<SetResult<'a>> {
        let few = self.distinct();
        if few.len() > FEW { None } else { set::grown_union(&few, self.now).map(SetResult::All) }
    }

    /// Gives a difference the form of a copy of the first set where Redis makes one and takes the
    /// others out of that: where half the look-ups of the first ones are more than all members.
    fn keep_form_of_first(&self, difference: &mut Set, limits: &SetLimits) {
        let Some(first) = self.sets[0] else { return };
        let looked_up = first.len() * self.present().len() as u64;
        if looked_up / 2 <= self.len() {
            return;
        }
        if first.len() > small_max(limits) {
            difference.outgrow();
        } else {
            difference.inherit_form(collect(first.alive(self.now), limits).borrow());
        }
    }

    pub(super) fn combine(&self, operation: SetOperation) -> SetResult<'a> {
        let now = self.now;
        match operation {
            SetOperation::Intersection if self.sets.iter().any(Option::is_none) => {
                SetResult::All(Set::default())
            }
            SetOperation::Intersection => {
                SetResult::Each(Box::new(set::intersection(self.distinct(), now)))
            }
            SetOperation::Union => match self.distinct() {
                few if few.len() <= FEW => SetResult::Each(Box::new(set::union(few, now))),
                many => SetResult::All(union_of(&many, now)),
            },
            SetOperation::Difference => {
                let Some(first) = self.sets[0] else { return SetResult::All(Set::default()) };
                let mut others = self.present();
                others.remove(0);
                match remainder(first, &others, now) {
                    Some(set) => SetResult::All(set),
                    None => SetResult::Each(Box::new(set::difference(first, others, now))),
                }
            }
        }
    }
}

impl SetResult<'_> {
    /// A set of the form that Redis gives to a result: that of its members added one by one.
    fn into_set(self, limits: &SetLimits) -> Set {
        match self {
            SetResult::All(mut set) if set.borrow().len() > small_max(limits) => {
                set.outgrow();
                set
            }
            SetResult::All(set) => collect(set.borrow().iter().map(|member| member.member), limits),
            SetResult::Each(members) => collect(members, limits),
        }
    }

    /// How many there are, counted up to a limit.
    pub(super) fn count(self, limit: u64) -> u64 {
        match self {
            SetResult::All(set) => set.borrow().len().min(limit),
            SetResult::Each(members) => {
                members.take(usize::try_from(limit).unwrap_or(usize::MAX)).count() as u64
            }
        }
    }
}

/// The most members of a set that is not called a hash table.
fn small_max(limits: &SetLimits) -> u64 {
    limits.intset_entries.max(limits.listpack_entries)
}

/// The union as a set of its own, of members of many sets.
pub(super) fn union_of(sets: &[SetRef<'_>], now: UnixMillis) -> Set {
    let (mut builder, mut recent) = (Builder::new(), RecentMembers::of(sets));
    for member in sets.iter().flat_map(|set| set.alive(now)) {
        if !recent.replace(member) {
            builder.push(MemberRef::plain(member));
        }
    }
    Set::Large(LargeSet::new(builder.finish()))
}

/// Members that were met lately, each at the one place that its bytes give: of sets that are alike
/// most are passed over for less than the way into a new set.
struct RecentMembers<'a> {
    places: Vec<Option<Text<'a>>>,
}

impl<'a> RecentMembers<'a> {
    /// Room for about as many as the largest set has, within bounds.
    fn of(sets: &[SetRef<'a>]) -> Self {
        const PLACES_MAX: u64 = 1 << 13;
        let largest = sets.iter().map(|set| set.len()).max().unwrap_or(0);
        let count = (largest * 4).min(PLACES_MAX).next_power_of_two();
        Self { places: vec![None; usize::try_from(count).unwrap_or(1)] }
    }

    /// Whether a member was met lately; from now on it was.
    fn replace(&mut self, member: Text<'a>) -> bool {
        let hash = match member {
            Text::Integer(number) => xxh3_64(&number.to_ne_bytes()),
            Text::Bytes(bytes) => xxh3_64(bytes),
            // To compare these takes as long as to add them.
            Text::Long(_) => return false,
        };
        let place = hash as usize & (self.places.len() - 1);
        self.places[place].replace(member) == Some(member)
    }
}

/// The difference as a set of its own, if it is less work to take the others out of a copy of the
/// first than to look its members up in all of them.
fn remainder(first: SetRef<'_>, others: &[SetRef<'_>], now: UnixMillis) -> Option<Set> {
    let sizes: u64 = others.iter().map(|set| set.len()).sum();
    let by_look_up = first.len() * others.len() as u64 * FOUND_NS;
    let has_deadlines = first.earliest_deadline().is_some();
    let is_large = matches!(first, SetRef::Large(_));
    if !is_large || has_deadlines || by_look_up <= sizes * CHANGED_NS {
        return None;
    }
    let mut rest = first.to_owned();
    for member in others.iter().flat_map(|set| set.alive(now)) {
        rest.remove(member);
    }
    Some(rest)
}

/// A set of members that are all different.
fn collect<'a>(members: impl Iterator<Item = Text<'a>>, limits: &SetLimits) -> Set {
    let mut members = members.fuse();
    // So many are no small set, whatever they are, and more than these only if all are integers.
    let first = |count: u64, members: &mut dyn Iterator<Item = Text<'a>>| {
        members.take(usize::try_from(count).unwrap_or(usize::MAX)).collect::<Vec<_>>()
    };
    let mut first_ones = first(limits.listpack_entries.saturating_add(1), &mut members);
    let are_integers = |texts: &[Text<'_>]| texts.iter().all(|text| text.to_integer().is_some());
    if first_ones.len() as u64 > limits.listpack_entries && are_integers(&first_ones) {
        let more = limits.intset_entries.saturating_add(1).saturating_sub(first_ones.len() as u64);
        first_ones.extend(first(more, &mut members));
    }
    let count = first_ones.len() as u64;
    let integers: Option<Vec<i64>> = first_ones.iter().map(|text| text.to_integer()).collect();
    let are_few = count <= limits.intset_entries && integers.is_some();
    if are_few && let Some(set) = integers.and_then(|mut it| Set::of_integers(&mut it)) {
        return set;
    }
    if count <= limits.listpack_entries || are_few {
        // These are all.
        let mut set = Set::default();
        first_ones.into_iter().for_each(|member| _ = set.insert(member, limits));
        return set;
    }
    let mut builder = Builder::new();
    first_ones.into_iter().for_each(|member| builder.push(MemberRef::plain(member)));
    members.for_each(|member| builder.push(MemberRef::plain(member)));
    Set::Large(LargeSet::new(builder.finish()))
}

#[cfg(test)]
mod tests {
    use base::UnixMillis;
    use structs::members::Text;
    use structs::set::{Set, SetLimits, SetRef};

    use super::{RecentMembers, union_of};

    const LIMITS: SetLimits =
        SetLimits { intset_entries: 512, listpack_entries: 128, listpack_value_bytes: 64 };

    fn set_of(members: &[Text<'_>]) -> Set {
        let mut set = Set::default();
        members.iter().for_each(|member| _ = set.insert(*member, &LIMITS));
        set
    }

    /// Members that are added, of so many sets of the same ones.
    fn added(members: &[Text<'_>], times: usize) -> usize {
        let alike: Vec<Set> = (0..times).map(|_| set_of(members)).collect();
        let sets: Vec<SetRef<'_>> = alike.iter().map(Set::borrow).collect();
        let now = UnixMillis::default();
        assert_eq!(union_of(&sets, now).borrow().len(), members.len() as u64);
        let mut recent = RecentMembers::of(&sets);
        sets.iter().flat_map(|set| set.alive(now)).filter(|member| !recent.replace(*member)).count()
    }

    #[test]
    fn what_sets_that_are_alike_share_is_seldom_added_again() {
        let names: Vec<String> = (0..300).map(|number| format!("name:{number}")).collect();
        let texts: Vec<Text<'_>> = names.iter().map(|name| Text::Bytes(name.as_bytes())).collect();
        let integers: Vec<Text<'_>> = (0..300).map(Text::Integer).collect();
        for members in [texts, integers] {
            let once = added(&members, 1);
            assert_eq!(once, members.len(), "none is passed over that is new");
            assert!(added(&members, 100) < 100 * once / 4);
        }
    }
}
