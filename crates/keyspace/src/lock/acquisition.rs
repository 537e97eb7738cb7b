//! Getting the locks a transaction needs: in rising order, without a thread ever waiting.
//!
//! An `Acquisition` is owned by a session. Each poll tries all its partitions; at a busy one it
//! gives back what it got, queues a ticket and is polled again when woken. After `PATIENCE` beaten
//! rounds and `PATIENCE_US` an acquisition asks for a handoff, keeps what it holds and queues
//! for the lock itself, still parked. Locks are taken in rising order only, and a handoff is waited
//! for at higher ones, so there is no cycle.
//!
//! For a lock that is held for long nobody waits with others in hand: an acquisition that would ask
//! for a handoff gives back what it got and claims its partitions, so that those that would hold
//! them for long later wait for it (`claims`).
//!
//! How long locks are held is timed by the worker that runs the command; an acquisition times
//! itself where no worker does: while it is parked, and on heavy-work threads.
//!
//! An acquisition that is complete may try for one more lock, out of their order (`extend`), but
//! waits for none.
//!
//! Invariants: `held` is a prefix of `partitions`; dropping an acquisition releases everything.

use std::task::{Poll, Waker};

use smallvec::SmallVec;
use structs::prefetch;

use super::claims::ClaimNumber;
use super::{Queued, Ticket, WaitMode, Woken};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::{PartitionContent, PartitionIndex};
use crate::patience::WaitReason;
use crate::tx::in_grant;
use crate::world::WorldTicket;

/// Rounds after which a transaction keeps what it has and queues for the rest.
const PATIENCE: u8 = if cfg!(feature = "shuttle") { 1 } else { 3 };

/// Microseconds after it has queued first before which it does not. A lock that is handed over
/// stands still until its new owner's thread has come for it: to do that at each command would cost
/// a key that all want most of its time (`docs/decisions/lock-holds.md`).
const PATIENCE_US: i64 = if cfg!(feature = "shuttle") { 0 } else { 1000 };

/// No time of the monotonic clock.
const UNTIMED: i64 = i64::MIN;

/// More partitions are not sorted, but marked among all there are.
const MARKED_MIN: usize = 1024;

/// So many partitions are compared together.
const LANES: usize = 8;

/// The partitions of a transaction, sorted and distinct; those of ten commands and two watched keys
/// without an allocation.
pub type PartitionSet = SmallVec<[PartitionIndex; 12]>;

/// What a transaction may touch, and how far it has got it.
pub struct Acquisition {
    keyspace: &'static Keyspace,
    wanted: LockScope,
    held: usize,
    times_queued: u8,
    /// When the acquisition was beaten first, on the monotonic clock in microseconds, if
    /// `times_queued` is not 0.
    beaten_since: i64,
    ticket: Option<Ticket>,
    world: Option<WorldTicket>,
    /// Its claim on all of its partitions, once it was kept from them for long.
    pub(super) claim: Option<ClaimNumber>,
    /// Whether the locks will be held for long, and older claims are waited for first.
    defers: bool,
    /// Since when it times its hold, on the monotonic clock in microseconds, or `UNTIMED`.
    held_since: i64,
}

/// Which partitions a transaction may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// These, in rising order without repetition.
    Partitions(PartitionSet),
    /// Everything; all other transactions stand still.
    World,
}

impl Acquisition {
    /// A plan for some partitions, in any order.
    #[must_use]
    pub fn of_partitions(keyspace: &'static Keyspace, partitions: PartitionSet) -> Self {
        Self::new(keyspace, LockScope::of_partitions(partitions))
    }

    /// A plan for everything.
    #[must_use]
    pub fn of_world(keyspace: &'static Keyspace) -> Self {
        Self::new(keyspace, LockScope::World)
    }

    /// One that has these partitions, whose locks the caller had.
    pub(super) fn of_held(keyspace: &'static Keyspace, partitions: PartitionSet) -> Self {
        let mut acquisition = Self::of_partitions(keyspace, partitions);
        acquisition.held = acquisition.partition_count();
        acquisition
    }

    /// The partitions that it has, whose locks are the caller's from here on.
    pub(super) fn into_held(mut self) -> PartitionSet {
        debug_assert!(self.is_complete() && !self.wants_world(), "all its locks are there");
        self.held = 0;
        match &mut self.wanted {
            LockScope::Partitions(partitions) => std::mem::take(partitions),
            LockScope::World => PartitionSet::default(),
        }
    }

