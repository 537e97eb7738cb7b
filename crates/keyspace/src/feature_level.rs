//! What a server must know to hold a value, beyond what every server of the protocol does.
//!
//! Invariant: a server with a higher level has all below, too, as with the versions of
//! the snapshot format.

use structs::object::{Container, Kind};
use structs::stream::Stream;

use crate::entry::EntryRef;

/// What a server must know to hold what was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureLevel {
    /// Nothing that is not known everywhere.
    #[default]
    Nothing,
    /// Functions, what streams count, and payloads of DUMP in the forms of Redis 7.0.
    Redis7,
    /// Fields of hashes that expire (Redis 7.4, Valkey 9).
    TimedFields,
    /// What producers sent to a stream (Redis 8.6).
    Producers,
    /// Entries of a stream that were given back (Redis 8.8).
    GivenBack,
    /// Members of sets that expire, and arrays: in no published format.
    Own,
}

impl FeatureLevel {
    /// All of them, rising.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Redis7,
        Self::TimedFields,
        Self::Producers,
        Self::GivenBack,
        Self::Own,
    ];

    /// What has to be known.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Nothing => "nothing new",
            Self::Redis7 => "a function, what a stream counts, or a payload of Redis 7.0",
            Self::TimedFields => "a hash whose fields expire",
            Self::Producers => "a stream that knows what its producers sent",
            Self::GivenBack => "a stream with entries that were given back",
            Self::Own => "a set whose members expire, or an array",
        }
    }

    /// That of a value as it comes to its place.
    #[inline]
    pub(crate) fn of(entry: EntryRef<'_>) -> Self {
        match entry.kind() {
            Kind::String | Kind::List => Self::Nothing,
            Kind::Array => Self::Own,
            Kind::Stream => Self::of_stream(entry),
            kind => Self::of_members(kind, entry.member_deadline().is_some()),
        }
    }

    /// That of a value of this type, some of whose members expire or none.
    pub(crate) fn of_members(kind: Kind, expire: bool) -> Self {
        match kind {
            Kind::Hash if expire => Self::TimedFields,
            Kind::Set | Kind::SortedSet if expire => Self::Own,
            _ => Self::Nothing,
        }
    }

    fn of_stream(entry: EntryRef<'_>) -> Self {
        let Some(stored) = entry.stored() else { return Self::Nothing };
        let stream = Stream::view(stored);
        if stream.groups().any(|(_, group)| group.given_back_count() > 0) {
            Self::GivenBack
        } else if stream.idempotence().is_some() {
            Self::Producers
        } else {
            Self::Nothing
        }
    }
}
