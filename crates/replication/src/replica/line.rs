//! Lines that a primary answers with, before any data.
//!
//! Invariants: a line longer than its limit is an error as soon as that is known; what a primary
//! wrote is shown in a log as one line of printable characters.

use std::fmt::Write;

/// The greatest length of a line of the handshake.
pub(super) const REPLY_MAX: usize = 255;

/// The greatest length of the line in front of data.
pub(super) const HEADER_MAX: usize = 1023;

/// How far a line has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The line without its end, and the bytes that both took.
    Whole(&'a [u8], usize),
    /// The line has not ended yet.
    Partial,
    /// The line is longer than it may be.
    TooLong,
}

impl Line<'_> {
    /// The first line of these bytes.
    pub(super) fn first(buf: &[u8], len_max: usize) -> Line<'_> {
        let end = buf.iter().take(len_max + 1).position(|byte| *byte == b'\n');
        match end {
            Some(end) => {
                let text = &buf[..end];
                Line::Whole(text.strip_suffix(b"\r").unwrap_or(text), end + 1)
            }
            None if buf.len() > len_max => Line::TooLong,
            None => Line::Partial,
        }
    }
}

/// A line as the log shows it.
pub(super) fn shown(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for byte in line {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            other => write!(text, "\\x{other:02x}").expect("a string takes any text"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Line, REPLY_MAX, shown};

    #[test]
    fn lines_end_with_or_without_a_carriage_return() {
        assert_eq!(Line::first(b"+OK\r\n+PO", 9), Line::Whole(b"+OK", 5));
        assert_eq!(Line::first(b"\n+PO", 9), Line::Whole(b"", 1));
        assert_eq!(Line::first(b"+OK\r", 9), Line::Partial);
    }

    #[test]
    fn a_line_of_255_bytes_is_the_longest() {
        let mut line = [b'x'; REPLY_MAX + 1];
        assert_eq!(Line::first(&line[..REPLY_MAX], REPLY_MAX), Line::Partial);
        assert_eq!(Line::first(&line, REPLY_MAX), Line::TooLong);
        line[REPLY_MAX] = b'\n';
        assert_eq!(Line::first(&line, REPLY_MAX), Line::Whole(&[b'x'; REPLY_MAX], 256));
    }

    #[test]
    fn a_log_shows_one_printable_line() {
        assert_eq!(shown(b"-ERR 'a'\r\x1b[2J\xff"), "-ERR 'a'\\x0d\\x1b[2J\\xff");
    }
}
