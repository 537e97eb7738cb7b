//! How long calls of each command and size take, against the best that they have shown: which of
//! them strays from what it could be, whatever that is.
//!
//! The measure is what 99 of 100 calls take at most, over a window in which a command was called
//! often enough. The best is the lowest of those, and is forgotten slowly, since data grow.
//!
//! Invariants: nothing is counted here while commands run, only what the statistics count anyway is
//! looked at; a command that goes on straying is told once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::call_size::CallSize;
use super::stats::{CallStats, bucket_limit};

/// A window has at least so many calls, so the measure is that of no single one.
const WINDOW_CALLS_MIN: u64 = 100;

/// From so many windows the best is learned before anything strays from it.
const WARMUP_WINDOWS: u32 = 6;

/// A command strays that takes so many times its best, and `REGRESSION_MIN_US` more.
const REGRESSION_FACTOR: f64 = 4.0;

/// Fewer microseconds than this above its best are noise of the machine.
const REGRESSION_MIN_US: f64 = 200.0;

/// A command that strayed is itself again below so many times its best.
const RECOVERY_FACTOR: f64 = 2.0;

/// Which part of the way to the present the best goes in each window.
const DECAY: f64 = 0.01;

/// A command's calls of one size: the command's id, and the size.
type CallClass = (usize, CallSize);

/// What is known of all commands.
#[derive(Default)]
pub struct LatencyBaselines {
    classes: Mutex<BTreeMap<CallClass, LatencyBaseline>>,
}

/// What is known of one command's calls of one size.
#[derive(Clone, Debug, Default)]
struct LatencyBaseline {
    /// The durations that were counted when the present window began.
    counted: Vec<u64>,
    windows: u32,
    figures: BaselineFigures,
}

/// How long a command takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BaselineFigures {
    /// What 99 of 100 calls took at most in the latest window, in microseconds.
    pub p99_us: f64,
    /// The best of that.
    pub best_p99_us: f64,
    /// Whether the command's latency strays now.
    pub is_regressed: bool,
    /// How often it began to.
    pub regressions: u64,
}

/// What became of a command in a window that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineChange {
    /// The command strays from now on.
    Regressed,
    /// The command is itself again.
    Recovered,
}

impl LatencyBaselines {
    /// Looks at what a command's calls took by now; what became of those sizes that are not as they
    /// were before.
    pub fn observe(
        &self,
        command: usize,
        stats: &CallStats,
    ) -> Vec<(CallSize, BaselineChange, BaselineFigures)> {
        let mut classes = self.classes();
        let sizes = CallSize::ALL.into_iter().zip(&stats.by_size);
        // Most commands have calls of one size.
        let called = sizes.filter(|(_, histogram)| histogram.iter().any(|count| *count > 0));
        let changed = called.filter_map(|(size, histogram)| {
            let baseline = classes.entry((command, size)).or_default();
            let change = baseline.observe(histogram)?;
            Some((size, change, baseline.figures))
        });
        changed.collect()
    }

    /// The commands and sizes of which enough is known, by the commands' ids.
    pub fn figures(&self) -> Vec<(usize, CallSize, BaselineFigures)> {
        let classes = self.classes();
        let learned = classes.iter().filter(|(_, baseline)| baseline.windows >= WARMUP_WINDOWS);
        learned.map(|(&(command, size), baseline)| (command, size, baseline.figures)).collect()
    }

    /// How many of them stray now.
    pub fn regressed(&self) -> usize {
        self.classes().values().filter(|baseline| baseline.figures.is_regressed).count()
    }

    fn classes(&self) -> MutexGuard<'_, BTreeMap<CallClass, LatencyBaseline>> {
        self.classes.lock().expect("no critical section here panics")
    }
}

impl LatencyBaseline {
    fn observe(&mut self, counted: &[u64]) -> Option<BaselineChange> {
        let before = |bucket: usize| self.counted.get(bucket).copied().unwrap_or(0);
        // The statistics were reset meanwhile.
        if counted.iter().enumerate().any(|(bucket, count)| *count < before(bucket)) {
            self.counted = counted.to_vec();
            return None;
        }
        let window = counted.iter().enumerate().map(|(bucket, count)| count - before(bucket));
        let window: Vec<u64> = window.collect();
        let calls: u64 = window.iter().sum();
        if calls < WINDOW_CALLS_MIN {
            return None;
        }
        self.counted = counted.to_vec();
        self.end_window(percentile_us(&window, calls))
    }

