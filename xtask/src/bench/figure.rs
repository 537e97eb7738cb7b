//! Measured quantities, their medians and ratios, and the text they become. Invariant: the first
//! peer is ours; a ratio pairs values of one round, so that what disturbs a round cancels.

use std::fmt::Write;

/// One quantity: for each peer its values, in order of rounds.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<Vec<f64>>,
}

/// Figures of the same peers.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) names: Vec<String>,
    pub(super) figures: Vec<Figure>,
}

impl Figure {
    /// Without values yet.
    pub(super) fn new(name: impl Into<String>, unit: &'static str, peers: usize) -> Self {
        Self { name: name.into(), unit, values: vec![Vec::new(); peers] }
    }

    /// As a table or a chart calls it.
    pub(super) fn title(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }

    /// The median of one peer.
    pub(super) fn median(&self, peer: usize) -> f64 {
        median(&self.values[peer])
    }

    /// The median of one peer, with its smallest and largest value if they differ.
    fn spread(&self, peer: usize) -> String {
        let values = &self.values[peer];
        let least = number(values.iter().copied().fold(f64::INFINITY, f64::min));
        let most = number(values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let middle = number(median(values));
        if least == most { middle } else { format!("{middle} ({least} to {most})") }
    }

    /// The median of our values over those of a peer in the same round; none over zero.
    pub(super) fn ratio(&self, peer: usize) -> Option<f64> {
        let pairs = self.values[0].iter().zip(&self.values[peer]);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        let ratio = median(&ratios);
        ratio.is_finite().then_some(ratio)
    }
}

impl Table {
    /// Medians of all peers, and ratios of the first to each of the others.
    pub(super) fn medians(&self) -> String {
        let names = &self.names;
        let mut head = vec![String::new()];
        head.extend(names.iter().cloned());
        head.extend(names[1..].iter().map(|name| format!("{} / {name}", names[0])));
        let rows = self.figures.iter().map(|figure| {
            let mut row = vec![figure.title()];
            row.extend((0..names.len()).map(|peer| number(figure.median(peer))));
            row.extend((1..names.len()).map(|peer| {
                let ratio = figure.ratio(peer);
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            }));
            row
        });
        markdown(&head, rows)
    }

    /// The ratios of the first peer to each of the others, a line each.
    pub(super) fn ratios(&self) -> String {
        let peers = self.names.iter().enumerate().skip(1).map(|(index, peer)| {
            let ratio_of = |figure: &Figure| {
                let ratio = figure.ratio(index)?;
                Some(format!("{} {ratio:.2}", figure.name))
            };
            let ratios: Vec<String> = self.figures.iter().filter_map(ratio_of).collect();
            format!("- {} / {peer}: {}\n", self.names[0], ratios.join("; "))
        });
        peers.collect()
    }

    /// Medians of all peers, each with its smallest and its largest value.
    pub(super) fn spreads(&self) -> String {
        let head: Vec<String> =
            std::iter::once(String::new()).chain(self.names.iter().cloned()).collect();
        let rows = self.figures.iter().map(|figure| {
            let spreads = (0..self.names.len()).map(|peer| figure.spread(peer));
            std::iter::once(figure.title()).chain(spreads).collect()
        });
        markdown(&head, rows)
    }

    /// The median ratio of the first peer to the one of this name, in the figure of this name.
    pub(super) fn ratio(&self, figure: &str, peer: &str) -> Option<f64> {
        let peer = self.names.iter().position(|name| name == peer)?;
        self.figures.iter().find(|one| one.name == figure)?.ratio(peer)
    }

    /// The ratio of the first peer to the best of the others in one of the table's figures.
    pub(super) fn best(&self, figure: &Figure) -> Option<f64> {
        (1..self.names.len()).filter_map(|peer| figure.ratio(peer)).max_by(f64::total_cmp)
    }
}

/// A table of Markdown: texts to the left, numbers to the right.
pub(super) fn markdown(head: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = line(head);
    writeln!(text, "|---|{}", "--:|".repeat(head.len() - 1)).expect("a String takes any text");
    for row in rows {
        text += &line(&row);
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The middle value; of an even number of values the mean of the middle two; of none no number.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// About three significant digits: more would promise what was not measured.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The text with what stands between the two markers replaced; none without the markers.
pub(super) fn replace_between(text: &str, markers: (&str, &str), new: &str) -> Option<String> {
    let start = text.find(markers.0)? + markers.0.len();
    let end = start + text[start..].find(markers.1)?;
    Some(format!("{}{new}{}", &text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::{Figure, Table, median, number, replace_between};

    fn figure(values: &[&[f64]]) -> Figure {
        let values = values.iter().map(|values| values.to_vec()).collect();
        Figure { name: "CPU".to_owned(), unit: "us", values }
    }

    #[test]
    fn the_median_is_the_middle() {
        for (values, middle) in
            [(&[3.0][..], 3.0), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 9.0, 2.0], 3.0)]
        {
            assert_eq!(median(values).to_bits(), f64::to_bits(middle), "{values:?}");
        }
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_ratio_pairs_the_values_of_a_round() {
        // The second round ran at half the speed for everyone.
        let disturbed = figure(&[&[1.0, 2.0, 1.0], &[2.0, 4.0, 2.2]]);
        assert_eq!(disturbed.ratio(1), Some(0.5));
        assert_eq!(figure(&[&[0.0], &[0.0]]).ratio(1), None);
        assert_eq!(figure(&[&[1.0], &[0.0]]).ratio(1), None);
    }

    #[test]
    fn numbers_keep_about_three_digits() {
        for (value, text) in
            [(0.463, "0.46"), (9.87, "9.87"), (42.04, "42.0"), (4312.6, "4313"), (-0.7, "-0.70")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_spread_says_how_far_the_rounds_were_apart() {
        let figure = figure(&[&[1.0, 3.0, 2.0], &[5.0]]);
        assert_eq!(figure.spread(0), "2.00 (1.00 to 3.00)");
        assert_eq!(figure.spread(1), "5.00");
    }

    #[test]
    fn a_table_has_medians_then_ratios() {
        let names = ["Apus", "B", "C"].map(str::to_owned).to_vec();
        let table = Table { names, figures: vec![figure(&[&[1.0], &[2.0], &[0.0]])] };
        let text = table.medians();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "|  | Apus | B | C | Apus / B | Apus / C |",
                "|---|--:|--:|--:|--:|--:|",
                "| CPU, us | 1.00 | 2.00 | 0.00 | 0.50 | - |",
            ]
        );
        assert!(table.spreads().contains("| CPU, us | 1.00 | 2.00 | 0.00 |"));
        assert_eq!((table.ratio("CPU", "B"), table.ratio("CPU", "D")), (Some(0.5), None));
    }

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let text = "a <b>\nold\n<e>\n z <e>\n";
        let new = replace_between(text, ("<b>\n", "<e>\n"), "new\n");
        assert_eq!(new.as_deref(), Some("a <b>\nnew\n<e>\n z <e>\n"));
        let again = replace_between(&new.unwrap(), ("<b>\n", "<e>\n"), "new\n");
        assert_eq!(again.as_deref(), Some("a <b>\nnew\n<e>\n z <e>\n"));
        assert_eq!(replace_between("<e>\n<b>\n", ("<b>\n", "<e>\n"), ""), None);
        assert_eq!(replace_between("none", ("<b>\n", "<e>\n"), ""), None);
    }
}
