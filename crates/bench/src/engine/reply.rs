//! Replies as the generator needs them: where each ends and what it says, not what it holds.
//!
//! Invariants: a byte is looked at once, however the stream is cut; a string's body is skipped by
//! its length; nothing is allocated for a length that is only declared. `proto`'s parser builds
//! values and keeps the stream; a generator must be cheaper than the server it measures.

use base::number::{parse_f64, parse_i64, parse_u64};
use proto::value::ReplyError;

use crate::workload::ReplyKind;

/// Simple strings, errors and numbers end within this many bytes.
const LINE_LIMIT: usize = 1 << 16;

/// An empty string.
const EMPTY: &[u8] = b"$0\r\n\r\n";

/// How deep aggregates may lie in each other.
const DEPTH_LIMIT: usize = 64;

/// Reads replies from pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// The beginning of a line that the last piece cut off.
    line: Vec<u8>,
    /// The string whose body is under way.
    body: Option<Body>,
    /// The aggregates begun and not complete, outermost first.
    open: Vec<Aggregate>,
    /// Whether `text` gets the values of strings, or those of errors only.
    keeps_values: bool,
    text: Vec<u8>,
    reply: Reply,
}

/// What one reply said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    /// What the reply is.
    pub(super) nature: Nature,
    /// Elements of an array that are values.
    pub(super) hits: u32,
    /// Elements of an array that are null.
    pub(super) misses: u32,
    /// Its length, that of push messages and attributes before it included.
    pub(super) bytes: u64,
}

impl Reply {
    /// The same with an empty part of a string taken for the null that it stands for.
    #[inline]
    pub(super) fn as_answer_to(&self, kind: ReplyKind) -> Self {
        let is_empty = self.nature == Nature::Value && self.bytes == EMPTY.len() as u64;
        match kind {
            ReplyKind::ReadPart if is_empty => Self { nature: Nature::Null, ..*self },
            _ => *self,
        }
    }
}

/// The three things that a reply can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Nature {
    /// A value of any type.
    #[default]
    Value,
    /// The null of either protocol.
    Null,
    /// An error; [`Scanner::text`] holds it.
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    /// Bytes that are missing, its CR LF included.
    missing: u64,
    nature: Nature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregation {
    /// Array, map or set.
    Value,
    /// Describes what follows it.
    Attribute,
    /// Answers no request.
    Push,
}

#[derive(Debug)]
struct Aggregate {
    kind: Aggregation,
    missing: u64,
}

impl Scanner {
    /// A scanner before the first reply. With `keeps_values` the top-level strings are copied, so
    /// that [`Scanner::text`] gives them.
    pub(super) fn new(keeps_values: bool) -> Self {
        Self { keeps_values, ..Self::default() }
    }

