//! Items: strings with the flags that memcached's clients keep with them, as the journal tells them
//! and as the source of a move of hash slots sends them.
//!
//! Invariant: the journal says it in words that Redis passes over, right before the SET.

use base::time::UnixMillis;
use commands::DataCommand;
use commands::arguments::integer;
use commands::change::{journal_set, notify_overwritten};
use commands::declare::{Command, Flags, Group, Spec, exactly};
use commands::errors::NOT_AN_INTEGER;
use commands::keys::{Access, at};
use keyspace::{EventClass, ItemNotes, Kind, Lifetime, NewText, Refusal, Tx};
use persist::entry_notes::EntryNote;
use proto::{Args, Reply};

/// The subcommand SYNCITEM of the container CLUSTER, whose others are no data commands.
pub(super) const SYNCITEM: DataCommand = Command {
    spec: Spec {
        name: "SYNCITEM",
        since: "1.0.0",
        group: Group::Cluster,
        syntax: "key unix-time-milliseconds flags value",
        summary: "An internal command for moving strings with memcached's flags.",
        complexity: "O(1)",
        arity: exactly(6),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[at(2, Access::OW.and(Access::UPDATE))],
        categories: &["@dangerous"],
        origin: "apus",
        ..Spec::BASE
    },
    subcommands: &[],
    run: sync_item,
};

/// The time 0 is none.
fn sync_item(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const OF_NO_MOVE: Refusal =
        Refusal::error("ERR CLUSTER SYNCITEM should only be used by slot migration clients");
    let (key, value) = (&args[2], &args[5]);
    let deadline = Some(integer(args, 3)?).filter(|deadline| *deadline != 0);
    let flags = u32::try_from(integer(args, 4)?).map_err(|_| NOT_AN_INTEGER)?;
    // The source says when a key goes, so one whose time is over stays.
    if !tx.is_importing(key) {
        return Err(OF_NO_MOVE);
    }
    let lifetime = deadline.map_or(Lifetime::Forever, Lifetime::Until);
    let text = NewText::from_client(value);
    if let Some(before) = tx.put_item(key, text, lifetime, ItemNotes::of_flags(flags))? {
        notify_overwritten(tx, key, before, Kind::String);
    }
    tx.event(EventClass::String, "set", key);
    if tx.effects().is_recorded() {
        journal_item(tx, key, value, deadline, flags);
    }
    reply.ok();
    Ok(())
}

/// Journals that a key is this item now.
pub fn journal_item(
    tx: &mut Tx,
    key: &[u8],
    value: &[u8],
    deadline: Option<UnixMillis>,
    flags: u32,
) {
    if flags != 0 {
        tx.effects_mut().instead(&[EntryNote::COMMAND, &EntryNote::Flags(flags).word()]);
    }
    journal_set(tx, key, value, deadline.map_or(Lifetime::Forever, Lifetime::Until));
}
