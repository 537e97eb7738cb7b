//! A primary's stream, split into units with their commands.
//!
//! Invariants: what is no protocol ends it; each unit is a command, or what stands between MULTI
//! and EXEC; each byte belongs to a unit, or is said to do nothing, as a log cannot have it. What
//! is a command and cannot be run where it stands is the runner's business.

use std::ops::Range;

use persist::aof::Unit;
use proto::{Args, Framing, Limits, Progress, RequestParser};

/// A unit of a stream.
pub(super) enum StreamItem<'u> {
    /// A command, and where it lies in the bytes.
    Command(Args<'u>, Range<usize>),
    /// A transaction, and its bytes without what does nothing, where such bytes lie among them.
    Transaction(Unit, Option<Vec<u8>>),
    /// Bytes that do nothing: empty lines and arrays, or a transaction that was thrown away.
    Nothing(Range<usize>),
}

/// Splits bytes that are whole units.
pub(super) struct StreamUnits<'b> {
    bytes: &'b [u8],
    at: usize,
    /// The offset of the first byte.
    begin: u64,
    parser: RequestParser,
}

impl<'b> StreamUnits<'b> {
    /// From this offset of the stream on.
    pub(super) fn new(bytes: &'b [u8], begin: u64) -> Self {
        Self { bytes, at: 0, begin, parser: RequestParser::new() }
    }

    /// The next unit, or why there is none.
    pub(super) fn next_unit(&mut self) -> Result<Option<StreamItem<'_>>, String> {
        let begin = self.at;
        self.pass_empty();
        if begin < self.at {
            return Ok(Some(StreamItem::Nothing(begin..self.at)));
        }
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let mut unit = Unit { offset: self.offset(), ..Unit::default() };
        let mut kept = None;
        let place = self.next_command()?;
        if Framing::of(self.args(&place)) != Some(Framing::Multi) {
            return Ok(Some(StreamItem::Command(self.args(&place), place)));
        }
        while self.at < self.bytes.len() {
            let before = self.at;
            let place = self.next_command()?;
            if before < place.start {
                kept.get_or_insert_with(|| self.bytes[begin..before].to_vec());
            }
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(&self.bytes[place.clone()]);
            }
            let args = self.args(&place);
            match Framing::of(args) {
                None | Some(Framing::Multi | Framing::Select) => unit.commands.push(args.into()),
                Some(Framing::Discard) => {
                    return Ok(Some(StreamItem::Nothing(begin..self.at)));
                }
                Some(Framing::Exec) => {
                    unit.end = self.offset();
                    return Ok(Some(StreamItem::Transaction(unit, kept)));
                }
            }
        }
        Err(self.fault("a transaction that does not end"))
    }

    /// Passes over empty lines and arrays, which count and do nothing.
    fn pass_empty(&mut self) {
        while let Some(rest) = self.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            self.parser.reset();
            self.at += match rest[0] {
                b'\r' | b'\n' => 1,
                b'*' => match self.parser.advance(rest, &Limits::OF_PRIMARY) {
                    Ok(Progress::Empty { consumed }) => consumed,
                    _ => return,
                },
                _ => return,
            };
        }
    }

    /// Passes over the next command, which the parser then has.
    fn next_command(&mut self) -> Result<Range<usize>, String> {
        self.pass_empty();
        if self.at == self.bytes.len() {
            return Err(self.fault("a transaction that does not end"));
        }
        let rest = &self.bytes[self.at..];
        if rest[0] != b'*' {
            return Err(self.fault("a command that is not an array"));
        }
        self.parser.reset();
        let consumed = match self.parser.advance(rest, &Limits::OF_PRIMARY) {
            Ok(Progress::Complete { consumed }) => consumed,
            Ok(Progress::Empty { .. }) => return Err(self.fault("a command without a name")),
            Ok(Progress::Incomplete { .. }) => {
                return Err(self.fault("a command that does not end"));
            }
            Err(error) => return Err(self.fault(&error.to_string())),
        };
        let place = self.at..self.at + consumed;
        self.at = place.end;
        Ok(place)
    }

    /// The command that was passed over last, which lies there.
    fn args(&self, place: &Range<usize>) -> Args<'_> {
        self.parser.args(&self.bytes[place.clone()])
    }

    /// How far it is.
    pub(super) fn offset(&self) -> u64 {
        self.begin + self.at as u64
    }

    fn fault(&self, what: &str) -> String {
        format!("at offset {}: {what}", self.offset())
    }
}
