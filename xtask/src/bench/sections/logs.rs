//! SET with the append-only file: what it costs beside no log and beside Redis 7.0 with the same.

use std::path::Path;

use super::super::figure::{Figure, Table};
use super::super::generator::Load;
use super::super::goal::{Bound, Goal};
use super::super::peer::{Peer, REDIS_70, Running, Workers};
use super::{Bench, Finding, IN_MEMORY};

const SECONDS: u64 = 4;

/// A server and its flags.
struct Kind<'a> {
    name: String,
    peer: &'a Peer,
    flags: &'static [&'static str],
}

const NONE: &[&str] = &[];
const EVERYSEC: &[&str] = &["--appendonly", "yes", "--appendfsync", "everysec"];
const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// A load: its name, its policy, its words.
struct Workload {
    name: &'static str,
    setting: Setting,
    words: &'static str,
}

/// What servers are started with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    policy: &'static str,
    place: Place,
}

/// Where servers run, and where their logs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// All of it on one core, the log on the disk.
    OneCore,
    /// The same, but threads beside those that execute have the generator's core.
    Apart,
    /// All of it on one core, the log in memory, as on a disk that takes no time.
    InMemory,
}

const EACH_SECOND: Setting = Setting { policy: "everysec", place: Place::OneCore };
const EACH_SECOND_APART: Setting = Setting { place: Place::Apart, ..EACH_SECOND };
const EACH_WRITE: Setting = Setting { policy: "always", place: Place::OneCore };
const EACH_WRITE_APART: Setting = Setting { place: Place::Apart, ..EACH_WRITE };
const EACH_WRITE_IN_MEMORY: Setting = Setting { place: Place::InMemory, ..EACH_WRITE };
const SETTINGS: [Setting; 5] =
    [EACH_SECOND, EACH_SECOND_APART, EACH_WRITE, EACH_WRITE_APART, EACH_WRITE_IN_MEMORY];

const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "SET, pipelined by 16, all on one core",
        setting: EACH_SECOND,
        words: "-c 50 --pipeline 16",
    },
    Workload {
        name: "SET, pipelined by 16, the log's thread on the other core",
        setting: EACH_SECOND_APART,
        words: "-c 50 --pipeline 16",
    },
    Workload { name: "SET of 50 clients", setting: EACH_WRITE, words: "-c 50" },
    Workload { name: "SET of 500 clients", setting: EACH_WRITE, words: "-c 500" },
    Workload {
        name: "SET of 50 clients, the log's thread on the other core",
        setting: EACH_WRITE_APART,
        words: "-c 50",
    },
    Workload {
        name: "SET of 500 clients, the log's thread on the other core",
        setting: EACH_WRITE_APART,
        words: "-c 500",
    },
    Workload {
        name: "SET of 50 clients, files in memory",
        setting: EACH_WRITE_IN_MEMORY,
        words: "-c 50",
    },
    Workload {
        name: "SET of 500 clients, files in memory",
        setting: EACH_WRITE_IN_MEMORY,
        words: "-c 500",
    },
];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let redis = bench.peer(REDIS_70)?;
    for setting in SETTINGS {
        let policy = setting.policy;
        let flags = if policy == EACH_WRITE.policy { ALWAYS } else { EVERYSEC };
        let kind = |peer, name: &str, flags| {
            let peer: &Peer = peer;
            Kind { name: format!("{}, {name}", peer.name), peer, flags }
        };
        let kinds = [
            kind(bench.ours(), policy, flags),
            kind(bench.ours(), "no log", NONE),
            kind(redis, policy, flags),
            kind(redis, "no log", NONE),
        ];
        with_setting(bench, finding, setting, &kinds)?;
    }
    finding.method = format!(
        "100,000 keys, values of 256 bytes, on the disk of this machine where files are not said \
         to be in memory; one core and one worker, whose core the thread of the log shares, but \
         where it is said to have the other core, which is the generator's: there \
         `server_cpulist` and `bio_cpulist` say so to all servers. Rates are of acknowledged \
         writes in {SECONDS} s. Automatic rewrites are off."
    );
    Ok(())
}

