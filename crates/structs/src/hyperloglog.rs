//! The HyperLogLog: how many distinct elements there were, within 0.81%, in Redis' own bytes.
//!
//! ```text
//!  0        4          5        8              16
//!  | "HYLL" | encoding | unused | count u64    | registers
//!
//!  dense (0):   16,384 registers of 6 bits, lowest bits first, 12,288 bytes
//!  sparse (1):  00nnnnnn             n + 1 registers of 0
//!               01nnnnnn nnnnnnnn    n + 1 registers of 0
//!               1vvvvvnn             n + 1 registers of v + 1
//! ```
//!
//! The count is a cache; the highest bit of its last byte says that it holds no longer. The sparse
//! form becomes the dense one when it would grow past a bound, or for a register above 32, and
//! never goes back. The steps that change the sparse form are Redis' own, since they show in GET.
//!
//! A client can put any bytes under a key, so every function here takes any bytes and answers
//! damaged ones with an error.
//!
//! The estimator is that of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches" (2017), algorithm 6; sums and products go in the order in which Redis takes them,
//! so that counts are the same to the last digit.

mod estimate;
mod registers;
mod self_test;
mod sparse;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod wide;

use std::fmt;

use base::step_count;

use self::estimate::estimate;
pub use self::registers::Registers;
use self::registers::{dense_register, set_dense_register};
pub use self::self_test::self_test;
pub use self::sparse::Adder;
use self::sparse::{Run, Runs};

/// How many registers there are.
pub const REGISTERS: usize = 1 << INDEX_BITS;

/// So many bits of the hash choose the register; the others make its value.
const INDEX_BITS: u32 = 14;

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER: usize = 16;
const DENSE_LEN: usize = HEADER + REGISTERS * 6 / 8;

/// The bit of the last byte of the count that says that it holds no longer.
const STALE: u8 = 0x80;

/// Where that byte is.
const STALE_AT: usize = 15;

/// How registers are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Each on its own.
    Dense = 0,
    /// Runs of equal ones.
    Sparse = 1,
}

/// Why bytes are no HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HllDamage {
    /// The header tells that they never were one.
    Foreign,
    /// The registers are not what the header says.
    Corrupted,
}

impl fmt::Display for HllDamage {
    /// The error as Redis replies it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            HllDamage::Foreign => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            HllDamage::Corrupted => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

impl std::error::Error for HllDamage {}

/// What an element does: a register rises to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUpdate {
    /// Below [`REGISTERS`].
    index: usize,
    /// 1 to 51.
    value: u8,
}

impl RegisterUpdate {
    /// The place of an element.
    pub fn of(element: &[u8]) -> RegisterUpdate {
        let hash = murmur(element);
        // The bit above the others ends the run of zeros at the latest.
        let rest = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
        let value = rest.trailing_zeros() as u8 + 1;
        RegisterUpdate { index: hash as usize % REGISTERS, value }
    }
}

/// A HyperLogLog without elements, sparse.
pub fn new() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 2);
    bytes.extend_from_slice(MAGIC);
    bytes.resize(HEADER, 0);
    bytes[4] = Encoding::Sparse as u8;
    Run::zeros(REGISTERS).write_to(&mut bytes);
    bytes
}

/// How the registers are laid out, from the header; the registers are not looked at.
pub fn encoding(bytes: &[u8]) -> Result<Encoding, HllDamage> {
    let header = bytes.get(..HEADER).ok_or(HllDamage::Foreign)?;
    match header[4] {
        _ if !header.starts_with(MAGIC) => Err(HllDamage::Foreign),
        0 if bytes.len() == DENSE_LEN => Ok(Encoding::Dense),
        1 => Ok(Encoding::Sparse),
        _ => Err(HllDamage::Foreign),
    }
}

/// Whether bytes of unknown origin are a HyperLogLog: the header, and that the registers are
/// neither more nor fewer than they must be.
pub fn validate(bytes: &[u8]) -> Result<(), HllDamage> {
    match encoding(bytes)? {
        Encoding::Dense => Ok(()),
        Encoding::Sparse => Runs::new(bytes).try_for_each(|run| run.map(|_| ())),
    }
}

