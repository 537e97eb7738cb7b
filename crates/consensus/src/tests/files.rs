//! The file of the log: torn ends are cut, what the disk lost is seen, whatever the bytes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use base::Random;
use cluster::NodeId;
use openraft::EntryPayload;
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{Storage, read_whole};
use quorum::MapEntry;

use crate::folder::Folder;
use crate::log_file::{Durable, LogFile};
use crate::record::Record;
use crate::types::{Entry, LogId, PeerId, Vote};

fn node() -> NodeId {
    NodeId::parse(&[b'a'; 40]).expect("forty letters")
}

fn log_id(index: u64) -> LogId {
    LogId::new(openraft::CommittedLeaderId::new(3, PeerId(node())), index)
}

fn record(index: u64) -> Record {
    let payload = EntryPayload::Normal(MapEntry::RemoveNode { node: node() });
    match index % 4 {
        0 => Record::Vote(Vote::new(index, PeerId(node()))),
        1 => Record::Committed(log_id(index)),
        2 => Record::Truncated(index),
        _ => Record::Entry(Entry { log_id: log_id(index), payload }),
    }
}

fn folder(disk: &SimulatedDisk) -> Folder {
    Folder::open(Arc::new(disk.clone()), Path::new("map")).expect("a folder is made")
}

/// What a file of these bytes says, and what the log heard.
fn open(bytes: &[u8]) -> Result<(Vec<Record>, Vec<String>), String> {
    let disk = SimulatedDisk::new();
    let folder = folder(&disk);
    disk.put(Path::new("map/map.log"), bytes);
    let heard = Mutex::new(Vec::new());
    let log = |line: &str| heard.lock().expect("nothing panics here").push(line.to_owned());
    let opened = LogFile::open(&folder, node(), &log);
    let (mut file, records) = opened.map_err(|error| error.to_string())?;
    // The file goes on where it was cut.
    file.append(&[record(7)], Durable::Now).expect("the disk is fine");
    let (_, again) = LogFile::open(&folder, node(), &log).expect("what was cut is whole");
    assert_eq!(again, [&records[..], &[record(7)]].concat());
    Ok((records, heard.into_inner().expect("nothing panics here")))
}

/// A file to which records were written one by one, the last `open` of them without a sync.
fn written(count: u64, open: u64) -> (Vec<u8>, Vec<Record>) {
    let disk = SimulatedDisk::new();
    let folder = folder(&disk);
    let (mut file, records) = LogFile::open(&folder, node(), &|_| {}).expect("a file is made");
    assert_eq!(records, []);
    let records: Vec<Record> = (0..count).map(record).collect();
    for (index, record) in records.iter().enumerate() {
        let is_open = index as u64 >= count - open;
        let durable = if is_open { Durable::Later } else { Durable::Now };
        file.append(std::slice::from_ref(record), durable).expect("the disk is fine");
    }
    (read_whole(&disk, Path::new("map/map.log")).expect("a file is there"), records)
}

#[test]
fn a_torn_end_is_cut_and_told() {
    let (bytes, records) = written(9, 0);
    assert_eq!(open(&bytes), Ok((records.clone(), Vec::new())));
    let mut lengths = Vec::new();
    for length in 65..bytes.len() {
        let (left, heard) = open(&bytes[..length]).expect("the end is torn");
        assert!(records.starts_with(&left));
        assert_eq!(
            heard.is_empty(),
            open(&bytes[..length]).is_ok_and(|(_, heard)| heard.is_empty())
        );
        assert!(heard.len() <= 1, "{heard:?}");
        lengths.push(left.len());
    }
    assert!(lengths.is_sorted() && lengths.first() == Some(&0) && lengths.last() == Some(&8));
    for garbage in [&[0; 200][..], &[255; 30], b"\0\0\0\x08garbage garbage garbage garbage"] {
        let torn = [&bytes, garbage].concat();
        let (left, heard) = open(&torn).expect("the end is torn");
        assert_eq!(left, records);
        assert_eq!(heard.len(), 1, "{heard:?}");
    }
}

#[test]
fn what_the_disk_has_lost_is_seen() {
    let (bytes, records) = written(9, 3);
    let mut random = Random::from_seed(51);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 + random.below(255) as u8;
        // The last record that a mark vouches for is the sixth: three were written behind it.
        match open(&changed) {
            Ok((left, heard)) => {
                assert!(left.len() >= 6 && records.starts_with(&left), "{place}");
                assert_eq!(heard.len(), 1);
            }
            Err(reason) => assert!(reason.starts_with("map/map.log: "), "{reason}"),
        }
    }
}

#[test]
fn a_file_that_took_its_place_whole_is_whole() {
    let disk = SimulatedDisk::new();
    let folder = folder(&disk);
    let (mut file, _) = LogFile::open(&folder, node(), &|_| {}).expect("a file is made");
    let records: Vec<Record> = (0..5).map(record).collect();
    file.replace(&records).expect("the disk is fine");
    let bytes = read_whole(&disk, Path::new("map/map.log")).expect("a file is there");
    assert_eq!(open(&bytes), Ok((records.clone(), Vec::new())));
    for length in 0..bytes.len() {
        assert!(open(&bytes[..length]).is_err(), "{length}");
    }
    file.append(&[record(6)], Durable::Now).expect("the disk is fine");
    drop(file);
    let (_, left) = LogFile::open(&folder, node(), &|_| {}).expect("the file is read");
    assert_eq!(left, [records, vec![record(6)]].concat());
}

#[test]
fn a_crash_keeps_what_was_synced() {
    for seed in 0..300 {
        let disk = SimulatedDisk::new();
        let folder = folder(&disk);
        let (mut file, _) = LogFile::open(&folder, node(), &|_| {}).expect("a file is made");
        let mut random = Random::from_seed(seed);
        let (mut all, mut synced) = (Vec::new(), 0);
        for index in 0..random.below(30) {
            let records = [record(index), record(index + 1)];
            all.extend(records.clone());
            let durable = if random.below(2) == 0 { Durable::Now } else { Durable::Later };
            match random.below(8) {
                0 => file.replace(&all).expect("the disk is fine"),
                _ => file.append(&records, durable).expect("the disk is fine"),
            }
            let is_synced = disk.calls() > 0 && durable == Durable::Now;
            synced = if is_synced { all.len() } else { synced };
        }
        disk.crash(seed);
        assert!(file.append(&[record(1)], Durable::Now).is_err(), "the process is gone");
        let (_, left) = LogFile::open(&folder, node(), &|_| {})
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(left.len() >= synced && all.starts_with(&left), "seed {seed}");
    }
}

#[test]
fn nothing_is_written_behind_an_error() {
    let disk = SimulatedDisk::new();
    let folder = folder(&disk);
    let (mut file, _) = LogFile::open(&folder, node(), &|_| {}).expect("a file is made");
    disk.fail_at(disk.calls(), persist::storage::simulated::Fault::Error(5));
    let error = file.append(&[record(0)], Durable::Now).expect_err("the disk fails");
    assert_eq!(error.to_string(), "map/map.log: Input/output error");
    let before = disk.calls();
    let error = file.append(&[record(0)], Durable::Now).expect_err("nobody knows what is there");
    assert_eq!(error.to_string(), "map/map.log: an earlier write failed");
    assert!(file.replace(&[]).is_err());
    assert_eq!(disk.calls(), before, "the disk was not asked again");
    let left = disk.list(Path::new("map")).expect("a folder is there");
    assert_eq!(left.len(), 1, "{left:?}");
}
