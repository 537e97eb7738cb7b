//! Sets: an intset, or member by member.
//!
//! ```text
//!  Set        count | member | ..
//!  SetTimed   count | member, deadline or -1 in 8 bytes | ..
//! ```
//!
//! Invariant: members are different, and there is at least one.

use structs::listpack::Listpack;
use structs::members::{Builder, MemberRef, Text};
use structs::packing::{Packed, Packing};
use structs::set::{LargeSet, Set, SetLimits, SetRef};

use super::length::{read_length, write_length};
use super::string::{read_string, write_bytes, write_member};
use super::{Malformed, Reader, ValueType, Writer, packed, read_deadline, write_deadline};

/// How a set is written.
#[must_use]
pub fn value_type(set: SetRef<'_>) -> ValueType {
    match set {
        SetRef::Packed(packed) if packed.packing == Packing::Intset => ValueType::SetIntset,
        _ if set.earliest_deadline().is_some() => ValueType::SetTimed,
        _ => ValueType::Set,
    }
}

/// Appends a set.
pub fn write(out: &mut Writer, set: SetRef<'_>) {
    let value_type = value_type(set);
    match set {
        SetRef::Packed(packed) if value_type == ValueType::SetIntset => {
            write_bytes(out, packed.bytes);
        }
        _ => {
            write_length(out, set.len());
            for MemberRef { member, deadline, .. } in set {
                write_member(out, member);
                if value_type == ValueType::SetTimed {
                    write_deadline(out, deadline);
                }
                out.flush_if_large();
            }
        }
    }
}

/// Reads a set that was written in this way.
pub fn read(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &SetLimits,
) -> Result<Set, Malformed> {
    match value_type {
        ValueType::SetIntset => {
            let bytes = packed::read_intset(reader)?;
            fitted(Packed { packing: Packing::Intset, bytes }, limits)
        }
        ValueType::SetListpack => {
            let bytes = packed::read_listpack(reader)?;
            fitted(Packed { packing: Packing::Listpack, bytes }, limits)
        }
        _ => read_members(value_type, reader, limits),
    }
}

fn fitted(packed: Packed, limits: &SetLimits) -> Result<Set, Malformed> {
    let mut set = Set::Packed(packed);
    let count = set.borrow().len();
    set.fit(limits);
    let are_different = match set.borrow() {
        SetRef::Packed(packed) if packed.packing == Packing::Listpack => {
            packed::all_different(&Listpack::new(packed.bytes).iter())
        }
        set => set.len() == count,
    };
    if are_different { Ok(set) } else { Err(Malformed) }
}

fn read_members(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &SetLimits,
) -> Result<Set, Malformed> {
    let count = read_length(reader)?;
    if count == 0 {
        return Err(Malformed);
    }
    if value_type != ValueType::SetTimed
        && count <= limits.intset_entries.max(limits.listpack_entries)
    {
        let mut set = Set::default();
        for _ in 0..count {
            if !set.insert(read_string(reader)?.as_member(), limits) {
                return Err(Malformed);
            }
        }
        return Ok(set);
    }
    let mut members = Builder::new();
    for _ in 0..count {
        read_member(value_type, reader, &mut members)?;
    }
    of_members(members, count)
}

/// Reads the next member of a large set.
pub(super) fn read_member(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    members: &mut Builder<()>,
) -> Result<(), Malformed> {
    let member = read_string(reader)?;
    let is_timed = value_type == ValueType::SetTimed;
    let deadline = if is_timed { read_deadline(reader)? } else { None };
    let (member, value) = (member.as_member(), Text::Bytes(&[]));
    members.push(MemberRef { member, value, deadline });
    Ok(())
}

/// The set of members, so many of them.
pub(super) fn of_members(members: Builder<()>, count: u64) -> Result<Set, Malformed> {
    let members = members.finish();
    if members.len() == count { Ok(Set::Large(LargeSet::new(members))) } else { Err(Malformed) }
}
