//! The presets themselves: which command lines of which publication, in which steps. Invariant: a
//! line is the published one; what the publication leaves open is said beside it.

use std::fs;
use std::time::Duration;

use super::noise::Noise;
use super::{Preset, Series, Step};
use crate::options::Until;

/// All presets.
pub(super) static ALL: &[Preset] = &[
    Preset { name: "s0-get", about: S0, axis: None, plan: |series| s0(series, "GET", 1) },
    Preset { name: "s0-set", about: S0, axis: None, plan: |series| s0(series, "SET", 1) },
    Preset { name: "s0-get-p30", about: S0, axis: None, plan: |series| s0(series, "GET", 30) },
    Preset { name: "s0-set-p30", about: S0, axis: None, plan: |series| s0(series, "SET", 30) },
    Preset {
        name: "putra",
        about: "SET EX 20 and GET in turn: the maximum, then parts of it by an open loop",
        axis: Some("% of the maximum"),
        plan: putra,
    },
    Preset {
        name: "keydb",
        about: "memtier's defaults from 32 threads, or 3 times 12 for a cluster",
        axis: None,
        plan: keydb,
    },
    Preset {
        name: "garnet-hotkey",
        about: "GET, SET and INCR of one key against 100,000 uniform keys",
        axis: None,
        plan: garnet_hotkey,
    },
    Preset {
        name: "garnet",
        about: "GET by 1 to 128 connections in batches of 1 to 4,096, over few and many keys",
        axis: Some("requests in a batch"),
        plan: garnet,
    },
    Preset {
        name: "garantia",
        about: "GET and SET in equal parts, 100 connections, objects of 100 bytes, mean of 3 runs",
        axis: None,
        plan: garantia,
    },
];

/// A run without a preset, on several servers: the caller's words are all of it.
pub(super) static COMPARISON: Preset = Preset {
    name: "comparison",
    about: "The same load on several servers in turn",
    axis: None,
    plan: |series| {
        let options = series.words.common.clone();
        series.measure(&Step::default(), &options).map(drop)
    },
};

const S0: &str = "The command lines by which Redis answered Dragonfly in 2022";

/// With `--cluster-mode` the line that went to the Redis cluster, twice at once there and so with
/// twice its threads here; else the one that went to Dragonfly. A GET finds its key.
fn s0(series: &mut Series, command: &str, pipeline: u32) -> Result<(), String> {
    let ratio = if command == "GET" { "0:1" } else { "1:0" };
    let (connections, until) = match series.words.common.cluster {
        true => ("-t 48 -c 1", Until::Time(Duration::from_secs(180))),
        false => ("-t 55 -c 30", Until::Requests(200_000)),
    };
    let keys = series.count(1_000_000);
    let line = format!(
        "--ratio {ratio} {connections} --distinct-client-seed -d 256 --key-maximum {keys} \
         --hide-histogram --pipeline {pipeline}"
    );
    let options = series.options(&line, &[], until)?;
    if command == "GET" {
        series.fill(&options)?;
    }
    let name = format!("{command}, pipeline {pipeline}");
    series.measure(&Step { name, ..Step::default() }, &options).map(drop)
}

/// The article names neither the size of values nor the number of keys: 256 bytes, a million.
fn putra(series: &mut Series) -> Result<(), String> {
    let keys = series.count(1_000_000);
    let line = format!("-t 4 -c 25 -d 256 --key-maximum {keys} --distinct-client-seed");
    let commands = ["SET __key__ __data__ EX 20", "GET __key__"];
    let time = Until::Time(Duration::from_secs(20));
    let mut options = series.options(&line, &commands, time)?;
    let step = |percent: f64, name: String| Step { name, place: percent, ..Step::default() };
    let maximum = match series.words.maximum {
        Some(rate) => rate,
        None => {
            let closed = step(f64::NAN, "closed loop".into());
            series.measure(&closed, &options)?
        }
    };
    series.notes.push(format!("maximum: {maximum:.0} requests per second"));
    let steps = series.words.steps.clone();
    for percent in steps.unwrap_or_else(|| (1..=10).map(|tenth| f64::from(tenth * 10)).collect()) {
        options.open_loop = Some(maximum * percent / 100.0);
        series.measure(&step(percent, format!("{percent}%")), &options)?;
    }
    Ok(())
}

/// As published nothing is written beforehand: most GETs of an empty server miss.
fn keydb(series: &mut Series) -> Result<(), String> {
    let keys = series.count(10_000_000);
    let (threads, name) = if series.words.common.cluster {
        (36, "cluster, 3 generators of 12 threads")
    } else {
        (32, "one node, 32 threads")
    };
    let line = format!("--threads={threads} --key-maximum {keys}");
    let options = series.options(&line, &[], Until::Requests(10_000))?;
    series.measure(&Step { name: name.into(), ..Step::default() }, &options).map(drop)
}

/// Which keys a step of `garnet_hotkey` takes.
const ONE_KEY: &str = "one key";
const UNIFORM: &str = "uniform keys";

