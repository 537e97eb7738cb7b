//! A value of any type as the keyspace holds it: small bytes or a large object, and the one trait
//! by which a typed container is taken out, changed and put back.
//!
//! Invariant: an object's clone shares everything with it and costs O(1), so it serves as
//! snapshot, copy and undo.

use base::UnixMillis;

use crate::array::{self, Array, ArrayRef, LargeArray};
use crate::blob::Blob;
use crate::hash::{Hash, HashRef, LargeHash};
use crate::list::{LargeList, List, ListRef};
use crate::packing::{Packed, PackedRef};
use crate::prefetch::Seek;
use crate::set::{LargeSet, Set, SetRef};
use crate::sorted_set::{LargeSortedSet, SortedSet, SortedSetRef};
use crate::stream::Stream;

/// The type of a value, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A byte string or an integer.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
    /// An array (Redis 8.8).
    Array,
}

/// The large form of a value.
#[derive(Clone)]
pub enum Object {
    /// A long string.
    Text(Blob),
    /// A large list.
    List(Box<LargeList>),
    /// A large hash.
    Hash(Box<LargeHash>),
    /// A large set.
    Set(Box<LargeSet>),
    /// A large sorted set.
    SortedSet(Box<LargeSortedSet>),
    /// A stream, which is always large.
    Stream(Box<Stream>),
    /// A large array.
    Array(Box<LargeArray>),
}

/// A container's value where it lies.
#[derive(Clone, Copy)]
pub enum Stored<'a> {
    /// The small form.
    Packed(PackedRef<'a>),
    /// The large form.
    Large(&'a Object),
}

/// A container's value to be laid down.
pub enum NewStored {
    /// The small form.
    Packed(Packed),
    /// The large form.
    Large(Object),
}

/// A container of one type in either form.
pub trait Container: Default {
    /// Its type.
    const KIND: Kind;
    /// How the container is read in place.
    type Ref<'a>: Copy;

    /// The value where it lies, which is of this type.
    fn view(stored: Stored<'_>) -> Self::Ref<'_>;
    /// The small form, taken out for editing.
    fn from_packed(packed: Packed) -> Self;
    /// The large form, taken out for editing; an empty one stays behind.
    fn take(object: &mut Object) -> Self;
    /// Puts a large form back where `take` left an empty one. One that has become empty, or small,
    /// comes back instead.
    fn put(self, object: &mut Object) -> Result<(), Self>;
    /// The value to be laid down elsewhere; `None` if it has no elements.
    fn store(self) -> Option<NewStored>;
}

/// A container whose members may have deadlines of their own.
pub trait Expiring: Container {
    /// The command that takes members out, for the journal.
    const REMOVE: &'static str;
    /// The event that tells of members whose time was over.
    const EXPIRED: &'static str;

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>>;

    /// The cost of taking all of them out, counted up to a limit: one for each member that is
    /// passed, and [`TAKEN_OUT`](crate::members::TAKEN_OUT) for each that goes.
    fn expiry_work(container: Self::Ref<'_>, now: UnixMillis, limit: u64) -> u64;
}

impl Expiring for Hash {
    const REMOVE: &'static str = "HDEL";
    const EXPIRED: &'static str = "hexpired";

    fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        self.take_expired(now, limit)
    }

    fn expiry_work(container: HashRef<'_>, now: UnixMillis, limit: u64) -> u64 {
        container.expiry_work(now, limit)
    }
}

impl Expiring for Set {
    const REMOVE: &'static str = "SREM";
    const EXPIRED: &'static str = "sexpired";

    fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        self.take_expired(now, limit)
    }

    fn expiry_work(container: SetRef<'_>, now: UnixMillis, limit: u64) -> u64 {
        container.expiry_work(now, limit)
    }
}

impl Expiring for SortedSet {
    const REMOVE: &'static str = "ZREM";
    const EXPIRED: &'static str = "zexpired";

    fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        self.take_expired(now, limit)
    }

    fn expiry_work(container: SortedSetRef<'_>, now: UnixMillis, limit: u64) -> u64 {
        container.expiry_work(now, limit)
    }
}

