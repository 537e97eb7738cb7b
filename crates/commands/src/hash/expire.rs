//! Giving fields a time to live: HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
//!
//! Invariant: what they do is what the commands of other types with such lists do.

use structs::hash::Hash;

use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};
use crate::member_ttl::listed::expire;
use crate::time_unit::TimeUnit;

pub(super) const HEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "HEXPIRE",
        syntax: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using relative time to expire (seconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<Hash>(tx, args, reply, TimeUnit::Seconds, "hexpire"),
};

pub(super) const HPEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIRE",
        syntax: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using relative time to expire (milliseconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<Hash>(tx, args, reply, TimeUnit::Millis, "hpexpire"),
};

pub(super) const HEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "HEXPIREAT",
        syntax: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using an absolute Unix timestamp (seconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<Hash>(tx, args, reply, TimeUnit::UnixSeconds, "hexpireat"),
};

pub(super) const HPEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIREAT",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using an absolute Unix timestamp (milliseconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<Hash>(tx, args, reply, TimeUnit::UnixMillis, "hpexpireat"),
};

/// What the four have in common.
const FAMILY: Spec = Spec {
    since: "7.4.0",
    group: Group::Hash,
    complexity: "O(N) where N is the number of specified fields",
    arity: at_least(6),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    ..Spec::BASE
};
