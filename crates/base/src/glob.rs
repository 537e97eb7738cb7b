//! Glob patterns as KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET understand them.
//!
//! `*`, `?`, `[abc]`, `[^a-z]` and `\x`; a class that is not closed ends with the pattern.
//! Iterative, with one place to fall back to, and no stack. Where that has to fall back too often,
//! all places of a part between two stars are tried side by side, a bit for each: pattern times
//! text by 64 steps, whatever the pattern.

/// Whether `pattern` matches the whole of `text`; `ignore_case` folds ASCII letters.
///
/// An empty text is matched by the empty pattern alone, as in Redis: where `*` shall mean all,
/// the caller takes it so.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    matches_within(pattern, text, ignore_case, STEPS)
}

/// So many steps in vain cost as much as to make the table for trying all places side by side: per
/// byte of the pattern.
const STEPS: usize = 256;

/// As `matches`; `patience` says how many steps in vain there may be for each byte of the pattern.
fn matches_within(pattern: &[u8], text: &[u8], ignore_case: bool, patience: usize) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut position, mut wasted) = (0, 0, 0);
    // After the last star: the pattern behind it, and how far the star has eaten. An earlier star
    // need not be tried again, because the last one can eat whatever the earlier could give up.
    let mut fallback: Option<(usize, usize)> = None;
    while position < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            fallback = Some((at, position));
            continue;
        }
        if let Some(next) = match_one(pattern, at, text[position], ignore_case) {
            (at, position) = (next, position + 1);
        } else if let Some((behind_star, eaten)) = fallback {
            wasted += position - eaten;
            if wasted > patience * (pattern.len() - behind_star) {
                wasted = 0;
                let part = Part::read(&pattern[behind_star..], ignore_case);
                if let Some(part) = part {
                    let (behind, rest) = (behind_star + part.length, &text[eaten..]);
                    if behind == pattern.len() {
                        return part.ends(&pattern[behind_star..], rest, ignore_case);
                    }
                    let Some(end) = part.find(rest) else { return false };
                    (at, position) = (behind, eaten + end);
                    continue;
                }
            }
            fallback = Some((behind_star, eaten + 1));
            (at, position) = (behind_star, eaten + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether `pattern` matches exactly itself, as no character is special.
pub fn is_literal(pattern: &[u8]) -> bool {
    literal_prefix(pattern).len() == pattern.len()
}

/// The bytes that every match begins with: all before the first special character.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    &pattern[..pattern.iter().position(special).unwrap_or(pattern.len())]
}

/// The most elements of a part that are tried side by side; the table is 32 bytes for each.
const ELEMENTS_MAX: usize = 1 << 16;

/// A part of a pattern between two stars.
struct Part {
    /// Its bytes.
    length: usize,
    elements: usize,
    /// For each byte, which of the elements it matches: a bit for each.
    masks: Vec<u64>,
    words: usize,
}

impl Part {
    /// Reads the part that the pattern begins with; `None` if it has too many elements.
    fn read(pattern: &[u8], ignore_case: bool) -> Option<Part> {
        let mut starts = Vec::new();
        let mut at = 0;
        while pattern.get(at).is_some_and(|byte| *byte != b'*') {
            if starts.len() == ELEMENTS_MAX {
                return None;
            }
            starts.push(at);
            at = match_element(pattern, at, 0, ignore_case).1;
        }
        let words = starts.len().div_ceil(64);
        let mut masks = vec![0; words << 8];
        for (index, start) in starts.iter().enumerate() {
            for byte in 0..=u8::MAX {
                let is_match = match_element(pattern, *start, byte, ignore_case).0;
                masks[usize::from(byte) * words + index / 64] |=
                    u64::from(is_match) << (index % 64);
            }
        }
        Some(Part { length: at, elements: starts.len(), masks, words })
    }

    /// Where the first place ends at which it matches.
    fn find(&self, text: &[u8]) -> Option<usize> {
        let Some(last) = self.elements.checked_sub(1) else { return Some(0) };
        let mut matched = vec![0_u64; self.words];
        for (index, byte) in text.iter().enumerate() {
            let masks = &self.masks[usize::from(*byte) * self.words..][..self.words];
            let mut carry = 1;
            for (word, mask) in matched.iter_mut().zip(masks) {
                let shifted = *word << 1 | carry;
                carry = *word >> 63;
                *word = shifted & mask;
            }
            if matched[last / 64] >> (last % 64) & 1 == 1 {
                return Some(index + 1);
            }
        }
        None
    }

    /// Whether the part matches the end of a text; `pattern` is what it was read from.
    fn ends(&self, pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
        let Some(from) = text.len().checked_sub(self.elements) else { return false };
        let mut at = 0;
        text[from..].iter().all(|byte| {
            let (is_match, next) = match_element(pattern, at, *byte, ignore_case);
            at = next;
            is_match
        })
    }
}

/// Matches `byte` against the element at `at` (not a star); where the next element begins.
fn match_one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    if at == pattern.len() {
        return None;
    }
    let (is_match, next) = match_element(pattern, at, byte, ignore_case);
    is_match.then_some(next)
}

