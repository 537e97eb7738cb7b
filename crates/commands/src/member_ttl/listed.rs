//! The commands that name members in a list: `FIELDS numfields field ..` of hashes (Redis 7.4) and
//! `MEMBERS nummembers member ..` of sorted sets (Garnet). The commands give deadlines, ask for
//! them and lift them.
//!
//! Invariant: the journal gets an absolute time in milliseconds and the members that took it, or
//! their removal where it is over already, so that a later replay does the same.

use base::number::{format_i64, parse_i64};
use base::time::UnixMillis;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::{Args, Reply};

use super::Timed;
use crate::arguments::is;
use crate::errors::{NOT_AN_INTEGER, invalid_expire};
use crate::time_unit::TimeUnit;

/// The latest time that a member may expire at: what Redis has 46 bits for.
const DEADLINE_MAX: UnixMillis = (1 << 46) - 1;

/// Finding a member and changing its deadline, in nanoseconds.
const MEMBER_COST_NS: u64 = 100;

/// A container with such commands.
pub(crate) trait Listed: Timed {
    /// The word before the list.
    const WORD: &'static str;
    /// Refuses a request without it.
    const MISSING: Refusal;
    /// Refuses a number that is not that of the members.
    const MISMATCH: Refusal;
    /// Refuses a number that is none, where deadlines are given.
    const BAD_COUNT: Refusal;
    /// The command that gives deadlines in the journal.
    const JOURNALED: &'static str;
    /// The event of members whose deadlines are lifted.
    const LIFTED: &'static str;
}

/// Reads the words from `index` on, which are the last ones. `bad_count` refuses a number that is
/// none or not positive.
pub(crate) fn parse<C: Listed>(
    args: Args<'_>,
    index: usize,
    bad_count: Refusal,
) -> Result<Args<'_>, Refusal> {
    args.get(index).filter(|word| is(word, C::WORD)).ok_or(C::MISSING)?;
    let count = args.get(index + 1).and_then(parse_i64).filter(|count| *count > 0);
    let count = count.ok_or(bad_count)?;
    let members = args.skip(index + 2);
    if members.len() as i64 == count { Ok(members) } else { Err(C::MISMATCH) }
}

impl TimeUnit {
    /// The deadline that a client's number means, which may be over; `command` is the one that
    /// refuses it. In a log any is taken: Valkey knows no latest one.
    pub(crate) fn member_deadline(
        self,
        tx: &Tx,
        number: Option<&[u8]>,
        command: &str,
    ) -> Result<UnixMillis, Refusal> {
        let number = number.and_then(parse_i64).ok_or(NOT_AN_INTEGER)?;
        if number < 0 {
            return Err(Refusal::error("ERR invalid expire time, must be >= 0"));
        }
        let unit = if matches!(self, Self::Seconds | Self::UnixSeconds) { 1000 } else { 1 };
        let from = if matches!(self, Self::Seconds | Self::Millis) { tx.now() } else { 0 };
        let latest = if tx.replays() { UnixMillis::MAX } else { DEADLINE_MAX };
        let deadline = number.checked_mul(unit).and_then(|millis| millis.checked_add(from));
        deadline.filter(|deadline| *deadline <= latest).ok_or_else(|| invalid_expire(command))
    }
}

/// What must hold of a member's present deadline.
#[derive(Clone, Copy)]
enum DeadlineCondition {
    Always,
    None,
    Some,
    Later,
    Earlier,
}

impl DeadlineCondition {
    fn of(word: &[u8]) -> Self {
        match word {
            _ if is(word, "NX") => Self::None,
            _ if is(word, "XX") => Self::Some,
            _ if is(word, "GT") => Self::Later,
            _ if is(word, "LT") => Self::Earlier,
            _ => Self::Always,
        }
    }

    /// Whether the condition holds; without a deadline a member lives for ever, which is later than
    /// any.
    fn admits(self, present: Option<UnixMillis>, new: UnixMillis) -> bool {
        match self {
            Self::Always => true,
            Self::None => present.is_none(),
            Self::Some => present.is_some(),
            Self::Later => present.is_some_and(|present| new > present),
            Self::Earlier => present.is_none_or(|present| new < present),
        }
    }
}

/// What the reply says of a member.
const ABSENT: i64 = -2;
const ENDLESS: i64 = -1;
const UNMET: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// HEXPIRE and its like: gives members a deadline where a condition holds.
pub(crate) fn expire<C: Listed>(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    unit: TimeUnit,
    command: &str,
) -> Result<(), Refusal> {
    let key = &args[1];
    tx.lookup_write_view::<C>(key)?;
    let deadline = unit.member_deadline(tx, args.get(2), command)?;
    let condition = DeadlineCondition::of(&args[3]);
    let is_conditional = !matches!(condition, DeadlineCondition::Always);
    let members = parse::<C>(args, if is_conditional { 4 } else { 3 }, C::BAD_COUNT)?;
    charge(tx, members)?;
    let results = set_deadlines::<C>(tx, key, members, deadline, condition)?;
    if !results.members.is_empty() && tx.is_over_at(deadline) {
        note_overdue::<C>(tx, key, &results.members, results.outcome);
    } else if !results.members.is_empty() {
        tx.effects_mut().add_changes(results.members.len() as u64);
        if let Some(event) = C::GIVEN {
            tx.member_event(C::CLASS, event, key, results.members.iter().copied());
        }
        let mut number = [0; 20];
        let mut head = vec![C::JOURNALED.as_bytes(), key, format_i64(deadline, &mut number)];
        head.extend(is_conditional.then_some(&args[3]));
        journal::<C>(tx, &head, &results.members);
    }
    reply_answers(results.answers, reply);
    Ok(())
}

