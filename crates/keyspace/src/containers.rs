//! How large containers' small forms may grow: the directives that commands read. Invariant: each
//! is one relaxed load; the server stores them when the configuration changes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Redis' thresholds; the names are those of the directives.
pub struct ContainerSettings {
    /// `hash-max-listpack-entries`.
    pub hash_entries: Threshold,
    /// `hash-max-listpack-value`, bytes.
    pub hash_value: Threshold,
    /// `set-max-intset-entries`.
    pub set_intset_entries: Threshold,
    /// `set-max-listpack-entries`.
    pub set_entries: Threshold,
    /// `set-max-listpack-value`, bytes.
    pub set_value: Threshold,
    /// `zset-max-listpack-entries`.
    pub sorted_set_entries: Threshold,
    /// `zset-max-listpack-value`, bytes.
    pub sorted_set_value: Threshold,
    /// `list-max-listpack-size`: entries, or with a minus sign a class of bytes (-1: 4 KB .. -5:
    /// 64 KB).
    pub list_size: AtomicI64,
    /// `stream-node-max-bytes`.
    pub stream_node_bytes: Threshold,
    /// `stream-node-max-entries`.
    pub stream_node_entries: Threshold,
    /// `stream-idmp-duration`, seconds.
    pub stream_idmp_seconds: Threshold,
    /// `stream-idmp-maxsize`, IDs of one producer.
    pub stream_idmp_size: Threshold,
    /// `hll-sparse-max-bytes`.
    pub hyperloglog_sparse_bytes: Threshold,
}

/// A number that the configuration sets and commands read.
pub struct Threshold(AtomicU64);

impl Threshold {
    /// The present number.
    #[inline]
    #[must_use]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }

    /// Sets the threshold.
    pub fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }
}

impl Default for ContainerSettings {
    /// Redis' defaults.
    fn default() -> Self {
        let threshold = |number| Threshold(AtomicU64::new(number));
        Self {
            hash_entries: threshold(512),
            hash_value: threshold(64),
            set_intset_entries: threshold(512),
            set_entries: threshold(128),
            set_value: threshold(64),
            sorted_set_entries: threshold(128),
            sorted_set_value: threshold(64),
            list_size: AtomicI64::new(-2),
            stream_node_bytes: threshold(4096),
            stream_node_entries: threshold(100),
            stream_idmp_seconds: threshold(100),
            stream_idmp_size: threshold(100),
            hyperloglog_sparse_bytes: threshold(3000),
        }
    }
}
