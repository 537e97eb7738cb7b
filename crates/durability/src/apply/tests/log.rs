//! A replica's append-only file has the stream as it came, and each of its files is loaded in
//! the database that the primary had selected.

use std::collections::{BTreeMap, BTreeSet};

use base::random::Random;
use engine::journal::StreamHistory;
use replication::history::{SavedHistory, SecondId};
use replication::ids::ReplicationId;

use super::super::units::{StreamItem, StreamUnits};
use super::faults::FAILING;
use super::{Rig, ask, encoded, values};
use crate::aof::{begin_rewrite, flush};
use crate::durability::Durability;
use crate::replay::partitioner::Partitioner;
use crate::testing::{HERE, await_end, durability_on, end, new_disk, start, start_log};

#[test]
fn an_increment_that_begins_within_a_stream_begins_in_its_database() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
    rig.push_in(2, &encoded(&["SET a 1", "PING", "REPLCONF GETACK *", "PUBLISH c m"]));
    rig.settle().unwrap();
    begin_rewrite(rig.server);
    await_end("a rewrite", || !rig.server.aof.rewrite.status(0).is_underway);
    rig.push_in(2, &encoded(&["SET b 1", "MULTI", "SET c 1", "SELECT 1", "SET d 1", "EXEC"]));
    rig.push_in(1, &encoded(&["SET e 1"]));
    rig.settle().unwrap();
    assert!(flush(rig.server));
    let first = rig.server;
    drop(rig);
    end(first);
    let again = start(&disk).unwrap();
    for (database, keys, count) in [(2, "a b c", 3), (1, "d e", 2), (0, "a b c d e", 0)] {
        assert_eq!(ask(again, database, &format!("EXISTS {keys}")), format!(":{count}\r\n"));
    }
    end(again);
}

/// A log with a command that fails would stop the next start.
#[test]
fn a_log_has_nothing_of_a_stream_that_failed() {
    for (lines, _, expected) in FAILING {
        let disk = new_disk();
        let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
        rig.push(&[&["SET a 1", "SET other 1"], *lines, &["INCR other", "PING"]].concat());
        rig.settle().unwrap();
        assert!(flush(rig.server));
        let first = rig.server;
        drop(rig);
        end(first);
        let again = start(&disk).unwrap_or_else(|why| panic!("{lines:?}: {why}"));
        assert_eq!(values(again, "a b other"), format!("{expected} 2"), "{lines:?}");
        end(again);
    }
}

/// Wherever a kill ends the log, the offset that a start tells is of the data which are there.
#[test]
fn a_log_that_is_cut_off_anywhere_tells_the_offset_of_what_it_has() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 1000);
    let shift = 1000 - i64::try_from(rig.server.journal.end()).unwrap();
    let id = ReplicationId::from_random([7; 20]);
    let second = Some(SecondId { id: ReplicationId::from_random([8; 20]), end: 900 });
    rig.server.journal.set_history(Some(StreamHistory { id, shift, second }));
    // What `n` is behind each offset.
    let mut counts = BTreeMap::from([(1000, 0)]);
    for (number, lines) in FAILING.iter().map(|(lines, ..)| lines).enumerate() {
        rig.push(&[&["SELECT 0", "SET a 1"], *lines].concat());
        rig.push(&["MULTI", "INCR n", "SET other 1", "EXEC"]);
        let database = if number % 2 == 0 { 0 } else { 3 };
        rig.push(&[&*format!("SELECT {database}")]);
        counts.insert(rig.end, number + 1);
        rig.settle().unwrap();
        assert!(flush(rig.server));
    }
    let (first, end_of_stream) = (rig.server, rig.end);
    drop(rig);
    end(first);
    let path = std::env::current_dir().unwrap().join("appendonlydir/appendonly.aof.1.incr.aof");
    let bytes = persist::storage::read_whole(&disk, &path).unwrap();
    let mut told = BTreeSet::new();
    for length in (0..=bytes.len()).rev().step_by(7) {
        disk.put(&path, &bytes[..length]);
        let server = durability_on(Box::new(disk.clone()));
        let history = start_log(server, HERE).unwrap();
        if let Some(SavedHistory { offset, database, .. }) = history {
            let (_, before) = counts.range(..=offset).next_back().unwrap();
            let after = counts.range(offset..).next().unwrap().1;
            let count: usize = values(server, "n").parse().unwrap_or(0);
            assert!((*before..=*after).contains(&count), "{length}: {offset}, {count}");
            assert_eq!(history, Some(SavedHistory { id, offset, database, second }));
            if let Some(exact) = counts.get(&offset) {
                let selected = if *exact > 0 && *exact % 2 == 0 { 3 } else { 0 };
                assert_eq!((count, database), (*exact, selected));
            }
            told.insert(offset);
        }
        end(server);
    }
    assert!(told.contains(&end_of_stream) && told.len() > FAILING.len(), "{told:?}");
}

