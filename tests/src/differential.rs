//! Two servers, the same commands, the same replies: the core of the differential tests.
//! Invariant: a difference is told with the seed and the last commands, so that it can be
//! produced again.

mod pair;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::mem::{discriminant, swap};

use base::quote::split_arguments;
use proto::value::Value;

use crate::client::{Arrival, Client, PIPELINE_PIECE, encode, line};
use crate::process::PATIENCE;
use crate::render::render;
use pair::{Answered, Pair};

/// How many commands a report of a difference ends with.
const REMEMBERED: usize = 50;

/// A command with its arguments.
pub type Command = Vec<Vec<u8>>;

/// A difference that is on purpose.
pub struct Exception {
    /// Why there is an exception.
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
    /// The pairs come in any order, be they a map or one list.
    UnorderedPairs,
    /// Only the type counts.
    Kind,
    /// Integers, or lists of integers, that differ by so much at most and have the same sign.
    Near(i64),
    /// Replies of SCAN: the same keys in any order, unless one of the scans is not complete.
    Scan,
    /// The same with pairs of a member and a value.
    ScanPairs,
    /// As many elements, chosen by chance. If the next command reads all there are of that key,
    /// ours must be among them.
    Sample,
    /// What is told of streams: moments and what depends on how memory is used are alike.
    StreamTimes,
}

/// The connection that sends a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaker {
    /// The first connection to each server.
    #[default]
    First,
    /// The second one.
    Second,
}

/// A command and its sender.
#[derive(Clone, Debug)]
pub struct Step {
    /// The sender.
    pub speaker: Speaker,
    /// The command.
    pub command: Command,
}

