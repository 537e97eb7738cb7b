//! The backlog as a reader of the journal.
//!
//! Invariant: the backlog ends where the journal does, as an offset; what is appended wakes the
//! links' thread once, however many links wait for it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use engine::journal::{DurabilityLevel, Journal, JournalReader, ReaderId, ReaderWaker};
use engine::limits::log_buffers;
use keyspace::{FeatureLevel, Lsn};
use replication::backlog::{Backlog, SIZE_MIN};

/// The stream to replicas.
pub(super) struct ReplicationStream {
    reader: ReaderId,
    shared: Arc<Mutex<StreamState>>,
}

/// What the journal and the links share.
pub(super) struct StreamState {
    pub(super) backlog: Backlog,
    /// Behind which offset nothing is that requires this level.
    required: [u64; FeatureLevel::ALL.len()],
    /// The links' thread, where it waits for more.
    sleeper: Option<Waker>,
}

/// The journal's end.
struct BacklogReader(Arc<Mutex<StreamState>>);

impl ReplicationStream {
    /// A stream that begins where the journal ends now, at this offset. The world must be stopped.
    pub(super) fn attach(journal: &Journal, offset: u64, size: u64) -> Self {
        let reader = journal.new_reader_id();
        let backlog = Backlog::new(offset, size);
        let required = [0; FeatureLevel::ALL.len()];
        let shared = Arc::new(Mutex::new(StreamState { backlog, required, sleeper: None }));
        journal.attach(reader, Box::new(BacklogReader(Arc::clone(&shared))), DurabilityLevel::None);
        Self { reader, shared }
    }

    /// Ends the stream.
    pub(super) fn detach(self, journal: &Journal) {
        journal.detach(self.reader);
        if let Some(waker) = self.state().sleeper.take() {
            waker.wake();
        }
    }

    /// Keeps the journal from growing meanwhile.
    pub(super) fn state(&self) -> MutexGuard<'_, StreamState> {
        locked(&self.shared)
    }

    /// The same, to be kept.
    pub(super) fn share(&self) -> Arc<Mutex<StreamState>> {
        Arc::clone(&self.shared)
    }
}

/// What is shared of a stream.
pub(super) fn locked(shared: &Mutex<StreamState>) -> MutexGuard<'_, StreamState> {
    shared.lock().expect("no critical section here panics")
}

impl StreamState {
    /// Goes on. What is kept for slow replicas is told as it grows: until then it counts as data,
    /// and keys would go for it.
    fn append(&mut self, bytes: &[u8]) {
        let before = self.backlog.end() / SIZE_MIN;
        self.backlog.append(bytes);
        if self.backlog.end() / SIZE_MIN != before {
            self.note_kept();
        }
    }

    /// The level that the stream behind an offset requires beyond what is met, if any.
    pub(super) fn unmet(&self, met: FeatureLevel, from: u64) -> Option<FeatureLevel> {
        let mut beyond = FeatureLevel::ALL.into_iter().filter(|feature_level| *feature_level > met);
        beyond.find(|feature_level| self.required[*feature_level as usize] > from)
    }

    /// Other data take the place of ours: the stream goes on from this offset.
    pub(super) fn restart(&mut self, offset: u64) {
        self.backlog.restart(offset);
        self.required = [0; FeatureLevel::ALL.len()];
    }

    /// Tells how much is kept for slow replicas alone.
    pub(super) fn note_kept(&self) {
        let kept = self.backlog.kept_for_places();
        log_buffers::note_kept_for_replicas(usize::try_from(kept).unwrap_or(usize::MAX));
    }

    /// Whether there is more than up to this offset; if not, the waker is woken when there is.
    pub(super) fn poll_beyond(&mut self, offset: u64, waker: &Waker) -> Poll<u64> {
        let end = self.backlog.end();
        if end != offset {
            return Poll::Ready(end);
        }
        self.sleeper = Some(waker.clone());
        Poll::Pending
    }
}

impl JournalReader for BacklogReader {
    fn record(&mut self, _: Lsn, bytes: &[u8], may_defer: bool) -> bool {
        let mut state = locked(&self.0);
        state.append(bytes);
        if may_defer {
            return state.sleeper.is_some();
        }
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        false
    }

    fn requires_level(&mut self, feature_level: FeatureLevel, len: usize) {
        let mut state = locked(&self.0);
        state.required[feature_level as usize] = state.backlog.end() + len as u64;
    }

    fn flush(&mut self) -> Option<ReaderWaker> {
        locked(&self.0).sleeper.take().map(ReaderWaker::Task)
    }
}
