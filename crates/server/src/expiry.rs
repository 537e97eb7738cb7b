//! Active expiry: each worker removes the dead keys of its share of the partitions. Where memory is
//! short and no command makes room, it does that, too, its share of compaction, and looks whether
//! to be courteous.
//!
//! Invariant: a turn holds one partition at a time for a bounded number of entries, and ends after
//! `TURN_US` whatever is left.

use std::rc::Rc;
use std::time::Duration;

use base::time::UnixMillis;
use keyspace::{PartitionIndex, Tx, TxOptions};

use crate::aging;
use crate::compaction;
use crate::courtesy;
use crate::evict;
use crate::release;
use crate::scripts;
use crate::worker::Worker;

/// How long one turn may take, in microseconds.
const TURN_US: i64 = 1000;

/// Entries looked at before the lock is given back. Removing a key that is nowhere in the caches
/// takes up to 6 us at ten million keys, so a step stays below half a millisecond.
const STEP: usize = 64;

/// Pause after a turn that left work behind; with `TURN_US` it bounds expiry to a fifth of a core.
const BUSY_PAUSE: Duration = Duration::from_millis(4);

/// Pause while more memory is in use than may be: room is made for a third of the time.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// Pause while something may expire soon, and while nothing can.
const WATCHFUL_PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// Runs the worker's share of expiry for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        worker.start_batch();
        let started = worker.ticked_us();
        let turn = turn(&worker, &mut worker.sweep.borrow_mut());
        note_time(&worker, started);
        let is_short_of_memory = pay_debt(&worker);
        let is_aging = aging::turn(&worker);
        let to_compact = compaction::turn(&worker);
        scripts::tend(worker.server);
        release::turn(&worker);
        courtesy::turn(&worker);
        let pause = match turn {
            _ if is_short_of_memory => SHORT_PAUSE,
            Turn::LeftOver => BUSY_PAUSE,
            Turn::AllDone if is_aging => BUSY_PAUSE,
            Turn::AllDone if worker.server.keyspace.next_deadline().is_some() => WATCHFUL_PAUSE,
            Turn::AllDone => IDLE_PAUSE,
        };
        worker.end_turn();
        tokio::time::sleep(to_compact.map_or(pause, |rest| rest.min(pause))).await;
    }
}

/// Makes room where no command asks for it; whether more is to be made.
fn pay_debt(worker: &Worker) -> bool {
    let budget = &worker.server.budget;
    if budget.is_exceeded(0) && !budget.is_settled(worker.ticked_us()) {
        evict::make_room(worker, 0);
    }
    evict::note_excess(worker);
    budget.is_exceeded(0) && !budget.is_out_of_memory(0)
}

/// Tells the latency monitor of a turn that took long.
fn note_time(worker: &Worker, started: i64) {
    let server = worker.server;
    worker.tick();
    let micros = u64::try_from(worker.ticked_us() - started).unwrap_or(0);
    if micros >= server.latency.threshold_us() {
        server.latency.note(server.keyspace.clock(), "expire-cycle", micros);
    }
}

/// Notes how long the last step held its partition.
fn note_hold(worker: &Worker) {
    let micros = u64::try_from(worker.tick()).unwrap_or(0);
    let stalls = worker.server.keyspace.stall_stats();
    if stalls.is_remarkable(micros) {
        stalls.note_hold(micros);
    }
}

/// Leaves what is unfinished to the workers that stay.
pub(crate) fn give_up(worker: &Worker) {
    if let Some(sweep) = worker.sweep.borrow_mut().take() {
        worker.server.keyspace.mark_due(sweep.partition, worker.now_ms());
    }
}

/// A partition in the middle of its sweep.
pub(crate) struct Sweep {
    partition: PartitionIndex,
    next: (usize, u64),
    earliest: UnixMillis,
    has_removed: bool,
}

impl Sweep {
    fn begin(partition: PartitionIndex) -> Self {
        Self { partition, next: (0, 0), earliest: UnixMillis::MAX, has_removed: false }
    }
}

enum Turn {
    AllDone,
    LeftOver,
}

/// The partitions that a turn goes over: those that are due, and once all were seen, those that
/// still are. A container of very many members is swept in as many steps as that takes, with no
/// pause between them but the turn's own end.
struct Rounds {
    due: std::vec::IntoIter<PartitionIndex>,
    goes_on: bool,
}

impl Rounds {
    fn begin(due: Vec<PartitionIndex>) -> Self {
        Self { due: due.into_iter(), goes_on: false }
    }

