//! A worker: a thread that reads, executes and answers for its share of the sessions.
//!
//! Everything here belongs to one thread. What all its sessions can share while none of them is in
//! the middle of a turn, lies here once: the read buffer, a spare output, a spare parser.
//!
//! Invariants: a worker is inside its turnstile only while it runs a session's turn; what it left
//! in mailboxes meanwhile is announced right after.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use config::settings::SERVER_THREAD_AFFINITY;
use crash::SecondStack;
use engine::clients::multicast::{Subscribers, migrate};
use engine::clients::registry::{Client, Signal, client_flags};
use engine::clients::unregistration::Unregistration;
use engine::execute::{Executor, InputHandover};
use engine::lane::{Lane, is_over};
use engine::runtime::counters::add;
use engine::runtime::event_loops::EventLoopCycles;
use engine::runtime::failpoint;
use engine::runtime::lanes::READ_SIZE;
use engine::runtime::yielding::YieldQueue;
use engine::session::Session;
use keyspace::TxOptions;
use proto::Output;
use tokio::runtime::{Handle, LocalRuntime, RuntimeMetrics};
use tokio::sync::mpsc;
use tokio::task::unconstrained;

use crate::net::batch_scheduling::{self, BatchScheduling};
use crate::net::connection::{
    Connection, ConnectionTask, MovingSession, REQUEST_MAX, SessionExit, Window,
};
use crate::net::deferred::{self, DEFERRED_MAX, DeferredSessions};
use crate::net::durability_waiters::{self, DurabilityWaiters};
use crate::net::group_commit::{self, GroupCommit};
use crate::net::network::Network;

/// The read buffer that a worker's sessions share: what they deferred, and the next read.
const INPUT_SIZE: usize = DEFERRED_MAX + REQUEST_MAX + READ_SIZE;

/// As many as sessions with replies that wait for those of others, on most turns.
const SPARE_OUTPUTS: usize = 64;

/// What the sessions of one worker share.
pub(crate) struct Worker {
    /// What the thread knows of its own while it runs transactions.
    lane: Lane,
    pub(crate) server: &'static Network,
    pub(crate) input: RefCell<Box<[u8]>>,
    #[expect(clippy::vec_box, reason = "sessions keep them boxed, so boxes are what is spared")]
    outputs: RefCell<Vec<Box<Output>>>,
    /// Requests parsed ahead, for the session whose turn it is.
    pub(crate) window: RefCell<Window>,
    /// Sessions that live here. The shared count also has those that are on their way to the lane.
    adopted: Cell<usize>,
    /// Those of them whose clients are on this machine.
    neighbours: Cell<usize>,
    /// What its sessions wrote and the log is to make safe at once.
    pub(crate) group_commit: GroupCommit,
    /// What the present turn of a session has taken so far, in microseconds.
    turn_us: Cell<i64>,
    looks: YieldQueue,
    pub(crate) handover: InputHandover,
    pub(crate) deferred: DeferredSessions,
    pub(crate) durability_waiters: DurabilityWaiters,
    pub(crate) batch_scheduling: BatchScheduling,
}

/// What a worker is told.
pub(crate) enum Message {
    /// Connection a connection.
    Adopt(Box<MovingSession>),
    /// Bind the thread to a core, or free it, as the configuration says.
    Bind,
    /// Take registrations off their keys.
    Unregister(Box<Unregistration>),
    /// Hand all sessions to others and end.
    Retire,
    /// End, and all sessions with you.
    End,
}

impl Deref for Worker {
    type Target = Lane;

    #[inline]
    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl Worker {
    /// That of this thread.
    pub(crate) fn new(server: &'static Network, lane: usize) -> Self {
        Self {
            lane: Lane::new(server, lane),
            server,
            input: RefCell::new(vec![0; INPUT_SIZE].into_boxed_slice()),
            outputs: RefCell::default(),
            window: RefCell::default(),
            adopted: Cell::new(0),
            neighbours: Cell::new(0),
            group_commit: GroupCommit::default(),
            turn_us: Cell::new(0),
            looks: YieldQueue::default(),
            handover: InputHandover::default(),
            deferred: DeferredSessions::default(),
            durability_waiters: DurabilityWaiters::default(),
            batch_scheduling: BatchScheduling::default(),
        }
    }

    /// Where its sessions' requests are run.
    #[inline]
    pub(crate) fn executor(&self) -> Executor<'_> {
        Executor { engine: self.server, lane: &self.lane, handover: &self.handover }
    }

