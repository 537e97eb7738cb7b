//! The decimal digits of a double, by the algorithm Grisu2 (Florian Loitsch, "Printing
//! Floating-Point Numbers Quickly and Accurately with Integers", 2010).
//!
//! Redis prints doubles with it since 7.2. Its digits always read back as the same number, but in
//! about one of 300 cases they are not the fewest or not the closest, and clients see them: so the
//! standard library's, which are both, would differ.
//!
//! Invariant: the interval in which digits are sought is narrowed by the error of its ends, so
//! whatever is found within reads back as the number.

use std::sync::LazyLock;

use crate::long_double::LongDouble;

/// `mantissa * 2^exponent`.
#[derive(Clone, Copy)]
struct Float {
    mantissa: u64,
    exponent: i32,
}

/// A number in decimal: its digits times ten to the `exponent`.
pub(crate) struct Decimal {
    digits: [u8; MAX_DIGITS],
    length: usize,
    /// The power of ten of the last digit.
    pub(crate) exponent: i32,
}

/// No double needs more than 17; the search ends when the interval is left.
const MAX_DIGITS: usize = 20;

/// The bits of a double's mantissa, the leading one not stored.
const STORED_BITS: u32 = 52;
const HIDDEN_BIT: u64 = 1 << STORED_BITS;
/// The exponent of the last bit of the smallest doubles.
const LEAST_EXPONENT: i32 = -1074;

/// Powers of ten so far apart that one of them always brings a number into the window.
const POWER_STEP: i32 = 8;
const LEAST_POWER: i32 = -348;
const POWERS: usize = 87;
/// The window of the exponent after scaling: the whole part fits 32 bits, and the fraction leaves
/// four bits to multiply by ten.
const WINDOW: std::ops::RangeInclusive<i32> = -60..=-32;

impl Decimal {
    /// The digits of a positive finite number that is not zero.
    pub(crate) fn of(number: f64) -> Decimal {
        let (exact, [lower, upper]) = decompose(number);
        let (power, scale) = scale_for(upper.exponent);
        // Each product is off by less than one unit of its last place.
        let upper = Float { mantissa: upper.scaled(scale).mantissa - 1, ..upper.scaled(scale) };
        let lower = lower.scaled(scale).mantissa + 1;
        let search = Search {
            upper,
            to_exact: upper.mantissa - exact.scaled(scale).mantissa,
            interval: upper.mantissa - lower,
        };
        let mut decimal = Decimal { digits: [0; MAX_DIGITS], length: 0, exponent: -power };
        search.run(&mut decimal);
        decimal
    }

    /// The digits as text.
    pub(crate) fn digits(&self) -> &str {
        str::from_utf8(&self.digits[..self.length]).expect("only digits are written to it")
    }

    /// Appends a digit; leading zeros are none.
    fn push(&mut self, digit: u64) {
        if digit != 0 || self.length != 0 {
            self.digits[self.length] = b'0' + digit as u8;
            self.length += 1;
        }
    }
}

impl Float {
    fn normalised(self) -> Float {
        let shift = self.mantissa.leading_zeros();
        Float { mantissa: self.mantissa << shift, exponent: self.exponent - shift as i32 }
    }

