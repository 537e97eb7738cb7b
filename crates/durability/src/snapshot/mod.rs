//! Snapshots: the data set as it was at one instant, while clients are served.
//!
//! A snapshot has a thread of its own, and a few that encode. The thread takes the world for a
//! moment and makes the cut (`keyspace::Walk`). From then on the encoders visit partitions and take
//! what transactions are about to change from a queue; the snapshot's own thread writes their
//! chunks to a sink: a file, or a reader right away (`sink`). When that is slower than the changes,
//! writing commands wait; when it stands still, the snapshot fails.
//!
//! Invariant: a sink is finished only when it was given all there was at the cut; however a
//! snapshot ends, all marks agree again before another one uses them.

mod chunks;
mod encode;
mod format;
mod queue;
mod sink;
mod snapshot_writer;
#[cfg(test)]
mod tests;
mod throttle;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use base::io_error_text::strerror;
use chunks::{ChunkOutput, chunk_channel, in_order};
use config::settings::RDB_KEY_SAVE_DELAY;
use encode::{Encoder, PartitionHold};
use engine::runtime::background::{self, BackgroundAccess};
use engine::runtime::cores::ThreadRole;
use engine::runtime::failpoint;
use engine::runtime::panics::contain;
use engine::runtime::version;
use engine::scripting::LibrariesState;
use format::SnapshotFormat;
use keyspace::{AccessClock, Acquisition, Lsn, Patience, WaitReason, Walk};
use persist::aof::manifest::BaseForm;
use persist::rdb::file::{Chunk, ChunkWriter, FileWriter, Options, Written};
use persist::rdb::writes_redis_6;
use queue::{EntryQueue, Intake};
use replication::history::SavedHistory;
use snapshot_writer::SnapshotWriter;

use crate::durability::Durability;

pub use format::{SnapshotPurpose, SyncFormat};
pub use sink::{FileSink, SnapshotSink};

/// The most threads that encode.
const ENCODERS_MAX: usize = 4;

/// How long writing commands may wait while nothing is written, in microseconds.
const STANDSTILL_US: i64 = 5_000_000;

/// Why a replica is given no snapshot.
const NO_FUNCTIONS: &str = "there are functions, and what rdb-write-version asks for has none";

/// What all snapshots share.
#[derive(Default)]
pub struct Snapshots {
    /// How many cuts were made.
    cuts: AtomicU64,
    /// How long the world stood still for the latest, in microseconds.
    latest_cut_us: AtomicI64,
}

/// What is wanted of a snapshot.
pub struct SnapshotTarget {
    /// Where the snapshot goes.
    pub sink: Box<dyn SnapshotSink>,
    /// Runs at the cut, with the world stopped, and may not wait.
    pub at_cut: Box<dyn FnOnce(Cut) + Send>,
}

/// Runs when all is over, on the snapshot's thread.
pub type WhenDone = Box<dyn FnOnce(Result<Finished, String>) + Send>;

/// The instant of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The journal's end: what comes behind it is not in the snapshot.
    pub lsn: Lsn,
}

/// A snapshot that is there.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its length.
    pub bytes: u64,
    /// The most bytes that copies of changing entries took.
    pub copies_peak: usize,
}

/// A snapshot under way.
pub struct Snapshot {
    server: &'static Durability,
    purpose: SnapshotPurpose,
    queue: Arc<EntryQueue>,
    format: SnapshotFormat,
    key_delay: i32,
    /// Whether a client waits for its cut, and is told BUSY where others hold keys for too long.
    is_awaited: bool,
    walk: OnceLock<Arc<Walk>>,
    /// Why the snapshot was given up.
    given_up: OnceLock<Aborted>,
    keys_done: AtomicU64,
    keys_total: AtomicU64,
    /// When the sink last took something, on the monotonic clock in microseconds.
    grew_at: AtomicI64,
}

/// Why a snapshot was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aborted {
    /// The snapshot is not wanted any more.
    Unwanted,
    /// Writing commands waited for it, and nothing was written.
    TooSlow,
    /// The snapshot has no cut.
    CutFailure(CutFailure),
}

/// Why a snapshot has no cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutFailure {
    /// Others held keys for longer than its client is kept waiting.
    Busy,
    /// Since the snapshot was begun a load has begun: what is there is a part of the data.
    Loading,
}

