//! What HSCAN, SSCAN and ZSCAN have in common: which members a call looks for; and what all scans
//! have, what their patterns cost.
//!
//! Invariant: a call looks at one member at least, so a scan comes to its end.

use keyspace::{Refusal, Tx, WORKER_BUDGET_NS};
use proto::Args;

use crate::arguments::{Options, is};
use crate::errors::SYNTAX;

const DEFAULT_COUNT: usize = 10;

/// Members that are gathered at a time, however many a call looks at.
const STEP: usize = 1024;

/// What a scan over members looks for.
pub(crate) struct MemberFilter<'a> {
    pattern: Option<&'a [u8]>,
    /// About how many members a call looks at.
    pub(crate) count: usize,
    /// Whether members come without their values or scores.
    pub(crate) is_bare: bool,
}

impl<'a> MemberFilter<'a> {
    /// Reads the options behind key and cursor; `bare_word` is the one that asks for members alone.
    pub(crate) fn parse(args: Args<'a>, bare_word: Option<&str>) -> Result<Self, Refusal> {
        let mut filter = Self { pattern: None, count: DEFAULT_COUNT, is_bare: false };
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            if is(word, "MATCH") {
                filter.pattern = Some(options.value()?).filter(|pattern| *pattern != b"*");
            } else if is(word, "COUNT") {
                let count = usize::try_from(options.integer()?).ok();
                filter.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if bare_word.is_some_and(|bare| is(word, bare)) {
                filter.is_bare = true;
            } else if is(word, "NOVALUES") {
                return Err(Refusal::error("ERR NOVALUES option can only be used in HSCAN"));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(filter)
    }

    /// Leaves the worker if the pattern may take long.
    pub(crate) fn charge(&self, tx: &Tx) -> Result<(), Refusal> {
        charge_pattern(tx, self.pattern)
    }

    /// Goes over the members from a cursor on, some at a time: `step` is given a cursor and how
    /// many it is to look at, and tells the next cursor and how many it met. Where to go on from.
    pub(crate) fn go_over(
        &self,
        mut cursor: u64,
        mut step: impl FnMut(u64, usize) -> (u64, usize),
    ) -> u64 {
        let mut left = self.count;
        loop {
            let (next, met) = step(cursor, left.min(STEP));
            left = left.saturating_sub(met);
            if next == 0 || left == 0 {
                return next;
            }
            cursor = next;
        }
    }

    /// Whether a member is looked for.
    pub(crate) fn admits(&self, member: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| base::glob::matches(pattern, member, false))
    }
}

/// A longer pattern may take long with a single long name.
const LONG_PATTERN: usize = 512;

/// Leaves the worker if a pattern may take long.
pub(crate) fn charge_pattern(tx: &Tx, pattern: Option<&[u8]>) -> Result<(), Refusal> {
    let is_long = pattern.is_some_and(|pattern| pattern.len() > LONG_PATTERN);
    tx.charge(if is_long { WORKER_BUDGET_NS + 1 } else { 0 })
}
