//! The snapshot file: when it is written, what became of it, and what follows from that.
//!
//! Invariants: at most one save is under way; what is told of saves is of one moment; changes that
//! a save does not hold stay counted as unsaved; while the file is to follow a FLUSHALL, no reply
//! that tells of a write leaves, even where a save is called off; while an end has the turn, no
//! other save begins.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;

use base::time::Clock;
use config::Schedule;
use config::settings::{RDB_SAVE_INCREMENTAL_FSYNC, SAVE, SNAPSHOT_CRON};
use engine::limits::write_refusals::SNAPSHOT_FAILED;
use engine::runtime::failpoint;
use engine::runtime::log::{log_notice, log_warning};
use engine::scripting::LibraryFreeze;
use keyspace::{Acquisition, Count};

use crate::claims::snapshot_file;
use crate::durability::Durability;
use crate::snapshot::{CutFailure, FileSink, Finished, Snapshot, SnapshotPurpose, SnapshotTarget};

#[cfg(test)]
mod tests;

/// Between a save that failed and the next that nobody asked for.
const RETRY_US: i64 = 5 * SECOND_US;

const SECOND_US: i64 = 1_000_000;

const MINUTE_MS: i64 = 60_000;

/// What is known of saves.
pub struct Saves {
    state: Mutex<SavesState>,
    /// A save is over.
    over: Condvar,
}

struct SavesState {
    running: Option<RunningSave>,
    is_scheduled: bool,
    /// The process is to end: no save begins but the last one.
    is_ending: bool,
    /// The file holds what was removed since: the next save begins when the present one is over.
    is_outdated: bool,
    status: SaveStatus,
    /// The changes that the latest save holds.
    saved_changes: u64,
    /// When the latest save ended well, on the monotonic clock: the wall clock may be set back, and
    /// no save would be due for as long.
    saved_at_us: i64,
    /// When the latest save was tried that nobody asked for, on the same clock.
    tried_at_us: i64,
    /// The minute since 1970 up to which the schedule was looked at.
    minute: i64,
}

struct RunningSave {
    snapshot: Arc<Snapshot>,
    mode: SaveMode,
    /// When the save began, in Unix seconds, and in microseconds of the monotonic clock.
    began: i64,
    began_us: i64,
}

/// How a save is made: INFO and the log tell of those in the background only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveMode {
    /// No client waits for its end.
    Background,
    /// A client does.
    Awaited,
    /// The file follows a FLUSHALL, and all replies that tell of a write wait for it.
    Following,
    /// What is in memory is given up for the file.
    Reloading,
    /// The process ends after it.
    Final,
}

/// What INFO tells of saves.
#[derive(Clone, Copy)]
pub struct SaveStatus {
    /// When the latest save ended well, in Unix seconds; what a server starts with counts as saved.
    pub last_save: i64,
    /// Whether the latest save in the background ended well.
    pub is_well: bool,
    /// How many seconds it took.
    pub last_seconds: Option<i64>,
    /// For how many seconds the present one has been under way.
    pub current_seconds: Option<i64>,
    /// How many keys of the present one are done, and how many there are.
    pub progress: (u64, u64),
    /// Changes that no save holds.
    pub unsaved: u64,
    /// How many saves were begun.
    pub begun: u64,
    /// The most bytes that copies of changing entries took in the latest.
    pub copies_peak: usize,
}

/// What the caller of a save learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveProgress {
    /// The snapshot holds all that came before.
    Cut,
    /// The save is over; whether it ended well.
    Over(bool),
    /// The save is over without a cut.
    CutFailure(CutFailure),
}

/// Why the world is not held as a file has it.
pub enum SaveFailure {
    /// The save has no cut.
    CutFailure(CutFailure),
    /// As the log says.
    Failed,
}

/// Why a save was not begun.
pub enum SaveRefused {
    /// Another one is under way.
    Busy,
    /// The system gives no thread for it.
    NoThread(String),
}