/// Measures all loads of a setting on these servers, of which the first is ours with its policy.
fn with_setting(
    bench: &Bench<'_>,
    finding: &mut Finding,
    setting: Setting,
    kinds: &[Kind<'_>; 4],
) -> Result<(), String> {
    let generator = bench.generator(bench.cores.generator());
    let names: Vec<String> = kinds.iter().map(|kind| kind.name.clone()).collect();
    let keys = "-d 256 --key-minimum 1 --key-maximum 100000 --distinct-client-seed";
    let (own, other) = (bench.cores.server(), bench.cores.generator());
    let mut servers: Vec<Running> = Vec::new();
    for kind in kinds {
        let mut flags = kind.flags.to_vec();
        flags.extend(["--auto-aof-rewrite-percentage", "0"]);
        let cores = if setting.place == Place::Apart {
            flags.extend(["--server_cpulist", &own, "--bio_cpulist", &other]);
            bench.cores.all()
        } else {
            own.clone()
        };
        let workers = Workers::Exactly(1);
        let server = match setting.place {
            Place::InMemory => {
                let with = (workers, &flags[..]);
                kind.peer.start_in(Path::new(IN_MEMORY), None, &cores, with)?
            }
            Place::OneCore | Place::Apart => kind.peer.start(&cores, workers, &flags)?,
        };
        finding.remember(&generator.fill(server.port, keys)?);
        servers.push(server);
    }
    for workload in WORKLOADS.iter().filter(|workload| workload.setting == setting) {
        let mut rates = Figure::new(workload.name, "requests/s", kinds.len());
        let mut costs = Figure::new(workload.name, "server CPU us", kinds.len());
        let words = format!(
            "-t 1 {} --ratio 1:0 --test-time {} --hide-histogram {keys}",
            workload.words,
            bench.seconds(SECONDS)
        );
        let mut grouped = Figure::new(format!("{}: writes per sync", workload.name), "", 1);
        bench.rounds(kinds.len(), |round, index| {
            let syncs = || {
                if index == 0 { servers[0].number("persistence", "aof_fsyncs") } else { Ok(0.0) }
            };
            let before = syncs()?;
            let report = generator.run(servers[index].port, &words)?;
            let load: Load = report.load()?;
            if index == 0 {
                grouped.values[0].push(load.requests / (syncs()? - before));
            }
            rates.values[index].push(load.per_second);
            costs.values[index].push(load.server_us);
            finding.keep(round, &names[index], workload.name, &report, &load.warnings);
            Ok(())
        })?;
        let table = |figure: Figure| Table { names: names.clone(), figures: vec![figure] };
        let (rates, costs) = (table(rates), table(costs));
        goals(finding, workload, &rates, &costs);
        finding.tables.extend([rates, costs]);
        finding.tables.push(Table { names: names[..1].to_vec(), figures: vec![grouped] });
    }
    Ok(())
}

fn goals(finding: &mut Finding, workload: &Workload, rates: &Table, costs: &Table) {
    let policy = workload.setting.policy;
    let name = format!("{}, {policy}", workload.name);
    let figure = workload.name;
    let (bare, redis) = (rates.names[1].as_str(), rates.names[2].as_str());
    let (kept, cost, gain) = match policy {
        "everysec" => (0.80, Bound::Below(1.0), None),
        _ => (0.75, Bound::AtMost(0.8), Some(1.1)),
    };
    let what = format!("{name}: rate, times ours without a log");
    finding.goals.push(Goal::new(what, Bound::AtLeast(kept), rates.ratio(figure, bare)));
    if workload.setting.place == Place::InMemory {
        // A figure beside another server on no disk says little.
        return;
    }
    let what = format!("{name}: server CPU, times Redis 7.0 with the same");
    finding.goals.push(Goal::new(what, cost, costs.ratio(figure, redis)));
    if let Some(gain) = gain {
        let what = format!("{name}: rate, times Redis 7.0 with the same");
        finding.goals.push(Goal::new(what, Bound::AtLeast(gain), rates.ratio(figure, redis)));
    }
}
