//! Heavy work: threads for what would keep a worker from its other clients.
//!
//! A transaction moves here with its locks; other work is any closure. Threads are made when work
//! finds none idle, up to a limit; beyond it work queues. Each pool has a thread from the start, so
//! that whatever comes is done once, however many threads the system refuses.
//!
//! Invariant: a transaction has the keyspace's leave for heavy work from before it leaves its
//! worker's turnstile until its locks are dropped, panic or not.

use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use base::time::Clock;
use keyspace::{
    Acquisition, BUSY, Begun, HEAVY_TRANSACTIONS, HeavyPass, Keyspace, Obstacle, PartitionIndex,
    PartitionSet, Patience, Refusal, Tx, TxOptions,
};
use proto::{Output, OwnedArgs, Reply, Resp};
use tokio::sync::oneshot;

use crate::blocking::Waiting;
use crate::busy::Hold;
use crate::clients::Client;
use crate::control::context::ControlWork;
use crate::cores::Cores;
use crate::execute::{self, Outcome, Work};
use crate::gates;
use crate::guard::{Limited, Request};
use crate::lanes::{FIRST_HEAVY_LANE, MAX_JOBS, MAX_TRANSACTIONS, MAX_VISITS};
use crate::mailbox::Rounds;
use crate::server::Server;
use crate::session::{Elsewhere, Ran, Stage, Then};
use crate::table::Entry;
use crate::unit::drill;

mod errand;
mod pool;
mod reading;

use errand::Errands;
pub(crate) use errand::{CountedErrand, Errand, GuardedErrand};
use pool::{Job, Pool};
pub(crate) use reading::{Reading, Unlocked};

/// How long a thread may wait on for what nobody wants any more.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How much of a long reply is made here; the session makes the rest as it is sent.
const FIRST_PIECE: usize = 64 * 1024;

/// A control command that does its work here.
pub(crate) struct Call {
    pub(crate) server: &'static Server,
    pub(crate) entry: &'static Entry,
    pub(crate) args: OwnedArgs,
    pub(crate) resp: Resp,
    /// The most that may wait to be sent to its client.
    pub(crate) ceiling: usize,
}

/// A transaction that moves here, with what it holds beside its locks.
pub(crate) struct Transaction {
    /// None if it has the world.
    pub(crate) pass: Option<HeavyPass>,
    pub(crate) hold: Hold,
    pub(crate) tx: Tx,
    /// Whose it is.
    pub(crate) client: Arc<Client>,
    pub(crate) limited: Option<Limited>,
}

/// A command that leaves its worker.
pub(crate) enum Leaving {
    /// With its locks.
    Transaction(Transaction),
    /// With copies of what its keys hold.
    Reading(Reading),
    /// With nothing yet.
    Unlocked(Unlocked),
}

/// Why something does not begin again.
enum Barred {
    Refused(Refusal),
    /// A gate holds it. It has done nothing and holds nothing, and its session begins it anew.
    PutOff,
}

impl From<Refusal> for Barred {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The threads, in pools: what waits for others never takes the last thread of what they wait for.
#[derive(Clone)]
pub(crate) struct Heavy {
    keyspace: &'static Keyspace,
    /// Those that come with their locks: a thread for each is there or can be made.
    transactions: Arc<Pool>,
    /// Those that wait for locks, for the world or for a file.
    visits: Arc<Pool>,
    /// All others.
    jobs: Arc<Pool>,
    errands: Arc<Errands>,
}

impl Transaction {
    /// Runs the command, which began on a worker.
    fn run(mut self, lane: usize, args: OwnedArgs, work: Work) -> Elsewhere {
        self.tx.give_up(&Begun::default());
        self.tx.move_to_heavy(lane);
        self.go_on(args, work)
    }

