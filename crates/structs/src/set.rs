//! The set: integers, a listpack, or [`Members`].
//!
//! Small, the bytes are Redis' own: an intset while all members are integers, else a listpack of
//! members. Beyond [`SetLimits`] it becomes large, by Redis' rules: an intset of too many members
//! and a listpack of too many or too long ones becomes a hash table; an intset that takes a member
//! that is no integer becomes a listpack if that is within its limits. No set becomes small
//! again. Beyond [`PACKED_MAX`] bytes it becomes large, too, of which clients see nothing:
//! [`SetRef::encoding`] goes on to name what the limits ask for.
//!
//! Only the large form knows deadlines of members. A member whose deadline has passed is a member
//! like any other here, except in the algebra, which is told the time.

mod algebra;
mod packed;
#[cfg(test)]
mod tests;

use base::number::format_i64;
use base::{Random, UnixMillis};

pub use self::algebra::{difference, grown_union, intersection, union};
use crate::intset;
use crate::listpack;
use crate::members::{self, Builder, Lifetime, MemberRef, Members, Text};
use crate::packing::{PACKED_MAX, Packed, PackedRef, Packing};

/// Beyond what a set is called a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Members of an intset, `set-max-intset-entries`.
    pub intset_entries: u64,
    /// Members of a listpack, `set-max-listpack-entries`.
    pub listpack_entries: u64,
    /// Bytes of a member in a listpack, `set-max-listpack-value`.
    pub listpack_value_bytes: usize,
}

/// A set, to be changed.
#[derive(Clone)]
pub enum Set {
    /// An intset or a listpack.
    Packed(Packed),
    /// Many members, or long ones, or some with a deadline.
    Large(LargeSet),
}

/// A set where it lies.
#[derive(Clone, Copy)]
pub enum SetRef<'a> {
    /// An intset or a listpack.
    Packed(PackedRef<'a>),
    /// Many members, or long ones, or some with a deadline.
    Large(&'a LargeSet),
}

/// The large form; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct LargeSet {
    members: Members<()>,
    /// The small form that the limits ask for.
    within_limits: Option<Packing>,
}

impl Set {
    /// An empty set for as many members as a command brings, equal ones counted each: Redis goes by
    /// that number and by the first of them.
    pub fn for_members(first: &[u8], count: u64, limits: &SetLimits) -> Set {
        if Text::Bytes(first).to_integer().is_some() && count <= limits.intset_entries {
            Set::default()
        } else if count <= limits.listpack_entries {
            Set::Packed(Packed { packing: Packing::Listpack, bytes: listpack::new() })
        } else {
            Set::Large(LargeSet::default())
        }
    }

    /// An intset of different integers, if it is to be no larger than a small set.
    #[must_use]
    pub fn of_integers(values: &mut [i64]) -> Option<Set> {
        values.sort_unstable();
        let bytes = intset::from_rising(values);
        let is_small = bytes.len() <= PACKED_MAX;
        is_small.then_some(Set::Packed(Packed { packing: Packing::Intset, bytes }))
    }