#[test]
fn a_start_as_a_primary_turns_to_the_first_database() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
    rig.push(&["SELECT 3", "SET a 1"]);
    rig.settle().unwrap();
    assert!(flush(rig.server));
    let first = rig.server;
    drop(rig);
    end(first);
    let second = start(&disk).unwrap();
    assert_eq!(ask(second, 0, "SET b 1"), "+OK\r\n");
    assert!(flush(second));
    end(second);
    let third = start(&disk).unwrap();
    assert_eq!([0, 3].map(|it| ask(third, it, "EXISTS a b")), [":1\r\n", ":1\r\n"]);
    assert_eq!(ask(third, 0, "EXISTS b"), ":1\r\n");
    end(third);
}

/// Bytes of a stream: units, what does nothing before and among them, and what comes of a few bytes
/// that are others.
fn any_units(random: &mut Random) -> Vec<u8> {
    const GAPS: [&str; 7] = ["", "", "\r\n", "\n", "*0\r\n", "*-1\r\n", "*0\r\n\r\n*0\r\n"];
    const COMMANDS: [&str; 8] =
        ["INCR n", "SET a 1", "LPUSH a 1", "DEL a", "SELECT 3", "SELECT 0", "PING", "NOSUCH a"];
    const ENDS: [&str; 3] = ["EXEC", "EXEC", "DISCARD"];
    let mut bytes = Vec::new();
    let mut say = |random: &mut Random, line: &str| {
        bytes.extend_from_slice(GAPS[random.below(GAPS.len() as u64) as usize].as_bytes());
        bytes.extend(encoded(&[line]));
    };
    let is_transaction = random.below(2) == 0;
    if is_transaction {
        say(random, "MULTI");
    }
    for _ in 0..=random.below(3) {
        let line = COMMANDS[random.below(COMMANDS.len() as u64) as usize];
        say(random, line);
    }
    if is_transaction {
        let line = ENDS[random.below(ENDS.len() as u64) as usize];
        say(random, line);
    }
    bytes.extend_from_slice(GAPS[random.below(GAPS.len() as u64) as usize].as_bytes());
    if random.below(3) == 0 {
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] = b"*$01\r\nA"[random.below(7) as usize];
    }
    bytes
}

/// The database behind these bytes, if they are units; selected before them is this one.
fn database_behind(server: &'static Durability, bytes: &[u8], before: usize) -> Option<usize> {
    let mut partitioner = Partitioner::new(server, 1);
    partitioner.select(before);
    let mut units = StreamUnits::new(bytes, 0);
    loop {
        match units.next_unit().ok()? {
            Some(StreamItem::Command(args, place)) => {
                partitioner.add_within(args, place, 0..0);
            }
            Some(StreamItem::Transaction(unit, _)) => partitioner.add(unit),
            Some(StreamItem::Nothing(_)) => {}
            None => return Some(partitioner.database()),
        }
    }
}

/// Whatever is a stream, the log of it can be read, and stands where the stream does.
#[test]
fn a_log_of_any_stream_is_read_up_to_its_end() {
    let mut random = Random::from_seed(26);
    for _ in 0..12 {
        let disk = new_disk();
        let mut rig = Rig::on(start(&disk).unwrap(), 2, 1000);
        let shift = 1000 - i64::try_from(rig.server.journal.end()).unwrap();
        let id = ReplicationId::from_random([7; 20]);
        rig.server.journal.set_history(Some(StreamHistory { id, shift, second: None }));
        let mut database = 0;
        for _ in 0..random.below(40) {
            let bytes = any_units(&mut random);
            let Some(behind) = database_behind(rig.server, &bytes, database) else { continue };
            rig.push_in(database, &bytes);
            database = behind;
            if random.below(3) == 0 {
                rig.settle().unwrap();
            }
        }
        rig.settle().unwrap();
        assert!(flush(rig.server));
        let shown = |server| {
            [0, 3].map(|it| ["DBSIZE", "GET n", "GET a"].map(|line| ask(server, it, line)))
        };
        let (first, end_of_stream, expected) = (rig.server, rig.end, shown(rig.server));
        drop(rig);
        end(first);
        let again = durability_on(Box::new(disk.clone()));
        let history = start_log(again, HERE).unwrap();
        assert_eq!(
            history.map(|it| (it.offset, it.database as usize)),
            Some((end_of_stream, database))
        );
        assert_eq!(shown(again), expected);
        end(again);
    }
}
