//! The commands that a script calls, on the unit that it runs in.
//!
//! Invariant: whether a command may be called is decided before it runs; what it changes is the
//! unit's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::time::Moment;
use commands::{Flags, Role};
use config::settings::BUSY_SCOPE;
use config::{BusyScope, LogLevel as ServerLevel};
use keyspace::{Location, Refusal};
use proto::{Args, Output, Reply, Resp};
use script::{Host, LogLevel, Replication, Stop};

use super::accounting::Accounting;
use crate::admission::quota;
use crate::admission::redirection::{self, CalledSlots};
use crate::limits::scripts::running::{RunningCall, RunningHandle};
use crate::observe::execution::Execution;
use crate::observe::stats;
use crate::runtime::failpoint;
use crate::session::patience::busy_since_us;
use crate::session::{AclSubject, Request};
use crate::table::command_table::{CommandEntry, Run};
use crate::table::flag_set::FlagSet;
use crate::transaction::control_plane::write_time;
use crate::transaction::control_plane::{ControlRequest, NOT_FROM_SCRIPT};
use crate::transaction::engine::Engine;
use crate::transaction::unit::{DeferredLog, Unit};

const UNKNOWN: Refusal = Refusal::error("ERR Unknown Redis command called from script");
const WRONG_ARITY: Refusal =
    Refusal::error("ERR Wrong number of args calling Redis command from script");
const STALE: Refusal = Refusal::error("ERR Can not execute the command on a stale replica");
const READ_ONLY: Refusal =
    Refusal::error("ERR Write commands are not allowed from read-only scripts.");

/// A script that runs longer is begun again on a heavy-work thread.
const WORKER_TIME_US: i64 = 500;

/// How long a library may take to load that a client brings.
const LOADING_TIME_US: i64 = 500_000;

/// The host of a library that is loaded, which can call nothing.
pub struct LibraryHost {
    server: &'static Engine,
    /// On the monotonic clock, in microseconds.
    deadline_us: i64,
    /// What ends it then.
    at_deadline: Stop,
    /// On a worker, which it may leave: the lines it has for the log. The run that is made in its
    /// place writes them again. Elsewhere lines are written at once.
    lines: Option<Lines>,
}

/// Lines for the log.
#[derive(Default)]
struct Lines {
    lines: Vec<(LogLevel, String)>,
    bytes: usize,
}

impl Lines {
    /// A library with more lines than that is not for a worker.
    const BYTES_MAX: usize = 64 * 1024;

    fn are_too_many(&self) -> bool {
        self.bytes > Self::BYTES_MAX
    }
}

impl LibraryHost {
    /// For a thread that nobody waits for.
    pub(crate) fn begin(server: &'static Engine) -> Self {
        Self::with(server, LOADING_TIME_US, Stop::Killed, None)
    }

    /// For a library that was accepted before, here or by another server, and comes back from a
    /// file: such a load takes the time it takes. A slower machine must not lose what a faster one
    /// had.
    pub(crate) fn begin_accepted(server: &'static Engine) -> Self {
        Self { server, deadline_us: i64::MAX, at_deadline: Stop::Killed, lines: None }
    }

    /// For a worker, which a library that takes longer leaves.
    pub fn begin_briefly(server: &'static Engine) -> Self {
        Self::with(server, WORKER_TIME_US, Stop::Heavy, Some(Lines::default()))
    }

    fn with(
        server: &'static Engine,
        time_us: i64,
        at_deadline: Stop,
        lines: Option<Lines>,
    ) -> Self {
        let deadline_us = server.keyspace.clock().monotonic_us() + time_us;
        Self { server, deadline_us, at_deadline, lines }
    }

    /// Writes what the library wrote to the log and has not been written. `Heavy` if that is too
    /// much: the library is to be loaded elsewhere.
    pub(crate) fn write_lines(self) -> Result<(), Refusal> {
        let lines = self.lines.unwrap_or_default();
        if lines.are_too_many() {
            return Err(Refusal::Heavy);
        }
        for (level, text) in lines.lines {
            self.server.log.write(of_server(level), format_args!("{text}"));
        }
        Ok(())
    }
}

/// A script that is given a longer reply is not for a worker.
const WORKER_COPY: usize = 256 * 1024;

