//! Snapshots on a disk that fails and crashes: the file is always a whole one, and whatever went
//! wrong leaves no trace in the data set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use keyspace::{Acquisition, Lifetime, NewText, PartitionSet, Tx, TxOptions};
use persist::rdb::file::{Batch, FileError, Rules, Sink, read_file};
use persist::storage::simulated::{Fault, SimulatedDisk};
use persist::storage::{How, Storage};

use super::{Finished, Purpose, Snapshot, Target};
use crate::server::Server;
use crate::start::test_server_on;

const KEYS: usize = 200;

/// By its names as the system counts errors: no space, an error of the device, a read-only disk.
const ERRORS: [i32; 3] = [28, 5, 30];

fn path() -> PathBuf {
    PathBuf::from("/data/dump.rdb")
}

/// A server on a disk of its own.
fn server_on(disk: &SimulatedDisk) -> &'static Server {
    disk.make_directory(Path::new("/data")).unwrap();
    test_server_on(Box::new(disk.clone()))
}

/// Gives all keys this value.
fn fill(server: &'static Server, value: &str) {
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

fn take(server: &'static Server) -> Result<Finished, String> {
    let (sender, receiver) = mpsc::channel();
    let target = Target { path: path(), at_cut: Box::new(|_| ()) };
    let done = Box::new(move |result| sender.send(result).unwrap());
    Snapshot::new(server, Purpose::Save, true, false).start(target, done).unwrap();
    receiver.recv().expect("every snapshot says how it ended")
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
    let mut file = disk.open(&path(), How::Read).expect("there is a file");
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
        let (sender, receiver) = mpsc::channel();
        let target = Target { path: path(), at_cut: Box::new(|_| ()) };
        let snapshot = Snapshot::new(server, Purpose::Save, false, false);
        snapshot.start(target, Box::new(move |result| sender.send(result).unwrap())).unwrap();
        std::thread::sleep(std::time::Duration::from_micros(pause_us));
        snapshot.cancel();
        fill(server, &format!("after {pause_us}"));
        // It may have been faster than we.
        let _ = receiver.recv().unwrap();
        take(server).unwrap();
        assert!(read(&disk).ends_with(format!("after {pause_us}").as_bytes()));
    }
}
