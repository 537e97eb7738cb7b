//! The memory budget: what is in use, what may be, and whether a command still fits.
//!
//! What is in use is every allocation of the process, and what the system gave beyond that and
//! cannot be given back at present. Eviction, the refusal of writes, INFO and MEMORY go by this one
//! figure.
//!
//! Invariant: looking costs three loads, and without a limit one.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use commands::Flags;
use keyspace::{Refusal, arena, garbage_bytes, heap};
use proto::Args;

use crate::config::Config;
use crate::config::settings::MAXMEMORY;
use crate::spell::Spell;
use crate::startup::memory::{cgroup_limit, of_machine};

/// What a command is told that would take memory where none is left.
pub(crate) const OUT_OF_MEMORY: Refusal =
    Refusal::error("OOM command not allowed when used memory > 'maxmemory'.");

/// Requests from here on count as memory before they are executed: they are about to be stored. The
/// others go by what is in use alone, as in Redis.
const LARGE_REQUEST: usize = 16 * 1024;

/// Up to here a limit is small: beside it what comes and goes within a second would be much, and so
/// would be what the start took.
const SMALL_LIMIT: u64 = 64 << 20;

/// What the system gave beyond what is counted is what it has been for so many looks at least: what
/// is on its way back does not count. Where what is free goes back at once, nothing is.
const LOOKS: usize = 2;
const LOOKS_IF_SMALL: usize = 10;
const LOOKS_AT_ONCE: usize = 1;

/// Between two looks where the limit is near and not small, in microseconds: as long as mimalloc
/// waits before it gives back, and where it does that at once.
const LOOK_PAUSE_US: i64 = 10_000;
const LOOK_PAUSE_AT_ONCE_US: i64 = 5_000;

/// What is free goes back at once from where this part of a limit that is not small lies idle,
/// until that is half as much. To keep what large values leave for those that come next saves two
/// fifths of their time; but where many sizes come and go mimalloc waits for a pause for ever.
const IDLE_PART: usize = 8;

/// Where so much of a limit that is not small, in percent, is in use, looks are frequent.
const NEAR: u64 = 75;

/// Stacks, free lists and the like, which no limit needs to know of: so much, or this part of the
/// limit.
const TOLERATED: usize = 1 << 20;
const TOLERATED_PART: u64 = 256;

/// What may lie free in the arena: so much, or this part of the limit. From there on what is
/// evicted makes room only by being compacted, so less would be compacted all the time.
const TOLERATED_SLACK: usize = 4 << 20;
const TOLERATED_SLACK_PART: u64 = 64;

/// Of what a limit has beyond a small one, this part is for what the start took, with the program
/// itself.
const START_PART: u64 = 12;

/// Threads are asked to give back what their allocator holds where that was so much, and an eighth,
/// more for so many microseconds than it was after they last did; and what that left shows after
/// so many more.
const RELEASED_FROM: usize = 4 << 20;
const IDLE_US: i64 = 1_000_000;
const RELEASE_US: i64 = 2_000_000;

/// Both where what becomes free goes back at once: with those above a cache of containers that were
/// freed by other threads than made them evicted all it had, since nothing of that came back.
const RELEASE_AT_ONCE_US: i64 = 20_000;

/// What may be in use, and what is.
#[derive(Default)]
pub(crate) struct Budget {
    /// In bytes; 0 is no limit.
    limit: AtomicU64,
    /// Bytes that the system gave beyond what is counted and what lies free in the arena, since
    /// the start.
    overhead: AtomicUsize,
    /// What the start took beyond what is counted, and what of the program is resident by now.
    start: AtomicUsize,
    /// What was in use before the first client came.
    startup: AtomicUsize,
    /// Whether nothing could be evicted when that was last tried.
    is_exhausted: AtomicBool,
    /// More is in use than may be, after what could be done about it was.
    pub(crate) excess: Spell,
    looks: Mutex<Looks>,
    /// How often workers were asked to give back what their allocator holds.
    releases: AtomicU32,
    /// Before that another look would tell nothing new, on the monotonic clock in microseconds.
    look_due_us: AtomicI64,
}

