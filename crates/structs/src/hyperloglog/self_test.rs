//! What PFSELFTEST does: registers hold what was put there, estimates are as close as promised.

use base::Random;

use super::registers::{dense_register, set_dense_register};
use super::{DENSE_LEN, HEADER, REGISTERS, RegisterUpdate, add, add_dense, count, new, to_dense};

/// The standard deviation of an estimate, times the square root of the number of registers.
const DEVIATION: f64 = 1.04;

/// An estimate may be off by so many deviations.
const DEVIATIONS_MAX: f64 = 6.0;

/// Times that all registers are written and read.
const CYCLES: usize = 20;

/// Elements up to which the sparse form is tested, too.
const SPARSE_ELEMENTS_MAX: u64 = 1000;

/// Tests registers, and estimates up to so many elements; the error is that of the reply.
pub fn self_test(elements: u64) -> Result<(), String> {
    let mut random = Random::from_seed(0);
    test_registers(&mut random)?;
    test_estimates(elements, random.next_u64())
}

fn test_registers(random: &mut Random) -> Result<(), String> {
    let mut packed = vec![0; DENSE_LEN - HEADER];
    let mut expected = [0; REGISTERS];
    for _ in 0..CYCLES {
        for (index, value) in expected.iter_mut().enumerate() {
            *value = random.below(64) as u8;
            set_dense_register(&mut packed, index, *value);
        }
        for (index, expected) in expected.iter().enumerate() {
            let value = dense_register(&packed, index);
            if value != *expected {
                return Err(format!(
                    "TESTFAILED Register {index} should be {expected} but is {value}"
                ));
            }
        }
    }
    Ok(())
}

fn test_estimates(elements: u64, seed: u64) -> Result<(), String> {
    let failed = |error| format!("TESTFAILED {error}");
    let (mut sparse, mut dense) = (new(), new());
    to_dense(&mut dense).map_err(failed)?;
    let mut checkpoint = 1;
    for number in 1..=elements {
        let place = RegisterUpdate::of(&(number ^ seed).to_le_bytes());
        add_dense(&mut dense, place).map_err(failed)?;
        if number <= SPARSE_ELEMENTS_MAX {
            add(&mut sparse, place, usize::MAX).map_err(failed)?;
        }
        if number < checkpoint {
            continue;
        }
        checkpoint *= 10;
        let estimate = count(&dense).map_err(failed)?;
        if number <= SPARSE_ELEMENTS_MAX && count(&sparse) != Ok(estimate) {
            return Err("TESTFAILED dense/sparse disagree".to_owned());
        }
        let deviation = DEVIATION / (REGISTERS as f64).sqrt() * number as f64;
        if estimate.abs_diff(number) as f64 > (deviation * DEVIATIONS_MAX).ceil() {
            let error = estimate.abs_diff(number);
            return Err(format!("TESTFAILED Too big error. card:{number} abserr:{error}"));
        }
    }
    Ok(())
}
