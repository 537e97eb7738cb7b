//! The rules over the project's documents: sentences are read as comments are, and a page of
//! decisions is short.
//!
//! Invariant: what is shown as code is no sentence, and a page that is made from the code is held
//! where it is made.

use super::text::{no_subject, pronoun};
use crate::shell;

/// What is made by `cargo xtask docs`, or keeps what was once measured.
const LEFT_OUT: [&str; 9] = [
    "COMPATIBILITY.md",
    "bench/records/",
    "docs/book/src/commands/",
    "docs/book/src/configure/directives.md",
    "docs/book/src/design.md",
    "docs/limits.md",
    "docs/metrics.md",
    "docs/proof/hostile.md",
    "vendor/",
];

/// Where the pages are that say what is so and why; what was once measured is in a record.
const DECISIONS: &str = "docs/decisions/";
/// Lines of a page of decisions, at most.
const PAGE_LINES: usize = 120;
/// Letters of a row in a table of decisions, at most: a goal, a figure, one sentence.
const ROW_LETTERS: usize = 600;

/// Checks every document that is tracked or could be.
pub(super) fn check() -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"];
    let list = shell::output(&mut shell::command("git", &arguments))?;
    let mut problems = Vec::new();
    for path in list.lines().filter(|path| !LEFT_OUT.iter().any(|place| path.starts_with(place))) {
        let Ok(text) = std::fs::read_to_string(shell::root().join(path)) else { continue };
        let found = subjects(&text).into_iter();
        problems.extend(found.map(|(line, message)| format!("{path}:{line}: subject: {message}")));
        if path.starts_with(DECISIONS) {
            let found = lengths(&text).into_iter();
            problems.extend(found.map(|(line, what)| format!("{path}:{line}: page: {what}")));
        }
    }
    Ok(problems)
}

/// The line with which a page of decisions becomes too long, and rows that are.
fn lengths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if index == PAGE_LINES {
            found.push((index + 1, format!("a page of decisions has at most {PAGE_LINES} lines")));
        }
        if line.starts_with('|') && line.chars().count() > ROW_LETTERS {
            found.push((index + 1, format!("a row has at most {ROW_LETTERS} letters")));
        }
    }
    found
}

/// The lines in which a sentence begins with a pronoun.
fn subjects(text: &str) -> Vec<(usize, String)> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words = line.trim_start_matches([' ', '-', '|', '>']);
        if words.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && let Some(word) = pronoun(words) {
            found.push((index + 1, no_subject(word)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{PAGE_LINES, ROW_LETTERS, lengths, subjects};

    #[test]
    fn a_page_of_decisions_is_short() {
        let page = |lines: usize| "a line\n".repeat(lines);
        assert!(lengths(&page(PAGE_LINES)).is_empty());
        assert_eq!(lengths(&page(PAGE_LINES + 9))[0].0, PAGE_LINES + 1);
        let row = |letters: usize| format!("|{}", "x".repeat(letters - 1));
        assert!(lengths(&row(ROW_LETTERS)).is_empty());
        assert_eq!(lengths(&format!("a line\n{}", row(ROW_LETTERS + 1)))[0].0, 2);
    }

    #[test]
    fn each_sentence_has_a_subject() {
        let lines = [
            "It is over.",
            "- Nobody waits.",
            "A gate looks. It changes nothing.",
            "| a room | Who knows |",
            "What they are is known: it is told.",
            "```",
            "It is a reply",
            "```",
            "A lock is held. They wait.",
        ];
        let broken: Vec<usize> =
            subjects(&lines.join("\n")).iter().map(|(line, _)| *line).collect();
        assert_eq!(broken, [1, 2, 3, 9]);
    }
}