/// What is to be done about memory that lies idle.
pub(crate) struct Advice {
    /// Threads should give back what their allocator holds.
    pub(crate) release: bool,
    /// Whether what becomes free should go back at once, if that is no longer as it was.
    pub(crate) at_once: Option<bool>,
}

/// The latest looks at what the system gave.
#[derive(Default)]
struct Looks {
    /// What it gave beyond what is counted before the first client came.
    at_startup: Option<usize>,
    latest: [usize; LOOKS_IF_SMALL],
    /// The least since it was last judged, and when it will be again.
    least: usize,
    judged_us: i64,
    /// What the latest release left.
    left: usize,
    /// Whether what becomes free goes back at once.
    at_once: bool,
}

impl Budget {
    /// Reads the limit anew; what could not be evicted before may be now.
    pub(crate) fn configure(&self, config: &Config) {
        self.limit.store(limit_in_bytes(config), Ordering::Relaxed);
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// The limit in bytes; 0 is no limit.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes in use, to within some kilobytes.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        heap::used() + self.beyond()
    }

    /// Bytes in use.
    pub(crate) fn used_exactly(&self) -> usize {
        heap::used_exactly() + self.beyond()
    }

    /// What is taken from the system, in nobody's use, and more than is tolerated: as it was seen
    /// of late, and what lies free in the arena, which is known at once.
    #[inline]
    fn beyond(&self) -> usize {
        let (overhead, slack) = (self.overhead.load(Ordering::Relaxed), arena::slack());
        let tolerated_slack = self.tolerated_slack();
        if self.is_small() {
            return (overhead + slack).saturating_sub(tolerated_slack);
        }
        let part = (self.limit() / TOLERATED_PART) as usize;
        let idle = (overhead + self.start_share()).saturating_sub(TOLERATED.max(part));
        idle + slack.saturating_sub(tolerated_slack)
    }

    /// As much of what the start took as counts.
    #[inline]
    fn start_share(&self) -> usize {
        let share = self.limit().saturating_sub(SMALL_LIMIT) / START_PART;
        self.start.load(Ordering::Relaxed).min(share as usize)
    }

    /// What may lie free in the arena and does not count.
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
    pub(crate) fn startup(&self) -> usize {
        self.startup.load(Ordering::Relaxed)
    }

    /// Whether `more` bytes would exceed the limit.
    #[inline]
    pub(crate) fn is_exceeded(&self, more: usize) -> bool {
        self.missing(more) > 0
    }

    /// By how much `more` bytes would exceed the limit.
    #[inline]
    pub(crate) fn missing(&self, more: usize) -> usize {
        let limit = self.limit();
        if limit == 0 {
            return 0;
        }
        // What is on its way to be freed need not be made room for.
        let room = limit + garbage_bytes() as u64;
        ((self.used() + more) as u64).saturating_sub(room) as usize
    }

    /// Notes whether anything can be evicted.
    pub(crate) fn note_exhausted(&self, is_exhausted: bool) {
        if self.is_exhausted.load(Ordering::Relaxed) != is_exhausted {
            self.is_exhausted.store(is_exhausted, Ordering::Relaxed);
        }
    }

    /// Whether more is in use than may be, and nothing can be evicted.
    #[inline]
    pub(crate) fn is_out_of_memory(&self, more: usize) -> bool {
        self.is_exceeded(more) && self.is_exhausted.load(Ordering::Relaxed)
    }

    /// Refuses a command that may take memory where none is left.
    #[inline]
    pub(crate) fn refuse(&self, flags: Flags, room: impl FnOnce() -> usize) -> Option<Refusal> {
        if self.limit() == 0 || !flags.has(Flags::DENYOOM) {
            return None;
        }
        self.is_out_of_memory(room()).then_some(OUT_OF_MEMORY)
    }

    /// Whether the limit is so near that what the system gave should be looked at all the time.
    pub(crate) fn is_near(&self) -> bool {
        let limit = self.limit();
        !self.is_small() && self.used() as u64 > limit / 100 * NEAR
    }

    /// How long to let go by between two looks where the limit is near, in microseconds.
    pub(crate) fn look_pause_us(&self) -> i64 {
        self.looks().pause_us()
    }

