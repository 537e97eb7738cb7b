//! A value of any type: what follows the byte that tells its [`ValueType`].
//!
//! Invariant: what is read is of the type that was written, in the form that the limits ask for.

use std::sync::atomic::Ordering;

use base::UnixMillis;
use keyspace::{ContainerSettings, EntryBox, EntryRef, Kind, NewText, Text};
use structs::array::{Array, ArrayRef};
use structs::blob::Blob;
use structs::hash::{Hash, HashLimits, HashRef};
use structs::list::{List, ListLimits, ListRef};
use structs::object::{Container, NewStored};
use structs::set::{Set, SetLimits, SetRef};
use structs::sorted_set::{SortedSet, SortedSetLimits, SortedSetRef};
use structs::stream::Stream;

use super::string::{Decoded, read_string, write_string};
use super::{
    Malformed, REDIS_6_2, Reader, ValueType, Writer, array, hash, list, set, sorted_set, stream,
};

/// A value to be written.
pub enum ValueRef<'a> {
    /// A string.
    String(Text<'a>),
    /// A list.
    List(ListRef<'a>),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    SortedSet(SortedSetRef<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// A stream.
    Stream(&'a Stream),
    /// An array.
    Array(ArrayRef<'a>),
}

impl<'a> ValueRef<'a> {
    /// The value of an entry.
    #[must_use]
    pub fn of(entry: EntryRef<'a>) -> Self {
        let Some(stored) = entry.stored() else {
            return Self::String(entry.text().expect("what is no container is a string"));
        };
        match entry.kind() {
            Kind::List => Self::List(List::view(stored)),
            Kind::Set => Self::Set(Set::view(stored)),
            Kind::SortedSet => Self::SortedSet(SortedSet::view(stored)),
            Kind::Hash => Self::Hash(Hash::view(stored)),
            Kind::Stream => Self::Stream(Stream::view(stored)),
            Kind::Array => Self::Array(Array::view(stored)),
            Kind::String => unreachable!("a string is no container"),
        }
    }

    /// How the value is written.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::String(_) => ValueType::String,
            Self::List(list) => list::value_type(*list),
            Self::Set(set) => set::value_type(*set),
            Self::SortedSet(set) => sorted_set::value_type(*set),
            Self::Hash(hash) => hash::value_type(*hash),
            Self::Stream(stream) => stream::value_type(stream),
            Self::Array(array) => array::value_type(*array),
        }
    }

    /// How the value is written for a reader of this version, where that costs nothing but when
    /// consumers of a stream were active, and for Redis 6.2 what a stream counts; else as always.
    #[must_use]
    pub fn value_type_within(&self, version: u16) -> ValueType {
        match self.value_type() {
            ValueType::ListNodes if version <= REDIS_6_2 => ValueType::List,
            ValueType::HashListpack if version <= REDIS_6_2 => ValueType::Hash,
            ValueType::SortedSetListpack if version <= REDIS_6_2 => ValueType::SortedSet,
            ValueType::StreamRedis70 | ValueType::StreamRedis72 if version <= REDIS_6_2 => {
                ValueType::StreamRedis5
            }
            ValueType::StreamRedis72 if version < ValueType::StreamRedis72.version() => {
                ValueType::StreamRedis70
            }
            value_type => value_type,
        }
    }

    /// Appends the value, without its type, in the form that `value_type_within` said.
    pub fn write_as(&self, out: &mut Writer, value_type: ValueType) {
        match self {
            Self::Stream(stream) => stream::write_as(out, stream, value_type),
            Self::List(list) if value_type == ValueType::List => {
                list::write_elements(out, *list);
            }
            Self::Hash(hash) if value_type == ValueType::Hash => hash::write_fields(out, *hash),
            Self::SortedSet(set) if value_type == ValueType::SortedSet => {
                sorted_set::write_members(out, *set);
            }
            _ => self.write(out),
        }
    }

    /// How the value is written in a file for Valkey.
    #[must_use]
    pub fn value_type_for_valkey(&self) -> ValueType {
        match self {
            Self::Hash(hash) if hash.earliest_deadline().is_some() => ValueType::HashTimedValkey,
            _ => self.value_type(),
        }
    }

    /// Appends the value, without its type, in a file for Valkey.
    pub fn write_for_valkey(&self, out: &mut Writer) {
        match self {
            Self::Hash(hash) if hash.earliest_deadline().is_some() => {
                hash::write_for_valkey(out, *hash);
            }
            _ => self.write(out),
        }
    }

    /// Appends the value, without its type.
    pub fn write(&self, out: &mut Writer) {
        match self {
            Self::String(text) => write_string(out, text),
            Self::List(list) => list::write(out, *list),
            Self::Set(set) => set::write(out, *set),
            Self::SortedSet(set) => sorted_set::write(out, *set),
            Self::Hash(hash) => hash::write(out, *hash),
            Self::Stream(stream) => stream::write(out, stream),
            Self::Array(array) => array::write(out, *array),
        }
    }
}

/// How far containers that are read stay small.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(super) list: ListLimits,
    pub(super) set: SetLimits,
    pub(super) sorted_set: SortedSetLimits,
    pub(super) hash: HashLimits,
}

