//! What gives memory back: expiry, eviction, compaction, `maxmemory-clients`.
//!
//! Invariant: whatever is removed leaves through `commit`.

pub mod client_eviction;
pub mod clock_renewal;
pub mod defrag;
pub mod evict;
pub mod expiry;
pub mod local_expiry;
pub mod purge;
pub mod slots;
