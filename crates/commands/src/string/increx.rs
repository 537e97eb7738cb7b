//! A counter within bounds that may expire: INCREX.
//!
//! Invariant: an increment that leaves the bounds changes nothing, neither value nor deadline,
//! unless SATURATE stops it at the bound; the reply says what was really added.

use base::long_double::LongDouble;
use base::number::{format_i64, parse_i64};
use keyspace::{EventClass, Lifetime, NewText, Refusal, Text, Tx};
use proto::{Args, Reply};

use super::counter::{COUNTER, COUNTER_FLAGS, NOT_FINITE, float_of, integer_of};
use super::expiry::Expiry;
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::change::{journal_set, remove};
use crate::declare::{Command, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::text::reply_long_double;

const ENX_ALONE: Refusal = Refusal::error("ERR ENX flag requires an expiration");
const BOUNDS_CROSSED: Refusal = Refusal::error("ERR LBOUND can't be greater than UBOUND");
const APPLIED_OVERFLOW: Refusal = Refusal::error("ERR applied increment would overflow");
const APPLIED_INFINITE: Refusal = Refusal::error("ERR applied increment would be Infinity");

pub(super) const INCREX: DataCommand = Command {
    spec: Spec {
        name: "INCREX",
        since: "8.8.0",
        group: Group::String,
        syntax: "key [BYFLOAT increment:double | BYINT increment] [LBOUND lowerbound] \
                 [UBOUND upperbound] [SATURATE] [EX seconds | PX milliseconds | \
                 EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
        summary: "Increments the numeric value of a key by a number and sets its expiration time. \
                  Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: at_least(2),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: increx,
};

fn increx(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let options = IncrexOptions::read(args)?;
    let step = options.step()?;
    let said = options.expiry.lifetime(tx.now(), "increx")?;
    let (value, applied) = step.take(tx.peek_text(key)?, options.saturate)?;
    reply.array(2);
    value.reply(reply);
    applied.unwrap_or(value.zero()).reply(reply);
    if applied.is_none() {
        return Ok(());
    }
    let has_deadline = tx.deadline(key)?.flatten().is_some();
    let lifetime = match options.expiry {
        Expiry::Unsaid | Expiry::Keep => Lifetime::Keep,
        Expiry::At(..) if options.only_new_expiry && has_deadline => Lifetime::Keep,
        Expiry::At(..) | Expiry::Persist => said,
    };
    match lifetime {
        Lifetime::Until(at) if tx.is_over_at(at) => {
            if tx.exists(key)? {
                remove(tx, key)?;
            }
        }
        _ => store(tx, key, value, lifetime, has_deadline)?,
    }
    Ok(())
}

fn store(
    tx: &mut Tx,
    key: &[u8],
    value: CounterNumber,
    lifetime: Lifetime,
    had_deadline: bool,
) -> Result<(), Refusal> {
    match value {
        CounterNumber::Integer(number) => {
            tx.put_text(key, NewText::Integer(number), lifetime)?;
            tx.event(EventClass::String, "incrby", key);
            journal_set(tx, key, format_i64(number, &mut [0; 20]), lifetime);
        }
        CounterNumber::Float(number) => {
            let digits = number.format_human();
            tx.put_text(key, NewText::from_bytes(digits.as_bytes(), false), lifetime)?;
            tx.event(EventClass::String, "incrbyfloat", key);
            journal_set(tx, key, digits.as_bytes(), lifetime);
        }
    }
    match lifetime {
        Lifetime::Until(_) => tx.event(EventClass::Generic, "expire", key),
        Lifetime::Forever if had_deadline => tx.event(EventClass::Generic, "persist", key),
        Lifetime::Forever | Lifetime::Keep => {}
    }
    Ok(())
}

/// The options as sent; unlike SET's, each may come once.
#[derive(Default)]
struct IncrexOptions<'a> {
    by_integer: Option<&'a [u8]>,
    by_float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturate: bool,
    only_new_expiry: bool,
    expiry: Expiry<'a>,
}

impl<'a> IncrexOptions<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        let mut read = Self::default();
        let mut options = Options::from(args, 2);
        while let Some(word) = options.word() {
            let seen = if is(word, "BYINT") {
                read.by_integer.replace(options.value()?).is_some()
            } else if is(word, "BYFLOAT") {
                read.by_float.replace(options.value()?).is_some()
            } else if is(word, "LBOUND") {
                read.lower.replace(options.value()?).is_some()
            } else if is(word, "UBOUND") {
                read.upper.replace(options.value()?).is_some()
            } else if is(word, "SATURATE") {
                std::mem::replace(&mut read.saturate, true)
            } else if is(word, "ENX") {
                std::mem::replace(&mut read.only_new_expiry, true)
            } else {
                let said = read.expiry != Expiry::Unsaid;
                if is(word, "PERSIST") {
                    read.expiry.merge(Expiry::Persist)?;
                } else if !read.expiry.take(word, &mut options)? {
                    return Err(SYNTAX);
                }
                said
            };
            if seen {
                return Err(SYNTAX);
            }
        }
        if read.by_integer.is_some() && read.by_float.is_some() {
            return Err(SYNTAX);
        }
        match read.expiry {
            Expiry::Persist if read.only_new_expiry => Err(SYNTAX),
            Expiry::Unsaid if read.only_new_expiry => Err(ENX_ALONE),
            _ => Ok(read),
        }
    }

    fn step(&self) -> Result<Step, Refusal> {
        match self.by_float {
            Some(by) => {
                let read = |text: &[u8], name| {
                    LongDouble::parse(text).ok_or_else(|| not_a(name, "a valid float"))
                };
                let increment = BoundedIncrement {
                    by: read(by, "Increment")?,
                    lower: self.lower.map(|text| read(text, "LBOUND")).transpose()?,
                    upper: self.upper.map(|text| read(text, "UBOUND")).transpose()?,
                };
                increment.checked().map(Step::Float)
            }
            None => {
                let read = |text: &[u8], name| {
                    parse_i64(text).ok_or_else(|| not_a(name, "an integer or out of range"))
                };
                let increment = BoundedIncrement {
                    by: self.by_integer.map_or(Ok(1), |text| read(text, "Increment"))?,
                    lower: self.lower.map(|text| read(text, "LBOUND")).transpose()?,
                    upper: self.upper.map(|text| read(text, "UBOUND")).transpose()?,
                };
                increment.checked().map(Step::Integer)
            }
        }
    }
}