    /// The set, to be read.
    #[must_use]
    pub fn borrow(&self) -> SetRef<'_> {
        match self {
            Set::Packed(packed) => SetRef::Packed(packed.borrow()),
            Set::Large(large) => SetRef::Large(large),
        }
    }

    /// Makes ready for as many members as a command brings, as [`Set::for_members`].
    pub fn expect(&mut self, count: u64, limits: &SetLimits) {
        let most = match self.borrow().packing() {
            Some(Packing::Intset) => limits.intset_entries,
            Some(_) => limits.listpack_entries,
            None => return,
        };
        if count > most {
            self.outgrow();
        }
    }

    /// Changes the form of a set that came from elsewhere, if it has more members than the limits
    /// allow or is too long.
    pub fn fit(&mut self, limits: &SetLimits) {
        self.expect(self.borrow().len(), limits);
        if let Set::Packed(packed) = self
            && packed.bytes.len() > PACKED_MAX
        {
            self.enlarge();
        }
    }

    /// Adds a member, and tells whether it is new. One that is there keeps its deadline.
    pub fn insert(&mut self, member: Text<'_>, limits: &SetLimits) -> bool {
        if let Set::Large(LargeSet { members, within_limits: None }) = self {
            return members.insert(member, Text::Bytes(&[]), Lifetime::Keep);
        }
        if self.borrow().contains(member) {
            return false;
        }
        let integer = member.to_integer();
        match self.asked_for(member.len(), integer, limits) {
            None => self.outgrow(),
            Some(packing) => self.arrange(packing, member.len(), integer),
        }
        match self {
            Set::Packed(packed) => packed::insert(packed, member, integer),
            Set::Large(large) => {
                large.members.insert(member, Text::Bytes(&[]), Lifetime::Keep);
            }
        }
        true
    }

    /// Adds a member with a deadline, or gives it to the one that is there; tells whether it is
    /// new. The set becomes large.
    pub fn insert_until(&mut self, member: Text<'_>, deadline: UnixMillis) -> bool {
        self.outgrow();
        let lifetime = Lifetime::Until(deadline);
        self.enlarge().members.insert(member, Text::Bytes(&[]), lifetime)
    }

    /// Takes a member out, and tells whether there was one.
    pub fn remove(&mut self, member: Text<'_>) -> bool {
        match self {
            Set::Packed(packed) => packed::remove(packed, member),
            Set::Large(large) => large.members.remove(member.as_bytes(&mut Vec::new())),
        }
    }

    /// Takes the member of a number below the count out.
    pub fn take_at(&mut self, index: u64) -> Option<Vec<u8>> {
        match self {
            Set::Packed(packed) => {
                let member = packed::at(packed.borrow(), index)?.to_vec();
                packed::remove(packed, Text::Bytes(&member));
                Some(member)
            }
            Set::Large(large) => large.members.take_at(index),
        }
    }

    /// Takes a member out, each equally likely.
    pub fn pop(&mut self, random: &mut Random) -> Option<Vec<u8>> {
        self.take_at(random.below(self.borrow().len()))
    }

    /// Takes so many members out, as far as there are, all in one walk where the set is small.
    pub fn pop_many(&mut self, count: u64, random: &mut Random) -> Vec<Vec<u8>> {
        match self {
            Set::Packed(packed) => {
                let drawn = members::sample(packed::len(packed.borrow()), count, random);
                packed::take_all_at(packed, drawn)
            }
            Set::Large(large) if count > large.members.len() / 2 => {
                let kept = large.members.len().saturating_sub(count);
                large.keep_some(members::sample(large.members.len(), kept, random))
            }
            Set::Large(_) => (0..count).map_while(|_| self.pop(random)).collect(),
        }
    }

    /// Gives a member a deadline, which makes the set large, or takes it away; tells whether there
    /// is such a member.
    pub fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) -> bool {
        let found = self.borrow().contains(Text::Bytes(member));
        if found && deadline.is_some() {
            self.outgrow();
        }
        if let Set::Large(large) = self {
            large.members.set_deadline(member, deadline);
        }
        found
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    pub fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        match self {
            Set::Packed(_) => Vec::new(),
            Set::Large(large) => large.members.take_expired(now, limit),
        }
    }

    /// The small form that the limits ask for with one more member, or `None` if it is the large
    /// one.
    fn asked_for(&self, len: usize, integer: Option<i64>, limits: &SetLimits) -> Option<Packing> {
        let set = self.borrow();
        let packing = set.packing()?;
        // An empty intset is what any set begins as.
        let intset = packing == Packing::Intset && !(set.is_empty() && limits.intset_entries == 0);
        if intset && integer.is_some() {
            return (set.len() < limits.intset_entries).then_some(packing);
        }
        let longest = match packing {
            Packing::Intset => set.iter().map(|member| member.member.len()).max().unwrap_or(0),
            _ => 0,
        };
        let within =
            set.len() < limits.listpack_entries && len.max(longest) <= limits.listpack_value_bytes;
        within.then_some(Packing::Listpack)
    }

    /// Brings a set within the limits into this small form, if that is not too long then.
    fn arrange(&mut self, packing: Packing, len: usize, integer: Option<i64>) {
        if let Set::Packed(packed) = self {
            if packing == Packing::Listpack {
                packed::leave_intset(packed);
            }
            if packed::len_with(packed, len, integer) > PACKED_MAX {
                self.enlarge();
            }
        }
        if let Set::Large(large) = self {
            large.within_limits = Some(packing);
        }
    }

    /// Goes on as a set that had the form of another, if the limits asked for a larger one there.
    pub fn inherit_form(&mut self, other: SetRef<'_>) {
        match other.packing() {
            None => self.outgrow(),
            Some(Packing::Listpack) if self.borrow().packing().is_some() => {
                self.arrange(Packing::Listpack, 0, None);
            }
            Some(_) => {}
        }
    }

    /// The limits ask for the large form from now on.
    pub fn outgrow(&mut self) {
        self.enlarge().within_limits = None;
    }

    fn enlarge(&mut self) -> &mut LargeSet {
        if let Set::Packed(packed) = self {
            let mut builder = Builder::new();
            packed::members(packed.borrow())
                .for_each(|member| builder.push(MemberRef::plain(member)));
            let within_limits = Some(packed.packing);
            *self = Set::Large(LargeSet { members: builder.finish(), within_limits });
        }
        match self {
            Set::Large(large) => large,
            Set::Packed(_) => unreachable!("it was made large"),
        }
    }
}

