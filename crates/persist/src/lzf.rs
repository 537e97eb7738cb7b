//! LZF: the compression of strings in the RDB format.
//!
//! ```text
//!  000lllll, then l + 1 bytes           these bytes
//!  lllooooo oooooooo                    l + 2 bytes, copied from o + 1 bytes back; l is 1..=6
//!  111ooooo llllllll oooooooo           l + 9 bytes, copied from o + 1 bytes back
//! ```
//!
//! Invariants: decompression takes memory only as bytes come out, but for a little at first, and 3
//! bytes in give at most 264 out; compression gives only what is at least four bytes shorter, and
//! the same for the same, whatever was compressed before.

/// Literal bytes that one control byte announces.
const LITERALS_MAX: usize = 32;
/// How far back a copy can reach.
const DISTANCE_MAX: usize = 1 << 13;
/// The shortest copy that saves anything.
const COPY_MIN: usize = 3;
/// The longest copy.
const COPY_MAX: usize = LONG_COPY + u8::MAX as usize;
/// Bytes that one packed byte gives at most.
const YIELD_MAX: usize = COPY_MAX / 3;
/// Bytes that are taken before any came out.
const TRUSTED_MAX: usize = 64 * 1024;
/// From this length on a copy takes a byte more.
const LONG_COPY: usize = 9;

/// What is packed is shorter by at least so much.
const SAVED_MIN: usize = 4;

/// Bytes that are put together where they lie in pieces.
const WINDOW: usize = 64 * 1024;

/// After so many bytes without a copy one more is passed over at each step: what does not shrink
/// shall not take long.
const IMPATIENCE: usize = 64;

/// Restores `length` bytes; `None` if the packed bytes give more, fewer, or are no LZF.
#[must_use]
pub fn decompress(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // What the packed bytes can give at most, and no more than a little of that on trust.
    let trusted = length.min(packed.len().saturating_mul(YIELD_MAX)).min(TRUSTED_MAX);
    let mut unpacker = Decompressor { out: Vec::with_capacity(trusted), room: length };
    let taken = unpacker.feed(packed)?;
    (taken == packed.len() && unpacker.room == 0).then_some(unpacker.out)
}

/// Unpacks bytes as they come.
#[derive(Debug)]
pub(crate) struct Decompressor {
    /// What came out and was not taken away.
    out: Vec<u8>,
    /// How many bytes are to come out.
    room: usize,
}

impl Decompressor {
    /// Of so many bytes.
    pub(crate) fn new(length: usize) -> Self {
        Self { out: Vec::new(), room: length }
    }

    /// Whether all came out.
    pub(crate) fn is_done(&self) -> bool {
        self.room == 0
    }

    /// Takes what is whole of packed bytes, and tells how many that were; `None` if they are no LZF
    /// or give too much. As often as it is told, what came out is to be taken away.
    pub(crate) fn feed(&mut self, packed: &[u8]) -> Option<usize> {
        let mut rest = packed;
        while let Some(behind) = self.step(rest)? {
            rest = behind;
        }
        Some(packed.len() - rest.len())
    }

    /// What came out, but for the last bytes, which copies may reach back to; all of it at the end.
    pub(crate) fn take_out(&mut self, mut put: impl FnMut(&[u8])) {
        let keep = if self.is_done() { 0 } else { DISTANCE_MAX };
        let count = self.out.len().saturating_sub(keep);
        put(&self.out[..count]);
        self.out.drain(..count);
    }

    /// Unpacks a run or a copy; what follows it, or nothing if it is not whole.
    fn step<'a>(&mut self, packed: &'a [u8]) -> Option<Option<&'a [u8]>> {
        let Some((&control, rest)) = packed.split_first() else { return Some(None) };
        let (high, low) = (usize::from(control >> 5), usize::from(control & 0x1f));
        if high == 0 {
            let count = self.check(low + 1)?;
            let Some((literals, rest)) = rest.split_at_checked(count) else { return Some(None) };
            self.out.try_reserve(count).ok()?;
            self.out.extend_from_slice(literals);
            self.room -= count;
            return Some(Some(rest));
        }
        let (extra, offset, rest) = match (high, rest) {
            (7, [extra, offset, rest @ ..]) => (usize::from(*extra), *offset, rest),
            (0..7, [offset, rest @ ..]) => (0, *offset, rest),
            _ => return Some(None),
        };
        let distance = (low << 8 | usize::from(offset)) + 1;
        let from = self.out.len().checked_sub(distance)?;
        let count = self.check(high + 2 + extra)?;
        self.out.try_reserve(count).ok()?;
        repeat(&mut self.out, from, count);
        self.room -= count;
        Some(Some(rest))
    }

    /// A count that has to fit the room.
    fn check(&self, count: usize) -> Option<usize> {
        (count <= self.room).then_some(count)
    }
}

