//! RESTORE on any bytes, bare and under a right seal: a value that comes back from its own
//! payload, or none, in bounded memory.
#![no_main]

use base::crc::crc64;
use keyspace::{EntryBox, NewText};
use libfuzzer_sys::fuzz_target;
use persist::dump::{dump, restore};

fuzz_target!(|data: &[u8]| {
    let _ = restore(data, b"key", None);
    let mut sealed = data.to_vec();
    sealed.extend_from_slice(&10_u16.to_le_bytes());
    sealed.extend_from_slice(&crc64(0, &sealed).to_le_bytes());
    if let Ok(entry) = restore(&sealed, b"key", Some(5)) {
        let value = bytes_of(&entry);
        assert!(value.len() <= data.len() * 88 + 20, "a value grows from the bytes at hand");
        assert_eq!(entry.borrow().deadline(), Some(5));
        comes_back(&value);
    }
    comes_back(data);
});

fn comes_back(value: &[u8]) {
    let entry = EntryBox::text(b"key", NewText::from_client(value), None);
    let restored = restore(&dump(entry.borrow()), b"other", None).expect("its own payload");
    assert_eq!(bytes_of(&restored), value);
}

fn bytes_of(entry: &EntryBox) -> Vec<u8> {
    let text = entry.borrow().text().expect("a string");
    text.contiguous(&mut Vec::new()).to_vec()
}
