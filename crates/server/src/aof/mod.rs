//! The append-only file: the journal on disk.
//!
//! `commit` puts records into a queue; one thread writes and syncs them in batches and tells the
//! journal how far it is safe (`writer`). The files are Redis' own: a base, increments and a
//! manifest that names them (`files`). A base is a snapshot; it is taken while all goes on, and
//! what comes after its cut goes to a new increment (`rewrite`). At the start all of it is run
//! again (`replay`).
//!
//! Invariant: there is one writer at most, and it alone touches the files while it runs.

mod figures;
mod files;
mod load;
mod queue;
mod replay;
mod rewrite;
mod writer;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use keyspace::Lsn;
use persist::aof::manifest::BaseForm;

use crate::ailments::LOG_FAILED;
use crate::config::AppendFsync;
use crate::config::settings::{AOF_USE_RDB_PREAMBLE, APPENDFSYNC};
use crate::cores::Duty;
use crate::log::log_warning;
use crate::reception::plain;
use crate::server::Server;
use crate::valve::Valve;
use figures::Figures;
use files::Files;
use queue::{Inlet, Queue};
use writer::{Last, Writer};

pub(crate) use load::{Stock, find, find_foreign};
pub(crate) use rewrite::{Rewrite, Told, begin as begin_rewrite, tend};

/// A base that is made, or why there is none.
type Base = Result<Fresh, String>;

/// A base that is not in its place yet.
#[derive(Clone)]
struct Fresh {
    path: PathBuf,
    form: BaseForm,
    bytes: u64,
}

/// What the writer is told between two records.
enum Order {
    /// To look at the configuration again.
    Heed,
    /// Up to here, all is in the base that is begun now.
    Cut(Lsn),
    /// That base is done.
    Base(Base),
    /// To write and sync all there is, up to here, and to say so.
    Flush(Lsn, mpsc::Sender<()>),
    /// As `Flush`, and to end.
    Close(Lsn, mpsc::Sender<()>),
}

/// The append-only file of a server.
#[derive(Default)]
pub(crate) struct Aof {
    /// In front of commands that write.
    pub(crate) valve: Valve,
    pub(crate) figures: Figures,
    pub(crate) rewrite: Rewrite,
    phase: AtomicU8,
    queue: Mutex<Option<Arc<Queue>>>,
}

/// How far the file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Off,
    /// It waits for its first base.
    Starting,
    On,
}

impl Aof {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Off,
            1 => Phase::Starting,
            _ => Phase::On,
        }
    }

    /// Whether what is written now is there after a crash.
    pub(crate) fn is_on(&self) -> bool {
        self.phase() == Phase::On
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queue().as_ref().map_or(0, |queue| queue.len())
    }

    /// Follows a change of `appendfsync`: from now on replies wait, or do not.
    pub(crate) fn policy_changed(&self, server: &Server) {
        let queue = self.queue();
        self.follow_policy(server, queue.as_deref(), self.is_on());
    }

    /// What is written now is there after a crash.
    fn establish(&self, server: &Server) {
        let queue = self.queue();
        // Before anybody can see that it is on: from then on replies are relied upon.
        self.follow_policy(server, queue.as_deref(), true);
        self.enter(Phase::On);
    }

    /// Called with the queue's mutex held, so that of two changes the later one counts.
    fn follow_policy(&self, server: &Server, queue: Option<&Queue>, is_on: bool) {
        let holds = server.config.get(APPENDFSYNC) == AppendFsync::Always && is_on;
        if let Some(queue) = queue {
            queue.set_urgent(holds);
            server.journal.hold_replies(holds);
            queue.order(|_| Order::Heed);
        }
    }

    /// Tells the writer something; `false` if there is none.
    fn order(&self, make: impl FnOnce(Lsn) -> Order) -> bool {
        let queue = self.queue();
        if let Some(queue) = &*queue {
            queue.order(make);
        }
        queue.is_some()
    }

    fn queue(&self) -> MutexGuard<'_, Option<Arc<Queue>>> {
        self.queue.lock().expect("no critical section here panics")
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }
}

/// How the next base is written.
fn base_form(server: &Server) -> BaseForm {
    match server.config.get(AOF_USE_RDB_PREAMBLE) {
        true => BaseForm::Snapshot,
        false => BaseForm::Commands,
    }
}

/// Begins to write where a start left off. The world must be stopped.
fn resume(server: &'static Server, files: Files, last: Last) -> Result<(), String> {
    let end = server.journal.end();
    let queue = Queue::new(&server.aof.valve, end);
    spawn(server, Writer::resume(server, Arc::clone(&queue), files, last, end))?;
    server.aof.enter(Phase::On);
    attach(server, &queue);
    Ok(())
}

/// Has all changes go to the queue. The world must be stopped.
fn attach(server: &'static Server, queue: &Arc<Queue>) {
    server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    server.journal.attach(Box::new(Inlet(Arc::clone(queue))), false);
    *server.aof.queue() = Some(Arc::clone(queue));
    server.aof.policy_changed(server);
}

/// `CONFIG SET appendonly yes`: asks for a base, from whose cut on all changes are written.
pub(crate) fn switch_on(server: &'static Server) -> Result<(), String> {
    if server.aof.phase() != Phase::Off {
        return Ok(());
    }
    let fail = |why: String| {
        log_warning!(server.log, "Can't turn the AOF on: {why}");
        "Unable to turn on AOF. Check server logs.".to_owned()
    };
    files::make_directory(server).map_err(|error| fail(plain(&error)))?;
    let files = Files::find(server).map_err(fail)?;
    let queue = Queue::new(&server.aof.valve, server.journal.end());
    spawn(server, Writer::new(server, Arc::clone(&queue), files)).map_err(fail)?;
    server.aof.enter(Phase::Starting);
    *server.aof.queue() = Some(queue);
    rewrite::begin(server);
    Ok(())
}

/// Waits until what is queued has reached the disk, if it takes it.
pub(crate) fn flush(server: &Server) {
    let (sender, receiver) = mpsc::channel();
    if server.aof.order(|lsn| Order::Flush(lsn, sender)) {
        // A writer that panicked will not answer.
        let _ = receiver.recv();
    }
}

/// `CONFIG SET appendonly no`, and the end of the process: what is queued reaches the disk first.
pub(crate) fn switch_off(server: &'static Server) {
    server.aof.rewrite.cancel();
    let Some(queue) = server.aof.queue().take() else { return };
    let (sender, receiver) = mpsc::channel();
    queue.order(|lsn| Order::Close(lsn, sender));
    // A writer that panicked will not answer.
    let _ = receiver.recv();
    server.keyspace.settings().journal_attached.store(false, Ordering::Relaxed);
    server.aof.enter(Phase::Off);
    server.journal.detach();
    server.ailments.set(LOG_FAILED, false);
    server.aof.valve.open();
}

fn spawn(server: &'static Server, writer: Writer) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("aof".to_owned());
    let run = move || {
        server.cores.take_up(Duty::Background);
        writer.run();
    };
    thread.spawn(run).map(drop).map_err(|error| plain(&error))
}
