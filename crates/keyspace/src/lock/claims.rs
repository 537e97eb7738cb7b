//! Claims: a transaction that was kept from its locks for long is next.
//!
//! A transaction that was beaten several times by such as hold their locks for long claims all its
//! partitions. Those that hold them go on; a transaction that would hold one of them for long from
//! here on gives its locks back and waits until the claim is over, unless its own claim is older.
//! So the claimant has to wait for those only that had begun before, and for short ones.
//!
//! Invariants: claims have rising numbers, and a transaction waits for claims with lower ones only;
//! a transaction that waits for a claim holds no lock. A thread that holds locks for long says so
//! first and looks for claims second, a claimant claims before it looks at the locks, and claims
//! are made and looked for under one mutex: so at least one of two sees the other.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::task::Waker;

use base::{Wakers, step_count};

use crate::critical_section::CriticalSection;
use crate::lock::partition::PartitionIndex;
use crate::sync::{Mutex, lock};

/// Which claim: an older one has a lower number.
pub(crate) type ClaimNumber = NonZeroU64;

/// All claims.
#[derive(Default)]
pub(crate) struct Claims {
    state: Mutex<ClaimsState>,
}

#[derive(Default)]
struct ClaimsState {
    last: u64,
    /// The partitions of each, in rising order.
    claims: BTreeMap<ClaimNumber, Box<[PartitionIndex]>>,
    /// The wakers of what waits for the end of one.
    waiting: Wakers,
}

impl Claims {
    /// Claims partitions, in rising order, behind all that did so before.
    #[cold]
    pub(crate) fn make(&self, partitions: &[PartitionIndex]) -> ClaimNumber {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = ClaimNumber::new(state.last).expect("it was just raised");
        state.claims.insert(number, partitions.into());
        number
    }

    /// Ends a claim, whatever came of it.
    #[cold]
    pub(crate) fn end(&self, number: ClaimNumber) {
        let change = CriticalSection::begin();
        let mut state = lock(&self.state);
        let ended = state.claims.remove(&number);
        let woken = state.waiting.take();
        drop(state);
        drop(ended);
        step_count::step();
        woken.into_iter().for_each(Waker::wake);
        change.end();
    }

    /// Whether any of these partitions, in rising order, is claimed, by an older claim than one's
    /// own. If so, the waker, if there is one, is woken when a claim ends.
    #[cold]
    pub(crate) fn stand_before(
        &self,
        own: Option<ClaimNumber>,
        partitions: &[PartitionIndex],
        waker: Option<&Waker>,
    ) -> bool {
        let mut state = lock(&self.state);
        let mut older = state.claims.range(..own.unwrap_or(ClaimNumber::MAX));
        let stand = older.any(|(_, claimed)| overlap(claimed, partitions));
        if stand && let Some(waker) = waker {
            state.waiting.add(waker);
        }
        stand
    }
}

