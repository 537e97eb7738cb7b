//! HIMPORT SET: a hash of fields that the session has named before.
//!
//! Invariant: what runs has each value's field before it, whatever the client sent; the journal
//! gets a command that needs no session.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::members::Lifetime;

use super::charge;
use super::set::put_pairs;
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, at};

/// The subcommand SET of the container HIMPORT, whose others are no data commands.
pub(crate) const SET: DataCommand = Command {
    spec: Spec {
        name: "SET",
        since: "8.10.0",
        group: Group::Hash,
        syntax: "key fieldset-name value [value ...]",
        summary: "Creates a fieldset-based hash from values supplied in the order matching a \
            previously prepared fieldset.",
        complexity: "O(N) where N is the number of fields in the fieldset.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::USES_FIELDSET),
        keys: &[at(2, Access::OW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: set,
};

fn set(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, pairs) = (&args[2], args.skip(4));
    tx.peek_view::<Hash>(key)?;
    charge(tx, pairs.len() / 2)?;
    let before = tx.effects().changes();
    if tx.delete(key)? {
        tx.effects_mut().set_changes(before);
        tx.effects_mut().instead(&[b"DEL", key]);
    }
    put_pairs(tx, key, pairs, Lifetime::Endless)?;
    tx.member_event(EventClass::Hash, "hset", key, pairs.iter().step_by(2));
    let words: Vec<&[u8]> = [b"HSET".as_slice(), key].into_iter().chain(pairs.iter()).collect();
    tx.effects_mut().instead(&words);
    reply.ok();
    Ok(())
}
