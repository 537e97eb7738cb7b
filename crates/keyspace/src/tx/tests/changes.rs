//! Putting, overwriting, deleting, moving, and what is said about it.

use std::sync::atomic::Ordering;

use super::{
    NOW, OPTIONS, audit, begin, bytes_of, get, keyspace, neighbour, on, set, set_until, world,
};
use crate::Refusal;
use crate::counters::Count;
use crate::entry::{EntryBox, NewText, Text};
use crate::tx::{EventClass, Lifetime, Propagation, TxOptions};

#[test]
fn values_of_every_form_replace_each_other() {
    let keyspace = keyspace();
    let forms = [&b"7"[..], b"hello", &[b'x'; 200], &[b'y'; 5000], &[b'z'; 100_000], b""];
    for old in forms {
        for new in forms {
            for lifetime in [Lifetime::Forever, Lifetime::Until(NOW + 5), Lifetime::Keep] {
                let mut tx = on(keyspace, &[b"k"]);
                tx.delete(b"k").unwrap();
                assert!(!set(&mut tx, b"k", old));
                let value = NewText::from_client(new);
                assert!(tx.put_text(b"k", value, lifetime).unwrap().is_some());
                assert_eq!(get(&tx, b"k").unwrap(), new);
                drop(tx);
                audit(keyspace);
            }
        }
    }
    assert_eq!(keyspace.len(0), 1);
}

#[test]
fn a_lifetime_is_set_kept_and_ended() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    assert!(!tx.set_deadline(b"k", Some(NOW + 1)).unwrap());
    set_until(&mut tx, b"k", b"v", NOW + 10);
    assert_eq!(tx.deadline(b"k").unwrap(), Some(Some(NOW + 10)));
    tx.put_text(b"k", NewText::from_client(b"w"), Lifetime::Keep).unwrap();
    assert_eq!(tx.deadline(b"k").unwrap(), Some(Some(NOW + 10)));
    tx.set_deadline(b"k", Some(NOW + 20)).unwrap();
    assert_eq!(tx.deadline(b"k").unwrap(), Some(Some(NOW + 20)));
    assert_eq!(keyspace.volatile_len(0), 1);
    tx.set_deadline(b"k", None).unwrap();
    assert_eq!(tx.deadline(b"k").unwrap(), Some(None));
    assert_eq!(keyspace.volatile_len(0), 0);
    tx.set_deadline(b"k", Some(NOW + 30)).unwrap();
    set(&mut tx, b"k", b"x");
    assert_eq!(tx.deadline(b"k").unwrap(), Some(None));
    assert_eq!(get(&tx, b"k").unwrap(), b"x");
    drop(tx);
    audit(keyspace);
}

#[test]
fn entries_are_taken_renamed_copied_and_placed() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a", b"b", b"c"]);
    set_until(&mut tx, b"a", b"value", NOW + 10);
    set(&mut tx, b"b", &[b'b'; 100_000]);
    let taken = tx.take(b"a").unwrap().unwrap();
    assert!(!tx.exists(b"a").unwrap());
    tx.place(taken.renamed(b"b")).unwrap();
    assert_eq!(get(&tx, b"b").unwrap(), b"value");
    assert_eq!(tx.deadline(b"b").unwrap(), Some(Some(NOW + 10)));
    let copy = tx.peek(b"b").unwrap().unwrap().duplicate(b"c", None);
    tx.place(copy).unwrap();
    assert_eq!(get(&tx, b"c").unwrap(), b"value");
    assert!(tx.delete(b"c").unwrap() && !tx.delete(b"c").unwrap());
    assert!(tx.take(b"c").unwrap().is_none());
    drop(tx);
    audit(keyspace);
    assert_eq!((keyspace.len(0), keyspace.volatile_len(0)), (1, 1));
}

