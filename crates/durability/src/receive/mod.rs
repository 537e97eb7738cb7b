//! The data of a primary are taken in, as a replica does in a full sync.
//!
//! Bytes come as they arrive, without their frame, and go to a thread of their own: to a file,
//! which is loaded when it is whole, or to the loader at once (`repl-diskless-load`). What is there
//! is emptied at the latest moment that the mode allows.
//!
//! Invariants: what comes is hostile: nothing of it is served before all of it was loaded, and data
//! that are refused before anything was emptied leave all as it was. While other data come in their
//! place commands that need data are refused. The log stays as it was, and the next one begins
//! behind the load. No stream is applied meanwhile, as that is the same turn.

mod pipe;
mod receiver;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread;

use engine::runtime::lanes::STACK_BYTES;
use pipe::Pipe;
use receiver::Receiver;

use crate::durability::Durability;
pub use crate::loading::snapshot::SnapshotOrigin;

/// How data from a primary take the place of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// By way of the snapshot file: what is there goes when all has arrived.
    File,
    /// What is there goes first.
    Flush,
    /// What is there goes when all is loaded beside it.
    Swap {
        /// Whether what is there may be read meanwhile: the data are of the same history.
        serves: bool,
    },
}

/// What became of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiveReport {
    /// All is there.
    Loaded(SnapshotOrigin),
    /// The data are of no use, for this reason; what was there before still is.
    Refused(String),
    /// The data are of no use, for this reason, and what was there before is gone.
    Lost(String),
}

/// Takes data in. Where this is dropped before it has reported, the rest will not come: nothing is
/// reported, and what was loaded so far is emptied.
pub struct SnapshotReceiver {
    pipe: Arc<Pipe>,
}

impl SnapshotReceiver {
    /// Begins to take data in, of so many bytes if that is known. The server must be a replica, and
    /// the stream before be applied or given up. `report` is called once, by the receiver's thread,
    /// and must not wait.
    pub fn begin(
        server: &'static Durability,
        mode: ReceiveMode,
        length: Option<u64>,
        report: impl FnOnce(ReceiveReport) + Send + 'static,
    ) -> io::Result<Self> {
        let pipe = Arc::new(Pipe::default());
        let receiver = Receiver::new(server, Arc::clone(&pipe), length);
        let thread = thread::Builder::new().name("receiver".to_owned()).stack_size(STACK_BYTES);
        let turn = server.stream_turns.take();
        thread.spawn(move || {
            if let Some(received) = receiver.run(mode, turn) {
                report(received);
            }
        })?;
        Ok(Self { pipe })
    }

    /// What comes next. Never waits: the caller heeds `queued_bytes`.
    pub fn push(&self, bytes: &[u8]) {
        self.pipe.push(bytes);
    }

    /// Bytes that were pushed and not yet taken.
    pub fn queued_bytes(&self) -> usize {
        self.pipe.bytes()
    }

    /// The data are not wanted any more; whether what was there has given way.
    pub fn abort(self) -> bool {
        self.pipe.cut();
        self.pipe.has_replaced()
    }

    /// All has come.
    pub fn finish(&self) {
        self.pipe.finish();
    }
}

impl Drop for SnapshotReceiver {
    fn drop(&mut self) {
        self.pipe.cut();
    }
}
