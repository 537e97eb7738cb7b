//! Registers packed by sixes into bytes, and unpacked, one byte each, for unions.

use super::estimate::estimate;
use super::sparse::{Adder, Runs};
use super::{
    DENSE_LEN, Encoding, HEADER, HllDamage, REGISTERS, RegisterUpdate, encoding, forget_count,
    to_dense,
};

/// Four registers fill three bytes.
const PACKED: usize = 3;

/// All registers of a union, unpacked.
#[derive(Clone)]
pub struct Registers {
    values: Box<[u8; REGISTERS]>,
    any_dense: bool,
}

impl Default for Registers {
    fn default() -> Registers {
        Registers { values: Box::new([0; REGISTERS]), any_dense: false }
    }
}

impl Registers {
    /// Makes this the union with another HyperLogLog. After an error it is of no use.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), HllDamage> {
        match encoding(bytes)? {
            Encoding::Dense => {
                self.any_dense = true;
                raise(&mut self.values, &bytes[HEADER..]);
            }
            Encoding::Sparse => {
                let mut index = 0;
                for run in Runs::new(bytes) {
                    let run = run?;
                    if run.value > 0 {
                        for value in &mut self.values[index..index + run.len] {
                            *value = (*value).max(run.value);
                        }
                    }
                    index += run.len;
                }
            }
        }
        Ok(())
    }

    /// How many distinct elements there were in all of the union.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; 64];
        let mut counters = Tally::default();
        for values in self.values.as_chunks::<8>().0 {
            // Of a few elements nearly all registers are zero.
            if u64::from_ne_bytes(*values) == 0 {
                histogram[0] += 8;
            } else {
                counters.count(*values);
            }
        }
        counters.add_to(&mut histogram);
        estimate(&histogram)
    }

    /// Raises the registers of a HyperLogLog to those of the union, which it should be part of,
    /// as PFMERGE does. The result becomes dense if any part was, or if it must (see
    /// [`super::add`]).
    pub fn store(&self, bytes: &mut Vec<u8>, sparse_len_max: usize) -> Result<(), HllDamage> {
        if self.any_dense {
            to_dense(bytes)?;
        }
        if encoding(bytes)? == Encoding::Sparse {
            let mut adder = Adder::new(bytes, sparse_len_max);
            for RegisterUpdate { index, value } in self.risen() {
                if adder.is_dense() {
                    break;
                }
                adder.add(RegisterUpdate { index, value })?;
            }
        }
        if encoding(bytes)? == Encoding::Dense {
            raise_packed(&mut bytes[HEADER..], &self.values);
        }
        forget_count(bytes)
    }

    /// The values of all registers, in their order.
    pub fn values(&self) -> &[u8; REGISTERS] {
        &self.values
    }

    /// The registers that are not zero. Of a few elements nearly all are.
    fn risen(&self) -> impl Iterator<Item = RegisterUpdate> {
        let groups = self.values.as_chunks::<8>().0.iter().enumerate();
        groups.filter(|(_, values)| u64::from_ne_bytes(**values) != 0).flat_map(
            |(group, values)| {
                let places = values.iter().enumerate().filter(|(_, value)| **value > 0);
                places.map(move |(place, value)| RegisterUpdate {
                    index: 8 * group + place,
                    value: *value,
                })
            },
        )
    }
}

/// Raises registers to packed ones.
fn raise(values: &mut [u8; REGISTERS], packed: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if super::wide::raise(values, packed) {
        return;
    }
    raise_by_eights(values, packed);
}

/// Raises packed registers to others.
fn raise_packed(packed: &mut [u8], values: &[u8; REGISTERS]) {
    #[cfg(target_arch = "x86_64")]
    if super::wide::raise_packed(packed, values) {
        return;
    }
    raise_packed_by_eights(packed, values);
}

fn raise_by_eights(values: &mut [u8; REGISTERS], packed: &[u8]) {
    let (packed, _) = packed.as_chunks::<{ 2 * PACKED }>();
    for (values, packed) in values.as_chunks_mut::<8>().0.iter_mut().zip(packed) {
        for (value, other) in values.iter_mut().zip(unpack_eight(*packed)) {
            *value = (*value).max(other);
        }
    }
}

fn raise_packed_by_eights(packed: &mut [u8], values: &[u8; REGISTERS]) {
    let (packed, _) = packed.as_chunks_mut::<{ 2 * PACKED }>();
    for (packed, values) in packed.iter_mut().zip(values.as_chunks::<8>().0) {
        let mut risen = unpack_eight(*packed);
        for (value, other) in risen.iter_mut().zip(values) {
            *value = (*value).max(*other);
        }
        *packed = pack_eight(risen);
    }
}

