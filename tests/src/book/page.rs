//! A page of the book as its fenced blocks.
//!
//! Invariant: there is no block of a kind that nobody tries; a page that opens one is refused.

use std::path::PathBuf;

use crate::environment;

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence in the page.
    pub line: usize,
    /// What is done with it.
    pub kind: Kind,
    /// The file that its fence names.
    named: Option<String>,
    /// What stands between its fences.
    pub text: String,
}

/// What is done with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lines that begin with `$ ` are run, what is below them is what they print.
    Console,
    /// As `Console`, but what it needs is on no machine of the tests: only the shell reads it.
    Elsewhere,
    /// A server, or a Sentinel, is started with it.
    Conf,
    /// A file that another block names.
    File,
    /// A program.
    Python,
    /// A program.
    JavaScript,
    /// Words to look at.
    Text,
}

/// A command and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// What is typed.
    pub command: String,
    /// What is printed: `...` stands for anything, alone for any lines. Without a line nothing is
    /// asked but that the command ends well.
    pub expected: Vec<String>,
}

/// The folder of the book's pages.
pub fn folder() -> PathBuf {
    environment::repository().join("docs/book/src")
}

/// The blocks of a page.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let (kind, named) =
                    kind(info).unwrap_or_else(|| panic!("line {}: {line}", index + 1));
                open = Some(Block { line: index + 1, kind, named, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block never ends: {open:?}");
    blocks
}

/// The kind of a block by what stands behind its fence, and the file that is named there.
fn kind(info: &str) -> Option<(Kind, Option<String>)> {
    if let Some(file) = info.strip_prefix("acl,") {
        return Some((Kind::File, Some(file.to_owned())));
    }
    let kind = match info {
        "console" => Kind::Console,
        "console,elsewhere" => Kind::Elsewhere,
        "conf" => Kind::Conf,
        "python" => Kind::Python,
        "javascript" => Kind::JavaScript,
        "text" => Kind::Text,
        _ => return None,
    };
    Some((kind, None))
}

impl Block {
    /// The commands of a console, each with what it prints. A line that ends in a backslash goes on
    /// in the next one.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let begins = line.strip_prefix("$ ");
            match (begins, steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), expected: Vec::new() });
                }
                (None, Some(step)) if goes_on => step.command += &format!("\n{line}"),
                (None, Some(step)) => step.expected.push(line.trim_end().to_owned()),
                (None, None) => panic!("line {}: a console begins with `$ `", self.line),
            }
            goes_on = (begins.is_some() || goes_on) && line.ends_with('\\');
        }
        steps
    }

    /// The file that it is: its fence names that, or a comment in its first line.
    pub fn file(&self) -> Option<&str> {
        if self.named.is_some() {
            return self.named.as_deref();
        }
        let path = self.text.lines().next()?.strip_prefix("# ")?;
        let is_path = path.starts_with('/') || path.ends_with(".py") || path.ends_with(".conf");
        (is_path && !path.contains(' ')).then_some(path)
    }
}

impl Step {
    /// Whether this is what it is to print.
    pub fn is_met_by(&self, output: &str) -> bool {
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        let expected: Vec<&str> = self.expected.iter().map(String::as_str).collect();
        match_lines(&expected, &lines)
    }
}

fn match_lines(expected: &[&str], lines: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, first) => first.is_none(),
        (Some((&"...", rest)), first) => {
            match_lines(rest, lines)
                || first.is_some_and(|(_, behind)| match_lines(expected, behind))
        }
        (Some(_), None) => false,
        (Some((wanted, rest)), Some((line, behind))) => {
            match_line(wanted, line) && match_lines(rest, behind)
        }
    }
}

/// Whether a line has the parts between the `...` of another, in their order.
fn match_line(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split("...").collect();
    let [first, middle @ .., last] = &parts[..] else { return wanted == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Step, blocks};

    fn step(command: &str, expected: &[&str]) -> Step {
        let expected = expected.iter().map(|line| (*line).to_owned()).collect();
        Step { command: command.to_owned(), expected }
    }

    #[test]
    fn a_page_is_cut_into_blocks_and_steps() {
        let page = "a\n```console\n$ one \\\n  two\nx\n$ three\n```\n```conf\n# /etc/a.conf\n```\n";
        let found = blocks(page);
        let kinds: Vec<_> = found.iter().map(|block| (block.line, block.kind)).collect();
        assert_eq!(kinds, [(2, Kind::Console), (8, Kind::Conf)]);
        assert_eq!(found[0].steps(), [step("one \\\n  two", &["x"]), step("three", &[])]);
        assert_eq!(found[1].file(), Some("/etc/a.conf"));
    }

    #[test]
    fn dots_stand_for_anything() {
        let wanted = step("", &["a ... c", "...", "end"]);
        assert!(wanted.is_met_by("a b c\nend\n"));
        assert!(wanted.is_met_by("a  c\nx\ny\nend"));
        assert!(!wanted.is_met_by("a b\nend"));
        assert!(!wanted.is_met_by("a b c\nend\nmore"));
        assert!(!step("", &["a"]).is_met_by("ab"));
    }

    #[test]
    #[should_panic(expected = "line 1")]
    fn a_block_of_another_kind_is_refused() {
        blocks("```sh\nrm x\n```\n");
    }
}
