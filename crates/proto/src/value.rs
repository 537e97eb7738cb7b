//! The client's side: replies parsed into values, for tests, tools and links to other servers.
//!
//! The server at the other end may be hostile: nesting is bounded, nothing is allocated for a
//! length that is only declared, and a byte is looked at once however the stream is cut.

use std::fmt;

use base::number::{parse_f64, parse_i64};

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A simple string.
    Simple(Vec<u8>),
    /// An error, simple or bulk.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// Nothing: the null of RESP3, or the null bulk string of RESP2.
    Null,
    /// The null array of RESP2.
    NullArray,
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order sent.
    Map(Vec<(Value, Value)>),
    /// A set, in the order sent.
    Set(Vec<Value>),
    /// A message that answers no request.
    Push(Vec<Value>),
    /// A double.
    Double(f64),
    /// A double as the server wrote it, for parsers that keep its text.
    DoubleText(Vec<u8>),
    /// A truth value.
    Boolean(bool),
    /// The digits of an integer of any size.
    BigNumber(Vec<u8>),
    /// Text with its format.
    Verbatim([u8; 3], Vec<u8>),
    /// A value and what was said about it.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// The text of a string of any kind.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes)
            | Value::Bulk(bytes)
            | Value::BigNumber(bytes)
            | Value::DoubleText(bytes)
            | Value::Verbatim(_, bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// What a server may send.
#[derive(Clone, Copy, Debug)]
pub struct ReplyLimits {
    /// The greatest length of a string.
    pub bulk: usize,
    /// The greatest number of elements of one reply, at all levels together.
    pub elements: usize,
    /// How deep aggregates may lie in each other.
    pub depth: usize,
}

impl Default for ReplyLimits {
    fn default() -> ReplyLimits {
        ReplyLimits { bulk: 512 << 20, elements: 64 << 20, depth: 32 }
    }
}

/// What is wrong with a stream of replies; nothing after it can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No type begins with this byte.
    UnknownType(u8),
    /// A number, a truth value or a format is malformed.
    Malformed,
    /// A line or a string does not end in CR LF.
    LineEnd,
    /// A line is too long.
    LineTooLong,
    /// A string is too long.
    TooLong,
    /// There are too many elements.
    TooMany,
    /// Aggregates lie too deep in each other.
    TooDeep,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => write!(formatter, "unknown reply type {byte:#04x}"),
            ReplyError::Malformed => formatter.write_str("malformed reply"),
            ReplyError::LineEnd => formatter.write_str("reply without its CR LF"),
            ReplyError::LineTooLong => formatter.write_str("reply line too long"),
            ReplyError::TooLong => formatter.write_str("reply string too long"),
            ReplyError::TooMany => formatter.write_str("reply with too many elements"),
            ReplyError::TooDeep => formatter.write_str("reply nested too deep"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Simple strings, errors and numbers end within this.
const LINE_LIMIT: usize = 1 << 20;

/// Parses replies from pieces of a stream.
#[derive(Debug, Default)]
pub struct ReplyParser {
    limits: ReplyLimits,
    keeps_double_text: bool,
    buffer: Vec<u8>,
    /// Where the next line or string begins.
    position: usize,
    /// No line end lies between `position` and here.
    scanned: usize,
    /// A string whose header is parsed.
    string: Option<(StringKind, usize)>,
    /// The aggregates begun and not complete, outermost first.
    open: Vec<Aggregate>,
    /// The elements declared so far in this reply.
    elements: usize,
}

#[derive(Clone, Copy, Debug)]
enum StringKind {
    Bulk,
    Error,
    Verbatim,
}

#[derive(Clone, Copy, Debug)]
enum AggregateKind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

#[derive(Debug)]
struct Aggregate {
    kind: AggregateKind,
    missing: usize,
    items: Vec<Value>,
}

impl ReplyParser {
    /// A parser before the first reply.
    pub fn new(limits: ReplyLimits) -> ReplyParser {
        ReplyParser { limits, ..ReplyParser::default() }
    }

    /// The same parser, but that a double is [`Value::DoubleText`].
    pub fn keeping_double_text(mut self) -> ReplyParser {
        self.keeps_double_text = true;
        self
    }

    /// Takes more of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        // What is parsed goes once it is half of the buffer, so that each byte moves at most once.
        if self.position * 2 >= self.buffer.len() {
            self.buffer.drain(..self.position);
            self.scanned = self.scanned.saturating_sub(self.position);
            self.position = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next reply, once it is complete. After an error the stream is lost.
    pub fn next_reply(&mut self) -> Result<Option<Value>, ReplyError> {
        loop {
            let Some(value) = self.parse_leaf()? else { return Ok(None) };
            let Some(mut value) = value else { continue };
            // A complete value may complete the aggregates around it.
            loop {
                let Some(aggregate) = self.open.last_mut() else {
                    self.elements = 0;
                    return Ok(Some(value));
                };
                aggregate.items.push(value);
                aggregate.missing -= 1;
                if aggregate.missing > 0 {
                    break;
                }
                let Some(complete) = self.open.pop() else { break };
                value = complete.finish()?;
            }
        }
    }

    /// The next value that is no aggregate, or an empty one; `Some(None)` when an aggregate was
    /// begun, `None` when bytes are missing.
    fn parse_leaf(&mut self) -> Result<Option<Option<Value>>, ReplyError> {
        if let Some((kind, length)) = self.string {
            return Ok(self.take_string(kind, length)?.map(Some));
        }
        let Some((kind, line)) = self.take_line()? else { return Ok(None) };
        let text = &self.buffer[line];
        let value = match kind {
            b'+' => Value::Simple(text.to_vec()),
            b'-' => Value::Error(text.to_vec()),
            b':' => Value::Integer(parse_i64(text).ok_or(ReplyError::Malformed)?),
            b'_' if text.is_empty() => Value::Null,
            b'#' if text == b"t" => Value::Boolean(true),
            b'#' if text == b"f" => Value::Boolean(false),
            b',' => match parse_double(text)? {
                _ if self.keeps_double_text => Value::DoubleText(text.to_vec()),
                number => Value::Double(number),
            },
            b'(' => Value::BigNumber(parse_big_number(text)?),
            b'$' if text == b"-1" => Value::Null,
            b'*' if text == b"-1" => Value::NullArray,
            b'_' | b'#' => return Err(ReplyError::Malformed),
            b'$' => return self.begin_string(StringKind::Bulk, parse_length(text)?),
            b'!' => return self.begin_string(StringKind::Error, parse_length(text)?),
            b'=' => return self.begin_string(StringKind::Verbatim, parse_length(text)?),
            b'*' => return self.begin(AggregateKind::Array, parse_length(text)?),
            b'%' => return self.begin(AggregateKind::Map, parse_length(text)?),
            b'~' => return self.begin(AggregateKind::Set, parse_length(text)?),
            b'>' => return self.begin(AggregateKind::Push, parse_length(text)?),
            b'|' => return self.begin(AggregateKind::Attribute, parse_length(text)?),
            other => return Err(ReplyError::UnknownType(other)),
        };
        Ok(Some(Some(value)))
    }

    /// The next line's first byte and where its rest lies.
    fn take_line(&mut self) -> Result<Option<(u8, std::ops::Range<usize>)>, ReplyError> {
        let start = self.position;
        let from = self.scanned.max(start);
        let found = self.buffer[from..].iter().position(|byte| *byte == b'\r');
        let end = found.map_or(self.buffer.len(), |distance| from + distance);
        if end - start > LINE_LIMIT {
            return Err(ReplyError::LineTooLong);
        }
        self.scanned = end;
        match self.buffer.get(end + 1) {
            None => Ok(None),
            Some(b'\n') if end > start => {
                self.position = end + 2;
                Ok(Some((self.buffer[start], start + 1..end)))
            }
            Some(_) => Err(ReplyError::LineEnd),
        }
    }

    fn begin_string(
        &mut self,
        kind: StringKind,
        length: usize,
    ) -> Result<Option<Option<Value>>, ReplyError> {
        if length > self.limits.bulk {
            return Err(ReplyError::TooLong);
        }
        self.string = Some((kind, length));
        Ok(Some(None))
    }

    fn take_string(
        &mut self,
        kind: StringKind,
        length: usize,
    ) -> Result<Option<Value>, ReplyError> {
        let end = self.position + length;
        match self.buffer.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(ReplyError::LineEnd),
        }
        let text = &self.buffer[self.position..end];
        let value = match kind {
            StringKind::Bulk => Value::Bulk(text.to_vec()),
            StringKind::Error => Value::Error(text.to_vec()),
            StringKind::Verbatim => match text.split_first_chunk::<3>() {
                Some((format, [b':', text @ ..])) => Value::Verbatim(*format, text.to_vec()),
                _ => return Err(ReplyError::Malformed),
            },
        };
        self.string = None;
        self.position = end + 2;
        Ok(Some(value))
    }

    fn begin(
        &mut self,
        kind: AggregateKind,
        count: usize,
    ) -> Result<Option<Option<Value>>, ReplyError> {
        let missing = match kind {
            AggregateKind::Map => count.checked_mul(2),
            AggregateKind::Attribute => count.checked_mul(2).and_then(|pairs| pairs.checked_add(1)),
            AggregateKind::Array | AggregateKind::Set | AggregateKind::Push => Some(count),
        };
        let missing = missing.ok_or(ReplyError::TooMany)?;
        self.elements = self.elements.saturating_add(missing);
        if self.elements > self.limits.elements {
            return Err(ReplyError::TooMany);
        }
        let aggregate = Aggregate { kind, missing, items: Vec::new() };
        if missing == 0 {
            return Ok(Some(Some(aggregate.finish()?)));
        }
        if self.open.len() == self.limits.depth {
            return Err(ReplyError::TooDeep);
        }
        self.open.push(aggregate);
        Ok(Some(None))
    }
}

impl Aggregate {
    fn finish(mut self) -> Result<Value, ReplyError> {
        Ok(match self.kind {
            AggregateKind::Array => Value::Array(self.items),
            AggregateKind::Set => Value::Set(self.items),
            AggregateKind::Push => Value::Push(self.items),
            AggregateKind::Map => Value::Map(pairs(self.items)),
            AggregateKind::Attribute => {
                let value = self.items.pop().ok_or(ReplyError::Malformed)?;
                Value::Attributed(pairs(self.items), Box::new(value))
            }
        })
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

fn parse_length(text: &[u8]) -> Result<usize, ReplyError> {
    parse_i64(text).and_then(|length| usize::try_from(length).ok()).ok_or(ReplyError::Malformed)
}

fn parse_double(text: &[u8]) -> Result<f64, ReplyError> {
    match text {
        b"nan" | b"-nan" => Ok(f64::NAN),
        text => parse_f64(text).ok_or(ReplyError::Malformed),
    }
}

fn parse_big_number(text: &[u8]) -> Result<Vec<u8>, ReplyError> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReplyError::Malformed);
    }
    Ok(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::{ReplyError, ReplyLimits, ReplyParser, Value};

    fn parse(bytes: &[u8]) -> Result<Option<Value>, ReplyError> {
        let mut parser = ReplyParser::new(ReplyLimits::default());
        parser.feed(bytes);
        parser.next_reply()
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn every_type() {
        for (text, expected) in [
            ("+OK\r\n", Value::Simple(b"OK".to_vec())),
            ("-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
            ("!6\r\nERR\r\nx\r\n", Value::Error(b"ERR\r\nx".to_vec())),
            (":-12\r\n", Value::Integer(-12)),
            ("$3\r\na\r\n\r\n", bulk("a\r\n")),
            ("$0\r\n\r\n", bulk("")),
            ("$-1\r\n", Value::Null),
            ("*-1\r\n", Value::NullArray),
            ("_\r\n", Value::Null),
            ("#t\r\n", Value::Boolean(true)),
            (",-1.5e3\r\n", Value::Double(-1500.0)),
            (",inf\r\n", Value::Double(f64::INFINITY)),
            ("(-123\r\n", Value::BigNumber(b"-123".to_vec())),
            ("=7\r\ntxt:abc\r\n", Value::Verbatim(*b"txt", b"abc".to_vec())),
            ("*0\r\n", Value::Array(vec![])),
            (
                "*3\r\n*1\r\n:1\r\n*0\r\n$1\r\nx\r\n",
                Value::Array(vec![
                    Value::Array(vec![Value::Integer(1)]),
                    Value::Array(vec![]),
                    bulk("x"),
                ]),
            ),
            (
                "%1\r\n+a\r\n:1\r\n",
                Value::Map(vec![(Value::Simple(b"a".to_vec()), Value::Integer(1))]),
            ),
            ("~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
            (">1\r\n:1\r\n", Value::Push(vec![Value::Integer(1)])),
            (
                "|1\r\n:1\r\n:2\r\n:3\r\n",
                Value::Attributed(
                    vec![(Value::Integer(1), Value::Integer(2))],
                    Box::new(Value::Integer(3)),
                ),
            ),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Some(expected)), "{text:?}");
            for end in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{:?}", &text[..end]);
            }
        }
        assert!(matches!(parse(b",nan\r\n"), Ok(Some(Value::Double(number))) if number.is_nan()));
    }

    #[test]
    fn the_text_of_doubles_is_kept_where_that_is_asked_for() {
        for text in ["0.10000000000000001", "-inf", "nan"] {
            let mut parser = ReplyParser::new(ReplyLimits::default()).keeping_double_text();
            parser.feed(format!(",{text}\r\n").as_bytes());
            let expected = Value::DoubleText(text.as_bytes().to_vec());
            assert_eq!(parser.next_reply(), Ok(Some(expected)));
        }
        let mut parser = ReplyParser::new(ReplyLimits::default()).keeping_double_text();
        parser.feed(b",x\r\n");
        assert_eq!(parser.next_reply(), Err(ReplyError::Malformed));
    }

    /// H13: a hostile server.
    #[test]
    fn replies_of_a_hostile_server_are_refused() {
        for (text, expected) in [
            ("x\r\n", ReplyError::UnknownType(b'x')),
            ("\r\n", ReplyError::LineEnd),
            ("+a\rb", ReplyError::LineEnd),
            ("$1\r\nabc", ReplyError::LineEnd),
            (":\r\n", ReplyError::Malformed),
            (":+1\r\n", ReplyError::Malformed),
            ("$-2\r\n", ReplyError::Malformed),
            ("*-2\r\n", ReplyError::Malformed),
            ("%-1\r\n", ReplyError::Malformed),
            ("#x\r\n", ReplyError::Malformed),
            ("_1\r\n", ReplyError::Malformed),
            (",x\r\n", ReplyError::Malformed),
            ("(1a\r\n", ReplyError::Malformed),
            ("=2\r\nab\r\n", ReplyError::Malformed),
            ("$536870913\r\n", ReplyError::TooLong),
            ("*9223372036854775807\r\n", ReplyError::TooMany),
            ("%9223372036854775807\r\n", ReplyError::TooMany),
            ("|9223372036854775807\r\n", ReplyError::TooMany),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(expected), "{text:?}");
        }
        assert_eq!(parse(&b"*1\r\n".repeat(32)), Ok(None));
        assert_eq!(parse(&b"*1\r\n".repeat(33)), Err(ReplyError::TooDeep));
        assert_eq!(parse(&b"*60000000\r\n".repeat(2)), Err(ReplyError::TooMany));
        assert_eq!(parse(&[b'+'; 2 << 20]), Err(ReplyError::LineTooLong));
    }

    #[test]
    fn a_stream_of_replies_in_pieces() {
        let mut stream = Vec::new();
        for number in 0..1000 {
            stream.extend_from_slice(format!("*2\r\n:{number}\r\n$2\r\nab\r\n").as_bytes());
        }
        for piece in [1, 7, 64, 5000, stream.len()] {
            let mut parser = ReplyParser::new(ReplyLimits::default());
            let mut next = 0;
            for bytes in stream.chunks(piece) {
                parser.feed(bytes);
                while let Some(reply) = parser.next_reply().unwrap() {
                    assert_eq!(reply, Value::Array(vec![Value::Integer(next), bulk("ab")]));
                    next += 1;
                }
            }
            assert_eq!(next, 1000);
            assert!(parser.buffer.capacity() <= 4 * piece.max(64));
        }
    }
}
