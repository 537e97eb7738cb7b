//! Deleting entries by ID: XDEL, XDELEX, XACKDEL.
//!
//! Invariants: all arguments are read before the first entry goes; the journal gets what was done
//! in commands that older servers know, too.

use std::collections::HashSet;

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{EntryId, References, Stream};

use super::effects::{DroppedPending, journal_deleted};
use super::{ENTRY_NS, PENDING_NS, all_ids, edit_quietly, references};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const NOT_POSITIVE: Refusal = Refusal::error("ERR Number of IDs must be a positive integer");
const NOT_THE_NUMBER: Refusal =
    Refusal::error("ERR The `numids` parameter must match the number of arguments");

/// What the three have in common.
const DELETION: Spec = Spec {
    group: Group::Stream,
    complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::DELETE))],
    ..Spec::BASE
};

pub(super) const XDEL: DataCommand = Command {
    spec: Spec {
        name: "XDEL",
        since: "5.0.0",
        syntax: "key id [id ...]",
        summary: "Returns the number of messages after removing them from a stream.",
        arity: at_least(3),
        ..DELETION
    },
    subcommands: &[],
    run: xdel,
};

fn xdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    if tx.peek_view::<Stream>(key)?.is_none() {
        reply.integer(0);
        return Ok(());
    }
    let ids = all_ids(args.skip(2))?;
    tx.charge(ids.len() as u64 * ENTRY_NS)?;
    let ids = rising(ids);
    let deleted = edit_quietly(tx, key, |stream| stream.delete_all(&ids).len())?;
    note_deleted(tx, key, deleted as u64);
    reply.integer(deleted as i64);
    Ok(())
}

/// The same IDs in order, each once.
fn rising(mut ids: Vec<EntryId>) -> Vec<EntryId> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn note_deleted(tx: &mut Tx, key: &[u8], deleted: u64) {
    if deleted > 0 {
        tx.event(EventClass::Stream, "xdel", key);
        tx.effects_mut().add_changes(deleted);
    }
}

/// `IDS numids id [id ...]` and what becomes of references.
pub(super) struct IdBlock<'a> {
    pub(super) ids: Args<'a>,
    references: References,
}

impl<'a> IdBlock<'a> {
    fn read(args: Args<'a>, from: usize) -> Result<Self, Refusal> {
        let mut options = Options::from(args, from);
        let (mut ids, mut kept) = (None, None);
        while let Some(word) = options.word() {
            if is(word, "IDS") && options.position() < args.len() {
                ids = Some(counted_ids(args, &mut options)?);
            } else {
                if kept.is_some() {
                    return Err(SYNTAX);
                }
                kept = Some(references(word).ok_or(SYNTAX)?);
            }
        }
        Ok(Self { ids: ids.ok_or(SYNTAX)?, references: kept.unwrap_or_default() })
    }
}

/// The IDs behind the word `IDS` and their number.
pub(super) fn counted_ids<'a>(
    args: Args<'a>,
    options: &mut Options<'a>,
) -> Result<Args<'a>, Refusal> {
    let number = base::number::parse_i64(options.value()?).ok_or(NOT_POSITIVE)?;
    let number = usize::try_from(number).ok().filter(|number| *number > 0);
    let number = number.ok_or(NOT_POSITIVE)?;
    let first = options.position();
    let end = first.checked_add(number).filter(|end| *end <= args.len());
    let end = end.ok_or(NOT_THE_NUMBER)?;
    (first..end).for_each(|_| _ = options.word());
    Ok(args.slice(first..end))
}

/// What became of an entry: the numbers that clients get.
const MISSING: i64 = -1;
const DELETED: i64 = 1;
const REFERRED_TO: i64 = 2;

fn reply_each(outcomes: &[i64], reply: &mut Reply<'_>) {
    reply.array(outcomes.len());
    outcomes.iter().for_each(|outcome| reply.integer(*outcome));
}

pub(super) const XDELEX: DataCommand = Command {
    spec: Spec {
        name: "XDELEX",
        since: "8.2.0",
        syntax: "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        summary: "Deletes one or multiple entries from the stream.",
        arity: at_least(5),
        ..DELETION
    },
    subcommands: &[],
    run: xdelex,
};

