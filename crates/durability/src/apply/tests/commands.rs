//! Random commands of many families: what a replica has is what its primary has.

use base::random::Random;
use engine::journal::DurabilityLevel;
use engine::journal::journal_copy::JournalCopy;
use proto::OwnedArgs;

use super::{Rig, encoded, ends_of, words};
use crate::durability::Durability;
use crate::testing::items::{Item, data_of};
use crate::testing::{durability_on, new_disk};

/// Streams that are tried.
const STREAMS: u64 = 40;

/// Units of each.
const UNITS: u64 = 300;

const KEYS: u64 = 20;

const DATABASES: u64 = 3;

/// A command for a stream.
fn stream_command(random: &mut Random, x: &str, f: u64, n: u64) -> String {
    match random.below(8) {
        0..3 => format!("XADD {x} * f {n}"),
        3 => format!("XADD {x} MAXLEN ~ 5 * f {n}"),
        4 => format!("XGROUP CREATE {x} g{f} 0 MKSTREAM"),
        5 => format!("XREADGROUP GROUP g{f} c COUNT 2 STREAMS {x} >"),
        6 => format!("XAUTOCLAIM {x} g{f} other 0 0 COUNT 1"),
        _ => format!("XTRIM {x} MAXLEN {f}"),
    }
}

/// A command that a client may send.
fn command(random: &mut Random) -> String {
    let key = |random: &mut Random, kind: &str| format!("{kind}:{}", random.below(KEYS));
    let mut name = |kind: &str| key(random, kind);
    let (s, t, l, m, h) = (name("s"), name("s"), name("l"), name("l"), name("h"));
    let (set, other, z, y, x) = (name("set"), name("set"), name("z"), name("z"), name("x"));
    let (any, p) = (name("s"), name("p"));
    let (n, f, d) = (random.below(100), random.below(9), random.below(DATABASES));
    if random.below(3) == 0 {
        return stream_command(random, &x, f, n);
    }
    match random.below(68) {
        0..6 => format!("SET {s} {n}"),
        6 => format!("SET {s} {n} EX 10000"),
        7 => format!("SET {s} {n} NX GET"),
        8 => format!("APPEND {s} {n}"),
        9 => format!("INCRBYFLOAT {s} 0.5"),
        10 => format!("SETRANGE {s} {f} zz"),
        11 => format!("GETEX {s} PX 5000000"),
        12 => format!("GETDEL {s}"),
        13 => format!("MSET {s} {n} {t} {n}"),
        14 => format!("EXPIRE {s} 10000"),
        15 => format!("PEXPIREAT {l} 410244480000{f}"),
        16 => format!("PERSIST {s}"),
        17 => format!("DEL {s} {l} {h}"),
        18 => format!("RENAME {s} {t}"),
        19 => format!("COPY {z} {y} DB {d} REPLACE"),
        20 => format!("MOVE {s} {d}"),
        21 => format!("SETBIT {s} {n} 1"),
        22 => format!("BITOP XOR {any} {s} {t}"),
        23..27 => format!("RPUSH {l} {n} {f} x"),
        27 => format!("LPUSH {l} {n}"),
        28 => format!("LPOP {l} 2"),
        29 => format!("LMOVE {l} {m} LEFT RIGHT"),
        30 => format!("LINSERT {l} BEFORE x {n}"),
        31 => format!("LTRIM {l} 1 20"),
        32..35 => format!("HSET {h} f{f} {n} g{n} y"),
        35 => format!("HINCRBYFLOAT {h} f{f} 1.25"),
        36 => format!("HDEL {h} f{f}"),
        37 => format!("HPEXPIRE {h} 10000000 FIELDS 2 f{f} g{n}"),
        38 => format!("HPERSIST {h} FIELDS 1 f{f}"),
        39 => format!("HSETEX {h} EX 10000 FIELDS 1 f{f} {n}"),
        40 => format!("HGETDEL {h} FIELDS 1 f{f}"),
        41..45 => format!("SADD {set} {n} {f} x"),
        45 => format!("SPOP {set} 2"),
        46 => format!("SMOVE {set} {other} {f}"),
        47 => format!("SUNIONSTORE {set} {set} {other}"),
        48..52 => format!("ZADD {z} {n} a{f} {f} b{n}"),
        52 => format!("ZINCRBY {z} 1.5 a{f}"),
        53 => format!("ZPOPMIN {z}"),
        54 => format!("ZRANGESTORE {y} {z} 0 5"),
        55 => format!("ZUNIONSTORE {z} 2 {z} {y}"),
        56 => format!("GEOADD {z} 13.3 52.{n} town{f}"),
        57 => format!("PFADD {p} {n} {f}"),
        58 => format!("PFMERGE {p} {p}"),
        59 => format!("SORT {l} ALPHA STORE {m}"),
        60 => format!("LMPOP 2 {l} {m} LEFT COUNT 2"),
        61 => format!("ZMPOP 2 {z} {y} MAX"),
        // What is over at once goes at once.
        62 => format!("PEXPIREAT {s} 1000"),
        63 => format!("HPEXPIREAT {h} 1000 FIELDS 1 f{f}"),
        64 => format!("BITFIELD {s} SET u8 #{f} {n}"),
        65 => format!("SDIFFSTORE {set} {set} {other}"),
        _ => match n {
            0..10 => "FLUSHDB".to_owned(),
            10..30 => format!("SWAPDB {d} 0"),
            30 => "FLUSHALL".to_owned(),
            _ => format!("GET {s}"),
        },
    }
}

