//! The sessions of a worker with replies that wait for the journal.
//!
//! The thread that makes records safe does so for a hundred sessions at a time. To wake each from
//! there takes a system call and two turns of a lock; so it wakes one task of each worker, and that
//! writes the replies of all sessions, as in second turns (`deferred.rs`).
//!
//! Invariants: while somebody stands in line, the task stands in the journal's line for the lowest
//! LSN in it, or is about to; a session in line stays there until its LSN is safe, however often it
//! was told to look.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use engine::journal::Journal;
use keyspace::Lsn;

use crate::net::connection::Connection;
use crate::net::deferred;
use crate::net::worker::Worker;

/// The sessions that wait at a worker, as they are told to look.
#[derive(Default)]
pub(crate) struct DurabilityWaiters<S = Weak<RefCell<Connection>>> {
    waiting: RefCell<Vec<(Lsn, S)>>,
    /// For which LSN the task stands in the journal's line, or did until it was last woken.
    standing: Cell<Option<Lsn>>,
    /// How often all were to look again before the task last looked.
    wake_ups: Cell<u64>,
    /// The task's, once it has run.
    waker: RefCell<Option<Waker>>,
}

impl<S: Clone> DurabilityWaiters<S> {
    /// Queues a session with a reply that saw `lsn`, to be told when the reply may leave; `false`
    /// if it may already, or the journal's reader has failed.
    pub(crate) fn wait(&self, journal: &Journal, lsn: Lsn, session: &S) -> bool {
        if journal.is_durable(lsn) || journal.has_failed() {
            return false;
        }
        self.waiting.borrow_mut().push((lsn, session.clone()));
        if self.standing.get().is_none_or(|lowest| lsn < lowest)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
        true
    }

    /// Wakes those whose records are safe, or all if all are to look again, and stands in the
    /// journal's line for the others.
    fn drain(&self, journal: &Journal, cx: &Context<'_>, wake: impl Fn(&S)) {
        self.waker.borrow_mut().get_or_insert_with(|| cx.waker().clone());
        loop {
            let mut waiting = self.waiting.borrow_mut();
            let lowest = waiting.iter().map(|(lsn, _)| *lsn).min();
            self.standing.set(lowest);
            let wake_ups = journal.wait_for_lowest(lowest, cx.waker());
            let were_woken = self.wake_ups.replace(wake_ups) != wake_ups;
            let (safe, count) = (journal.safe(), waiting.len());
            let mut woken = Vec::new();
            waiting.retain(|(lsn, session)| {
                // A reply that may leave for another reason may have to wait once more.
                let stays = *lsn > safe;
                if !stays || were_woken {
                    woken.push(session.clone());
                }
                stays
            });
            let is_done = waiting.len() == count;
            // A session that is woken may line up for what it saw later.
            drop(waiting);
            woken.iter().for_each(&wake);
            if is_done {
                return;
            }
        }
    }
}

