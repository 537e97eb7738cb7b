//! The sessions of a worker with replies that wait for the journal.
//!
//! The thread that makes records safe does so for a hundred sessions at a time. To wake each from
//! there takes a system call and two turns of a lock; so it wakes one task of each worker, and that
//! wakes the sessions from within.
//!
//! Invariants: while somebody stands in line, the task stands in the journal's line for the lowest
//! LSN in it, or is about to; who stands in line stays there until that LSN is safe, however often
//! it was woken.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use keyspace::Lsn;

use crate::journal::{Journal, Standing};
use crate::worker::Worker;

/// Who waits at a worker.
#[derive(Default)]
pub(crate) struct HeldLine {
    waiting: RefCell<Vec<(Lsn, Waker)>>,
    standing: Cell<Standing>,
    /// The task's, once it has run.
    usher: RefCell<Option<Waker>>,
}

impl HeldLine {
    /// Queues a session with a reply that saw `lsn`, to be woken when the reply may leave; `false`
    /// if it may already, or the journal's reader has failed.
    pub(crate) fn wait(&self, journal: &Journal, lsn: Lsn, waker: &Waker) -> bool {
        if journal.is_durable(lsn) || journal.has_failed() {
            return false;
        }
        self.waiting.borrow_mut().push((lsn, waker.clone()));
        if self.standing.get().lsn.is_none_or(|lowest| lsn < lowest)
            && let Some(usher) = &*self.usher.borrow()
        {
            usher.wake_by_ref();
        }
        true
    }

    /// Wakes those whose replies may leave, or all if all are to look again, and stands in the
    /// journal's line for the others.
    fn usher(&self, journal: &Journal, cx: &Context<'_>) {
        self.usher.borrow_mut().get_or_insert_with(|| cx.waker().clone());
        loop {
            let mut waiting = self.waiting.borrow_mut();
            let standing = self.standing.get();
            let lowest = waiting.iter().map(|(lsn, _)| *lsn).min();
            let stood = journal.stand(standing, lowest, cx.waker());
            self.standing.set(stood);
            let are_roused = stood.rouses != standing.rouses;
            let mut is_ready = false;
            waiting.retain(|(lsn, waker)| {
                let stays = !journal.is_durable(*lsn);
                if !stays || are_roused {
                    waker.wake_by_ref();
                }
                is_ready |= !stays;
                stays
            });
            if !is_ready {
                return;
            }
        }
    }
}

/// Sees to those who wait at a worker, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    poll_fn(|cx| {
        worker.held_line.usher(&worker.server.journal, cx);
        Poll::<()>::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use base::time::Clock;
    use keyspace::Lsn;

    use super::HeldLine;
    use crate::journal::{Journal, JournalReader, Reliance};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Silent;

    impl JournalReader for Silent {
        fn record(&mut self, _: Lsn, _: &[u8], _: bool) -> bool {
            false
        }

        fn rest(&mut self) {}
    }

    /// A journal with three records, and sessions that wait for each.
    struct Rig {
        journal: Journal,
        line: HeldLine,
        lsns: [Lsn; 3],
        sessions: [Arc<Bell>; 3],
        usher: Arc<Bell>,
    }

    impl Rig {
        fn new() -> Self {
            let journal = Journal::new(Clock::system());
            journal.attach(Box::new(Silent), Reliance::Disk);
            let lsns = [b"a", b"b", b"c"].map(|record| journal.append(record));
            let (sessions, usher) = Default::default();
            let rig = Self { journal, line: HeldLine::default(), lsns, sessions, usher };
            rig.take_turn();
            rig
        }

        fn wait(&self, index: usize) -> bool {
            let waker = Waker::from(Arc::clone(&self.sessions[index]));
            self.line.wait(&self.journal, self.lsns[index], &waker)
        }

        /// The usher's task runs.
        fn take_turn(&self) {
            let waker = Waker::from(Arc::clone(&self.usher));
            self.line.usher(&self.journal, &Context::from_waker(&waker));
        }

        /// How often the usher was woken, and each session.
        fn rung(&self) -> (usize, [usize; 3]) {
            let count = |bell: &Arc<Bell>| bell.0.load(Ordering::SeqCst);
            (count(&self.usher), self.sessions.each_ref().map(count))
        }
    }

    #[test]
    fn the_usher_is_woken_once_and_wakes_those_whose_records_are_safe() {
        let rig = Rig::new();
        assert!(rig.wait(1));
        rig.take_turn();
        assert!(rig.wait(2));
        assert_eq!(rig.rung(), (1, [0; 3]), "it stands for who came first");
        assert!(rig.wait(0));
        assert_eq!(rig.rung(), (2, [0; 3]), "nobody has waited for so little before");
        rig.take_turn();
        rig.journal.acknowledge(rig.lsns[0]);
        assert_eq!(rig.rung(), (3, [0; 3]));
        rig.take_turn();
        assert_eq!(rig.rung(), (3, [1, 0, 0]));
        rig.journal.acknowledge(rig.lsns[2]);
        assert_eq!(rig.rung().1, [1, 0, 0]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 1]);
        assert!(!rig.wait(2), "it is safe");
    }

    #[test]
    fn who_joins_while_records_become_safe_is_not_forgotten() {
        let rig = Rig::new();
        assert!(rig.wait(0) && rig.wait(1));
        // Before the usher has looked.
        rig.journal.acknowledge(rig.lsns[0]);
        rig.take_turn();
        assert_eq!(rig.rung(), (2, [1, 0, 0]));
        rig.journal.acknowledge(rig.lsns[1]);
        assert_eq!(rig.rung().0, 3, "it stands for who is left");
        // Before it has looked again.
        assert!(rig.wait(2));
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 0]);
        rig.journal.acknowledge(rig.lsns[2]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 1, 1]);
    }

    #[test]
    fn all_look_again_after_a_failure_and_stay_in_line() {
        let rig = Rig::new();
        assert!(rig.wait(0) && rig.wait(2));
        rig.take_turn();
        rig.journal.fail("MISCONF".to_owned());
        rig.take_turn();
        assert_eq!(rig.rung().1, [1, 0, 1]);
        assert!(!rig.wait(1), "nobody waits while it has failed");
        rig.journal.heal(rig.lsns[1]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 0, 1]);
        rig.journal.acknowledge(rig.lsns[2]);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 0, 2]);
        // Replies that must not wait any more leave, whatever they saw.
        let late = rig.journal.append(b"d");
        let waker = Waker::from(Arc::clone(&rig.sessions[1]));
        assert!(rig.line.wait(&rig.journal, late, &waker));
        rig.take_turn();
        rig.journal.let_pass(late);
        rig.take_turn();
        assert_eq!(rig.rung().1, [2, 1, 2]);
    }
}