/// Adds up how many registers have which value.
pub(super) fn count_dense(packed: &[u8], histogram: &mut [u32; 64]) {
    let mut counters = Tally::default();
    for packed in packed.as_chunks::<{ 2 * PACKED }>().0 {
        counters.count(unpack_eight(*packed));
    }
    counters.add_to(histogram);
}

/// How many registers have which value, of each eighth: equal neighbours, as most are, do not wait
/// for each other.
struct Tally([[u32; 64]; 8]);

impl Default for Tally {
    fn default() -> Tally {
        Tally([[0; 64]; 8])
    }
}

impl Tally {
    #[inline]
    fn count(&mut self, values: [u8; 8]) {
        for (counter, value) in self.0.iter_mut().zip(values) {
            counter[usize::from(value & 63)] += 1;
        }
    }

    fn add_to(&self, histogram: &mut [u32; 64]) {
        for counter in &self.0 {
            for (sum, registers) in histogram.iter_mut().zip(counter) {
                *sum += registers;
            }
        }
    }
}

pub(super) fn dense_register(packed: &[u8], index: usize) -> u8 {
    let (groups, _) = packed.as_chunks::<PACKED>();
    unpack(groups[index / 4])[index % 4]
}

pub(super) fn set_dense_register(packed: &mut [u8], index: usize, value: u8) {
    let shift = 6 * (index % 4);
    let (groups, _) = packed.as_chunks_mut::<PACKED>();
    let group = &mut groups[index / 4];
    let bits = u32::from_le_bytes([group[0], group[1], group[2], 0]);
    let bits = bits & !(63 << shift) | u32::from(value) << shift;
    group.copy_from_slice(&bits.to_le_bytes()[..PACKED]);
}

#[inline]
fn unpack([low, middle, high]: [u8; PACKED]) -> [u8; 4] {
    [low & 63, (low >> 6 | middle << 2) & 63, (middle >> 4 | high << 4) & 63, high >> 2]
}

/// The same of eight registers, all at once: halves of 24 bits, then quarters of 12, then bytes.
#[inline]
fn unpack_eight([a, b, c, d, e, f]: [u8; 2 * PACKED]) -> [u8; 8] {
    let bits = u64::from_le_bytes([a, b, c, 0, d, e, f, 0]);
    let bits = bits & 0x0000_0FFF_0000_0FFF | (bits & 0x00FF_F000_00FF_F000) << 4;
    let bits = bits & 0x003F_003F_003F_003F | (bits & 0x0FC0_0FC0_0FC0_0FC0) << 2;
    bits.to_le_bytes()
}

/// The other way around, of values below 64.
#[inline]
fn pack_eight(values: [u8; 8]) -> [u8; 2 * PACKED] {
    let bits = u64::from_le_bytes(values);
    let bits = bits & 0x003F_003F_003F_003F | (bits >> 2) & 0x0FC0_0FC0_0FC0_0FC0;
    let bits = bits & 0x0000_0FFF_0000_0FFF | (bits >> 4) & 0x00FF_F000_00FF_F000;
    let [a, b, c, _, d, e, f, _] = bits.to_le_bytes();
    [a, b, c, d, e, f]
}

const _: () = assert!((DENSE_LEN - HEADER) / PACKED * 4 == REGISTERS);

#[cfg(test)]
mod tests {
    use base::Random;

    use super::{
        DENSE_LEN, HEADER, REGISTERS, raise, raise_by_eights, raise_packed, raise_packed_by_eights,
    };

    #[test]
    fn the_width_does_not_show() {
        let mut random = Random::from_seed(9);
        for limit in [1, 8, 64] {
            let mut values = [0; REGISTERS];
            values.fill_with(|| random.below(limit) as u8);
            let mut packed = vec![0; DENSE_LEN - HEADER];
            packed.fill_with(|| random.next_u64() as u8);
            let (mut wide, mut narrow) = (values, values);
            raise(&mut wide, &packed);
            raise_by_eights(&mut narrow, &packed);
            assert!(wide == narrow);
            let (mut wide, mut narrow) = (packed.clone(), packed);
            raise_packed(&mut wide, &values);
            raise_packed_by_eights(&mut narrow, &values);
            assert!(wide == narrow);
        }
    }
}