/// The turn of the thread that ends the process: given back where the process goes on.
pub(crate) struct EndTurn(&'static Durability);

impl Drop for EndTurn {
    fn drop(&mut self) {
        self.0.saves.reopen(self.0);
    }
}

/// The turn to save, until the snapshot sees to its end: a panic meanwhile ends it.
struct SaveTurn(&'static Durability, Arc<Snapshot>);

impl Drop for SaveTurn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.saves.end_broken_turn(self.0, &self.1);
        }
    }
}

impl Saves {
    /// None yet.
    pub(crate) fn new(clock: &Clock) -> Self {
        let status = SaveStatus {
            last_save: clock.now_ms() / 1000,
            is_well: true,
            last_seconds: None,
            current_seconds: None,
            progress: (0, 0),
            unsaved: 0,
            begun: 0,
            copies_peak: 0,
        };
        let state = SavesState {
            running: None,
            is_scheduled: false,
            is_ending: false,
            is_outdated: false,
            status,
            saved_changes: 0,
            saved_at_us: clock.monotonic_us(),
            tried_at_us: 0,
            minute: clock.now_ms() / MINUTE_MS,
        };
        Self { state: Mutex::new(state), over: Condvar::new() }
    }

    /// Begins a save; the listener learns how it goes.
    pub fn begin(
        &self,
        server: &'static Durability,
        mode: SaveMode,
        listener: Option<Sender<SaveProgress>>,
    ) -> Result<(), SaveRefused> {
        let state = match listener {
            // The slow clock and a FLUSHALL wait for nothing.
            None => self.state(),
            Some(_) => self.await_followed(),
        };
        let snapshot = self.take_turn(state, server, mode, listener.is_some())?;
        let turn = SaveTurn(server, Arc::clone(&snapshot));
        failpoint::point();
        if mode == SaveMode::Background {
            log_notice!(server.log, "Background saving started by pid {}", std::process::id());
        }
        let changes = Arc::new(AtomicU64::new(0));
        let cut_listener = listener.clone();
        let target =
            target(server, Arc::clone(&changes), move || report(&cut_listener, SaveProgress::Cut));
        let running = Arc::clone(&snapshot);
        let done = move |result: Result<Finished, String>| {
            let is_well = result.is_ok();
            server.saves.end_turn(server, result, changes.load(Ordering::Relaxed));
            let uncut = running.uncut().map(SaveProgress::CutFailure);
            report(&listener, uncut.unwrap_or(SaveProgress::Over(is_well)));
        };
        drop(turn);
        snapshot.start(target, Box::new(done)).map_err(SaveRefused::NoThread)
    }

    /// Saves here and now, with a world that must not change any more before what is in memory is
    /// given up; the world is awaited if it is not there yet. The client that reloads is told BUSY
    /// if others hold keys for too long. Libraries change without the world: they stand still from
    /// the cut on as well.
    pub fn hold_world(
        &self,
        server: &'static Durability,
        mode: SaveMode,
        world: &mut Acquisition,
    ) -> Result<LibraryFreeze, SaveFailure> {
        let state = match world.is_complete() {
            // A save under way may need the world for its own end.
            true => self.state(),
            false => self.await_followed(),
        };
        let is_awaited = mode == SaveMode::Reloading;
        let snapshot = self.take_turn(state, server, mode, is_awaited);
        let snapshot = snapshot.map_err(|_| SaveFailure::Failed)?;
        let turn = SaveTurn(server, Arc::clone(&snapshot));
        let changes = Arc::new(AtomicU64::new(0));
        let still = Arc::new(Mutex::new(None));
        let at_cut = {
            let still = Arc::clone(&still);
            move || *lock(&still) = Some(server.scripts.libraries.freeze_libraries())
        };
        let target = target(server, Arc::clone(&changes), at_cut);
        let result = snapshot.hold_world(target, world);
        let saved = match &result {
            Ok(_) => Ok(lock(&still).take().expect("a file has a cut")),
            Err(_) => Err(snapshot.uncut().map_or(SaveFailure::Failed, SaveFailure::CutFailure)),
        };
        failpoint::point();
        drop(turn);
        self.end_turn(server, result, changes.load(Ordering::Relaxed));
        saved
    }

    /// Has a save begun soon, by the slow clock.
    pub fn schedule(&self) {
        self.state().is_scheduled = true;
    }

