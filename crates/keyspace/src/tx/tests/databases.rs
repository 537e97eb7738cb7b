//! A database costs what it holds: tables come with keys and go with them, and what goes over a
//! partition takes a step for each table that is there.

use super::{
    DATABASES, NOW, OPTIONS, Tx, at, audit, begin, keyspace, on, scattered, set, set_until,
    undoable, world,
};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;
use crate::options::Options;
use crate::tx::{EvictionNeed, EvictionOrder, EvictionPolicy, EvictionSample};

/// Tables of all partitions beyond those of database 0.
fn tables(keyspace: &'static Keyspace) -> usize {
    let tx = world(keyspace, OPTIONS);
    let count = |index| tx.grant.content(index).expect("the world is held").tables.count() - 1;
    (0..PARTITIONS as PartitionIndex).map(count).sum()
}

/// A way by which all keys of all databases go.
type Way = fn(&'static Keyspace, &[Vec<u8>]);

/// A transaction on all of these keys.
fn hold(keyspace: &'static Keyspace, keys: &[Vec<u8>]) -> Tx {
    let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    on(keyspace, &names)
}

fn sweep(keyspace: &'static Keyspace, keys: &[Vec<u8>]) {
    for key in keys {
        let partition = keyspace.locate(key).partition();
        let mut from = Some((0, 0));
        while let Some(next) = from {
            let mut tx = begin(keyspace, &[key], at(NOW + 10_000));
            from = tx.sweep_expired(partition, next, 10).next;
        }
    }
}

fn evict(keyspace: &'static Keyspace, keys: &[Vec<u8>]) {
    for key in keys {
        let look =
            EvictionSample { partition: keyspace.locate(key).partition(), random: 5, count: 5 };
        let need = EvictionNeed { bytes: usize::MAX, keys: 16, samples: 1 };
        let rule = EvictionPolicy { order: EvictionOrder::Idle, only_volatile: false };
        while hold(keyspace, keys).evict(&[look], rule, need, |_, _, _| {}).keys > 0 {}
    }
}

fn delete(keyspace: &'static Keyspace, keys: &[Vec<u8>]) {
    for database in 0..DATABASES {
        let mut tx = hold(keyspace, keys);
        tx.switch_database(database);
        keys.iter().for_each(|key| assert!(tx.delete(key).is_ok()));
    }
}

#[test]
fn a_table_goes_with_its_last_key_whatever_way_that_goes() {
    let ways: [(&str, Way); 5] = [
        ("they are deleted", delete),
        ("their time is over", sweep),
        ("they are evicted", evict),
        ("all databases are flushed", |keyspace, _| {
            world(keyspace, OPTIONS).flush_all().expect("the world is held");
        }),
        ("each database is flushed", |keyspace, _| {
            for database in 0..DATABASES {
                let mut tx = world(keyspace, OPTIONS);
                tx.switch_database(database);
                tx.flush_database().expect("the world is held");
            }
        }),
    ];
    for (name, way) in ways {
        let keyspace = keyspace();
        let keys = scattered(keyspace, 3);
        // Several tables to a partition, and partitions with one.
        for (number, database) in [1, 2, 3, 9, 30].into_iter().enumerate() {
            let mut tx = hold(keyspace, &keys);
            tx.switch_database(database);
            for key in &keys[..=number.min(2)] {
                set_until(&mut tx, key, b"value", NOW + 1);
            }
        }
        assert_eq!(tables(keyspace), 1 + 2 + 3 + 3 + 3);
        way(keyspace, &keys);
        assert_eq!(tables(keyspace), 0, "{name}");
        audit(keyspace);
    }
}

#[test]
fn a_table_that_came_or_went_in_what_is_undone_is_as_before() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    {
        let mut tx = hold(keyspace, &keys[..1]);
        tx.switch_database(2);
        set(&mut tx, &keys[0], b"value");
    }
    {
        let mut tx = world(keyspace, undoable());
        let mark = tx.mark().expect("nothing was changed");
        tx.switch_database(2);
        assert!(tx.delete(&keys[0]).expect("the world is held"));
        set(&mut tx, &keys[1], b"other");
        tx.switch_database(9);
        set(&mut tx, &keys[0], b"other");
        tx.flush_all().expect("the world is held");
        tx.return_to(mark);
    }
    assert_eq!((tables(keyspace), keyspace.len(2), keyspace.len(9)), (1, 1, 0));
    audit(keyspace);
}

#[test]
fn what_goes_over_a_partition_takes_a_step_for_each_table() {
    let options = Options { databases: 10_000, hash_key: (7, 9), ..Options::new() };
    let keyspace = Keyspace::leak(options);
    let keys = scattered(keyspace, 1);
    for database in [5000, 9999] {
        let mut tx = hold(keyspace, &keys);
        tx.switch_database(database);
        set_until(&mut tx, &keys[0], b"value", NOW + 1);
    }
    let partition = keyspace.locate(&keys[0]).partition();
    let count = |step: &mut dyn FnMut(Tx, (usize, u64)) -> Option<(usize, u64)>| {
        let (mut from, mut steps) = (Some((0, 0)), 0);
        while let Some(next) = from {
            steps += 1;
            from = step(begin(keyspace, &[&keys[0]], at(NOW + 2)), next);
        }
        steps
    };
    assert_eq!(count(&mut |mut tx, from| tx.grant.compact(0, partition, from, 10)), 3);
    assert_eq!(count(&mut |mut tx, from| tx.sweep_expired(partition, from, 10).next), 3);
    assert_eq!(keyspace.len(5000) + keyspace.len(9999), 0, "they were swept");
    assert_eq!(tables(keyspace), 0);
    assert_eq!(count(&mut |mut tx, from| tx.sweep_expired(partition, from, 10).next), 1);
}