    /// A session's turn begins.
    #[inline]
    pub(crate) fn begin_turn(&self) {
        self.turn_us.set(0);
    }

    /// The session of the present turn has read so many bytes, and executed what it could.
    #[inline]
    pub(crate) fn note_turn(&self, bytes: usize) {
        /// So many bytes are copied in a microsecond, where their memory is new.
        const BYTES_PER_US: usize = 4096;
        let executed_us = self.ticked_us() - self.batch_began().us();
        let took_us = 1 + executed_us + (bytes / BYTES_PER_US) as i64;
        self.turn_us.set(self.turn_us.get() + took_us);
    }

    /// Whether a session's present turn is over.
    #[inline]
    pub(crate) fn is_turn_over(&self) -> bool {
        let turn_us = self.turn_us.get();
        turn_us > 0 && is_over(turn_us)
    }

    /// A session goes on later, and lets others have the worker.
    pub(crate) fn yield_turn(&self, waker: &Waker) {
        let now_us = self.ticked_us();
        self.end_turn_at(waker, (now_us - self.turn_us.get(), now_us));
    }

    /// The same for a session whose turn began and ended then.
    pub(crate) fn end_turn_at(&self, waker: &Waker, times_us: (i64, i64)) {
        self.looks.yield_turn(waker, times_us, failpoint::are_turns_short());
    }

    /// Whether the present batch's replies, of so many bytes, are to wait for a second turn of
    /// their session.
    #[inline]
    pub(crate) fn has_wait(&self, bytes: usize) -> bool {
        self.deferred.may_defer_replies(bytes, self.batch_began().us(), self.ticked_us())
    }

    /// Ends a session's turn: the turnstile is left, and workers that were left letters are told.
    #[inline]
    pub(crate) fn end_turn(&self) {
        self.leave();
        self.group_commit.note_turn(self);
        self.server.mailboxes.wake(&self.wakes);
    }

    /// Ends the books of a session, or hands it to another worker.
    pub(crate) fn session_over(&self, client: &Client, exit: SessionExit) {
        self.adopted.set(self.adopted.get() - 1);
        self.neighbours.set(self.neighbours.get() - usize::from(client.is_neighbour()));
        self.counters.sessions.fetch_sub(1, Ordering::Relaxed);
        match exit {
            SessionExit::Closed => self.server.session_ended(client.id),
            SessionExit::Moved(moving) if moving.session.asks_for_sync() => {
                self.server.hand_over_to_links(moving);
            }
            SessionExit::Moved(moving) if moving.session.asks_for_http() => {
                self.server.give_to_http(*moving);
            }
            SessionExit::Moved(moving) => self.server.worker_pool.hand_over(self.server, moving),
        }
    }

    /// Whether at least half of its clients are on this machine.
    pub(crate) fn has_neighbours(&self) -> bool {
        let neighbours = self.neighbours.get();
        neighbours > 0 && neighbours * 2 >= self.adopted.get()
    }

