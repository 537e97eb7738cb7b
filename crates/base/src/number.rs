//! Numbers as text: strict parsing, and the exact forms that clients of Redis expect.

use std::fmt::{self, Write};
use std::ops::Deref;

use crate::float_text::{FloatText, round_binary};
use crate::grisu::Decimal;

/// Reads a signed integer in canonical form only: no plus sign, blanks, leading zeros or `-0`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => {
            let magnitude = canonical_digits(digits)?;
            if magnitude == 0 { None } else { 0_i64.checked_sub_unsigned(magnitude) }
        }
        digits => i64::try_from(canonical_digits(digits)?).ok(),
    }
}

/// Reads an unsigned integer, as strictly as [`parse_i64`].
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    canonical_digits(text)
}

/// Writes `number` into `buffer` and returns the used part.
#[inline]
pub fn format_i64(number: i64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = put_digits(number.unsigned_abs(), buffer);
    if number < 0 {
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
}

/// Writes `number` into `buffer` and returns the used part.
#[inline]
pub fn format_u64(number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let start = put_digits(number, buffer);
    &buffer[start..]
}

/// Writes the digits to the end of `buffer` and returns where they start.
#[inline]
fn put_digits(number: u64, buffer: &mut [u8; 20]) -> usize {
    let mut rest = number;
    let mut start = buffer.len();
    while rest >= 100 {
        let pair = (rest % 100) as usize;
        rest /= 100;
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&DIGIT_PAIRS[pair]);
    }
    if rest >= 10 {
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&DIGIT_PAIRS[rest as usize]);
    } else {
        start -= 1;
        buffer[start] = b'0' + rest as u8;
    }
    start
}

/// Reads a double as strtod does, but the whole text must be one number: no blanks, no NaN, and
/// neither overflow nor underflow to zero. Infinities and hexadecimal floats are accepted.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(number) = parse_whole(text) {
        return Some(number);
    }
    let (scanned, number) = scan_f64(text)?;
    let overflow = f64::is_infinite(number) && !scanned.is_infinite();
    let underflow = number == 0.0 && !scanned.is_zero();
    (!overflow && !underflow).then_some(number)
}

/// The same where the range does not matter, as C's strtod itself has it: what is beyond all
/// numbers is infinite, what is too small is 0.
pub fn parse_f64_of_any_range(text: &[u8]) -> Option<f64> {
    scan_f64(text).map(|(_, number)| number)
}

fn scan_f64(text: &[u8]) -> Option<(FloatText<'_>, f64)> {
    let scanned = FloatText::scan(text)?;
    let number = match scanned.hexadecimal() {
        Some((significand, exponent, sticky)) => {
            let (mantissa, exponent) = round_binary(significand, exponent, sticky, 53, -1074);
            let magnitude = scale(mantissa as f64, exponent);
            if scanned.negative { -magnitude } else { magnitude }
        }
        None => std::str::from_utf8(text).ok()?.parse().ok()?,
    };
    Some((scanned, number))
}

/// Digits and nothing else, as scores mostly are: up to 15 of them a double holds exactly.
fn parse_whole(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut number = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number as f64)
}

/// Writes a double as Redis since 7.2 does, with digits that read back as the same number: integers
/// plainly, very large and very small numbers with an exponent, `inf`, `-inf`, `nan`.
pub fn format_f64(number: f64) -> ShortText {
    if let Some(integer) = exact_integer(number) {
        return ShortText::of_digits(format_i64(integer, &mut [0; 20]));
    }
    let mut text = ShortText::default();
    layout_f64(number, &mut text).expect("the longest double takes 25 of the 32 bytes");
    text
}

/// Writes a double with up to 17 digits, as `%.17g` of C does: without zeros at the end, and with
/// an exponent of two digits or more where it is below -4 or above 16.
pub fn format_f64_long(number: f64) -> ShortText {
    format_f64_digits(number, 17)
}

/// Writes a double with up to `digits` digits, of which there are 1 to 17, as `%g` of C does.
pub fn format_f64_digits(number: f64, digits: usize) -> ShortText {
    let mut text = ShortText::default();
    let done = match number.is_finite() {
        true => layout_f64_digits(number, digits.clamp(1, 17), &mut text),
        false => layout_f64(number, &mut text),
    };
    done.expect("17 digits, a point, two signs and an exponent take 24 of the 32 bytes");
    text
}

/// A short ASCII text without an allocation.
#[derive(Clone, Copy, Default)]
pub struct ShortText {
    bytes: [u8; 32],
    length: u8,
}

