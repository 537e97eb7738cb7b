//! The RDB format: what snapshots, DUMP payloads and full syncs are written in.
//!
//! Source: the format as published in the Redis documentation and in the tools that read it;
//! checked against real servers.
//!
//! Invariant: a value is written so that the oldest version of Redis which has its type can read
//! it; [`ValueType::version`] says which that is. What is read is a whole, sound value in the form
//! that the configured thresholds ask for, or [`Malformed`]; no memory is taken for elements that
//! are only claimed.

pub mod array;
pub mod file;
pub mod hash;
pub mod length;
pub mod list;
mod packed;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
#[cfg(test)]
mod tests;
pub mod value;
mod writer;
mod ziplist;
mod zipmap;

use std::ops::RangeInclusive;

use base::UnixMillis;
use keyspace::{FeatureLevel, Kind};

pub use writer::Writer;

/// The format of Redis 5.0 to 6.2, which knows no listpacks but those of streams, no functions, and
/// of a stream no more than entries and groups. Written only where it is asked for.
pub const REDIS_6_2: u16 = 9;

/// The format of all that Redis 7.0 can hold, which reads it, as all later versions do.
pub const REDIS_7_0: u16 = 10;

/// The format of the time at which a stream's consumer was active.
pub const REDIS_7_2: u16 = 11;

/// The format of hashes whose fields have deadlines.
pub const REDIS_7_4: u16 = 12;

/// The format of streams that know what producers sent.
const REDIS_8_6: u16 = 13;

/// The format of streams with entries that were given back.
const REDIS_8_8: u16 = 14;

/// The newest format of Redis that can be read.
const REDIS_NEWEST: u16 = 16;

/// The formats of Valkey, which went its own way with its version 9.
pub const VALKEY: RangeInclusive<u16> = 80..=81;

/// The format of what no other server holds, or none in a published format. The number has the four
/// digits that a file's head gives a version, and none of them reads a version beyond its own.
const OWN: u16 = 9000;

/// Whether a version is one that can be read: Redis to 8.12, Valkey 9, our own.
#[must_use]
pub fn is_readable(version: u16) -> bool {
    matches!(version, 1..=REDIS_NEWEST | OWN) || VALKEY.contains(&version)
}

/// Whether what `rdb-write-version` asks for is to be read by Redis 6.2, or by what is older.
#[must_use]
pub fn writes_redis_6(version: u16) -> bool {
    (1..=REDIS_6_2).contains(&version)
}