/// Whether `byte` matches the element at `at`, and where the next one begins.
fn match_element(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    match pattern[at] {
        b'?' => (true, at + 1),
        b'[' => match_class(pattern, at + 1, byte, ignore_case),
        b'\\' if at + 1 < pattern.len() => (same(pattern[at + 1], byte, ignore_case), at + 2),
        literal => (same(literal, byte, ignore_case), at + 1),
    }
}

/// Matches `byte` against the class whose first element is at `at`; where it ends.
fn match_class(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    let mut at = at + usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            [] => break,
            // An escaped member is compared as it stands, even when case is ignored: so is Redis.
            [b'\\', member, ..] => {
                found |= *member == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [first, b'-', last, ..] => {
                found |= in_range(*first, *last, byte, ignore_case);
                at += 3;
            }
            [member, ..] => {
                found |= same(*member, byte, ignore_case);
                at += 1;
            }
        }
    }
    (found != negated, at)
}

fn in_range(first: u8, last: u8, byte: u8, ignore_case: bool) -> bool {
    let (low, high) = (first.min(last), first.max(last));
    if ignore_case {
        let range = low.to_ascii_lowercase()..=high.to_ascii_lowercase();
        range.contains(&byte.to_ascii_lowercase())
    } else {
        (low..=high).contains(&byte)
    }
}

fn same(left: u8, right: u8, ignore_case: bool) -> bool {
    left == right || ignore_case && left.eq_ignore_ascii_case(&right)
}

#[cfg(test)]
mod tests {
    use super::{is_literal, literal_prefix, matches, matches_within};
    use crate::random::Random;

    #[test]
    fn patterns_match_what_the_table_says() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", false),
            ("**", "", false),
            ("*", "anything", true),
            ("a*", "a", true),
            ("**", "x", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("?", "", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[b-a]llo", "hcllo", false),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[abc", "b", true),
            ("[abc", "bc", false),
            ("[a-", "-", true),
            ("[a-]", "b", false),
            ("[a-]x", "_x", false),
            ("[", "[", false),
            ("[^", "a", true),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a\\", "a\\", true),
            ("\\a", "a", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxxcd", false),
            ("foo*bar", "foobarbar", true),
            ("*[ab]c", "acbc", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                expected,
                "{pattern} against {text}"
            );
        }
    }

    #[test]
    fn letters_match_in_either_case_where_that_is_asked_for() {
        assert!(matches(b"HeL[L]o", b"hello", true));
        assert!(!matches(b"HeLLo", b"hello", false));
        assert!(matches(b"[A-C]", b"b", true));
        assert!(matches(b"\\A", b"a", true));
        assert!(!matches(b"[\\A]", b"a", true));
    }

    /// H31: patterns that are exponential, or deeply recursive, for naive matchers.
    #[test]
    fn hostile_patterns_are_cheap() {
        let text = vec![b'a'; 10_000];
        let stars = [&b"a*".repeat(500)[..], b"b"].concat();
        assert!(!matches(&stars, &text, false));
        assert!(matches(&vec![b'*'; 1_000_000], b"text", false));
        assert!(!matches(&vec![b'['; 1_000_000], b"text", false));
        assert!(matches(&vec![b'['; 1_000_000], b"[", false));
    }

    /// Patterns and texts of few letters, so that parts match at many places, or nearly.
    #[test]
    fn places_tried_side_by_side_are_those_tried_one_by_one() {
        let mut random = Random::from_seed(1);
        let mut some = |letters: &[u8], longest: u64| -> Vec<u8> {
            let length = random.below(longest);
            (0..length).map(|_| letters[random.below(letters.len() as u64) as usize]).collect()
        };
        let mut matched = 0;
        for round in 0..30_000 {
            let (letters, longest): (&[u8], _) = match round % 3 {
                0 => (b"ab*", 12),
                1 => (b"aab*?[]^-\\", 16),
                _ => (b"aaaaaaaaaaaaaab?*", 300),
            };
            let (pattern, text) = (some(letters, longest), some(b"aaab", 2 * longest));
            for ignore_case in [false, true] {
                let expected = matches_within(&pattern, &text, ignore_case, usize::MAX >> 32);
                let found = matches_within(&pattern, &text, ignore_case, 0);
                assert_eq!(found, expected, "{pattern:?} {text:?}");
                matched += usize::from(expected);
            }
        }
        assert!(matched > 1000, "{matched}");
    }

    #[test]
    fn long_patterns_are_cheap_against_long_texts() {
        // Tried one by one, 1.6 thousand million steps each.
        let text = vec![b'a'; 40_000];
        for last in [&b"b*"[..], b"b", b"[bc]*"] {
            let pattern = [b"*", &b"a".repeat(39_990)[..], last].concat();
            assert!(!matches(&pattern, &text, false));
        }
        let pattern = [b"*", &b"?a".repeat(20_000)[..], b"*"].concat();
        assert!(matches(&pattern, &text, false));
        let pattern = [b"*", &b"a".repeat(70_000)[..], b"b*"].concat();
        assert!(!matches(&pattern, &text, false));
    }

    #[test]
    fn literal_patterns_and_prefixes_are_known() {
        assert!(is_literal(b"user:1"));
        assert!(!is_literal(b"user:?"));
        assert_eq!(literal_prefix(b"user:[0-9]*"), b"user:");
        assert_eq!(literal_prefix(b"a\\*"), b"a");
        assert_eq!(literal_prefix(b""), b"");
    }
}
