//! Read phases: what they see, and when what they computed is valid.

use base::random::Random;
use structs::hash::{Hash, HashLimits};
use structs::list::{List, ListLimits, Side};
use structs::members::{Lifetime as MemberLifetime, Text};
use structs::set::{Set, SetLimits};
use structs::sorted_set::{SortedSet, SortedSetLimits};

use super::{NOW, at, audit, begin, get, keyspace, on, scattered, set, set_until, undoable, world};
use crate::keyspace::Keyspace;
use crate::refusal::Refusal;
use crate::tx::{Lifetime, ReadPhaseResult, Tx};

const SETS: SetLimits =
    SetLimits { intset_entries: 8, listpack_entries: 8, listpack_value_bytes: 16 };
const SORTED: SortedSetLimits = SortedSetLimits { entries: 8, value_bytes: 16 };
const HASHES: HashLimits = HashLimits { entries: 8, value_bytes: 16 };

fn phase(tx: &Tx, keys: &[&[u8]]) -> Option<Tx> {
    tx.begin_read_phase(keys.iter().copied(), false)
}

/// What a read phase over a key computes: how many bytes it has.
fn compute(phase: Tx, key: &[u8]) -> ReadPhaseResult {
    let mut phase = phase;
    let computed = phase.compute(|tx| Ok(tx.text(key)?.map_or(0, |text| text.len())));
    assert_eq!(computed, Err(Refusal::Widen), "it needs its locks to go on");
    phase.end_read_phase().expect("it was one")
}

#[test]
fn a_read_phase_sees_the_moment_at_which_it_began() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a", b"b"]);
    set(&mut tx, b"a", b"before");
    let mut over = on(keyspace, &[b"expired"]);
    set_until(&mut over, b"expired", b"v", NOW - 1);
    drop(over);
    drop(tx);
    let tx = on(keyspace, &[b"a", b"b"]);
    let phase = phase(&tx, &[b"a", b"b"]).expect("it has its locks");
    drop(tx);
    let mut other = on(keyspace, &[b"a", b"b"]);
    set(&mut other, b"a", b"behind");
    set(&mut other, b"b", b"new");
    drop(other);
    assert_eq!(get(&phase, b"a").as_deref(), Some(&b"before"[..]));
    assert_eq!(get(&phase, b"b"), None);
    drop(phase);
    audit(keyspace);
}

#[test]
fn a_read_phase_reaches_nothing_else_and_changes_nothing() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a", b"other"]);
    set(&mut tx, b"a", b"v");
    set(&mut tx, b"other", b"v");
    drop(tx);
    let tx = on(keyspace, &[b"a", b"other"]);
    let mut phase = phase(&tx, &[b"a"]).unwrap();
    drop(tx);
    assert_eq!(phase.peek(b"other").map(|_| ()), Err(Refusal::Widen));
    let text = crate::entry::NewText::from_client(b"w");
    assert_eq!(phase.put_text(b"a", text, Lifetime::Forever), Err(Refusal::Widen));
    assert_eq!(phase.delete(b"a"), Err(Refusal::Widen));
    assert_eq!(phase.set_deadline(b"a", Some(NOW + 5)), Err(Refusal::Widen));
    drop(phase);
    assert_eq!(get(&on(keyspace, &[b"a"]), b"a").as_deref(), Some(&b"v"[..]));
    audit(keyspace);
}

#[test]
fn what_has_to_be_done_under_the_locks_first_keeps_them() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a"]);
    set_until(&mut tx, b"a", b"v", NOW + 5);
    assert!(phase(&tx, &[b"a"]).is_none(), "it has changed something");
    drop(tx);
    assert!(phase(&begin(keyspace, &[b"a"], at(NOW + 5)), &[b"a"]).is_none(), "to be removed");
    assert!(phase(&world(keyspace, at(NOW)), &[b"a"]).is_none());
    let names: Vec<_> = (0..1000).map(|number| format!("key:{number}").into_bytes()).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    assert!(phase(&on(keyspace, &names), &names).is_none(), "so many are not copied");
    let long = vec![b'x'; 60_000];
    let mut tx = on(keyspace, &names[..5]);
    names[..5].iter().for_each(|name| _ = set(&mut tx, name, &long));
    drop(tx);
    assert!(phase(&on(keyspace, &names[..5]), &names[..5]).is_none(), "nor so much");
    assert!(phase(&on(keyspace, &names[..4]), &names[..4]).is_some());
    assert!(phase(&begin(keyspace, &names[..4], undoable()), &names[..4]).is_some());
}

#[test]
fn a_result_is_taken_once_where_it_is_valid() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a"]);
    set(&mut tx, b"a", b"value");
    drop(tx);
    let mut computed = {
        let tx = on(keyspace, &[b"a"]);
        let phase = phase(&tx, &[b"a"]).unwrap();
        drop(tx);
        compute(phase, b"a")
    };
    let mut tx = on(keyspace, &[b"a"]);
    assert!(tx.validate(&mut computed));
    assert_eq!(tx.compute(|_| Ok(7_usize)), Ok(5), "it was there");
    assert_eq!(tx.compute(|_| Ok(7)), Ok(7));
    assert!(!tx.validate(&mut computed), "it was taken");
}