/// Packs one string after the other.
#[derive(Debug, Default)]
pub struct Compressor {
    seen: Seen,
    out: Out,
    /// Where bytes that lie in pieces are put together.
    window: Vec<u8>,
}

impl Compressor {
    /// Packs bytes; `None` if that does not save four of them.
    pub fn pack(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        let mut progress = self.begin(bytes.len())?;
        progress.go_over(bytes, true, &mut self.seen, &mut self.out);
        self.end(bytes.len(), &bytes[progress.literals_from..])
    }

    /// The same of so many bytes that lie in pieces: what is looked at together is a window, which
    /// moves over them.
    pub fn pack_pieces<'b>(
        &mut self,
        len: usize,
        mut pieces: impl Iterator<Item = &'b [u8]>,
    ) -> Option<&[u8]> {
        let mut progress = self.begin(len)?;
        let mut window = std::mem::take(&mut self.window);
        window.clear();
        let mut is_last = false;
        while !is_last {
            while window.len() < WINDOW && !is_last {
                match pieces.next() {
                    Some(piece) => window.extend_from_slice(piece),
                    None => is_last = true,
                }
            }
            progress.go_over(&window, is_last, &mut self.seen, &mut self.out);
            if !is_last {
                progress.move_on(&mut window, &mut self.out);
            }
        }
        let is_shorter = self.end(len, &window[progress.literals_from..]).is_some();
        self.window = window;
        is_shorter.then(|| self.out.bytes())
    }

    fn begin(&mut self, len: usize) -> Option<Progress> {
        u32::try_from(len).ok().filter(|len| *len >= SAVED_MIN as u32)?;
        self.seen.begin(len);
        self.out.len = 0;
        Some(Progress::default())
    }

    /// Ends a string with its last literals.
    fn end(&mut self, len: usize, literals: &[u8]) -> Option<&[u8]> {
        let limit = len - SAVED_MIN;
        // What is hardly any shorter need not be copied first.
        if self.out.len + literals.len() > limit {
            return None;
        }
        self.out.push_literals(literals, literals.len());
        (self.out.len <= limit).then(|| self.out.bytes())
    }
}

/// How far a string is packed; places count from the start of the window, but for two.
#[derive(Debug, Default)]
struct Progress {
    at: usize,
    /// What of it is to be told as it is.
    literals_from: usize,
    /// Where the window starts, and where the latest copy ended, counted from the string's start.
    start: usize,
    copied_to: usize,
}

impl Progress {
    /// Packs what is in the window, but for the last bytes of one that is not the last: a copy
    /// from there on may be longer.
    fn go_over(&mut self, window: &[u8], is_last: bool, seen: &mut Seen, out: &mut Out) {
        let ahead = if is_last { COPY_MIN } else { COPY_MAX };
        while let Some(head) = window.get(self.at..).and_then(<[u8]>::first_chunk::<COPY_MIN>)
            && self.at + ahead <= window.len()
        {
            let (at, place) = (self.at, self.start + self.at);
            let earlier = seen.replace(*head, place).filter(|it| place - it <= DISTANCE_MAX);
            // So far back the window always reaches.
            let earlier = earlier.map(|earlier| earlier - self.start);
            let Some(earlier) = earlier.filter(|it| window[*it..it + COPY_MIN] == *head) else {
                self.at += 1 + (place - self.copied_to) / IMPATIENCE;
                continue;
            };
            let count = common(&window[earlier..], &window[at..]);
            out.push_literals(&window[self.literals_from..], at - self.literals_from);
            out.push_copy(at - earlier, count);
            self.at += count;
            self.literals_from = self.at;
            self.copied_to = self.start + self.at;
        }
    }

