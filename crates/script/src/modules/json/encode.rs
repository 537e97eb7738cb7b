//! What of JSON is written without a look at Lua: numbers, texts, and what counts as an array.
//!
//! Invariant: a number has at most as many digits as the settings say, whichever way it is written.

use base::number::{format_f64_digits, format_i64};

use super::{Invalid, Settings};

/// Bytes that are written as they are.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 32 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain[b'/' as usize] = false;
    plain[127] = false;
    plain
};

/// Appends a number; `false` if it is none that the settings allow.
pub(super) fn push_number(out: &mut Vec<u8>, number: f64, settings: &Settings) -> bool {
    /// Integers below it have no more than the fourteen digits that are usual.
    const SHORT: f64 = 1e14;
    let integer = number as i64;
    if settings.precision == 14 && number.abs() < SHORT && integer as f64 == number {
        if integer == 0 && number.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(format_i64(integer, &mut [0; 20]));
        return true;
    }
    if !number.is_finite() {
        match settings.encodes_invalid {
            Invalid::Refused => return false,
            Invalid::Null => {
                out.extend_from_slice(b"null");
                return true;
            }
            Invalid::Written => {}
        }
    }
    out.extend_from_slice(&format_f64_digits(number, settings.precision));
    true
}

/// The most bytes that one becomes.
pub(super) const ESCAPED_MAX: usize = 6;

/// How many bytes a text becomes, in quotes.
pub(super) fn text_len(text: &[u8]) -> usize {
    let more = |byte: &u8| match byte {
        byte if PLAIN[usize::from(*byte)] => 0,
        8 | 9 | 10 | 12 | 13 => 1,
        0..32 | 127 => ESCAPED_MAX - 1,
        _ => 1,
    };
    2 + text.len() + text.iter().map(more).sum::<usize>()
}

/// Appends a text in quotes.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| !PLAIN[usize::from(*byte)]) {
        let (before, from) = rest.split_at(plain);
        out.extend_from_slice(before);
        let byte = from[0];
        rest = &from[1..];
        let escape = match byte {
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            0..32 | 127 => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                let digits = [digit(byte >> 4), digit(byte & 0xf)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
                continue;
            }
            other => other,
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The keys of a table, as far as they tell whether it is an array.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) count: usize,
    /// The greatest, if all are positive integers.
    pub(super) greatest: Option<usize>,
}

/// What a table is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// With so many elements.
    Array(usize),
    /// An empty table: an array if it is marked as one, else an object.
    Empty,
    Object,
    /// Neither: the table would be an array of very many nulls.
    TooSparse,
}

impl Keys {
    /// What a table with such keys is.
    pub(super) fn shape(self, settings: &Settings) -> Shape {
        let Some(greatest) = self.greatest else { return Shape::Object };
        if greatest == 0 {
            return Shape::Empty;
        }
        let is_sparse = settings.sparse_ratio > 0
            && greatest > self.count.saturating_mul(settings.sparse_ratio)
            && greatest > settings.sparse_safe;
        match (is_sparse, settings.convert_sparse) {
            (false, _) => Shape::Array(greatest),
            (true, true) => Shape::Object,
            (true, false) => Shape::TooSparse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{push_text, text_len};

    #[test]
    fn a_text_becomes_as_long_as_it_was_said_to() {
        let all: Vec<u8> = (0..=255).collect();
        let texts = all.iter().map(std::slice::from_ref).chain([&b""[..], b"plain", &all]);
        for text in texts {
            let mut out = Vec::new();
            push_text(&mut out, text);
            assert_eq!(text_len(text), out.len(), "{text:?}");
        }
    }
}
