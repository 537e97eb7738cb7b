//! The persist room: how data looks outside of memory, and how it is read back.
//!
//! Everything that is read here may come from a stranger: a file, a replication stream, the
//! argument of RESTORE. Invariant: whatever the bytes, reading them ends in a value or in
//! [`Malformed`](rdb::Malformed), never in a panic, and memory is taken for bytes that are there,
//! not for lengths that are merely claimed.

#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod contents;
pub mod dump;
pub mod entry_notes;
pub mod functions;
pub mod lzf;
pub mod rdb;
pub mod storage;
