//! Turnstiles and the world's stop: how one transaction gets every partition at once.
//!
//! Each thread that runs transactions owns a turnstile (a *lane*) and is inside it while it runs
//! them. Heavy work, which runs long and on its own thread, counts itself in and out instead.
//!
//! A world operation goes through three phases. First the world is *wanted*: no heavy work begins
//! any more, what is under way goes on, and so does everybody else. When the last heavy work is
//! done the world *stops*: lanes go out at their next command boundary and do not come in again.
//! The last one out grants it. Transactions that are parked, locks and all, have changed nothing
//! and do not count.
//!
//! Invariant: while the world is granted no lane is inside and no heavy work is under way. Lanes
//! and requesters publish first and look second, sequentially consistent: a lane stores INSIDE then
//! reads `stop`, and a requester stores `stop` then reads the lanes. So at least one of two sees
//! the other. `stop` and `wanted` change under the mutex only, and a thread that stops wants. Heavy
//! work is counted in under it too, and out anywhere: the work is counted first and `wanted` read
//! second. A panic while the world is given back, or leave to do heavy work is, ends the process.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use base::time::Clock;
use base::{Wakers, step_count};

use crate::critical_section::CriticalSection;
use crate::keyspace::Keyspace;
use crate::stall_stats::StallStats;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// Threads that may run transactions: workers, heavy-work threads, background tasks.
pub const LANES: usize = if cfg!(feature = "shuttle") { 4 } else { 256 };

/// So many transactions go on elsewhere while the world is wanted: more would keep it from being
/// granted for as long as new ones come.
const MOVED_ON_MAX: usize = 4;

/// How many transactions may do heavy work at a time. Each has a thread from before it moves there,
/// locks and all: what waited for a thread with its locks could keep those that have one waiting.
pub const HEAVY_TRANSACTIONS: usize = if cfg!(feature = "shuttle") { 1 } else { 31 };

pub(crate) struct World {
    wanted: AtomicBool,
    stop: AtomicBool,
    /// When the present stop began on the monotonic clock, or `GOES_ON`.
    stopped_at: AtomicI64,
    heavy: AtomicUsize,
    /// How many heavy transactions there may be: as many as there are threads for.
    transactions_most: AtomicUsize,
    lanes: Box<[Lane]>,
    state: Mutex<WorldState>,
    clock: Clock,
    stall_stats: StallStats,
}

#[repr(align(64))]
struct Lane(AtomicBool);

/// What `stopped_at` holds while the world is not stopped.
const GOES_ON: i64 = -1;

#[derive(Default)]
struct WorldState {
    /// Whether somebody has the world now.
    granted: bool,
    /// Requests for the world, by place.
    requests: ArrivalQueue<(Arc<Request>, Waker)>,
    /// Sessions that found the world stopped.
    waiting: Wakers,
    /// Heavy transactions that found the world wanted, or no thread free, by place.
    heavy: ArrivalQueue<QueuedHeavyWork>,
    /// Visits that found the world wanted, by place.
    visits: ArrivalQueue<QueuedHeavyWork>,
    /// The next place in a line.
    next_place: u64,
    /// How many of the heavy transactions there may be are there.
    transactions: usize,
    /// How many of them went on while the world was wanted, since it was.
    moved_on: usize,
}

/// Requests in order of arrival: the first to come have the lower places.
type ArrivalQueue<T> = BTreeMap<u64, T>;

/// Heavy work that waits for leave.
struct QueuedHeavyWork {
    request: Arc<Request>,
    waker: Waker,
}

/// What kind of heavy work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeavyKind {
    /// One of [`HEAVY_TRANSACTIONS`].
    Transaction,
    /// A visit of partitions, which has a thread already and holds nothing while it waits.
    Visit,
}

/// A request for the world, or for leave to do heavy work.
struct Request {
    status: AtomicU32,
    /// Its place in the line where it stands; the place changes under the mutex.
    place: AtomicU64,
}

/// The place of a request that stands in no line.
const NOWHERE: u64 = u64::MAX;

