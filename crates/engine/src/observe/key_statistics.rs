//! What is known of single keys and of groups of them: the hot ones, the big ones, the prefixes.
//!
//! Invariant: none of it is needed to serve a request.

use std::sync::Mutex;

use super::big_keys::BigKeyReports;
use super::hot_key_sketch::HotKeySketch;
use super::key_prefixes::PrefixStats;

/// The statistics of keys.
#[derive(Default)]
pub struct KeyStatistics {
    /// The keys that are used most.
    pub hot: HotKeySketch,
    /// The keys that take most.
    pub big: BigKeyReports,
    latest_prefix_stats: Mutex<PrefixStats>,
}

impl KeyStatistics {
    /// How many keys there were of each prefix when they were last counted.
    pub fn latest_prefix_stats(&self) -> PrefixStats {
        self.latest_prefix_stats.lock().expect("no critical section here panics").clone()
    }

    /// The keys were counted.
    pub fn keep(&self, stats: PrefixStats) {
        *self.latest_prefix_stats.lock().expect("no critical section here panics") = stats;
    }
}
