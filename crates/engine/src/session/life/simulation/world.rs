//! What sessions meet at, as a model: locks, queues, lists, gates, users, other threads and time.
//!
//! Invariants, which it checks whenever it is used: no client is served whose session is over or
//! that may not have it, and nothing is done that a gate is against at that moment.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use base::random::Random;
use keyspace::{Cancelled, Refusal, Waiter};

use crate::clients::registry::{Client, Signal};

/// A session's number.
pub(crate) type Id = usize;

/// How many keys, and how many users, there are.
pub(crate) const KEYS: u64 = 8;
pub(crate) const USERS: u64 = 5;

pub(crate) const DENIED: Refusal = Refusal::error("NOPERM");

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Replies so many bytes.
    Echo(usize),
    /// Replies so many bytes, which are made while they are sent.
    Long(usize),
    /// Looks at a key.
    Get(usize),
    Push(usize),
    /// Takes an element, and waits for one until then, or for ever.
    Pop(usize, Option<u64>),
    /// Changes a key for so many steps of another thread.
    Slow(usize, u32),
    /// Changes a key for so many steps of another thread, comes back to go on with its session, and
    /// so often again.
    Unit(usize, u32, u32),
    /// Waits until what was pushed so far is on disk, for so long at most.
    Sync(u64),
    Quit,
}

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    All,
    Reading,
    /// The user is deleted.
    None,
}

/// What the gates say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulatedVerdict {
    Admitted,
    Refused,
    /// Until a pause is over.
    Postponed,
    /// Until there is room for what it writes.
    Full,
}

/// The lock of a key.
#[derive(Default)]
pub(crate) struct Lock {
    pub(crate) holder: Option<Holder>,
    line: VecDeque<(Id, Option<Waker>)>,
    /// Wakes the sessions that look again when it is free.
    onlookers: Vec<Waker>,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Session(Id),
    Thread,
}

/// Work of another thread that holds a lock.
struct Job {
    key: usize,
    left: u32,
    work: JobWork,
}

enum JobWork {
    /// A request of a session, which awaits the result.
    Result(Rc<RefCell<Slot>>),
    /// The same, and it comes back with its lock.
    Return(Rc<RefCell<Slot>>),
    /// A waiter that is claimed is given this, or waits on.
    Service(Arc<Waiter>, Option<u64>),
}

/// Where a result is left.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) is_done: bool,
    pub(crate) waker: Option<Waker>,
}

impl Slot {
    fn fill(slot: &RefCell<Self>) {
        slot.borrow_mut().is_done = true;
        slot.borrow_mut().waker.take().into_iter().for_each(Waker::wake);
    }
}

/// The owner of a waiter.
pub(crate) struct SimulatedWaiter {
    id: Id,
    client: Arc<Client>,
    outcome: Mutex<Option<u64>>,
    /// No session takes what the waiter gets from here on.
    is_abandoned: AtomicBool,
}

/// All of it.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) locks: Vec<Lock>,
    pub(crate) lists: Vec<VecDeque<u64>>,
    queues: Vec<Vec<Arc<Waiter>>>,
    jobs: Vec<Job>,
    pub(crate) is_paused: bool,
    pub(crate) is_shut: bool,
    /// Wakes the sessions that wait for the end of a pause, or for room.
    kept_out: Vec<Waker>,
    rights: Vec<Rights>,
    timers: Vec<(u64, Waker)>,
    /// How many elements were pushed, and how many of those are on disk.
    pub(crate) pushed: u64,
    pub(crate) safe: u64,
    syncing: Vec<Waker>,
    pub(crate) gone: BTreeSet<Id>,
    /// Elements given to sessions that ended while they were served.
    pub(crate) swallowed: u64,
    /// How many units are half done.
    pub(crate) underway: u64,
}

impl Kind {
    fn writes(self) -> bool {
        matches!(self, Self::Push(_) | Self::Pop(..) | Self::Slow(..) | Self::Unit(..))
    }
}

impl World {
    pub(crate) fn new(random: Random) -> Self {
        let count = KEYS as usize;
        Self {
            random,
            now: 0,
            locks: (0..count).map(|_| Lock::default()).collect(),
            lists: vec![VecDeque::new(); count],
            queues: vec![Vec::new(); count],
            jobs: Vec::new(),
            is_paused: false,
            is_shut: false,
            kept_out: Vec::new(),
            rights: vec![Rights::All; USERS as usize],
            timers: Vec::new(),
            pushed: 0,
            safe: 0,
            syncing: Vec::new(),
            gone: BTreeSet::new(),
            swallowed: 0,
            underway: 0,
        }
    }

    // Gates.

    pub(crate) fn gates(&self, user: usize, kind: Kind) -> SimulatedVerdict {
        match self.rights[user] {
            Rights::None => SimulatedVerdict::Refused,
            Rights::Reading if kind.writes() => SimulatedVerdict::Refused,
            _ if kind.writes() && self.is_paused => SimulatedVerdict::Postponed,
            _ if self.is_kept_out(kind) => SimulatedVerdict::Full,
            _ => SimulatedVerdict::Admitted,
        }
    }