/// The host of one call.
pub(crate) struct ScriptHost<'a> {
    pub(crate) server: &'static Engine,
    pub(crate) unit: &'a mut Unit,
    /// The database that the script began in.
    pub(crate) home: usize,
    /// Whether the script is one of several commands of the unit.
    pub(crate) is_part: bool,
    /// The key that the script was called with, and where it belongs, if that is known.
    pub(crate) known: Option<(&'a [u8], Location)>,
    /// Whose rules its commands have to keep, if there are any.
    pub(crate) subject: Option<&'a Arc<AclSubject>>,
    pub(crate) is_read_only: bool,
    pub(crate) allows_oom: bool,
    /// In a cluster, the slots of the keys of its commands.
    pub(crate) slots: CalledSlots,
    /// Whether all the unit did may be undone for the script's sake.
    pub(crate) may_restart: bool,
    /// Whether all it did is undone, and done again, if a command fails.
    pub(crate) is_tentative: bool,
    /// A moment before, which the times of its commands are told from.
    pub(crate) moment: Moment,
    /// When the script first looked at the time, on the monotonic clock in microseconds.
    pub(crate) began_us: Option<i64>,
    pub(crate) has_written: bool,
    /// Whether the script has run for so long that others are told of it.
    pub(crate) is_long: bool,
    pub(crate) accounting: Accounting,
    /// The errors in what the script returns: the code of each, unless it is counted already.
    pub(crate) returned_errors: Vec<Option<String>>,
    /// From an earlier run, too.
    pub(crate) running: &'a mut Option<RunningHandle>,
    /// For FUNCTION STATS: the name of the function, if it is one.
    pub(crate) function: Option<&'a [u8]>,
    /// And the request.
    pub(crate) request: Args<'a>,
}

