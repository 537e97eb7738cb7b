//! What needs everything at once, and what waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use base::random::Random;
use base::time::Clock;

use super::walks::{Sink, begin_walk, finish, take};
use super::{NOW, OPTIONS, audit, get, keyspace, keyspace_by, on, set, set_until, undoable, world};
use crate::lock::acquisition::Acquisition;
use crate::refusal::{BUSY, Refusal};
use crate::tx::{Tx, TxOptions, UndoPoint};
use crate::world::{HEAVY_TRANSACTIONS, HeavyPass};

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn flushing_empties_one_database_or_all() {
    let keyspace = keyspace();
    for logical in 0..4 {
        for number in 0..50 * (logical + 1) {
            let key = format!("key:{number}").into_bytes();
            let mut tx = on(keyspace, &[&key]);
            tx.switch_database(logical);
            set_until(&mut tx, &key, &[b'v'; 100], NOW + 5);
        }
    }
    let mut tx = world(keyspace, TxOptions { database: 1, ..OPTIONS });
    assert_eq!(tx.flush_database(), Ok(100));
    assert_eq!((tx.effects().changes(), tx.flush_database()), (100, Ok(0)));
    drop(tx);
    assert_eq!([0, 1, 2, 3].map(|logical| keyspace.len(logical)), [50, 0, 150, 200]);
    audit(keyspace);
    let mut tx = world(keyspace, OPTIONS);
    assert_eq!((tx.flush_all(), tx.database()), (Ok(400), 0));
    drop(tx);
    assert!(keyspace.is_empty());
    assert_eq!(keyspace.memory(), keyspace.fixed_memory());
    audit(keyspace);
}

#[test]
fn swapping_exchanges_names() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"zero");
    let mut tx = world(keyspace, OPTIONS);
    tx.swap_databases(0, 2).unwrap();
    assert_eq!(get(&tx, b"k"), None, "the client's own database changed under it");
    set(&mut tx, b"k", b"was two");
    tx.switch_database(2);
    assert_eq!(get(&tx, b"k").unwrap(), b"zero");
    drop(tx);
    assert_eq!([0, 1, 2].map(|logical| keyspace.len(logical)), [1, 0, 1]);
    audit(keyspace);
}

/// Keys of all databases with their values.
fn all_keys(tx: &mut Tx) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for database in 0..4 {
        tx.switch_database(database);
        found.extend((0..KEYS).map(|number| get(tx, &key(number))));
    }
    tx.switch_database(0);
    found
}

const KEYS: u64 = 12;