const QUEUED: u32 = 0;
const GRANTED: u32 = 1;
/// Taken off the queue to let threads that waited for the world come in first; to be queued again.
const DEFERRED: u32 = 2;
/// Of a heavy transaction that asks for the world: the transaction keeps its thread and counts no
/// more.
const SUSPENDED: u32 = 3;

/// A request for the world, from asking to giving it back.
pub(crate) struct WorldTicket(Arc<Request>);

/// Leave to do heavy work, from asking for it to the end of the work: the world is granted to
/// nobody meanwhile. A pass that is asked for while the world is wanted comes behind that.
pub struct HeavyPass {
    keyspace: &'static Keyspace,
    request: Arc<Request>,
    kind: HeavyKind,
}

impl World {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            wanted: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            stopped_at: AtomicI64::new(GOES_ON),
            heavy: AtomicUsize::new(0),
            transactions_most: AtomicUsize::new(HEAVY_TRANSACTIONS),
            lanes: (0..LANES).map(|_| Lane(AtomicBool::new(false))).collect(),
            state: Mutex::new(WorldState::default()),
            clock,
            stall_stats: StallStats::default(),
        }
    }

    /// Whether threads should leave their turnstiles.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether somebody asks for the world or has it: heavy work that can should step aside.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Since when the world has been stopped, on the monotonic clock in microseconds.
    pub(crate) fn stopped_since(&self) -> Option<i64> {
        let at = self.stopped_at.load(Ordering::Relaxed);
        (at != GOES_ON).then_some(at)
    }

    pub(crate) fn stall_stats(&self) -> &StallStats {
        &self.stall_stats
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

    /// Goes out; the last one out while the world is stopped grants it.
    #[inline]
    pub(crate) fn leave(&self, lane: usize) {
        self.lanes[lane].0.store(false, Ordering::SeqCst);
        if self.stop.load(Ordering::SeqCst) {
            self.advance();
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

    /// Counts a piece of heavy work out; the last one out while the world is wanted stops it.
    fn leave_heavy(&self) {
        let was_last = self.heavy.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.wanted.load(Ordering::SeqCst) {
            self.advance();
        }
    }

    /// Admits heavy work and counts it in, unless the world is wanted or there is no thread for it.
    fn admit(&self, state: &mut WorldState, request: &Request, kind: HeavyKind) -> bool {
        let is_transaction = kind == HeavyKind::Transaction;
        let most = self.transactions_most.load(Ordering::Relaxed);
        if is_transaction && state.transactions >= most {
            return false;
        }
        if self.wanted.load(Ordering::SeqCst) {
            return false;
        }
        state.transactions += usize::from(is_transaction);
        self.heavy.fetch_add(1, Ordering::SeqCst);
        request.status.store(GRANTED, Ordering::Release);
        true
    }

    /// Admits a heavy transaction though the world is wanted: its lane is inside and it is in its
    /// middle, so the world waits for it wherever it goes on. Where the world has stopped, that is
    /// taken back until all heavy work is done: the others need not wait as well. Returns the
    /// wakers of those that may begin.
    fn admit_begun(&self, state: &mut WorldState, request: &Request) -> Vec<Waker> {
        let is_wanted = self.wanted.load(Ordering::SeqCst);
        if state.transactions >= self.transactions_most.load(Ordering::Relaxed)
            || is_wanted && state.moved_on >= MOVED_ON_MAX
        {
            return Vec::new();
        }
        debug_assert!(!state.granted, "its lane is inside");
        state.moved_on += usize::from(is_wanted);
        state.transactions += 1;
        self.heavy.fetch_add(1, Ordering::SeqCst);
        request.status.store(GRANTED, Ordering::Release);
        if !self.stop.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.stopped_at.store(GOES_ON, Ordering::Relaxed);
        self.stop.store(false, Ordering::SeqCst);
        state.waiting.take().into_iter().collect()
    }

    /// Says for how many heavy transactions there are threads; those that have leave keep it.
    pub(crate) fn limit_transactions(&self, most: usize) {
        let mut state = lock(&self.state);
        self.transactions_most.store(most, Ordering::Relaxed);
        let admitted = self.admit_waiting(&mut state);
        drop(state);
        admitted.into_iter().for_each(Waker::wake);
    }

    /// Admits the heavy work that waits, as far as may be; its wakers are returned.
    fn admit_waiting(&self, state: &mut WorldState) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for kind in [HeavyKind::Transaction, HeavyKind::Visit] {
            // What keeps the first one of a kind keeps all.
            while let Some((place, applicant)) = state.line(kind).pop_first() {
                if !self.admit(state, &applicant.request, kind) {
                    state.line(kind).insert(place, applicant);
                    break;
                }
                wakers.push(applicant.waker);
            }
        }
        wakers
    }

    /// Whether a request for heavy work is admitted and counted in; if not, this waker is woken
    /// when it is.
    fn poll_heavy(&self, request: &Arc<Request>, kind: HeavyKind, waker: &Waker) -> Poll<()> {
        let mut state = lock(&self.state);
        if request.is_granted() {
            return Poll::Ready(());
        }
        if let Some(applicant) = state.line(kind).get_mut(&request.place()) {
            applicant.waker.clone_from(waker);
            return Poll::Pending;
        }
        if self.admit(&mut state, request, kind) {
            return Poll::Ready(());
        }
        let place = state.place(request);
        let applicant = QueuedHeavyWork { request: Arc::clone(request), waker: waker.clone() };
        state.line(kind).insert(place, applicant);
        Poll::Pending
    }

    /// Ends heavy work, or the wait for it.
    fn withdraw_heavy(&self, request: &Arc<Request>, kind: HeavyKind) {
        let change = CriticalSection::begin();
        let mut state = lock(&self.state);
        let withdrawn = state.line(kind).remove(&request.place());
        let status = request.status.load(Ordering::Acquire);
        let gives_thread = kind == HeavyKind::Transaction && matches!(status, GRANTED | SUSPENDED);
        let admitted = if gives_thread {
            state.transactions -= 1;
            self.admit_waiting(&mut state)
        } else {
            Vec::new()
        };
        drop(state);
        drop(withdrawn);
        admitted.into_iter().for_each(Waker::wake);
        step_count::step();
        if status == GRANTED {
            self.leave_heavy();
        }
        change.end();
    }

    /// A safepoint: heavy work that holds nothing at the moment lets the world be stopped. Blocks
    /// meanwhile, so it is not for workers. `false` if `waits_on` says so before the world goes on:
    /// then the work counts as heavy again, so that its leave ends as any other, but touches
    /// nothing more.
    #[cold]
    pub(crate) fn safepoint(&self, waits_on: impl FnMut() -> bool) -> bool {
        self.leave_heavy();
        self.await_world(waits_on)
    }

    /// The second half of a safepoint: waits until the world goes on.
    fn await_world(&self, mut waits_on: impl FnMut() -> bool) -> bool {
        let request = Request::new();
        while self.poll_heavy(&request, HeavyKind::Visit, Waker::noop()).is_pending() {
            if !waits_on() {
                return self.readmit(&request);
            }
            crate::sync::pause();
        }
        true
    }

    /// Counts heavy work in again that waits for its turn no longer; whether it had come.
    fn readmit(&self, request: &Arc<Request>) -> bool {
        let mut state = lock(&self.state);
        if request.is_granted() {
            return true;
        }
        let withdrawn = state.visits.remove(&request.place());
        self.heavy.fetch_add(1, Ordering::SeqCst);
        drop(state);
        drop(withdrawn);
        false
    }

    /// Queues a waker until the world goes on; `false` if it goes on already.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        // `stop` changes under this mutex only, so the waker cannot be left behind.
        if !self.stop.load(Ordering::SeqCst) {
            return false;
        }
        state.waiting.add(waker);
        true
    }

    /// Asks for the world. The caller must not be inside a turnstile when it awaits the grant.
    pub(crate) fn request(&self, waker: &Waker) -> WorldTicket {
        let request = Request::new();
        self.queue(&request, waker);
        WorldTicket(request)
    }

    fn queue(&self, request: &Arc<Request>, waker: &Waker) {
        {
            let mut state = lock(&self.state);
            request.status.store(QUEUED, Ordering::Relaxed);
            let place = state.place(request);
            state.requests.insert(place, (Arc::clone(request), waker.clone()));
            self.wanted.store(true, Ordering::SeqCst);
        }
        self.advance();
    }

    /// Whether the world is granted; if not, this waker is woken when it is.
    pub(crate) fn poll(&self, ticket: &WorldTicket, waker: &Waker) -> Poll<()> {
        if ticket.is_granted() {
            return Poll::Ready(());
        }
        let mut state = lock(&self.state);
        match state.requests.get_mut(&ticket.0.place()) {
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
        let change = CriticalSection::begin();
        let withdrawn;
        let waiting = {
            let mut state = lock(&self.state);
            withdrawn = state.requests.remove(&ticket.0.place());
            if ticket.is_granted() {
                state.granted = false;
            }
            let others_wait = !state.waiting.is_empty() || state.has_heavy_waiting();
            if state.granted || !others_wait && !state.requests.is_empty() {
                Vec::new()
            } else {
                self.open_turnstiles(&mut state)
            }
        };
        // Wakers are woken and dropped without the mutex: they may run other people's code.
        drop(withdrawn);
        step_count::step();
        waiting.into_iter().for_each(Waker::wake);
        self.advance();
        change.end();
    }

    /// Opens the turnstiles. Returns the wakers: of threads that waited for the world, of heavy
    /// work that is admitted herewith, then of those that ask for the world next, which queue again
    /// behind them. So a stream of world operations starves nobody.
    fn open_turnstiles(&self, state: &mut WorldState) -> Vec<Waker> {
        if let Some(since) = self.stopped_since() {
            let micros = self.clock.monotonic_us() - since;
            self.stall_stats.note_stop(u64::try_from(micros).unwrap_or(0));
            self.stopped_at.store(GOES_ON, Ordering::Relaxed);
        }
        self.stop.store(false, Ordering::SeqCst);
        self.wanted.store(false, Ordering::SeqCst);
        state.moved_on = 0;
        let mut wakers = state.waiting.take();
        wakers.extend(self.admit_waiting(state));
        let requests = std::mem::take(&mut state.requests);
        wakers.extend(requests.into_values().map(|(request, waker)| {
            request.status.store(DEFERRED, Ordering::Release);
            waker
        }));
        wakers
    }

    /// Brings the first request as far as it can get now: to the stop, to the grant.
    #[cold]
    fn advance(&self) {
        let mut state = lock(&self.state);
        if state.granted || state.requests.is_empty() {
            return;
        }
        if !self.stop.load(Ordering::SeqCst) {
            // No more can begin, so the last one to end comes back here.
            if self.heavy.load(Ordering::SeqCst) != 0 {
                return;
            }
            self.stopped_at.store(self.clock.monotonic_us(), Ordering::Relaxed);
            self.stop.store(true, Ordering::SeqCst);
        }
        if self.lanes.iter().any(|lane| lane.0.load(Ordering::SeqCst)) {
            return;
        }
        if let Some((_, (request, waker))) = state.requests.pop_first() {
            state.granted = true;
            request.status.store(GRANTED, Ordering::Release);
            drop(state);
            waker.wake();
        }
    }
}

impl WorldState {
    /// Where heavy work of a kind waits for leave.
    fn line(&mut self, kind: HeavyKind) -> &mut ArrivalQueue<QueuedHeavyWork> {
        match kind {
            HeavyKind::Transaction => &mut self.heavy,
            HeavyKind::Visit => &mut self.visits,
        }
    }

    fn has_heavy_waiting(&self) -> bool {
        !self.heavy.is_empty() || !self.visits.is_empty()
    }

    /// Gives a request the last place of all.
    fn place(&mut self, request: &Request) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        request.place.store(place, Ordering::Relaxed);
        place
    }
}

