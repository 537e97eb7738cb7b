//! The reply bytes of one session that are not yet sent: plain bytes, with shared bytes pinned
//! between them so that big values are not copied.
//!
//! Invariants: bytes leave in the order they came; a position counts all plain bytes ever
//! appended, so that marks survive the sending of what lies before them; pins are sorted by
//! position and none is empty.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;

use base::SharedBytes;

/// Shared bytes below this are copied: a copy is cheaper than another piece to send.
const PIN_FLOOR: usize = 4 << 10;
/// A buffer larger than this is not kept when it is empty.
const KEPT_CAPACITY: usize = 16 << 10;
/// So many sent bytes are moved out once they are half of the buffer.
const COMPACTION_FLOOR: usize = 64 << 10;

/// Ordered bytes on their way out.
#[derive(Default)]
pub struct Output {
    plain: Vec<u8>,
    /// How much of `plain` is sent.
    sent: usize,
    /// The position of the first byte of `plain`.
    origin: u64,
    pins: VecDeque<Pin>,
    /// How much of the first pin is sent.
    pin_sent: usize,
    /// The bytes of all pins that are not sent.
    pinned: usize,
    /// The pins ever removed.
    pins_gone: u64,
    consumed: u64,
}

struct Pin {
    /// The position of the plain byte that follows.
    at: u64,
    length: usize,
    bytes: Box<dyn SharedBytes>,
}

/// A place in an output. Valid as long as nothing behind it was consumed or inserted before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    at: u64,
    pins: u64,
}

impl Output {
    /// An empty output, without a heap block.
    pub fn new() -> Output {
        Output::default()
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to send, pinned ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.plain.len() - self.sent + self.pinned
    }

    /// The bytes of memory held, pinned ones included.
    pub fn memory(&self) -> usize {
        self.plain.capacity() + self.pins.capacity() * size_of::<Pin>() + self.pinned
    }

    /// The bytes ever consumed.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The bytes ever appended and not taken back: where a watermark for all that is in here lies.
    pub fn appended(&self) -> u64 {
        self.consumed + self.len() as u64
    }

