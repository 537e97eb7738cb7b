//! Strings: plain, as an integer, or compressed.
//!
//! Invariant: what is written reads back as the same bytes, in Redis too; an integer that fits 32
//! bits is written as one, and a string over 20 bytes compressed where that is wanted and makes it
//! shorter.

use std::borrow::Cow;

use structs::blob::Blob;
use structs::listpack::Element;
use structs::members;

use super::length::{Length, read_length, read_length_or_encoding, write_encoding, write_length};
use super::{Malformed, Reader, Writer};
use crate::lzf;

const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
/// The encoding of a string that is compressed.
pub(super) const COMPRESSED: u8 = 3;

/// Strings up to this many bytes are not compressed: nothing would be gained.
const INCOMPRESSIBLE_MAX: usize = 20;

/// The most digits, with a sign, of an integer that is written as one.
const INTEGER_TEXT_MAX: usize = 11;

/// A string as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The string was written as an integer; its bytes are the decimal digits.
    Integer(i64),
    /// Its bytes.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> From<Element<'a>> for Decoded<'a> {
    fn from(element: Element<'a>) -> Self {
        match element {
            Element::Integer(number) => Self::Integer(number),
            Element::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

impl<'a> Decoded<'a> {
    /// The string as an element of a listpack.
    #[must_use]
    pub fn as_element(&self) -> Element<'_> {
        match self {
            Self::Integer(number) => Element::Integer(*number),
            Self::Bytes(bytes) => Element::Bytes(bytes),
        }
    }

    /// The string as a member.
    #[must_use]
    pub fn as_member(&self) -> members::Text<'_> {
        self.as_element().into()
    }

    /// The string's bytes.
    #[must_use]
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        match self {
            Self::Integer(number) => Element::Integer(number).to_vec().into(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Reads a string.
pub fn read_string<'a>(reader: &mut Reader<'a>) -> Result<Decoded<'a>, Malformed> {
    let encoding = match read_length_or_encoding(reader)? {
        Length::Plain(length) => return Ok(Decoded::Bytes(reader.take(length)?.into())),
        Length::Encoding(encoding) => encoding,
    };
    Ok(match encoding {
        INT_8 => Decoded::Integer(i8::from_le_bytes(reader.array()?).into()),
        INT_16 => Decoded::Integer(i16::from_le_bytes(reader.array()?).into()),
        INT_32 => Decoded::Integer(i32::from_le_bytes(reader.array()?).into()),
        COMPRESSED => {
            let packed_length = read_length(reader)?;
            let length = usize::try_from(read_length(reader)?).map_err(|_| Malformed)?;
            let packed = reader.take(packed_length)?;
            Decoded::Bytes(lzf::decompress(packed, length).ok_or(Malformed)?.into())
        }
        _ => return Err(Malformed),
    })
}

/// Appends a string.
pub fn write_string(out: &mut Writer, text: &keyspace::Text<'_>) {
    match text {
        keyspace::Text::Integer(number) if write_integer(out, *number) => {}
        keyspace::Text::Large(blob) => write_blob(out, blob),
        text => write_bytes(out, text.contiguous(&mut Vec::new())),
    }
}

/// Appends a string that lies in pieces and is too long for an integer.
fn write_blob(out: &mut Writer, blob: &Blob) {
    let (len, pieces) = (blob.len(), || blob.chunks(0..blob.len()));
    let write_packed = |out: &mut Writer, packed: &[u8]| write_packed(out, packed, len);
    if out.pack(|packer| packer.pack_pieces(len, pieces()), write_packed) {
        return;
    }
    write_length(out, len as u64);
    out.buffer().reserve(len);
    pieces().for_each(|piece| out.extend(piece));
}

/// Appends a member, value or element as a string.
pub fn write_member(out: &mut Writer, text: members::Text<'_>) {
    match text {
        members::Text::Integer(number) if write_integer(out, number) => {}
        text => write_bytes(out, text.as_bytes(&mut Vec::new())),
    }
}

/// Appends a string of these bytes.
pub fn write_bytes(out: &mut Writer, bytes: &[u8]) {
    let is_integer = bytes.len() <= INTEGER_TEXT_MAX
        && base::number::parse_i64(bytes).is_some_and(|number| write_integer(out, number));
    if is_integer {
        return;
    }
    let write_packed = |out: &mut Writer, packed: &[u8]| write_packed(out, packed, bytes.len());
    if bytes.len() > INCOMPRESSIBLE_MAX && out.pack(|packer| packer.pack(bytes), write_packed) {
        return;
    }
    write_length(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Appends the packed form of a string of so many bytes.
fn write_packed(out: &mut Writer, packed: &[u8], len: usize) {
    write_encoding(out, COMPRESSED);
    write_length(out, packed.len() as u64);
    write_length(out, len as u64);
    out.extend(packed);
}

/// Appends an integer if it fits 32 bits; whether it does.
fn write_integer(out: &mut Writer, number: i64) -> bool {
    if let Ok(number) = i8::try_from(number) {
        write_encoding(out, INT_8);
        out.extend(&number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        write_encoding(out, INT_16);
        out.extend(&number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        write_encoding(out, INT_32);
        out.extend(&number.to_le_bytes());
    } else {
        return false;
    }
    true
}