#[test]
fn what_nobody_looked_at_may_change() {
    let keyspace = keyspace();
    let keys: [&[u8]; 2] = [b"source", b"destination"];
    let phase = phase(&on(keyspace, &keys), &keys).unwrap();
    let mut computed = compute(phase, b"source");
    let mut tx = on(keyspace, &keys);
    set(&mut tx, b"destination", b"v");
    assert!(tx.validate(&mut computed));
}

/// One random change of the container at a key, or of the key.
fn change(tx: &mut Tx, key: &[u8], kind: u64, random: &mut Random) {
    let number = random.below(300).to_string();
    let (text, score) = (Text::Bytes(number.as_bytes()), random.below(4) as f64);
    let removes = random.below(2) == 0;
    match (random.below(12), kind) {
        (0, _) => _ = tx.delete(key).unwrap(),
        (1, _) => _ = tx.set_deadline(key, Some(NOW + 1000)).unwrap(),
        (2, 0) => _ = set(tx, key, &vec![b'x'; random.below(3) as usize * 50_000]),
        (_, 0) => {
            let patched = tx.peek_text(key).unwrap().map_or(0, |text| text.len());
            _ = set(tx, key, &vec![random.below(3) as u8; patched.max(3)]);
        }
        (_, 1) => {
            let limits = ListLimits::new(8);
            let edit = |list: &mut List| {
                list.expect(1, number.len(), &limits);
                match removes && !list.borrow().is_empty() {
                    true => list.remove(0..1),
                    false => list.push(Side::Right, [text]),
                }
                list.shrink(&limits);
            };
            tx.edit(key, edit).unwrap();
        }
        (_, 2) => {
            let edit = |set: &mut Set| match removes {
                true => set.remove(text),
                false => set.insert(text, &SETS),
            };
            tx.edit(key, edit).unwrap();
        }
        (_, 3) => {
            let edit = |set: &mut SortedSet| match removes {
                true => _ = set.remove(number.as_bytes()),
                false => _ = set.insert(text, score, &SORTED),
            };
            tx.edit(key, edit).unwrap();
        }
        _ => {
            let edit = |hash: &mut Hash| match removes {
                true => _ = hash.remove(number.as_bytes()),
                false => _ = hash.set(text, Text::Integer(1), MemberLifetime::Endless, &HASHES),
            };
            tx.edit(key, edit).unwrap();
        }
    }
}

/// All that a key holds, in words.
fn contents(tx: &Tx, key: &[u8]) -> String {
    let Some(entry) = tx.peek(key).unwrap() else { return String::new() };
    let texts = |texts: &mut dyn Iterator<Item = Text<'_>>| {
        texts.map(|text| String::from_utf8_lossy(&text.to_vec()).into_owned()).collect::<Vec<_>>()
    };
    match entry.kind() {
        crate::Kind::String => format!("{:?}", get(tx, key)),
        crate::Kind::List => {
            let list = tx.peek_view::<List>(key).unwrap().unwrap();
            texts(&mut list.range(0..list.len())).join(" ")
        }
        crate::Kind::Set => {
            let set = tx.peek_view::<Set>(key).unwrap().unwrap();
            texts(&mut set.iter().map(|member| member.member)).join(" ")
        }
        crate::Kind::SortedSet => {
            let set = tx.peek_view::<SortedSet>(key).unwrap().unwrap();
            let scores: Vec<f64> = set.items(0..set.len()).map(|item| item.score).collect();
            format!(
                "{} {scores:?}",
                texts(&mut set.items(0..set.len()).map(|i| i.member)).join(" ")
            )
        }
        _ => {
            let hash = tx.peek_view::<Hash>(key).unwrap().unwrap();
            texts(&mut hash.iter().map(|field| field.member)).join(" ")
        }
    }
}

/// Whatever others did meanwhile, a result is valid only where the key holds what it held; and it
/// is where nobody did anything.
#[test]
fn what_is_valid_was_computed_from_what_is_there() {
    let keyspace: &'static Keyspace = keyspace();
    let names = scattered(keyspace, 5);
    let mut random = Random::from_seed(1);
    let (mut valid, mut void) = (0, 0);
    for round in 0..2000 {
        let kind = round % 5;
        let key = &names[kind as usize];
        let mut tx = on(keyspace, &[key]);
        // Mostly large enough for pages that are shared.
        if !tx.exists(key).unwrap() {
            (0..random.below(400)).for_each(|_| change(&mut tx, key, kind, &mut random));
        }
        drop(tx);
        let tx = on(keyspace, &[key]);
        let before = contents(&tx, key);
        let Some(mut phase) = phase(&tx, &[key]) else { continue };
        drop(tx);
        assert_eq!(contents(&phase, key), before);
        let refused = phase.compute(|tx| tx.peek(key).map(|entry| entry.is_some()));
        assert_eq!(refused, Err(Refusal::Widen));
        let mut computed = phase.end_read_phase().unwrap();
        let changes = random.below(4);
        let mut tx = on(keyspace, &[key]);
        (0..changes).for_each(|_| change(&mut tx, key, kind, &mut random));
        drop(tx);
        let mut tx = on(keyspace, &[key]);
        let is_valid = tx.validate(&mut computed);
        assert!(is_valid || changes > 0, "nobody did anything");
        assert!(!is_valid || contents(&tx, key) == before, "round {round}");
        if is_valid && changes > 0 { valid += 1 } else { void += 1 }
    }
    assert!(valid > 50 && void > 50, "{valid}, {void}");
    audit(keyspace);
}

