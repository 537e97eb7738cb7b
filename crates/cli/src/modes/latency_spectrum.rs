//! `--latency-dist`: how latencies are distributed, a line of coloured letters each interval.
//!
//! Invariant: each sample counts for the first letter that is not below it.

use std::process::ExitCode;
use std::time::Duration;

use super::latency::{PAUSE, sample};
use crate::client::{Client, print};

/// The letters, with the greatest latency that counts for each, in microseconds.
const LETTERS: [(char, i64); 31] = [
    ('.', 10),
    ('-', 125),
    ('*', 250),
    ('#', 500),
    ('1', 1000),
    ('2', 2000),
    ('3', 3000),
    ('4', 4000),
    ('5', 5000),
    ('6', 6000),
    ('7', 7000),
    ('8', 8000),
    ('9', 9000),
    ('A', 10_000),
    ('B', 20_000),
    ('C', 30_000),
    ('D', 40_000),
    ('E', 50_000),
    ('F', 100_000),
    ('G', 200_000),
    ('H', 300_000),
    ('I', 400_000),
    ('J', 500_000),
    ('K', 1_000_000),
    ('L', 2_000_000),
    ('M', 4_000_000),
    ('N', 8_000_000),
    ('O', 16_000_000),
    ('P', 30_000_000),
    ('Q', 60_000_000),
    ('?', i64::MAX),
];

/// The terminal's colours, from none of the samples to all of them.
const COLOURS: [u8; 19] =
    [0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 144, 143, 142, 184, 226, 214, 208, 202, 196];

/// So many lines stand below one legend.
const LINES_PER_LEGEND: u64 = 20;

/// Takes samples and tells how they are distributed, until a signal.
pub(crate) fn latency_spectrum(client: &mut Client) -> Result<ExitCode, String> {
    let interval = client.options.interval.unwrap_or(Duration::from_secs(1));
    client.connect()?;
    let (mut counts, mut lines) = ([0; LETTERS.len()], 0_u64);
    let mut started = client.clock.monotonic_us();
    loop {
        let (sample, now) = sample(client)?;
        let at = LETTERS.iter().position(|(_, most)| sample <= *most);
        counts[at.expect("the last letter takes every sample")] += 1;
        if u128::try_from(now - started).is_ok_and(|it| it > interval.as_micros()) {
            if lines.is_multiple_of(LINES_PER_LEGEND) {
                print(legend().as_bytes());
            }
            print(line(&counts).as_bytes());
            (counts, started, lines) = ([0; LETTERS.len()], now, lines + 1);
        }
        std::thread::sleep(PAUSE);
    }
}

fn legend() -> String {
    let rule = "---------------------------------------------\n";
    let colours: Vec<String> =
        COLOURS.iter().map(|colour| format!("\x1b[48;5;{colour}m ")).collect();
    format!(
        "{rule}\
. - * #          .01 .125 .25 .5 milliseconds
1,2,3,...,9      from 1 to 9     milliseconds
A,B,C,D,E        10,20,30,40,50  milliseconds
F,G,H,I,J        .1,.2,.3,.4,.5       seconds
K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds
From 0 to 100%: {}\x1b[0m\n{rule}",
        colours.concat()
    )
}

fn line(counts: &[u64; LETTERS.len()]) -> String {
    let total: u64 = counts.iter().sum();
    let steps = COLOURS.len() as u64 - 1;
    let mut text = "\x1b[38;5;0m".to_owned();
    for ((letter, _), count) in LETTERS.iter().zip(counts) {
        let step = usize::try_from((count * steps).div_ceil(total.max(1))).unwrap_or_default();
        text.push_str(&format!("\x1b[48;5;{}m{letter}", COLOURS[step]));
    }
    text + "\x1b[0m\n"
}

#[cfg(test)]
mod tests {
    use super::{LETTERS, legend, line};

    #[test]
    fn colours_grow_with_the_share() {
        let mut counts = [0; LETTERS.len()];
        [counts[1], counts[2], counts[4]] = [18, 80, 2];
        let text = line(&counts);
        let begin = "\x1b[38;5;0m\x1b[48;5;0m.\x1b[48;5;237m-\x1b[48;5;214m*\x1b[48;5;0m#\
                     \x1b[48;5;233m1\x1b[48;5;0m2";
        assert!(text.starts_with(begin), "{text:?}");
        assert!(text.ends_with("\x1b[48;5;0mQ\x1b[48;5;0m?\x1b[0m\n"));
        counts = [0; LETTERS.len()];
        counts[30] = 1;
        assert!(line(&counts).ends_with("\x1b[48;5;196m?\x1b[0m\n"));
        assert_eq!(legend().lines().count(), 8);
    }
}
