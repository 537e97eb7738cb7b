//! CRC-64 by the multiplication without carries that x86 processors have: 64 bytes per step.
//!
//! A text is a polynomial, and a sum is what remains of it after a division. So far ahead as a
//! piece of it stands, it may be replaced by a product that has the same remainder and stands 64
//! bytes further on, where it is added to what is there. What is left in the end are 16 bytes.
//!
//! Invariant: what is returned has the same sum as the text that it stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

use super::product;

/// Lanes that are folded side by side: each step of a lane waits for the one before.
const LANES: usize = 4;

/// Bytes of all lanes.
pub(super) const BLOCK: usize = LANES * 16;

/// What carries a lane over all of a block, and over one lane.
const OVER_BLOCK: Keys = Keys::over(BLOCK);
const OVER_LANE: Keys = Keys::over(16);

/// What the halves of a lane are multiplied with.
#[derive(Clone, Copy)]
struct Keys {
    first: u64,
    second: u64,
}

impl Keys {
    /// To carry a lane over so many bytes. The product of two words stands one bit too far.
    const fn over(bytes: usize) -> Self {
        Self { first: power(8 * bytes + 63), second: power(8 * bytes - 1) }
    }
}

/// `x` to this power, modulo the polynomial.
const fn power(exponent: usize) -> u64 {
    let (mut power, mut left) = (1 << 63, exponent);
    while left > 0 {
        power = product(power, 1 << 62);
        left -= 1;
    }
    power
}

/// Two words whose sum, from 0 on, is that of the blocks from `seed` on; `None` if the processor
/// cannot tell, or there is no block.
pub(super) fn fold(seed: u64, blocks: &[[u8; BLOCK]]) -> Option<[u64; 2]> {
    let (first, rest) = blocks.split_first()?;
    if !is_x86_feature_detected!("pclmulqdq") {
        return None;
    }
    // SAFETY: the processor has the instructions, as was just asked; SSE2 all of them have.
    Some(unsafe { fold_blocks(seed, first, rest) })
}

#[target_feature(enable = "pclmulqdq")]
fn fold_blocks(seed: u64, first: &[u8; BLOCK], rest: &[[u8; BLOCK]]) -> [u64; 2] {
    let mut lanes = load(first);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, seed.cast_signed()));
    for block in rest {
        let next = load(block);
        for (lane, next) in lanes.iter_mut().zip(next) {
            *lane = _mm_xor_si128(carry(*lane, OVER_BLOCK), next);
        }
    }
    let [first, others @ ..] = lanes;
    let folded = others
        .into_iter()
        .fold(first, |folded, lane| _mm_xor_si128(carry(folded, OVER_LANE), lane));
    let second = _mm_unpackhi_epi64(folded, folded);
    [folded, second].map(|word| _mm_cvtsi128_si64(word).cast_unsigned())
}

/// What a lane is where the keys carry it.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn carry(lane: __m128i, keys: Keys) -> __m128i {
    let keys = _mm_set_epi64x(keys.second.cast_signed(), keys.first.cast_signed());
    let first = _mm_clmulepi64_si128::<0x00>(lane, keys);
    let second = _mm_clmulepi64_si128::<0x11>(lane, keys);
    _mm_xor_si128(first, second)
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn load(block: &[u8; BLOCK]) -> [__m128i; LANES] {
    let (words, _) = block.as_chunks::<8>();
    let word = |index: usize| i64::from_le_bytes(words[index]);
    [0, 2, 4, 6].map(|index| _mm_set_epi64x(word(index + 1), word(index)))
}
