//! Walks: each changed entry is saved once, as it was at the cut.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::{NOW, OPTIONS, audit, begin, bytes_of, keyspace, on, set, set_until, undoable, world};
use crate::entry::{EntryRef, live_blocks};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::Acquisition;
use crate::walk::{WALKS, Walk, WalkSink};

/// Physical database, key and value.
type Entry = (usize, Vec<u8>, Vec<u8>);

pub(super) type Saved = Arc<Mutex<Vec<Entry>>>;

#[derive(Clone)]
pub(super) struct Sink(pub(super) Saved);

impl WalkSink for Sink {
    fn save(&self, database: usize, entry: EntryRef<'_>) {
        let saved = (database, entry.key().to_vec(), bytes_of(entry));
        self.0.lock().unwrap().push(saved);
    }
}

/// Begins a walk, with the world stopped.
pub(super) fn begin_walk(keyspace: &'static Keyspace, sink: Box<dyn WalkSink>) -> Arc<Walk> {
    let mut grant = Acquisition::of_world(keyspace);
    assert!(grant.poll(Waker::noop()).is_ready(), "nobody is inside");
    Walk::begin(&mut grant, sink).expect("a bit is free")
}

fn cut(keyspace: &'static Keyspace) -> (Arc<Walk>, Saved) {
    let saved = Saved::default();
    (begin_walk(keyspace, Box::new(Sink(Arc::clone(&saved)))), saved)
}

pub(super) fn take(saved: &Saved) -> Vec<Entry> {
    std::mem::take(&mut *saved.lock().unwrap())
}

/// Visits so many partitions more.
pub(super) fn visit(
    keyspace: &'static Keyspace,
    walk: &Walk,
    sink: &dyn WalkSink,
    partitions: usize,
) {
    for _ in 0..partitions {
        let Some(partition) = walk.next_partition() else { return };
        let mut from = Some((0, 0));
        while let Some(place) = from {
            let Some(grant) = keyspace.try_acquire(partition) else { continue };
            let save = |database, entry: EntryRef<'_>| sink.save(database, entry);
            from = walk.visit(&grant, partition, place, 1, save);
        }
    }
}

/// Visits all that is left, as its driver will, and ends the walk.
pub(super) fn finish(keyspace: &'static Keyspace, walk: &Walk, sink: &dyn WalkSink) {
    visit(keyspace, walk, sink, PARTITIONS);
    while walk.visit_flushed(|database, entry| sink.save(database, entry)) {}
    walk.end();
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
    let (walk, saved) = cut(keyspace);
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
    assert_eq!(take(&saved), [expected(keyspace.physical(2), b"c", &[b'c'; 100_000])]);
    drop(tx);
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    assert_eq!(take(&saved), [], "saved already, or born later");
    audit(keyspace);
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
    let (walk, saved) = cut(keyspace);
    let mut tx = begin(keyspace, &keys, undoable());
    assert!(tx.read(b"a").unwrap().is_none());
    tx.finish();
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
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    assert_eq!(take(&saved), [], "saved already");
    audit(keyspace);
}

#[test]
fn three_walks_mind_their_own_cuts() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"1");
    let (walk, first) = cut(keyspace);
    set(&mut on(keyspace, &[b"k"]), b"k", b"2");
    let later = [cut(keyspace), cut(keyspace)];
    let mut grant = Acquisition::of_world(keyspace);
    assert!(grant.poll(Waker::noop()).is_ready());
    let fourth = Walk::begin(&mut grant, Box::new(Sink(Saved::default())));
    assert!(fourth.is_none(), "there are {WALKS} bits");
    drop(grant);
    set(&mut on(keyspace, &[b"k"]), b"k", b"3");
    set(&mut on(keyspace, &[b"k"]), b"k", b"4");
    finish(keyspace, &walk, &Sink(Arc::clone(&first)));
    assert_eq!(take(&first), [expected(0, b"k", b"1")]);
    for (walk, saved) in later {
        finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
        assert_eq!(take(&saved), [expected(0, b"k", b"2")]);
    }
    audit(keyspace);
}

