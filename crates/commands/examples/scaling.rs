//! How much two threads do against one: GET, SET and a script that calls GET, of uniform keys in
//! one keyspace, without sockets. Everything that a worker does for a request is here but reading
//! and writing: look-up of the key, locks, transaction, handler, reply. Of EVALSHA it is the
//! digest, the interpreter of the thread and a transaction that could be undone; the server's
//! table of scripts is not, from which threads read without a lock.
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
use proto::{Args, Output, OwnedArgs, Reply, Resp};
use script::{
    ByDigest, Host, Input, Interpreter, Limits, LogLevel, Program, Replication, Sha1, Stop, Version,
};

const ROUNDS: usize = 7;
const VALUE: [u8; 256] = [b'v'; 256];
const SCRIPT: &[u8] = b"return redis.call('GET', KEYS[1])";

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let keys: u64 = words.next().unwrap_or(100_000);
    let seconds: u64 = words.next().unwrap_or(1);
    let keyspace = Keyspace::leak(Options::new());
    let mut set = Runner::new(keyspace, 0, "SET");
    assert!(keyspace.enter(0));
    for key in 0..keys {
        set.execute(&request("SET", key), &mut Output::new());
    }
    keyspace.leave(0);
    for name in ["GET", "SET", "EVALSHA"] {
        let measure = |threads| rate(keyspace, name, keys, threads, Duration::from_secs(seconds));
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
                let mut runner = Runner::new(keyspace, lane, name);
                let mut output = Output::new();
                let mut done = 0;
                assert!(keyspace.enter(lane));
                start.wait();
                while !stop.load(Ordering::Relaxed) {
                    for request in &requests {
                        runner.execute(request, &mut output);
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
    if name == "EVALSHA" {
        let digest = Sha1::of(SCRIPT).hex();
        return [name, &digest, "1", &key].into_iter().map(str::as_bytes).collect();
    }
    let value = (name == "SET").then_some(&VALUE[..]);
    [name.as_bytes(), key.as_bytes()].into_iter().chain(value).collect()
}

fn command(name: &str) -> &'static DataCommand {
    let mut all = FAMILIES.iter().flat_map(|family| family.iter().copied());
    all.find(|command| command.spec.name == name).expect("a known command")
}

/// What one thread runs its requests with.
struct Runner {
    keyspace: &'static Keyspace,
    lane: usize,
    work: Work,
}

enum Work {
    Command(&'static DataCommand),
    /// With the command that it calls.
    Script(Box<Interpreter>, ByDigest<Program>, &'static DataCommand),
}

impl Runner {
    fn new(keyspace: &'static Keyspace, lane: usize, name: &str) -> Runner {
        let work = if name == "EVALSHA" {
            let version = Version { text: "8.2.3".to_owned(), number: 0x0008_0203 };
            let program = Program::parse(SCRIPT).expect("it has no shebang that could be wrong");
            let programs = [(program.sha1(), program)].into_iter().collect();
            Work::Script(Box::new(Interpreter::new(&version)), programs, command("GET"))
        } else {
            Work::Command(command(name))
        };
        Runner { keyspace, lane, work }
    }

    /// What a worker does for a request between reading and writing it.
    fn execute(&mut self, request: &OwnedArgs, output: &mut Output) {
        let args = request.as_args();
        let is_script = matches!(self.work, Work::Script(..));
        let key = &args[if is_script { 3 } else { 1 }];
        let location = self.keyspace.locate(key);
        let partitions = PartitionSet::from_slice(&[location.partition()]);
        let mut acquisition = Acquisition::of_partitions(self.keyspace, partitions);
        while !acquisition.attempt() {
            std::hint::spin_loop();
        }
        let internal = TxOptions::internal(self.lane, self.keyspace.clock().now_ms());
        let options = TxOptions { touches: true, undoable: is_script, ..internal };
        let mut tx = Tx::begin(acquisition, options);
        let reply = &mut Reply::new(output, Resp::Two);
        match &mut self.work {
            Work::Command(command) => {
                tx.hint(key, location);
                (command.run)(&mut tx, args, reply).expect("strings only");
            }
            Work::Script(interpreter, programs, get) => {
                let digest = Sha1::parse(&args[1]).expect("it was made of one");
                let (keys, arguments) = (args.skip(3), Args::default());
                let input = Input { keys, arguments, seed: Some(interpreter.seed()) };
                let mut caller = Caller { tx: &mut tx, get };
                let limits = Limits { memory: 1 << 30 };
                let result = interpreter.run(&programs[&digest], input, &mut caller, limits, reply);
                result.expect("the key is declared and a string");
            }
        }
        tx.finish();
        drop(tx);
        if output.len() > 1 << 14 {
            *output = Output::new();
        }
    }
}

/// The host of a script that calls GET.
struct Caller<'a> {
    tx: &'a mut Tx,
    get: &'static DataCommand,
}

impl Host for Caller<'_> {
    fn note_returned_error(&mut self, _: &[u8], _: bool) {}

    fn call(&mut self, args: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop> {
        (self.get.run)(self.tx, args, &mut Reply::new(reply, resp)).map_err(|_| Stop::Widen)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn set_replication(&mut self, _: Replication) {}

    fn may_call(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}
