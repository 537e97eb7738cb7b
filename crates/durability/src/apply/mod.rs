//! A primary's stream is applied, as a replica does it.
//!
//! Whole units come as bytes and are queued for a thread of their own. That thread takes what there
//! is, runs it by `crate::replay`, by several threads where it is much, and appends the bytes to
//! the journal as they came, so that the log, the backlog and our own replicas have the primary's.
//! What the commands themselves would tell the journal is nothing: the server is to be a replica
//! (`keyspace_settings::set_replica`).
//!
//! Invariants: bytes are appended when their units are applied, in the order of the stream, and a
//! stop of the world (a cut of a snapshot) sees both or neither: from before a unit is run until
//! its bytes are appended the thread has leave for heavy work, or the world. The offset that is
//! told rises, and all up to there is applied and appended.

mod applier;
mod queue;
mod units;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread;

use applier::Applier;
use engine::runtime::lanes::STACK_BYTES;
use proto::{Args, Limits, Progress, RequestParser};
use queue::PieceQueue;

use crate::durability::Durability;
use crate::loading;

/// What the applier tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyReport {
    /// All up to this offset is applied.
    Applied(u64),
    /// The stream cannot be applied, and why: a line for the log. Nothing more is applied, and the
    /// data stand nowhere in the stream, as the rest of it may be applied in parts.
    Failed(String),
    /// A command failed, or the disk did, and the configuration says that the process ends then: a
    /// line for the log.
    Panicked(String),
}

/// Is told how far it is.
type ReportTo = Box<dyn Fn(ApplyReport) + Send>;

/// Applies a stream. Where this is dropped, what has not begun is forgotten.
pub struct StreamApplier {
    queue: Arc<PieceQueue>,
}

/// Shows the command that these bytes begin with; `None` if there is none.
pub fn parse_command<T>(bytes: &[u8], show: impl FnOnce(Args<'_>) -> T) -> Option<T> {
    let mut parser = RequestParser::new();
    match parser.advance(bytes, &Limits::OF_PRIMARY) {
        Ok(Progress::Complete { .. }) => Some(show(parser.args(bytes))),
        _ => None,
    }
}

impl StreamApplier {
    /// Begins to apply the stream of the primary at this address, as MONITOR shows it. `report` is
    /// called by the applier's thread, and must not wait. Two never apply side by side: the second
    /// begins when the first one has ended.
    pub fn begin(
        server: &'static Durability,
        peer: String,
        report: impl Fn(ApplyReport) + Send + 'static,
    ) -> io::Result<Self> {
        Self::by(server, loading::threads(server), peer, Box::new(report))
    }

    /// The same by so many threads.
    fn by(
        server: &'static Durability,
        shares: usize,
        peer: String,
        report: ReportTo,
    ) -> io::Result<Self> {
        let queue = Arc::new(PieceQueue::default());
        let applier = Applier::new(server, shares, Arc::clone(&queue), peer, report);
        let thread = thread::Builder::new().name("applier".to_owned()).stack_size(STACK_BYTES);
        let turn = server.stream_turns.take();
        thread.spawn(move || applier.run(&turn))?;
        Ok(Self { queue })
    }

    /// Has whole units applied, before which this database is selected, and behind which the stream
    /// has this offset. Never waits: the caller heeds `queued_bytes`.
    pub fn push(&self, units: &[u8], end: u64, database: usize) {
        self.queue.push(units, end, database);
    }

    /// Bytes that were pushed and are not applied: none if nothing is under way.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }
}

impl Drop for StreamApplier {
    fn drop(&mut self) {
        self.queue.close();
    }
}
