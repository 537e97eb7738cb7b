//! What a second thread brings without sockets: the ratios of the example `scaling` of the crate
//! `commands`.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::{Bench, Finding};
use crate::shell;

const ARGUMENTS: [&str; 6] = ["run", "--release", "--package", "commands", "--example", "scaling"];

pub(super) fn measure(_: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let text = shell::output(&mut shell::cargo(&ARGUMENTS))?;
    let names = ["two threads", "one thread"].map(str::to_owned).to_vec();
    let mut figures = Vec::new();
    for (name, least) in [("GET", 1.85), ("SET", 1.85), ("EVALSHA", 1.7)] {
        let line = parse(&text, name).ok_or_else(|| format!("the example says {text:?}"))?;
        let mut figure = Figure::new(name, "requests/s", 2);
        figure.values = vec![vec![line.two], vec![line.one]];
        figures.push(figure);
        let what = format!("two threads against one, {name}");
        finding.goals.push(Goal::new(what, Bound::AtLeast(least), Some(line.ratio)));
    }
    finding.tables.push(Table { names, figures });
    finding.remember(&format!("cargo {}", ARGUMENTS.join(" ")));
    "One keyspace, uniform keys, medians of 7 rounds of its own; no sockets and no parsing. \
     EVALSHA is a script that calls GET, in an interpreter of each thread."
        .clone_into(&mut finding.method);
    Ok(())
}

/// Requests per second of one thread and of two, and the median of their ratios.
#[derive(Debug, PartialEq)]
struct Line {
    one: f64,
    two: f64,
    ratio: f64,
}

/// A line such as `GET: 100/s with one thread, 190/s with two: 1.90 x`.
fn parse(text: &str, name: &str) -> Option<Line> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
    let (one, rest) = line.split_once("/s with one thread, ")?;
    let (two, ratio) = rest.split_once("/s with two: ")?;
    let ratio = ratio.strip_suffix(" x")?;
    Some(Line { one: one.parse().ok()?, two: two.parse().ok()?, ratio: ratio.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{Line, parse};

    #[test]
    fn the_examples_lines_are_read() {
        let text = "GET: 100/s with one thread, 190/s with two: 1.91 x\nSET: x\n";
        assert_eq!(parse(text, "GET"), Some(Line { one: 100.0, two: 190.0, ratio: 1.91 }));
        assert_eq!(parse(text, "SET"), None);
        assert_eq!(parse(text, "INCR"), None);
    }
}
