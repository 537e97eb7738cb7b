//! Walks: each changed entry is saved once, as it was at the cut.

use std::sync::{Arc, Mutex};

use super::{NOW, OPTIONS, audit, begin, bytes_of, keyspace, on, set, set_until, undoable, world};
use crate::entry::EntryRef;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;
use crate::walk::WalkSink;

type Saved = Arc<Mutex<Vec<(usize, Vec<u8>, Vec<u8>)>>>;

struct Sink(Saved);

impl WalkSink for Sink {
    fn save(&self, database: usize, entry: EntryRef<'_>) {
        let saved = (database, entry.key().to_vec(), bytes_of(entry));
        self.0.lock().unwrap().push(saved);
    }
}

/// Begins a walk, as its driver will: with the world stopped.
fn cut(keyspace: &'static Keyspace, walk: usize) -> Saved {
    let saved = Saved::default();
    let mut tx = world(keyspace, OPTIONS);
    keyspace.walks().set(walk, Some(Box::new(Sink(Arc::clone(&saved)))));
    for index in 0..PARTITIONS as PartitionIndex {
        tx.grant.content_mut(index).unwrap().marks ^= 1 << walk;
    }
    saved
}

fn take(saved: &Saved) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
    std::mem::take(&mut *saved.lock().unwrap())
}

fn expected(database: usize, key: &[u8], value: &[u8]) -> (usize, Vec<u8>, Vec<u8>) {
    (database, key.to_vec(), value.to_vec())
}

#[test]
fn each_changed_entry_is_saved_once_as_it_was() {
    let keyspace = keyspace();
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let mut tx = on(keyspace, &keys);
    set(&mut tx, b"a", b"old a");
    set_until(&mut tx, b"b", b"old b", NOW + 5);
    tx.switch_database(2);
    set(&mut tx, b"c", &[b'c'; 100_000]);
    drop(tx);
    let saved = cut(keyspace, 0);
    let mut tx = on(keyspace, &keys);
    set(&mut tx, b"a", b"new a");
    set(&mut tx, b"a", b"newer a, in another block altogether");
    assert_eq!(take(&saved), [expected(0, b"a", b"old a")]);
    tx.delete(b"b").unwrap();
    assert_eq!(take(&saved), [expected(0, b"b", b"old b")]);
    set(&mut tx, b"d", b"born after the cut");
    tx.delete(b"d").unwrap();
    set(&mut tx, b"b", b"born again");
    tx.append_text(b"b", b"!").unwrap();
    assert_eq!(take(&saved), []);
    tx.switch_database(2);
    tx.append_text(b"c", b"!").unwrap();
    tx.set_deadline(b"c", Some(NOW + 1)).unwrap();
    assert_eq!(take(&saved), [expected(2, b"c", &[b'c'; 100_000])]);
}

#[test]
fn expiry_renames_and_undo_pass_the_same_door() {
    let keyspace = keyspace();
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let mut tx = on(keyspace, &keys);
    set_until(&mut tx, b"a", b"expired", NOW - 1);
    set(&mut tx, b"b", b"renamed");
    set(&mut tx, b"c", b"overwritten");
    drop(tx);
    let saved = cut(keyspace, 1);
    let mut tx = begin(keyspace, &keys, undoable());
    assert!(tx.read(b"a").unwrap().is_none());
    tx.conclude();
    let taken = tx.take(b"b").unwrap().unwrap();
    tx.place(taken.renamed(b"c")).unwrap();
    let all = [
        expected(0, b"a", b"expired"),
        expected(0, b"b", b"renamed"),
        expected(0, b"c", b"overwritten"),
    ];
    assert_eq!(take(&saved), all);
    drop(tx.widen(0));
    set(&mut on(keyspace, &keys), b"c", b"changed after the undo");
    assert_eq!(take(&saved), [], "saved already");
}

#[test]
fn three_walks_mind_their_own_cuts() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"1");
    let first = cut(keyspace, 0);
    set(&mut on(keyspace, &[b"k"]), b"k", b"2");
    let (second, third) = (cut(keyspace, 1), cut(keyspace, 2));
    set(&mut on(keyspace, &[b"k"]), b"k", b"3");
    set(&mut on(keyspace, &[b"k"]), b"k", b"4");
    assert_eq!(take(&first), [expected(0, b"k", b"1")]);
    assert_eq!(take(&second), [expected(0, b"k", b"2")]);
    assert_eq!(take(&third), [expected(0, b"k", b"2")]);
    audit(keyspace);
}
