//! Taking fields out: HDEL, HGETDEL.
//!
//! Invariant: a hash goes with its last field.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::hash::Hash;

use super::get::reply_value;
use super::{NOT_POSITIVE, charge, note_removed};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};
use crate::member_ttl::listed::parse;

pub(super) const HDEL: DataCommand = Command {
    spec: Spec {
        name: "HDEL",
        since: "2.0.0",
        group: Group::Hash,
        syntax: "key field [field ...]",
        summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no \
            fields remain.",
        complexity: "O(N) where N is the number of fields to be removed.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::DELETE))],
        history: &[("2.4.0", "Accepts multiple `field` arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hdel,
};

/// Some fields of a request; mostly they are few.
type Fields<'a> = SmallVec<[&'a [u8]; 4]>;

fn hdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, fields) = (&args[1], args.skip(2));
    charge(tx, fields.len())?;
    let (removed, outcome): (Fields<'_>, _) =
        tx.edit(key, |hash: &mut Hash| fields.iter().filter(|field| hash.remove(field)).collect())?;
    if !removed.is_empty() {
        note_removed(tx, key, &removed, outcome);
    }
    reply.integer(removed.len() as i64);
    Ok(())
}

pub(super) const HGETDEL: DataCommand = Command {
    spec: Spec {
        name: "HGETDEL",
        since: "8.0.0",
        group: Group::Hash,
        syntax: "key FIELDS numfields field [field ...]",
        summary: "Returns the value of a field and deletes it from the hash.",
        complexity: "O(N) where N is the number of specified fields",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hgetdel,
};

fn hgetdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    tx.lookup_write_view::<Hash>(key)?;
    let fields = parse::<Hash>(args, 2, NOT_POSITIVE)?;
    charge(tx, fields.len())?;
    reply.array(fields.len());
    let (removed, outcome): (Fields<'_>, _) = tx.edit(key, |hash: &mut Hash| {
        let take = |field: &&[u8]| {
            reply_value(hash.borrow().get(field), reply);
            hash.remove(field)
        };
        fields.iter().filter(take).collect()
    })?;
    if !removed.is_empty() {
        note_removed(tx, key, &removed, outcome);
        let words = [b"HDEL".as_slice(), key].into_iter().chain(fields.iter());
        tx.effects_mut().instead(&words.collect::<Vec<_>>());
    }
    Ok(())
}