    /// Whether anybody waits for a key of the partitions that are held.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        in_grant(self.keyspace, self)
    }

    fn new(keyspace: &'static Keyspace, wanted: LockScope) -> Self {
        Self {
            keyspace,
            wanted,
            held: 0,
            times_queued: 0,
            beaten_since: UNTIMED,
            ticket: None,
            world: None,
            claim: None,
            defers: false,
            held_since: UNTIMED,
        }
    }

    /// Whether this is a plan for the world, which is awaited outside every turnstile.
    #[must_use]
    pub fn wants_world(&self) -> bool {
        self.wanted == LockScope::World
    }

    /// How often it has queued so far.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn times_queued(&self) -> u8 {
        self.times_queued
    }

    /// The rounds after which nobody waits any longer, but for one turn per partition.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) const PATIENCE: u8 = PATIENCE;

    pub(crate) fn wanted(&self) -> &LockScope {
        &self.wanted
    }

    pub(crate) fn keyspace(&self) -> &'static Keyspace {
        self.keyspace
    }

    /// How many partitions it is for; none if it is for the world.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partitions().len()
    }

    /// The partitions that it is for, in rising order; none if it is for the world.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionIndex] {
        match &self.wanted {
            LockScope::Partitions(partitions) => partitions,
            LockScope::World => &[],
        }
    }

    /// Whether everything wanted is held.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match &self.wanted {
            LockScope::Partitions(partitions) => self.held == partitions.len(),
            LockScope::World => self.world.as_ref().is_some_and(WorldTicket::is_granted),
        }
    }

    /// Tries to take everything now. On failure what was taken in this call is given back and
    /// nothing is queued. Not for the world, which is never free at once.
    #[inline]
    pub fn attempt(&mut self) -> bool {
        let LockScope::Partitions(partitions) = &self.wanted else { return self.is_complete() };
        if self.ticket.is_some() || self.defers {
            // A ticket is out for the lock that comes next: only `poll` may go on.
            return false;
        }
        while self.held < partitions.len() {
            let word = &self.keyspace.partition(partitions[self.held]).word;
            if !word.acquire_spinning() {
                self.release_held();
                return false;
            }
            self.held += 1;
        }
        true
    }

    /// Takes one more lock, which others may have that come before it, if it is free right now.
    /// Everything else must be held. Whether it is held.
    pub(crate) fn extend(&mut self, index: PartitionIndex) -> bool {
        let is_complete = self.is_complete();
        let LockScope::Partitions(partitions) = &mut self.wanted else { return is_complete };
        debug_assert!(is_complete && self.ticket.is_none(), "it waits for nothing");
        let Err(place) = partitions.binary_search(&index) else { return true };
        if !self.keyspace.partition(index).word.acquire_spinning() {
            return false;
        }
        partitions.insert(place, index);
        self.held += 1;
        true
    }

    /// Takes the locks that are free right now and does without the others, for a caller to which
    /// one partition is as good as another. All are on their way from memory before the first is
    /// looked at.
    pub(crate) fn take_available(&mut self) {
        let LockScope::Partitions(partitions) = &mut self.wanted else { return };
        debug_assert!(self.held == 0 && self.ticket.is_none(), "it has not begun yet");
        let partition = |index: &PartitionIndex| self.keyspace.partition(*index);
        for index in &*partitions {
            prefetch::line(std::ptr::from_ref(partition(index)).cast());
        }
        partitions.retain(|index| partition(index).word.try_acquire());
        self.held = partitions.len();
    }

    /// Goes on until everything is held, or the waker is queued for what is missing. Partitions
    /// must be polled inside a turnstile, the world outside.
    pub fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let LockScope::Partitions(partitions) = &self.wanted else {
            return self.poll_world(waker);
        };
        if let Some(ticket) = &self.ticket {
            let woken = match self.keyspace.lot().poll(ticket, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(woken) => woken,
            };
            self.ticket = None;
            if woken == Woken::Granted {
                self.keyspace.partition(partitions[self.held]).word.accept_handoff();
                self.held += 1;
            }
        }
        if self.defers && self.held == 0 {
            let claims = self.keyspace.lot().claims();
            if claims.stand_before(self.claim, partitions, Some(waker)) {
                return Poll::Pending;
            }
        }
        while let Some(index) = self.next_wanted() {
            if self.keyspace.partition(index).word.acquire_spinning() {
                self.held += 1;
            } else if self.queue(index, waker) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// The partition whose lock comes next.
    fn next_wanted(&self) -> Option<PartitionIndex> {
        match &self.wanted {
            LockScope::Partitions(partitions) => partitions.get(self.held).copied(),
            LockScope::World => None,
        }
    }

    /// Queues for the lock that comes next, which is busy; `false` if there is no need to wait, and
    /// `held` says which one comes next.
    #[cold]
    fn queue(&mut self, index: PartitionIndex, waker: &Waker) -> bool {
        let (word, lot) = (&self.keyspace.partition(index).word, self.keyspace.lot());
        let asks_handoff = self.is_out_of_patience();
        if asks_handoff && word.is_held_for_long() {
            self.claim();
        }
        let mode = match (asks_handoff, self.held > 0) {
            (false, _) => WaitMode::Barging,
            (true, false) => WaitMode::Handoff,
            (true, true) => WaitMode::HandoffHolding,
        };
        let mut queued = lot.park(word, index, mode, waker);
        if matches!(queued, Queued::Refused) {
            self.claim();
            self.release_held();
            queued = lot.park(word, index, WaitMode::Barging, waker);
            if matches!(queued, Queued::Acquired) {
                // The lock is not the first: to keep it would be to wait for lower ones with it.
                word.release(lot, index);
                return false;
            }
        }
        let Queued::At(ticket) = queued else {
            self.held += 1;
            return false;
        };
        if self.times_queued == 0 {
            self.beaten_since = self.keyspace.clock().monotonic_us();
        }
        self.times_queued = self.times_queued.saturating_add(1);
        self.ticket = Some(ticket);
        if !asks_handoff {
            self.release_held();
        } else if self.held > 0 {
            self.time_hold();
        }
        true
    }

    /// Whether the acquisition was beaten often and long enough to ask for a handoff.
    fn is_out_of_patience(&self) -> bool {
        self.times_queued >= PATIENCE
            && self.keyspace.clock().monotonic_us() - self.beaten_since >= PATIENCE_US
    }

    /// Claims all its partitions: transactions that would hold one for long let it go first.
    pub(super) fn claim(&mut self) {
        if let LockScope::Partitions(partitions) = &self.wanted
            && self.claim.is_none()
            && partitions.len() > 1
        {
            self.claim = Some(self.keyspace.lot().claims().make(partitions));
        }
    }

    /// Says that its locks, which are all there, will be held for long. `false` if another claimed
    /// any of them before: a transaction that has changed nothing yet gives them back.
    #[must_use]
    pub fn prolong(&mut self) -> bool {
        let LockScope::Partitions(partitions) = &self.wanted else { return true };
        if !self.is_complete() {
            // A visitor goes from lock to lock and holds none while it moves to where it may wait.
            debug_assert_eq!(self.held, 0, "who waits for locks holds none for long");
            return true;
        }
        for &index in partitions {
            self.keyspace.partition(index).word.prolong(self.keyspace.lot(), index);
        }
        let is_first = !self.keyspace.lot().claims().stand_before(self.claim, partitions, None);
        if is_first {
            self.end_claim();
        }
        is_first
    }

    /// Gives its locks back, to get them again behind older claims, by `poll`.
    pub fn defer(&mut self) {
        self.release_held();
        self.defers = true;
    }

    fn end_claim(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.keyspace.lot().claims().end(claim);
        }
    }

    /// The partition whose lock it is queued for.
    #[must_use]
    pub fn awaits(&self) -> Option<PartitionIndex> {
        self.ticket.as_ref().map(Ticket::index)
    }

    /// What the acquisition would wait for.
    #[must_use]
    pub fn obstacle(&self) -> WaitReason<'_> {
        match &self.wanted {
            LockScope::Partitions(partitions) => WaitReason::Partitions(partitions),
            LockScope::World => WaitReason::World,
        }
    }

    /// From here until the locks are given back their hold is timed.
    pub fn time_hold(&mut self) {
        let clock = self.keyspace.clock();
        if self.held_since == UNTIMED {
            self.held_since = clock.monotonic_us();
        }
    }

    /// What a held partition contains; `None` if it is not held.
    #[inline]
    pub(crate) fn content(&self, partition: PartitionIndex) -> Option<&PartitionContent> {
        // SAFETY: held, by lock or by world, as long as `self` is borrowed; exclusive borrows
        // come only from `content_mut`, which borrows `self` exclusively.
        self.holds(partition).then(|| unsafe { &*self.keyspace.partition(partition).content() })
    }

    /// What a held partition contains, to be changed; `None` if it is not held.
    #[inline]
    pub(crate) fn content_mut(
        &mut self,
        partition: PartitionIndex,
    ) -> Option<&mut PartitionContent> {
        // SAFETY: as in `content`, exclusively.
        self.holds(partition).then(|| unsafe { &mut *self.keyspace.partition(partition).content() })
    }

    /// The content of every partition that is held by its own lock.
    #[inline]
    pub(crate) fn each_held(&self) -> impl Iterator<Item = &PartitionContent> {
        let held = match &self.wanted {
            LockScope::Partitions(partitions) => &partitions[..self.held],
            LockScope::World => &[],
        };
        // SAFETY: as in `content`; all of these are held.
        held.iter().map(|&index| unsafe { &*self.keyspace.partition(index).content() })
    }

    /// Does something to the content of every partition that is held by its own lock.
    pub(crate) fn for_each_held(&mut self, mut change: impl FnMut(&mut PartitionContent)) {
        let LockScope::Partitions(partitions) = &self.wanted else { return };
        for &index in &partitions[..self.held] {
            // SAFETY: held, and partitions are distinct; `self` is borrowed exclusively.
            change(unsafe { &mut *self.keyspace.partition(index).content() });
        }
    }

    #[inline]
    fn holds(&self, partition: PartitionIndex) -> bool {
        match &self.wanted {
            LockScope::Partitions(partitions) => is_among(partition, &partitions[..self.held]),
            LockScope::World => self.is_complete(),
        }
    }

    fn poll_world(&mut self, waker: &Waker) -> Poll<()> {
        let world = self.keyspace.world();
        world.poll(self.world.get_or_insert_with(|| world.request(waker)), waker)
    }

    fn release_held(&mut self) {
        let LockScope::Partitions(partitions) = &self.wanted else { return };
        for &index in &partitions[..self.held] {
            self.keyspace.partition(index).word.release(self.keyspace.lot(), index);
        }
        self.held = 0;
        let since = std::mem::replace(&mut self.held_since, UNTIMED);
        if since != UNTIMED {
            let micros = self.keyspace.clock().monotonic_us() - since;
            self.keyspace.stall_stats().note_hold(u64::try_from(micros).unwrap_or(0));
        }
    }

    /// Lets go of one partition set and names the next: what a walk over partitions does.
    pub(crate) fn retarget(&mut self, partitions: PartitionSet) {
        debug_assert!(self.ticket.is_none(), "who holds everything waits for nothing");
        self.release_held();
        self.end_claim();
        self.wanted = LockScope::of_partitions(partitions);
    }
}

