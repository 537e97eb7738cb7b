//! The memory budget: what is in use, what may be, and whether a command still fits.
//!
//! In use is what is alive: every allocation of the process, counted where it is made and where it
//! is freed (`structs::heap`). Eviction, the refusal of writes, INFO and MEMORY go by this one
//! figure. What the allocator holds beyond it is watched apart and given back (`purge.rs`);
//! nothing is evicted to make that smaller.
//!
//! Invariant: looking costs two loads, and without a limit one.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use commands::Flags;
use config::settings::{MAXMEMORY, MAXMEMORY_POLICY, REPLICA_IGNORE_MAXMEMORY};
use config::{Config, MaxmemoryPolicy};
use keyspace::{Refusal, arena, heap};
use proto::Args;

use super::log_buffers;
use super::replica_role::ReplicaRole;
use crate::runtime::backpressure::Backpressure;
use crate::runtime::lanes::READ_SIZE;
use crate::runtime::stopwatch::Stopwatch;
use crate::runtime::system_memory::{ResidentSet, cgroup_limit, of_machine, resident};

/// What a command is told that would take memory where none is left.
pub(crate) const OUT_OF_MEMORY: Refusal =
    Refusal::error("OOM command not allowed when used memory > 'maxmemory'.");

/// Requests of these sizes are about to be stored and count as memory before they are executed:
/// smaller ones go by what is in use alone, as in Redis; larger ones lie in a buffer of their own,
/// which is in use already and freed once they are stored.
const LARGE_REQUESTS: std::ops::Range<usize> = 16 * 1024..READ_SIZE;

/// Beside limits up to here what the allocator holds for some milliseconds is nothing to act on.
const SMALL_LIMIT: u64 = 64 << 20;

/// Between two looks where the limit is near and not small, in microseconds: as long as mimalloc
/// waits before it gives back, and where it does that at once.
const CHECK_PAUSE_US: i64 = 10_000;
const CHECK_PAUSE_AT_ONCE_US: i64 = 5_000;

/// What is free goes back at once from where this part of a limit that is not small lies idle,
/// until that is half as much. To keep what large values leave for those that come next saves two
/// fifths of their time; but where many sizes come and go mimalloc waits for a pause for ever.
const IDLE_PART: usize = 8;

/// Where so much of a limit that is not small, in percent, is in use, looks are frequent.
const NEAR: u64 = 75;

/// What may lie free in the arena beside a limit: so much, or this part of it.
const TOLERATED_SLACK: usize = 4 << 20;
const TOLERATED_SLACK_PART: u64 = 64;

/// Where all keys that may go are in use by others, writes go on beyond the limit by this part of
/// it.
const BUSY_PART: u64 = 64;

/// Threads are asked to give back what their allocator holds where that was so much, and an eighth,
/// more for so many microseconds than it was after they last did; and what that left shows after
/// so many more.
const RELEASED_FROM: usize = 4 << 20;
const IDLE_US: i64 = 1_000_000;
const RELEASE_US: i64 = 2_000_000;

/// Where that did not help they are asked again after so long, then after twice as long, up to the
/// longest: what became free meanwhile may look like what was not given back.
const RETRY_US: i64 = 2 * RELEASE_US;
const RETRY_MAX_US: i64 = 64 * RETRY_US;

/// What the system told of the resident set is told on for so long.
const RESIDENT_US: i64 = 100_000;

/// Both where what becomes free goes back at once.
const RELEASE_AT_ONCE_US: i64 = 20_000;

/// What may be in use, and what is.
#[derive(Default)]
pub struct Budget {
    /// In bytes; 0 is no limit.
    configured: AtomicU64,
    /// The same where it is kept, and 0 where it is not.
    limit: AtomicU64,
    /// Whether nothing could be evicted when that was last tried.
    is_exhausted: AtomicBool,
    /// Changes of the data while nothing could be evicted.
    changes: AtomicU32,
    /// One more than `changes` when it was found that nothing can be evicted: until the next change
    /// there is no use in another try, or not before some time.
    settled: AtomicU32,
    settled_until_us: AtomicI64,
    /// On while writes exceed the limit by no more than what is being freed in the background.
    pub(crate) backpressure: Backpressure,
    /// Bytes that batches of eviction under way are about to free.
    reserved: AtomicUsize,
    /// What was in use before the first client came.
    startup: AtomicUsize,
    /// More is in use than may be, after what could be done about it was.
    pub excess: Stopwatch,
    checks: Mutex<MemoryChecks>,
    /// How often workers were asked to give back what their allocator holds.
    purges: AtomicU32,
    /// Before that another look would tell nothing new, on the monotonic clock in microseconds.
    check_due_us: AtomicI64,
}