/// What the cut gave.
struct CutState {
    walk: Arc<Walk>,
    libraries: Arc<LibrariesState>,
    /// Logical database, keys, and how many of them have deadlines.
    sizes: Vec<(usize, usize, usize)>,
    /// Where the data stand in a stream, if they do.
    history: Option<SavedHistory>,
    /// The slots of a cluster whose keys are copies.
    copied_slots: String,
}

impl Snapshots {
    /// How many cuts were made, and how long the latest took, in microseconds.
    pub fn cuts(&self) -> (u64, i64) {
        (self.cuts.load(Ordering::Relaxed), self.latest_cut_us.load(Ordering::Relaxed))
    }

    fn note_cut(&self, micros: i64) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
        self.latest_cut_us.store(micros, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// A snapshot that is to be begun; `syncs` says whether the sink is synced as it grows,
    /// `is_awaited` whether a client waits for its cut.
    pub fn new(
        server: &'static Durability,
        purpose: SnapshotPurpose,
        syncs: bool,
        is_awaited: bool,
    ) -> Arc<Self> {
        let format = SnapshotFormat::of(&server.config, purpose, syncs);
        let clock = server.keyspace.clock().clone();
        let queue = EntryQueue::new(
            &server.gates.snapshot_backpressure,
            clock,
            server.memory.budget.limit(),
        );
        Arc::new(Self {
            server,
            purpose,
            queue: Arc::new(queue),
            format,
            key_delay: server.config.get(RDB_KEY_SAVE_DELAY),
            is_awaited,
            walk: OnceLock::new(),
            given_up: OnceLock::new(),
            keys_done: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            grew_at: AtomicI64::new(0),
        })
    }

    /// Begins the snapshot on threads of its own. Where the system gives none it is over at once,
    /// and the error says so.
    pub fn start(self: &Arc<Self>, target: SnapshotTarget, done: WhenDone) -> Result<(), String> {
        let (snapshot, server) = (Arc::clone(self), self.server);
        // Where the system gives no thread, the closure is lost, but its answer is due.
        let work = Arc::new(Mutex::new(Some((target, done))));
        let taken = Arc::clone(&work);
        let take = |work: &Mutex<Option<_>>| work.lock().expect("no one panics here").take();
        let run = move || {
            let Some((target, done)) = take(&taken) else { return };
            server.threads.cores.apply_affinity(snapshot.thread_role());
            let result = contain(|| snapshot.run(target, None));
            done(result.unwrap_or_else(|_| Err(BUG.to_owned())));
        };
        let spawned = thread::Builder::new().name("snapshot".to_owned()).spawn(run);
        let Err(error) = spawned else { return Ok(()) };
        let why = format!("Can't start a thread: {}", strerror(&error));
        if let Some((_, done)) = take(&work) {
            done(Err(why.clone()));
        }
        Err(why)
    }

    fn thread_role(&self) -> ThreadRole {
        match self.purpose {
            SnapshotPurpose::Base(_) => ThreadRole::Rewriting,
            SnapshotPurpose::Save | SnapshotPurpose::Sync(_) => ThreadRole::Saving,
        }
    }

    /// Takes the snapshot on this thread, which may wait, with a world that stands still from its
    /// cut on: nothing changes until that is dropped.
    pub(crate) fn hold_world(
        self: &Arc<Self>,
        target: SnapshotTarget,
        world: &mut Acquisition,
    ) -> Result<Finished, String> {
        self.run(target, Some(world))
    }

    /// Gives up a snapshot that nobody wants any more; the snapshot says so itself when it has come
    /// to its end.
    pub fn cancel(&self) {
        self.abort(Aborted::Unwanted);
    }

    /// Whether nobody wanted it any more, or it came at a wrong time: its end is no failure.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self.given_up.get(), Some(Aborted::Unwanted | Aborted::CutFailure(_)))
    }

    /// Why the snapshot has no cut, if that is so.
    pub(crate) fn uncut(&self) -> Option<CutFailure> {
        match self.given_up.get() {
            Some(Aborted::CutFailure(why)) => Some(*why),
            _ => None,
        }
    }

