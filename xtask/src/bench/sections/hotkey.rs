//! One hot key against many uniform ones on two workers of ours: the preset `garnet-hotkey`.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::Workers;
use super::{Bench, Finding};

const SECONDS: u64 = 2;
const LOADS: [&str; 6] = [
    "GET, pipeline 1",
    "SET, pipeline 1",
    "INCR, pipeline 1",
    "GET, pipeline 30",
    "SET, pipeline 30",
    "INCR, pipeline 30",
];
const KEYS: [&str; 2] = ["one key", "uniform keys"];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let cores = bench.cores.servers();
    let two = cores[..cores.len().min(2)].join(",");
    let server = bench.ours().start(&two, Workers::Exactly(2), &[])?;
    let generator = bench.generator(bench.cores.generators());
    let seconds = bench.seconds(SECONDS);
    let words = format!("--preset garnet-hotkey -t 1 -c 50 --test-time {seconds}");
    let mut figures = LOADS.map(|load| Figure::new(load, "server CPU us", KEYS.len()));
    bench.rounds(1, |round, _| {
        let report = generator.run(server.port, &words)?;
        let steps = report.steps()?;
        for (load, figure) in LOADS.iter().zip(&mut figures) {
            for (keys, values) in KEYS.iter().zip(&mut figure.values) {
                let name = step_name(load, keys);
                let step = steps.iter().find(|step| step.name == name);
                let step = step.ok_or_else(|| format!("no step {name}"))?;
                values.push(step.server_us);
                finding.keep_warnings("Apus", &name, &step.warnings);
            }
        }
        finding.keep(round, "Apus", "steps", &report, &[]);
        Ok(())
    })?;
    let table = Table { names: KEYS.map(str::to_owned).to_vec(), figures: figures.into() };
    finding.goals = LOADS
        .iter()
        .map(|load| {
            let what = format!("server CPU per {load}: one key, times uniform keys");
            Goal::new(what, Bound::AtMost(1.05), table.ratio(load, KEYS[1]))
        })
        .collect();
    finding.tables.push(table);
    finding.method = format!(
        "100,000 uniform keys, 50 connections over loopback, two workers on the cores {two}, the \
         generator on {}.",
        bench.cores.generators(),
    );
    Ok(())
}

/// As the preset calls it: the keys stand behind the command.
fn step_name(load: &str, keys: &str) -> String {
    load.replacen(',', &format!(", {keys},"), 1)
}

#[cfg(test)]
mod tests {
    use super::step_name;

    #[test]
    fn steps_are_called_as_the_preset_calls_them() {
        assert_eq!(step_name("GET, pipeline 1", "one key"), "GET, one key, pipeline 1");
    }
}
