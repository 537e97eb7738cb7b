//! The hash slot of a key: the part of the keyspace that keys with one tag share.
//!
//! Invariant: a slot is below [`HASH_SLOTS`], and the same on all servers.

use std::sync::LazyLock;

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

/// The slot of all keys that a pattern may match, if it is one.
pub fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let is_open = |byte: &u8| b"*?[\\".contains(byte);
    let tag = pattern.iter().position(|byte| *byte == b'{').and_then(|open| {
        let end = pattern[open + 1..].iter().position(|byte| *byte == b'}')?;
        (end > 0).then_some(open + 1 + end)
    });
    // What stands behind a tag does not count.
    let counts = &pattern[..tag.unwrap_or(pattern.len())];
    (!counts.iter().any(is_open)).then(|| hash_slot(pattern))
}

/// What the tags of slots are made of, in the order in which they are tried.
const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A tag of at most three letters; zeros stand behind a shorter one.
type ShortTag = [u8; 3];

static SLOT_TAGS: LazyLock<Box<[ShortTag]>> = LazyLock::new(slot_tags);

/// The tag by which a slot is named: the first of the shortest that there are.
pub fn tag_of_slot(slot: u16) -> &'static [u8] {
    let tag = &SLOT_TAGS[usize::from(slot % HASH_SLOTS)];
    let len = tag.iter().position(|letter| *letter == 0).unwrap_or(tag.len());
    &tag[..len]
}

fn slot_tags() -> Box<[ShortTag]> {
    let mut tags = vec![ShortTag::default(); usize::from(HASH_SLOTS)];
    let mut offer = |sum: u16, tag: ShortTag| {
        let place = &mut tags[usize::from(sum % HASH_SLOTS)];
        if place[0] == 0 {
            *place = tag;
        }
    };
    // The sum of a word is the exclusive or of those of its letters, each with what follows as
    // zeros.
    let before = |zeros: usize| LETTERS.map(|it| (it, crc16(&[it, 0, 0][..=zeros])));
    let (lasts, middles, firsts) = (before(0), before(1), before(2));
    lasts.iter().for_each(|(last, sum)| offer(*sum, [*last, 0, 0]));
    for (first, sum) in middles {
        lasts.iter().for_each(|(last, its)| offer(sum ^ its, [first, *last, 0]));
    }
    for (first, sum) in firsts {
        for (middle, its) in middles {
            let sum = sum ^ its;
            lasts.iter().for_each(|(last, its)| offer(sum ^ its, [first, middle, *last]));
        }
    }
    tags.into()
}

#[cfg(test)]
mod tests {
    use super::{HASH_SLOTS, hash_slot, slot_of_pattern, tag_of_slot};

    #[test]
    fn the_tag_of_a_slot_is_of_the_slot() {
        for slot in 0..HASH_SLOTS {
            let tag = tag_of_slot(slot);
            assert!((1..=3).contains(&tag.len()), "{slot}");
            assert_eq!(hash_slot(tag), slot);
        }
    }

    /// The same tags that other servers name the slots by.
    #[test]
    fn the_first_of_the_shortest_tags_names_a_slot() {
        for (slot, tag) in [(0, "06S"), (1, "Qi"), (2, "5L5"), (3300, "b"), (5061, "bar")] {
            assert_eq!(tag_of_slot(slot), tag.as_bytes(), "{slot}");
        }
    }

    #[test]
    fn a_pattern_is_of_one_slot_if_all_that_it_matches_is() {
        let bar = Some(hash_slot(b"bar"));
        for pattern in ["bar", "{bar}", "{bar}*", "x{bar}?", "{bar}{*}", "{bar}[a]"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), bar, "{pattern}");
        }
        for pattern in ["*", "b*", "*{bar}", "{b?r}", "\\bar", "{}*", "{bar*"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
        }
        assert_eq!(slot_of_pattern(b"{}x"), Some(hash_slot(b"{}x")));
    }
}
