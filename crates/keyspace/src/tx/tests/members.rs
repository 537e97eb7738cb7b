//! Members with deadlines of their own: hidden by no one here, removed by the next edit of their
//! container and by the sweep, and told as effects of their own.

use std::sync::atomic::Ordering;

use structs::hash::{Hash, HashLimits, HashRef};
use structs::members::{Lifetime, Text};

use super::{NOW, at, audit, begin, on, scattered, set};
use crate::counters::Count;
use crate::keyspace::{EventMask, Keyspace};
use crate::tx::{ContainerOutcome, Tx, TxOptions};

const LIMITS: HashLimits = HashLimits { entries: 8, value_bytes: 16 };

/// A keyspace that somebody follows and listens to.
fn keyspace() -> &'static Keyspace {
    let keyspace = super::keyspace();
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    keyspace.settings().events.store(EventMask::MAX, Ordering::Relaxed);
    keyspace
}

fn on_at(keyspace: &'static Keyspace, keys: &[&[u8]], now: i64) -> Tx {
    begin(keyspace, keys, at(now))
}

fn put(tx: &mut Tx, key: &[u8], field: &[u8], lifetime: Lifetime) -> ContainerOutcome {
    let (field, value) = (Text::Bytes(field), Text::Bytes(b"v"));
    tx.edit(key, |hash: &mut Hash| hash.set(field, value, lifetime, &LIMITS)).unwrap().1
}

fn len(tx: &Tx, key: &[u8]) -> Option<u64> {
    tx.view::<Hash>(key).unwrap().map(HashRef::len)
}

fn removals(tx: &Tx) -> Vec<String> {
    let words = |words: &Vec<Box<[u8]>>| {
        words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
    };
    tx.effects().expired_members().iter().map(|(_, command)| words(command)).collect()
}

fn events(tx: &Tx) -> Vec<&'static str> {
    tx.effects().events().iter().map(|event| event.name).collect()
}

#[test]
fn an_edit_finds_no_member_whose_time_is_over() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"h"]);
    put(&mut tx, b"h", b"stays", Lifetime::Endless);
    put(&mut tx, b"h", b"goes", Lifetime::Until(NOW + 5));
    assert_eq!(keyspace.members_volatile_len(0), 1);
    assert_eq!(keyspace.next_deadline(), Some(NOW + 5));
    drop(tx);
    audit(keyspace);

    let mut tx = on_at(keyspace, &[b"h"], NOW + 5);
    assert_eq!(len(&tx, b"h"), Some(2), "reading leaves it");
    put(&mut tx, b"h", b"new", Lifetime::Endless);
    assert_eq!(len(&tx, b"h"), Some(2));
    assert_eq!(removals(&tx), ["HDEL h goes"]);
    assert_eq!(events(&tx), ["hexpired"]);
    assert_eq!(tx.effects().changes(), 0, "an edit counts no change by itself");
    tx.finish();
    drop(tx);
    assert_eq!(keyspace.counters().total(Count::ExpiredMembers), 1);
    assert_eq!(keyspace.members_volatile_len(0), 0);
    audit(keyspace);
}

#[test]
fn a_container_goes_with_its_last_member_and_is_made_anew() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"h"]);
    put(&mut tx, b"h", b"goes", Lifetime::Until(NOW + 5));
    drop(tx);
    let mut tx = on_at(keyspace, &[b"h"], NOW + 6);
    assert_eq!(
        tx.edit(b"h", |hash: &mut Hash| hash.remove(b"goes")),
        Ok((false, ContainerOutcome::Absent))
    );
    assert_eq!(removals(&tx), ["HDEL h goes"]);
    assert_eq!(events(&tx), ["hexpired", "del"]);
    assert!(!tx.exists(b"h").unwrap());
    drop(tx);
    audit(keyspace);
}