    /// A client has everything removed, with the world stopped: where saves are made by themselves
    /// the file follows at once, and replies that tell of a write wait for it, so that a start
    /// does not bring back what somebody was told is gone.
    pub fn on_flushall(&self, server: &'static Durability) {
        if server.gates.loading.is_on() {
            return;
        }
        let follows = !server.config.get(SAVE).is_empty();
        let mut state = self.state();
        // A save that holds the world has not made its cut, or nobody could flush.
        let holds_world =
            |running: &RunningSave| matches!(running.mode, SaveMode::Reloading | SaveMode::Final);
        state.is_outdated =
            follows && state.running.as_ref().is_some_and(|running| !holds_world(running));
        let ready = match follows {
            true => {
                server.journal.snapshot_fence.raise();
                Vec::new()
            }
            false => server.journal.snapshot_fence.lower(),
        };
        let begins = follows && state.running.is_none();
        if let Some(RunningSave { snapshot, mode: SaveMode::Background, .. }) = &state.running {
            snapshot.cancel();
        }
        drop(state);
        ready.into_iter().for_each(Waker::wake);
        if begins {
            // A save that was faster begins less than a moment later, or ends the process.
            let _ = self.begin(server, SaveMode::Following, None);
        }
    }

    /// Counts saves anew (`CONFIG RESETSTAT`).
    pub fn reset_count(&self) {
        self.state().status.begun = 0;
    }

    /// Whether a save is under way.
    pub fn is_running(&self) -> bool {
        self.state().running.is_some()
    }

    /// Whether somebody asked for the save that is under way: that which follows a FLUSHALL is over
    /// soon, and is waited for.
    pub fn is_asked_for(&self) -> bool {
        self.state().running.as_ref().is_some_and(|running| running.mode != SaveMode::Following)
    }

    /// Calls off the save that is scheduled; `false` if none is.
    pub fn call_off(&self) -> bool {
        std::mem::take(&mut self.state().is_scheduled)
    }

    /// Gives up the save in the background; `false` if none is under way.
    pub fn cancel(&self) -> bool {
        self.cancel_made(SaveMode::Background)
    }

    /// Gives up the last save; `false` if none is under way.
    pub(crate) fn cancel_last(&self) -> bool {
        self.cancel_made(SaveMode::Final)
    }

    /// Leaves saves alone that are made otherwise, as somebody waits for them.
    fn cancel_made(&self, meant: SaveMode) -> bool {
        let state = self.state();
        let running = state.running.as_ref().filter(|running| running.mode == meant);
        running.map(|running| running.snapshot.cancel()).is_some()
    }

    /// Waits until no save is under way.
    pub fn wait(&self) {
        let waited = self.over.wait_while(self.state(), |state| state.running.is_some());
        drop(waited.expect("no critical section here panics"));
    }

    /// Waits until no save is under way that follows a FLUSHALL. Not for workers, nor with locks
    /// held.
    pub fn wait_followed(&self) {
        drop(self.await_followed());
    }

