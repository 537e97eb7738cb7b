//! Full syncs in all modes: whole ones, broken ones, and such as are none.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base::random::Random;
use engine::keyspace_settings::set_replica;
use engine::runtime::background::wait_for;
use keyspace::{Acquisition, Count, PARTITIONS, PartitionIndex, Tx, TxOptions};
use persist::aof::manifest::BaseForm;
use persist::rdb::file::{ChunkWriter, FileWriter, Options};
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{Claim, Claimed, File, OpenMode, Storage, write_all};
use proto::OwnedArgs;

use super::{ReceiveMode, ReceiveReport, SnapshotOrigin, SnapshotReceiver};
use crate::aof::{AofState, flush};
use crate::durability::Durability;
use crate::save::SaveMode;
use crate::testing::items::data_of;
use crate::testing::{await_end, durability_on, end, new_disk, start};

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const MODES: [ReceiveMode; 4] = [
    ReceiveMode::File,
    ReceiveMode::Flush,
    ReceiveMode::Swap { serves: true },
    ReceiveMode::Swap { serves: false },
];

const NOTES: [(&str, &str); 3] = [
    ("repl-stream-db", "3"),
    ("repl-id", "0123456789abcdef0123456789abcdef01234567"),
    ("repl-offset", "4711"),
];

fn words(line: &str) -> OwnedArgs {
    line.split(' ').map(str::as_bytes).collect()
}

fn ask(server: &'static Durability, database: usize, line: &str) -> String {
    let reply = engine::testing::run_together(server, database, &[words(line)]);
    String::from_utf8_lossy(&reply).into_owned()
}

/// A server with data.
fn primary() -> &'static Durability {
    let server = durability_on(Box::new(new_disk()));
    for number in 0..500 {
        ask(server, number % 4, &format!("SET key:{number} {number}"));
        ask(server, number % 4, &format!("RPUSH list:{} {number} x", number % 7));
        ask(server, number % 4, &format!("HSET hash:{} f{number} {number}", number % 7));
    }
    ask(server, 1, "PEXPIRE key:1 100000000");
    server
}

/// What a primary sends.
fn snapshot_of(server: &'static Durability) -> Vec<u8> {
    snapshot_with(server, &NOTES)
}

fn snapshot_with(server: &'static Durability, notes: &[(&str, &str)]) -> Vec<u8> {
    let (disk, path) = (new_disk(), Path::new("sent.rdb"));
    let options = Options {
        form: BaseForm::Snapshot,
        compresses: false,
        sums: true,
        access: None,
        version: 0,
        syncs: false,
    };
    let file = disk.open(path, OpenMode::Create).unwrap();
    let mut writer = FileWriter::begin(file, notes, options.clone()).unwrap();
    let mut chunk = ChunkWriter::new(options);
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    let mut tx = Tx::begin(world, TxOptions { heavy: true, ..TxOptions::internal(0, 0) });
    for database in 0..server.keyspace.database_count() {
        tx.switch_database(database);
        chunk.select(database);
        for partition in 0..PARTITIONS as PartitionIndex {
            tx.walk(partition, 0, usize::MAX, |entry| chunk.entry(entry));
        }
    }
    writer.push(&chunk.finish()).unwrap();
    writer.finish().unwrap();
    read(&disk, path).unwrap()
}

fn read(disk: &SimulatedDisk, path: &Path) -> Option<Vec<u8>> {
    let mut file: Box<dyn File> = disk.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.length().unwrap() as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += file.read(&mut bytes[at..]).unwrap();
    }
    Some(bytes)
}

/// A replica with other data, which has begun to take data in.
struct Rig {
    disk: SimulatedDisk,
    server: &'static Durability,
    receiver: Option<SnapshotReceiver>,
    reports: Receiver<ReceiveReport>,
}

impl Rig {
    fn new(mode: ReceiveMode) -> Self {
        let disk = new_disk();
        Self::on(durability_on(Box::new(disk.clone())), disk, mode)
    }

