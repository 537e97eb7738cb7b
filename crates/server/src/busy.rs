//! -BUSY: who waits too long for what others hold is told so, instead of waiting on.
//!
//! A data command that cannot begin waits in its session. When what it waits for, a stop of the
//! world or a command on a heavy-work thread, has lasted for `busy-reply-threshold`, it is answered
//! BUSY, and so is every later one at once. Control commands wait for nobody: unlike in Redis,
//! PING, INFO, CLIENT and CONFIG go on as ever.
//!
//! Invariant: a request that is answered so has not begun, and is in no queue any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use config::settings::BUSY_REPLY_THRESHOLD;
use keyspace::{Acquisition, BUSY, Keyspace, Obstacle, PartitionIndex, PartitionSet, Refusal};

use crate::heavy;
use crate::server::Server;
use crate::session::Parked;

/// The commands on heavy-work threads that hold locks, or keep the world from stopping.
#[derive(Default)]
pub(crate) struct Underway {
    count: AtomicUsize,
    holds: Mutex<Vec<Arc<Held>>>,
}

/// What one of them holds.
struct Held {
    /// On the monotonic clock, in microseconds.
    since_us: i64,
    /// In rising order.
    partitions: PartitionSet,
    /// Whether it has given its locks back and waits.
    is_paused: bool,
}

impl Held {
    fn holds(&self, partition: PartitionIndex) -> bool {
        self.partitions.binary_search(&partition).is_ok()
    }
}

/// A command under way; it ends when dropped, after its locks.
pub(crate) struct Hold {
    server: &'static Server,
    held: Arc<Held>,
    /// Since when it has its present locks, on the monotonic clock in microseconds.
    locked_us: i64,
}

impl Hold {
    /// A command begins that holds these partitions.
    pub(crate) fn begin(server: &'static Server, since_us: i64, partitions: PartitionSet) -> Self {
        let mut partitions = partitions;
        partitions.sort_unstable();
        let held = Arc::new(Held { since_us, partitions, is_paused: false });
        server.underway.holds().push(Arc::clone(&held));
        server.underway.count.fetch_add(1, Ordering::Relaxed);
        Self { server, held, locked_us: since_us }
    }

    /// It has given its locks back and waits for others.
    pub(crate) fn pause(&mut self) {
        self.change(PartitionSet::new(), true);
    }

    /// It has other locks now.
    pub(crate) fn resume(&mut self, partitions: PartitionSet) {
        self.change(partitions, false);
        self.locked_us = self.server.keyspace.clock().monotonic_us();
    }

    /// It may have taken more locks, beside those that it has; whether it did.
    pub(crate) fn extend(&mut self, partitions: &[PartitionIndex]) -> bool {
        let is_more = *self.held.partitions != *partitions;
        if is_more {
            let mut partitions = PartitionSet::from(partitions);
            partitions.sort_unstable();
            self.change(partitions, false);
        }
        is_more
    }

    /// A gate held the command, which had no lock: others have not waited for it so far.
    pub(crate) fn begin_anew(&mut self) {
        let since_us = self.server.keyspace.clock().monotonic_us();
        self.replace(Held { since_us, partitions: PartitionSet::new(), is_paused: true });
    }

    fn change(&mut self, partitions: PartitionSet, is_paused: bool) {
        self.note();
        self.replace(Held { since_us: self.held.since_us, partitions, is_paused });
    }

    fn replace(&mut self, held: Held) {
        let held = Arc::new(held);
        let before = std::mem::replace(&mut self.held, Arc::clone(&held));
        let mut holds = self.server.underway.holds();
        let place = holds.iter_mut().find(|other| Arc::ptr_eq(other, &before));
        *place.expect("it stands there until it is dropped") = held;
    }

    /// Notes how long it had the locks that it has.
    fn note(&self) {
        if !self.held.partitions.is_empty() {
            let micros = self.server.keyspace.clock().monotonic_us() - self.locked_us;
            self.server.keyspace.stall_stats().note_hold(u64::try_from(micros).unwrap_or(0));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Self { server, held, .. } = &*self;
        server.underway.holds().retain(|other| !Arc::ptr_eq(other, held));
        server.underway.count.fetch_sub(1, Ordering::Relaxed);
        self.note();
    }
}

impl Underway {
    /// Since when the first of those that `counts` has been under way.
    fn since(&self, counts: impl Fn(&Held) -> bool) -> Option<i64> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let holds = self.holds();
        holds.iter().filter(|held| counts(held)).map(|held| held.since_us).min()
    }

    /// Whether one that may change something has been under way since before that.
    pub(crate) fn is_any_before(&self, time_us: i64) -> bool {
        self.active_since().is_some_and(|since_us| since_us < time_us)
    }

    fn active_since(&self) -> Option<i64> {
        self.since(|held| !held.is_paused)
    }

    fn holds(&self) -> MutexGuard<'_, Vec<Arc<Held>>> {
        self.holds.lock().expect("no critical section here panics")
    }
}

/// How long a request may wait on, in microseconds: not at all if 0 or less, for ever if `None`.
pub(crate) fn patience_left(server: &Server, parked: &Parked) -> Option<i64> {
    // Behind short commands only, however many, it waits from its own beginning.
    left(server, || since(server, parked).unwrap_or(parked.began_us))
}

/// Whether a thread that works for a client waits on, as [`patience_left`] has it for sessions.
pub(crate) fn waits_on(server: &Server, obstacle: Obstacle<'_>, began_us: i64) -> bool {
    let since = || {
        let stop = server.keyspace.stopped_since();
        let held = match obstacle {
            Obstacle::World => server.underway.since(|_| true).into_iter().chain(stop).min(),
            Obstacle::Partitions(wanted) => stop
                .or_else(|| server.underway.since(|held| wanted.iter().any(|it| held.holds(*it)))),
        };
        held.unwrap_or(began_us)
    };
    left(server, since).is_none_or(|left| left > 0)
}

