//! Requests: arrays of bulk strings or inline lines, parsed as their bytes arrive.
//!
//! Invariants: a byte is looked at once however the stream is cut; the requests and errors of a
//! stream do not depend on the cuts; nothing is allocated for a length that is only declared.

use std::borrow::Cow;
use std::fmt;

use base::number::parse_i64;
use base::quote::split_arguments;

use crate::args::{Args, Span};

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The greatest length of one argument (`proto-max-bulk-len`).
    pub bulk: usize,
    /// The greatest number of arguments.
    pub arguments: usize,
    /// The greatest length of an inline request, and of any line that holds a length.
    pub inline: usize,
    /// Clients that must still authenticate get at most 10 arguments of 16 KB.
    pub authenticated: bool,
}

impl Limits {
    /// The default limits of a client that has not authenticated.
    pub const UNAUTHENTICATED: Limits = Limits {
        bulk: 512 << 20,
        arguments: i32::MAX as usize,
        inline: 64 << 10,
        authenticated: false,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { authenticated: true, ..Limits::UNAUTHENTICATED }
    }
}

const UNAUTHENTICATED_ARGUMENTS: usize = 10;
const UNAUTHENTICATED_BULK: usize = 16 << 10;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At least so many more bytes are needed.
    Incomplete {
        /// The bytes still missing, as far as that is known.
        wanted: usize,
    },
    /// A request without arguments: nothing to run and nothing to answer.
    Empty {
        /// The bytes it took.
        consumed: usize,
    },
    /// The arguments can be taken.
    Complete {
        /// The bytes it took.
        consumed: usize,
    },
}

/// Why a connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is no number, or too great.
    InvalidMultibulkLength,
    /// The number of arguments is too great before authentication.
    UnauthenticatedMultibulkLength,
    /// The line with the number of arguments does not end.
    TooBigMultibulkLine,
    /// An argument does not begin as a bulk string does.
    ExpectedBulk(u8),
    /// The length of an argument is no number, or too great.
    InvalidBulkLength,
    /// The length of an argument is too great before authentication.
    UnauthenticatedBulkLength,
    /// The line with the length of an argument does not end.
    TooBigBulkLine,
    /// A line or an argument does not end in CR LF.
    InvalidLineEnd,
    /// An inline request does not end.
    TooBigInline,
    /// The quotes of an inline request are not balanced.
    UnbalancedQuotes,
    /// A web browser talks to us: closed without an answer, so that no page learns anything.
    SecurityAttack,
}

impl ProtocolError {
    /// The text of the error, to be sent behind `-ERR ` (but for a security attack).
    pub fn message(&self) -> Cow<'static, [u8]> {
        let text = match self {
            ProtocolError::InvalidMultibulkLength => "Protocol error: invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => {
                "Protocol error: unauthenticated multibulk length"
            }
            ProtocolError::TooBigMultibulkLine => "Protocol error: too big mbulk count string",
            ProtocolError::ExpectedBulk(byte) => {
                let text = [b"Protocol error: expected '$', got '", &[*byte][..], b"'"];
                return text.concat().into();
            }
            ProtocolError::InvalidBulkLength => "Protocol error: invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => {
                "Protocol error: unauthenticated bulk length"
            }
            ProtocolError::TooBigBulkLine => "Protocol error: too big bulk count string",
            ProtocolError::InvalidLineEnd => "Protocol error: invalid CRLF in request",
            ProtocolError::TooBigInline => "Protocol error: too big inline request",
            ProtocolError::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
            ProtocolError::SecurityAttack => "possible SECURITY ATTACK: HTTP sent to this port",
        };
        text.as_bytes().into()
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.message()))
    }
}

impl std::error::Error for ProtocolError {}

/// Parses one request after the other. Idle, it is a few words without a heap block of note.
#[derive(Debug, Default)]
pub struct RequestParser {
    spans: Vec<Span>,
    /// The arguments of an inline request, unescaped: they do not lie in the caller's buffer.
    inline: Option<Box<[u8]>>,
    stage: Stage,
    /// Where the next line or argument begins.
    position: usize,
    /// No line end lies between `position` and here.
    scanned: usize,
    /// The arguments still to come.
    missing: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Start,
    Length,
    Argument {
        length: usize,
    },
}

/// A span list larger than this is not kept for the next request.
const KEPT_SPANS: usize = 256;

impl RequestParser {
    /// A parser before its first request.
    pub fn new() -> RequestParser {
        RequestParser::default()
    }

    /// Parses on. `buf` begins at the first byte of the request and must hold what it held at the
    /// last call, plus what came since. After anything but `Incomplete`, [`reset`](Self::reset).
    #[inline]
    pub fn advance(&mut self, buf: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        if self.stage == Stage::Start {
            match buf.first() {
                None => return Ok(Progress::Incomplete { wanted: 1 }),
                Some(b'*') => {}
                Some(_) => return self.advance_inline(buf, limits),
            }
            let Some(count) = self.read_count(buf, limits)? else {
                return Ok(Progress::Incomplete { wanted: 1 });
            };
            if count == 0 {
                return Ok(Progress::Empty { consumed: self.position });
            }
            self.missing = count;
            self.stage = Stage::Length;
        }
        self.advance_arguments(buf, limits)
    }

