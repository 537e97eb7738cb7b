//! Queues of waiters: which is told, in which order, and which wins the end of a wait.

use std::sync::Arc;

use super::{OPTIONS, keyspace, neighbour, on, scattered, set, world};
use crate::waiting::{Cancelled, ReadyKeys, Waiter};

fn waiter() -> Arc<Waiter> {
    Waiter::new(false, Box::new(()))
}

#[test]
fn a_change_of_an_awaited_key_is_told_once_and_the_order_is_that_of_arrival() {
    let keyspace = keyspace();
    let (first, second) = (waiter(), waiter());
    let mut tx = on(keyspace, &[b"k"]);
    tx.register(b"k", &first, 0).unwrap();
    tx.register(b"k", &first, 0).unwrap();
    tx.register(b"k", &second, 0).unwrap();
    drop(tx);
    assert!(keyspace.any_waiters());
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"1");
    set(&mut tx, b"k", b"2");
    assert_eq!(tx.next_ready(), Some((0, Box::from(*b"k"))));
    assert_eq!(tx.next_ready(), None);
    let queue = tx.take_queue(b"k");
    assert_eq!(queue.len(), 2);
    let is_at = |place: usize, who| Arc::ptr_eq(&queue.get(place).unwrap().waiter, who);
    assert!(is_at(0, &first) && is_at(1, &second));
    tx.put_queue(b"k", queue);
    tx.switch_database(1);
    assert!(tx.take_queue(b"k").is_empty(), "another database");
    tx.switch_database(0);
    tx.unregister(b"k", &first).unwrap();
    let queue = tx.take_queue(b"k");
    assert!(queue.len() == 1 && Arc::ptr_eq(&queue.get(0).unwrap().waiter, &second));
    tx.put_queue(b"k", queue);
    tx.unregister(b"k", &second).unwrap();
    drop(tx);
    assert!(!keyspace.any_waiters());
}

#[test]
fn other_keys_and_departures_tell_nobody() {
    let keyspace = keyspace();
    let other = neighbour(keyspace, b"k");
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"1");
    tx.register(b"k", &waiter(), 0).unwrap();
    set(&mut tx, &other, b"1");
    assert_eq!(tx.next_ready(), None);
    tx.delete(b"k").unwrap();
    // The removal is a mutation first, which is signalled; the key itself is gone.
    while tx.next_ready().is_some() {}
    tx.delete(&other).unwrap();
    assert_eq!(tx.next_ready(), None);
}

#[test]
fn exactly_one_ends_a_wait() {
    let one = waiter();
    assert!(one.claim());
    assert!(!one.claim());
    assert_eq!(one.cancel(), Cancelled::BeingServed);
    assert!(one.wait_on(), "somebody wanted to give up");
    assert!(one.claim());
    assert!(!one.wait_on());
    assert!(one.claim());
    one.conclude();
    assert_eq!(one.cancel(), Cancelled::TooLate);
    let other = waiter();
    assert_eq!(other.cancel(), Cancelled::Now);
    assert!(!other.claim());
}

#[test]
fn a_waiter_that_gave_up_is_passed_over() {
    let keyspace = keyspace();
    let (first, second) = (waiter(), waiter());
    let mut tx = on(keyspace, &[b"k"]);
    tx.register(b"k", &first, 0).unwrap();
    tx.register(b"k", &second, 0).unwrap();
    assert_eq!(first.cancel(), Cancelled::Now);
    assert_eq!(second.cancel(), Cancelled::Now);
    set(&mut tx, b"k", b"1");
    assert_eq!(tx.next_ready(), None, "nobody waits any more");
}

