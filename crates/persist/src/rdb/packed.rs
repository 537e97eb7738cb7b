//! Small forms as strings: the bytes of Redis, checked before anyone walks them.
//!
//! Invariant: what is given out is a valid listpack with elements, or a valid intset.

use std::borrow::Cow;

use structs::listpack::{self, Element, Listpack};
use structs::{intset, secret};

use super::string::read_string;
use super::{Malformed, Reader};

/// Reads a listpack that has elements.
pub(super) fn read_listpack(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    match read_any_listpack(reader)? {
        bytes if Listpack::new(&bytes).is_empty() => Err(Malformed),
        bytes => Ok(bytes.into_owned()),
    }
}

/// Reads a listpack, which may be empty.
pub(super) fn read_any_listpack<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, [u8]>, Malformed> {
    let bytes = read_string(reader)?.into_bytes();
    listpack::validate(&bytes).map_err(|_| Malformed)?;
    Ok(bytes)
}

/// Reads an intset.
pub(super) fn read_intset(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let bytes = read_string(reader)?.into_bytes();
    intset::validate(&bytes).map_err(|_| Malformed)?;
    Ok(bytes.into_owned())
}

/// Whether no two are the same string.
///
/// Takes eight bytes of memory for each. Strings of equal hash, which are hardly ever different
/// ones, are compared.
pub(super) fn all_different<'a>(elements: &(impl Iterator<Item = Element<'a>> + Clone)) -> bool {
    let hash_of = |element: Element<'_>| secret::hasher().hash(element.to_text(&mut [0; 20]));
    let mut hashes: Vec<u64> = elements.clone().map(hash_of).collect();
    hashes.sort_unstable();
    let mut twice = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    !twice.any(|hash| {
        let mut alike = elements.clone().filter(|element| hash_of(*element) == hash);
        let first = alike.next().map(Element::to_vec).unwrap_or_default();
        alike.any(|element| element.equals(&first))
    })
}

#[cfg(test)]
mod tests {
    use structs::listpack::Element;

    use super::all_different;

    #[test]
    fn what_is_written_in_two_ways_is_not_different() {
        let number = Element::Integer(12);
        for (elements, expected) in [
            (vec![], true),
            (vec![number, Element::Bytes(b"a"), Element::Bytes(b"b")], true),
            (vec![number, Element::Bytes(b"012")], true),
            (vec![number, Element::Bytes(b"a"), number], false),
            (vec![Element::Bytes(b"12"), Element::Bytes(b"a"), number], false),
            (vec![Element::Bytes(b""), Element::Bytes(b"")], false),
        ] {
            assert_eq!(all_different(&elements.iter().copied()), expected, "{elements:?}");
        }
    }
}
