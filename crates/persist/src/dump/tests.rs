//! Seals, and strings in them.

use base::crc::crc64;
use keyspace::{ContainerSettings, EntryBox, NewText};
use proptest::prelude::{Strategy, any, prop, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{RestoreError, dump, restore};
use crate::rdb::value::Limits;

fn payload_of(value: &[u8]) -> Vec<u8> {
    dump(EntryBox::text(b"key", NewText::from_client(value), None).borrow(), true)
}

fn restored(payload: &[u8]) -> Result<Vec<u8>, RestoreError> {
    let entry = restore(payload, b"other", Some(7), &Limits::from(&ContainerSettings::default()))?;
    assert_eq!(entry.borrow().key(), b"other");
    assert_eq!(entry.borrow().deadline(), Some(7));
    let text = entry.borrow().text().unwrap();
    Ok(text.contiguous(&mut Vec::new()).to_vec())
}

/// A payload with a right seal around any content.
fn sealed(content: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [content, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&crc64(0, &payload).to_le_bytes());
    payload
}

fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

#[test]
fn payloads_are_those_of_redis() {
    for (value, hex) in [
        ("1", "00c0010a002678e7b6d10111fc"),
        ("-129", "00c17fff0a001760822854808480"),
        ("-2147483648", "00c2000000800a00c74f873e33558187"),
        ("2147483648", "000a323134373438333634380a00e7b129a34c1d76ee"),
        ("abc", "00036162630a00d9ac303d4172a2e2"),
        ("", "00000a005d9b5c400f7fa2da"),
        ("+1", "00022b310a00c286f0d7439aee6f"),
    ] {
        assert_eq!(payload_of(value.as_bytes()), from_hex(hex), "{value}");
    }
    for hex in
        ["00c30615016161e00a000c00367a87a8fd6ba121", "00c30615016161e00a00500032267af99913589c"]
    {
        assert_eq!(restored(&from_hex(hex)), Ok(vec![b'a'; 21]));
    }
}

#[test]
fn a_broken_seal_is_told_from_broken_content() {
    let payload = payload_of(b"abc");
    for cut in 0..payload.len() {
        assert_eq!(restored(&payload[..cut]), Err(RestoreError::Seal), "{cut}");
    }
    for bit in 0..payload.len() * 8 {
        let mut changed = payload.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(restored(&changed), Err(RestoreError::Seal), "{bit}");
    }
    for version in [1, 9, 10, 11, 12, 16, 80, 81, 9000] {
        assert_eq!(restored(&sealed(b"\0\x03abc", version)), Ok(b"abc".to_vec()));
    }
    for version in [0, 17, 79, 82, 8999, 9001, u16::MAX] {
        assert_eq!(restored(&sealed(b"\0\x03abc", version)), Err(RestoreError::Seal));
    }
}

#[test]
fn hostile_content_is_refused() {
    let contents: &[&[u8]] = &[
        b"",
        b"\0",
        b"\x01\0",
        b"\xff\x03abc",
        b"\0\x05abc",
        b"\0\x03abcX",
        b"\0\x80\xff\xff\xff\xffabc",
        b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\0\x82\0\0\0\x03abc",
        b"\0\xc0",
        b"\0\xc1a",
        b"\0\xc2abc",
        b"\0\xc4abc",
        b"\0\xc3",
        b"\0\xc3\xc0\x05",
        b"\0\xc3\0\x05",
        b"\0\xc3\x06\0\x01aa\xe0\x0a\0",
        b"\0\xc3\x06\x14\x01aa\xe0\x0a\0",
        b"\0\xc3\x06\x16\x01aa\xe0\x0a\0",
        b"\0\xc3\x06\x81\0\0\0\x7f\xff\xff\xff\xff\x01aa\xe0\x0a\0",
        b"\0\xc3\x81\xff\xff\xff\xff\xff\xff\xff\xff\x05a",
        b"\0\xc3\x03\x03\x20\0\0",
    ];
    for content in contents {
        let payload = sealed(content, 10);
        assert_eq!(restored(&payload), Err(RestoreError::Content), "{content:02x?}");
    }
}

/// Strings of all encodings.
fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        any::<i16>().prop_map(|number| number.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..100),
        (any::<Vec<u8>>(), 1..2000_usize).prop_map(|(piece, count)| piece.repeat(count)),
    ]
}

proptest! {
    #[test]
    fn a_value_comes_back(value in values()) {
        prop_assert_eq!(restored(&payload_of(&value)), Ok(value));
    }

    #[test]
    fn any_content_is_a_value_or_refused(content in any::<Vec<u8>>()) {
        prop_assert!(restored(&content).is_err());
        let content = [&[0], &content[..]].concat();
        if let Ok(value) = restored(&sealed(&content, 10)) {
            prop_assert!(value.len() <= content.len() * 88 + 20);
        }
    }
}
