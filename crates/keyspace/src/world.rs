//! Turnstiles and the world's stop: how one transaction gets every partition at once.
//!
//! Each thread that runs transactions owns a turnstile (a *lane*) and is inside it while it runs
//! them. A world operation raises `stop`; threads that see it leave at the next command boundary
//! and do not come in again; the last one to leave grants the world to the requester. Transactions
//! that are parked, locks and all, have changed nothing and do not count. Heavy work on its own
//! thread keeps the door open by a count of its own.
//!
//! Invariant: while the world is granted no lane is inside and `heavy` is zero. Both sides publish
//! first and look second, sequentially consistent: a lane stores INSIDE then reads `stop`; a
//! requester stores `stop` then reads the lanes. So at least one of them sees the other.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// Threads that may run transactions: workers, heavy-work threads, background tasks.
pub const LANES: usize = if cfg!(feature = "shuttle") { 4 } else { 256 };

pub(crate) struct World {
    stop: AtomicBool,
    heavy: AtomicUsize,
    lanes: Box<[Lane]>,
    state: Mutex<State>,
}

#[repr(align(64))]
struct Lane(AtomicBool);

#[derive(Default)]
struct State {
    /// Whether somebody has the world now.
    granted: bool,
    requests: VecDeque<(Arc<Request>, Waker)>,
    /// Sessions that found the world stopped.
    waiting: Vec<Waker>,
}

struct Request(AtomicU32);

const QUEUED: u32 = 0;
const GRANTED: u32 = 1;
/// Taken off the queue to let those who waited for the world come in first; to be queued again.
const DEFERRED: u32 = 2;

/// A request for the world, from asking to giving it back.
pub(crate) struct WorldTicket(Arc<Request>);

impl World {
    pub(crate) fn new() -> Self {
        Self {
            stop: AtomicBool::new(false),
            heavy: AtomicUsize::new(0),
            lanes: (0..LANES).map(|_| Lane(AtomicBool::new(false))).collect(),
            state: Mutex::new(State::default()),
        }
    }

    /// Whether threads should leave their turnstiles.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Comes in; `false` if the world is stopped or about to be.
    #[inline]
    pub(crate) fn enter(&self, lane: usize) -> bool {
        self.lanes[lane].0.store(true, Ordering::SeqCst);
        if self.stop.load(Ordering::SeqCst) {
            self.leave(lane);
            return false;
        }
        true
    }

    /// Goes out; the last one out while the world is asked for grants it.
    #[inline]
    pub(crate) fn leave(&self, lane: usize) {
        self.lanes[lane].0.store(false, Ordering::SeqCst);
        if self.stop.load(Ordering::SeqCst) {
            self.try_grant();
        }
    }

    /// Whether a lane is inside; only its own thread can rely on the answer.
    #[inline]
    pub(crate) fn is_inside(&self, lane: usize) -> bool {
        self.lanes[lane].0.load(Ordering::Relaxed)
    }

    /// Whether somebody has the world now; for assertions.
    pub(crate) fn is_granted(&self) -> bool {
        lock(&self.state).granted
    }