    /// Runs the command, as often as it needs more locks.
    fn go_on(self, args: OwnedArgs, work: Work) -> Elsewhere {
        // In a panic too the locks go first, as the world may be granted right after the pass.
        let Self { mut pass, mut hold, mut tx, client, limited } = self;
        let mut output = Output::new();
        output.set_ceiling(work.server.output_ceiling(&client));
        let watch = Watch::start(work.server.keyspace.clock());
        let request = Request { entry: work.entry, args: args.as_args(), database: tx.database() };
        let gates = gates::Again::of_command(work.server, limited.as_ref(), request);
        let (mut failed, mut seen, mut waits, rounds) = (false, 0, None, Rounds::default());
        for round in 0.. {
            if let Some(buffer) = args.buffer() {
                tx.came_in(buffer);
            }
            match work.run(&mut tx, args.as_args(), &mut output, &rounds) {
                Outcome::Replied(lsn) => seen = lsn,
                Outcome::Failed(lsn) => (failed, seen) = (true, lsn),
                Outcome::Wait(wait) => {
                    waits = Some(Waiting::begin(&mut tx, &client, work, *wait));
                }
                Outcome::Widen => match again(tx, round, &mut pass, &mut hold, &gates, || true) {
                    Ok(widened) => {
                        tx = widened;
                        continue;
                    }
                    Err(Barred::Refused(busy)) => {
                        execute::refuse(work.server, work.entry, &busy, work.resp, &mut output);
                        failed = true;
                        break;
                    }
                    Err(Barred::PutOff) => {
                        // Others may have the thread, once its leave is given back.
                        drop((hold, pass));
                        return Elsewhere::put_off(work.entry, args);
                    }
                },
                Outcome::Heavy => unreachable!("heavy threads carry any load"),
            }
            drop(tx);
            break;
        }
        drop(hold);
        drop(pass);
        work.server.mailboxes.ring(&rounds);
        // What a reply needs no lock for is begun here, off the worker.
        output.pull(FIRST_PIECE);
        let (entry, micros) = (work.entry, watch.micros());
        let ran = Ran { entry, args, micros, failed, program: None };
        let then = waits.map_or(Then::Nothing, Then::Waits);
        Elsewhere { output, seen, ran, then }
    }
}

/// Begins a transaction again with the locks that it turned out to need; waits for them as long as
/// a client is kept waiting. Where they do not come all it did is undone, and it holds nothing.
/// Others run meanwhile, so it begins at the time when they come, unless a gate objects. Where they
/// are wanted no more it begins without any.
#[cold]
fn again(
    tx: Tx,
    round: u32,
    pass: &mut Option<HeavyPass>,
    hold: &mut Hold,
    gates: &gates::Again<'_>,
    mut are_wanted: impl FnMut() -> bool,
) -> Result<Tx, Barred> {
    let (options, keyspace) = (tx.options(), tx.keyspace());
    let mut acquisition = tx.widen(round);
    hold.pause();
    // One that had the world is begun again in a drill: it has stepped aside already.
    if acquisition.wants_world()
        && let Some(pass) = pass
        && pass.is_admitted()
    {
        pass.suspend();
    }
    loop {
        if !wait_for_client_while(keyspace, &mut acquisition, &mut are_wanted)? {
            drop(acquisition);
            // Others may have the world, and then nothing else begins.
            if let Some(pass) = pass
                && !pass.is_admitted()
            {
                pass.resume(|| true);
            }
            acquisition = Acquisition::of_partitions(keyspace, PartitionSet::new());
            let is_there = acquisition.attempt();
            assert!(is_there, "nothing is asked for");
        } else if gates.hold()? {
            acquisition = await_leave(gates, acquisition, pass.as_mut())?;
            hold.begin_anew();
            continue;
        }
        if acquisition.prolong() {
            if let Obstacle::Partitions(partitions) = acquisition.obstacle() {
                hold.resume(partitions.iter().copied().collect());
            }
            let now_us = keyspace.clock().now_us();
            return Ok(Tx::begin(acquisition, TxOptions { now: now_us / 1000, now_us, ..options }));
        }
        acquisition.defer();
    }
}

/// Gives the locks back until the gates let pass; what is to be waited for then is the same. The
/// world may pass meanwhile. What its session can begin anew gives back its thread, too.
#[cold]
fn await_leave(
    gates: &gates::Again<'_>,
    acquisition: Acquisition,
    pass: Option<&mut HeavyPass>,
) -> Result<Acquisition, Barred> {
    if gates.may_be_put_off {
        return Err(Barred::PutOff);
    }
    let (server, keyspace) = (gates.server, gates.server.keyspace);
    let again = match acquisition.obstacle() {
        Obstacle::World => Acquisition::of_world(keyspace),
        Obstacle::Partitions(partitions) => {
            Acquisition::of_partitions(keyspace, partitions.iter().copied().collect())
        }
    };
    drop(acquisition);
    let mut aside = pass.filter(|pass| pass.is_admitted());
    if let Some(pass) = &mut aside {
        pass.suspend();
    }
    let leave = loop {
        match gates.hold() {
            Ok(true) if server.shutdown.is_asked() => break Err(BUSY.into()),
            Ok(true) => std::thread::sleep(BETWEEN_LOOKS),
            Ok(false) => break Ok(again),
            Err(refusal) => break Err(refusal.into()),
        }
    };
    if let Some(pass) = aside {
        pass.resume(|| true);
    }
    leave
}

/// Waits for locks, or for the world, on a thread that may.
pub(crate) fn wait_for(acquisition: &mut Acquisition) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while acquisition.poll(&waker).is_pending() {
        std::thread::park();
    }
}

