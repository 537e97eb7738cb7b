//! Wakers of tasks that wait for the same.
//!
//! Invariants: each task is there once, in the order in which they came, and to come takes the same
//! few steps however many are there; where somebody looks for it now and then, tasks that are over
//! are at most as many as those that wait, and a few.

use std::collections::HashSet;
use std::task::Waker;

/// Wakers, each once.
#[derive(Debug, Default)]
pub struct Wakers {
    wakers: Vec<Waker>,
    /// What tells them apart; while a waker is kept nothing else can have its address.
    known: HashSet<(usize, usize)>,
    growth: LineGrowth,
}

/// How long a line of tasks may become before all are to look again: those that wait come back, and
/// those that are over do not.
#[derive(Debug, Default)]
pub struct LineGrowth {
    /// As long the line was, a look after all had looked again; a little less with each look, as
    /// some of it may have been over by then.
    settled: usize,
    was_woken: bool,
}

/// So many tasks that are over are of no weight.
const FEW: usize = 256;

impl LineGrowth {
    /// Whether all are to look again, the line being so long now. To be asked now and then, with
    /// time in between for those that wait to come back.
    pub fn is_due(&mut self, length: usize) -> bool {
        if std::mem::take(&mut self.was_woken) {
            self.settled = length;
        }
        self.settled = (self.settled - self.settled / 16).min(length);
        self.was_woken = length > 2 * self.settled + FEW;
        self.was_woken
    }
}

impl Wakers {
    /// Has all look again where the line has grown long, as tasks that are over may stand there: to
    /// be called now and then.
    #[must_use]
    pub fn take_grown(&mut self) -> Vec<Waker> {
        if !self.growth.is_due(self.wakers.len()) {
            return Vec::new();
        }
        self.known = HashSet::new();
        std::mem::take(&mut self.wakers)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// Adds a task's waker unless it is there.
    pub fn add(&mut self, waker: &Waker) {
        let table = std::ptr::from_ref(waker.vtable()).addr();
        if self.known.insert((waker.data().addr(), table)) {
            self.wakers.push(waker.clone());
        }
    }

    /// Takes all of them out, to be woken without any lock: they may run other people's code.
    #[must_use]
    pub fn take(&mut self) -> Vec<Waker> {
        self.known = HashSet::new();
        std::mem::take(&mut self.wakers)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::{FEW, Wakers};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_that_are_over_do_not_pile_up() {
        let mut wakers = Wakers::default();
        let waiting: Vec<_> = (0..100).map(|_| Arc::new(Bell::default())).collect();
        let mut longest = 0;
        for _ in 0..100 {
            waiting.iter().for_each(|bell| wakers.add(&Waker::from(Arc::clone(bell))));
            (0..50).for_each(|_| wakers.add(&Waker::from(Arc::new(Bell::default()))));
            longest = longest.max(wakers.wakers.len());
            wakers.take_grown().into_iter().for_each(Waker::wake);
        }
        assert!(longest < 2 * waiting.len() + FEW + 100, "{longest}");
        assert!(waiting.iter().all(|bell| bell.0.load(Ordering::Relaxed) > 1));
    }

    #[test]
    fn a_line_of_those_that_wait_is_woken_seldom() {
        let bells: Vec<_> = (0..10_000).map(|_| Arc::new(Bell::default())).collect();
        let mut wakers = Wakers::default();
        for _ in 0..100 {
            bells.iter().for_each(|bell| wakers.add(&Waker::from(Arc::clone(bell))));
            wakers.take_grown().into_iter().for_each(Waker::wake);
        }
        assert!(bells.iter().all(|bell| (1..=10).contains(&bell.0.load(Ordering::Relaxed))));
    }

    #[test]
    fn wakers_that_came_in_a_storm_and_are_over_go_when_it_is_past() {
        let mut wakers = Wakers::default();
        for look in 0..40 {
            let coming = if look < 10 { 5000 } else { 0 };
            (0..coming).for_each(|_| wakers.add(&Waker::from(Arc::new(Bell::default()))));
            wakers.take_grown().into_iter().for_each(Waker::wake);
        }
        assert!(wakers.wakers.len() <= FEW, "{}", wakers.wakers.len());
    }

    #[test]
    fn a_task_is_there_once_however_often_it_comes() {
        let bells: Vec<_> = (0..100).map(|_| Arc::new(Bell::default())).collect();
        let mut wakers = Wakers::default();
        for _ in 0..3 {
            bells.iter().for_each(|bell| wakers.add(&Waker::from(Arc::clone(bell))));
        }
        for round in 1..3 {
            wakers.take().into_iter().for_each(Waker::wake);
            assert!(wakers.is_empty());
            assert!(bells.iter().all(|bell| bell.0.load(Ordering::Relaxed) == round));
            bells.iter().for_each(|bell| wakers.add(&Waker::from(Arc::clone(bell))));
        }
    }
}
