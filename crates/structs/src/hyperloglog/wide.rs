//! Packed registers, 32 at a time, by what x86 processors with AVX2 have.
//!
//! ```text
//!  24 bytes    | aaaaaabbbbbbccccccdddddd | .. |     6 bits each, lowest first
//!  8 x u32     | 00dddddd cccccc bbbbbb aaaaaa |     three bytes in each of eight words
//!  32 bytes    | a | b | c | d | ..            |
//! ```
//!
//! Invariant: what it makes is what is made of the registers eight at a time.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_max_epu8, _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi32, _mm256_setr_epi8,
    _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_storeu_si256,
};

use super::REGISTERS;

/// Registers that are handled together, and the bytes that they are packed in.
const VALUES: usize = 32;
const PACKED: usize = 24;

/// Raises registers to packed ones; `false` if the processor cannot do so in this way.
pub(super) fn raise(values: &mut [u8; REGISTERS], packed: &[u8]) -> bool {
    let is_able = is_x86_feature_detected!("avx2");
    if is_able {
        // SAFETY: the processor has the instructions, as was just asked.
        unsafe { raise_all(values, packed) };
    }
    is_able
}

/// Raises packed registers to others; `false` if the processor cannot do so in this way.
pub(super) fn raise_packed(packed: &mut [u8], values: &[u8; REGISTERS]) -> bool {
    let is_able = is_x86_feature_detected!("avx2");
    if is_able {
        // SAFETY: the processor has the instructions, as was just asked.
        unsafe { raise_all_packed(packed, values) };
    }
    is_able
}

#[target_feature(enable = "avx2")]
fn raise_all(values: &mut [u8; REGISTERS], packed: &[u8]) {
    let (values, packed) = (values.as_chunks_mut::<VALUES>().0, packed.as_chunks::<PACKED>().0);
    for (values, packed) in values.iter_mut().zip(packed) {
        let risen = _mm256_max_epu8(load(values), unpack(packed));
        *values = to_bytes(risen);
    }
}

#[target_feature(enable = "avx2")]
fn raise_all_packed(packed: &mut [u8], values: &[u8; REGISTERS]) {
    let (values, packed) = (values.as_chunks::<VALUES>().0, packed.as_chunks_mut::<PACKED>().0);
    for (values, packed) in values.iter().zip(packed) {
        *packed = pack(_mm256_max_epu8(load(values), unpack(packed)));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn unpack(packed: &[u8; PACKED]) -> __m256i {
    // Three bytes to a word: of the first twelve, and of the last twelve.
    let spread = _mm256_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, //
        4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1,
    );
    // SAFETY: both loads, which need no alignment, lie within the 24 bytes.
    let halves = unsafe {
        let low = _mm_loadu_si128(packed.as_ptr().cast());
        let high = _mm_loadu_si128(packed.as_ptr().add(PACKED - 16).cast());
        _mm256_set_m128i(high, low)
    };
    let words = _mm256_shuffle_epi8(halves, spread);
    let only = |mask| _mm256_and_si256(words, _mm256_set1_epi32(mask));
    let first = _mm256_or_si256(only(0x3F), _mm256_slli_epi32::<2>(only(0x3F << 6)));
    let third = _mm256_slli_epi32::<4>(only(0x3F << 12));
    let fourth = _mm256_slli_epi32::<6>(only(0x3F << 18));
    _mm256_or_si256(first, _mm256_or_si256(third, fourth))
}

#[inline]
#[target_feature(enable = "avx2")]
fn pack(values: __m256i) -> [u8; PACKED] {
    // Neighbours of 6 bits become 12, and neighbours of these 24.
    let pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi32(0x4001_4001));
    let words = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x1000_0001));
    let gather = _mm256_setr_epi8(
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, //
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
    );
    let halves = _mm256_shuffle_epi8(words, gather);
    let mut packed = [0; PACKED + 4];
    // SAFETY: both stores, which need no alignment, lie within these bytes; the second is put over
    // the zeros behind the first.
    unsafe {
        let target = packed.as_mut_ptr();
        _mm_storeu_si128(target.cast(), _mm256_castsi256_si128(halves));
        let second = target.add(PACKED / 2).cast();
        _mm_storeu_si128(second, _mm256_extracti128_si256::<1>(halves));
    }
    *packed.first_chunk().expect("it is longer")
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; VALUES]) -> __m256i {
    // SAFETY: the load, which needs no alignment, is of these bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn to_bytes(lanes: __m256i) -> [u8; VALUES] {
    let mut bytes = [0; VALUES];
    // SAFETY: the store, which needs no alignment, is of these bytes.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), lanes) };
    bytes
}
