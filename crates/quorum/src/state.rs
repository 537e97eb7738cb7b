//! What a node must not forget: its name, and what it promised in its shard.
//!
//! The name stands in the same file as the promises, so a node that has lost them has lost its name
//! as well, and comes back as another one, which has promised nothing. Invariant: what is written
//! is read as the same; what is not understood, or torn, is an error.

use std::fmt::{self, Write};

use base::crc::crc64;
use cluster::{NodeId, ShardId};

use crate::history::{History, TermStart};
use crate::position::{Offset, Term};

/// The first line of the file.
const HEAD: &str = "quorum 1";

/// What is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberState {
    /// The name of the node.
    pub node: NodeId,
    /// Its part in a shard, if it was ever in one.
    pub membership: Option<Membership>,
}

/// A node's part in a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The shard.
    pub shard: ShardId,
    /// Nothing of an earlier term is acknowledged.
    pub promised: Term,
    /// Whether the log has all up to its end: not that of a node that joins, before its first data
    /// have come.
    pub is_whole: bool,
    /// The log.
    pub log: LogRecord,
    /// The log that may take its place.
    pub incoming: Option<LogRecord>,
}

/// What is kept of a log beside its file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRecord {
    /// Which log of this node: the number stands in the log's own manifest, too, so a start knows
    /// which of the two it has found.
    pub generation: u64,
    /// Its terms.
    pub history: History,
}

/// Why a text is no state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateError {
    /// The file does not end with the check line that its text has.
    Torn,
    /// This line is not understood, or stands where another one is wanted.
    Line(String),
    /// The terms are no history, or none are there.
    NoHistory,
}

impl fmt::Display for StateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Torn => formatter.write_str("the check line is missing or wrong"),
            StateError::Line(line) => write!(formatter, "bad line: {line}"),
            StateError::NoHistory => formatter.write_str("the terms are no history"),
        }
    }
}

impl std::error::Error for StateError {}

impl MemberState {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\nnode {}\n", self.node);
        if let Some(membership) = &self.membership {
            let whole = if membership.is_whole { "yes" } else { "no" };
            let Membership { shard, promised, log, incoming, .. } = membership;
            write!(text, "shard {shard}\npromised {promised}\nwhole {whole}\n")
                .expect("a string takes all");
            log.put(&mut text, "log");
            if let Some(incoming) = incoming {
                incoming.put(&mut text, "incoming");
            }
        }
        let check = crc64(0, text.as_bytes());
        writeln!(text, "check {check:016x}").expect("a string takes all");
        text
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Result<MemberState, StateError> {
        let body_len = text.rfind("check ").ok_or(StateError::Torn)?;
        let (body, check) = text.split_at(body_len);
        if check != format!("check {:016x}\n", crc64(0, body.as_bytes())) {
            return Err(StateError::Torn);
        }
        let mut lines = Lines(body.lines().collect());
        lines.expect(HEAD, |rest| rest.is_empty().then_some(()))?;
        let node = lines.expect("node ", |text| NodeId::parse(text.as_bytes()))?;
        let membership = if lines.0.is_empty() { None } else { Some(lines.membership()?) };
        match lines.0.first() {
            Some(line) => Err(StateError::Line((*line).to_owned())),
            None => Ok(MemberState { node, membership }),
        }
    }
}

impl Membership {
    /// The incoming log has taken the place of the other one.
    pub(crate) fn take_incoming(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            (self.log, self.is_whole) = (incoming, true);
        }
    }
}

impl LogRecord {
    fn put(&self, text: &mut String, word: &str) {
        writeln!(text, "{word} {}", self.generation).expect("a string takes all");
        for start in self.history.starts() {
            writeln!(text, "term {} {}", start.term, start.offset).expect("a string takes all");
        }
    }
}

/// The lines that are left.
struct Lines<'a>(Vec<&'a str>);

impl Lines<'_> {
    /// What `read` makes of the rest of the next line, which begins with `word`.
    fn expect<T>(&mut self, word: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, StateError> {
        let line = *self.0.first().ok_or(StateError::Torn)?;
        let value = line.strip_prefix(word).and_then(read);
        let value = value.ok_or_else(|| StateError::Line(line.to_owned()))?;
        self.0.remove(0);
        Ok(value)
    }

    fn begins_with(&self, word: &str) -> bool {
        self.0.first().is_some_and(|line| line.starts_with(word))
    }

    fn membership(&mut self) -> Result<Membership, StateError> {
        let shard = self.expect("shard ", |text| NodeId::parse(text.as_bytes()))?;
        let promised = Term(self.expect("promised ", number)?);
        let is_whole = self.expect("whole ", |text| match text {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        })?;
        let log = self.log("log ")?;
        let incoming =
            if self.begins_with("incoming ") { Some(self.log("incoming ")?) } else { None };
        Ok(Membership { shard: ShardId(shard), promised, is_whole, log, incoming })
    }

    fn log(&mut self, word: &str) -> Result<LogRecord, StateError> {
        let generation = self.expect(word, number)?;
        let mut starts = Vec::new();
        while self.begins_with("term ") {
            starts.push(self.expect("term ", term_start)?);
        }
        let history = History::from_starts(starts).ok_or(StateError::NoHistory)?;
        Ok(LogRecord { generation, history })
    }
}

