//! Memory per key and per connection, and what a server takes that nobody asks anything.
//! Invariant: each quantity is that of a fresh server, less what it took when it was empty.

use std::thread::sleep;
use std::time::Duration;

use super::contender::{Contender, Running};
use super::figure::Figure;
use super::pipe;
use super::process::{TICK_SECONDS, field, read, resident_bytes, ticks};

pub(super) const KEYS: u64 = 1_000_000;
pub(super) const KEY_BYTES: u64 = 8;
pub(super) const VALUE_BYTES: u64 = 8;
pub(super) const CONNECTIONS: usize = 10_000;

/// Servers give back buffers and pages some seconds later.
pub(super) const SETTLE: Duration = Duration::from_secs(10);

/// How long idle servers are watched.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// File descriptors of this process that are no connections.
const OTHER_FILES: usize = 100;

/// The goal, or as many connections as this process may have open.
pub(super) fn connections() -> Result<usize, String> {
    let limits = read("/proc/self/limits")?;
    let limit = field(&limits, "Max open files").ok_or("no limit of open files")?;
    let limit = limit.parse().unwrap_or(usize::MAX);
    Ok(CONNECTIONS.min(limit.saturating_sub(OTHER_FILES)))
}

/// The figures, one value for each contender.
pub(super) fn measure(contenders: &[Contender], count: usize) -> Result<Vec<Figure>, String> {
    println!("idle servers and memory per key");
    let servers = start(contenders)?;
    let empty = of_all(&servers, resident)?;
    let before = of_all(&servers, cpu_seconds)?;
    sleep(IDLE);
    let idle = changes(&before, &of_all(&servers, cpu_seconds)?, 100.0 / IDLE.as_secs_f64());
    for server in &servers {
        pipe::fill(server.port, KEYS, |index| (format!("k{index:07x}"), format!("v{index:07x}")))?;
    }
    sleep(SETTLE);
    let per_key = changes(&empty, &of_all(&servers, resident)?, 1.0 / KEYS as f64);
    let payload = (KEY_BYTES + VALUE_BYTES) as f64;
    drop(servers);
    println!("memory per connection");
    let of_connections = contenders.iter().map(|contender| connected(contender, count));
    let per_connection = of_connections.collect::<Result<Vec<_>, _>>()?;
    let figure = |name: &str, values: Vec<f64>| Figure {
        name: name.to_owned(),
        values: values.into_iter().map(|value| vec![value]).collect(),
    };
    Ok(vec![
        figure(
            "memory per key beyond its 16 bytes, B",
            per_key.iter().map(|b| b - payload).collect(),
        ),
        figure("memory per connection, B", per_connection),
        figure("memory of an empty server, MB", empty.iter().map(|bytes| bytes / 1e6).collect()),
        figure("CPU of an idle server, % of a core", idle),
    ])
}

fn start(contenders: &[Contender]) -> Result<Vec<Running>, String> {
    contenders.iter().map(Contender::start).collect()
}

/// The bytes that a connection adds after one command, which was answered.
fn connected(contender: &Contender, count: usize) -> Result<f64, String> {
    let server = contender.start()?;
    let before = resident(&server)?;
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = pipe::connect(server.port)?;
        pipe::ping(&mut stream)?;
        streams.push(stream);
    }
    sleep(SETTLE);
    let after = resident(&server)?;
    drop(streams);
    Ok((after - before) / count as f64)
}

fn of_all(
    servers: &[Running],
    number: fn(&Running) -> Result<f64, String>,
) -> Result<Vec<f64>, String> {
    servers.iter().map(number).collect()
}

fn changes(before: &[f64], after: &[f64], factor: f64) -> Vec<f64> {
    before.iter().zip(after).map(|(before, after)| (after - before) * factor).collect()
}

fn resident(server: &Running) -> Result<f64, String> {
    Ok(resident_bytes(server.pid())? as f64)
}

fn cpu_seconds(server: &Running) -> Result<f64, String> {
    Ok(ticks(server.pid())?.own as f64 * TICK_SECONDS)
}
