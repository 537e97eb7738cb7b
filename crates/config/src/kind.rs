//! Kinds of values: how a directive's arguments become a value, and how the value is shown.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use base::number::{parse_i64, parse_u64};
use base::quote::quote;

/// Why an option refuses a value, in Redis' words.
pub type ValueError = Cow<'static, str>;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// As many numbers as its kind's width says.
    Numbers(Vec<i64>),
    /// Bytes, already normalised.
    Text(Arc<[u8]>),
}

/// How an option's value is written, stored and shown.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes` or `no`; one number, 1 or 0.
    Bool,
    /// One number of a range.
    Number {
        /// The lowest value.
        least: i64,
        /// The highest value.
        most: i64,
        /// How the number is written.
        unit: Unit,
        /// Whether a number below zero is out of range, or no number at all.
        signed: bool,
    },
    /// One word of a list; one number, its place in the list.
    Choice(&'static [&'static str]),
    /// One text, checked and normalised by a function.
    Text(TextCheck),
    /// A form of its own.
    Special(&'static Special),
}

/// Checks and normalises a text.
pub type TextCheck = fn(&[u8]) -> Result<Arc<[u8]>, ValueError>;

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// In decimal.
    Plain,
    /// In bytes, with an optional `k`, `kb`, `m`, `mb`, `g` or `gb`.
    Bytes,
    /// As `Bytes`; fewer than 16 KB are taken for 16 KB, as Redis does with its backlog.
    BacklogBytes,
    /// In bytes, or as a percentage of maxmemory, which is stored as a number below zero.
    BytesOrPercent,
    /// In bytes, or as a percentage of the machine's memory, stored as a number below zero.
    BytesOrShare,
    /// In octal.
    Octal,
    /// In decimal, times per second; taken for the nearest one from 1 to 500 as Redis does.
    Hertz,
}

/// The least size of the backlog.
const BACKLOG_MIN: i64 = 16 << 10;

/// A form that only one or two options have.
pub struct Special {
    /// Whether the value is a list of words, in a file several arguments.
    pub words: bool,
    /// How many numbers it stores; 0 says a text.
    pub width: usize,
    /// Reads a value.
    pub parse: fn(&[&[u8]], PreviousValue<'_>) -> Result<Value, ValueError>,
    /// Shows a value as CONFIG GET does.
    pub show: fn(&Value) -> Vec<u8>,
    /// Whether each of these texts takes a line of its own in a file.
    pub lines: fn(&Value) -> Vec<String>,
}

/// What a new value replaces, for forms that add to it.
#[derive(Clone, Copy)]
pub struct PreviousValue<'a> {
    /// The value so far.
    pub value: &'a Value,
    /// Whether an earlier line of the same configuration has set it.
    pub by_earlier_line: bool,
}

/// `yes` or `no`.
pub(super) const BOOL: Kind = Kind::Bool;

/// Any text.
pub(super) const TEXT: Kind = Kind::Text(|text| Ok(text.into()));

/// A number of a range.
pub(super) const fn integer(least: i64, most: i64) -> Kind {
    Kind::Number { least, most, unit: Unit::Plain, signed: true }
}

/// A number of a range above zero, refused in other words when below zero.
pub(super) const fn unsigned(least: i64, most: i64) -> Kind {
    Kind::Number { least, most, unit: Unit::Plain, signed: false }
}

/// A number of bytes.
pub(super) const fn memory(least: i64, most: i64) -> Kind {
    Kind::Number { least, most, unit: Unit::Bytes, signed: true }
}

/// A number of bytes, refused in other words when it does not fit 63 bits.
pub(super) const fn unsigned_memory(least: i64, most: i64) -> Kind {
    Kind::Number { least, most, unit: Unit::Bytes, signed: false }
}

impl Value {
    /// One number.
    pub fn number(number: i64) -> Value {
        Value::Numbers(vec![number])
    }

    /// A text.
    pub fn text(bytes: impl Into<Arc<[u8]>>) -> Value {
        Value::Text(bytes.into())
    }