/// Whether a partition is one of some in rising order. So few as most transactions have are all
/// compared, those in the middle twice, without a branch for each.
#[inline]
fn is_among(partition: PartitionIndex, sorted: &[PartitionIndex]) -> bool {
    let (Some(first), Some(last)) = (sorted.first_chunk::<LANES>(), sorted.last_chunk::<LANES>())
    else {
        return sorted.contains(&partition);
    };
    if sorted.len() > 2 * LANES {
        // So many are smaller at most, and so many of all are not among them: where nearly all are
        // there, few places are left to look at.
        let (place, missing) = (usize::from(partition), PARTITIONS - sorted.len());
        let (from, to) = (place.saturating_sub(missing), sorted.len().min(place + 1));
        return from < to && sorted[from..to].binary_search(&partition).is_ok();
    }
    let has = |some: &[PartitionIndex; LANES]| {
        some.iter().fold(false, |found, one| found | (*one == partition))
    };
    has(first) | has(last)
}

impl LockScope {
    fn of_partitions(mut partitions: PartitionSet) -> Self {
        if partitions.len() > MARKED_MIN {
            return Self::Partitions(distinct(&partitions));
        }
        if partitions.len() > 1 {
            sort(&mut partitions);
            partitions.dedup();
        }
        Self::Partitions(partitions)
    }
}

