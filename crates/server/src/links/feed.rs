//! The bytes of one snapshot on their way to several replicas.
//!
//! What the slowest replica has not taken yet waits in memory, and beyond a bound in a file, so
//! that neither the snapshot nor those who write wait for a replica.
//!
//! Invariants: each replica gets every byte once, in order; the file's name goes with the feed.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use persist::storage::{File, OpenMode, Storage, read_full, write_all};

/// Bytes that wait in memory.
const MEMORY_MOST: usize = 16 << 20;

/// Bytes that are read from the file at a time.
const READ: usize = 256 << 10;

/// Makes the names of files different.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A snapshot on its way.
pub(super) struct SnapshotFeed {
    storage: &'static dyn Storage,
    path: PathBuf,
    state: Mutex<FeedState>,
}

#[derive(Default)]
struct FeedState {
    segments: VecDeque<Segment>,
    /// How many segments there were before these.
    passed: u64,
    /// Bytes of those in memory.
    in_memory: usize,
    /// What does not fit in memory.
    file: Option<Box<dyn File>>,
    readers: Vec<Arc<Mutex<ReaderPlace>>>,
    /// Whether no more comes.
    is_over: bool,
}

/// Some bytes of the snapshot.
enum Segment {
    Memory(Arc<[u8]>),
    /// So many bytes, behind those of the segments before in the file.
    File(usize),
}

/// How far a replica has it.
#[derive(Default)]
struct ReaderPlace {
    /// The segment that comes next.
    next: u64,
    waker: Option<Waker>,
}

/// What a replica gets of a snapshot.
pub(super) struct FeedReader {
    feed: Arc<SnapshotFeed>,
    place: Arc<Mutex<ReaderPlace>>,
    file: Option<Box<dyn File>>,
    /// Bytes of the present segment that are still in the file.
    left: usize,
}

/// What comes next.
pub(super) enum FeedStep {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// Nothing yet: the waker is woken when more is there.
    Wait,
    /// Nothing more.
    End,
}

impl SnapshotFeed {
    /// An empty one, which nobody reads yet.
    pub(super) fn new(storage: &'static dyn Storage) -> Arc<Self> {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("temp-{}-sync-{number}.rdb", std::process::id()));
        Arc::new(Self { storage, path, state: Mutex::default() })
    }

    /// One more who reads all of it. Called before the first byte comes.
    pub(super) fn reader(self: &Arc<Self>) -> FeedReader {
        let place = Arc::new(Mutex::new(ReaderPlace::default()));
        self.state().readers.push(Arc::clone(&place));
        FeedReader { feed: Arc::clone(self), place, file: None, left: 0 }
    }

    /// Adds bytes.
    pub(super) fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.trim();
        if state.in_memory + bytes.len() <= MEMORY_MOST {
            state.in_memory += bytes.len();
            state.segments.push_back(Segment::Memory(bytes.into()));
        } else {
            if state.file.is_none() {
                state.file = Some(self.storage.open(&self.path, OpenMode::Create)?);
            }
            let file = state.file.as_mut().expect("it is open");
            write_all(&mut **file, bytes)?;
            state.segments.push_back(Segment::File(bytes.len()));
        }
        state.wake();
        Ok(())
    }

    /// No more comes.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.wake();
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().expect("no critical section here panics")
    }
}

impl Drop for SnapshotFeed {
    fn drop(&mut self) {
        if self.state().file.is_some() {
            // A name that stays is removed at the next start.
            let _ = self.storage.remove(Path::new(&self.path));
        }
    }
}

impl FeedState {
    /// Drops what everybody has.
    fn trim(&mut self) {
        self.readers.retain(|place| Arc::strong_count(place) > 1);
        let nexts = self.readers.iter().map(|place| locked(place).next);
        let lowest = nexts.min().unwrap_or(u64::MAX);
        while self.passed < lowest
            && let Some(segment) = self.segments.pop_front()
        {
            self.passed += 1;
            if let Segment::Memory(bytes) = segment {
                self.in_memory -= bytes.len();
            }
        }
    }

    fn wake(&self) {
        for place in &self.readers {
            if let Some(waker) = locked(place).waker.take() {
                waker.wake();
            }
        }
    }
}

impl FeedReader {
    /// The next bytes, if they are there.
    pub(super) fn next(&mut self, waker: &Waker) -> io::Result<FeedStep> {
        if self.left > 0 {
            return self.read_file().map(FeedStep::Bytes);
        }
        let state = self.feed.state();
        let mut place = locked(&self.place);
        let index = usize::try_from(place.next - state.passed).expect("it is in memory");
        match state.segments.get(index) {
            Some(Segment::Memory(bytes)) => {
                place.next += 1;
                return Ok(FeedStep::Bytes(Arc::clone(bytes)));
            }
            Some(Segment::File(len)) => {
                place.next += 1;
                self.left = *len;
            }
            None if state.is_over => return Ok(FeedStep::End),
            None => {
                place.waker = Some(waker.clone());
                return Ok(FeedStep::Wait);
            }
        }
        drop((place, state));
        self.read_file().map(FeedStep::Bytes)
    }

    fn read_file(&mut self) -> io::Result<Arc<[u8]>> {
        if self.file.is_none() {
            self.file = Some(self.feed.storage.open(&self.feed.path, OpenMode::Read)?);
        }
        let file = self.file.as_mut().expect("it is open");
        let mut bytes = vec![0; self.left.min(READ)];
        if read_full(&mut **file, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= bytes.len();
        Ok(bytes.into())
    }
}

fn locked(place: &Mutex<ReaderPlace>) -> MutexGuard<'_, ReaderPlace> {
    place.lock().expect("no critical section here panics")
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use base::Random;
    use persist::storage::Disk;

    use super::{FeedReader, FeedStep, MEMORY_MOST, SnapshotFeed};

    /// Reads until nothing is there; whether all is over.
    fn read(reader: &mut FeedReader, into: &mut Vec<u8>, most: usize) -> bool {
        for _ in 0..most {
            match reader.next(Waker::noop()).unwrap() {
                FeedStep::Bytes(bytes) => into.extend_from_slice(&bytes),
                FeedStep::Wait => return false,
                FeedStep::End => return true,
            }
        }
        false
    }

    #[test]
    fn slow_and_fast_readers_get_every_byte_in_order() {
        let feed = SnapshotFeed::new(&Disk);
        let mut readers: Vec<_> = (0..3).map(|_| (feed.reader(), Vec::new())).collect();
        let gone = feed.reader();
        let mut random = Random::from_seed(7);
        let mut all = Vec::new();
        for round in 0..200 {
            let len = 1 + random.below(300_000) as usize;
            let bytes: Vec<u8> = (0..len).map(|at| (at ^ round) as u8).collect();
            all.extend_from_slice(&bytes);
            feed.push(&bytes).unwrap();
            assert!(feed.state().in_memory <= MEMORY_MOST);
            // The third one reads nothing yet.
            for (index, (reader, got)) in readers.iter_mut().take(2).enumerate() {
                let most = if index == 0 { usize::MAX } else { random.below(3) as usize };
                read(reader, got, most);
            }
        }
        assert!(feed.state().file.is_some(), "the slowest one does not fit in memory");
        drop(gone);
        feed.end();
        for (reader, got) in &mut readers {
            assert!(read(reader, got, usize::MAX));
            assert!(*got == all);
        }
        let path = feed.path.clone();
        drop((readers, feed));
        assert!(!path.exists());
    }
}
