//! Threads that run segments of a log side by side, each the units of one share.
//!
//! Invariants: the units of a share are run in the order in which they were handed over; whoever
//! waits for the threads sees all that it did.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;

use base::UnixMillis;
use engine::execute::Resolved;
use engine::runtime::lanes::LOADER_LANE;
use engine::runtime::lanes::STACK_BYTES;
use keyspace::{Acquisition, Location, Tx};
use proto::Output;

use super::partitioner::Task;
use super::read_ahead::Stopped;
use super::replayer::{Replayer, options};
use crate::durability::Durability;
use crate::loading::TurnstileGuard;

/// Segments that wait for a thread; more would only take memory.
const QUEUE_LEN: usize = 2;

/// Units whose keys are fetched from memory together.
const GROUP: usize = 16;

/// What is said where a thread ended that should not have; the log says why it did.
fn stopped() -> Stopped {
    Stopped::Alone("a thread that loads has ended".to_owned())
}

/// One thread for each share.
pub(super) struct ShareThreads {
    members: Vec<ShareThread>,
}

/// Who runs a share.
struct ShareThread {
    tasks: SyncSender<Vec<Task>>,
    reports: Receiver<Result<(), Stopped>>,
    /// Segments that were handed over and are not known to be done.
    underway: usize,
    /// Those that are done, beyond what all members have done.
    ahead: usize,
}

impl ShareThreads {
    /// For so many shares. All they run is run at this time. They are no heavy-work threads, which
    /// let all others go first: clients wait for what is loaded.
    pub(super) fn spawn(
        server: &'static Durability,
        shares: usize,
        now: UnixMillis,
    ) -> io::Result<Self> {
        let spawn = |index| {
            let (tasks, queue) = sync_channel(QUEUE_LEN);
            let (reporter, reports) = channel();
            let share = Share { server, lane: LOADER_LANE + 1 + index, now };
            let thread = Builder::new().name(format!("aof-share-{index}")).stack_size(STACK_BYTES);
            thread.spawn(move || run_all(&share, &queue, &reporter))?;
            Ok(ShareThread { tasks, reports, underway: 0, ahead: 0 })
        };
        let members: io::Result<_> = (0..shares).map(spawn).collect();
        Ok(Self { members: members? })
    }

    /// Has a segment run, behind those that were handed over before.
    pub(super) fn hand_over(&mut self, shares: Vec<Vec<Task>>) -> Result<(), Stopped> {
        for (member, tasks) in self.members.iter_mut().zip(shares) {
            member.tasks.send(tasks).map_err(|_| stopped())?;
            member.underway += 1;
        }
        Ok(())
    }

    /// How many more segments all have done since that was asked.
    pub(super) fn take_done(&mut self) -> Result<usize, Stopped> {
        for member in &mut self.members {
            while member.underway > 0
                && let Ok(report) = member.reports.try_recv()
            {
                member.note(report)?;
            }
        }
        let done = self.members.iter().map(|member| member.ahead).min().unwrap_or(0);
        self.members.iter_mut().for_each(|member| member.ahead -= done);
        Ok(done)
    }

    /// Waits until all is done.
    pub(super) fn wait(&mut self) -> Result<(), Stopped> {
        for member in &mut self.members {
            while member.underway > 0 {
                let report = member.reports.recv().unwrap_or_else(|_| Err(stopped()));
                member.note(report)?;
            }
        }
        Ok(())
    }
}

impl ShareThread {
    /// It has done a segment, or could not.
    fn note(&mut self, report: Result<(), Stopped>) -> Result<(), Stopped> {
        self.underway -= 1;
        self.ahead += 1;
        report
    }
}

fn run_all(share: &Share, queue: &Receiver<Vec<Task>>, reporter: &Sender<Result<(), Stopped>>) {
    let mut out = Output::new();
    for tasks in queue {
        let result = share.run(&tasks, &mut out);
        // Who does not listen any more has failed itself.
        if reporter.send(result).is_err() {
            return;
        }
    }
}

/// Where a thread runs the units of a share.
struct Share {
    server: &'static Durability,
    lane: usize,
    now: UnixMillis,
}

impl Share {
    fn run(&self, tasks: &[Task], out: &mut Output) -> Result<(), Stopped> {
        let keyspace = self.server.keyspace;
        for group in tasks.chunks(GROUP) {
            let _guard = TurnstileGuard::enter(keyspace, self.lane);
            let locate = |task: &Task| task.resolved.and_then(|Resolved { location, .. }| location);
            let locations: Vec<Location> = group.iter().filter_map(locate).collect();
            // Where the database changes within a group, some of this is in vain.
            keyspace.prefetch(self.lane, &locations, group[0].state.database);
            group.iter().try_for_each(|task| self.run_one(task, out))?;
        }
        Ok(())
    }

    /// Runs a unit under the locks of its keys, which are of this share: only those who look after
    /// partitions have one of them for a moment.
    fn run_one(&self, task: &Task, out: &mut Output) -> Result<(), Stopped> {
        let mut grant = Acquisition::of_partitions(self.server.keyspace, task.partitions.clone());
        while !grant.attempt() {
            std::thread::yield_now();
        }
        let tx = Tx::begin(grant, options(self.lane, self.now));
        let mut replayer = Replayer::with(self.server, tx, std::mem::take(out));
        let result = replayer.run(task);
        *out = replayer.into_output();
        result
    }
}
