//! What others notice of work on huge values: latencies of GET beside it, and the longest time that
//! such work held a lock of ours.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Running, Workers};
use super::super::pipe;
use super::{Bench, Finding};

const MEMBERS: u64 = 1_000_000;
const SECONDS: u64 = 2;
/// Requests per second of GET.
const RATE: u64 = 5_000;

/// What goes on beside: its name and its commands, again and again.
const WORKS: &[(&str, &[&[&str]])] = &[
    ("nothing", &[]),
    ("SUNIONSTORE and DEL", &[&["SUNIONSTORE", "other", "set", "more"], &["DEL", "other"]]),
    ("SORT", &[&["SORT", "set", "ALPHA", "LIMIT", "0", "10", "STORE", "sorted"]]),
];

pub(super) fn latency(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let servers = bench.start_all()?;
    let generator = bench.generator(bench.cores.generator());
    let keys = "-d 64 --key-minimum 1 --key-maximum 10000";
    for server in &servers {
        fill(server.port, "set", bench.plan.scaled(MEMBERS))?;
        pipe::feed(server.port, [words(&["SADD", "more", "a", "b"])].into_iter())?;
        finding.remember(&generator.fill(server.port, keys)?);
    }
    let words = format!(
        "-t 1 -c 20 --ratio 0:1 --open-loop {RATE} --test-time {} --hide-histogram {keys}",
        bench.seconds(SECONDS)
    );
    let new = |(name, _): &(&str, _)| {
        Figure::new(format!("p99.9 of GET beside {name}"), "ms", names.len())
    };
    let mut figures: Vec<Figure> = WORKS.iter().map(new).collect();
    bench.rounds(servers.len(), |round, index| {
        for ((name, work), figure) in WORKS.iter().zip(&mut figures) {
            let server = &servers[index];
            let report = beside(server.port, work, || generator.run(server.port, &words))?;
            // A server that stands still does not tell which process it is, so its CPU time is
            // not known; latencies are what counts here.
            finding.keep(round, &names[index], name, &report, &[]);
            figure.values[index].push(report.percentile("p99.90")?);
        }
        Ok(())
    })?;
    finding.goals = figures[1..]
        .iter()
        .map(|figure| {
            Goal::new(format!("{}, ms", figure.name), Bound::AtMost(2.0), Some(figure.median(0)))
        })
        .collect();
    finding.tables.push(Table { names, figures });
    finding.method = format!(
        "{RATE} GETs per second sent by the clock on 20 connections, while another one works \
         on a set of {MEMBERS} members without a pause. Every server has one core, and ours one \
         worker, whose core its other threads share."
    );
    Ok(())
}

/// Measures while the commands are given again and again on a connection of their own.
fn beside<T>(
    port: u16,
    work: &[&[&str]],
    measure: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && !work.is_empty() {
                pipe::feed(port, work.iter().map(|command| words(command)))?;
            }
            Ok::<(), String>(())
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        worker.join().expect("it returns its errors")?;
        measured
    })
}

const HUGE: u64 = 10_000_000;

pub(super) fn holds(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let server = bench.ours().start(&bench.cores.all(), Workers::Exactly(1), &[])?;
    let members = bench.plan.scaled(HUGE);
    fill(server.port, "huge", members)?;
    let mut figures = Vec::new();
    for command in [&["COPY", "huge", "copy"][..], &["DUMP", "huge"], &["DEL", "copy"]] {
        pipe::order(server.port, &["CONFIG", "RESETSTAT"])?;
        pipe::line(&pipe::connect(server.port)?, command)?;
        let longest = longest_hold(&server)?;
        let what = format!("longest lock hold of {} of {members} members", command[0]);
        let mut figure = Figure::new(what.clone(), "ms", 1);
        figure.values[0].push(longest);
        figures.push(figure);
        let goal = (members == HUGE).then_some(longest);
        finding.goals.push(Goal::new(format!("{what}, ms"), Bound::AtMost(1.0), goal));
    }
    finding.tables.push(Table { names: vec![bench.ours().name.to_owned()], figures });
    "The longest hold as the server counts it (`longest_lock_hold_us` in INFO)."
        .clone_into(&mut finding.method);
    Ok(())
}

fn longest_hold(server: &Running) -> Result<f64, String> {
    server.number("workers", "longest_lock_hold_us").map(|micros| micros / 1000.0)
}

fn fill(port: u16, key: &'static str, members: u64) -> Result<(), String> {
    const EACH: u64 = 100;
    pipe::feed(
        port,
        (0..members / EACH).map(|part| {
            let mut request = words(&["SADD", key]);
            request.extend((0..EACH).map(|number| format!("m:{:014}", part * EACH + number)));
            request
        }),
    )
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}
