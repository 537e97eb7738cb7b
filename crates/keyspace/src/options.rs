//! What a keyspace is made with.
//!
//! Invariant: nothing of it changes while the keyspace lives.

use base::time::Clock;

/// What is chosen once.
#[derive(Clone, Debug)]
pub struct Options {
    /// Logical databases, `SELECT 0` to `SELECT databases - 1`.
    pub databases: usize,
    /// The key of the hash that places keys; random unless a test wants it fixed.
    pub hash_key: (u64, u64),
    /// The clock that all transactions read.
    pub clock: Clock,
    /// Whether a key's partition is its hash slot, as in a node of a cluster.
    pub by_hash_slot: bool,
    /// The prefixes whose keys are indexed.
    pub prefixes: Vec<Box<[u8]>>,
}

impl Options {
    /// Redis' sixteen databases, with a hash nobody can guess.
    #[must_use]
    pub fn new() -> Self {
        let mut random = base::random::Random::from_entropy();
        let hash_key = (random.next_u64(), random.next_u64());
        let (clock, prefixes) = (Clock::system(), Vec::new());
        Self { databases: 16, hash_key, clock, by_hash_slot: false, prefixes }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
