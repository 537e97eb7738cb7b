//! What is accounted of a command: its calls, its time, whether it was slow; MONITOR is told.
//!
//! Invariant: a command is accounted once, when it is over, at its session's worker, or at the lane
//! that applied it; what is noted of every command is noted by `note` alone.

use std::sync::atomic::Ordering;

use commands::LockPlan;
use proto::{Args, Output, OwnedArgs};

use crate::clients::mailbox::PendingWakes;
use crate::lane::Lane;
use crate::limits::quotas::Usage;
use crate::observe::call_size::CallSize;
use crate::observe::command_log::Caller;
use crate::observe::execution::Execution;
use crate::observe::hot_key_sketch::SampledRequest;
use crate::observe::monitor;
use crate::observe::stats::row_of_applier;
use crate::runtime::counters::add;
use crate::session::{ExecutedCommand, OtherDatabaseUsage, Session, Step, Suspension};
use crate::shared::Shared;
use crate::table::command_table::{CommandEntry, Run};

/// Accounts for a request that this worker has just run, whose reply begins where the output's
/// length was `length`.
#[inline]
pub(crate) fn charge(
    lane: &Lane,
    session: &Session,
    entry: &'static CommandEntry,
    args: Args<'_>,
    out: &Output,
    length: usize,
) {
    let micros = note_time(lane, entry);
    let reply_bytes = (out.len() - length) as u64 + out.bytes_to_come();
    account_request(lane, session, Execution { entry, args, micros, reply_bytes });
    feed_monitors(lane, session, session.database, entry, args);
}

/// As `charge`, of a request of another front: few are ever shown, so few are put in words.
/// `extent` is what the words take, about.
#[inline]
pub(crate) fn charge_foreign(
    lane: &Lane,
    session: &Session,
    entry: &'static CommandEntry,
    extent: usize,
    words: impl FnOnce() -> OwnedArgs,
    out: &Output,
    length: usize,
) {
    let (micros, server) = (note_time(lane, entry), lane.shared);
    let reply_bytes = (out.len() - length) as u64 + out.bytes_to_come();
    charge_accounts(lane, session, extent, reply_bytes, micros);
    let is_remarkable = server.observed.command_log.is_remarkable(extent, micros, reply_bytes);
    let is_noted = server.observed.hot_keys.is_tracking() || lane.is_sample_next();
    if is_remarkable || is_noted || server.pushes.monitors.any() {
        let words = words();
        let args = words.as_args();
        account(lane, session, Execution { entry, args, micros, reply_bytes });
        feed_monitors(lane, session, session.database, entry, args);
    } else {
        let args = Args::default();
        account_by_extent(lane, session, extent, Execution { entry, args, micros, reply_bytes });
    }
}

/// Accounts for a command that ended in this step with `charge`, unless it is still to end.
#[inline]
pub(crate) fn charge_step(lane: &Lane, session: &Session, step: &mut Step, charge: impl FnOnce()) {
    match step {
        Step::Postpone(_) => {}
        // What has a result to come is accounted with that.
        Step::Wait(suspension) if suspension.has_result_to_come() => _ = lane.tick(),
        Step::Forward(_) => _ = lane.tick(),
        // What waits is accounted when that is over.
        Step::Wait(Suspension::Blocked(blocked)) => note_wait(lane, session, &mut blocked.ran),
        _ => charge(),
    }
}

/// Notes what a command took that waits now, and tells monitors.
#[cold]
fn note_wait(lane: &Lane, session: &Session, ran: &mut ExecutedCommand) {
    ran.micros = note_time(lane, ran.entry);
    feed_monitors(lane, session, session.database, ran.entry, ran.args.as_args());
}

/// Notes how long this worker was busy with a command, in microseconds.
#[inline]
fn note_time(lane: &Lane, entry: &CommandEntry) -> u64 {
    let micros = u64::try_from(lane.tick()).unwrap_or(0);
    add(&lane.counters.busy_us, micros);
    if lane.shared.keyspace.stall_stats().is_remarkable(micros) {
        note_hold(lane.shared, entry, micros);
    }
    micros
}