    /// Gives the snapshot up if writing commands wait for it and nothing is written.
    pub fn abort_if_stuck(&self) {
        let Some(on_since) = self.queue.on_since() else { return };
        let since = on_since.max(self.grew_at.load(Ordering::Relaxed));
        if self.server.keyspace.clock().monotonic_us() - since > STANDSTILL_US {
            self.abort(Aborted::TooSlow);
        }
    }

    fn abort(&self, why: Aborted) {
        // A snapshot can be given up once.
        let _ = self.given_up.set(why);
        if let Some(walk) = self.walk.get() {
            walk.abort();
        }
        self.queue.clear();
    }

    /// The error, if it was given up.
    fn check(&self) -> Result<(), String> {
        match self.given_up.get() {
            None => Ok(()),
            Some(Aborted::Unwanted) => Err("The snapshot was cancelled".to_owned()),
            Some(Aborted::CutFailure(CutFailure::Busy)) => {
                Err("The snapshot was given up, as a long command holds keys".to_owned())
            }
            Some(Aborted::CutFailure(CutFailure::Loading)) => {
                Err("The snapshot was given up, as data are being loaded".to_owned())
            }
            Some(Aborted::TooSlow) => {
                Err("The disk is too slow for the snapshot, and writes waited for it".to_owned())
            }
        }
    }

    fn options(&self) -> Options {
        let form = match self.purpose {
            SnapshotPurpose::Save | SnapshotPurpose::Sync(_) => BaseForm::Snapshot,
            SnapshotPurpose::Base(form) => form,
        };
        let SnapshotFormat { compresses, sums, tells_access, version, syncs } = self.format;
        let keyspace = self.server.keyspace;
        let clock = || AccessClock::new(keyspace.settings(), keyspace.clock().now_ms());
        Options { form, compresses, sums, access: tells_access.then(clock), version, syncs }
    }

