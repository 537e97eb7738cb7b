//! What is accounted of the commands of a script: what `commit::accounting` notes of every command,
//! and how they look to MONITOR.
//!
//! Invariant: nothing is told before the script is over, and nothing of a run that was undone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proto::Args;

use crate::commit::accounting::charge_part;
use crate::lane::Lane;
use crate::limits::quotas::Usage;
use crate::observe::call_size::CallSize;
use crate::observe::command_log::{Caller, PendingEntry};
use crate::observe::execution::Execution;
use crate::observe::latency::LatencyEvents;
use crate::session::Session;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// Lines for MONITOR are kept up to about so many bytes: a script may call any number of commands,
/// and as many scripts run as there are threads.
const SHOWN_MAX: usize = 256 << 10;
/// So many calls are kept for the logs of commands.
const REMARKS_MAX: usize = 128;
/// What a line takes beside the arguments.
const LINE_HEAD: usize = 64;

/// The commands of one run.
#[derive(Default)]
pub(crate) struct Accounting {
    /// Of the command that was called first: many a script calls one only.
    first: Option<CommandCalls>,
    others: Vec<CommandCalls>,
    /// What was taken in databases that the script turned to.
    elsewhere: BTreeMap<usize, Usage>,
    /// For monitors, in the order of the calls.
    lines: Vec<Arc<[u8]>>,
    /// What the lines of all calls so far take, or would.
    shown: usize,
    /// For the logs of commands: the calls that were slow or large, the newest last.
    remarks: VecDeque<PendingEntry>,
    /// For the latency monitor: the calls that took too long.
    latency: LatencyEvents,
}

/// The calls of one command that are of one size.
#[derive(Clone, Copy)]
struct CommandCalls {
    command: usize,
    size: CallSize,
    count: u64,
    micros: u64,
    failures: u64,
    rejected: u64,
}

impl Accounting {
    /// Notes a call that ran, and left the script in this database.
    #[inline]
    pub(super) fn note(
        &mut self,
        server: &Shared,
        execution: Execution<'_>,
        database: usize,
        failed: bool,
    ) {
        let Execution { entry, args, micros, reply_bytes } = execution;
        let size = CallSize::of(args.extent() as u64 + reply_bytes);
        let calls = self.calls(entry, size);
        calls.count += 1;
        calls.micros += micros;
        calls.failures += u64::from(failed);
        if server.observed.command_log.is_remarkable(args.extent(), micros, reply_bytes) {
            self.remember(server, execution, database);
        }
        if micros >= server.observed.latency.threshold_us() {
            self.latency.note_command(server.keyspace.clock(), entry.spec.flags, micros);
        }
    }

    /// Notes a call that ran in another database than the script: for that database, too, the
    /// script is one request.
    #[cold]
    pub(super) fn note_elsewhere(&mut self, database: usize, execution: Execution<'_>) {
        let Execution { args, micros, reply_bytes, .. } = execution;
        let [requests, bytes_in, bytes_out, cpu] = self.elsewhere.entry(database).or_default();
        *requests = 1;
        *bytes_in += args.extent() as u64;
        *bytes_out += reply_bytes;
        *cpu += micros;
    }

    /// Enters a call that was not admitted.
    pub(super) fn reject(&mut self, entry: &CommandEntry) {
        self.calls(entry, CallSize::Small).rejected += 1;
    }

    fn calls(&mut self, entry: &CommandEntry, size: CallSize) -> &mut CommandCalls {
        let command = entry.id;
        let new = CommandCalls { command, size, count: 0, micros: 0, failures: 0, rejected: 0 };
        let first = self.first.get_or_insert(new);
        let is_alike = |calls: &CommandCalls| calls.command == command && calls.size == size;
        if is_alike(first) {
            return first;
        }
        let found = self.others.iter().position(is_alike);
        let place = found.unwrap_or_else(|| {
            self.others.push(new);
            self.others.len() - 1
        });
        &mut self.others[place]
    }

    /// Keeps a line for MONITOR; none after one that did not fit, so there are no gaps.
    #[cold]
    pub(super) fn show(
        &mut self,
        server: &Shared,
        database: usize,
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        self.shown += LINE_HEAD + args.iter().map(<[u8]>::len).sum::<usize>();
        if self.shown <= SHOWN_MAX {
            let now_us = server.keyspace.clock().now_us();
            self.lines.extend(server.pushes.monitors.line_of_script(
                (now_us, database),
                entry,
                args,
            ));
        }
    }

    /// Keeps a call for the logs of commands; of very many the newest, which is all that a log of
    /// the default length would hold.
    #[cold]
    fn remember(&mut self, server: &Shared, execution: Execution<'_>, database: usize) {
        if self.remarks.len() == REMARKS_MAX {
            self.remarks.pop_front();
        }
        let clock = server.keyspace.clock();
        let caller = Caller { client: None, database, time_s: clock.now_ms() / 1000, clock };
        let defer_log = server.observed.command_log.describe(&server.config, execution, caller);
        self.remarks.extend(defer_log);
    }

    /// Books all of it at a worker, for a session.
    pub(super) fn close(&self, lane: &Lane, session: &Session) {
        let server = lane.shared;
        for &CommandCalls { command, size, count, micros, failures, rejected } in
            self.first.iter().chain(&self.others)
        {
            if count > 0 {
                server.observed.stats.called_often(lane.number, (command, size), count, micros);
            }
            crate::runtime::counters::add(&lane.counters.commands, count);
            crate::runtime::counters::add(&session.client.live.commands, count);
            if failures + rejected > 0 {
                server.observed.stats.failed_often(lane.number, command, failures);
                server.observed.stats.rejected_often(lane.number, command, rejected);
            }
        }
        for (database, usage) in &self.elsewhere {
            charge_part(lane, session, *database, usage);
            // Of what the client is told nothing comes from there alone.
            let [.., cpu] = *usage;
            session.note_booked_elsewhere(0, cpu);
        }
        let outbox = server.outbox(&lane.wakes);
        self.lines.iter().for_each(|line| server.pushes.monitors.publish(outbox, line));
        self.remarks.iter().for_each(|defer_log| server.observed.command_log.enter(defer_log));
        if !self.latency.are_none() {
            server.observed.latency.enter(&self.latency);
        }
    }
}
