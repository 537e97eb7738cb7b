//! Widening: a handler that meets an undeclared key starts again with more locks.

use std::task::Waker;

use super::{NOW, OPTIONS, audit, begin, get, keyspace, on, scattered, set, set_until, undoable};
use crate::WIDENINGS_MAX;
use crate::counters::Count;
use crate::entry::NewText;
use crate::lock::acquisition::{Acquisition, LockScope, PartitionSet};
use crate::refusal::Refusal;
use crate::tx::{Lifetime, Tx, TxOptions, UndoPoint};
use crate::watch::Watch;

#[test]
fn undo_restores_bytes_deadlines_clocks_and_marks() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 5);
    let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let [plain, volatile, large, absent, undeclared] = all[..] else { unreachable!() };
    let mut tx = on(keyspace, &all);
    set(&mut tx, plain, b"plain");
    set_until(&mut tx, volatile, b"volatile", NOW + 500);
    set(&mut tx, large, &[b'l'; 100_000]);
    drop(tx);
    let memory = keyspace.memory();
    // Much later, so that the clocks move.
    let mut tx = begin(
        keyspace,
        &[plain, volatile, large, absent],
        TxOptions { now: NOW + 77, ..undoable() },
    );
    tx.options.now = NOW + 400;
    tx.access = crate::clock::AccessClock::new(keyspace.settings(), NOW + 90_000);
    set(&mut tx, plain, b"again");
    tx.append_text(plain, &[b'x'; 300]).unwrap();
    tx.set_deadline(volatile, Some(NOW + 600)).unwrap();
    tx.set_deadline(volatile, None).unwrap();
    tx.append_text(large, b"tail").unwrap();
    tx.delete(large).unwrap();
    set(&mut tx, absent, b"now present");
    let moved = tx.take(plain).unwrap().unwrap();
    tx.place(moved.renamed(absent)).unwrap();
    assert_eq!(tx.read(undeclared).unwrap_err(), Refusal::Widen);
    let acquisition = tx.widen(0);
    let mut expected: Vec<_> = all.iter().map(|key| keyspace.locate(key).partition()).collect();
    expected.sort_unstable();
    assert_eq!(*acquisition.wanted(), LockScope::Partitions(expected.into_iter().collect()));
    drop(acquisition);
    assert_eq!(keyspace.memory(), memory);
    audit(keyspace);
    let tx = on(keyspace, &all);
    assert_eq!(get(&tx, plain).unwrap(), b"plain");
    assert_eq!(get(&tx, volatile).unwrap(), b"volatile");
    assert_eq!(tx.deadline(volatile).unwrap(), Some(Some(NOW + 500)));
    assert_eq!(get(&tx, large).unwrap(), [b'l'; 100_000]);
    assert_eq!(get(&tx, absent), None);
    for key in [plain, volatile, large] {
        assert_eq!(tx.idle_seconds(tx.peek(key).unwrap().unwrap()), Some(0), "the clock is back");
    }
}

#[test]
fn a_lock_that_is_free_is_taken_where_the_command_stands() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 3);
    set(&mut on(keyspace, &[&keys[1]]), &keys[1], b"1");
    let mut tx = begin(keyspace, &[&keys[0]], undoable());
    set(&mut tx, &keys[0], b"0");
    tx.finish_command();
    let begun = tx.begin_command();
    assert_eq!(tx.read(&keys[1]).unwrap_err(), Refusal::Widen);
    assert!(tx.try_extend(&begun));
    tx.forget_command(&begun);
    assert_eq!(get(&tx, &keys[1]).unwrap(), b"1");
    let place = |key: &[u8]| PartitionSet::from_slice(&[keyspace.locate(key).partition()]);
    let mut other = Acquisition::of_partitions(keyspace, place(&keys[1]));
    assert!(!other.attempt(), "it is kept");
    // What others have is not waited for.
    let held = on(keyspace, &[&keys[2]]);
    let begun = tx.begin_command();
    assert_eq!(tx.read(&keys[2]).unwrap_err(), Refusal::Widen);
    assert!(!tx.try_extend(&begun));
    drop(held);
    let acquisition = tx.widen(0);
    let mut all: PartitionSet = keys.iter().map(|key| keyspace.locate(key).partition()).collect();
    all.sort_unstable();
    assert_eq!(*acquisition.wanted(), LockScope::Partitions(all));
    drop(acquisition);
    assert!(other.attempt() && get(&on(keyspace, &[&keys[0]]), &keys[0]).is_none());
}

