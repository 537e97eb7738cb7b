//! What each test came to, as the programs of the tests tell it line by line; kept in the test
//! environment for the pages that are generated.
//!
//! Invariant: a test that was not begun is not there, and one that any program failed has failed
//! until it is run again.

use std::collections::BTreeMap;
use std::path::Path;

/// Where they are kept.
const FILE: &str = "results";

/// Tests as the test harness calls them, and whether they passed.
#[derive(Debug, Default)]
pub(crate) struct Results {
    tests: BTreeMap<String, bool>,
    is_in_failures: bool,
}

impl Results {
    /// What is kept; nothing if nothing is.
    pub(crate) fn read(environment: &Path) -> Self {
        Self::of(&std::fs::read_to_string(environment.join(FILE)).unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let tests = text.lines().filter_map(|line| line.split_once(' '));
        let tests = tests.map(|(passed, name)| (name.to_owned(), passed == "passed"));
        Self { tests: tests.collect(), is_in_failures: false }
    }

    /// Keeps them.
    pub(crate) fn write(&self, environment: &Path) -> Result<(), String> {
        let file = environment.join(FILE);
        std::fs::write(&file, self.text()).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn text(&self) -> String {
        let word = |passed: bool| if passed { "passed" } else { "failed" };
        let lines = self.tests.iter().map(|(name, passed)| format!("{} {name}\n", word(*passed)));
        lines.collect()
    }

    /// Whether a test passed, if it was run.
    pub(crate) fn passed(&self, test: &str) -> Option<bool> {
        self.tests.get(test).copied()
    }

    /// The tests that failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(|(_, passed)| !**passed).map(|(name, _)| &**name)
    }

    /// Takes in what a program of tests printed. What a test prints past the harness may stand
    /// between its name and its result, so that has failed which is among the failures in the end.
    pub(crate) fn hear(&mut self, line: &str) {
        let begun = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        if let Some((name, result)) = begun {
            let name = name.trim_end_matches(" - should panic");
            self.tests.insert(name.to_owned(), !result.ends_with("FAILED"));
            self.is_in_failures = false;
        } else if line == "failures:" {
            self.is_in_failures = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| self.is_in_failures)
            && let Some(passed) = self.tests.get_mut(name)
        {
            *passed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Results;

    #[test]
    fn what_programs_print_is_read() {
        let mut results = Results::default();
        let lines = "running 4 tests\ntest a::b ... ok\ntest c - should panic ... ok\n\
                     test d ... 17:M * a line of a log\nok\ntest e ... 17:M * another\nFAILED\n\n\
                     failures:\n\n---- e stdout ----\n    text\n\nfailures:\n    e\n";
        lines.lines().for_each(|line| results.hear(line));
        let passed = ["a::b", "c", "d", "e", "f"].map(|test| results.passed(test));
        assert_eq!(passed, [Some(true), Some(true), Some(true), Some(false), None]);
        assert_eq!(results.failed().collect::<Vec<_>>(), ["e"]);
        assert_eq!(Results::of(&results.text()).tests, results.tests);
    }
}
