//! FUNCTION DUMP payloads: the code of libraries, sealed as the payload of a value is.
//!
//! ```text
//!  ( 245, 1 byte | code, as a string of a snapshot )* | version, 2 bytes | CRC-64, 8 bytes
//! ```
//!
//! Invariant: a payload restores to the codes it was made from, in their order, or to none.

use crate::dump::{RestoreError, seal, unseal};
use crate::rdb::file::LIBRARY;
use crate::rdb::string::{read_string, write_bytes};
use crate::rdb::{Malformed, Reader, Writer};

/// The oldest format that has libraries, so that every server that knows them reads this.
const VERSION: u16 = 10;

/// The payload of libraries.
pub fn dump<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Writer::new(true);
    for code in codes {
        out.push(LIBRARY);
        write_bytes(&mut out, code);
    }
    seal(out.into_bytes(), VERSION)
}

/// The codes of a payload.
pub fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, RestoreError> {
    let (content, _) = unseal(payload)?;
    let mut reader = Reader::new(content);
    let mut codes = Vec::new();
    while !reader.is_at_end() {
        if reader.byte()? != LIBRARY {
            return Err(Malformed.into());
        }
        codes.push(read_string(&mut reader)?.into_bytes().into_owned());
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::{dump, restore};
    use crate::dump::RestoreError;

    #[test]
    fn libraries_come_back() {
        let long = [b"#!lua name=long\n".as_slice(), &b"local x = 1 ".repeat(500)].concat();
        let codes = [b"#!lua name=a\nx".as_slice(), &long, b"12345"];
        let payload = dump(codes.into_iter());
        assert!(payload.len() < 200, "what repeats is packed");
        assert_eq!(restore(&payload).unwrap(), codes);
        assert_eq!(restore(&dump([].into_iter())).unwrap(), Vec::<Vec<u8>>::new());
        for cut in 0..payload.len() {
            assert_eq!(restore(&payload[..cut]), Err(RestoreError::Seal));
        }
        // As Redis 7.0 and 8.2 dump no libraries at all.
        for foreign in [&b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda"[..], b"\x0c\x00\x96\xedh\x80\xf5U<\x93"]
        {
            assert_eq!(restore(foreign).unwrap(), Vec::<Vec<u8>>::new());
        }
    }
}
