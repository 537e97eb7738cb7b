//! -BUSY: a request that waits too long for what others hold is told so, instead of waiting on.
//!
//! A data command that cannot begin waits in its session. When what it waits for, a stop of the
//! world or a command on a background thread, has lasted for `busy-reply-threshold`, it is answered
//! BUSY, and so is every later one at once. Control commands wait for nobody: unlike in Redis,
//! PING, INFO, CLIENT and CONFIG go on as ever.
//!
//! Invariant: a request that is answered so has not begun, and is in no queue any more.

use std::task::Context as TaskContext;

use config::settings::BUSY_REPLY_THRESHOLD;
use keyspace::{Acquisition, BUSY, Keyspace, Refusal, WaitReason};

use crate::runtime::background;
use crate::session::Parked;
use crate::session::timer::{Timer, is_due};
use crate::shared::Shared;

/// How long a request may wait on, in microseconds: not at all if 0 or less, for ever if `None`.
pub(crate) fn patience_left(server: &Shared, parked: &Parked) -> Option<i64> {
    // Behind short commands only, however many, it waits from its own beginning.
    left(server, || since(server, parked).unwrap_or(parked.began_us))
}

/// Whether a thread that works for a client waits on, as [`patience_left`] has it for sessions.
pub fn waits_on(server: &Shared, obstacle: WaitReason<'_>, began_us: i64) -> bool {
    let since = || {
        let stop = server.keyspace.stopped_since();
        let held = match obstacle {
            WaitReason::World => server.gates.long_running.since().into_iter().chain(stop).min(),
            WaitReason::Partitions(wanted) => {
                stop.or_else(|| server.gates.long_running.since_with(wanted))
            }
        };
        held.unwrap_or(began_us)
    };
    left(server, since).is_none_or(|left| left > 0)
}

/// What is left of the patience with something that has lasted since then.
fn left(server: &Shared, since: impl FnOnce() -> i64) -> Option<i64> {
    let threshold = i64::try_from(server.config.get(BUSY_REPLY_THRESHOLD)).unwrap_or(i64::MAX);
    if threshold == 0 {
        return None;
    }
    let now = server.keyspace.clock().monotonic_us();
    Some(since().saturating_add(threshold.saturating_mul(1000)) - now)
}

/// Since when there has been what a request waits for, if that is known.
fn since(server: &Shared, parked: &Parked) -> Option<i64> {
    let Parked { acquisition, attempt, .. } = parked;
    let stop = server.keyspace.stopped_since();
    let waits_for_leave = attempt.pass.as_ref().is_some_and(|pass| !pass.is_admitted());
    if acquisition.wants_world() || waits_for_leave && server.keyspace.is_world_wanted() {
        return stop.into_iter().chain(server.gates.long_running.since()).min();
    }
    if waits_for_leave {
        // For any of many threads, whichever is free first.
        return None;
    }
    stop.or_else(|| {
        let partition = acquisition.awaits()?;
        server.gates.long_running.since_with(&[partition])
    })
}

/// Waits for those that were under way before that, for a client: on a heavy-work thread.
pub fn await_older_commands(server: &Shared, time_us: i64) -> Result<(), Refusal> {
    while server.gates.long_running.is_any_before(time_us) {
        let since = || server.gates.long_running.active_since().unwrap_or(time_us);
        if left(server, since).is_some_and(|left| left <= 0) {
            return Err(BUSY);
        }
        std::thread::sleep(background::BETWEEN_LOOKS);
    }
    Ok(())
}

/// Takes the world for a while, for `DEBUG STOP-WORLD`: on a heavy-work thread.
pub fn stop_world(keyspace: &'static Keyspace, time: std::time::Duration) -> Result<(), Refusal> {
    let mut world = Acquisition::of_world(keyspace);
    background::wait_for_client(keyspace, &mut world)?;
    std::thread::sleep(time);
    Ok(())
}

/// A script that has been running since then or longer is busy, on the monotonic clock, in
/// microseconds. Without a threshold none ever is.
pub fn busy_since_us(server: &Shared) -> i64 {
    let threshold = server.config.get(BUSY_REPLY_THRESHOLD);
    if threshold == 0 {
        return i64::MIN;
    }
    let micros = i64::try_from(threshold).unwrap_or(i64::MAX).saturating_mul(1000);
    server.keyspace.clock().monotonic_us().saturating_sub(micros)
}

impl Parked {
    /// Whether it has waited long enough; if not, the session is woken when that may be so.
    pub fn has_lost_patience(
        &self,
        server: &Shared,
        timer: &mut dyn Timer,
        cx: &mut TaskContext<'_>,
    ) -> bool {
        // What it waits for now may have begun later than what it waited for first.
        patience_left(server, self).is_some_and(|left| is_due(timer, cx, 0, left))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use keyspace::{Acquisition, HEAVY_TRANSACTIONS, HeavyPass, PartitionSet, WaitReason};

    use super::{patience_left, waits_on};
    use crate::session::Parked;
    use crate::session::RequestAttempt;
    use crate::testing;

    /// What a request waits for says how long it waits, not what it has beside that.
    #[test]
    fn a_wait_is_measured_by_what_it_is_for() {
        let server = testing::engine();
        let keyspace = server.keyspace;
        let now = keyspace.clock().monotonic_us();
        // As if it had been under way for an hour.
        let _old = server.begin_long_running(now - 3_600_000_000, PartitionSet::from_elem(1, 1));
        let is_patient = |partition, pass| {
            let wanted = PartitionSet::from_elem(partition, 1);
            let acquisition = Acquisition::of_partitions(keyspace, wanted);
            let attempt = RequestAttempt { pass, ..RequestAttempt::default() };
            patience_left(server, &Parked::new(acquisition, attempt, now)).unwrap() > 0
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
        let server = testing::engine();
        let acquisition = || Acquisition::of_partitions(server.keyspace, PartitionSet::new());
        let parked = Parked::new(acquisition(), RequestAttempt::default(), 1);
        assert_eq!(parked.began_us, 1);
        let attempt =
            RequestAttempt { began_us: Some(parked.began_us), ..RequestAttempt::default() };
        assert_eq!(Parked::new(acquisition(), attempt, 2).began_us, 1);
    }

    /// A command that waits for more locks holds none, so nobody is told BUSY for its sake.
    #[test]
    fn a_command_that_waits_for_its_locks_keeps_nobody_from_them() {
        let server = testing::engine();
        let set = |partitions: &[_]| partitions.iter().copied().collect::<PartitionSet>();
        let now = server.keyspace.clock().monotonic_us();
        // As if it had been under way for an hour.
        let mut running = server.begin_long_running(now - 3_600_000_000, set(&[1, 2]));
        let waits = |partition| waits_on(server, WaitReason::Partitions(&[partition]), now);
        assert!(!waits(1) && !waits(2) && waits(3));
        running.pause();
        assert!(waits(1) && waits(2) && waits(3));
        assert!(
            !waits_on(server, WaitReason::World, now),
            "it still keeps the world from stopping"
        );
        running.resume(set(&[2, 3]));
        assert!(waits(1) && !waits(2) && !waits(3));
        // A gate held it: no request has waited for it since.
        running.pause();
        running.begin_anew();
        running.resume(set(&[2, 3]));
        assert!(waits(1) && waits(2) && waits(3));
        drop(running);
        assert!(waits(1) && waits(2) && waits(3));
        assert!(waits_on(server, WaitReason::World, now));
    }
}