impl Host for LibraryHost {
    fn call(&mut self, _: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop> {
        self.server.refuse(&NOT_FROM_SCRIPT, &mut Reply::new(reply, resp));
        Ok(())
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let Some(lines) = &mut self.lines else {
            return self.server.log.write(of_server(level), format_args!("{text}"));
        };
        lines.bytes += text.len() + size_of::<(LogLevel, String)>();
        if lines.are_too_many() {
            // The script leaves at its next look at the time.
            self.deadline_us = i64::MIN;
        } else {
            lines.lines.push((level, text.into_owned()));
        }
    }

    fn note_returned_error(&mut self, _: &[u8], _: bool) {}

    fn set_replication(&mut self, _: Replication) {}

    fn may_call(&mut self, args: Args<'_>) -> Option<bool> {
        self.server.table.resolve(args).is_ok().then_some(true)
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        let now = self.server.keyspace.clock().monotonic_us();
        if now > self.deadline_us { Err(self.at_deadline) } else { Ok(()) }
    }
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop> {
        // One that was killed while it waited for locks comes this far and has none.
        if self.running.as_ref().is_some_and(RunningHandle::is_killed) {
            return Err(Stop::Killed);
        }
        let entry = match self.admit(args) {
            Ok(entry) => entry,
            Err(Refusal::Widen) => return Err(Stop::Widen),
            Err(refusal) => {
                self.unit.refuse(&refusal, &mut Reply::new(reply, resp));
                return Ok(());
            }
        };
        if self.is_tentative && failpoint::gives_up() {
            self.unit.refuse(&NOT_FROM_SCRIPT, &mut Reply::new(reply, resp));
            return Ok(());
        }
        if entry.spec.flags.has(Flags::WRITE) && !self.has_written {
            if self.running.as_ref().is_some_and(|running| !running.begin_write()) {
                return Err(Stop::Killed);
            }
            self.has_written = true;
        }
        let clock = self.server.keyspace.clock();
        let began = clock.since(self.moment);
        let failed = self.execute(entry, args, resp, reply)?;
        let micros = u64::try_from(clock.since(self.moment) - began).unwrap_or(0);
        let execution = Execution { entry, args, micros, reply_bytes: reply.len() as u64 };
        let database = self.unit.tx.database();
        self.accounting.note(self.server, execution, database, failed);
        if database != self.home && self.server.gates.quotas.is_accounting_on() {
            self.accounting.note_elsewhere(database, execution);
        }
        if self.server.pushes.monitors.any() {
            // As the others, in the database that it left the script in.
            self.accounting.show(self.server, database, entry, args);
        }
        Ok(())
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.unit.defer_log(DeferredLog::Line(of_server(level), text));
    }

    fn note_returned_error(&mut self, text: &[u8], is_new: bool) {
        self.returned_errors.push(is_new.then(|| stats::code(text).to_owned()));
    }

    // What a unit changed is one record for the log and all replicas: none may go without.
    fn set_replication(&mut self, _: Replication) {}

    fn may_call(&mut self, args: Args<'_>) -> Option<bool> {
        let entry = self.server.table.resolve(args).ok()?;
        let request = Request { entry, args, database: self.unit.tx.database() };
        Some(self.subject.is_none_or(|subject| subject.allows(self.server, request)))
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        let now = self.server.keyspace.clock().monotonic_us();
        // Most scripts are over before they look again.
        if self.began_us.is_none() && self.running.is_none() {
            self.began_us = Some(now);
            return Ok(());
        }
        let began_us = *self.began_us.get_or_insert(now);
        let underway = &self.server.scripts.running;
        let running = self.running.get_or_insert_with(|| {
            let (function, request) = (self.function.map(Box::from), self.request.into());
            let must_obey = self.unit.must_obey();
            underway.enter(began_us, self.has_written, RunningCall { function, request, must_obey })
        });
        if running.is_killed() {
            return Err(Stop::Killed);
        }
        self.is_long = running.since_us() <= busy_since_us(self.server);
        let shuts = self.is_long && self.server.config.get(BUSY_SCOPE) == BusyScope::Server;
        running.shut_server(shuts);
        let outlasts = now - began_us > WORKER_TIME_US;
        if outlasts && self.unit.refuses_long_work() && self.may_restart {
            return Err(Stop::Heavy);
        }
        Ok(())
    }
}

fn of_server(level: LogLevel) -> ServerLevel {
    match level {
        LogLevel::Debug => ServerLevel::Debug,
        LogLevel::Verbose => ServerLevel::Verbose,
        LogLevel::Notice => ServerLevel::Notice,
        LogLevel::Warning => ServerLevel::Warning,
    }
}

impl ScriptHost<'_> {
    /// The command, if the script may call it.
    fn admit(&mut self, args: Args<'_>) -> Result<&'static CommandEntry, Refusal> {
        let entry = self.server.table.resolve(args).map_err(|_| UNKNOWN)?;
        self.check_command(entry, args).inspect_err(|refusal| {
            if *refusal != Refusal::Widen {
                self.accounting.reject(entry);
            }
        })?;
        Ok(entry)
    }

    fn check_command(&mut self, entry: &CommandEntry, args: Args<'_>) -> Result<(), Refusal> {
        let flags = entry.spec.flags;
        if !entry.spec.arity.admits(args.len()) {
            return Err(WRONG_ARITY);
        }
        let stays_outside = flags.has(Flags::USES_FIELDSET)
            || flags.has(Flags::UNITLESS)
            || matches!(entry.run, Run::Unit);
        let is_denied = flags.has(Flags::NOSCRIPT)
            && !self.server.scripts.may_call_denied.load(Ordering::Relaxed);
        if is_denied || stays_outside {
            return Err(NOT_FROM_SCRIPT);
        }
        if self.server.gates.replica_role.refuses_stale(|| FlagSet::of(flags)) {
            return Err(STALE);
        }
        // What was accepted elsewhere is not asked for again.
        let routing = &self.server.gates.routing;
        if routing.looks_at_slots() && !self.unit.must_obey() {
            let (slots, tx) = (&mut self.slots, &mut self.unit.tx);
            match routing.is_on() {
                true => redirection::refuse_script_call(self.server, slots, tx, entry, args)?,
                false => slots.note_call(self.server, entry, args),
            }
        }
        if let Some(subject) = self.subject {
            let request = Request { entry, args, database: self.unit.tx.database() };
            // What is denied is noted once.
            if self.is_tentative && !subject.allows(self.server, request) {
                return Err(NOT_FROM_SCRIPT);
            }
            if let Some(refusal) = subject.refuse_script_call(self.unit, request) {
                return Err(refusal);
            }
        }
        let writes = flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE);
        if self.is_read_only && writes {
            return Err(READ_ONLY);
        }
        // A script that has written goes on to its end.
        if self.has_written {
            return Ok(());
        }
        let shortage = self.unit.shortage();
        let request = Request { entry, args, database: self.unit.tx.database() };
        let refusal = shortage.refuse(self.server, flags, self.allows_oom);
        refusal
            .or_else(|| quota::refuse_memory(self.server, shortage.databases_over_quota(), request))
            .map_or(Ok(()), Err)
    }

