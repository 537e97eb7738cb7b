//! Hashes: a listpack, or field by field.
//!
//! ```text
//!  Hash                count | field, value | ..
//!  HashTimed           earliest, 8 bytes | count | 0 or deadline - earliest + 1, field, value | ..
//!  HashTimedCandidate  count | 0 or deadline, field, value | ..
//!  HashTimedValkey     count | field, value, deadline or -1 in 8 bytes | ..
//!  HashListpackTimed   earliest, 8 bytes | listpack
//! ```
//!
//! Invariant: fields are different, and there is at least one; deadlines are those that a hash can
//! hold, in a listpack the earliest first.

use base::UnixMillis;
use structs::hash::{Hash, HashLimits, HashRef, LargeHash};
use structs::listpack::Listpack;
use structs::members::{Builder, Lifetime, MemberRef, Text, Valued};
use structs::packing::{Packed, Packing};

use super::length::{read_length, write_length};
use super::string::{read_string, write_bytes, write_member};
use super::ziplist::Ziplist;
use super::zipmap::Zipmap;
use super::{
    DEADLINE_MAX, Malformed, Reader, ValueType, Writer, packed, read_deadline, write_deadline,
};

/// How a hash is written.
#[must_use]
pub fn value_type(hash: HashRef<'_>) -> ValueType {
    match (hash, hash.earliest_deadline()) {
        (HashRef::Packed(packed), None) if packed.packing == Packing::Listpack => {
            ValueType::HashListpack
        }
        (_, None) => ValueType::Hash,
        (HashRef::Packed(_), Some(_)) => ValueType::HashListpackTimed,
        (HashRef::Large(_), Some(_)) => ValueType::HashTimed,
    }
}

/// Appends a hash.
pub fn write(out: &mut Writer, hash: HashRef<'_>) {
    let value_type = value_type(hash);
    let earliest = hash.earliest_deadline();
    if let Some(earliest) = earliest {
        out.extend(&earliest.to_le_bytes());
    }
    match hash {
        HashRef::Packed(packed) if value_type != ValueType::Hash => write_bytes(out, packed.bytes),
        _ => write_timed_fields(out, hash, earliest),
    }
}

/// Appends a hash as Valkey writes one whose fields have deadlines.
pub fn write_for_valkey(out: &mut Writer, hash: HashRef<'_>) {
    write_length(out, hash.len());
    for MemberRef { member, value, deadline } in hash {
        write_member(out, member);
        write_member(out, value);
        write_deadline(out, deadline);
        out.flush_if_large();
    }
}

/// Appends a hash field by field; none of them has a deadline.
pub fn write_fields(out: &mut Writer, hash: HashRef<'_>) {
    write_timed_fields(out, hash, None);
}

fn write_timed_fields(out: &mut Writer, hash: HashRef<'_>, earliest: Option<UnixMillis>) {
    write_length(out, hash.len());
    for MemberRef { member, value, deadline } in hash {
        if let Some(earliest) = earliest {
            let distance = deadline.map_or(0, |deadline| deadline.abs_diff(earliest) + 1);
            write_length(out, distance);
        }
        write_member(out, member);
        write_member(out, value);
        out.flush_if_large();
    }
}

/// Reads a hash that was written in this way.
pub fn read(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &HashLimits,
) -> Result<Hash, Malformed> {
    match value_type {
        ValueType::HashListpack => read_listpack(reader, Packing::Listpack, limits),
        ValueType::HashListpackTimedCandidate => {
            read_listpack(reader, Packing::TimedListpack, limits)
        }
        ValueType::HashListpackTimed => {
            // The earliest deadline, which the listpack tells, too.
            reader.array::<8>()?;
            read_listpack(reader, Packing::TimedListpack, limits)
        }
        ValueType::HashZiplist => {
            let bytes = read_string(reader)?.into_bytes();
            let ziplist = Ziplist::validate(&bytes)?;
            let mut fields = Collector::new(ziplist.len() as u64 / 2, limits);
            for [field, value] in ziplist.pairs()? {
                fields.push(field.into(), value.into(), None)?;
            }
            fields.finish()
        }
        ValueType::HashZipmap => {
            let bytes = read_string(reader)?.into_bytes();
            let zipmap = Zipmap::validate(&bytes)?;
            let mut fields = Collector::new(zipmap.fields().count() as u64, limits);
            for (field, value) in zipmap.fields() {
                fields.push(field.into(), value.into(), None)?;
            }
            fields.finish()
        }
        _ => read_fields(value_type, reader, limits),
    }
}

