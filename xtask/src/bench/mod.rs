//! `bench`: Apus beside Redis 7.0, Redis 8.2 and Valkey 9.1 on this machine, as a dated record and
//! as README's table. Invariant: a run too short for the kernel's clock is shown, never recorded.

mod contender;
mod figure;
mod footprint;
mod load;
mod machine;
mod pipe;
mod process;
mod record;

use std::fs;
use std::path::Path;

use crate::shell;
use figure::{Figure, replace_between, table};
use load::{Reading, Sample, WORKLOADS, Workload};
use machine::Machine;

/// What was asked for.
struct Plan {
    rounds: usize,
    /// Requests of one un-pipelined load; a pipelined one takes `load::PIPELINED_TIMES` as many.
    requests: u64,
}

/// All that was measured.
struct Run {
    plan: Plan,
    contenders: Vec<contender::Contender>,
    machine: Machine,
    loads_before: String,
    loads_after: String,
    samples: Vec<Sample>,
    footprint: Vec<Figure>,
    connections: usize,
}

/// A measured CPU time must be this exact, as a share of itself.
const ERROR_MAX: f64 = 0.02;

/// Where README takes the table.
const MARKERS: (&str, &str) = ("<!-- bench: begin -->\n", "<!-- bench: end -->\n");

/// Measures everything, prints the table, writes the record and README's table.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let plan = Plan::parse(arguments)?;
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "apus"]))?;
    let contenders = contender::all()?;
    let machine = Machine::read()?;
    let loads_before = machine::load_averages()?;
    let samples = load::measure(&contenders, &plan)?;
    let connections = footprint::connections()?;
    let footprint = footprint::measure(&contenders, connections)?;
    let loads_after = machine::load_averages()?;
    let run = Run {
        plan,
        contenders,
        machine,
        loads_before,
        loads_after,
        samples,
        footprint,
        connections,
    };
    run.publish()
}

impl Plan {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut plan = Self { rounds: 5, requests: 300_000 };
        let mut words = arguments.iter();
        while let Some(option) = words.next() {
            let value = words.next().and_then(|word| word.parse::<u32>().ok());
            let value = value.filter(|value| *value > 0);
            let value = value.ok_or_else(|| format!("{option} needs a number above 0"))?;
            match option.as_str() {
                "--rounds" => plan.rounds = value as usize,
                "--requests" => plan.requests = u64::from(value),
                _ => return Err(format!("{option}: want --rounds N or --requests N")),
            }
        }
        Ok(plan)
    }

    /// The command that does the same again.
    fn command(&self) -> String {
        format!("cargo xtask bench --rounds {} --requests {}", self.rounds, self.requests)
    }
}

impl Run {
    fn publish(&self) -> Result<(), String> {
        let figures = self.figures();
        println!("{}", table(&self.names(), &figures));
        let error = self.samples.iter().map(Sample::error).fold(0.0, f64::max);
        if error > ERROR_MAX {
            let percent = error * 100.0;
            println!("not recorded: a CPU time may be {percent:.1}% off; ask for more --requests");
            return Ok(());
        }
        let name = format!("{}-foundation", self.machine.date);
        let folder = shell::root().join("bench/records");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        write(&folder.join(format!("{name}.md")), &record::markdown(self, &figures))?;
        write(&folder.join(format!("{name}.json")), &record::json(self))?;
        let readme = shell::root().join("README.md");
        let text = fs::read_to_string(&readme).map_err(|error| error.to_string())?;
        let summary = record::summary(self, &figures, &name);
        let text = replace_between(&text, MARKERS, &summary).ok_or("README.md has no markers")?;
        write(&readme, &text)
    }

    fn names(&self) -> Vec<&str> {
        self.contenders.iter().map(|contender| contender.name).collect()
    }

    /// The rows of the summary: CPU time per request of each load, then the footprint.
    fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = WORKLOADS
            .iter()
            .map(|workload| {
                let name = format!("server CPU per {}, us", workload.name);
                self.of_load(workload, name, Sample::microseconds_per_request)
            })
            .collect();
        figures.extend(self.footprint.iter().cloned());
        figures
    }

    /// One reading of every sample of a load, by contender and round.
    fn of_load(&self, workload: &Workload, name: String, reading: Reading) -> Figure {
        let values = self.contenders.iter().map(|contender| {
            let own = self.samples.iter().filter(|sample| {
                sample.contender == contender.name && sample.workload == workload.name
            });
            own.map(reading).collect()
        });
        Figure { name, values: values.collect() }
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Plan;

    fn parse(line: &str) -> Result<Plan, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::parse(&words)
    }

    #[test]
    fn a_plan_repeats_itself_by_its_command() {
        for line in ["", "--rounds 3", "--requests 10 --rounds 7"] {
            let command = parse(line).unwrap().command();
            let again = parse(command.strip_prefix("cargo xtask bench ").unwrap()).unwrap();
            assert_eq!(again.command(), command, "{line}");
        }
    }

    #[test]
    fn a_plan_that_measures_nothing_is_refused() {
        for line in ["--rounds", "--rounds 0", "--rounds x", "--requests -1", "--other 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
