//! Logs that are run by several threads: all is as if one had run them.

use std::path::Path;

use base::UnixMillis;
use base::random::Random;
use engine::keyspace_settings::set_replays;
use engine::runtime::background::{visiting, wait_for};
use keyspace::{Acquisition, Tx};
use persist::aof::{AofError, UnitReader};
use persist::dump::dump;
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{OpenMode, Storage};
use proto::OwnedArgs;

use super::LANE;
use crate::aof::options_within;
use crate::durability::Durability;
use crate::replay::partitioner::{Partitioner, Segment};
use crate::replay::pipeline::Pipeline;
use crate::replay::read_ahead::{ReplayStop, SourceEnd, run_each};
use crate::testing::durability;

/// Logs that are tried.
const LOGS: u64 = 150;

/// Commands of each, beside those of transactions.
const COMMANDS: u64 = 400;

/// Few keys, so that what is run in another order shows.
const KEYS: u64 = 24;

const DATABASES: u64 = 3;

/// An entry: database, key, value, deadline, what memcached's clients noted, and whether it stays.
type Item = (usize, Vec<u8>, Vec<u8>, Option<UnixMillis>, (u32, bool));

/// What is left of a log: why it was refused, where it could not be read on, and the data.
#[derive(Debug, PartialEq)]
struct Outcome {
    refusal: Option<ReplayStop>,
    damage: Option<String>,
    items: Vec<Item>,
}

fn data_of(server: &'static Durability) -> Vec<Item> {
    let keys: Vec<Vec<u8>> =
        (0..KEYS).map(key).chain(["behind".to_owned()]).map(String::into_bytes).collect();
    let mut items = Vec::new();
    for database in 0..DATABASES as usize {
        visiting(server.keyspace, LANE, database, |tx| {
            for key in &keys {
                tx.visit_keys([key.as_slice()])?;
                if let Some(entry) = tx.peek(key).unwrap() {
                    let (value, flags) = (dump(entry, false), entry.notes().flags);
                    let noted = (flags, entry.is_sticky());
                    items.push((database, key.clone(), value, entry.deadline(), noted));
                }
            }
            Ok(())
        })
        .unwrap();
    }
    items
}

/// Runs a log by so many threads, or on a transaction that has the world.
fn run(server: &'static Durability, log: &[u8], shares: usize, is_held: bool) -> Outcome {
    let disk = SimulatedDisk::new();
    disk.put(Path::new("log"), log);
    let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
    let held = is_held.then(|| {
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        Tx::begin(world, options_within(server, LANE))
    });
    let mut pipeline = Pipeline::new(server, shares, held, |_| ());
    let (reader, partitioner) = (UnitReader::new(&mut *file), Partitioner::new(server, shares));
    let read = run_each(reader, partitioner, |segments, end| pipeline.run(segments, end));
    let (refusal, damage) = match read {
        Ok(SourceEnd { end, .. }) => (pipeline.finish().err(), end.err()),
        Err(ReplayStop::Malformed(why)) => {
            // The pipeline may have the world.
            drop(pipeline);
            (Some(ReplayStop::Malformed(why)), None)
        }
        Err(stopped) => panic!("{stopped:?}"),
    };
    let damage = damage.map(|error: AofError| error.to_string());
    Outcome { refusal, damage, items: data_of(server) }
}

fn push(log: &mut Vec<u8>, line: &str) {
    let args: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
    args.as_args().encode(log);
}

fn key(number: u64) -> String {
    format!("key:{number}")
}

/// A command as a log may hold it, sound or not.
fn command(random: &mut Random) -> String {
    let (one, other) = (key(random.below(KEYS)), key(random.below(KEYS)));
    let (number, database) = (random.below(100), random.below(DATABASES));
    match random.below(40) {
        0..8 => format!("SET {one} {number}"),
        8..12 => format!("APPEND {one} {number}"),
        12..15 => format!("INCRBY {one} {number}"),
        15..18 => format!("RPUSH {one} {number} x"),
        18..20 => format!("LPOP {one}"),
        20 => format!("SADD {one} {number} x y"),
        21 => format!("HSET {one} f{} {number}", number % 9),
        22 => format!("ZINCRBY {one} 1 {}", number % 9),
        23 => format!("DEL {one}"),
        24 => format!("PEXPIREAT {one} 410244480000{}", number % 10),
        // Long ago. The key stays, until the log says that it goes.
        25 => format!("PEXPIREAT {one} 1000"),
        26 => format!("PERSIST {one}"),
        27 => format!("MOVE {one} {database}"),
        28 => format!("MSET {one} {number} {other} y"),
        29 => format!("RENAME {one} {other}"),
        30 => format!("COPY {one} {other} DB {database} REPLACE"),
        31 => format!("ECHO memcached-flags={number}"),
        32..35 => format!("SELECT {database}"),
        35 => format!("SUNIONSTORE {one} {one} {other}"),
        36 => format!("EVAL redis.call('APPEND',KEYS[1],'{number}') 1 {one}"),
        37 => format!("LMOVE {one} {other} LEFT RIGHT"),
        38 => format!("SWAPDB {database} 1"),
        _ => match number {
            0 => "FLUSHDB".to_owned(),
            1 => "SELECT nowhere".to_owned(),
            2..30 => format!("ECHO apus-stick={one}"),
            30..40 => format!("ECHO apus-unstick={one}"),
            _ => format!("SETRANGE {one} {number} z"),
        },
    }
}