fn read_listpack(
    reader: &mut Reader<'_>,
    packing: Packing,
    limits: &HashLimits,
) -> Result<Hash, Malformed> {
    let bytes = packed::read_listpack(reader)?;
    let listpack = Listpack::new(&bytes);
    let stride = if packing == Packing::TimedListpack { 3 } else { 2 };
    let is_whole = listpack.len().is_multiple_of(stride);
    if !is_whole || packing == Packing::TimedListpack && !is_in_order_of_deadlines(listpack) {
        return Err(Malformed);
    }
    let mut hash = Hash::Packed(Packed { packing, bytes });
    let count = hash.borrow().len();
    hash.fit(limits);
    let are_different = match hash.borrow() {
        HashRef::Packed(packed) => {
            packed::all_different(&Listpack::new(packed.bytes).iter().step_by(stride))
        }
        large @ HashRef::Large(_) => large.len() == count,
    };
    if are_different { Ok(hash) } else { Err(Malformed) }
}

/// Whether every third element is a deadline, the earliest first, and none (0) last.
fn is_in_order_of_deadlines(listpack: Listpack<'_>) -> bool {
    let mut last = 0;
    listpack.iter().skip(2).step_by(3).all(|element| {
        let deadline = match element.to_integer() {
            Some(0) => UnixMillis::MAX,
            Some(deadline @ 1..=DEADLINE_MAX) => deadline,
            _ => return false,
        };
        std::mem::replace(&mut last, deadline) <= deadline
    })
}

fn read_fields(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &HashLimits,
) -> Result<Hash, Malformed> {
    let earliest = read_earliest(value_type, reader)?;
    let count = read_length(reader)?;
    let mut fields = Collector::new(count, limits);
    for _ in 0..count {
        read_field(value_type, earliest, reader, &mut fields)?;
    }
    fields.finish()
}

/// Reads what deadlines are counted from.
pub(super) fn read_earliest(
    value_type: ValueType,
    reader: &mut Reader<'_>,
) -> Result<u64, Malformed> {
    match value_type {
        ValueType::HashTimed => reader.array().map(u64::from_le_bytes),
        // What comes before a field is the deadline itself.
        _ => Ok(1),
    }
}

/// Reads the next field.
pub(super) fn read_field(
    value_type: ValueType,
    earliest: u64,
    reader: &mut Reader<'_>,
    fields: &mut Collector,
) -> Result<(), Malformed> {
    let mut deadline = match value_type {
        ValueType::HashTimed | ValueType::HashTimedCandidate => {
            deadline_at(read_length(reader)?, earliest)?
        }
        _ => None,
    };
    let (field, value) = (read_string(reader)?, read_string(reader)?);
    if value_type == ValueType::HashTimedValkey {
        deadline = read_deadline(reader)?;
    }
    fields.push(field.as_member(), value.as_member(), deadline)
}

/// The deadline at a distance from the millisecond before the earliest; 0 is none.
fn deadline_at(distance: u64, earliest: u64) -> Result<Option<UnixMillis>, Malformed> {
    let Some(further) = distance.checked_sub(1) else { return Ok(None) };
    let deadline = earliest.checked_add(further).and_then(|sum| UnixMillis::try_from(sum).ok());
    deadline.filter(|deadline| *deadline <= DEADLINE_MAX).map(Some).ok_or(Malformed)
}

/// Fields that become a hash.
pub(super) struct Collector {
    limits: HashLimits,
    form: PartialHash,
    count: u64,
}

enum PartialHash {
    Small(Hash),
    Large(Builder<Valued>),
}

impl Collector {
    /// Ready for as many fields as are claimed.
    pub(super) fn new(claimed: u64, limits: &HashLimits) -> Self {
        let form = match claimed <= limits.entries {
            true => PartialHash::Small(Hash::default()),
            false => PartialHash::Large(Builder::new()),
        };
        Self { limits: *limits, form, count: 0 }
    }

    fn push(
        &mut self,
        field: Text<'_>,
        value: Text<'_>,
        deadline: Option<UnixMillis>,
    ) -> Result<(), Malformed> {
        self.count += 1;
        match &mut self.form {
            PartialHash::Small(hash) => {
                let lifetime = deadline.map_or(Lifetime::Endless, Lifetime::Until);
                let is_new = hash.set(field, value, lifetime, &self.limits);
                is_new.then_some(()).ok_or(Malformed)
            }
            PartialHash::Large(builder) => {
                builder.push(MemberRef { member: field, value, deadline });
                Ok(())
            }
        }
    }

    pub(super) fn finish(self) -> Result<Hash, Malformed> {
        let hash = match self.form {
            PartialHash::Small(hash) => hash,
            PartialHash::Large(builder) => Hash::Large(LargeHash::new(builder.finish())),
        };
        let is_sound = self.count > 0 && hash.borrow().len() == self.count;
        if is_sound { Ok(hash) } else { Err(Malformed) }
    }
}