/// Two servers that get the same commands; the first is the server under test.
pub struct Duel {
    /// The connections of the present speaker.
    pair: Pair,
    /// Those of the other speaker, if there are two.
    other: Option<Pair>,
    speaker: Speaker,
    seed: u64,
    rule: fn(&Command) -> Rule,
    exceptions: Vec<&'static Exception>,
    history: VecDeque<Command>,
    excused: Vec<u64>,
    /// Whether only one of the servers did what an exception is for: until the next FLUSHALL they
    /// hold different values.
    has_parted: bool,
    /// What was last chosen by chance, until the next reply.
    sample: Option<(Command, Value)>,
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
        Self {
            pair: Pair::new(ours, theirs),
            other: None,
            speaker: Speaker::First,
            seed,
            rule,
            exceptions: Vec::new(),
            history,
            excused: Vec::new(),
            has_parted: false,
            sample: None,
        }
    }

    /// A second connection to each server.
    pub fn join(&mut self, ours: Client, theirs: Client) {
        self.other = Some(Pair::new(ours, theirs));
    }

    /// How replies are compared, by command.
    #[must_use]
    pub fn ruled(mut self, rule: fn(&Command) -> Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Differences that are on purpose, beside those told before.
    #[must_use]
    pub fn except(mut self, exceptions: &'static [Exception]) -> Self {
        self.exceptions.extend(exceptions);
        self.excused.resize(self.exceptions.len(), 0);
        self
    }

    /// How often each exception was met: one that never is should be deleted.
    pub fn excused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.excused.iter().copied();
        self.exceptions.iter().map(|exception| exception.reason).zip(counts)
    }

    /// Whether the servers hold different values on purpose, until the next FLUSHALL.
    pub fn has_parted(&self) -> bool {
        self.has_parted
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

    /// Sends the commands of both speakers in their order; our replies, or the first difference.
    pub fn try_run_steps(&mut self, steps: &[Step]) -> Result<Vec<Value>, Difference> {
        let mut replies = Vec::with_capacity(steps.len());
        for run in steps.chunk_by(|one, next| one.speaker == next.speaker) {
            self.speak(run[0].speaker);
            let commands: Vec<Command> = run.iter().map(|step| step.command.clone()).collect();
            let result = self.try_run_all(&commands).map_err(|difference| {
                let position = replies.len() + difference.position;
                Difference { position, ..difference }
            });
            replies.extend(result?);
        }
        self.speak(Speaker::First);
        Ok(replies)
    }

    fn speak(&mut self, speaker: Speaker) {
        if self.speaker != speaker {
            let other = self.other.as_mut().expect("a second speaker has joined");
            swap(&mut self.pair, other);
            self.speaker = speaker;
        }
    }

    /// Where two speak: ends their transactions and takes them to the first database.
    pub fn leave_transactions(&mut self) {
        if self.other.is_some() {
            self.speak(Speaker::First);
            self.pair.leave_transaction();
        }
        self.other.iter_mut().for_each(Pair::leave_transaction);
    }

    /// Sends all commands to both in pipelines; our replies, or the first difference.
    pub fn try_run_all(&mut self, commands: &[Command]) -> Result<Vec<Value>, Difference> {
        self.try_run_ruled(commands, self.rule)
    }

    /// The same with another rule.
    pub fn try_run_ruled(
        &mut self,
        commands: &[Command],
        rule: fn(&Command) -> Rule,
    ) -> Result<Vec<Value>, Difference> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut difference = None;
        for piece in commands.chunks(PIPELINE_PIECE) {
            let bytes: Vec<u8> = piece.iter().flat_map(|command| encode(command)).collect();
            self.pair.ours.send_raw(&bytes);
            self.pair.theirs.send_raw(&bytes);
            for (number, command) in piece.iter().enumerate() {
                let sent = (piece, number);
                let ours = reply_of(&mut self.pair.ours, "ours", sent, difference.as_ref());
                let theirs = reply_of(&mut self.pair.theirs, "theirs", sent, difference.as_ref());
                if difference.is_none() {
                    let found = self.compare(command, &ours, &theirs, rule);
                    difference = found.map(|found| Difference { position: replies.len(), ..found });
                }
                replies.push(ours);
            }
        }
        difference.map_or(Ok(replies), Err)
    }

    /// Compares two replies, those of EXEC one by one; what differs has no position yet.
    fn compare(
        &mut self,
        command: &Command,
        ours: &Value,
        theirs: &Value,
        rule: fn(&Command) -> Rule,
    ) -> Option<Difference> {
        let answered = self.pair.note(command, ours, theirs);
        let mut differs = |command: &Command, ours: &Value, theirs: &Value| {
            if self.agree(command, ours, theirs, rule) {
                return None;
            }
            let (command, ours, theirs) = (command.clone(), ours.clone(), theirs.clone());
            Some(Difference { position: 0, command, ours, theirs })
        };
        match (answered, ours, theirs) {
            (Answered::Queued, _, _) => {
                self.sample = None;
                None
            }
            (Answered::All(queue), Value::Array(ours), Value::Array(theirs)) => {
                let mut replies = queue.iter().zip(ours.iter().zip(theirs));
                replies.find_map(|(command, (ours, theirs))| differs(command, ours, theirs))
            }
            _ => differs(command, ours, theirs),
        }
    }

    fn agree(
        &mut self,
        command: &Command,
        ours: &Value,
        theirs: &Value,
        rule: fn(&Command) -> Rule,
    ) -> bool {
        let flushes = command[0].eq_ignore_ascii_case(b"FLUSHALL");
        self.has_parted &= !flushes || matches!(ours, Value::Error(_));
        let sample = self.sample.take();
        if self.has_parted {
            return true;
        }
        if sample.is_some_and(|(choice, sample)| !is_among(&choice, &sample, command, ours)) {
            return false;
        }
        let rule = rule(command);
        if rule == Rule::Sample {
            self.sample = Some((command.clone(), ours.clone()));
        }
        if are_same(ours, theirs, rule) {
            return true;
        }
        let excuse = self.exceptions.iter().position(|case| (case.applies)(command, ours, theirs));
        let Some(excuse) = excuse else { return false };
        self.excused[excuse] += 1;
        let are_errors = [ours, theirs].map(|reply| matches!(reply, Value::Error(_)));
        // Whose counts differ may have stored other elements.
        let are_counts = [ours, theirs].iter().all(|reply| matches!(reply, Value::Integer(_)));
        self.has_parted = are_errors[0] != are_errors[1] || are_counts;
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

/// How many commands after one without a reply are told: a server that ends with replies unsent may
/// have ended over one of those.
const TOLD_AFTER: usize = 10;

/// The next reply; a server that owes one is told with the commands it was sent. What differs
/// before may be an earlier reply that is missing.
fn reply_of(
    client: &mut Client,
    whose: &str,
    (piece, number): (&[Command], usize),
    before: Option<&Difference>,
) -> Value {
    let other = match client.arrival(PATIENCE) {
        Ok(Arrival::Reply(value)) => return value,
        other => other,
    };
    let lines = |commands: &[Command]| {
        let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
        lines.join("\n")
    };
    let recent = lines(&piece[(number + 1).saturating_sub(REMEMBERED)..=number]);
    let next = lines(&piece[number + 1..piece.len().min(number + 1 + TOLD_AFTER)]);
    let told = |found: &Difference| format!("before it differs {}\n{found}", line(&found.command));
    let before = before.map(told);
    let before = before.unwrap_or_default();
    panic!("{whose}: {other:?} instead of the last reply to\n{recent}\n{before}\nthen\n{next}")
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
        Rule::UnorderedPairs => exact(&sorted(&paired(ours))) == exact(&sorted(&paired(theirs))),
        Rule::Kind => discriminant(ours) == discriminant(theirs),
        Rule::Near(most) => are_near(ours, theirs, most),
        Rule::Scan => are_scanned_alike(ours, theirs, Value::clone),
        Rule::ScanPairs => are_scanned_alike(ours, theirs, paired),
        Rule::Sample => {
            let length = |value: &Value| match value {
                Value::Array(items) => Some(items.len()),
                _ => None,
            };
            discriminant(ours) == discriminant(theirs) && length(ours) == length(theirs)
        }
        Rule::StreamTimes => exact(&timeless(ours, &[])) == exact(&timeless(theirs, &[])),
    }
}