    /// The numbers; none for a text.
    pub fn numbers(&self) -> &[i64] {
        match self {
            Value::Numbers(numbers) => numbers,
            Value::Text(_) => &[],
        }
    }

    /// The text; empty for numbers.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Numbers(_) => b"",
            Value::Text(text) => text,
        }
    }
}

impl Kind {
    /// How many numbers a value has; 0 says it is a text.
    pub const fn width(&self) -> usize {
        match self {
            Kind::Bool | Kind::Number { .. } | Kind::Choice(_) => 1,
            Kind::Text(_) => 0,
            Kind::Special(special) => special.width,
        }
    }

    /// The value that the arguments of a line in a file mean.
    pub fn parse(
        &self,
        arguments: &[Vec<u8>],
        standing: PreviousValue<'_>,
    ) -> Result<Value, ValueError> {
        match (self, arguments) {
            (Kind::Special(special), [_, _, ..] | []) if special.words => {
                let words: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                (special.parse)(&words, standing)
            }
            (_, [only]) => self.parse_one(only, standing),
            _ => Err(ValueError::Borrowed("wrong number of arguments")),
        }
    }

    /// The value that one argument means, as CONFIG SET has it: a list is cut at its blanks.
    pub fn parse_one(&self, text: &[u8], standing: PreviousValue<'_>) -> Result<Value, ValueError> {
        match self {
            Kind::Bool => parse_bool(text),
            Kind::Number { least, most, unit, signed } => parse_number(text, *unit, *signed)
                .and_then(|number| {
                    check_range(number, *least, *most, *unit)?;
                    Ok(Value::number(match unit {
                        Unit::Hertz => number.clamp(1, 500),
                        Unit::BacklogBytes => number.max(BACKLOG_MIN),
                        _ => number,
                    }))
                }),
            Kind::Choice(names) => parse_choice(text, names).map(Value::number),
            Kind::Text(check) => check(text).map(Value::Text),
            Kind::Special(special) if special.words && text.is_empty() => {
                (special.parse)(&[], standing)
            }
            Kind::Special(special) if special.words => {
                let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
                (special.parse)(&words, standing)
            }
            Kind::Special(special) => (special.parse)(&[text], standing),
        }
    }

    /// The value as CONFIG GET shows it.
    pub fn show(&self, value: &Value) -> Vec<u8> {
        let number = value.numbers().first().copied().unwrap_or_default();
        match self {
            Kind::Bool => (if number == 0 { "no" } else { "yes" }).into(),
            Kind::Number { unit: Unit::Octal, .. } => format!("{number:o}").into(),
            Kind::Number { unit: Unit::BytesOrPercent | Unit::BytesOrShare, .. } if number < 0 => {
                format!("{}%", number.unsigned_abs()).into()
            }
            Kind::Number { .. } => number.to_string().into(),
            Kind::Choice(names) => usize::try_from(number)
                .ok()
                .and_then(|place| names.get(place))
                .copied()
                .unwrap_or_default()
                .into(),
            Kind::Text(_) => value.bytes().into(),
            Kind::Special(special) => (special.show)(value),
        }
    }

    /// What follows the option's name in a file: one text per line that the value takes.
    pub fn lines(&self, value: &Value) -> Vec<String> {
        match self {
            Kind::Text(_) => vec![quote(value.bytes())],
            Kind::Number {
                unit: Unit::Bytes | Unit::BacklogBytes | Unit::BytesOrPercent | Unit::BytesOrShare,
                ..
            } => value.numbers().iter().map(|number| file_bytes(*number)).collect(),
            Kind::Special(special) => (special.lines)(value),
            _ => vec![String::from_utf8_lossy(&self.show(value)).into_owned()],
        }
    }
}

