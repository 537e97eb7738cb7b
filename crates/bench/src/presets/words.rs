//! The words behind `--preset NAME`: a few are the preset's own, all others are the generator's.
//! Invariant: what is not a preset's own passes on unchanged and in order.

use std::time::Duration;

use super::noise::NoiseKind;
use crate::options::{Options, Request, Until};

/// The words of a preset.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// `--scale`: what times, numbers of requests and numbers of keys are multiplied by.
    pub(super) scale: f64,
    /// `-n` or `--test-time` (fractions of a second too): of each step, unscaled.
    pub(super) until: Option<Until>,
    /// `--noise cpu,disk`.
    pub(super) noise: Vec<NoiseKind>,
    /// `--maximum`: requests per second that need not be found again.
    pub(super) maximum: Option<f64>,
    /// `--steps`: percentages of the maximum; none at all where it is empty.
    pub(super) steps: Option<Vec<f64>>,
    /// The generator's words.
    pub(super) rest: Vec<String>,
    /// The same, read.
    pub(super) common: Options,
}

impl Words {
    pub(super) fn parse(arguments: &[String]) -> Result<Words, String> {
        let mut words = Words { scale: 1.0, ..Words::default() };
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if !OWN.contains(&flag) {
                words.rest.push(word.clone());
                continue;
            }
            let value = attached.or_else(|| arguments.next().cloned());
            let value = value.ok_or_else(|| format!("error: {flag} requires an argument."))?;
            words.set(flag, &value)?;
        }
        match Options::parse(&words.rest)? {
            Request::Run(options) => words.common = *options,
            _ => return Err("error: a preset takes no --help, --version or --preset.".into()),
        }
        Ok(words)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("error: {flag} '{value}' is not what it takes.");
        let above_zero = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(wrong)
        };
        match flag {
            "--scale" => self.scale = above_zero(value)?,
            "--maximum" => self.maximum = Some(above_zero(value)?),
            "--test-time" => {
                let time = Duration::try_from_secs_f64(above_zero(value)?).map_err(|_| wrong())?;
                self.until = Some(Until::Time(time));
            }
            "-n" | "--requests" => {
                let count = value.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
                self.until = Some(Until::Requests(count));
            }
            "--steps" => {
                let parts = value.split(',').filter(|part| !part.is_empty());
                self.steps = Some(parts.map(above_zero).collect::<Result<_, _>>()?);
            }
            _ => {
                let kinds: Option<Vec<NoiseKind>> = value.split(',').map(NoiseKind::of).collect();
                self.noise = kinds.ok_or_else(wrong)?;
            }
        }
        Ok(())
    }
}

/// What a preset's own words do.
pub(super) const HELP: &str = "\
These words are the preset's; all others are those of a run (see 'apus bench --help') and win over
the preset's own:
  --scale=FACTOR    Times, numbers of requests and of keys are multiplied by it
  --test-time=SECS  So long for each step, fractions too
  -n, --requests=N  So many requests per client for each step
  --maximum=RATE    putra: requests per second that need not be found again
  --steps=PERCENTS  putra: shares of the maximum, as in 10,50,90
  --noise=KINDS     garantia: neighbours that disturb, as in cpu,disk
  --against=SERVER  Every step on this server too, in turn; may be repeated
";

/// What a preset takes for itself.
const OWN: &[&str] =
    &["--scale", "--maximum", "--test-time", "-n", "--requests", "--steps", "--noise"];
