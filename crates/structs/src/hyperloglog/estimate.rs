//! From how many registers have which value to how many elements there were.

use super::{INDEX_BITS, REGISTERS};

/// The limit of the correction factor for ever more registers: 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Bits of the hash that make a register's value, which is one higher at most.
const VALUE_BITS: usize = 64 - INDEX_BITS as usize;

/// Estimates the number of elements. Values above 51 come from forged bytes only and are ignored.
pub(super) fn estimate(histogram: &[u32; 64]) -> u64 {
    let registers = REGISTERS as f64;
    let saturated = f64::from(histogram[VALUE_BITS + 1]);
    let mut sum = registers * tau((registers - saturated) / registers);
    for registers_of_value in histogram[1..=VALUE_BITS].iter().rev() {
        sum = (sum + f64::from(*registers_of_value)) * 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    // Forged bytes may give infinity: the conversion of a float saturates, at what a reply can say.
    (ALPHA * registers * registers / sum).round() as i64 as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}
