//! A new base for the append-only file: a snapshot, behind whose cut a new increment begins.
//!
//! Invariants: one is under way at most; its end is told to the writer, which alone puts it in its
//! place, or, where there is no writer, is put there here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use base::io_error_text::strerror;
use config::settings::{
    AOF_REWRITE_INCREMENTAL_FSYNC, AUTO_AOF_REWRITE_MIN_SIZE, AUTO_AOF_REWRITE_PERCENTAGE,
};
use engine::runtime::failpoint;
use engine::runtime::log::{log_notice, log_warning};
use persist::aof::manifest::BaseForm;

use super::files::{AofDirectory, Beginning, make_directory, new_base_path, unmade_directory};
use super::queue::RecordQueue;
use super::{BaseResult, NewBase, WriterCommand, attach};
use crate::durability::Durability;
use crate::snapshot::{Cut, FileSink, Finished, Snapshot, SnapshotPurpose, SnapshotTarget};

/// So many failures in a row, then automatic rewrites wait longer and longer.
const PATIENT_FAILURES: u64 = 3;

/// The longest such wait.
const LONGEST_WAIT_MINUTES: u64 = 60;

const MINUTE_US: i64 = 60_000_000;

/// The state of rewrites.
#[derive(Default)]
pub struct Rewrite(Mutex<RewriteState>);

#[derive(Default)]
struct RewriteState {
    underway: Option<RewriteUnderway>,
    is_scheduled: bool,
    seconds: Option<i64>,
    has_failed: bool,
    ended_us: i64,
    count: u64,
    failures: u64,
}

struct RewriteUnderway {
    began_us: i64,
    /// Whether its base was given to the writer.
    is_handed_over: bool,
    snapshot: Arc<Snapshot>,
}

impl RewriteUnderway {
    /// Whether nobody wants it any more, or it came at a wrong time, so that its end is no failure.
    fn is_called_off(&self) -> bool {
        self.snapshot.is_cancelled()
    }
}

/// What INFO tells of rewrites.
pub struct RewriteStatus {
    /// Whether a rewrite runs now.
    pub is_underway: bool,
    /// Whether a rewrite begins as soon as the running save has ended.
    pub is_scheduled: bool,
    /// How long the last one took.
    pub seconds: Option<i64>,
    /// How long the present one takes so far.
    pub present_seconds: Option<i64>,
    /// Whether the last rewrite failed.
    pub has_failed: bool,
    /// How many rewrites have succeeded since the start.
    pub count: u64,
    /// Failures in a row.
    pub failures: u64,
}

impl Rewrite {
    /// Counts anew (`CONFIG RESETSTAT`).
    pub fn reset_count(&self) {
        self.state().count = 0;
    }

    /// Asks for one as soon as none is under way.
    pub fn schedule(&self) {
        self.state().is_scheduled = true;
    }

    /// Gives up the one under way, and the one that is to follow.
    pub(crate) fn cancel(&self) {
        self.state().is_scheduled = false;
        self.abort();
    }

    /// Gives up the one under way.
    pub(super) fn abort(&self) {
        if let Some(underway) = &self.state().underway {
            underway.snapshot.cancel();
        }
    }

    /// Gives up the one under way if writing commands have waited too long for it.
    fn abort_if_stuck(&self) {
        if let Some(underway) = &self.state().underway {
            underway.snapshot.abort_if_stuck();
        }
    }

    /// Whether the base of the one under way was given to the writer.
    pub(super) fn is_handed_over(&self) -> bool {
        self.state().underway.as_ref().is_some_and(|underway| underway.is_handed_over)
    }

    fn is_called_off(&self) -> bool {
        self.state().underway.as_ref().is_some_and(RewriteUnderway::is_called_off)
    }

    /// Whether one is under way.
    pub fn is_underway(&self) -> bool {
        self.state().underway.is_some()
    }

    pub(crate) fn status(&self, now_us: i64) -> RewriteStatus {
        let state = self.state();
        let seconds = |it: &RewriteUnderway| (now_us - it.began_us) / 1_000_000;
        RewriteStatus {
            is_underway: state.underway.is_some(),
            is_scheduled: state.is_scheduled,
            seconds: state.seconds,
            present_seconds: state.underway.as_ref().map(seconds),
            has_failed: state.has_failed,
            count: state.count,
            failures: state.failures,
        }
    }

