//! Two servers, the same commands, the same replies: the core of the differential tests.
//! Invariant: a difference is told with the seed and the last commands, so that it can be
//! produced again.

use std::collections::VecDeque;
use std::fmt;
use std::mem::discriminant;

use base::quote::split_arguments;
use proto::value::Value;

use crate::client::{Arrival, Client, PIPELINE_PIECE, encode, line};
use crate::process::PATIENCE;
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

/// How two replies are compared. Whatever the rule, an error is only equal to the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Equal to the last byte.
    Exact,
    /// The elements come in any order.
    Unordered,
    /// Only the type counts.
    Kind,
    /// Integers that differ by so much at most and have the same sign.
    Near(i64),
    /// Replies of SCAN: the same keys in any order, unless one of the scans is not complete.
    Scan,
}

/// Two connections that get the same commands; the first is the server under test.
pub struct Duel {
    ours: Client,
    theirs: Client,
    seed: u64,
    rule: fn(&Command) -> Rule,
    exceptions: &'static [Exception],
    history: VecDeque<Command>,
    excused: Vec<u64>,
}

/// Two replies that differ.
pub struct Difference {
    /// Which of the commands it is.
    pub position: usize,
    /// The command.
    pub command: Command,
    /// Our reply.
    pub ours: Value,
    /// The other server's reply.
    pub theirs: Value,
}

impl Duel {
    /// A duel whose commands follow from the seed.
    pub fn new(ours: Client, theirs: Client, seed: u64) -> Self {
        let history = VecDeque::with_capacity(REMEMBERED);
        let rule = |_: &Command| Rule::Exact;
        Self { ours, theirs, seed, rule, exceptions: &[], history, excused: Vec::new() }
    }

    /// How replies are compared, by command.
    #[must_use]
    pub fn ruled(mut self, rule: fn(&Command) -> Rule) -> Self {
        self.rule = rule;
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

    /// Runs commands written line by line, quoted as in redis-cli.
    #[track_caller]
    pub fn run_lines(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.run(split_arguments(line.as_bytes()).expect("quotes are balanced"));
        }
    }

    /// Sends all commands to both in pipelines, compares, and returns our replies.
    #[track_caller]
    pub fn run_all(&mut self, commands: Vec<Command>) -> Vec<Value> {
        let result = self.try_run_all(&commands);
        let compared = result.as_ref().map_or_else(|found| found.position + 1, Vec::len);
        for command in commands.into_iter().take(compared) {
            if self.history.len() == REMEMBERED {
                self.history.pop_front();
            }
            self.history.push_back(command);
        }
        result.unwrap_or_else(|found| panic!("{}", self.report(&found)))
    }

    /// Sends all commands to both in pipelines; our replies, or the first difference.
    pub fn try_run_all(&mut self, commands: &[Command]) -> Result<Vec<Value>, Difference> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut difference = None;
        for piece in commands.chunks(PIPELINE_PIECE) {
            let bytes: Vec<u8> = piece.iter().flat_map(|command| encode(command)).collect();
            self.ours.send_raw(&bytes);
            self.theirs.send_raw(&bytes);
            for (number, command) in piece.iter().enumerate() {
                let sent = &piece[..=number];
                let ours = reply_of(&mut self.ours, "ours", sent, difference.as_ref());
                let theirs = reply_of(&mut self.theirs, "theirs", sent, difference.as_ref());
                if difference.is_none() && !self.agree(command, &ours, &theirs) {
                    let (position, command) = (replies.len(), command.clone());
                    difference = Some(Difference { position, command, ours, theirs });
                    continue;
                }
                replies.push(ours);
            }
        }
        difference.map_or(Ok(replies), Err)
    }

    fn agree(&mut self, command: &Command, ours: &Value, theirs: &Value) -> bool {
        if are_same(ours, theirs, (self.rule)(command)) {
            return true;
        }
        let excuse = self.exceptions.iter().position(|case| (case.applies)(command, ours, theirs));
        let Some(excuse) = excuse else { return false };
        self.excused[excuse] += 1;
        true
    }

    fn report(&self, found: &Difference) -> String {
        let commands: Vec<String> = self.history.iter().map(|command| line(command)).collect();
        format!(
            "seed {}: the replies to the last of these commands differ\n{}\n{found}",
            self.seed,
            commands.join("\n"),
        )
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ours:\n{}\ntheirs:\n{}", describe(&self.ours), describe(&self.theirs))
    }
}

/// The next reply; a server that owes one is told with the commands it was sent. What differs
/// before may be an earlier reply that is missing.
fn reply_of(
    client: &mut Client,
    whose: &str,
    commands: &[Command],
    before: Option<&Difference>,
) -> Value {
    let other = match client.arrival(PATIENCE) {
        Ok(Arrival::Reply(value)) => return value,
        other => other,
    };
    let recent = commands.iter().rev().take(REMEMBERED).rev();
    let recent: Vec<String> = recent.map(|command| line(command)).collect();
    let recent = recent.join("\n");
    let told = |found: &Difference| format!("before it differs {}\n{found}", line(&found.command));
    let before = before.map(told);
    let before = before.unwrap_or_default();
    panic!("{whose}: {other:?} instead of the last reply to\n{recent}\n{before}")
}

/// Equal under a rule; without one, in type and content, down to the text of errors and to which
/// of the nulls it is.
fn are_same(ours: &Value, theirs: &Value, rule: Rule) -> bool {
    if ours == theirs {
        return true;
    }
    if [ours, theirs].iter().any(|reply| matches!(reply, Value::Error(_))) {
        return false;
    }
    match rule {
        Rule::Exact => exact(ours) == exact(theirs),
        Rule::Unordered => exact(&sorted(ours)) == exact(&sorted(theirs)),
        Rule::Kind => discriminant(ours) == discriminant(theirs),
        Rule::Near(most) => match (ours, theirs) {
            (Value::Integer(ours), Value::Integer(theirs)) => {
                ours.signum() == theirs.signum() && ours.abs_diff(*theirs) <= most.unsigned_abs()
            }
            _ => false,
        },
        Rule::Scan => match (ours, theirs) {
            (Value::Array(ours), Value::Array(theirs)) => scanned_alike(ours, theirs),
            _ => false,
        },
    }
}

/// Whether two replies of SCAN, each a cursor and keys, agree.
fn scanned_alike(ours: &[Value], theirs: &[Value]) -> bool {
    let ([our_cursor, our_keys], [their_cursor, their_keys]) = (ours, theirs) else { return false };
    let are_complete =
        [our_cursor, their_cursor].iter().all(|cursor| cursor.as_bytes() == Some(b"0"));
    !are_complete || exact(&sorted(our_keys)) == exact(&sorted(their_keys))
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

    use super::{Rule, are_same};

    #[test]
    fn order_counts_unless_told() {
        let list =
            |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Integer(*n)).collect());
        assert!(!are_same(&list(&[1, 2]), &list(&[2, 1]), Rule::Exact));
        assert!(are_same(&list(&[1, 2]), &list(&[2, 1]), Rule::Unordered));
        assert!(!are_same(&list(&[1, 2]), &list(&[1, 1]), Rule::Unordered));
    }

    #[test]
    fn kinds_count_and_nan_equals_itself() {
        assert!(!are_same(&Value::Null, &Value::NullArray, Rule::Exact));
        assert!(!are_same(&Value::Simple(b"a".to_vec()), &Value::Bulk(b"a".to_vec()), Rule::Kind));
        assert!(are_same(&Value::Double(f64::NAN), &Value::Double(f64::NAN), Rule::Exact));
    }
}