    /// How many keys are done, and how many there were at the cut.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let (done, total) = (&self.keys_done, &self.keys_total);
        (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed))
    }

    fn run(
        self: &Arc<Self>,
        target: SnapshotTarget,
        world: Option<&mut Acquisition>,
    ) -> Result<Finished, String> {
        // A panic takes the sink along, as errors do.
        let written = contain(|| self.write(target, world));
        let (Written { bytes, .. }, sink) = written.unwrap_or_else(|_| Err(BUG.to_owned()))?;
        self.check()?;
        sink.finish()?;
        Ok(Finished { bytes, copies_peak: self.queue.peak() })
    }

    /// Writes all to the sink.
    fn write(
        self: &Arc<Self>,
        SnapshotTarget { mut sink, at_cut }: SnapshotTarget,
        mut world: Option<&mut Acquisition>,
    ) -> Result<(Written, Box<dyn SnapshotSink>), String> {
        sink.open()?;
        let fault = sink.fault();
        let keyspace = self.server.keyspace;
        let (now, used) = (keyspace.clock().now_ms() / 1000, keyspace.memory());
        let notes = [
            ("redis-ver", &*version::of_redis(&self.server.config)),
            ("redis-bits", "64"),
            ("ctime", &now.to_string()),
            ("used-mem", &used.to_string()),
            ("aof-base", if matches!(self.purpose, SnapshotPurpose::Base(_)) { "1" } else { "0" }),
        ];
        let writer = FileWriter::begin(sink, &notes, self.options());
        let mut writer = writer.map_err(at_fault(&fault))?;
        let cut = match &mut world {
            Some(world) => self.cut(at_cut, world)?,
            None => self.cut(at_cut, &mut Acquisition::of_world(keyspace))?,
        };
        let walk = Arc::clone(&cut.walk);
        let world = world.as_deref();
        let mut underway = WalkGuard { snapshot: self, walk, world, is_whole: false };
        let head = self.head(&cut)?;
        writer.push(&head).map_err(at_fault(&fault))?;
        let writer = match self.has_keys() {
            true => self.write_entries((writer, &fault), &underway.walk, world)?,
            false => writer,
        };
        underway.is_whole = self.has_keys();
        drop(underway);
        writer.finish_in_sink().map_err(at_fault(&fault))
    }

    /// Takes the world, if it is not there yet, and begins the walk.
    fn cut(
        &self,
        at_cut: Box<dyn FnOnce(Cut) + Send>,
        world: &mut Acquisition,
    ) -> Result<CutState, String> {
        let server = self.server;
        let keyspace = server.keyspace;
        // A command that keeps the world from stopping may do so for ever.
        let mut patience = Patience::default();
        let mut lasts = || !self.is_awaited || patience.lasts(keyspace, WaitReason::World);
        if !background::wait_while(world, || self.given_up.get().is_none() && lasts()) {
            // A snapshot that was given up already stays so.
            self.abort(Aborted::CutFailure(CutFailure::Busy));
            self.check()?;
        }
        // The beginning of a snapshot has asked that, but a full sync may have had the world first.
        if server.gates.loading.is_on() {
            self.abort(Aborted::CutFailure(CutFailure::Loading));
            self.check()?;
        }
        let stopped_at = keyspace.stopped_since();
        let walk = Walk::begin(world, Box::new(Intake(Arc::clone(&self.queue))));
        let walk = walk.ok_or("As many snapshots as can be are under way")?;
        let Ok(cut) = contain(|| self.note_cut(&walk, at_cut, stopped_at)) else {
            // The marks agree again before the world goes on.
            drop(WalkGuard { snapshot: self, walk, world: Some(world), is_whole: false });
            return Err(BUG.to_owned());
        };
        Ok(cut)
    }

    /// Notes what there is at the cut.
    fn note_cut(
        &self,
        walk: &Arc<Walk>,
        at_cut: Box<dyn FnOnce(Cut) + Send>,
        stopped_at: Option<i64>,
    ) -> CutState {
        let server = self.server;
        let keyspace = server.keyspace;
        failpoint::point();
        // Libraries change without the world.
        let libraries = server.scripts.libraries.hold(|state| {
            at_cut(Cut { lsn: server.journal.end() });
            Arc::clone(state)
        });
        let size = |database| {
            let keys = keyspace.len(database);
            (keys > 0).then(|| (database, keys, keyspace.volatile_len(database)))
        };
        let sizes: Vec<_> = (0..keyspace.database_count()).filter_map(size).collect();
        let now = keyspace.clock().monotonic_us();
        server.snapshots.note_cut(now - stopped_at.unwrap_or(now));
        let total = sizes.iter().map(|&(_, keys, _)| keys as u64).sum();
        self.keys_total.store(total, Ordering::Relaxed);
        let first = self.walk.set(Arc::clone(walk));
        assert!(first.is_ok(), "a snapshot has one cut");
        if self.given_up.get().is_some() {
            // The snapshot was given up before there was a walk to see that.
            walk.abort();
        }
        failpoint::point();
        let history = server.journal.history();
        let copied_slots = server.gates.copied_slots.text();
        CutState { walk: Arc::clone(walk), libraries, sizes, history, copied_slots }
    }

    fn has_keys(&self) -> bool {
        !matches!(self.purpose, SnapshotPurpose::Sync(SyncFormat { keys: false, .. }))
    }

    fn has_functions(&self) -> bool {
        !matches!(self.purpose, SnapshotPurpose::Sync(SyncFormat { functions: false, .. }))
    }

    /// What the snapshot begins with. A replica that has no functions is not left without them in
    /// silence.
    fn head(&self, at_cut: &CutState) -> Result<Chunk, String> {
        let CutState { libraries, sizes, history, copied_slots, .. } = at_cut;
        let mut head = ChunkWriter::new(self.options());
        let is_for_redis_6 = writes_redis_6(self.format.version);
        if let Some(SavedHistory { id, offset, database, .. }) = history {
            head.note("repl-stream-db", &database.to_string());
            head.note("repl-id", &id.to_string());
            head.note("repl-offset", &offset.to_string());
        }
        if self.has_keys() && !copied_slots.is_empty() {
            head.copied_slots(copied_slots);
        }
        let libraries = libraries.libraries().filter(|_| self.has_functions());
        for loaded in libraries {
            if matches!(self.purpose, SnapshotPurpose::Sync(_)) && is_for_redis_6 {
                return Err(NO_FUNCTIONS.to_owned());
            }
            head.library(loaded.library.source());
        }
        for &(database, keys, volatile) in sizes.iter().filter(|_| self.has_keys()) {
            head.select(database);
            head.sizes(keys, volatile);
        }
        Ok(head.finish())
    }

    /// Has all entries of the cut encoded, and writes them.
    fn write_entries(
        self: &Arc<Self>,
        (writer, fault): (SinkWriter, &str),
        walk: &Arc<Walk>,
        world: Option<&Acquisition>,
    ) -> Result<SinkWriter, String> {
        let encoders = self.server.threads.cores.count().clamp(1, ENCODERS_MAX);
        let hold = world.map_or(PartitionHold::Each, PartitionHold::World);
        let writer = self.encode_by(encoders, (writer, fault), walk, &|it| it.run(hold))?;
        // What came while the last partitions were visited.
        let writer = self.encode_by(1, (writer, fault), walk, &|it| it.run_down())?;
        self.check()?;
        Ok(writer)
    }

    /// Has so many threads encode, and writes what they make.
    fn encode_by(
        self: &Arc<Self>,
        encoders: usize,
        (writer, fault): (SinkWriter, &str),
        walk: &Arc<Walk>,
        work: &(dyn Fn(&mut Encoder<'_>) + Sync),
    ) -> Result<SinkWriter, String> {
        let (inlet, deliveries) = chunk_channel(encoders);
        let mut scribe = SnapshotWriter::new(self, (writer, fault), walk);
        let begun = thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..encoders {
                let inlet = inlet.clone();
                let run = move || work(&mut Encoder::new(self, walk, ChunkOutput::Passage(inlet)));
                let run = move || share_of(walk, run);
                let builder = thread::Builder::new().name(format!("encoder-{number}"));
                threads.extend(builder.spawn_scoped(scope, run));
            }
            drop(inlet);
            let written = share_of(walk, || {
                failpoint::point();
                in_order(deliveries).for_each(|chunk| scribe.write(&chunk));
            });
            let begun = threads.len();
            let ends = threads.into_iter().map(|thread| thread.join().ok().flatten());
            let are_whole = ends.chain([written]).filter(Option::is_none).count() == 0;
            are_whole.then_some(begun).ok_or_else(|| BUG.to_owned())
        })?;
        if begun == 0 {
            // The system gives no thread, and a process that is to end has to save all the same.
            let shared = Rc::new(RefCell::new(scribe));
            work(&mut Encoder::new(self, walk, ChunkOutput::Own(Rc::clone(&shared))));
            scribe = Rc::into_inner(shared).expect("the encoder is gone").into_inner();
        }
        scribe.finish()
    }
}