/// What a reader of a version can hold.
#[must_use]
pub fn met_by(version: u16) -> FeatureLevel {
    match version {
        OWN.. => FeatureLevel::Own,
        _ if VALKEY.contains(&version) => FeatureLevel::TimedFields,
        REDIS_8_8.. => FeatureLevel::GivenBack,
        REDIS_8_6.. => FeatureLevel::Producers,
        REDIS_7_4.. => FeatureLevel::TimedFields,
        REDIS_7_0.. => FeatureLevel::Redis7,
        _ => FeatureLevel::Nothing,
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A string in one of its encodings.
    String,
    /// A list, element by element; written only for Redis 6.2.
    List,
    /// A list in one ziplist; read only.
    ListZiplist,
    /// A list in ziplists; read only.
    ListZiplists,
    /// A list in nodes: listpacks and long elements.
    ListNodes,
    /// A set, member by member.
    Set,
    /// A set in an intset.
    SetIntset,
    /// A set in a listpack; read only, since Redis knows it only from 7.2 on.
    SetListpack,
    /// A set whose members have deadlines; our own.
    SetTimed,
    /// A sorted set, member by member, with scores as text; read only.
    SortedSetText,
    /// A sorted set, member by member.
    SortedSet,
    /// A sorted set in a ziplist; read only.
    SortedSetZiplist,
    /// A sorted set in a listpack.
    SortedSetListpack,
    /// A sorted set whose members have deadlines; our own.
    SortedSetTimed,
    /// A hash, field by field.
    Hash,
    /// A hash in a zipmap; read only.
    HashZipmap,
    /// A hash in a ziplist; read only.
    HashZiplist,
    /// A hash in a listpack.
    HashListpack,
    /// A hash whose fields have deadlines, counted from the earliest.
    HashTimed,
    /// A hash in a listpack of fields, values and deadlines, the earliest before it.
    HashListpackTimed,
    /// A hash whose fields have deadlines, as the candidates of Redis 7.4 wrote it; read only.
    HashTimedCandidate,
    /// A hash in a listpack of fields, values and deadlines, as the candidates of Redis 7.4 wrote
    /// it; read only.
    HashListpackTimedCandidate,
    /// A hash whose fields have deadlines, as Valkey writes it; written only for Valkey.
    HashTimedValkey,
    /// A stream, as it was written before Redis 7.0; written only for Redis 6.2.
    StreamRedis5,
    /// A stream with counters.
    StreamRedis70,
    /// A stream whose consumers were active at times of their own.
    StreamRedis72,
    /// A stream that knows what producers sent lately.
    StreamRedis86,
    /// A stream with entries that were given back to their groups.
    StreamRedis88,
    /// An array; our own.
    Array,
}

/// The byte before a value and the oldest version in which it means that.
const VALUE_TYPES: &[(u8, u16, ValueType)] = &[
    (0, REDIS_7_0, ValueType::String),
    (1, REDIS_7_0, ValueType::List),
    (2, REDIS_7_0, ValueType::Set),
    (3, REDIS_7_0, ValueType::SortedSetText),
    (4, REDIS_7_0, ValueType::Hash),
    (5, REDIS_7_0, ValueType::SortedSet),
    (9, REDIS_7_0, ValueType::HashZipmap),
    (10, REDIS_7_0, ValueType::ListZiplist),
    (11, REDIS_7_0, ValueType::SetIntset),
    (12, REDIS_7_0, ValueType::SortedSetZiplist),
    (13, REDIS_7_0, ValueType::HashZiplist),
    (14, REDIS_7_0, ValueType::ListZiplists),
    (15, REDIS_7_0, ValueType::StreamRedis5),
    (16, REDIS_7_0, ValueType::HashListpack),
    (17, REDIS_7_0, ValueType::SortedSetListpack),
    (18, REDIS_7_0, ValueType::ListNodes),
    (19, REDIS_7_0, ValueType::StreamRedis70),
    (20, REDIS_7_2, ValueType::SetListpack),
    (21, REDIS_7_2, ValueType::StreamRedis72),
    (22, REDIS_7_4, ValueType::HashTimedCandidate),
    (22, *VALKEY.start(), ValueType::HashTimedValkey),
    (23, REDIS_7_4, ValueType::HashListpackTimedCandidate),
    (24, REDIS_7_4, ValueType::HashTimed),
    (25, REDIS_7_4, ValueType::HashListpackTimed),
    (26, REDIS_8_6, ValueType::StreamRedis86),
    (27, REDIS_8_8, ValueType::StreamRedis88),
    (112, OWN, ValueType::SetTimed),
    (113, OWN, ValueType::SortedSetTimed),
    (114, OWN, ValueType::Array),
];

impl ValueType {
    /// The type that a byte stands for in a version, if it is one that can be read.
    #[must_use]
    pub fn from_byte(byte: u8, version: u16) -> Option<Self> {
        let (.., value_type) = VALUE_TYPES.iter().find(|(this, _, value_type)| {
            let is_valkey = VALKEY.contains(&version);
            *this == byte
                && match value_type {
                    Self::HashTimedCandidate => !is_valkey,
                    Self::HashTimedValkey => is_valkey,
                    _ => true,
                }
        })?;
        Some(*value_type)
    }

    /// The byte that stands before the value.
    #[must_use]
    pub fn byte(self) -> u8 {
        self.row().0
    }

    /// The version that a reader must know.
    #[must_use]
    pub fn version(self) -> u16 {
        self.row().1
    }

    /// What the value is.
    fn kind(self) -> Kind {
        match self {
            Self::String => Kind::String,
            Self::List | Self::ListZiplist | Self::ListZiplists | Self::ListNodes => Kind::List,
            Self::Set | Self::SetIntset | Self::SetListpack | Self::SetTimed => Kind::Set,
            Self::SortedSetText
            | Self::SortedSet
            | Self::SortedSetZiplist
            | Self::SortedSetListpack
            | Self::SortedSetTimed => Kind::SortedSet,
            Self::Hash
            | Self::HashZipmap
            | Self::HashZiplist
            | Self::HashListpack
            | Self::HashTimed
            | Self::HashListpackTimed
            | Self::HashTimedCandidate
            | Self::HashListpackTimedCandidate
            | Self::HashTimedValkey => Kind::Hash,
            Self::StreamRedis5
            | Self::StreamRedis70
            | Self::StreamRedis72
            | Self::StreamRedis86
            | Self::StreamRedis88 => Kind::Stream,
            Self::Array => Kind::Array,
        }
    }

    fn row(self) -> &'static (u8, u16, Self) {
        let mut rows = VALUE_TYPES.iter();
        rows.find(|(.., value_type)| *value_type == self).expect("the table has every type")
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The latest deadline of a member: in the year 10889, as told with 48 bits.
const DEADLINE_MAX: UnixMillis = (1 << 48) - 1;

/// What stands for no deadline where one is due in eight bytes.
const NO_DEADLINE: i64 = -1;

/// Reads a deadline of eight bytes. One that is later than any of ours comes to the latest.
fn read_deadline(reader: &mut Reader<'_>) -> Result<Option<UnixMillis>, Malformed> {
    match i64::from_le_bytes(reader.array()?) {
        NO_DEADLINE => Ok(None),
        deadline @ 0.. => Ok(Some(deadline.min(DEADLINE_MAX))),
        _ => Err(Malformed),
    }
}

/// Appends a deadline as eight bytes.
fn write_deadline(out: &mut Writer, deadline: Option<UnixMillis>) {
    out.extend(&deadline.unwrap_or(NO_DEADLINE).to_le_bytes());
}

/// Takes bytes from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are not taken.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether all bytes are taken.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes, however large a number a stranger claims.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the array holds.
    pub fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }
}