fn garnet_hotkey(series: &mut Series) -> Result<(), String> {
    let many = series.count(100_000);
    let line = |keys: u64, pipeline: u32, more: &str| {
        let keys = format!("--key-minimum 1 --key-maximum {keys} --distinct-client-seed");
        format!("-t 2 -c 25 {keys} --pipeline {pipeline} {more}")
    };
    let time = Until::Time(Duration::from_secs(10));
    let filled = series.options(&line(many, 1, ""), &[], time)?;
    series.fill(&filled)?;
    // Counters are no values of the fill: they have a prefix of their own.
    let increment = ["INCR __key__"];
    let loads: [(&str, &str, &[&str]); 3] = [
        ("GET", "--ratio 0:1", &[]),
        ("SET", "--ratio 1:0", &[]),
        ("INCR", "--key-prefix counter-", &increment),
    ];
    for pipeline in [1, 30] {
        for (command, more, commands) in loads {
            for (series_name, keys) in [(ONE_KEY, 1), (UNIFORM, many)] {
                let options = series.options(&line(keys, pipeline, more), commands, time)?;
                let step = Step {
                    name: format!("{command}, {series_name}, pipeline {pipeline}"),
                    ..Step::default()
                };
                series.measure(&step, &options)?;
            }
            let own = series.measured.iter().filter(|one| one.target == 0);
            let costs = own.rev().take(2);
            let costs: Option<Vec<f64>> =
                costs.map(|one| one.server.as_ref().map(|used| used.us_per_request)).collect();
            if let Some([uniform, one]) = costs.as_deref() {
                let ratio = one / uniform;
                series.notes.push(format!(
                    "{command}, pipeline {pipeline}: a request for the one key takes {ratio:.2} \
                     times the server CPU of one for uniform keys"
                ));
            }
        }
    }
    Ok(())
}

/// Numbers of connections, and of requests in a batch.
const CONNECTIONS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const BATCHES: [u32; 7] = [1, 4, 16, 64, 256, 1024, 4096];
const KEYS_FEW: u64 = 1024;
/// As published; fewer where this machine's memory is short.
const KEYS_MANY: u64 = 256_000_000;
/// What a key with a value of 8 bytes takes in the most wasteful of servers.
const KEY_BYTES: u64 = 160;

fn garnet(series: &mut Series) -> Result<(), String> {
    let fitting = KEYS_MANY.min(available_memory() / 2 / KEY_BYTES);
    let many = series.count(fitting).max(KEYS_FEW);
    for (keys, amount) in [(KEYS_FEW, "few"), (many, "many")] {
        let group = format!("{amount} keys ({keys})");
        for (index, connections) in CONNECTIONS.into_iter().enumerate() {
            for batch in BATCHES {
                let line = format!(
                    "--ratio 0:1 -t 1 -c {connections} --pipeline {batch} -d 8 \
                     --key-minimum 1 --key-maximum {keys} --distinct-client-seed"
                );
                let until = Until::Time(Duration::from_secs(5));
                let options = series.options(&line, &[], until)?;
                if index == 0 && batch == 1 {
                    series.fill(&options)?;
                }
                let plural = if connections == 1 { "" } else { "s" };
                let crowd = format!("{connections} connection{plural}");
                let step = Step {
                    name: format!("{group}, {crowd}, batch {batch}"),
                    group: group.clone(),
                    series: crowd,
                    place: f64::from(batch),
                };
                series.measure(&step, &options)?;
            }
        }
    }
    Ok(())
}

/// Sizes of the data in gigabytes, as published.
const GIGABYTES: [f64; 3] = [0.5, 5.0, 12.0];
const OBJECT: f64 = 100.0;

fn garantia(series: &mut Series) -> Result<(), String> {
    for gigabytes in GIGABYTES {
        let keys = series.count((gigabytes * 1e9 / OBJECT) as u64);
        // An object of 100 bytes takes about twice that with its key.
        if keys.saturating_mul(2 * OBJECT as u64) > available_memory() {
            series.notes.push(format!("{gigabytes} GB of objects do not fit and were left out"));
            continue;
        }
        let line = format!("-t 4 -c 25 -d {OBJECT} --ratio 1:1 --run-count 3 --key-maximum {keys}");
        let until = Until::Time(Duration::from_secs(60));
        let options = series.options(&line, &[], until)?;
        series.fill(&options)?;
        let mut noises = vec![false];
        if !series.words.noise.is_empty() {
            noises.push(true);
        }
        for is_noisy in noises {
            if is_noisy {
                series.noise = Some(Noise::start(&series.words.noise)?);
            }
            let with = if is_noisy { ", noisy neighbours" } else { "" };
            let written = options.load.keys.maximum as f64 * OBJECT / 1e9;
            let step = Step { name: format!("{written} GB{with}"), ..Step::default() };
            let outcome = series.measure(&step, &options);
            series.noise = None;
            outcome?;
        }
    }
    Ok(())
}

/// Bytes that programs of this machine can still have.
fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
