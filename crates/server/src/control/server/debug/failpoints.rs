//! DEBUG FAILPOINT: has the next unit begin again, or panic, at one of its steps. Only with debug
//! assertions.
//!
//! Invariant: a failpoint strikes once; without arguments DEBUG FAILPOINT says whether it is still
//! to come. CLAIM has the next claim of hash slots stand still. APART, SHORT and SERVICES are none
//! that strike: until they are OFF all that can computes without its locks, each turn of a session
//! is over as soon as it has done something, and waiters that are served on background threads stay
//! claimed. GATED has each command stand still between gates and locks.

use std::time::Duration;

use commands::arguments::{integer, is};
use commands::errors::SYNTAX;
use engine::runtime::failpoint::{
    Apart, ClaimPlace, FailpointCause, arm, arm_apart, arm_short, hold_claim, hold_services,
    rest_behind_gates, services_held,
};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};

const CAUSES: &[(&str, FailpointCause)] = &[
    ("WIDEN", FailpointCause::Widen),
    ("HEAVY", FailpointCause::Heavy),
    ("GIVE-UP", FailpointCause::GiveUp),
    ("SERVICE", FailpointCause::Service),
    ("PANIC-BEFORE", FailpointCause::PanicBefore),
    ("PANIC-BEHIND", FailpointCause::PanicBehind),
    ("PANIC-AT-COMMIT", FailpointCause::PanicAtCommit),
    ("PANIC-AT-SERVICE", FailpointCause::PanicAtService),
    ("PANIC-BEHIND-COMMIT", FailpointCause::PanicBehindCommit),
    ("PANIC-BESIDE", FailpointCause::PanicBeside),
    ("PANIC-AT-STEP", FailpointCause::PanicAtStep),
    ("PANIC-IN-LOG", FailpointCause::PanicInLog),
    ("PANIC-IN-REPORT", FailpointCause::PanicInReport),
];

const CLAIM_PLACES: &[(&str, ClaimPlace)] =
    &[("LOOK", ClaimPlace::Look), ("ORDER", ClaimPlace::Order), ("TELLING", ClaimPlace::Telling)];

/// DEBUG FAILPOINT [cause step | STALL milliseconds | DEEP | APART [OFF | HELD] | LANES number |
/// SHORT [OFF] | SERVICES [HELD | OFF] | CLAIM (LOOK | ORDER | TELLING) milliseconds |
/// GATED milliseconds]
pub(super) fn failpoint(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let order = match args.get(2) {
        None => None,
        Some(word) if is(word, "APART") || is(word, "SHORT") => {
            let asks_for = |other: &str| args.get(3).is_some_and(|word| is(word, other));
            let was_on = match (is(word, "APART"), asks_for("OFF")) {
                (true, true) => arm_apart(Apart::Off),
                (true, false) if asks_for("HELD") => arm_apart(Apart::Held),
                (true, false) => arm_apart(Apart::On),
                (false, is_off) => arm_short(!is_off),
            };
            reply.integer(i64::from(was_on));
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "SERVICES") => {
            if let Some(word) = args.get(3) {
                hold_services(is(word, "HELD"));
            }
            reply.integer(i64::try_from(services_held()).expect("there are fewer threads"));
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "STALL") => {
            // As a bug would, which keeps a worker from its clients.
            let millis = u64::try_from(integer(args, 3)?).map_err(|_| SYNTAX)?;
            std::thread::sleep(Duration::from_millis(millis));
            reply.integer(0);
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "GATED") => {
            let millis = u64::try_from(integer(args, 3)?).map_err(|_| SYNTAX)?;
            rest_behind_gates(millis);
            reply.integer(0);
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "CLAIM") => {
            let named = |it: &&(&str, ClaimPlace)| args.get(3).is_some_and(|word| is(word, it.0));
            let place = CLAIM_PLACES.iter().find(named).ok_or(SYNTAX)?.1;
            let millis = u64::try_from(integer(args, 4)?).map_err(|_| SYNTAX)?;
            hold_claim(place, Duration::from_millis(millis));
            reply.integer(0);
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "DEEP") => {
            reply.integer(deep(1));
            return Ok(ControlOutcome::Done);
        }
        Some(word) if is(word, "LANES") => {
            // As where the system gives no more threads.
            let most = usize::try_from(integer(args, 3)?).map_err(|_| SYNTAX)?;
            context.server.keyspace.limit_heavy_transactions(most);
            reply.integer(0);
            return Ok(ControlOutcome::Done);
        }
        Some(word) => {
            let cause = CAUSES.iter().find(|(name, _)| is(word, name)).ok_or(SYNTAX)?;
            let step = if args.len() > 3 { integer(args, 3)? } else { 1 };
            Some((cause.1, u64::try_from(step).map_err(|_| SYNTAX)?))
        }
    };
    reply.integer(i64::from(arm(order)));
    Ok(ControlOutcome::Done)
}

/// Uses up the stack.
fn deep(level: i64) -> i64 {
    let level = std::hint::black_box(level);
    if level == 0 { 0 } else { deep(level + 1) + std::hint::black_box(1) }
}
