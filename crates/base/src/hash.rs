//! The keyed hash of keys: SipHash-1-3 with a 128-bit secret.
//!
//! Keyed, because clients choose the keys and SCAN cursors show them parts of the hash: without
//! the secret nobody can build keys that collide.

/// SipHash-1-3 under one secret.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    /// The four lanes, already mixed with the secret.
    lanes: [u64; 4],
}

impl KeyHasher {
    /// The hash under the secret `k0`, `k1`.
    pub const fn new(k0: u64, k1: u64) -> KeyHasher {
        KeyHasher {
            lanes: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
        }
    }

    /// The 64-bit hash of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut lanes = self.lanes;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut lanes, u64::from_le_bytes(*word));
        }
        absorb(&mut lanes, last_word(rest, bytes.len()));
        lanes[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut lanes);
        }
        lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3]
    }
}

#[inline]
fn absorb(lanes: &mut [u64; 4], word: u64) {
    lanes[3] ^= word;
    round(lanes);
    lanes[0] ^= word;
}

#[inline]
fn round(lanes: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *lanes;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *lanes = [a, b, c, d];
}

/// The up to seven bytes that fill no word, below the length's lowest byte.
#[inline]
fn last_word(rest: &[u8], length: usize) -> u64 {
    let mut word = (length as u64) << 56;
    let (mut rest, mut shift) = (rest, 0);
    if let Some((low, high)) = rest.split_first_chunk::<4>() {
        word |= u64::from(u32::from_le_bytes(*low));
        (rest, shift) = (high, 32);
    }
    if let Some((low, high)) = rest.split_first_chunk::<2>() {
        word |= u64::from(u16::from_le_bytes(*low)) << shift;
        (rest, shift) = (high, shift + 16);
    }
    if let [byte] = rest {
        word |= u64::from(*byte) << shift;
    }
    word
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::KeyHasher;

    /// std's default hasher is SipHash-1-3 with a zero secret.
    #[test]
    fn zero_secret_equals_std() {
        let bytes: Vec<u8> = (0..200).map(|index: u32| (index * 37 % 251) as u8).collect();
        for length in 0..bytes.len() {
            let mut reference = DefaultHasher::new();
            reference.write(&bytes[..length]);
            assert_eq!(KeyHasher::new(0, 0).hash(&bytes[..length]), reference.finish());
        }
    }

    #[test]
    fn the_secret_matters() {
        let hashes = [(0, 0), (1, 0), (0, 1)].map(|(k0, k1)| KeyHasher::new(k0, k1).hash(b"key"));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
    }
}
