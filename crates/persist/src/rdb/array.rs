//! Arrays: our own format, since that of Redis 8.8 is not published.
//!
//! ```text
//!  count | where the next element is appended | size of the ring | gap, element | ..
//! ```
//!
//! A gap tells how many indexes are missing before the element's. Invariant: there is at least one
//! element, and no index is beyond the greatest.

use structs::array::{Array, ArrayRef, INDEX_MAX};

use super::length::{read_length, write_length};
use super::string::{read_string, write_member};
use super::{Malformed, Reader, ValueType};

/// How an array is written.
#[must_use]
pub fn value_type(_: ArrayRef<'_>) -> ValueType {
    ValueType::Array
}

/// Appends an array.
pub fn write(out: &mut Vec<u8>, array: ArrayRef<'_>) {
    write_length(out, array.count());
    write_length(out, array.next());
    write_length(out, array.ring());
    let mut expected = 0;
    for (index, text) in array.items(0..=INDEX_MAX) {
        write_length(out, index - expected);
        write_member(out, text);
        expected = index + 1;
    }
}

/// Reads an array.
pub fn read(reader: &mut Reader<'_>) -> Result<Array, Malformed> {
    let [count, next, ring] = [read_length(reader)?, read_length(reader)?, read_length(reader)?];
    let mut array = Array::default();
    let mut expected: u64 = 0;
    for _ in 0..count {
        let index = expected.checked_add(read_length(reader)?).ok_or(Malformed)?;
        if index > INDEX_MAX {
            return Err(Malformed);
        }
        array.set(index, read_string(reader)?.as_member());
        expected = index + 1;
    }
    array.set_state(next, ring);
    if count == 0 { Err(Malformed) } else { Ok(array) }
}
