//! Access clocks of keys that nobody uses are renewed before they go round, and after each jump of
//! the wall clock, so that no key looks new because it is very old.
//!
//! Invariant: one worker at a time is at it; a step holds one partition for a few microseconds and
//! changes no data.

use keyspace::{AccessClock, PARTITIONS, PartitionIndex};

use crate::lane::Lane;
use crate::limits::clock_renewal_state::ClockRenewalState;

/// How long one cycle may take, and the entries that are looked at under one lock.
const CYCLE_US: i64 = 1000;
const STEP: usize = 64;

/// Steps between two looks at the time.
const STEPS_PER_TICK: usize = 16;

/// A worker's cycle; whether another one should come soon.
pub fn cycle(lane: &Lane) -> bool {
    let Ok(mut state) = lane.shared.memory.clock_renewal.0.try_lock() else { return false };
    state.note_time(lane.now_ms(), lane.ticked_us() / 1000);
    let deadline = lane.ticked_us() + CYCLE_US;
    while state.pass.is_some() {
        for _ in 0..STEPS_PER_TICK {
            if !lane.enter() {
                return true;
            }
            step(lane, &mut state);
        }
        lane.tick();
        if lane.ticked_us() > deadline {
            return state.pass.is_some();
        }
    }
    false
}

fn step(lane: &Lane, state: &mut ClockRenewalState) {
    let Some((partition, place)) = state.pass else { return };
    if partition == PARTITIONS {
        return state.finish();
    }
    let keyspace = lane.shared.keyspace;
    let index = partition as PartitionIndex;
    if keyspace.population(index) == 0 {
        state.pass = Some((partition + 1, (0, 0)));
        return;
    }
    // A busy partition is tried again; a transaction that is in it for long lets the world wait,
    // too.
    let Some(mut grant) = keyspace.try_acquire(index) else { return };
    let access = AccessClock::new(keyspace.settings(), lane.now_ms());
    let next = grant.renew_clocks(&access, state.clock_jump, index, place, STEP);
    state.pass = Some(next.map_or((partition + 1, (0, 0)), |place| (partition, place)));
}
