//! Threads that run segments of a source side by side, each the units of one share.
//!
//! Invariants: the units of a share are run in the order in which they were handed over; a wait for
//! the threads ends when all is done. Of a primary's stream all locks of a segment are there before
//! its first unit is run, and each share keeps its own until its last one has: to clients a segment
//! is one moment.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;

use base::UnixMillis;
use engine::execute::Resolved;
use engine::runtime::lanes::{APPLIER_LANE, LOADER_LANE, STACK_BYTES};
use keyspace::{Acquisition, HeldLocks, Location, Tx};
use proto::Output;

use super::partitioner::{Task, share_of};
use super::read_ahead::ReplayStop;
use super::replayer::{Replayer, options};
use super::stream::{StreamSource, StreamThread};
use crate::durability::Durability;
use crate::loading::TurnstileGuard;

/// Segments that wait for a thread; more would only take memory.
const QUEUE_LEN: usize = 2;

/// Units whose keys are fetched from memory together.
const GROUP: usize = 16;

/// What is said where a thread ended that should not have; the log says why it did.
fn stopped() -> ReplayStop {
    ReplayStop::Alone("a thread that loads has ended".to_owned())
}

/// Whose units are run.
#[derive(Clone)]
pub(crate) enum Running {
    /// A log's, all at this time.
    Log(UnixMillis),
    /// A primary's.
    Stream(Arc<StreamSource>),
}

impl Running {
    /// The lane of the thread that hands units over.
    fn lane(&self) -> usize {
        match self {
            Self::Log(_) => LOADER_LANE,
            Self::Stream(_) => APPLIER_LANE,
        }
    }
}

/// One thread for each share.
pub(crate) struct ShareThreads {
    members: Vec<ShareThread>,
}

/// Units of a share.
struct ShareTasks {
    tasks: Vec<Task>,
    /// The bytes that they came in if they lie in any.
    bytes: Arc<Vec<u8>>,
    /// The locks of all their keys, if they are one moment.
    locks: Option<HeldLocks>,
}

/// A thread that runs shares.
struct ShareThread {
    tasks: SyncSender<ShareTasks>,
    reports: Receiver<Result<(), ReplayStop>>,
    /// Segments that were handed over and are not known to be done.
    underway: usize,
    /// Those that are done, beyond what all members have done.
    ahead: usize,
}

impl ShareThreads {
    /// For so many shares. Their threads are no heavy-work threads, which let all others go first:
    /// clients wait for what is loaded.
    pub(crate) fn spawn(
        server: &'static Durability,
        shares: usize,
        running: &Running,
    ) -> io::Result<Self> {
        let spawn = |index| {
            let (tasks, queue) = sync_channel(QUEUE_LEN);
            let (reporter, reports) = channel();
            let (lane, running) = (running.lane() + 1 + index, running.clone());
            let thread = Builder::new().name(format!("share-{index}")).stack_size(STACK_BYTES);
            thread.spawn(move || Share::new(server, lane, running).run_all(&queue, &reporter))?;
            Ok(ShareThread { tasks, reports, underway: 0, ahead: 0 })
        };
        let members: io::Result<_> = (0..shares).map(spawn).collect();
        Ok(Self { members: members? })
    }

    /// Has a segment run, behind those that were handed over before; of a stream, with the locks of
    /// all its keys, which nobody waits for.
    pub(crate) fn hand_over(
        &mut self,
        shares: Vec<Vec<Task>>,
        bytes: &Arc<Vec<u8>>,
        grant: Option<Acquisition>,
    ) -> Result<(), ReplayStop> {
        let count = self.members.len();
        let split = |grant| HeldLocks::split(grant, count, |it| share_of(it, count));
        let mut locks = grant.map(split).unwrap_or_default().into_iter();
        for (member, tasks) in self.members.iter_mut().zip(shares) {
            let tasks = ShareTasks { tasks, bytes: Arc::clone(bytes), locks: locks.next() };
            member.tasks.send(tasks).map_err(|_| stopped())?;
            member.underway += 1;
        }
        Ok(())
    }

