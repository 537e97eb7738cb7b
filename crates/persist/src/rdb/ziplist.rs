//! The ziplist, Redis' small form until 7.0: read only.
//!
//! ```text
//!  0           4          8        10                                       bytes - 1
//!  | bytes u32 | last u32 | count | entry | entry | ..                      | FF |
//!                                 |
//!    | length of the entry before: 1 byte, or FE and u32 | encoding, payload |
//!
//!  00xxxxxx + bytes            string, 6-bit length       C0 + 2 bytes    signed
//!  01xxxxxx + 1 byte + bytes   string, 14-bit length      D0 + 4 bytes    signed
//!  10...... + u32 + bytes      string, length big-endian  E0 + 8 bytes    signed
//!  1111xxxx                    0..=12, as xxxx - 1        F0 + 3 bytes    signed
//!                                                         FE + 1 byte     signed
//! ```
//!
//! Numbers are little-endian where nothing else is said. The count is 65,535 once there are as many
//! elements or more.

use structs::listpack::Element;

use super::{Malformed, Reader};

const HEADER: usize = 10;
const END_MARK: u8 = 0xff;
const WIDE_LENGTH: u8 = 0xfe;
const COUNT_UNKNOWN: usize = u16::MAX as usize;

/// A ziplist whose every length is right.
#[derive(Clone, Copy)]
pub(super) struct Ziplist<'a> {
    /// What lies between header and end mark.
    entries: &'a [u8],
    count: usize,
}

impl<'a> Ziplist<'a> {
    /// Looks at all lengths, the count, and where the last entry begins.
    pub(super) fn validate(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut header = Reader::new(bytes);
        let length = u32::from_le_bytes(header.array()?) as usize;
        let last = u32::from_le_bytes(header.array()?) as usize;
        let said = usize::from(u16::from_le_bytes(header.array()?));
        let rest = header.take(header.remaining() as u64)?;
        let (END_MARK, entries) =
            rest.split_last().map(|(end, rest)| (*end, rest)).ok_or(Malformed)?
        else {
            return Err(Malformed);
        };
        let (mut reader, mut count, mut previous, mut offset) =
            (Reader::new(entries), 0, 0, HEADER);
        while !reader.is_at_end() {
            let before = reader.remaining();
            let (length_before, _) = read_entry(&mut reader)?;
            if length_before != previous {
                return Err(Malformed);
            }
            offset = HEADER + entries.len() - before;
            previous = before - reader.remaining();
            count += 1;
        }
        let is_whole = length == bytes.len()
            && last == offset
            && (said == count || said == COUNT_UNKNOWN && count >= COUNT_UNKNOWN);
        if is_whole { Ok(Self { entries, count }) } else { Err(Malformed) }
    }

    /// How many elements there are.
    pub(super) fn len(self) -> usize {
        self.count
    }

    /// All elements.
    pub(super) fn elements(self) -> impl Iterator<Item = Element<'a>> + Clone {
        let mut reader = Reader::new(self.entries);
        std::iter::from_fn(move || Some(read_entry(&mut reader).ok()?.1))
    }

    /// The elements by twos, if their number is even.
    pub(super) fn pairs(self) -> Result<impl Iterator<Item = [Element<'a>; 2]>, Malformed> {
        let mut elements = self.elements();
        let pairs = std::iter::from_fn(move || Some([elements.next()?, elements.next()?]));
        if self.count.is_multiple_of(2) { Ok(pairs) } else { Err(Malformed) }
    }
}