fn not_a(name: &str, kind: &str) -> Refusal {
    Refusal::owned(format!("ERR {name} is not {kind}"))
}

/// How much to add, and between which bounds the sum must lie.
struct BoundedIncrement<T> {
    by: T,
    lower: Option<T>,
    upper: Option<T>,
}

impl<T: PartialOrd> BoundedIncrement<T> {
    fn checked(self) -> Result<Self, Refusal> {
        let crossed = matches!((&self.lower, &self.upper), (Some(low), Some(up)) if low > up);
        if crossed { Err(BOUNDS_CROSSED) } else { Ok(self) }
    }
}

enum Step {
    Integer(BoundedIncrement<i64>),
    Float(BoundedIncrement<LongDouble>),
}

/// A counter's value or increment.
#[derive(Clone, Copy)]
enum CounterNumber {
    Integer(i64),
    Float(LongDouble),
}

impl Step {
    /// The value that a counter has afterwards and what was added; nothing if the bounds forbid it.
    fn take(
        &self,
        text: Option<Text<'_>>,
        saturate: bool,
    ) -> Result<(CounterNumber, Option<CounterNumber>), Refusal> {
        match self {
            Self::Integer(increment) => {
                let old = integer_of(text)?;
                let (value, applied) = add_integers(old, increment, saturate)?.unzip();
                Ok((
                    CounterNumber::Integer(value.unwrap_or(old)),
                    applied.map(CounterNumber::Integer),
                ))
            }
            Self::Float(increment) => {
                let old = float_of(text)?;
                let (value, applied) = add_floats(old, increment, saturate)?.unzip();
                Ok((CounterNumber::Float(value.unwrap_or(old)), applied.map(CounterNumber::Float)))
            }
        }
    }
}

/// The sum and what was added; `None` where it is out of bounds and must not be.
fn add_integers(
    old: i64,
    increment: &BoundedIncrement<i64>,
    saturate: bool,
) -> Result<Option<(i64, i64)>, Refusal> {
    let lower = i128::from(increment.lower.unwrap_or(i64::MIN));
    let upper = i128::from(increment.upper.unwrap_or(i64::MAX));
    let sum = i128::from(old) + i128::from(increment.by);
    if (lower..=upper).contains(&sum) {
        return Ok(Some((sum as i64, increment.by)));
    }
    if !saturate {
        return Ok(None);
    }
    let value = if sum > upper { upper } else { lower };
    let applied = i64::try_from(value - i128::from(old)).map_err(|_| APPLIED_OVERFLOW)?;
    Ok(Some((value as i64, applied)))
}

/// As [`add_integers`]; an infinite sum is out of bounds whatever they are.
fn add_floats(
    old: LongDouble,
    increment: &BoundedIncrement<LongDouble>,
    saturate: bool,
) -> Result<Option<(LongDouble, LongDouble)>, Refusal> {
    let lower =
        increment.lower.filter(|bound| *bound > -LongDouble::MAX).unwrap_or(-LongDouble::MAX);
    let upper = increment.upper.filter(|bound| *bound < LongDouble::MAX).unwrap_or(LongDouble::MAX);
    let sum = old + increment.by;
    if sum.is_nan() {
        return Err(NOT_FINITE);
    }
    if lower <= sum && sum <= upper {
        return Ok(Some((sum, increment.by)));
    }
    if !saturate {
        return Ok(None);
    }
    let value = if sum > upper { upper } else { lower };
    let applied = value + -old;
    if applied.is_finite() { Ok(Some((value, applied))) } else { Err(APPLIED_INFINITE) }
}

impl CounterNumber {
    fn zero(self) -> Self {
        match self {
            Self::Integer(_) => Self::Integer(0),
            Self::Float(_) => Self::Float(LongDouble::from(0)),
        }
    }

    fn reply(self, reply: &mut Reply<'_>) {
        match self {
            Self::Integer(number) => reply.integer(number),
            Self::Float(number) => reply_long_double(number, reply),
        }
    }
}
