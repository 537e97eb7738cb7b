//! Bytes as they arrive to requests, in whichever of the protocols the client speaks.
//!
//! Invariants: the requests of a stream do not depend on how it is cut, but for a line so long that
//! nobody waits for the rest of it; nothing is allocated, so a
//! length that is only declared costs nothing; a parser that was copied before a request parses it
//! again in the same way.

use super::binary::{self, Reading};
use super::line::find_line_end;
use super::{Failure, Form, Operation, Refusal, Request, text};
use crate::args::LINE_END;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemLimits {
    /// The greatest length of a value.
    pub value: usize,
    /// Whether the client has still to log in: then a value that is too long is no value, and what
    /// is behind its line is the next request.
    pub is_strict: bool,
}

/// So many bytes without a line end are no line of a client, unless they ask for items.
const UNENDED_MAX: usize = 2048;

/// The greatest length of a line that is no list of keys.
const LINE_MAX: usize = 64 << 10;

/// The greatest length of a line of keys.
const KEYS_LINE_MAX: usize = 1 << 20;

/// Which protocols a connection takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// What its first byte says.
    #[default]
    Any,
    /// Text and meta commands.
    Text,
    /// Binary commands.
    Binary,
}

/// How far a request has come.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseStatus<'a> {
    /// At least so many more bytes are needed.
    Incomplete {
        /// The bytes still missing, as far as that is known.
        wanted: usize,
    },
    /// Bytes that belong to what was refused before: nothing to do and nothing to answer.
    Skipped {
        /// How many.
        consumed: usize,
    },
    /// A request.
    Complete {
        /// What is asked for.
        request: Request<'a>,
        /// The bytes it took.
        consumed: usize,
    },
    /// What comes is of no protocol that the connection takes, which closes without an answer.
    Broken,
}

/// Parses one request after the other. A few words, and a copy of them is a place to go back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parser {
    dialect: Dialect,
    /// The bytes to come that belong to what was refused.
    skipping: usize,
    /// No line ends before here.
    scanned: usize,
    /// The bytes that the request has at least.
    awaited: usize,
}

/// A request as its line or its header has it.
pub(super) struct Parsed<'a> {
    pub(super) request: Request<'a>,
    pub(super) behind: DataBlock,
}

/// What comes behind a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataBlock {
    /// The next request.
    Nothing,
    /// So many bytes of a value, and a line end.
    Value(usize),
    /// So many bytes of a value, and a line end, neither of which anyone will see.
    Refused(usize),
}

impl Parser {
    /// A parser before its first request.
    pub fn new(dialect: Dialect) -> Parser {
        Parser { dialect, ..Parser::default() }
    }

    /// Which protocols are taken: one, as soon as the client has sent a byte.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether what is there of a request says how much of it is to come.
    pub fn awaits_rest(&self) -> bool {
        self.awaited > 0 || self.skipping > 0
    }

