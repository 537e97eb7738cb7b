//! The hash: fields and values, small as a listpack, large as [`Members`].
//!
//! Small, the bytes are Redis' own: field, value, field, value; or, from the first deadline of a
//! field on, field, value, deadline (0: none), the earliest deadline first, and of equal ones the
//! latest given first. A small hash becomes large beyond [`HashLimits`], as Redis turns a listpack
//! into a hash table, and never small again; and beyond [`PACKED_MAX`] bytes, of which clients see
//! nothing: [`HashRef::encoding`] goes on to name what the limits ask for.
//!
//! A field whose deadline has passed is a field like any other here: the reader looks at the
//! deadline.

mod packed;
#[cfg(test)]
mod tests;

use base::{Random, UnixMillis};

use crate::listpack;
use crate::members::{self, Builder, Lifetime, MemberRef, Members, TAKEN_OUT, Text, Valued};
use crate::packing::{PACKED_MAX, Packed, PackedRef, Packing};

/// Beyond what a hash is called a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLimits {
    /// Fields, `hash-max-listpack-entries`.
    pub entries: u64,
    /// Bytes of a field or value, `hash-max-listpack-value`.
    pub value_bytes: usize,
}

/// A hash, to be changed.
#[derive(Clone)]
pub enum Hash {
    /// A listpack.
    Packed(Packed),
    /// Many fields or long ones.
    Large(LargeHash),
}

/// A hash where it lies.
#[derive(Clone, Copy)]
pub enum HashRef<'a> {
    /// A listpack.
    Packed(PackedRef<'a>),
    /// Many fields or long ones.
    Large(&'a LargeHash),
}

/// The large form; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct LargeHash {
    members: Members<Valued>,
    /// The small form that the limits ask for.
    within_limits: Option<Packing>,
}

impl Hash {
    /// The hash, to be read.
    #[must_use]
    pub fn borrow(&self) -> HashRef<'_> {
        match self {
            Hash::Packed(packed) => HashRef::Packed(packed.borrow()),
            Hash::Large(large) => HashRef::Large(large),
        }
    }

    /// Makes ready for as many fields as a command brings, equal ones counted each: Redis goes by
    /// that number, not by what comes of it.
    pub fn expect(&mut self, fields: u64, limits: &HashLimits) {
        if fields > limits.entries {
            self.outgrow();
        }
    }

    /// Changes the form of a hash that came from elsewhere, if it has more fields than the limits
    /// allow or is too long.
    pub fn fit(&mut self, limits: &HashLimits) {
        self.expect(self.borrow().len(), limits);
        self.make_room(0);
    }

    /// Puts a value, and tells whether the field is new.
    pub fn set(
        &mut self,
        field: Text<'_>,
        value: Text<'_>,
        lifetime: Lifetime,
        limits: &HashLimits,
    ) -> bool {
        if field.len().max(value.len()) > limits.value_bytes {
            self.outgrow();
        }
        // Deadlines come first: each field's takes room.
        if matches!(lifetime, Lifetime::Until(_)) {
            self.make_timed();
        }
        self.make_room(field.len() + value.len());
        let new = match self {
            Hash::Packed(packed) => packed::set(packed, field, value, lifetime),
            Hash::Large(large) => large.members.insert(field, value, lifetime),
        };
        if self.borrow().len() > limits.entries {
            self.outgrow();
        }
        new
    }

    /// Takes a field out, and tells whether there was one.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Hash::Packed(packed) => packed::remove(packed, field),
            Hash::Large(large) => large.members.remove(field),
        }
    }

    /// Takes the field of a number below the count out.
    pub fn take_at(&mut self, index: u64) -> Option<Vec<u8>> {
        match self {
            Hash::Packed(packed) => packed::take_at(packed, index),
            Hash::Large(large) => large.members.take_at(index),
        }
    }

    /// Gives a field the deadline, or none, that `judge` makes of its present one, if any; tells
    /// whether there is such a field.
    pub fn judge_deadline(
        &mut self,
        field: &[u8],
        judge: impl FnOnce(Option<UnixMillis>) -> Option<Option<UnixMillis>>,
    ) -> bool {
        if !self.lacks_room_for_deadline()
            && let Hash::Packed(packed) = self
        {
            return packed::judge_deadline(packed, field, judge);
        }
        let Some(present) = self.borrow().get(field) else { return false };
        match judge(present.deadline) {
            Some(deadline) => self.set_deadline(field, deadline),
            None => true,
        }
    }

    /// Gives a field a deadline, or takes it away; tells whether there is such a field.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<UnixMillis>) -> bool {
        let lacks_room = deadline.is_some() && self.lacks_room_for_deadline();
        if lacks_room && self.borrow().get(field).is_some() {
            self.make_timed();
        }
        match self {
            Hash::Packed(packed) => packed::judge_deadline(packed, field, |_| Some(deadline)),
            Hash::Large(large) => large.members.set_deadline(field, deadline),
        }
    }

    /// Takes fields out whose deadline is at or before `now`, at most `limit`, and tells them.
    pub fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        match self {
            Hash::Packed(packed) => packed::take_expired(packed, now, limit),
            Hash::Large(large) => large.members.take_expired(now, limit),
        }
    }

    /// The limits ask for the large form from now on.
    fn outgrow(&mut self) {
        self.enlarge().within_limits = None;
    }

    /// Changes into the large form if with so many more bytes the small one would be too long.
    fn make_room(&mut self, more: usize) {
        if let Hash::Packed(packed) = self
            && packed.bytes.len() + more + packed::OVERHEAD_MAX > PACKED_MAX
        {
            self.enlarge();
        }
    }

    /// Whether a deadline asks for [`Hash::make_timed`]: there is place for none, or, as one takes
    /// more bytes than none, too little.
    fn lacks_room_for_deadline(&self) -> bool {
        let is_untimed = |packing| packing != Packing::TimedListpack;
        match self {
            Hash::Packed(packed) => {
                is_untimed(packed.packing) || packed.bytes.len() + packed::OVERHEAD_MAX > PACKED_MAX
            }
            Hash::Large(large) => large.within_limits.is_some_and(is_untimed),
        }
    }

    /// Makes place for deadlines, and room for one.
    fn make_timed(&mut self) {
        if let Hash::Packed(packed) = self {
            packed::make_timed(packed);
        }
        self.make_room(0);
        if let Hash::Large(LargeHash { within_limits: Some(packing), .. }) = self {
            *packing = Packing::TimedListpack;
        }
    }

    fn enlarge(&mut self) -> &mut LargeHash {
        if let Hash::Packed(packed) = self {
            let mut builder = Builder::new();
            packed::fields(packed.borrow()).for_each(|field| builder.push(field));
            let within_limits = Some(packed.packing);
            *self = Hash::Large(LargeHash { members: builder.finish(), within_limits });
        }
        match self {
            Hash::Large(large) => large,
            Hash::Packed(_) => unreachable!("it was made large"),
        }
    }
}