fn term_start(text: &str) -> Option<TermStart> {
    let (term, offset) = text.split_once(' ')?;
    Some(TermStart { term: Term(number(term)?), offset: number(offset)? })
}

/// A number as it is written here, and in no other way.
fn number(text: &str) -> Option<Offset> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use base::Random;
    use base::crc::crc64;
    use cluster::{NodeId, ShardId};

    use super::{LogRecord, MemberState, Membership, StateError};
    use crate::history::{History, TermStart};
    use crate::position::Term;

    fn id(letter: char) -> NodeId {
        NodeId::parse(letter.to_string().repeat(40).as_bytes()).expect("forty letters")
    }

    fn start(term: u64, offset: u64) -> TermStart {
        TermStart { term: Term(term), offset }
    }

    fn checked(body: &str) -> String {
        format!("{body}check {:016x}\n", crc64(0, body.as_bytes()))
    }

    fn log(generation: u64, starts: &[TermStart]) -> LogRecord {
        let history = History::from_starts(starts.to_vec()).expect("the test has it right");
        LogRecord { generation, history }
    }

    fn membership(is_whole: bool, log: LogRecord, incoming: Option<LogRecord>) -> Membership {
        Membership { shard: ShardId(id('b')), promised: Term(7), is_whole, log, incoming }
    }

    #[test]
    fn states_have_these_texts() {
        let (node, shard, most) = ("a".repeat(40), "b".repeat(40), u64::MAX);
        let head = format!("shard {shard}\npromised 7\nwhole");
        let cases = [
            (None, String::new()),
            (
                Some(membership(true, LogRecord::default(), None)),
                format!("{head} yes\nlog 0\nterm 0 0\n"),
            ),
            (
                Some(membership(false, log(4, &[start(3, 10), start(7, most)]), None)),
                format!("{head} no\nlog 4\nterm 3 10\nterm 7 {most}\n"),
            ),
            (
                Some(membership(true, log(4, &[start(3, 10)]), Some(log(5, &[start(6, 9)])))),
                format!("{head} yes\nlog 4\nterm 3 10\nincoming 5\nterm 6 9\n"),
            ),
        ];
        for (membership, rest) in cases {
            let state = MemberState { node: id('a'), membership };
            let text = checked(&format!("quorum 1\nnode {node}\n{rest}"));
            assert_eq!(state.to_text(), text);
            assert_eq!(MemberState::parse(&text), Ok(state));
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let (node, shard) = ("a".repeat(40), "b".repeat(40));
        let head = format!("quorum 1\nnode {node}\nshard {shard}\npromised 7\nwhole yes\n");
        let line = |line: &str| StateError::Line(line.to_owned());
        let cases = [
            (String::new(), StateError::Torn),
            (format!("quorum 2\nnode {node}\n"), line("quorum 2")),
            (format!("quorum 10\nnode {node}\n"), line("quorum 10")),
            ("quorum 1\nnode a\n".to_owned(), line("node a")),
            (format!("quorum 1\nnode {node}\npromised 7\n"), line("promised 7")),
            (format!("quorum 1\nnode {node}\nshard {shard}\n"), StateError::Torn),
            (head.replace("promised 7", "promised 07"), line("promised 07")),
            (head.replace("yes", "maybe"), line("whole maybe")),
            (head.clone(), StateError::Torn),
            (format!("{head}log 1\n"), StateError::NoHistory),
            (format!("{head}log 1\nterm 5 1\nterm 4 2\n"), StateError::NoHistory),
            (format!("{head}log 1\nterm 5\n"), line("term 5")),
            (format!("{head}log 1\nterm 5 1 2\n"), line("term 5 1 2")),
            (format!("{head}log 1\nterm 5 1\nmore\n"), line("more")),
            (format!("{head}log 1\nterm 5 1\nincoming 2\n"), StateError::NoHistory),
            (format!("{head}log 1\nterm 5 1\nincoming 2\nterm 1 1\nlog 3\n"), line("log 3")),
        ];
        for (body, error) in cases {
            assert_eq!(MemberState::parse(&checked(&body)), Err(error), "{body}");
        }
    }

    #[test]
    fn no_torn_or_changed_text_is_taken() {
        let own = membership(true, log(1, &[start(0, 0), start(2, 31)]), None);
        let text = MemberState { node: id('a'), membership: Some(own) }.to_text();
        for length in 0..text.len() {
            assert_eq!(MemberState::parse(&text[..length]), Err(StateError::Torn), "{length}");
        }
        let mut random = Random::from_seed(1);
        for _ in 0..1000 {
            let mut bytes = text.clone().into_bytes();
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = b'a' + (bytes[place] + 1 + random.below(24) as u8) % 26;
            let changed = String::from_utf8(bytes).expect("letters are text");
            assert!(changed == text || MemberState::parse(&changed).is_err(), "{changed}");
        }
    }
}
