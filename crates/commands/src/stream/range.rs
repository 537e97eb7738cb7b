//! Reading a stream by IDs: XLEN, XRANGE, XREVRANGE.
//!
//! Invariant: a reply has entries in the order asked for, and none that was deleted.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{EntryId, Stream};

use super::{ENTRY_NS, ids, reply_entry};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::long_reply::{is_long, reply_in_pieces};

pub(super) const XLEN: DataCommand = Command {
    spec: Spec {
        name: "XLEN",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key",
        summary: "Return the number of messages in a stream.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let len = tx.view::<Stream>(&args[1])?.map_or(0, Stream::len);
        reply.integer(len as i64);
        Ok(())
    },
};

/// What both directions have in common.
const RANGE: Spec = Spec {
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always \
                 asking for the first 10 elements with COUNT), you can consider it O(1).",
    arity: at_least(4),
    flags: Flags::READONLY,
    keys: &[first(Access::RO.and(Access::ACCESS))],
    history: &[("6.2.0", "Added exclusive ranges.")],
    ..Spec::BASE
};

pub(super) const XRANGE: DataCommand = Command {
    spec: Spec {
        name: "XRANGE",
        syntax: "key start end [COUNT count]",
        summary: "Returns the messages from a stream within a range of IDs.",
        // In Redis, too, the two differ by a word.
        complexity: "O(N) with N being the number of elements being returned. If N is constant \
                     (e.g. always asking for the first 10 elements with COUNT), you can consider \
                     it O(1).",
        ..RANGE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, false, reply),
};

pub(super) const XREVRANGE: DataCommand = Command {
    spec: Spec {
        name: "XREVRANGE",
        syntax: "key end start [COUNT count]",
        summary: "Returns the messages from a stream within a range of IDs in reverse order.",
        ..RANGE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, true, reply),
};

fn range(
    tx: &mut Tx,
    args: Args<'_>,
    is_reverse: bool,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let (low, high) = if is_reverse { (&args[3], &args[2]) } else { (&args[2], &args[3]) };
    let (from, to) = (ids::start(low)?, ids::end(high)?);
    let mut options = Options::from(args, 4);
    let mut count = None;
    while let Some(word) = options.word() {
        if !is(word, "COUNT") {
            return Err(SYNTAX);
        }
        count = Some(u64::try_from(options.integer()?).unwrap_or(0));
    }
    let Some(stream) = tx.view::<Stream>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        reply.null_array();
        return Ok(());
    }
    let most = count.unwrap_or(u64::MAX).min(stream.about_between(from, to));
    if is_long(most.saturating_mul(ENTRY_NS)) {
        let found = stream.count_between(from, to).min(count.unwrap_or(u64::MAX));
        let bounds = (from, to);
        reply_entries(tx, stream.clone(), bounds, is_reverse, found, reply);
        return Ok(());
    }
    let mark = reply.defer();
    let items = if is_reverse { stream.range_back(from, to) } else { stream.range(from, to) };
    let limit = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut found = 0;
    for item in items.take(limit) {
        reply_entry(&item, reply);
        found += 1;
    }
    reply.finish_array(mark, found);
    Ok(())
}

/// Replies so many entries of a stream piece by piece, while they are sent.
fn reply_entries(
    tx: &Tx,
    stream: Stream,
    (mut from, mut to): (EntryId, EntryId),
    is_reverse: bool,
    found: u64,
    reply: &mut Reply<'_>,
) {
    reply.array(found as usize);
    reply_in_pieces(tx, reply, found, move |places, reply| {
        let items = if is_reverse { stream.range_back(from, to) } else { stream.range(from, to) };
        let mut last = None;
        for item in items.take((places.end - places.start) as usize) {
            reply_entry(&item, reply);
            last = Some(item.id);
        }
        let Some(last) = last else { return };
        match is_reverse {
            true => to = last.previous().unwrap_or(EntryId::MIN),
            false => from = last.next().unwrap_or(EntryId::MAX),
        }
    });
}