impl Default for Hash {
    fn default() -> Hash {
        Hash::Packed(Packed { packing: Packing::Listpack, bytes: listpack::new() })
    }
}

impl<'a> HashRef<'a> {
    /// The number of fields.
    #[inline]
    pub fn len(self) -> u64 {
        match self {
            HashRef::Packed(packed) => packed::len(packed),
            HashRef::Large(large) => large.members.len(),
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A field with its value and deadline.
    #[inline]
    pub fn get(self, field: &[u8]) -> Option<MemberRef<'a>> {
        match self {
            HashRef::Packed(packed) => packed::get(packed, field),
            HashRef::Large(large) => large.members.get(field),
        }
    }

    /// The field of a number below the count. Which that is, any change may change.
    pub fn at(self, index: u64) -> Option<MemberRef<'a>> {
        match self {
            HashRef::Packed(packed) => packed::at(packed, index),
            HashRef::Large(large) => large.members.at(index),
        }
    }

    /// A field, each equally likely.
    pub fn random(self, random: &mut Random) -> Option<MemberRef<'a>> {
        self.at(random.below(self.len()))
    }

    /// All fields: in the order of the listpack, or of the hashes.
    pub fn iter(self) -> HashIter<'a> {
        match self {
            HashRef::Packed(packed) => HashIter(HashIterRepr::Packed(packed::fields(packed))),
            HashRef::Large(large) => HashIter(HashIterRepr::Large(large.members.iter())),
        }
    }

    /// Fields from a cursor on, and the next cursor, as [`Members::scan`]; all at once of a small
    /// hash.
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<MemberRef<'a>>) {
        match self {
            HashRef::Packed(packed) => (0, packed::fields(packed).collect()),
            HashRef::Large(large) => large.members.scan(cursor, count),
        }
    }

    /// The earliest deadline of a field.
    pub fn earliest_deadline(self) -> Option<UnixMillis> {
        match self {
            HashRef::Packed(packed) => packed::earliest_deadline(packed),
            HashRef::Large(large) => large.members.earliest_deadline(),
        }
    }

    /// What [`Hash::take_expired`] has to do, as [`Members::expiry_work`] counts.
    pub fn expiry_work(self, now: UnixMillis, limit: u64) -> u64 {
        match self {
            HashRef::Packed(packed) => packed::len(packed) * TAKEN_OUT,
            HashRef::Large(large) => large.members.expiry_work(now, limit),
        }
    }

    /// The form by the name that Redis gives it: of the small forms, the one that the limits ask
    /// for.
    pub fn encoding(self) -> &'static str {
        let packing = match self {
            HashRef::Packed(packed) => Some(packed.packing),
            HashRef::Large(large) => large.within_limits,
        };
        match packing {
            None => "hashtable",
            Some(Packing::TimedListpack) => "listpackex",
            Some(_) => "listpack",
        }
    }

    /// A copy to be changed; of a large hash it shares everything.
    #[must_use]
    pub fn to_owned(self) -> Hash {
        match self {
            HashRef::Packed(packed) => Hash::Packed(packed.to_owned()),
            HashRef::Large(large) => Hash::Large(large.clone()),
        }
    }
}

impl<'a> IntoIterator for HashRef<'a> {
    type Item = MemberRef<'a>;
    type IntoIter = HashIter<'a>;

    fn into_iter(self) -> HashIter<'a> {
        self.iter()
    }
}

impl LargeHash {
    /// A hash table, by its name too, of these fields.
    pub fn new(members: Members<Valued>) -> LargeHash {
        LargeHash { members, within_limits: None }
    }

    /// The fields.
    pub fn members(&self) -> &Members<Valued> {
        &self.members
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.members.memory()
    }
}

/// The fields of a hash.
pub struct HashIter<'a>(HashIterRepr<'a>);

enum HashIterRepr<'a> {
    Packed(packed::PackedFields<'a>),
    Large(members::MembersIter<'a, Valued>),
}

impl<'a> Iterator for HashIter<'a> {
    type Item = MemberRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<MemberRef<'a>> {
        match &mut self.0 {
            HashIterRepr::Packed(fields) => fields.next(),
            HashIterRepr::Large(fields) => fields.next(),
        }
    }
}