    fn end_window(&mut self, p99_us: f64) -> Option<BaselineChange> {
        let figures = &mut self.figures;
        figures.p99_us = p99_us;
        self.windows = self.windows.saturating_add(1);
        let best_p99_us = figures.best_p99_us;
        figures.best_p99_us = match p99_us < best_p99_us || self.windows == 1 {
            true => p99_us,
            false => best_p99_us + (p99_us - best_p99_us) * DECAY,
        };
        if self.windows <= WARMUP_WINDOWS {
            return None;
        }
        let regressions =
            p99_us > best_p99_us * REGRESSION_FACTOR && p99_us > best_p99_us + REGRESSION_MIN_US;
        if regressions && !figures.is_regressed {
            figures.is_regressed = true;
            figures.regressions += 1;
            return Some(BaselineChange::Regressed);
        }
        let recovers =
            p99_us < best_p99_us * RECOVERY_FACTOR || p99_us < best_p99_us + REGRESSION_MIN_US;
        if recovers && figures.is_regressed {
            figures.is_regressed = false;
            return Some(BaselineChange::Recovered);
        }
        None
    }
}

/// What 99 of 100 calls took at most.
fn percentile_us(window: &[u64], calls: u64) -> f64 {
    let wanted = calls - calls / 100;
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen >= wanted
    };
    bucket_limit(window.iter().position(reaches).unwrap_or(window.len() - 1)) as f64
}

#[cfg(test)]
mod tests {
    use super::{BaselineChange, LatencyBaseline, WARMUP_WINDOWS};

    /// The bucket of durations of 4, 64 and 1024 microseconds.
    const BRIEF: usize = 4;
    const LONG: usize = 20;
    const VERY_LONG: usize = 36;

    struct Command {
        baseline: LatencyBaseline,
        counted: Vec<u64>,
    }

    impl Command {
        fn new() -> Self {
            Self { baseline: LatencyBaseline::default(), counted: vec![0; 64] }
        }

        fn call(&mut self, bucket: usize, times: u64) -> Option<BaselineChange> {
            self.counted[bucket] += times;
            self.baseline.observe(&self.counted)
        }

        /// One that has learned how brief it can be.
        fn learned() -> Self {
            let mut command = Self::new();
            for _ in 0..WARMUP_WINDOWS {
                assert_eq!(command.call(BRIEF, 100), None);
            }
            command
        }
    }

    #[test]
    fn a_command_that_strays_is_told_once_and_again_when_it_recovers() {
        let mut command = Command::learned();
        assert_eq!(command.call(VERY_LONG, 100), Some(BaselineChange::Regressed));
        assert_eq!(command.call(VERY_LONG, 100), None);
        assert_eq!(command.call(BRIEF, 100), Some(BaselineChange::Recovered));
        assert_eq!(command.call(BRIEF, 100), None);
        assert_eq!(command.call(VERY_LONG, 100), Some(BaselineChange::Regressed));
        assert_eq!(command.baseline.figures.regressions, 2);
    }

    #[test]
    fn little_is_no_straying() {
        let mut command = Command::learned();
        assert_eq!(command.call(LONG, 100), None, "64 microseconds are noise");
        // One call of a hundred and one may take any time.
        command.counted[VERY_LONG] += 1;
        assert_eq!(command.call(BRIEF, 100), None);
    }

    #[test]
    fn too_few_calls_are_no_window() {
        let mut command = Command::learned();
        assert_eq!(command.call(VERY_LONG, 99), None);
        assert_eq!(command.baseline.windows, WARMUP_WINDOWS);
        assert_eq!(command.call(VERY_LONG, 1), Some(BaselineChange::Regressed));
    }

    #[test]
    fn the_best_is_learned_first_and_forgotten_slowly() {
        let mut command = Command::new();
        assert_eq!(command.call(BRIEF, 100), None);
        for _ in 1..WARMUP_WINDOWS {
            assert_eq!(command.call(VERY_LONG, 100), None);
        }
        let mut command = Command::learned();
        for _ in 0..500 {
            command.call(VERY_LONG, 100);
        }
        assert!(!command.baseline.figures.is_regressed);
        assert_eq!(command.call(BRIEF, 100), None);
        assert!(command.baseline.figures.best_p99_us < 8.0);
    }

    #[test]
    fn a_reset_of_the_statistics_begins_a_window() {
        let mut command = Command::learned();
        command.counted = vec![0; 64];
        assert_eq!(command.call(VERY_LONG, 100), None);
        assert_eq!(command.call(VERY_LONG, 100), Some(BaselineChange::Regressed));
    }
}
