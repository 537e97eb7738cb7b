//! What a request asks for.
//!
//! Invariant: numbers of any size are taken for what they mean, never for more than there is.

use std::ops::Range;

use base::hash_slot::slot_of_pattern;
use keyspace::Refusal;
use proto::Args;

use super::pattern::Pattern;
use crate::arguments::{Options, is};
use crate::errors::SYNTAX;

/// A request.
pub(super) struct SortRequest<'a> {
    pub(super) order: SortBy<'a>,
    pub(super) falling: bool,
    /// Whether bytes are compared, not numbers.
    pub(super) by_text: bool,
    pub(super) limit: SortLimit,
    pub(super) gets: Vec<Pattern<'a>>,
    pub(super) destination: Option<&'a [u8]>,
    /// The patterns that name keys, or might.
    pub(super) patterns: Vec<&'a [u8]>,
}

/// What the elements are ordered by.
pub(super) enum SortBy<'a> {
    /// As they are found.
    Found,
    /// By themselves.
    Elements,
    /// By what the keys hold that a pattern makes of them.
    Pattern(Pattern<'a>),
}

/// How many come, after how many.
pub(super) struct SortLimit {
    offset: i64,
    count: i64,
}

impl<'a> SortRequest<'a> {
    /// Reads a request; in a cluster the keys that its patterns name are to be of this slot, as
    /// those of others may be elsewhere.
    pub(super) fn parse(
        args: Args<'a>,
        may_store: bool,
        slot: Option<u16>,
    ) -> Result<Self, Refusal> {
        let is_elsewhere =
            |pattern: &[u8]| slot.is_some_and(|slot| slot_of_pattern(pattern) != Some(slot));
        let mut request = Self {
            order: SortBy::Elements,
            falling: false,
            by_text: false,
            limit: SortLimit { offset: 0, count: -1 },
            gets: Vec::new(),
            destination: None,
            patterns: Vec::new(),
        };
        let mut options = Options::from(args, 2);
        while let Some(word) = options.word() {
            if is(word, "ASC") {
                request.falling = false;
            } else if is(word, "DESC") {
                request.falling = true;
            } else if is(word, "ALPHA") {
                request.by_text = true;
            } else if is(word, "LIMIT") && options.remaining() >= 2 {
                request.limit = SortLimit { offset: options.integer()?, count: options.integer()? };
            } else if may_store && is(word, "STORE") {
                request.destination = Some(options.value()?);
            } else if is(word, "BY") {
                let word = options.value()?;
                let pattern = Pattern::parse(word);
                request.order = match pattern {
                    Pattern::Element | Pattern::Nothing => SortBy::Found,
                    Pattern::Key { .. } if is_elsewhere(word) => return Err(BY_ELSEWHERE),
                    Pattern::Key { .. } => {
                        request.patterns.push(word);
                        SortBy::Pattern(pattern)
                    }
                };
            } else if is(word, "GET") {
                let word = options.value()?;
                let pattern = Pattern::parse(word);
                if !matches!(pattern, Pattern::Element) && is_elsewhere(word) {
                    return Err(GET_ELSEWHERE);
                }
                if !matches!(pattern, Pattern::Element) {
                    request.patterns.push(word);
                }
                request.gets.push(pattern);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(request)
    }

    /// Which option names keys by a pattern; GET counts as one even where it names none.
    pub(super) fn pattern_option(&self) -> Option<&'static str> {
        match self.order {
            SortBy::Pattern(_) => Some("BY"),
            SortBy::Found | SortBy::Elements if self.gets.is_empty() => None,
            SortBy::Found | SortBy::Elements => Some("GET"),
        }
    }

    /// Whether keys of other names are looked into.
    pub(super) fn reads_other_keys(&self) -> bool {
        let by_pattern = matches!(self.order, SortBy::Pattern(_));
        by_pattern || self.gets.iter().any(|get| matches!(get, Pattern::Key { .. }))
    }
}

const BY_ELSEWHERE: Refusal = Refusal::error(
    "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);
const GET_ELSEWHERE: Refusal = Refusal::error(
    "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);

impl SortLimit {
    /// Which of so many elements come.
    pub(super) fn range(&self, len: u64) -> Range<u64> {
        let start = u64::try_from(self.offset).unwrap_or(0).min(len);
        let end = match u64::try_from(self.count) {
            Ok(count) => start.saturating_add(count).min(len),
            Err(_) => len,
        };
        start..end
    }
}
