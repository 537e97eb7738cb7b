//! The hand that writes chunks to the sink.
//!
//! Invariant: behind a chunk that could not be written nothing is, and the walk is given up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::Walk;
use persist::rdb::file::Chunk;

use super::throttle::Throttle;
use super::{SinkWriter, Snapshot, at_fault};

/// Writes chunks, until one cannot be written.
pub(super) struct SnapshotWriter {
    snapshot: Arc<Snapshot>,
    walk: Arc<Walk>,
    writer: SinkWriter,
    /// What is said in front of an error.
    fault: String,
    throttle: Throttle,
    result: Result<(), String>,
}

impl SnapshotWriter {
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        (writer, fault): (SinkWriter, &str),
        walk: &Arc<Walk>,
    ) -> Self {
        let throttle = Throttle::new(snapshot.server);
        let (snapshot, walk, fault) = (Arc::clone(snapshot), Arc::clone(walk), fault.to_owned());
        Self { snapshot, walk, writer, fault, throttle, result: Ok(()) }
    }

    /// Writes a chunk that somebody still wants.
    pub(super) fn write(&mut self, chunk: &Chunk) {
        let (snapshot, walk) = (&self.snapshot, &self.walk);
        if self.result.is_err() || walk.is_given_up() {
            return;
        }
        let length = chunk.bytes.len();
        self.throttle.wait(length, || walk.is_given_up());
        self.writer.sink().wait_for_room(length, &|| !walk.is_given_up());
        if walk.is_given_up() {
            return;
        }
        self.result = self.writer.push(chunk).map_err(at_fault(&self.fault));
        if self.result.is_err() {
            walk.abort();
        }
        let now_us = snapshot.server.keyspace.clock().monotonic_us();
        snapshot.grew_at.store(now_us, Ordering::Relaxed);
        self.throttle.report(snapshot.progress(), self.writer.bytes_written());
    }

    /// The writer, if all was written.
    pub(super) fn finish(self) -> Result<SinkWriter, String> {
        self.result.map(|()| self.writer)
    }
}
