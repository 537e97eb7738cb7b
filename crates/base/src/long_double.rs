//! The 80-bit extended float of the x87, in software.
//!
//! INCRBYFLOAT and HINCRBYFLOAT add in C's `long double` and print it with 17 decimals; clients
//! see the digits, so the format is reproduced exactly: 64 bits of mantissa, rounding half to
//! even, gradual underflow.
//!
//! Invariant of a finite number: the mantissa's top bit is set, or the exponent is the least.

use std::cmp::Ordering;

use crate::float_text::{Digits, FloatText, length, round_binary};

mod big;

use big::Big;

/// Texts of this length or longer are no numbers; the longest number printed is shorter.
const MAX_TEXT: usize = 5 * 1024;
const PRECISION: u32 = 64;
/// The exponents of the last mantissa bit.
const LEAST_EXPONENT: i64 = -16_445;
const GREATEST_EXPONENT: i64 = 16_320;
/// Marks infinities, and NaN if the mantissa is zero; greater than every exponent.
const NOT_FINITE: i64 = i64::MAX;
const DECIMALS: usize = 17;

/// An 80-bit extended float.
#[derive(Clone, Copy, Debug)]
pub struct LongDouble {
    negative: bool,
    exponent: i64,
    mantissa: u64,
}

impl LongDouble {
    /// The greatest finite number.
    pub const MAX: LongDouble =
        LongDouble { negative: false, exponent: GREATEST_EXPONENT, mantissa: u64::MAX };

    /// Reads a number as strtold does, correctly rounded, but the whole text must be one number:
    /// no blanks, no NaN, and neither overflow nor underflow to zero. Infinities are accepted.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let scanned = FloatText::scan(text)?;
        let negative = scanned.negative;
        if scanned.is_infinite() {
            return Some(LongDouble::infinity(negative));
        }
        if scanned.is_zero() {
            return Some(LongDouble { negative, exponent: LEAST_EXPONENT, mantissa: 0 });
        }
        let (significand, exponent, sticky) = match scanned.decimal() {
            Some(digits) => leading_bits(digits)?,
            None => scanned.hexadecimal()?,
        };
        let number = LongDouble::round(negative, significand, exponent, sticky);
        (number.is_finite() && number.mantissa != 0).then_some(number)
    }

    /// Whether this is neither an infinity nor NaN.
    pub fn is_finite(self) -> bool {
        self.exponent != NOT_FINITE
    }

    /// 17 decimals, trailing zeros cut; at most 4,951 bytes.
    pub fn format_human(self) -> String {
        let sign = if self.negative { "-" } else { "" };
        if !self.is_finite() {
            return if self.is_nan() { "nan".into() } else { format!("{sign}inf") };
        }
        let digits = format!("{:0>width$}", self.scaled_digits(), width = DECIMALS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - DECIMALS);
        match fraction.trim_end_matches('0') {
            "" if whole == "0" => "0".into(),
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        }
    }

    /// Whether this is the result of an undefined sum.
    pub fn is_nan(self) -> bool {
        !self.is_finite() && self.mantissa == 0
    }

    /// The magnitude of a finite number as `(mantissa, exponent)`: `mantissa * 2^exponent`.
    pub(crate) fn parts(self) -> (u64, i64) {
        (self.mantissa, self.exponent)
    }

    fn infinity(negative: bool) -> LongDouble {
        LongDouble { negative, exponent: NOT_FINITE, mantissa: 1 << 63 }
    }

    fn round(negative: bool, significand: u128, exponent: i64, sticky: bool) -> LongDouble {
        let (mantissa, exponent) =
            round_binary(significand, exponent, sticky, PRECISION, LEAST_EXPONENT);
        if exponent > GREATEST_EXPONENT {
            return LongDouble::infinity(negative);
        }
        LongDouble { negative, exponent, mantissa }
    }

    /// The magnitude times 10^17, rounded half to even to an integer, in decimal.
    fn scaled_digits(self) -> String {
        // Times 10^17 is times 5^17 (40 bits) and times 2^17.
        let scaled = u128::from(self.mantissa) * 5_u128.pow(DECIMALS as u32);
        let exponent = self.exponent + DECIMALS as i64;
        if let Ok(shift) = usize::try_from(exponent) {
            let mut number = Big::from(scaled);
            number.shift_left(shift);
            number.into_decimal()
        } else {
            divide_rounding(scaled, exponent.unsigned_abs()).to_string()
        }
    }

    /// The order of the magnitudes: the invariant makes it that of the fields.
    fn magnitude(self) -> (i64, u64) {
        (self.exponent, self.mantissa)
    }
}

