//! Keys that are not equally likely, in constant time and memory whatever the range is.
//! Invariant: what is drawn follows the stated law exactly, up to the precision of a double.

use base::Random;

use super::keys::KeyRange;

/// Deviations of a normal distribution that reach the ends of its range, unless told otherwise.
const DEVIATIONS: f64 = 6.0;

/// A number between two, both included.
pub(super) fn below_inclusive(random: &mut Random, (least, most): (u32, u32)) -> u64 {
    u64::from(least) + random.below(u64::from(most.saturating_sub(least)) + 1)
}

/// A double in `0..1`, from the 53 bits that it can hold.
fn unit(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Normal distribution, cut off at the ends of the range.
#[derive(Clone, Debug)]
pub(super) struct Gaussian {
    range: KeyRange,
    median: f64,
    deviation: f64,
    /// The second number of the last pair.
    spare: Option<f64>,
}

impl Gaussian {
    /// Around the middle of the range, a sixth of it wide, unless told otherwise. The median lies
    /// in the range.
    pub(super) fn new(range: KeyRange, median: Option<f64>, deviation: Option<f64>) -> Self {
        let (first, last) = (range.first as f64, range.last as f64);
        Self {
            range,
            median: median.unwrap_or(f64::midpoint(first, last)),
            deviation: deviation.unwrap_or((last - first) / DEVIATIONS),
            spare: None,
        }
    }

    /// The next key.
    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        let (first, last) = (self.range.first as f64, self.range.last as f64);
        if self.deviation > last - first {
            return self.next_of_wide(random);
        }
        // The median lies inside and the range reaches at least one deviation to one side of it:
        // about a third of the draws, or more, are kept.
        loop {
            let key = (self.median + self.deviation * self.standard(random)).round();
            if key >= first && key <= last {
                return (key as u64).clamp(self.range.first, self.range.last);
            }
        }
    }

    /// Wider than the range, where most draws would fall outside: equally likely keys, each kept
    /// with its weight, which is above exp(-1/2).
    fn next_of_wide(&mut self, random: &mut Random) -> u64 {
        loop {
            let key = self.range.first + random.below(self.range.len());
            let distance = (key as f64 - self.median) / self.deviation;
            if unit(random) < (-distance * distance / 2.0).exp() {
                return key;
            }
        }
    }

    /// Marsaglia's polar method: two numbers from a point in the unit disc.
    fn standard(&mut self, random: &mut Random) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * unit(random) - 1.0, 2.0 * unit(random) - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }
}

/// Zipf's law: the probability of key `n` is proportional to `n` to the power of `-exponent`. Key
/// 0 has none.
///
/// Rejection-inversion (Hoermann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", 1996): the area under the curve is inverted, and a point
/// that fell outside the bar of its key is drawn again.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    range: KeyRange,
    exponent: f64,
    /// The area up to the left end of the first bar, and to the right end of the last.
    area_start: f64,
    area_end: f64,
    /// A point this close to the left of its key (or right of it) is inside the bar.
    sure: f64,
}

impl Zipf {
    /// Over the positive keys of the range; there is at least one.
    pub(super) fn new(range: KeyRange, exponent: f64) -> Self {
        let range = KeyRange::new(range.first.max(1), range.last.max(1));
        let first = range.first as f64;
        let mut zipf = Self { range, exponent, area_start: 0.0, area_end: 0.0, sure: 0.0 };
        // The first bar begins where its area ends, less its own: no draw is lost left of it.
        zipf.area_start = zipf.area(first + 0.5) - zipf.weight(first);
        zipf.area_end = zipf.area(range.last as f64 + 0.5);
        // How far left the bar of the second key reaches. The bar grows with the key, as the curve
        // is convex, so this holds for all.
        let second = first + 1.0;
        zipf.sure = second - zipf.inverse_area(zipf.area(second + 0.5) - zipf.weight(second));
        zipf
    }

    /// The next key.
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        let (first, last) = (self.range.first as f64, self.range.last as f64);
        loop {
            let area = self.area_end + unit(random) * (self.area_start - self.area_end);
            let point = self.inverse_area(area);
            let key = point.round().clamp(first, last);
            let inside = key - point <= self.sure;
            if inside || area >= self.area(key + 0.5) - self.weight(key) {
                return (key as u64).clamp(self.range.first, self.range.last);
            }
        }
    }

    fn weight(&self, point: f64) -> f64 {
        point.powf(-self.exponent)
    }

    /// The integral of the weight from 1 to `point`: (point^(1-s) - 1) / (1-s), which is the
    /// logarithm at s = 1.
    fn area(&self, point: f64) -> f64 {
        let power = 1.0 - self.exponent;
        let log = point.ln();
        if power == 0.0 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse_area(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { area.exp() } else { ((power * area).max(-1.0).ln_1p() / power).exp() }
    }
}