    fn is_kept_out(&self, kind: Kind) -> bool {
        kind.writes() && (self.is_paused || self.is_shut)
    }

    pub(crate) fn rights(&self, user: usize) -> Rights {
        self.rights[user]
    }

    /// Whether a request may begin that was kept out; if not, it is told when to ask again.
    pub(crate) fn lets_in(&mut self, kind: Kind, cx: &Context<'_>) -> bool {
        let lets_in = !self.is_kept_out(kind);
        if !lets_in {
            self.kept_out.push(cx.waker().clone());
        }
        lets_in
    }

    pub(crate) fn keep_out(&mut self, is_paused: bool, is_shut: bool) {
        (self.is_paused, self.is_shut) = (is_paused, is_shut);
        std::mem::take(&mut self.kept_out).into_iter().for_each(Waker::wake);
    }

    /// Changes what a user may do; its clients are in doubt before anybody hears of it.
    pub(crate) fn set_rights(&mut self, user: usize, rights: Rights, clients: &[Arc<Client>]) {
        self.rights[user] = rights;
        for client in clients {
            client.ask(Signal::Review);
            client.wake();
        }
    }

    // Locks.

    pub(crate) fn try_lock(&mut self, key: usize, id: Id) -> bool {
        let lock = &mut self.locks[key];
        let is_free = lock.holder.is_none();
        if is_free {
            lock.holder = Some(Holder::Session(id));
        }
        is_free
    }

    pub(crate) fn line_up(&mut self, key: usize, id: Id) {
        self.locks[key].line.push_back((id, None));
    }

    /// Whether a lock has come for which a session stands in line.
    pub(crate) fn is_granted(&mut self, key: usize, id: Id, cx: &Context<'_>) -> bool {
        let lock = &mut self.locks[key];
        let place = lock.line.iter_mut().find(|(other, _)| *other == id);
        place.into_iter().for_each(|(_, waker)| *waker = Some(cx.waker().clone()));
        lock.holder == Some(Holder::Session(id))
    }

    pub(crate) fn unlock(&mut self, key: usize) {
        let lock = &mut self.locks[key];
        std::mem::take(&mut lock.onlookers).into_iter().for_each(Waker::wake);
        let next = lock.line.pop_front();
        lock.holder = next.as_ref().map(|(id, _)| Holder::Session(*id));
        next.into_iter().filter_map(|(_, waker)| waker).for_each(Waker::wake);
    }

    /// A session wants a lock no more, or has used it.
    pub(crate) fn give_back(&mut self, key: usize, id: Id) {
        self.locks[key].line.retain(|(other, _)| *other != id);
        if self.locks[key].holder == Some(Holder::Session(id)) {
            self.unlock(key);
        }
    }

    /// Whether a key is free; if not, its onlooker is told when it is.
    pub(crate) fn is_free(&mut self, key: usize, cx: &Context<'_>) -> bool {
        let lock = &mut self.locks[key];
        if lock.holder.is_some() {
            lock.onlookers.push(cx.waker().clone());
        }
        lock.holder.is_none()
    }

    /// Whether a session holds a lock or stands in line for one.
    pub(crate) fn has_locks(&self, id: Id) -> bool {
        self.locks.iter().any(|lock| {
            lock.holder == Some(Holder::Session(id)) || lock.line.iter().any(|(it, _)| *it == id)
        })
    }

    /// The sessions that were granted a lock and have not looked.
    pub(crate) fn granted(&self) -> impl Iterator<Item = Id> {
        self.locks.iter().filter_map(|lock| match lock.holder {
            Some(Holder::Session(id)) => Some(id),
            _ => None,
        })
    }

    // Lists, and the sessions that wait for their elements.

    /// With its lock held.
    pub(crate) fn push(&mut self, key: usize) {
        self.pushed += 1;
        self.lists[key].push_back(self.pushed);
        self.serve(key);
    }

    /// Gives elements to waiters, as long as there are any. One of them may take a while, with the
    /// lock.
    pub(crate) fn serve(&mut self, key: usize) {
        let mut at = 0;
        while !self.lists[key].is_empty()
            && let Some(waiter) = self.queues[key].get(at).cloned()
        {
            if waiting(&waiter).client.is_in_doubt() {
                at += 1;
                continue;
            }
            if !waiter.claim() {
                self.queues[key].remove(at);
                continue;
            }
            let id = waiting(&waiter).id;
            assert!(!self.gone.contains(&id), "session {id} is over, and is served");
            match self.random.below(8) {
                0 => {
                    let element = self.lists[key].pop_front();
                    return self.work(key, JobWork::Service(waiter, element));
                }
                1 => return self.work(key, JobWork::Service(waiter, None)),
                _ => {
                    let element = self.lists[key].pop_front();
                    self.queues[key].remove(at);
                    self.end_service(&waiter, element);
                }
            }
        }
    }

    fn end_service(&mut self, waiter: &Waiter, element: Option<u64>) {
        let SimulatedWaiter { client, outcome, is_abandoned, .. } = waiting(waiter);
        let is_abandoned = is_abandoned.load(Ordering::Relaxed);
        self.swallowed += u64::from(element.is_some() && is_abandoned);
        match element {
            Some(_) => {
                *outcome.lock().unwrap() = element;
                waiter.conclude();
            }
            None if waiter.wait_on() => {}
            None => return,
        }
        client.ask(Signal::Served);
        client.wake();
    }

