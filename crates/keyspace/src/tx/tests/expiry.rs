//! Expiry: lazy through reads and writes, active through sweeps, suspended on replicas.

use std::sync::atomic::Ordering;

use super::{NOW, OPTIONS, at, audit, begin, get, keyspace, neighbour, on, set, set_until};
use crate::counters::Count;
use crate::entry::NewText;
use crate::keyspace::Keyspace;
use crate::tx::{EventClass, Lifetime, TxOptions};

#[test]
fn a_read_finds_nothing_and_conclude_removes_it() {
    let keyspace = keyspace();
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    keyspace.settings().events.store(EventClass::Expired as u32, Ordering::Relaxed);
    set_until(&mut on(keyspace, &[b"k"]), b"k", b"v", NOW + 5);
    assert_eq!(get(&begin(keyspace, &[b"k"], at(NOW + 4)), b"k").unwrap(), b"v");
    let mut tx = begin(keyspace, &[b"k"], at(NOW + 5));
    for _ in 0..3 {
        assert!(tx.read(b"k").unwrap().is_none());
    }
    assert_eq!(keyspace.len(0), 1);
    tx.finish();
    assert_eq!(keyspace.len(0), 0);
    assert_eq!(tx.effects().changes(), 0, "expiry is no change of the command");
    assert_eq!(tx.effects().expired(), [(0, Box::from(&b"k"[..]))]);
    assert_eq!(tx.effects().events()[0].name, "expired");
    assert_eq!(keyspace.counters().total(Count::Expired), 1);
    drop(tx);
    audit(keyspace);
}

#[test]
fn a_write_meets_an_absent_key() {
    let keyspace = keyspace();
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    set_until(&mut on(keyspace, &[b"k"]), b"k", b"v", NOW + 5);
    let mut tx = begin(keyspace, &[b"k"], at(NOW + 6));
    assert!(tx.put_text(b"k", NewText::Integer(1), Lifetime::Keep).unwrap().is_none());
    assert_eq!(tx.deadline(b"k").unwrap(), Some(None));
    assert_eq!(tx.effects().expired().len(), 1);
    set_until(&mut tx, b"k", b"v", NOW + 6);
    assert!(!tx.set_deadline(b"k", None).unwrap());
    set_until(&mut tx, b"k", b"v", NOW + 6);
    assert!(tx.take(b"k").unwrap().is_none());
    set_until(&mut tx, b"k", b"v", NOW + 6);
    assert_eq!(tx.append_text(b"k", b"w").unwrap(), 1);
    assert_eq!(tx.effects().expired().len(), 4);
}

#[test]
fn a_database_left_again_is_settled_too() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    tx.switch_database(2);
    set_until(&mut tx, b"k", b"v", NOW - 1);
    assert!(tx.read(b"k").unwrap().is_none());
    tx.switch_database(0);
    tx.finish();
    assert_eq!(keyspace.len(2), 0);
    assert_eq!(tx.database(), 0);
}

#[test]
fn a_replica_hides_but_keeps_what_expired() {
    let keyspace = keyspace();
    set_until(&mut on(keyspace, &[b"k"]), b"k", b"v", NOW - 1);
    keyspace.settings().expiry_suspended.store(true, Ordering::Relaxed);
    let mut tx = on(keyspace, &[b"k"]);
    assert!(tx.read(b"k").unwrap().is_none());
    tx.finish();
    assert_eq!(keyspace.len(0), 1);
    let partition = keyspace.locate(b"k").partition();
    tx.begin_sweep(partition);
    let swept = tx.sweep_expired(partition, (0, 0), 10);
    assert_eq!((swept.removed, swept.earliest), (0, Some(NOW - 1)), "still due when promoted");
    tx.end_sweep(partition, swept.earliest.unwrap());
    assert_eq!(keyspace.partitions_due(NOW).collect::<Vec<_>>(), [partition]);
}

#[test]
fn what_another_brings_stays_until_that_says_that_it_goes() {
    let keyspace = keyspace();
    let partition = keyspace.locate(b"k").partition();
    keyspace.importing().mark(partition);
    keyspace.importing().mark(partition);
    keyspace.importing().unmark(partition);
    set_until(&mut on(keyspace, &[b"k"]), b"k", b"v", NOW - 1);
    let mut tx = on(keyspace, &[b"k"]);
    assert!(tx.read(b"k").unwrap().is_none());
    tx.finish();
    tx.begin_sweep(partition);
    let swept = tx.sweep_expired(partition, (0, 0), 10);
    assert_eq!((swept.removed, swept.earliest), (0, Some(NOW - 1)));
    tx.end_sweep(partition, swept.earliest.unwrap());
    drop(tx);
    let mut tx = begin(keyspace, &[b"k"], TxOptions { sees_expired: true, ..OPTIONS });
    assert!(!tx.is_over_at(NOW - 1));
    assert_eq!(get(&tx, b"k").unwrap(), b"v");
    tx.finish();
    drop(tx);
    keyspace.importing().unmark(partition);
    assert_eq!(sweep(keyspace, NOW, 10), 1);
}

