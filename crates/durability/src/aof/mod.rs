//! The append-only file: the journal on disk.
//!
//! `commit` puts records into a queue; one thread writes and syncs them in batches and tells the
//! journal how far it is safe (`writer`). The files are Redis' own: a base, increments and a
//! manifest that names them (`files`). A base is a snapshot that is taken while all goes on, and
//! what comes after its cut goes to a new increment (`rewrite`). At the start all of it is run
//! again (`crate::replay`), by several threads where its order allows that.
//!
//! Invariant: there is one writer at most, and it alone touches the files while it runs.

mod aligned_buffer;
mod base_install;
mod buffers;
mod files;
mod hard_link;
mod increment;
mod load;
mod queue;
mod relocate;
mod rewrite;
mod stats;
mod writer;
mod writer_restart;

#[cfg(test)]
pub mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use base::io_error_text::strerror;
use config::AppendFsync;
use config::settings::{AOF_USE_RDB_PREAMBLE, APPENDFSYNC, APPENDONLY};
use engine::journal::DurabilityLevel;
use engine::limits::write_refusals::LOG_FAILED;
use engine::runtime::cores::ThreadRole;
use engine::runtime::log::log_warning;
use files::AofDirectory;
use keyspace::Lsn;
use persist::aof::manifest::BaseForm;
use queue::{QueueReader, RecordQueue};
use stats::AofStats;
use writer::{LastIncrement, LogWriter};

use crate::durability::Durability;

pub use load::{AofFiles, find, find_foreign, find_own, options_within};
pub use rewrite::{Rewrite, RewriteStatus, begin as begin_rewrite, begin_in_background, tick};

/// A base that is made, or why there is none.
type BaseResult = Result<NewBase, String>;

/// A base that is not in its place yet.
#[derive(Clone)]
struct NewBase {
    path: PathBuf,
    form: BaseForm,
    bytes: u64,
}

/// What the writer is told between two records.
enum WriterCommand {
    /// To look at the configuration again.
    Reconfigure,
    /// Up to here, all is in the base that is begun now.
    Cut(Lsn),
    /// That base is done.
    Base(BaseResult),
    /// The log has its first base, and replies wait for it: what was told before is up to here.
    Secure(Lsn),
    /// To end a backup here, and to say whether it is whole.
    Seal(Lsn, mpsc::Sender<Result<(), String>>),
    /// To write and sync all there is, up to here, and to say so.
    Flush(Lsn, mpsc::Sender<()>),
    /// As `Flush`, and to end.
    Close(Lsn, mpsc::Sender<()>),
}

/// The append-only file of a server.
#[derive(Default)]
pub struct Aof {
    /// The counters of the file for INFO persistence.
    pub stats: AofStats,
    /// The rewrite that runs or is due, and how the last one ended.
    pub rewrite: Rewrite,
    phase: AtomicU8,
    /// Whether the log is written for a backup only, while the server keeps none.
    is_for_backup: AtomicBool,
    /// Whether the writer met a bug, and the base of the next one is not there yet.
    lacks_base: AtomicBool,
    /// How many commands of logs were passed over that were answered with an error.
    passed_over: AtomicU64,
    queue: Mutex<Option<Arc<RecordQueue>>>,
}

/// How far the file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AofState {
    /// No file is kept: `appendonly no`.
    Off,
    /// The log waits for its first base.
    Starting,
    /// The log has that, and replies rely on it; what was told before is being made safe.
    Securing,
    /// The file is kept, and all that was promised is in it.
    On,
}

impl Aof {
    /// Whether the file is kept, or is about to be.
    pub fn phase(&self) -> AofState {
        match self.phase.load(Ordering::Acquire) {
            0 => AofState::Off,
            1 => AofState::Starting,
            2 => AofState::Securing,
            _ => AofState::On,
        }
    }

    /// A command of the log is passed over: the data are not those that it was written of.
    pub(crate) fn note_passed_over(&self) {
        self.passed_over.fetch_add(1, Ordering::Relaxed);
    }

    fn passed_over(&self) -> u64 {
        self.passed_over.load(Ordering::Relaxed)
    }

    fn set_lacks_base(&self, lacks: bool) {
        self.lacks_base.store(lacks, Ordering::Release);
    }

    /// Whether what was written so far is there after a crash, as far as `appendfsync` says so.
    pub(crate) fn is_on(&self) -> bool {
        self.phase() == AofState::On
    }

    /// Whether what is written from now on is: before that the log has no base.
    pub fn is_relied_on(&self) -> bool {
        matches!(self.phase(), AofState::Securing | AofState::On)
    }

    /// How far the log is, and its rewrites: a log that waits for its first base waits for a
    /// rewrite, whether that has begun or not.
    pub fn status(&self, now_us: i64) -> (AofState, RewriteStatus) {
        // In this order: a rewrite that was not under way before the log was found to be on was
        // over by then, and all of it safe.
        let mut status = self.rewrite.status(now_us);
        let phase = self.phase();
        status.is_scheduled |= phase == AofState::Starting && !status.is_underway;
        (phase, status)
    }