    /// The product's upper half. The lower quarters are cut off before they are added, as the
    /// digits that others print depend on it.
    fn scaled(self, other: Float) -> Float {
        let halves = |number: u64| (number >> 32, number & u64::from(u32::MAX));
        let (a, b) = halves(self.mantissa);
        let (c, d) = halves(other.mantissa);
        let ((ad_high, ad_low), (bc_high, bc_low)) = (halves(a * d), halves(b * c));
        let middle = ad_low + bc_low + ((b * d) >> 32) + (1 << 31);
        Float {
            mantissa: a * c + ad_high + bc_high + (middle >> 32),
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// The number, and the middles between it and its neighbours, all normalised and the latter with
/// one exponent.
fn decompose(number: f64) -> (Float, [Float; 2]) {
    let stored = number.to_bits() & (HIDDEN_BIT - 1);
    let exponent = (number.to_bits() >> STORED_BITS) as i32;
    let exact = match exponent {
        0 => Float { mantissa: stored, exponent: LEAST_EXPONENT },
        _ => Float { mantissa: stored | HIDDEN_BIT, exponent: LEAST_EXPONENT - 1 + exponent },
    };
    let upper = Float { mantissa: exact.mantissa * 2 + 1, exponent: exact.exponent - 1 };
    let upper = upper.normalised();
    // Below a power of two doubles lie closer.
    let closer = if exact.mantissa == HIDDEN_BIT { 2 } else { 1 };
    let lower = (exact.mantissa << closer) - 1;
    let shift = exact.exponent - closer - upper.exponent;
    let lower = Float { mantissa: lower << shift, exponent: upper.exponent };
    (exact.normalised(), [lower, upper])
}

/// A power of ten that brings an exponent into the window, and which.
fn scale_for(exponent: i32) -> (i32, Float) {
    static TABLE: LazyLock<[Float; POWERS]> = LazyLock::new(|| std::array::from_fn(power_of_ten));
    let lands = |scale: &Float| WINDOW.contains(&(exponent + scale.exponent + 64));
    // Steps of eight powers move by 26 or 27 bits, so the window holds one or two of them; the
    // estimate, from the logarithm of two, decides which one others take.
    const LOG_TEN_OF_TWO: f64 = 0.301_029_995_663_981_14;
    let estimate = (f64::from(-(exponent + POWERS as i32)) * LOG_TEN_OF_TWO) as i32;
    let mut index = ((estimate - LEAST_POWER) / POWER_STEP) as usize;
    while !lands(&TABLE[index]) {
        if exponent + TABLE[index].exponent + 64 < *WINDOW.start() {
            index += 1;
        } else {
            index -= 1;
        }
    }
    (LEAST_POWER + POWER_STEP * index as i32, TABLE[index])
}

/// A power of ten to 64 bits, correctly rounded: which is what a long double is.
fn power_of_ten(index: usize) -> Float {
    let power = LEAST_POWER + POWER_STEP * index as i32;
    let number = LongDouble::parse(format!("1e{power}").as_bytes());
    let (mantissa, exponent) = number.expect("it is in range").parts();
    Float { mantissa, exponent: exponent as i32 }
}

/// The search for the digits of a number in an interval.
struct Search {
    /// The upper end.
    upper: Float,
    /// How far below it the number lies.
    to_exact: u64,
    /// How wide the interval is.
    interval: u64,
}

impl Search {
    /// Writes digits of the upper end until what is left of it lies within the interval.
    fn run(&self, decimal: &mut Decimal) {
        let fraction_bits = self.upper.exponent.unsigned_abs();
        let one = 1_u64 << fraction_bits;
        let mut whole = self.upper.mantissa >> fraction_bits;
        let mut fraction = self.upper.mantissa & (one - 1);
        for place in (0..10).rev() {
            let unit = 10_u64.pow(place);
            decimal.push(whole / unit);
            whole %= unit;
            let rest = (whole << fraction_bits) + fraction;
            if rest <= self.interval {
                decimal.exponent += place as i32;
                return self.approach(decimal, rest, unit << fraction_bits, 1);
            }
        }
        let mut scale = 1;
        loop {
            fraction *= 10;
            scale *= 10;
            decimal.exponent -= 1;
            decimal.push(fraction >> fraction_bits);
            fraction &= one - 1;
            if fraction < self.interval * scale {
                return self.approach(decimal, fraction, one, scale);
            }
        }
    }

    /// Lowers the last digit while that brings it nearer to the number. `rest` is what the digits
    /// leave of the upper end, `unit` what the last one counts, both times `scale`.
    fn approach(&self, decimal: &mut Decimal, mut rest: u64, unit: u64, scale: u64) {
        let (goal, interval) = (self.to_exact * scale, self.interval * scale);
        while rest < goal
            && interval - rest >= unit
            && (rest + unit < goal || goal - rest > rest + unit - goal)
        {
            decimal.digits[decimal.length - 1] -= 1;
            rest += unit;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, prop_assume, proptest};

    use super::Decimal;

    #[test]
    fn digits_and_exponents() {
        for (number, digits, exponent) in [
            (1.0, "1", 0),
            (0.3, "3", -1),
            (1234.5, "12345", -1),
            (f64::MAX, "17976931348623157", 292),
            (f64::MIN_POSITIVE, "22250738585072014", -324),
            (5e-324, "5", -324),
            (9_007_199_254_740_993.0, "9007199254740992", 0),
            // Not the fewest; Redis 8.2 prints the same.
            (50.303_369, "50303369000000004", -15),
        ] {
            let decimal = Decimal::of(number);
            assert_eq!((decimal.digits(), decimal.exponent), (digits, exponent), "{number}");
        }
    }

    proptest! {
        #[test]
        fn digits_read_back(bits in any::<u64>()) {
            let number = f64::from_bits(bits).abs();
            prop_assume!(number.is_finite() && number != 0.0);
            let decimal = Decimal::of(number);
            let text = format!("{}e{}", decimal.digits(), decimal.exponent);
            prop_assert_eq!(text.parse(), Ok(number));
        }
    }
}
