//! Elements by what they say: ARGREP.
//!
//! Invariant: whatever the patterns, an element takes time in proportion to its bytes, times those
//! of a pattern at most.

use base::glob;
use base::regex::{Matcher, Regex, RegexError};
use base::substring::Needle;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, ArrayRef, INDEX_MAX};
use structs::members::Text;

use super::get::READ;
use super::scan::{items, reply_pair};
use super::{IndexRange, PASSED_NS, index, limit, reply_index};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Spec, at_least};
use crate::errors::SYNTAX;

/// Predicates of one command.
const PREDICATES_MAX: usize = 250;

/// Bytes of a regular expression.
const REGEX_MAX: usize = 2048;

const TOO_MANY_PREDICATES: Refusal = Refusal::error("ERR too many predicates, at most 250");
const REGEX_TOO_LONG: Refusal = Refusal::error("ERR invalid regular expression: too long");

pub(super) const ARGREP: DataCommand = Command {
    spec: Spec {
        name: "ARGREP",
        syntax: "key start:string end:string <EXACT string | MATCH string | GLOB pattern:string | \
                 RE pattern:string ...> [AND | OR | LIMIT limit:integer | WITHVALUES | NOCASE ...]",
        summary: "Searches array elements in a range using textual predicates.",
        complexity: "O(P * C) where P is the number of visited positions in touched slices and C \
                     is the cost of evaluating the predicates on one existing element.",
        arity: at_least(6),
        ..READ
    },
    subcommands: &[],
    run: argrep,
};

/// What is asked of each element.
enum Predicate<'a> {
    Exact(Text<'a>),
    SameLetters(&'a [u8]),
    Contains(Needle),
    Glob { pattern: &'a [u8], ignore_case: bool },
    Regex(Regex),
}

/// A command as it was read.
struct Grep<'a> {
    predicates: Vec<Predicate<'a>>,
    needs_all: bool,
    most: u64,
    with_values: bool,
}

impl<'a> Grep<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        let (mut needs_all, mut most, mut with_values) = (false, u64::MAX, false);
        let (mut asked, mut ignore_case) = (Vec::new(), false);
        let mut options = Options::from(args, 4);
        while let Some(word) = options.word() {
            if let Some(kind) = KINDS.iter().find(|(name, _)| is(word, name)) {
                asked.push((kind.1, options.value()?));
            } else if is(word, "AND") {
                needs_all = true;
            } else if is(word, "OR") {
                needs_all = false;
            } else if is(word, "LIMIT") {
                most = limit(options.value()?, 1)?;
            } else if is(word, "WITHVALUES") {
                with_values = true;
            } else if is(word, "NOCASE") {
                ignore_case = true;
            } else {
                return Err(SYNTAX);
            }
        }
        match asked.len() {
            0 => return Err(SYNTAX),
            1..=PREDICATES_MAX => {}
            _ => return Err(TOO_MANY_PREDICATES),
        }
        let predicates = asked.into_iter().map(|(make, pattern)| make(pattern, ignore_case));
        let predicates = predicates.collect::<Result<_, _>>()?;
        Ok(Self { predicates, needs_all, most, with_values })
    }

    fn finds(&self, text: Text<'_>, buffer: &mut Vec<u8>, matcher: &mut Matcher) -> bool {
        let mut holds = |predicate: &Predicate<'_>| predicate.holds(text, buffer, matcher);
        if self.needs_all {
            self.predicates.iter().all(&mut holds)
        } else {
            self.predicates.iter().any(&mut holds)
        }
    }

    /// What the search takes, in nanoseconds.
    fn cost_ns(&self, array: ArrayRef<'_>, count: u64) -> u64 {
        let bytes = array.memory() as u64 / array.count().max(1) * count;
        let each = count * PASSED_NS * (1 + self.predicates.len() as u64);
        let per_byte: u64 = self.predicates.iter().map(Predicate::byte_ns).sum();
        each.saturating_add(bytes.saturating_mul(per_byte))
    }
}

type Make = for<'a> fn(&'a [u8], bool) -> Result<Predicate<'a>, Refusal>;

const KINDS: [(&str, Make); 4] = [
    ("EXACT", |value, ignore_case| {
        Ok(match ignore_case {
            true => Predicate::SameLetters(value),
            false => Predicate::Exact(Text::Bytes(value)),
        })
    }),
    ("MATCH", |value, ignore_case| Ok(Predicate::Contains(Needle::new(value, ignore_case)))),
    ("GLOB", |pattern, ignore_case| Ok(Predicate::Glob { pattern, ignore_case })),
    ("RE", |pattern, ignore_case| {
        if pattern.len() > REGEX_MAX {
            return Err(REGEX_TOO_LONG);
        }
        let refused =
            |error: RegexError| Refusal::owned(format!("ERR invalid regular expression: {error}"));
        Regex::new(pattern, ignore_case).map(Predicate::Regex).map_err(refused)
    }),
];

impl Predicate<'_> {
    fn holds(&self, text: Text<'_>, buffer: &mut Vec<u8>, matcher: &mut Matcher) -> bool {
        match self {
            Self::Exact(value) => text == *value,
            Self::SameLetters(value) => {
                text.len() == value.len() && text.as_bytes(buffer).eq_ignore_ascii_case(value)
            }
            Self::Contains(needle) => needle.is_in(text.as_bytes(buffer)),
            Self::Glob { pattern, ignore_case } => {
                glob::matches(pattern, text.as_bytes(buffer), *ignore_case)
            }
            Self::Regex(regex) => regex.is_match(text.as_bytes(buffer), matcher),
        }
    }

    /// What a byte of an element takes, in nanoseconds.
    fn byte_ns(&self) -> u64 {
        match self {
            Self::Exact(_) | Self::SameLetters(_) => 1,
            Self::Contains(_) => 2,
            Self::Glob { .. } => 4,
            Self::Regex(regex) => 4 * regex.program_len() as u64,
        }
    }
}

fn argrep(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let bound = |argument: &[u8]| match argument {
        b"-" => Ok(0),
        b"+" => Ok(INDEX_MAX),
        argument => index(argument),
    };
    let indexes = IndexRange::new(bound(&args[2])?, bound(&args[3])?);
    let search = Grep::read(args)?;
    let Some(array) = tx.view::<Array>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    tx.charge(search.cost_ns(array, array.count_in(indexes.range.clone())))?;
    let (mut buffer, mut matcher) = (Vec::new(), Matcher::default());
    let (mark, mut found) = (reply.defer(), 0);
    for (index, text) in items(array, &indexes) {
        if search.finds(text, &mut buffer, &mut matcher) {
            match search.with_values {
                true => reply_pair(index, text, reply),
                false => reply_index(index, reply),
            }
            found += 1;
            if found as u64 == search.most {
                break;
            }
        }
    }
    reply.finish_array(mark, found);
    Ok(())
}