    /// How many more segments all have done since that was asked.
    pub(super) fn take_done(&mut self) -> Result<usize, ReplayStop> {
        for member in &mut self.members {
            while member.underway > 0
                && let Ok(report) = member.reports.try_recv()
            {
                member.take_report(report)?;
            }
        }
        let done = self.members.iter().map(|member| member.ahead).min().unwrap_or(0);
        self.members.iter_mut().for_each(|member| member.ahead -= done);
        Ok(done)
    }

    /// Waits until all is done, also where some of it failed: then nobody is at work any more.
    pub(crate) fn wait(&mut self) -> Result<(), ReplayStop> {
        let mut result = Ok(());
        for member in &mut self.members {
            while member.underway > 0 {
                let report = member.reports.recv().unwrap_or_else(|_| Err(stopped()));
                result = result.and(member.take_report(report));
            }
        }
        result
    }
}

impl ShareThread {
    /// A thread has done a segment, or could not.
    fn take_report(&mut self, report: Result<(), ReplayStop>) -> Result<(), ReplayStop> {
        self.underway -= 1;
        self.ahead += 1;
        report
    }
}

/// Where a thread runs the units of a share.
struct Share {
    server: &'static Durability,
    lane: usize,
    mode: RunMode,
}

/// How it runs them.
enum RunMode {
    Log(UnixMillis),
    Stream(StreamThread),
}

impl Share {
    fn new(server: &'static Durability, lane: usize, running: Running) -> Self {
        let mode = match running {
            Running::Log(now) => RunMode::Log(now),
            Running::Stream(source) => RunMode::Stream(StreamThread::new(server, source, lane)),
        };
        Self { server, lane, mode }
    }

    fn run_all(&self, queue: &Receiver<ShareTasks>, reporter: &Sender<Result<(), ReplayStop>>) {
        let mut out = Output::new();
        for mut tasks in queue {
            let result = self.run(&mut tasks, &mut out);
            // The thread that waits for the report may take the bytes back.
            drop(tasks);
            // A thread that does not listen any more has failed itself.
            if reporter.send(result).is_err() {
                return;
            }
        }
    }

    fn run(&self, tasks: &mut ShareTasks, out: &mut Output) -> Result<(), ReplayStop> {
        let keyspace = self.server.keyspace;
        let ShareTasks { tasks, bytes, locks } = tasks;
        for group in tasks.chunks(GROUP) {
            // Where the thread that handed them over keeps the world from being stopped, this one
            // comes in at once.
            let _guard = TurnstileGuard::enter(keyspace, self.lane);
            let locate = |task: &Task| task.resolved.and_then(|Resolved { location, .. }| location);
            let locations: Vec<Location> = group.iter().filter_map(locate).collect();
            // Where the database changes within a group, some of this is in vain.
            keyspace.prefetch(self.lane, &locations, group[0].state.database);
            self.run_group(group, bytes, locks, out)?;
        }
        Ok(())
    }

    fn run_group(
        &self,
        group: &[Task],
        bytes: &[u8],
        locks: &mut Option<HeldLocks>,
        out: &mut Output,
    ) -> Result<(), ReplayStop> {
        match &self.mode {
            RunMode::Log(now) => group.iter().try_for_each(|task| self.run_one(task, *now, out)),
            RunMode::Stream(stream) => {
                let locks = locks.as_mut().expect("a segment of a stream has its locks");
                stream.begin_batch();
                let ran = group.iter().try_for_each(|task| {
                    Replayer::apply_beside(self.server, stream, (task, bytes), locks, out)
                });
                stream.end_batch();
                ran
            }
        }
    }

    /// Runs a unit of a log under the locks of its keys, which are of this share: only threads that
    /// look after partitions have one of them for a moment.
    fn run_one(&self, task: &Task, now: UnixMillis, out: &mut Output) -> Result<(), ReplayStop> {
        let mut grant = Acquisition::of_partitions(self.server.keyspace, task.partitions.clone());
        while !grant.attempt() {
            std::thread::yield_now();
        }
        let tx = Tx::begin(grant, options(self.lane, now));
        let mut replayer = Replayer::with(self.server, tx, std::mem::take(out));
        let result = replayer.run(task, &[]);
        *out = replayer.into_output();
        result
    }
}
