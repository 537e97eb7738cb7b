//! The producer of a stream, and a place in it: replication ids and offsets.
//!
//! Invariant: an id is 40 lower-case hexadecimal digits; offsets count bytes of the stream.

use std::fmt;

/// The id of a history of changes: 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// The id that stands for none: 40 zeros.
    pub const NONE: Self = Self([b'0'; 40]);

    /// A fresh one from twenty random bytes.
    pub fn from_random(random: [u8; 20]) -> Self {
        let mut digits = [0; 40];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(random) {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    /// Reads one, in any case of letters; `None` if it is no id.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; 40] = text.try_into().ok()?;
        digits
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then(|| Self(digits.map(|it| it.to_ascii_lowercase())))
    }

    /// Its digits.
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0).expect("digits are ASCII"))
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::ReplicationId;

    #[test]
    fn ids_are_read_in_any_case_and_nothing_else_is_one() {
        let id = ReplicationId::from_random(std::array::from_fn(|byte| byte as u8 * 13));
        let text = id.to_string();
        assert_eq!(text.len(), 40);
        assert_eq!(ReplicationId::parse(text.to_ascii_uppercase().as_bytes()), Some(id));
        assert_eq!(ReplicationId::parse(&text.as_bytes()[1..]), None);
        assert_eq!(ReplicationId::parse(&[b'g'; 40]), None);
        assert_eq!(ReplicationId::parse(&[b'0'; 40]), Some(ReplicationId::NONE));
    }
}
