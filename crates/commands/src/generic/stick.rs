//! Keys that are never evicted: STICK (Dragonfly) and UNSTICK.
//!
//! Invariant: a key stays so whatever is stored there, until it is removed or UNSTICK says so.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use super::{SHARDED_SUM, charge_keys};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, all_from};

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
    let mut changed = 0;
    for key in keys.iter() {
        changed += i64::from(tx.set_sticky(key, is_sticky)?);
    }
    reply.integer(changed);
    Ok(())
}
