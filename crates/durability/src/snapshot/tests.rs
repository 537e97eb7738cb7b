//! Snapshots on a disk that fails and crashes, and to one that reads them right away: what is
//! finished is always a whole one, and whatever went wrong leaves no trace in the data set.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use keyspace::{Acquisition, Lifetime, NewText, PartitionSet, Tx, TxOptions};
use persist::rdb::file::{Batch, ByteSink, FileError, Rules, Sink, read_file};
use persist::storage::simulated::{Fault, SimulatedDisk};
use persist::storage::{OpenMode, Storage};

use super::{FileSink, Finished, Snapshot, SnapshotPurpose, SnapshotSink, SnapshotTarget};
use crate::durability::Durability;
use crate::testing::durability_on;

const KEYS: usize = 200;

/// By its names as the system counts errors: no space, an error of the device, a read-only disk.
const ERRORS: [i32; 3] = [28, 5, 30];

fn path() -> PathBuf {
    PathBuf::from("/data/dump.rdb")
}

/// A server on a disk of its own.
fn server_on(disk: &SimulatedDisk) -> &'static Durability {
    disk.make_directory(Path::new("/data")).unwrap();
    durability_on(Box::new(disk.clone()))
}

/// Gives all keys this value.
fn fill(server: &'static Durability, value: &str) {
    for number in 0..KEYS {
        let key = format!("key:{number}");
        let partition = server.keyspace.locate(key.as_bytes()).partition();
        let wanted = PartitionSet::from_slice(&[partition]);
        let mut grant = Acquisition::of_partitions(server.keyspace, wanted);
        while !server.keyspace.enter(0) {
            std::thread::yield_now();
        }
        while !grant.attempt() {
            std::thread::yield_now();
        }
        let mut tx = Tx::begin(grant, TxOptions::internal(0, 1000));
        tx.put_text(key.as_bytes(), NewText::from_client(value.as_bytes()), Lifetime::Forever)
            .unwrap();
        tx.finish();
        tx.seal();
        drop(tx);
        server.keyspace.leave(0);
    }
}

fn take(server: &'static Durability) -> Result<Finished, String> {
    let (_, receiver) = begin(server, file(server));
    receiver.recv().expect("every snapshot says how it ended")
}

fn file(server: &'static Durability) -> FileSink {
    FileSink::new(&*server.storage, path())
}

/// Begins a snapshot, which says how it ends.
fn begin(
    server: &'static Durability,
    sink: impl SnapshotSink + 'static,
) -> (Arc<Snapshot>, Receiver<Result<Finished, String>>) {
    let (sender, receiver) = mpsc::channel();
    let target = SnapshotTarget { sink: Box::new(sink), at_cut: Box::new(|_| ()) };
    let snapshot = Snapshot::new(server, SnapshotPurpose::Save, true, false);
    snapshot.start(target, Box::new(move |result| sender.send(result).unwrap())).unwrap();
    (snapshot, receiver)
}

/// What a snapshot holds, each key once.
#[derive(Default)]
struct Held(BTreeMap<Vec<u8>, Vec<u8>>);

impl Sink for Held {
    fn library(&mut self, _: &[u8]) -> Result<(), String> {
        Err("there is none".to_owned())
    }

    fn batch(&mut self, batch: Batch) -> Result<(), FileError> {
        for raw in batch.entries() {
            let raw = raw?;
            let again = self.0.insert(raw.key.to_vec(), raw.value.to_vec());
            assert_eq!(again, None, "a key is there once");
        }
        Ok(())
    }
}

/// Asserts that the file is whole and all its keys have one value; returns that as it is written.
fn read(disk: &SimulatedDisk) -> Vec<u8> {
    let mut file = disk.open(&path(), OpenMode::Read).expect("there is a file");
    let rules = Rules { skips_modules: false, any_version: false, ignores_sum: false };
    let mut held = Held::default();
    read_file(&mut *file, rules, &mut held).expect("the file is whole");
    assert_eq!(held.0.len(), KEYS);
    let mut values: Vec<Vec<u8>> = held.0.into_values().collect();
    values.dedup();
    assert_eq!(values.len(), 1, "all of one instant");
    values.remove(0)
}

#[test]
fn whatever_call_fails_the_file_is_the_old_or_the_new_one() {
    let disk = SimulatedDisk::default();
    let server = server_on(&disk);
    fill(server, "old");
    take(server).unwrap();
    let old = read(&disk);
    let before = disk.calls();
    take(server).unwrap();
    let calls = disk.calls() - before;
    assert!(calls >= 8, "a snapshot takes {calls} calls");
    let faults = ERRORS.map(Fault::Error).into_iter().chain([Fault::Short]);
    for (round, fault) in faults.enumerate() {
        for call in 0..calls {
            let value = format!("new {round} {call}");
            fill(server, &value);
            disk.fail_at(disk.calls() + call, fault);
            let result = take(server);
            disk.heal();
            let found = read(&disk);
            let is_new = found.ends_with(value.as_bytes());
            // A file that was given its name is there, even if nobody knows for how long.
            assert!(is_new || result.is_err(), "{fault:?} at {call}: acknowledged, and not there");
            // All marks agree again: the next one holds every key.
            take(server).unwrap();
            assert!(read(&disk).ends_with(value.as_bytes()), "{fault:?} at {call}");
            let files = disk.list(Path::new("/data")).unwrap();
            assert_eq!(files.len(), 1, "{fault:?} at {call} leaves {files:?}");
        }
    }
    assert_ne!(read(&disk), old);
}

#[test]
fn what_was_acknowledged_outlives_a_crash() {
    for seed in 0..20 {
        let disk = SimulatedDisk::default();
        let server = server_on(&disk);
        fill(server, "kept");
        take(server).unwrap();
        disk.crash(seed);
        assert!(read(&disk).ends_with(b"kept"), "crash {seed}");
    }
}