fn key(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// Changes keys and whole databases.
fn disturb(tx: &mut Tx, random: &mut Random, steps: u64) {
    for _ in 0..steps {
        tx.switch_database(random.below(4) as usize);
        let key = key(random.below(KEYS));
        match random.below(12) {
            0 => _ = tx.flush_database().unwrap(),
            1 => tx.swap_databases(random.below(4) as usize, random.below(4) as usize).unwrap(),
            2 if random.below(4) == 0 => _ = tx.flush_all().unwrap(),
            3 | 4 => _ = tx.delete(&key).unwrap(),
            5 | 6 => _ = set_until(tx, &key, b"volatile", NOW + 500),
            _ => _ = set(tx, &key, &random.next_u64().to_be_bytes()),
        }
    }
    tx.switch_database(0);
}

#[test]
fn what_became_of_whole_databases_is_undone_with_their_keys() {
    for seed in 0..30 {
        let (keyspace, mut random) = (keyspace(), Random::from_seed(seed));
        disturb(&mut world(keyspace, OPTIONS), &mut random, 40);
        let mut tx = world(keyspace, undoable());
        let before = all_keys(&mut tx);
        let steps = 1 + random.below(20);
        disturb(&mut tx, &mut random, steps);
        tx.return_to(UndoPoint::default());
        assert_eq!(all_keys(&mut tx), before, "seed {seed}");
        drop(tx);
        audit(keyspace);
        // Undone once, it is as good as new: what comes now stays, and only that.
        let mut tx = world(keyspace, undoable());
        disturb(&mut tx, &mut random, 3);
        tx.seal();
        let sealed = all_keys(&mut tx);
        disturb(&mut tx, &mut random, steps);
        tx.return_to(UndoPoint::default());
        assert_eq!(all_keys(&mut tx), sealed, "seed {seed}");
        drop(tx);
        audit(keyspace);
    }
}

#[test]
fn a_walk_sees_each_entry_of_its_cut_once_whatever_is_undone() {
    for seed in 0..20 {
        let (keyspace, mut random) = (keyspace(), Random::from_seed(seed));
        let mut tx = world(keyspace, OPTIONS);
        for number in 0..KEYS {
            tx.switch_database(random.below(4) as usize);
            set(&mut tx, &key(number), b"of the cut");
        }
        drop(tx);
        let sink = Sink(Arc::default());
        let walk = begin_walk(keyspace, Box::new(sink.clone()));
        let mut tx = world(keyspace, undoable());
        disturb(&mut tx, &mut random, 8);
        tx.return_to(UndoPoint::default());
        disturb(&mut tx, &mut random, 8);
        tx.seal();
        drop(tx);
        finish(keyspace, &walk, &sink);
        let mut saved: Vec<_> =
            take(&sink.0).into_iter().map(|(_, key, value)| (key, value)).collect();
        saved.sort();
        let mut expected: Vec<_> = (0..KEYS).map(|it| (key(it), b"of the cut".to_vec())).collect();
        expected.sort();
        assert_eq!(saved, expected, "seed {seed}");
        audit(keyspace);
    }
}

#[test]
fn a_panic_undoes_what_can_be_undone() {
    let keyspace = keyspace();
    set(&mut on(keyspace, &[b"k"]), b"k", b"before");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut tx = world(keyspace, undoable());
        set(&mut tx, b"k", b"half");
        tx.flush_all().unwrap();
        set(&mut tx, b"l", b"half");
        panic!("injected");
    }));
    assert!(panicked.is_err());
    let tx = world(keyspace, OPTIONS);
    assert_eq!((get(&tx, b"k").unwrap(), get(&tx, b"l")), (b"before".to_vec(), None));
    drop(tx);
    audit(keyspace);
}

#[test]
fn without_the_world_nothing_is_flushed() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    set(&mut tx, b"k", b"v");
    assert_eq!(tx.flush_database(), Err(Refusal::Widen));
    assert_eq!(get(&tx, b"k").unwrap(), b"v");
}

#[test]
fn the_last_lane_to_leave_grants_the_world() {
    let keyspace = keyspace();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    assert!(keyspace.enter(0) && keyspace.enter(1));
    let mut acquisition = Acquisition::of_world(keyspace);
    assert_eq!(acquisition.poll(&waker), Poll::Pending);
    assert!(keyspace.is_stopping() && !keyspace.enter(2));
    keyspace.leave(0);
    assert_eq!((acquisition.poll(&waker), bell.0.load(Ordering::SeqCst)), (Poll::Pending, 0));
    keyspace.leave(1);
    assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    assert!(acquisition.poll(&waker).is_ready());
    assert!(keyspace.wait_for_world(&waker));
    drop(acquisition);
    assert_eq!(bell.0.load(Ordering::SeqCst), 2, "who waited goes on");
    assert!(keyspace.enter(2) && !keyspace.wait_for_world(&waker));
    keyspace.leave(2);
}

#[test]
fn the_turnstiles_stay_open_until_heavy_work_is_done_and_no_more_begins() {
    let keyspace = keyspace();
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let [flusher, worker] = bells.clone().map(Waker::from);
    let rung = || bells.clone().map(|bell| bell.0.load(Ordering::SeqCst));
    let under_way = [HeavyPass::for_visit(keyspace), HeavyPass::for_visit(keyspace)];
    assert!(under_way.iter().all(HeavyPass::is_admitted));
    let mut acquisition = Acquisition::of_world(keyspace);
    assert_eq!(acquisition.poll(&flusher), Poll::Pending);
    let [first, second] = under_way;
    drop(first);
    assert!(!keyspace.is_stopping() && keyspace.enter(2), "others go on");
    let mut later = HeavyPass::for_visit(keyspace);
    assert!(!later.is_admitted() && later.poll(&worker).is_pending());
    let withdrawn = HeavyPass::for_visit(keyspace).poll(&worker);
    assert!(withdrawn.is_pending());
    drop(second);
    assert!(keyspace.is_stopping() && keyspace.stopped_since().is_some());
    assert_eq!(rung(), [0, 0], "a lane is inside");
    keyspace.leave(2);
    assert_eq!((rung(), later.is_admitted()), ([1, 0], false));
    assert!(acquisition.poll(&flusher).is_ready());
    let mut next = Acquisition::of_world(keyspace);
    assert!(next.poll(&flusher).is_pending());
    drop(acquisition);
    assert_eq!((rung()[1], later.is_admitted()), (1, true), "it comes before the next world");
    assert!(next.poll(&flusher).is_pending() && !keyspace.is_stopping());
    drop(later);
    assert!(next.poll(&flusher).is_ready());
    drop(next);
    assert_eq!((keyspace.stall_stats().snapshot().stops, keyspace.stopped_since()), (2, None));
}