#[test]
fn a_walk_of_some_partitions_touches_no_other() {
    let keyspace = keyspace();
    let keys: [&[u8]; 2] = [b"a", b"b"];
    let mut tx = on(keyspace, &keys);
    keys.iter().for_each(|key| _ = set(&mut tx, key, b"before"));
    drop(tx);
    let partition = keyspace.locate(b"a").partition();
    assert_ne!(partition, keyspace.locate(b"b").partition());
    let saved = Saved::default();
    let sink = Sink(Arc::clone(&saved));
    let mut grant = Acquisition::of_world(keyspace);
    assert!(grant.poll(Waker::noop()).is_ready(), "nobody is inside");
    let walk = Walk::begin_of(&mut grant, Box::new(sink.clone()), [partition].into());
    let walk = walk.expect("a bit is free");
    drop(grant);
    let mut tx = on(keyspace, &keys);
    set(&mut tx, b"b", b"after");
    assert_eq!(take(&saved), []);
    set(&mut tx, b"a", b"after");
    drop(tx);
    finish(keyspace, &walk, &sink);
    assert_eq!(take(&saved), [expected(0, b"a", b"before")]);
    // The bit is free, and all marks agree.
    let (walk, saved) = cut(keyspace);
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    let mut saved = take(&saved);
    saved.sort();
    assert_eq!(saved, keys.map(|key| expected(0, key, b"after")));
    audit(keyspace);
}

#[test]
fn what_is_flushed_is_saved_by_every_walk_and_freed() {
    let keyspace = keyspace();
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let mut tx = on(keyspace, &keys);
    keys.iter().for_each(|key| _ = set(&mut tx, key, b"before"));
    drop(tx);
    let walks = [cut(keyspace), cut(keyspace)];
    set(&mut on(keyspace, &keys), b"a", b"after");
    set(&mut on(keyspace, &[b"d"]), b"d", b"after");
    assert_eq!(world(keyspace, OPTIONS).flush_all().unwrap(), 4);
    set(&mut on(keyspace, &keys), b"b", b"again");
    for (walk, saved) in walks {
        finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
        let mut saved = take(&saved);
        saved.sort();
        assert_eq!(saved, keys.map(|key| expected(0, key, b"before")));
    }
    audit(keyspace);
    world(keyspace, OPTIONS).flush_all().unwrap();
    assert_eq!(live_blocks::count(), 0);
}

#[test]
fn databases_keep_the_names_of_the_cut() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"in 0");
    world(keyspace, OPTIONS).swap_databases(0, 2).unwrap();
    let (walk, saved) = cut(keyspace);
    world(keyspace, OPTIONS).swap_databases(2, 1).unwrap();
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    let saved = take(&saved);
    assert_eq!(saved, [expected(0, b"k", b"in 0")]);
    assert_eq!(walk.name(0), 2);
}

#[test]
fn a_walk_that_is_given_up_leaves_no_trace() {
    let keyspace = keyspace();
    let keys: [&[u8]; 2] = [b"a", b"b"];
    keys.iter().for_each(|key| _ = set(&mut on(keyspace, &keys), key, b"1"));
    let (walk, saved) = cut(keyspace);
    set(&mut on(keyspace, &keys), b"a", b"2");
    for _ in 0..5 {
        walk.next_partition();
    }
    walk.abort();
    world(keyspace, OPTIONS).flush_all().unwrap();
    set(&mut on(keyspace, &keys), b"b", b"3");
    walk.start_over();
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    assert_eq!(take(&saved), [expected(0, b"a", b"1")]);
    audit(keyspace);
    let (walk, saved) = cut(keyspace);
    finish(keyspace, &walk, &Sink(Arc::clone(&saved)));
    assert_eq!(take(&saved), [expected(0, b"b", b"3")], "its bit is as good as new");
}

#[test]
fn a_partition_may_change_in_any_way_between_two_steps() {
    let keyspace = keyspace();
    let partition = keyspace.locate(b"key:0").partition();
    let keys = (0..).map(|number| format!("key:{number}").into_bytes());
    let here = keys.filter(|key| keyspace.locate(key).partition() == partition);
    let keys: Vec<Vec<u8>> = here.take(40).collect();
    let mut model = HashMap::new();
    for (number, key) in keys.iter().enumerate() {
        set(&mut on(keyspace, &[key]), key, number.to_string().as_bytes());
        model.insert(key.clone(), number.to_string().into_bytes());
    }
    let (walk, saved) = cut(keyspace);
    while walk.next_partition() != Some(partition) {}
    let (mut from, mut step) = (Some((0, 0)), 0);
    while let Some(place) = from {
        let mut tx = on(keyspace, &[&keys[0]]);
        step += 1;
        // The table grows, shrinks, and loses entries on both sides of the cursor.
        set(&mut tx, &keys[step * 7 % keys.len()], b"changed");
        tx.delete(&keys[step * 11 % keys.len()]).unwrap();
        from = walk.visit(&tx.grant, partition, place, 1, |database, entry| {
            Sink(Arc::clone(&saved)).save(database, entry);
        });
    }
    let saved = take(&saved);
    assert_eq!(saved.len(), model.len(), "each exactly once");
    let saved: HashMap<_, _> = saved.into_iter().map(|(_, key, value)| (key, value)).collect();
    assert_eq!(saved, model);
}