/// Notes a command that held its locks for long; what held the world is noted with the stop.
#[cold]
fn note_hold(server: &Shared, entry: &CommandEntry, micros: u64) {
    if matches!(entry.run, Run::Data(_)) && entry.spec.plan != LockPlan::World {
        server.keyspace.stall_stats().note_hold(micros);
    }
}

/// Accounts for a request that is over, and charges it to its user and its database.
#[inline]
pub fn account_request(lane: &Lane, session: &Session, execution: Execution<'_>) {
    account(lane, session, execution);
    let Execution { args, micros, reply_bytes, .. } = execution;
    charge_accounts(lane, session, args.extent(), reply_bytes, micros);
}

/// The same of a request that another node ran: its time was that node's, and no account's.
pub fn account_forwarded(lane: &Lane, session: &Session, execution: Execution<'_>) {
    account(lane, session, execution);
    let Execution { args, reply_bytes, .. } = execution;
    charge_accounts(lane, session, args.extent(), reply_bytes, 0);
}

/// Accounts for a command of a session: a request, or a part of one.
#[inline]
pub(crate) fn account(lane: &Lane, session: &Session, execution: Execution<'_>) {
    account_by_extent(lane, session, execution.args.extent(), execution);
}

/// As `account`, of a command whose words take so much, which may not be there.
#[inline]
fn account_by_extent(lane: &Lane, session: &Session, extent: usize, execution: Execution<'_>) {
    let server = lane.shared;
    note(server, lane.number, extent, execution, || {
        let active_ms = session.client.live.last_active.load(Ordering::Relaxed);
        let (database, clock) = (session.database, server.keyspace.clock());
        Caller { client: Some(&*session.client), database, time_s: active_ms / 1000, clock }
    });
    add(&lane.counters.commands, 1);
    add(&session.client.live.commands, 1);
    if server.observed.hot_keys.is_tracking() {
        server.observed.hot_keys.note(lane.number, execution);
    }
    if server.observed.slot_stats.is_on() {
        server.observed.slot_stats.note(execution);
    }
    if lane.takes_sample() {
        let (database, now_us) = (session.database, lane.ticked_us());
        let sampled = SampledRequest { execution, database, now_us };
        lane.sample_again_in(server.observed.key_statistics.hot.note(lane.number, &sampled));
    }
}

/// Notes what is noted of every command, whoever had it run: its calls, its time, whether it was
/// slow or large. What a script calls is kept until the script is over, and noted alike
/// (`scripting::accounting`).
#[inline]
fn note<'c>(
    server: &Shared,
    row: usize,
    extent: usize,
    execution: Execution<'_>,
    caller: impl FnOnce() -> Caller<'c>,
) {
    let Execution { entry, micros, reply_bytes, .. } = execution;
    let size = CallSize::of(extent as u64 + reply_bytes);
    server.observed.stats.called(row, entry.id, size, micros);
    if server.observed.command_log.is_remarkable(extent, micros, reply_bytes) {
        server.observed.command_log.record(&server.config, execution, caller());
    }
    if micros >= server.observed.latency.threshold_us() {
        server.observed.latency.note_command(server.keyspace.clock(), entry.spec.flags, micros);
    }
}

/// Charges the accounts of its user and its database what a request took: once for each that a
/// client sent, whatever runs in it.
#[inline]
fn charge_accounts(
    lane: &Lane,
    session: &Session,
    request_bytes: usize,
    reply_bytes: u64,
    micros: u64,
) {
    if lane.shared.gates.quotas.is_accounting_on() {
        charge_request(lane, session, &[1, request_bytes as u64, reply_bytes, micros]);
    }
}