    /// The arguments of a complete request; `buf` as it was given to [`advance`](Self::advance).
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        Args::new(self.inline.as_deref().unwrap_or(buf), &self.spans)
    }

    /// Forgets the request, to begin the next one at the start of the buffer.
    #[inline]
    pub fn reset(&mut self) {
        self.spans.clear();
        if self.spans.capacity() > KEPT_SPANS {
            self.spans = Vec::new();
        }
        self.inline = None;
        self.stage = Stage::Start;
        self.position = 0;
        self.scanned = 0;
        self.missing = 0;
    }

    /// The bytes of memory held.
    pub fn memory(&self) -> usize {
        let inline = self.inline.as_ref().map_or(0, |bytes| bytes.len());
        self.spans.capacity() * size_of::<Span>() + inline
    }

    #[inline]
    fn advance_arguments(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Progress, ProtocolError> {
        while self.missing > 0 {
            let length = match self.stage {
                Stage::Argument { length } => length,
                Stage::Start | Stage::Length => match self.read_length(buf, limits)? {
                    Some(length) => length,
                    None => return Ok(Progress::Incomplete { wanted: 1 }),
                },
            };
            let end = self.position + length;
            match buf.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::InvalidLineEnd),
                None => {
                    self.stage = Stage::Argument { length };
                    return Ok(Progress::Incomplete { wanted: end + 2 - buf.len() });
                }
            }
            // A request beyond 4 GiB ends here.
            let span = Span::new(self.position..end).ok_or(ProtocolError::InvalidBulkLength)?;
            self.spans.push(span);
            self.stage = Stage::Length;
            self.position = end + 2;
            self.missing -= 1;
        }
        self.complete(buf, self.position)
    }

    /// The number in the first line; 0 also stands for negative ones.
    #[inline]
    fn read_count(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if let Some((count, taken)) = plain_number(&buf[1..])
            && count <= limits.arguments.min(UNAUTHENTICATED_ARGUMENTS)
        {
            self.position = 1 + taken;
            return Ok(Some(count));
        }
        let Some(line) = self.read_line(buf, limits.inline, ProtocolError::TooBigMultibulkLine)?
        else {
            return Ok(None);
        };
        let count = parse_i64(&line[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if count > limits.arguments {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGUMENTS && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        Ok(Some(count))
    }

    /// The length of the next argument.
    #[inline]
    fn read_length(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        match buf.get(self.position) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
        }
        if let Some((length, taken)) = plain_number(&buf[self.position + 1..])
            && length <= limits.bulk.min(UNAUTHENTICATED_BULK)
        {
            self.position += 1 + taken;
            return Ok(Some(length));
        }
        let Some(line) = self.read_line(buf, limits.inline, ProtocolError::TooBigBulkLine)? else {
            return Ok(None);
        };
        let length = parse_i64(&line[1..])
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= limits.bulk)
            .ok_or(ProtocolError::InvalidBulkLength)?;
        if length > UNAUTHENTICATED_BULK && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        Ok(Some(length))
    }

    /// The line at `position`, without its end, and steps behind it; `None` until it is whole.
    #[cold]
    fn read_line<'a>(
        &mut self,
        buf: &'a [u8],
        limit: usize,
        too_big: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let start = self.position;
        let from = self.scanned.max(start);
        let found = buf[from..].iter().position(|byte| *byte == b'\r');
        let end = found.map_or(buf.len(), |distance| from + distance);
        if end - start > limit {
            return Err(too_big);
        }
        self.scanned = end;
        match buf.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.position = end + 2;
                Ok(Some(&buf[start..end]))
            }
            Some(_) => Err(ProtocolError::InvalidLineEnd),
        }
    }

    #[cold]
    fn advance_inline(&mut self, buf: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let found = buf[self.scanned..].iter().position(|byte| *byte == b'\n');
        let end = found.map_or(buf.len(), |distance| self.scanned + distance);
        if end > limits.inline {
            return Err(ProtocolError::TooBigInline);
        }
        self.scanned = end;
        if found.is_none() {
            return Ok(Progress::Incomplete { wanted: 1 });
        }
        let line = &buf[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let arguments = split_arguments(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        if arguments.is_empty() {
            return Ok(Progress::Empty { consumed: end + 1 });
        }
        let mut bytes = Vec::with_capacity(line.len());
        for argument in &arguments {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            let span = Span::new(start..bytes.len()).ok_or(ProtocolError::TooBigInline)?;
            self.spans.push(span);
        }
        self.inline = Some(bytes.into());
        self.complete(buf, end + 1)
    }

    #[inline]
    fn complete(&self, buf: &[u8], consumed: usize) -> Result<Progress, ProtocolError> {
        if is_http(&self.args(buf)[0]) {
            return Err(ProtocolError::SecurityAttack);
        }
        Ok(Progress::Complete { consumed })
    }
}

/// The common form of a number: one to eight digits, no needless zero, CR LF; also the bytes it
/// took. All other forms, and pieces of numbers, are for the careful path.
#[inline]
fn plain_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0_usize;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let whole = index > 0 && *byte == b'\r' && bytes.get(index + 1) == Some(&b'\n');
            let canonical = index == 1 || bytes[0] != b'0';
            return (whole && canonical).then_some((number, index + 2));
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

/// Whether a command's name is what a browser that was tricked into talking to us sends.
#[inline]
fn is_http(name: &[u8]) -> bool {
    match name.len() {
        4 => name.eq_ignore_ascii_case(b"post"),
        5 => name.eq_ignore_ascii_case(b"host:"),
        _ => false,
    }
}
