//! The zipmap, the small hash of Redis until 2.6: read only.
//!
//! ```text
//!  | count, 1 byte | length, field, length, unused, value, unused bytes | ..  | FF |
//! ```
//!
//! A length is one byte below 254, or FE and u32. The count is 254 once there are as many fields or
//! more.

use super::{Malformed, Reader};

const END_MARK: u8 = 0xff;
const WIDE_LENGTH: u8 = 0xfe;
const COUNT_UNKNOWN: u8 = 0xfe;

/// A zipmap whose every length is right.
#[derive(Clone, Copy)]
pub(super) struct Zipmap<'a> {
    /// What lies between count and end mark.
    entries: &'a [u8],
}

impl<'a> Zipmap<'a> {
    /// Looks at all lengths and the count.
    pub(super) fn validate(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let [said, entries @ .., END_MARK] = bytes else { return Err(Malformed) };
        let (mut reader, mut count) = (Reader::new(entries), 0_usize);
        while !reader.is_at_end() {
            read_field(&mut reader)?;
            count += 1;
        }
        let is_whole = *said == COUNT_UNKNOWN || usize::from(*said) == count;
        if is_whole { Ok(Self { entries }) } else { Err(Malformed) }
    }

    /// All fields with their values.
    pub(super) fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(self.entries);
        std::iter::from_fn(move || read_field(&mut reader).ok())
    }
}

fn read_field<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let length = read_length(reader)?;
    let field = reader.take(length)?;
    let length = read_length(reader)?;
    let unused = reader.byte()?;
    let value = reader.take(length)?;
    reader.take(unused.into())?;
    Ok((field, value))
}

fn read_length(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    match reader.byte()? {
        WIDE_LENGTH => Ok(u32::from_le_bytes(reader.array()?).into()),
        END_MARK => Err(Malformed),
        length => Ok(length.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::Zipmap;

    #[test]
    fn fields_are_read_whatever_lies_unused_between_them() {
        let long = [b'v'; 300];
        let bytes =
            [b"\x02\x01a\x03\x02foo..\xfe\x01\0\0\0b\xfe\x2c\x01\0\0\0".as_slice(), &long, b"\xff"];
        let bytes = bytes.concat();
        let zipmap = Zipmap::validate(&bytes).unwrap();
        let fields: Vec<_> = zipmap.fields().collect();
        assert_eq!(fields, [(&b"a"[..], &b"foo"[..]), (b"b", &long)]);
    }

    #[test]
    fn a_wrong_length_anywhere_is_seen() {
        let bytes = b"\x02\x01a\x03\x02foo..\x01b\x01\0c\xff";
        assert!(Zipmap::validate(bytes).is_ok());
        for cut in 0..bytes.len() {
            assert!(Zipmap::validate(&bytes[..cut]).is_err(), "{cut}");
        }
        for (at, byte) in [(0, 1), (0, 3), (1, 255), (1, 200), (3, 4), (4, 1), (4, 9), (12, 2)] {
            let mut changed = *bytes;
            changed[at] = byte;
            assert!(Zipmap::validate(&changed).is_err(), "{at}");
        }
    }
}
