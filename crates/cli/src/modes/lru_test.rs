//! `--lru-test`: acts as the users of a cache, four of five requests for one of five keys, and
//! tells how many are hits.
//!
//! Invariant: a key is asked for as often as it is written, so what misses was evicted or never
//! written.

use std::process::ExitCode;

use base::Random;
use proto::value::Value;

use super::big_keys::percent;
use super::walk::{Words, words};
use crate::client::{Client, print};

/// How many requests are sent together.
const TOGETHER: usize = 250;

/// How long a line counts, in microseconds.
const CYCLE_US: i64 = 1_000_000;

/// Writes and reads keys until a signal.
pub(crate) fn lru_test(client: &mut Client, keys: u64) -> Result<ExitCode, String> {
    let mut random = Random::from_entropy();
    client.connect()?;
    loop {
        let started = client.clock.monotonic_us();
        let (mut hits, mut misses) = (0, 0);
        while client.clock.monotonic_us() - started < CYCLE_US {
            let writes: Vec<Words> = (0..TOGETHER)
                .map(|_| {
                    let value: Vec<u8> = (0..5).map(|_| b'a' + random.below(26) as u8).collect();
                    words("SET", &[&name(&mut random, keys), &value])
                })
                .collect();
            client.ask_all(&writes)?;
            let reads: Vec<Words> =
                (0..TOGETHER).map(|_| words("GET", &[&name(&mut random, keys)])).collect();
            for reply in client.ask_all(&reads)? {
                match reply {
                    Value::Error(line) => return Err(String::from_utf8_lossy(&line).into_owned()),
                    Value::Null => misses += 1,
                    _ => hits += 1,
                }
            }
        }
        let gets = hits + misses;
        let (hit_share, miss_share) = (percent(hits, gets), percent(misses, gets));
        let line = format!(
            "{gets} Gets/sec | Hits: {hits} ({hit_share:.2}%) | Misses: {misses} \
             ({miss_share:.2}%)\n"
        );
        print(line.as_bytes());
    }
}

fn name(random: &mut Random, keys: u64) -> Vec<u8> {
    format!("lru:{}", skewed(random, keys)).into_bytes()
}

/// A number below a bound, of which one fifth has four fifths of all draws, and so on within.
fn skewed(random: &mut Random, bound: u64) -> u64 {
    let drawn = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let exponent = 0.2_f64.ln() / 0.8_f64.ln();
    // The product is not negative and below the bound.
    ((bound as f64 * drawn.powf(exponent)) as u64).min(bound.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::skewed;

    #[test]
    fn a_fifth_of_the_keys_has_four_fifths_of_the_draws() {
        let mut random = Random::from_seed(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| skewed(&mut random, 1000)).collect();
        assert!(drawn.iter().all(|number| *number < 1000));
        let within = |bound: u64| drawn.iter().filter(|number| **number < bound).count();
        assert!((7800..8200).contains(&within(200)), "{}", within(200));
        assert!((6200..6600).contains(&within(40)), "{}", within(40));
        assert_eq!(skewed(&mut random, 0), 0);
    }
}
