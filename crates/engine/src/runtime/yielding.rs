//! Looks at sockets: a session that is not done when its turn is over lets others come first, those
//! too that have just sent something.
//!
//! The runtime looks at its sockets when no task is ready, and after 61 of them. Sessions that are
//! ready again at once would have 61 turns before clients that have sent something meanwhile are
//! seen. So after `APART_US` of such turns sessions wait for the next look, which comes when all
//! that are ready have had their turn.
//!
//! Invariant: while one session waits for the next look, each session that gives way waits for it,
//! too; so the look comes after at most one more turn of each.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

/// Sessions go on without a look at the sockets for about so long.
const APART_US: i64 = 500;

/// The time of a session's turn, after which it gives way.
pub(crate) const TURN_US: i64 = 200;

/// What is about no more names than this takes well less than a turn, and is done at once.
pub const FEW: usize = 64;

/// What a worker knows of the looks at its sockets.
#[derive(Default)]
pub struct YieldQueue {
    /// Since when sessions have gone on without a look.
    since_us: Cell<Option<i64>>,
    /// Sessions that wait for the next look.
    waiting: RefCell<Vec<Waker>>,
    /// The task that wakes them, while nobody waits.
    usher: Cell<Option<Waker>>,
}

impl YieldQueue {
    /// The session of this waker goes on later: its turn began and ended then. `is_due` says that
    /// the next look is.
    pub fn yield_turn(&self, waker: &Waker, (began_us, now_us): (i64, i64), is_due: bool) {
        let since_us = self.since_us.get().unwrap_or(began_us);
        self.since_us.set(Some(since_us));
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() && now_us - since_us < APART_US && !is_due {
            return waker.wake_by_ref();
        }
        // A second turn and the session's own may both have given way.
        if !waiting.iter().any(|waits| waits.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        if let Some(usher) = self.usher.take() {
            usher.wake();
        }
    }

    /// The sockets were looked at; how many sessions waited for it.
    pub fn end(&self) -> usize {
        self.since_us.set(None);
        let waiting = self.waiting.take();
        waiting.iter().for_each(Waker::wake_by_ref);
        waiting.len()
    }

    /// Ready when somebody waits for the next look; until then this waker is kept for it.
    pub fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.waiting.borrow().is_empty() {
            self.usher.set(Some(waker.clone()));
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::{APART_US, YieldQueue};
    use crate::runtime::counting_waker::CountingWaker;

    /// Sessions with their bells.
    struct Rig {
        looks: YieldQueue,
        bells: Vec<(Arc<CountingWaker>, Waker)>,
    }

    impl Rig {
        fn new(sessions: usize) -> Self {
            let bell = |_| {
                let bell = Arc::new(CountingWaker::default());
                (Arc::clone(&bell), Waker::from(bell))
            };
            Self { looks: YieldQueue::default(), bells: (0..sessions).map(bell).collect() }
        }

        /// Whether the session goes on at once.
        fn goes_on(&self, session: usize, began_us: i64, now_us: i64) -> bool {
            let (bell, waker) = &self.bells[session];
            let before = bell.count();
            self.looks.yield_turn(waker, (began_us, now_us), false);
            bell.count() != before
        }
    }

    #[test]
    fn sessions_go_on_for_a_while_and_wait_for_a_look_then() {
        let rig = Rig::new(1);
        assert!(rig.goes_on(0, 1000, 1000 + APART_US - 1));
        assert!(!rig.goes_on(0, 1000 + APART_US - 1, 1000 + APART_US), "since the first began");
        assert_eq!(rig.looks.end(), 1);
        assert!(rig.goes_on(0, 9000, 9001), "from here on it is counted anew");
    }

    #[test]
    fn while_one_session_waits_for_a_look_all_do_and_each_is_woken_once() {
        let rig = Rig::new(3);
        assert!(!rig.goes_on(0, 0, APART_US));
        assert!(!rig.goes_on(1, APART_US, APART_US + 1));
        assert!(!rig.goes_on(0, APART_US, APART_US + 1), "by its second turn, too");
        let rung = || rig.bells.iter().map(|(bell, _)| bell.count());
        assert_eq!(rig.looks.end(), 2);
        assert_eq!(rung().collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(rig.looks.end(), 0);
    }
}
