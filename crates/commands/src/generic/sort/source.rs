//! Where elements come from: a list, a set or a sorted set.
//!
//! Invariant: members whose time is over are passed over and not counted.

use std::ops::Range;

use base::UnixMillis;
use keyspace::{EntryRef, Kind, Refusal, Tx};
use structs::list::{List, ListRef};
use structs::members::Text;
use structs::object::Container;
use structs::set::{Set, SetRef};
use structs::sorted_set::{SortedSet, SortedSetRef};

/// A value with elements.
#[derive(Clone, Copy)]
pub(super) enum SortSource<'a> {
    List(ListRef<'a>),
    /// With the time that its members' deadlines are compared with.
    Set(SetRef<'a>, UnixMillis),
    SortedSet(SortedSetRef<'a>),
}

impl<'a> SortSource<'a> {
    /// The value at a key, as a reading command sees it.
    pub(super) fn read(tx: &'a Tx, key: &[u8]) -> Result<Option<Self>, Refusal> {
        tx.read(key)?.map(|entry| Self::of(entry, tx.expired_until())).transpose()
    }

    /// The value at a key, leaving no trace.
    pub(super) fn peek(tx: &'a Tx, key: &[u8]) -> Result<Option<Self>, Refusal> {
        tx.peek(key)?.map(|entry| Self::of(entry, tx.expired_until())).transpose()
    }

    fn of(entry: EntryRef<'a>, now: UnixMillis) -> Result<Self, Refusal> {
        let stored = entry.stored().ok_or(Refusal::WrongType)?;
        match entry.kind() {
            Kind::List => Ok(Self::List(List::view(stored))),
            Kind::Set => Ok(Self::Set(Set::view(stored), now)),
            Kind::SortedSet => Ok(Self::SortedSet(SortedSet::view(stored))),
            _ => Err(Refusal::WrongType),
        }
    }

    /// How many elements there are.
    pub(super) fn len(self) -> u64 {
        match self {
            Self::List(list) => list.len(),
            Self::Set(set, now) if set.has_expired(now) => set.alive(now).count() as u64,
            Self::Set(set, _) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    /// Whether the elements have no order of their own: not even one of the same set elsewhere.
    pub(super) fn is_unordered(self) -> bool {
        matches!(self, Self::Set(SetRef::Large(_), _))
    }

    /// Whether the elements are those of a set.
    pub(super) fn is_set(self) -> bool {
        matches!(self, Self::Set(..))
    }

    /// All elements.
    pub(super) fn iter(self) -> Box<dyn Iterator<Item = Text<'a>> + 'a> {
        self.range(0..self.len(), false)
    }

    /// Some of the elements; counted and told from the last one on if `falling`, where they have an
    /// order.
    pub(super) fn range(
        self,
        range: Range<u64>,
        falling: bool,
    ) -> Box<dyn Iterator<Item = Text<'a>> + 'a> {
        let len = self.len();
        let range = match falling {
            true => len - range.end..len - range.start,
            false => range,
        };
        match self {
            Self::List(list) if falling => Box::new(list.range(range).rev()),
            Self::List(list) => Box::new(list.range(range)),
            Self::Set(set, now) => {
                let skipped = if falling { len - range.end } else { range.start };
                let count = range.end - range.start;
                Box::new(set.alive(now).skip(skipped as usize).take(count as usize))
            }
            Self::SortedSet(set) if falling => {
                Box::new(set.items_back(range).map(|item| item.member))
            }
            Self::SortedSet(set) => Box::new(set.items(range).map(|item| item.member)),
        }
    }
}