/// Found by the model: a tree grew only where bytes were written, an entry in any case.
#[test]
fn a_write_of_no_bytes_lengthens_a_string_of_either_form() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k", b"l"]);
    assert_eq!(tx.write_text(b"k", 5, b"").unwrap(), 5);
    assert_eq!(get(&tx, b"k").unwrap(), [0; 5]);
    for (at, len) in [(70_000, 70_000), (80_000, 80_000), (3, 80_000)] {
        assert_eq!(tx.write_text(b"l", at, b"").unwrap(), len);
        assert_eq!(get(&tx, b"l").unwrap(), vec![0; len]);
    }
    drop(tx);
    audit(keyspace);
}

#[test]
fn strings_grow_in_the_block_and_into_a_tree() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    assert_eq!(tx.append_text(b"k", b"12").unwrap(), 2);
    assert_eq!(tx.append_text(b"k", b"3x").unwrap(), 4);
    assert_eq!(tx.write_text(b"k", 6, b"yz").unwrap(), 8);
    assert_eq!(get(&tx, b"k").unwrap(), b"123x\0\0yz");
    assert_eq!(tx.write_text(b"k", 70_000, b"end").unwrap(), 70_003);
    assert!(matches!(tx.peek_text(b"k").unwrap(), Some(Text::Large(_))));
    assert_eq!(tx.append_text(b"k", &[b'!'; 10]).unwrap(), 70_013);
    assert_eq!(tx.write_text(b"k", 0, b"ABC").unwrap(), 70_013);
    let value = get(&tx, b"k").unwrap();
    assert!(value.starts_with(b"ABCx\0\0yz") && value.ends_with(b"end!!!!!!!!!!"));
    drop(tx);
    audit(keyspace);
}

#[test]
fn reading_counts_hits_and_misses_and_touches_only_when_told() {
    let keyspace = keyspace();
    let later = TxOptions { now: NOW + 50_000, ..OPTIONS };
    set(&mut on(keyspace, &[b"k"]), b"k", b"v");
    let mut quiet = begin(keyspace, &[b"k"], TxOptions { touches: false, ..later });
    assert!(quiet.read(b"k").unwrap().is_some());
    assert_eq!(quiet.idle_seconds(quiet.peek(b"k").unwrap().unwrap()), Some(50));
    quiet.finish();
    drop(quiet);
    let mut tx = begin(keyspace, &[b"k"], later);
    assert!(tx.read(b"k").unwrap().is_some());
    assert_eq!(tx.idle_seconds(tx.peek(b"k").unwrap().unwrap()), Some(0));
    tx.finish();
    drop(tx);
    let mut tx = on(keyspace, &[b"absent"]);
    assert!(tx.read(b"absent").unwrap().is_none());
    tx.finish();
    let counters = keyspace.counters();
    assert_eq!((counters.total(Count::Hits), counters.total(Count::Misses)), (2, 1));
    counters.reset(Count::Hits);
    assert_eq!((counters.total(Count::Hits), counters.total(Count::Misses)), (0, 1));
}

#[test]
fn an_overwrite_notes_the_access() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"v");
    let mut tx = begin(keyspace, &[b"k"], TxOptions { now: NOW + 9000, ..OPTIONS });
    assert_eq!(tx.idle_seconds(tx.peek(b"k").unwrap().unwrap()), Some(9));
    set(&mut tx, b"k", b"w");
    assert_eq!(tx.idle_seconds(tx.peek(b"k").unwrap().unwrap()), Some(0));
}

