//! Where the keys of a command stand, and what it does to them.
//!
//! Key specifications are those of Redis (documentation page on key specifications): a way to find
//! the first key, a way to find the others, and flags of access. Lock plan, ACL and COMMAND GETKEYS
//! all come from here.
//!
//! Invariant: extraction reads only arguments that exist; a request whose key counts lie is
//! refused, never guessed at.

use std::ops::Range;

use keyspace::Refusal;
use proto::Args;

use crate::arguments::is;
use crate::errors::INVALID_ARGUMENTS;

/// One group of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where the first key stands.
    pub begin: BeginSearch,
    /// Where the others stand.
    pub find: FindKeys,
    /// What happens to them.
    pub access: Access,
    /// What clients are told of that besides; mostly nothing.
    pub notes: &'static str,
}

/// Where the first key of a group stands, as the `begin_search` of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginSearch {
    /// At this index; the name is index 0.
    Index(usize),
    /// After this word, looked for from an index on (from the end if negative).
    Keyword(&'static str, i64),
    /// After the last of an option's words, of which clients are told nothing.
    Option(KeyOption),
    /// After this word, read as the command reads it.
    Behind(KeyWord),
    /// Behind this option, where the request has it.
    Tail(KeyTail),
    /// At the index that stands in the place of this option.
    InsteadOf(KeyTail),
    /// In no argument: the command makes names of what it reads, of which clients are told nothing.
    Undeclared,
}

/// An option whose value is a key; where it is given twice, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOption {
    /// The option's word.
    pub word: &'static str,
    /// Where the options begin.
    pub from: usize,
    /// The other options that take values, and how many each, so that no value is taken for a word.
    pub others: &'static [(&'static str, usize)],
}

/// A word behind which keys stand up to the end: the first that is no value of another option.
/// Clients are told less, that it is a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWord {
    /// The word.
    pub word: &'static str,
    /// Where clients are told to look for it.
    pub told_from: i64,
    /// Where the options begin.
    pub from: usize,
    /// The other options that take values, and how many each.
    pub others: &'static [(&'static str, usize)],
}

/// A word behind which all arguments are keys, in the place of the key that otherwise stands at an
/// index; where the word is given, that one is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTail {
    /// The word.
    pub word: KeyWord,
    /// Where the one key stands.
    pub single: usize,
}

/// Where the other keys of a group stand, as the `find_keys` of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindKeys {
    /// Up to `last` (relative to the first; negative counts from the end), every `step`-th; `limit`
    /// of 2 takes the first half, 3 the first third.
    Range {
        /// The last key.
        last: i64,
        /// Distance of two keys.
        step: usize,
        /// Divisor of the range; 0 or 1 for all.
        limit: usize,
    },
    /// A number of keys stands at `count` after the beginning, the first key at `first`.
    Count {
        /// Where the number stands.
        count: usize,
        /// Where the first key stands.
        first: usize,
        /// Distance of two keys.
        step: usize,
    },
}

/// What a command does to a key; names are those of COMMAND GETKEYSANDFLAGS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u16);

#[allow(missing_docs, reason = "the names are Redis' own, see the page on key specifications")]
impl Access {
    pub const RO: Self = Self(1);
    pub const RW: Self = Self(1 << 1);
    pub const OW: Self = Self(1 << 2);
    pub const RM: Self = Self(1 << 3);
    pub const ACCESS: Self = Self(1 << 4);
    pub const UPDATE: Self = Self(1 << 5);
    pub const INSERT: Self = Self(1 << 6);
    pub const DELETE: Self = Self(1 << 7);
    pub const NOT_KEY: Self = Self(1 << 8);
    pub const INCOMPLETE: Self = Self(1 << 9);
    pub const VARIABLE_FLAGS: Self = Self(1 << 10);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// As of a key that was found: how far all are is not for it to say.
    #[must_use]
    pub const fn of_found(self) -> Self {
        Self(self.0 & !Self::INCOMPLETE.0)
    }

