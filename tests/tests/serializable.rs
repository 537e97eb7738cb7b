//! Transactions and scripts of many clients over the same few lists are strictly serializable: as
//! if they had run one by one, each between its request and its reply.
//!
//! `APUS_TRANSACTIONS=10000000` runs so many, of fresh seeds.

use std::time::{Duration, Instant};

use base::random::Random;
use tests::serializable::{Fault, Plan, check, run};
use tests::{Oracle, Server};

/// How many transactions Apus is asked for.
const TRANSACTIONS: usize = 100_000;
/// How many a real server is asked for, to see that the check finds nothing where nothing is.
const OF_ORACLES: usize = 4_000;
/// How many are checked at once.
const ROUND: usize = 50_000;
/// How many clients, over how many lists.
const SHAPES: [(usize, usize); 5] = [(2, 1), (4, 2), (8, 3), (16, 8), (16, 2)];
/// How long a fault may stay unseen: its chance to show is good in every round.
const PATIENCE: Duration = Duration::from_secs(60);

fn asked() -> Option<usize> {
    let asked = std::env::var("APUS_TRANSACTIONS").ok();
    asked.map(|number| number.parse().expect("APUS_TRANSACTIONS is a number"))
}

#[track_caller]
fn assert_serializable(server: &Server, transactions: usize, seed: u64) {
    let each = transactions / SHAPES.len();
    for (clients, keys) in SHAPES {
        let mut left = each;
        while left > 0 {
            let now = left.min(ROUND);
            left -= now;
            server.client().call(&["FLUSHALL"]);
            let seed = seed.wrapping_add(left as u64);
            let plan = Plan { clients, keys, transactions: now, seed, fault: Fault::None };
            let findings = check(&run(server, &plan));
            assert!(findings.is_empty(), "{plan:?}\n{findings}");
        }
    }
}

#[test]
fn transactions_are_strictly_serializable() {
    let server = Server::start(&["--worker-threads", "4"]);
    let seed = if asked().is_some() { Random::from_entropy().next_u64() } else { 1 };
    assert_serializable(&server, asked().unwrap_or(TRANSACTIONS), seed);
}

#[test]
fn histories_of_real_servers_are_serializable() {
    for oracle in [Oracle::Redis70, Oracle::Valkey91] {
        assert_serializable(&oracle.start(&[]), OF_ORACLES, 1);
    }
}

/// A check that finds nothing proves nothing unless it finds what is there.
#[test]
fn clients_that_leave_out_a_command_are_found_out() {
    let server = Oracle::redis70();
    for fault in [Fault::NoMulti, Fault::NoWatch] {
        let begin = Instant::now();
        let is_found = |seed| {
            server.client().call(&["FLUSHALL"]);
            let plan = Plan { clients: 8, keys: 2, transactions: 2_000, seed, fault };
            !check(&run(&server, &plan)).is_empty()
        };
        let found = (0..).take_while(|_| begin.elapsed() < PATIENCE).any(is_found);
        assert!(found, "{fault:?} is not found");
    }
}
