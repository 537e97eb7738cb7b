//! `bench`: Apus beside Redis 7.0, Redis 8.2 and Valkey 9.1 on this machine, as a dated record and
//! as README's table. Invariant: what was scaled down or ran too few rounds is shown, never
//! recorded.

mod build;
mod cores;
mod exchange;
mod figure;
mod generator;
mod goal;
mod machine;
mod page;
mod peer;
mod pipe;
mod plan;
mod process;
mod record;
mod redis_benchmark;
mod sections;
mod training;

use std::fs;
use std::path::Path;

use crate::shell;
use cores::Cores;
use figure::replace_between;
use machine::Machine;
use peer::Peer;
use plan::Plan;
use sections::{Bench, Finding, Section};

pub(crate) use training::train;

/// All that was measured.
struct Run {
    plan: Plan,
    peers: Vec<Peer>,
    cores: Cores,
    machine: Machine,
    loads_before: String,
    loads_after: String,
    findings: Vec<(&'static Section, Finding)>,
}

/// Where README takes the table.
const MARKERS: (&str, &str) = ("<!-- bench: begin -->\n", "<!-- bench: end -->\n");

/// Measures what is asked for, prints the tables, writes the record and README's table.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let plan = Plan::parse(arguments)?;
    let (ours, cores) = (plan.build.make()?, Cores::read()?);
    let peers = match &plan.before {
        Some(program) => peer::before(ours, program.into())?,
        None => peer::all(ours)?,
    };
    let machine = Machine::read(plan.build)?;
    let loads_before = machine::load_averages()?;
    let mut findings = Vec::new();
    for section in &plan.sections {
        println!("{}: {}", section.name, section.title);
        let bench = Bench { plan: &plan, peers: &peers, cores: &cores };
        let mut finding = Finding::default();
        (section.measure)(&bench, &mut finding)
            .map_err(|reason| format!("{}: {reason}", section.name))?;
        for table in &finding.tables {
            println!("\n{}", table.medians());
        }
        findings.push((*section, finding));
    }
    let loads_after = machine::load_averages()?;
    Run { plan, peers, cores, machine, loads_before, loads_after, findings }.publish()
}

impl Run {
    fn publish(&self) -> Result<(), String> {
        println!("{}", goal::table(&self.goals()));
        let name = format!("{}-{}", self.machine.date, self.plan.name);
        let folder = if self.plan.is_recorded() {
            shell::root().join("bench/records")
        } else {
            println!("not recorded: a record takes at least 5 rounds in full");
            shell::target().join("bench")
        };
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        write(&folder.join(format!("{name}.md")), &record::markdown(self, &name))?;
        write(&folder.join(format!("{name}.json")), &record::json(self))?;
        write(&folder.join(format!("{name}.html")), &page::html(self))?;
        if !self.plan.is_quoted() {
            return Ok(());
        }
        let readme = shell::root().join("README.md");
        let text = fs::read_to_string(&readme).map_err(|error| error.to_string())?;
        let summary = record::summary(self, &name);
        let text = replace_between(&text, MARKERS, &summary).ok_or("README.md has no markers")?;
        write(&readme, &text)
    }

    fn goals(&self) -> Vec<&goal::Goal> {
        self.findings.iter().flat_map(|(_, finding)| &finding.goals).collect()
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}