    /// Runs a command; whether it failed.
    fn execute(
        &mut self,
        entry: &'static CommandEntry,
        args: Args<'_>,
        resp: Resp,
        reply: &mut Output,
    ) -> Result<bool, Stop> {
        let handler = match entry.run {
            Run::Data(handler) => handler,
            Run::Control => return self.control(entry, args, resp, reply),
            Run::Unit => unreachable!("it was not admitted"),
        };
        // Each call has its arguments where those of the call before lay.
        match self.known {
            Some((key, location)) if args.get(1) == Some(key) => {
                self.unit.tx.hint(&args[1], location);
            }
            _ => self.unit.tx.forget_hint(),
        }
        loop {
            self.unit.tx.set_for_script(true);
            let called = self.unit.call(entry, handler, args, resp, reply);
            self.unit.tx.set_for_script(false);
            match called {
                // Lua gets a copy of it.
                Ok(_)
                    if reply.len() > WORKER_COPY
                        && self.unit.refuses_long_work()
                        && self.may_restart =>
                {
                    return Err(Stop::Heavy);
                }
                Ok(failed) => return Ok(failed),
                Err(Refusal::Widen) => return Err(Stop::Widen),
                Err(_) if self.may_restart => return Err(Stop::Heavy),
                Err(_) => self.unit.take_time(),
            }
        }
    }

    /// Runs a command beside the data, for nobody's session: a script may be where there is none.
    /// Whether it failed.
    fn control(
        &mut self,
        entry: &'static CommandEntry,
        args: Args<'_>,
        resp: Resp,
        out: &mut Output,
    ) -> Result<bool, Stop> {
        // DEBUG may take any time.
        let may_last = entry.spec.flags.has(Flags::PROTECTED);
        if may_last && self.unit.refuses_long_work() && self.may_restart {
            return Err(Stop::Heavy);
        }
        let (server, mark) = (self.server, out.mark());
        let reply = &mut Reply::new(out, resp);
        if !entry.spec.flags.has(Flags::IDEMPOTENT) {
            if self.is_tentative {
                self.unit.refuse(&NOT_FROM_SCRIPT, reply);
                return Ok(true);
            }
            // From there on it goes on where it is: on a worker no client could end it.
            if self.unit.refuses_long_work() && self.may_restart {
                return Err(Stop::Heavy);
            }
            self.unit.become_final().map_err(|_| Stop::Widen)?;
            self.may_restart = false;
        }
        let result = match entry.spec.role {
            Role::Select => self.select(&args[1], reply),
            // One that waits for a time would wait for ever if time stood still.
            Role::Time if self.is_long => {
                write_time(server.keyspace.clock().now_us(), reply);
                Ok(())
            }
            _ => {
                let lane = self.unit.tx.options().lane;
                let unit = Some(&mut *self.unit);
                let next = server.control(ControlRequest { entry, asker: None, unit }, args, reply);
                next.and_then(|next| next.end_here(lane, args, reply)).map(|_| ())
            }
        };
        let Err(refusal) = result else { return Ok(false) };
        out.truncate(mark);
        if refusal == Refusal::Widen {
            return Err(Stop::Widen);
        }
        self.unit.refuse(&refusal, &mut Reply::new(out, resp));
        Ok(true)
    }

    /// For the rest of the script only. What has changed nothing does not get into a database that
    /// has had what it may; the rest goes on, and is booked there.
    fn select(&mut self, index: &[u8], reply: &mut Reply<'_>) -> Result<(), Refusal> {
        let database = self.server.database_of(index)?;
        let is_asked = !(self.is_part || self.has_written || self.unit.must_obey());
        if is_asked
            && database != self.home
            && let Some((refusal, account)) = quota::refuse_select(self.server, database)
        {
            self.unit.defer_log(DeferredLog::OverQuota(account));
            return Err(refusal);
        }
        self.unit.tx.switch_database(database);
        reply.ok();
        Ok(())
    }
}