    /// Looks at what the system gave if that was not just done; the first look is before the first
    /// client comes. Of several threads that come at the same time one looks.
    #[inline]
    pub(crate) fn look(&self, now_us: i64) -> Option<Advice> {
        if self.is_look_due(now_us) { self.look_closely(now_us) } else { None }
    }

    #[inline]
    fn is_look_due(&self, now_us: i64) -> bool {
        now_us >= self.look_due_us.load(Ordering::Relaxed)
    }

    fn look_closely(&self, now_us: i64) -> Option<Advice> {
        let mut looks = self.looks();
        if !self.is_look_due(now_us) {
            return None;
        }
        let counted = heap::used_exactly() + arena::slack();
        let (resident, of_files) = resident();
        let beyond = resident.saturating_sub(of_files + counted);
        let at_startup = *looks.at_startup.get_or_insert_with(|| {
            self.startup.store(heap::used_exactly(), Ordering::Relaxed);
            beyond
        });
        self.start.store(at_startup + of_files, Ordering::Relaxed);
        let beyond = beyond.saturating_sub(at_startup);
        let idle_max = if self.is_small() { usize::MAX } else { self.limit() as usize / IDLE_PART };
        let at_once = looks.turns(beyond, idle_max);
        let count = match (self.is_small(), looks.at_once) {
            (true, _) => LOOKS_IF_SMALL,
            (false, false) => LOOKS,
            (false, true) => LOOKS_AT_ONCE,
        };
        let overhead = looks.note(beyond, count);
        self.overhead.store(overhead, Ordering::Relaxed);
        self.look_due_us.store(now_us + looks.pause_us(), Ordering::Relaxed);
        Some(Advice { release: looks.wants_release(overhead, now_us), at_once })
    }

    /// How often workers were asked to give back what their allocator holds.
    pub(crate) fn releases(&self) -> u32 {
        self.releases.load(Ordering::Relaxed)
    }

    /// Asks them once more.
    pub(crate) fn ask_release(&self) {
        self.releases.fetch_add(1, Ordering::Relaxed);
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().expect("no critical section here panics")
    }
}

impl Looks {
    /// Notes another look; the least of so many of the latest.
    fn note(&mut self, overhead: usize, count: usize) -> usize {
        self.latest.rotate_right(1);
        self.latest[0] = overhead;
        self.latest[..count].iter().copied().min().unwrap_or(0)
    }

    /// How long to let go by until the next look.
    fn pause_us(&self) -> i64 {
        if self.at_once { LOOK_PAUSE_AT_ONCE_US } else { LOOK_PAUSE_US }
    }

    /// Whether what becomes free should go back at once, if that is no longer as it was.
    fn turns(&mut self, idle: usize, idle_max: usize) -> Option<bool> {
        let at_once = idle > if self.at_once { idle_max / 2 } else { idle_max };
        (std::mem::replace(&mut self.at_once, at_once) != at_once).then_some(at_once)
    }

