//! The containers that hold the data: nothing in here knows of keys, clients or clocks.
//!
//! - [`table`]: the hash table of one slot, words of address and fingerprint.
//! - [`blob`]: a big byte string as a tree of shared leaves.

pub mod blob;
pub mod table;