#[cold]
fn charge_request(lane: &Lane, session: &Session, usage: &Usage) {
    let OtherDatabaseUsage { began_in, reply_bytes, micros } = session.take_booked_elsewhere();
    let [requests, bytes_in, bytes_out, cpu] = *usage;
    let (bytes_out, cpu) = (bytes_out.saturating_sub(reply_bytes), cpu.saturating_sub(micros));
    let rest = [requests, bytes_in, bytes_out, cpu];
    let database = began_in.unwrap_or(session.database);
    charge_accounts_now(lane, session, database, (usage, &rest));
}

/// Charges accounts for a request that is queued for EXEC and will run in this database: its words
/// and what its client is told now. What the request does is a part of EXEC.
#[inline]
pub(crate) fn charge_queued(
    lane: &Lane,
    session: &Session,
    database: usize,
    (request_bytes, reply_bytes): (usize, usize),
) {
    if lane.shared.gates.quotas.is_accounting_on() {
        let usage = [1, request_bytes as u64, reply_bytes as u64, 0];
        charge_accounts_now(lane, session, database, (&usage, &usage));
    }
}

/// Charges the account of a database what a part of a request took there, which itself stands in
/// another one. The request's user is charged with the request.
#[cold]
pub(crate) fn charge_part(lane: &Lane, session: &Session, database: usize, usage: &Usage) {
    session.with_accounts(lane.shared, database, |accounts| {
        if let Some(account) = accounts.database() {
            account.charge(lane.number, usage, lane.ticked_us());
        }
    });
}

/// Charges a user's account and a database's what each of them is to have.
#[cold]
fn charge_accounts_now(
    lane: &Lane,
    session: &Session,
    database: usize,
    (of_user, of_database): (&Usage, &Usage),
) {
    let now_us = lane.ticked_us();
    session.with_accounts(lane.shared, database, |accounts| {
        if let Some(account) = accounts.user() {
            account.charge(lane.number, of_user, now_us);
        }
        if let Some(account) = accounts.database() {
            account.charge(lane.number, of_database, now_us);
        }
    });
}

/// Tells monitors of a command that ran, or began to wait, with the database that its client was in
/// right after it.
#[inline]
pub fn feed_monitors(
    lane: &Lane,
    session: &Session,
    database: usize,
    entry: &'static CommandEntry,
    args: Args<'_>,
) {
    let server = lane.shared;
    if server.pushes.monitors.any() {
        server.feed_monitors(&lane.wakes, &session.client, database, entry, args);
    }
}

/// A command of a primary's stream that ran on a lane of the applier.
pub struct AppliedCommand<'a> {
    /// The lane.
    pub lane: usize,
    /// The address of the primary.
    pub source: &'a str,
    /// The database that was selected when the command was over.
    pub database: usize,
    /// The command.
    pub entry: &'static CommandEntry,
    /// The request.
    pub args: Args<'a>,
    /// How long it took.
    pub micros: u64,
    /// Whether it failed.
    pub has_failed: bool,
}

/// Accounts for a command of a primary's stream. No client has sent the command, so no client's
/// figures and no keys' are counted.
#[inline]
pub fn account_applied(server: &Shared, wakes: &PendingWakes, applied: &AppliedCommand<'_>) {
    let AppliedCommand { lane, source, database, entry, args, micros, has_failed } = *applied;
    let (row, clock) = (row_of_applier(lane), server.keyspace.clock());
    let execution = Execution { entry, args, micros, reply_bytes: 0 };
    note(server, row, args.extent(), execution, || Caller {
        client: None,
        database,
        time_s: clock.now_ms() / 1000,
        clock,
    });
    if has_failed {
        server.observed.stats.failed(row, entry.id);
    }
    if server.pushes.monitors.any() && !monitor::is_hidden(entry) {
        let (began, outbox) = ((clock.now_us(), database), server.outbox(wakes));
        server.pushes.monitors.feed(outbox, source, began, entry, args);
    }
}