    /// Whether the log is written for a backup only.
    pub(crate) fn is_for_backup(&self) -> bool {
        self.is_for_backup.load(Ordering::Acquire)
    }

    /// Bytes that wait to be written.
    pub fn queued(&self) -> usize {
        self.queue().as_ref().map_or(0, |queue| queue.len())
    }

    /// Follows a change of `appendfsync`: from now on replies wait, or do not.
    pub fn policy_changed(&self, server: &Durability) {
        let queue = self.queue();
        self.apply_policy(server, queue.as_deref(), self.is_relied_on());
    }

    /// Replies rely on what is written from now on, or do not after all.
    fn change_phase(&self, server: &Durability, phase: AofState) {
        let queue = self.queue();
        self.enter(phase);
        self.apply_policy(server, queue.as_deref(), self.is_relied_on());
    }

    /// Called with the queue's mutex held, so that of two changes the later one counts.
    fn apply_policy(&self, server: &Durability, queue: Option<&RecordQueue>, is_on: bool) {
        let level = match server.config.get(APPENDFSYNC) {
            _ if !is_on => DurabilityLevel::None,
            AppendFsync::Always => DurabilityLevel::Disk,
            AppendFsync::Everysec | AppendFsync::No => DurabilityLevel::Os,
        };
        if let Some(queue) = queue {
            queue.set_urgent(level == DurabilityLevel::Disk);
            server.journal.set_durability(queue.reader, level);
            queue.order(|_| WriterCommand::Reconfigure);
        }
    }

    /// Tells the writer something; `false` if there is none.
    fn order(&self, make: impl FnOnce(Lsn) -> WriterCommand) -> bool {
        let queue = self.queue();
        if let Some(queue) = &*queue {
            queue.order(make);
        }
        queue.is_some()
    }

    fn queue(&self) -> MutexGuard<'_, Option<Arc<RecordQueue>>> {
        self.queue.lock().expect("no critical section here panics")
    }

    fn enter(&self, phase: AofState) {
        self.phase.store(phase as u8, Ordering::Release);
    }
}

/// How the next base is written.
fn base_form(server: &Durability) -> BaseForm {
    match server.config.get(AOF_USE_RDB_PREAMBLE) {
        true => BaseForm::Snapshot,
        false => BaseForm::Commands,
    }
}

/// Begins to write where a start left off. The world must be stopped.
fn resume(
    server: &'static Durability,
    files: AofDirectory,
    last: LastIncrement,
) -> Result<(), String> {
    let queue = new_queue(server);
    let end = server.journal.end();
    spawn(server, LogWriter::resume(server, Arc::clone(&queue), files, last, end))?;
    server.aof.enter(AofState::On);
    let mut slot = server.aof.queue();
    attach(server, &queue);
    *slot = Some(queue);
    Ok(())
}

/// A queue for a new log, to be attached.
fn new_queue(server: &'static Durability) -> Arc<RecordQueue> {
    let journal = &server.journal;
    RecordQueue::new(&server.gates.log_backpressure, journal.new_reader_id(), journal.end())
}

/// Has all changes go to the queue. The world must be stopped, and the mutex of the queue's place
/// held.
fn attach(server: &'static Durability, queue: &Arc<RecordQueue>) {
    let inlet = Box::new(QueueReader(Arc::clone(queue)));
    queue.begin_at(server.journal.attach(queue.reader, inlet, DurabilityLevel::None));
    server.aof.apply_policy(server, Some(&**queue), server.aof.is_relied_on());
}

/// Ends the log where other data come in the place of those that it has: the log stays on disk as
/// it is, and [`restart`] begins the next one. A backup ends, too, whoever keeps its log.
pub fn suspend(server: &'static Durability) {
    let _turn = server.take_config_turn();
    server.backup.abandon(server, "other data have come in the place of those of its base");
    if server.aof.phase() != AofState::Off {
        switch_off(server);
    }
}

/// Begins a log with what is in memory, if `appendonly` says that there is one and there is none.
pub fn restart(server: &'static Durability) -> Result<(), String> {
    let _turn = server.take_config_turn();
    apply_config(server)
}

/// Turns the log on or off, as `appendonly` says. For the caller that has the turn of the
/// configuration.
pub(crate) fn apply_config(server: &'static Durability) -> Result<(), String> {
    switch(server, server.config.get(APPENDONLY))
}

