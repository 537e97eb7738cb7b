//! `user-quota` and `db-quota`: what a user, or a database, may take.
//!
//! ```text
//!  user-quota <user> requests|bytes-in|bytes-out|cpu-microseconds <amount>[/<seconds>]
//!  db-quota <number> requests|bytes-in|bytes-out|cpu-microseconds <amount>[/<seconds>]
//!  db-quota <number> memory <bytes>
//! ```
//!
//! Several rules may follow one another, on one line or on several; where no seconds are named, it
//! is one.
//!
//! Invariant: of one subject there is one rule for each limit at most, the last that was named.

use std::sync::Arc;

use base::number::parse_u64;
use base::quote::quote;

use crate::kind::{Kind, PreviousValue, Special, Value, ValueError, parse_bytes};
use crate::special::file_word;
use crate::store::{Config, Readable, Shape};

/// `user-quota`: rules of users.
pub(super) const OF_USERS: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: |words, standing| parse(words, standing, is_user, "a user has no memory to limit"),
    show: |value| value.bytes().into(),
    lines,
});

/// `db-quota`: rules of databases.
pub(super) const OF_DATABASES: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: |words, standing| parse(words, standing, is_database, ""),
    show: |value| value.bytes().into(),
    lines,
});

/// What a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    /// Requests.
    Requests,
    /// Bytes of requests.
    BytesIn,
    /// Bytes of replies.
    BytesOut,
    /// Microseconds that commands took.
    CpuMicroseconds,
    /// Bytes that the keys of a database take.
    Memory,
}

impl QuotaLimit {
    /// All of them, those of rates first.
    pub const ALL: [Self; 5] =
        [Self::Requests, Self::BytesIn, Self::BytesOut, Self::CpuMicroseconds, Self::Memory];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::BytesIn => "bytes-in",
            Self::BytesOut => "bytes-out",
            Self::CpuMicroseconds => "cpu-microseconds",
            Self::Memory => "memory",
        }
    }

    fn named(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name().as_bytes().eq_ignore_ascii_case(word))
    }

    fn is_in_bytes(self) -> bool {
        matches!(self, Self::BytesIn | Self::BytesOut | Self::Memory)
    }
}

/// What one subject may take of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    /// The name of a user, or the number of a database.
    pub subject: Box<[u8]>,
    /// What is limited.
    pub limit: QuotaLimit,
    /// How much of it there may be.
    pub amount: u64,
    /// In how many seconds; of no meaning for memory.
    pub seconds: u64,
}

/// The databases whose memory may be limited are those below this one.
pub const MEMORY_LIMITED_DATABASES: usize = 128;

/// A longer period says that someone has mistaken the unit.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// More cannot be counted down from.
const AMOUNT_MAX: u64 = 1 << 50;

fn parse(
    words: &[&[u8]],
    standing: PreviousValue<'_>,
    is_subject: fn(&[u8], QuotaLimit) -> Result<(), ValueError>,
    no_memory: &'static str,
) -> Result<Value, ValueError> {
    let mut rules = Vec::new();
    if standing.by_earlier_line {
        rules = read(standing.value.bytes());
    }
    let words = if matches!(words, [b""]) { &[] } else { words };
    let (triples, []) = words.as_chunks::<3>() else {
        return Err(ValueError::Borrowed("a quota is a name, a limit and an amount"));
    };
    for [subject, limit, amount] in triples {
        let limit = QuotaLimit::named(limit).ok_or(ValueError::Borrowed(
            "a quota limits requests, bytes-in, bytes-out, cpu-microseconds or memory",
        ))?;
        if limit == QuotaLimit::Memory && !no_memory.is_empty() {
            return Err(ValueError::Borrowed(no_memory));
        }
        is_subject(subject, limit)?;
        let (amount, seconds) = amount_of(amount, limit).ok_or(ValueError::Borrowed(
            "a quota's amount is a number above zero, as 1000 or 1000/60",
        ))?;
        let rule = QuotaRule { subject: (*subject).into(), limit, amount, seconds };
        match rules.iter_mut().find(|it| it.subject == rule.subject && it.limit == rule.limit) {
            Some(earlier) => *earlier = rule,
            None => rules.push(rule),
        }
    }
    let texts: Vec<Vec<u8>> = rules.iter().map(text_of).collect();
    Ok(Value::text(texts.join(&b' ')))
}

fn is_user(name: &[u8], _: QuotaLimit) -> Result<(), ValueError> {
    match name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        true => Err(ValueError::Borrowed("no user has such a name")),
        false => Ok(()),
    }
}

fn is_database(number: &[u8], limit: QuotaLimit) -> Result<(), ValueError> {
    let number = parse_u64(number).filter(|number| *number < 1 << 31);
    match number.ok_or(ValueError::Borrowed("no database has such a number"))? {
        number if limit == QuotaLimit::Memory && number >= MEMORY_LIMITED_DATABASES as u64 => {
            Err(ValueError::Borrowed("memory is limited of databases 0 to 127 only"))
        }
        _ => Ok(()),
    }
}

fn amount_of(word: &[u8], limit: QuotaLimit) -> Option<(u64, u64)> {
    let slash = word.iter().position(|byte| *byte == b'/');
    let (amount, seconds) = match slash {
        Some(_) if limit == QuotaLimit::Memory => return None,
        Some(slash) => (&word[..slash], parse_u64(&word[slash + 1..])?),
        None => (word, 1),
    };
    let amount = if limit.is_in_bytes() { parse_bytes(amount) } else { parse_u64(amount) }?;
    let fits = (1..=AMOUNT_MAX).contains(&amount) && (1..=SECONDS_MAX).contains(&seconds);
    fits.then_some((amount, seconds))
}

fn text_of(rule: &QuotaRule) -> Vec<u8> {
    let QuotaRule { subject, limit, amount, seconds } = rule;
    let seconds = if *seconds == 1 { String::new() } else { format!("/{seconds}") };
    [&**subject, format!(" {} {amount}{seconds}", limit.name()).as_bytes()].concat()
}

/// The rules in a text that was parsed.
fn read(text: &[u8]) -> Vec<QuotaRule> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let (triples, _) = words.as_chunks::<3>();
    let rule = |[subject, limit, amount]: &[&[u8]; 3]| {
        let limit = QuotaLimit::named(limit)?;
        let (amount, seconds) = amount_of(amount, limit)?;
        Some(QuotaRule { subject: (*subject).into(), limit, amount, seconds })
    };
    triples.iter().filter_map(rule).collect()
}

/// Each rule on a line of its own.
fn lines(value: &Value) -> Vec<String> {
    let rules = read(value.bytes());
    if rules.is_empty() {
        return vec![quote(b"")];
    }
    let line = |rule: &QuotaRule| {
        let text = text_of(rule);
        let rest = String::from_utf8_lossy(&text[rule.subject.len()..]).into_owned();
        file_word(&rule.subject) + &rest
    };
    rules.iter().map(line).collect()
}

impl Readable for Vec<QuotaRule> {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Vec<QuotaRule> {
        let text: Arc<[u8]> = Readable::read(config, cell);
        read(&text)
    }
}