#[test]
fn events_and_effects_are_kept_only_when_wanted() {
    let keyspace = keyspace();
    let work = || {
        let mut tx = on(keyspace, &[b"k"]);
        set(&mut tx, b"k", b"v");
        tx.event(EventClass::String, "set", b"k");
        tx.event(EventClass::Generic, "del", b"k");
        tx.effects_mut().instead(&[b"SET", b"k", b"v"]);
        tx.finish();
        tx
    };
    let tx = work();
    assert_eq!(tx.effects().changes(), 1);
    assert!(!tx.effects().is_recorded() && tx.effects().events().is_empty());
    assert_eq!(*tx.effects().propagation(), Propagation::AsSent);
    drop(tx);
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    keyspace.settings().events.store(EventClass::String as u32, Ordering::Relaxed);
    let tx = work();
    let names: Vec<_> = tx.effects().events().iter().map(|event| event.name).collect();
    assert_eq!(names, ["set"]);
    let Propagation::Instead(commands) = tx.effects().propagation() else { panic!("recorded") };
    assert_eq!(commands.len(), 1);
    assert_eq!(keyspace.counters().total(Count::Changes), 2);
}

#[test]
fn databases_are_apart() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"zero");
    assert_eq!(tx.switch_database(3), 0);
    assert_eq!(get(&tx, b"k"), None);
    set_until(&mut tx, b"k", b"three", NOW + 1);
    assert_eq!(tx.switch_database(0), 3);
    assert_eq!(get(&tx, b"k").unwrap(), b"zero");
    drop(tx);
    assert_eq!([0, 1, 2, 3].map(|logical| keyspace.len(logical)), [1, 0, 0, 1]);
    assert_eq!(keyspace.volatile_len(3), 1);
    audit(keyspace);
}

#[test]
fn replies_wait_for_the_last_write_they_saw() {
    let keyspace = keyspace();
    let (a, b) = (&b"a"[..], &b"b"[..]);
    on(keyspace, &[a]).stamp_lsn(10);
    on(keyspace, &[b]).stamp_lsn(20);
    assert_eq!(on(keyspace, &[a]).observed_lsn(), 10);
    assert_eq!(on(keyspace, &[a, b]).observed_lsn(), 20);
    let mut visitor = on(keyspace, &[]);
    assert_eq!(visitor.observed_lsn(), 0);
    for key in [b, a] {
        visitor.visit(keyspace.locate(key).partition()).unwrap();
    }
    assert_eq!(visitor.observed_lsn(), 20, "what was visited before counts");
    drop(visitor);
    assert_eq!(world(keyspace, OPTIONS).observed_lsn(), 20);
    world(keyspace, OPTIONS).stamp_lsn(30);
    assert_eq!(on(keyspace, &[b"c"]).observed_lsn(), 30);
}

#[test]
fn a_busy_partition_is_not_visited() {
    let keyspace = keyspace();
    let holder = on(keyspace, &[b"a"]);
    let mut visitor = on(keyspace, &[]);
    assert_eq!(visitor.visit(keyspace.locate(b"a").partition()), Err(Refusal::Heavy));
    visitor.visit(keyspace.locate(b"b").partition()).unwrap();
    drop(holder);
    visitor.visit(keyspace.locate(b"a").partition()).unwrap();
}

#[test]
fn a_renewed_transaction_knows_nothing_of_the_command_before() {
    let keyspace = keyspace();
    keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    keyspace.settings().events.store(EventClass::String as u32, Ordering::Relaxed);
    let interest = keyspace.register_change_interest();
    let mut tx = on(keyspace, &[b"a", b"b"]);
    for key in [b"a", b"b"] {
        tx.renew();
        assert!(!tx.has_modified() && !tx.effects().has_followers());
        set(&mut tx, key, b"1");
        tx.effects_mut().instead(&[b"SET", key, b"1"]);
        tx.event(EventClass::String, "set", key);
        tx.finish();
        assert_eq!(tx.modified(), [(0, Box::from(&key[..]))]);
        assert_eq!((tx.effects().changes(), tx.effects().events().len()), (1, 1));
        let Propagation::Instead(commands) = tx.effects().propagation() else { panic!("told") };
        assert_eq!(commands.len(), 1);
    }
    tx.renew();
    assert_eq!(tx.effects().propagation(), &Propagation::AsSent);
    assert_eq!((get(&tx, b"a").unwrap(), get(&tx, b"b").unwrap()), (b"1".into(), b"1".into()));
    drop((tx, interest));
    assert_eq!(keyspace.counters().total(Count::Changes), 2);
    audit(keyspace);
}

