//! Keys that are never evicted: STICK (Dragonfly) and UNSTICK.
//!
//! Invariants: a key stays so whatever is stored there, until it is removed or UNSTICK says so; the
//! journal says it in words that Redis passes over.

use commands::DataCommand;
use commands::declare::{Command, Flags, Group, Spec, at_least};
use commands::generic::{SHARDED_SUM, charge_keys};
use commands::keys::{Access, all_from};
use keyspace::{Refusal, Tx};
use persist::entry_notes::EntryNote;
use proto::{Args, Reply};

const STICKING: Spec = Spec {
    since: "1.0.0",
    group: Group::Generic,
    syntax: "key [key ...]",
    complexity: "O(N) where N is the number of keys.",
    arity: at_least(2),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[all_from(1, Access::RW)],
    tips: SHARDED_SUM,
    ..Spec::BASE
};

pub(super) const STICK: DataCommand = Command {
    spec: Spec {
        name: "STICK",
        summary: "Keeps keys from being evicted.",
        origin: "dragonfly",
        ..STICKING
    },
    subcommands: &[],
    run: |tx, args, reply| stick(tx, args, reply, true),
};

pub(super) const UNSTICK: DataCommand = Command {
    spec: Spec {
        name: "UNSTICK",
        summary: "Lets keys be evicted again.",
        origin: "apus",
        ..STICKING
    },
    subcommands: &[],
    run: |tx, args, reply| stick(tx, args, reply, false),
};

fn stick(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    is_sticky: bool,
) -> Result<(), Refusal> {
    let keys = args.skip(1);
    charge_keys(tx, keys)?;
    let mut changed = 0_i64;
    for key in keys.iter() {
        if tx.set_sticky(key, is_sticky)? {
            changed += 1;
            tx.effects_mut()
                .instead(&[EntryNote::COMMAND, &EntryNote::Sticks(key, is_sticky).word()]);
        }
    }
    reply.integer(changed);
    Ok(())
}