    /// Names of the flags that are set, in Redis' order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::RO, "RO"),
            (Self::RW, "RW"),
            (Self::OW, "OW"),
            (Self::RM, "RM"),
            (Self::ACCESS, "access"),
            (Self::UPDATE, "update"),
            (Self::INSERT, "insert"),
            (Self::DELETE, "delete"),
            (Self::NOT_KEY, "not_key"),
            (Self::INCOMPLETE, "incomplete"),
            (Self::VARIABLE_FLAGS, "variable_flags"),
        ]
        .into_iter()
        .filter(move |&(flag, _)| self.has(flag))
        .map(|(_, name)| name)
    }
}

/// One key at index 1.
#[must_use]
pub const fn first(access: Access) -> KeySpec {
    at(1, access)
}

/// One key at an index.
#[must_use]
pub const fn at(index: usize, access: Access) -> KeySpec {
    range(index, 0, 1, access)
}

/// All arguments from an index on are keys.
#[must_use]
pub const fn all_from(index: usize, access: Access) -> KeySpec {
    range(index, -1, 1, access)
}

/// Keys from an index to `last` (relative to the first, or from the end if negative).
#[must_use]
pub const fn range(index: usize, last: i64, step: usize, access: Access) -> KeySpec {
    let find = FindKeys::Range { last, step, limit: 0 };
    KeySpec { begin: BeginSearch::Index(index), find, access, notes: "" }
}

/// A number of keys at an index, the keys right after it, `step` apart.
#[must_use]
pub const fn counted(index: usize, step: usize, access: Access) -> KeySpec {
    let find = FindKeys::Count { count: 0, first: 1, step };
    KeySpec { begin: BeginSearch::Index(index), find, access, notes: "" }
}

impl KeySpec {
    /// The same, with notes.
    #[must_use]
    pub const fn noted(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// Whether the group is one key at index 1, as with most commands.
    #[inline]
    #[must_use]
    pub const fn is_first(&self) -> bool {
        matches!(
            (self.begin, self.find),
            (BeginSearch::Index(1), FindKeys::Range { last: 0, step: 1, limit: 0 })
        )
    }

    /// Whether the group follows its number, which is at this index.
    #[inline]
    #[must_use]
    pub const fn is_counted_at(&self, index: usize) -> bool {
        let is_count = matches!(self.find, FindKeys::Count { count: 0, first: 1, step: 1 });
        is_count && matches!(self.begin, BeginSearch::Index(begin) if begin == index)
    }

    /// Calls `visit` with the index of every key of the group.
    #[inline]
    pub fn visit(&self, args: Args<'_>, mut visit: impl FnMut(usize)) -> Result<(), Refusal> {
        if let (BeginSearch::Keyword(word, from), FindKeys::Range { last: 0, .. }) =
            (self.begin, self.find)
        {
            visit_options(args, word, from, visit);
            return Ok(());
        }
        if let BeginSearch::Tail(tail) | BeginSearch::InsteadOf(tail) = self.begin {
            let keys = tail.keys(args)?;
            let is_single = keys.start == tail.single;
            if is_single == matches!(self.begin, BeginSearch::InsteadOf(_)) {
                keys.for_each(visit);
            }
            return Ok(());
        }
        let Some((first, last, step)) = self.bounds(args)? else { return Ok(()) };
        for index in (first..=last).step_by(step) {
            visit(index);
        }
        Ok(())
    }

    /// First and last index and the step; `None` if the group is absent from this request.
    #[inline]
    fn bounds(&self, args: Args<'_>) -> Result<Option<(usize, usize, usize)>, Refusal> {
        let begin = match self.begin {
            BeginSearch::Index(index) => index,
            BeginSearch::Keyword(word, from) => match find_keyword(args, word, from) {
                Some(index) => index + 1,
                None => return Ok(None),
            },
            BeginSearch::Option(option) => match option.find(args) {
                Some(index) => index,
                None => return Ok(None),
            },
            BeginSearch::Behind(word) => match word.find(args) {
                Some(index) => index + 1,
                None => return Ok(None),
            },
            BeginSearch::Tail(_) | BeginSearch::InsteadOf(_) | BeginSearch::Undeclared => {
                return Ok(None);
            }
        };
        match self.find {
            FindKeys::Range { last, step, limit } => {
                let end = if last >= 0 {
                    begin.saturating_add(last as usize)
                } else {
                    (args.len() + 1).saturating_sub(last.unsigned_abs() as usize).saturating_sub(1)
                };
                let end = if last < 0 && limit > 1 {
                    begin + (end + 1).saturating_sub(begin) / limit - 1
                } else {
                    end
                };
                if begin > end || end >= args.len() {
                    return Ok(None);
                }
                Ok(Some((begin, end, step)))
            }
            FindKeys::Count { count, first, step } => {
                let number = args.get(begin + count).and_then(base::number::parse_i64);
                let Some(number) = number.and_then(|number| usize::try_from(number).ok()) else {
                    return Err(INVALID_ARGUMENTS);
                };
                if number == 0 {
                    return Ok(None);
                }
                let first = begin + first;
                let last = number
                    .checked_sub(1)
                    .and_then(|others| others.checked_mul(step))
                    .and_then(|distance| first.checked_add(distance))
                    .filter(|&last| last < args.len());
                last.map(|last| Some((first, last, step))).ok_or(INVALID_ARGUMENTS)
            }
        }
    }
}

impl BeginSearch {
    /// As clients are told of it.
    #[must_use]
    pub const fn reported(self) -> Self {
        match self {
            Self::Behind(word) | Self::Tail(KeyTail { word, .. }) => {
                Self::Keyword(word.word, word.told_from)
            }
            Self::InsteadOf(tail) => Self::Index(tail.single),
            other => other,
        }
    }
}

impl KeyOption {
    /// Where the key stands, if the option is given.
    fn find(&self, args: Args<'_>) -> Option<usize> {
        let values = |word: &[u8]| {
            if is(word, self.word) { 1 } else { values_of(self.others, word) }
        };
        let given = options(args, self.from, values)
            .filter(|&index| is(&args[index], self.word) && index + 1 < args.len());
        given.last().map(|index| index + 1)
    }
}

impl KeyWord {
    /// Where the word stands, if it is given.
    pub fn find(&self, args: Args<'_>) -> Option<usize> {
        self.options(args).find(|&index| is(&args[index], self.word))
    }

