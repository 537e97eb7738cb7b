//! Looking for bytes within bytes.
//!
//! Invariant: each byte of the text is looked at a bounded number of times, whatever the needle
//! (Knuth, Morris and Pratt): a client's needle cannot make a search slow.

/// A needle made ready.
pub struct Needle {
    bytes: Vec<u8>,
    /// How many bytes of the needle are still matched when the one behind so many does not.
    fallbacks: Vec<usize>,
    ignore_case: bool,
}

impl Needle {
    /// These bytes; `ignore_case` folds ASCII letters.
    #[must_use]
    pub fn new(bytes: &[u8], ignore_case: bool) -> Self {
        let mut bytes = bytes.to_vec();
        if ignore_case {
            bytes.make_ascii_lowercase();
        }
        let mut fallbacks = vec![0; bytes.len()];
        let mut matched = 0;
        for index in 1..bytes.len() {
            while matched > 0 && bytes[index] != bytes[matched] {
                matched = fallbacks[matched - 1];
            }
            matched += usize::from(bytes[index] == bytes[matched]);
            fallbacks[index] = matched;
        }
        Self { bytes, fallbacks, ignore_case }
    }

    /// Whether the needle lies in a text; the empty one lies in any.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        if self.bytes.is_empty() {
            return true;
        }
        let mut matched = 0;
        for byte in text {
            let byte = if self.ignore_case { byte.to_ascii_lowercase() } else { *byte };
            while matched > 0 && byte != self.bytes[matched] {
                matched = self.fallbacks[matched - 1];
            }
            matched += usize::from(byte == self.bytes[matched]);
            if matched == self.bytes.len() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};

    use super::Needle;

    #[test]
    fn a_needle_is_found_where_the_table_says() {
        let table = [
            ("", "", false, true),
            ("", "abc", false, true),
            ("abc", "", false, false),
            ("abc", "xabcx", false, true),
            ("ABC", "xabcx", false, false),
            ("ABC", "xabcx", true, true),
            ("abC", "xAbcx", true, true),
            ("aab", "aaab", false, true),
            ("abab", "abaabab", false, true),
            ("abcd", "abc", false, false),
        ];
        for (needle, text, ignore_case, expected) in table {
            let found = Needle::new(needle.as_bytes(), ignore_case).is_in(text.as_bytes());
            assert_eq!(found, expected, "{needle} in {text}");
        }
    }

    proptest! {
        #[test]
        fn a_needle_is_found_where_a_window_equals_it(
            needle in vec(0..2_u8, 1..6), text in vec(0..2_u8, 0..40)
        ) {
            let expected = text.windows(needle.len()).any(|window| window == needle);
            prop_assert_eq!(Needle::new(&needle, false).is_in(&text), expected);
        }
    }
}
