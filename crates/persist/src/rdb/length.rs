//! Lengths, in one byte or as many as they need.
//!
//! ```text
//!  00llllll                        6 bits
//!  01llllll llllllll              14 bits
//!  10000000 and 4 bytes           32 bits, the highest byte first
//!  10000001 and 8 bytes           64 bits, the highest byte first
//!  11eeeeee                       no length: a special encoding of a string
//! ```

use super::{Malformed, Reader, Writer};

const WIDE_32: u8 = 0x80;
const WIDE_64: u8 = 0x81;

/// What stands where a length is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A length.
    Plain(u64),
    /// The number of a special encoding.
    Encoding(u8),
}

/// Reads what stands where a length is due.
pub fn read_length_or_encoding(reader: &mut Reader<'_>) -> Result<Length, Malformed> {
    let first = reader.byte()?;
    let low = first & 0x3f;
    Ok(match first {
        0x00..=0x3f => Length::Plain(u64::from(low)),
        0x40..=0x7f => Length::Plain(u64::from(low) << 8 | u64::from(reader.byte()?)),
        WIDE_32 => Length::Plain(u64::from(u32::from_be_bytes(reader.array()?))),
        WIDE_64 => Length::Plain(u64::from_be_bytes(reader.array()?)),
        0xc0..=0xff => Length::Encoding(low),
        _ => return Err(Malformed),
    })
}

/// Reads a length, where an encoding cannot stand.
pub fn read_length(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    match read_length_or_encoding(reader)? {
        Length::Plain(length) => Ok(length),
        Length::Encoding(_) => Err(Malformed),
    }
}

/// Appends a length in its shortest form.
pub fn write_length(out: &mut Writer, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend(&(0x4000 | length as u16).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        out.push(WIDE_32);
        out.extend(&length.to_be_bytes());
    } else {
        out.push(WIDE_64);
        out.extend(&length.to_be_bytes());
    }
}

/// Appends the number of a special encoding.
pub fn write_encoding(out: &mut Writer, encoding: u8) {
    debug_assert!(encoding < 1 << 6, "an encoding has six bits");
    out.push(0xc0 | encoding);
}

#[cfg(test)]
mod tests {
    use super::{Length, Reader, Writer, read_length, read_length_or_encoding, write_length};
    use crate::rdb::Malformed;

    #[test]
    fn lengths_come_back_in_the_shortest_form() {
        for (length, bytes) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 5),
            (u64::from(u32::MAX), 5),
            (u64::from(u32::MAX) + 1, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Writer::new(false);
            write_length(&mut out, length);
            let mut out = out.into_bytes();
            assert_eq!(out.len(), bytes, "{length}");
            let mut reader = Reader::new(&out);
            assert_eq!(read_length(&mut reader), Ok(length));
            assert!(reader.is_at_end());
            out.pop();
            assert_eq!(read_length(&mut Reader::new(&out)), Err(Malformed), "{length} cut short");
        }
    }

    #[test]
    fn what_is_no_length_is_told_apart() {
        let read = |byte| read_length_or_encoding(&mut Reader::new(&[byte; 9]));
        assert_eq!(read(0xc3), Ok(Length::Encoding(3)));
        assert_eq!(read(0xff), Ok(Length::Encoding(63)));
        assert_eq!(read(0x82), Err(Malformed));
        assert_eq!(read(0xbf), Err(Malformed));
        assert_eq!(read_length(&mut Reader::new(&[0xc0])), Err(Malformed));
    }
}