impl Request {
    fn new() -> Arc<Self> {
        Arc::new(Self { status: AtomicU32::new(QUEUED), place: AtomicU64::new(NOWHERE) })
    }

    fn is_granted(&self) -> bool {
        self.status.load(Ordering::Acquire) == GRANTED
    }

    fn place(&self) -> u64 {
        self.place.load(Ordering::Relaxed)
    }
}

impl WorldTicket {
    pub(crate) fn is_granted(&self) -> bool {
        self.0.is_granted()
    }
}

impl HeavyPass {
    /// Asks for leave to visit partitions on a thread that the caller has; the leave is there at
    /// once unless the world is wanted.
    #[must_use]
    pub fn for_visit(keyspace: &'static Keyspace) -> Self {
        Self::request(keyspace, HeavyKind::Visit)
    }

    /// Asks for leave for a transaction that moves to another thread; the leave is there at once
    /// unless the world is wanted or as many as may do so.
    #[must_use]
    pub fn for_offload(keyspace: &'static Keyspace) -> Self {
        Self::request(keyspace, HeavyKind::Transaction)
    }

    /// Asks for leave for a transaction that has begun on a lane, cannot be undone, and moves to
    /// another thread with its locks: the leave is there at once unless as many as may do so. While
    /// the world is wanted these are few, as others come behind them.
    #[must_use]
    pub fn for_handover(keyspace: &'static Keyspace) -> Self {
        let (world, request) = (keyspace.world(), Request::new());
        let woken = world.admit_begun(&mut lock(&world.state), &request);
        woken.into_iter().for_each(Waker::wake);
        Self { keyspace, request, kind: HeavyKind::Transaction }
    }

