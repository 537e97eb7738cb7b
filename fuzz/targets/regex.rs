//! Regular expressions of any bytes: an error, or an expression of bounded size that means the same
//! in parentheses and beside itself. A text spelled out is found in itself and in nothing longer.
#![no_main]

use std::fmt::Write;

use base::regex::{Matcher, PROGRAM_MAX, Regex};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(cut) = data.iter().position(|byte| *byte == 0) else { return };
    let (pattern, text) = (&data[..cut], &data[cut + 1..]);
    let mut matcher = Matcher::default();
    spelled_out(text, &mut matcher);
    let Ok(regex) = Regex::new(pattern, false) else { return };
    assert!(regex.program_len() <= PROGRAM_MAX);
    let found = regex.is_match(text, &mut matcher);
    for [before, between, after] in [["(", "", ")"], ["(", "", "){1}"], ["", "|", ""]] {
        let again = if between.is_empty() { &[][..] } else { pattern };
        let parts = [before.as_bytes(), pattern, between.as_bytes(), again, after.as_bytes()];
        if let Ok(wrapped) = Regex::new(&parts.concat(), false) {
            assert_eq!(wrapped.is_match(text, &mut matcher), found, "{before}..{between}..{after}");
        }
    }
    if let Ok(folded) = Regex::new(pattern, true) {
        let upper = folded.is_match(&text.to_ascii_uppercase(), &mut matcher);
        assert_eq!(folded.is_match(&text.to_ascii_lowercase(), &mut matcher), upper);
    }
});

fn spelled_out(text: &[u8], matcher: &mut Matcher) {
    let mut pattern = "^".to_owned();
    for byte in text {
        write!(pattern, "\\x{byte:02x}").expect("a string can always be written to");
    }
    pattern.push('$');
    let Ok(regex) = Regex::new(pattern.as_bytes(), false) else { return };
    assert!(regex.is_match(text, matcher));
    assert!(!regex.is_match(&[text, b"x"].concat(), matcher));
}
