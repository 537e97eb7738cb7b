//! The only door by which a write leaves a transaction.
//!
//! Called with the locks still held: clients that waited for what the transaction changed are
//! served, and all of it goes to the journal, and through it to the log and to replicas.
//!
//! Invariants: the order in which two transactions that share a key pass here is the order in which
//! they ran; a panic before the journal has the record undoes the transaction, and one between
//! there and the last observer that is told ends the process.

use keyspace::{Refusal, Tx};
use proto::Args;

use crate::clients::mailbox::PendingWakes;
use crate::commit::blocking;
use crate::journal::{self, CommandEffects, Journal, ReplyLsn};
use crate::observe::tracking::{PendingInvalidations, UnitRead};
use crate::runtime::failpoint;
use crate::runtime::panics::AbortOnPanic;
use crate::runtime::record_batch::RecordBatch;
use crate::shared::Shared;

/// Settles and publishes what a transaction did. Returns what its reply must wait for: the last
/// write it saw, its own included. Its locks are dropped with it, right after.
/// `Widen` says that serving a waiter needs more locks, and `Heavy` that it takes a worker too long
/// (`Tx::serve_within_budget`): the transaction is to be undone. The caller wakes workers when the
/// locks are dropped.
#[inline]
pub fn commit(
    server: &Shared,
    wakes: &PendingWakes,
    tx: &mut Tx,
    args: Args<'_>,
) -> Result<ReplyLsn, Refusal> {
    tx.finish_command();
    if tx.has_ready() || tx.has_modified() {
        let effects = tx.take_effects();
        let command = CommandEffects { effects: &effects, database: tx.database(), args };
        let notify = || server.notify(wakes, &effects);
        let own = (vec![command], effects.changes());
        let append = |tx: &mut Tx, record: &[u8]| append_own(server, wakes, tx, record);
        return commit_unit(server, tx, own, &[], notify, append);
    }
    count_changes(server, tx, tx.effects().changes());
    let seen = publish(&server.journal, &wakes.records, tx, args);
    tx.seal();
    server.notify(wakes, tx.effects());
    Ok(seen)
}

/// Counts changes of the data. All that commits comes by here.
#[inline]
pub(crate) fn count_changes(server: &Shared, tx: &mut Tx, changes: u64) {
    tx.count_final_changes(changes);
    if changes > 0 {
        server.memory.budget.note_change();
    }
}

/// Tells the journal of a transaction of one command.
#[inline]
pub fn publish(journal: &Journal, batch: &RecordBatch, tx: &mut Tx, args: Args<'_>) -> ReplyLsn {
    if !tx.effects().is_recorded() {
        return ReplyLsn::default();
    }
    let command = CommandEffects { effects: tx.effects(), database: tx.database(), args };
    let record = journal::record(&[command]);
    append(journal, batch, tx, &record)
}

/// Appends the record of a transaction that is this server's own, for [`commit_unit`].
pub(crate) fn append_own(
    server: &Shared,
    wakes: &PendingWakes,
    tx: &mut Tx,
    record: &[u8],
) -> Option<ReplyLsn> {
    Some(append(&server.journal, &wakes.records, tx, record))
}

#[cold]
fn append(journal: &Journal, batch: &RecordBatch, tx: &mut Tx, record: &[u8]) -> ReplyLsn {
    if record.is_empty() {
        return ReplyLsn::of_others(tx.observed_lsn());
    }
    let unbroken = AbortOnPanic::begin(tx.keyspace(), HALF_TOLD);
    let lsn = journal.append_in(batch, record, tx.take_feature_level());
    tx.stamp_lsn(lsn);
    unbroken.end();
    // Whatever else it saw was written before.
    ReplyLsn::own(lsn)
}

/// As `commit`, with one record for several commands, whose effects were taken as each of them
/// settled, and for all that they brought about. `readings` is what they read for caches; `notify`
/// publishes what they have to say; `append` takes the record, and says what replies wait for.
#[cold]
pub(crate) fn commit_unit(
    server: &Shared,
    tx: &mut Tx,
    (own, changes): (Vec<CommandEffects<'_, '_>>, u64),
    readings: &[UnitRead],
    notify: impl FnOnce(),
    append: impl FnOnce(&mut Tx, &[u8]) -> Option<ReplyLsn>,
) -> Result<ReplyLsn, Refusal> {
    let services = blocking::serve(server, tx)?;
    let unbroken = AbortOnPanic::begin(tx.keyspace(), HALF_TOLD);
    count_changes(server, tx, changes + services.changes());
    // Where others write the journal, waiters that were served have seen what those wrote.
    let mut seen = match services.is_empty() {
        true => ReplyLsn::default(),
        false => ReplyLsn::of_others(tx.observed_lsn()),
    };
    if !tx.effects().is_recorded() {
        // Where a primary's stream is passed on it follows.
        server.journal.note_feature_level(tx.take_feature_level());
    } else {
        let mut commands = own;
        commands.extend(services.commands());
        seen = append(tx, &journal::record(&commands)).unwrap_or(seen);
    }
    tx.seal();
    failpoint::trigger_behind_commit();
    let pending = announce(server, tx, readings);
    notify();
    if let Some(pending) = pending {
        pending.post_to_origin(server.directory());
    }
    services.hand_over(server, seen);
    unbroken.end();
    Ok(seen)
}

const HALF_TOLD: &str = "a transaction failed while those who follow the data were told of it";

/// Tells watches, trackers and listeners of what is final now. Their locks are still held, so
/// nobody can act on the new state before. What the client itself is to be told is left to the
/// caller.
pub fn announce(
    server: &Shared,
    tx: &mut Tx,
    readings: &[UnitRead],
) -> Option<PendingInvalidations> {
    if tx.has_modified() {
        tx.break_watches();
    }
    let heeds = tx.has_modified() || !readings.is_empty();
    if heeds {
        server.pushes.tracking.on_commit(server.tracking_context(), tx, readings)
    } else {
        None
    }
}
