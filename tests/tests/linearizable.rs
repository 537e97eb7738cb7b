//! What several clients do to one key at once is as if done one by one: histories of registers,
//! counters, lists, sets and hashes, judged by Porcupine.
//!
//! `APUS_OPERATIONS=10000000` asks for so many operations, of a fresh seed.

use base::random::Random;
use tests::{Oracle, Server, clients};

/// How many operations Apus is asked for.
const OPERATIONS: usize = 100_000;
/// How many a real server is asked for, to see that the models are right.
const OF_ORACLES: usize = 20_000;

#[test]
fn single_keys_are_linearizable() {
    let asked = std::env::var("APUS_OPERATIONS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_OPERATIONS is a number"));
    // Seeds are written into signed numbers on the other side.
    let seed = if asked.is_some() { Random::from_entropy().next_u64() >> 24 } else { 1 };
    let server = Server::start(&["--worker-threads", "4"]);
    clients::linearizable(&server, asked.unwrap_or(OPERATIONS), seed);
}

#[test]
fn histories_of_real_servers_are_linearizable() {
    for oracle in [Oracle::Redis70, Oracle::Valkey91] {
        clients::linearizable(&oracle.start(&[]), OF_ORACLES, 1);
    }
}