fn are_near(ours: &Value, theirs: &Value, most: i64) -> bool {
    match (ours, theirs) {
        (Value::Integer(ours), Value::Integer(theirs)) => {
            ours.signum() == theirs.signum() && ours.abs_diff(*theirs) <= most.unsigned_abs()
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len() && pairs.all(|(ours, theirs)| are_near(ours, theirs, most))
        }
        _ => exact(ours) == exact(theirs),
    }
}

/// Whether what was chosen from a key is among what the next command reads of it, and chosen once
/// unless a count below zero allows more; true if that command reads something else.
fn is_among(choice: &Command, sample: &Value, read: &Command, all: &Value) -> bool {
    let reads = [&b"SMEMBERS"[..], b"HGETALL", b"ZRANGE"];
    if !reads.contains(&read[0].as_slice()) || choice.get(1) != read.get(1) {
        return true;
    }
    let width = if read[0] == b"SMEMBERS" { 1 } else { 2 };
    let has_values = choice.len() > 3;
    let (sample, all) = (leaves(sample), leaves(all));
    let members: HashSet<&String> = all.iter().step_by(width).collect();
    let pairs: HashSet<&[String]> = all.chunks(width).collect();
    let chosen: Vec<&[String]> = sample.chunks(if has_values { width } else { 1 }).collect();
    let may_repeat = choice.get(2).is_some_and(|count| count.starts_with(b"-"));
    let different: HashSet<&&[String]> = chosen.iter().collect();
    let are_there = |choice: &&[String]| match choice {
        [member] => members.contains(member),
        pair => pairs.contains(pair),
    };
    chosen.iter().all(are_there) && (may_repeat || different.len() == chosen.len())
}

/// The strings and numbers of a reply, one after the other.
fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) | Value::Set(items) => items.iter().flat_map(leaves).collect(),
        Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [leaves(key), leaves(value)].concat()).collect()
        }
        Value::Null | Value::NullArray | Value::Error(_) => Vec::new(),
        leaf => vec![exact(leaf)],
    }
}

/// Whether two replies of SCAN, each a cursor and keys, agree.
fn are_scanned_alike(ours: &Value, theirs: &Value, form: fn(&Value) -> Value) -> bool {
    let (Value::Array(ours), Value::Array(theirs)) = (ours, theirs) else { return false };
    let ([our_cursor, our_keys], [their_cursor, their_keys]) = (&ours[..], &theirs[..]) else {
        return false;
    };
    let are_complete =
        [our_cursor, their_cursor].iter().all(|cursor| cursor.as_bytes() == Some(b"0"));
    let form = |keys: &Value| exact(&sorted(&form(keys)));
    !are_complete || form(our_keys) == form(their_keys)
}

/// A flat list as a list of pairs.
fn paired(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            Value::Array(items.chunks(2).map(|pair| Value::Array(pair.to_vec())).collect())
        }
        other => other.clone(),
    }
}

/// Labels in replies of XINFO whose numbers depend on the clock or on how memory is used, and one
/// that only later versions have.
const PASSED_OVER: [&[u8]; 7] = [
    b"idle",
    b"inactive",
    b"seen-time",
    b"active-time",
    b"radix-tree-keys",
    b"radix-tree-nodes",
    b"nacked-count",
];

/// A reply of XINFO or XPENDING without what need not be alike in two servers, and without the
/// fields of further labels.
pub fn timeless(value: &Value, labels: &[&[u8]]) -> Value {
    let is_out = |label: &Value| {
        label
            .as_bytes()
            .is_some_and(|label| PASSED_OVER.contains(&label) || labels.contains(&label))
    };
    match value {
        Value::Array(items) => {
            if let Some(pending) = pending_entry(items) {
                return Value::Array(pending);
            }
            let mut left = Vec::new();
            let mut items = items.iter();
            while let Some(item) = items.next() {
                if is_out(item) {
                    items.next();
                } else {
                    left.push(timeless(item, labels));
                }
            }
            Value::Array(left)
        }
        Value::Map(pairs) => {
            let left = pairs.iter().filter(|(label, _)| !is_out(label));
            Value::Map(left.map(|(key, value)| (key.clone(), timeless(value, labels))).collect())
        }
        other => other.clone(),
    }
}

/// A pending entry (its ID, perhaps a consumer, a moment, how often it was delivered) with a coarse
/// moment.
fn pending_entry(items: &[Value]) -> Option<Vec<Value>> {
    let [Value::Bulk(id), between @ .., Value::Integer(moment), Value::Integer(_)] = items else {
        return None;
    };
    let is_pending = id.contains(&b'-') && between.len() < 2;
    is_pending.then(|| {
        let mut items = items.to_vec();
        let at = items.len() - 2;
        items[at] = Value::Integer(coarse(*moment));
        items
    })
}

/// A time in milliseconds of which only that much is left that an hour's test cannot change.
fn coarse(milliseconds: i64) -> i64 {
    match milliseconds {
        ..0 => milliseconds,
        0..500_000 => 0,
        500_000..1_000_000_000 => (milliseconds + 500_000) / 1_000_000,
        _ => i64::MAX,
    }
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
