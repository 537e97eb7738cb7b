//! What std lacks: number text, base64, checksums, the keyed hash, randomness, globs, expressions,
//! quoting, the clock.
//!
//! Knows nothing of Redis commands, of keys or of sockets; every other room may import it.
//! `unsafe` is confined to files named `ffi.rs`, which ask the processor for single instructions
//! and the system for what `rustix` lacks.
#![deny(unsafe_code)]

pub mod account_lines;
pub mod base64;
pub mod cpu_time;
pub mod crc;
mod float_text;
pub mod glob;
mod grisu;
pub mod hash;
pub mod hash_slot;
pub mod io_error_text;
pub mod long_double;
pub mod number;
pub mod process_title;
pub mod quote;
pub mod random;
pub mod regex;
pub mod scheduler;
pub mod shared_bytes;
pub mod step_count;
pub mod substring;
pub mod suggestion;
pub mod time;
pub mod wakers;

pub use cpu_time::CpuTime;
pub use hash::KeyHasher;
pub use long_double::LongDouble;
pub use random::Random;
pub use shared_bytes::SharedBytes;
pub use time::{Clock, UnixMillis};
pub use wakers::{LineGrowth, Wakers};
