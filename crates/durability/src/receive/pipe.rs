//! Bytes of a primary's data on their way to the thread that loads them.
//!
//! Invariant: what comes out is what went in, in that order; where the rest will not come that is
//! an error, and never the end.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use persist::storage::File;

/// The pipe.
#[derive(Default)]
pub(super) struct Pipe {
    content: Mutex<PipeContent>,
    arrived: Condvar,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct PipeContent {
    chunks: VecDeque<Vec<u8>>,
    end: PipeEnd,
    /// Whether what was there has given way.
    has_replaced: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PipeEnd {
    /// More is to come.
    #[default]
    Open,
    /// All has come.
    Whole,
    /// The rest will not come, or nobody takes it.
    Broken,
}

impl Pipe {
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut content = self.lock();
        if content.end == PipeEnd::Open {
            self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            content.chunks.push_back(bytes.to_vec());
        }
        drop(content);
        self.arrived.notify_one();
    }

    /// Bytes that nobody has taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// All has come.
    pub(super) fn finish(&self) {
        self.end(PipeEnd::Whole);
    }

    /// The rest will not come, or is of no use.
    pub(super) fn cut(&self) {
        self.end(PipeEnd::Broken);
        let chunks = std::mem::take(&mut self.lock().chunks);
        self.bytes.store(0, Ordering::Relaxed);
        drop(chunks);
    }

    /// What was there gives way now, unless nobody wants the data any more. The world must be
    /// stopped.
    pub(super) fn begin_replacing(&self) -> bool {
        let mut content = self.lock();
        content.has_replaced |= content.end != PipeEnd::Broken;
        content.has_replaced
    }

    /// Whether what was there has given way.
    pub(super) fn has_replaced(&self) -> bool {
        self.lock().has_replaced
    }

    /// Whether the rest will not come.
    pub(super) fn is_cut(&self) -> bool {
        self.lock().end == PipeEnd::Broken
    }

    fn end(&self, end: PipeEnd) {
        let mut content = self.lock();
        if content.end != PipeEnd::Broken {
            content.end = end;
        }
        drop(content);
        self.arrived.notify_one();
    }

    /// What comes next, at the end nothing. An error says that the rest will not come.
    pub(super) fn take(&self) -> io::Result<Vec<u8>> {
        let mut content = self.lock();
        loop {
            match (content.end, content.chunks.pop_front()) {
                (PipeEnd::Broken, _) => {
                    let why = "the transfer was broken off";
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
                }
                (_, Some(chunk)) => {
                    self.bytes.fetch_sub(chunk.len(), Ordering::Relaxed);
                    return Ok(chunk);
                }
                (PipeEnd::Whole, None) => return Ok(Vec::new()),
                (PipeEnd::Open, None) => {}
            }
            content = self.arrived.wait(content).expect("no critical section here panics");
        }
    }

    fn lock(&self) -> MutexGuard<'_, PipeContent> {
        self.content.lock().expect("no critical section here panics")
    }
}

/// The pipe as a file that is read.
pub(super) struct PipeFile {
    pipe: Arc<Pipe>,
    chunk: Vec<u8>,
    /// How much of the chunk was read.
    at: usize,
}

impl PipeFile {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        Self { pipe, chunk: Vec::new(), at: 0 }
    }
}

impl File for PipeFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            (self.chunk, self.at) = (self.pipe.take()?, 0);
            if self.chunk.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.chunk.len() - self.at);
        buffer[..count].copy_from_slice(&self.chunk[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }

    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_direct(&mut self, _: u64, _: &mut [IoSlice<'_>]) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn begin_sync(&mut self, _: Range<u64>) {}

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn length(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