/// Whether changes are observed is looked at when the lock is taken, not when the transaction
/// began.
#[test]
fn a_watch_that_began_before_the_lock_was_taken_breaks() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    let mut tx = begin(keyspace, &[&keys[0]], undoable());
    let watch = Watch::new(keyspace);
    on(keyspace, &[&keys[1]]).watch(&keys[1], &watch);
    let begun = tx.begin_command();
    assert_eq!(tx.read(&keys[1]).unwrap_err(), Refusal::Widen);
    assert!(tx.try_extend(&begun));
    set(&mut tx, &keys[1], b"v");
    tx.finish_command();
    tx.break_watches();
    assert!(watch.is_broken());
    tx.seal();
}

#[test]
fn a_command_is_not_begun_again_alone_where_it_changed_something_or_cannot_be_undone() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    let meets = |tx: &mut Tx, changes: bool, wants_world: bool| {
        let begun = tx.begin_command();
        if changes {
            set(tx, &keys[0], b"v");
        }
        assert_eq!(tx.read(&keys[1]).unwrap_err(), Refusal::Widen);
        assert!(!wants_world || tx.flush_all().is_err());
        tx.try_extend(&begun)
    };
    let start = |options| begin(keyspace, &[&keys[0]], options);
    assert!(!meets(&mut start(undoable()), true, false));
    assert!(!meets(&mut start(undoable()), false, true));
    assert!(!meets(&mut start(OPTIONS), false, false));
    assert!(!meets(&mut start(TxOptions { heavy: true, ..undoable() }), false, false));
    assert!(meets(&mut start(undoable()), false, false));
    audit(keyspace);
}

#[test]
fn what_was_done_before_it_was_renewed_is_not_undone() {
    let keyspace = keyspace();
    let mut tx = begin(keyspace, &[b"k", b"l"], undoable());
    set(&mut tx, b"k", b"1");
    tx.finish();
    tx.renew();
    set(&mut tx, b"k", b"2");
    set(&mut tx, b"l", b"2");
    tx.return_to(UndoPoint::default());
    assert_eq!((get(&tx, b"k"), get(&tx, b"l")), (Some(b"1".into()), None));
    drop(tx);
    audit(keyspace);
}

#[test]
fn undo_forgets_effects_and_brings_back_the_expired() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    set_until(&mut on(keyspace, &[&keys[0]]), &keys[0], b"v", NOW - 1);
    let mut tx = begin(keyspace, &[&keys[0]], undoable());
    assert!(!set(&mut tx, &keys[0], b"w"));
    assert_eq!(tx.delete(&keys[1]), Err(Refusal::Widen));
    drop(tx.widen(0));
    assert_eq!((keyspace.len(0), keyspace.volatile_len(0)), (1, 1));
    audit(keyspace);
}

#[test]
fn every_way_in_refuses_an_undeclared_key() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    let mut tx = begin(keyspace, &[&keys[0]], undoable());
    let key = &keys[1][..];
    let value = || NewText::from_client(b"v");
    assert_eq!(tx.read(key).unwrap_err(), Refusal::Widen);
    assert_eq!(tx.peek(key).unwrap_err(), Refusal::Widen);
    assert_eq!(tx.touch(key), Err(Refusal::Widen));
    assert_eq!(tx.expire_if_due(key), Err(Refusal::Widen));
    assert_eq!(tx.put_text(key, value(), Lifetime::Forever), Err(Refusal::Widen));
    assert_eq!(tx.append_text(key, b"v"), Err(Refusal::Widen));
    assert_eq!(tx.set_deadline(key, Some(1)), Err(Refusal::Widen));
    assert!(matches!(tx.take(key), Err(Refusal::Widen)));
    let entry = crate::EntryBox::text(key, value(), None);
    assert_eq!(tx.place(entry), Err(Refusal::Widen));
    tx.prefetch(&[keyspace.locate(key)]);
    assert_eq!(keyspace.len(0), 0);
}

