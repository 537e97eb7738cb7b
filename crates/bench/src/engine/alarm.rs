//! Waiting until a moment, to some microseconds, or for a socket, whichever comes first.
//!
//! `epoll_wait` counts in milliseconds, so the moment is set in a timer that is itself an event
//! source. The kernel wakes a sleeper some tens of microseconds late; the alarm learns how late
//! (`lead`), has itself woken so much earlier, and looks at the sockets without sleeping for the
//! rest. That is as precise as spinning and leaves the core to others for the most part.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::clock::RunClock;

/// The event of the timer; connections count from 0.
pub(super) const TOKEN: Token = Token(usize::MAX);

/// No sleeper is expected to be later than this; what is beyond is another process' turn.
const LEAD_MAX: u64 = 60_000;

/// A thread looks up from its sleep at least this often, to see whether the run was given up.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// A timer that wakes a poll.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// The moment it is set to, in nanoseconds of the run.
    set_to: Option<u64>,
    /// By how much a sleeper wakes too late, on average, in nanoseconds.
    lead: u64,
    /// Time slept or spun, in nanoseconds.
    idle: u64,
}

impl Alarm {
    /// A timer that wakes `poll`.
    pub(super) fn new(poll: &Poll) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let mut source = SourceFd(&timer.as_raw_fd());
        poll.registry().register(&mut source, TOKEN, Interest::READABLE)?;
        Ok(Self { timer, set_to: None, lead: 0, idle: 0 })
    }

    /// The run begins: its clock and its idle time count from now.
    pub(super) fn begin(&mut self) {
        self.set_to = None;
        self.idle = 0;
    }

    /// How long nothing was to be done so far.
    pub(super) fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle)
    }

    /// Waits for events, at most until `wake`; returns the time.
    pub(super) fn wait(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        clock: &RunClock,
        wake: Option<u64>,
    ) -> io::Result<u64> {
        let before = clock.now();
        let sleeps = match wake {
            None => true,
            Some(wake) => self.set(wake, before)?,
        };
        let timeout = if sleeps { LONGEST_SLEEP } else { Duration::ZERO };
        match poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            other => other?,
        }
        let now = clock.now();
        if events.iter().any(|event| event.token() == TOKEN) {
            self.learn(now);
        }
        // A look at the sockets that found something is work; one that found nothing is not.
        if sleeps || events.is_empty() {
            self.idle += now - before;
        }
        Ok(now)
    }

    /// Sets the timer, unless the moment is so near that sleeping would miss it.
    fn set(&mut self, wake: u64, now: u64) -> io::Result<bool> {
        let moment = wake.saturating_sub(self.lead);
        if moment <= now {
            return Ok(false);
        }
        if self.set_to != Some(moment) {
            let left = Duration::from_nanos(moment - now);
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let once =
                Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: left };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
            self.set_to = Some(moment);
        }
        Ok(true)
    }

    fn learn(&mut self, now: u64) {
        if let Some(moment) = self.set_to.take() {
            let late = now.saturating_sub(moment).min(LEAD_MAX);
            self.lead = (self.lead * 7 + late) / 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::{Alarm, RunClock, TOKEN};

    #[test]
    fn a_sleeper_wakes_for_its_moment_and_its_sleep_is_idle() {
        let mut poll = Poll::new().expect("a poll");
        let mut alarm = Alarm::new(&poll).expect("a timer");
        let mut events = Events::with_capacity(4);
        let clock = RunClock::start();
        let (mut now, mut has_rung) = (clock.now(), false);
        let moment = now + 50_000_000;
        while now < moment {
            now = alarm.wait(&mut poll, &mut events, &clock, Some(moment)).expect("it waits");
            has_rung |= events.iter().any(|event| event.token() == TOKEN);
        }
        assert!(has_rung, "the timer ended the sleep");
        assert!(alarm.idle() <= Duration::from_nanos(now));
        assert!(alarm.idle() > Duration::ZERO);
    }
}
