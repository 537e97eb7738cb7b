//! Real threads: transfers between accounts keep the sum while the world is taken now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use base::random::Random;

use super::walks::{Saved, Sink, finish, take};
use super::{OPTIONS, audit, keyspace, on, set};
use crate::entry::NewText;
use crate::keyspace::Keyspace;
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::refusal::Refusal;
use crate::tx::{Lifetime, Tx, TxOptions};
use crate::walk::Walk;

const ACCOUNTS: usize = 12;
const DEPOSIT: i64 = 1000;
const THREADS: usize = 6;
const TURNS: usize = 4000;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Acquires and runs as a worker with one session does.
fn transact<R>(
    keyspace: &'static Keyspace,
    lane: usize,
    acquisition: Acquisition,
    run: impl FnOnce(&mut Tx) -> R,
) -> R {
    let mut run = Some(run);
    transact_widening(keyspace, lane, acquisition, OPTIONS, |tx| {
        let run = run.take().expect("it never widens");
        Ok(run(tx))
    })
}

/// The same, again with more locks as often as it needs some.
fn transact_widening<R>(
    keyspace: &'static Keyspace,
    lane: usize,
    mut acquisition: Acquisition,
    options: TxOptions,
    mut run: impl FnMut(&mut Tx) -> Result<R, Refusal>,
) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut round = 0;
    loop {
        let outside = acquisition.wants_world();
        if !outside && !keyspace.enter(lane) {
            if keyspace.wait_for_world(&waker) {
                thread::park();
            }
            continue;
        }
        let mut result = None;
        let ready = acquisition.poll(&waker).is_ready();
        if ready {
            let mut tx = Tx::begin(acquisition, TxOptions { lane, ..options });
            result = run(&mut tx).ok();
            if result.is_some() {
                tx.finish();
                tx.seal();
                acquisition = Acquisition::of_partitions(keyspace, PartitionSet::new());
                drop(tx);
            } else {
                acquisition = tx.widen(round);
                round += 1;
            }
        }
        if !outside {
            keyspace.leave(lane);
        }
        match result {
            Some(result) => return result,
            None if ready => {}
            None => thread::park(),
        }
    }
}

fn account(number: usize) -> Vec<u8> {
    format!("account:{number}").into_bytes()
}

fn balance(tx: &Tx, key: &[u8]) -> i64 {
    tx.text(key).unwrap().and_then(|text| text.as_integer()).expect("accounts hold integers")
}

fn plan(keyspace: &'static Keyspace, keys: &[Vec<u8>]) -> Acquisition {
    let partitions: PartitionSet =
        keys.iter().map(|key| keyspace.locate(key).partition()).collect();
    Acquisition::of_partitions(keyspace, partitions)
}

fn transfer(keyspace: &'static Keyspace, lane: usize, random: &mut Random) {
    let count = 2 + random.below(3) as usize;
    let keys: Vec<_> =
        (0..count).map(|_| account(random.below(ACCOUNTS as u64) as usize)).collect();
    let amount = random.below(20) as i64;
    transact(keyspace, lane, plan(keyspace, &keys), |tx| {
        for pair in keys.windows(2) {
            let from = balance(tx, &pair[0]) - amount;
            tx.put_text(&pair[0], NewText::Integer(from), Lifetime::Keep).unwrap();
            let to = balance(tx, &pair[1]) + amount;
            tx.put_text(&pair[1], NewText::Integer(to), Lifetime::Keep).unwrap();
        }
    });
}