#[test]
fn so_many_transactions_move_to_other_threads_and_no_more() {
    let keyspace = keyspace();
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let wakers = bells.clone().map(Waker::from);
    let rung = || bells.clone().map(|bell| bell.0.load(Ordering::SeqCst));
    let mut moved: Vec<_> =
        (0..HEAVY_TRANSACTIONS).map(|_| HeavyPass::for_offload(keyspace)).collect();
    assert!(moved.iter().all(HeavyPass::is_admitted));
    assert!(HeavyPass::for_visit(keyspace).is_admitted(), "who has a thread needs none");
    let mut waiting = [HeavyPass::for_offload(keyspace), HeavyPass::for_offload(keyspace)];
    for (pass, waker) in waiting.iter_mut().zip(&wakers) {
        assert!(pass.poll(waker).is_pending());
    }
    drop(moved.pop());
    assert_eq!((rung(), waiting[0].is_admitted()), ([1, 0], true), "in the order they came");
    // One that asks for the world keeps its thread.
    moved[0].suspend();
    assert_eq!(rung(), [1, 0]);
    let mut acquisition = Acquisition::of_world(keyspace);
    assert!(acquisition.poll(Waker::noop()).is_pending());
    moved.drain(1..);
    assert!(!waiting[1].is_admitted(), "the world is wanted");
    let [first, second] = waiting;
    drop(first);
    assert!(acquisition.poll(Waker::noop()).is_ready());
    drop((acquisition, moved));
    assert_eq!((rung(), second.is_admitted()), ([1, 1], true));
    drop(second);
    let all: Vec<_> = (0..=HEAVY_TRANSACTIONS).map(|_| HeavyPass::for_offload(keyspace)).collect();
    assert!(all[..HEAVY_TRANSACTIONS].iter().all(HeavyPass::is_admitted));
    assert!(!all[HEAVY_TRANSACTIONS].is_admitted());
}

#[test]
fn a_visitor_makes_way_for_the_world_at_every_step() {
    let keyspace = keyspace();
    let partition = keyspace.locate(b"k").partition();
    std::thread::scope(|scope| {
        let visitor = scope.spawn(move || {
            let mut pass = HeavyPass::for_visit(keyspace);
            assert!(pass.wait_while(|| true));
            let mut tx = super::begin(keyspace, &[], TxOptions { heavy: true, ..OPTIONS });
            let visits = (1..).find(|_| {
                tx.visit(partition).unwrap();
                keyspace.stall_stats().snapshot().stops > 0
            });
            visits.is_some()
        });
        let mut acquisition = Acquisition::of_world(keyspace);
        while acquisition.poll(Waker::noop()).is_pending() {
            std::thread::yield_now();
        }
        drop(acquisition);
        assert!(visitor.join().unwrap(), "it goes on behind the world");
    });
}

/// By a held lock as well as by a world that others keep from coming.
#[test]
fn a_visitor_loses_patience_and_keeps_nobody_waiting() {
    let keyspace = keyspace();
    keyspace.set_patience(|_, _| false);
    let partition = keyspace.locate(b"k").partition();
    let mut pass = HeavyPass::for_visit(keyspace);
    assert!(pass.is_admitted());
    let mut tx = super::begin(keyspace, &[], TxOptions { heavy: true, ..OPTIONS });
    let holder = on(keyspace, &[b"k"]);
    assert_eq!(tx.visit(partition), Err(BUSY));
    drop(holder);
    tx.visit(partition).unwrap();
    let other = HeavyPass::for_visit(keyspace);
    let mut acquisition = Acquisition::of_world(keyspace);
    assert!(acquisition.poll(Waker::noop()).is_pending());
    assert_eq!(tx.visit(partition), Err(BUSY), "the world is wanted, and does not come");
    assert!(keyspace.try_acquire(partition).is_some(), "nothing is held");
    assert!(!pass.safepoint(|| false));
    let mut late = HeavyPass::for_visit(keyspace);
    assert!(!late.wait_while(|| false));
    drop((other, late));
    assert!(acquisition.poll(Waker::noop()).is_pending(), "its leave is not over yet");
    drop((tx, pass));
    assert!(acquisition.poll(Waker::noop()).is_ready());
    drop(acquisition);
    assert!(HeavyPass::for_visit(keyspace).is_admitted());
}