/// A handler that finds the next key in the one before.
fn follow(tx: &mut Tx, keys: &[Vec<u8>]) -> Result<usize, Refusal> {
    for (steps, key) in keys.iter().enumerate() {
        tx.append_text(key, b"+")?;
        if steps + 1 == keys.len() {
            return Ok(steps);
        }
    }
    unreachable!()
}

#[test]
fn widening_goes_on_until_the_world() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 8);
    let mut tx = begin(keyspace, &[&keys[0]], undoable());
    let mut widenings = 0;
    loop {
        match follow(&mut tx, &keys) {
            Ok(_) => break,
            Err(refusal) => assert_eq!(refusal, Refusal::Widen),
        }
        let mut acquisition = tx.widen(widenings);
        assert_eq!(acquisition.wants_world(), widenings >= WIDENINGS_MAX);
        assert!(acquisition.poll(Waker::noop()).is_ready());
        tx = Tx::begin(acquisition, undoable());
        widenings += 1;
    }
    assert!(tx.has_world());
    assert_eq!(tx.effects().changes(), 8, "what was undone does not count");
    tx.seal();
    drop(tx);
    for key in &keys {
        assert_eq!(get(&on(keyspace, &[key]), key).unwrap(), b"+");
    }
    audit(keyspace);
}

#[test]
fn what_needs_the_world_asks_for_it_at_once() {
    let keyspace = keyspace();
    let mut tx = begin(keyspace, &[b"k"], undoable());
    set(&mut tx, b"k", b"v");
    assert_eq!(tx.flush_all(), Err(Refusal::Widen));
    assert!(tx.widen(0).wants_world());
    let mut tx = begin(keyspace, &[b"k"], TxOptions { database: 1, ..undoable() });
    assert_eq!(tx.swap_databases(0, 1), Err(Refusal::Widen));
    assert!(tx.widen(0).wants_world());
    assert_eq!(keyspace.len(0), 0);
}

#[test]
fn heavy_work_is_refused_on_a_worker_only() {
    let keyspace = keyspace();
    let mut tx = begin(keyspace, &[], OPTIONS);
    assert_eq!(tx.charge(crate::WORKER_BUDGET_NS), Ok(()));
    assert_eq!(tx.charge(crate::WORKER_BUDGET_NS + 1), Err(Refusal::Heavy));
    tx.move_to_heavy(200);
    assert_eq!(tx.charge(u64::MAX), Ok(()));
}

/// What clients see in INFO is what happened, not how often it was tried.
#[test]
fn lookups_of_a_round_that_was_undone_do_not_count() {
    let keyspace = keyspace();
    let keys = scattered(keyspace, 2);
    let tx = begin(keyspace, &[&keys[0]], undoable());
    assert!(tx.read(&keys[0]).unwrap().is_none());
    assert_eq!(tx.read(&keys[1]).err(), Some(Refusal::Widen));
    let mut acquisition = tx.widen(0);
    assert!(acquisition.poll(Waker::noop()).is_ready());
    let mut tx = Tx::begin(acquisition, undoable());
    assert!(tx.read(&keys[0]).unwrap().is_none() && tx.read(&keys[1]).unwrap().is_none());
    tx.finish();
    assert_eq!(keyspace.counters().total(Count::Misses), 2);
}

/// One image per key, however often it changes.
#[test]
fn a_loop_over_one_key_keeps_one_image() {
    let keyspace = keyspace();
    let mut tx = begin(keyspace, &[b"k"], undoable());
    set(&mut tx, b"k", &[b'x'; 60_000]);
    let before = crate::entry::live_blocks::count();
    for _ in 0..1000 {
        set(&mut tx, b"k", &[b'y'; 60_000]);
    }
    assert_eq!(crate::entry::live_blocks::count(), before);
}

/// A unit that is dropped on its way was never there.
#[test]
fn what_is_dropped_unsealed_is_undone() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"before");
    let mut tx = begin(keyspace, &[b"k"], undoable());
    set(&mut tx, b"k", b"half");
    drop(tx);
    assert_eq!(get(&on(keyspace, &[b"k"]), b"k").unwrap(), b"before");
    audit(keyspace);
}
