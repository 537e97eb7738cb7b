//! What took long and is to be exported as spans: slow commands, saves, rewrites of the log, full
//! syncs, failovers.
//!
//! Invariants: nothing is noted unless somebody takes it; what waits is bounded, and what finds no
//! room is dropped and counted, so nobody ever waits for who takes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::time::Clock;

use crate::clients::peer::Peer;
use crate::table::command_table::CommandEntry;

/// So many wait to be taken.
const WAITING_MAX: usize = 2048;

/// What has ended and was not taken yet.
#[derive(Default)]
pub struct SpanQueue {
    is_on: AtomicBool,
    keeps_arguments: AtomicBool,
    waiting: Mutex<Vec<FinishedSpan>>,
    dropped: AtomicU64,
}

/// What took from when to when.
#[derive(Clone)]
pub struct FinishedSpan {
    /// Unix time in microseconds.
    pub ended_us: i64,
    /// How long it took.
    pub micros: u64,
    /// What it was.
    pub subject: SpanSubject,
}

/// What a span is of.
#[derive(Clone)]
pub enum SpanSubject {
    /// A command that the slow log took.
    Command(SlowCommand),
    /// Work of the server's own, and whether it came to nothing.
    Task(&'static str, bool),
}

/// A slow command.
#[derive(Clone)]
pub struct SlowCommand {
    /// The command.
    pub entry: &'static CommandEntry,
    /// The database that was selected when the command was over.
    pub database: usize,
    /// The client's end and the server's of the connection; none of a script's call or a primary's
    /// stream.
    pub ends: Option<(Peer, Peer)>,
    /// The request as the slow log has it; empty unless arguments are exported.
    pub arguments: Vec<Vec<u8>>,
}

impl SpanQueue {
    /// Notes spans from now on, with arguments or without, or none.
    pub fn configure(&self, is_on: bool, keeps_arguments: bool) {
        self.keeps_arguments.store(keeps_arguments, Ordering::Relaxed);
        self.is_on.store(is_on, Ordering::Relaxed);
        if !is_on {
            self.waiting().clear();
        }
    }

    /// Whether spans are noted.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether they have the arguments of commands.
    pub(crate) fn keeps_arguments(&self) -> bool {
        self.keeps_arguments.load(Ordering::Relaxed)
    }

    /// Notes what has ended, where spans are noted and there is room.
    #[cold]
    pub(crate) fn push(&self, span: FinishedSpan) {
        let mut waiting = self.waiting();
        if !self.is_on() {
            return;
        }
        if waiting.len() < WAITING_MAX {
            waiting.push(span);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes work of the server's own that ends now and began at this time of the monotonic clock.
    pub fn note_task(&self, clock: &Clock, name: &'static str, began_us: i64, has_failed: bool) {
        if self.is_on() {
            let micros = u64::try_from(clock.monotonic_us() - began_us).unwrap_or(0);
            let subject = SpanSubject::Task(name, has_failed);
            self.push(FinishedSpan { ended_us: clock.now_us(), micros, subject });
        }
    }

    /// Takes what waits.
    pub fn take(&self) -> Vec<FinishedSpan> {
        std::mem::take(&mut *self.waiting())
    }

    /// How many found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<FinishedSpan>> {
        self.waiting.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use base::time::Clock;

    use super::{SpanQueue, SpanSubject, WAITING_MAX};

    #[test]
    fn nothing_is_noted_unless_it_is_taken() {
        let (queue, clock) = (SpanQueue::default(), Clock::manual(5_000));
        queue.note_task(&clock, "save", 0, false);
        assert!(queue.take().is_empty());
        queue.configure(true, false);
        clock.advance(3);
        queue.note_task(&clock, "save", 5_000_000, true);
        let taken = queue.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].ended_us, taken[0].micros), (5_003_000, 3_000));
        assert!(matches!(taken[0].subject, SpanSubject::Task("save", true)));
        queue.note_task(&clock, "save", 0, false);
        queue.configure(false, false);
        assert!(queue.take().is_empty(), "what nobody will take is let go");
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (queue, clock) = (SpanQueue::default(), Clock::manual(0));
        queue.configure(true, false);
        for _ in 0..WAITING_MAX + 3 {
            queue.note_task(&clock, "save", 0, false);
        }
        assert_eq!((queue.take().len(), queue.dropped()), (WAITING_MAX, 3));
        queue.note_task(&clock, "save", 0, false);
        assert_eq!(queue.take().len(), 1, "there is room again");
    }
}