/// Has a primary write, and returns its stream.
fn write(primary: &'static Durability, random: &mut Random, units: u64) {
    for _ in 0..units {
        let database = random.below(DATABASES) as usize;
        let count = if random.below(8) == 0 { random.below(5) } else { 1 };
        let commands: Vec<OwnedArgs> = (0..count).map(|_| words(&command(random))).collect();
        engine::testing::run_together(primary, database, &commands);
    }
}

/// What primaries put between the units.
fn with_beside(stream: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut mixed, mut from) = (Vec::new(), 0);
    for end in ends_of(stream) {
        mixed.extend_from_slice(&stream[from..end]);
        from = end;
        match random.below(20) {
            0 => mixed.extend(encoded(&["ping"])),
            1 => mixed.extend(encoded(&["REPLCONF GETACK *"])),
            2 => mixed.extend(encoded(&["PUBLISH channel message"])),
            3 => mixed.extend(encoded(&["MULTI", "EXEC"])),
            4 => mixed.extend(encoded(&["MULTI", "SPUBLISH c m", "PING", "EXEC"])),
            _ => {}
        }
    }
    mixed
}

/// Which database is selected behind whole units.
fn database_behind(stream: &[u8]) -> usize {
    let text = String::from_utf8_lossy(stream);
    let Some((_, number)) = text.rsplit_once("SELECT\r\n$1\r\n") else { return 0 };
    number[..1].parse().unwrap()
}

#[test]
fn a_replica_has_what_its_primary_has() {
    for seed in 0..STREAMS {
        let random = &mut Random::from_seed(seed);
        let primary = durability_on(Box::new(new_disk()));
        let (_, copy) = JournalCopy::attach(&primary.journal, DurabilityLevel::None);
        // What is known by another family's name is answered with an error, and not journalled.
        write(primary, random, UNITS);
        let stream = with_beside(&copy.bytes(), random);
        let begin = random.below(1000);
        let mut rig = Rig::new(1 + (seed % 4) as usize, begin);
        let ends = ends_of(&stream);
        let (mut from, mut next) = (0, 0);
        while from < stream.len() {
            let most = 1 << random.below(9);
            next = (next + 1 + random.below(most) as usize).min(ends.len());
            let end = ends[next - 1];
            rig.push_in(database_behind(&stream[..from]), &stream[from..end]);
            from = end;
            if random.below(4) == 0 {
                rig.settle().unwrap();
            }
        }
        rig.settle().unwrap();
        assert_eq!(rig.end - begin, stream.len() as u64);
        assert!(rig.journal.bytes() == stream, "stream {seed}: the journal has it as it came");
        let (own, theirs) = (data_of(rig.server), data_of(primary));
        assert!(!own.is_empty());
        let lacks = |ours: &[Item], items: &[Item]| -> Vec<Item> {
            items.iter().filter(|item| !ours.contains(item)).cloned().collect()
        };
        let differences = (lacks(&own, &theirs), lacks(&theirs, &own));
        assert_eq!(differences, (vec![], vec![]), "stream {seed}");
        let errors = &rig.server.observed.stats.unexpected_errors;
        assert_eq!(errors.load(std::sync::atomic::Ordering::Relaxed), 0, "stream {seed}");
    }
}

#[test]
fn the_database_is_the_one_that_was_selected_last() {
    let mut rig = Rig::new(2, 7);
    rig.push_in(2, &encoded(&["SET a 1", "SELECT 1", "SET b 1", "MULTI", "SELECT 2", "EXEC"]));
    rig.push_in(2, &encoded(&["SET c 1"]));
    rig.settle().unwrap();
    assert_eq!(rig.server.journal.database(), 2);
    for (database, key) in [(2, "a"), (1, "b"), (2, "c")] {
        assert_eq!(rig.ask(database, &format!("EXISTS {key}")), ":1\r\n", "{key}");
    }
}
