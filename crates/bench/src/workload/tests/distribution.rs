//! What must be true of drawn keys: each distribution follows its law.

use base::Random;

use super::super::distribution::{Gaussian, Zipf};
use super::super::keys::KeyRange;
use super::{keys_of, workload};

/// Pearson's statistic of drawn numbers against their probabilities, and how far above its mean it
/// lies in deviations. A sound sampler stays below 4; these seeds do.
fn deviations(counts: &[u64], probabilities: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let sum: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(count, probability)| {
            let expected = probability * total as f64;
            assert!(expected > 5.0, "too few draws for the test");
            (*count as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (counts.len() - 1) as f64;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn zipf_follows_its_law() {
    for (first, last, exponent) in [
        (0, 1_000_u64, 1.0),
        (1, 1_000, 0.5),
        (1, 100_000, 0.99),
        (1, 10_000, 1.000_000_1),
        (1, 500, 2.0),
        (1, 50, 4.9),
        (1, 1, 1.0),
        (1, 2, 1.0),
        (1_000, 3_000, 1.2),
    ] {
        let zipf = Zipf::new(KeyRange::new(first, last), exponent);
        let least = first.max(1);
        let weight = |key: u64| (key as f64).powf(-exponent);
        let total: f64 = (least..=last).map(weight).sum();
        // The first ranks each, and all that follow as one, while enough is expected of each.
        let draws = 400_000;
        let single = (least..=last)
            .take(100)
            .take_while(|key| weight(*key) / total * f64::from(draws) > 20.0)
            .count();
        let single = single.min((last - least) as usize);
        let mut counts = vec![0; single + 1];
        let mut random = Random::from_seed(42);
        for _ in 0..draws {
            let key = zipf.next(&mut random);
            assert!((least..=last).contains(&key), "{key}");
            counts[((key - least) as usize).min(single)] += 1;
        }
        let mut probabilities: Vec<f64> =
            (least..).take(single).map(|key| weight(key) / total).collect();
        probabilities.push(1.0 - probabilities.iter().sum::<f64>());
        if counts.len() == 1 {
            continue;
        }
        if probabilities[single] * f64::from(draws) < 5.0 {
            // So rare that the rest tells nothing.
            counts.pop();
            probabilities.pop();
        }
        let far = deviations(&counts, &probabilities);
        assert!(far < 4.0, "{first}-{last} ^ {exponent}: {far} deviations");
    }
}

#[test]
fn a_wrong_zipf_would_be_found_out() {
    let zipf = Zipf::new(KeyRange::new(1, 1_000), 1.02);
    let total: f64 = (1..=1_000).map(|key| 1.0 / f64::from(key)).sum();
    let mut counts = vec![0; 101];
    let mut random = Random::from_seed(42);
    for _ in 0..400_000 {
        counts[(zipf.next(&mut random) as usize - 1).min(100)] += 1;
    }
    let mut probabilities: Vec<f64> = (1..=100).map(|key| 1.0 / f64::from(key) / total).collect();
    probabilities.push(1.0 - probabilities.iter().sum::<f64>());
    assert!(deviations(&counts, &probabilities) > 10.0);
}

#[test]
fn zipf_stays_in_huge_ranges() {
    let last = i64::MAX as u64;
    let mut random = Random::from_seed(1);
    for exponent in [0.01, 1.0, 4.99] {
        for first in [0, last - 5] {
            let zipf = Zipf::new(KeyRange::new(first, last), exponent);
            for _ in 0..1_000 {
                let key = zipf.next(&mut random);
                assert!(key >= first.max(1) && key <= last, "{key}");
            }
        }
    }
}

#[test]
fn the_normal_distribution_has_its_mean_and_deviation() {
    for (first, last, median, deviation) in [
        (0, 10_000_000_u64, None, None),
        (100, 1_100, Some(500.0), Some(50.0)),
        (1_000_000, 2_000_000, Some(1_500_000.0), Some(1_000.0)),
    ] {
        let mut gaussian = Gaussian::new(KeyRange::new(first, last), median, deviation);
        let mut random = Random::from_seed(7);
        let count = 200_000;
        let keys: Vec<f64> = (0..count).map(|_| gaussian.next(&mut random) as f64).collect();
        let mean = keys.iter().sum::<f64>() / f64::from(count);
        let variance = keys.iter().map(|key| (key - mean).powi(2)).sum::<f64>() / f64::from(count);
        let wanted_mean = median.unwrap_or(f64::midpoint(first as f64, last as f64));
        let wanted = deviation.unwrap_or((last - first) as f64 / 6.0);
        assert!((mean - wanted_mean).abs() < wanted * 0.01, "mean {mean}, not {wanted_mean}");
        // At three deviations the ends cut off 1.3% of the deviation.
        assert!((variance.sqrt() / wanted - 1.0).abs() < 0.02, "{}, not {wanted}", variance.sqrt());
        let within = |reach: f64| {
            let inside = keys.iter().filter(|key| (**key - mean).abs() < reach * wanted).count();
            inside as f64 / f64::from(count)
        };
        assert!((within(1.0) - 0.6827).abs() < 0.01, "{}", within(1.0));
        assert!((within(2.0) - 0.9545).abs() < 0.01, "{}", within(2.0));
    }
}

#[test]
fn a_normal_distribution_wider_than_its_range_is_nearly_even() {
    let mut gaussian = Gaussian::new(KeyRange::new(10, 19), Some(10.0), Some(1e18));
    let mut random = Random::from_seed(7);
    let mut counts = [0; 10];
    for _ in 0..100_000 {
        counts[gaussian.next(&mut random) as usize - 10] += 1;
    }
    assert!(deviations(&counts, &[0.1; 10]) < 4.0, "{counts:?}");
    let mut narrow = Gaussian::new(KeyRange::new(4, 4), None, None);
    assert_eq!(narrow.next(&mut random), 4);
}

#[test]
fn uniform_keys_are_equally_likely_up_to_both_ends() {
    let workload = workload("--ratio 0:1 --key-minimum 5 --key-maximum 14");
    let mut counts = [0; 10];
    for key in keys_of(&mut workload.stream(0, 0), 50_000) {
        counts[key as usize - 5] += 1;
    }
    assert!(deviations(&counts, &[0.1; 10]) < 4.0, "{counts:?}");
}
