//! What a request asks for.
//!
//! Invariant: numbers of any size are taken for what they mean, never for more than there is.

use std::ops::Range;

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
    pub(super) fn parse(args: Args<'a>, may_store: bool) -> Result<Self, Refusal> {
        let mut request = Self {
            order: SortBy::Elements,
            falling: false,
            by_text: false,
            limit: SortLimit { offset: 0, count: -1 },
            gets: Vec::new(),
            destination: None,
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
                let pattern = Pattern::parse(options.value()?);
                request.order = match pattern {
                    Pattern::Element | Pattern::Nothing => SortBy::Found,
                    Pattern::Key { .. } => SortBy::Pattern(pattern),
                };
            } else if is(word, "GET") {
                request.gets.push(Pattern::parse(options.value()?));
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