/// What is to be done about memory that lies idle.
pub struct PurgeAdvice {
    /// Threads should give back what their allocator holds.
    pub(crate) purge: bool,
    /// Whether what becomes free should go back at once, if that is no longer as it was.
    pub(crate) at_once: Option<bool>,
}

/// The latest looks at what the system gave.
#[derive(Default)]
struct MemoryChecks {
    /// What the system gave beyond what is counted before the first client came.
    at_startup: Option<usize>,
    /// The least since it was last judged, and when it will be again.
    least: usize,
    judged_us: i64,
    /// What the latest purge left.
    left: usize,
    /// When threads are asked again though that did not help, and how long they were not.
    retry_us: i64,
    retry_pause_us: i64,
    /// Whether what becomes free goes back at once.
    at_once: bool,
    /// The resident set as it was last read, and when.
    resident: Option<(i64, ResidentSet)>,
}

/// So many bytes that a batch is about to free; others need not free them, too.
pub(crate) struct Reservation<'a> {
    budget: &'a Budget,
    pub(crate) bytes: usize,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Budget {
    /// Reads the limit anew; what could not be evicted before may be now.
    pub fn configure(&self, config: &Config, role: &ReplicaRole) {
        self.configured.store(limit_in_bytes(config), Ordering::Relaxed);
        let is_others = role.is_replica() && config.get(REPLICA_IGNORE_MAXMEMORY);
        let limit = if is_others { 0 } else { self.configured() };
        self.limit.store(limit, Ordering::Relaxed);
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// What `maxmemory` says, in bytes; 0 is no limit.
    pub fn configured(&self) -> u64 {
        self.configured.load(Ordering::Relaxed)
    }

    /// The limit that is kept, in bytes; 0 is no limit, as where a primary keeps its own.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes in use.
    pub fn used_exactly(&self) -> usize {
        heap::used_exactly()
    }

    /// What may lie free in the arena and is not worth compacting beside a command.
    #[inline]
    pub(crate) fn tolerated_slack(&self) -> usize {
        TOLERATED_SLACK.max((self.limit() / TOLERATED_SLACK_PART) as usize)
    }

    /// Whether the limit is small, or none.
    #[inline]
    fn is_small(&self) -> bool {
        self.limit() <= SMALL_LIMIT
    }

    /// What was in use before the first client came.
    pub fn startup(&self) -> usize {
        self.startup.load(Ordering::Relaxed)
    }

    /// Whether `more` bytes would exceed the limit.
    #[inline]
    pub fn is_exceeded(&self, more: usize) -> bool {
        self.missing(more) > 0
    }

    /// By how much `more` bytes would exceed the limit.
    #[inline]
    pub(crate) fn missing(&self, more: usize) -> usize {
        let limit = self.limit();
        if limit == 0 {
            return 0;
        }
        // No key that goes makes the way to a disk or a replica any shorter.
        let data = heap::used().saturating_sub(log_buffers::not_counted());
        ((data + more) as u64).saturating_sub(limit) as usize
    }

    /// Whether what is missing is little enough to go on with, where others use the keys that may
    /// go.
    pub(crate) fn is_slightly_exceeded(&self, more: usize) -> bool {
        self.missing(more) as u64 <= self.limit() / BUSY_PART
    }

    /// Reserves what a batch is to free: what is missing, beyond what is about to be freed; `None`
    /// if that is enough. Of what `garbage` is, nothing need be evicted.
    pub(crate) fn reserve(&self, more: usize, garbage: usize) -> Option<Reservation<'_>> {
        let missing = self.missing(more).saturating_sub(garbage);
        let reserved = self.reserved.fetch_add(missing, Ordering::Relaxed);
        let mut reservation = Reservation { budget: self, bytes: missing };
        let bytes = missing.saturating_sub(reserved);
        self.reserved.fetch_sub(missing - bytes, Ordering::Relaxed);
        reservation.bytes = bytes;
        (bytes > 0).then_some(reservation)
    }

    /// Notes whether anything can be evicted.
    pub(crate) fn note_exhausted(&self, is_exhausted: bool) {
        if self.is_exhausted.load(Ordering::Relaxed) != is_exhausted {
            self.is_exhausted.store(is_exhausted, Ordering::Relaxed);
        }
    }

    /// What a look for keys to evict begins with; for `settle`.
    pub(crate) fn changes(&self) -> Option<u32> {
        let changes = self.changes.load(Ordering::Acquire);
        // Changes are counted only while nothing can be evicted.
        self.is_exhausted.load(Ordering::Relaxed).then_some(changes)
    }

    /// Notes that a look found nothing that may be evicted, where it began, and until when another
    /// would find no more.
    pub(crate) fn note_nothing_evictable(&self, changes: Option<u32>, until_us: i64) {
        if let Some(changes) = changes {
            self.settled_until_us.store(until_us, Ordering::Relaxed);
            self.settled.store(changes.wrapping_add(1), Ordering::Relaxed);
        }
        self.note_exhausted(true);
    }

    /// Whether nothing can be evicted, and nothing has changed since that was found.
    #[inline]
    pub fn is_settled(&self, now_us: i64) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
            && now_us < self.settled_until_us.load(Ordering::Relaxed)
            && self.settled.load(Ordering::Relaxed)
                == self.changes.load(Ordering::Relaxed).wrapping_add(1)
    }

    /// Notes that the data changed: there may be keys to evict.
    #[inline]
    pub(crate) fn note_change(&self) {
        if self.is_exhausted.load(Ordering::Relaxed) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether more is in use than may be, and nothing can be evicted.
    #[inline]
    pub fn is_out_of_memory(&self, more: usize) -> bool {
        self.is_exhausted.load(Ordering::Relaxed) && self.is_exceeded(more)
    }

    /// Refuses a command that may take memory where none is left.
    #[inline]
    pub(crate) fn refuse(&self, flags: Flags, room: impl FnOnce() -> usize) -> Option<Refusal> {
        if self.limit() == 0 || !flags.has(Flags::DENYOOM) {
            return None;
        }
        self.is_out_of_memory(room()).then_some(OUT_OF_MEMORY)
    }

    /// As `refuse`, where nobody has looked whether room can be made: for a command that has its
    /// locks, while so much garbage waits to be freed.
    #[inline]
    pub(crate) fn refuse_late(
        &self,
        config: &Config,
        flags: Flags,
        more: usize,
        garbage: usize,
    ) -> Option<Refusal> {
        if self.limit() == 0 || !flags.has(Flags::DENYOOM) || self.missing(more) <= garbage {
            return None;
        }
        // Where a policy lets keys go, workers note whether they find any.
        let evicts = config.get(MAXMEMORY_POLICY) != MaxmemoryPolicy::Noeviction;
        (!evicts || self.is_out_of_memory(more)).then_some(OUT_OF_MEMORY)
    }

    /// Whether the limit is so near that what the system gave should be looked at all the time.
    pub fn is_near(&self) -> bool {
        let limit = self.limit();
        !self.is_small() && heap::used() as u64 > limit / 100 * NEAR
    }

    /// How long to let go by between two looks where the limit is near, in microseconds.
    pub fn check_pause_us(&self) -> i64 {
        self.checks().pause_us()
    }

    /// Looks at what the system gave if that was not just done; the first look is before the first
    /// client comes. Of several threads that come at the same time one looks.
    #[inline]
    pub fn check(&self, now_us: i64) -> Option<PurgeAdvice> {
        if self.is_check_due(now_us) { self.check_closely(now_us) } else { None }
    }

    #[inline]
    fn is_check_due(&self, now_us: i64) -> bool {
        now_us >= self.check_due_us.load(Ordering::Relaxed)
    }

    fn check_closely(&self, now_us: i64) -> Option<PurgeAdvice> {
        let mut checks = self.checks();
        if !self.is_check_due(now_us) {
            return None;
        }
        let counted = heap::used_exactly() + arena::slack();
        let ResidentSet { all, of_files } = checks.read_resident(now_us);
        let beyond = all.saturating_sub(of_files + counted);
        let at_startup = *checks.at_startup.get_or_insert_with(|| {
            self.startup.store(heap::used_exactly(), Ordering::Relaxed);
            beyond
        });
        let idle = beyond.saturating_sub(at_startup);
        let idle_max = if self.is_small() { usize::MAX } else { self.limit() as usize / IDLE_PART };
        let at_once = checks.turns(idle, idle_max);
        self.check_due_us.store(now_us + checks.pause_us(), Ordering::Relaxed);
        Some(PurgeAdvice { purge: checks.wants_purge(idle, now_us), at_once })
    }

    /// The resident set, as it was a tenth of a second ago at the latest; that of this moment where
    /// so many bytes are in use that it cannot be true any more.
    pub fn resident(&self, now_us: i64, used: usize) -> ResidentSet {
        let mut checks = self.checks();
        match checks.resident {
            Some((read_us, resident))
                if now_us - read_us < RESIDENT_US && resident.all >= resident.of_files + used =>
            {
                resident
            }
            _ => checks.read_resident(now_us),
        }
    }

    /// How often workers were asked to give back what their allocator holds.
    pub(crate) fn purges(&self) -> u32 {
        self.purges.load(Ordering::Relaxed)
    }

    /// Asks them once more.
    pub(crate) fn ask_purge(&self) {
        self.purges.fetch_add(1, Ordering::Relaxed);
    }

    fn checks(&self) -> MutexGuard<'_, MemoryChecks> {
        self.checks.lock().expect("no critical section here panics")
    }
}

