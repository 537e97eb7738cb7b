//! The bytes of one snapshot on their way to several replicas.
//!
//! What the slowest replica has not taken yet waits in memory, and beyond a bound in a file, so
//! that neither the snapshot nor clients that write wait for a replica. Where no file can be
//! written the snapshot waits for the slowest, and one that takes nothing is cut off from the
//! others.
//!
//! Invariants: each replica gets every byte once, in order, or an error; the file's name goes with
//! the feed.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use base::time::Clock;
use persist::storage::{File, OpenMode, Storage, read_full, write_all};

/// Bytes that wait in memory.
const MEMORY_MOST: usize = 16 << 20;

/// Bytes that a replica takes at a time.
const TAKEN: usize = 256 << 10;

/// So long others wait for one that takes nothing. A snapshot that writers wait for is given up
/// when nothing is written for longer.
const PATIENCE_US: i64 = 3_000_000;

/// Between two looks whether the snapshot is wanted still.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Makes the names of files different.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A snapshot on its way.
pub(super) struct SnapshotFeed {
    storage: &'static dyn Storage,
    clock: Clock,
    state: Mutex<FeedState>,
    /// A replica has taken something, or is gone.
    taken: Condvar,
}

#[derive(Default)]
struct FeedState {
    segments: VecDeque<Segment>,
    /// How many segments there were before these.
    passed: u64,
    /// Bytes of those in memory.
    in_memory: usize,
    /// What does not fit in memory.
    overflow: Overflow,
    readers: Vec<Arc<Mutex<ReaderPlace>>>,
    /// Whether no more comes.
    is_over: bool,
}

/// The file for what does not fit in memory.
#[derive(Default)]
enum Overflow {
    /// None is needed yet.
    #[default]
    Unneeded,
    /// The file and where it is.
    File(Box<dyn File>, PathBuf),
    /// The file could not be written, at some point: what is in it can be read.
    Failed(Option<PathBuf>),
}

/// Some bytes of the snapshot.
enum Segment {
    Memory(Arc<[u8]>),
    /// So many bytes, behind those of the segments before in the file.
    File(usize),
}

/// How far a replica has it.
struct ReaderPlace {
    /// The segment that comes next.
    next: u64,
    /// When the place was moved on.
    moved_us: i64,
    /// Whether the others wait for it no more.
    is_cut: bool,
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
        let (clock, state, taken) = (Clock::system(), Mutex::default(), Condvar::new());
        Arc::new(Self { storage, clock, state, taken })
    }

    /// One more reader of all of it. Called before the first byte comes.
    pub(super) fn reader(self: &Arc<Self>) -> FeedReader {
        let place = ReaderPlace { next: 0, moved_us: 0, is_cut: false, waker: None };
        let place = Arc::new(Mutex::new(place));
        self.state().readers.push(Arc::clone(&place));
        FeedReader { feed: Arc::clone(self), place, file: None, left: 0 }
    }

    /// Adds bytes. An error says that from now on there is no file for what does not fit in memory;
    /// the bytes are there all the same.
    pub(super) fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.trim();
        let mut result = Ok(());
        if state.in_memory + bytes.len() > MEMORY_MOST && !state.has_no_file() {
            result = state.overflow.write(self.storage, bytes);
            if result.is_ok() {
                state.segments.push_back(Segment::File(bytes.len()));
                state.wake();
                return result;
            }
            state.overflow.fail();
        }
        state.in_memory += bytes.len();
        state.segments.extend(bytes.chunks(TAKEN).map(|part| Segment::Memory(part.into())));
        state.wake();
        result
    }

    /// Waits until so many bytes fit in memory, if no file takes them, as long as somebody wants
    /// them.
    pub(super) fn wait_for_room(&self, bytes: usize, is_wanted: &dyn Fn() -> bool) {
        let began_us = self.clock.monotonic_us();
        let mut state = self.state();
        loop {
            state.trim();
            let has_room = state.in_memory == 0 || state.in_memory + bytes <= MEMORY_MOST;
            if has_room || !state.has_no_file() || !is_wanted() {
                return;
            }
            state.cut_stuck(began_us, self.clock.monotonic_us());
            let waited = self.taken.wait_timeout(state, BETWEEN_LOOKS);
            state = waited.expect("no critical section here panics").0;
        }
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
        if let Some(path) = self.state().overflow.path() {
            // A name that stays is removed at the next start.
            let _ = self.storage.remove(path);
        }
    }
}

