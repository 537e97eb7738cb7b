//! A stop of the world while a stream runs finds the data as they are where the journal ends,
//! and readers see transactions whole, and units in their order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::runtime::background::wait_for;
use keyspace::{Acquisition, PartitionSet, Tx, TxOptions};

use super::{Rig, encoded};
use crate::durability::Durability;

/// Units of a stream.
const UNITS: usize = 40_000;

const KEYS: usize = 64;

/// The lane of the reader.
const LANE: usize = 1;

fn number(tx: &Tx, key: &str) -> u64 {
    let text = tx.peek(key.as_bytes()).unwrap().and_then(keyspace::EntryRef::text);
    text.map_or(0, |text| u64::try_from(text.as_integer().unwrap()).unwrap())
}

/// A unit of which each has as many bytes.
fn increment(number: usize) -> Vec<u8> {
    encoded(&[&format!("INCR key:{:02}", number % KEYS)])
}

/// A unit of two keys, and another that needs the world.
fn transaction(number: usize) -> Vec<u8> {
    let pair = number % 8;
    let (one, other) = (format!("INCR one:{pair}"), format!("INCR other:{pair}"));
    encoded(&["MULTI", &one, &other, "EXEC"])
}

fn with_world<T>(server: &'static Durability, look: impl FnOnce(&mut Tx) -> T) -> T {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    look(&mut Tx::begin(world, TxOptions { heavy: true, ..TxOptions::internal(LANE, 0) }))
}

#[test]
fn a_cut_finds_what_is_applied_where_the_journal_ends() {
    for shares in [1, 2, 3] {
        let mut rig = Rig::new(shares, 0);
        let server = rig.server;
        let unit_len = increment(0).len() as u64;
        let is_over = AtomicBool::new(false);
        let begin = server.journal.end();
        thread::scope(|scope| {
            let cutter = scope.spawn(|| {
                let mut cuts = 0;
                while !is_over.load(Ordering::Acquire) {
                    let (told, there) = with_world(server, |tx| {
                        let sum = (0..KEYS).map(|key| number(tx, &format!("key:{key:02}"))).sum();
                        (server.journal.end() - begin, u64::wrapping_mul(sum, unit_len))
                    });
                    assert_eq!(told, there, "{shares} threads, cut {cuts}");
                    cuts += 1;
                }
                cuts
            });
            let mut number = 0;
            while number < UNITS {
                let count = [1, 7, 300, 2000][number % 4].min(UNITS - number);
                let units: Vec<u8> = (number..number + count).flat_map(increment).collect();
                rig.push_in(0, &units);
                number += count;
                if number % 3 == 0 {
                    rig.settle().unwrap();
                }
            }
            rig.settle().unwrap();
            is_over.store(true, Ordering::Release);
            assert!(cutter.join().unwrap() > 3);
        });
        let total = with_world(server, |tx| {
            (0..KEYS).map(|key| number(tx, &format!("key:{key:02}"))).sum::<u64>()
        });
        assert_eq!(total, UNITS as u64);
    }
}

#[test]
fn readers_see_transactions_whole() {
    let mut rig = Rig::new(2, 0);
    let server = rig.server;
    let keyspace = server.keyspace;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0u64;
            while !is_over.load(Ordering::Acquire) {
                let pair = looks % 8;
                let (one, other) = (format!("one:{pair}"), format!("other:{pair}"));
                let partition = |key: &String| keyspace.locate(key.as_bytes()).partition();
                let partitions: PartitionSet =
                    [partition(&one), partition(&other)].into_iter().collect();
                while !keyspace.enter(LANE) {
                    thread::yield_now();
                }
                let mut grant = Acquisition::of_partitions(keyspace, partitions);
                if grant.attempt() {
                    let tx = Tx::begin(grant, TxOptions::internal(LANE, 0));
                    assert_eq!(number(&tx, &one), number(&tx, &other));
                    looks += 1;
                }
                keyspace.leave(LANE);
            }
            looks
        });
        for round in 0..40 {
            let mixed = (0..1000).flat_map(|number| match round % 2 {
                0 => transaction(number),
                _ => [increment(number), transaction(number)].concat(),
            });
            rig.push_in(0, &mixed.collect::<Vec<u8>>());
        }
        rig.settle().unwrap();
        is_over.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(rig.ask(0, "GET one:3"), "$4\r\n5000\r\n");
}

/// A writer sets one key, and then another: nobody sees the second one ahead of the first.
#[test]
fn readers_see_units_in_the_order_of_the_stream() {
    let mut rig = Rig::new(2, 0);
    let keyspace = rig.server.keyspace;
    let share = |key: &str| keyspace.locate(key.as_bytes()).partition() % 2;
    let other = (0..).map(|number| format!("other:{number}")).find(|it| share(it) != share("one"));
    let other = other.expect("both shares have keys");
    let partition = |key: &str| keyspace.locate(key.as_bytes()).partition();
    // The thread of the first key's share comes no further.
    let mut one = Acquisition::of_partitions(keyspace, [partition("one")].into_iter().collect());
    assert!(one.attempt());
    let pair = |number| encoded(&[&format!("SET one {number}"), &format!("SET {other} {number}")]);
    rig.push_in(0, &(1..=1000).flat_map(pair).collect::<Vec<u8>>());
    let seen = || {
        let wanted = [partition(&other)].into_iter().collect();
        let mut grant = Acquisition::of_partitions(keyspace, wanted);
        if !grant.attempt() {
            return 0;
        }
        number(&Tx::begin(grant, TxOptions::internal(LANE, 0)), &other)
    };
    for _ in 0..100 {
        thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(seen(), 0, "the first key is not there yet");
    }
    drop(one);
    rig.settle().unwrap();
    assert_eq!(rig.values(&format!("one {other}")), "1000 1000");
}

#[test]
fn readers_never_see_a_later_unit_without_an_earlier_one() {
    let mut rig = Rig::new(2, 0);
    let server = rig.server;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0u64;
            while !is_over.load(Ordering::Acquire) {
                let keyspace = server.keyspace;
                let partition = |key: &str| keyspace.locate(key.as_bytes()).partition();
                while !keyspace.enter(LANE) {
                    thread::yield_now();
                }
                let both = [partition("a"), partition("b")].into_iter().collect();
                let mut grant = Acquisition::of_partitions(keyspace, both);
                if grant.attempt() {
                    let tx = Tx::begin(grant, TxOptions::internal(LANE, 0));
                    let (a, b) = (number(&tx, "a"), number(&tx, "b"));
                    assert!(b <= a && a - b <= 1, "a is {a}, b is {b}");
                    looks += 1;
                }
                keyspace.leave(LANE);
            }
            looks
        });
        for round in 0..40 {
            let pair = |number| encoded(&[&format!("SET a {number}"), &format!("SET b {number}")]);
            let pairs = (round * 500 + 1..=(round + 1) * 500).flat_map(pair);
            rig.push_in(0, &pairs.collect::<Vec<u8>>());
        }
        rig.settle().unwrap();
        is_over.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(rig.values("a b"), "20000 20000");
}
