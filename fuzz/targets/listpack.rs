//! Listpacks of any bytes: reading them never panics; what is valid reads the same both ways and
//! is still valid after any edits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use structs::listpack::{self, Element, Listpack};

fuzz_target!(|data: &[u8]| {
    read(data);
    let mut sealed = data.to_vec();
    if sealed.len() >= listpack::EMPTY_LEN {
        let len = sealed.len() as u32;
        sealed[..4].copy_from_slice(&len.to_le_bytes());
        sealed[len as usize - 1] = 0xFF;
        read(&sealed);
    }
    if listpack::validate(&sealed).is_ok() {
        edit(sealed, data);
    }
    edit(listpack::new(), data);
});

fn read(bytes: &[u8]) {
    let listpack = Listpack::new(bytes);
    let forward: Vec<_> = listpack.entries().collect();
    let mut backward: Vec<_> = listpack.entries().rev().collect();
    backward.reverse();
    let _ = (listpack.get(1), listpack.get(-2), listpack.find(b"7", 2));
    if listpack::validate(bytes).is_ok() {
        assert_eq!(forward, backward);
        assert_eq!(forward.len(), listpack.len());
        let first = forward.first().map(|entry| entry.element.to_vec());
        let found = first.and_then(|text| listpack.find(&text, 1));
        assert_eq!(found.map(|entry| entry.offset), forward.first().map(|entry| entry.offset));
    }
}

fn edit(mut bytes: Vec<u8>, steps: &[u8]) {
    for step in steps.chunks(4).take(64) {
        let [kind, place, text @ ..] = step else { return };
        let listpack = Listpack::new(&bytes);
        let entry = listpack.get(i64::from(*place));
        let offset = entry.map_or(listpack.end_offset(), |entry| entry.offset);
        let before = listpack.len();
        let element = Element::Bytes(text);
        let after = match kind % 6 {
            0 => {
                listpack::insert(&mut bytes, offset, [element, Element::Integer(-5)]);
                before + 2
            }
            1 => {
                listpack::replace(&mut bytes, offset, element);
                before
            }
            2 => before - listpack::remove(&mut bytes, offset, text.len()),
            3 => {
                let upper = listpack::split_off(&mut bytes, offset);
                assert_eq!(listpack::validate(&upper), Ok(()));
                before - Listpack::new(&upper).len()
            }
            4 => {
                listpack::push_front(&mut bytes, element);
                before + 1
            }
            _ => {
                let source = bytes.clone();
                let source = Listpack::new(&source);
                let end = source.end_offset();
                listpack::insert_from(&mut bytes, offset, source, offset..end);
                before + source.entries_from(offset).count()
            }
        };
        assert_eq!(listpack::validate(&bytes), Ok(()));
        assert_eq!(Listpack::new(&bytes).len(), after);
        if bytes.len() > 1 << 16 {
            return;
        }
    }
}
