//! The wire form of Protocol Buffers, as far as OTLP needs it.
//!
//! Invariants: a field that has its default is left out, as in proto3, but for members of a `oneof`
//! and of lists; what is read is never looked at beyond its end.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// A message as it grows.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// A number or an enumeration.
    pub(crate) fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.number_of_oneof(field, number);
        }
    }

    /// The same, told even where it is 0.
    pub(crate) fn number_of_oneof(&mut self, field: u64, number: u64) {
        self.tag(field, VARINT);
        self.varint(number);
    }

    pub(crate) fn fixed64(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.tag(field, FIXED64);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// A double that is told even where it is 0.
    pub(crate) fn double(&mut self, field: u64, number: f64) {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// A list of eight bytes each.
    pub(crate) fn packed<const N: usize>(
        &mut self,
        field: u64,
        numbers: impl ExactSizeIterator<Item = [u8; N]>,
    ) {
        if numbers.len() > 0 {
            self.tag(field, LENGTH);
            self.varint((numbers.len() * N) as u64);
            numbers.for_each(|number| self.bytes.extend_from_slice(&number));
        }
    }

    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.blob(field, text.as_bytes());
    }

    pub(crate) fn blob(&mut self, field: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.blob_of_oneof(field, bytes);
        }
    }

    /// The same, told even where it is empty.
    pub(crate) fn blob_of_oneof(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.blob_of_oneof(field, &inner.bytes);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// A field that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Blob(&'a [u8]),
    /// Four or eight bytes, which no answer has.
    Fixed,
}

/// The fields of a message with their numbers, up to the first that is none.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let field = match tag & 7 {
            VARINT => Field::Number(self.varint()?),
            FIXED64 => self.take(8).map(|_| Field::Fixed)?,
            FIXED32 => self.take(4).map(|_| Field::Fixed)?,
            LENGTH => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Blob(self.take(length)?)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Fields, Message};

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut message = Message::default();
        message.number(1, u64::MAX);
        message.number(2, 0);
        message.fixed64(3, 7);
        message.text(16, "text");
        message.message(4, |inner| inner.number(1, 300));
        let bytes = message.finish();
        let fields: Vec<_> = Fields(&bytes).collect();
        let expected = [
            (1, Field::Number(u64::MAX)),
            (3, Field::Fixed),
            (16, Field::Blob(b"text")),
            (4, Field::Blob(&[0x08, 0xac, 0x02])),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_is_cut_off_or_no_field_ends_the_message() {
        for bytes in [&b"\x0a\x05abc"[..], b"\x08", b"\x0b", b"\x09abc", &[0xff; 12]] {
            assert_eq!(Fields(bytes).next(), None, "{bytes:?}");
        }
        let endless = [&[0x0a][..], &[0xff; 9], &[0x01]].concat();
        assert_eq!(Fields(&endless).next(), None, "a length beyond the end");
    }
}
