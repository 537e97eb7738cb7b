//! `docs`: the pages that are generated. Invariant: with `--check` nothing is written, and a page
//! that differs from the committed one is named with its first differing line.

use std::fs;
use std::process::Command;

use crate::results::Results;
use crate::{book, environment, hostile, shell, suite, tidy};

/// The pages that the harness prints, each with the words that it is asked with.
const PAGES: [(&str, &[&str]); 15] = [
    ("COMPATIBILITY.md", &[]),
    ("docs/limits.md", &["limits"]),
    ("docs/metrics.md", &["metrics"]),
    ("docs/book/src/configure/directives.md", &["directives"]),
    ("docs/book/src/commands/README.md", &["commands"]),
    ("packaging/apus.conf", &["apus.conf"]),
    ("packaging/man/apus.1", &["man", "apus"]),
    ("packaging/man/apus-bench.1", &["man", "apus-bench"]),
    ("packaging/man/apus-check.1", &["man", "apus-check"]),
    ("packaging/man/apus-cli.1", &["man", "apus-cli"]),
    ("packaging/man/apus-ping.1", &["man", "apus-ping"]),
    ("packaging/man/apus.conf.5", &["man", "apus.conf"]),
    ("packaging/completions/apus.bash", &["completion", "bash"]),
    ("packaging/completions/_apus", &["completion", "zsh"]),
    ("packaging/completions/apus.fish", &["completion", "fish"]),
];

/// What to do with a page that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Check,
}

/// Regenerates the pages from the servers and the notes of the last full test run.
pub(crate) fn run(mode: Mode) -> Result<(), String> {
    for (name, page) in &book::derived()? {
        settle(name, page, mode)?;
    }
    let environment = environment::prepare()?;
    let results = Results::read(&environment);
    let page = hostile::page(&tidy::sources()?.0, &|test| results.passed(test));
    settle(hostile::PAGE, &page, mode)?;
    suite::build_server()?;
    suite::build_tests()?;
    let printed = |words: &[&str]| {
        let mut command = Command::new(shell::target().join(suite::PROFILE).join("compatibility"));
        suite::set_environment(command.args(words), &environment);
        shell::output(&mut command)
    };
    for (name, words) in PAGES {
        settle(name, &printed(words)?, mode)?;
    }
    for group in printed(&["groups"])?.lines() {
        let name = format!("docs/book/src/commands/{group}.md");
        settle(&name, &printed(&["commands", group])?, mode)?;
    }
    Ok(())
}

/// Writes a page, or compares it.
fn settle(name: &str, page: &str, mode: Mode) -> Result<(), String> {
    let file = shell::root().join(name);
    let present = fs::read_to_string(&file).unwrap_or_default();
    match (mode, first_difference(&present, page)) {
        (_, None) => Ok(()),
        (Mode::Write, Some(_)) => {
            fs::write(&file, page).map_err(|error| format!("{name}: {error}"))
        }
        (Mode::Check, Some(difference)) => Err(format!(
            "{name} is stale: run `cargo xtask docs` after a full test run\n{difference}"
        )),
    }
}

/// The first line in which two texts differ.
fn first_difference(present: &str, wanted: &str) -> Option<String> {
    if present == wanted {
        return None;
    }
    let mut lines = (present.lines(), wanted.lines());
    for number in 1.. {
        match (lines.0.next(), lines.1.next()) {
            (None, None) => break,
            (present, wanted) if present == wanted => {}
            (present, wanted) => {
                let [present, wanted] = [present, wanted].map(Option::unwrap_or_default);
                return Some(format!("line {number} is  {present}\nshould be {wanted}"));
            }
        }
    }
    Some("only the ends of lines differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn a_difference_is_placed() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let expected = "line 2 is  b\nshould be c".to_owned();
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(expected));
        assert_eq!(first_difference("", "a\n"), Some("line 1 is  \nshould be a".to_owned()));
        assert!(first_difference("a", "a\n").is_some());
    }
}