impl Stored<'_> {
    /// The earliest deadline of a member, in O(1); `kind` is the value's type.
    #[must_use]
    pub fn earliest_deadline(self, kind: Kind) -> Option<UnixMillis> {
        match (self, kind) {
            (Stored::Large(object), _) => object.earliest_deadline(),
            (_, Kind::Hash) => Hash::view(self).earliest_deadline(),
            // Only the large forms of the others know deadlines.
            _ => None,
        }
    }

    /// How many elements a list, a set, a sorted set or a hash has, in O(1), members whose time is
    /// over included; `kind` is the value's type.
    #[inline]
    #[must_use]
    pub fn elements(self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::List => Some(List::view(self).len()),
            Kind::Set => Some(Set::view(self).len()),
            Kind::SortedSet => Some(SortedSet::view(self).len()),
            Kind::Hash => Some(Hash::view(self).len()),
            Kind::String | Kind::Stream | Kind::Array => None,
        }
    }
}

impl Kind {
    /// Every kind, by number.
    pub const ALL: [Self; 7] = [
        Self::String,
        Self::List,
        Self::Set,
        Self::SortedSet,
        Self::Hash,
        Self::Stream,
        Self::Array,
    ];

    /// The name that `TYPE` replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
            Self::Array => "array",
        }
    }
}

impl Object {
    /// The name that `OBJECT ENCODING` replies.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "raw",
            Self::List(list) => ListRef::Large(list).encoding(),
            Self::Hash(hash) => HashRef::Large(hash).encoding(),
            Self::Set(set) => SetRef::Large(set).encoding(),
            Self::SortedSet(set) => SortedSetRef::Large(set).encoding(),
            Self::Stream(_) => "stream",
            Self::Array(_) => array::ENCODING,
        }
    }

    /// The earliest deadline of a member, in O(1).
    #[inline]
    #[must_use]
    pub fn earliest_deadline(&self) -> Option<UnixMillis> {
        match self {
            Self::Hash(hash) => HashRef::Large(hash).earliest_deadline(),
            Self::Set(set) => SetRef::Large(set).earliest_deadline(),
            Self::SortedSet(set) => SortedSetRef::Large(set).earliest_deadline(),
            Self::Text(_) | Self::List(_) | Self::Stream(_) | Self::Array(_) => None,
        }
    }

    /// Where a lookup of a member will end, if members are looked up by their hashes here.
    #[must_use]
    pub fn seek(&self, member: &[u8]) -> Option<Seek<'_>> {
        match self {
            Self::Hash(hash) => hash.members().seek(member),
            Self::Set(set) => set.members().seek(member),
            _ => None,
        }
    }

    /// Whether the object is a clone of `other`, or `other` one of it, and the elements of neither
    /// have changed since: in O(1). Only a `true` is certain, and streams and arrays are never
    /// told.
    #[must_use]
    pub fn is_same(&self, other: &Object) -> bool {
        match (self, other) {
            (Self::Text(blob), Self::Text(other)) => blob.is_same(other),
            (Self::List(list), Self::List(other)) => list.is_same(other),
            (Self::Hash(hash), Self::Hash(other)) => hash.members().is_same(other.members()),
            (Self::Set(set), Self::Set(other)) => set.members().is_same(other.members()),
            (Self::SortedSet(set), Self::SortedSet(other)) => {
                set.ordered().is_same(other.ordered())
            }
            _ => false,
        }
    }

    /// What tells it, and its clones that have not changed since, from all other objects that are
    /// alive; `None` of streams and arrays.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        match self {
            Self::Text(blob) => blob.address(),
            Self::List(list) => list.address(),
            Self::Hash(hash) => hash.members().address(),
            Self::Set(set) => set.members().address(),
            Self::SortedSet(set) => set.ordered().address(),
            Self::Stream(_) | Self::Array(_) => None,
        }
    }

    /// Bytes of memory behind the handle that are free once so many clones are gone, of which this
    /// is one: none if there are more of them. Streams and arrays are never told.
    #[must_use]
    pub fn memory_of_clones(&self, clones: usize) -> usize {
        match self {
            Self::Text(blob) => blob.memory_of_clones(clones),
            Self::List(list) => list.memory_of_clones(clones),
            Self::Hash(hash) => hash.members().memory_of_clones(clones),
            Self::Set(set) => set.members().memory_of_clones(clones),
            Self::SortedSet(set) => set.ordered().memory_of_clones(clones),
            Self::Stream(_) | Self::Array(_) => 0,
        }
    }

    /// Bytes of memory behind the handle, shared ones included.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Text(blob) => blob.memory(),
            Self::List(list) => boxed(&**list) + list.memory(),
            Self::Hash(hash) => boxed(&**hash) + hash.memory(),
            Self::Set(set) => boxed(&**set) + set.memory(),
            Self::SortedSet(set) => boxed(&**set) + set.memory(),
            Self::Stream(stream) => boxed(&**stream) + stream.memory(),
            Self::Array(array) => boxed(&**array) + array.memory(),
        }
    }
}

