//! How much of the machine's time its host gave to others, as the system tells.
//!
//! Invariant: where the system tells nothing, nothing was stolen.

/// The machine's time since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCpuTime {
    all: u64,
    stolen: u64,
}

/// Where the stolen time stands among the figures of the first line, and how many are time of its
/// own: guests' time is in that of users.
const STEAL: usize = 7;

impl MachineCpuTime {
    /// Up to now.
    #[must_use]
    pub fn now() -> Self {
        std::fs::read_to_string("/proc/stat").map_or(Self::default(), |text| Self::of(&text))
    }

    fn of(text: &str) -> Self {
        let line = text.lines().next().and_then(|line| line.strip_prefix("cpu "));
        let figures: Vec<u64> = line
            .unwrap_or_default()
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .take(STEAL + 1)
            .collect();
        Self { all: figures.iter().sum(), stolen: figures.get(STEAL).copied().unwrap_or(0) }
    }

    /// Which part of the time since an earlier one was stolen.
    #[must_use]
    pub fn stolen_percent(&self, before: &Self) -> u64 {
        let all = self.all.saturating_sub(before.all);
        self.stolen.saturating_sub(before.stolen) * 100 / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::MachineCpuTime;

    #[test]
    fn stolen_time_is_read_of_the_first_line() {
        let before = MachineCpuTime::of("cpu  100 0 50 800 10 0 0 40 7 0\ncpu0 1 2 3\n");
        assert_eq!(before, MachineCpuTime { all: 1000, stolen: 40 });
        let after = MachineCpuTime::of("cpu  130 0 60 830 10 0 0 70 7 0\n");
        assert_eq!(after.stolen_percent(&before), 30);
        for strange in ["", "cpu", "cpu  x y", "intr 5"] {
            assert_eq!(MachineCpuTime::of(strange), MachineCpuTime::default(), "{strange}");
        }
        assert_eq!(before.stolen_percent(&after), 0);
    }
}