#[test]
fn swapping_databases_wakes_those_whose_keys_are_there_then_or_who_wait_for_their_deletion() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 4);
    let mut tx = world(keyspace, OPTIONS);
    // Of the second and the fourth, one comes to the first database, the other leaves it.
    set(&mut tx, &keys[3], b"1");
    tx.switch_database(1);
    set(&mut tx, &keys[1], b"1");
    drop(tx);
    for key in &keys[..2] {
        on(keyspace, &[key]).register(key, &waiter(), 0).unwrap();
    }
    for key in &keys[2..] {
        let wakes_on_deletion = Waiter::new(true, Box::new(()));
        on(keyspace, &[key]).register(key, &wakes_on_deletion, 0).unwrap();
    }
    let mut tx = world(keyspace, OPTIONS);
    tx.swap_databases(0, 1).unwrap();
    let mut told: Vec<_> = std::iter::from_fn(|| tx.next_ready()).collect();
    told.sort();
    let mut expected: Vec<_> = keys[1..].iter().map(|key| (0, Box::from(&key[..]))).collect();
    expected.sort();
    assert_eq!(told, expected);
}

#[test]
fn flushing_wakes_only_those_who_wait_for_deletion() {
    let keyspace = keyspace();
    let wakes_on_deletion = Waiter::new(true, Box::new(()));
    let mut tx = on(keyspace, &[b"k", b"l"]);
    set(&mut tx, b"k", b"1");
    tx.register(b"k", &wakes_on_deletion, 0).unwrap();
    tx.register(b"l", &waiter(), 0).unwrap();
    drop(tx);
    let mut tx = world(keyspace, OPTIONS);
    tx.flush_all().unwrap();
    assert_eq!(tx.next_ready(), Some((0, Box::from(*b"k"))));
    assert_eq!(tx.next_ready(), None);
}

#[test]
fn serving_may_reach_further_than_the_grant_and_is_undone() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    on(keyspace, &[&keys[0]]).register(&keys[0], &waiter(), 0).unwrap();
    let mut tx = on(keyspace, &[&keys[0]]);
    set(&mut tx, &keys[0], b"1");
    assert!(tx.exists(&keys[1]).is_err(), "not granted");
    let acquisition = tx.widen(0);
    drop(acquisition);
    assert!(!on(keyspace, &[&keys[0]]).exists(&keys[0]).unwrap(), "undone");
}

#[test]
fn a_queue_keeps_its_order_whoever_is_taken_out_and_stands_again() {
    let keyspace = keyspace();
    let waiters: Vec<_> = (0..40).map(|n| Waiter::new(n % 3 == 0, Box::new(()))).collect();
    for places in [vec![], vec![0], (0..7).collect(), vec![1, 2, 30], vec![39], (0..40).collect()] {
        let mut tx = on(keyspace, &[b"k"]);
        // However they come: a waiter's number says which was first.
        waiters.iter().rev().for_each(|waiter| tx.register(b"k", waiter, 7).unwrap());
        let mut queue = tx.take_queue(b"k");
        let taken = queue.take_out(&places);
        let expected = places.iter().map(|place| Arc::as_ptr(&waiters[*place]));
        assert!(taken.iter().map(|it| Arc::as_ptr(&it.waiter)).eq(expected));
        assert_eq!(queue.len(), waiters.len() - places.len());
        assert_eq!(queue.wakes_on_deletion(), places.len() < waiters.len());
        tx.put_queue(b"k", queue);
        tx.requeue(b"k", taken);
        let queue = tx.take_queue(b"k");
        let all = (0..queue.len()).map(|place| &queue.get(place).unwrap().waiter);
        assert!(all.map(Arc::as_ptr).eq(waiters.iter().map(Arc::as_ptr)));
    }
}

#[test]
fn of_keys_in_a_line_each_is_once_and_the_first_comes_first() {
    let mut ready = ReadyKeys::default();
    for key in [b"a", b"b", b"a", b"c", b"b"] {
        ready.add(0, key);
    }
    ready.add(1, b"a");
    assert_eq!(ready.len(), 4);
    assert_eq!(ready.next(), Some((0, Box::from(*b"a"))));
    // Told, and changed again behind the others.
    ready.add(0, b"a");
    ready.truncate(2);
    ready.add(0, b"a");
    let left: Vec<_> = std::iter::from_fn(|| ready.next()).collect();
    assert_eq!(left, [b"b", b"c", b"a"].map(|key| (0, Box::from(*key))));
    assert!(ready.is_empty());
}
