//! Tests of transactions: one file per mechanism, and what they share.

mod changes;
mod compaction;
mod containers;
mod databases;
mod evict;
mod expiry;
mod items;
mod members;
mod memory;
mod model;
mod read_phases;
mod threads;
mod waiting;
mod walks;
mod widening;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use base::time::{Clock, UnixMillis};

use super::{Tx, TxOptions};
use crate::entry::{EntryRef, NewText};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::PartitionIndex;
use crate::options::Options;
use crate::prefix_index::{PLACE_BYTES, Places, PrefixNumber};
use crate::sizes::Sizes;
use crate::tx::Lifetime;

/// The time at which most tests play.
const NOW: UnixMillis = 1_000_000;

const OPTIONS: TxOptions = TxOptions { touches: true, ..TxOptions::internal(0, NOW) };

/// Of the keys of these an index is kept, in all tests: `audit` looks at it.
const PREFIXES: [&[u8]; 3] = [b"key:", b"key:1", b"neighbour:"];

/// Tests use the first four; behind the last two stand physical ones far apart.
const DATABASES: usize = 41;

fn keyspace() -> &'static Keyspace {
    keyspace_by(Clock::system())
}

/// A keyspace whose time is that of a clock.
fn keyspace_by(clock: Clock) -> &'static Keyspace {
    let prefixes = PREFIXES.map(Box::from).into();
    let hash_key = (7, 9);
    let options = Options { databases: DATABASES, hash_key, clock, by_hash_slot: false, prefixes };
    let keyspace = Keyspace::leak(options);
    keyspace.databases().swap(2, 17);
    keyspace.databases().swap(3, 40);
    keyspace
}

/// A transaction that holds the partitions of these keys.
fn begin(keyspace: &'static Keyspace, keys: &[&[u8]], options: TxOptions) -> Tx {
    let partitions: PartitionSet =
        keys.iter().map(|key| keyspace.locate(key).partition()).collect();
    let mut acquisition = Acquisition::of_partitions(keyspace, partitions);
    assert!(acquisition.attempt(), "the partitions are free");
    Tx::begin(acquisition, options)
}

fn on(keyspace: &'static Keyspace, keys: &[&[u8]]) -> Tx {
    begin(keyspace, keys, OPTIONS)
}

fn at(now: UnixMillis) -> TxOptions {
    TxOptions { now, ..OPTIONS }
}

fn undoable() -> TxOptions {
    TxOptions { undoable: true, ..OPTIONS }
}

/// A transaction that holds everything.
fn world(keyspace: &'static Keyspace, options: TxOptions) -> Tx {
    let mut acquisition = Acquisition::of_world(keyspace);
    assert!(acquisition.poll(Waker::noop()).is_ready(), "nobody is inside");
    Tx::begin(acquisition, options)
}

fn set(tx: &mut Tx, key: &[u8], value: &[u8]) -> bool {
    tx.put_text(key, NewText::from_client(value), Lifetime::Forever).unwrap().is_some()
}

fn set_until(tx: &mut Tx, key: &[u8], value: &[u8], deadline: UnixMillis) -> bool {
    tx.put_text(key, NewText::from_client(value), Lifetime::Until(deadline)).unwrap().is_some()
}

fn get(tx: &Tx, key: &[u8]) -> Option<Vec<u8>> {
    tx.peek(key).unwrap().map(bytes_of)
}

fn bytes_of(entry: EntryRef<'_>) -> Vec<u8> {
    entry.text().unwrap().contiguous(&mut Vec::new()).to_vec()
}

/// Keys of partitions that are all different.
fn scattered(keyspace: &Keyspace, count: usize) -> Vec<Vec<u8>> {
    let mut taken = std::collections::HashSet::new();
    let keys = (0..).map(|number| format!("key:{number}").into_bytes());
    keys.filter(|key| taken.insert(keyspace.locate(key).partition())).take(count).collect()
}

/// A second key of the same partition.
fn neighbour(keyspace: &Keyspace, key: &[u8]) -> Vec<u8> {
    let home = keyspace.locate(key).partition();
    let mut keys = (0..).map(|number| format!("neighbour:{number}").into_bytes());
    keys.find(|other| keyspace.locate(other).partition() == home).unwrap()
}

/// Asserts that counters, hints and bounds agree with what a full walk finds.
fn audit(keyspace: &'static Keyspace) {
    let tx = world(keyspace, OPTIONS);
    let [mut keys, mut volatile, mut with_members] = [const { [0; DATABASES] }; 3];
    let mut memory = keyspace.fixed_memory();
    let mut sizes = vec![Sizes::sum(std::iter::empty()); DATABASES];
    let mut populated = BTreeSet::new();
    for partition in 0..PARTITIONS as PartitionIndex {
        let content = tx.grant.content(partition).unwrap();
        let (mut population, mut with_deadline) = (0, 0);
        for number in 0..content.tables.count() {
            let (physical, table) = content.tables.nth(number);
            assert!(physical == 0 || table.len() > 0, "a table goes with its last key");
            let mut indexed = BTreeMap::<PrefixNumber, Places>::new();
            memory += table.memory();
            assert!(table.len() > 0 || table.memory() == 0, "an empty table has no memory");
            let mut visit = |entry: EntryRef<'_>| {
                memory += entry.memory();
                sizes[physical].note(entry);
                for number in keyspace.declared_prefixes.of_key(entry.key()) {
                    let place = keyspace.locate(entry.key()).position();
                    indexed.entry(number).or_default().insert(place);
                    populated.insert((number, partition));
                }
                keys[physical] += 1;
                population += 1;
                assert_eq!(entry.marks(), content.marks, "no walk is attached");
                volatile[physical] += usize::from(entry.deadline().is_some());
                with_deadline += usize::from(entry.deadline().is_some());
                with_members[physical] += usize::from(entry.member_deadline().is_some());
                for deadline in [entry.deadline(), entry.member_deadline()].into_iter().flatten() {
                    let mut due = keyspace.partitions_due(deadline);
                    assert!(due.any(|index| index == partition), "the bound is a lower one");
                }
            };
            let mut from = Some(0);
            while let Some(position) = from {
                from = table.walk(position, 1000, &mut visit);
            }
            for prefix in PREFIXES {
                let number = keyspace.declared_prefix(prefix).expect("it is declared");
                let places = content.prefixes().and_then(|index| index.places(number, physical));
                assert_eq!(places, indexed.get(&number), "the index is that of the table");
                memory += places.map_or(0, Places::len) * PLACE_BYTES as usize;
            }
        }
        assert_eq!(keyspace.population(partition), population);
        assert!(keyspace.volatile_population(partition) >= with_deadline, "a hint from above");
    }
    for logical in 0..DATABASES {
        assert_eq!(keyspace.len(logical), keys[keyspace.physical(logical)]);
        assert_eq!(keyspace.volatile_len(logical), volatile[keyspace.physical(logical)]);
        let expected = with_members[keyspace.physical(logical)];
        assert_eq!(keyspace.members_volatile_len(logical), expected);
        assert_eq!(keyspace.sizes(logical), sizes[keyspace.physical(logical)]);
    }
    assert_eq!(keyspace.memory(), memory);
    for prefix in PREFIXES {
        let number = keyspace.declared_prefix(prefix).expect("it is declared");
        let of_it =
            (0..PARTITIONS as PartitionIndex).filter(|it| populated.contains(&(number, *it)));
        let next = |from: usize| keyspace.next_populated(from, Some(number));
        let noted = std::iter::successors(next(0), |last| next(usize::from(*last) + 1));
        assert!(noted.eq(of_it), "the partitions of a prefix are noted");
    }
}