#[test]
fn walks_and_samples_see_one_partition() {
    let keyspace = keyspace();
    let other = neighbour(keyspace, b"a");
    let partition = keyspace.locate(b"a").partition();
    let mut tx = on(keyspace, &[b"a"]);
    set(&mut tx, b"a", b"1");
    set_until(&mut tx, &other, b"2", NOW);
    let mut seen = Vec::new();
    assert_eq!(tx.walk(partition, 0, 100, |entry| seen.push(bytes_of(entry))), None);
    assert_eq!(seen, [b"1"], "expired ones are passed over");
    assert_eq!(tx.partition_len(partition), 2);
    assert!(tx.sample(partition, 12345).is_some());
    assert_eq!(tx.table_shape(partition).unwrap().words, 2);
    assert_eq!(tx.walk(partition + 1, 0, 1, |_| ()), None, "not held");
}

#[test]
fn what_is_big_counts_until_whoever_was_called_has_freed_it() {
    let keyspace = keyspace();
    let (sender, receiver) = std::sync::mpsc::channel();
    keyspace.lazy_free_queue().call_by(move || sender.send(()).unwrap());
    let called = || receiver.try_iter().count();
    let free_all = || while keyspace.lazy_free_queue().free_next() {};
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", &[0; 300_000]);
    set(&mut tx, b"k", b"small");
    assert_eq!((called(), keyspace.lazy_free_queue().keys()), (1, (1, 0)));
    assert!(keyspace.lazy_free_queue().bytes() >= 300_000);
    tx.delete(b"k").unwrap();
    assert_eq!((called(), keyspace.lazy_free_queue().keys()), (0, (1, 0)), "small");
    tx.place(EntryBox::text(b"k", NewText::from_client(&[0; 300_000]), None)).unwrap();
    tx.delete(b"k").unwrap();
    assert_eq!(
        (called(), keyspace.lazy_free_queue().keys()),
        (0, (2, 0)),
        "the one call is for both"
    );
    assert!(
        !keyspace.lazy_free_queue().free_some(299_999),
        "too much for who wants to free little"
    );
    assert!(keyspace.lazy_free_queue().free_some(400_000));
    assert_eq!(keyspace.lazy_free_queue().keys(), (1, 1));
    free_all();
    assert_eq!(
        (keyspace.lazy_free_queue().bytes(), keyspace.lazy_free_queue().keys()),
        (0, (0, 2))
    );
    drop(tx);
    let keys: Vec<String> = (0..1000).map(|number| format!("k{number}")).collect();
    for key in &keys {
        set(&mut on(keyspace, &[key.as_bytes()]), key.as_bytes(), &[0; 1000]);
    }
    assert_eq!(world(keyspace, OPTIONS).flush_database(), Ok(1000));
    assert_eq!((called(), keyspace.lazy_free_queue().keys()), (1, (1000, 2)), "tables too");
    let all = keyspace.lazy_free_queue().bytes();
    assert!(all >= 1_000_000);
    assert!(keyspace.lazy_free_queue().free_some(0), "one table can always be freed");
    assert!(keyspace.lazy_free_queue().bytes() < all && keyspace.lazy_free_queue().keys().0 > 900);
    free_all();
    assert_eq!(
        (keyspace.lazy_free_queue().bytes(), keyspace.lazy_free_queue().keys()),
        (0, (0, 1002))
    );
    keyspace.lazy_free_queue().reset();
    set(&mut on(keyspace, &[b"k"]), b"k", &[0; 300_000]);
    assert_eq!(on(keyspace, &[b"k"]).delete(b"k"), Ok(true));
    assert_eq!((called(), keyspace.lazy_free_queue().keys()), (1, (1, 0)));
}