    /// Parses on. `buf` begins at the first byte that is not consumed, and must hold what it held
    /// when the request was last found incomplete, plus what came since.
    #[inline]
    pub fn advance<'a>(&mut self, buf: &'a [u8], limits: &ItemLimits) -> ParseStatus<'a> {
        if self.skipping > 0 {
            return self.skip(buf.len());
        }
        // Of a request that has not begun, the first byte.
        let awaited = self.awaited.max(1);
        if buf.len() < awaited {
            return ParseStatus::Incomplete { wanted: awaited - buf.len() };
        }
        if self.dialect == Dialect::Any {
            let is_binary = buf.first() == Some(&binary::REQUEST);
            self.dialect = if is_binary { Dialect::Binary } else { Dialect::Text };
        }
        match self.dialect {
            Dialect::Binary => self.advance_binary(buf, limits),
            Dialect::Any | Dialect::Text => self.advance_line(buf, limits),
        }
    }

    fn skip(&mut self, there: usize) -> ParseStatus<'static> {
        match there.min(self.skipping) {
            0 => ParseStatus::Incomplete { wanted: self.skipping },
            consumed => {
                self.skipping -= consumed;
                ParseStatus::Skipped { consumed }
            }
        }
    }

    #[inline]
    fn advance_line<'a>(&mut self, buf: &'a [u8], limits: &ItemLimits) -> ParseStatus<'a> {
        let found = find_line_end(buf, self.scanned);
        let end = found.unwrap_or(buf.len());
        if end > LINE_MAX && is_too_long(&buf[..end]) {
            return self.refuse_line(buf.len());
        }
        if found.is_none() {
            if end > UNENDED_MAX && !asks_for_items(buf) {
                return ParseStatus::Broken;
            }
            self.scanned = end;
            return ParseStatus::Incomplete { wanted: 1 };
        }
        let line = &buf[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if text::is_http(line) {
            return ParseStatus::Broken;
        }
        let Parsed { mut request, behind } = text::parse(line, limits);
        let start = end + 1;
        match behind {
            DataBlock::Nothing => self.complete(request, start),
            DataBlock::Refused(length) => {
                self.complete_refused(request, start, length.saturating_add(LINE_END.len()))
            }
            DataBlock::Value(length) => {
                let whole = start + length + LINE_END.len();
                if buf.len() < whole {
                    (self.scanned, self.awaited) = (end, whole);
                    return ParseStatus::Incomplete { wanted: whole - buf.len() };
                }
                let (value, end) = buf[start..whole].split_at(length);
                if end == LINE_END {
                    request.operation.set_value(value);
                } else {
                    request.operation = Operation::refuse(Failure::Client("bad data chunk"));
                }
                self.complete(request, whole)
            }
        }
    }

    #[cold]
    fn refuse_line(&mut self, length: usize) -> ParseStatus<'static> {
        let failure = Failure::Client("line too long");
        let refusal = Refusal { failure, removes: None, closes: true };
        let form = Form::Text { with_cas: false, quiet: false };
        self.complete(Request { operation: Operation::Refuse(refusal), form }, length)
    }

    #[inline]
    fn advance_binary<'a>(&mut self, buf: &'a [u8], limits: &ItemLimits) -> ParseStatus<'a> {
        if buf[0] != binary::REQUEST {
            return ParseStatus::Broken;
        }
        let Some(header) = binary::Header::of(buf) else {
            return self.await_packet(buf, binary::HEADER_LENGTH);
        };
        match header.reading(limits) {
            Reading::Whole(length) => match buf.get(binary::HEADER_LENGTH..length) {
                Some(body) => self.complete(header.request(body), length),
                None => self.await_packet(buf, length),
            },
            Reading::Head(length, failure) => match buf.get(binary::HEADER_LENGTH..length) {
                Some(head) => {
                    let rest = header.packet_length() - length;
                    self.complete_refused(header.refused(head, failure, false), length, rest)
                }
                None => self.await_packet(buf, length),
            },
            Reading::Never(failure) => {
                self.complete(header.refused(b"", failure, true), binary::HEADER_LENGTH)
            }
        }
    }

    fn await_packet(&mut self, buf: &[u8], length: usize) -> ParseStatus<'static> {
        self.awaited = length;
        ParseStatus::Incomplete { wanted: length - buf.len() }
    }

    #[inline]
    fn complete<'a>(&mut self, request: Request<'a>, consumed: usize) -> ParseStatus<'a> {
        (self.scanned, self.awaited) = (0, 0);
        ParseStatus::Complete { request, consumed }
    }

    /// The request is answered at once; what is left of it is skipped as it comes.
    #[cold]
    fn complete_refused<'a>(
        &mut self,
        request: Request<'a>,
        consumed: usize,
        skipping: usize,
    ) -> ParseStatus<'a> {
        self.skipping = skipping;
        self.complete(request, consumed)
    }
}

/// Whether a line is longer than anybody needs; many keys may be asked for at once.
#[cold]
fn is_too_long(line: &[u8]) -> bool {
    line.len() > if asks_for_items(line) { KEYS_LINE_MAX } else { LINE_MAX }
}

/// Whether a line is one of those that may name many keys.
#[cold]
fn asks_for_items(line: &[u8]) -> bool {
    [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|name| line.starts_with(name))
}
