//! What looks on: pub/sub, tracking, MONITOR, notifications, statistics, the command log, latency.
//!
//! Invariant: an observer changes no data and takes only the parts that it reads.

pub mod big_keys;
pub mod call_size;
pub mod command_log;
pub mod execution;
pub mod hot_key_sketch;
pub mod hot_keys;
pub mod key_prefixes;
pub mod key_statistics;
pub mod key_survey;
pub mod latency;
pub mod latency_baselines;
pub mod monitor;
pub mod notifications;
pub mod observations;
pub mod pubsub;
pub mod pushes;
pub mod rates;
pub mod redact;
pub mod slot_stats;
pub mod span_queue;
pub mod stats;
pub mod tracking;
