//! Giving members scores: ZADD, ZINCRBY.
//!
//! Invariant: what changes no score is no change.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::members::Text;
use structs::sorted_set::{SortedSet, SortedSetLimits};

use super::{SEARCH_COST_NS, limits};
use crate::DataCommand;
use crate::arguments::{float, is};
use crate::change::record_in_decimal;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const NOT_A_NUMBER: Refusal = Refusal::error("ERR resulting score is not a number (NaN)");

pub(super) const ZADD: DataCommand = Command {
    spec: Spec {
        name: "ZADD",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the \
            key if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the \
            sorted set.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        history: &[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zadd,
};

fn zadd(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (options, first) = AddOptions::parse(args);
    let pairs = args.skip(first);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    options.check(pairs.len() / 2)?;
    let key = &args[1];
    if options.increments {
        let (increment, member) = (float(pairs, 0)?, &pairs[1]);
        match increase(tx, key, increment, member, options.conditions)? {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
        record_in_decimal(tx, args, |index| index == first);
        return Ok(());
    }
    let mut scored = ScoredArgs::with_capacity(pairs.len() / 2);
    for index in (0..pairs.len()).step_by(2) {
        scored.push((float(pairs, index)?, &pairs[index + 1]));
    }
    let done = add(tx, key, &scored, options.conditions)?;
    record_in_decimal(tx, args, |index| index >= first && (index - first).is_multiple_of(2));
    let counted = if options.counts_changed { done.added + done.updated } else { done.added };
    reply.integer(counted as i64);
    Ok(())
}

pub(super) const ZINCRBY: DataCommand = Command {
    spec: Spec {
        name: "ZINCRBY",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key increment member",
        summary: "Increments the score of a member in a sorted set.",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zincrby,
};

fn zincrby(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let increment = float(args, 2)?;
    let score = increase(tx, &args[1], increment, &args[3], ScoreConditions::default())?;
    record_in_decimal(tx, args, |index| index == 2);
    reply.double(score.expect("without conditions nothing is left out"));
    Ok(())
}

/// The words before the pairs.
#[derive(Default)]
struct AddOptions {
    conditions: ScoreConditions,
    counts_changed: bool,
    increments: bool,
}

/// Which members are given their scores.
#[derive(Clone, Copy, Default)]
pub(crate) struct ScoreConditions {
    /// Only new ones.
    pub(crate) absent: bool,
    /// Only those that are there.
    pub(crate) present: bool,
    /// Of those that are there, only those whose scores rise.
    pub(crate) greater: bool,
    /// Of those that are there, only those whose scores fall.
    pub(crate) less: bool,
}

/// Scores and members as a request brings them.
pub(crate) type ScoredArgs<'a> = SmallVec<[(f64, &'a [u8]); 2]>;

/// What [`add`] did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Added {
    /// Members that are new.
    pub(crate) added: u64,
    /// Members that have another score now.
    pub(crate) updated: u64,
}

impl AddOptions {
    /// The options, and where the pairs begin.
    fn parse(args: Args<'_>) -> (Self, usize) {
        let mut options = Self::default();
        let mut next = 2;
        while let Some(word) = args.get(next) {
            let conditions = &mut options.conditions;
            match word {
                word if is(word, "NX") => conditions.absent = true,
                word if is(word, "XX") => conditions.present = true,
                word if is(word, "GT") => conditions.greater = true,
                word if is(word, "LT") => conditions.less = true,
                word if is(word, "CH") => options.counts_changed = true,
                word if is(word, "INCR") => options.increments = true,
                _ => break,
            }
            next += 1;
        }
        (options, next)
    }

    fn check(&self, pairs: usize) -> Result<(), Refusal> {
        let ScoreConditions { absent, present, greater, less } = self.conditions;
        if absent && present {
            return Err(Refusal::error(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if absent && (greater || less) || greater && less {
            return Err(Refusal::error(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increments && pairs > 1 {
            return Err(Refusal::error("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }
}

impl ScoreConditions {
    fn are_none(self) -> bool {
        !(self.absent || self.present || self.greater || self.less)
    }

    /// Whether a member that has the old score, if any, is given the new one.
    fn admit(self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.present,
            Some(old) => !self.absent && (!self.greater || new > old) && (!self.less || new < old),
        }
    }
}

/// Gives members scores, as one command.
pub(crate) fn add(
    tx: &mut Tx,
    key: &[u8],
    scored: &[(f64, &[u8])],
    conditions: ScoreConditions,
) -> Result<Added, Refusal> {
    tx.charge(scored.len() as u64 * SEARCH_COST_NS)?;
    let limits = limits(tx);
    let (done, _) = tx.edit(key, |set: &mut SortedSet| {
        if scored.len() > 1 {
            expect_members(set, scored, &limits);
        }
        let mut done = Added::default();
        for &(score, member) in scored {
            done.note(insert(set, score, member, conditions, &limits), score);
        }
        done
    })?;
    report(tx, key, done, "zadd");
    Ok(done)
}

/// Makes a sorted set ready for members that a command brings: an empty one takes the form that
/// suits them.
fn expect_members(set: &mut SortedSet, scored: &[(f64, &[u8])], limits: &SortedSetLimits) {
    let count = scored.len() as u64;
    if set.borrow().is_empty() {
        let longest = scored.iter().map(|(_, member)| member.len()).max().unwrap_or_default();
        *set = SortedSet::for_members(count, longest, limits);
    } else {
        set.expect(count, limits);
    }
}

/// Inserts a member where the conditions admit it: the score it had, if it was given one.
fn insert(
    set: &mut SortedSet,
    score: f64,
    member: &[u8],
    conditions: ScoreConditions,
    limits: &SortedSetLimits,
) -> Option<Option<f64>> {
    if !conditions.are_none() {
        let old = set.borrow().score(member);
        if !conditions.admit(old, score) {
            return None;
        }
    }
    Some(set.insert(Text::Bytes(member), score, limits))
}

impl Added {
    fn note(&mut self, inserted: Option<Option<f64>>, score: f64) {
        match inserted {
            Some(None) => self.added += 1,
            Some(Some(old)) if old != score => self.updated += 1,
            Some(Some(_)) | None => {}
        }
    }
}

/// Adds to a member's score, an absent one having 0; the new score, unless the conditions left it
/// as it was.
fn increase(
    tx: &mut Tx,
    key: &[u8],
    increment: f64,
    member: &[u8],
    conditions: ScoreConditions,
) -> Result<Option<f64>, Refusal> {
    let old = tx.peek_view::<SortedSet>(key)?.and_then(|set| set.score(member));
    // Conditions that an absent or a present member does not meet come before its new score.
    if old.is_none() && conditions.present || old.is_some() && conditions.absent {
        return Ok(None);
    }
    // Not 0 and the increment: that sum of -0 is 0.
    let score = old.map_or(increment, |old| old + increment);
    if score.is_nan() {
        return Err(NOT_A_NUMBER);
    }
    if !conditions.admit(old, score) {
        return Ok(None);
    }
    if old != Some(score) {
        let limits = limits(tx);
        let (inserted, _) =
            tx.edit(key, |set: &mut SortedSet| set.insert(Text::Bytes(member), score, &limits))?;
        let mut done = Added::default();
        done.note(Some(inserted), score);
        report(tx, key, done, "zincr");
    }
    Ok(Some(score))
}

fn report(tx: &mut Tx, key: &[u8], done: Added, event: &'static str) {
    let changes = done.added + done.updated;
    if changes > 0 {
        tx.effects_mut().add_changes(changes);
        tx.event(EventClass::SortedSet, event, key);
    }
}
