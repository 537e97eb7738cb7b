//! The reply bytes of one session that are not yet sent: plain bytes, with shared bytes pinned
//! between them so that big values are not copied, and at its end perhaps a reply that is made
//! while it is sent.
//!
//! Invariants: bytes leave in the order they came; a position counts all plain bytes ever
//! appended, so that marks survive the sending of what lies before them; pins are sorted by
//! position and none is empty; nothing is appended behind a stream before it is done; of plain
//! bytes, and of pinned ones, there are never more than the ceiling and one piece, and whether
//! something was dropped for that is known.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use base::SharedBytes;

use crate::reply::{Reply, Resp};
use crate::source::{Source, Stream};

/// Shared bytes below this are copied: a copy is cheaper than another piece to send.
const PIN_FLOOR: usize = 4 << 10;
/// Plain bytes from so many on are not copied from one output to another.
const BLOCK_FLOOR: usize = 64 << 10;
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
    /// What comes behind all that is here.
    stream: Option<Box<Stream>>,
    ceiling: Ceiling,
    /// Where something was dropped, if it was.
    dropped: Option<Box<Dropped>>,
}

/// Bytes that were to be in an output.
struct Dropped {
    /// Where the first of them were to be.
    spot: Mark,
    /// The last piece.
    piece: Vec<u8>,
}

/// With so many bytes unsent the output takes no more.
#[derive(Clone, Copy)]
struct Ceiling(usize);

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling(usize::MAX)
    }
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

impl Mark {
    fn is_behind(self, other: Mark) -> bool {
        self.at > other.at || self.pins > other.pins
    }
}

impl Output {
    /// An empty output, without a heap block.
    pub fn new() -> Output {
        Output::default()
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.stream.is_none()
    }

    /// The bytes to send, pinned ones included; those that a stream will make are not.
    #[inline]
    pub fn len(&self) -> usize {
        self.plain.len() - self.sent + self.pinned
    }