/// What became of members that were to get a deadline.
struct DeadlineResults<'a> {
    /// What to reply of each member.
    answers: Vec<i64>,
    /// The members that the condition held for.
    members: Vec<&'a [u8]>,
    outcome: ContainerOutcome,
}

/// Gives members a deadline where the condition holds, or takes them out if it is over.
fn set_deadlines<'a, C: Listed>(
    tx: &mut Tx,
    key: &[u8],
    members: Args<'a>,
    deadline: UnixMillis,
    condition: DeadlineCondition,
) -> Result<DeadlineResults<'a>, Refusal> {
    let (expired_until, is_over) = (tx.expired_until(), tx.is_over_at(deadline));
    let mut members_given: Vec<&[u8]> = Vec::new();
    let (answers, outcome) = tx.edit(key, |container: &mut C| {
        let mut give = |member| {
            let mut answer = ABSENT;
            container.judge_deadline(member, |present| {
                answer = match present {
                    Some(present) if present <= expired_until => ABSENT,
                    _ if !condition.admits(present, deadline) => UNMET,
                    _ if is_over => REMOVED,
                    _ => DONE,
                };
                (answer == DONE).then_some(Some(deadline))
            });
            if answer == REMOVED {
                container.remove(member);
            }
            if matches!(answer, REMOVED | DONE) {
                members_given.push(member);
            }
            answer
        };
        members.iter().map(&mut give).collect()
    })?;
    Ok(DeadlineResults { answers, members: members_given, outcome })
}

/// HTTL and its like: replies the deadlines of members, put in figures by `express` with the time
/// that it is now.
pub(crate) fn answer<C: Listed>(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    bad_count: Refusal,
    express: fn(UnixMillis, UnixMillis) -> i64,
) -> Result<(), Refusal> {
    let (container, now) = (tx.view::<C>(&args[1])?, tx.now());
    let members = parse::<C>(args, 2, bad_count)?;
    charge(tx, members)?;
    reply.array(members.len());
    for member in members.iter() {
        let deadline = container.and_then(|it| deadline_of::<C>(it, member, tx.expired_until()));
        reply.integer(match deadline {
            None => ABSENT,
            Some(None) => ENDLESS,
            Some(Some(deadline)) => express(deadline, now),
        });
    }
    Ok(())
}

/// Whole seconds; a part of one counts as a whole one.
pub(crate) fn seconds(millis: i64) -> i64 {
    (millis + 999) / 1000
}

/// HPERSIST and its like: lifts the deadlines of members.
pub(crate) fn persist<C: Listed>(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    bad_count: Refusal,
) -> Result<(), Refusal> {
    let (key, expired_until) = (&args[1], tx.expired_until());
    tx.lookup_write_view::<C>(key)?;
    let members = parse::<C>(args, 2, bad_count)?;
    charge(tx, members)?;
    let (answers, _) = tx.edit(key, |container: &mut C| {
        let lift = |member| {
            let mut answer = ABSENT;
            container.judge_deadline(member, |present| {
                answer = match present {
                    Some(present) if present <= expired_until => ABSENT,
                    Some(_) => DONE,
                    None => ENDLESS,
                };
                (answer == DONE).then_some(None)
            });
            answer
        };
        members.iter().map(lift).collect::<Vec<_>>()
    })?;
    let lifted = answers.iter().filter(|answer| **answer == DONE).count();
    if lifted > 0 {
        tx.effects_mut().add_changes(lifted as u64);
        let lifted = members.iter().zip(&answers).filter(|(_, answer)| **answer == DONE);
        tx.member_event(C::CLASS, C::LIFTED, key, lifted.map(|(member, _)| member));
    }
    reply_answers(answers, reply);
    Ok(())
}

/// Tells of members that are gone because a command gave them a time that is over.
pub(crate) fn note_overdue<C: Listed>(
    tx: &mut Tx,
    key: &[u8],
    members: &[&[u8]],
    outcome: ContainerOutcome,
) {
    tx.effects_mut().add_changes(members.len() as u64);
    tx.member_event(C::CLASS, C::REMOVED, key, members.iter().copied());
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
    let words = [C::REMOVE.as_bytes(), key].into_iter().chain(members.iter().copied());
    tx.effects_mut().instead(&words.collect::<Vec<_>>());
}

/// Journals a command about some members: `head`, then how many and which.
pub(crate) fn journal<C: Listed>(tx: &mut Tx, head: &[&[u8]], members: &[&[u8]]) {
    let mut number = [0; 20];
    let number = format_i64(members.len() as i64, &mut number);
    tx.effects_mut().instead(&[head, &[C::WORD.as_bytes(), number], members].concat());
}

/// The deadline of a member that is there: `None` for one that is not, `Some(None)` for one that
/// never expires.
pub(crate) fn deadline_of<C: Timed>(
    container: C::Ref<'_>,
    member: &[u8],
    now: UnixMillis,
) -> Option<Option<UnixMillis>> {
    C::deadline(container, member).filter(|deadline| deadline.is_none_or(|it| it > now))
}

fn charge(tx: &Tx, members: Args<'_>) -> Result<(), Refusal> {
    tx.charge(members.len() as u64 * MEMBER_COST_NS)
}

fn reply_answers(answers: Vec<i64>, reply: &mut Reply<'_>) {
    reply.array(answers.len());
    answers.into_iter().for_each(|answer| reply.integer(answer));
}
