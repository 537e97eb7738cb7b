//! Reading strings whole: GET, GETDEL.
//!
//! Invariant: a missing key is a null, a key of another type a WRONGTYPE.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::keys::{Access, first};
use crate::text::reply_text;

pub(super) const GET: DataCommand = Command {
    spec: Spec {
        name: "GET",
        since: "1.0.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the string value of a key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: get,
};

fn get(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match tx.text(&args[1])? {
        Some(text) => reply_text(text, reply),
        None => reply.null(),
    }
    Ok(())
}

pub(super) const GETDEL: DataCommand = Command {
    spec: Spec {
        name: "GETDEL",
        since: "6.2.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the string value of a key after deleting the key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: getdel,
};

fn getdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    match tx.text(key)? {
        Some(text) => reply_text(text, reply),
        None => {
            reply.null();
            return Ok(());
        }
    }
    tx.delete(key)?;
    tx.event(EventClass::Generic, "del", key);
    tx.effects_mut().instead(&[b"DEL", key]);
    Ok(())
}