impl MemoryChecks {
    /// How long to let go by until the next look.
    fn pause_us(&self) -> i64 {
        if self.at_once { CHECK_PAUSE_AT_ONCE_US } else { CHECK_PAUSE_US }
    }

    /// The resident set of this moment.
    fn read_resident(&mut self, now_us: i64) -> ResidentSet {
        let resident = resident();
        self.resident = Some((now_us, resident));
        resident
    }

    /// Whether what becomes free should go back at once, if that is no longer as it was.
    fn turns(&mut self, idle: usize, idle_max: usize) -> Option<bool> {
        let at_once = idle > if self.at_once { idle_max / 2 } else { idle_max };
        (std::mem::replace(&mut self.at_once, at_once) != at_once).then_some(at_once)
    }

    /// Whether so much has lain idle for some time that threads should give back what they hold:
    /// not if they just did, and ever less often while that does not help; if it did they may have
    /// more.
    fn wants_purge(&mut self, idle: usize, now_us: i64) -> bool {
        self.least = self.least.min(idle);
        if now_us < self.judged_us {
            return false;
        }
        let idle = std::mem::replace(&mut self.least, usize::MAX);
        // What was freed while threads gave back may show only when they do again.
        let has_helped = idle + idle / 8 < self.left && idle > RELEASED_FROM;
        self.left = self.left.min(idle);
        let is_new = has_helped || idle > self.left + self.left / 8 + RELEASED_FROM;
        let is_wanted = is_new || (idle > RELEASED_FROM && now_us >= self.retry_us);
        if is_wanted {
            let longer_us = if is_new { RETRY_US } else { 2 * self.retry_pause_us };
            self.retry_pause_us = longer_us.clamp(RETRY_US, RETRY_MAX_US);
            self.retry_us = now_us + self.retry_pause_us;
            // What comes beyond this is new, even if it comes before the purge can be judged.
            self.left = idle;
        }
        self.judged_us = now_us
            + match (self.at_once, is_wanted) {
                (true, _) => RELEASE_AT_ONCE_US,
                (false, true) => RELEASE_US,
                (false, false) => IDLE_US,
            };
        is_wanted
    }
}