impl Default for Set {
    fn default() -> Set {
        Set::Packed(Packed { packing: Packing::Intset, bytes: intset::new() })
    }
}

impl<'a> SetRef<'a> {
    /// The number of members.
    #[inline]
    pub fn len(self) -> u64 {
        match self {
            SetRef::Packed(packed) => packed::len(packed),
            SetRef::Large(large) => large.members.len(),
        }
    }

    /// Where the set lies: another one than this while both are borrowed lies elsewhere.
    pub fn address(self) -> usize {
        match self {
            SetRef::Packed(packed) => packed.bytes.as_ptr().addr(),
            SetRef::Large(large) => std::ptr::from_ref(large).addr(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether there is such a member.
    #[inline]
    pub fn contains(self, member: Text<'_>) -> bool {
        match self {
            SetRef::Packed(packed) => packed::contains(packed, member),
            SetRef::Large(LargeSet { members, .. }) => match member {
                Text::Integer(number) => members.contains(format_i64(number, &mut [0; 20])),
                text => members.contains(text.as_bytes(&mut Vec::new())),
            },
        }
    }

    /// A member with its deadline.
    pub fn get(self, member: Text<'_>) -> Option<MemberRef<'a>> {
        match self {
            SetRef::Packed(packed) => packed::get(packed, member).map(MemberRef::plain),
            SetRef::Large(large) => large.members.get(member.as_bytes(&mut Vec::new())),
        }
    }

    /// The member of a number below the count. Which that is, any change may change.
    pub fn at(self, index: u64) -> Option<MemberRef<'a>> {
        match self {
            SetRef::Packed(packed) => packed::at(packed, index).map(MemberRef::plain),
            SetRef::Large(large) => large.members.at(index),
        }
    }

    /// A member, each equally likely.
    pub fn random(self, random: &mut Random) -> Option<MemberRef<'a>> {
        self.at(random.below(self.len()))
    }

    /// All members: integers rising, others in the order of the listpack, or of the hashes.
    pub fn iter(self) -> SetIter<'a> {
        match self {
            SetRef::Packed(packed) => SetIter(SetIterRepr::Packed(packed::members(packed))),
            SetRef::Large(large) => SetIter(SetIterRepr::Large(large.members.iter())),
        }
    }

    /// Members from a cursor on, and the next cursor, as [`Members::scan`]; all at once of a small
    /// set.
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<MemberRef<'a>>) {
        match self {
            SetRef::Packed(_) => (0, self.iter().collect()),
            SetRef::Large(large) => large.members.scan(cursor, count),
        }
    }

