//! Quoted text: how logs and MONITOR show bytes, and how inline commands and config lines are
//! cut into arguments. The two are inverse: splitting a quoted text gives the bytes back.

use std::fmt::Write;

/// `bytes` in double quotes, all that is not printable ASCII escaped.
pub fn quote(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    quote_to(&mut text, bytes);
    text
}

/// Appends what [`quote`] gives to a text.
pub fn quote_to(text: &mut String, bytes: &[u8]) {
    text.push('"');
    push_all_escaped(text, bytes);
    text.push('"');
}

/// `bytes` without quotes around them, as they may be shown on a terminal or in a line.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    push_all_escaped(&mut text, bytes);
    text
}

/// What needs no escapes is copied in one piece.
fn push_all_escaped(text: &mut String, bytes: &[u8]) {
    text.reserve(bytes.len());
    for part in bytes.chunk_by(|one, other| is_plain(*one) == is_plain(*other)) {
        match std::str::from_utf8(part) {
            Ok(plain) if is_plain(part[0]) => text.push_str(plain),
            _ => part.iter().for_each(|byte| push_escaped(text, *byte)),
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'"'
}

fn push_escaped(text: &mut String, byte: u8) {
    match byte {
        b'\\' | b'"' => text.extend(['\\', char::from(byte)]),
        b'\n' => text.push_str("\\n"),
        b'\r' => text.push_str("\\r"),
        b'\t' => text.push_str("\\t"),
        0x07 => text.push_str("\\a"),
        0x08 => text.push_str("\\b"),
        b' '..=b'~' => text.push(char::from(byte)),
        _ => write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail"),
    }
}

/// The arguments of a line, cut at blanks outside quotes; `None` when quotes are unbalanced or
/// something sticks to a closing quote. A NUL ends the line.
pub fn split_arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut rest = skip_blanks(line);
    let mut arguments = Vec::new();
    while !rest.is_empty() {
        let (argument, after) = one_argument(rest)?;
        arguments.push(argument);
        rest = skip_blanks(after);
    }
    Some(arguments)
}

fn skip_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
    &line[blanks..]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Reads one argument from a line that begins with one; also what follows it.
fn one_argument(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut argument = Vec::new();
    let mut rest = line;
    loop {
        match rest {
            [] => return Some((argument, rest)),
            // Unlike between arguments, vertical tab and form feed do not end one.
            [b' ' | b'\n' | b'\r' | b'\t', after @ ..] => return Some((argument, after)),
            [b'"', inside @ ..] => {
                let after = double_quoted(inside, &mut argument)?;
                return ends_argument(after).then_some((argument, after));
            }
            [b'\'', inside @ ..] => {
                let after = single_quoted(inside, &mut argument)?;
                return ends_argument(after).then_some((argument, after));
            }
            [byte, after @ ..] => {
                argument.push(*byte);
                rest = after;
            }
        }
    }
}

fn ends_argument(after_quote: &[u8]) -> bool {
    after_quote.first().is_none_or(|byte| is_blank(*byte))
}

fn double_quoted<'a>(mut rest: &'a [u8], argument: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                argument.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                argument.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                argument.push(*byte);
                rest = after;
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], argument: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                argument.push(b'\'');
                rest = after;
            }
            [byte, after @ ..] => {
                argument.push(*byte);
                rest = after;
            }
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// A client's word as errors show it, byte for byte: up to its first NUL, and only so many bytes.
#[must_use]
pub fn shown(word: &[u8], most: usize) -> &[u8] {
    let end = word.iter().take(most).take_while(|byte| **byte != 0).count();
    &word[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert_eq, proptest};

    use super::{quote, split_arguments};

    fn split(line: &str) -> Option<Vec<String>> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        split_arguments(line.as_bytes()).map(|list| list.into_iter().map(text).collect())
    }

    #[test]
    fn quoting() {
        assert_eq!(quote(b"plain 'text'"), "\"plain 'text'\"");
        assert_eq!(quote(b"\\ \" \n\r\t\x07\x08\0\x7f\xff"), r#""\\ \" \n\r\t\a\b\x00\x7f\xff""#);
    }

    #[test]
    fn splitting() {
        for (line, expected) in [
            ("", Some(vec![])),
            ("  \t\x0b ", Some(vec![])),
            ("set key value\r", Some(vec!["set", "key", "value"])),
            ("  a  'b c' \"d\\x65\\n\" ", Some(vec!["a", "b c", "de\n"])),
            ("'it\\'s' \"\\\"\"", Some(vec!["it's", "\""])),
            ("'\\n'", Some(vec!["\\n"])),
            ("\"\\q\\x4\"", Some(vec!["qx4"])),
            ("\"\" ''", Some(vec!["", ""])),
            ("ab\"cd\"", Some(vec!["abcd"])),
            ("a\x0bb", Some(vec!["a\x0bb"])),
            ("get a\0b", Some(vec!["get", "a"])),
            ("\"a\"b", None),
            ("'a'b", None),
            ("\"a", None),
            ("'a", None),
            ("\"a\\", None),
            ("\"a\\\"", None),
            ("\"a\0\"", None),
        ] {
            let expected = expected.map(|list| list.into_iter().map(String::from).collect());
            assert_eq!(split(line), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn split_undoes_quote(arguments in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
            let line: Vec<String> = arguments.iter().map(|argument| quote(argument)).collect();
            prop_assert_eq!(split_arguments(line.join(" ").as_bytes()), Some(arguments));
        }
    }
}
