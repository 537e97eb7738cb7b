//! LZF: the compression of strings in the RDB format.
//!
//! ```text
//!  000lllll, then l + 1 bytes           these bytes
//!  lllooooo oooooooo                    l + 2 bytes, copied from o + 1 bytes back; l is 1..=6
//!  111ooooo llllllll oooooooo           l + 9 bytes, copied from o + 1 bytes back
//! ```
//!
//! Invariants: decompression takes memory only as bytes come out, and 3 bytes in give at most 264
//! out; compression gives only what is at least four bytes shorter, and the same for the same.

/// Literal bytes that one control byte announces.
const LITERALS_MAX: usize = 32;
/// How far back a copy can reach.
const DISTANCE_MAX: usize = 1 << 13;
/// The shortest copy that saves anything.
const COPY_MIN: usize = 3;
/// The longest copy.
const COPY_MAX: usize = LONG_COPY + u8::MAX as usize;
/// From this length on a copy takes a byte more.
const LONG_COPY: usize = 9;

/// After so many bytes without a copy one more is passed over at each step: what does not shrink
/// shall not take long.
const IMPATIENCE: usize = 64;

/// Restores `length` bytes; `None` if the packed bytes give more, fewer, or are no LZF.
#[must_use]
pub fn decompress(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = packed.split_first() {
        let (high, low) = (usize::from(control >> 5), usize::from(control & 0x1f));
        let room = length - out.len();
        if high == 0 {
            let (literals, rest) = rest.split_at_checked(low + 1)?;
            out.try_reserve(check(literals.len(), room)?).ok()?;
            out.extend_from_slice(literals);
            packed = rest;
        } else {
            let (extra, rest) = if high < 7 {
                (0, rest)
            } else {
                let (&extra, rest) = rest.split_first()?;
                (usize::from(extra), rest)
            };
            let (&offset, rest) = rest.split_first()?;
            let distance = (low << 8 | usize::from(offset)) + 1;
            let from = out.len().checked_sub(distance)?;
            let count = check(high + 2 + extra, room)?;
            out.try_reserve(count).ok()?;
            repeat(&mut out, from, count);
            packed = rest;
        }
    }
    (out.len() == length).then_some(out)
}

/// Packs bytes; `None` if that does not save four of them.
#[must_use]
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let limit = bytes.len().checked_sub(4)?;
    u32::try_from(bytes.len()).ok()?;
    let mut seen = Seen::new(bytes.len());
    let mut out = Vec::new();
    let (mut at, mut literals_from) = (0, 0);
    while let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk::<COPY_MIN>) {
        let earlier = seen.replace(*head, at);
        let earlier = earlier.filter(|&earlier| {
            at - earlier <= DISTANCE_MAX && bytes[earlier..earlier + COPY_MIN] == *head
        });
        let Some(earlier) = earlier else {
            at += 1 + (at - literals_from) / IMPATIENCE;
            continue;
        };
        let count = common(&bytes[earlier..], &bytes[at..]);
        push_literals(&mut out, &bytes[literals_from..at]);
        push_copy(&mut out, at - earlier, count);
        at += count;
        literals_from = at;
    }
    push_literals(&mut out, &bytes[literals_from..]);
    (out.len() <= limit).then_some(out)
}

/// A count that has to fit the room.
fn check(count: usize, room: usize) -> Option<usize> {
    (count <= room).then_some(count)
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
struct Seen {
    /// Positions plus one; 0 where nothing was seen.
    positions: Vec<u32>,
    shift: u32,
}

impl Seen {
    /// A table that fits the input, so that short strings do not clear a large one.
    fn new(input: usize) -> Self {
        let slots = input.next_power_of_two().clamp(1 << 10, 1 << 14);
        Self { positions: vec![0; slots], shift: u32::BITS - slots.trailing_zeros() }
    }

    /// Notes where bytes are and gives where their like was before.
    fn replace(&mut self, [a, b, c]: [u8; COPY_MIN], at: usize) -> Option<usize> {
        // Knuth's multiplicative hash.
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(2_654_435_769);
        let slot = &mut self.positions[(hash >> self.shift) as usize];
        let earlier = std::mem::replace(slot, at as u32 + 1);
        earlier.checked_sub(1).map(|earlier| earlier as usize)
    }
}

/// How many bytes two places have in common, as far as a copy goes.
fn common(earlier: &[u8], later: &[u8]) -> usize {
    let pairs = earlier.iter().zip(later).take(COPY_MAX);
    pairs.take_while(|(one, other)| one == other).count()
}

fn push_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn push_copy(out: &mut Vec<u8>, distance: usize, count: usize) {
    let [high, low] = (distance as u16 - 1).to_be_bytes();
    match count.checked_sub(LONG_COPY) {
        None => out.extend_from_slice(&[(count as u8 - 2) << 5 | high, low]),
        Some(extra) => out.extend_from_slice(&[7 << 5 | high, extra as u8, low]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_oneof};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{compress, decompress};

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
        fn whatever_comes_in_is_bounded(packed in any::<Vec<u8>>(), length in 0..2000_usize) {
            if let Some(bytes) = decompress(&packed, length) {
                prop_assert_eq!(bytes.len(), length);
                prop_assert!(bytes.len() <= packed.len() * 88);
            }
        }
    }
}