/// As [`wait_for`], for a client: it is told BUSY when others have held them for too long.
pub(crate) fn wait_for_client(
    keyspace: &'static Keyspace,
    acquisition: &mut Acquisition,
) -> Result<(), Refusal> {
    wait_for_client_while(keyspace, acquisition, || true).map(drop)
}

/// The same for as long as they are wanted; whether they are there.
fn wait_for_client_while(
    keyspace: &'static Keyspace,
    acquisition: &mut Acquisition,
    mut are_wanted: impl FnMut() -> bool,
) -> Result<bool, Refusal> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut patience = Patience::default();
    while acquisition.poll(&waker).is_pending() {
        if !are_wanted() {
            return Ok(false);
        }
        let lasts = match acquisition.awaits() {
            Some(partition) => patience.lasts(keyspace, Obstacle::Partitions(&[partition])),
            None => patience.lasts(keyspace, acquisition.obstacle()),
        };
        if !lasts {
            return Err(BUSY);
        }
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
    Ok(true)
}

/// As [`wait_for`], for as long as they are wanted; whether they are there.
pub(crate) fn wait_while(
    acquisition: &mut Acquisition,
    mut is_wanted: impl FnMut() -> bool,
) -> bool {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while acquisition.poll(&waker).is_pending() {
        if !is_wanted() {
            return false;
        }
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
    true
}

/// Wakes a thread that waits for locks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Heavy {
    pub(crate) fn new(keyspace: &'static Keyspace, cores: &Arc<Cores>) -> Self {
        let mut first = FIRST_HEAVY_LANE;
        let mut pool = |name, most| {
            let pool = Pool::new(name, Arc::clone(cores), first..first + most);
            first += most;
            Arc::new(pool)
        };
        Self {
            keyspace,
            transactions: pool("heavy", MAX_TRANSACTIONS),
            visits: pool("visit", MAX_VISITS),
            jobs: pool("job", MAX_JOBS),
            errands: Arc::default(),
        }
    }

    /// Starts a thread of each kind; what comes before is done by threads that are made for it.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.pools().into_iter().try_for_each(Pool::grow)
    }

    fn pools(&self) -> [&Arc<Pool>; 3] {
        [&self.transactions, &self.visits, &self.jobs]
    }

    /// Looks whether the system gives threads again that it refused. Called by the slow clock.
    pub(crate) fn tend(&self) {
        // Where it is refused again, the limit stays.
        if self.transactions.is_refused() && self.transactions.grow().is_ok() {
            self.limit_transactions();
        }
    }

    /// Gives leave to as many transactions as there are threads for, if the system refuses more.
    fn limit_transactions(&self) {
        let pool = &self.transactions;
        let most = if pool.is_refused() { pool.threads() } else { HEAVY_TRANSACTIONS };
        self.keyspace.limit_heavy_transactions(most.clamp(1, HEAVY_TRANSACTIONS));
    }

    /// Runs a command here, for a session that waits for what comes of it.
    pub(crate) fn run_command(
        &self,
        leaving: Leaving,
        args: OwnedArgs,
        work: Work,
        sender: oneshot::Sender<Elsewhere>,
    ) {
        self.transact(Box::new(move |lane| {
            let done = match leaving {
                Leaving::Transaction(transaction) => transaction.run(lane, args, work),
                Leaving::Reading(reading) => reading.run(lane, args, work),
                Leaving::Unlocked(unlocked) => unlocked.run(lane, args, work),
            };
            // A session that is gone needs no reply.
            let _ = sender.send(done);
        }));
    }

    /// Runs a program here; how its session waits for that.
    pub(crate) fn run_errand(&self, errand: Errand, args: OwnedArgs) -> Stage {
        let returns = errand.program.returns(&errand.unit);
        let errand = GuardedErrand::new(errand);
        let receiver = self.report(move |lane| errand.take().run(lane, args));
        if returns { Stage::Away(receiver) } else { Stage::Elsewhere(receiver) }
    }

    /// Runs a control command's work here, outside any turnstile.
    pub(crate) fn run(&self, call: Call, work: ControlWork) -> oneshot::Receiver<Elsewhere> {
        Self::call(&self.jobs, call, work)
    }

    /// As `run`, for what waits for others.
    pub(crate) fn run_visit(&self, call: Call, work: ControlWork) -> oneshot::Receiver<Elsewhere> {
        Self::call(&self.visits, call, work)
    }

    fn call(pool: &Arc<Pool>, call: Call, work: ControlWork) -> oneshot::Receiver<Elsewhere> {
        let (sender, receiver) = oneshot::channel();
        let job = move |lane| {
            let Call { server, entry, args, resp, ceiling } = call;
            let mut output = Output::new();
            output.set_ceiling(ceiling);
            let watch = Watch::start(server.keyspace.clock());
            drill::point();
            let result = work(lane, args.as_args(), &mut Reply::new(&mut output, resp));
            drill::point();
            if result == Err(Refusal::Widen) {
                let _ = sender.send(Elsewhere::put_off(entry, args));
                return;
            }
            let failed = result.is_err();
            if let Err(refusal) = result {
                output = Output::new();
                server.refuse(&refusal, &mut Reply::new(&mut output, resp));
            }
            let ran = Ran { entry, args, micros: watch.micros(), failed, program: None };
            // What it changed, it changed by transactions of its own: all of them are seen.
            let seen = server.journal.end();
            let _ = sender.send(Elsewhere { output, seen, ran, then: Then::Nothing });
        };
        let _ = pool.submit(Box::new(job));
        receiver
    }

    /// Runs any closure here that nobody waits for.
    pub(crate) fn spawn(&self, work: impl FnOnce(usize) + Send + 'static) {
        let _ = self.jobs.submit(Box::new(work));
    }

    /// As `spawn`, for what waits for locks or for the world.
    pub(crate) fn spawn_visit(&self, work: impl FnOnce(usize) + Send + 'static) {
        let _ = self.visits.submit(Box::new(work));
    }

    /// Has each thread give back what its allocator holds and nobody uses, once it has no work.
    pub(crate) fn release(&self) {
        self.pools().into_iter().for_each(|pool| pool.release());
    }

    /// Waits at most this long until all programs that have left their workers are over.
    pub(crate) fn await_errands(&self, patience: Duration) {
        let clock = self.keyspace.clock();
        let until_us = clock.monotonic_us() + patience.as_micros() as i64;
        while !self.errands.are_over() && clock.monotonic_us() < until_us {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the threads, waiting at most this long for what is under way.
    pub(crate) fn dismiss(&self, patience: Duration) {
        let clock = self.keyspace.clock();
        let until_us = clock.monotonic_us() + patience.as_micros() as i64;
        self.pools().into_iter().for_each(|pool| pool.end());
        for pool in self.pools() {
            let left_us = until_us - clock.monotonic_us();
            pool.await_end(Duration::from_micros(u64::try_from(left_us).unwrap_or(0)));
        }
    }

    /// Runs what has leave for heavy work; what comes of it is for its session.
    fn report(
        &self,
        run: impl FnOnce(usize) -> Elsewhere + Send + 'static,
    ) -> oneshot::Receiver<Elsewhere> {
        let (sender, receiver) = oneshot::channel();
        self.transact(Box::new(move |lane| {
            // A session that is gone needs no reply.
            let _ = sender.send(run(lane));
        }));
        receiver
    }

    fn transact(&self, job: Job) {
        // One that found no thread waits for the next that is free, locks and all; no more come.
        if self.transactions.submit(job).is_err() {
            self.limit_transactions();
        }
    }
}

/// How long a piece of work takes.
struct Watch<'a> {
    clock: &'a Clock,
    started: i64,
}

