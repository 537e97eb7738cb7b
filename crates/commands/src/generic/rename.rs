//! Giving a value another place: RENAME, RENAMENX, COPY, MOVE.
//!
//! Invariant: a value arrives with its time to live, and what lay at its destination is gone
//! before it arrives, as an overwriting of its own.

use keyspace::{EntryBox, EventClass, Refusal, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::arguments::{Options, database, is};
use crate::change::place_over;
use crate::declare::{Command, Databases, Flags, Group, Spec, at_least, exactly};
use crate::errors::{NO_SUCH_KEY, SYNTAX};
use crate::keys::{Access, at, first};

/// A key that would be moved or copied onto itself.
const SAME_OBJECT: Refusal = Refusal::error("ERR source and destination objects are the same");

pub(super) const RENAME: DataCommand = Command {
    spec: Spec {
        name: "RENAME",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key newkey",
        summary: "Renames a key and overwrites the destination.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE,
        keys: &[
            first(Access::RW.and(Access::ACCESS).and(Access::DELETE)),
            at(2, Access::OW.and(Access::UPDATE)),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: rename,
};

fn rename(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, new_key) = (&args[1], &args[2]);
    if tx.lookup_write(key)?.is_none() {
        return Err(NO_SUCH_KEY);
    }
    if key != new_key {
        give_name(tx, key, new_key)?;
    }
    reply.ok();
    Ok(())
}

pub(super) const RENAMENX: DataCommand = Command {
    spec: Spec {
        name: "RENAMENX",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key newkey",
        summary: "Renames a key only when the target key name doesn't exist.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[
            first(Access::RW.and(Access::ACCESS).and(Access::DELETE)),
            at(2, Access::OW.and(Access::INSERT)),
        ],
        history: &[(
            "3.2.0",
            "The command no longer returns an error when source and destination names are the \
             same.",
        )],
        ..Spec::BASE
    },
    subcommands: &[],
    run: renamenx,
};

fn renamenx(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, new_key) = (&args[1], &args[2]);
    if tx.lookup_write(key)?.is_none() {
        return Err(NO_SUCH_KEY);
    }
    let vacant = tx.lookup_write(new_key)?.is_none();
    if vacant {
        give_name(tx, key, new_key)?;
    }
    reply.integer(i64::from(vacant));
    Ok(())
}

/// Takes what was just seen under `key` to `new_key`, as one change.
fn give_name(tx: &mut Tx, key: &[u8], new_key: &[u8]) -> Result<(), Refusal> {
    let before = tx.effects().changes();
    let entry = tx.take(key)?.expect("just seen");
    place_over(tx, new_key, entry.renamed(new_key), |tx| {
        tx.event(EventClass::Generic, "rename_from", key);
        tx.event(EventClass::Generic, "rename_to", new_key);
    })?;
    tx.effects_mut().set_changes(before + 1);
    Ok(())
}

pub(super) const COPY: DataCommand = Command {
    spec: Spec {
        name: "COPY",
        since: "6.2.0",
        group: Group::Generic,
        syntax: "source destination [DB destination-db] [REPLACE]",
        summary: "Copies the value of a key to a new key.",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) \
            for string values.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RO.and(Access::ACCESS)), at(2, Access::OW.and(Access::UPDATE))],
        databases: Databases::PresentAndBehind("DB", 3),
        ..Spec::BASE
    },
    subcommands: &[],
    run: copy,
};

fn copy(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, new_key) = (&args[1], &args[2]);
    let home = tx.database();
    let (mut target, mut replaces) = (home, false);
    let mut options = Options::from(args, 3);
    while let Some(word) = options.word() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB") {
            target = database(options.value()?, tx.keyspace().database_count())?;
        } else {
            return Err(SYNTAX);
        }
    }
    if key == new_key && target == home {
        return Err(SAME_OBJECT);
    }
    let copied = tx.read(key)?.map(|entry| entry.duplicate(new_key, entry.deadline()));
    let copied = match copied {
        Some(entry) => in_database(tx, target, |tx| arrive(tx, new_key, entry, replaces))?,
        None => false,
    };
    if (home, target) != (0, 0) {
        tx.note_incompatible();
    }
    reply.integer(i64::from(copied));
    Ok(())
}

/// Puts a copy where it belongs, unless that is taken; whether it did.
fn arrive(tx: &mut Tx, key: &[u8], copy: EntryBox, replaces: bool) -> Result<bool, Refusal> {
    if !replaces && tx.lookup_write(key)?.is_some() {
        return Ok(false);
    }
    place_over(tx, key, copy, |tx| tx.event(EventClass::Generic, "copy_to", key))?;
    Ok(true)
}

pub(super) const MOVE: DataCommand = Command {
    spec: Spec {
        name: "MOVE",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key db",
        summary: "Moves a key to another database.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        databases: Databases::PresentAndAt(2),
        ..Spec::BASE
    },
    subcommands: &[],
    run: move_to_database,
};

fn move_to_database(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let home = tx.database();
    let target = database(&args[2], tx.keyspace().database_count())?;
    if target == home {
        return Err(SAME_OBJECT);
    }
    let moves = tx.exists(key)? && !in_database(tx, target, |tx| tx.exists(key))?;
    if moves {
        let before = tx.effects().changes();
        let entry = tx.take(key)?.expect("just seen");
        in_database(tx, target, |tx| tx.place(entry))?;
        tx.effects_mut().set_changes(before + 1);
        tx.event(EventClass::Generic, "move_from", key);
        in_database(tx, target, |tx| {
            tx.event(EventClass::Generic, "move_to", key);
            Ok(())
        })?;
    }
    tx.note_incompatible();
    reply.integer(i64::from(moves));
    Ok(())
}

/// Does something in another logical database.
fn in_database<R>(
    tx: &mut Tx,
    database: usize,
    act: impl FnOnce(&mut Tx) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    let home = tx.switch_database(database);
    let result = act(tx);
    tx.switch_database(home);
    result
}
