//! The stream of a primary, split into units: a command, or MULTI to EXEC as one.
//!
//! Invariants: a unit is as long as its bytes, so that offsets count every one; the database is
//! the one selected by whole units alone, as half a unit may never end; a unit longer than its
//! limit is a fault before its bytes have come.

use std::fmt;

use base::number::parse_u64;
use proto::{Args, Framing, Limits, Progress, ProtocolError, RequestParser};

use super::action::StreamCommands;

/// Splits a stream.
#[derive(Debug)]
pub struct StreamParser {
    parser: RequestParser,
    len_max: usize,
    databases: u32,
    /// The selected one, behind the last whole unit.
    database: u32,
    unit: OpenUnit,
}

/// What is known of the unit whose end has not come.
#[derive(Clone, Copy, Debug, Default)]
struct OpenUnit {
    /// The bytes of its whole commands.
    len: usize,
    in_multi: bool,
    selected: Option<u32>,
    wants_ack: bool,
    commands: StreamCommands,
}

/// A unit that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamUnit {
    /// How many bytes it takes.
    pub len: usize,
    /// Whether the primary asks in it how far we are.
    pub wants_ack: bool,
    /// Its commands, what begins and ends a transaction among them.
    pub commands: StreamCommands,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// Not the protocol.
    Protocol(ProtocolError),
    /// A command that is not an array: the two ends are not in step.
    Inline,
    /// A unit is longer than so many bytes, which it may be.
    TooLong(usize),
}

impl StreamParser {
    /// One that begins in this database, of so many; no unit may be longer than `len_max`.
    pub fn new(database: u32, databases: u32, len_max: usize) -> Self {
        let (parser, unit) = (RequestParser::new(), OpenUnit::default());
        Self { parser, len_max, databases, database, unit }
    }

    /// The database that is selected behind the last whole unit.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The next unit, once it is whole. `buf` begins at its first byte and must hold what it held
    /// at the last call, plus what came since. After a fault there is no next unit.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<StreamUnit>, StreamFault> {
        while let Some(rest) = buf.get(self.unit.len..).filter(|rest| !rest.is_empty()) {
            let is_array = rest[0] == b'*';
            if !is_array && !matches!(rest[0], b'\r' | b'\n') {
                return Err(StreamFault::Inline);
            }
            match self.parser.advance(rest, &Limits::OF_PRIMARY).map_err(StreamFault::Protocol)? {
                Progress::Incomplete { .. } => {
                    let announced = self.unit.len + self.parser.bytes_announced().unwrap_or(0);
                    return match announced.max(buf.len()) > self.len_max {
                        true => Err(StreamFault::TooLong(self.len_max)),
                        false => Ok(None),
                    };
                }
                Progress::Empty { consumed } => self.unit.len += consumed,
                Progress::Complete { .. } if !is_array => return Err(StreamFault::Inline),
                Progress::Complete { consumed } => {
                    self.unit.note(self.parser.args(rest), self.databases);
                    self.unit.len += consumed;
                }
            }
            self.parser.reset();
            if self.unit.len > self.len_max {
                return Err(StreamFault::TooLong(self.len_max));
            }
            if !self.unit.in_multi {
                return Ok(Some(self.close()));
            }
        }
        Ok(None)
    }

    fn close(&mut self) -> StreamUnit {
        let OpenUnit { len, selected, wants_ack, commands, .. } = std::mem::take(&mut self.unit);
        self.database = selected.unwrap_or(self.database);
        StreamUnit { len, wants_ack, commands }
    }
}

impl OpenUnit {
    /// Looks at a command for what concerns the link.
    fn note(&mut self, args: Args<'_>, databases: u32) {
        self.commands.count += 1;
        self.commands.last = Some(self.len);
        match Framing::of(args) {
            Some(Framing::Multi) => self.in_multi = true,
            Some(Framing::Exec) => self.in_multi = false,
            // What a thrown away transaction selects is never selected.
            Some(Framing::Discard) => (self.in_multi, self.selected) = (false, None),
            Some(Framing::Select) => {
                let database = parse_u64(&args[1]).and_then(|it| u32::try_from(it).ok());
                self.selected = database.filter(|it| *it < databases).or(self.selected);
            }
            None => self.wants_ack |= asks_for_ack(args),
        }
    }
}