    pub(crate) fn take_output(&self) -> Box<Output> {
        self.outputs.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_back_output(&self, mut output: Box<Output>) {
        output.clear();
        output.release_if_large();
        let mut spare = self.outputs.borrow_mut();
        if spare.len() < SPARE_OUTPUTS {
            spare.push(output);
        }
    }
}

/// Runs a worker until it is retired. The thread is its own.
pub(crate) fn run(
    server: &'static Network,
    lane: usize,
    runtime: &LocalRuntime,
    inbox: mpsc::UnboundedReceiver<Message>,
) {
    let _second_stack = SecondStack::take();
    let worker = Rc::new(Worker::new(server, lane));
    batch_scheduling::begin(&worker);
    bind(&worker);
    runtime.block_on(async {
        let metrics = Handle::current().metrics();
        server.threads.loops.enter(lane, Box::new(move || turns_of(&metrics)));
        receive(Rc::clone(&worker), inbox).await;
        server.threads.loops.leave(lane);
    });
    batch_scheduling::end(&worker);
}

/// How far the loop of a runtime has come.
pub(crate) fn turns_of(metrics: &RuntimeMetrics) -> EventLoopCycles {
    let micros = metrics.worker_total_busy_duration(0).as_micros();
    let micros = u64::try_from(micros).unwrap_or(u64::MAX);
    let (cycles, steps) = (metrics.worker_park_count(0), metrics.worker_park_unpark_count(0));
    EventLoopCycles { cycles, micros, steps }
}

async fn receive(worker: Rc<Worker>, mut inbox: mpsc::UnboundedReceiver<Message>) {
    let expiry = tokio::task::spawn_local(crate::net::worker_cron::run(Rc::clone(&worker)));
    worker.server.mailboxes.open(worker.lane.number);
    let mail = tokio::task::spawn_local(deliver_mail(Rc::clone(&worker)));
    // These do the work of many tasks in one turn.
    tokio::task::spawn_local(unconstrained(deferred::run(Rc::clone(&worker))));
    tokio::task::spawn_local(unconstrained(durability_waiters::run(Rc::clone(&worker))));
    tokio::task::spawn_local(group_commit::run(Rc::clone(&worker)));
    tokio::task::spawn_local(poll_sockets(Rc::clone(&worker)));
    while let Some(message) = inbox.recv().await {
        match message {
            Message::Adopt(moving) => adopt(&worker, *moving),
            Message::Bind => bind(&worker),
            Message::Unregister(rest) => unregister(&worker, *rest),
            Message::Retire => break,
            Message::End => return drain_deferred(&worker),
        }
    }
    expiry.abort();
    engine::reclaim::expiry::release_unfinished(&worker);
    retire(&worker).await;
    mail.abort();
    worker.deliver_letters();
    worker.server.mailboxes.close(worker.lane.number);
    worker.wake_addressees(usize::MAX);
    drain_deferred(&worker);
}

/// Gives the second turns that are due, so that nobody stands in line for ever, and ends what is
/// gathered.
fn drain_deferred(worker: &Worker) {
    worker.deferred.drain(worker);
    worker.group_commit.flush(worker);
}

/// After letters to so many clients the sessions have the worker again.
const LETTER_BUDGET: usize = 1000;

/// So many of the sessions that were given messages are woken at a time at least.
const WOKEN_LEAST: usize = 16;

/// No more groups than so many are made of the sessions that are woken: where others keep the
/// worker busy, each group waits for a turn of all of those.
const GROUPS: usize = 3;

/// Hands out what comes into the worker's mailbox, and wakes the sessions it is for a few at a
/// time. In between the worker looks at its sockets: a client that has just published need not wait
/// until all subscribers have been written to before it is heard again, and what it says meanwhile
/// goes to the sessions in line in one piece.
async fn deliver_mail(worker: Rc<Worker>) {
    let mailboxes = &worker.server.mailboxes;
    let mut together = WOKEN_LEAST;
    loop {
        let mut letters = poll_fn(|cx| match worker.has_mail() {
            true => Poll::Ready(mailboxes.collect(worker.lane.number)),
            // Sessions hand letters out, too; the wake for those comes even so.
            false => mailboxes.poll(worker.lane.number, cx.waker()),
        })
        .await;
        worker.take_letters(&mut letters);
        let mut clients = 0;
        while clients < LETTER_BUDGET
            && let Some(more) = worker.deliver_letter()
        {
            clients += more;
        }
        together = worker.addressee_count().div_ceil(GROUPS).max(together);
        worker.wake_addressees(together);
        if worker.has_mail() {
            tokio::task::yield_now().await;
        } else {
            together = WOKEN_LEAST;
        }
    }
}

/// Wakes the sessions that wait for a look at the sockets, behind it.
async fn poll_sockets(worker: Rc<Worker>) {
    loop {
        poll_fn(|cx| worker.looks.poll(cx.waker())).await;
        // The task goes on behind the next look.
        tokio::task::yield_now().await;
        add(&worker.counters.looks, 1);
        worker.looks.end();
    }
}

fn bind(worker: &Worker) {
    if worker.server.config.get(SERVER_THREAD_AFFINITY) {
        worker.server.threads.cores.bind(worker.lane.number);
    } else {
        worker.server.threads.cores.release();
    }
}

/// Sends all sessions away and waits until the last is gone. No more can come: a worker that is
/// told to retire is no longer in the pool.
async fn retire(worker: &Worker) {
    for client in own_clients(worker) {
        worker.server.mailboxes.signal(&client, Signal::Move, &worker.wakes);
    }
    worker.server.mailboxes.wake(&worker.wakes);
    while worker.adopted.get() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn own_clients(worker: &Worker) -> Vec<Arc<Client>> {
    let mut clients = worker.server.clients.all();
    clients.retain(|client| client.lane() == worker.lane.number);
    clients
}

fn adopt(worker: &Rc<Worker>, moving: MovingSession) {
    let worker = Rc::clone(worker);
    worker.adopted.set(worker.adopted.get() + 1);
    let client = Arc::clone(&moving.session.client);
    client.set_lane(worker.lane.number);
    // The alarm that was set is a task of the worker before, and may have gone with it.
    client.set_flag(client_flags::ALARMED, false);
    worker.neighbours.set(worker.neighbours.get() + usize::from(client.is_neighbour()));
    // A client in transit is handed every letter at once: none is under way.
    migrate(
        subscriber_sets_of(worker.server, &moving.session),
        &worker.server.mailboxes,
        &client,
        worker.lane.number,
        || (),
    );
    let Ok(serve) = Connection::new(Rc::clone(&worker), moving) else {
        worker.session_over(&client, SessionExit::Closed);
        return;
    };
    tokio::task::spawn_local(ConnectionTask::new(serve));
}

/// Takes registrations off their keys, in a task of this worker.
pub(crate) fn unregister(worker: &Rc<Worker>, unregistration: Unregistration) {
    if unregistration.next().is_some() {
        tokio::task::spawn_local(run_unregistration(Rc::clone(worker), unregistration));
    }
}

async fn run_unregistration(worker: Rc<Worker>, mut unregistration: Unregistration) {
    while let Some(mut acquisition) = unregistration.next() {
        poll_fn(|cx| {
            let polled = worker.poll_locks(&mut acquisition, cx.waker());
            if polled.is_pending() {
                worker.leave();
            }
            polled
        })
        .await;
        worker.start_batch();
        unregistration
            .unregister_next(acquisition, TxOptions::internal(worker.lane.number, worker.now_ms()));
        worker.leave();
        // Others have the worker before the next partition.
        tokio::task::yield_now().await;
    }
}

/// All sets of subscribers that a session belongs to.
pub(crate) fn subscriber_sets_of<'a>(
    server: &'a Network,
    session: &'a Session,
) -> Vec<&'a Subscribers> {
    let subscribed = session.subscriptions.iter().flat_map(|all| all.subscriber_sets());
    let watch = session.memcached.iter().filter_map(|state| state.watch.as_ref());
    let watched = watch.flat_map(|watch| server.memcached.watchers.subscriber_sets(watch.classes));
    subscribed
        .chain(server.pushes.monitors.subscribers_of(&session.client))
        .chain(watched)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use base::scheduler;

    use super::Worker;
    use crate::net::batch_scheduling;
    use crate::start::test_server;

    #[test]
    fn a_busy_worker_is_courteous_where_half_of_its_clients_are_neighbours() {
        let server = test_server();
        let worker = Worker::new(server, 0);
        let work_until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                std::hint::spin_loop();
                worker.start_batch();
                batch_scheduling::tick(&worker);
            }
        };
        // One of three is no half.
        worker.adopted.set(3);
        worker.neighbours.set(1);
        let is_busy = || server.threads.busy_workers.load(Ordering::Relaxed) == 1;
        work_until(&is_busy);
        assert!(scheduler::interrupts_others());
        worker.neighbours.set(2);
        work_until(&|| !scheduler::interrupts_others());
        assert!(is_busy());
        while is_busy() {
            std::thread::sleep(Duration::from_millis(100));
            worker.start_batch();
            batch_scheduling::tick(&worker);
        }
        assert!(scheduler::interrupts_others());
    }
}
