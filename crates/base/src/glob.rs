//! Glob patterns as KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET understand them.
//!
//! `*`, `?`, `[abc]`, `[^a-z]` and `\x`; a class that is not closed ends with the pattern.
//! Iterative, with one place to fall back to: at most pattern times text steps, whatever the
//! pattern, and no stack.

/// Whether `pattern` matches the whole of `text`; `ignore_case` folds ASCII letters.
///
/// An empty text is matched by the empty pattern alone, as in Redis: where `*` shall mean all,
/// the caller takes it so.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut position) = (0, 0);
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
            fallback = Some((behind_star, eaten + 1));
            (at, position) = (behind_star, eaten + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether `pattern` matches exactly itself: it has no special characters.
pub fn is_literal(pattern: &[u8]) -> bool {
    literal_prefix(pattern).len() == pattern.len()
}

/// The bytes that every match begins with: all before the first special character.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    &pattern[..pattern.iter().position(special).unwrap_or(pattern.len())]
}

/// Matches `byte` against the element at `at` (not a star); where the next element begins.
fn match_one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte, ignore_case),
        b'\\' if at + 1 < pattern.len() => {
            same(pattern[at + 1], byte, ignore_case).then_some(at + 2)
        }
        literal => same(literal, byte, ignore_case).then_some(at + 1),
    }
}

/// Matches `byte` against the class whose first element is at `at`.
fn match_class(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
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
    (found != negated).then_some(at)
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
    use super::{is_literal, literal_prefix, matches};

    #[test]
    fn table() {
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
    fn case() {
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

    #[test]
    fn literals() {
        assert!(is_literal(b"user:1"));
        assert!(!is_literal(b"user:?"));
        assert_eq!(literal_prefix(b"user:[0-9]*"), b"user:");
        assert_eq!(literal_prefix(b"a\\*"), b"a");
        assert_eq!(literal_prefix(b""), b"");
    }
}