/// The place of `text` in `names`, in any case.
pub(super) fn parse_choice(text: &[u8], names: &[&str]) -> Result<i64, ValueError> {
    (0..)
        .zip(names)
        .find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(text))
        .map(|(place, _)| place)
        .ok_or_else(|| {
            format!("argument(s) must be one of the following: {}", names.join(", ")).into()
        })
}

/// A number of bytes with its optional unit; the number may exceed 63 bits.
pub fn parse_bytes(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1000 * 1000,
        b"mb" => 1 << 20,
        b"g" => 1000 * 1000 * 1000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    // No number is 0, as Redis has it; one that does not fit saturates, for its range to refuse.
    let number = match std::str::from_utf8(number).ok()? {
        "" if unit.is_empty() => 0,
        "" => return None,
        digits => digits.parse::<u64>().unwrap_or(u64::MAX),
    };
    Some(number.saturating_mul(factor))
}

fn parse_bool(text: &[u8]) -> Result<Value, ValueError> {
    match parse_choice(text, &["no", "yes"]) {
        Ok(place) => Ok(Value::number(place)),
        Err(_) => Err(ValueError::Borrowed("argument must be 'yes' or 'no'")),
    }
}

fn parse_number(text: &[u8], unit: Unit, signed: bool) -> Result<i64, ValueError> {
    let number = match unit {
        Unit::Plain | Unit::Hertz => {
            parse_i64(text).ok_or("argument couldn't be parsed into an integer")?
        }
        Unit::Octal => std::str::from_utf8(text)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| i64::from_str_radix(text, 8).ok())
            .ok_or("argument couldn't be parsed as an octal number")?,
        Unit::BytesOrShare if text.ends_with(b"%") => return parse_share(text),
        Unit::Bytes | Unit::BacklogBytes | Unit::BytesOrShare => {
            i64::try_from(parse_bytes(text).ok_or("argument must be a memory value")?)
                // Only to be refused by the range.
                .unwrap_or(-1)
        }
        Unit::BytesOrPercent => return parse_bytes_or_percent(text),
    };
    if number < 0 && !signed {
        return Err(ValueError::Borrowed("argument must be greater or equal to 0"));
    }
    Ok(number)
}

fn parse_bytes_or_percent(text: &[u8]) -> Result<i64, ValueError> {
    const NEITHER: ValueError = ValueError::Borrowed("argument must be a memory or percent value");
    let Some(percent) = text.strip_suffix(b"%") else {
        return Ok(i64::try_from(parse_bytes(text).ok_or(NEITHER)?).unwrap_or(i64::MAX));
    };
    match parse_u64(percent) {
        Some(percent @ 0..=100) => Ok(-i64::try_from(percent).expect("at most 100")),
        Some(_) => Err(ValueError::Borrowed("percentage argument must be less or equal to 100")),
        None => Err(NEITHER),
    }
}

/// A percentage of something that is there: none of it would be no limit at all.
fn parse_share(text: &[u8]) -> Result<i64, ValueError> {
    match text.strip_suffix(b"%").and_then(parse_u64) {
        Some(percent @ 1..=100) => Ok(-i64::try_from(percent).expect("at most 100")),
        Some(_) => Err(ValueError::Borrowed("percentage argument must be between 1 and 100")),
        None => Err(ValueError::Borrowed("argument must be a memory value")),
    }
}

fn check_range(number: i64, least: i64, most: i64, unit: Unit) -> Result<(), ValueError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    let mut fault = String::from("argument must be between ");
    match unit {
        Unit::Octal => write!(fault, "{least:o} and {most:o}"),
        _ => write!(fault, "{least} and {most}"),
    }
    .expect("writing to a String cannot fail");
    Err((fault + " inclusive").into())
}

/// The shortest exact way to write a number of bytes.
fn file_bytes(number: i64) -> String {
    let units = [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")];
    match units.iter().find(|(factor, _)| number >= *factor && number % factor == 0) {
        Some((factor, unit)) => format!("{}{unit}", number / factor),
        None if number < 0 => format!("{}%", number.unsigned_abs()),
        None => number.to_string(),
    }
}
