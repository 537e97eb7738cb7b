//! The texts that a run leaves: the dated record, its raw numbers, and README's table. Invariant:
//! each says what it does not show.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figure::{Figure, Table};
use super::sections::{Finding, SEVERAL, Section};
use super::{Run, goal, peer};

const NOT_SHOWN: &str = "\
- More than the cores of this machine, and the `io-threads` of the peers: each process of a peer
  executes on one core.
- How much a saturated server answers, wherever the generator was the limit: there the rate is the
  generator's.
- A network: generator and server share one machine and its caches, over the loopback interface.
- Other sizes of values, other commands, eviction, persistence, TLS.
- The peers as their own projects would build them: these are binaries of a distribution and of
  packages; the allocator of each is in its version line.
";

/// The record as a page of Markdown; `name` is that of its files.
pub(super) fn markdown(run: &Run, name: &str) -> String {
    let mut text = format!(
        "\
# {name}

Written by `{command}`, which measures all of it again. The same with charts: [{name}.html]\
({name}.html); every report of the generator: [{name}.json]({name}.json).

## Goals

{goals}
{method}
",
        command = run.plan.command(),
        goals = goal::table(&run.goals()),
        method = method(run),
    );
    for (section, finding) in &run.findings {
        text += &part(section, finding);
    }
    text += &format!(
        "## Conditions\n\n{}\n## What this record does not show\n\n{NOT_SHOWN}",
        conditions(run)
    );
    text
}

fn method(run: &Run) -> String {
    let places = if run.cores.are_shared() {
        "A single server and the generator have a core each, where there are two; servers that \
         need several share all cores with the generator."
    } else {
        "Servers and generator have cores of their own."
    };
    format!(
        "\
A ratio is the median of the ratios of {rounds} interleaved rounds, so it may differ from that of
the medians beside it; where rounds are far apart, trust neither. In each round another server goes
first. {places} The load averages were {before} before and {after} after.
",
        rounds = run.plan.rounds,
        before = run.loads_before,
        after = run.loads_after,
    )
}

fn part(section: &Section, finding: &Finding) -> String {
    let mut text = format!("## {}\n\n{}\n\n", section.title, finding.method);
    for table in &finding.tables {
        text += &format!("{}\n", table.medians());
        if table.figures.iter().any(|figure| figure.values.iter().any(|values| values.len() > 1)) {
            text += &format!(
                "Medians, in parentheses the smallest and the largest:\n\n{}\n",
                table.spreads()
            );
        }
    }
    if !finding.warnings.is_empty() {
        text += "The generator warned:\n\n";
        for (warning, times) in &finding.warnings {
            let _ = writeln!(text, "- {warning} ({times} x)");
        }
        text.push('\n');
    }
    if !finding.commands.is_empty() {
        text += &format!("```\n{}\n```\n\n", finding.commands.join("\n"));
    }
    text
}

fn conditions(run: &Run) -> String {
    let mut text = String::new();
    for (name, fact) in run.machine.facts() {
        let _ = writeln!(text, "- {name}: {fact}");
    }
    for one in &run.peers {
        let _ = writeln!(text, "- {}: {}", one.name, one.version);
    }
    let flags = peer::FLAGS.iter().map(|flag| if flag.is_empty() { "\"\"" } else { flag });
    let flags: Vec<_> = flags.collect();
    let _ = writeln!(text, "- every server: `{}`", flags.join(" "));
    text
}

/// What a newcomer asks for first: the rows of README's table, of which there are ten at most.
const HEADLINES: [&str; 10] = [
    "GET",
    "SET",
    "GET, pipelined by 30",
    "SET, pipelined by 30",
    "overhead per key, values of 64 bytes",
    "RSS added by connections",
    "ZADD",
    "element of a sorted set of a million",
    "MULTI, 10 SETs, EXEC",
    "message to 100 subscribers",
];

/// README's table and where it comes from.
pub(super) fn summary(run: &Run, name: &str) -> String {
    let figures: Vec<Figure> = run
        .findings
        .iter()
        .filter(|(section, _)| section.is_summed_up)
        .filter_map(|(_, finding)| finding.tables.first())
        .flat_map(|table| table.figures.iter().cloned())
        .filter(|figure| HEADLINES.contains(&figure.name.as_str()))
        .collect();
    let names = run.peers.iter().map(|one| one.name.to_owned()).collect();
    let several = run.findings.iter().find(|(section, _)| section.name == SEVERAL);
    let several = several.and_then(|(_, finding)| finding.tables.first());
    let met = run.goals().iter().filter(|goal| goal.is_met() == Some(true)).count();
    format!(
        "\
{table}
Less is better in every row. Ours has one worker there, each peer one process, servers on one core
and `apus bench` on another. The ratios of server CPU where all have as many cores, shared
with the generator:

{several}
Measured on {date} over {rounds} interleaved rounds, load average {load} at the start. Our build is
{build}. {met} of its {goals} goals are met; latencies, throughput, spread, and what it
does not show are in [the record](bench/records/{name}.md). `{command}` measures it again.
",
        table = Table { names, figures }.medians(),
        several = several.map(Table::ratios).unwrap_or_default(),
        date = run.machine.date,
        build = run.machine.build,
        rounds = run.plan.rounds,
        load = run.loads_before.split(' ').next().unwrap_or_default(),
        goals = run.goals().len(),
        command = run.plan.command(),
    )
}

