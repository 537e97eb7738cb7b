//! Containers behind keys: small and large, edited, copied, undone, counted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::random::Random;
use structs::hash::{Hash, HashLimits, HashRef};
use structs::members::{Lifetime as FieldLifetime, Text};

use super::{NOW, at, audit, get, keyspace, on, scattered, set, undoable};
use crate::refusal::Refusal;
use crate::tx::{ContainerOutcome, Lifetime, Tx};

const LIMITS: HashLimits = HashLimits { entries: 8, value_bytes: 16 };

fn put_field(tx: &mut Tx, key: &[u8], field: &[u8], value: &[u8]) -> (bool, ContainerOutcome) {
    let (field, value) = (Text::Bytes(field), Text::Bytes(value));
    tx.edit(key, |hash: &mut Hash| hash.set(field, value, FieldLifetime::Keep, &LIMITS)).unwrap()
}

fn remove_field(tx: &mut Tx, key: &[u8], field: &[u8]) -> (bool, ContainerOutcome) {
    tx.edit(key, |hash: &mut Hash| hash.remove(field)).unwrap()
}

fn fields(hash: HashRef<'_>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let bytes = |text: Text<'_>| text.as_bytes(&mut Vec::new()).to_vec();
    hash.iter().map(|field| (bytes(field.member), bytes(field.value))).collect()
}

#[test]
fn a_container_comes_with_its_first_element_and_goes_with_its_last() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"h"]);
    assert_eq!(remove_field(&mut tx, b"h", b"f"), (false, ContainerOutcome::Absent));
    assert!(!tx.exists(b"h").unwrap());
    assert_eq!(put_field(&mut tx, b"h", b"f", b"v"), (true, ContainerOutcome::Kept));
    assert_eq!(tx.view::<Hash>(b"h").unwrap().unwrap().len(), 1);
    tx.set_deadline(b"h", Some(NOW + 5)).unwrap();
    assert_eq!(put_field(&mut tx, b"h", b"f", b"w"), (false, ContainerOutcome::Kept));
    assert_eq!(tx.deadline(b"h").unwrap(), Some(Some(NOW + 5)), "an edit keeps the deadline");
    assert_eq!(remove_field(&mut tx, b"h", b"f"), (true, ContainerOutcome::Removed));
    assert!(!tx.exists(b"h").unwrap());
    drop(tx);
    audit(keyspace);
}

#[test]
fn other_types_are_refused_and_left_alone() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"s", b"h"]);
    set(&mut tx, b"s", b"text");
    let refused = tx.edit(b"s", |hash: &mut Hash| hash.remove(b"f"));
    assert_eq!(refused.err(), Some(Refusal::WrongType));
    assert_eq!(tx.view::<Hash>(b"s").err(), Some(Refusal::WrongType));
    assert_eq!(get(&tx, b"s"), Some(b"text".to_vec()));
    put_field(&mut tx, b"h", b"f", b"v");
    assert_eq!(tx.text(b"h").err(), Some(Refusal::WrongType));
    set(&mut tx, b"h", b"now a string");
    assert_eq!(get(&tx, b"h"), Some(b"now a string".to_vec()));
    drop(tx);
    audit(keyspace);
}

#[test]
fn an_expired_container_is_absent_for_an_edit() {
    let keyspace = keyspace();
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    let mut tx = on(keyspace, &[b"h"]);
    put_field(&mut tx, b"h", b"old", b"v");
    tx.set_deadline(b"h", Some(NOW + 1)).unwrap();
    drop(tx);
    let mut tx = super::begin(keyspace, &[b"h"], at(NOW + 1));
    assert_eq!(put_field(&mut tx, b"h", b"new", b"v"), (true, ContainerOutcome::Kept));
    let hash = fields(tx.view::<Hash>(b"h").unwrap().unwrap());
    assert_eq!(hash.len(), 1);
    assert_eq!(tx.effects().expired().len(), 1);
    drop(tx);
    audit(keyspace);
}

#[test]
fn edits_agree_with_a_model_in_both_forms_and_can_be_undone() {
    let keyspace = keyspace();
    let mut random = Random::from_seed(5);
    let keys = scattered(keyspace, 3);
    let mut models = vec![BTreeMap::<Vec<u8>, Vec<u8>>::new(); keys.len()];
    for round in 0..3000 {
        let undone = random.below(4) == 0;
        let place = random.below(3) as usize;
        let key = &keys[place];
        let mut tx = super::begin(keyspace, &[key], undoable());
        let mut model = models[place].clone();
        for _ in 0..random.below(12) {
            let field = format!("f{}", random.below(20)).into_bytes();
            if random.below(3) == 0 {
                let had = model.remove(&field).is_some();
                assert_eq!(remove_field(&mut tx, key, &field).0, had);
            } else {
                let value = vec![b'v'; random.below(24) as usize];
                let new = model.insert(field.clone(), value.clone()).is_none();
                assert_eq!(put_field(&mut tx, key, &field, &value).0, new);
            }
        }
        if undone {
            assert!(tx.exists(&keys[(place + 1) % 3]).is_err(), "beyond the grant");
            drop(tx.widen(0));
        } else {
            tx.seal();
            drop(tx);
            models[place] = model;
        }
        let tx = on(keyspace, &[key]);
        let found = tx.view::<Hash>(key).unwrap().map(fields).unwrap_or_default();
        assert_eq!(found, models[place], "round {round}");
    }
    audit(keyspace);
}

#[test]
fn a_copy_of_a_large_container_shares_it_and_goes_its_own_way() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a", b"b"]);
    for number in 0..5000 {
        put_field(&mut tx, b"a", format!("field:{number}").as_bytes(), b"value");
    }
    let copy = tx.peek(b"a").unwrap().unwrap().duplicate(b"b", None);
    tx.place(copy).unwrap();
    put_field(&mut tx, b"b", b"field:7", b"changed");
    remove_field(&mut tx, b"b", b"field:8");
    let of = |key: &[u8]| fields(tx.view::<Hash>(key).unwrap().unwrap());
    assert_eq!((of(b"a").len(), of(b"b").len()), (5000, 4999));
    assert_eq!(of(b"a")[&b"field:7"[..]], b"value");
    assert_eq!(of(b"b")[&b"field:7"[..]], b"changed");
    drop(tx);
    audit(keyspace);
}

#[test]
fn a_stored_container_replaces_whatever_was_there() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"text");
    let mut hash = Hash::default();
    hash.set(Text::Bytes(b"f"), Text::Bytes(b"v"), FieldLifetime::Keep, &LIMITS);
    assert!(tx.put(b"k", hash, Lifetime::Forever).unwrap());
    assert_eq!(tx.view::<Hash>(b"k").unwrap().unwrap().len(), 1);
    assert!(tx.put(b"k", Hash::default(), Lifetime::Forever).unwrap());
    assert!(!tx.exists(b"k").unwrap());
    drop(tx);
    audit(keyspace);
}