    /// Counts in a piece of heavy work; the caller is inside a turnstile, so this cannot be late.
    pub(crate) fn enter_heavy(&self) {
        self.heavy.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave_heavy(&self) {
        self.heavy.fetch_sub(1, Ordering::SeqCst);
        if self.stop.load(Ordering::SeqCst) {
            self.try_grant();
        }
    }

    /// Lets the world pass if it is asked for: for a thread whose transaction holds nothing at the
    /// moment, inside its turnstile or counted as heavy work. Blocks while the world stands, so it
    /// is not for workers.
    pub(crate) fn step_aside(&self, lane: usize) {
        crate::sync::pause();
        if !self.is_stopping() {
            return;
        }
        if self.is_inside(lane) {
            self.leave(lane);
            while !self.enter(lane) {
                crate::sync::pause();
            }
            return;
        }
        self.leave_heavy();
        loop {
            // As in `enter`: publish first, look second.
            self.heavy.fetch_add(1, Ordering::SeqCst);
            if !self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.leave_heavy();
            crate::sync::pause();
        }
    }

    /// Queues a waker until the world goes on; `false` if it goes on already.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        // `stop` changes under this mutex only, so the waker cannot be left behind.
        if !self.stop.load(Ordering::SeqCst) {
            return false;
        }
        if !state.waiting.iter().any(|queued| queued.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        true
    }

    /// Asks for the world. The caller must not be inside a turnstile when it awaits the grant.
    pub(crate) fn request(&self, waker: &Waker) -> WorldTicket {
        let request = Arc::new(Request(AtomicU32::new(QUEUED)));
        self.queue(&request, waker);
        WorldTicket(request)
    }

    fn queue(&self, request: &Arc<Request>, waker: &Waker) {
        {
            let mut state = lock(&self.state);
            request.0.store(QUEUED, Ordering::Relaxed);
            state.requests.push_back((Arc::clone(request), waker.clone()));
            self.stop.store(true, Ordering::SeqCst);
        }
        self.try_grant();
    }

    /// Whether the world is granted; if not, this waker is woken when it is.
    pub(crate) fn poll(&self, ticket: &WorldTicket, waker: &Waker) -> Poll<()> {
        if ticket.is_granted() {
            return Poll::Ready(());
        }
        let mut state = lock(&self.state);
        let mut requests = state.requests.iter_mut();
        match requests.find(|(queued, _)| Arc::ptr_eq(queued, &ticket.0)) {
            Some((_, queued)) => {
                queued.clone_from(waker);
                return Poll::Pending;
            }
            None if ticket.is_granted() => return Poll::Ready(()),
            None => drop(state),
        }
        // Deferred: the others had their turn.
        self.queue(&ticket.0, waker);
        if ticket.is_granted() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Gives the world back, or withdraws a request that was not granted yet.
    pub(crate) fn release(&self, ticket: &WorldTicket) {
        let withdrawn;
        let waiting = {
            let mut state = lock(&self.state);
            let is_it = |(queued, _): &(Arc<Request>, Waker)| Arc::ptr_eq(queued, &ticket.0);
            withdrawn = state.requests.iter().position(is_it).map(|at| state.requests.remove(at));
            if ticket.0.0.load(Ordering::Relaxed) == GRANTED {
                state.granted = false;
            }
            if state.granted || state.waiting.is_empty() && !state.requests.is_empty() {
                Vec::new()
            } else {
                self.stop.store(false, Ordering::SeqCst);
                state.take_waiting()
            }
        };
        // Wakers are woken and dropped without the mutex: they may run other people's code.
        drop(withdrawn);
        waiting.into_iter().for_each(Waker::wake);
        self.try_grant();
    }

    #[cold]
    fn try_grant(&self) {
        let mut state = lock(&self.state);
        if state.granted || !self.all_outside() {
            return;
        }
        if let Some((request, waker)) = state.requests.pop_front() {
            state.granted = true;
            request.0.store(GRANTED, Ordering::Release);
            drop(state);
            waker.wake();
        }
    }

    fn all_outside(&self) -> bool {
        // In this order: heavy work is counted in before its lane goes out.
        self.lanes.iter().all(|lane| !lane.0.load(Ordering::SeqCst))
            && self.heavy.load(Ordering::SeqCst) == 0
    }
}

impl State {
    /// Who is to be woken when the world goes on: those who waited for it, then those who ask for
    /// it next, who queue again behind them. So a stream of world operations starves nobody.
    fn take_waiting(&mut self) -> Vec<Waker> {
        let mut wakers = std::mem::take(&mut self.waiting);
        wakers.extend(self.requests.drain(..).map(|(request, waker)| {
            request.0.store(DEFERRED, Ordering::Release);
            waker
        }));
        wakers
    }
}

impl WorldTicket {
    pub(crate) fn is_granted(&self) -> bool {
        self.0.0.load(Ordering::Acquire) == GRANTED
    }
}
