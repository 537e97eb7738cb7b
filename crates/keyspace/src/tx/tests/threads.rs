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
    mut acquisition: Acquisition,
    run: impl FnOnce(&mut Tx) -> R,
) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let outside = acquisition.wants_world();
    loop {
        if !outside && !keyspace.enter(lane) {
            if keyspace.wait_for_world(&waker) {
                thread::park();
            }
            continue;
        }
        let ready = acquisition.poll(&waker).is_ready();
        if ready {
            let mut tx = Tx::begin(acquisition, TxOptions { lane, ..OPTIONS });
            let result = run(&mut tx);
            tx.conclude();
            drop(tx);
            if !outside {
                keyspace.leave(lane);
            }
            return result;
        }
        if !outside {
            keyspace.leave(lane);
        }
        thread::park();
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
