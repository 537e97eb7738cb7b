//! How files tell the flags that memcached's clients keep with a string.
//!
//! In a snapshot a note comes before the entry, in commands an ECHO before the SET: what reads
//! notes and commands of Redis passes over both. Invariant: a note is about what comes right
//! behind it, and whatever else a file has to say about the flags is nothing.

/// The name of the note in a snapshot, and what the word of an ECHO begins with.
pub(crate) const NAME: &str = "memcached-flags";

/// The word that tells flags among commands.
#[must_use]
pub fn write(flags: u32) -> String {
    format!("{NAME}={flags}")
}

/// The flags that such a word tells, if it is one.
#[must_use]
pub fn parse(word: &[u8]) -> Option<u32> {
    parse_number(word.strip_prefix(NAME.as_bytes())?.strip_prefix(b"=")?)
}

/// The flags of a note's text.
pub(crate) fn parse_number(text: &[u8]) -> Option<u32> {
    base::number::parse_i64(text).and_then(|flags| u32::try_from(flags).ok())
}

#[cfg(test)]
mod tests {
    use super::{parse, write};

    #[test]
    fn words_come_back_and_nothing_else_is_one() {
        for flags in [0, 1, 77, u32::MAX] {
            assert_eq!(parse(write(flags).as_bytes()), Some(flags));
        }
        for word in ["", "memcached-flags", "memcached-flags=", "memcached-flags=-1", "hello"] {
            assert_eq!(parse(word.as_bytes()), None);
        }
        assert_eq!(parse(b"memcached-flags=4294967296"), None);
    }
}