/// What room a command needs before it runs, as far as its request tells.
#[inline]
pub(crate) fn bytes_needed(flags: Flags, args: Args<'_>) -> usize {
    if flags.has(Flags::DENYOOM) { room_of(args.iter().map(<[u8]>::len).sum()) } else { 0 }
}

/// What room a request of so many bytes needs, if it stores them.
#[inline]
pub fn room_of(request: usize) -> usize {
    if LARGE_REQUESTS.contains(&request) { request } else { 0 }
}

/// `maxmemory` in bytes. A share is one of what the process may have at all.
fn limit_in_bytes(config: &Config) -> u64 {
    match config.get(MAXMEMORY) {
        bytes @ 0.. => bytes.unsigned_abs(),
        share => {
            let machine = of_machine();
            let all = cgroup_limit().map_or(machine, |limit| limit.min(machine));
            all / 100 * share.unsigned_abs()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{
        Budget, CHECK_PAUSE_US, MemoryChecks, RELEASE_AT_ONCE_US, RELEASE_US, RELEASED_FROM,
    };

    #[test]
    fn what_lies_idle_is_asked_for_once_and_again_only_where_there_is_more() {
        let mut checks = MemoryChecks::default();
        let mut now_us = 0;
        // For so long that it is judged at least once what it is now.
        let mut wants = |overhead| {
            (0..20).fold(false, |is_wanted, _| {
                now_us += RELEASE_US / 20;
                checks.wants_purge(overhead, now_us) | is_wanted
            })
        };
        assert!(!wants(RELEASED_FROM));
        assert!(wants(10 * RELEASED_FROM));
        // No purge helped: all of it is in pages in use, or what came next is as much.
        let again = (0..500).filter(|_| wants(10 * RELEASED_FROM)).collect::<Vec<_>>();
        assert_eq!(again, [1, 5, 13, 29, 61, 125, 253, 381], "ever less often");
        assert!(wants(13 * RELEASED_FROM), "there is more of it");
        // This time it helps, as far as what is free by then goes.
        assert!(wants(5 * RELEASED_FROM), "there may be more of it by now");
        assert!(!wants(5 * RELEASED_FROM));
        assert!(!wants(RELEASED_FROM));
        assert!(wants(10 * RELEASED_FROM));
        // What came right after it is asked for as soon as may be, and once.
        let later = (0..3).filter(|_| wants(30 * RELEASED_FROM));
        assert_eq!(later.count(), 1);
    }

    #[test]
    fn what_is_free_goes_back_at_once_while_much_lies_idle() {
        let mut checks = MemoryChecks::default();
        let idle = [10, 80, 81, 300, 41, 40, 80];
        let turns = idle.map(|idle| checks.turns(idle, 80));
        assert_eq!(turns, [None, None, Some(true), None, None, Some(false), None]);
    }

    #[test]
    fn idle_memory_is_asked_for_at_once_where_a_purge_works_at_once() {
        let mut checks = MemoryChecks::default();
        assert_eq!(checks.turns(20 * RELEASED_FROM, 10 * RELEASED_FROM), Some(true));
        // Evicting adds to it, and none of it comes back.
        let asked = (1..=100).filter(|look| {
            let (idle, now_us) = (look * RELEASED_FROM, (*look as i64) * RELEASE_AT_ONCE_US);
            checks.wants_purge(idle, now_us)
        });
        assert!(asked.count() > 10, "in the two seconds that one purge takes elsewhere");
    }

    #[test]
    fn a_look_right_after_another_is_none() {
        let budget = Budget::default();
        let checks = [0, 1, CHECK_PAUSE_US - 1, CHECK_PAUSE_US, CHECK_PAUSE_US + 1, i64::MAX / 2];
        let looked = checks.map(|now_us| budget.check(now_us).is_some());
        assert_eq!(looked, [true, false, false, true, false, true]);
    }

    #[test]
    fn two_batches_do_not_free_the_same() {
        let budget = Budget::default();
        budget.limit.store(1, Ordering::Relaxed);
        let missing = |more| budget.missing(more);
        // Whatever else is allocated meanwhile is little beside this.
        const MORE: usize = 1 << 40;
        let first = budget.reserve(MORE, 0).expect("more is missing");
        assert!(first.bytes >= MORE - 1 && missing(MORE) >= MORE - 1);
        let second = budget.reserve(3 * MORE, 0).expect("as much again, and more");
        assert!((2 * MORE - (MORE >> 4)..2 * MORE + (MORE >> 4)).contains(&second.bytes));
        assert!(budget.reserve(2 * MORE, 0).is_none(), "others free that");
        drop(first);
        drop(second);
        assert!(budget.reserve(MORE, 0).is_some());
        assert!(budget.reserve(MORE, 2 * MORE).is_none(), "it is being freed already");
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn victims_are_not_looked_for_until_a_change_is_noted() {
        let budget = Budget::default();
        let look = || budget.changes();
        let settle = |changes| budget.note_nothing_evictable(changes, 100);
        let is_settled = || budget.is_settled(99);
        assert!(!is_settled());
        // A change that comes with the first look is not counted, so that settles nothing.
        settle(look());
        assert!(!is_settled());
        let before = look();
        budget.note_change();
        settle(before);
        assert!(!is_settled(), "it came after the look began");
        settle(look());
        assert!(is_settled() && !budget.is_settled(100));
        budget.note_change();
        assert!(!is_settled());
        settle(look());
        budget.note_exhausted(false);
        assert!(!is_settled());
    }
}