impl std::ops::Add for LongDouble {
    type Output = LongDouble;

    fn add(self, other: LongDouble) -> LongDouble {
        let (large, small) =
            if self.magnitude() >= other.magnitude() { (self, other) } else { (other, self) };
        if !large.is_finite() {
            let undefined =
                small.is_nan() || !small.is_finite() && small.negative != large.negative;
            return if undefined { LongDouble { mantissa: 0, ..large } } else { large };
        }
        // Room for the carry above, and for more guard bits than rounding needs below.
        const GUARD: u32 = 62;
        let distance = (large.exponent - small.exponent).unsigned_abs();
        let left = u128::from(large.mantissa) << GUARD;
        let (right, sticky) = shift_right(u128::from(small.mantissa) << GUARD, distance);
        let sum = if large.negative == small.negative {
            left + right
        } else {
            // What was shifted out is taken off too: one unit, of which a part is given back as
            // the sticky rest.
            left - right - u128::from(sticky)
        };
        let negative = large.negative && sum != 0;
        LongDouble::round(negative, sum, large.exponent - i64::from(GUARD), sticky)
    }
}

impl std::ops::Neg for LongDouble {
    type Output = LongDouble;

    fn neg(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }
}

impl From<i64> for LongDouble {
    fn from(number: i64) -> LongDouble {
        LongDouble::round(number < 0, u128::from(number.unsigned_abs()), 0, false)
    }
}

impl PartialEq for LongDouble {
    fn eq(&self, other: &LongDouble) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &LongDouble) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        if self.mantissa == 0 && other.mantissa == 0 {
            return Some(Ordering::Equal);
        }
        Some(match (self.negative, other.negative) {
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        })
    }
}

/// The leading bits of a decimal number that is not zero, their exponent of two, and whether
/// anything follows; `None` if it is far outside the range.
fn leading_bits(digits: Digits<'_>) -> Option<(u128, i64, bool)> {
    let all: Vec<u8> = digits.whole.iter().chain(digits.fraction).copied().collect();
    let zeros = all.iter().take_while(|digit| **digit == b'0').count();
    let end = all.len() - all.iter().rev().take_while(|digit| **digit == b'0').count();
    let significant = &all[zeros..end];
    let trailing = length(&all[end..]);
    let exponent = digits.exponent - length(digits.fraction) + trailing;
    // The number lies between 10^(magnitude - 1) and 10^magnitude.
    let magnitude = exponent + length(significant);
    if !(-4_960..=4_940).contains(&magnitude) {
        return None;
    }
    let power = usize::try_from(exponent.unsigned_abs()).ok()?;
    let mut number = Big::from_decimal(significant);
    if exponent >= 0 {
        number.multiply_power_of_five(power);
        let (bits, dropped, sticky) = number.leading_bits();
        return Some((bits, exponent + dropped, sticky));
    }
    let mut divisor = Big::from(1);
    divisor.multiply_power_of_five(power);
    let (bits, dropped, sticky) = number.divide_leading(divisor);
    Some((bits, exponent + dropped, sticky))
}

/// Shifts right by any distance; whether bits that are not zero were lost.
fn shift_right(number: u128, distance: u64) -> (u128, bool) {
    let distance = u32::try_from(distance).unwrap_or(u32::MAX);
    match number.checked_shr(distance) {
        Some(shifted) => (shifted, shifted << distance != number),
        None => (0, number != 0),
    }
}

