//! How many tests passed and failed. Invariant: a count is only ever read from what a suite
//! reported.

use std::fmt;
use std::ops::AddAssign;

/// The outcome of one suite or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Count {
    /// Reads the line a Rust test executable ends with: `test result: ok. 5 passed; 0 failed; ..`.
    pub(crate) fn of_rust(line: &str) -> Option<Self> {
        let result = line.trim_start().strip_prefix("test result: ")?;
        let counts = result.split_once(". ")?.1;
        Some(Self { passed: number(counts, " passed")?, failed: number(counts, " failed")? })
    }

    /// Reads the line a client's suite ends with: `5 passed, 0 failed`.
    pub(crate) fn of_client(line: &str) -> Option<Self> {
        Some(Self { passed: number(line, " passed")?, failed: number(line, " failed")? })
    }

    /// An error when anything failed, or when nothing was there to pass.
    pub(crate) fn verdict(self) -> Result<(), String> {
        println!("{self}");
        if self.failed == 0 && self.passed > 0 { Ok(()) } else { Err("tests failed".to_owned()) }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The number right before `label`.
fn number(text: &str, label: &str) -> Option<u64> {
    let before = &text[..text.find(label)?];
    let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    before[start..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn reads_both_forms() {
        let line = "test result: FAILED. 5 passed; 12 failed; 0 ignored; finished in 0.00s";
        assert_eq!(Count::of_rust(line), Some(Count { passed: 5, failed: 12 }));
        assert_eq!(Count::of_client("7 passed, 1 failed"), Some(Count { passed: 7, failed: 1 }));
        assert_eq!(Count::of_rust("test a ... ok"), None);
        assert_eq!(Count::of_client("passed"), None);
    }
}
