//! Just enough arbitrary-precision arithmetic to read and print long doubles exactly.
//!
//! Invariant: limbs are little-endian and the highest is not zero.

use std::cmp::Ordering;

/// An unsigned integer of any size.
pub(super) struct Big {
    limbs: Vec<u32>,
}

/// The greatest power of ten in a limb, and its digits.
const CHUNK: u32 = 1_000_000_000;
const CHUNK_DIGITS: usize = 9;
const LIMB_BITS: usize = 32;
/// How many quotient bits a division yields: 64, one to round by, and room.
const QUOTIENT_BITS: u32 = 68;

impl From<u128> for Big {
    fn from(number: u128) -> Big {
        let limbs = (0..4).map(|index| (number >> (LIMB_BITS * index)) as u32).collect();
        let mut big = Big { limbs };
        big.trim();
        big
    }
}

impl Big {
    /// Reads decimal digits.
    pub(super) fn from_decimal(digits: &[u8]) -> Big {
        let mut big = Big { limbs: Vec::new() };
        for chunk in digits.chunks(CHUNK_DIGITS) {
            let value = chunk.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
            let power = 10_u32.pow(chunk.len() as u32);
            big.multiply_add(power, value);
        }
        big
    }

    /// The number in decimal, without leading zeros.
    pub(super) fn into_decimal(mut self) -> String {
        use std::fmt::Write;

        let mut chunks = Vec::new();
        while !self.limbs.is_empty() {
            chunks.push(self.divide_by_chunk());
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            write!(text, "{chunk:09}").expect("writing to a String cannot fail");
        }
        text
    }

    /// Multiplies by `5^power`.
    pub(super) fn multiply_power_of_five(&mut self, power: usize) {
        const LARGEST: u32 = 13;
        for _ in 0..power / LARGEST as usize {
            self.multiply_add(5_u32.pow(LARGEST), 0);
        }
        self.multiply_add(5_u32.pow((power % LARGEST as usize) as u32), 0);
    }

    /// Multiplies by `2^bits`.
    pub(super) fn shift_left(&mut self, bits: usize) {
        if self.limbs.is_empty() {
            return;
        }
        self.multiply_add(1 << (bits % LIMB_BITS), 0);
        self.limbs.splice(0..0, std::iter::repeat_n(0, bits / LIMB_BITS));
    }

    /// The highest 96 to 128 bits, how many bits lie below them, and whether one of those is set.
    pub(super) fn leading_bits(&self) -> (u128, i64, bool) {
        let below = self.limbs.len().saturating_sub(4);
        let top = self.limbs[below..].iter().rev();
        let bits = top.fold(0, |bits: u128, limb| bits << LIMB_BITS | u128::from(*limb));
        let sticky = self.limbs[..below].iter().any(|limb| *limb != 0);
        (bits, (below * LIMB_BITS) as i64, sticky)
    }

    /// Divides two numbers that are not zero: the leading bits of the quotient, the exponent of
    /// two of the last of them, and whether there is a remainder.
    pub(super) fn divide_leading(mut self, mut divisor: Big) -> (u128, i64, bool) {
        // With both at the same length, the quotient's first bit is worth 1.
        let (own, other) = (self.bit_length(), divisor.bit_length());
        self.shift_left(other.saturating_sub(own));
        divisor.shift_left(own.saturating_sub(other));
        let mut quotient = 0_u128;
        for _ in 0..QUOTIENT_BITS {
            quotient <<= 1;
            if self.compare(&divisor) != Ordering::Less {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.multiply_add(2, 0);
        }
        let exponent = own as i64 - other as i64 - i64::from(QUOTIENT_BITS - 1);
        (quotient, exponent, !self.limbs.is_empty())
    }

    fn bit_length(&self) -> usize {
        let top = self.limbs.last().map_or(0, |limb| limb.leading_zeros());
        self.limbs.len() * LIMB_BITS - top as usize
    }

    fn compare(&self, other: &Big) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    /// Takes `other` off, which must not be greater.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let operand = other.limbs.get(index).copied().unwrap_or(0);
            (*limb, borrow) = limb.borrowing_sub(operand, borrow);
        }
        self.trim();
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= LIMB_BITS;
        }
        if carry != 0 {
            self.limbs.push(carry as u32);
        }
    }

    /// Divides by 10^9 and returns the remainder.
    fn divide_by_chunk(&mut self) -> u32 {
        let mut remainder = 0_u64;
        for limb in self.limbs.iter_mut().rev() {
            let value = remainder << LIMB_BITS | u64::from(*limb);
            *limb = (value / u64::from(CHUNK)) as u32;
            remainder = value % u64::from(CHUNK);
        }
        self.trim();
        remainder as u32
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }
}
