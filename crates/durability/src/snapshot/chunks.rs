//! Chunks of the file, on their way from the threads that encode to the one that writes, or to
//! themselves.
//!
//! Invariant: chunks that go on with one value come in a row, whichever threads encode meanwhile;
//! no more wait than few for each thread, however large a value is.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use persist::rdb::file::Chunk;

use super::snapshot_writer::SnapshotWriter;

/// Chunks that wait to be written, for each thread that encodes.
const AHEAD: usize = 2;

/// A chunk, and those that have to follow it.
pub(super) struct ChunkRun {
    first: Chunk,
    rest: Option<Receiver<Chunk>>,
}

/// Where a thread that encodes passes its chunks on.
pub(super) enum ChunkOutput {
    /// To the thread that writes.
    Passage(ChunkSender),
    /// The walk writes them itself.
    Own(Rc<RefCell<SnapshotWriter>>),
}

/// The end of a passage that chunks are put in.
#[derive(Clone)]
pub(super) struct ChunkSender {
    deliveries: SyncSender<ChunkRun>,
    /// Where the rest of a value goes.
    rest: Option<SyncSender<Chunk>>,
}

/// For so many threads: where each puts its chunks in, and where they come out.
pub(super) fn chunk_channel(threads: usize) -> (ChunkSender, Receiver<ChunkRun>) {
    let (deliveries, receiver) = sync_channel(threads * AHEAD);
    (ChunkSender { deliveries, rest: None }, receiver)
}

/// The chunks in the order of the file, until no thread makes any more.
pub(super) fn in_order(deliveries: Receiver<ChunkRun>) -> impl Iterator<Item = Chunk> {
    let chunks =
        |ChunkRun { first, rest }| std::iter::once(first).chain(rest.into_iter().flatten());
    deliveries.into_iter().flat_map(chunks)
}

impl ChunkOutput {
    /// Passes a chunk on. A receiver that does not want it any more has given the walk up.
    pub(super) fn pass(&mut self, chunk: Chunk) {
        match self {
            Self::Passage(inlet) => inlet.pass(chunk),
            Self::Own(scribe) => scribe.borrow_mut().write(&chunk),
        }
    }
}

impl ChunkSender {
    fn pass(&mut self, chunk: Chunk) {
        let is_followed = chunk.is_followed;
        if let Some(rest) = self.rest.take() {
            let _ = rest.send(chunk);
            self.rest = is_followed.then_some(rest);
        } else if is_followed {
            let (sender, receiver) = sync_channel(AHEAD);
            let _ = self.deliveries.send(ChunkRun { first: chunk, rest: Some(receiver) });
            self.rest = Some(sender);
        } else {
            let _ = self.deliveries.send(ChunkRun { first: chunk, rest: None });
        }
    }
}
