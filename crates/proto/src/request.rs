//! Requests: arrays of bulk strings or inline lines, parsed as their bytes arrive.
//!
//! Invariants: a byte is looked at once however the stream is cut; the requests and errors of a
//! stream do not depend on the cuts; nothing is allocated for a length that is only declared.

use std::borrow::Cow;
use std::fmt;

use base::number::parse_i64;
use base::quote::split_arguments;

use crate::args::{Args, LINE_END, Span};

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

    /// Those of a primary's stream: a primary may allow longer arguments than we do.
    pub const OF_PRIMARY: Limits =
        Limits { bulk: u32::MAX as usize, authenticated: true, ..Limits::UNAUTHENTICATED };

    #[inline]
    fn most_arguments(&self) -> usize {
        let most = if self.authenticated { usize::MAX } else { UNAUTHENTICATED_ARGUMENTS };
        self.arguments.min(most)
    }

    #[inline]
    fn most_bulk(&self) -> usize {
        self.bulk.min(if self.authenticated { usize::MAX } else { UNAUTHENTICATED_BULK })
    }
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

    /// How many bytes the request takes up to the end of the argument that is incomplete.
    pub fn bytes_announced(&self) -> Option<usize> {
        match self.stage {
            Stage::Argument { length } => Some(self.position + length + LINE_END.len()),
            Stage::Start | Stage::Length => None,
        }
    }

    /// About how many bytes the request takes, if the arguments to come are as long as those that
    /// are there.
    pub fn bytes_expected(&self) -> usize {
        let (there, missing) = (self.spans.len().max(1), self.missing);
        let to_come = self.position as u128 * missing as u128 / there as u128;
        usize::try_from(to_come).map_or(usize::MAX, |bytes| bytes.saturating_add(self.position))
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
        if self.stage == Stage::Length {
            self.take_plain_arguments(buf, limits.most_bulk());
        }
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

    /// Takes arguments for as long as they are whole and come in the common form.
    #[inline]
    fn take_plain_arguments(&mut self, buf: &[u8], most_bulk: usize) {
        // The end of one line and the beginning of the next are looked at together.
        let Some(mut line_end) = self.position.checked_sub(LINE_END.len()) else { return };
        let mut taken = 0;
        while taken < self.missing {
            let Some((length, header)) = buf.get(line_end..).and_then(plain_bulk) else { break };
            let start = line_end + header;
            let end = start + length;
            let Some(span) = Span::new(start..end) else { break };
            if length > most_bulk || end > buf.len() {
                break;
            }
            self.spans.push(span);
            self.position = line_end + LINE_END.len();
            line_end = end;
            taken += 1;
        }
        if taken == 0 {
            return;
        }
        self.missing -= taken;
        if buf[line_end..].starts_with(LINE_END) {
            self.position = line_end + LINE_END.len();
        } else {
            // The last one is read again, with care; `position` is where it begins.
            self.spans.pop();
            self.missing += 1;
        }
    }

    /// The number in the first line; 0 also stands for negative ones.
    #[inline]
    fn read_count(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if let Some((count, taken)) = plain_number(&buf[1..])
            && count <= limits.most_arguments()
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
        if count > limits.most_arguments() {
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
            && length <= limits.most_bulk()
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
        if length > limits.most_bulk() {
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

    #[inline(never)]
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
        if !self.take_plain_words(line) {
            self.take_quoted_words(line)?;
        }
        if self.spans.is_empty() {
            return Ok(Progress::Empty { consumed: end + 1 });
        }
        self.complete(buf, end + 1)
    }

    /// Takes the words of an inline request as they lie; `false`, and nothing is taken, if there
    /// may be quotes among them, or bytes that are blanks in some places only.
    #[inline]
    fn take_plain_words(&mut self, line: &[u8]) -> bool {
        let mut start = 0;
        for (index, byte) in line.iter().chain([&b' ']).enumerate() {
            match byte {
                b' ' | b'\t' | b'\r' => {
                    if start < index {
                        // An inline request is far shorter than what a span can tell.
                        self.spans.extend(Span::new(start..index));
                    }
                    start = index + 1;
                }
                b'"' | b'\'' | 0 | 0x0B | 0x0C => {
                    self.spans.clear();
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    #[cold]
    fn take_quoted_words(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let arguments = split_arguments(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        let mut bytes = Vec::with_capacity(line.len());
        for argument in &arguments {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            let span = Span::new(start..bytes.len()).ok_or(ProtocolError::TooBigInline)?;
            self.spans.push(span);
        }
        self.inline = Some(bytes.into());
        Ok(())
    }

    #[inline]
    fn complete(&self, buf: &[u8], consumed: usize) -> Result<Progress, ProtocolError> {
        // Nearly all names have another length.
        if matches!(self.spans[0].len(), 4 | 5) && is_http(&self.args(buf)[0]) {
            return Err(ProtocolError::SecurityAttack);
        }
        Ok(Progress::Complete { consumed })
    }
}

/// The common form of a number: one to eight digits, no needless zero, CR LF; also the bytes it
/// took. All other forms, and pieces of numbers, are for the careful path.
#[inline]
fn plain_number(bytes: &[u8]) -> Option<(usize, usize)> {
    // Most are of one digit or two.
    match *bytes {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Some((usize::from(digit - b'0'), 3)),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((10 * usize::from(tens - b'0') + usize::from(ones - b'0'), 4))
        }
        _ => longer_number(bytes),
    }
}

/// The length of an argument in the common form, of up to three digits, where the end of the line
/// before it begins the bytes; also the bytes that both took. All are looked at as one word.
#[inline]
fn plain_bulk(bytes: &[u8]) -> Option<(usize, usize)> {
    const ONE: u64 = u64::from_le_bytes(*b"\r\n$\0\r\n\0\0");
    const TWO: u64 = u64::from_le_bytes(*b"\r\n$\0\0\r\n\0");
    const THREE: u64 = u64::from_le_bytes(*b"\r\n$\0\0\0\r\n");
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let digit = |index: u32| usize::from(((word >> (8 * index)) as u8).wrapping_sub(b'0'));
    let (first, second, third) = (digit(3), digit(4), digit(5));
    if word & 0x0000_FFFF_00FF_FFFF == ONE && first <= 9 {
        return Some((first, 6));
    }
    if !(1..=9).contains(&first) || second > 9 {
        return None;
    }
    if word & 0x00FF_FF00_00FF_FFFF == TWO {
        return Some((10 * first + second, 7));
    }
    let is_third = word & 0xFFFF_0000_00FF_FFFF == THREE && third <= 9;
    is_third.then(|| (100 * first + 10 * second + third, 8))
}

fn longer_number(bytes: &[u8]) -> Option<(usize, usize)> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_oneof};
    use proptest::sample::Index;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Limits, Progress, ProtocolError, RequestParser, split_arguments};
    use crate::args::encode_command;

    type Request = Vec<Vec<u8>>;

    /// Blanks and what looks like them, quotes, and what stands for itself.
    const INLINE_BYTES: &[u8] = b"ab \t\r\x0b\x0c\0'\"\\";

    /// All requests of a stream, an empty one without arguments, and how it ended: in an error,
    /// or with so many bytes of an incomplete request.
    #[derive(Debug, PartialEq)]
    struct Outcome {
        requests: Vec<Request>,
        end: Result<usize, ProtocolError>,
    }

    /// Parses a stream that arrives in pieces, as a session does.
    fn parse_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Outcome {
        let mut parser = RequestParser::new();
        let mut buffer: Vec<u8> = Vec::new();
        let mut requests = Vec::new();
        let mut received = 0;
        for piece in pieces {
            buffer.extend_from_slice(piece);
            received += piece.len();
            loop {
                let progress = parser.advance(&buffer, limits);
                assert!(parser.memory() <= (64 << 10) + 4 * received, "{}", parser.memory());
                let consumed = match progress {
                    Err(error) => return Outcome { requests, end: Err(error) },
                    Ok(Progress::Incomplete { wanted }) => {
                        assert!(wanted > 0);
                        break;
                    }
                    Ok(Progress::Empty { consumed }) => {
                        requests.push(Vec::new());
                        consumed
                    }
                    Ok(Progress::Complete { consumed }) => {
                        let args = parser.args(&buffer);
                        requests.push(args.iter().map(<[u8]>::to_vec).collect());
                        consumed
                    }
                };
                buffer.drain(..consumed);
                parser.reset();
            }
        }
        Outcome { requests, end: Ok(buffer.len()) }
    }

    /// Parses a stream whole and byte by byte, which must come to the same.
    fn parse(stream: &[u8], limits: &Limits) -> Outcome {
        let whole = parse_pieces(std::iter::once(stream), limits);
        assert_eq!(whole, parse_pieces(stream.chunks(1), limits));
        whole
    }

    fn requests(stream: &str) -> Vec<Vec<String>> {
        let outcome = parse(stream.as_bytes(), &Limits::default());
        assert_eq!(outcome.end, Ok(0), "{stream:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        outcome.requests.into_iter().map(|words| words.into_iter().map(text).collect()).collect()
    }

    fn error(stream: &str) -> ProtocolError {
        parse(stream.as_bytes(), &Limits::default()).end.unwrap_err()
    }

    #[test]
    fn whole_requests() {
        assert_eq!(requests("*2\r\n$3\r\nGET\r\n$0\r\n\r\n"), [["GET", ""]]);
        assert_eq!(requests("PING\r\n"), [["PING"]]);
        assert_eq!(requests("PING\n"), [["PING"]]);
        assert_eq!(
            requests("set k 'a b'\r\n*1\r\n$1\r\nx\r\n"),
            [vec!["set", "k", "a b"], vec!["x"]]
        );
        let long = "x".repeat(100_000);
        assert_eq!(requests(&format!("*1\r\n$100000\r\n{long}\r\n")), [[long]]);
        let many = format!("*20\r\n{}", "$1\r\na\r\n".repeat(20));
        assert_eq!(requests(&many), [["a"; 20]]);
    }

    /// Those of up to three digits are read another way than longer ones, and the last one of a
    /// stream another way than those before it.
    #[test]
    fn arguments_of_every_length() {
        for length in [0, 1, 9, 10, 99, 100, 101, 999, 1000, 1001, 65_536] {
            let long = "\r".repeat(length);
            let stream = format!("*3\r\n$1\r\na\r\n${length}\r\n{long}\r\n$2\r\nbc\r\n");
            assert_eq!(requests(&stream), [["a", &long, "bc"]], "{length}");
            assert_eq!(requests(&stream.repeat(3)).len(), 3, "{length}");
            let stream = format!("*2\r\n$1\r\na\r\n${length}\r\n{long}\r\n");
            assert_eq!(requests(&stream), [["a", &long]], "{length}");
        }
    }

    /// H02: what is wrong behind arguments that are as they should be.
    #[test]
    fn malformed_requests_behind_plain_arguments() {
        let table = [
            ("$1\r\nax\n$1\r\nb\r\n", "invalid CRLF in request"),
            ("$1\r\na\rx$1\r\nb\r\n", "invalid CRLF in request"),
            ("$1\r\na\r\n:1\r\nb\r\n", "expected '$', got ':'"),
            ("$1\r\na\r\n$1\r\nbx\n", "invalid CRLF in request"),
            ("$1\r\na\r\n$01\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$012\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$1a\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$10a\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$a\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$-1\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$536870913\r\nb\r\n", "invalid bulk length"),
            ("$1\r\na\r\n$1\rxb\r\n", "invalid CRLF in request"),
            ("$1\r\na\r\n$12\rxb\r\n", "invalid CRLF in request"),
            ("$1\r\na\r\n$123\rxb\r\n", "invalid CRLF in request"),
        ];
        for (arguments, expected) in table {
            let stream = format!("*2\r\n{arguments}");
            let message = format!("Protocol error: {expected}");
            assert_eq!(error(&stream).to_string(), message, "{stream:?}");
            let limits = Limits { bulk: 99, ..Limits::default() };
            let behind = format!("*1\r\n$99\r\n{}\r\n{stream}", "x".repeat(99));
            let outcome = parse(behind.as_bytes(), &limits);
            assert_eq!(outcome.end.unwrap_err().to_string(), message, "{behind:?}");
            assert_eq!(outcome.requests.len(), 1);
        }
        let limits = Limits { bulk: 99, ..Limits::default() };
        let beyond = format!("*2\r\n$1\r\na\r\n$100\r\n{}\r\n", "x".repeat(100));
        assert_eq!(parse(beyond.as_bytes(), &limits).end, Err(ProtocolError::InvalidBulkLength));
    }

    /// H05: after a request without arguments, nothing of it is left.
    #[test]
    fn empty_requests() {
        let none: [&str; 0] = [];
        for empty in ["*0\r\n", "*-1\r\n", "*-9223372036854775808\r\n", "\r\n", "\n", " \t\r\n"] {
            let stream = format!("{empty}*1\r\n$4\r\nPING\r\n{empty}{empty}PING\r\n{empty}");
            assert_eq!(
                requests(&stream),
                [&none[..], &["PING"], &none, &none, &["PING"], &none],
                "{empty:?}"
            );
        }
    }

    /// H02, H07: lengths, types and line ends that are not what they should be.
    #[test]
    fn malformed_requests() {
        let table = [
            ("*a\r\n", "invalid multibulk length"),
            ("*\r\n", "invalid multibulk length"),
            ("*+1\r\n", "invalid multibulk length"),
            ("*01\r\n", "invalid multibulk length"),
            ("*1 \r\n", "invalid multibulk length"),
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*4294967297\r\n", "invalid multibulk length"),
            ("*9223372036854775808\r\n", "invalid multibulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$\r\n", "invalid bulk length"),
            ("*1\r\n$03\r\n", "invalid bulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
            ("*1\r\n$4294967299\r\n", "invalid bulk length"),
            ("*1\r\n$18446744073709551615\r\n", "invalid bulk length"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
            ("*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
            ("*1\r\n%1\r\n", "expected '$', got '%'"),
            ("*1\r\n~1\r\n", "expected '$', got '~'"),
            ("*1\r\n>1\r\n", "expected '$', got '>'"),
            ("*1\r\n|1\r\n", "expected '$', got '|'"),
            ("*1\r\n,1\r\n", "expected '$', got ','"),
            ("*1\r\n(1\r\n", "expected '$', got '('"),
            ("*1\r\n\r\n", "expected '$', got '\r'"),
            ("*1\rx", "invalid CRLF in request"),
            ("*1\r\n$4\rPING\r\n", "invalid CRLF in request"),
            ("*1\r\n$4\r\nPINGx\n", "invalid CRLF in request"),
            ("*1\r\n$4\r\nPING\rx", "invalid CRLF in request"),
            ("*1\r\n$4\r\nPING\n\r", "invalid CRLF in request"),
            ("*1\r\n$3\r\nPING\r\n", "invalid CRLF in request"),
            ("get \"a\r\n", "unbalanced quotes in request"),
            ("get 'a'b\r\n", "unbalanced quotes in request"),
        ];
        for (stream, expected) in table {
            assert_eq!(
                error(stream).to_string(),
                format!("Protocol error: {expected}"),
                "{stream:?}"
            );
        }
        let byte = ProtocolError::ExpectedBulk(0xff);
        assert_eq!(&*byte.message(), b"Protocol error: expected '$', got '\xff'");
    }

    #[test]
    fn endless_lines() {
        let most = Limits::default().inline;
        let digits = "1".repeat(most + 1);
        assert_eq!(error(&format!("*{digits}")), ProtocolError::TooBigMultibulkLine);
        assert_eq!(error(&format!("*1\r\n${digits}")), ProtocolError::TooBigBulkLine);
        assert_eq!(error(&digits), ProtocolError::TooBigInline);
        assert_eq!(error(&format!("{digits}\r\n")), ProtocolError::TooBigInline);
        assert_eq!(requests(&format!("{}\n", &digits[1..])), [[&digits[1..]]]);
        // Lone LF ends no length, and lone CR no inline request.
        assert_eq!(parse(b"*1\n", &Limits::default()).end, Ok(3));
        assert_eq!(parse(b"PING\r", &Limits::default()).end, Ok(5));
    }

    /// H01: before authentication, ten arguments of 16 KB.
    #[test]
    fn unauthenticated_requests() {
        let limits = Limits::UNAUTHENTICATED;
        let end = |stream: &str| parse(stream.as_bytes(), &limits).end;
        let mut most = b"*10\r\n".to_vec();
        for _ in 0..10 {
            most.extend_from_slice(b"$16384\r\n");
            most.extend_from_slice(&[b'a'; 16384]);
            most.extend_from_slice(b"\r\n");
        }
        assert_eq!(parse(&most, &limits).requests.len(), 1);
        assert_eq!(end("*11\r\n"), Err(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(end("*1000000\r\n"), Err(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(end("*1\r\n$16385\r\n"), Err(ProtocolError::UnauthenticatedBulkLength));
        assert_eq!(end("*1\r\n$536870912\r\n"), Err(ProtocolError::UnauthenticatedBulkLength));
        assert_eq!(end("*1\r\n$536870913\r\n"), Err(ProtocolError::InvalidBulkLength));
        assert_eq!(end("*2147483648\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    }

    #[test]
    fn configured_limits() {
        let limits = Limits { bulk: 8, arguments: 2, inline: 16, authenticated: true };
        let end = |stream: &str| parse(stream.as_bytes(), &limits).end;
        assert_eq!(end("*3\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(end("*1\r\n$9\r\n"), Err(ProtocolError::InvalidBulkLength));
        assert_eq!(end("*2\r\n$1\r\na\r\n$8\r\n12345678\r\n"), Ok(0));
        assert_eq!(end("12345678901234567"), Err(ProtocolError::TooBigInline));
        // As configurable as in Redis; what does not fit in memory fails when it does not fit.
        let huge = Limits { bulk: usize::MAX, ..Limits::default() };
        assert_eq!(parse(b"*1\r\n$9223372036854775807\r\nabc", &huge).end, Ok(29));
    }

    /// H06: a browser is made to send us a form.
    #[test]
    fn http_requests() {
        for stream in ["POST / HTTP/1.1\r\n", "Host: x\r\n", "*1\r\n$4\r\npost\r\n"] {
            assert_eq!(error(stream), ProtocolError::SecurityAttack);
        }
        assert_eq!(requests("GET / HTTP/1.1\r\n"), [["GET", "/", "HTTP/1.1"]]);
    }

    /// H04: arguments are announced, and do not come.
    #[test]
    fn declared_lengths_cost_nothing() {
        let mut parser = RequestParser::new();
        let mut buffer = b"*2147483647\r\n$536870912\r\nabc".to_vec();
        let limits = Limits::default();
        let wanted = (512 << 20) + 2 - 3;
        assert_eq!(parser.advance(&buffer, &limits), Ok(Progress::Incomplete { wanted }));
        assert_eq!(parser.memory(), 0);
        buffer.extend_from_slice(b"def");
        assert_eq!(
            parser.advance(&buffer, &limits),
            Ok(Progress::Incomplete { wanted: wanted - 3 })
        );
        parser.reset();
        assert_eq!(
            parser.advance(b"*1000000\r\n", &limits),
            Ok(Progress::Incomplete { wanted: 1 })
        );
        assert_eq!(parser.memory(), 0);
    }

    #[test]
    fn many_arguments_are_forgotten() {
        let mut stream = Vec::new();
        encode_command(std::iter::repeat_n(&b""[..], 100_000), &mut stream);
        let mut parser = RequestParser::new();
        let progress = parser.advance(&stream, &Limits::default());
        assert_eq!(progress, Ok(Progress::Complete { consumed: stream.len() }));
        assert!(parser.memory() < 4 * stream.len());
        parser.reset();
        assert_eq!(parser.memory(), 0);
    }

    fn valid_request() -> impl Strategy<Value = Vec<u8>> {
        let command = prop::collection::vec(any::<Vec<u8>>(), 0..12).prop_map(|words| {
            let mut bytes = Vec::new();
            encode_command(words.iter().map(Vec::as_slice), &mut bytes);
            bytes
        });
        let inline =
            "[a-z ]{0,9}(\"[^\"\\\\\r\n\\x00]{0,9}\")?(\r)?\n".prop_map(String::into_bytes);
        prop_oneof![4 => command, 1 => inline]
    }

    /// Cuts a stream at some places.
    fn cut(stream: &[u8], cuts: &[Index]) -> Vec<Vec<u8>> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.sort_unstable();
        places.insert(0, 0);
        places.push(stream.len());
        places.windows(2).map(|pair| stream[pair[0]..pair[1]].to_vec()).collect()
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            stream in prop::collection::vec(valid_request(), 0..6),
            cuts in prop::collection::vec(any::<Index>(), 0..8),
        ) {
            let stream = stream.concat();
            let whole = parse(&stream, &Limits::default());
            let pieces = cut(&stream, &cuts);
            let split = parse_pieces(pieces.iter().map(Vec::as_slice), &Limits::default());
            prop_assert_eq!(&whole, &split);
            prop_assert_eq!(whole.end, Ok(0));
        }

        /// Words are taken as they lie where no quote can be among them, and mean the same.
        #[test]
        fn inline_words_are_those_of_the_careful_split(
            line in prop::collection::vec(prop::sample::select(INLINE_BYTES), 0..12)
        ) {
            let stream = [&line[..], b"\r\n"].concat();
            let expected = match split_arguments(&line) {
                Some(words) => Outcome { requests: vec![words], end: Ok(0) },
                None => Outcome { requests: Vec::new(), end: Err(ProtocolError::UnbalancedQuotes) },
            };
            prop_assert_eq!(parse(&stream, &Limits::default()), expected);
        }

        #[test]
        fn commands_arrive_as_they_were_sent(
            commands in prop::collection::vec(
                prop::collection::vec(any::<Vec<u8>>(), 1..20), 0..6),
        ) {
            let mut stream = Vec::new();
            for command in &commands {
                encode_command(command.iter().map(Vec::as_slice), &mut stream);
            }
            let outcome = parse(&stream, &Limits::default());
            prop_assert_eq!(outcome.requests, commands);
        }

        /// Also streams that are not valid at all.
        #[test]
        fn cuts_of_any_bytes_parse_as_the_whole(
            stream in "[*$0-3\r\na\"' -]{0,60}",
            cuts in prop::collection::vec(any::<Index>(), 0..8),
        ) {
            let whole = parse(stream.as_bytes(), &Limits::default());
            let pieces = cut(stream.as_bytes(), &cuts);
            let split = parse_pieces(pieces.iter().map(Vec::as_slice), &Limits::default());
            prop_assert_eq!(whole, split);
            prop_assert!(pieces.len() == cuts.len() + 1);
        }
    }
}
