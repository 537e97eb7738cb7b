//! Sessions as text, the way one would see them in redis-cli:
//!
//! ```text
//! > SET greeting hello EX 10
//! OK
//! > GET greeting
//! "hello"
//! > LRANGE missing 0 -1
//! (empty array)
//! ```
//!
//! `> COMMAND` sends, quoted as in redis-cli; the lines below are the reply as redis-cli shows it.
//! A command with no lines below is sent and its reply left for later; `<` alone receives the next
//! reply or message. With [`play`], `alice> COMMAND` and `alice<` speak through a connection of
//! that name, so that blocking and watching read as they happen. A line `# text` is a comment,
//! blank lines are ignored, and the script's common indentation does not count.
//!
//! In place of a reply: `...` stands for any further lines, `~ PATTERN` for one line that matches
//! the glob pattern, `(silence)` for no reply within 50 ms, `(closed)` for a closed connection.
//!
//! Invariant: every expected line is compared, and every received reply is expected.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use base::glob;
use base::quote::split_arguments;

use crate::client::{Arrival, Client};
use crate::process::PATIENCE;
use crate::render::render;
use crate::server::Server;

const SILENCE: Duration = Duration::from_millis(50);

/// Runs a script on one connection.
#[track_caller]
pub fn check(client: &mut Client, script: &str) {
    run(client, script).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Runs a script whose connections are opened by their names.
#[track_caller]
pub fn play(server: &Server, script: &str) {
    let mut cast = Cast { server, clients: HashMap::new() };
    run(&mut cast, script).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Runs a script in RESP2 or RESP3 (`2`, `3`) on a server that is emptied for it.
#[track_caller]
pub fn afresh(server: &Server, protocol: &str, script: &str) {
    let mut client = if protocol == "3" { server.client3() } else { server.client() };
    check(&mut client, "> FLUSHALL\nOK\n");
    check(&mut client, script);
}

/// The clients that speak in a script.
trait Speakers {
    fn named(&mut self, name: &str) -> &mut Client;
}

impl Speakers for Client {
    fn named(&mut self, name: &str) -> &mut Client {
        assert!(name.is_empty(), "{name:?} needs `play`, which opens connections by name");
        self
    }
}

struct Cast<'server> {
    server: &'server Server,
    clients: HashMap<String, Client>,
}

impl Speakers for Cast<'_> {
    fn named(&mut self, name: &str) -> &mut Client {
        self.clients.entry(name.to_owned()).or_insert_with(|| self.server.client())
    }
}

/// One line that acts, and the lines expected of it.
struct Step<'script> {
    number: usize,
    line: &'script str,
    speaker: &'script str,
    /// The command to send; `None` when the line only receives.
    command: Option<&'script str>,
    expected: Vec<&'script str>,
}

/// Runs the steps; the error is the first difference, told with its place in the script.
fn run(speakers: &mut dyn Speakers, script: &str) -> Result<(), String> {
    for step in parse(script) {
        let client = speakers.named(step.speaker);
        if let Some(command) = step.command {
            let arguments = split_arguments(command.as_bytes());
            client.send(&arguments.unwrap_or_else(|| panic!("unbalanced quotes: {command}")));
        }
        if step.expected.is_empty() {
            assert!(step.command.is_some(), "line {}: `<` expects nothing", step.number);
            continue;
        }
        let patience = if step.expected == ["(silence)"] { SILENCE } else { PATIENCE };
        let actual = match client.arrival(patience) {
            Ok(Arrival::Reply(value)) => render(&value),
            Ok(Arrival::Silence) => "(silence)".to_owned(),
            Ok(Arrival::Closed) => "(closed)".to_owned(),
            Err(error) => format!("(closed: {error})"),
        };
        let actual: Vec<&str> = actual.lines().map(str::trim_end).collect();
        let actual: Vec<&str> = actual.into_iter().filter(|line| !line.is_empty()).collect();
        if !agree(&step.expected, &actual) {
            return Err(difference(&step, &actual));
        }
    }
    Ok(())
}

fn parse(script: &str) -> Vec<Step<'_>> {
    let lines = || script.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let indents = lines().map(|(_, line)| line.len() - line.trim_start().len());
    let indent = indents.min().unwrap_or(0);
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (index, line) in lines() {
        let number = index + 1;
        let line = line[indent..].trim_end();
        if line.starts_with("# ") {
            continue;
        }
        if let Some((speaker, command)) = action(line) {
            steps.push(Step { number, line, speaker, command, expected: Vec::new() });
        } else {
            let step = steps.last_mut();
            step.unwrap_or_else(|| panic!("line {number} replies to nothing")).expected.push(line);
        }
    }
    steps
}

/// The speaker and the command of a line that acts: `> PING`, `alice> PING`, `<`, `alice<`.
fn action(line: &str) -> Option<(&str, Option<&str>)> {
    let name = line.bytes().take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let (name, rest) = line.split_at(name.count());
    // An element of a push message begins with a digit.
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if rest == "<" {
        return Some((name, None));
    }
    rest.strip_prefix("> ").map(|command| (name, Some(command)))
}

fn agree(expected: &[&str], actual: &[&str]) -> bool {
    for (index, pattern) in expected.iter().enumerate() {
        if *pattern == "..." {
            return actual.len() >= index;
        }
        let Some(line) = actual.get(index) else { return false };
        let matches = match pattern.strip_prefix("~ ") {
            Some(pattern) => glob::matches(pattern.as_bytes(), line.as_bytes(), false),
            None => pattern == line,
        };
        if !matches {
            return false;
        }
    }
    actual.len() == expected.len()
}

fn difference(step: &Step<'_>, actual: &[&str]) -> String {
    let mut text = format!("line {} of the script:\n    {}\n", step.number, step.line);
    for line in &step.expected {
        let mark = if actual.contains(line) { ' ' } else { '-' };
        writeln!(text, "  {mark} {line}").expect("writing to a String cannot fail");
    }
    text += "but the reply is:\n";
    for line in actual {
        let mark = if step.expected.contains(line) { ' ' } else { '+' };
        writeln!(text, "  {mark} {line}").expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{action, agree, parse};

    #[test]
    fn lines_act_or_expect() {
        for (line, expected) in [
            ("> PING", Some(("", Some("PING")))),
            ("alice> GET k", Some(("alice", Some("GET k")))),
            ("<", Some(("", None))),
            ("alice2<", Some(("alice2", None))),
            ("1> \"message\"", None),
            ("1) \"a\"", None),
            ("OK", None),
        ] {
            assert_eq!(action(line), expected, "{line}");
        }
    }

    #[test]
    fn a_script_is_cut_into_steps() {
        let steps = parse("\n    > A\n    1) 1) x\n       2) y\n\n    # why\n    > B\n    OK\n");
        let cut: Vec<_> = steps.iter().map(|step| (step.number, &step.expected[..])).collect();
        assert_eq!(cut, [(2, &["1) 1) x", "   2) y"][..]), (7, &["OK"][..])]);
    }

    #[test]
    fn patterns_stand_for_lines() {
        assert!(agree(&["a", "..."], &["a"]) && agree(&["a", "..."], &["a", "b", "c"]));
        assert!(agree(&["~ (integer) ?"], &["(integer) 7"]));
        assert!(!agree(&["~ (integer) ?"], &["(integer) 17"]));
        assert!(!agree(&["a"], &["a", "b"]) && !agree(&["a", "b"], &["a"]));
        assert!(!agree(&["a", "..."], &[]));
    }
}
