//! Two servers, the same commands, the same replies: the core of the differential tests.
//! Invariant: a difference is told with the seed and the last commands, so that it can be
//! produced again.

use std::collections::VecDeque;

use proto::value::Value;

use crate::client::{Client, line};
use crate::render::render;

/// How many commands a report of a difference ends with.
const REMEMBERED: usize = 50;

/// A command with its arguments.
pub type Command = Vec<Vec<u8>>;

/// A difference that is on purpose.
pub struct Exception {
    /// Why it is.
    pub reason: &'static str,
    /// Whether a command and its two replies (ours first) are a case of it.
    pub applies: fn(&Command, &Value, &Value) -> bool,
}

/// Two connections that get the same commands; the first is the server under test.
pub struct Duel {
    ours: Client,
    theirs: Client,
    seed: u64,
    unordered: &'static [&'static str],
    exceptions: &'static [Exception],
    history: VecDeque<Command>,
    excused: Vec<u64>,
}

impl Duel {
    /// A duel whose commands follow from the seed.
    pub fn new(ours: Client, theirs: Client, seed: u64) -> Self {
        let history = VecDeque::with_capacity(REMEMBERED);
        let (unordered, exceptions) = (&[], &[]);
        Self { ours, theirs, seed, unordered, exceptions, history, excused: Vec::new() }
    }

    /// The commands (in upper case) whose replies have no order of elements.
    #[must_use]
    pub fn unordered(mut self, commands: &'static [&'static str]) -> Self {
        self.unordered = commands;
        self
    }

    /// The differences that are on purpose.
    #[must_use]
    pub fn except(mut self, exceptions: &'static [Exception]) -> Self {
        self.exceptions = exceptions;
        self.excused = vec![0; exceptions.len()];
        self
    }

    /// How often each exception was met: one that never is should be deleted.
    pub fn excused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.excused.iter().copied();
        self.exceptions.iter().map(|exception| exception.reason).zip(counts)
    }

    /// Sends one command to both and compares.
    #[track_caller]
    pub fn run(&mut self, command: Command) -> Value {
        let mut replies = self.run_all(vec![command]);
        replies.pop().expect("one command has one reply")
    }

    /// Sends all commands to both in pipelines, compares, and returns our replies.
    #[track_caller]
    pub fn run_all(&mut self, commands: Vec<Command>) -> Vec<Value> {
        let ours = self.ours.pipeline(&commands);
        let theirs = self.theirs.pipeline(&commands);
        for ((command, ours), theirs) in commands.into_iter().zip(&ours).zip(&theirs) {
            if let Err(report) = self.compare(command, ours, theirs) {
                panic!("{report}");
            }
        }
        ours
    }

    fn compare(&mut self, command: Command, ours: &Value, theirs: &Value) -> Result<(), String> {
        let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let has_order = !self.unordered.iter().any(|other| other.as_bytes() == name);
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(command);
        if are_same(ours, theirs, has_order) {
            return Ok(());
        }
        let command = &self.history[self.history.len() - 1];
        let excuse = self.exceptions.iter().position(|case| (case.applies)(command, ours, theirs));
        let Some(excuse) = excuse else { return Err(self.report(ours, theirs)) };
        self.excused[excuse] += 1;
        Ok(())
    }

    fn report(&self, ours: &Value, theirs: &Value) -> String {
        let commands: Vec<String> = self.history.iter().map(|command| line(command)).collect();
        format!(
            "seed {}: the replies to the last of these commands differ\n{}\nours:\n{}\ntheirs:\n{}",
            self.seed,
            commands.join("\n"),
            describe(ours),
            describe(theirs),
        )
    }
}

/// Equal in type and content, down to the text of errors and to which of the nulls it is.
fn are_same(ours: &Value, theirs: &Value, has_order: bool) -> bool {
    if ours == theirs {
        return true;
    }
    let key = |value: &Value| if has_order { exact(value) } else { exact(&sorted(value)) };
    key(ours) == key(theirs)
}

/// A text that differs whenever two values do, and in which NaN equals NaN.
fn exact(value: &Value) -> String {
    format!("{value:?}")
}

/// The same value with the elements of its outermost container in a fixed order.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    match &mut value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.sort_by_cached_key(exact);
        }
        Value::Map(pairs) => pairs.sort_by_cached_key(|(key, _)| exact(key)),
        _ => {}
    }
    value
}

fn describe(value: &Value) -> String {
    let kind = exact(value);
    let end = kind.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(kind.len());
    format!("{} [{}]", render(value), &kind[..end])
}

#[cfg(test)]
mod tests {
    use proto::value::Value;

    use super::are_same;

    #[test]
    fn order_counts_unless_told() {
        let list =
            |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Integer(*n)).collect());
        assert!(!are_same(&list(&[1, 2]), &list(&[2, 1]), true));
        assert!(are_same(&list(&[1, 2]), &list(&[2, 1]), false));
        assert!(!are_same(&list(&[1, 2]), &list(&[1, 1]), false));
    }

    #[test]
    fn kinds_count_and_nan_equals_itself() {
        assert!(!are_same(&Value::Null, &Value::NullArray, true));
        assert!(!are_same(&Value::Simple(b"a".to_vec()), &Value::Bulk(b"a".to_vec()), false));
        assert!(are_same(&Value::Double(f64::NAN), &Value::Double(f64::NAN), true));
    }
}
