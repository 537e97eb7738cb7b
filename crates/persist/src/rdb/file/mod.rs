//! Whole files: snapshots, and the beginning of a journal.
//!
//! ```text
//!  "REDIS" | version, four digits | item .. | 255 | CRC-64 of all before, 8 bytes, or 0
//! ```
//!
//! Valkey's own versions begin with `VALKEY` and three digits. An item is an opcode with what
//! belongs to it, or an entry: what is known of the key, each with an opcode, then type, key and
//! value.
//!
//! Invariant: a file that is written has the lowest version that says it all; what is read is all
//! that was written or an error that names the place.

mod damage;
mod gather;
mod read;
mod skip_cursor;
#[cfg(test)]
mod tests;
mod write;

pub use damage::{Damage, FileError};
pub use read::{
    Access, Batch, BuiltEntry, End, LargeEntrySink, RawEntry, Rules, Sink, check_head, read_file,
};
pub use write::{ByteSink, Chunk, ChunkWriter, FileWriter, Options, Written};

pub(crate) use opcode::LIBRARY;

/// The oldest version of files that we write, and of what they hold beside values.
const OLDEST: u16 = super::REDIS_7_0;

/// Bytes before the first item.
const HEAD_LEN: usize = 9;

/// What stands where an item begins and is no type of value.
mod opcode {
    /// The slot and its sizes, of a server in cluster mode.
    pub(super) const SLOT: u8 = 244;
    /// The code of a library.
    pub(crate) const LIBRARY: u8 = 245;
    /// What a module keeps beside keys.
    pub(super) const MODULE: u8 = 247;
    /// For how long the key was not used.
    pub(super) const IDLE: u8 = 248;
    /// How often the key was used.
    pub(super) const FREQUENCY: u8 = 249;
    /// Something about the file.
    pub(super) const NOTE: u8 = 250;
    /// How many keys the database has.
    pub(super) const SIZES: u8 = 251;
    /// When the key expires, in milliseconds.
    pub(super) const DEADLINE_MS: u8 = 252;
    /// When the key expires, in seconds.
    pub(super) const DEADLINE: u8 = 253;
    /// The database of the keys that follow.
    pub(super) const DATABASE: u8 = 254;
    /// The last.
    pub(super) const END: u8 = 255;
}
