//! What is wrong with a file, and where.

use std::fmt;
use std::io;

use crate::rdb::ValueType;

/// A file that cannot be read to its end.
#[derive(Debug)]
pub struct FileError {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there.
    pub damage: Damage,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Damage {
    /// The file does not begin as such a file does.
    Head,
    /// The file has a version that is not known.
    Version(u16),
    /// The file ends before its end.
    Truncated,
    /// Bytes that mean nothing.
    Malformed,
    /// A value that is none of its type.
    Value(ValueType),
    /// An item that only other servers know, or none.
    Unknown(u8),
    /// What a module of this name wrote.
    Module(String),
    /// The checksum is not that of the bytes.
    Sum,
    /// A key that was there before.
    Twice,
    /// A database that there is none of.
    Database(u64),
    /// What is there is not wanted, for this reason.
    Refused(String),
    /// The sink that was to take it has ended.
    Stopped,
    /// The disk does not give it.
    Unread(io::Error),
}

/// Items that other servers write in formats that are not published.
const FOREIGN: &[(u8, &str)] = &[
    (6, "a value of a module of Redis 4.0 or older"),
    (28, "an array of Redis"),
    (29, "a hash with a template"),
    (30, "a hash with a template"),
    (31, "a hash with a template"),
    (32, "a hash with a template"),
    (33, "a rate limiter"),
    (241, "a key that is never evicted"),
    (242, "a template of hashes"),
    (243, "what modules know of keys"),
    (246, "a function of a candidate of Redis 7.0"),
];

impl FileError {
    /// Damage at a place.
    #[must_use]
    pub fn at(offset: u64, damage: Damage) -> Self {
        Self { offset, damage }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at offset {}: ", self.offset)?;
        match &self.damage {
            Damage::Head => out.write_str("wrong signature, this is no RDB file"),
            Damage::Version(version) => write!(out, "RDB version {version} is not known"),
            Damage::Truncated => out.write_str("the file is cut off"),
            Damage::Malformed => out.write_str("the bytes are malformed"),
            Damage::Value(value_type) => write!(out, "the value is malformed ({value_type:?})"),
            Damage::Unknown(byte) => match FOREIGN.iter().find(|(foreign, _)| foreign == byte) {
                Some((_, name)) => write!(out, "{name} cannot be read (type {byte})"),
                None => write!(out, "there is no type {byte}"),
            },
            Damage::Module(name) => {
                write!(out, "data of the module type {name}, which is not there")
            }
            Damage::Sum => out.write_str("the checksum is wrong"),
            Damage::Twice => out.write_str("the key is there twice"),
            Damage::Database(database) => write!(out, "there is no database {database}"),
            Damage::Refused(why) => out.write_str(why),
            Damage::Stopped => out.write_str("a thread that loads has ended"),
            Damage::Unread(error) => write!(out, "the file cannot be read: {error}"),
        }
    }
}

impl std::error::Error for FileError {}