    /// The bytes to send that were copied here.
    pub(crate) fn copied(&self) -> usize {
        self.plain.len() - self.sent
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

    /// With so many bytes unsent it takes no more: what comes then is dropped.
    #[inline]
    pub fn set_ceiling(&mut self, bytes: usize) {
        self.ceiling = Ceiling(bytes);
    }

    /// Whether something was dropped.
    #[inline]
    pub fn is_overfull(&self) -> bool {
        self.dropped.is_some()
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
        self.stream = None;
        let index = self.index_of(mark.at);
        debug_assert!(index >= self.sent, "what is sent cannot be taken back");
        self.plain.truncate(index.max(self.sent));
        while self.pins_gone + self.pins.len() as u64 > mark.pins {
            let Some(pin) = self.pins.pop_back() else { break };
            let sent = if self.pins.is_empty() { std::mem::take(&mut self.pin_sent) } else { 0 };
            self.pinned -= pin.length - sent;
        }
        // What was dropped before the mark is missing still.
        self.dropped.take_if(|dropped| dropped.spot.is_behind(mark));
    }

    /// The plain bytes written since `mark`, to look at what kind of reply it was.
    pub fn written_since(&self, mark: Mark) -> &[u8] {
        self.plain.get(self.index_of(mark.at)..).unwrap_or_default()
    }

    /// Drops all that is not sent, and has no ceiling any more.
    pub fn clear(&mut self) {
        self.stream = None;
        self.ceiling = Ceiling::default();
        self.dropped = None;
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

    /// Fills `slices` from the front with bytes to send, of at most so many; how many were filled.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> usize {
        let (mut filled, mut left) = (0, most);
        for (slot, run) in slices.iter_mut().zip(self.runs()) {
            *slot = IoSlice::new(&run[..run.len().min(left)]);
            filled += 1;
            left = left.saturating_sub(run.len());
            if left == 0 {
                break;
            }
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
        if self.sent == self.plain.len() && self.pinned == 0 {
            // What a stream makes next begins anew, too.
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
        let plain = std::mem::take(&mut other.plain);
        self.append_runs(other, plain.len(), |own, range| {
            own.plain.extend_from_slice(&plain[range]);
        });
    }

    /// Appends all that `other` holds, however much, without a copy: plain bytes from a length on
    /// lie in one block that `share` makes of them, and are pinned.
    pub fn adopt(&mut self, mut other: Output, share: impl FnOnce(Vec<u8>) -> Block) {
        if other.plain.len() < BLOCK_FLOOR {
            return self.append(other);
        }
        let plain = std::mem::take(&mut other.plain);
        let end = plain.len();
        let block = share(plain);
        self.append_runs(other, end, |own, range| {
            if !range.is_empty() {
                own.push_shared(Box::new(Part { block: Arc::clone(&block), range }));
            }
        });
    }

    /// Appends pins and a stream of `other`, and has `append` do so with the ranges of its plain
    /// bytes, of which there were so many.
    fn append_runs(
        &mut self,
        mut other: Output,
        end: usize,
        mut append: impl FnMut(&mut Output, Range<usize>),
    ) {
        let mut from = other.sent;
        let skipped = std::mem::take(&mut other.pin_sent);
        for (index, pin) in std::mem::take(&mut other.pins).into_iter().enumerate() {
            let at = (pin.at - other.origin) as usize;
            append(self, from..at);
            from = at;
            if index == 0 && skipped > 0 {
                let rest = Rest { bytes: pin.bytes, skipped };
                self.push_shared(Box::new(rest));
            } else {
                self.push_shared(pin.bytes);
            }
        }
        append(self, from..end);
        self.stream = other.stream.take();
        if other.is_overfull() && !self.is_overfull() {
            self.drop_next();
        }
    }

    /// Takes all that came after `mark`, of which nothing is sent.
    pub fn split_off(&mut self, mark: Mark) -> Output {
        let index = self.index_of(mark.at);
        debug_assert!(index >= self.sent, "what is sent cannot be taken back");
        let kept = mark.pins.saturating_sub(self.pins_gone) as usize;
        let pins = self.pins.split_off(kept.min(self.pins.len()));
        let pinned = pins.iter().map(|pin| pin.length).sum();
        self.pinned -= pinned;
        let (plain, origin, ceiling) = (self.plain.split_off(index), mark.at, self.ceiling);
        let stream = self.stream.take();
        let dropped = self.dropped.take_if(|dropped| dropped.spot.is_behind(mark));
        Output { plain, origin, pins, pinned, stream, ceiling, dropped, ..Output::default() }
    }

    /// Puts `bytes` in the place of what lies between positions as `appended` counts them, which
    /// rise and of which nothing is sent. For when something went wrong: pinned bytes are copied.
    pub fn replace(&mut self, places: impl Iterator<Item = Range<u64>>, bytes: &[u8]) {
        let old: Vec<u8> = self.runs().flatten().copied().collect();
        let (mut new, mut from) = (Vec::with_capacity(old.len()), 0);
        for place in places {
            let index = |position: u64| (position - self.consumed) as usize;
            new.extend_from_slice(&old[from..index(place.start)]);
            new.extend_from_slice(bytes);
            from = index(place.end);
        }
        new.extend_from_slice(&old[from..]);
        let (stream, ceiling, dropped) = (self.stream.take(), self.ceiling, self.dropped.take());
        self.clear();
        (self.plain, self.stream) = (new, stream);
        (self.ceiling, self.dropped) = (ceiling, dropped);
    }

    /// Forgets what of the reply was still to be made.
    pub fn discard_source(&mut self) {
        self.stream = None;
    }

    /// Whether the end of the reply is still to be made: then nothing may be appended.
    #[inline]
    pub fn is_streaming(&self) -> bool {
        self.stream.is_some()
    }

    /// About how many bytes are still to be made.
    #[inline]
    pub fn bytes_to_come(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| stream.source.bytes_left())
    }

    /// Has about so many bytes made that were still to be.
    pub fn pull(&mut self, bytes: usize) {
        let Some(mut stream) = self.stream.take() else { return };
        if stream.source.write(&mut Reply::new(self, stream.resp), bytes) {
            self.stream = Some(stream);
        }
    }

    /// Has everything made that was still to be, so that more can be appended.
    #[inline]
    pub fn finish(&mut self) {
        if self.is_streaming() {
            self.pull(usize::MAX);
        }
    }

    /// Ends the output with what comes from a source.
    pub(crate) fn push_source(&mut self, source: Box<dyn Source>, resp: Resp) {
        debug_assert!(self.stream.is_none(), "a stream is the end of an output");
        self.stream = Some(Box::new(Stream { source, resp }));
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
        debug_assert!(self.stream.is_none(), "a stream is the end of an output");
        if self.plain.len() >= self.ceiling.0 && self.is_full() {
            return self.drop_next();
        }
        &mut self.plain
    }

    /// Whether no more is taken.
    #[cold]
    fn is_full(&self) -> bool {
        self.len() >= self.ceiling.0
    }

    /// Where bytes go that are dropped.
    #[cold]
    fn drop_next(&mut self) -> &mut Vec<u8> {
        let spot = self.mark();
        let first = || Box::new(Dropped { spot, piece: Vec::new() });
        let piece = &mut self.dropped.get_or_insert_with(first).piece;
        piece.clear();
        piece
    }

    /// Appends shared bytes, pinned if that is worth it.
    pub(crate) fn push_shared(&mut self, bytes: Box<dyn SharedBytes>) {
        let length = bytes.len();
        if self.len() >= self.ceiling.0 {
            self.drop_next();
            return;
        }
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

    /// Appends shared bytes but for the first ones, pinned if that is worth it.
    pub(crate) fn push_rest(&mut self, bytes: &Arc<[u8]>, skipped: usize) {
        if bytes.len() - skipped < PIN_FLOOR {
            self.tail().extend_from_slice(&bytes[skipped..]);
        } else {
            self.push_shared(Box::new(Rest { bytes: Box::new(Arc::clone(bytes)), skipped }));
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
            .field("streaming", &self.is_streaming())
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

/// Shared bytes but for the first ones.
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

/// Bytes that several parts of an output share.
pub type Block = Arc<dyn SharedBytes>;

/// A part of a block.
struct Part {
    block: Block,
    range: Range<usize>,
}

impl SharedBytes for Part {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        let left = self.range.len().saturating_sub(offset);
        let chunk = self.block.chunk_at(self.range.start + offset);
        &chunk[..chunk.len().min(left)]
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use base::SharedBytes;
    use proptest::prelude::{Just, Strategy, prop, prop_oneof};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{BLOCK_FLOOR, COMPACTION_FLOOR, KEPT_CAPACITY, Mark, Output, PIN_FLOOR};
    use crate::reply::{Reply, Resp};
    use crate::source::Source;

    /// Shared bytes in chunks of 1000.
    struct Chunked(Vec<u8>);

    impl SharedBytes for Chunked {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn chunk_at(&self, offset: usize) -> &[u8] {
            let end = (offset / 1000 * 1000 + 1000).min(self.0.len());
            &self.0[offset.min(end)..end]
        }
    }

    fn shared(fill: u8, length: usize) -> Box<dyn SharedBytes> {
        Box::new(Chunked(vec![fill; length]))
    }

    /// Sends everything, `step` bytes at a time at most.
    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !output.is_empty() {
            let run = output.front();
            assert!(!run.is_empty());
            let count = run.len().min(step);
            bytes.extend_from_slice(&run[..count]);
            output.consume(count);
        }
        bytes
    }

    fn gather(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 1000];
        let filled = output.io_slices(&mut slices, usize::MAX);
        slices[..filled].iter().flat_map(|run| run.to_vec()).collect()
    }

    /// So many elements of five bytes each.
    struct Elements(u64);

    impl Source for Elements {
        fn write(&mut self, reply: &mut Reply<'_>, bytes: usize) -> bool {
            let before = reply.unsent();
            while self.0 > 0 && reply.unsent() - before < bytes {
                reply.integer(self.0 as i64 % 90 + 10);
                self.0 -= 1;
            }
            self.0 > 0
        }

        fn bytes_left(&self) -> u64 {
            self.0 * 5
        }
    }

    #[test]
    fn replies_are_replaced_where_they_stand() {
        let mut output = Output::new();
        Reply::new(&mut output, Resp::Two).simple("sent");
        output.consume(7);
        Reply::new(&mut output, Resp::Two).integer(1);
        let begun = output.appended();
        output.push_shared(shared(b'x', PIN_FLOOR));
        let middle = output.appended();
        Reply::new(&mut output, Resp::Two).integer(2);
        let last = output.appended();
        Reply::new(&mut output, Resp::Two).integer(3);
        let places = [begun..middle, last..output.appended()];
        output.replace(places.into_iter(), b"-ERR\r\n");
        assert_eq!(drain(&mut output, usize::MAX), b":1\r\n-ERR\r\n:2\r\n-ERR\r\n");
    }

    fn streaming(elements: u64) -> Output {
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, Resp::Two);
        reply.array(elements as usize);
        reply.stream(Box::new(Elements(elements)));
        output
    }

    #[test]
    fn a_stream_is_made_piece_by_piece_and_reads_as_one() {
        let mut whole = streaming(1000);
        assert_eq!((whole.len(), whole.bytes_to_come()), (7, 5000));
        whole.finish();
        assert!(!whole.is_streaming());
        let expected = drain(&mut whole, usize::MAX);
        for piece in [1, 64, 4096, 10_000] {
            let (mut output, mut bytes, mut most) = (streaming(1000), Vec::new(), 0);
            while !output.is_empty() {
                output.pull(piece);
                most = most.max(output.len());
                let count = output.front().len();
                bytes.extend_from_slice(output.front());
                output.consume(count);
            }
            assert!(bytes == expected && most < piece + 12, "{piece}: {most}");
        }
    }

    #[test]
    fn a_stream_moves_with_its_output_and_goes_with_its_mark() {
        let mut output = Output::new();
        Reply::new(&mut output, Resp::Two).ok();
        let mark = output.mark();
        output.append(streaming(3));
        assert!(output.is_streaming() && !output.is_empty());
        output.finish();
        assert_eq!(gather(&output), b"+OK\r\n*3\r\n:13\r\n:12\r\n:11\r\n");
        output.truncate(mark);
        output.append(streaming(3));
        output.truncate(mark);
        assert!(!output.is_streaming());
        assert_eq!(gather(&output), b"+OK\r\n");
        let mut other = streaming(1);
        other.clear();
        assert!(other.is_empty());
    }

    #[test]
    fn small_shared_bytes_are_copied_and_large_ones_pinned() {
        let mut output = Output::new();
        output.push_shared(shared(b'a', PIN_FLOOR - 1));
        assert_eq!(output.pins.len(), 0);
        output.push_shared(shared(b'b', PIN_FLOOR));
        assert_eq!(output.pins.len(), 1);
        assert_eq!(output.len(), 2 * PIN_FLOOR - 1);
        assert!(output.memory() >= output.len());
        output.clear();
        assert!(output.is_empty());
    }

    #[test]
    fn a_mark_survives_sending_and_compaction() {
        let mut output = Output::new();
        output.tail().extend_from_slice(&vec![b'x'; COMPACTION_FLOOR * 2]);
        output.push_shared(shared(b'p', 5000));
        let mark = output.mark();
        output.tail().extend_from_slice(b"later");
        output.push_shared(shared(b'q', 5000));
        output.consume(COMPACTION_FLOOR + 7);
        assert_eq!(output.origin, (COMPACTION_FLOOR + 7) as u64);
        assert_eq!(output.written_since(mark), b"later");
        output.truncate(mark);
        assert_eq!(output.mark(), mark);
        assert_eq!(output.len(), COMPACTION_FLOOR - 7 + 5000);
        output.consume(output.len());
        assert_eq!(output.appended(), (COMPACTION_FLOOR * 2 + 5000) as u64);
        assert_eq!(output.consumed(), output.appended());
    }

    #[test]
    fn a_long_reply_is_adopted_where_it_lies() {
        let (mut output, mut other) = (Output::new(), Output::new());
        Reply::new(&mut output, Resp::Two).ok();
        other.tail().extend_from_slice(&vec![b'x'; BLOCK_FLOOR]);
        let place = other.front().as_ptr();
        output.adopt(other, |plain| Arc::new(plain));
        let mut slices = [IoSlice::new(&[]); 3];
        assert_eq!(output.io_slices(&mut slices, 12), 2);
        assert_eq!((&*slices[0], &*slices[1]), (&b"+OK\r\n"[..], &b"xxxxxxx"[..]));
        output.consume(5);
        assert_eq!(output.front().as_ptr(), place);
        assert_eq!(output.len(), BLOCK_FLOOR);
    }

    #[test]
    fn large_buffers_are_released_when_empty() {
        let mut output = Output::new();
        output.tail().extend_from_slice(&[0; KEPT_CAPACITY + 1]);
        output.release_if_large();
        assert_eq!(output.len(), KEPT_CAPACITY + 1);
        output.consume(output.len());
        output.release_if_large();
        assert_eq!(output.memory(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Plain(usize),
        Shared(usize),
        Consume(usize),
        Undone(usize),
        Insert,
        Append { sent: usize },
        Adopt { length: usize, sent: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..9000_usize).prop_map(Step::Plain),
            (0..9000_usize).prop_map(Step::Shared),
            (0..20_000_usize).prop_map(Step::Consume),
            (0..9000_usize).prop_map(Step::Undone),
            Just(Step::Insert),
            (0..7000_usize).prop_map(|sent| Step::Append { sent }),
            (BLOCK_FLOOR - 100..BLOCK_FLOOR + 100, 0..7000_usize)
                .prop_map(|(length, sent)| Step::Adopt { length, sent }),
        ]
    }

    proptest! {
        /// Whatever is done to an output, it holds what a plain vector would.
        #[test]
        fn equals_a_plain_vector(
            steps in prop::collection::vec(step(), 0..30),
            pace in 1..3000_usize,
        ) {
            let mut output = Output::new();
            let mut model: Vec<u8> = Vec::new();
            for (index, step) in steps.into_iter().enumerate() {
                let fill = index as u8;
                match step {
                    Step::Plain(length) => {
                        output.tail().extend(std::iter::repeat_n(fill, length));
                        model.extend(std::iter::repeat_n(fill, length));
                    }
                    Step::Shared(length) => {
                        output.push_shared(shared(fill, length));
                        model.extend(std::iter::repeat_n(fill, length));
                    }
                    Step::Consume(count) => {
                        let count = count.min(model.len());
                        output.consume(count);
                        model.drain(..count);
                    }
                    Step::Undone(length) => {
                        let mark = output.mark();
                        output.tail().push(fill);
                        output.push_shared(shared(fill, length));
                        output.truncate(mark);
                    }
                    Step::Insert => {
                        let mark = output.mark();
                        output.push_shared(shared(fill, 5000));
                        output.insert(mark, b"header");
                        model.extend_from_slice(b"header");
                        model.extend([fill; 5000]);
                    }
                    Step::Append { sent } => {
                        let mut other = Output::new();
                        other.tail().extend_from_slice(b"other");
                        other.push_shared(shared(fill, 6000));
                        other.push_shared(shared(fill, 6000));
                        other.tail().extend_from_slice(b"end");
                        let mut bytes = gather(&other);
                        other.consume(sent);
                        model.extend(bytes.drain(sent..));
                        output.append(other.take());
                        prop_assert!(other.is_empty());
                    }
                    Step::Adopt { length, sent } => {
                        let mut other = Output::new();
                        other.tail().extend_from_slice(b"head");
                        other.push_shared(shared(fill, 6000));
                        other.tail().extend(std::iter::repeat_n(fill, length));
                        other.push_shared(shared(fill, 6000));
                        let mut bytes = gather(&other);
                        other.consume(sent);
                        model.extend(bytes.drain(sent..));
                        output.adopt(other, |plain| Arc::new(plain));
                    }
                }
                prop_assert_eq!(output.len(), model.len());
            }
            prop_assert_eq!(gather(&output), &model[..]);
            prop_assert_eq!(drain(&mut output, pace), model);
            prop_assert_eq!(output.plain.len(), 0);
        }
    }

    /// Whatever is appended, moved or taken back, an output that is whole is known from one that is
    /// not.
    #[test]
    fn what_is_beyond_the_ceiling_is_dropped_and_known() {
        const CEILING: usize = 100;
        let text = |output: &Output| output.runs().flatten().copied().collect::<Vec<u8>>();
        for piece in [1, 7, 99, 5000] {
            let mut output = Output::new();
            output.set_ceiling(CEILING);
            let before = output.mark();
            for number in 1..=200 {
                let mut reply = Reply::new(&mut output, Resp::Two);
                match number % 2 {
                    0 => reply.bulk(&vec![b'x'; piece]),
                    _ => reply.bulk_shared(shared(b'y', piece)),
                }
                assert!(output.len() < 2 * (CEILING + piece + 20), "{piece}: {}", output.len());
            }
            assert!(output.is_overfull());
            let mut whole = Output::new();
            Reply::new(&mut whole, Resp::Two).simple("OK");
            whole.append(output.split_off(before));
            assert!(whole.is_overfull() && !output.is_overfull());
            assert!(text(&whole).starts_with(b"+OK\r\n$"));
            whole.truncate(whole.mark());
            assert!(whole.is_overfull(), "what comes behind may be taken back");
            whole.truncate(Mark { at: 5, pins: 0 });
            assert!(!whole.is_overfull() && text(&whole) == b"+OK\r\n");
            Reply::new(&mut output, Resp::Two).simple("OK");
            assert_eq!(text(&output), b"+OK\r\n");
        }
    }
}
