//! Loading a snapshot: one thread splits the file into entries, others put them in their places.
//!
//! Invariant: a key that is there twice, or a value that is none, fails the whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::number::parse_u64;
use config::RdbVersionCheck;
use config::settings::{KEY_LOAD_DELAY, RDB_SKIP_MODULE_DATA, RDB_VERSION_CHECK, RDBCHECKSUM};
use engine::limits::gate_state::GateState;
use engine::runtime::log::{log_notice, log_warning};
use engine::scripting;
use engine::shared::Shared;
use keyspace::Tx;
use persist::entry_notes::COPIED_SLOTS;
use persist::rdb::file::{
    Batch, BuiltEntry, Damage, End, FileError, LargeEntrySink, Rules, Sink, read_file,
};
use persist::rdb::value::Limits;
use persist::storage::File;
use replication::history::SavedHistory;
use replication::ids::ReplicationId;

use super::insert::{Counts, Inserter, LoadPlace, OnDuplicate, OnExpired};
use super::threads;
use crate::durability::Durability;

/// Batches, or large entries, that wait for a thread; more would only take memory.
const QUEUE_LEN: usize = 4;

/// The longest nap on behalf of `key-load-delay`, after which somebody may have called it off.
const NAP_US: u64 = 10_000;

/// What a snapshot says of the stream that goes on behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotOrigin {
    /// `repl-id`.
    pub id: Option<Vec<u8>>,
    /// `repl-offset`.
    pub offset: Option<u64>,
    /// `repl-stream-db`, if one is selected there.
    pub database: Option<u32>,
    /// The slots of a cluster whose keys are copies.
    pub copied_slots: Vec<u8>,
}

impl SnapshotOrigin {
    /// Where the data stand in a history, if all of it is told.
    pub(crate) fn history(&self) -> Option<SavedHistory> {
        let id = ReplicationId::parse(self.id.as_ref()?).filter(|id| *id != ReplicationId::NONE)?;
        let (offset, database) = (self.offset?, self.database?);
        Some(SavedHistory { id, offset, database, second: None })
    }

    fn note(&mut self, name: &[u8], text: &[u8]) {
        match name {
            b"repl-id" => self.id = Some(text.to_vec()),
            // There is a byte behind it.
            b"repl-offset" => {
                self.offset = parse_u64(text).filter(|offset| *offset < i64::MAX as u64);
            }
            _ if *name == *COPIED_SLOTS.as_bytes() => self.copied_slots = text.to_vec(),
            b"repl-stream-db" => {
                self.database = parse_u64(text).and_then(|it| u32::try_from(it).ok());
            }
            _ => {}
        }
    }
}

/// Loads a snapshot into a data set that nobody else changes, on several threads. Gives where it
/// ended, and what was read beyond.
pub(crate) fn load(
    server: &'static Durability,
    file: &mut dyn File,
    on_duplicate: OnDuplicate,
) -> Result<End, FileError> {
    load_to(server, file, on_duplicate, LoadPlace::Here).map(|loaded| loaded.end)
}

/// What was loaded, with what there is beside keys.
pub(crate) struct LoadedSnapshot {
    /// Where it ended, and what was passed over.
    pub(crate) end: End,
    /// What the file says of the stream.
    pub(crate) origin: SnapshotOrigin,
    /// The code of libraries that are not loaded, as the data are not served yet.
    pub(crate) libraries: Vec<Vec<u8>>,
}

/// The same to another place.
pub(crate) fn load_to(
    server: &'static Durability,
    file: &mut dyn File,
    on_duplicate: OnDuplicate,
    place: LoadPlace,
) -> Result<LoadedSnapshot, FileError> {
    let threads = LoaderThreads::spawn(server, on_duplicate, place);
    let suspends = server.keyspace.settings().suspends_expiry();
    let on_expired = if suspends { OnExpired::Kept } else { OnExpired::Dropped };
    let mut sink = SnapshotReading::new(server, on_duplicate, place, on_expired, &threads);
    let result = read_file(file, rules(server), &mut sink);
    let SnapshotReading { origin, libraries, .. } = sink;
    // What went wrong on another thread is why reading ended.
    let counts = threads.finish()?;
    let end = result?;
    if place == LoadPlace::Here {
        server.gates.copied_slots.replace(&origin.copied_slots);
    }
    report_loaded(server, counts, &end);
    Ok(LoadedSnapshot { end, origin, libraries })
}

/// The same on this thread and on a transaction that has the world: no other is let in meanwhile.
pub fn load_within(
    server: &'static Durability,
    file: &mut dyn File,
    on_duplicate: OnDuplicate,
    tx: &mut Tx,
) -> Result<End, FileError> {
    let placer = Inserter::within(server, on_duplicate, tx);
    let (place, on_expired) = (LoadPlace::Here, OnExpired::Kept);
    let mut sink = SnapshotReading::new(server, on_duplicate, place, on_expired, placer);
    let end = read_file(file, rules(server), &mut sink)?;
    server.gates.copied_slots.replace(&sink.origin.copied_slots);
    report_loaded(server, sink.placer.counts(), &end);
    Ok(end)
}

