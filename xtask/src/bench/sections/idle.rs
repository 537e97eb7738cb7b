//! What a server takes that nobody asks anything, and how long it takes to start.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Running, Workers};
use super::super::process::{iowait_seconds, wakeups};
use super::{Bench, Finding};

const WATCHED: Duration = Duration::from_secs(10);
/// What a starting server does at first is not idleness.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let figure = |name: &str, unit| Figure::new(name, unit, names.len());
    let mut start = figure("start to first reply", "ms");
    let mut resident = figure("idle RSS", "MB");
    let mut cpu = figure("idle CPU", "% of a core");
    let mut woken = figure("idle wake-ups", "per second");
    let mut waited: f64 = 0.0;
    for round in 0..bench.plan.rounds {
        println!("  round {} of {}", round + 1, bench.plan.rounds);
        let servers = bench.peers.iter();
        let servers: Result<Vec<Running>, String> =
            servers.map(|peer| peer.start(&bench.cores.all(), Workers::Default, &[])).collect();
        let servers = servers?;
        for (values, server) in start.values.iter_mut().zip(&servers) {
            values.push(server.started_in.as_secs_f64() * 1e3);
        }
        sleep(SETTLE.mul_f64(bench.plan.scale));
        let watches: Vec<_> = servers.iter().map(Running::watch).collect();
        let (began, waited_before) = (Instant::now(), iowait_seconds()?);
        let woken_before: Result<Vec<f64>, String> =
            servers.iter().map(|server| wakeups(server.pid())).collect();
        sleep(WATCHED.mul_f64(bench.plan.scale));
        let seconds = began.elapsed().as_secs_f64();
        for (index, (server, before)) in servers.iter().zip(woken_before?).enumerate() {
            let used = server.used(&watches[index])?;
            let busy = (used.user + used.system).as_secs_f64() / seconds;
            cpu.values[index].push(busy * 100.0);
            resident.values[index].push(used.rss as f64 / 1e6);
            woken.values[index].push((wakeups(server.pid())? - before) / seconds);
        }
        waited = waited.max((iowait_seconds()? - waited_before) / seconds * 100.0);
    }
    finding.goals = vec![
        Goal::new("idle RSS, MB", Bound::AtMost(9.0), Some(resident.median(0))),
        Goal::new("idle CPU, % of a core", Bound::AtMost(0.1), Some(cpu.median(0))),
        Goal::new("idle wake-ups per second", Bound::AtMost(20.0), Some(woken.median(0))),
        Goal::new("iowait of the machine, %", Bound::AtMost(0.0), Some(waited)),
        Goal::new("start to first reply, ms", Bound::AtMost(50.0), Some(start.median(0))),
    ];
    let figures = vec![resident, cpu, woken, start];
    finding.tables.push(Table { names, figures });
    finding.method = format!(
        "All four at once for {} s, not bound to cores, ours with as many workers as it chooses. \
         Wake-ups are voluntary context switches of all threads; iowait is the machine's, of \
         whatever else runs on it too, at most in a round; the start counts from that of `taskset` \
         and is known to a millisecond.",
        WATCHED.as_secs(),
    );
    Ok(())
}
