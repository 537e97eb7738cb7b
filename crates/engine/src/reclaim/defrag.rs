//! Defragmentation: what removals left half empty is emptied, so that the system gets it back.
//!
//! A pass marks pages of the arena whose blocks others have room for, then goes over all partitions
//! and moves the entries and tables that lie there. Workers do it in cycles between their commands,
//! for a share of their time that grows with the waste, and while no client asks anything for the
//! largest one; and a worker that needs room for a command does some of it before anything is
//! evicted, as what is evicted leaves pages half empty, too.
//!
//! Invariant: one worker at a time is at it; a step holds at most one partition, for a few
//! microseconds, and changes no data.

use std::sync::atomic::Ordering;
use std::time::Duration;

use config::settings::{
    ACTIVE_DEFRAG_CYCLE_MAX, ACTIVE_DEFRAG_CYCLE_MIN, ACTIVE_DEFRAG_CYCLE_US,
    ACTIVE_DEFRAG_IGNORE_BYTES, ACTIVE_DEFRAG_THRESHOLD_LOWER, ACTIVE_DEFRAG_THRESHOLD_UPPER,
    ACTIVEDEFRAG,
};
use keyspace::arena::{self, Marking};
use keyspace::{PARTITIONS, PartitionIndex, heap};

use crate::lane::Lane;
use crate::limits::defrag_state::{DefragPass, DefragState};
use crate::runtime::counters::Totals;
use crate::shared::Shared;

/// Entries looked at before the lock is given back; one that is nowhere in the caches takes 0.2 us
/// to be looked at and less than another to be moved.
const STEP: usize = 64;

/// Steps between two looks at the clock.
const STEPS_PER_TICK: usize = 8;

/// The most ticks in one go where room is needed: some tenths of a millisecond.
const RELIEF_MAX: usize = 8;

/// A pass that would gain less than this part of the waste is not worth going over everything.
const WORTH: usize = 8;

/// A worker's cycle in the background; after which pause the next one should come, if one should.
pub fn cycle(lane: &Lane) -> Option<Duration> {
    let (server, began) = (lane.shared, lane.ticked_us());
    let defrag = &server.memory.defrag;
    let effort = match effort_of(server, began) {
        effort if effort > 0 && is_quiet(server) => most(server),
        effort => effort,
    };
    defrag.effort.store(effort, Ordering::Relaxed);
    defrag.stopwatch.record(effort > 0, began);
    if effort == 0 {
        return None;
    }
    let cycle_us = server.config.get(ACTIVE_DEFRAG_CYCLE_US);
    if let Some(mut pass) = defrag.try_pass() {
        let deadline = began + i64::from(cycle_us);
        while advance(lane, &mut pass) && lane.ticked_us() < deadline {}
        lane.tick();
        let micros = u64::try_from(lane.ticked_us() - began).unwrap_or(0);
        server.observed.latency.note(server.keyspace.clock(), "active-defrag-cycle", micros);
    }
    let rest_us = u64::from(cycle_us) * u64::from(100 - effort) / u64::from(effort);
    Some(Duration::from_micros(rest_us))
}

/// Makes some steps if more lies idle than is tolerated beside a limit, the more the more does.
pub(crate) fn step_under_pressure(lane: &Lane) {
    let server = lane.shared;
    let (slack, tolerated) = (arena::slack(), server.memory.budget.tolerated_slack());
    if slack <= tolerated || !server.config.get(ACTIVEDEFRAG) {
        return;
    }
    let defrag = &server.memory.defrag;
    if defrag.is_promising(slack, lane.ticked_us())
        && let Some(mut pass) = defrag.try_pass()
    {
        for _ in 0..(2 * slack / tolerated - 1).min(RELIEF_MAX) {
            if !advance(lane, &mut pass) {
                break;
            }
        }
    }
}

fn is_quiet(server: &Shared) -> bool {
    server.memory.defrag.is_quiet(Totals::of(server.threads.all_worker_counters()).reads)
}

