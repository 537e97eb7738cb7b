//! CLIENT PAUSE: until when commands wait, and who waits.
//!
//! As in Redis, a pause of everything holds CLIENT UNPAUSE too, and RESET and QUIT: it ends by its
//! time. Commands that would fail admission fail at once.
//!
//! Invariants: a session that waits is woken by the end of the pause or by its own timer. A pause
//! is published first, and then waits for the world; a command comes in at its worker's turnstile
//! first, and then looks for a pause. So one of two sees the other, and what a pause holds is over
//! when it is answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use base::Wakers;
use base::time::UnixMillis;
use commands::Flags;

use crate::session::Stage;

/// The state of CLIENT PAUSE.
#[derive(Default)]
pub(crate) struct Pause {
    until: AtomicI64,
    all_commands: AtomicBool,
    /// How often one has begun.
    begun: AtomicU64,
    waiting: Mutex<Wakers>,
}

impl Pause {
    /// How often a pause has begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Pauses until a time; a longer pause that is on stays, and ALL outweighs WRITE.
    /// Until when it lasts.
    pub(crate) fn begin(
        &self,
        now: UnixMillis,
        until: UnixMillis,
        all_commands: bool,
    ) -> UnixMillis {
        let was_on = self.is_on(now);
        let all = all_commands || was_on && self.all_commands.load(Ordering::Relaxed);
        self.all_commands.store(all, Ordering::Relaxed);
        let until = if was_on { until.max(self.until.load(Ordering::Relaxed)) } else { until };
        self.until.store(until, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        until
    }

    /// Ends the pause and wakes all who wait.
    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.wake_all();
    }

    /// Whether commands wait now.
    pub(crate) fn is_on(&self, now: UnixMillis) -> bool {
        self.until.load(Ordering::Relaxed) > now
    }

    /// Whether a command has to ask at all: one load while nothing is paused.
    #[inline]
    pub(crate) fn may_hold(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// What a command with these flags waits for, if it is held; `None` if the pause is over.
    #[cold]
    pub(crate) fn hold(&self, flags: Flags, now: UnixMillis) -> Option<Stage> {
        let left = self.left(flags, now)?;
        Some(Stage::Paused(Box::pin(tokio::time::sleep(left))))
    }

    /// How long a command with these flags is held, if it is.
    #[cold]
    pub(crate) fn left(&self, flags: Flags, now: UnixMillis) -> Option<Duration> {
        let until = self.until.load(Ordering::Relaxed);
        let left = u64::try_from(until.saturating_sub(now)).ok().filter(|&left| left > 0);
        let Some(left) = left else {
            // Over: nobody has to ask again, unless a new pause has just begun.
            let relaxed = Ordering::Relaxed;
            if self.until.compare_exchange(until, 0, relaxed, relaxed).is_ok() {
                self.wake_all();
            }
            return None;
        };
        let is_held = flags.has(Flags::WRITE)
            || flags.has(Flags::MAY_REPLICATE)
            || self.all_commands.load(Ordering::Relaxed);
        is_held.then(|| Duration::from_millis(left))
    }

    /// Queues a session to be woken by `end`.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.lock_waiting().add(waker);
    }

    fn wake_all(&self) {
        let waiting = self.lock_waiting().take();
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock_waiting(&self) -> std::sync::MutexGuard<'_, Wakers> {
        self.waiting.lock().expect("no critical section here panics")
    }
}
