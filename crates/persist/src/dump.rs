//! DUMP payloads: one value, sealed with a version and a checksum.
//!
//! ```text
//!  type, 1 byte | value, as in a snapshot | version, 2 bytes | CRC-64 of all before, 8 bytes
//! ```
//!
//! Version and checksum have their lowest byte first. Invariant: a payload restores to the value it
//! was made from, or to none at all; bytes behind the value are refused.

#[cfg(test)]
mod tests;

use base::crc::crc64;
use base::time::UnixMillis;
use keyspace::{EntryBox, EntryRef};

use crate::rdb::value::{Limits, Value, ValueRef};
use crate::rdb::{Malformed, REDIS_7_0, Reader, ValueType, Writer, is_readable};

/// Why a payload gives no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The seal is broken, or from a version that cannot be read.
    Seal,
    /// What was sealed is no value.
    Content,
}

impl From<Malformed> for RestoreError {
    fn from(_: Malformed) -> Self {
        Self::Content
    }
}

/// The payload of an entry's value, with its strings compressed or not.
#[must_use]
pub fn dump(entry: EntryRef<'_>, compresses: bool) -> Vec<u8> {
    let value_type = ValueRef::of(entry).value_type();
    seal(dump_as(entry, compresses, value_type), value_type.version())
}

/// The same as a server of this version can read it, where that costs nothing but when consumers of
/// a stream were active; else as always.
#[must_use]
pub fn dump_within(entry: EntryRef<'_>, compresses: bool, version: u16) -> Vec<u8> {
    let value_type = ValueRef::of(entry).value_type_within(version);
    // A type that all servers read is sealed as one of theirs.
    let needed = value_type.version();
    let sealed = if needed > REDIS_7_0 { needed } else { needed.min(version) };
    seal(dump_as(entry, compresses, value_type), sealed)
}

/// A value that is not sealed yet.
fn dump_as(entry: EntryRef<'_>, compresses: bool, value_type: ValueType) -> Vec<u8> {
    let mut out = Writer::new(compresses);
    out.push(value_type.byte());
    ValueRef::of(entry).write_as(&mut out, value_type);
    out.into_bytes()
}

/// The version that a whole payload claims.
#[must_use]
pub fn version_of(payload: &[u8]) -> Option<u16> {
    let (summed, _) = payload.split_last_chunk::<8>()?;
    summed.split_last_chunk::<2>().map(|(_, version)| u16::from_le_bytes(*version))
}

/// Content with its version and the checksum of it all.
pub(crate) fn seal(mut content: Vec<u8>, version: u16) -> Vec<u8> {
    content.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(0, &content);
    content.extend_from_slice(&sum.to_le_bytes());
    content
}

/// An entry with the value of a payload.
pub fn restore(
    payload: &[u8],
    key: &[u8],
    deadline: Option<UnixMillis>,
    limits: &Limits,
) -> Result<EntryBox, RestoreError> {
    let (content, version) = unseal(payload)?;
    let mut reader = Reader::new(content);
    let value_type = ValueType::from_byte(reader.byte()?, version).ok_or(Malformed)?;
    let value = Value::read(value_type, &mut reader, limits)?;
    if !reader.is_at_end() {
        return Err(RestoreError::Content);
    }
    Ok(value.into_entry(key, deadline))
}

/// What a payload seals, and its version.
pub(crate) fn unseal(payload: &[u8]) -> Result<(&[u8], u16), RestoreError> {
    let (summed, sum) = payload.split_last_chunk::<8>().ok_or(RestoreError::Seal)?;
    let (content, version) = summed.split_last_chunk::<2>().ok_or(RestoreError::Seal)?;
    let version = u16::from_le_bytes(*version);
    let is_whole = is_readable(version) && u64::from_le_bytes(*sum) == crc64(0, summed);
    if is_whole { Ok((content, version)) } else { Err(RestoreError::Seal) }
}
