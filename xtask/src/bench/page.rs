//! The record as one self-contained page with charts. Invariant: its tables and charts are drawn
//! from the figures of the Markdown record.

use std::fmt::Write;

use bench::report::chart::{Axis, Bars, Scale, bars, escape};
use bench::report::html::shell;

use super::figure::Table;
use super::goal::HEADS;
use super::sections::Finding;
use super::{Run, machine::Machine};

/// The whole page.
pub(super) fn html(run: &Run) -> String {
    let names: Vec<&str> = run.peers.iter().map(|one| one.version.as_str()).collect();
    let mut body = format!(
        "<p class=\"about\">{} rounds &middot; {} &middot; <code>{}</code></p>\n",
        run.plan.rounds,
        escape(&names.join(" \u{b7} ")),
        escape(&run.plan.command()),
    );
    let goals = run.goals();
    let goals = goals.iter().map(|goal| goal.cells().to_vec());
    let _ = writeln!(body, "<h2>Goals</h2>\n{}", grid(&HEADS.map(str::to_owned), goals));
    for (section, finding) in &run.findings {
        let _ = writeln!(body, "<h2>{}</h2>\n{}", escape(section.title), part(finding));
    }
    let _ = writeln!(body, "<h2>Conditions</h2>\n{}", conditions(&run.machine));
    shell(&format!("Apus beside its peers, {}", run.machine.date), &body)
}

fn part(finding: &Finding) -> String {
    let mut text = format!("<p>{}</p>\n", escape(&finding.method));
    let warnings: Vec<String> = finding
        .warnings
        .iter()
        .map(|(warning, times)| format!("{} ({times} x)", escape(warning)))
        .collect();
    if !warnings.is_empty() {
        let _ = writeln!(text, "<p class=\"warning\">{}</p>", warnings.join("<br>\n"));
    }
    text.push_str("<div class=\"charts\">\n");
    for table in &finding.tables {
        for unit in units(table) {
            text.push_str(&chart(table, unit));
        }
    }
    text.push_str("</div>\n");
    text
}

fn units(table: &Table) -> Vec<&'static str> {
    let mut units: Vec<&'static str> = Vec::new();
    for figure in &table.figures {
        if !units.contains(&figure.unit) {
            units.push(figure.unit);
        }
    }
    units
}

/// The figures of one unit, a group of bars for each.
fn chart(table: &Table, unit: &str) -> String {
    let figures: Vec<_> = table.figures.iter().filter(|figure| figure.unit == unit).collect();
    let groups: Vec<String> = figures.iter().map(|figure| figure.name.clone()).collect();
    let series: Vec<Bars> = table
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| Bars {
            name: name.clone(),
            values: figures.iter().map(|figure| figure.median(index)).collect(),
        })
        .collect();
    bars(unit, Axis { label: unit, scale: Scale::Linear }, &groups, &series)
}

fn grid(heads: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |tag: &str, cells: &[String]| {
        let cells: String =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.map(|cells| row("td", &cells)).collect();
    format!("<div class=\"scroll\"><table>\n{}{rows}</table></div>", row("th", heads))
}

fn conditions(machine: &Machine) -> String {
    let pairs: String = machine
        .facts()
        .iter()
        .map(|(name, fact)| {
            format!("<div><span>{}</span><span>{}</span></div>\n", escape(name), escape(fact))
        })
        .collect();
    format!("<div class=\"pairs\">\n{pairs}</div>")
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::run;
    use super::html;

    #[test]
    fn a_page_has_charts_goals_and_nothing_from_elsewhere() {
        let page = html(&run());
        assert_eq!(page.matches("<svg").count(), 2, "a chart for the unit of each section");
        assert!(page.contains("<td>GET &lt;fast&gt;</td>") && page.contains("missed by 11%"));
        assert!(!page.contains("src=") && !page.contains("@import"));
    }
}