#[test]
fn parked_locks_are_timed() {
    let keyspace = keyspace_by(Clock::manual(NOW));
    let keys = super::scattered(keyspace, 2);
    let mut sorted: Vec<_> = keys.iter().map(|key| keyspace.locate(key).partition()).collect();
    sorted.sort_unstable();
    let mut waiting = Acquisition::of_partitions(keyspace, sorted.iter().copied().collect());
    let mut holder = keyspace.try_acquire(sorted[1]).unwrap();
    for _ in 0..3 {
        assert!(waiting.poll(Waker::noop()).is_pending());
        drop(holder);
        holder = keyspace.try_acquire(sorted[1]).unwrap();
    }
    keyspace.clock().advance(1);
    assert!(waiting.poll(Waker::noop()).is_pending(), "the lock is handed to it in turn");
    assert!(keyspace.try_acquire(sorted[0]).is_none(), "and keeps what it has");
    keyspace.clock().advance(2);
    assert_eq!(keyspace.stall_stats().snapshot().longest_hold_us, 0);
    drop((holder, waiting));
    let figures = keyspace.stall_stats().snapshot();
    assert!(figures.longest_hold_us == 2000 && figures.long_holds[0] == 1, "{figures:?}");
}

#[test]
fn a_ticket_wakes_the_waker_of_its_last_poll() {
    let keyspace = keyspace();
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let [first, second] = bells.clone().map(Waker::from);
    let rung = || bells.clone().map(|bell| bell.0.load(Ordering::SeqCst));
    let holder = on(keyspace, &[b"k"]);
    let partitions = [keyspace.locate(b"k").partition()].into_iter().collect();
    let mut waiting = Acquisition::of_partitions(keyspace, partitions);
    assert!(!waiting.attempt());
    assert!(waiting.poll(&first).is_pending() && waiting.poll(&second).is_pending());
    assert!(!waiting.attempt(), "its ticket is out");
    drop(holder);
    assert_eq!(rung(), [0, 1]);
    assert!(waiting.poll(&second).is_ready());
    drop(waiting);
    assert!(keyspace.enter(0));
    let mut everything = Acquisition::of_world(keyspace);
    assert!(everything.poll(&first).is_pending() && everything.poll(&second).is_pending());
    keyspace.leave(0);
    assert_eq!(rung(), [0, 2]);
}

#[test]
fn a_transaction_beaten_often_and_for_a_millisecond_is_handed_the_lock() {
    let keyspace = keyspace_by(Clock::manual(NOW));
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let partitions = [keyspace.locate(b"k").partition()].into_iter().collect();
    let mut waiting = Acquisition::of_partitions(keyspace, partitions);
    let partition = keyspace.locate(b"k").partition();
    let mut beat = |round| {
        let holder = on(keyspace, &[b"k"]);
        assert!(waiting.poll(&waker).is_pending());
        drop(holder);
        assert_eq!(bell.0.load(Ordering::SeqCst), round);
    };
    for round in 1..10 {
        beat(round);
        assert!(keyspace.try_acquire(partition).is_some(), "free for whoever comes first");
    }
    keyspace.clock().advance(1);
    beat(10);
    assert!(keyspace.try_acquire(partition).is_none(), "handed over, not free");
    assert!(waiting.poll(&waker).is_ready());
    drop(waiting);
    assert!(keyspace.try_acquire(partition).is_some());
}

