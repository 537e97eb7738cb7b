//! Values that are too large to be in memory twice: they are made as their bytes are read.
//!
//! Invariants: beside the value there is in memory what is read at once, and at most one of its
//! elements or what follows them; what is made is what all its bytes at once would give.

use keyspace::Kind;
use structs::blob::Blob;
use structs::list::List;
use structs::members::Builder;
use structs::sorted_set::SortedSet;

use super::skip_cursor::{Shape, SkipCursor, Stop};
use crate::lzf::Decompressor;
use crate::rdb::hash::{Collector, read_earliest, read_field};
use crate::rdb::length::{Length, read_length};
use crate::rdb::string::COMPRESSED;
use crate::rdb::value::{Limits, Value};
use crate::rdb::{Malformed, Reader, ValueType, array, list, set, sorted_set, stream};

/// Packed bytes that are unpacked before what came out is put away.
const UNPACKED_AT_ONCE: usize = 4096;

/// A value of which some is made.
pub(super) struct PartialEntry {
    value_type: ValueType,
    limits: Limits,
    /// Elements that are to come, or bytes of a string.
    left: u64,
    form: PartialValue,
}

/// What is made of a value.
enum PartialValue {
    Plain(Blob),
    Packed(Blob, Decompressor),
    List(List, Shape),
    Set { members: Builder<()>, count: u64, shape: Shape },
    SortedSet(SortedSet, Shape),
    Hash { earliest: u64, fields: Collector, shape: Shape },
    Stream(stream::Nodes, Shape),
    Array(array::Elements, Shape),
}

/// What became of bytes.
pub(super) struct Fed {
    /// How many were taken.
    pub(super) taken: usize,
    /// How many more are needed at least to go on.
    pub(super) missing: u64,
}

impl PartialEntry {
    /// Begins with what stands before the elements; `None` if such a value is made at once.
    pub(super) fn begin(
        value_type: ValueType,
        skip: &mut SkipCursor<'_>,
        limits: &Limits,
    ) -> Result<Option<Self>, Stop> {
        let Some((left, form)) = (match value_type {
            ValueType::String => PartialValue::of_string(skip)?,
            _ => PartialValue::of_container(value_type, skip, limits)?,
        }) else {
            return Ok(None);
        };
        Ok(Some(Self { value_type, limits: *limits, left, form }))
    }

    /// Whether all elements are there.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes what is whole of the bytes that come next.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Fed, Malformed> {
        match &mut self.form {
            PartialValue::Plain(blob) => {
                let taken = first(bytes, self.left).len();
                blob.append(&bytes[..taken]);
                self.left -= taken as u64;
                Ok(Fed { taken, missing: self.left })
            }
            PartialValue::Packed(blob, unpacker) => {
                let packed = first(bytes, self.left);
                let taken = unpack(packed, blob, unpacker)?;
                let is_all_here = packed.len() as u64 == self.left;
                if is_all_here && (taken < packed.len() || !unpacker.is_done()) {
                    return Err(Malformed);
                }
                self.left -= taken as u64;
                Ok(Fed { taken, missing: 1 })
            }
            _ => self.feed_elements(bytes),
        }
    }

    fn feed_elements(&mut self, bytes: &[u8]) -> Result<Fed, Malformed> {
        let (mut skip, mut taken) = (SkipCursor::new(bytes), 0);
        while self.left > 0 {
            match skip.element(self.form.shape()) {
                Ok(()) => {}
                Err(Stop::More(missing)) => return Ok(Fed { taken, missing }),
                Err(Stop::Malformed) => return Err(Malformed),
            }
            let mut reader = Reader::new(&bytes[taken..skip.at]);
            self.read_element(&mut reader)?;
            if !reader.is_at_end() {
                return Err(Malformed);
            }
            taken = skip.at;
            self.left -= 1;
        }
        Ok(Fed { taken, missing: 0 })
    }

    fn read_element(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let Self { value_type, limits, .. } = *self;
        match &mut self.form {
            PartialValue::List(list, _) => list::read_part(value_type, reader, list, &limits.list),
            PartialValue::Set { members, .. } => set::read_member(value_type, reader, members),
            PartialValue::SortedSet(set, _) => {
                sorted_set::read_into(value_type, reader, set, &limits.sorted_set)
            }
            PartialValue::Hash { earliest, fields, .. } => {
                read_field(value_type, *earliest, reader, fields)
            }
            PartialValue::Stream(nodes, _) => nodes.read_next(reader),
            PartialValue::Array(elements, _) => elements.read_next(reader),
            PartialValue::Plain(_) | PartialValue::Packed(..) => {
                unreachable!("a string has no elements")
            }
        }
    }

    /// How many of the bytes behind the elements belong to the value.
    pub(super) fn rest_len(&self, bytes: &[u8]) -> Result<usize, Stop> {
        let mut skip = SkipCursor::new(bytes);
        if !matches!(self.form, PartialValue::Plain(_) | PartialValue::Packed(..)) {
            skip.rest(self.form.shape())?;
        }
        Ok(skip.at)
    }

    /// The value, with what follows its elements.
    pub(super) fn finish(self, rest: &[u8]) -> Result<Value<'static>, Malformed> {
        match self.form {
            PartialValue::Plain(blob) | PartialValue::Packed(blob, _) => Ok(Value::Large(blob)),
            PartialValue::List(list, _) if list.borrow().is_empty() => Err(Malformed),
            PartialValue::List(list, _) => Value::of_container(list),
            PartialValue::Set { members, count, .. } => {
                Value::of_container(set::of_members(members, count)?)
            }
            PartialValue::SortedSet(set, _) => Value::of_container(set),
            PartialValue::Hash { fields, .. } => Value::of_container(fields.finish()?),
            PartialValue::Stream(nodes, _) => {
                let mut reader = Reader::new(rest);
                let stream = stream::read_rest(self.value_type, &mut reader, nodes)?;
                if reader.is_at_end() { Value::of_container(stream) } else { Err(Malformed) }
            }
            PartialValue::Array(elements, _) => Value::of_container(elements.finish()?),
        }
    }
}