/// The same for what it is about to say.
pub fn switch(server: &'static Durability, wanted: bool) -> Result<(), String> {
    match (wanted, server.aof.phase()) {
        (true, AofState::Off) => switch_on(server),
        (false, AofState::Starting | AofState::Securing | AofState::On) => {
            switch_off(server);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `CONFIG SET appendonly yes`: asks for a base, from whose cut on all changes are written.
fn switch_on(server: &'static Durability) -> Result<(), String> {
    let fail = |why: String| {
        log_warning!(server.log, "Can't turn the AOF on: {why}");
        "Unable to turn on AOF. Check server logs.".to_owned()
    };
    server.backup.abandon(server, "the append-only file was turned on");
    files::make_directory(server, None)
        .map_err(|error| fail(files::unmade_directory(server, &error)))?;
    let files = AofDirectory::find(server).map_err(fail)?;
    let queue = new_queue(server);
    spawn(server, LogWriter::new(server, Arc::clone(&queue), files)).map_err(fail)?;
    server.aof.enter(AofState::Starting);
    *server.aof.queue() = Some(queue);
    rewrite::begin(server);
    Ok(())
}

/// Waits until what is queued has reached the disk, if it takes it. `false` if the writer met a bug
/// meanwhile, or before: what it had is in memory alone until the next writer has a base.
pub fn flush(server: &Durability) -> bool {
    let (sender, receiver) = mpsc::channel();
    if !server.aof.order(|lsn| WriterCommand::Flush(lsn, sender)) {
        return true;
    }
    receiver.recv().is_ok() && !server.aof.lacks_base.load(Ordering::Acquire)
}

/// The same behind a bug of the writer: waits for the next one's base; whether it came.
pub(crate) fn flush_once_whole(server: &Durability) -> bool {
    /// A base of much data takes its time; that none comes at all is for the operator to see.
    const PATIENCE_US: i64 = 60_000_000;
    const BETWEEN_TRIES: Duration = Duration::from_millis(10);
    let clock = server.keyspace.clock();
    let began_us = clock.monotonic_us();
    while !flush(server) {
        if clock.monotonic_us() - began_us > PATIENCE_US {
            return false;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    true
}

/// `CONFIG SET appendonly no`, and the end of the process: what is queued reaches the disk first.
pub fn switch_off(server: &'static Durability) {
    server.backup.abandon(server, "the append-only file was turned off");
    server.aof.rewrite.cancel();
    let Some(queue) = server.aof.queue().take() else { return };
    // A writer that panicked will not answer.
    let _ = close(&queue).recv();
    server.aof.enter(AofState::Off);
    part(server, &queue);
}

/// Has a log written in a directory for a backup, from the next base on; the server keeps none.
pub(crate) fn start_for_backup(
    server: &'static Durability,
    directory: &Path,
) -> Result<(), String> {
    let files = AofDirectory::within(server, directory.to_owned())?;
    let queue = new_queue(server);
    spawn(server, LogWriter::for_backup(server, Arc::clone(&queue), files))?;
    let mut slot = server.aof.queue();
    *slot = Some(queue);
    server.aof.is_for_backup.store(true, Ordering::Release);
    Ok(())
}

/// Ends a backup's log, if there is one; the caller may wait until nothing is written any more.
pub(crate) fn stop_for_backup(server: &'static Durability) -> Option<mpsc::Receiver<()>> {
    // Until all is done, so that nobody starts the next one in between.
    let mut slot = server.aof.queue();
    if !server.aof.is_for_backup.swap(false, Ordering::AcqRel) {
        return None;
    }
    server.aof.rewrite.abort();
    let queue = slot.take()?;
    let closed = close(&queue);
    part(server, &queue);
    Some(closed)
}

/// Ends what a backup consists of, here; the error says why it has failed.
pub(crate) fn seal(server: &Durability) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    server.aof.order(|lsn| WriterCommand::Seal(lsn, sender));
    receiver.recv().unwrap_or_else(|_| Err("nothing is written to the log any more".to_owned()))
}

/// Tells the writer to end; the receiver hears when it has.
fn close(queue: &RecordQueue) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    queue.order(|lsn| WriterCommand::Close(lsn, sender));
    receiver
}

/// No change goes to the queue any more, and nobody waits for it.
fn part(server: &Durability, queue: &RecordQueue) {
    server.journal.detach(queue.reader);
    set_failed(server, false);
    server.aof.set_lacks_base(false);
    server.gates.log_backpressure.end();
}

/// Writes are refused from now on, or are not any more. What goes by itself would be a write, too.
fn set_failed(server: &Durability, has_failed: bool) {
    server.gates.write_refusals.set(LOG_FAILED, has_failed);
    server.keyspace.settings().expiry_barred.store(has_failed, Ordering::Relaxed);
}

fn spawn(server: &'static Durability, writer: LogWriter) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("aof".to_owned());
    let run = move || {
        server.threads.cores.apply_affinity(ThreadRole::Background);
        writer_restart::run(server, writer);
    };
    let spawned = thread.spawn(run).map(drop);
    spawned.map_err(|error| format!("cannot start the thread of the log: {}", strerror(&error)))
}