/// Else a stream of handoffs would starve barging ones, which ask for one only after being beaten.
#[test]
fn barging_tickets_are_woken_even_when_the_lock_is_handed_to_another() {
    let keyspace = keyspace_by(Clock::manual(NOW));
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let [first, second] = bells.clone().map(Waker::from);
    let plan = || {
        let partitions = [keyspace.locate(b"k").partition()].into_iter().collect();
        Acquisition::of_partitions(keyspace, partitions)
    };
    let (mut beaten, mut fresh) = (plan(), plan());
    for _ in 0..3 {
        let _holder = on(keyspace, &[b"k"]);
        assert!(beaten.poll(&first).is_pending());
    }
    keyspace.clock().advance(1);
    let holder = on(keyspace, &[b"k"]);
    assert!(fresh.poll(&second).is_pending() && beaten.poll(&first).is_pending());
    drop(holder);
    assert_eq!(bells[1].0.load(Ordering::SeqCst), 1);
    assert!(fresh.poll(&second).is_pending() && beaten.poll(&first).is_ready());
    drop(beaten);
    assert!(fresh.poll(&second).is_ready());
}

#[test]
fn the_world_passes_beside_work_that_stepped_aside_and_that_comes_back_behind_it() {
    let keyspace = keyspace();
    let mut pass = HeavyPass::for_offload(keyspace);
    pass.suspend();
    let mut acquisition = Acquisition::of_world(keyspace);
    assert!(acquisition.poll(Waker::noop()).is_ready(), "it holds nothing");
    let mut looks = 0;
    let is_back = pass.resume(|| {
        looks += 1;
        looks < 3
    });
    assert!(!is_back && looks == 3, "it waits no longer");
    drop(acquisition);
    pass.suspend();
    assert!(pass.resume(|| false), "nobody wants the world");
    let mut next = Acquisition::of_world(keyspace);
    assert!(next.poll(Waker::noop()).is_pending(), "it is at work again");
    drop(pass);
    assert!(next.poll(Waker::noop()).is_ready());
}

/// A transaction in its middle moves on while others wait for the world, which waits for it anyway.
/// The other lanes go on meanwhile, also where the world has stopped for it.
#[test]
fn what_has_begun_moves_while_the_world_is_wanted() {
    for others in [0, 1] {
        let keyspace = keyspace();
        let waker = Waker::noop();
        let under_way: Vec<_> = (0..others).map(|_| HeavyPass::for_offload(keyspace)).collect();
        assert!(keyspace.enter(0), "it begins on a lane");
        let mut world = Acquisition::of_world(keyspace);
        assert!(world.poll(waker).is_pending());
        assert_eq!(keyspace.enter(1), others > 0, "without heavy work the world has stopped");
        keyspace.leave(1);
        assert!(!HeavyPass::for_offload(keyspace).is_admitted(), "what has not begun waits");
        let pass = HeavyPass::for_handover(keyspace);
        assert!(pass.is_admitted());
        keyspace.leave(0);
        assert!(world.poll(waker).is_pending(), "it is under way");
        assert!(keyspace.enter(1), "others go on");
        keyspace.leave(1);
        drop(under_way);
        assert!(world.poll(waker).is_pending(), "it is under way still");
        drop(pass);
        assert!(world.poll(waker).is_ready());
        drop(world);
        assert!(keyspace.enter(0), "all go on");
        keyspace.leave(0);
    }
    let keyspace = keyspace();
    let most: Vec<_> = (0..HEAVY_TRANSACTIONS).map(|_| HeavyPass::for_handover(keyspace)).collect();
    assert!(most.iter().all(HeavyPass::is_admitted));
    assert!(!HeavyPass::for_handover(keyspace).is_admitted(), "there is no thread for it");
}

/// A stream of those does not keep the world from being granted.
#[test]
fn few_transactions_move_on_while_the_world_is_wanted() {
    let keyspace = keyspace();
    for _ in 0..2 {
        let first = HeavyPass::for_offload(keyspace);
        let mut world = Acquisition::of_world(keyspace);
        assert!(world.poll(Waker::noop()).is_pending());
        // Each comes before the one before it is over.
        let mut last = first;
        let mut moves = 0;
        loop {
            let next = HeavyPass::for_handover(keyspace);
            if !next.is_admitted() {
                break;
            }
            (last, moves) = (next, moves + 1);
        }
        assert!((1..HEAVY_TRANSACTIONS - 1).contains(&moves), "{moves}");
        assert!(world.poll(Waker::noop()).is_pending());
        drop(last);
        assert!(world.poll(Waker::noop()).is_ready());
    }
}