    fn on(server: &'static Durability, disk: SimulatedDisk, mode: ReceiveMode) -> Self {
        ask(server, 0, "SET old 1");
        ask(server, 0, "SET key:0 old");
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        set_replica(server, true);
        drop(Tx::begin(world, TxOptions::internal(0, 0)));
        let (sender, reports) = channel();
        let report = move |report| _ = sender.send(report);
        let receiver = SnapshotReceiver::begin(server, mode, None, report).unwrap();
        Self { disk, server, receiver: Some(receiver), reports }
    }

    fn push(&self, bytes: &[u8], random: &mut Random) {
        let receiver = self.receiver.as_ref().unwrap();
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = rest.len().min(1 + random.below(3000) as usize);
            receiver.push(&rest[..count]);
            rest = &rest[count..];
        }
    }

    /// What became of all that was pushed.
    fn finish(&self) -> ReceiveReport {
        self.receiver.as_ref().unwrap().finish();
        let report = self.reports.recv_timeout(PATIENCE).expect("something is told");
        await_end("a load", || !self.server.gates.loading.is_on());
        report
    }

    fn has_old(&self) -> bool {
        ask(self.server, 0, "MGET old key:0") == "*2\r\n$1\r\n1\r\n$3\r\nold\r\n"
    }

    fn is_empty(&self) -> bool {
        data_of(self.server).is_empty()
    }

    /// Files beside the snapshot and the log.
    fn leftovers(&self) -> Vec<String> {
        let here = std::env::current_dir().unwrap();
        let names = self.disk.list(&here).unwrap();
        let names = names.into_iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("temp-")).collect()
    }
}

#[test]
fn what_a_primary_has_takes_the_place_of_what_was_there() {
    let primary = primary();
    let (sent, theirs) = (snapshot_of(primary), data_of(primary));
    let origin = SnapshotOrigin {
        id: Some(NOTES[1].1.into()),
        offset: Some(4711),
        database: Some(3),
        ..SnapshotOrigin::default()
    };
    for (mode, seed) in MODES.into_iter().flat_map(|mode| (0..3).map(move |seed| (mode, seed))) {
        let rig = Rig::new(mode);
        rig.push(&sent, &mut Random::from_seed(seed));
        assert_eq!(rig.finish(), ReceiveReport::Loaded(origin.clone()), "{mode:?}");
        assert!(data_of(rig.server) == theirs, "{mode:?}");
        assert_eq!(rig.server.journal.database(), 3);
        assert_eq!(rig.leftovers(), Vec::<String>::new());
        let kept = read(&rig.disk, Path::new("dump.rdb"));
        assert_eq!(kept.is_some_and(|kept| kept == sent), mode == ReceiveMode::File);
    }
}

#[test]
fn a_place_in_a_stream_that_cannot_be_is_none() {
    let primary = primary();
    for (database, offset) in [("16", "7"), ("4294967296", "7"), ("3", "9223372036854775807")] {
        let notes = [("repl-stream-db", database), NOTES[1], ("repl-offset", offset)];
        let sent = snapshot_with(primary, &notes);
        for mode in MODES {
            let rig = Rig::new(mode);
            rig.push(&sent, &mut Random::from_seed(1));
            let ReceiveReport::Loaded(origin) = rig.finish() else { panic!("{mode:?}") };
            assert_eq!(origin.history(), None, "{mode:?}");
            assert_eq!(rig.server.journal.database(), if database == "3" { 3 } else { 0 });
        }
    }
}

#[test]
fn what_no_file_has_is_to_be_saved() {
    let sent = snapshot_of(primary());
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.push(&sent, &mut Random::from_seed(1));
        assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
        let unsaved = rig.server.saves.status(rig.server).unsaved;
        assert_eq!(unsaved == 0, mode == ReceiveMode::File, "{mode:?}: {unsaved}");
    }
}

/// A save that ends as the file gets its name, whose own file takes the place at once.
struct Racing(SimulatedDisk);

impl Storage for Racing {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)?;
        let saved = Path::new("saved.rdb");
        write_all(&mut *self.0.open(saved, OpenMode::Create)?, b"not what came")?;
        self.0.rename(saved, to)
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn File>> {
        self.0.open(path, how)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(directory)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.0.make_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.sync_directory(path)
    }

    fn claim(&self, path: &Path) -> Result<Claim, Claimed> {
        self.0.claim(path)
    }
}