    /// Whether the next automatic one is still to wait, after failures.
    fn is_put_off(&self, now_us: i64) -> bool {
        let state = self.state();
        let beyond = state.failures.saturating_sub(PATIENT_FAILURES);
        let minutes = if beyond == 0 { 0 } else { 1 << (beyond - 1).min(6) };
        let wait = minutes.min(LONGEST_WAIT_MINUTES).cast_signed() * MINUTE_US;
        now_us - state.ended_us < wait
    }

    /// When the last one ended, on the monotonic clock in microseconds.
    pub(super) fn ended_us(&self) -> i64 {
        self.state().ended_us
    }

    fn state(&self) -> MutexGuard<'_, RewriteState> {
        self.0.lock().expect("no critical section here panics")
    }
}

/// Looks whether a rewrite is due; to be called now and then.
pub fn tick(server: &'static Durability) {
    let aof = &server.aof;
    let now_us = server.keyspace.clock().monotonic_us();
    let status = aof.rewrite.status(now_us);
    if status.is_underway {
        return aof.rewrite.abort_if_stuck();
    }
    if server.saves.is_running() || server.backup.is_underway() {
        // One at a time, as in Redis.
        return;
    }
    if status.is_scheduled {
        begin_in_background(server, None);
        return;
    }
    let percentage = server.config.get(AUTO_AOF_REWRITE_PERCENTAGE);
    let (total, base) = aof.stats.sizes();
    let is_small = total <= server.config.get(AUTO_AOF_REWRITE_MIN_SIZE);
    if !aof.is_on() || percentage == 0 || is_small || aof.rewrite.is_put_off(now_us) {
        return;
    }
    let growth = (total * 100 / base.max(1)).saturating_sub(100);
    if growth >= percentage {
        log_notice!(server.log, "Starting automatic rewriting of AOF on {growth}% growth");
        begin_in_background(server, None);
    }
}

/// Begins a rewrite, unless one is under way, data are loaded, or the system gives no thread for
/// it; whether it did. The disk is waited for.
pub fn begin(server: &'static Durability) -> bool {
    RewriteTurn::take(server).is_some_and(|turn| turn.begin(None))
}

/// The same without waiting for the disk, in the directory of a backup's log, if one is named;
/// whether the rewrite is under way now.
pub fn begin_in_background(server: &'static Durability, for_backup: Option<PathBuf>) -> bool {
    let turn = RewriteTurn::take(server);
    let is_taken = turn.is_some();
    if let Some(turn) = turn {
        server.threads.background.spawn(move |_| {
            // What goes wrong is told by `done`.
            let _ = turn.begin(for_backup.as_deref());
        });
    }
    is_taken
}

/// The rewrite that is under way, until its snapshot is: what ends before, ends it.
struct RewriteTurn {
    server: &'static Durability,
    form: BaseForm,
    snapshot: Arc<Snapshot>,
    is_over: bool,
}

impl RewriteTurn {
    /// No other thread begins a rewrite from now on.
    fn take(server: &'static Durability) -> Option<Self> {
        let form = super::base_form(server);
        let syncs = server.config.get(AOF_REWRITE_INCREMENTAL_FSYNC);
        let snapshot = Snapshot::new(server, SnapshotPurpose::Base(form), syncs, false);
        let mut state = server.aof.rewrite.state();
        if state.underway.is_some() || server.gates.loading.is_on() {
            return None;
        }
        state.is_scheduled = false;
        let began_us = server.keyspace.clock().monotonic_us();
        let is_handed_over = false;
        let underway =
            RewriteUnderway { began_us, is_handed_over, snapshot: Arc::clone(&snapshot) };
        state.underway = Some(underway);
        drop(state);
        Some(Self { server, form, snapshot, is_over: false })
    }

    fn begin(mut self, for_backup: Option<&Path>) -> bool {
        let (server, form) = (self.server, self.form);
        failpoint::point();
        let path = match make_directory(server, for_backup)
            .and_then(|()| new_base_path(server, for_backup))
        {
            Ok(path) => path,
            Err(error) => {
                log_warning!(server.log, "{}", unmade_directory(server, &error));
                return false;
            }
        };
        log_notice!(server.log, "Background append only file rewriting started");
        failpoint::point();
        let log = server.aof.queue().clone();
        let cut_log = log.clone();
        let at_cut = Box::new(move |cut| mark_cut(server, &cut, cut_log.as_ref()));
        let sink = Box::new(FileSink::new(&*server.storage, path.clone()));
        let target = SnapshotTarget { sink, at_cut };
        let done = move |result: Result<Finished, String>| {
            hand_over(
                server,
                result.map(|it| NewBase { path, form, bytes: it.bytes }),
                log.as_ref(),
            );
        };
        self.is_over = true;
        // What goes wrong is told by `done`.
        self.snapshot.start(target, Box::new(done)).is_ok()
    }
}

