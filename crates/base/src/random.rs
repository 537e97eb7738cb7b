//! Pseudo-random numbers: xoshiro256++ seeded by splitmix64. Not for secrets.
//!
//! One seed gives one sequence, on every machine and in every version, so that tests and replayed
//! commands can rely on it.

use std::hash::{BuildHasher, RandomState};

/// A small, fast generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of one reproducible sequence.
    pub fn from_seed(seed: u64) -> Random {
        let mut counter = seed;
        Random { state: std::array::from_fn(|_| splitmix64(&mut counter)) }
    }

    /// A generator seeded by the operating system's entropy, as std's hash maps are.
    pub fn from_entropy() -> Random {
        // Four words under keys drawn by std from the system: unknown to anybody, never all zero
        // but with probability 2^-256.
        Random { state: std::array::from_fn(|index| RandomState::new().hash_one(index)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let mixed_c = c ^ a;
        let mixed_d = d ^ b;
        self.state = [a ^ mixed_d, b ^ mixed_c, mixed_c ^ (b << 17), mixed_d.rotate_left(45)];
        result
    }

    /// A number below `bound`, each equally likely; 0 when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's method: the high half of a product, redrawn in the biased low part.
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

fn splitmix64(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *counter;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Random, splitmix64};

    #[test]
    fn reference_values() {
        let mut counter = 1_234_567;
        assert_eq!(splitmix64(&mut counter), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut counter), 3_203_168_211_198_807_973);
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: [u64; 4] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn below_reaches_every_number_and_none_other() {
        let mut random = Random::from_seed(7);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn entropy_differs() {
        assert_ne!(Random::from_entropy().next_u64(), Random::from_entropy().next_u64());
    }
}
