//! Looking for victims: fair, bounded, and never one that is not allowed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::random::Random;

use super::{NOW, get, keyspace, on, set, set_until};
use crate::clock::AccessPolicy;
use crate::counters::Count;
use crate::keyspace::Keyspace;
use crate::tx::{Evicted, EvictionNeed, EvictionOrder, EvictionPolicy, EvictionSample, Tx};

const IDLE: EvictionPolicy = EvictionPolicy { order: EvictionOrder::Idle, only_volatile: false };
const VOLATILE: EvictionPolicy =
    EvictionPolicy { order: EvictionOrder::Deadline, only_volatile: true };

/// So many keys of one partition.
fn crowd(keyspace: &Keyspace, count: usize) -> Vec<Vec<u8>> {
    let partition = keyspace.locate(b"first").partition();
    let mut keys = vec![b"first".to_vec()];
    for number in 0.. {
        if keys.len() == count {
            break;
        }
        let key = format!("{number}").into_bytes();
        if keyspace.locate(&key).partition() == partition {
            keys.push(key);
        }
    }
    keys
}

/// What may go of the keys that a look comes across, the first to go first.
fn look(tx: &Tx, rule: EvictionPolicy, random: u64, count: usize) -> Vec<Vec<u8>> {
    let look =
        EvictionSample { partition: tx.keyspace().locate(b"first").partition(), random, count };
    let all = EvictionNeed { bytes: usize::MAX, keys: usize::MAX, samples: 1 };
    let (seen, least) = tx.find_least(&[look], rule, all);
    assert_eq!(seen, least.len());
    least.iter().map(|seen| seen.entry.key().to_vec()).collect()
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
        for key in look(&tx, IDLE, random.next_u64(), 5) {
            *seen.entry(key).or_default() += 1;
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
        found.dedup();
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
        let found = look(&tx, rule, 0, 3);
        let place = |victim: &Vec<u8>| keys.iter().position(|key| key == victim);
        found.iter().map(|victim| place(victim).unwrap()).collect::<Vec<_>>()
    };
    let seconds = (NOW / 1000) as u32;
    assert_eq!(order(IDLE, [seconds - 5, seconds - 50, seconds]), [1, 0, 2]);
    keyspace.settings().access_policy.store(AccessPolicy::Frequency as u8, Ordering::Relaxed);
    let minutes = (NOW / 60_000) as u32;
    let frequency = EvictionPolicy { order: EvictionOrder::Frequency, only_volatile: false };
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
fn of_all_that_were_looked_at_only_as_much_goes_as_is_needed() {
    let keyspace = keyspace();
    let keys = crowd(keyspace, 40);
    let mut tx = on(keyspace, &[b"first"]);
    let seconds = (NOW / 1000) as u32;
    for (age, key) in keys.iter().enumerate() {
        set(&mut tx, key, b"value");
        tx.peek(key).unwrap().unwrap().set_access_clock(seconds - age as u32);
    }
    let bytes = tx.peek(&keys[39]).unwrap().unwrap().memory();
    let partition = keyspace.locate(b"first").partition();
    let look = EvictionSample { partition, random: 1 << 63, count: 40 };
    let elsewhere = EvictionSample { partition: partition ^ 1, ..look };
    let mut gone = Vec::new();
    let mut evict = |need| {
        tx.evict(&[elsewhere, look], IDLE, need, |entry, _, idle_s| {
            gone.push((entry.key().to_vec(), idle_s));
        })
    };
    let of_bytes = EvictionNeed { bytes: bytes + 1, keys: 16, samples: 1 };
    assert_eq!(evict(of_bytes), Evicted { seen: 40, keys: 2, bytes: 2 * bytes });
    let of_samples = EvictionNeed { bytes: usize::MAX, samples: 10, ..of_bytes };
    assert_eq!(evict(of_samples), Evicted { seen: 38, keys: 3, bytes: 3 * bytes });
    let at_least_one = EvictionNeed { samples: 100, ..of_samples };
    assert_eq!(evict(at_least_one), Evicted { seen: 35, keys: 1, bytes });
    let oldest = (34..40).rev().map(|age| (keys[age].clone(), age as u32));
    assert!(gone.into_iter().eq(oldest), "the oldest first");
    assert!(get(&tx, &keys[33]).is_some() && get(&tx, &keys[34]).is_none());
    tx.finish();
    drop(tx);
    assert_eq!(keyspace.counters().total(Count::Evicted), 6);
}

#[test]
fn what_is_evicted_leaves_nothing_behind() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"first"]);
    set(&mut tx, b"first", b"value");
    let partition = keyspace.locate(b"first").partition();
    let all = EvictionNeed { bytes: usize::MAX, keys: 16, samples: 5 };
    let mut evict = |random| {
        tx.evict(&[EvictionSample { partition, random, count: 5 }], IDLE, all, |_, _, _| ()).keys
    };
    assert_eq!((evict(3), evict(3)), (1, 0));
    tx.finish();
    drop(tx);
    assert_eq!((keyspace.len(0), keyspace.memory()), (0, keyspace.fixed_memory()));
}