    /// What [`Set::take_expired`] has to do, as [`Members::expiry_work`] counts.
    pub fn expiry_work(self, now: UnixMillis, limit: u64) -> u64 {
        match self {
            SetRef::Packed(_) => 0,
            SetRef::Large(large) => large.members.expiry_work(now, limit),
        }
    }

    /// Whether there is such a member whose deadline, if it has one, lies after `now`.
    pub fn holds(self, member: Text<'_>, now: UnixMillis) -> bool {
        if self.has_expired(now) {
            return self.get(member).is_some_and(|member| member.is_alive(now));
        }
        self.contains(member)
    }

    /// The members whose deadline, if they have one, lies after `now`, in the order of `iter`.
    pub fn alive(self, now: UnixMillis) -> impl Iterator<Item = Text<'a>> + use<'a> {
        self.iter().filter(move |member| member.is_alive(now)).map(|member| member.member)
    }

    /// Whether the deadline of any member is at or before `now`, in O(1).
    pub fn has_expired(self, now: UnixMillis) -> bool {
        self.earliest_deadline().is_some_and(|earliest| earliest <= now)
    }

    /// The earliest deadline of a member.
    pub fn earliest_deadline(self) -> Option<UnixMillis> {
        match self {
            SetRef::Packed(_) => None,
            SetRef::Large(large) => large.members.earliest_deadline(),
        }
    }

    /// The form by the name that Redis gives it: of the small forms, the one that the limits ask
    /// for.
    pub fn encoding(self) -> &'static str {
        match self.packing() {
            None => "hashtable",
            Some(Packing::Intset) => "intset",
            Some(_) => "listpack",
        }
    }

    /// A copy to be changed; of a large set it shares everything.
    #[must_use]
    pub fn to_owned(self) -> Set {
        match self {
            SetRef::Packed(packed) => Set::Packed(packed.to_owned()),
            SetRef::Large(large) => Set::Large(large.clone()),
        }
    }

    /// The small form that the limits ask for.
    fn packing(self) -> Option<Packing> {
        match self {
            SetRef::Packed(packed) => Some(packed.packing),
            SetRef::Large(large) => large.within_limits,
        }
    }
}

impl<'a> IntoIterator for SetRef<'a> {
    type Item = MemberRef<'a>;
    type IntoIter = SetIter<'a>;

    fn into_iter(self) -> SetIter<'a> {
        self.iter()
    }
}

impl LargeSet {
    /// Makes itself anew of the members of these numbers, and tells the others.
    fn keep_some(&mut self, mut numbers: Vec<u64>) -> Vec<Vec<u8>> {
        numbers.sort_unstable();
        let (mut kept, mut others) = (Builder::new(), Vec::new());
        let mut numbers = numbers.into_iter().peekable();
        for (number, member) in (0..).zip(self.members.iter()) {
            match numbers.next_if_eq(&number) {
                Some(_) => kept.push(member),
                None => others.push(member.member.to_vec()),
            }
        }
        self.members = kept.finish();
        others
    }

    /// A hash table, by its name too, of these members.
    pub fn new(members: Members<()>) -> LargeSet {
        LargeSet { members, within_limits: None }
    }

    /// The members.
    pub fn members(&self) -> &Members<()> {
        &self.members
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.members.memory()
    }
}

/// The members of a set.
pub struct SetIter<'a>(SetIterRepr<'a>);

enum SetIterRepr<'a> {
    Packed(packed::PackedMembers<'a>),
    Large(members::MembersIter<'a, ()>),
}

impl<'a> Iterator for SetIter<'a> {
    type Item = MemberRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<MemberRef<'a>> {
        match &mut self.0 {
            SetIterRepr::Packed(members) => members.next().map(MemberRef::plain),
            SetIterRepr::Large(members) => members.next(),
        }
    }
}