    /// One was seen to its end, and something was left or was not.
    fn note(&mut self, leaves_some: bool) {
        self.goes_on |= leaves_some;
    }

    fn next(&mut self, due: impl FnOnce() -> Vec<PartitionIndex>) -> Option<PartitionIndex> {
        let next = self.due.next();
        if next.is_none() && std::mem::take(&mut self.goes_on) {
            self.due = due().into_iter();
            return self.due.next();
        }
        next
    }
}

fn turn(worker: &Worker, unfinished: &mut Option<Sweep>) -> Turn {
    // While writes are held the data stand still: keys whose time is over are absent and stay.
    let settings = worker.server.keyspace.settings();
    if !worker.server.active_expiry() || settings.holds_expiry(worker.now_ms()) {
        return Turn::AllDone;
    }
    let started = worker.ticked_us();
    let keyspace = worker.server.keyspace;
    let crew = worker.server.crew.size();
    let due = || -> Vec<_> {
        let own = |partition: &PartitionIndex| usize::from(*partition) % crew == worker.lane;
        keyspace.partitions_due(worker.now_ms()).filter(own).collect()
    };
    let mut rounds = Rounds::begin(due());
    loop {
        let sweep = match unfinished.take() {
            Some(sweep) => sweep,
            None => match rounds.next(due) {
                Some(partition) => Sweep::begin(partition),
                None => return Turn::AllDone,
            },
        };
        if !worker.come_in() {
            *unfinished = Some(sweep);
            return Turn::LeftOver;
        }
        match step(worker, sweep) {
            Step::Done { leaves_some } => rounds.note(leaves_some),
            Step::Further(sweep) => *unfinished = Some(sweep),
            Step::Busy(sweep) => {
                *unfinished = Some(sweep);
                return Turn::LeftOver;
            }
        }
        note_hold(worker);
        if worker.ticked_us() - started > TURN_US {
            keyspace.count_expiry_timeout(worker.lane);
            return Turn::LeftOver;
        }
    }
}

/// How a step in one partition ended.
enum Step {
    /// It was seen to its end; whether something whose time is over was left, as it was much.
    Done {
        leaves_some: bool,
    },
    Further(Sweep),
    Busy(Sweep),
}

/// Sweeps on in one partition. A busy one is left for later.
fn step(worker: &Worker, mut sweep: Sweep) -> Step {
    let keyspace = worker.server.keyspace;
    let Some(acquisition) = keyspace.try_acquire(sweep.partition) else { return Step::Busy(sweep) };
    let options = TxOptions::internal(worker.lane, worker.now_ms());
    let mut tx = Tx::begin(acquisition, options);
    if sweep.next == (0, 0) {
        tx.begin_sweep(sweep.partition);
    }
    let swept = tx.sweep_expired(sweep.partition, sweep.next, STEP);
    sweep.earliest = sweep.earliest.min(swept.earliest.unwrap_or(UnixMillis::MAX));
    sweep.has_removed |= swept.removed > 0;
    let step = match swept.next {
        Some(next) => Step::Further(Sweep { next, ..sweep }),
        None => {
            tx.end_sweep(sweep.partition, sweep.earliest);
            Step::Done { leaves_some: sweep.has_removed && sweep.earliest <= tx.now() }
        }
    };
    crate::commit::commit(worker.server, &worker.rounds, &mut tx, proto::Args::default())
        .expect("who heeds departures is told of them by the key's own partition");
    step
}

#[cfg(test)]
mod tests {
    use keyspace::PartitionIndex;

    use super::Rounds;

    #[test]
    fn a_turn_comes_back_to_what_is_left_and_ends_when_nothing_is() {
        const STEP: u64 = 256;
        let mut left = [0, 1000, 3, 0, 300];
        let due = |left: &[u64]| -> Vec<PartitionIndex> {
            (0..).zip(left).filter(|(_, left)| **left > 0).map(|(partition, _)| partition).collect()
        };
        let mut rounds = Rounds::begin(due(&left));
        let mut seen = Vec::new();
        while let Some(partition) = rounds.next(|| due(&left)) {
            let left = &mut left[usize::from(partition)];
            *left = left.saturating_sub(STEP);
            rounds.note(*left > 0);
            seen.push(partition);
        }
        assert_eq!(seen, [1, 2, 4, 1, 4, 1, 1]);
        assert_eq!(left, [0; 5]);
    }
}
