//! Fingerprints of members, one byte each, compared with one of them 32 at a time.
//!
//! Invariant: on every target bit `i` of the answer tells of byte `i`.

/// Fingerprints that are looked at together.
pub(super) const BLOCK: usize = 32;

/// Which bytes of a block are this one.
#[inline]
pub(super) fn matches(block: &[u8; BLOCK], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    return matches_sse2(block, byte);
    #[cfg(not(target_arch = "x86_64"))]
    matches_by_words(block, byte)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn matches_sse2(block: &[u8; BLOCK], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: SSE2 is part of every x86-64; both loads, which need no alignment, lie in the block.
    let [low, high] = unsafe {
        let wanted = _mm_set1_epi8(byte.cast_signed());
        [0, BLOCK / 2].map(|start| {
            let half = _mm_loadu_si128(block.as_ptr().add(start).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(half, wanted)).cast_unsigned()
        })
    };
    low | high << (BLOCK / 2)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn matches_by_words(block: &[u8; BLOCK], byte: u8) -> u32 {
    /// Moves the lowest bits of the eight bytes of a word into its highest byte, in their order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, word| {
        let equal = equal_bytes(u64::from_le_bytes(*word), byte) >> 7;
        bits << 8 | (equal.wrapping_mul(GATHER) >> 56) as u32
    })
}

/// The top bit of each byte of a word that is this one.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x7F; 8]);
    let differs = word ^ u64::from_le_bytes([byte; 8]);
    // Of a byte that is not zero, either the top bit is set or adding carries into it.
    !(((differs & LOW) + LOW) | differs | LOW)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

    use super::{BLOCK, matches, matches_by_words};

    const BYTES: &[u8] = &[0, 1, 127, 128, 255];

    proptest! {
        #[test]
        fn bits_tell_of_the_bytes_in_their_order(
            block in prop::collection::vec(prop::sample::select(BYTES), BLOCK)
                .prop_map(|bytes| <[u8; BLOCK]>::try_from(bytes).expect("a block's length")),
            byte in prop_oneof![prop::sample::select(BYTES), any::<u8>()],
        ) {
            let bit = |index: usize| u32::from(block[index] == byte) << index;
            let expected = (0..BLOCK).map(bit).sum::<u32>();
            assert_eq!(matches(&block, byte), expected);
            assert_eq!(matches_by_words(&block, byte), expected);
        }
    }
}
