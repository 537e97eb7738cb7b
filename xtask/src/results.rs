//! What each test came to, as the programs of the tests tell it line by line; kept in the test
//! environment for the pages that are generated.
//!
//! Invariant: a test that was not begun is not there, and one that any program failed has failed
//! until it is run again.

use std::collections::BTreeMap;
use std::path::Path;

/// Where they are kept.
const FILE: &str = "results";

/// So many lines are kept of what a test that failed printed, each cut off behind so many bytes.
const LINES_MOST: usize = 12;
const LINE_MOST: usize = 400;

/// Tests as the test harness calls them, and whether they passed.
#[derive(Debug, Default)]
pub(crate) struct Results {
    tests: BTreeMap<String, bool>,
    is_in_failures: bool,
    /// What the tests that failed printed, and whose output is being read.
    outputs: BTreeMap<String, Vec<String>>,
    reading: Option<String>,
}

impl Results {
    /// What is kept; nothing if nothing is.
    pub(crate) fn read(environment: &Path) -> Self {
        Self::of(&std::fs::read_to_string(environment.join(FILE)).unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let tests = text.lines().filter_map(|line| line.split_once(' '));
        let tests = tests.map(|(passed, name)| (name.to_owned(), passed == "passed"));
        Self { tests: tests.collect(), ..Self::default() }
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

    /// What the tests that failed printed first: each by its name, then some lines.
    pub(crate) fn failures(&self) -> String {
        let mut text = String::new();
        for name in self.failed() {
            text += &format!("---- {name}\n");
            self.outputs.get(name).into_iter().flatten().for_each(|line| {
                text += line;
                text.push('\n');
            });
        }
        text
    }

    /// Takes in a line of what a test that failed printed; whether it is one.
    fn hear_output(&mut self, line: &str) -> bool {
        let begun = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = begun {
            self.outputs.insert(name.to_owned(), Vec::new());
            self.reading = Some(name.to_owned());
            return true;
        }
        if line == "failures:" {
            self.reading = None;
        }
        let Some(name) = &self.reading else { return false };
        let lines = self.outputs.entry(name.clone()).or_default();
        if lines.len() < LINES_MOST && !line.is_empty() {
            lines.push(line[..line.floor_char_boundary(LINE_MOST)].to_owned());
        }
        true
    }

    /// Takes in what a program of tests printed. What a test prints past the harness may stand
    /// between its name and its result, so that has failed which is among the failures in the end.
    pub(crate) fn hear(&mut self, line: &str) {
        if self.hear_output(line) {
            return;
        }
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
        assert_eq!(results.failures(), "---- e\n    text\n");
        assert_eq!(Results::of(&results.text()).tests, results.tests);
    }
}