impl<'a> Watch<'a> {
    fn start(clock: &'a Clock) -> Self {
        Self { clock, started: clock.monotonic_us() }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.clock.monotonic_us() - self.started).unwrap_or(0)
    }
}

/// A heavy-work thread that is admitted, for transactions that begin here.
pub(crate) struct Admission {
    keyspace: &'static Keyspace,
    pass: HeavyPass,
}

/// How long such a thread waits for a lock before it looks again.
const PAUSE: Duration = Duration::from_micros(50);

impl Admission {
    /// Waits until no world operation is under way.
    pub(crate) fn wait(keyspace: &'static Keyspace) -> Self {
        Self::wait_while(keyspace, || true).expect("it waits as long as that takes")
    }

    /// As [`Admission::wait`], for a client: it is told BUSY when that takes too long.
    pub(crate) fn for_client(keyspace: &'static Keyspace) -> Result<Self, Refusal> {
        let mut patience = Patience::default();
        Self::wait_while(keyspace, || patience.lasts(keyspace, Obstacle::World)).ok_or(BUSY)
    }

    fn wait_while(keyspace: &'static Keyspace, waits_on: impl FnMut() -> bool) -> Option<Self> {
        let mut pass = HeavyPass::for_visit(keyspace);
        pass.wait_while(waits_on).then_some(Self { keyspace, pass })
    }

