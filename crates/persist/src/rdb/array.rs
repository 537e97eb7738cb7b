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
use super::{Malformed, Reader, ValueType, Writer};

/// How an array is written.
#[must_use]
pub fn value_type(_: ArrayRef<'_>) -> ValueType {
    ValueType::Array
}

/// Appends an array.
pub fn write(out: &mut Writer, array: ArrayRef<'_>) {
    write_length(out, array.count());
    write_length(out, array.next());
    write_length(out, array.ring());
    let mut expected = 0;
    for (index, text) in array.items(0..=INDEX_MAX) {
        write_length(out, index - expected);
        write_member(out, text);
        expected = index + 1;
        out.flush_if_large();
    }
}

/// Reads an array.
pub fn read(reader: &mut Reader<'_>) -> Result<Array, Malformed> {
    let mut elements = Elements::begin(reader)?;
    while elements.left > 0 {
        elements.read_next(reader)?;
    }
    elements.finish()
}

/// An array whose elements are being read.
pub(super) struct Elements {
    array: Array,
    next: u64,
    ring: u64,
    /// The lowest index that comes next.
    expected: u64,
    /// How many are to come.
    pub(super) left: u64,
}

impl Elements {
    /// Reads what comes before the elements.
    pub(super) fn begin(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [left, next, ring] = [read_length(reader)?, read_length(reader)?, read_length(reader)?];
        Ok(Self { array: Array::default(), next, ring, expected: 0, left })
    }

    /// Reads an element.
    pub(super) fn read_next(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let index = self.expected.checked_add(read_length(reader)?).ok_or(Malformed)?;
        if index > INDEX_MAX {
            return Err(Malformed);
        }
        self.array.set(index, read_string(reader)?.as_member());
        (self.expected, self.left) = (index + 1, self.left - 1);
        Ok(())
    }

    /// The array with all its elements.
    pub(super) fn finish(mut self) -> Result<Array, Malformed> {
        self.array.set_state(self.next, self.ring);
        if self.expected == 0 { Err(Malformed) } else { Ok(self.array) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::{any, prop_oneof};
    use proptest::{prop_assert_eq, proptest};
    use structs::array::{Array, INDEX_MAX};
    use structs::members::Text;

    use super::{read, write};
    use crate::rdb::{Malformed, Reader, Writer};

    type Contents = (u64, u64, Vec<(u64, Vec<u8>)>);

    fn contents(array: &Array) -> Contents {
        let array = array.borrow();
        let elements = array.items(0..=INDEX_MAX).map(|(index, text)| (index, text.to_vec()));
        (array.next(), array.ring(), elements.collect())
    }

    fn written(array: &Array) -> Vec<u8> {
        let mut out = Writer::new(true);
        write(&mut out, array.borrow());
        out.into_bytes()
    }

    fn read_all(bytes: &[u8]) -> Result<Contents, Malformed> {
        let mut reader = Reader::new(bytes);
        let array = read(&mut reader)?;
        if reader.is_at_end() { Ok(contents(&array)) } else { Err(Malformed) }
    }

    #[test]
    fn an_array_is_read_as_written_and_its_cuts_are_refused() {
        let mut array = Array::default();
        array.set(1, Text::Bytes(b"a"));
        array.set(3, Text::Integer(5));
        array.set_state(4, 9);
        let bytes = written(&array);
        assert_eq!(bytes, b"\x02\x04\x09\x01\x01a\x01\xc0\x05");
        assert_eq!(read_all(&bytes), Ok((4, 9, vec![(1, b"a".to_vec()), (3, b"5".to_vec())])));
        for end in 0..bytes.len() {
            assert_eq!(read_all(&bytes[..end]), Err(Malformed), "cut at {end}");
        }
    }

    #[test]
    fn hostile_arrays_are_refused() {
        let contents: [&[u8]; 5] = [
            // Nothing in it.
            b"\0\0\0",
            // More claimed than there is.
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01a",
            // Indexes beyond the greatest.
            b"\x01\0\0\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
            b"\x02\0\0\x81\xff\xff\xff\xff\xff\xff\xff\xfe\x01a\0\x01b",
            // One too many.
            b"\x01\0\0\0\x01a\0\x01b",
        ];
        for content in contents {
            assert_eq!(read_all(content), Err(Malformed), "{content:02x?}");
        }
    }

    proptest! {
        #[test]
        fn an_array_comes_back(
            elements in btree_map(
                prop_oneof![0..300_u64, any::<u64>()],
                vec(any::<u8>(), 0..40),
                1..300,
            ),
            next: u64,
            ring: u64,
        ) {
            let mut array = Array::default();
            for (index, element) in &elements {
                array.set((*index).min(INDEX_MAX), Text::Bytes(element));
            }
            array.set_state(next, ring);
            let bytes = written(&array);
            prop_assert_eq!(read_all(&bytes), Ok(contents(&array)));
        }
    }
}