    /// Forgets what was begun: the stream is another one.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.keeps_values);
    }

    /// The string or error that the last reply was.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes one reply off the front of `input`; takes all of it and gives `None` while the reply
    /// is incomplete. After an error the stream cannot be understood.
    #[inline]
    pub(super) fn scan(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        let length = input.len();
        let complete = self.scan_reply(input);
        self.reply.bytes += (length - input.len()) as u64;
        match complete? {
            None => Ok(None),
            Some(nature) => Ok(Some(Reply { nature, ..std::mem::take(&mut self.reply) })),
        }
    }

    fn scan_reply(&mut self, input: &mut &[u8]) -> Result<Option<Nature>, ReplyError> {
        while !input.is_empty() {
            let element = match self.body {
                Some(body) => self.take_body(body, input)?,
                None => self.take_line(input)?,
            };
            let Some(nature) = element else { continue };
            if let Some(nature) = self.settle(nature) {
                return Ok(Some(nature));
            }
        }
        Ok(None)
    }

    /// Takes a line, or what there is of it: `Some` when the line is a whole element.
    #[inline]
    fn take_line(&mut self, input: &mut &[u8]) -> Result<Option<Nature>, ReplyError> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(input);
            *input = &[];
            return if self.line.len() > LINE_LIMIT {
                Err(ReplyError::LineTooLong)
            } else {
                Ok(None)
            };
        };
        let (line, rest) = input.split_at(end + 1);
        *input = rest;
        if self.line.len() + line.len() > LINE_LIMIT {
            return Err(ReplyError::LineTooLong);
        }
        if self.line.is_empty() {
            return self.read_line(line);
        }
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(line);
        let element = self.read_line(&whole);
        whole.clear();
        self.line = whole;
        element
    }

    fn read_line(&mut self, line: &[u8]) -> Result<Option<Nature>, ReplyError> {
        let [kind, text @ .., b'\r', b'\n'] = line else { return Err(ReplyError::LineEnd) };
        if self.open.is_empty() {
            self.text.clear();
        }
        match kind {
            // A pattern, since a comparison of slices is a call.
            b'$' | b'*' if matches!(text, [b'-', b'1']) => Ok(Some(Nature::Null)),
            b'$' => self.begin_string(text, Nature::Value),
            b'+' if text.contains(&b'\r') => Err(ReplyError::LineEnd),
            b'+' => Ok(Some(Nature::Value)),
            b'-' => {
                if self.open.is_empty() {
                    self.text.extend_from_slice(text);
                }
                Ok(Some(Nature::Error))
            }
            b':' => holds(parse_i64(text).is_some(), Nature::Value),
            b'*' | b'~' => self.begin(Aggregation::Value, text, 1),
            b'%' => self.begin(Aggregation::Value, text, 2),
            b'|' => self.begin(Aggregation::Attribute, text, 2),
            b'>' => self.begin(Aggregation::Push, text, 1),
            b'_' => holds(text.is_empty(), Nature::Null),
            b'#' => holds(matches!(text, b"t" | b"f"), Nature::Value),
            b',' => holds(is_double(text), Nature::Value),
            b'(' => holds(is_big_number(text), Nature::Value),
            b'=' => self.begin_string(text, Nature::Value),
            b'!' => self.begin_string(text, Nature::Error),
            other => Err(ReplyError::UnknownType(*other)),
        }
    }

    fn begin_string(&mut self, text: &[u8], nature: Nature) -> Result<Option<Nature>, ReplyError> {
        let missing = parse_u64(text).and_then(|length| length.checked_add(2));
        self.body = Some(Body { missing: missing.ok_or(ReplyError::Malformed)?, nature });
        Ok(None)
    }

    /// Takes a string's body, or what there is of it.
    #[inline]
    fn take_body(&mut self, body: Body, input: &mut &[u8]) -> Result<Option<Nature>, ReplyError> {
        let taken = usize::try_from(body.missing).unwrap_or(usize::MAX).min(input.len());
        let (piece, rest) = input.split_at(taken);
        *input = rest;
        let missing = body.missing - taken as u64;
        let content = match (missing, piece) {
            (0, [content @ .., b'\r', b'\n']) => content,
            (0, [b'\n']) => &[],
            (0, _) => return Err(ReplyError::LineEnd),
            (1, [content @ .., b'\r']) => content,
            (1, _) => return Err(ReplyError::LineEnd),
            (_, content) => content,
        };
        if self.open.is_empty() && (self.keeps_values || body.nature == Nature::Error) {
            self.text.extend_from_slice(content);
        }
        self.body = (missing > 0).then_some(Body { missing, ..body });
        Ok((missing == 0).then_some(body.nature))
    }

    fn begin(
        &mut self,
        kind: Aggregation,
        count: &[u8],
        each: u64,
    ) -> Result<Option<Nature>, ReplyError> {
        let count = parse_u64(count).ok_or(ReplyError::Malformed)?;
        let missing = count.checked_mul(each).ok_or(ReplyError::TooMany)?;
        if kind == Aggregation::Push && !self.open.is_empty() {
            return Err(ReplyError::Malformed);
        }
        if missing == 0 {
            return Ok((kind == Aggregation::Value).then_some(Nature::Value));
        }
        if self.open.len() == DEPTH_LIMIT {
            return Err(ReplyError::TooDeep);
        }
        self.open.push(Aggregate { kind, missing });
        Ok(None)
    }

    /// Counts a complete element in what it is part of: `Some` when it completes a reply.
    #[inline]
    fn settle(&mut self, mut nature: Nature) -> Option<Nature> {
        loop {
            let depth = self.open.len();
            let Some(aggregate) = self.open.last_mut() else { return Some(nature) };
            if depth == 1 && aggregate.kind == Aggregation::Value {
                match nature {
                    Nature::Null => self.reply.misses = self.reply.misses.saturating_add(1),
                    _ => self.reply.hits = self.reply.hits.saturating_add(1),
                }
            }
            aggregate.missing -= 1;
            if aggregate.missing > 0 {
                return None;
            }
            let kind = aggregate.kind;
            self.open.pop();
            if kind != Aggregation::Value {
                return None;
            }
            nature = Nature::Value;
        }
    }
}

fn holds(is_valid: bool, nature: Nature) -> Result<Option<Nature>, ReplyError> {
    if is_valid { Ok(Some(nature)) } else { Err(ReplyError::Malformed) }
}

fn is_double(text: &[u8]) -> bool {
    matches!(text, b"nan" | b"-nan") || parse_f64(text).is_some()
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests;