    /// Whether so much has lain idle for some time that workers should give back what they hold:
    /// not if they just did, or if that did not help.
    fn wants_release(&mut self, overhead: usize, now_us: i64) -> bool {
        self.least = self.least.min(overhead);
        if now_us < self.judged_us {
            return false;
        }
        let idle = std::mem::replace(&mut self.least, usize::MAX);
        self.left = self.left.min(idle);
        let is_wanted = idle > self.left + self.left / 8 + RELEASED_FROM;
        if is_wanted {
            // What comes beyond this is new, even if it comes before the release can be judged.
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
pub(crate) fn room_for(flags: Flags, args: Args<'_>) -> usize {
    if flags.has(Flags::DENYOOM) { room_of(args.iter().map(<[u8]>::len).sum()) } else { 0 }
}

/// What room a request of so many bytes needs, if it stores them.
#[inline]
pub(crate) fn room_of(request: usize) -> usize {
    if request < LARGE_REQUEST { 0 } else { request }
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

/// The resident set of the process.
pub(crate) fn resident_bytes() -> usize {
    resident().0
}

/// The resident set, and what of it is shared with files; nothing where the system does not tell.
fn resident() -> (usize, usize) {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|field| field.parse().unwrap_or(0));
    let mut next = || pages.next().unwrap_or(0) * rustix::param::page_size();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{
        Budget, LOOK_PAUSE_US, LOOKS, LOOKS_IF_SMALL, Looks, RELEASE_AT_ONCE_US, RELEASE_US,
        RELEASED_FROM, SMALL_LIMIT,
    };

    #[test]
    fn what_is_on_its_way_back_to_the_system_is_no_overhead() {
        for count in [LOOKS, LOOKS_IF_SMALL] {
            let mut looks = Looks::default();
            (0..count).for_each(|_| _ = looks.note(100, count));
            assert_eq!(looks.note(5000, count), 100, "it may be gone again at the next look");
            for _ in 0..count - 2 {
                assert_eq!(looks.note(700, count), 100);
            }
            assert_eq!(looks.note(700, count), 700, "it stays");
            assert_eq!(looks.note(3, count), 3);
        }
    }

    #[test]
    fn what_lies_idle_is_asked_for_once_and_again_only_where_there_is_more() {
        let mut looks = Looks::default();
        let mut now_us = 0;
        // For so long that it is judged at least once what it is now.
        let mut wants = |overhead| {
            (0..20).fold(false, |is_wanted, _| {
                now_us += RELEASE_US / 20;
                looks.wants_release(overhead, now_us) | is_wanted
            })
        };
        assert!(!wants(RELEASED_FROM));
        assert!(wants(10 * RELEASED_FROM));
        // It did not help: all of it is in pages that are in use.
        assert!(!(0..10).any(|_| wants(10 * RELEASED_FROM)));
        assert!(wants(13 * RELEASED_FROM), "there is more of it");
        // This time it did.
        assert!(!wants(RELEASED_FROM));
        assert!(wants(10 * RELEASED_FROM));
        // What came right after it is asked for as soon as may be, and once.
        let later = (0..3).filter(|_| wants(30 * RELEASED_FROM));
        assert_eq!(later.count(), 1);
    }

    #[test]
    fn what_is_free_goes_back_at_once_while_much_lies_idle() {
        let mut looks = Looks::default();
        let idle = [10, 80, 81, 300, 41, 40, 80];
        let turns = idle.map(|idle| looks.turns(idle, 80));
        assert_eq!(turns, [None, None, Some(true), None, None, Some(false), None]);
    }

    #[test]
    fn where_it_goes_back_at_once_more_that_lies_idle_is_asked_for_at_once() {
        let mut looks = Looks::default();
        assert_eq!(looks.turns(20 * RELEASED_FROM, 10 * RELEASED_FROM), Some(true));
        // Evicting adds to it, and none of it comes back.
        let asked = (1..=100).filter(|look| {
            let (idle, now_us) = (look * RELEASED_FROM, (*look as i64) * RELEASE_AT_ONCE_US);
            looks.wants_release(idle, now_us)
        });
        assert!(asked.count() > 10, "in the two seconds that one release takes elsewhere");
    }

    #[test]
    fn a_look_right_after_another_is_none() {
        let budget = Budget::default();
        let looks = [0, 1, LOOK_PAUSE_US - 1, LOOK_PAUSE_US, LOOK_PAUSE_US + 1, i64::MAX / 2];
        let looked = looks.map(|now_us| budget.look(now_us).is_some());
        assert_eq!(looked, [true, false, false, true, false, true]);
    }

    #[test]
    fn what_the_start_took_counts_beside_large_limits() {
        let budget = Budget::default();
        budget.start.store(10 << 20, Ordering::Relaxed);
        let share = |limit: u64| {
            budget.limit.store(limit, Ordering::Relaxed);
            budget.start_share()
        };
        assert_eq!((share(0), share(1), share(SMALL_LIMIT)), (0, 0, 0));
        assert_eq!(share(SMALL_LIMIT + (12 << 20)), 1 << 20);
        assert_eq!((share(200 << 20), share(1 << 40)), (10 << 20, 10 << 20));
    }
}