fn xdelex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    // Of several errors, Redis tells the type first.
    tx.peek_view::<Stream>(key)?;
    let IdBlock { ids, references } = IdBlock::read(args, 2)?;
    let Some(stream) = tx.peek_view::<Stream>(key)? else {
        reply_each(&vec![MISSING; ids.len()], reply);
        return Ok(());
    };
    let ids = all_ids(ids)?;
    tx.charge(ids.len() as u64 * (ENTRY_NS + PENDING_NS * stream.groups().len() as u64))?;
    let (mut gone, mut forgotten) = (Vec::new(), DroppedPending::default());
    let (outcomes, changed) = edit_quietly(tx, key, |stream| {
        let stays = |stream: &Stream, id: &EntryId| {
            references == References::Acknowledged && stream.is_referred_to(*id)
        };
        let going = ids.iter().copied().filter(|id| !stays(stream, id)).collect();
        // An ID that comes twice is there only the first time.
        gone = stream.delete_all(&rising(going));
        let mut found: HashSet<EntryId> = gone.iter().copied().collect();
        let mut changed = 0;
        let outcome = |id: &EntryId| {
            if stays(stream, id) {
                return REFERRED_TO;
            }
            let was_there = found.remove(id);
            let forgetting = match references {
                References::Delete => stream.forget(*id),
                _ => Vec::new(),
            };
            changed += u64::from(was_there || !forgetting.is_empty());
            forgetting.into_iter().for_each(|group| forgotten.note(group, *id));
            if was_there { DELETED } else { MISSING }
        };
        let outcomes: Vec<i64> = ids.iter().map(outcome).collect();
        (outcomes, changed)
    })?;
    let deleted = outcomes.iter().filter(|outcome| **outcome == DELETED).count() as u64;
    note_deleted(tx, key, deleted);
    tx.effects_mut().add_changes(changed - deleted);
    forgotten.journal(tx, key);
    journal_deleted(tx, key, &gone);
    reply_each(&outcomes, reply);
    Ok(())
}

pub(super) const XACKDEL: DataCommand = Command {
    spec: Spec {
        name: "XACKDEL",
        since: "8.2.0",
        syntax: "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        summary: "Acknowledges and deletes one or multiple messages for a stream consumer group.",
        complexity: "O(1) for each message ID processed.",
        arity: at_least(6),
        keys: &[first(Access::RW.and(Access::UPDATE).and(Access::DELETE))],
        ..DELETION
    },
    subcommands: &[],
    run: xackdel,
};

fn xackdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, group) = (&args[1], &args[2]);
    tx.view::<Stream>(key)?;
    let IdBlock { ids, references } = IdBlock::read(args, 3)?;
    let stream = tx.peek_view::<Stream>(key)?.filter(|stream| stream.group(group).is_some());
    let Some(stream) = stream else {
        reply_each(&vec![MISSING; ids.len()], reply);
        return Ok(());
    };
    let ids = all_ids(ids)?;
    tx.charge(ids.len() as u64 * (ENTRY_NS + PENDING_NS * stream.groups().len() as u64))?;
    let (mut gone, mut forgotten) = (Vec::new(), DroppedPending::default());
    let (outcomes, deleted) = edit_quietly(tx, key, |stream| {
        let mut going = Vec::new();
        let outcome = |id: &EntryId| {
            let id = *id;
            if stream.edit_group(group, |group| group.acknowledge(id)) != Some(true) {
                return MISSING;
            }
            forgotten.note(group.into(), id);
            if references == References::Acknowledged && stream.is_referred_to(id) {
                return REFERRED_TO;
            }
            if references == References::Delete {
                let others = stream.forget(id);
                others.into_iter().for_each(|group| forgotten.note(group, id));
            }
            going.push(id);
            DELETED
        };
        let outcomes: Vec<i64> = ids.iter().map(outcome).collect();
        gone = stream.delete_all(&rising(going));
        (outcomes, gone.len() as u64)
    })?;
    note_deleted(tx, key, deleted);
    let kept = outcomes.iter().filter(|outcome| **outcome != MISSING).count() as u64 - deleted;
    tx.effects_mut().add_changes(kept);
    forgotten.journal(tx, key);
    journal_deleted(tx, key, &gone);
    reply_each(&outcomes, reply);
    Ok(())
}
