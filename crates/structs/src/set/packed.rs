//! The small set: an intset, or a listpack of members.

use crate::intset::{self, Intset};
use crate::listpack::{self, Element, Entries, Listpack};
use crate::members::Text;
use crate::packing::{Packed, PackedRef, Packing};

/// Bytes that a listpack may put around a member: its encoding, and its length behind it.
const ENTRY_MAX: usize = 10;

pub(super) fn len(packed: PackedRef<'_>) -> u64 {
    match packed.packing {
        Packing::Intset => Intset::new(packed.bytes).len() as u64,
        _ => Listpack::new(packed.bytes).len() as u64,
    }
}

#[inline]
pub(super) fn contains(packed: PackedRef<'_>, member: Text<'_>) -> bool {
    get(packed, member).is_some()
}

#[inline]
pub(super) fn get<'a>(packed: PackedRef<'a>, member: Text<'_>) -> Option<Text<'a>> {
    match packed.packing {
        Packing::Intset => {
            let integer = member.to_integer()?;
            Intset::new(packed.bytes).contains(integer).then_some(Text::Integer(integer))
        }
        _ => {
            let mut buffer = Vec::new();
            let entry = Listpack::new(packed.bytes).find(member.as_bytes(&mut buffer), 1)?;
            Some(entry.element.into())
        }
    }
}

pub(super) fn at(packed: PackedRef<'_>, index: u64) -> Option<Text<'_>> {
    let place = i64::try_from(index).ok()?;
    match packed.packing {
        Packing::Intset => Intset::new(packed.bytes).get(index as usize).map(Text::Integer),
        _ => Some(Listpack::new(packed.bytes).get(place)?.element.into()),
    }
}

pub(super) fn members(packed: PackedRef<'_>) -> PackedMembers<'_> {
    match packed.packing {
        Packing::Intset => PackedMembers::Integers { intset: Intset::new(packed.bytes), next: 0 },
        _ => PackedMembers::Elements(Listpack::new(packed.bytes).entries()),
    }
}

pub(super) enum PackedMembers<'a> {
    Integers { intset: Intset<'a>, next: usize },
    Elements(Entries<'a>),
}

impl<'a> Iterator for PackedMembers<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        match self {
            PackedMembers::Integers { intset, next } => {
                *next += 1;
                intset.get(*next - 1).map(Text::Integer)
            }
            PackedMembers::Elements(entries) => entries.next().map(|entry| entry.element.into()),
        }
    }
}

/// Adds a member that is not there; into an intset, an integer.
pub(super) fn insert(packed: &mut Packed, member: Text<'_>, integer: Option<i64>) {
    match (packed.packing, integer) {
        (Packing::Intset, Some(integer)) => {
            intset::insert(&mut packed.bytes, integer);
        }
        (_, Some(integer)) => listpack::push_back(&mut packed.bytes, Element::Integer(integer)),
        (_, None) => {
            let mut buffer = Vec::new();
            let element = Element::Bytes(member.as_bytes(&mut buffer));
            listpack::push_back(&mut packed.bytes, element);
        }
    }
}

pub(super) fn remove(packed: &mut Packed, member: Text<'_>) -> bool {
    match packed.packing {
        Packing::Intset => {
            member.to_integer().is_some_and(|integer| intset::remove(&mut packed.bytes, integer))
        }
        _ => {
            let mut buffer = Vec::new();
            let member = member.as_bytes(&mut buffer);
            let found = Listpack::new(&packed.bytes).find(member, 1).map(|entry| entry.offset);
            found.is_some_and(|offset| listpack::remove(&mut packed.bytes, offset, 1) == 1)
        }
    }
}

/// Takes the members of these numbers out, whatever their order.
pub(super) fn take_all_at(packed: &mut Packed, mut numbers: Vec<u64>) -> Vec<Vec<u8>> {
    numbers.sort_unstable();
    let (mut numbers, mut taken) = (numbers.into_iter().peekable(), Vec::new());
    let empty = if packed.packing == Packing::Intset { intset::new() } else { listpack::new() };
    let mut rest = Packed { packing: packed.packing, bytes: empty };
    for (number, member) in (0..).zip(members(packed.borrow())) {
        if numbers.next_if_eq(&number).is_some() {
            taken.push(member.to_vec());
            continue;
        }
        match (member, packed.packing) {
            (Text::Integer(integer), Packing::Intset) => {
                intset::insert(&mut rest.bytes, integer);
            }
            (Text::Integer(integer), _) => {
                listpack::push_back(&mut rest.bytes, Element::Integer(integer));
            }
            _ => {
                let mut buffer = Vec::new();
                let element = Element::Bytes(member.as_bytes(&mut buffer));
                listpack::push_back(&mut rest.bytes, element);
            }
        }
    }
    *packed = rest;
    taken
}

/// Makes an intset a listpack.
pub(super) fn leave_intset(packed: &mut Packed) {
    if packed.packing == Packing::Intset {
        let mut bytes = listpack::new();
        for member in members(packed.borrow()) {
            if let Text::Integer(integer) = member {
                listpack::push_back(&mut bytes, Element::Integer(integer));
            }
        }
        *packed = Packed { packing: Packing::Listpack, bytes };
    }
}

/// Bytes with one more member, at most.
pub(super) fn len_with(packed: &Packed, member: usize, integer: Option<i64>) -> usize {
    match packed.packing {
        Packing::Intset => {
            let count = Intset::new(&packed.bytes).len() + 1;
            let as_wide_as_it = intset::bytes_for(count, integer.unwrap_or(0));
            as_wide_as_it.max(packed.bytes.len() + size_of::<i64>())
        }
        _ => packed.bytes.len() + member + ENTRY_MAX,
    }
}
