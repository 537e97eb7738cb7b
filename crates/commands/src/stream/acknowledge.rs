//! Being done with pending entries, well or badly: XACK, XNACK.
//!
//! Invariant: a stream's entries stay as they are; only what a group knows of them changes.

use keyspace::{FeatureLevel, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{Counter, Stream};

use super::delete::counted_ids;
use super::{PENDING_NS, all_ids, edit_group, edit_group_quietly, no_group};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const WRONG_MODE: Refusal = Refusal::error("ERR mode must be SILENT, FAIL, or FATAL");
const WRONG_COUNT: Refusal = Refusal::error("ERR Invalid RETRYCOUNT option argument for XNACK");

/// The number of deliveries of a message that nobody should try again.
const FATAL: Counter = Counter::MAX;

pub(super) const XACK: DataCommand = Command {
    spec: Spec {
        name: "XACK",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key group id [id ...]",
        summary: "Returns the number of messages that were successfully acknowledged by the \
                  consumer group member of a stream.",
        complexity: "O(1) for each message ID processed.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xack,
};

fn xack(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, group) = (&args[1], &args[2]);
    let stream = tx.view::<Stream>(key)?;
    if stream.and_then(|stream| stream.group(group)).is_none() {
        reply.integer(0);
        return Ok(());
    }
    let ids = all_ids(args.skip(3))?;
    tx.charge(ids.len() as u64 * PENDING_NS)?;
    let done = edit_group_quietly(tx, key, group, |group| {
        ids.iter().filter(|id| group.acknowledge(**id)).count()
    })?;
    tx.effects_mut().add_changes(done as u64);
    reply.integer(done as i64);
    Ok(())
}

pub(super) const XNACK: DataCommand = Command {
    spec: Spec {
        name: "XNACK",
        since: "8.8.0",
        group: Group::Stream,
        syntax: "key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] \
                 [FORCE]",
        summary: "Releases pending messages back to the group's PEL without acknowledging them, \
                  making them available for re-delivery.",
        complexity: "O(1) for each message ID processed.",
        arity: at_least(7),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xnack,
};

/// How a message failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Silent,
    Fail,
    Fatal,
}

fn xnack(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, group) = (&args[1], &args[2]);
    let modes = [("SILENT", Mode::Silent), ("FAIL", Mode::Fail), ("FATAL", Mode::Fatal)];
    let mode = modes.into_iter().find(|(word, _)| is(&args[3], word)).ok_or(WRONG_MODE)?.1;
    let (mut ids, mut count, mut force) = (None, None, false);
    let mut options = Options::from(args, 4);
    while let Some(word) = options.word() {
        let left = args.len() - options.position();
        if is(word, "IDS") && left > 0 {
            ids = Some(counted_ids(args, &mut options)?);
        } else if is(word, "RETRYCOUNT") && left > 0 {
            let number = options.integer().ok().and_then(|number| u64::try_from(number).ok());
            count = Some(number.map(Counter::new).ok_or(WRONG_COUNT)?);
        } else if is(word, "FORCE") {
            force = true;
        } else {
            return Err(SYNTAX);
        }
    }
    let ids = all_ids(ids.ok_or(SYNTAX)?)?;
    let stream = tx.peek_view::<Stream>(key)?;
    let stream = stream.filter(|stream| stream.group(group).is_some());
    let stream = stream.ok_or_else(|| no_group(key, group, ""))?;
    tx.charge(ids.len() as u64 * PENDING_NS)?;
    let forced: Vec<bool> = ids.iter().map(|id| force && stream.get(*id).is_some()).collect();
    let done = edit_group(tx, key, group, |group| {
        let mut done = 0;
        for (id, is_forced) in ids.iter().zip(forced) {
            let deliveries = match (group.pending(*id), mode) {
                (None, _) if !is_forced => continue,
                (_, Mode::Fatal) => FATAL,
                (None, _) => Counter::default(),
                (Some(pending), Mode::Silent) => pending.deliveries.previous(),
                (Some(pending), Mode::Fail) => pending.deliveries,
            };
            group.give_back(*id, count.unwrap_or(deliveries));
            done += 1;
        }
        done
    })?;
    if done > 0 {
        tx.require_feature_level(FeatureLevel::GivenBack);
    }
    tx.effects_mut().add_changes(done);
    reply.integer(done as i64);
    Ok(())
}