impl PartialValue {
    fn of_string(skip: &mut SkipCursor<'_>) -> Result<Option<(u64, Self)>, Stop> {
        Ok(match skip.length_or_encoding()? {
            Length::Plain(length) => Some((length, Self::Plain(Blob::from_slice(&[])))),
            Length::Encoding(COMPRESSED) => {
                let packed = skip.length()?;
                let length = usize::try_from(skip.length()?).map_err(|_| Stop::Malformed)?;
                Some((packed, Self::Packed(Blob::from_slice(&[]), Decompressor::new(length))))
            }
            Length::Encoding(_) => None,
        })
    }

    fn of_container(
        value_type: ValueType,
        skip: &mut SkipCursor<'_>,
        limits: &Limits,
    ) -> Result<Option<(u64, Self)>, Stop> {
        let Some(shape) = Shape::of(value_type) else { return Ok(None) };
        let head = skip.head(&shape)?;
        let begun = Self::begin(value_type, &mut Reader::new(head), shape, limits);
        begun.map_err(|Malformed| Stop::Malformed)
    }

    /// Reads what stands before the elements of a container. Small ones are made at once.
    fn begin(
        value_type: ValueType,
        reader: &mut Reader<'_>,
        shape: Shape,
        limits: &Limits,
    ) -> Result<Option<(u64, Self)>, Malformed> {
        let kind = value_type.kind();
        if kind == Kind::Array {
            let elements = array::Elements::begin(reader)?;
            return Ok(Some((elements.left, Self::Array(elements, shape))));
        }
        let earliest = read_earliest(value_type, reader)?;
        let count = read_length(reader)?;
        let form = match kind {
            Kind::List => Self::List(List::default(), shape),
            Kind::Set if limits.set.intset_entries.max(limits.set.listpack_entries) < count => {
                Self::Set { members: Builder::new(), count, shape }
            }
            Kind::SortedSet if limits.sorted_set.entries < count => {
                Self::SortedSet(SortedSet::for_members(count, 0, &limits.sorted_set), shape)
            }
            Kind::Hash => {
                Self::Hash { earliest, fields: Collector::new(count, &limits.hash), shape }
            }
            Kind::Stream => Self::Stream(stream::Nodes::default(), shape),
            _ => return Ok(None),
        };
        Ok(Some((count, form)))
    }

    fn shape(&self) -> &Shape {
        match self {
            Self::List(_, shape)
            | Self::Set { shape, .. }
            | Self::SortedSet(_, shape)
            | Self::Hash { shape, .. }
            | Self::Stream(_, shape)
            | Self::Array(_, shape) => shape,
            Self::Plain(_) | Self::Packed(..) => unreachable!("a string has no elements"),
        }
    }
}

/// The first bytes, at most so many.
fn first(bytes: &[u8], count: u64) -> &[u8] {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(count)]
}

/// Unpacks what is whole of packed bytes; how many that were.
fn unpack(packed: &[u8], blob: &mut Blob, unpacker: &mut Decompressor) -> Result<usize, Malformed> {
    let mut taken = 0;
    loop {
        let more = first(&packed[taken..], UNPACKED_AT_ONCE as u64);
        let count = unpacker.feed(more).ok_or(Malformed)?;
        unpacker.take_out(|bytes| blob.append(bytes));
        taken += count;
        if count == 0 {
            return Ok(taken);
        }
    }
}