    pub(crate) fn stand(&mut self, key: usize, id: Id, client: &Arc<Client>) -> Arc<Waiter> {
        let (client, outcome, is_abandoned) =
            (Arc::clone(client), Mutex::default(), AtomicBool::default());
        let waiter =
            Waiter::new(false, Box::new(SimulatedWaiter { id, client, outcome, is_abandoned }));
        self.queues[key].push(Arc::clone(&waiter));
        waiter
    }

    pub(crate) fn leave_queue(&mut self, key: usize, waiter: &Arc<Waiter>) {
        self.queues[key].retain(|other| !Arc::ptr_eq(other, waiter));
    }

    /// The sessions that wait and could still be served.
    pub(crate) fn stand_in_queues(&self) -> impl Iterator<Item = Id> {
        let waiters = self.queues.iter().flatten().filter(|waiter| !waiter.is_over());
        waiters.map(|waiter| waiting(waiter).id)
    }

    /// The sessions that wait for what is there while nobody holds it for them.
    pub(crate) fn overlooked(&self) -> impl Iterator<Item = Id> {
        let keys = self.locks.iter().zip(&self.lists).zip(&self.queues);
        let idle = keys.filter(|((lock, list), _)| lock.holder.is_none() && !list.is_empty());
        let waiters = idle.flat_map(|(_, queue)| queue).filter(|waiter| !waiter.is_over());
        waiters.map(|it| waiting(it)).filter(|it| !it.client.is_in_doubt()).map(|it| it.id)
    }

    // Other threads.

    /// Another thread goes on with a lock.
    fn work(&mut self, key: usize, work: JobWork) {
        self.locks[key].holder = Some(Holder::Thread);
        let left = 1 + self.random.below(20) as u32;
        self.jobs.push(Job { key, left, work });
    }

    /// `returns` says whether it comes back, with its lock.
    pub(crate) fn begin_job(&mut self, key: usize, left: u32, returns: bool) -> Rc<RefCell<Slot>> {
        let slot = Rc::<RefCell<Slot>>::default();
        let work = if returns { JobWork::Return } else { JobWork::Result };
        self.work(key, work(Rc::clone(&slot)));
        self.jobs.last_mut().unwrap().left = left;
        slot
    }

    /// A step of all other threads; whether there are any.
    pub(crate) fn work_on(&mut self) -> bool {
        let had_work = !self.jobs.is_empty();
        self.jobs.iter_mut().for_each(|job| job.left -= 1);
        let (done, rest) = std::mem::take(&mut self.jobs).into_iter().partition(|it| it.left == 0);
        self.jobs = rest;
        for Job { key, work, .. } in Vec::from_iter::<Vec<Job>>(done) {
            match work {
                JobWork::Result(slot) => Slot::fill(&slot),
                JobWork::Return(slot) => {
                    Slot::fill(&slot);
                    continue;
                }
                JobWork::Service(waiter, element) => {
                    if element.is_some() {
                        self.leave_queue(key, &waiter);
                    }
                    self.end_service(&waiter, element);
                    self.locks[key].holder = None;
                    self.serve(key);
                    if self.locks[key].holder.is_some() {
                        continue;
                    }
                }
            }
            self.unlock(key);
        }
        had_work
    }

    // Time, and the disk.

    pub(crate) fn ring_at(&mut self, time: u64, cx: &Context<'_>) {
        self.timers.push((time, cx.waker().clone()));
    }

    pub(crate) fn pass_time(&mut self, time: u64) {
        self.now += time;
        let now = self.now;
        self.timers.extract_if(.., |(at, _)| *at <= now).for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    pub(crate) fn is_safe(&mut self, lsn: u64, cx: &Context<'_>) -> bool {
        let is_safe = lsn <= self.safe;
        if !is_safe {
            self.syncing.push(cx.waker().clone());
        }
        is_safe
    }

    pub(crate) fn sync(&mut self) {
        self.safe = self.pushed;
        std::mem::take(&mut self.syncing).into_iter().for_each(Waker::wake);
    }
}

/// What a waiter got, if it was served.
pub(crate) fn outcome(waiter: &Waiter) -> Option<u64> {
    waiting(waiter).outcome.lock().unwrap().take()
}

/// Whether a waiter's wait was ended by somebody else, without an element.
pub(crate) fn is_unblocked(waiter: &Waiter) -> bool {
    waiter.is_over() && waiting(waiter).outcome.lock().unwrap().is_none()
}

/// The session of a waiter goes on without it.
pub(crate) fn abandon(waiter: &Waiter) {
    give_up(waiter);
    waiting(waiter).is_abandoned.store(true, Ordering::Relaxed);
}

pub(crate) fn give_up(waiter: &Waiter) -> bool {
    waiter.cancel() == Cancelled::Now
}

fn waiting(waiter: &Waiter) -> &SimulatedWaiter {
    waiter.owner().downcast_ref().unwrap()
}
