//! Passwords, of which only the digest is kept.
//!
//! Invariant: how long a comparison takes tells nothing about either side.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// Of this password.
    pub(crate) fn of(password: &[u8]) -> Digest {
        Digest(Sha256::digest(password).into())
    }

    /// That these 64 hexadecimal digits say.
    pub(crate) fn parse(digits: &[u8]) -> Option<Digest> {
        let digits: &[u8; 64] = digits.try_into().ok()?;
        let mut digest = Digest([0; 32]);
        for (byte, pair) in digest.0.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(digest)
    }

    /// Its 64 hexadecimal digits.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether both are the same, in the same time whatever they are.
    pub(crate) fn is(&self, other: &Digest) -> bool {
        let differences = self.0.iter().zip(other.0).fold(0, |all, (one, two)| all | (one ^ two));
        std::hint::black_box(differences) == 0
    }
}

/// What a hexadecimal digit stands for; capitals are none.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