/// `number / 2^distance` rounded half to even; the distance is not zero.
fn divide_rounding(number: u128, distance: u64) -> u128 {
    // One bit more than wanted: the half.
    let (doubled, sticky) = shift_right(number, distance - 1);
    let (kept, half) = (doubled >> 1, doubled & 1 == 1);
    kept + u128::from(half && (sticky || kept & 1 == 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::{LongDouble, MAX_TEXT};

    fn number(text: &str) -> LongDouble {
        LongDouble::parse(text.as_bytes()).unwrap()
    }

    fn sum(left: &str, right: &str) -> String {
        (number(left) + number(right)).format_human()
    }

    fn printed(text: &str) -> Option<String> {
        LongDouble::parse(text.as_bytes()).map(LongDouble::format_human)
    }

    /// Checked against INCRBYFLOAT of Redis 7.0 and 8.2 on x86-64.
    #[test]
    fn sums_are_those_of_incrbyfloat() {
        for (left, right, expected) in [
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("10.5", "-5", "5.5"),
            ("1", "-1", "0"),
            ("-1", "1", "0"),
            ("-1", "0.5", "-0.5"),
            ("1e20", "0.1", "100000000000000000000"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1", "1e-18", "1"),
            ("17179869184", "1.5", "17179869185.5"),
            ("-0.00000000000000001", "0", "-0.00000000000000001"),
            ("-1e-30", "0", "0"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "-0.5", "18446744073709551616"),
            ("18446744073709551616", "-0.75", "18446744073709551615"),
            ("36893488147419103232", "3", "36893488147419103236"),
            (
                "-597067140513257378.12633489038568729",
                "-7.802845829697309440e8",
                "-597067141293541961.125",
            ),
            ("-8.18", "14622932046616049.5e-17", "-8.03377067953383951"),
            ("-38.811738733310854", "4.838094553530210847e-8", "-38.81173868492990846"),
            ("-9231722956.65716315", "-5.570079000797352940e23", "-557007900079744525729792"),
            ("-942106338771.179600121018058588080", "-6.69", "-942106338777.86960011720657349"),
            ("inf", "1", "inf"),
            ("1e4932", "-inf", "-inf"),
            ("1e4932", "1e4932", "inf"),
            ("inf", "-inf", "nan"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
            assert_eq!(sum(right, left), expected, "{right} + {left}");
        }
    }

    #[test]
    fn reading_and_printing() {
        for (text, expected) in [
            ("0", Some("0")),
            ("-0", Some("0")),
            ("+1", Some("1")),
            (".5", Some("0.5")),
            ("5.", Some("5")),
            ("0x1.8p3", Some("12")),
            ("0x1.ffffffffffffffffp0", Some("2")),
            ("0x1.fffffffffffffffep0", Some("2")),
            ("1e-17", Some("0.00000000000000001")),
            ("5.1e-18", Some("0.00000000000000001")),
            ("4.9e-18", Some("0")),
            ("3.6e-4951", Some("0")),
            ("0x1p-16445", Some("0")),
            ("0e99999999999999999999", Some("0")),
            ("inf", Some("inf")),
            ("-Infinity", Some("-inf")),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1e", None),
            ("0x", None),
            ("1.2e4932", None),
            ("1e99999999999999999999", None),
            ("0x1p16384", None),
            ("1e-4960", None),
            ("1e-99999999999999999999", None),
            ("0x1p-16447", None),
        ] {
            assert_eq!(printed(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_longest_texts() {
        let greatest = printed("1.18973149535723176502e4932").unwrap();
        assert!(greatest.starts_with("1189731495357231765") && greatest.len() == 4933);
        assert_eq!(printed(&greatest).as_deref(), Some(&*greatest));
        let ones = "1".repeat(MAX_TEXT - 3);
        assert_eq!(printed(&format!("0.{ones}")).as_deref(), Some("0.11111111111111111"));
        assert_eq!(printed(&format!("0.{ones}1")), None);
        assert_eq!(printed(&"1".repeat(4934)), None);
    }

    #[test]
    fn numbers_compare_in_rising_order() {
        let rising = ["-inf", "-1e30", "-2", "-1e-4940", "0", "1e-4940", "1", "1.5", "2", "inf"];
        for (index, left) in rising.iter().enumerate() {
            for (other, right) in rising.iter().enumerate() {
                let order = number(left).partial_cmp(&number(right));
                assert_eq!(order, Some(index.cmp(&other)), "{left} to {right}");
            }
        }
        assert!(number("-0") == number("0"));
        let undefined = number("inf") + number("-inf");
        assert!(undefined != undefined && !undefined.is_finite());
        assert!(!(undefined + number("inf")).is_finite());
    }

    proptest! {
        #[test]
        fn integers_are_exact(left in any::<i64>(), right in any::<i64>()) {
            let exact = i128::from(left) + i128::from(right);
            prop_assert_eq!(number(&left.to_string()), LongDouble::from(left));
            // A sum of 65 bits is rounded to an even number.
            if exact.unsigned_abs() <= u128::from(u64::MAX) {
                let sum = LongDouble::from(left) + LongDouble::from(right);
                prop_assert_eq!(sum.format_human(), exact.to_string());
            }
        }

        /// A double is a long double too, and prints with its exact digits.
        #[test]
        fn doubles_are_exact(mantissa in -(1_i64 << 53)..1 << 53, shift in 0..17_u32) {
            let double = mantissa as f64 / f64::from(1 << shift);
            let exact = format!("{double:.17}");
            let expected = exact.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(number(&exact).format_human(), expected);
        }
    }
}