/// A log, cut off anywhere or with an end that no command is, now and then.
fn random_log(random: &mut Random) -> Vec<u8> {
    let mut log = Vec::new();
    push(&mut log, "FLUSHALL");
    // Most logs hold little that concerns all keys.
    let is_calm = random.below(2) == 0;
    let draw = |random: &mut Random| loop {
        let line = command(random);
        let is_loud = ["SWAPDB", "FLUSHDB", "EVAL", "RENAME", "LMOVE", "SUNION", "MSET", "COPY"];
        if !is_calm || !is_loud.iter().any(|name| line.starts_with(name)) {
            return line;
        }
    };
    for _ in 0..COMMANDS {
        if random.below(20) == 0 {
            push(&mut log, "MULTI");
            for _ in 0..random.below(4) {
                push(&mut log, &draw(random));
            }
            push(&mut log, "EXEC");
        } else {
            push(&mut log, &draw(random));
        }
    }
    match random.below(6) {
        0 => log.truncate(random.below(log.len() as u64) as usize),
        1 => push(&mut log, "NOSUCHCOMMAND x"),
        2 => push(&mut log, "SET too-few"),
        3 => log.extend_from_slice(b"*1\r\n$-7\r\n"),
        _ => {}
    }
    if random.below(4) == 0 {
        push(&mut log, "SET behind it");
    }
    log
}

#[test]
fn a_log_that_several_threads_run_is_as_if_one_had_run_it() {
    let server = durability();
    server.config.set_many(&[b"aof-load-errors", b"ignore"], true).unwrap();
    set_replays(server, true);
    let mut damaged = 0;
    for seed in 0..LOGS {
        let log = random_log(&mut Random::from_seed(seed));
        let alone = run(server, &log, 1, false);
        damaged += usize::from(alone.refusal.is_some() || alone.damage.is_some());
        for (shares, is_held) in [(2, false), (3, false), (1, true)] {
            let other = run(server, &log, shares, is_held);
            let how = format!("log {seed}, {shares} threads, with the world: {is_held}");
            assert!(alone == other, "{how}:\n{alone:?}\n{other:?}");
        }
    }
    assert!(damaged > 0 && damaged < LOGS as usize, "{damaged} of {LOGS}");
}

/// What a log of these commands is sorted into: how many are run together, and how many apart.
fn sorted(server: &'static Durability, lines: &[String]) -> Vec<(usize, usize)> {
    let mut log = Vec::new();
    lines.iter().for_each(|line| push(&mut log, line));
    let disk = SimulatedDisk::new();
    disk.put(Path::new("log"), &log);
    let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
    let mut reader = UnitReader::new(&mut *file);
    let mut partitioner = Partitioner::new(server, 2);
    while let Some(unit) = reader.next_unit().unwrap() {
        partitioner.add(unit);
    }
    let count = |segment| match segment {
        Segment::Serial(tasks) => (tasks.len(), 0),
        Segment::Parallel(shares) => (0, shares.iter().map(Vec::len).sum()),
    };
    partitioner.take().into_iter().map(count).collect()
}

#[test]
fn what_touches_one_key_is_run_apart_and_the_rest_where_it_stands() {
    let server = durability();
    let sets = |from: usize| (from..from + 50).map(|number| format!("SET key:{number} x"));
    let others = ["SWAPDB 0 1", "FLUSHALL", "EVAL return 1 0", "RANDOMKEY", "SORT key:1 BY x*"];
    for other in others {
        let lines: Vec<String> =
            sets(0).chain([other.to_owned(), "SELECT 2".to_owned()]).chain(sets(50)).collect();
        assert_eq!(sorted(server, &lines), [(0, 50), (1, 0), (0, 50)], "{other}");
    }
    // What stands between two of these is not worth it.
    let lines = ["FLUSHALL", "SET a 1", "SELECT 1", "SET b 1", "FLUSHDB"].map(str::to_owned);
    assert_eq!(sorted(server, &lines), [(4, 0)]);
}
