//! The hand that writes chunks to the file.
//!
//! Invariant: behind a chunk that could not be written nothing is, and the walk is given up.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::Walk;
use persist::rdb::file::{Chunk, FileWriter};

use super::pace::Pace;
use super::{Snapshot, write_error};

/// Writes chunks, until one cannot be written.
pub(super) struct Scribe {
    snapshot: Arc<Snapshot>,
    walk: Arc<Walk>,
    writer: FileWriter,
    path: PathBuf,
    pace: Pace,
    result: Result<(), String>,
}

impl Scribe {
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        (writer, path): (FileWriter, &Path),
        walk: &Arc<Walk>,
    ) -> Self {
        let pace = Pace::new(snapshot.server);
        let (snapshot, walk, path) = (Arc::clone(snapshot), Arc::clone(walk), path.to_owned());
        Self { snapshot, walk, writer, path, pace, result: Ok(()) }
    }

    /// Writes a chunk that somebody still wants.
    pub(super) fn write(&mut self, chunk: &Chunk) {
        let (snapshot, walk) = (&self.snapshot, &self.walk);
        if self.result.is_err() || walk.is_given_up() {
            return;
        }
        self.pace.wait(chunk.bytes.len(), || walk.is_given_up());
        self.result = self.writer.push(chunk).map_err(write_error(&self.path));
        if self.result.is_err() {
            walk.give_up();
        }
        let now_us = snapshot.server.keyspace.clock().monotonic_us();
        snapshot.grew_at.store(now_us, Ordering::Relaxed);
        self.pace.tell(snapshot.progress(), self.writer.bytes_written());
    }

    /// The file, if all was written.
    pub(super) fn finish(self) -> Result<FileWriter, String> {
        self.result.map(|()| self.writer)
    }
}
