//! Looking for victims: fair, bounded, and never one that is not allowed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::random::Random;

use super::{NOW, at, get, keyspace, on, set, set_until};
use crate::clock::AccessPolicy;
use crate::counters::Count;
use crate::keyspace::Keyspace;
use crate::tx::{Candidate, Order, Rule, Tx};

const IDLE: Rule = Rule { order: Order::Idle, only_volatile: false };
const VOLATILE: Rule = Rule { order: Order::Deadline, only_volatile: true };

/// So many keys of one partition.
fn crowd(keyspace: &Keyspace, count: usize) -> Vec<Vec<u8>> {
    let partition = keyspace.locate(b"first").partition;
    let mut keys = vec![b"first".to_vec()];
    for number in 0.. {
        if keys.len() == count {
            break;
        }
        let key = format!("{number}").into_bytes();
        if keyspace.locate(&key).partition == partition {
            keys.push(key);
        }
    }
    keys
}

fn look(tx: &Tx, rule: Rule, random: u64, count: usize) -> Vec<Candidate> {
    let partition = tx.keyspace().locate(b"first").partition;
    let mut found = Vec::new();
    let seen = tx.look_for_victims(partition, rule, random, count, |_, make| found.push(make()));
    assert_eq!(seen, found.len());
    found
}

#[test]
fn every_key_of_a_partition_is_looked_at_about_as_often_as_any_other() {
    const KEYS: usize = 40;
    const LOOKS: usize = 20_000;
    let keyspace = keyspace();
    let keys = crowd(keyspace, KEYS);
    let mut tx = on(keyspace, &[b"first"]);
    keys.iter().for_each(|key| _ = set(&mut tx, key, b"value"));
    let mut random = Random::from_seed(1);
    let mut seen = BTreeMap::<Vec<u8>, usize>::new();
    for _ in 0..LOOKS {
        for victim in look(&tx, IDLE, random.next_u64(), 5) {
            *seen.entry(victim.key().to_vec()).or_default() += 1;
        }
    }
    let fair = LOOKS * 5 / KEYS;
    assert_eq!(seen.len(), KEYS);
    // Keys lie in gaps of different widths, so some are met more often than others, none rarely.
    for (key, times) in seen {
        assert!(times > fair / 5 && times < fair * 5, "{key:?}: {times} instead of {fair}");
    }
}

#[test]
fn only_keys_that_expire_are_found_where_only_they_may_go() {
    let keyspace = keyspace();
    let keys = crowd(keyspace, 300);
    let mut tx = on(keyspace, &[b"first"]);
    for (number, key) in keys.iter().enumerate() {
        if number % 100 == 0 {
            set_until(&mut tx, key, b"value", NOW + number as i64 + 1);
        } else {
            set(&mut tx, key, b"value");
        }
    }
    for random in [0, 1 << 63, u64::MAX] {
        let mut found = look(&tx, VOLATILE, random, 5);
        found.sort_by_key(|victim| u64::MAX - victim.rank);
        found.dedup_by_key(|victim| victim.rank);
        let found: Vec<_> = found.iter().map(Candidate::key).collect();
        assert_eq!(found, [&*keys[0], &keys[100], &keys[200]], "the soonest first");
    }
}

#[test]
fn the_right_keys_are_worth_least() {
    let keyspace = keyspace();
    let keys = crowd(keyspace, 3);
    let order = |rule, clocks: [u32; 3]| {
        let mut tx = on(keyspace, &[b"first"]);
        for (key, clock) in keys.iter().zip(clocks) {
            set(&mut tx, key, b"value");
            tx.peek(key).unwrap().unwrap().set_access_clock(clock);
        }
        let mut found = look(&tx, rule, 0, 3);
        found.sort_by_key(|victim| u64::MAX - victim.rank);
        let place = |victim: &Candidate| keys.iter().position(|key| *key == victim.key());
        found.iter().map(|victim| place(victim).unwrap()).collect::<Vec<_>>()
    };
    let seconds = (NOW / 1000) as u32;
    assert_eq!(order(IDLE, [seconds - 5, seconds - 50, seconds]), [1, 0, 2]);
    keyspace.settings().access_policy.store(AccessPolicy::Frequency as u8, Ordering::Relaxed);
    let minutes = (NOW / 60_000) as u32;
    let frequency = Rule { order: Order::Frequency, only_volatile: false };
    assert_eq!(order(frequency, [7, 3, 200].map(|times| minutes << 8 | times)), [1, 0, 2]);
}

#[test]
fn a_sticky_key_is_no_candidate_whatever_is_stored_there() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"first"]);
    assert!(!tx.set_sticky(b"first", true).unwrap(), "there is no such key");
    set(&mut tx, b"first", b"value");
    assert!(tx.set_sticky(b"first", true).unwrap() && !tx.set_sticky(b"first", true).unwrap());
    set(&mut tx, b"first", &[b'x'; 300]);
    tx.set_deadline(b"first", Some(NOW + 1)).unwrap();
    assert!(look(&tx, IDLE, 1, 3).is_empty());
    assert!(tx.set_sticky(b"first", false).unwrap());
    assert_eq!(look(&tx, IDLE, 1, 1).len(), 1);
    tx.set_sticky(b"first", true).unwrap();
    tx.delete(b"first").unwrap();
    set(&mut tx, b"first", b"another");
    assert_eq!(look(&tx, IDLE, 1, 1).len(), 1, "a key that was removed begins anew");
}

#[test]
fn a_key_that_was_used_meanwhile_stays() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"first"]);
    set(&mut tx, b"first", b"value");
    drop(tx);
    let later = at(NOW + 60_000);
    let mut tx = super::begin(keyspace, &[b"first"], later);
    let victim = look(&tx, IDLE, 3, 1).pop().unwrap();
    assert_eq!(victim.rank, 60);
    tx.read(b"first").unwrap();
    assert!(!tx.evict(&victim, IDLE, |_, _, _| ()));
    assert!(get(&tx, b"first").is_some());
    let victim = look(&tx, IDLE, 3, 1).pop().unwrap();
    assert!(tx.evict(&victim, IDLE, |_, _, _| ()));
    assert!(!tx.evict(&victim, IDLE, |_, _, _| ()), "it is gone");
    assert!(get(&tx, b"first").is_none());
    tx.conclude();
    drop(tx);
    assert_eq!(keyspace.counters().total(Count::Evicted), 1);
    assert_eq!((keyspace.len(0), keyspace.memory()), (0, keyspace.fixed_memory()));
}