#[test]
fn what_came_is_loaded_whatever_has_its_name_by_then() {
    let primary = primary();
    let (sent, theirs) = (snapshot_of(primary), data_of(primary));
    let disk = new_disk();
    let server = durability_on(Box::new(Racing(disk.clone())));
    let rig = Rig::on(server, disk, ReceiveMode::File);
    rig.push(&sent, &mut Random::from_seed(1));
    assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
    assert!(data_of(server) == theirs);
}

#[test]
fn what_is_no_snapshot_leaves_what_was_there_or_nothing() {
    let sent = snapshot_of(primary());
    let mut newer = sent.clone();
    newer[5..9].copy_from_slice(b"0079");
    for mode in MODES {
        let heads: [&[u8]; 4] = [b"", b"REDIS", b"HTTP/1.1 200 OK", &newer];
        for head in heads {
            let rig = Rig::new(mode);
            rig.push(head, &mut Random::from_seed(1));
            match (mode, rig.finish()) {
                (ReceiveMode::File | ReceiveMode::Swap { .. }, ReceiveReport::Refused(why)) => {
                    assert!(rig.has_old() && !why.is_empty(), "{why}");
                }
                (ReceiveMode::Flush, ReceiveReport::Lost(why)) => {
                    assert!(rig.is_empty() && !why.is_empty(), "{why}");
                }
                (mode, other) => panic!("{mode:?}: {other:?}"),
            }
            assert_eq!(rig.leftovers(), Vec::<String>::new());
        }
    }
}

