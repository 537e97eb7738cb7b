//! What a key costs.

use super::{OPTIONS, keyspace, set, world};

/// The goal is 24 bytes beyond eight of key and eight of value, from a million keys on: header,
/// table word and its slack. (The partitions themselves are 2 MB whatever is in them.)
#[test]
fn a_million_small_keys_cost_at_most_24_bytes_each() {
    const KEYS: usize = 1_000_000;
    let keyspace = keyspace();
    let mut tx = world(keyspace, OPTIONS);
    for number in 0..KEYS {
        let key = format!("k{number:07}");
        // Not an integer, or the value would be shorter.
        set(&mut tx, key.as_bytes(), key.as_bytes());
    }
    let per_key = keyspace.memory() as f64 / KEYS as f64;
    assert!(per_key <= 16.0 + 24.0, "{per_key} bytes a key");
}
