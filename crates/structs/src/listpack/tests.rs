//! Tests of the listpack: bytes as Redis writes them, edits against a list of strings.

use super::{Element, Listpack, new, push_back, validate};

#[test]
fn an_integer_becomes_an_integer() {
    let mut bytes = new();
    push_back(&mut bytes, Element::Bytes(b"12"));
    push_back(&mut bytes, Element::Bytes(b"-0"));
    assert_eq!(bytes, b"\x0d\0\0\0\x02\0\x0c\x01\x82-0\x03\xff");
    validate(&bytes).unwrap();
    assert_eq!(Listpack::new(&bytes).len(), 2);
}