    fn await_followed(&self) -> MutexGuard<'_, SavesState> {
        let follows = |state: &mut SavesState| {
            let running = state.running.as_ref();
            !state.is_ending && running.is_some_and(|running| running.mode == SaveMode::Following)
        };
        let waited = self.over.wait_while(self.state(), follows);
        waited.expect("no critical section here panics")
    }

    /// Gives up whatever save is under way and waits for its end; only the last one may begin until
    /// the turn is given back. Replies that wait for a file go on waiting.
    pub(crate) fn take_end_turn(&self, server: &'static Durability) -> EndTurn {
        let mut state = self.state();
        state.is_ending = true;
        let turn = EndTurn(server);
        self.over.notify_all();
        if let Some(RunningSave { snapshot, .. }) = &state.running {
            log_warning!(server.log, "There is a child saving an .rdb. Killing it!");
            snapshot.cancel();
        }
        let waited = self.over.wait_while(state, |state| state.running.is_some());
        drop(waited.expect("no critical section here panics"));
        turn
    }

    /// The process goes on after all, and so do saves.
    fn reopen(&self, server: &'static Durability) {
        let mut state = self.state();
        state.is_ending = false;
        let begins = state.running.is_none() && server.journal.snapshot_fence.is_up();
        drop(state);
        if begins {
            // Another save may have been faster, which does as well.
            let _ = self.begin(server, SaveMode::Following, None);
        }
    }

    /// What there is to tell.
    pub fn status(&self, server: &Durability) -> SaveStatus {
        let (now, changes) = (now(server), changes(server));
        let state = self.state();
        let mut status = state.status;
        status.unsaved = changes.saturating_sub(state.saved_changes);
        if let Some(RunningSave { snapshot, began, .. }) = &state.running {
            status.current_seconds = Some(now - began);
            status.progress = snapshot.progress();
        }
        status
    }

    /// All that is in memory is in the file that it was loaded from.
    pub fn note_loaded(&self, server: &Durability) {
        let changes = changes(server);
        self.state().saved_changes = changes;
    }

    /// Has a save begun as soon as can be if the schedule says so.
    fn heed_schedule(&self, server: &Durability) {
        let minute = server.keyspace.clock().now_ms() / MINUTE_MS;
        let last = std::mem::replace(&mut self.state().minute, minute);
        if minute == last {
            return;
        }
        let text = server.config.get(SNAPSHOT_CRON);
        let schedule = str::from_utf8(&text).ok().and_then(Schedule::parse);
        if schedule.is_some_and(|schedule| schedule.is_due(last, minute)) {
            log_notice!(server.log, "A save is due by snapshot-cron");
            self.schedule();
        }
    }

    /// Looks whether a save is due. Called by the slow clock.
    pub fn tick(&self, server: &'static Durability) {
        if server.gates.loading.is_on() {
            return;
        }
        self.heed_schedule(server);
        let running = self.state().running.as_ref().map(|running| Arc::clone(&running.snapshot));
        if let Some(snapshot) = running {
            return snapshot.abort_if_stuck();
        }
        if server.journal.snapshot_fence.is_up() {
            // A load has put off the file that is to follow a FLUSHALL. Another save, or an end,
            // may be faster.
            let _ = self.begin(server, SaveMode::Following, None);
            return;
        }
        if server.aof.rewrite.is_underway() {
            // One at a time, as in Redis.
            return;
        }
        if self.call_off() || self.is_due(server) {
            // Another save may have been faster.
            let _ = self.begin(server, SaveMode::Background, None);
        }
    }

    /// Whether a point of `save` is reached.
    fn is_due(&self, server: &Durability) -> bool {
        let (now_us, changes) = (server.keyspace.clock().monotonic_us(), changes(server));
        let mut state = self.state();
        let unsaved = changes.saturating_sub(state.saved_changes);
        if unsaved == 0 || !state.status.is_well && now_us - state.tried_at_us <= RETRY_US {
            return false;
        }
        let elapsed_us = now_us - state.saved_at_us;
        let points = server.config.get(SAVE);
        let is_reached = |seconds: u64| {
            let limit = i64::try_from(seconds).ok().and_then(|limit| limit.checked_mul(SECOND_US));
            limit.is_some_and(|limit| elapsed_us > limit)
        };
        let reached =
            points.iter().find(|point| unsaved >= point.changes && is_reached(point.seconds));
        let Some(point) = reached else { return false };
        state.tried_at_us = now_us;
        log_notice!(
            server.log,
            "{} changes in {} seconds. Saving...",
            point.changes,
            point.seconds
        );
        true
    }

    fn take_turn(
        &self,
        mut state: MutexGuard<'_, SavesState>,
        server: &'static Durability,
        mode: SaveMode,
        is_awaited: bool,
    ) -> Result<Arc<Snapshot>, SaveRefused> {
        if state.running.is_some() || state.is_ending && mode != SaveMode::Final {
            return Err(SaveRefused::Busy);
        }
        let syncs = server.config.get(RDB_SAVE_INCREMENTAL_FSYNC);
        let snapshot = Snapshot::new(server, SnapshotPurpose::Save, syncs, is_awaited);
        let now = now(server);
        let (running, began_us) = (Arc::clone(&snapshot), server.keyspace.clock().monotonic_us());
        state.running = Some(RunningSave { snapshot: running, mode, began: now, began_us });
        let goes_on = !matches!(mode, SaveMode::Reloading | SaveMode::Final);
        state.status.begun += u64::from(goes_on);
        Ok(snapshot)
    }

    /// Ends a turn that met a bug, if it is still that one's.
    fn end_broken_turn(&self, server: &'static Durability, of: &Arc<Snapshot>) {
        let is_its = |running: &RunningSave| Arc::ptr_eq(&running.snapshot, of);
        if self.state().running.as_ref().is_some_and(is_its) {
            self.end_turn(server, Err("The save met a bug".to_owned()), 0);
        }
    }

    fn end_turn(
        &self,
        server: &'static Durability,
        result: Result<Finished, String>,
        changes: u64,
    ) {
        let now = now(server);
        let mut state = self.state();
        let running = state.running.take().expect("it is this one's turn");
        let RunningSave { snapshot, mode, began, began_us } = running;
        let is_background = mode == SaveMode::Background;
        if is_background {
            state.status.last_seconds = Some(now - began);
            let (spans, clock) = (&server.observed.spans, server.keyspace.clock());
            spans.note_task(clock, "snapshot", began_us, result.is_err());
        }
        match &result {
            Ok(finished) => {
                state.status.is_well = true;
                state.status.last_save = now;
                state.saved_at_us = server.keyspace.clock().monotonic_us();
                state.status.copies_peak = finished.copies_peak;
                state.saved_changes = changes;
            }
            // The operator wanted it to end: no reason to refuse writes.
            Err(_) if snapshot.is_cancelled() => {}
            Err(_) => state.status.is_well &= !is_background,
        }
        server.gates.write_refusals.set(SNAPSHOT_FAILED, !state.status.is_well);
        let is_outdated = std::mem::take(&mut state.is_outdated);
        let is_called_off = result.is_err() && snapshot.is_cancelled();
        // After a failure nobody waits any more, as in Redis: the log and INFO tell of it.
        let is_owed = server.journal.snapshot_fence.is_up() && (is_outdated || is_called_off);
        let ready = if is_owed { Vec::new() } else { server.journal.snapshot_fence.lower() };
        drop(state);
        ready.into_iter().for_each(Waker::wake);
        if is_owed && !server.gates.loading.is_on() {
            // Another save, or an end, may have been faster, which does as well.
            let _ = self.begin(server, SaveMode::Following, None);
        }
        self.over.notify_all();
        match result {
            // The one that gave it up has said why, or need not.
            Err(_) if snapshot.is_cancelled() => {
                log_notice!(server.log, "Background saving was cancelled");
            }
            Ok(_) => {
                log_notice!(server.log, "DB saved on disk");
                if is_background {
                    log_notice!(server.log, "Background saving terminated with success");
                }
            }
            Err(why) => {
                log_warning!(server.log, "{why}");
                if is_background {
                    log_warning!(server.log, "Background saving error");
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, SavesState> {
        self.state.lock().expect("no critical section here panics")
    }
}

/// Where a save goes, and what happens at its cut.
fn target(
    server: &'static Durability,
    changes_at_cut: Arc<AtomicU64>,
    at_cut: impl FnOnce() + Send + 'static,
) -> SnapshotTarget {
    let claim = || server.snapshot_claim.take(server, &server.config);
    let sink = FileSink::new(&*server.storage, snapshot_file(&server.config)).claimed_by(claim);
    SnapshotTarget {
        sink: Box::new(sink),
        at_cut: Box::new(move |_| {
            changes_at_cut.store(changes(server), Ordering::Relaxed);
            at_cut();
        }),
    }
}

fn lock(still: &Mutex<Option<LibraryFreeze>>) -> MutexGuard<'_, Option<LibraryFreeze>> {
    still.lock().expect("no critical section here panics")
}

fn report(listener: &Option<Sender<SaveProgress>>, progress: SaveProgress) {
    if let Some(listener) = listener {
        // A listener that is gone has learned enough.
        let _ = listener.send(progress);
    }
}

fn changes(server: &Durability) -> u64 {
    server.keyspace.counters().total(Count::Changes) + server.scripts.libraries.changes()
}

fn now(server: &Durability) -> i64 {
    server.keyspace.clock().now_ms() / 1000
}