/// Whether two ranges in rising order have a partition in common.
fn overlap(one: &[PartitionIndex], other: &[PartitionIndex]) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().any(|partition| many.binary_search(partition).is_ok())
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake, Waker};

    use base::time::Clock;

    use crate::keyspace::Keyspace;
    use crate::lock::acquisition::Acquisition;
    use crate::lock::partition::PartitionIndex;
    use crate::options::Options;

    /// Counts how often its task is woken.
    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Stage {
        keyspace: &'static Keyspace,
        bell: Arc<Bell>,
    }

    impl Stage {
        fn new() -> Self {
            let clock = Clock::manual(0);
            let keyspace = Keyspace::leak(Options { databases: 1, clock, ..Options::new() });
            assert!(keyspace.enter(0));
            Self { keyspace, bell: Arc::default() }
        }

        fn plan(&self, partitions: &[PartitionIndex]) -> Acquisition {
            Acquisition::of_partitions(self.keyspace, partitions.iter().copied().collect())
        }

        fn poll(&self, acquisition: &mut Acquisition) -> Poll<()> {
            acquisition.poll(&Waker::from(Arc::clone(&self.bell)))
        }

        fn take(&self, partitions: &[PartitionIndex]) -> Acquisition {
            let mut acquisition = self.plan(partitions);
            assert!(acquisition.attempt());
            acquisition
        }

        fn are_free(&self, mut partitions: impl Iterator<Item = PartitionIndex>) -> bool {
            partitions.all(|index| self.plan(&[index]).attempt())
        }
    }

    /// The large one is beaten often and long enough to ask for a handoff, by some partitions of
    /// its in turn.
    fn beat(stage: &Stage, large: &mut Acquisition, beaters: &[PartitionIndex]) {
        for beater in beaters {
            let mut held = stage.take(&[*beater]);
            assert!(held.prolong());
            assert!(stage.poll(large).is_pending());
            drop(held);
            stage.keyspace.clock().advance(1);
        }
    }

    #[test]
    fn a_transaction_that_waits_for_a_long_held_lock_holds_no_other() {
        let stage = Stage::new();
        let all: Vec<PartitionIndex> = (0..100).collect();
        let mut large = stage.plan(&all);
        for round in 0..10 {
            let mut held = stage.take(&[50 + round, 90]);
            // From some round on it is claimed, and goes on as if it had changed something.
            let _ = held.prolong();
            stage.keyspace.clock().advance(1);
            assert!(stage.poll(&mut large).is_pending());
            let others = (0..100).filter(|&index| index != 50 + round && index != 90);
            assert!(stage.are_free(others), "{round}");
        }
        assert!(stage.poll(&mut large).is_ready());
    }

    #[test]
    fn a_beaten_transaction_gives_its_locks_back_when_a_hold_becomes_long() {
        let stage = Stage::new();
        let mut large = stage.plan(&[1, 2, 3, 4]);
        beat(&stage, &mut large, &[4, 4, 4, 4]);
        let mut brief = stage.take(&[3]);
        assert!(stage.poll(&mut large).is_pending());
        assert!(!stage.are_free(1..3), "for one that is held briefly it keeps what it has");
        let woken = stage.bell.0.load(Ordering::Relaxed);
        // The partition is claimed: what has changed something goes on all the same.
        assert!(!brief.prolong());
        assert_eq!(stage.bell.0.load(Ordering::Relaxed), woken + 1);
        assert!(stage.poll(&mut large).is_pending());
        assert!(stage.are_free(1..3));
        drop(brief);
        assert!(stage.poll(&mut large).is_ready());
    }

    #[test]
    fn what_would_be_held_for_long_is_had_first_by_who_was_kept_from_it() {
        let stage = Stage::new();
        let mut large = stage.plan(&[1, 2, 3]);
        beat(&stage, &mut large, &[2, 2, 2, 2]);
        // The holder goes on as if it had changed something.
        let mut long = stage.take(&[2]);
        assert!(!long.prolong());
        assert!(stage.poll(&mut large).is_pending());
        // Others that share a partition with it may be brief, but not long, whether they came
        // before or come now, until it has had its turn; those that share none may.
        let (mut next, mut stranger) = (stage.take(&[3]), stage.take(&[4]));
        assert!(stranger.prolong());
        assert!(!next.prolong());
        next.defer();
        assert!(!next.attempt() && stage.poll(&mut next).is_pending());
        assert!(stage.are_free([1, 3].into_iter()));
        drop(long);
        assert!(stage.poll(&mut large).is_ready());
        assert!(stage.poll(&mut next).is_pending());
        let woken = stage.bell.0.load(Ordering::Relaxed);
        drop(large);
        assert!(stage.bell.0.load(Ordering::Relaxed) > woken);
        assert!(stage.poll(&mut next).is_ready());
        assert!(next.prolong());
    }

    #[test]
    fn a_claim_ends_with_its_request_and_older_ones_go_first() {
        let stage = Stage::new();
        let claims = stage.keyspace.lot().claims();
        let [first, second] = [[1, 2, 3], [3, 4, 5]].map(|partitions| claims.make(&partitions));
        assert!(!claims.stand_before(Some(first), &[1, 2, 3], None));
        assert!(claims.stand_before(Some(second), &[3, 4, 5], None));
        assert!(!claims.stand_before(Some(second), &[4, 5], None));
        assert!(claims.stand_before(None, &[0, 5, 9], None));
        assert!(!claims.stand_before(None, &[0, 6, 9], None));
        claims.end(first);
        assert!(!claims.stand_before(Some(second), &[3, 4, 5], None));
        let mut abandoned = stage.plan(&[7, 8]);
        abandoned.claim();
        assert!(claims.stand_before(None, &[8], None));
        drop(abandoned);
        assert!(!claims.stand_before(None, &[8], None));
    }
}
