//! Lines, and the words in them.
//!
//! Invariant: a word is never empty; only spaces lie between words.

/// The words of a line that are still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// All words of a line.
    #[inline]
    pub(super) fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// How many bytes are left.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether there is no other.
    pub fn is_empty(&self) -> bool {
        self.rest.iter().all(|byte| *byte == b' ')
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let word = &self.rest[start..];
        let end = word.iter().position(|byte| *byte == b' ').unwrap_or(word.len());
        let (word, rest) = word.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// Where the first line of `buf` ends, if not before `from`.
#[inline]
pub(super) fn find_line_end(buf: &[u8], from: usize) -> Option<usize> {
    const STEP: usize = size_of::<u64>();
    let mut position = from;
    while let Some(word) = buf.get(position..).and_then(<[u8]>::first_chunk::<STEP>) {
        // A byte that is a line end becomes zero, and only the lowest zero's mark is exact.
        let zeros = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'\n'; STEP]);
        let marks = zeros.wrapping_sub(LOW_BITS) & !zeros & HIGH_BITS;
        if marks != 0 {
            return Some(position + marks.trailing_zeros() as usize / 8);
        }
        position += STEP;
    }
    let rest = buf.get(position..)?;
    Some(position + rest.iter().position(|byte| *byte == b'\n')?)
}

const LOW_BITS: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);

#[cfg(test)]
mod tests {
    use proptest::{prop_assert_eq, proptest};

    use super::{Words, find_line_end};

    #[test]
    fn only_spaces_separate() {
        let words = |line: &'static str| -> Vec<&[u8]> { Words::new(line.as_bytes()).collect() };
        assert_eq!(words(""), [b""; 0]);
        assert_eq!(words("   "), [b""; 0]);
        assert_eq!(words("a"), [b"a"]);
        assert_eq!(words("  a\tb  c "), [&b"a\tb"[..], b"c"]);
    }

    proptest! {
        #[test]
        fn line_ends_are_where_they_are(text in "[\n\u{b}\u{1}ab]{0,40}", from in 0_usize..40) {
            let expected = text.bytes().enumerate().skip(from).find(|(_, byte)| *byte == b'\n');
            let expected = expected.map(|(index, _)| index);
            prop_assert_eq!(find_line_end(text.as_bytes(), from), expected);
        }
    }
}
