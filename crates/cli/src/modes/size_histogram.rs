//! How sizes are distributed, to four digits, in a bounded space.
//!
//! Invariant: two sizes count as one only if they differ by less than a sixteen-thousandth.

use std::collections::BTreeMap;

/// How often sizes were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeHistogram {
    /// By the greatest size that counts as the same.
    counts: BTreeMap<u64, u64>,
    total: u64,
    sum: f64,
    square_sum: f64,
}

/// A line of a table of percentiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percentile {
    /// So great is the greatest of them.
    pub(super) size: u64,
    pub(super) percent: f64,
    /// How many there are up to here.
    pub(super) count: u64,
}

/// Sizes below two to the power of this are told apart.
const EXACT_BITS: u32 = 15;

impl SizeHistogram {
    pub(super) fn add(&mut self, size: u64) {
        let spare = (u64::BITS - size.leading_zeros()).saturating_sub(EXACT_BITS);
        *self.counts.entry(size | ((1 << spare) - 1)).or_default() += 1;
        self.total += 1;
        // A double holds sizes to more digits than are told.
        self.sum += size as f64;
        self.square_sum += size as f64 * size as f64;
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.total.max(1) as f64
    }

    pub(super) fn standard_deviation(&self) -> f64 {
        let mean = self.mean();
        (self.square_sum / self.total.max(1) as f64 - mean * mean).max(0.0).sqrt()
    }

    /// Percentiles, each half as far from a hundred as the one before; of those with as many
    /// sizes below them the first.
    pub(super) fn percentiles(&self) -> Vec<Percentile> {
        let (mut lines, mut below, mut left) = (Vec::new(), 0, 100.0);
        for (size, count) in &self.counts {
            below += count;
            let percent = 100.0 * below as f64 / self.total as f64;
            if below == self.total {
                lines.push(Percentile { size: *size, percent: 100.0, count: below });
            } else if percent >= 100.0 - left {
                lines.push(Percentile { size: *size, percent: 100.0 - left, count: below });
                while percent >= 100.0 - left {
                    left /= 2.0;
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::SizeHistogram;

    /// The sizes of the example in the documentation of redis-cli.
    #[test]
    fn percentiles_halve_the_distance_to_the_end() {
        let mut sizes = SizeHistogram::default();
        for (size, times) in
            [(64, 3), (239, 25), (763, 14), (5038, 7), (9830, 3), (144_056, 2), (1_048_680, 1)]
        {
            (0..times).for_each(|_| sizes.add(size));
        }
        let lines: Vec<_> =
            sizes.percentiles().iter().map(|it| (it.size, it.percent, it.count)).collect();
        let expected = [
            (64, 0.0, 3),
            (239, 50.0, 28),
            (763, 75.0, 42),
            (5038, 87.5, 49),
            (9830, 93.75, 52),
            (144_063, 96.875, 54),
            (1_048_703, 100.0, 55),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_sizes() {
        let mut sizes = SizeHistogram::default();
        assert_eq!((sizes.mean(), sizes.standard_deviation()), (0.0, 0.0));
        assert!(sizes.percentiles().is_empty());
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|size| sizes.add(size));
        assert_eq!((sizes.mean(), sizes.standard_deviation()), (5.0, 2.0));
    }
}
