//! How much two threads do against one: GET and SET of uniform keys in one keyspace, without
//! sockets. Everything that a worker does for a request is here but reading and writing: look-up
//! of the key, locks, transaction, handler, reply.
//!
//! `cargo run --release -p commands --example scaling [keys] [seconds per measurement]`
//! prints for each command the requests per second of one thread, of two, and their ratio; rounds
//! of one and two threads take turns, and medians are told.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Random;
use commands::{DataCommand, FAMILIES};
use keyspace::{Acquisition, Keyspace, Options, PartitionSet, Tx, TxOptions};
use proto::{Output, OwnedArgs, Reply, Resp};

const ROUNDS: usize = 7;
const VALUE: [u8; 256] = [b'v'; 256];

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let keys: u64 = words.next().unwrap_or(100_000);
    let seconds: u64 = words.next().unwrap_or(1);
    let keyspace = Keyspace::leak(Options::new());
    let set = command("SET");
    assert!(keyspace.enter(0));
    for key in 0..keys {
        execute(keyspace, 0, set, &request("SET", key), &mut Output::new());
    }
    keyspace.leave(0);
    for name in ["GET", "SET"] {
        let measure = |threads| {
            rate(keyspace, command(name), name, keys, threads, Duration::from_secs(seconds))
        };
        let (mut one, mut two): (Vec<f64>, Vec<f64>) =
            (0..ROUNDS).map(|_| (measure(1), measure(2))).unzip();
        let mut ratios: Vec<f64> = one.iter().zip(&two).map(|(one, two)| two / one).collect();
        let [one, two, ratio] = [&mut one, &mut two, &mut ratios].map(|values| {
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        });
        println!("{name}: {one:.0}/s with one thread, {two:.0}/s with two: {ratio:.2} x");
    }
}

/// Requests per second of so many threads together.
fn rate(
    keyspace: &'static Keyspace,
    command: &'static DataCommand,
    name: &str,
    keys: u64,
    threads: usize,
    duration: Duration,
) -> f64 {
    let (stop, start) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let total = AtomicU64::new(0);
    let began = std::thread::scope(|scope| {
        for lane in 0..threads {
            let (stop, start, total) = (&stop, &start, &total);
            scope.spawn(move || {
                let mut random = Random::from_entropy();
                let requests: Vec<OwnedArgs> =
                    (0..4096).map(|_| request(name, random.below(keys))).collect();
                let mut output = Output::new();
                let mut done = 0;
                assert!(keyspace.enter(lane));
                start.wait();
                while !stop.load(Ordering::Relaxed) {
                    for request in &requests {
                        execute(keyspace, lane, command, request, &mut output);
                    }
                    done += requests.len() as u64;
                }
                keyspace.leave(lane);
                total.fetch_add(done, Ordering::Relaxed);
            });
        }
        start.wait();
        let began = keyspace.clock().monotonic_us();
        std::thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        began
    });
    total.load(Ordering::Relaxed) as f64 / ((keyspace.clock().monotonic_us() - began) as f64 / 1e6)
}

fn request(name: &str, key: u64) -> OwnedArgs {
    let key = format!("key:{key:012}");
    let value = (name == "SET").then_some(&VALUE[..]);
    [name.as_bytes(), key.as_bytes()].into_iter().chain(value).collect()
}

fn command(name: &str) -> &'static DataCommand {
    let mut all = FAMILIES.iter().flat_map(|family| family.iter().copied());
    all.find(|command| command.spec.name == name).expect("a known command")
}

/// What a worker does for a request between reading and writing it.
fn execute(
    keyspace: &'static Keyspace,
    lane: usize,
    command: &DataCommand,
    request: &OwnedArgs,
    output: &mut Output,
) {
    let args = request.as_args();
    let location = keyspace.locate(&args[1]);
    let partitions = PartitionSet::from_slice(&[location.partition]);
    let mut acquisition = Acquisition::of_partitions(keyspace, partitions);
    while !acquisition.attempt() {
        std::hint::spin_loop();
    }
    let now = keyspace.clock().now_ms();
    let options = TxOptions { touches: true, ..TxOptions::internal(lane, now) };
    let mut tx = Tx::begin(acquisition, options);
    tx.hint(&args[1], location);
    (command.run)(&mut tx, args, &mut Reply::new(output, Resp::Two)).expect("strings only");
    tx.conclude();
    drop(tx);
    if output.len() > 1 << 14 {
        *output = Output::new();
    }
}