/// What is left of the patience with something that has lasted since then.
fn left(server: &Server, since: impl FnOnce() -> i64) -> Option<i64> {
    let threshold = i64::try_from(server.config.get(BUSY_REPLY_THRESHOLD)).unwrap_or(i64::MAX);
    if threshold == 0 {
        return None;
    }
    let now = server.keyspace.clock().monotonic_us();
    Some(since().saturating_add(threshold.saturating_mul(1000)) - now)
}

/// Since when there has been what a request waits for, if that is known.
fn since(server: &Server, parked: &Parked) -> Option<i64> {
    let Parked { acquisition, round, .. } = parked;
    let stop = server.keyspace.stopped_since();
    let waits_for_leave = round.pass.as_ref().is_some_and(|pass| !pass.is_admitted());
    if acquisition.wants_world() || waits_for_leave && server.keyspace.is_world_wanted() {
        return stop.into_iter().chain(server.underway.since(|_| true)).min();
    }
    if waits_for_leave {
        // For any of many threads, whichever is free first.
        return None;
    }
    stop.or_else(|| {
        let partition = acquisition.awaits()?;
        server.underway.since(|held| held.holds(partition))
    })
}

/// Waits for those that were under way before that, for a client: on a heavy-work thread.
pub(crate) fn await_those_before(server: &Server, time_us: i64) -> Result<(), Refusal> {
    while server.underway.is_any_before(time_us) {
        let since = || server.underway.active_since().unwrap_or(time_us);
        if left(server, since).is_some_and(|left| left <= 0) {
            return Err(BUSY);
        }
        std::thread::sleep(heavy::BETWEEN_LOOKS);
    }
    Ok(())
}

/// Takes the world for a while, for `DEBUG STOP-WORLD`: on a heavy-work thread.
pub(crate) fn stop_world(
    keyspace: &'static Keyspace,
    time: std::time::Duration,
) -> Result<(), Refusal> {
    let mut world = Acquisition::of_world(keyspace);
    heavy::wait_for_client(keyspace, &mut world)?;
    std::thread::sleep(time);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use keyspace::{Acquisition, HEAVY_TRANSACTIONS, HeavyPass, Obstacle, PartitionSet};

    use super::{Hold, patience_left, waits_on};
    use crate::execute::Round;
    use crate::session::Parked;
    use crate::start::test_server;

    /// What a request waits for says how long it waits, not what it has beside that.
    #[test]
    fn a_wait_is_measured_by_what_it_is_for() {
        let server = test_server();
        let keyspace = server.keyspace;
        let now = keyspace.clock().monotonic_us();
        // As if it had been under way for an hour.
        let _old = Hold::begin(server, now - 3_600_000_000, PartitionSet::from_elem(1, 1));
        let is_patient = |partition, pass| {
            let wanted = PartitionSet::from_elem(partition, 1);
            let acquisition = Acquisition::of_partitions(keyspace, wanted);
            let round = Round { pass, ..Round::default() };
            patience_left(server, &Parked::new(acquisition, round, now)).unwrap() > 0
        };
        let ask = || HeavyPass::for_offload(keyspace);
        assert!(is_patient(2, None));
        assert!(is_patient(2, Some(ask())), "it has leave, and waits for its locks");
        let all: Vec<_> = (0..HEAVY_TRANSACTIONS).map(|_| ask()).collect();
        assert!(all.iter().all(HeavyPass::is_admitted));
        assert!(is_patient(2, Some(ask())), "any thread will do");
        drop(all);
        let underway = ask();
        let mut world = Acquisition::of_world(keyspace);
        assert!(world.poll(Waker::noop()).is_pending());
        assert!(!is_patient(2, Some(ask())), "the world waits for the old one");
        drop((world, underway));
        assert!(is_patient(2, Some(ask())));
    }

    /// A request that had its locks and gave them back waits on.
    #[test]
    fn a_wait_that_is_taken_up_again_goes_on() {
        let server = test_server();
        let acquisition = || Acquisition::of_partitions(server.keyspace, PartitionSet::new());
        let parked = Parked::new(acquisition(), Round::default(), 1);
        assert_eq!(parked.began_us, 1);
        let round = Round { began_us: Some(parked.began_us), ..Round::default() };
        assert_eq!(Parked::new(acquisition(), round, 2).began_us, 1);
    }

    /// A command that waits for more locks holds none, so nobody is told BUSY for its sake.
    #[test]
    fn a_command_that_waits_for_its_locks_keeps_nobody_from_them() {
        let server = test_server();
        let set = |partitions: &[_]| partitions.iter().copied().collect::<PartitionSet>();
        let now = server.keyspace.clock().monotonic_us();
        // As if it had been under way for an hour.
        let mut hold = Hold::begin(server, now - 3_600_000_000, set(&[1, 2]));
        let waits = |partition| waits_on(server, Obstacle::Partitions(&[partition]), now);
        assert!(!waits(1) && !waits(2) && waits(3));
        hold.pause();
        assert!(waits(1) && waits(2) && waits(3));
        assert!(!waits_on(server, Obstacle::World, now), "it still keeps the world from stopping");
        hold.resume(set(&[2, 3]));
        assert!(waits(1) && !waits(2) && !waits(3));
        // A gate held it: nobody has waited for it since.
        hold.pause();
        hold.begin_anew();
        hold.resume(set(&[2, 3]));
        assert!(waits(1) && waits(2) && waits(3));
        drop(hold);
        assert!(waits(1) && waits(2) && waits(3));
        assert!(waits_on(server, Obstacle::World, now));
    }
}