impl Overflow {
    /// Writes behind what is there. What a write that fails has left is behind all that is read.
    fn write(&mut self, storage: &dyn Storage, bytes: &[u8]) -> io::Result<()> {
        if matches!(self, Self::Unneeded) {
            let number = BEGUN.fetch_add(1, Ordering::Relaxed);
            let name = format!("temp-{}-sync-{number}.rdb", std::process::id());
            // The working directory may be another one when the file is read.
            let path = std::env::current_dir()?.join(name);
            *self = Self::File(storage.open(&path, OpenMode::Create)?, path);
        }
        match self {
            Self::File(file, _) => write_all(&mut **file, bytes),
            Self::Unneeded | Self::Failed(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Nothing more is written.
    fn fail(&mut self) {
        let path = self.path().map(Path::to_path_buf);
        *self = Self::Failed(path);
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Unneeded => None,
            Self::File(_, path) => Some(path),
            Self::Failed(path) => path.as_deref(),
        }
    }
}

impl FeedState {
    fn has_no_file(&self) -> bool {
        matches!(self.overflow, Overflow::Failed(_))
    }

    /// Of several, those that have taken nothing for long while the snapshot waits are waited for
    /// no more, unless all are so.
    fn cut_stuck(&mut self, began_us: i64, now_us: i64) {
        let is_stuck = |place: &Arc<Mutex<ReaderPlace>>| {
            let place = locked(place);
            place.next < self.passed + self.segments.len() as u64
                && now_us - place.moved_us.max(began_us) > PATIENCE_US
        };
        if self.readers.iter().all(is_stuck) {
            return;
        }
        for place in self.readers.iter().filter(|place| is_stuck(place)) {
            let mut place = locked(place);
            place.is_cut = true;
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    /// Drops what everybody has.
    fn trim(&mut self) {
        self.readers.retain(|place| Arc::strong_count(place) > 1 && !locked(place).is_cut);
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
        if place.is_cut {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let index = usize::try_from(place.next - state.passed).expect("it is in memory");
        match state.segments.get(index) {
            Some(Segment::Memory(bytes)) => {
                let bytes = Arc::clone(bytes);
                place.move_on(self.feed.clock.monotonic_us());
                self.feed.taken.notify_one();
                return Ok(FeedStep::Bytes(bytes));
            }
            Some(Segment::File(len)) => {
                self.left = *len;
                place.move_on(self.feed.clock.monotonic_us());
                self.feed.taken.notify_one();
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
            let path = self.feed.state().overflow.path().map(Path::to_path_buf);
            let path = path.expect("something was written to it");
            self.file = Some(self.feed.storage.open(&path, OpenMode::Read)?);
        }
        let file = self.file.as_mut().expect("it is open");
        let mut bytes = vec![0; self.left.min(TAKEN)];
        if read_full(&mut **file, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= bytes.len();
        Ok(bytes.into())
    }
}

impl ReaderPlace {
    fn move_on(&mut self, now_us: i64) {
        self.next += 1;
        self.moved_us = now_us;
    }
}

fn locked(place: &Mutex<ReaderPlace>) -> MutexGuard<'_, ReaderPlace> {
    place.lock().expect("no critical section here panics")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use base::Random;
    use persist::storage::Disk;

    use super::{FeedReader, FeedStep, MEMORY_MOST, Overflow, Path, SnapshotFeed};

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
        let path = feed.state().overflow.path().map(Path::to_path_buf);
        let path = path.expect("the slowest one does not fit in memory");
        drop(gone);
        feed.end();
        for (reader, got) in &mut readers {
            assert!(read(reader, got, usize::MAX));
            assert!(*got == all);
        }
        drop((readers, feed));
        assert!(!path.exists());
    }

    /// Whether the first of them is read to the end, beside the others which read nothing.
    fn is_read_beside(others: usize, first_reads: bool) -> Vec<bool> {
        let feed = SnapshotFeed::new(&Disk);
        feed.state().overflow = Overflow::Failed(None);
        let mut readers: Vec<_> = (0..=others).map(|_| feed.reader()).collect();
        let sender = {
            let feed = Arc::clone(&feed);
            std::thread::spawn(move || {
                for _ in 0..40 {
                    feed.wait_for_room(1 << 20, &|| true);
                    feed.push(&[7; 1 << 20]).unwrap();
                    assert!(feed.state().in_memory <= MEMORY_MOST);
                }
                feed.end();
            })
        };
        let mut ends = Vec::new();
        for (index, reader) in readers.iter_mut().enumerate() {
            let mut count = 0;
            ends.push(loop {
                match reader.next(Waker::noop()) {
                    Ok(FeedStep::Bytes(bytes)) => count += bytes.len(),
                    Ok(FeedStep::Wait) => std::thread::yield_now(),
                    Ok(FeedStep::End) => break count == 40 << 20,
                    Err(_) => break false,
                }
                if index == 0 && !first_reads {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
        }
        sender.join().unwrap();
        ends
    }

    #[test]
    fn without_a_file_the_snapshot_waits_and_one_that_takes_nothing_costs_nobody_the_sync() {
        assert_eq!(is_read_beside(0, true), [true]);
        assert_eq!(is_read_beside(0, false), [true], "a slow one is waited for");
        assert_eq!(is_read_beside(1, true), [true, false]);
    }
}
