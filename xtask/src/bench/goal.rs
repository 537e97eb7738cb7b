//! What the project wants to reach, beside what was measured. Invariant: a goal without a value is
//! shown as one that was not measured, never left out.

use super::figure::{markdown, number};

/// A wanted bound of one quantity.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) bound: Bound,
    /// NaN where it could not be measured.
    pub(super) value: f64,
}

/// How a value must lie to its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

impl Goal {
    pub(super) fn new(what: impl Into<String>, bound: Bound, value: Option<f64>) -> Self {
        Self { what: what.into(), bound, value: value.unwrap_or(f64::NAN) }
    }

    /// Whether the goal is met; none without a value.
    pub(super) fn is_met(&self) -> Option<bool> {
        let met = match self.bound {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
            Bound::Below(bound) => self.value < bound,
        };
        (!self.value.is_nan()).then_some(met)
    }

    /// What, goal, value, and whether it is met; if not, by how much.
    pub(super) fn cells(&self) -> [String; 4] {
        let (sign, bound) = match self.bound {
            Bound::AtMost(bound) => ("<=", bound),
            Bound::AtLeast(bound) => (">=", bound),
            Bound::Below(bound) => ("<", bound),
        };
        let verdict = match self.is_met() {
            None => "not measured".to_owned(),
            Some(true) => "met".to_owned(),
            Some(false) if bound == 0.0 => "missed".to_owned(),
            Some(false) => {
                let off = (self.value / bound - 1.0) * 100.0;
                format!("missed by {:.0}%", off.abs())
            }
        };
        let value = if self.value.is_nan() { "-".to_owned() } else { number(self.value) };
        [self.what.clone(), format!("{sign} {bound}"), value, verdict]
    }
}

/// The head of a table of goals.
pub(super) const HEADS: [&str; 4] = ["goal", "wanted", "measured", ""];

/// All goals as a table.
pub(super) fn table(goals: &[&Goal]) -> String {
    let rows = goals.iter().map(|goal| goal.cells().to_vec());
    markdown(&HEADS.map(str::to_owned), rows)
}

#[cfg(test)]
mod tests {
    use super::{Bound, Goal, table};

    #[test]
    fn a_goal_is_met_on_its_bound() {
        for (bound, value, met) in [
            (Bound::AtMost(0.45), Some(0.45), Some(true)),
            (Bound::AtMost(0.45), Some(0.46), Some(false)),
            (Bound::AtLeast(1.85), Some(1.85), Some(true)),
            (Bound::AtLeast(1.85), Some(1.8), Some(false)),
            (Bound::Below(1.0), Some(1.0), Some(false)),
            (Bound::AtMost(1.0), None, None),
        ] {
            assert_eq!(Goal::new("x", bound, value).is_met(), met, "{bound:?} {value:?}");
        }
    }

    #[test]
    fn a_miss_says_by_how_much() {
        let missed = Goal::new("p99", Bound::AtMost(2.0), Some(2.5));
        let zero = Goal::new("iowait", Bound::AtMost(0.0), Some(1.0));
        let unknown = Goal::new("RSS", Bound::AtMost(9.0), None);
        assert_eq!(missed.cells(), ["p99", "<= 2", "2.50", "missed by 25%"]);
        assert_eq!(zero.cells()[3], "missed");
        let text = table(&[&missed, &unknown]);
        assert!(text.contains("| RSS | <= 9 | - | not measured |"), "{text}");
    }
}