/// Where expiry is suspended, members stay for the server that says when they go. Others have them
/// removed before they write, as they have keys, and while they only read they change nothing.
#[test]
fn where_expiry_is_suspended_members_stay_for_who_sees_them() {
    for sees_expired in [true, false] {
        let keyspace = keyspace();
        let mut tx = on(keyspace, &[b"h"]);
        put(&mut tx, b"h", b"old", Lifetime::Until(NOW + 5));
        drop(tx);
        keyspace.settings().expiry_suspended.store(true, Ordering::Relaxed);
        let options = TxOptions { sees_expired, ..at(NOW + 6) };
        let mut tx = begin(keyspace, &[b"h"], options);
        tx.refresh_members_read(b"h").unwrap();
        assert_eq!((len(&tx, b"h"), removals(&tx).len()), (Some(1), 0));
        put(&mut tx, b"h", b"new", Lifetime::Endless);
        let expected = if sees_expired { (Some(2), 0) } else { (Some(1), 1) };
        assert_eq!((len(&tx, b"h"), removals(&tx).len()), expected);
        tx.seal();
        drop(tx);
        audit(keyspace);
    }
}

#[test]
fn a_deadline_given_and_lifted_in_place_is_counted() {
    let keyspace = keyspace();
    let large: Vec<Vec<u8>> = (0..2000).map(|number| format!("f{number}").into_bytes()).collect();
    let mut tx = on(keyspace, &[b"small", b"large"]);
    put(&mut tx, b"small", b"f0", Lifetime::Endless);
    for field in &large {
        put(&mut tx, b"large", field, Lifetime::Endless);
    }
    for key in [b"small".as_slice(), b"large"] {
        tx.edit(key, |hash: &mut Hash| hash.set_deadline(b"f0", Some(NOW + 9))).unwrap();
        assert_eq!(keyspace.members_volatile_len(0), 1);
        tx.edit(key, |hash: &mut Hash| hash.set_deadline(b"f0", None)).unwrap();
        assert_eq!(keyspace.members_volatile_len(0), 0);
        tx.edit(key, |hash: &mut Hash| hash.set_deadline(b"f0", Some(NOW + 9))).unwrap();
        tx.delete(key).unwrap();
        assert_eq!(keyspace.members_volatile_len(0), 0);
    }
    drop(tx);
    audit(keyspace);
}

#[test]
fn a_sweep_removes_members_of_what_it_visits_and_what_they_leave_empty() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 1);
    let key = &*keys[0];
    let partition = keyspace.locate(key).partition();
    let mut tx = on(keyspace, &[key]);
    for number in 0..600 {
        let lifetime = Lifetime::Until(NOW + 5);
        put(&mut tx, key, format!("f{number}").as_bytes(), lifetime);
    }
    put(&mut tx, key, b"later", Lifetime::Until(NOW + 50));
    drop(tx);
    assert_eq!(keyspace.partitions_due(NOW + 4).count(), 0);

    let mut left = 601;
    let mut turns = 0;
    while keyspace.partitions_due(NOW + 5).any(|index| index == partition) {
        let mut tx = on_at(keyspace, &[key], NOW + 5);
        tx.begin_sweep(partition);
        let swept = tx.sweep_expired(partition, (0, 0), 64);
        assert_eq!(swept.next, None);
        tx.end_sweep(partition, swept.earliest.expect("there is more to come"));
        left -= swept.removed as u64;
        assert_eq!(len(&tx, key), Some(left));
        turns += 1;
        assert!(turns < 10, "each turn gets ahead");
    }
    assert_eq!((left, keyspace.next_deadline()), (1, Some(NOW + 50)));
    audit(keyspace);

    let mut tx = on_at(keyspace, &[key], NOW + 50);
    tx.begin_sweep(partition);
    let swept = tx.sweep_expired(partition, (0, 0), 64);
    assert_eq!((swept.removed, swept.earliest), (1, None));
    assert_eq!(events(&tx), ["hexpired", "del"]);
    assert!(!tx.exists(key).unwrap());
    drop(tx);
    audit(keyspace);
}

#[test]
fn a_string_over_a_hash_takes_its_members_deadlines_with_it() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"h"]);
    put(&mut tx, b"h", b"goes", Lifetime::Until(NOW + 5));
    set(&mut tx, b"h", b"text");
    drop(tx);
    assert_eq!(keyspace.members_volatile_len(0), 0);
    audit(keyspace);
}