    /// Takes out of the window what nothing more is asked of.
    fn move_on(&mut self, window: &mut Vec<u8>, out: &mut Out) {
        let at = self.at.min(window.len());
        // Whole runs: the same as if all of them were told at once.
        let literals = (at - self.literals_from) / LITERALS_MAX * LITERALS_MAX;
        out.push_literals(&window[self.literals_from..], literals);
        self.literals_from += literals;
        let gone = at.saturating_sub(DISTANCE_MAX).min(self.literals_from);
        window.drain(..gone);
        self.at -= gone;
        self.literals_from -= gone;
        self.start += gone;
    }
}

/// What was packed, with room behind it.
#[derive(Debug, Default)]
struct Out {
    room: Vec<u8>,
    len: usize,
}

impl Out {
    fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Room for a copy, or for a run with what it says of itself.
    #[inline]
    fn make_room(&mut self) {
        let needed = self.len + LITERALS_MAX + 1;
        if needed > self.room.len() {
            self.room.resize(needed.max(2 * self.room.len()).next_multiple_of(1024), 0);
        }
    }

    /// Appends the first bytes of these as they are.
    #[inline]
    fn push_literals(&mut self, mut from: &[u8], mut count: usize) {
        while count > 0 {
            self.make_room();
            let now = count.min(LITERALS_MAX);
            self.room[self.len] = now as u8 - 1;
            let target = &mut self.room[self.len + 1..][..LITERALS_MAX];
            match from.first_chunk::<LITERALS_MAX>() {
                // As many at a time as there is room for: what is too much is written over.
                Some(block) => target.copy_from_slice(block),
                None => target[..now].copy_from_slice(&from[..now]),
            }
            self.len += 1 + now;
            from = &from[now..];
            count -= now;
        }
    }

    #[inline]
    fn push_copy(&mut self, distance: usize, count: usize) {
        self.make_room();
        let [high, low] = (distance as u16 - 1).to_be_bytes();
        let (copy, len) = match count.checked_sub(LONG_COPY) {
            None => ([(count as u8 - 2) << 5 | high, low, 0], 2),
            Some(extra) => ([7 << 5 | high, extra as u8, low], 3),
        };
        self.room[self.len..][..3].copy_from_slice(&copy);
        self.len += len;
    }
}

/// Appends `count` bytes of the output's own, which may run into those just appended.
fn repeat(out: &mut Vec<u8>, from: usize, mut count: usize) {
    while count > 0 {
        // What lies from `from` on repeats itself, so it may be copied as far as it goes.
        let now = count.min(out.len() - from);
        out.extend_from_within(from..from + now);
        count -= now;
    }
}

/// Where the three bytes that hash alike were seen last.
#[derive(Debug, Default)]
struct Seen {
    /// Positions counted through all strings, the first of a string being its `base`; what is
    /// below that was seen in an earlier one.
    positions: Vec<u32>,
    base: u32,
    /// Bytes of the string.
    len: u32,
    shift: u32,
}

impl Seen {
    /// Forgets everything and takes as much of the table as fits the input, so that short strings
    /// stay in little memory.
    fn begin(&mut self, input: usize) {
        let slots = input.next_power_of_two().clamp(1 << 10, 1 << 14);
        self.shift = u32::BITS - slots.trailing_zeros();
        // Position 0 is nobody's, so that a new table has seen nothing.
        let base = self.base.max(1).checked_add(self.len);
        self.len = input as u32;
        self.base = base.filter(|base| base.checked_add(self.len).is_some()).unwrap_or_else(|| {
            self.positions.clear();
            1
        });
        if self.positions.len() < slots {
            self.positions.resize(slots, 0);
        }
    }

    /// Notes where bytes are and gives where their like was before.
    fn replace(&mut self, [a, b, c]: [u8; COPY_MIN], at: usize) -> Option<usize> {
        // Knuth's multiplicative hash.
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(2_654_435_769);
        let slot = &mut self.positions[(hash >> self.shift) as usize];
        let earlier = std::mem::replace(slot, self.base + at as u32);
        earlier.checked_sub(self.base).map(|earlier| earlier as usize)
    }
}