/// Sees to the sessions that wait at a worker, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    let write = |session: &Weak<RefCell<Connection>>| {
        if let Some(serve) = session.upgrade() {
            deferred::guard(&serve, Connection::write_replies);
        }
    };
    poll_fn(|cx| {
        worker.durability_waiters.drain(&worker.server.journal, cx, write);
        worker.end_turn();
        Poll::<()>::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Wake, Waker};

    use base::time::Clock;
    use engine::journal::{DurabilityLevel, Journal, JournalReader, LATE_US, ReaderId};
    use engine::runtime::counting_waker::CountingWaker;
    use keyspace::Lsn;

    use super::DurabilityWaiters;

    struct Silent;

    impl JournalReader for Silent {
        fn record(&mut self, _: Lsn, _: &[u8], _: bool) -> bool {
            false
        }
    }

    /// A journal with three records, and sessions that wait for each.
    struct Rig {
        journal: Journal,
        reader: ReaderId,
        clock: Clock,
        line: DurabilityWaiters<Arc<CountingWaker>>,
        lsns: [Lsn; 3],
        sessions: [Arc<CountingWaker>; 3],
        task: Arc<CountingWaker>,
    }

    impl Rig {
        fn new() -> Self {
            let clock = Clock::manual(1000);
            let journal = Journal::new(clock.clone(), Box::leak(Box::default()));
            let reader = journal.new_reader_id();
            journal.attach(reader, Box::new(Silent), DurabilityLevel::Disk);
            let lsns = [b"a", b"b", b"c"].map(|record| journal.append(record));
            let (sessions, task) = Default::default();
            let rig = Self {
                journal,
                reader,
                clock,
                line: DurabilityWaiters::default(),
                lsns,
                sessions,
                task,
            };
            rig.take_turn();
            rig
        }

        fn wait(&self, index: usize) -> bool {
            self.line.wait(&self.journal, self.lsns[index], &self.sessions[index])
        }

        /// The task runs.
        fn take_turn(&self) {
            let waker = Waker::from(Arc::clone(&self.task));
            let wake = |bell: &Arc<CountingWaker>| bell.wake_by_ref();
            self.line.drain(&self.journal, &Context::from_waker(&waker), wake);
        }

        /// How often the task was woken, and each session.
        fn rung(&self) -> (usize, [usize; 3]) {
            let count = |bell: &Arc<CountingWaker>| bell.count();
            (count(&self.task), self.sessions.each_ref().map(count))
        }
    }

    #[test]
    fn the_task_is_woken_once_and_wakes_those_whose_records_are_safe() {
        let rig = Rig::new();
        assert!(rig.wait(1));
        rig.take_turn();
        assert!(rig.wait(2));
        assert_eq!(rig.rung(), (1, [0; 3]), "it stands for who came first");
        assert!(rig.wait(0));
        assert_eq!(rig.rung(), (2, [0; 3]), "nobody has waited for so little before");
        rig.take_turn();
        rig.journal.acknowledge(rig.reader, rig.lsns[0]);
        assert_eq!(rig.rung(), (3, [0; 3]));
        rig.take_turn();
        assert_eq!(rig.rung(), (3, [1, 0, 0]));
        rig.journal.acknowledge(rig.reader, rig.lsns[2]);
        assert_eq!(rig.rung().1, [1, 0, 0]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 1]);
        assert!(!rig.wait(2), "it is safe");
    }

    #[test]
    fn a_session_that_joins_while_records_become_safe_is_not_forgotten() {
        let rig = Rig::new();
        assert!(rig.wait(0) && rig.wait(1));
        // Before the task has looked.
        rig.journal.acknowledge(rig.reader, rig.lsns[0]);
        rig.take_turn();
        assert_eq!(rig.rung(), (2, [1, 0, 0]));
        rig.journal.acknowledge(rig.reader, rig.lsns[1]);
        assert_eq!(rig.rung().0, 3, "it stands for who is left");
        // The third joins before the task has looked again.
        assert!(rig.wait(2));
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 0]);
        rig.journal.acknowledge(rig.reader, rig.lsns[2]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 1]);
    }

    #[test]
    fn all_sessions_look_again_after_a_failure_and_stay_in_line() {
        let rig = Rig::new();
        assert!(rig.wait(0) && rig.wait(2));
        rig.take_turn();
        rig.journal.fail(rig.reader, "no space".to_owned(), || ());
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 0, 1]);
        assert!(!rig.wait(1), "nobody waits while it has failed");
        rig.journal.recover(rig.reader, rig.lsns[1]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 0, 1]);
        rig.journal.acknowledge(rig.reader, rig.lsns[2]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 0, 2]);
        // Replies that need not wait any more leave, whatever they saw.
        let late = rig.journal.append(b"d");
        assert!(rig.line.wait(&rig.journal, late, &rig.sessions[1]));
        rig.take_turn();
        rig.journal.release_up_to(rig.reader, late);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 1, 2]);
    }

    #[test]
    fn a_session_that_was_woken_too_early_is_woken_again() {
        let rig = Rig::new();
        rig.journal.set_durability(rig.reader, DurabilityLevel::Os);
        let be_late = || {
            rig.clock.advance(LATE_US / 1000 + 1);
            rig.journal.check_lag(rig.clock.monotonic_us());
        };
        be_late();
        assert!(rig.wait(2));
        rig.take_turn();
        let before = rig.rung().1[2];
        // The reader catches up, and is late again before the session has looked.
        rig.journal.note_written(rig.reader, rig.lsns[0], rig.clock.monotonic_us());
        rig.take_turn();
        be_late();
        assert!(!rig.journal.is_durable(rig.lsns[2]));
        rig.journal.note_written(rig.reader, rig.lsns[2], rig.clock.monotonic_us());
        rig.take_turn();
        assert_eq!(rig.rung().1[2], before + 2);
    }

    #[test]
    fn another_log_is_waited_for_as_the_first_was() {
        // The task, which hears of the other log, runs before its record is safe, or behind that.
        for runs_before in [false, true] {
            let rig = Rig::new();
            assert!(rig.wait(0));
            rig.take_turn();
            rig.journal.detach(rig.reader);
            rig.take_turn();
            assert!(!rig.wait(2), "without a reader nothing waits");
            let before = rig.rung().0;
            rig.journal.attach(rig.reader, Box::new(Silent), DurabilityLevel::Disk);
            let lsn = rig.journal.append(b"d");
            assert!(rig.line.wait(&rig.journal, lsn, &rig.sessions[1]));
            if runs_before {
                rig.take_turn();
            }
            let (told, sessions) = rig.rung();
            assert!(told > before);
            rig.journal.acknowledge(rig.reader, lsn);
            assert!(!runs_before || rig.rung().0 > told, "the task hears of the record");
            rig.take_turn();
            assert_eq!(rig.rung().1[1], sessions[1] + 1);
        }
    }
}
