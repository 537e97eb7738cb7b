//! What direct scripts compute with: values of Lua, as far as they occur here.
//!
//! Invariants: a value is what Lua would have there; a text stays where it came from, or lies in
//! what the run has made.

use base::number::parse_i64;
use proto::Reply;

use crate::call::to_i64;
use crate::error::before_nul;

/// The most digits of a text that is read as a number: more may not be held exactly.
const DIGITS_MAX: usize = 15;

/// A value; `'a` is what the run was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Boolean(bool),
    /// Neither a NaN nor an infinity nor the negative zero.
    Number(f64),
    /// Of the script or its arguments.
    Lent(&'a [u8]),
    /// A text that the run has made.
    Made(Span),
    /// What is a table in Lua: the whole reply of a command, an array or a status.
    Table(Span),
}

/// A part of what a run has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) length: usize,
}

impl Span {
    pub(super) fn of(self, made: &[u8]) -> &[u8] {
        &made[self.start..self.start + self.length]
    }
}

impl Value<'_> {
    /// Whether the value holds as a condition.
    pub(super) fn holds(self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    /// Its bytes, if it is a text.
    pub(super) fn text<'b>(&'b self, made: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Value::Lent(bytes) => Some(bytes),
            Value::Made(span) => Some(span.of(made)),
            _ => None,
        }
    }
}

/// A number that is written and compared in one way only.
pub(super) fn number<'a>(number: f64) -> Option<Value<'a>> {
    let is_usual = number.is_finite() && (number != 0.0 || number.is_sign_positive());
    is_usual.then_some(Value::Number(number))
}

/// A text of digits and perhaps a fraction, as the number that Lua reads in it.
pub(super) fn decimal(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_decimal = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.first().is_some_and(u8::is_ascii_digit)
        && digits.len() <= DIGITS_MAX;
    if is_decimal { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// Reads whole replies of commands, one after the other, in the second version of the protocol.
pub(super) struct Replies<'a> {
    whole: &'a [u8],
    at: usize,
}

/// A reply, or what begins one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    Null,
    Integer(i64),
    Status(&'a [u8]),
    /// Where the bytes lie.
    Text(Span),
    /// So many replies come behind it.
    Array(usize),
}

impl<'a> Replies<'a> {
    /// Those from a place on.
    pub(super) fn of(whole: &'a [u8], at: usize) -> Replies<'a> {
        Replies { whole, at }
    }

    /// Where the next one begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next one; `None` if it is none of these.
    pub(super) fn next(&mut self) -> Option<Head<'a>> {
        let rest = self.whole.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b'\r')?;
        let (kind, text) = rest[..end].split_first()?;
        self.at += end + 2;
        Some(match kind {
            b':' => Head::Integer(parse_i64(text)?),
            b'+' => Head::Status(text),
            b'$' | b'*' if text == b"-1" => Head::Null,
            b'*' => Head::Array(usize::try_from(parse_i64(text)?).ok()?),
            b'$' => {
                let length = usize::try_from(parse_i64(text)?).ok()?;
                let start = self.at;
                self.at += length + 2;
                (self.at <= self.whole.len()).then_some(Head::Text(Span { start, length }))?
            }
            _ => return None,
        })
    }

    /// Goes past a whole one.
    pub(super) fn skip(&mut self) -> Option<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            if let Head::Array(count) = self.next()? {
                left = left.checked_add(count)?;
            }
        }
        Some(())
    }

    /// Writes a whole one as Lua would have it: an integer is a double there.
    pub(super) fn copy(&mut self, reply: &mut Reply<'_>) -> Option<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            match self.next()? {
                Head::Null => reply.null(),
                Head::Integer(number) => reply.integer(to_i64(number as f64)),
                Head::Status(text) => reply.simple(before_nul(text)),
                Head::Text(span) => reply.bulk(span.of(self.whole)),
                Head::Array(count) => {
                    reply.array(count);
                    left = left.checked_add(count)?;
                }
            }
        }
        Some(())
    }
}