/// Tells what was loaded.
fn report_loaded(server: &Durability, counts: Counts, end: &End) {
    let Counts { keys, expired } = counts;
    server.gates.loading.keys.store(keys, Ordering::Relaxed);
    server.gates.loading.expired.store(expired, Ordering::Relaxed);
    if end.skipped > 0 {
        let skipped = end.skipped;
        log_warning!(server.log, "{skipped} values or notes of modules were passed over");
    }
    log_notice!(server.log, "Done loading RDB, keys loaded: {keys}, keys expired: {expired}.");
}

/// Looks whether a file begins as one that is loaded.
pub(crate) fn check_head(server: &Durability, file: &mut dyn File) -> Result<(), FileError> {
    persist::rdb::file::check_head(file, rules(server))
}

/// What the configuration allows in a file.
fn rules(server: &Durability) -> Rules {
    Rules {
        skips_modules: server.config.get(RDB_SKIP_MODULE_DATA),
        any_version: server.config.get(RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed,
        ignores_sum: !server.config.get(RDBCHECKSUM),
    }
}

/// Reads a file, and has what it holds placed.
struct SnapshotReading<P> {
    server: &'static Durability,
    on_duplicate: OnDuplicate,
    place: LoadPlace,
    /// What becomes of a key whose time is over, if no stream goes on behind the file.
    on_expired: OnExpired,
    placer: P,
    origin: SnapshotOrigin,
    libraries: Vec<Vec<u8>>,
}

impl<P> SnapshotReading<P> {
    fn new(
        server: &'static Durability,
        on_duplicate: OnDuplicate,
        place: LoadPlace,
        on_expired: OnExpired,
        placer: P,
    ) -> Self {
        let (origin, libraries) = (SnapshotOrigin::default(), Vec::new());
        Self { server, on_duplicate, place, on_expired, placer, origin, libraries }
    }

    /// What becomes of a key whose time is over. Where the file says that a stream goes on behind
    /// it, replicas may have the key: the stream has to tell them of its end.
    fn on_expired(&self) -> OnExpired {
        if self.origin.history().is_some() { OnExpired::Kept } else { self.on_expired }
    }
}

/// Where the entries of a file go.
trait Placer {
    fn place(&mut self, load: Load, on_expired: OnExpired) -> Result<(), FileError>;
}

/// What is placed at once.
enum Load {
    Batch(Batch),
    BuiltEntry(BuiltEntry),
}

impl<P: Placer> Sink for SnapshotReading<P> {
    fn note(&mut self, name: &[u8], text: &[u8]) {
        log_field(self.server, name, text);
        self.origin.note(name, text);
        // What has more databases than there are here is refused by its keys, if by anything.
        let count = self.server.keyspace.database_count();
        self.origin.database = self.origin.database.filter(|database| (*database as usize) < count);
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        match self.place {
            LoadPlace::Here => take_library(self.server, code, self.on_duplicate),
            LoadPlace::Shadow => {
                // What is found now costs nothing that is served.
                scripting::check_library(code)?;
                self.libraries.push(code.to_vec());
                Ok(())
            }
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<(), FileError> {
        delay(self.server, batch.len() as u64);
        let Shared { gates: GateState { loading, .. }, keyspace, log, .. } = &***self.server;
        loading.advance_to(batch.end(), keyspace.clock(), log);
        let on_expired = self.on_expired();
        self.placer.place(Load::Batch(batch), on_expired)
    }

    fn gatherer(&mut self) -> Option<&mut dyn LargeEntrySink> {
        Some(self)
    }
}

impl<P: Placer> LargeEntrySink for SnapshotReading<P> {
    fn limits(&self) -> Limits {
        Limits::from(&self.server.keyspace.settings().containers)
    }

    fn advance(&mut self, offset: u64) {
        let Shared { gates: GateState { loading, .. }, keyspace, log, .. } = &***self.server;
        loading.advance_to(offset, keyspace.clock(), log);
    }

    fn entry(&mut self, made: BuiltEntry) -> Result<(), FileError> {
        delay(self.server, 1);
        let on_expired = self.on_expired();
        self.placer.place(Load::BuiltEntry(made), on_expired)
    }
}

/// On this thread, as it is read.
impl Placer for Inserter<'_> {
    fn place(&mut self, load: Load, on_expired: OnExpired) -> Result<(), FileError> {
        match load {
            Load::Batch(batch) => self.place_batch(&batch, on_expired),
            Load::BuiltEntry(made) => self.place_made(made, on_expired),
        }
    }
}

/// On the loader threads.
impl Placer for &LoaderThreads {
    fn place(&mut self, load: Load, on_expired: OnExpired) -> Result<(), FileError> {
        let offset = match &load {
            Load::Batch(batch) => batch.end(),
            Load::BuiltEntry(made) => made.offset,
        };
        if self.has_failed.load(Ordering::Relaxed) || self.loads.send((load, on_expired)).is_err() {
            return Err(FileError::at(offset, Damage::Stopped));
        }
        Ok(())
    }
}

/// Logs what a file says about itself.
fn log_field(server: &Durability, name: &[u8], text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match name {
        b"redis-ver" | b"valkey-ver" => {
            log_notice!(server.log, "Loading RDB produced by version {text}");
        }
        b"ctime" => {
            if let Ok(made) = text.parse::<i64>() {
                let age = (server.keyspace.clock().now_ms() / 1000).saturating_sub(made).max(0);
                log_notice!(server.log, "RDB age {age} seconds");
            }
        }
        b"used-mem" => {
            if let Ok(bytes) = text.parse::<u64>() {
                server.gates.loading.used_memory.store(bytes, Ordering::Relaxed);
                let megabytes = bytes as f64 / 1_048_576.0;
                log_notice!(server.log, "RDB memory usage when created {megabytes:.2} Mb");
            }
        }
        _ => {}
    }
}

pub(crate) fn take_library(
    server: &'static Durability,
    code: &[u8],
    on_duplicate: OnDuplicate,
) -> Result<(), String> {
    let replaces = on_duplicate == OnDuplicate::Replaced;
    let added = server.scripts.libraries.load(server, code, replaces);
    added.map_err(|refusal| {
        let line = refusal.line().unwrap_or_default();
        scripting::said_of(code, line)
    })
}

/// Does as `key-load-delay` says about so many keys.
fn delay(server: &Durability, keys: u64) {
    let mut slept_us = 0;
    loop {
        let micros = i64::from(server.config.get(KEY_LOAD_DELAY));
        let wanted_us = match micros {
            0.. => keys * micros.unsigned_abs(),
            _ => keys / micros.unsigned_abs(),
        };
        if slept_us >= wanted_us || server.gates.shutdown_request.is_asked() {
            return;
        }
        let nap_us = (wanted_us - slept_us).min(NAP_US);
        std::thread::sleep(Duration::from_micros(nap_us));
        slept_us += nap_us;
    }
}

/// Threads that place entries.
struct LoaderThreads {
    loads: SyncSender<(Load, OnExpired)>,
    reports: Receiver<Result<Counts, FileError>>,
    hired: usize,
    has_failed: Arc<AtomicBool>,
}

impl LoaderThreads {
    fn spawn(server: &'static Durability, on_duplicate: OnDuplicate, place: LoadPlace) -> Self {
        let hired = threads(server);
        let (loads, queue) = sync_channel(QUEUE_LEN);
        let (reporter, reports) = channel();
        let (queue, has_failed) = (Arc::new(Mutex::new(queue)), Arc::new(AtomicBool::new(false)));
        for _ in 0..hired {
            let (queue, reporter) = (Arc::clone(&queue), Sender::clone(&reporter));
            let has_failed = Arc::clone(&has_failed);
            server.threads.background.spawn(move |lane| {
                let report = place_all(Inserter::new(server, lane, on_duplicate, place), &queue);
                if report.is_err() {
                    has_failed.store(true, Ordering::Relaxed);
                }
                // A loader that does not listen any more has failed itself.
                let _ = reporter.send(report);
            });
        }
        Self { loads, reports, hired, has_failed }
    }

    /// Waits until all is placed, or all threads have given up; the first thing that went wrong.
    fn finish(self) -> Result<Counts, FileError> {
        let Self { loads, reports, hired, .. } = self;
        drop(loads);
        let mut sum = Ok(Counts::default());
        for _ in 0..hired {
            let report = reports.recv();
            let report = report.unwrap_or_else(|_| Err(FileError::at(0, Damage::Stopped)));
            sum = match (sum, report) {
                (Ok(sum), Ok(Counts { keys, expired })) => {
                    Ok(Counts { keys: sum.keys + keys, expired: sum.expired + expired })
                }
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            };
        }
        sum
    }
}

/// Places all that comes.
fn place_all(
    mut ground: Inserter<'_>,
    queue: &Mutex<Receiver<(Load, OnExpired)>>,
) -> Result<Counts, FileError> {
    // The queue is let go before what came is worked on.
    let next = || queue.lock().ok()?.recv().ok();
    while let Some((load, on_expired)) = next() {
        ground.place(load, on_expired)?;
    }
    Ok(ground.counts())
}