/// Sweeps everything that is due; how many keys went.
fn sweep(keyspace: &'static Keyspace, now: i64, at_least: usize) -> usize {
    let mut removed = 0;
    for partition in keyspace.partitions_due(now).collect::<Vec<_>>() {
        let acquisition = keyspace.try_acquire(partition).unwrap();
        let mut tx = crate::Tx::begin(acquisition, TxOptions { now, ..OPTIONS });
        tx.begin_sweep(partition);
        let (mut from, mut earliest) = (Some((0, 0)), i64::MAX);
        while let Some(place) = from {
            let swept = tx.sweep_expired(partition, place, at_least);
            removed += swept.removed;
            earliest = earliest.min(swept.earliest.unwrap_or(i64::MAX));
            from = swept.next;
        }
        tx.end_sweep(partition, earliest);
    }
    removed
}

#[test]
fn sweeps_remove_what_is_due_in_all_databases_and_find_the_next_deadline() {
    let keyspace = keyspace();
    for number in 0..3000_i64 {
        let key = format!("key:{number}").into_bytes();
        let mut tx = on(keyspace, &[&key]);
        tx.switch_database(number as usize % 4);
        match number % 3 {
            0 => set(&mut tx, &key, b"stays"),
            1 => set_until(&mut tx, &key, b"early", NOW + 10),
            _ => set_until(&mut tx, &key, b"late", NOW + 20 + number),
        };
    }
    assert_eq!(keyspace.next_deadline(), Some(NOW + 10));
    assert_eq!(sweep(keyspace, NOW + 9, 1), 0);
    assert_eq!(sweep(keyspace, NOW + 10, 1), 1000);
    assert_eq!(keyspace.partitions_due(NOW + 10).count(), 0);
    assert_eq!(keyspace.next_deadline(), Some(NOW + 22));
    audit(keyspace);
    assert_eq!(sweep(keyspace, NOW + 5000, 100), 1000);
    assert_eq!((keyspace.next_deadline(), sweep(keyspace, i64::MAX - 1, 1)), (None, 0));
    assert_eq!((0..4).map(|logical| keyspace.len(logical)).sum::<usize>(), 1000);
    audit(keyspace);
}

#[test]
fn writers_during_a_sweep_lower_the_bound() {
    let keyspace = keyspace();
    let partition = keyspace.locate(b"k").partition();
    let mut tx = on(keyspace, &[b"k"]);
    let other = neighbour(keyspace, b"k");
    set_until(&mut tx, b"k", b"v", NOW + 100);
    tx.begin_sweep(partition);
    let swept = tx.sweep_expired(partition, (0, 0), 100);
    assert_eq!((swept.next, swept.earliest), (None, Some(NOW + 100)));
    drop(tx);
    set_until(&mut on(keyspace, &[&other]), &other, b"v", NOW + 50);
    on(keyspace, &[b"k"]).end_sweep(partition, NOW + 100);
    assert_eq!(keyspace.next_deadline(), Some(NOW + 50));
    keyspace.mark_due(partition, NOW);
    assert_eq!(keyspace.next_deadline(), Some(NOW));
}

/// The bound of work under one lock: a sweep looks at a bounded number of entries however many
/// there are, and passes a bounded number of buckets where there are none.
#[test]
fn one_turn_of_a_sweep_is_bounded() {
    let keyspace = keyspace();
    let partition = keyspace.locate(b"k").partition();
    let mut tx = on(keyspace, &[b"k"]);
    let mut keys = (0..).map(|number| format!("key:{number}").into_bytes());
    for _ in 0..20 {
        let key = keys.find(|key| keyspace.locate(key).partition() == partition).unwrap();
        set_until(&mut tx, &key, b"v", NOW - 1);
    }
    let mut turns = 0;
    let mut from = Some((0, 0));
    while let Some(place) = from {
        let swept = tx.sweep_expired(partition, place, 2);
        assert!(swept.removed <= 2 + 8, "at most one home bucket more than asked for");
        from = swept.next;
        turns += 1;
    }
    assert!(turns > 2);
    assert_eq!(tx.partition_len(partition), 0);
}