    /// As `acquire`, and lets the world wait while the lock is free: for steps that are short, and
    /// few.
    pub(crate) fn acquire_next(&mut self, partition: PartitionIndex) -> Acquisition {
        match self.keyspace.try_acquire(partition) {
            Some(mut acquisition) => {
                acquisition.time_hold();
                acquisition
            }
            None => self.acquire(partition),
        }
    }

    /// Waits for a partition's lock. Before that the world may pass, which others in the queue for
    /// the lock may be waiting for.
    pub(crate) fn acquire(&mut self, partition: PartitionIndex) -> Acquisition {
        self.acquire_while(partition, |_| true).expect("it waits as long as that takes")
    }

    /// As [`Admission::acquire`], for a client: it is told BUSY when that takes too long, and the
    /// work is over.
    pub(crate) fn acquire_for_client(
        &mut self,
        partition: PartitionIndex,
    ) -> Result<Acquisition, Refusal> {
        let (keyspace, mut patience) = (self.keyspace, Patience::default());
        self.acquire_while(partition, |obstacle| patience.lasts(keyspace, obstacle)).ok_or(BUSY)
    }

    fn acquire_while(
        &mut self,
        partition: PartitionIndex,
        mut waits_on: impl FnMut(Obstacle<'_>) -> bool,
    ) -> Option<Acquisition> {
        loop {
            if !self.pass.safepoint(|| waits_on(Obstacle::World)) {
                return None;
            }
            if let Some(mut acquisition) = self.keyspace.try_acquire(partition) {
                acquisition.time_hold();
                return Some(acquisition);
            }
            if !waits_on(Obstacle::Partitions(&[partition])) {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Runs a transaction that visits partitions for a client and changes nothing, on the thread that
/// `lane` was given to.
pub(crate) fn visiting<T>(
    keyspace: &'static Keyspace,
    lane: usize,
    database: usize,
    work: impl FnOnce(&mut Tx) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let _admission = Admission::for_client(keyspace)?;
    let nothing = Acquisition::of_partitions(keyspace, PartitionSet::new());
    let internal = TxOptions::internal(lane, keyspace.clock().now_ms());
    let options = TxOptions { database, heavy: true, ..internal };
    work(&mut Tx::begin(nothing, options))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::task::Waker;

    use keyspace::{HEAVY_TRANSACTIONS, HeavyPass};

    use super::Heavy;
    use crate::start::test_server;

    #[test]
    fn as_many_transactions_have_leave_as_there_are_threads_for() {
        let server = test_server();
        let (heavy, keyspace) = (&server.heavy, server.keyspace);
        let admitted = || {
            let passes: Vec<_> = (0..40).map(|_| HeavyPass::for_offload(keyspace)).collect();
            passes.iter().filter(|pass| pass.is_admitted()).count()
        };
        heavy.begin().unwrap();
        assert_eq!(admitted(), HEAVY_TRANSACTIONS);
        heavy.transactions.refuse_threads(true);
        let two = |heavy: &Heavy| {
            let (sender, done) = channel();
            for _ in 0..2 {
                let sender = sender.clone();
                heavy.transact(Box::new(move |_| sender.send(()).unwrap()));
            }
            drop(sender);
            assert_eq!(done.iter().count(), 2);
        };
        while !heavy.transactions.is_refused() {
            two(heavy);
        }
        assert_eq!(admitted(), 1);
        heavy.tend();
        assert_eq!(admitted(), 1);
        // Who waits for leave gets it as soon as there are threads again.
        let (first, mut second) =
            (HeavyPass::for_offload(keyspace), HeavyPass::for_offload(keyspace));
        assert!(first.is_admitted() && second.poll(Waker::noop()).is_pending());
        heavy.transactions.refuse_threads(false);
        heavy.tend();
        assert!(second.is_admitted());
        drop((first, second));
        assert_eq!(admitted(), HEAVY_TRANSACTIONS);
    }
}