impl From<&ContainerSettings> for Limits {
    fn from(settings: &ContainerSettings) -> Self {
        Self {
            list: ListLimits::new(settings.list_size.load(Ordering::Relaxed)),
            set: SetLimits {
                intset_entries: settings.set_intset_entries.get() as u64,
                listpack_entries: settings.set_entries.get() as u64,
                listpack_value_bytes: settings.set_value.get(),
            },
            sorted_set: SortedSetLimits {
                entries: settings.sorted_set_entries.get() as u64,
                value_bytes: settings.sorted_set_value.get(),
            },
            hash: HashLimits {
                entries: settings.hash_entries.get() as u64,
                value_bytes: settings.hash_value.get(),
            },
        }
    }
}

/// A value as it was read.
pub enum Value<'a> {
    /// A string.
    String(Decoded<'a>),
    /// A string that was made in pieces.
    Large(Blob),
    /// A container of this type.
    Container(Kind, NewStored),
}

impl<'a> Value<'a> {
    /// Reads a value that was written in this way.
    pub fn read(
        value_type: ValueType,
        reader: &mut Reader<'a>,
        limits: &Limits,
    ) -> Result<Self, Malformed> {
        match value_type.kind() {
            Kind::String => Ok(Self::String(read_string(reader)?)),
            Kind::List => Self::of_container(list::read(value_type, reader, &limits.list)?),
            Kind::Set => Self::of_container(set::read(value_type, reader, &limits.set)?),
            Kind::SortedSet => {
                Self::of_container(sorted_set::read(value_type, reader, &limits.sorted_set)?)
            }
            Kind::Hash => Self::of_container(hash::read(value_type, reader, &limits.hash)?),
            Kind::Stream => Self::of_container(stream::read(value_type, reader)?),
            Kind::Array => Self::of_container(array::read(reader)?),
        }
    }

    /// The value that a container is.
    pub(super) fn of_container<C: Container>(container: C) -> Result<Self, Malformed> {
        container.store().map(|stored| Value::Container(C::KIND, stored)).ok_or(Malformed)
    }

    /// The value under a key.
    #[must_use]
    pub fn into_entry(self, key: &[u8], deadline: Option<UnixMillis>) -> EntryBox {
        match self {
            Self::String(Decoded::Integer(number)) => {
                EntryBox::text(key, NewText::Integer(number), deadline)
            }
            Self::String(Decoded::Bytes(bytes)) => {
                EntryBox::text(key, NewText::from_client(&bytes), deadline)
            }
            Self::Large(blob) => EntryBox::text(key, NewText::Large(blob), deadline),
            Self::Container(kind, stored) => EntryBox::container(key, kind, stored, deadline),
        }
    }
}