impl Deref for ShortText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl ShortText {
    fn of_digits(digits: &[u8]) -> ShortText {
        let mut text = ShortText { length: digits.len() as u8, ..ShortText::default() };
        text.bytes[..digits.len()].copy_from_slice(digits);
        text
    }

    /// The text as a string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self).expect("only whole strings are written to it")
    }
}

impl fmt::Debug for ShortText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let end = start + text.len();
        self.bytes.get_mut(start..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

static DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[inline]
fn canonical_digits(digits: &[u8]) -> Option<u64> {
    // Nineteen digits cannot overflow, so only the twentieth needs care.
    const SAFE: usize = 19;
    if digits.is_empty() || digits.len() > SAFE + 1 || digits[0] == b'0' && digits.len() > 1 {
        return None;
    }
    let mut number = 0_u64;
    for byte in &digits[..digits.len().min(SAFE)] {
        number = number * 10 + decimal_digit(*byte)?;
    }
    match digits.get(SAFE) {
        Some(byte) => number.checked_mul(10)?.checked_add(decimal_digit(*byte)?),
        None => Some(number),
    }
}

#[inline]
fn decimal_digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

/// `mantissa * 2^exponent`, exact because the caller rounded to what a double holds.
fn scale(mantissa: f64, exponent: i64) -> f64 {
    let step = |power: i64| f64::from_bits((1023 + power).unsigned_abs() << 52);
    let mut number = mantissa;
    let mut rest = exponent.clamp(-2200, 2200);
    while rest != 0 {
        let power = rest.clamp(-1000, 1000);
        number *= step(power);
        rest -= power;
    }
    number
}

fn layout_f64(number: f64, text: &mut ShortText) -> fmt::Result {
    if number.is_nan() {
        return text.write_str("nan");
    }
    if number.is_infinite() {
        return text.write_str(if number > 0.0 { "inf" } else { "-inf" });
    }
    if number.is_sign_negative() {
        text.write_char('-')?;
    }
    if number == 0.0 {
        return text.write_char('0');
    }
    let decimal = Decimal::of(number.abs());
    layout_digits(decimal.digits(), decimal.exponent, text)
}

/// Lays out digits whose last one counts ten to the `last`.
fn layout_digits(digits: &str, last: i32, text: &mut ShortText) -> fmt::Result {
    let (lead, tail) = digits.split_at(1);
    let tail_length = i32::try_from(tail.len()).map_err(|_| fmt::Error)?;
    let exponent = last + tail_length;
    if last >= 0 && exponent.abs() < tail_length + 8 {
        let zeros = usize::try_from(last).map_err(|_| fmt::Error)?;
        write!(text, "{lead}{tail}{:0<zeros$}", "")
    } else if last < 0 && (last > -7 || exponent.abs() < 4) {
        if exponent < 0 {
            let zeros = usize::try_from(-exponent - 1).map_err(|_| fmt::Error)?;
            write!(text, "0.{:0<zeros$}{lead}{tail}", "")
        } else {
            let (whole, fraction) =
                tail.split_at(usize::try_from(exponent).map_err(|_| fmt::Error)?);
            write!(text, "{lead}{whole}.{fraction}")
        }
    } else {
        let point = if tail.is_empty() { "" } else { "." };
        write!(text, "{lead}{point}{tail}e{exponent:+}")
    }
}

fn layout_f64_digits(number: f64, count: usize, text: &mut ShortText) -> fmt::Result {
    let mut digits = ShortText::default();
    write!(digits, "{:.*e}", count - 1, number.abs())?;
    let (digits, exponent) = digits.as_str().split_once('e').ok_or(fmt::Error)?;
    let (lead, tail) = digits.split_once('.').unwrap_or((digits, ""));
    let (tail, exponent): (_, i32) =
        (tail.trim_end_matches('0'), exponent.parse().map_err(|_| fmt::Error)?);
    if number.is_sign_negative() {
        text.write_char('-')?;
    }
    match exponent {
        0.. if (exponent as usize) < count => {
            let (width, at) = (exponent as usize, tail.len().min(exponent as usize));
            let (whole, fraction) = tail.split_at(at);
            let point = if fraction.is_empty() { "" } else { "." };
            write!(text, "{lead}{whole:0<width$}{point}{fraction}")
        }
        -4..0 => {
            let zeros = (-exponent - 1) as usize;
            write!(text, "0.{:0<zeros$}{lead}{tail}", "")
        }
        _ => {
            let point = if tail.is_empty() { "" } else { "." };
            write!(text, "{lead}{point}{tail}e{exponent:+03}")
        }
    }
}

/// The integer that `number` is, if it is one well within 64 bits; not for minus zero.
fn exact_integer(number: f64) -> Option<i64> {
    const LIMIT: f64 = (i64::MAX / 2) as f64;
    let integer = number as i64;
    let same = integer as f64 == number && (integer != 0 || number.is_sign_positive());
    (number.abs() <= LIMIT && same).then_some(integer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::{
        format_f64, format_f64_digits, format_f64_long, format_i64, parse_f64,
        parse_f64_of_any_range, parse_i64, parse_u64,
    };

    #[test]
    fn fewer_digits() {
        for (number, digits, expected) in [
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e14, 14, "1e+14"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (-2.5, 1, "-2"),
            (0.000_012, 3, "1.2e-05"),
            (10.0, 1, "1e+01"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ] {
            assert_eq!(format_f64_digits(number, digits).as_str(), expected);
        }
    }

    #[test]
    fn integers() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("10", Some(10)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551615", None),
            ("99999999999999999999", None),
            ("100000000000000000000", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("00", None),
            ("01", None),
            ("-01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
            ("--1", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"-1"), None);
    }

    #[test]
    fn doubles_in() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("+1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1e3", Some(-1000.0)),
            ("1E+2", Some(100.0)),
            ("0e999999999999999999999", Some(0.0)),
            ("inf", Some(f64::INFINITY)),
            ("+Inf", Some(f64::INFINITY)),
            ("-INFINITY", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("-0X1.8p1", Some(-3.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1.fffffffffffff8p1023", None),
            ("0x.8", Some(0.5)),
            ("0x1.00000000000008", Some(1.0)),
            ("0x1.000000000000080000000000000000000000001", Some(1.000_000_000_000_000_2)),
            ("nan", None),
            ("-nan(1)", None),
            ("000000012345", Some(12345.0)),
            ("999999999999999", Some(999_999_999_999_999.0)),
            ("9007199254740993", Some(9_007_199_254_740_992.0)),
            ("12345678901234a", None),
            ("", None),
            (".", None),
            ("+", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            (" 1", None),
            ("1 ", None),
            ("1_0", None),
            ("0x", None),
            ("0x.p1", None),
            ("0x1p", None),
            ("infinit", None),
            ("1e400", None),
            ("1e-400", None),
            ("0x1p-2000", None),
            ("0x1p2000", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), expected, "{text:?}");
        }
        assert!(parse_f64(b"-0").unwrap().is_sign_negative());
        for (text, expected) in [
            ("1e400", Some(f64::INFINITY)),
            ("1e-400", Some(0.0)),
            ("0x1p1023", Some(2_f64.powi(1023))),
            ("0x1p1024", Some(f64::INFINITY)),
            ("-0x1p99999", Some(f64::NEG_INFINITY)),
            ("0x1p999999999999999999999", Some(f64::INFINITY)),
            ("0x1p-99999", Some(0.0)),
            ("0x0p99999", Some(0.0)),
            ("0x", None),
            ("nan", None),
        ] {
            assert_eq!(parse_f64_of_any_range(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn doubles_out() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (0.1, "0.1"),
            (3.25, "3.25"),
            (-1.5, "-1.5"),
            (1_234_567.5, "1234567.5"),
            (1e15, "1000000000000000"),
            (1e18, "1000000000000000000"),
            (1e19, "1e+19"),
            (1e20, "1e+20"),
            (1.234_567_890_123_456_8e19, "12345678901234567000"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (123_456.5, "123456.5"),
            (999.123_456_789, "999.123456789"),
            (99_999.123_456_789, "9.9999123456789e+4"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(format_f64(number).as_str(), expected);
        }
    }

    #[test]
    fn doubles_out_as_c_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (100.25, "100.25"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (9_223_372_036_854_775_807.0, "9.2233720368547758e+18"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-5e-324, "-4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_f64_long(number).as_str(), expected);
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(number in any::<i64>(), shift in 0_u32..64) {
            let number = number >> shift;
            let mut buffer = [0; 20];
            let text = format_i64(number, &mut buffer);
            let expected = number.to_string();
            prop_assert_eq!(text, expected.as_bytes());
            prop_assert_eq!(parse_i64(text), Some(number));
        }

        #[test]
        fn doubles_round_trip(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            if !number.is_nan() {
                prop_assert_eq!(parse_f64(&format_f64(number)), Some(number));
            }
        }
    }
}
