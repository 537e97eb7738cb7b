//! The secret under which large containers hash their members: one per process, never shown.
//!
//! Clients choose the members and SCAN shows them parts of the hashes; without the secret nobody
//! can build members that collide.

use std::sync::OnceLock;

use base::{KeyHasher, Random};

/// The keyed hash of members, the same for all containers of this process.
pub fn hasher() -> &'static KeyHasher {
    static HASHER: OnceLock<KeyHasher> = OnceLock::new();
    HASHER.get_or_init(|| {
        let mut random = Random::from_entropy();
        KeyHasher::new(random.next_u64(), random.next_u64())
    })
}

#[cfg(test)]
mod tests {
    use super::hasher;

    #[test]
    fn one_process_has_one_hash_of_a_member() {
        assert_eq!(hasher().hash(b"member"), hasher().hash(b"member"));
        assert_ne!(hasher().hash(b"member"), hasher().hash(b"other"));
    }
}