#[test]
fn a_snapshot_that_is_cancelled_at_any_time_leaves_no_trace() {
    let disk = SimulatedDisk::default();
    let server = server_on(&disk);
    fill(server, "value");
    for pause_us in [0, 50, 200, 1000, 5000] {
        let (snapshot, receiver) = begin(server, file(server));
        std::thread::sleep(std::time::Duration::from_micros(pause_us));
        snapshot.cancel();
        fill(server, &format!("after {pause_us}"));
        // The other thread may have been faster.
        let _ = receiver.recv().unwrap();
        take(server).unwrap();
        assert!(read(&disk).ends_with(format!("after {pause_us}").as_bytes()));
    }
}

/// A pipe with room for few bytes.
#[derive(Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Default)]
struct PipeState {
    /// What was written and not read yet.
    bytes: Vec<u8>,
    most: usize,
    /// Whether somebody waits for room.
    is_full: bool,
    is_open: bool,
    /// The pipe is not read any more.
    is_forsaken: bool,
    /// Whether all was written, once nobody writes to it any more.
    is_whole: Option<bool>,
}

/// Less than a piece of a snapshot, of which one is taken where nothing waits to be read.
const ROOM: usize = 500;

/// The end of a pipe that a snapshot is written to.
struct PipeSink(Arc<Pipe>);

impl Pipe {
    fn change<T>(&self, change: impl FnOnce(&mut PipeState) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        result
    }

    /// Waits until there is something to read, or nothing comes any more.
    fn read(&self) -> Option<Vec<u8>> {
        let is_idle = |state: &mut PipeState| state.bytes.is_empty() && state.is_whole.is_none();
        let waited = self.changed.wait_while(self.state.lock().unwrap(), is_idle);
        let bytes = std::mem::take(&mut waited.unwrap().bytes);
        self.changed.notify_all();
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Waits until somebody would write what there is no room for.
    fn await_full(&self) {
        let has_room = |state: &mut PipeState| !state.is_full;
        let patience = Duration::from_secs(60);
        let waited =
            self.changed.wait_timeout_while(self.state.lock().unwrap(), patience, has_room);
        assert!(!waited.unwrap().1.timed_out(), "there is room for all of it");
    }
}

impl ByteSink for PipeSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.change(|state| {
            assert!(state.is_open);
            if state.is_forsaken {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            state.bytes.extend_from_slice(bytes);
            state.most = state.most.max(state.bytes.len());
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn keeps_head(&self) -> bool {
        false
    }

    fn rewrite_head(&mut self, _: &[u8]) -> io::Result<()> {
        unreachable!("it was read long ago")
    }
}

impl SnapshotSink for PipeSink {
    fn open(&mut self) -> Result<(), String> {
        self.0.change(|state| state.is_open = true);
        Ok(())
    }

    fn wait_for_room(&mut self, bytes: usize, is_wanted: &dyn Fn() -> bool) {
        let has_room = |state: &PipeState| {
            state.is_forsaken || state.bytes.is_empty() || state.bytes.len() + bytes <= ROOM
        };
        let mut state = self.0.state.lock().unwrap();
        while is_wanted() && !has_room(&state) {
            state.is_full = true;
            self.0.changed.notify_all();
            state = self.0.changed.wait_timeout(state, Duration::from_millis(1)).unwrap().0;
        }
        state.is_full = false;
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        self.0.change(|state| state.is_whole = Some(true));
        Ok(())
    }

    fn fault(&self) -> String {
        "The pipe".to_owned()
    }
}

impl Drop for PipeSink {
    fn drop(&mut self) {
        self.0.change(|state| _ = state.is_whole.get_or_insert(false));
    }
}

#[test]
fn a_sink_that_reads_right_away_gets_one_instant_at_its_own_pace() {
    let disk = SimulatedDisk::default();
    let server = server_on(&disk);
    fill(server, "old");
    let pipe = Arc::new(Pipe::default());
    let (_, receiver) = begin(server, PipeSink(Arc::clone(&pipe)));
    // The snapshot is behind its cut where entries come. Nothing is read before: what is left might
    // fit.
    pipe.await_full();
    fill(server, "new");
    let bytes: Vec<u8> = std::iter::from_fn(|| pipe.read()).flatten().collect();
    let finished = receiver.recv().unwrap().unwrap();
    assert_eq!(finished.bytes, bytes.len() as u64);
    assert_eq!(pipe.state.lock().unwrap().is_whole, Some(true));
    let most = pipe.state.lock().unwrap().most;
    assert!(most < bytes.len(), "one piece at a time");
    disk.put(&path(), &bytes);
    assert!(read(&disk).ends_with(b"old"));
    take(server).unwrap();
    assert!(read(&disk).ends_with(b"new"));
}

#[test]
fn a_reader_that_stops_or_goes_ends_the_snapshot_without_a_trace() {
    let disk = SimulatedDisk::default();
    let server = server_on(&disk);
    for goes in [false, true] {
        fill(server, "value");
        let pipe = Arc::new(Pipe::default());
        let (snapshot, receiver) = begin(server, PipeSink(Arc::clone(&pipe)));
        pipe.await_full();
        if goes {
            pipe.change(|state| state.is_forsaken = true);
        } else {
            snapshot.cancel();
        }
        let why = receiver.recv().unwrap().unwrap_err();
        assert_eq!(why.starts_with("The pipe: "), goes, "{why}");
        assert_eq!(pipe.state.lock().unwrap().is_whole, Some(false), "it is aborted");
        fill(server, "later");
        take(server).unwrap();
        assert!(read(&disk).ends_with(b"later"));
    }
}
