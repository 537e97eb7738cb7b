//! The number of a client, by which others know it without holding it.

/// As CLIENT ID has it; never given twice.
pub type ClientId = u64;