    fn request(keyspace: &'static Keyspace, kind: HeavyKind) -> Self {
        let (world, request) = (keyspace.world(), Request::new());
        world.admit(&mut lock(&world.state), &request, kind);
        Self { keyspace, request, kind }
    }

    /// Whether the work may begin.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.request.is_granted()
    }

    /// Whether the work may begin; if not, this waker is woken when it may.
    pub fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if self.is_admitted() {
            return Poll::Ready(());
        }
        self.keyspace.world().poll_heavy(&self.request, self.kind, waker)
    }

    /// Waits for leave as long as `waits_on` says so, for a thread that may wait; whether it came.
    pub fn wait_while(&mut self, mut waits_on: impl FnMut() -> bool) -> bool {
        while self.poll(Waker::noop()).is_pending() {
            if !waits_on() {
                return false;
            }
            crate::sync::pause();
        }
        true
    }

    /// Keeps the thread, and gives the rest of the leave back: for a transaction that asks for the
    /// world, which waits for all that have leave, and for one that holds nothing for long.
    pub fn suspend(&mut self) {
        debug_assert!(self.is_admitted(), "a pass that waits keeps nothing");
        self.request.status.store(SUSPENDED, Ordering::Release);
        self.keyspace.world().leave_heavy();
    }

    /// Takes the rest of the leave again that `suspend` gave back, once the world is not wanted.
    /// `false` if `waits_on` says so before: the work is over.
    pub fn resume(&mut self, waits_on: impl FnMut() -> bool) -> bool {
        let is_back = self.keyspace.world().await_world(waits_on);
        self.request.status.store(GRANTED, Ordering::Release);
        is_back
    }

    /// A safepoint: lets the world be stopped if it is wanted, for work that holds no lock at the
    /// moment, on a thread that may wait. `false` if `waits_on` says so before the world goes on:
    /// the work is over.
    pub fn safepoint(&mut self, waits_on: impl FnMut() -> bool) -> bool {
        debug_assert!(self.is_admitted(), "a pass that waits keeps nothing");
        let world = self.keyspace.world();
        !world.is_wanted() || world.safepoint(waits_on)
    }
}

impl Drop for HeavyPass {
    fn drop(&mut self) {
        self.keyspace.world().withdraw_heavy(&self.request, self.kind);
    }
}