    /// The present end.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.origin + self.plain.len() as u64,
            pins: self.pins_gone + self.pins.len() as u64,
        }
    }

    /// Takes back all that came after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        let index = self.index_of(mark.at);
        debug_assert!(index >= self.sent, "what is sent cannot be taken back");
        self.plain.truncate(index.max(self.sent));
        while self.pins_gone + self.pins.len() as u64 > mark.pins {
            if let Some(pin) = self.pins.pop_back() {
                self.pinned -= pin.length;
            }
        }
    }

    /// The plain bytes written since `mark`, to look at what kind of reply it was.
    pub fn written_since(&self, mark: Mark) -> &[u8] {
        self.plain.get(self.index_of(mark.at)..).unwrap_or_default()
    }

    /// Drops all that is not sent.
    pub fn clear(&mut self) {
        self.pins_gone += self.pins.len() as u64;
        self.pins.clear();
        self.pin_sent = 0;
        self.pinned = 0;
        self.forget_plain();
    }

    /// The next contiguous bytes to send; empty only if there are none.
    #[inline]
    pub fn front(&self) -> &[u8] {
        let run = self.plain_run();
        match self.pins.front() {
            Some(pin) if run == 0 => pin.bytes.chunk_at(self.pin_sent),
            _ => &self.plain[self.sent..self.sent + run],
        }
    }

    /// Fills `slices` from the front with the bytes to send; how many were filled.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slot, run) in slices.iter_mut().zip(self.runs()) {
            *slot = IoSlice::new(run);
            filled += 1;
        }
        filled
    }

    /// Removes `count` bytes from the front, because they are sent.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "more was sent than there was");
        let mut rest = count.min(self.len());
        self.consumed += rest as u64;
        while rest > 0 {
            let step = self.plain_run().min(rest);
            self.sent += step;
            rest -= step;
            if rest > 0 {
                rest -= self.consume_pin(rest);
            }
        }
        if self.is_empty() {
            self.forget_plain();
        } else if self.sent >= COMPACTION_FLOOR && self.sent * 2 >= self.plain.len() {
            self.plain.drain(..self.sent);
            self.origin += self.sent as u64;
            self.sent = 0;
        }
    }

    /// Takes all that is not sent, leaving this output empty and without a heap block.
    pub fn take(&mut self) -> Output {
        std::mem::take(self)
    }

    /// Appends all that `other` holds.
    pub fn append(&mut self, mut other: Output) {
        let mut from = other.sent;
        let skipped = std::mem::take(&mut other.pin_sent);
        for (index, pin) in std::mem::take(&mut other.pins).into_iter().enumerate() {
            let at = (pin.at - other.origin) as usize;
            self.plain.extend_from_slice(&other.plain[from..at]);
            from = at;
            if index == 0 && skipped > 0 {
                let rest = Rest { bytes: pin.bytes, skipped };
                self.push_shared(Box::new(rest));
            } else {
                self.push_shared(pin.bytes);
            }
        }
        self.plain.extend_from_slice(&other.plain[from..]);
    }

    /// Frees a large buffer that is empty now.
    pub fn release_if_large(&mut self) {
        if self.is_empty() && self.memory() > KEPT_CAPACITY {
            self.plain = Vec::new();
            self.pins = VecDeque::new();
        }
    }

    /// The plain bytes at the end, to append to.
    #[inline]
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Appends shared bytes, pinned if that is worth it.
    pub(crate) fn push_shared(&mut self, bytes: Box<dyn SharedBytes>) {
        let length = bytes.len();
        if length >= PIN_FLOOR {
            let at = self.origin + self.plain.len() as u64;
            self.pins.push_back(Pin { at, length, bytes });
            self.pinned += length;
            return;
        }
        let mut offset = 0;
        while offset < length {
            let chunk = bytes.chunk_at(offset);
            self.plain.extend_from_slice(chunk);
            offset += chunk.len();
        }
    }

    /// Inserts plain bytes at `mark`, before all that came after it.
    pub(crate) fn insert(&mut self, mark: Mark, bytes: &[u8]) {
        let index = self.index_of(mark.at);
        self.plain.extend_from_slice(bytes);
        self.plain[index..].rotate_right(bytes.len());
        let first = (mark.pins - self.pins_gone) as usize;
        for pin in self.pins.iter_mut().skip(first) {
            pin.at += bytes.len() as u64;
        }
    }

    fn index_of(&self, position: u64) -> usize {
        (position - self.origin) as usize
    }

    /// How many plain bytes there are before the first pin.
    #[inline]
    fn plain_run(&self) -> usize {
        let end = self.pins.front().map_or(self.plain.len(), |pin| self.index_of(pin.at));
        end - self.sent
    }

    /// Removes up to `count` bytes from the first pin; how many.
    fn consume_pin(&mut self, count: usize) -> usize {
        let Some(pin) = self.pins.front() else { return count };
        let left = pin.length - self.pin_sent;
        let step = left.min(count);
        self.pinned -= step;
        self.pin_sent += step;
        if step == left {
            self.pins.pop_front();
            self.pins_gone += 1;
            self.pin_sent = 0;
        }
        step
    }

    fn forget_plain(&mut self) {
        self.origin += self.plain.len() as u64;
        self.plain.clear();
        self.sent = 0;
    }

    /// The contiguous runs to send, in order.
    fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = self.sent;
        let mut skip = self.pin_sent;
        let pinned = self.pins.iter().flat_map(move |pin| {
            let at = self.index_of(pin.at);
            let before = &self.plain[from..at];
            from = at;
            let chunks = Chunks { bytes: &*pin.bytes, offset: std::mem::take(&mut skip) };
            std::iter::once(before).chain(chunks)
        });
        let last = self.pins.back().map_or(self.sent, |pin| self.index_of(pin.at));
        pinned.chain(std::iter::once(&self.plain[last..])).filter(|run| !run.is_empty())
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Output")
            .field("len", &self.len())
            .field("pins", &self.pins.len())
            .finish_non_exhaustive()
    }
}

/// The chunks of shared bytes from an offset on.
struct Chunks<'a> {
    bytes: &'a dyn SharedBytes,
    offset: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let chunk = self.bytes.chunk_at(self.offset);
        self.offset += chunk.len();
        (!chunk.is_empty()).then_some(chunk)
    }
}

/// Shared bytes of which the first were sent already.
struct Rest {
    bytes: Box<dyn SharedBytes>,
    skipped: usize,
}

impl SharedBytes for Rest {
    fn len(&self) -> usize {
        self.bytes.len() - self.skipped
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        self.bytes.chunk_at(self.skipped + offset)
    }
}