/// A transfer that declares one account and meets the others on its way, in any order.
fn transfer_reaching(keyspace: &'static Keyspace, lane: usize, random: &mut Random) -> usize {
    let keys: Vec<_> = (0..3).map(|_| account(random.below(ACCOUNTS as u64) as usize)).collect();
    let amount = random.below(20) as i64;
    let options = TxOptions { undoable: true, ..OPTIONS };
    let mut reached = 0;
    transact_widening(keyspace, lane, plan(keyspace, &keys[..1]), options, |tx| {
        let mut add = |tx: &mut Tx, key: &[u8], amount: i64| {
            let begun = tx.begin_command();
            while tx.text(key).is_err() {
                if !tx.try_extend(&begun) {
                    return Err(Refusal::Widen);
                }
                reached += 1;
            }
            let sum = balance(tx, key) + amount;
            tx.put_text(key, NewText::Integer(sum), Lifetime::Keep)
        };
        for pair in keys.windows(2) {
            add(tx, &pair[0], -amount)?;
            add(tx, &pair[1], amount)?;
        }
        Ok(())
    });
    reached
}

fn open_accounts(keyspace: &'static Keyspace) {
    for number in 0..ACCOUNTS {
        let key = account(number);
        set(&mut on(keyspace, &[&key]), &key, DEPOSIT.to_string().as_bytes());
    }
}

fn sum(tx: &Tx) -> i64 {
    (0..ACCOUNTS).map(|number| balance(tx, &account(number))).sum()
}

#[test]
fn transfers_that_take_locks_where_they_stand_keep_the_sum() {
    let keyspace = keyspace();
    open_accounts(keyspace);
    let reached: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|lane| {
                scope.spawn(move || {
                    let mut random = Random::from_seed(lane as u64);
                    (0..TURNS)
                        .map(|_| transfer_reaching(keyspace, lane, &mut random))
                        .sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it goes on")).sum()
    });
    assert!(reached > 0, "what is free is taken");
    let sum = transact(keyspace, 0, Acquisition::of_world(keyspace), |tx| sum(tx));
    assert_eq!(sum, DEPOSIT * ACCOUNTS as i64);
    audit(keyspace);
}

#[test]
fn transfers_keep_the_sum() {
    let keyspace = keyspace();
    open_accounts(keyspace);
    let total = DEPOSIT * ACCOUNTS as i64;
    thread::scope(|scope| {
        for lane in 0..THREADS {
            scope.spawn(move || {
                let mut random = Random::from_seed(lane as u64);
                for turn in 0..TURNS {
                    match turn % 100 {
                        33 => {
                            let everything = Acquisition::of_world(keyspace);
                            transact(keyspace, lane, everything, |tx| {
                                assert_eq!(sum(tx), total);
                                tx.swap_databases(1, 2).unwrap();
                            });
                        }
                        66 => {
                            let all: Vec<_> = (0..ACCOUNTS).map(account).collect();
                            let sum = transact(keyspace, lane, plan(keyspace, &all), |tx| sum(tx));
                            assert_eq!(sum, total);
                        }
                        // A request that its client did not wait for.
                        99 => drop(plan(keyspace, &[account(0), account(1)]).poll(Waker::noop())),
                        _ => transfer(keyspace, lane, &mut random),
                    }
                }
            });
        }
    });
    audit(keyspace);
    assert_eq!(keyspace.len(0), ACCOUNTS);
}

#[test]
fn a_walk_sees_transfers_whole_or_not_at_all() {
    let keyspace = keyspace();
    open_accounts(keyspace);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for lane in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                let mut random = Random::from_seed(lane as u64);
                while !stop.load(Ordering::Relaxed) {
                    transfer(keyspace, lane, &mut random);
                }
            });
        }
        for _ in 0..20 {
            let saved = Saved::default();
            let sink = Sink(Arc::clone(&saved));
            let begin = |tx: &mut Tx| Walk::begin(&mut tx.grant, Box::new(sink.clone()));
            let walk = transact(keyspace, THREADS, Acquisition::of_world(keyspace), begin);
            finish(keyspace, &walk.expect("no other is under way"), &sink);
            let balances: Vec<i64> = take(&saved)
                .into_iter()
                .map(|(.., value)| String::from_utf8(value).unwrap().parse().unwrap())
                .collect();
            let expected = (ACCOUNTS, ACCOUNTS as i64 * DEPOSIT);
            assert_eq!((balances.len(), balances.iter().sum()), expected);
        }
        stop.store(true, Ordering::Relaxed);
    });
    audit(keyspace);
}
