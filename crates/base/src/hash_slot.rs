//! The hash slot of a key: the part of the keyspace that keys with one tag share.
//!
//! Invariant: a slot is below [`HASH_SLOTS`], and the same on all servers.

use crate::crc::crc16;

/// How many slots there are.
pub const HASH_SLOTS: u16 = 16_384;

/// The slot of a key: of what stands in its first braces, if anything does, else of all of it.
#[inline]
pub fn hash_slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % HASH_SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let inside = &key[open + 1..];
    let end = inside.iter().position(|byte| *byte == b'}')?;
    (end > 0).then(|| &inside[..end])
}