#[test]
fn what_is_damaged_is_served_by_nobody() {
    let sent = snapshot_of(primary());
    let random = &mut Random::from_seed(7);
    for number in 0..60 {
        let (mode, mut bytes) = (MODES[number % MODES.len()], sent.clone());
        let place = 9 + random.below(bytes.len() as u64 - 9) as usize;
        if number % 3 == 0 {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 1 << random.below(8);
        }
        let rig = Rig::new(mode);
        rig.push(&bytes, random);
        let (why, is_as_promised) = match rig.finish() {
            ReceiveReport::Lost(why) => (why, rig.is_empty()),
            ReceiveReport::Refused(why) => (why, rig.has_old()),
            ReceiveReport::Loaded(_) => panic!("{mode:?} at {place}"),
        };
        assert!(!why.is_empty() && is_as_promised, "{mode:?} at {place}: {why}");
        assert_eq!(rig.server.keyspace.counters().total(Count::Evicted), 0);
        assert_eq!(rig.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_transfer_that_is_broken_off_ends_without_a_word() {
    let sent = snapshot_of(primary());
    for mode in MODES {
        let mut rig = Rig::new(mode);
        rig.push(&sent[..sent.len() / 2], &mut Random::from_seed(3));
        rig.receiver = None;
        // The next receiver has to wait for the end.
        let (sender, next) = channel();
        let report = move |report| _ = sender.send(report);
        let second = SnapshotReceiver::begin(rig.server, ReceiveMode::File, None, report).unwrap();
        second.finish();
        let refused = next.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(refused, ReceiveReport::Refused(_)), "{refused:?}");
        assert!(rig.reports.try_recv().is_err());
        assert!(!rig.server.gates.loading.is_on());
        match mode {
            // The load may not even have begun.
            ReceiveMode::Flush => assert!(rig.is_empty() || rig.has_old()),
            ReceiveMode::File | ReceiveMode::Swap { .. } => assert!(rig.has_old()),
        }
        assert_eq!(rig.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_transfer_that_is_given_up_at_once_takes_nothing_from_the_next() {
    let primary = primary();
    let (sent, theirs) = (snapshot_of(primary), data_of(primary));
    for mode in MODES.into_iter().cycle().take(40) {
        let rig = Rig::new(mode);
        for _ in 0..3 {
            let given_up = SnapshotReceiver::begin(rig.server, ReceiveMode::Flush, None, |_| ());
            drop(given_up.unwrap());
        }
        rig.push(&sent, &mut Random::from_seed(3));
        assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
        let last = SnapshotReceiver::begin(rig.server, ReceiveMode::File, None, |_| ());
        drop(last.unwrap());
        assert!(data_of(rig.server) == theirs, "{mode:?}");
    }
}

#[test]
fn the_log_begins_anew_behind_the_load() {
    let primary = primary();
    let (sent, theirs) = (snapshot_of(primary), data_of(primary));
    for mode in MODES {
        let disk = new_disk();
        let rig = Rig::on(start(&disk).unwrap(), disk.clone(), mode);
        rig.push(&sent, &mut Random::from_seed(5));
        assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
        await_end("a log", || rig.server.aof.phase() == AofState::On);
        let stream = encoded(&["SET behind 1"]);
        rig.server.journal.append_stream(&stream, 3);
        assert!(flush(rig.server));
        end(rig.server);
        let again = start(&disk).unwrap();
        assert_eq!(ask(again, 3, "GET behind"), "$1\r\n1\r\n");
        ask(again, 3, "DEL behind");
        assert!(data_of(again) == theirs, "{mode:?}");
        end(again);
    }
}

#[test]
fn a_log_whose_data_were_replaced_in_vain_is_as_it_was() {
    let sent = snapshot_of(primary());
    let disk = new_disk();
    let rig = Rig::on(start(&disk).unwrap(), disk.clone(), ReceiveMode::Flush);
    rig.push(&sent[..sent.len() - 20], &mut Random::from_seed(5));
    assert!(matches!(rig.finish(), ReceiveReport::Lost(_)));
    assert!(rig.is_empty());
    end(rig.server);
    let again = start(&disk).unwrap();
    assert_eq!(ask(again, 0, "EXISTS old"), ":1\r\n");
    end(again);
}

#[test]
fn the_old_data_are_read_while_others_are_loaded_beside_them() {
    let primary = primary();
    // What is read at once is large.
    for number in 0..3000 {
        let value = format!("{number:01000}").replace('0', &format!("{:x}", number % 16));
        ask(primary, 0, &format!("SETRANGE large:{number} {} {value}", number % 9));
    }
    let (sent, theirs) = (snapshot_of(primary), data_of(primary));
    let (first, rest) = sent.split_at(sent.len() - 100);
    for serves in [true, false] {
        let rig = Rig::new(ReceiveMode::Swap { serves });
        rig.push(first, &mut Random::from_seed(2));
        let beside = |it| rig.server.keyspace.len(rig.server.keyspace.shadow(it));
        await_end("what is loaded beside", || beside(0) > 0);
        assert!(rig.has_old());
        assert_eq!(ask(rig.server, 0, "DBSIZE"), ":2\r\n");
        assert_eq!(rig.server.gates.loading.is_on(), !serves);
        assert_eq!(rig.server.gates.loading.is_beside(), serves);
        if serves {
            // A snapshot has what is served.
            let begun = rig.server.saves.begin(rig.server, SaveMode::Background, None);
            assert!(begun.is_ok());
            rig.server.saves.wait();
            let path = std::env::current_dir().unwrap().join("dump.rdb");
            let saved = read(&rig.disk, &path).unwrap();
            assert!(saved.len() < 400, "{}", saved.len());
        }
        rig.push(rest, &mut Random::from_seed(2));
        assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
        assert!(data_of(rig.server) == theirs);
        assert!((0..16).all(|it| beside(it) == 0));
    }
}

#[test]
fn files_of_syncs_are_removed_where_nothing_is_kept_on_disk() {
    let sent = snapshot_of(primary());
    for (save, is_kept) in [("", false), ("3600 1", true)] {
        let disk = new_disk();
        let server = durability_on(Box::new(disk.clone()));
        let pairs: [&[u8]; 4] = [b"rdb-del-sync-files", b"yes", b"save", save.as_bytes()];
        server.config.set_many(&pairs, true).unwrap();
        let rig = Rig::on(server, disk, ReceiveMode::File);
        rig.push(&sent, &mut Random::from_seed(5));
        assert!(matches!(rig.finish(), ReceiveReport::Loaded(_)));
        assert_eq!(read(&rig.disk, Path::new("dump.rdb")).is_some(), is_kept);
    }
}

fn encoded(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| words(line).as_args().encode(&mut bytes));
    bytes
}
