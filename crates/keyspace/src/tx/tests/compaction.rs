//! Compaction: what moves stays what it was, wherever it is found afterwards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use base::random::Random;
use structs::arena::{Marking, unmark};

use super::walks::{Saved, Sink, begin_walk, finish, take};
use super::{NOW, OPTIONS, TxOptions, audit, begin, get, keyspace, on, set, set_until, undoable};
use crate::counters::Count;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;

/// Marks in the arena are everybody's, so one test at a time sets them.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One pass over all partitions.
fn compact(keyspace: &'static Keyspace) {
    let mut marking = Marking::default();
    while marking.step() {}
    for partition in 0..PARTITIONS as PartitionIndex {
        let mut from = Some((0, 0));
        while let Some(place) = from {
            let mut grant = keyspace.try_acquire(partition).expect("the partition is free");
            from = grant.compact(0, partition, place, 3);
        }
    }
    unmark();
}

fn moved(keyspace: &Keyspace) -> u64 {
    keyspace.counters().total(Count::Moved)
}

/// Values of all sizes: in the block, as a number, as a tree.
fn value(number: usize, random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0 => number.to_string().into_bytes(),
        1 => vec![number as u8; 3000 + random.below(60_000) as usize],
        2 if number.is_multiple_of(10) => vec![number as u8; 100_000],
        _ => vec![number as u8; random.below(300) as usize],
    }
}

#[test]
fn compaction_moves_entries_and_changes_none() {
    let _alone = alone();
    let keyspace = keyspace();
    let mut random = Random::from_seed(11);
    let mut model = HashMap::new();
    for round in 0..4 {
        for number in 0..4000 {
            let key = format!("key:{round}:{number}").into_bytes();
            let value = value(number, &mut random);
            let options = TxOptions { database: number % 2, ..OPTIONS };
            let mut tx = begin(keyspace, &[&key], options);
            if number % 3 == 0 {
                set_until(&mut tx, &key, &value, NOW + 1000);
            } else {
                set(&mut tx, &key, &value);
            }
            drop(tx);
            model.insert(key, (number % 2, value));
        }
        let gone: Vec<_> = model.keys().filter(|_| random.below(10) > 0).cloned().collect();
        for key in gone {
            let (database, _) = model.remove(&key).unwrap();
            let options = TxOptions { database, ..OPTIONS };
            assert!(begin(keyspace, &[&key], options).delete(&key).unwrap());
        }
        compact(keyspace);
        for (key, (database, value)) in &model {
            let options = TxOptions { database: *database, ..OPTIONS };
            assert_eq!(get(&begin(keyspace, &[key], options), key).as_ref(), Some(value));
        }
        audit(keyspace);
    }
    assert!(moved(keyspace) > 100, "{} entries were moved", moved(keyspace));
}

#[test]
fn a_walk_and_an_undo_see_what_moved_as_it_was() {
    let _alone = alone();
    let keyspace = keyspace();
    let key = |number: usize| format!("key:{number}").into_bytes();
    for key in (0..3000).map(key) {
        set(&mut on(keyspace, &[&key]), &key, &[b'x'; 777]);
    }
    let before = moved(keyspace);
    let kept: Vec<_> = (0..3000).step_by(10).map(key).collect();
    let gone: Vec<_> = (0..3000).filter(|number| number % 10 != 0).map(key).collect();
    let saved = Saved::default();
    let walk = begin_walk(keyspace, Box::new(Sink(saved.clone())));
    for key in &gone {
        assert!(on(keyspace, &[key]).delete(key).unwrap());
    }
    // What the walk was given before compaction is taken out, and does not count below.
    assert_eq!(take(&saved).len(), gone.len());
    compact(keyspace);
    assert!(moved(keyspace) > before, "what is left lay in sparse pages");
    let mut tx = begin(keyspace, &[&kept[0]], undoable());
    set(&mut tx, &kept[0], b"other");
    tx.roll_back();
    assert_eq!(get(&tx, &kept[0]), Some(vec![b'x'; 777]));
    drop(tx);
    finish(keyspace, &walk, &Sink(saved.clone()));
    let mut seen = take(&saved);
    seen.sort();
    let mut expected: Vec<_> = kept.into_iter().map(|key| (0, key, vec![b'x'; 777])).collect();
    expected.sort();
    assert_eq!(seen, expected);
    audit(keyspace);
}
