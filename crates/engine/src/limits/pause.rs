//! CLIENT PAUSE: until when commands wait, and which sessions do.
//!
//! As in Redis, a pause of everything holds CLIENT UNPAUSE too, and RESET and QUIT: such a pause
//! ends by its time. Commands that would fail admission fail at once.
//!
//! Invariants: a session that waits is woken by the end of the pause or by its own timer. A pause
//! is published first, and then waits for the world; a command comes in at its worker's turnstile
//! first, and then looks for a pause. So one of two sees the other, and what a pause holds is over
//! when it is answered.

use std::sync::atomic::{AtomicI64, Ordering};
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
    /// Until when something is held, and until when everything is; for all threads that ask on
    /// their way.
    until: AtomicI64,
    all_until: AtomicI64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The pause that was answered, which goes as a whole when it is over or ended.
    answered: Option<AnsweredPause>,
    /// Those that wait for what was let pass before them: they last until they are answered.
    pending: Vec<Unanswered>,
    /// The number of the next one.
    next: u64,
    waiting: Wakers,
}

/// A pause of a client that was answered.
#[derive(Clone, Copy)]
struct AnsweredPause {
    until: UnixMillis,
    all_commands: bool,
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
        let (until, all_until) = (AtomicI64::new(0), AtomicI64::new(0));
        Self { keyspace, until, all_until, state: Mutex::default() }
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
        state.answered = None;
        self.publish(&mut state);
    }

    /// Says what is held from now on; waiters look again.
    fn publish(&self, state: &mut State) {
        let (until, all_until) = state.ends();
        self.all_until.store(all_until, Ordering::Relaxed);
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
            let is_over = state.answered.is_none_or(|answered| answered.until <= now);
            if state.pending.is_empty() && is_over {
                state.answered = None;
                self.publish(&mut state);
            }
            return false;
        }
        flags.has(Flags::WRITE)
            || flags.has(Flags::MAY_REPLICATE)
            || time_left(&self.all_until, now).is_some()
    }

    /// How long something is held, if it is.
    fn time_left(&self, now: UnixMillis) -> Option<Duration> {
        time_left(&self.until, now)
    }

    /// How long a session has to wait before it asks again, if it has; the session is woken when
    /// pauses change. What is held with everything may be let go before what writes is.
    pub fn await_end(&self, waker: &Waker, now: UnixMillis) -> Option<Duration> {
        // Queued first: a pause that ends between the two still wakes it.
        self.lock().waiting.add(waker);
        let all_left = time_left(&self.all_until, now);
        self.time_left(now).map(|left| all_left.map_or(left, |all_left| left.min(all_left)))
    }

    /// Has all look again where many may be over: to be called now and then.
    pub(crate) fn sweep(&self) {
        let grown = self.lock().waiting.take_grown();
        grown.into_iter().for_each(Waker::wake);
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
            let before = state.answered.filter(|answered| answered.until > now);
            state.answered = Some(AnsweredPause {
                until: before.map_or(until, |before| until.max(before.until)),
                all_commands: all_commands || before.is_some_and(|before| before.all_commands),
            });
            self.pause.publish(&mut state);
        }
    }
}

impl State {
    /// Until when something is held, and until when everything is; 0 if nothing is.
    fn ends(&self) -> (UnixMillis, UnixMillis) {
        let pending = self.pending.iter().map(|pending| (UnixMillis::MAX, pending.all_commands));
        let answered = self.answered.map(|answered| (answered.until, answered.all_commands));
        pending.chain(answered).fold((0, 0), |(until, all_until), (end, all_commands)| {
            (until.max(end), if all_commands { all_until.max(end) } else { all_until })
        })
    }

    /// Takes one that is pending, if it is there.
    fn take(&mut self, number: u64) -> Option<Unanswered> {
        let place = self.pending.iter().position(|pending| pending.number == number)?;
        Some(self.pending.remove(place))
    }
}

/// How long it is until then.
fn time_left(until: &AtomicI64, now: UnixMillis) -> Option<Duration> {
    let left = until.load(Ordering::Relaxed).saturating_sub(now);
    u64::try_from(left).ok().filter(|&left| left > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use commands::Flags;
    use keyspace::{Keyspace, Options};

    use super::Pause;

    const READS: Flags = Flags::READONLY;

    #[test]
    fn a_pause_of_all_commands_is_over_with_its_own_time_whatever_else_is_paused() {
        let keyspace = Keyspace::leak(Options::new());
        let pause: &Pause = Box::leak(Box::new(Pause::new(keyspace)));
        pause.begin(true).confirm(0, 50);
        assert!(pause.holds_at(READS, 49) && pause.holds_at(Flags::WRITE, 49));
        // The server's own pause begins while nobody has seen that the other one is over, or
        // before: it is one of writes.
        let own = pause.begin_own();
        assert!(pause.holds_at(READS, 49) && !pause.holds_at(READS, 50));
        let waits = |now| pause.await_end(Waker::noop(), now);
        assert_eq!(waits(40), Some(Duration::from_millis(10)), "a reader asks again then");
        assert!(waits(50) > Some(Duration::from_secs(1)) && pause.holds_at(Flags::WRITE, 50));
        // A client ends its own, and not that of the server.
        pause.begin(true).confirm(60, 1000);
        assert!(pause.holds_at(READS, 60));
        pause.end();
        assert!(!pause.holds_at(READS, 60) && pause.holds_at(Flags::WRITE, 60));
        drop(own);
        assert!(!pause.may_hold());
        // As in Redis all commands stay held where a longer pause of writes follows in time.
        pause.begin(true).confirm(100, 200);
        pause.begin(false).confirm(150, 300);
        assert!(pause.holds_at(READS, 299) && !pause.holds_at(READS, 300));
        pause.begin(false).confirm(300, 400);
        assert!(!pause.holds_at(READS, 350) && pause.holds_at(Flags::WRITE, 350));
    }
}