    /// Whether an argument is the value of one of the other options.
    #[must_use]
    pub fn is_value(&self, args: Args<'_>, index: usize) -> bool {
        let before = self
            .options(args)
            .take_while(|&option| option < index && !is(&args[option], self.word));
        before.last().is_some_and(|it| index <= it + values_of(self.others, &args[it]))
    }

    fn options<'a>(&'a self, args: Args<'a>) -> impl Iterator<Item = usize> + 'a {
        options(args, self.from, |word| values_of(self.others, word))
    }
}

impl KeyTail {
    /// Where the keys stand.
    pub fn keys(&self, args: Args<'_>) -> Result<Range<usize>, Refusal> {
        let single = self.single..self.single + 1;
        match self.word.find(args).map(|word| word + 1..args.len()) {
            Some(keys) if keys.is_empty() => Ok(single),
            Some(keys) if args[self.single].is_empty() => Ok(keys),
            Some(_) => Err(INVALID_ARGUMENTS),
            None => Ok(single),
        }
    }
}

/// Where the options stand from an index on; `values` says how many arguments belong to a word.
fn options<'a>(
    args: Args<'a>,
    from: usize,
    values: impl Fn(&[u8]) -> usize + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let next = move |index: usize| Some(index + 1 + values(args.get(index)?));
    std::iter::successors(Some(from), move |&index| next(index))
        .take_while(move |&index| index < args.len())
}

/// How many arguments belong to the word of an option.
fn values_of(options: &[(&str, usize)], word: &[u8]) -> usize {
    options.iter().find(|(option, _)| is(word, option)).map_or(0, |(_, values)| *values)
}

/// An option that names a key may come several times, and its word may be that key's name:
/// whichever of them counts is visited.
fn visit_options(args: Args<'_>, word: &str, from: i64, mut visit: impl FnMut(usize)) {
    let from = find_keyword(args, word, from).unwrap_or(args.len());
    for index in from + 1..args.len() {
        if args[index - 1].eq_ignore_ascii_case(word.as_bytes()) {
            visit(index);
        }
    }
}

fn find_keyword(args: Args<'_>, word: &str, from: i64) -> Option<usize> {
    let matches = |index: &usize| args[*index].eq_ignore_ascii_case(word.as_bytes());
    if from >= 0 {
        (from as usize..args.len()).find(matches)
    } else {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(matches)
    }
}
