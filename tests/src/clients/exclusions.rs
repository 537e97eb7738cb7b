//! What of a client's own suite is left out. Invariant: every exclusion has a reason, and the file
//! says how many tests must pass at least, so that nothing slips away unseen.

use std::path::{Path, PathBuf};

use crate::environment::repository;

/// A file of lines `pattern | reason`, and one line `at least N pass`.
pub(super) struct Exclusions {
    pub(super) path: PathBuf,
    pub(super) patterns: Vec<String>,
    /// How many tests passed when the file was last changed.
    floor: u64,
}

impl Exclusions {
    /// Reads a file below `tests/clients`.
    pub(super) fn read(file: &str) -> Self {
        let path = repository().join("tests/clients").join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut patterns = Vec::new();
        let mut floor = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(count) = count_of(line) {
                floor = Some(count);
                continue;
            }
            patterns.push(pattern_of(&path, line).to_owned());
        }
        let floor = floor.unwrap_or_else(|| panic!("{}: `at least N pass`?", path.display()));
        Self { path, patterns, floor }
    }

    /// Fails when fewer tests passed than once did.
    pub(super) fn hold(&self, passed: u64) {
        let (path, floor) = (self.path.display(), self.floor);
        assert!(passed >= floor, "{passed} tests passed, and {path} promises {floor}");
    }
}

/// The number of the line `at least N pass`.
fn count_of(line: &str) -> Option<u64> {
    line.strip_prefix("at least ")?.strip_suffix(" pass")?.parse().ok()
}

fn pattern_of<'a>(path: &Path, line: &'a str) -> &'a str {
    let parts = line.split_once(" | ").map(|(pattern, reason)| (pattern.trim(), reason.trim()));
    match parts {
        Some((pattern, reason)) if !pattern.is_empty() && !reason.is_empty() => pattern,
        _ => panic!("{}: a pattern and a reason? {line}", path.display()),
    }
}