/// The largest share of the workers' time, in percent.
fn most(server: &Shared) -> u32 {
    server.config.get(ACTIVE_DEFRAG_CYCLE_MAX).max(server.config.get(ACTIVE_DEFRAG_CYCLE_MIN))
}

/// What share of the workers' time compaction gets beside clients, in percent.
fn effort_of(server: &Shared, now_us: i64) -> u32 {
    let (config, defrag) = (&server.config, &server.memory.defrag);
    let (least, most) = (config.get(ACTIVE_DEFRAG_CYCLE_MIN), most(server));
    if defrag.is_asked.load(Ordering::Relaxed) {
        return most;
    }
    // What was begun is finished: from marked pages nothing is allocated.
    let unfinished = if defrag.is_under_way.load(Ordering::Relaxed) { least } else { 0 };
    let slack = arena::slack();
    if !config.get(ACTIVEDEFRAG) || !defrag.is_promising(slack, now_us) {
        return unfinished;
    }
    if server.memory.budget.limit() != 0 && server.memory.budget.is_exceeded(slack) {
        let is_much = slack > server.memory.budget.tolerated_slack();
        return if is_much { most } else { unfinished };
    }
    if (slack as u64) < config.get(ACTIVE_DEFRAG_IGNORE_BYTES) {
        return unfinished;
    }
    let lower = config.get(ACTIVE_DEFRAG_THRESHOLD_LOWER);
    let upper = config.get(ACTIVE_DEFRAG_THRESHOLD_UPPER).max(lower + 1);
    let percent = u32::try_from(100 * slack / heap::used().max(1)).unwrap_or(u32::MAX);
    if percent < lower { unfinished } else { between(percent, (lower, upper), (least, most)) }
}

/// What corresponds to a number from one range, as far as it lies there, in another.
fn between(number: u32, (lower, upper): (u32, u32), (least, most): (u32, u32)) -> u32 {
    least + (most - least) * (number.min(upper) - lower) / (upper - lower)
}

/// Makes some steps of the pass under way, or begins one; `false` when there is nothing to do, or
/// the world is to stand still.
fn advance(lane: &Lane, pass: &mut Option<DefragPass>) -> bool {
    for _ in 0..STEPS_PER_TICK {
        if !lane.enter() || !step(lane, pass) {
            return false;
        }
    }
    lane.tick();
    true
}

fn step(lane: &Lane, pass: &mut Option<DefragPass>) -> bool {
    let defrag = &lane.shared.memory.defrag;
    match pass {
        None => {
            defrag.is_asked.store(false, Ordering::Relaxed);
            defrag.is_under_way.store(true, Ordering::Relaxed);
            *pass = Some(DefragPass::Marking(Marking::default()));
        }
        Some(DefragPass::Marking(marking)) => {
            if marking.step() {
                return true;
            }
            let slack = arena::slack();
            if marking.bytes() <= slack / WORTH {
                defrag.note_vain(slack, lane.ticked_us());
                return finish(defrag, pass);
            }
            *pass = Some(DefragPass::Moving(0, (0, 0)));
        }
        Some(DefragPass::Moving(PARTITIONS, _)) => return finish(defrag, pass),
        Some(DefragPass::Moving(partition, place)) => {
            let index = *partition as PartitionIndex;
            // What lies in a busy partition is left to the next pass.
            let next = lane
                .shared
                .keyspace
                .try_acquire(index)
                .and_then(|mut grant| grant.compact(lane.number, index, *place, STEP));
            match next {
                Some(next) => *place = next,
                None => (*partition, *place) = (*partition + 1, (0, 0)),
            }
        }
    }
    true
}

/// Ends a pass.
fn finish(defrag: &DefragState, pass: &mut Option<DefragPass>) -> bool {
    arena::unmark();
    *pass = None;
    defrag.is_under_way.store(false, Ordering::Relaxed);
    false
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn effort_grows_with_waste() {
        let of = |percent| between(percent, (10, 100), (1, 25));
        assert_eq!((of(10), of(55), of(100), of(5000)), (1, 13, 25, 25));
        assert_eq!(between(10, (10, 11), (7, 7)), 7);
    }
}