/// Whether the primary asks how far we are. The crate knows no commands: these are words of a peer.
fn asks_for_ack(args: Args<'_>) -> bool {
    let is = |index: usize, word: &[u8]| args[index].eq_ignore_ascii_case(word);
    args.len() == 3 && is(0, b"replconf") && is(1, b"getack")
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::Inline => f.write_str("a command that is not an array"),
            Self::TooLong(most) => {
                write!(
                    f,
                    "a command or transaction of more than {most} bytes, the most there may be"
                )
            }
        }
    }
}

impl std::error::Error for StreamFault {}

#[cfg(test)]
mod tests {
    use super::{StreamCommands, StreamFault, StreamParser, StreamUnit};

    fn commands(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            let words = line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
            proto::args::encode_command(words.into_iter(), &mut bytes);
        }
        bytes
    }

    /// The units of a stream that comes in steps of so many bytes, and the database in the end.
    fn units(stream: &[u8], step: usize) -> Result<(Vec<StreamUnit>, u32), StreamFault> {
        let mut parser = StreamParser::new(0, 16, 1000);
        let (mut units, mut begin) = (Vec::new(), 0);
        for end in (0..stream.len()).step_by(step).map(|at| stream.len().min(at + step)) {
            while let Some(unit) = parser.advance(&stream[begin..end])? {
                begin += unit.len;
                units.push(unit);
            }
        }
        Ok((units, parser.database()))
    }

    #[test]
    fn a_unit_is_a_command_or_a_transaction() {
        let parts: &[(&[&str], bool)] = &[
            (&["ping"], false),
            (&["SELECT 3"], false),
            (&["MULTI", "SELECT 5", "set a b", "REPLCONF GETACK *", "exec"], true),
            (&["replconf getack *"], true),
            (&["multi", "exec"], false),
            (&["EXEC"], false),
            (&["multi", "multi", "exec now", "exec"], false),
        ];
        let stream = parts.iter().map(|(lines, _)| commands(lines)).collect::<Vec<_>>();
        let expected = stream.iter().zip(parts).map(|(bytes, (lines, wants_ack))| {
            let last = bytes.len() - commands(&lines[lines.len() - 1..]).len();
            let commands = StreamCommands { count: lines.len() as u64, last: Some(last) };
            StreamUnit { len: bytes.len(), wants_ack: *wants_ack, commands }
        });
        let expected = Ok((expected.collect::<Vec<_>>(), 5));
        for step in 1..60 {
            assert_eq!(units(&stream.concat(), step), expected, "in steps of {step}");
        }
    }

    #[test]
    fn a_select_counts_when_its_unit_is_whole_and_the_database_exists() {
        let table: &[(&[&str], u32)] = &[
            (&["SELECT 7"], 7),
            (&["select 15", "SELECT 16"], 15),
            (&["SELECT 7", "SELECT -1", "SELECT x", "SELECT 1 2"], 7),
            (&["SELECT 2", "MULTI", "SELECT 7"], 2),
            (&["SELECT 2", "MULTI", "SELECT 7", "SELECT 8", "EXEC"], 8),
            (&["SELECT 2", "MULTI", "SELECT 7", "DISCARD"], 2),
        ];
        for (lines, database) in table {
            let found = units(&commands(lines), 7).expect("no fault");
            assert_eq!(found.1, *database, "{lines:?}");
        }
    }

    #[test]
    fn empty_lines_and_empty_arrays_count() {
        let found = units(b"\n\r\n*0\r\n*-1\r\n", 1).expect("no fault").0;
        assert_eq!(found.iter().map(|unit| unit.len).collect::<Vec<_>>(), [1, 2, 4, 5]);
    }

    #[test]
    fn faults_of_a_stream() {
        let long = commands(&["multi", &format!("set k {}", "x".repeat(400))]);
        let longer = [&long[..], &commands(&[&format!("set k {}", "x".repeat(600))])].concat();
        for step in [1, 50, 5000] {
            assert_eq!(units(b"ping\r\n", step), Err(StreamFault::Inline));
            assert_eq!(units(b"\rping\r\n", step), Err(StreamFault::Inline));
            assert!(units(&long, step).is_ok());
            assert_eq!(units(&longer, step), Err(StreamFault::TooLong(1000)));
            assert_eq!(units(b"*1\r\n$1001\r\n", step), Err(StreamFault::TooLong(1000)));
            let fault = units(b"*1\r\n+OK\r\n", step);
            assert!(matches!(fault, Err(StreamFault::Protocol(_))));
        }
    }
}