/// Reads the length of the entry before, and what the entry holds.
fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<(usize, Element<'a>), Malformed> {
    let previous = match reader.byte()? {
        WIDE_LENGTH => u32::from_le_bytes(reader.array()?) as usize,
        END_MARK => return Err(Malformed),
        length => usize::from(length),
    };
    let encoding = reader.byte()?;
    let low = encoding & 0x3f;
    let element = match encoding {
        0x00..=0x3f => Element::Bytes(reader.take(low.into())?),
        0x40..=0x7f => {
            let length = u64::from(low) << 8 | u64::from(reader.byte()?);
            Element::Bytes(reader.take(length)?)
        }
        0x80..=0xbf => {
            let length = u32::from_be_bytes(reader.array()?);
            Element::Bytes(reader.take(length.into())?)
        }
        0xc0 => Element::Integer(i16::from_le_bytes(reader.array()?).into()),
        0xd0 => Element::Integer(i32::from_le_bytes(reader.array()?).into()),
        0xe0 => Element::Integer(i64::from_le_bytes(reader.array()?)),
        0xf0 => {
            let [low, middle, high] = reader.array()?;
            Element::Integer((i32::from_le_bytes([0, low, middle, high]) >> 8).into())
        }
        0xf1..=0xfd => Element::Integer(i64::from(encoding & 0x0f) - 1),
        0xfe => Element::Integer(i8::from_le_bytes(reader.array()?).into()),
        _ => return Err(Malformed),
    };
    Ok((previous, element))
}

#[cfg(test)]
mod tests {
    use structs::listpack::Element;

    use super::Ziplist;

    /// A ziplist of these elements' encodings and payloads.
    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let (mut content, mut previous, mut last) = (Vec::new(), 0, 10);
        for entry in entries {
            last = 10 + content.len();
            let before = content.len();
            if previous < 254 {
                content.push(previous as u8);
            } else {
                content.push(0xfe);
                content.extend_from_slice(&(previous as u32).to_le_bytes());
            }
            content.extend_from_slice(entry);
            previous = content.len() - before;
        }
        let mut bytes = (content.len() as u32 + 11).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(last as u32).to_le_bytes());
        bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&content);
        bytes.push(0xff);
        bytes
    }

    #[test]
    fn every_encoding_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let longer = [&[0x80, 0, 0, 0x40, 0][..], &[b'y'; 16_384]].concat();
        let bytes = ziplist(&[
            b"\x02ab",
            &long,
            &longer,
            b"\x00",
            b"\xc0\xff\x7f",
            b"\xd0\0\0\0\x80",
            b"\xe0\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xf0\xff\xff\xff",
            b"\xf0\0\0\x80",
            b"\xf1",
            b"\xfd",
            b"\xfe\x80",
        ]);
        let elements: Vec<_> = Ziplist::validate(&bytes).unwrap().elements().collect();
        let expected = [
            Element::Bytes(b"ab"),
            Element::Bytes(&[b'x'; 300]),
            Element::Bytes(&[b'y'; 16_384]),
            Element::Bytes(b""),
            Element::Integer(32_767),
            Element::Integer(i32::MIN.into()),
            Element::Integer(i64::MAX),
            Element::Integer(-1),
            Element::Integer(-(1 << 23)),
            Element::Integer(0),
            Element::Integer(12),
            Element::Integer(-128),
        ];
        assert_eq!(elements, expected);
        assert_eq!(Ziplist::validate(&ziplist(&[])).map(Ziplist::len), Ok(0));
    }

    #[test]
    fn a_wrong_length_anywhere_is_seen() {
        let bytes = ziplist(&[b"\x02ab", b"\xc0\xff\x7f", b"\xf3", b"\x40\x01x"]);
        assert!(Ziplist::validate(&bytes).is_ok());
        for cut in 0..bytes.len() {
            assert!(Ziplist::validate(&bytes[..cut]).is_err(), "{cut}");
        }
        // All but the payloads: header, lengths of entries before, encodings, end mark.
        for at in (0..12).chain([14, 15, 18, 20, 21, 22, 24]) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(Ziplist::validate(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn an_odd_number_makes_no_pairs() {
        for (entries, pairs) in [(&[b"\xf1".as_slice()][..], None), (&[b"\xf1", b"\xf2"], Some(1))]
        {
            let bytes = ziplist(entries);
            let ziplist = Ziplist::validate(&bytes).unwrap();
            assert_eq!(ziplist.pairs().ok().map(Iterator::count), pairs);
        }
    }
}
