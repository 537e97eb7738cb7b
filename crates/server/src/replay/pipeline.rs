//! Runs the stretches of a log: some with the world, and others by a crew, under the locks of their
//! keys.
//!
//! Invariant: a stretch that is to be run together begins when all before it is done, and ends
//! before the next one begins; so whatever the number of threads, all is as if one had run it.

use base::UnixMillis;
use base::io_text::plain;
use keyspace::Tx;
use proto::Output;

use super::parallel::Crew;
use super::partitioner::{Stretch, Task};
use super::read_ahead::Stopped;
use super::replayer::Replayer;
use crate::server::Server;

/// After so many units it is told how far loading has come.
const REPORT_EACH: usize = 256;

/// Runs a file.
pub(crate) struct Runner {
    server: &'static Server,
    /// At which time all is run.
    now: UnixMillis,
    shares: usize,
    /// The bytes of the files before it.
    before: u64,
    /// Whether the world was given and is to be given back.
    is_held: bool,
    /// Has the world, between stretches that are run together.
    replayer: Option<Replayer>,
    crew: Option<Crew>,
}

impl Runner {
    /// With a transaction that has the world all is run on that, by one share.
    pub(crate) fn new(
        server: &'static Server,
        shares: usize,
        before: u64,
        held: Option<Tx>,
    ) -> Self {
        let now = server.keyspace.clock().now_ms();
        let is_held = held.is_some();
        let replayer = held.map(|tx| Replayer::with(server, tx, Output::new()));
        Self { server, now, shares, before, is_held, replayer, crew: None }
    }

    /// Runs the next stretches, which end there in the file.
    pub(crate) fn run(&mut self, stretches: Vec<Stretch>, end: u64) -> Result<(), Stopped> {
        for stretch in stretches {
            match stretch {
                Stretch::Together(tasks) => self.run_together(&tasks)?,
                Stretch::Apart(shares) => self.run_apart(shares)?,
            }
        }
        let Server { loading, keyspace, log, .. } = self.server;
        loading.advance_to(self.before + end, keyspace.clock(), log);
        Ok(())
    }

    /// Waits until all is done; the transaction that was given, if one was.
    pub(crate) fn finish(mut self) -> Result<Option<Tx>, Stopped> {
        self.crew.as_mut().map_or(Ok(()), Crew::wait)?;
        Ok(self.replayer.filter(|_| self.is_held).map(Replayer::into_transaction))
    }

    fn run_together(&mut self, tasks: &[Task]) -> Result<(), Stopped> {
        self.crew.as_mut().map_or(Ok(()), Crew::wait)?;
        let begin = || Replayer::begin(self.server, self.now);
        let replayer = self.replayer.get_or_insert_with(begin);
        for tasks in tasks.chunks(REPORT_EACH) {
            tasks.iter().try_for_each(|task| replayer.run(task))?;
            let end = tasks.last().map_or(0, |task| task.unit.end);
            let Server { loading, keyspace, log, .. } = self.server;
            loading.advance_to(self.before + end, keyspace.clock(), log);
        }
        Ok(())
    }

    fn run_apart(&mut self, shares: Vec<Vec<Task>>) -> Result<(), Stopped> {
        debug_assert!(!self.is_held, "one share is run together");
        self.replayer = None;
        let crew = match self.crew.take() {
            Some(crew) => crew,
            None => {
                let crew = Crew::hire(self.server, self.shares, self.now);
                crew.map_err(|error| Stopped::Alone(plain(&error)))?
            }
        };
        self.crew.insert(crew).hand_over(shares)
    }
}