/// The count that is kept with the registers, unless they changed since.
pub fn cached_count(bytes: &[u8]) -> Result<Option<u64>, HllDamage> {
    encoding(bytes)?;
    let count = bytes[8..].first_chunk().map(|count| u64::from_le_bytes(*count));
    Ok(count.filter(|_| bytes[STALE_AT] & STALE == 0))
}

/// How many distinct elements there were, from the registers.
pub fn count(bytes: &[u8]) -> Result<u64, HllDamage> {
    let mut histogram = [0_u32; 64];
    match encoding(bytes)? {
        Encoding::Dense => registers::count_dense(&bytes[HEADER..], &mut histogram),
        Encoding::Sparse => {
            for run in Runs::new(bytes) {
                let run = run?;
                histogram[usize::from(run.value)] += run.len as u32;
            }
        }
    }
    Ok(estimate(&histogram))
}

/// Keeps a count with the registers.
pub fn cache_count(bytes: &mut [u8], count: u64) -> Result<(), HllDamage> {
    encoding(bytes)?;
    bytes[8..HEADER].copy_from_slice(&count.to_le_bytes());
    Ok(())
}

/// Marks the kept count as no longer true. Redis does so for a key that PFADD makes, though
/// without elements it is true, and after PFMERGE.
pub fn forget_count(bytes: &mut [u8]) -> Result<(), HllDamage> {
    step_count::step();
    encoding(bytes)?;
    bytes[STALE_AT] |= STALE;
    Ok(())
}

/// The value of a register.
pub fn register(bytes: &[u8], index: usize) -> Result<u8, HllDamage> {
    match encoding(bytes)? {
        Encoding::Dense => Ok(dense_register(&bytes[HEADER..], index)),
        Encoding::Sparse => Ok(sparse::find(bytes, index)?.run.value),
    }
}

/// Adds one element, as an [`Adder`] does.
pub fn add(
    bytes: &mut Vec<u8>,
    place: RegisterUpdate,
    sparse_len_max: usize,
) -> Result<bool, HllDamage> {
    step_count::step();
    Adder::new(bytes, sparse_len_max).add(place)
}

/// Adds an element where the registers are dense, which needs no other length.
///
/// # Errors
/// Sparse registers are answered as foreign bytes.
pub fn add_dense(bytes: &mut [u8], place: RegisterUpdate) -> Result<bool, HllDamage> {
    step_count::step();
    if encoding(bytes)? != Encoding::Dense {
        return Err(HllDamage::Foreign);
    }
    let rises = dense_register(&bytes[HEADER..], place.index) < place.value;
    if rises {
        set_dense_register(&mut bytes[HEADER..], place.index, place.value);
        bytes[STALE_AT] |= STALE;
    }
    Ok(rises)
}

/// Makes the registers dense; tells whether they were not.
pub fn to_dense(bytes: &mut Vec<u8>) -> Result<bool, HllDamage> {
    step_count::step();
    if encoding(bytes)? == Encoding::Dense {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_LEN];
    let mut index = 0;
    for run in Runs::new(bytes) {
        let run = run?;
        if run.value > 0 {
            for place in index..index + run.len {
                set_dense_register(&mut dense[HEADER..], place, run.value);
            }
        }
        index += run.len;
    }
    dense[..HEADER].copy_from_slice(&bytes[..HEADER]);
    dense[4] = Encoding::Dense as u8;
    *bytes = dense;
    Ok(true)
}

/// The sparse form spelled out, as PFDEBUG DECODE replies it; none if it is dense.
pub fn decode(bytes: &[u8]) -> Result<Option<String>, HllDamage> {
    if encoding(bytes)? == Encoding::Dense {
        return Ok(None);
    }
    let mut words = Vec::new();
    for run in Runs::new(bytes) {
        words.push(run?.to_string());
    }
    Ok(Some(words.join(" ")))
}

/// MurmurHash64A by Austin Appleby, with the seed of Redis.
fn murmur(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