#[test]
fn time_makes_a_result_void_where_it_took_a_key_or_a_member() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"key", b"hash"]);
    set_until(&mut tx, b"key", b"v", NOW + 5);
    let lifetime = MemberLifetime::Until(NOW + 5);
    let edit = |hash: &mut Hash| hash.set(Text::Integer(1), Text::Integer(1), lifetime, &HASHES);
    tx.edit(b"hash", edit).unwrap();
    drop(tx);
    for key in [&b"key"[..], b"hash"] {
        for (now, is_valid) in [(NOW + 4, true), (NOW + 5, false)] {
            let mut phase = phase(&on(keyspace, &[key]), &[key]).unwrap();
            phase.compute(|tx| tx.exists(key)).unwrap_err();
            let mut computed = phase.end_read_phase().unwrap();
            assert_eq!(begin(keyspace, &[key], at(now)).validate(&mut computed), is_valid);
        }
    }
}

#[test]
fn lookups_count_once() {
    use crate::counters::Count;
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"a"]);
    set(&mut tx, b"a", b"v");
    tx.finish();
    drop(tx);
    let counted = || [Count::Hits, Count::Misses].map(|count| keyspace.counters().total(count));
    let before = counted();
    let keys: [&[u8]; 2] = [b"a", b"none"];
    let run = |tx: &mut Tx| tx.compute(|tx| Ok(keys.map(|key| tx.text(key).unwrap().is_some())));
    let mut phase = phase(&on(keyspace, &keys), &keys).unwrap();
    run(&mut phase).unwrap_err();
    let mut computed = phase.end_read_phase().unwrap();
    let mut tx = on(keyspace, &keys);
    assert!(tx.validate(&mut computed));
    assert_eq!(run(&mut tx), Ok([true, false]));
    tx.finish();
    drop(tx);
    assert_eq!(counted(), [before[0] + 1, before[1] + 1]);
}

/// Each byte counts once: with its key, as garbage that waits, or as what read phases only hold.
#[test]
fn what_only_read_phases_hold_is_garbage_until_it_is_freed() {
    const SIZE: usize = 1_000_000;
    let keyspace = keyspace();
    let (sender, receiver) = std::sync::mpsc::channel();
    keyspace.lazy_free_queue().call_by(move || sender.send(()).unwrap());
    let garbage = || keyspace.lazy_free_queue().bytes();
    let free_all = || while keyspace.lazy_free_queue().free_next() {};
    let is_all = |bytes: usize| (SIZE..SIZE + SIZE / 20).contains(&bytes);
    let store = |byte: u8| set(&mut on(keyspace, &[b"k"]), b"k", &vec![byte; SIZE]);
    let begin_phase = || phase(&on(keyspace, &[b"k"]), &[b"k"]).expect("it has its locks");
    let delete = || assert_eq!(on(keyspace, &[b"k"]).delete(b"k"), Ok(true));

    // The phase ends before its key goes.
    store(1);
    let first = begin_phase();
    assert_eq!(garbage(), 0, "its key is there");
    drop(first);
    assert_eq!(garbage(), 0);
    // The key goes first; two phases hold it, one after the other ends.
    let (first, second) = (begin_phase(), begin_phase());
    delete();
    assert!(is_all(garbage()), "it waits to be freed");
    free_all();
    assert!(is_all(garbage()), "the phases hold it");
    drop(first);
    free_all();
    assert!(is_all(garbage()), "the second one does");
    let computed = compute(second, b"k");
    assert!(is_all(garbage()), "to the end of what it computed");
    drop(computed);
    assert!(is_all(garbage()), "it waits to be freed");
    free_all();
    assert_eq!(garbage(), 0);
    // A key that is stored anew is another.
    store(2);
    let first = begin_phase();
    store(3);
    free_all();
    assert!(is_all(garbage()));
    drop(first);
    free_all();
    assert_eq!(garbage(), 0);
    // What has changed in one place shares all others.
    let first = begin_phase();
    on(keyspace, &[b"k"]).write_text(b"k", 0, b"x").unwrap();
    assert!(garbage() < SIZE / 2, "what its root shares: {}", garbage());
    drop(first);
    free_all();
    assert_eq!(garbage(), 0);
    // All keys go.
    let first = begin_phase();
    assert!(world(keyspace, super::OPTIONS).flush_database().is_ok());
    free_all();
    assert!(is_all(garbage()));
    drop(first);
    free_all();
    assert_eq!(garbage(), 0);
    assert!(receiver.try_iter().count() > 0);
}
