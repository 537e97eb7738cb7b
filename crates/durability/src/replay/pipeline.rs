//! Runs the segments of a source: some with the world, and others by several threads, under the
//! locks of their keys.
//!
//! Invariants: a segment that is serial begins when all before it is done, and ends before the next
//! one begins; so whatever the number of threads, all is as if one had run it. Up to the position
//! that is told all is applied.

use std::collections::VecDeque;
use std::sync::Arc;

use base::UnixMillis;
use base::io_error_text::strerror;
use keyspace::Tx;
use proto::Output;

use super::parallel::{Running, ShareThreads};
use super::partitioner::{Segment, Task};
use super::read_ahead::ReplayStop;
use super::replayer::Replayer;
use crate::durability::Durability;

/// After so many units it is told how far it has come.
const REPORT_EACH: usize = 256;

/// Is told up to which position all is applied, every now and then.
type ReportPosition<'r> = Box<dyn Fn(u64) + 'r>;

/// Runs a source.
pub(crate) struct Pipeline<'r> {
    server: &'static Durability,
    /// At which time all is run.
    now: UnixMillis,
    shares: usize,
    report: ReportPosition<'r>,
    /// Where the segments end that several threads run now.
    in_flight: VecDeque<u64>,
    /// Whether the world was given and is to be given back.
    is_held: bool,
    /// Has the world, between segments that are serial.
    replayer: Option<Replayer<'static>>,
    threads: Option<ShareThreads>,
}

impl<'r> Pipeline<'r> {
    /// With a transaction that has the world all is run on that, by one share.
    pub(crate) fn new(
        server: &'static Durability,
        shares: usize,
        held: Option<Tx>,
        report: impl Fn(u64) + 'r,
    ) -> Self {
        let now = server.keyspace.clock().now_ms();
        let is_held = held.is_some();
        let replayer = held.map(|tx| Replayer::with(server, tx, Output::new()));
        Self {
            server,
            now,
            shares,
            report: Box::new(report),
            in_flight: VecDeque::new(),
            is_held,
            replayer,
            threads: None,
        }
    }

    /// Runs the next segments, behind which this position is.
    pub(crate) fn run(&mut self, segments: Vec<Segment>, end: u64) -> Result<(), ReplayStop> {
        for segment in segments {
            match segment {
                Segment::Serial(tasks) => self.run_serial(&tasks)?,
                Segment::Parallel(shares) => self.run_parallel(shares)?,
            }
        }
        // What is between the last segment and there leaves nothing to run.
        match self.in_flight.back_mut() {
            Some(last) => *last = end,
            None => (self.report)(end),
        }
        Ok(())
    }

    /// Waits until all is applied, and says so.
    pub(crate) fn wait_applied(&mut self) -> Result<(), ReplayStop> {
        self.threads.as_mut().map_or(Ok(()), ShareThreads::wait)?;
        self.note_done()
    }

    /// The same at the end; the transaction that was given, if one was.
    pub(crate) fn finish(mut self) -> Result<Option<Tx>, ReplayStop> {
        self.wait_applied()?;
        Ok(self.replayer.filter(|_| self.is_held).map(Replayer::into_transaction))
    }

    fn run_serial(&mut self, tasks: &[Task]) -> Result<(), ReplayStop> {
        self.wait_applied()?;
        for tasks in tasks.chunks(REPORT_EACH) {
            let begin = || Replayer::begin(self.server, self.now);
            let replayer = self.replayer.get_or_insert_with(begin);
            tasks.iter().try_for_each(|task| replayer.run(task, &[]))?;
            (self.report)(end_of(tasks));
        }
        Ok(())
    }

    fn run_parallel(&mut self, shares: Vec<Vec<Task>>) -> Result<(), ReplayStop> {
        debug_assert!(!self.is_held, "one share is serial");
        self.replayer = None;
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => {
                let threads =
                    ShareThreads::spawn(self.server, self.shares, &Running::Log(self.now));
                threads.map_err(|error| ReplayStop::Alone(strerror(&error)))?
            }
        };
        let end = shares.iter().map(|tasks| end_of(tasks)).max().unwrap_or(0);
        self.threads.insert(threads).hand_over(shares, &Arc::default(), None)?;
        self.in_flight.push_back(end);
        self.note_done()
    }

    /// Looks what the threads have done.
    fn note_done(&mut self) -> Result<(), ReplayStop> {
        let done = self.threads.as_mut().map_or(Ok(0), ShareThreads::take_done)?;
        if let Some(end) = self.in_flight.drain(..done).next_back() {
            (self.report)(end);
        }
        Ok(())
    }
}

fn end_of(tasks: &[Task]) -> u64 {
    tasks.last().map_or(0, |task| task.end)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use persist::aof::Unit;

    use super::Pipeline;
    use crate::replay::partitioner::Partitioner;
    use crate::testing::durability;

    /// As a primary sends them: few at a time, and each time it is asked how far all is.
    #[test]
    fn what_comes_little_by_little_is_applied_up_to_the_position_that_is_told() {
        let server = durability();
        let (mut partitioner, mut end) = (Partitioner::new(server, 2), 0);
        let told = RefCell::new(0);
        let mut pipeline = Pipeline::new(server, 2, None, |position| {
            assert!(told.replace(position) <= position, "positions rise");
        });
        for count in [1, 3, 64, 2, 64] {
            let mut feed = |line: &str| {
                let commands = vec![line.split(' ').map(str::as_bytes).collect()];
                let offset = end;
                end += line.len() as u64;
                partitioner.add(Unit { commands, offset, end, time: None });
            };
            (0..count).for_each(|number| feed(&format!("INCR key:{}", number % 32)));
            // This leaves nothing to run, and counts all the same.
            feed("SELECT 0");
            pipeline.run(partitioner.take(), end).unwrap();
            assert!(*told.borrow() <= end);
            pipeline.wait_applied().unwrap();
            assert_eq!(*told.borrow(), end);
        }
        assert!(pipeline.finish().unwrap().is_none());
        assert_eq!(server.keyspace.len(0), 32);
    }
}
