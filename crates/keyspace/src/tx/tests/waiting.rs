//! Queues of waiters: who is told, in which order, and who wins the end of a wait.

use std::sync::Arc;

use super::{OPTIONS, keyspace, neighbour, on, scattered, set, world};
use crate::waiting::{GaveUp, Waiter};

fn waiter() -> Arc<Waiter> {
    Waiter::new(false, Box::new(()))
}

#[test]
fn a_change_of_an_awaited_key_is_told_once_and_the_order_is_that_of_arrival() {
    let keyspace = keyspace();
    let (first, second) = (waiter(), waiter());
    let mut tx = on(keyspace, &[b"k"]);
    tx.register(b"k", &first).unwrap();
    tx.register(b"k", &first).unwrap();
    tx.register(b"k", &second).unwrap();
    drop(tx);
    assert!(keyspace.any_waiters());
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"1");
    set(&mut tx, b"k", b"2");
    assert_eq!(tx.next_ready(), Some((0, Box::from(*b"k"))));
    assert_eq!(tx.next_ready(), None);
    let queue = tx.take_queue(b"k");
    assert_eq!(queue.len(), 2);
    assert!(Arc::ptr_eq(&queue[0], &first) && Arc::ptr_eq(&queue[1], &second));
    tx.put_queue(b"k", queue);
    tx.switch_database(1);
    assert!(tx.take_queue(b"k").is_empty(), "another database");
    tx.switch_database(0);
    tx.unregister(b"k", &first).unwrap();
    let queue = tx.take_queue(b"k");
    assert!(queue.len() == 1 && Arc::ptr_eq(&queue[0], &second));
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
    tx.register(b"k", &waiter()).unwrap();
    set(&mut tx, &other, b"1");
    assert_eq!(tx.next_ready(), None);
    tx.delete(b"k").unwrap();
    // The removal passes the door of changes first, which is heeded; the key itself is gone.
    while tx.next_ready().is_some() {}
    tx.delete(&other).unwrap();
    assert_eq!(tx.next_ready(), None);
}

#[test]
fn exactly_one_ends_a_wait() {
    let one = waiter();
    assert!(one.claim());
    assert!(!one.claim());
    assert_eq!(one.give_up(), GaveUp::BeingServed);
    assert!(one.wait_on(), "somebody wanted to give up");
    assert!(one.claim());
    assert!(!one.wait_on());
    assert!(one.claim());
    one.conclude();
    assert_eq!(one.give_up(), GaveUp::TooLate);
    let other = waiter();
    assert_eq!(other.give_up(), GaveUp::Now);
    assert!(!other.claim());
}

#[test]
fn whoever_gave_up_is_passed_over() {
    let keyspace = keyspace();
    let (first, second) = (waiter(), waiter());
    let mut tx = on(keyspace, &[b"k"]);
    tx.register(b"k", &first).unwrap();
    tx.register(b"k", &second).unwrap();
    assert_eq!(first.give_up(), GaveUp::Now);
    assert_eq!(second.give_up(), GaveUp::Now);
    set(&mut tx, b"k", b"1");
    assert_eq!(tx.next_ready(), None, "nobody waits any more");
}

#[test]
fn swapping_databases_tells_all_who_wait_in_them() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    for key in &keys {
        on(keyspace, &[key]).register(key, &waiter()).unwrap();
    }
    let mut tx = world(keyspace, OPTIONS);
    tx.swap_databases(0, 1).unwrap();
    let mut told: Vec<_> = std::iter::from_fn(|| tx.next_ready()).collect();
    told.sort();
    let mut expected: Vec<_> = keys.iter().map(|key| (0, Box::from(&key[..]))).collect();
    expected.sort();
    assert_eq!(told, expected);
}

#[test]
fn flushing_tells_only_those_who_heed_departures() {
    let keyspace = keyspace();
    let heedful = Waiter::new(true, Box::new(()));
    let mut tx = on(keyspace, &[b"k", b"l"]);
    tx.register(b"k", &heedful).unwrap();
    tx.register(b"l", &waiter()).unwrap();
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
    on(keyspace, &[&keys[0]]).register(&keys[0], &waiter()).unwrap();
    let mut tx = on(keyspace, &[&keys[0]]);
    set(&mut tx, &keys[0], b"1");
    assert!(tx.exists(&keys[1]).is_err(), "not granted");
    let acquisition = tx.widen(0);
    drop(acquisition);
    assert!(!on(keyspace, &[&keys[0]]).exists(&keys[0]).unwrap(), "undone");
}
