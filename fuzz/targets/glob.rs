//! Globs against an obvious, recursive matcher.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(cut) = data.iter().position(|byte| *byte == 0) else { return };
    let (pattern, text) = (&data[..cut], &data[cut + 1..]);
    let literal = base::glob::literal_prefix(pattern);
    if base::glob::matches(pattern, text, false) {
        assert!(text.starts_with(literal));
        assert!(base::glob::matches(pattern, text, true) || pattern.contains(&b'['));
    }
    if base::glob::is_literal(pattern) {
        assert_eq!(base::glob::matches(pattern, text, false), pattern == text);
    }
    // The reference takes exponential time.
    if pattern.len() <= 12 && text.len() <= 12 {
        let expected = if text.is_empty() { pattern.is_empty() } else { reference(pattern, text) };
        assert_eq!(base::glob::matches(pattern, text, false), expected);
    }
});

fn reference(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| reference(rest, &text[at..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, after @ ..]) => reference(rest, after),
        ([b'[', b'^', class @ ..], [byte, after @ ..]) => {
            let (found, rest) = class_holds(class, *byte);
            !found && reference(rest, after)
        }
        ([b'[', class @ ..], [byte, after @ ..]) => {
            let (found, rest) = class_holds(class, *byte);
            found && reference(rest, after)
        }
        ([b'\\', literal, rest @ ..] | [literal, rest @ ..], [byte, after @ ..]) => {
            literal == byte && reference(rest, after)
        }
    }
}

/// Whether a class holds a byte, and what follows the class.
fn class_holds(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (found, rest) = match class {
        [] => return (false, class),
        [b'\\', member, rest @ ..] => (*member == byte, rest),
        [b']', rest @ ..] => return (false, rest),
        [a, b'-', b, rest @ ..] => ((*a.min(b)..=*a.max(b)).contains(&byte), rest),
        [member, rest @ ..] => (*member == byte, rest),
    };
    let (others, rest) = class_holds(rest, byte);
    (found || others, rest)
}
