//! Latencies at fixed rates, sent by the clock: the preset `putra`, in parts of what Redis 8.2 can
//! do at most.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::REDIS_82;
use super::{Bench, Finding};

/// Percentages of the maximum.
const STEPS: [u32; 4] = [10, 25, 50, 75];
const SECONDS: u64 = 3;
const KINDS: [&str; 2] = ["SET", "GET"];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let servers = bench.start_all()?;
    let generator = bench.generator(bench.cores.generator());
    let common = format!("--preset putra -t 1 -c 50 --test-time {}", bench.seconds(SECONDS));
    let redis = names.iter().position(|name| name == REDIS_82).ok_or("there is no Redis 8.2")?;
    let report = generator.run(servers[redis].port, &format!("{common} --steps="))?;
    let closed = report.steps()?;
    finding.keep(0, REDIS_82, "maximum", &report, &[]);
    let all = closed.first().and_then(|step| step.kinds.last());
    let maximum = all.ok_or("the closed loop measured nothing")?.per_second;
    let steps = STEPS.map(|step| step.to_string()).join(",");
    let words = format!("{common} --maximum {maximum:.0} --steps {steps}");
    let empty = |percentile: &str| -> Vec<Figure> {
        let each = KINDS.iter().flat_map(|kind| STEPS.map(|step| title(kind, step)));
        each.map(|name| Figure::new(format!("{name}, {percentile}"), "ms", names.len())).collect()
    };
    let (mut p99, mut p999) = (empty("p99"), empty("p99.9"));
    bench.rounds(servers.len(), |round, index| {
        let report = generator.run(servers[index].port, &words)?;
        let measured = report.steps()?;
        for (place, step) in measured.iter().enumerate() {
            finding.keep_warnings(&names[index], &step.name, &step.warnings);
            for (kind, name) in KINDS.iter().enumerate() {
                let found = step.kinds.iter().find(|found| found.name == *name);
                let found = found.ok_or_else(|| format!("no {name} in {}", step.name))?;
                let figure = kind * STEPS.len() + place;
                p99[figure].values[index].push(found.p99_ms);
                p999[figure].values[index].push(found.p999_ms);
            }
        }
        finding.keep(round, &names[index], "steps", &report, &[]);
        Ok(())
    })?;
    finding.tables = [p99, p999].map(|figures| Table { names: names.clone(), figures }).into();
    finding.goals = finding.tables.iter().flat_map(goals).collect();
    finding.method = format!(
        "`SET key value EX 20` and `GET key` in turn over a million keys of 256 bytes, 50 \
         connections, sent by the clock at parts of {maximum:.0} requests per second, which is \
         what {REDIS_82} did in a closed loop; a latency counts from when its request was due. \
         Ours with one worker."
    );
    Ok(())
}

fn title(kind: &str, step: u32) -> String {
    format!("{kind} at {step}%")
}

/// In every figure the best peer is the one to beat.
fn goals(table: &Table) -> Vec<Goal> {
    let goal = |figure: &Figure| {
        let what = format!("{}, times that of the best peer", figure.name);
        Goal::new(what, Bound::AtMost(1.0), table.best(figure))
    };
    table.figures.iter().map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::figure::{Figure, Table};
    use super::goals;

    #[test]
    fn the_best_peer_is_the_one_to_beat() {
        let names = ["Apus", "B", "C"].map(str::to_owned).to_vec();
        let values = vec![vec![1.0], vec![2.0], vec![0.5]];
        let figure = Figure { name: "GET at 10%, p99".to_owned(), unit: "ms", values };
        let goals = goals(&Table { names, figures: vec![figure] });
        assert_eq!(goals[0].value.to_bits(), 2.0_f64.to_bits());
        assert_eq!(goals[0].is_met(), Some(false));
    }
}