/// How many bytes two places have in common, as far as a copy goes.
fn common(earlier: &[u8], later: &[u8]) -> usize {
    let most = later.len().min(COPY_MAX);
    let (earlier, later) = (&earlier[..most], &later[..most]);
    let words = earlier.as_chunks::<8>().0.iter().zip(later.as_chunks::<8>().0);
    let mut alike = 0;
    for (one, other) in words {
        let difference = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if difference != 0 {
            return alike + difference.trailing_zeros() as usize / 8;
        }
        alike += 8;
    }
    let rest = earlier[alike..].iter().zip(&later[alike..]);
    alike + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_oneof};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Compressor, Decompressor, decompress};

    fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
        Compressor::default().pack(bytes).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_repeats_shrinks() {
        let bytes = vec![b'a'; 100_000];
        let packed = compress(&bytes).unwrap();
        assert!(packed.len() < 1200, "{}", packed.len());
        assert_eq!(decompress(&packed, bytes.len()), Some(bytes));
        assert_eq!(compress(b"abcdefghijklmnopqrstuvwxyz"), None);
        assert_eq!(compress(b""), None);
    }

    #[test]
    fn what_redis_packed_is_read() {
        let packed = b"\x01aa\xe0\x0a\x00";
        assert_eq!(decompress(packed, 21), Some(vec![b'a'; 21]));
        assert_eq!(decompress(b"\x01aa\xe0\x57\x00\x01aa", 100), Some(vec![b'a'; 100]));
    }

    #[test]
    fn lies_are_refused() {
        let packed = b"\x01aa\xe0\x0a\x00";
        for length in [0, 1, 20, 22, usize::MAX] {
            assert_eq!(decompress(packed, length), None, "{length}");
        }
        for (packed, length) in [
            (&b"\x20\x00"[..], 3),
            (b"\x00a\x20\x01", 4),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0\x00", 10),
            (b"\x05abc", 6),
            (b"\x1f", 32),
        ] {
            assert_eq!(decompress(packed, length), None, "{packed:?}");
        }
    }

    /// Bytes with repetitions near and far.
    fn repetitive() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 1..20),
            (any::<u8>(), 1..600_usize).prop_map(|(byte, count)| vec![byte; count]),
            prop::collection::vec(b'a'..=b'c', 1..400),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(bytes in repetitive()) {
            if let Some(packed) = compress(&bytes) {
                prop_assert!(packed.len() + 4 <= bytes.len());
                prop_assert_eq!(decompress(&packed, bytes.len()), Some(bytes));
            }
        }

        #[test]
        fn what_comes_in_pieces_is_unpacked_as_it_is_at_once(
            bytes in repetitive(),
            steps in prop::collection::vec(1..50_usize, 1..20)
        ) {
            let Some(packed) = compress(&bytes) else { return Ok(()) };
            let (mut unpacker, mut out) = (Decompressor::new(bytes.len()), Vec::new());
            let (mut at, mut end) = (0, 0);
            for step in steps.iter().cycle() {
                end = packed.len().min(end + step);
                at += unpacker.feed(&packed[at..end]).unwrap();
                unpacker.take_out(|piece| out.extend_from_slice(piece));
                if end == packed.len() {
                    break;
                }
            }
            prop_assert!(unpacker.is_done() && at == packed.len());
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn pieces_are_packed_as_they_are_in_one(
            bytes in repetitive(),
            times in 1..40_usize,
            piece in prop::sample::select(vec![1_usize, 100, 4080, 70_000]),
        ) {
            let bytes = bytes.repeat(times);
            let mut packer = Compressor::default();
            let packed = packer.pack_pieces(bytes.len(), bytes.chunks(piece)).map(<[u8]>::to_vec);
            prop_assert_eq!(packed, compress(&bytes));
        }

        #[test]
        fn what_was_packed_before_does_not_matter(
            strings in prop::collection::vec(repetitive(), 2..6)
        ) {
            let mut packer = Compressor::default();
            for string in strings.iter().chain(&strings) {
                prop_assert_eq!(packer.pack(string).map(<[u8]>::to_vec), compress(string));
            }
            // As after four gigabytes.
            packer.seen.base = u32::MAX - 5;
            prop_assert_eq!(packer.pack(&strings[0]).map(<[u8]>::to_vec), compress(&strings[0]));
        }

        #[test]
        fn the_output_of_any_compressed_bytes_is_bounded(
            packed in any::<Vec<u8>>(), length in 0..2000_usize
        ) {
            if let Some(bytes) = decompress(&packed, length) {
                prop_assert_eq!(bytes.len(), length);
                prop_assert!(bytes.len() <= packed.len() * 88);
            }
        }
    }
}