/// Bytes that a box takes for its content.
fn boxed<T>(_: &T) -> usize {
    size_of::<T>()
}

/// The one impl of [`Container`] for a facade with the variants `Packed` and `Large`, whose large
/// form lies boxed in the object's variant of the same name.
macro_rules! container {
    ($facade:ident, $reference:ident, $kind:ident) => {
        impl Container for $facade {
            const KIND: Kind = Kind::$kind;
            type Ref<'a> = $reference<'a>;

            #[inline]
            fn view(stored: Stored<'_>) -> $reference<'_> {
                match stored {
                    Stored::Packed(packed) => $reference::Packed(packed),
                    Stored::Large(Object::$kind(large)) => $reference::Large(large),
                    Stored::Large(_) => unreachable!("the entry's kind names its object"),
                }
            }

            fn from_packed(packed: Packed) -> Self {
                Self::Packed(packed)
            }

            fn take(object: &mut Object) -> Self {
                match object {
                    Object::$kind(large) => Self::Large(std::mem::take(&mut **large)),
                    _ => unreachable!("the entry's kind names its object"),
                }
            }

            fn put(self, object: &mut Object) -> Result<(), Self> {
                match (self, object) {
                    (Self::Large(large), Object::$kind(place))
                        if !$reference::Large(&large).is_empty() =>
                    {
                        **place = large;
                        Ok(())
                    }
                    (other, _) => Err(other),
                }
            }

            fn store(self) -> Option<NewStored> {
                if self.borrow().is_empty() {
                    return None;
                }
                Some(match self {
                    Self::Packed(packed) => NewStored::Packed(packed),
                    Self::Large(large) => NewStored::Large(Object::$kind(Box::new(large))),
                })
            }
        }
    };
}

container!(List, ListRef, List);
container!(Hash, HashRef, Hash);
container!(Set, SetRef, Set);
container!(SortedSet, SortedSetRef, SortedSet);
container!(Array, ArrayRef, Array);

/// A stream has no small form, and stays when it has no entries.
impl Container for Stream {
    const KIND: Kind = Kind::Stream;
    type Ref<'a> = &'a Stream;

    fn view(stored: Stored<'_>) -> &Stream {
        match stored {
            Stored::Large(Object::Stream(stream)) => stream,
            _ => unreachable!("the entry's kind names its object"),
        }
    }

    fn from_packed(_: Packed) -> Stream {
        unreachable!("no stream is small")
    }

    fn take(object: &mut Object) -> Stream {
        match object {
            Object::Stream(stream) => std::mem::take(&mut **stream),
            _ => unreachable!("the entry's kind names its object"),
        }
    }

    fn put(self, object: &mut Object) -> Result<(), Stream> {
        match object {
            Object::Stream(place) => {
                **place = self;
                Ok(())
            }
            _ => Err(self),
        }
    }

    fn store(self) -> Option<NewStored> {
        self.is_kept().then(|| NewStored::Large(Object::Stream(Box::new(self))))
    }
}
