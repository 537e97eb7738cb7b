//! Wakers of tasks that wait for the same.
//!
//! Invariant: each task is there once, in the order in which they came, and to come takes the same
//! few steps however many are there.

use std::collections::HashSet;
use std::task::Waker;

/// Wakers, each once.
#[derive(Debug, Default)]
pub struct Wakers {
    wakers: Vec<Waker>,
    /// What tells them apart; while a waker is kept nothing else can have its address.
    known: HashSet<(usize, usize)>,
}

impl Wakers {
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
        std::mem::take(self).wakers
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::Wakers;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
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
