//! Statistics of keys that nobody has to ask for: what they follow of the configuration, and when
//! they are looked at.
//!
//! Invariants: all keys are counted on a background thread, for a command as for the clock; the
//! clock has one look of each kind under way at most, and the look ends where keys are held for too
//! long.

use config::settings::{BIG_KEYS, HOT_KEYS_SAMPLE, KEY_PREFIXES, KEY_PREFIXES_INTERVAL};
use engine::observe::key_prefixes::{self, PrefixRule, PrefixStats};
use engine::runtime::background::SoleVisit;
use keyspace::{BigKeyMetric, Refusal};

use crate::server::Server;

/// From one look at the biggest keys to the next.
const BIG_KEYS_PAUSE_US: i64 = 10_000_000;

/// Follows the configuration.
pub(crate) fn configure(server: &Server) {
    let statistics = &server.observed.key_statistics;
    let rule = PrefixRule::of(&server.config.get(KEY_PREFIXES));
    let now_us = server.keyspace.clock().monotonic_us();
    statistics.hot.configure(server.config.get(HOT_KEYS_SAMPLE), rule, now_us);
    server.keyspace.big_keys().switch(server.config.get(BIG_KEYS));
}

/// When the slow clock is to begin the next looks, on the monotonic clock, and whether the one
/// before is under way.
#[derive(Default)]
pub(crate) struct KeyStatsSchedule {
    next_big_us: i64,
    next_survey_us: i64,
    big: SoleVisit,
    survey: SoleVisit,
}

impl KeyStatsSchedule {
    /// Begins what is due.
    pub(crate) fn tick(&mut self, server: &'static Server) {
        let now_us = server.keyspace.clock().monotonic_us();
        if now_us >= self.next_big_us && server.keyspace.big_keys().is_any() {
            self.next_big_us = now_us + BIG_KEYS_PAUSE_US;
            // What others hold for too long is looked at the next time.
            _ = self.big.begin(&server.threads.background, move |lane| {
                for by in [BigKeyMetric::Memory, BigKeyMetric::Elements] {
                    _ = server.observed.key_statistics.big.collect(server.keyspace, lane, by);
                }
            });
        }
        let pause_us = i64::from(server.config.get(KEY_PREFIXES_INTERVAL)) * 1_000_000;
        if pause_us > 0 && now_us >= self.next_survey_us && !server.gates.loading.is_on() {
            self.next_survey_us = now_us + pause_us;
            _ = self
                .survey
                .begin(&server.threads.background, move |lane| _ = scan_prefixes(server, lane));
        }
    }
}

/// Counts all keys by their prefixes, on a background thread.
pub(crate) fn scan_prefixes(server: &Server, lane: usize) -> Result<PrefixStats, Refusal> {
    let rule = PrefixRule::of(&server.config.get(KEY_PREFIXES));
    let stats = key_prefixes::scan_prefixes(server.keyspace, lane, &rule)?;
    server.observed.key_statistics.keep(stats.clone());
    Ok(stats)
}
