//! The engine of the generator: connections, time and latencies.
//!
//! A run is one or two phases (the load; the reading back of `--data-verify`). A phase is a set of
//! threads that share nothing but a few counters: each has its own poll, connections, requests and
//! histograms (`driver`). Invariant: the clock starts when every connection of every thread stands
//! and has greeted, and is the same for all threads.

mod alarm;
mod clock;
mod cluster;
mod dial;
mod driver;
pub(crate) mod encrypted;
mod link;
pub mod live;
mod memcached;
mod pace;
mod record;
mod replies;
mod reply;
mod starvation;
mod written;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use clock::RunClock;
use cluster::SlotMap;
use dial::Address;
use driver::{Driver, Shared, ThreadResult};
use encrypted::Encryptor;
use live::Live;
use written::Written;

use crate::interrupt;
use crate::options::{Options, Until, Verify};
use crate::outcome::{CommandOutcome, GeneratorUsage, Outcome};
use crate::report;
use crate::usage::{self, Watch};
use crate::workload::Workload;

/// Runs what the options ask for: one outcome per `--run-count`. Fails when the server cannot be
/// reached or refuses to serve, with what it said. A run whose `verify_errors` are not zero is a
/// result like any other; its caller should exit with a failure.
pub fn run(options: &Options) -> Result<Vec<Outcome>, String> {
    let mut workload = Workload::new(options);
    let mut outcomes = Vec::new();
    for number in 1..=options.run_count.max(1) {
        if number > 1 && options.load.randomize {
            workload = Workload::new(options);
        }
        outcomes.push(run_once(options, &workload, number)?);
        if interrupt::is_asked() {
            break;
        }
    }
    Ok(outcomes)
}

fn run_once(options: &Options, workload: &Workload, number: u32) -> Result<Outcome, String> {
    let written = Written::of(options);
    let phase = |options: &Options, verifies| {
        run_phase(&Phase { options, workload, written: written.as_ref(), verifies, number })
    };
    let reading = Options {
        until: Until::AllKeys,
        rate_limit: None,
        open_loop: None,
        reconnect_interval: None,
        ramp: None,
        ..options.clone()
    };
    match options.load.verify {
        Verify::No => phase(options, false),
        Verify::Only => phase(&reading, true),
        Verify::AfterWriting => {
            let mut outcome = phase(options, false)?;
            let read = phase(&reading, true)?;
            outcome.verify_errors = read.verify_errors;
            outcome.connection_errors += read.connection_errors;
            outcome.refused += read.refused;
            outcome.interrupted |= read.interrupted;
            Ok(outcome)
        }
    }
}

/// What a phase is made of.
struct Phase<'a> {
    options: &'a Options,
    workload: &'a Workload,
    written: Option<&'a Written>,
    verifies: bool,
    /// Of the run, from one.
    number: u32,
}

fn run_phase(phase: &Phase) -> Result<Outcome, String> {
    let Phase { options, workload, written, verifies, number } = *phase;
    let encryptor = Encryptor::of(options)?;
    let shared = Shared {
        options,
        workload,
        live: Live::default(),
        written,
        verifies,
        map: if options.cluster {
            Some(SlotMap::fetch(options, encryptor.as_ref())?)
        } else {
            None
        },
        address: Address::of(options)?,
        encryptor,
        gives_up: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (tell_ready, ready) = channel();
        let mut starts = Vec::new();
        let mut threads = Vec::new();
        for number in 0..options.threads {
            let (tell_start, start) = channel();
            starts.push(tell_start);
            let (shared, tell_ready) = (&shared, tell_ready.clone());
            let body = move || run_thread(shared, number, &tell_ready, &start);
            let name = format!("bench-{number}");
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, body);
            threads.push(spawned.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        // A thread that fails says so instead of being ready; then nobody gets a start.
        ready.iter().take(threads.len()).collect::<Result<(), String>>()?;
        let server_name = usage::server_name(options);
        let watch = Watch::begin(options, None);
        scope.spawn(|| report::progress::draw(&shared.live, options, number));
        let started = SystemTime::now();
        let clock = RunClock::start();
        for start in starts {
            // A thread that is gone tells why when it is joined.
            let _ = start.send(clock);
        }
        let finished = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        let finished: Vec<Result<ThreadResult, String>> = finished.collect();
        shared.live.finished.store(true, Ordering::Release);
        let (server, cpu) = watch.end();
        let causes = finished.iter().filter_map(|result| result.as_ref().err());
        if let Some(cause) = causes.min_by_key(|cause| **cause == driver::GIVEN_UP) {
            return Err(cause.clone());
        }
        let measured: Vec<ThreadResult> = finished.into_iter().filter_map(Result::ok).collect();
        Ok(Outcome { server, server_name, ..summarize(&shared, started, cpu, measured) })
    })
}

/// The life of one thread: connect, wait for the common start, run.
fn run_thread(
    shared: &Shared,
    number: u32,
    tell_ready: &Sender<Result<(), String>>,
    start: &Receiver<RunClock>,
) -> Result<ThreadResult, String> {
    let prepared = Driver::new(shared, number).and_then(|mut driver| {
        driver.prepare()?;
        Ok(driver)
    });
    let driver = match prepared {
        Ok(driver) => driver,
        Err(reason) => {
            // The reason goes first: what others say once they give up is of less interest.
            let _ = tell_ready.send(Err(reason.clone()));
            shared.gives_up.store(true, Ordering::Relaxed);
            return Err(reason);
        }
    };
    let _ = tell_ready.send(Ok(()));
    let clock = start.recv().map_err(|_| driver::GIVEN_UP.to_owned())?;
    let measured = driver.run(clock);
    if measured.is_err() {
        shared.gives_up.store(true, Ordering::Relaxed);
    }
    measured
}

fn summarize(
    shared: &Shared,
    started: SystemTime,
    cpu: Duration,
    measured: Vec<ThreadResult>,
) -> Outcome {
    let names = shared.workload.commands();
    let elapsed = measured.iter().map(|thread| thread.last).max().unwrap_or(0);
    let elapsed = Duration::from_nanos(elapsed);
    let busy = |thread: &ThreadResult| {
        let whole = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        (1.0 - thread.idle.as_secs_f64() / whole).clamp(0.0, 1.0)
    };
    let busiest_thread = measured.iter().map(busy).fold(0.0, f64::max);
    let starved = |thread: &ThreadResult| {
        (thread.starved.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0)
    };
    let starved_thread = measured.iter().map(starved).fold(0.0, f64::max);
    let mut outcome = Outcome {
        started,
        finished: started + elapsed,
        elapsed,
        commands: record::empty_outcomes(names),
        connection_errors: measured.iter().map(|thread| thread.connection_errors).sum(),
        verify_errors: measured.iter().map(|thread| thread.verify_errors).sum(),
        refused: measured.iter().map(|thread| thread.refused).sum(),
        unsent: measured.iter().map(|thread| thread.unsent).sum(),
        interrupted: interrupt::is_asked(),
        late: measured.iter().map(|thread| thread.late).sum(),
        generator: GeneratorUsage { cpu, busiest_thread, starved_thread },
        server_name: None,
        server: None,
        clients: Vec::new(),
    };
    for thread in measured {
        thread.recorder.add_to(&mut outcome.commands);
        for client in thread.clients {
            let mut commands: Vec<CommandOutcome> = record::empty_outcomes(names);
            client.add_to(&mut commands);
            outcome.clients.push(commands);
        }
    }
    record::align(&mut outcome.commands);
    for commands in &mut outcome.clients {
        record::align(commands);
    }
    outcome
}