/// Everything that was read, for other programs: a line for each report.
pub(super) fn json(run: &Run) -> String {
    let facts: Vec<Value> =
        run.machine.facts().iter().map(|(name, text)| json!([name, text])).collect();
    let peers: Vec<Value> =
        run.peers.iter().map(|one| json!({"name": one.name, "version": one.version})).collect();
    let sections = run.findings.iter().map(|(section, finding)| described(section, finding));
    let head = [
        ("command", json!(run.plan.command())),
        ("facts", json!(facts)),
        ("load_averages", json!({"before": run.loads_before, "after": run.loads_after})),
        ("flags", json!(peer::FLAGS)),
        ("contenders", json!(peers)),
        ("sections", json!(sections.collect::<Vec<_>>())),
    ];
    let mut text = "{\n".to_owned();
    for (name, value) in head {
        let _ = writeln!(text, "\"{name}\": {value},");
    }
    let runs = run.findings.iter().flat_map(|(section, finding)| {
        finding.runs.iter().map(|report| json!([section.name, report]).to_string())
    });
    let runs: Vec<String> = runs.collect();
    let _ = writeln!(text, "\"runs\": [\n{}\n]\n}}", runs.join(",\n"));
    text
}

fn described(section: &Section, finding: &Finding) -> Value {
    let figure = |one: &Figure| json!({"name": one.name, "unit": one.unit, "values": one.values});
    let tables = finding.tables.iter().map(|table| {
        let figures: Vec<Value> = table.figures.iter().map(figure).collect();
        json!({"order": table.names, "figures": figures})
    });
    let goals = finding.goals.iter().map(|goal| {
        let [what, wanted, _, _] = goal.cells();
        json!({"what": what, "wanted": wanted, "value": goal.value, "met": goal.is_met()})
    });
    json!({
        "name": section.name,
        "title": section.title,
        "tables": tables.collect::<Vec<_>>(),
        "goals": goals.collect::<Vec<_>>(),
        "warnings": finding.warnings,
        "commands": finding.commands,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::super::build::Build;
    use super::super::cores::Cores;
    use super::super::figure::{Figure, Table};
    use super::super::goal::{Bound, Goal};
    use super::super::machine::Machine;
    use super::super::peer::{OURS, Peer, REDIS_70};
    use super::super::plan::Plan;
    use super::super::sections::{ALL, Finding};
    use super::{Run, markdown, summary};

    /// A run that found one figure and missed one goal in each of two sections.
    pub(in super::super) fn run() -> Run {
        let finding = || {
            let names = [OURS, REDIS_70].map(str::to_owned).to_vec();
            let values = vec![vec![1.0, 1.5, 1.25], vec![2.0, 3.0, 2.5]];
            let figure = Figure { name: "GET".to_owned(), unit: "us", values };
            Finding {
                method: "As it is done.".to_owned(),
                tables: vec![Table { names, figures: vec![figure] }],
                goals: vec![Goal::new("GET <fast>", Bound::AtMost(0.45), Some(0.5))],
                commands: vec!["apus bench -p PORT".to_owned()],
                warnings: vec![("Apus, GET: the generator was the limit".to_owned(), 3)],
                runs: vec![json!({"round": 1}), json!({"round": 2})],
            }
        };
        let peer =
            |name| Peer { name, version: format!("{name} v=1"), program: "/bin/true".into() };
        Run {
            plan: Plan::parse(&[]).expect("a plan"),
            peers: [OURS, REDIS_70].map(peer).into(),
            cores: Cores::read().expect("this process has cores"),
            machine: Machine::read(Build::Plain).expect("this is a machine"),
            loads_before: "0.10 0.20 0.30".to_owned(),
            loads_after: "0.40 0.50 0.60".to_owned(),
            findings: ALL[..2].iter().map(|section| (section, finding())).collect(),
        }
    }

    #[test]
    fn a_record_has_goals_figures_warnings_commands_and_conditions() {
        let text = markdown(&run(), "2026-01-01-test");
        for part in [
            "# 2026-01-01-test",
            "| GET <fast> | <= 0.45 | 0.50 | missed by 11% |",
            "| GET, us | 1.25 | 2.50 | 0.50 |",
            "| GET, us | 1.25 (1.00 to 1.50) | 2.50 (2.00 to 3.00) |",
            "- Apus, GET: the generator was the limit (3 x)",
            "apus bench -p PORT",
            "- build of Apus: the plain one, `cargo build --release`",
            "- kernel: Linux",
            "--appendonly no",
            "Redis 7.0 v=1",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn readme_never_quotes_one_process_alone() {
        let text = summary(&run(), "2026-01-01-test");
        assert_eq!(text.matches("| GET, us | 1.25 | 2.50 | 0.50 |").count(), 1, "{text}");
        assert!(text.contains("- Apus / Redis 7.0: GET 0.50\n"), "{text}");
        assert!(text.contains("0 of its 2 goals are met"), "{text}");
        assert!(text.contains("Our build is\nthe plain one"), "{text}");
        assert!(text.contains("(bench/records/2026-01-01-test.md)"));
    }

    #[test]
    fn the_raw_numbers_are_json_with_every_report() {
        let raw: Value = serde_json::from_str(&super::json(&run())).expect("it is JSON");
        assert_eq!(raw["runs"].as_array().map(Vec::len), Some(4));
        assert_eq!(raw["runs"][3][1]["round"], 2);
        assert_eq!(raw["sections"][0]["goals"][0]["met"], false);
        assert_eq!(raw["sections"][1]["tables"][0]["figures"][0]["values"][1][1], 3.0);
    }
}
