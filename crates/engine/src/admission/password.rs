//! Whether a password is the right one.
//!
//! Invariant: how long it takes to find one wrong depends on the length of what the client sent,
//! and on nothing else.

use sha2::{Digest as _, Sha256};

/// Whether two texts are the same. Digests are compared, all of them to the end, so the time it
/// takes depends on the length of what the client sent and on nothing else it could learn from.
pub fn same_digest(left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (Sha256::digest(left), Sha256::digest(right));
    left.iter().zip(&right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::same_digest;

    /// What is compared are digests, each to its end: so all that the time could tell is at which
    /// byte two digests part, of which a guesser controls none, and not even that is told.
    #[test]
    fn passwords_are_the_same_only_if_all_of_them_is() {
        let password = b"correct horse battery staple";
        assert!(same_digest(password, password));
        for place in 0..password.len() {
            let mut other = *password;
            other[place] ^= 1;
            assert!(!same_digest(password, &other), "{place}");
            assert!(!same_digest(password, &password[..place]), "{place}");
        }
        assert!(!same_digest(password, b"correct horse battery staple\0"));
        assert!(same_digest(b"", b"") && !same_digest(b"", b"x"));
    }
}
