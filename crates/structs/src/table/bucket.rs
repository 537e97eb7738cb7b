//! One cache line of the table: eight words, dense from the first on, and the search among them.
//!
//! A word is an address below 2^48 under a 16-bit fingerprint. A free word is zero, which no used
//! word can be, because no address is zero. Invariant: behind a free word all words are free.

use std::num::NonZeroU64;

/// Words in a bucket: what one cache line of 64 bytes holds.
pub(super) const WORDS: usize = 8;

const ADDRESS_BITS: u32 = 48;

/// Where an entry lies, as its owner counts: not zero and below 2^48. The table never looks there.
///
/// Only these bounds are checked, so the owner may keep marks of its own in the low bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(NonZeroU64);

impl Address {
    /// The address, unless it is zero or does not fit 48 bits.
    #[inline]
    pub const fn new(address: u64) -> Option<Address> {
        if address >> ADDRESS_BITS != 0 {
            return None;
        }
        match NonZeroU64::new(address) {
            Some(address) => Some(Address(address)),
            None => None,
        }
    }

    /// The number it was made of.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// An address with its fingerprint above it, or free.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Word(u64);

impl Word {
    pub(super) const FREE: Word = Word(0);

    #[inline]
    pub(super) const fn new(fingerprint: u16, address: Address) -> Word {
        Word((fingerprint as u64) << ADDRESS_BITS | address.get())
    }

    #[inline]
    pub(super) const fn fingerprint(self) -> u16 {
        (self.0 >> ADDRESS_BITS) as u16
    }

    /// The address of a used word.
    #[inline]
    pub(super) const fn address(self) -> Option<Address> {
        Address::new(self.0 & ((1 << ADDRESS_BITS) - 1))
    }
}

/// Eight words on one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bucket(pub(super) [Word; WORDS]);

impl Bucket {
    pub(super) const FREE: Bucket = Bucket([Word::FREE; WORDS]);

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.0[WORDS - 1] != Word::FREE
    }

    /// How many words are used.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.iter().take_while(|word| **word != Word::FREE).count()
    }

    /// The used words.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = Word> {
        self.0.iter().copied().take_while(|word| *word != Word::FREE)
    }

    /// Takes a word out and moves the last used one into its place.
    #[inline]
    pub(super) fn take(&mut self, index: usize) -> Word {
        let last = self.len() - 1;
        self.0.swap(index, last);
        std::mem::replace(&mut self.0[last], Word::FREE)
    }

    /// Asks the processor for the line.
    #[inline]
    pub(super) fn prefetch(&self) {
        crate::prefetch::line(std::ptr::from_ref(self).cast());
    }

    /// The words that carry this fingerprint, one bit each. With fingerprint 0, free words too.
    #[inline]
    pub(super) fn matches(&self, fingerprint: u16) -> u8 {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: SSE2 is part of every x86-64.
            unsafe { self.matches_sse2(fingerprint) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        (0..WORDS).fold(0, |mask, index| {
            mask | u8::from(self.0[index].fingerprint() == fingerprint) << index
        })
    }

    /// The high halves of four words at a time are gathered into one vector, the fingerprints of
    /// all eight packed into the next, then compared at once.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "sse2")]
    fn matches_sse2(&self, fingerprint: u16) -> u8 {
        use std::arch::x86_64::{
            _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi16, _mm_movemask_epi8,
            _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi64x, _mm_set1_epi16, _mm_setzero_si128,
            _mm_shuffle_ps, _mm_srai_epi32,
        };
        const HIGH_HALVES: i32 = 0b11_01_11_01;
        let words = &self.0;
        let pair = |at: usize| {
            _mm_castsi128_ps(_mm_set_epi64x(words[at + 1].0 as i64, words[at].0 as i64))
        };
        let four = |at: usize| {
            let halves = _mm_shuffle_ps::<HIGH_HALVES>(pair(at), pair(at + 2));
            _mm_srai_epi32::<16>(_mm_castps_si128(halves))
        };
        let fingerprints = _mm_packs_epi32(four(0), four(4));
        let equal = _mm_cmpeq_epi16(fingerprints, _mm_set1_epi16(fingerprint as i16));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u8
    }
}
