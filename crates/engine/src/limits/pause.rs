//! CLIENT PAUSE: until when commands wait, and which sessions do.
//!
//! As in Redis, a pause of everything holds CLIENT UNPAUSE too, and RESET and QUIT: such a pause
//! ends by its time. Commands that would fail admission fail at once.
//!
//! Invariants: a session that waits is woken by the end of the pause or by its own timer. A pause
//! is published first, and then waits for the world; a command comes in at its worker's turnstile
//! first, and then looks for a pause. So one of two sees the other, and what a pause holds is over
//! when it is answered.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use base::Wakers;
use base::time::UnixMillis;
use commands::Flags;
use keyspace::Keyspace;

/// The state of CLIENT PAUSE.
pub struct Pause {
    keyspace: &'static Keyspace,
    /// Until when something is held; for all threads that ask on their way.
    until: AtomicI64,
    all_commands: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The pause that was answered: until when it lasts, and whether it is of all commands.
    until: UnixMillis,
    all_commands: bool,
    /// Those that wait for what was let pass before them: they last until they are answered.
    pending: Vec<Unanswered>,
    /// The number of the next one.
    next: u64,
    waiting: Wakers,
}

/// A pause that is on and not yet answered.
struct Unanswered {
    number: u64,
    all_commands: bool,
    /// Whether the server itself needs it, and no client ends it.
    is_own: bool,
}

/// Held by the command that pauses: the pause is withdrawn with it, panic or not.
pub struct Ticket {
    pause: &'static Pause,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.pause.lock();
        if state.take(self.number).is_some() {
            self.pause.publish(&mut state);
        }
    }
}

impl Pause {
    pub(crate) fn new(keyspace: &'static Keyspace) -> Self {
        let (until, all_commands) = (AtomicI64::new(0), AtomicBool::new(false));
        Self { keyspace, until, all_commands, state: Mutex::default() }
    }

    /// Pauses until the ticket is confirmed or dropped.
    pub fn begin(&'static self, all_commands: bool) -> Ticket {
        self.begin_as(all_commands, false)
    }

    /// Pauses writes until the ticket is dropped, whatever CLIENT UNPAUSE says: the server itself
    /// needs it.
    pub fn begin_own(&'static self) -> Ticket {
        self.begin_as(false, true)
    }

    fn begin_as(&'static self, all_commands: bool, is_own: bool) -> Ticket {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.pending.push(Unanswered { number, all_commands, is_own });
        self.publish(&mut state);
        Ticket { pause: self, number }
    }

    /// Ends all pauses of clients and wakes all waiters.
    pub fn end(&self) {
        let mut state = self.lock();
        state.pending.retain(|pending| pending.is_own);
        state.until = 0;
        self.publish(&mut state);
    }

    /// Says what is held from now on; waiters look again.
    fn publish(&self, state: &mut State) {
        let until = if state.pending.is_empty() { state.until } else { UnixMillis::MAX };
        let all = state.all_commands || state.pending.iter().any(|it| it.all_commands);
        self.all_commands.store(all, Ordering::Relaxed);
        self.until.store(until, Ordering::Relaxed);
        // While writes are held the data stand still, for clients that only read, too.
        self.keyspace.settings().expiry_held_until.store(until, Ordering::Relaxed);
        state.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Whether a command has to ask at all: one load while nothing is paused.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// Whether commands that write are held.
    pub fn holds_writes(&self, now: impl FnOnce() -> UnixMillis) -> bool {
        self.holds(|| Flags::WRITE, now)
    }

    /// Whether a command with these flags is held.
    #[inline]
    pub(crate) fn holds(
        &self,
        flags: impl FnOnce() -> Flags,
        now: impl FnOnce() -> UnixMillis,
    ) -> bool {
        self.may_hold() && self.holds_at(flags(), now())
    }

    #[cold]
    fn holds_at(&self, flags: Flags, now: UnixMillis) -> bool {
        if self.time_left(now).is_none() {
            // Over: no session has to ask again, unless a new pause has just begun.
            let mut state = self.lock();
            if state.pending.is_empty() && state.until <= now {
                state.until = 0;
                self.publish(&mut state);
            }
            return false;
        }
        flags.has(Flags::WRITE)
            || flags.has(Flags::MAY_REPLICATE)
            || self.all_commands.load(Ordering::Relaxed)
    }

    /// How long something is held, if it is.
    fn time_left(&self, now: UnixMillis) -> Option<Duration> {
        let left = self.until.load(Ordering::Relaxed).saturating_sub(now);
        u64::try_from(left).ok().filter(|&left| left > 0).map(Duration::from_millis)
    }

    /// How long a session has to wait on, if it has; the session is woken when pauses change.
    pub fn await_end(&self, waker: &Waker, now: UnixMillis) -> Option<Duration> {
        // Queued first: a pause that ends between the two still wakes it.
        self.lock().waiting.add(waker);
        self.time_left(now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no critical section here panics")
    }
}

impl Ticket {
    /// The pause lasts until a time from now on, unless it was ended meanwhile. As in Redis a
    /// longer one that is on stays, and ALL outweighs WRITE.
    pub fn confirm(self, now: UnixMillis, until: UnixMillis) {
        let mut state = self.pause.lock();
        if let Some(Unanswered { all_commands, .. }) = state.take(self.number) {
            let was_on = state.until > now;
            state.all_commands = all_commands || was_on && state.all_commands;
            state.until = if was_on { until.max(state.until) } else { until };
            self.pause.publish(&mut state);
        }
    }
}

impl State {
    /// Takes one that is pending, if it is there.
    fn take(&mut self, number: u64) -> Option<Unanswered> {
        let place = self.pending.iter().position(|pending| pending.number == number)?;
        Some(self.pending.remove(place))
    }
}