/// Does one thread's share of a snapshot; `None` if that panicked: the others need not go on.
fn share_of(walk: &Walk, work: impl FnOnce()) -> Option<()> {
    let done = contain(work);
    if done.is_err() {
        walk.abort();
    }
    done.ok()
}

const BUG: &str = "A thread of the snapshot did not come to its end";

/// What writes to the sink.
type SinkWriter = FileWriter<dyn SnapshotSink>;

/// What is told of an error with the sink.
fn at_fault(fault: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{fault}: {}", strerror(&error))
}

/// A walk that must come to its end.
struct WalkGuard<'a> {
    snapshot: &'a Snapshot,
    walk: Arc<Walk>,
    /// The world, where it stands still meanwhile.
    world: Option<&'a Acquisition>,
    /// Whether every entry was saved.
    is_whole: bool,
}

impl Drop for WalkGuard<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.sweep();
        }
        self.walk.end();
        self.snapshot.queue.clear();
    }
}

impl WalkGuard<'_> {
    /// Makes all marks agree without saving anything.
    fn sweep(&self) {
        self.walk.abort();
        self.snapshot.queue.clear();
        self.walk.start_over();
        let keyspace = self.snapshot.server.keyspace;
        while let Some(partition) = self.walk.next_partition() {
            let mut from = Some((0, 0));
            while let Some(place) = from {
                let step = |grant: &Acquisition| {
                    self.walk.visit(grant, partition, place, SWEPT_AT_ONCE, |_, _| ())
                };
                from = match self.world {
                    Some(world) => step(world),
                    None => step(&BackgroundAccess::wait(keyspace).acquire(partition)),
                };
            }
        }
    }
}

/// Entries that a sweep passes over in one hold of a lock.
const SWEPT_AT_ONCE: usize = 256;
