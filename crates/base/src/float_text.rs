//! The grammar of floating-point text as the C library reads it, and rounding to a binary format:
//! what doubles and long doubles have in common.

/// A text that is one floating-point number, taken apart but not yet evaluated.
pub(crate) struct FloatText<'a> {
    /// Whether a minus sign leads.
    pub(crate) negative: bool,
    form: Form<'a>,
}

enum Form<'a> {
    Infinity,
    Decimal(Digits<'a>),
    Hexadecimal(Digits<'a>),
}

/// The digits around the point, and the written exponent (of ten or of two).
#[derive(Clone, Copy)]
pub(crate) struct Digits<'a> {
    pub(crate) whole: &'a [u8],
    pub(crate) fraction: &'a [u8],
    pub(crate) exponent: i64,
}

/// Beyond every format's range whatever the digits, and far from the limits of an `i64`.
const EXPONENT_BOUND: i64 = 1 << 48;

impl<'a> FloatText<'a> {
    /// Takes a text apart; `None` if it is not entirely one number, or is NaN.
    pub(crate) fn scan(text: &'a [u8]) -> Option<FloatText<'a>> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let form = match rest {
            [b'0', b'x' | b'X', digits @ ..] => {
                Form::Hexadecimal(scan_digits(digits, u8::is_ascii_hexdigit, b'p')?)
            }
            word if word.eq_ignore_ascii_case(b"inf") => Form::Infinity,
            word if word.eq_ignore_ascii_case(b"infinity") => Form::Infinity,
            digits => Form::Decimal(scan_digits(digits, u8::is_ascii_digit, b'e')?),
        };
        Some(FloatText { negative, form })
    }

    /// Whether the text says infinity.
    pub(crate) fn is_infinite(&self) -> bool {
        matches!(self.form, Form::Infinity)
    }

    /// Whether all digits are zeros.
    pub(crate) fn is_zero(&self) -> bool {
        match self.form {
            Form::Infinity => false,
            Form::Decimal(digits) | Form::Hexadecimal(digits) => {
                digits.whole.iter().chain(digits.fraction).all(|digit| *digit == b'0')
            }
        }
    }

    /// The digits, if the text is decimal.
    pub(crate) fn decimal(&self) -> Option<Digits<'a>> {
        if let Form::Decimal(digits) = self.form { Some(digits) } else { None }
    }

    /// If the text is hexadecimal: its leading bits, their exponent of two, and whether bits that
    /// are not zero follow.
    pub(crate) fn hexadecimal(&self) -> Option<(u128, i64, bool)> {
        let Form::Hexadecimal(digits) = self.form else { return None };
        let mut significand = 0_u128;
        let mut sticky = false;
        let mut exponent = digits.exponent - 4 * length(digits.fraction);
        for digit in digits.whole.iter().chain(digits.fraction) {
            let value = char::from(*digit).to_digit(16).expect("the scan took only such digits");
            if significand >> 124 == 0 {
                significand = significand << 4 | u128::from(value);
            } else {
                sticky |= value != 0;
                exponent += 4;
            }
        }
        Some((significand, exponent, sticky))
    }
}

/// Rounds `significand * 2^exponent` (plus something smaller than its last bit if `sticky`) half
/// to even, to at most `precision` bits and an exponent of at least `least`. The result has
/// exactly `precision` bits unless its exponent is `least`.
///
/// A sticky significand must have more than `precision + 1` bits.
pub(crate) fn round_binary(
    significand: u128,
    exponent: i64,
    sticky: bool,
    precision: u32,
    least: i64,
) -> (u64, i64) {
    if significand == 0 {
        return (0, least);
    }
    let bits = i64::from(u128::BITS - significand.leading_zeros());
    let drop = (bits - i64::from(precision)).max(least - exponent);
    if drop <= 0 {
        return ((significand << drop.unsigned_abs()) as u64, exponent + drop);
    }
    if drop > i64::from(u128::BITS) {
        return (0, least);
    }
    let half = 1_u128 << (drop - 1);
    let kept = significand.checked_shr(drop as u32).unwrap_or(0);
    let dropped = significand & (half | (half - 1));
    let up = dropped > half || dropped == half && (sticky || kept & 1 == 1);
    let rounded = kept + u128::from(up);
    if rounded >> precision == 0 {
        (rounded as u64, exponent + drop)
    } else {
        ((rounded >> 1) as u64, exponent + drop + 1)
    }
}

fn scan_digits(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<Digits<'_>> {
    let (whole, rest) = leading(text, is_digit);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => leading(rest, is_digit),
        rest => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [letter, rest @ ..] if letter.to_ascii_lowercase() == mark => scan_exponent(rest)?,
        _ => return None,
    };
    Some(Digits { whole, fraction, exponent })
}

fn scan_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0_i64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(10)?;
        exponent = (exponent * 10 + i64::from(digit)).min(EXPONENT_BOUND);
    }
    Some(if negative { -exponent } else { exponent })
}

fn leading(text: &[u8], is_digit: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| is_digit(byte)).count())
}

/// The length of a slice as a signed number, for exponents.
pub(crate) fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).expect("a slice is never longer than isize::MAX")
}
