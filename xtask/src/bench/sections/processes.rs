//! Ours on several cores against several processes of Redis, and against a cluster of them, on the
//! same cores: what a record must not leave out beside the ratio to one process.

use super::super::generator::{Generator, Load, Report};
use super::super::peer::{REDIS_82, Running, Workers};
use super::loads::{Figures, WORKLOADS, keys};
use super::{Bench, Finding};

const SECONDS: u64 = 2;
const CONNECTIONS: usize = 50;

/// A way to use several cores.
struct Form {
    name: String,
    servers: Vec<Running>,
    /// Whether the generator follows the slots of a cluster.
    is_cluster: bool,
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let cores = bench.cores.servers();
    let (count, redis) = (cores.len(), bench.peer(REDIS_82)?);
    let alone = redis.start(&cores.join(","), Workers::Default, &[])?;
    let several: Result<Vec<Running>, String> =
        cores.iter().map(|core| redis.start(core, Workers::Default, &[])).collect();
    let ours = bench.ours().start(&cores.join(","), Workers::Exactly(count), &[])?;
    let form = |name: String, servers, is_cluster| Form { name, servers, is_cluster };
    let forms = [
        form(format!("Apus, {count} workers"), vec![ours], false),
        form(format!("{REDIS_82}, 1 process"), vec![alone], false),
        form(format!("{REDIS_82}, {count} processes"), several?, false),
        form(format!("{REDIS_82}, cluster of {count}"), redis.start_cluster(&cores)?, true),
    ];
    let names: Vec<String> = forms.iter().map(|form| form.name.clone()).collect();
    let generator = bench.generator(bench.cores.generators());
    for form in &forms {
        // Any node of a cluster tells of the others.
        let asked = if form.is_cluster { &form.servers[..1] } else { &form.servers };
        for server in asked {
            let more = if form.is_cluster { " --cluster-mode" } else { "" };
            finding.remember(&generator.fill(server.port, &(keys() + more))?);
        }
    }
    let mut figures = Figures::new(forms.len());
    bench.rounds(forms.len(), |round, index| {
        for (number, workload) in WORKLOADS.iter().enumerate() {
            let form = &forms[index];
            let words = workload.words(bench.seconds(SECONDS));
            let reports = run(&generator, form, count, &words)?;
            let loads: Result<Vec<Load>, String> = reports.iter().map(Report::load).collect();
            let load = sum(&loads?);
            for report in &reports {
                finding.keep(round, &form.name, workload.name, report, &report.load()?.warnings);
            }
            figures.push(number, index, &load);
        }
        Ok(())
    })?;
    finding.tables = figures.tables(&names);
    finding.method = method(bench, count);
    Ok(())
}

/// Loads one form: a process by itself by a generator of its own, all at the same time.
fn run(
    generator: &Generator,
    form: &Form,
    count: usize,
    words: &str,
) -> Result<Vec<Report>, String> {
    if form.is_cluster || form.servers.len() == 1 {
        let more = if form.is_cluster { " --cluster-mode" } else { "" };
        let words = format!("-t {count} -c {} {words}{more}", CONNECTIONS / count);
        return generator.run(form.servers[0].port, &words).map(|report| vec![report]);
    }
    let words = format!("-t 1 -c {} {words}", CONNECTIONS / count);
    let started: Result<Vec<_>, String> =
        form.servers.iter().map(|server| generator.start(server.port, &words)).collect();
    started?.into_iter().map(super::super::generator::Running::finish).collect()
}

/// Loads that ran at the same time, as one.
fn sum(loads: &[Load]) -> Load {
    let requests: f64 = loads.iter().map(|load| load.requests).sum();
    let cpu: f64 = loads.iter().map(|load| load.server_us * load.requests).sum();
    Load {
        requests,
        per_second: loads.iter().map(|load| load.per_second).sum(),
        server_us: cpu / requests,
        warnings: Vec::new(),
    }
}

fn method(bench: &Bench<'_>, count: usize) -> String {
    let shared = if bench.cores.are_shared() {
        "this machine has so few that the generator shares them, so throughput is that of servers \
         and generator together, and CPU time per request is the fairer figure. Beside a generator \
         on a core of its own there is one core for servers, where N processes are one: that is \
         the table of the first section"
    } else {
        "the generator has the others"
    };
    format!(
        "The load of the first section over {CONNECTIONS} connections on {count} cores; {shared}. \
         Of several processes each is bound to a core and has a generator and a part of the \
         connections of its own; each holds all keys. A cluster has one generator, which follows \
         its slots and has a connection to each master for each of its clients.",
    )
}

#[cfg(test)]
mod tests {
    use super::{Load, sum};

    #[test]
    fn loads_at_the_same_time_add_up_and_costs_are_weighed() {
        let load = |requests, server_us| Load {
            requests,
            per_second: requests,
            server_us,
            warnings: Vec::new(),
        };
        let both = sum(&[load(100.0, 2.0), load(300.0, 6.0)]);
        assert_eq!((both.requests, both.per_second, both.server_us), (400.0, 400.0, 5.0));
    }
}