/// Distinct partitions in rising order, of very many: each is marked among all there are.
#[cold]
fn distinct(partitions: &[PartitionIndex]) -> PartitionSet {
    let mut marks = vec![0_u64; PARTITIONS.div_ceil(64)];
    for &partition in partitions {
        marks[usize::from(partition) / 64] |= 1 << (partition % 64);
    }
    let of_word = |(place, mut word): (usize, u64)| {
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros();
            word = word.checked_sub(1).map(|rest| word & rest)?;
            Some((place * 64) as PartitionIndex + bit as PartitionIndex)
        })
    };
    marks.into_iter().enumerate().flat_map(of_word).collect()
}

/// Puts partitions in rising order. So few as most transactions have are each put where those that
/// are smaller say, without a branch that the processor would guess wrong every other time.
fn sort(partitions: &mut [PartitionIndex]) {
    const MOST: usize = 16;
    if partitions.len() > MOST {
        return partitions.sort_unstable();
    }
    // The places behind the partitions make equal ones distinct.
    let mut numbers = [u32::MAX; MOST];
    for (number, (place, &partition)) in numbers.iter_mut().zip(partitions.iter().enumerate()) {
        *number = u32::from(partition) * MOST as u32 + place as u32;
    }
    for number in &numbers[..partitions.len()] {
        let rank = numbers.iter().map(|other| u32::from(other < number)).sum::<u32>();
        partitions[rank as usize] = (number / MOST as u32) as PartitionIndex;
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && let LockScope::Partitions(partitions) = &self.wanted
        {
            // The ticket is for the first partition not held, or after a release for any of them;
            // the ticket knows which.
            let index = ticket.index();
            debug_assert!(partitions.contains(&index));
            let word = &self.keyspace.partition(index).word;
            if self.keyspace.lot().withdraw(word, &ticket) {
                word.release(self.keyspace.lot(), index);
            }
        }
        self.release_held();
        self.end_claim();
        if let Some(ticket) = self.world.take() {
            self.keyspace.world().release(&ticket);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use base::random::Random;

    use super::{PARTITIONS, PartitionSet, distinct, is_among, sort};
    use crate::lock::partition::PartitionIndex;

    #[test]
    fn any_number_of_partitions_comes_into_rising_order() {
        let mut random = Random::from_seed(1);
        for round in 0..5000 {
            // Few of them, so that some are equal, and all there are.
            let bound = if round % 2 == 0 { 12 } else { crate::PARTITIONS as u64 };
            let number = |random: &mut Random| random.below(bound) as PartitionIndex;
            let mut partitions: Vec<_> = (0..round % 20).map(|_| number(&mut random)).collect();
            let mut expected = partitions.clone();
            expected.sort_unstable();
            sort(&mut partitions);
            assert_eq!(partitions, expected);
        }
    }

    #[test]
    fn very_many_partitions_come_into_rising_order_each_once() {
        let mut random = Random::from_seed(3);
        for count in [0, 1, 63, 64, 65, 1000, PARTITIONS, 3 * PARTITIONS] {
            let number = |_| random.below(PARTITIONS as u64) as PartitionIndex;
            let mut partitions: PartitionSet = (0..count).map(number).collect();
            partitions.extend([0, PARTITIONS as PartitionIndex - 1]);
            let found = distinct(&partitions);
            partitions.sort_unstable();
            partitions.dedup();
            assert_eq!(found, partitions, "{count}");
        }
    }

    #[test]
    fn partitions_that_are_among_others_are_found() {
        let mut random = Random::from_seed(2);
        // Nearly all there are, and all.
        for missing in [0, 1, 7, 900, PARTITIONS / 2] {
            let mut some: Vec<_> = (0..PARTITIONS as PartitionIndex).collect();
            for _ in 0..missing {
                some.remove(random.below(some.len() as u64) as usize);
            }
            for partition in 0..PARTITIONS as PartitionIndex {
                let expected = some.binary_search(&partition).is_ok();
                assert_eq!(is_among(partition, &some), expected, "{missing}: {partition}");
            }
        }
        for round in 0..5000 {
            let mut some: Vec<_> =
                (0..round % 40).map(|_| random.below(60) as PartitionIndex).collect();
            some.sort_unstable();
            some.dedup();
            for partition in 0..61 {
                assert_eq!(is_among(partition, &some), some.contains(&partition), "{some:?}");
            }
        }
    }
}
