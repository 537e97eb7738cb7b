//! What is counted, timed and sampled of the commands that run.
//!
//! Invariant: nothing here changes what a command does or replies.

use std::sync::Arc;

use crate::observe::command_log::CommandLog;
use crate::observe::hot_keys::HotKeys;
use crate::observe::key_statistics::KeyStatistics;
use crate::observe::latency::LatencyMonitor;
use crate::observe::latency_baselines::LatencyBaselines;
use crate::observe::rates::RateMeter;
use crate::observe::slot_stats::SlotStats;
use crate::observe::span_queue::SpanQueue;
use crate::observe::stats::Stats;

/// What is counted, timed and sampled.
pub struct Observations {
    /// What INFO counts of commands, errors and connections.
    pub stats: Stats,
    /// SLOWLOG and COMMANDLOG.
    pub command_log: CommandLog,
    /// What took long and is to be exported.
    pub spans: Arc<SpanQueue>,
    /// HOTKEYS: the keys that take most.
    pub hot_keys: HotKeys,
    /// CLUSTER SLOT-STATS.
    pub slot_stats: SlotStats,
    /// What is known of single keys: the hot ones, the big ones, the prefixes.
    pub key_statistics: KeyStatistics,
    /// How long commands take, against the best that they have shown.
    pub baselines: LatencyBaselines,
    /// LATENCY: the samples of each event.
    pub latency: LatencyMonitor,
    /// How much happens per second; the slow clock keeps it.
    pub rates: RateMeter,
}

impl Observations {
    /// For a table of so many commands.
    pub(crate) fn new(commands: usize) -> Self {
        let spans = Arc::new(SpanQueue::default());
        Self {
            stats: Stats::new(commands),
            command_log: CommandLog::new(Arc::clone(&spans)),
            spans,
            hot_keys: HotKeys::default(),
            slot_stats: SlotStats::default(),
            key_statistics: KeyStatistics::default(),
            baselines: LatencyBaselines::default(),
            latency: LatencyMonitor::new(),
            rates: RateMeter::default(),
        }
    }
}
