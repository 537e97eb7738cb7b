//! Active expiry: each worker removes the dead keys of its share of the partitions.
//!
//! Invariant: a cycle holds one partition at a time for a bounded number of entries, and ends after
//! `CYCLE_US` whatever is left.

use base::time::UnixMillis;
use keyspace::{PartitionIndex, Tx, TxOptions};

use crate::lane::Lane;
use crate::limits::sweep::Sweep;

/// How long one cycle may take, in microseconds.
const CYCLE_US: i64 = 1000;

/// Entries looked at before the lock is given back. Removing a key that is nowhere in the caches
/// takes up to 6 us at ten million keys, so a step stays below half a millisecond.
const STEP: usize = 64;

/// Tells the latency monitor of a cycle that took long.
pub fn note_time(lane: &Lane, started: i64) {
    let server = lane.shared;
    lane.tick();
    let micros = u64::try_from(lane.ticked_us() - started).unwrap_or(0);
    server.observed.latency.note(server.keyspace.clock(), "expire-cycle", micros);
}

/// Notes how long the last step held its partition.
fn note_hold(lane: &Lane) {
    let micros = u64::try_from(lane.tick()).unwrap_or(0);
    let pauses = lane.shared.keyspace.stall_stats();
    if pauses.is_remarkable(micros) {
        pauses.note_hold(micros);
    }
}

/// Leaves what is unfinished to the workers that stay.
pub fn release_unfinished(lane: &Lane) {
    if let Some(sweep) = lane.sweep.borrow_mut().take() {
        lane.shared.keyspace.mark_due(sweep.partition, lane.now_ms());
    }
}

/// How a cycle ended.
pub enum ExpiryCycle {
    /// No key is left whose time was over as it began.
    AllDone,
    /// The time of the cycle ended first.
    LeftOver,
}

/// The partitions that a cycle goes over: those that are due, and once all were seen, those that
/// still are. A container of very many members is swept in as many steps as that takes, with no
/// pause between them but the cycle's own end.
struct DuePartitions {
    due: std::vec::IntoIter<PartitionIndex>,
    goes_on: bool,
}

impl DuePartitions {
    fn begin(due: Vec<PartitionIndex>) -> Self {
        Self { due: due.into_iter(), goes_on: false }
    }

    /// One was seen to its end, and something was left or was not.
    fn record(&mut self, leaves_some: bool) {
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

/// The lane's cycle.
pub fn cycle(lane: &Lane, unfinished: &mut Option<Sweep>) -> ExpiryCycle {
    // While writes are held the data stand still: keys whose time is over are absent and stay.
    let settings = lane.shared.keyspace.settings();
    if !lane.shared.active_expiry() || settings.holds_expiry(lane.now_ms()) {
        return ExpiryCycle::AllDone;
    }
    let started = lane.ticked_us();
    let keyspace = lane.shared.keyspace;
    let workers = lane.shared.threads.worker_count();
    let due = || -> Vec<_> {
        let is_own = |partition: &PartitionIndex| usize::from(*partition) % workers == lane.number;
        let due = keyspace.partitions_due(lane.now_ms()).filter(is_own);
        due.filter(|partition| !keyspace.importing().contain(*partition)).collect()
    };
    let mut partitions = DuePartitions::begin(due());
    loop {
        let sweep = match unfinished.take() {
            Some(sweep) => sweep,
            None => match partitions.next(due) {
                Some(partition) => Sweep::begin(partition),
                None => return ExpiryCycle::AllDone,
            },
        };
        // A pause or another role may have come with the world since the look above.
        if !lane.enter_to_reclaim() || !lane.shared.active_expiry() {
            *unfinished = Some(sweep);
            return ExpiryCycle::LeftOver;
        }
        match step(lane, sweep) {
            SweepEnd::Done { leaves_some } => partitions.record(leaves_some),
            SweepEnd::Further(sweep) => *unfinished = Some(sweep),
            SweepEnd::Busy(sweep) => {
                *unfinished = Some(sweep);
                return ExpiryCycle::LeftOver;
            }
        }
        note_hold(lane);
        if lane.ticked_us() - started > CYCLE_US {
            keyspace.count_expiry_timeout(lane.number);
            return ExpiryCycle::LeftOver;
        }
    }
}

/// How a step in one partition ended.
enum SweepEnd {
    /// The partition was seen to its end; whether something whose time is over was left, as it was
    /// much.
    Done {
        leaves_some: bool,
    },
    Further(Sweep),
    Busy(Sweep),
}

/// Sweeps on in one partition. A busy one is left for later.
fn step(lane: &Lane, mut sweep: Sweep) -> SweepEnd {
    let keyspace = lane.shared.keyspace;
    let Some(acquisition) = keyspace.try_acquire(sweep.partition) else {
        return SweepEnd::Busy(sweep);
    };
    let options = TxOptions::internal(lane.number, lane.now_ms());
    let mut tx = Tx::begin(acquisition, options);
    if sweep.next == (0, 0) {
        tx.begin_sweep(sweep.partition);
    }
    let swept = tx.sweep_expired(sweep.partition, sweep.next, STEP);
    sweep.earliest = sweep.earliest.min(swept.earliest.unwrap_or(UnixMillis::MAX));
    sweep.has_removed |= swept.removed > 0;
    let step = match swept.next {
        Some(next) => SweepEnd::Further(Sweep { next, ..sweep }),
        None => {
            tx.end_sweep(sweep.partition, sweep.earliest);
            SweepEnd::Done { leaves_some: sweep.has_removed && sweep.earliest <= tx.now() }
        }
    };
    crate::commit::publish::commit(lane.shared, &lane.wakes, &mut tx, proto::Args::default())
        .expect("who heeds departures is told of them by the key's own partition");
    step
}

#[cfg(test)]
mod tests {
    use keyspace::PartitionIndex;

    use super::DuePartitions;

    #[test]
    fn a_cycle_comes_back_to_what_is_left_and_ends_when_nothing_is() {
        const STEP: u64 = 256;
        let mut left = [0, 1000, 3, 0, 300];
        let due = |left: &[u64]| -> Vec<PartitionIndex> {
            (0..).zip(left).filter(|(_, left)| **left > 0).map(|(partition, _)| partition).collect()
        };
        let mut partitions = DuePartitions::begin(due(&left));
        let mut seen = Vec::new();
        while let Some(partition) = partitions.next(|| due(&left)) {
            let left = &mut left[usize::from(partition)];
            *left = left.saturating_sub(STEP);
            partitions.record(*left > 0);
            seen.push(partition);
        }
        assert_eq!(seen, [1, 2, 4, 1, 4, 1, 1]);
        assert_eq!(left, [0; 5]);
    }
}
