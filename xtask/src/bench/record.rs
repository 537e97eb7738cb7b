//! The texts that a run leaves: the dated record, its raw numbers, and README's table. Invariant:
//! each says what it does not show.

use serde_json::{Value, json};

use super::figure::{Figure, markdown as grid, table};
use super::load::{Reading, Sample, WORKLOADS};
use super::{Run, contender, footprint, load};

const NOT_SHOWN: &str = "\
- **Several processes on the same cores.** The ratios are one Apus worker against one process of
  each peer, on one core. Several Redis processes, or a Redis cluster, on the same cores as an Apus
  with more workers are not measured here.
- More than one worker of Apus, and the `io-threads` of the peers: all execute on one core.
- How much a saturated server answers, wherever its busy share is below 100%: there the generator
  was the limit, and the rate is the generator's. A server that is waited for does more in one turn,
  so the CPU time per request depends a little on which of the two waits.
- Latency: `redis-benchmark` waits for replies before it sends on, so its percentiles hide stalls.
- A network: generator and server share one machine and its caches, over the loopback interface.
- Other sizes of values, other numbers of keys, other commands, expiry, eviction, persistence, TLS.
  Memory per key depends on how full a table happens to be at this very number of keys.
- The peers as their own projects would build them: these are binaries of a distribution and of
  packages; the allocator of each is in its version line.
";

/// The record as a page.
pub(super) fn markdown(run: &Run, figures: &[Figure]) -> String {
    format!(
        "\
# {date}: the foundation

Written by `{command}`, which measures all of it again.

## Result

{result}
{method}
## Every load

Medians of {rounds} rounds, in parentheses the smallest and the largest.

{loads}
## Conditions

{conditions}
## What this record does not show

{NOT_SHOWN}",
        date = run.machine.date,
        command = run.plan.command(),
        result = table(&run.names(), figures),
        method = method(run),
        rounds = run.plan.rounds,
        loads = loads(run),
        conditions = conditions(run),
    )
}

/// README's table and where it comes from.
pub(super) fn summary(run: &Run, figures: &[Figure], record: &str) -> String {
    format!(
        "\
{table}
Less is better in every row. Measured on {date} over {rounds} interleaved rounds, load average
{load} at the start: one Apus worker against one process of each peer, servers on one core and
`redis-benchmark` on the other. Flags, spread, and what it does not show:
[the record](bench/records/{record}.md). `{command}` measures it again.
",
        table = table(&run.names(), figures),
        date = run.machine.date,
        rounds = run.plan.rounds,
        load = run.loads_before.split(' ').next().unwrap_or_default(),
        command = run.plan.command(),
    )
}

/// Everything that was read, for other programs.
pub(super) fn json(run: &Run) -> String {
    let facts: Vec<Value> =
        run.machine.facts().iter().map(|(name, text)| json!([name, text])).collect();
    let contenders: Vec<Value> = run
        .contenders
        .iter()
        .map(|one| json!({"name": one.name, "version": one.version, "own_flags": one.own_flags}))
        .collect();
    let footprint: Vec<Value> = run
        .footprint
        .iter()
        .map(|figure| json!({"name": figure.name, "values": figure.values}))
        .collect();
    let raw = json!({
        "command": run.plan.command(),
        "facts": facts,
        "load_averages": {"before": run.loads_before, "after": run.loads_after},
        "flags": contender::FLAGS,
        "contenders": contenders,
        "samples": run.samples.iter().map(sample).collect::<Vec<_>>(),
        "footprint_order": run.names(),
        "footprint": footprint,
        "connections": run.connections,
    });
    serde_json::to_string_pretty(&raw).expect("texts and numbers are JSON") + "\n"
}

fn sample(sample: &Sample) -> Value {
    json!({
        "round": sample.round + 1,
        "contender": sample.contender,
        "workload": sample.workload,
        "requests": sample.requests,
        "requests_per_second": sample.rate,
        "server_cpu_ticks": sample.server_ticks,
        "generator_cpu_ticks": sample.generator_ticks,
        "wall_seconds": sample.seconds,
    })
}

fn method(run: &Run) -> String {
    let error = run.samples.iter().map(Sample::error).fold(0.0, f64::max) * 100.0;
    format!(
        "\
Less is better in every row. A ratio is the median of the ratios of {rounds} interleaved rounds, so
it may differ from that of the medians beside it; where rounds are far apart, trust neither. The
rows below the CPU times were measured once. The machine has {cores} cores for the server, the
generator and whatever else ran: the load averages were {before} before and {after} after.

- CPU: `utime` + `stime` of `/proc/PID/stat` around a run of `redis-benchmark`, at most
  {error:.1}% off by the kernel's tick of 10 ms. {keys} keys that all exist, values of {bytes}
  bytes, {connections} connections, {requests} requests, or {times} times as many when pipelined.
  One server is loaded at a time; in each round another one goes first.
- Memory per key: growth of `Rss` in `/proc/PID/smaps_rollup` of an empty server by {many} keys of
  {key_bytes} bytes with values of {value_bytes} bytes that are no integers, {settle} s after the
  last, less those {sum} bytes.
- Memory per connection: its growth by {crowd} connections, each after one PING, {settle} s after
  the last.
- Idle: {idle} s without a client; the kernel's tick makes steps of 0.1%.
",
        rounds = run.plan.rounds,
        cores = run.machine.cores,
        before = run.loads_before,
        after = run.loads_after,
        keys = load::KEYS,
        bytes = load::VALUE_BYTES,
        connections = load::CONNECTIONS,
        requests = run.plan.requests,
        times = load::PIPELINED_TIMES,
        many = footprint::KEYS,
        key_bytes = footprint::KEY_BYTES,
        value_bytes = footprint::VALUE_BYTES,
        sum = footprint::KEY_BYTES + footprint::VALUE_BYTES,
        settle = footprint::SETTLE.as_secs(),
        crowd = run.connections,
        idle = footprint::IDLE.as_secs(),
    )
}

fn loads(run: &Run) -> String {
    let columns: [(&str, Reading); 4] = [
        ("CPU per request, us", Sample::microseconds_per_request),
        ("requests per second", |sample| sample.rate),
        ("server busy, %", Sample::server_busy),
        ("generator busy, %", Sample::generator_busy),
    ];
    let mut head = vec!["load, server".to_owned()];
    head.extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let figures =
            columns.map(|(name, reading)| run.of_load(workload, name.to_owned(), reading));
        for (index, contender) in run.contenders.iter().enumerate() {
            let mut row = vec![format!("{}: {}", workload.name, contender.name)];
            row.extend(figures.iter().map(|figure| figure.spread(index)));
            rows.push(row);
        }
    }
    grid(&head, rows.into_iter())
}

fn conditions(run: &Run) -> String {
    let mut text = String::new();
    for (name, fact) in run.machine.facts() {
        text += &format!("- {name}: {fact}\n");
    }
    for one in &run.contenders {
        let flags = contender::FLAGS.iter().chain(one.own_flags);
        let flags: Vec<_> = flags.map(|flag| if flag.is_empty() { "\"\"" } else { flag }).collect();
        text += &format!("- {}: {}; `{}`\n", one.name, one.version, flags.join(" "));
    }
    text += &format!("- every server under `taskset -c {}`; the generator:\n\n", contender::CORE);
    text += "```\n";
    for workload in WORKLOADS {
        let arguments = workload.arguments(&run.plan).join(" ");
        text += &format!("taskset -c {} redis-benchmark -p PORT {arguments}\n", load::CORE);
    }
    text + "```\n"
}