impl Drop for RewriteTurn {
    fn drop(&mut self) {
        if !self.is_over {
            done(self.server, None);
        }
    }
}

/// With the world stopped: what comes now is not in the base.
fn mark_cut(server: &'static Durability, cut: &Cut, log: Option<&Arc<RecordQueue>>) {
    // Held meanwhile, so that a queue that is taken away is not attached any more.
    let present = server.aof.queue();
    let is_wanted = is_same(log, present.as_ref());
    let Some(queue) = present.as_ref().filter(|_| is_wanted) else { return };
    if !server.journal.is_attached(queue.reader) {
        attach(server, queue);
    }
    queue.order(|lsn| {
        debug_assert_eq!(lsn, cut.lsn, "the world stands still");
        WriterCommand::Cut(lsn)
    });
}

/// The base is there, or why not. The base is for the log that there was when it was begun, or for
/// none.
fn hand_over(server: &'static Durability, base: BaseResult, log: Option<&Arc<RecordQueue>>) {
    let present = server.aof.queue();
    let is_wanted = is_same(log, present.as_ref());
    if let Some(present) = present.as_ref().filter(|_| is_wanted) {
        if let Some(underway) = &mut server.aof.rewrite.state().underway {
            underway.is_handed_over = true;
        }
        return present.order(|_| WriterCommand::Base(base));
    }
    drop(present);
    let installed = base.and_then(|base| match is_wanted {
        true => install_alone(server, base),
        false => {
            remove(server, vec![base.path]);
            Err("the log that it was for is written no more".to_owned())
        }
    });
    if let Err(why) = &installed {
        report_failure(server, why);
    }
    done(server, installed.ok().map(|bytes| (bytes, 0)));
}

/// Whether these are one log, or both are none.
pub(super) fn is_same(one: Option<&Arc<RecordQueue>>, other: Option<&Arc<RecordQueue>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Puts a base in its place that nothing follows, as the file is off.
fn install_alone(server: &'static Durability, base: NewBase) -> Result<u64, String> {
    let mut files = AofDirectory::find(server)?;
    let installed = files.install(&base.path, base.form, Beginning::Absent);
    match installed.and_then(|()| files.take_leftovers()) {
        Ok(leftovers) => {
            remove(server, leftovers);
            Ok(base.bytes)
        }
        Err(error) => {
            remove(server, vec![base.path]);
            Err(strerror(&error))
        }
    }
}

/// Tells the operator why the rewrite under way comes to nothing.
pub(super) fn report_failure(server: &Durability, why: &str) {
    match server.aof.rewrite.is_called_off() {
        true => log_notice!(server.log, "Background AOF rewrite called off: {why}"),
        false => log_warning!(server.log, "Background AOF rewrite failed: {why}"),
    }
}

/// A rewrite is over, with the sizes of its base and of what follows it, if it went well.
pub(super) fn done(server: &Durability, sizes: Option<(u64, u64)>) {
    let now_us = server.keyspace.clock().monotonic_us();
    let mut state = server.aof.rewrite.state();
    let underway = state.underway.take();
    let began_us = underway.as_ref().map_or(now_us, |underway| underway.began_us);
    state.ended_us = now_us;
    state.seconds = Some((now_us - began_us) / 1_000_000);
    if sizes.is_none() && underway.is_some_and(|it| it.is_called_off()) {
        return;
    }
    state.has_failed = sizes.is_none();
    let (spans, clock) = (&server.observed.spans, server.keyspace.clock());
    spans.note_task(clock, "aof rewrite", began_us, state.has_failed);
    let Some((base, increment)) = sizes else {
        state.failures += 1;
        return;
    };
    state.failures = 0;
    state.count += 1;
    server.aof.stats.set_sizes(base + increment, base + increment);
    log_notice!(server.log, "Background AOF rewrite finished successfully");
}

/// Removes files that nobody names any more, off this thread: big ones take time.
pub(super) fn remove(server: &'static Durability, files: Vec<PathBuf>) {
    server.threads.background.spawn(move |_| {
        for file in files {
            // Another start may have removed it.
            let _ = server.storage.remove(&file);
        }
    });
}
