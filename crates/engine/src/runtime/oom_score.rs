//! What the kernel's out-of-memory killer thinks of the process, by its role.
//!
//! Invariant: what the score was before the first change comes back when it is no more to be set.

use std::fs;
use std::sync::Mutex;

use base::io_error_text::strerror;
use config::settings::{OOM_SCORE_ADJ, OOM_SCORE_ADJ_VALUES};
use config::{Config, OomScoreAdj};

use crate::runtime::log::{Log, log_warning};

const FILE: &str = "/proc/self/oom_score_adj";

/// The score that the process began with, while it has another.
static BEFORE: Mutex<Option<i64>> = Mutex::new(None);

/// Sets the score that a configuration asks for; the error is for the client, and the log says
/// more.
pub fn adjust(config: &Config, is_replica: bool, log: &Log) -> Result<(), String> {
    try_adjust(config, is_replica).map_err(|why| {
        log_warning!(log, "Unable to write oom_score_adj: {why}");
        "Failed to apply new oom_score_adj configuration, check server logs.".to_owned()
    })
}

fn try_adjust(config: &Config, is_replica: bool) -> Result<(), String> {
    let mut before = BEFORE.lock().expect("nothing here panics");
    let wanted = config.get(OOM_SCORE_ADJ);
    if wanted == OomScoreAdj::No {
        let Some(base) = *before else { return Ok(()) };
        write(base)?;
        *before = None;
        return Ok(());
    }
    let base = match *before {
        Some(base) => base,
        None => read()?,
    };
    let [of_primary, of_replica, _] = config.get(OOM_SCORE_ADJ_VALUES);
    let value = if is_replica { of_replica } else { of_primary };
    write(score(wanted, base, value))?;
    *before = Some(base);
    Ok(())
}

/// What is written for a value of the configuration.
fn score(wanted: OomScoreAdj, base: i64, value: i64) -> i64 {
    let base = if wanted == OomScoreAdj::Absolute { 0 } else { base };
    (base + value).clamp(-1000, 1000)
}

fn read() -> Result<i64, String> {
    let text = fs::read_to_string(FILE).map_err(|error| strerror(&error))?;
    text.trim().parse().map_err(|_| format!("{FILE} holds no number"))
}

fn write(score: i64) -> Result<(), String> {
    fs::write(FILE, score.to_string()).map_err(|error| strerror(&error))
}

#[cfg(test)]
mod tests {
    use config::OomScoreAdj;

    use super::score;

    #[test]
    fn a_score_is_relative_unless_it_is_absolute_and_within_bounds() {
        for (wanted, base, value, written) in [
            (OomScoreAdj::Yes, 100, 200, 300),
            (OomScoreAdj::Relative, 100, -200, -100),
            (OomScoreAdj::Absolute, 100, 200, 200),
            (OomScoreAdj::Relative, 900, 800, 1000),
            (OomScoreAdj::Absolute, 0, -2000, -1000),
        ] {
            assert_eq!(score(wanted, base, value), written, "{wanted:?} {base} {value}");
        }
    }
}
