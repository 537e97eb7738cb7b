//! RESTORE and FUNCTION RESTORE on any bytes, bare and under a right seal: a value that comes back
//! from its own payload whatever the thresholds, or none, in bounded memory.
#![no_main]

use std::sync::atomic::Ordering;

use base::crc::crc64;
use keyspace::{ContainerSettings, EntryBox, Kind, NewText};
use libfuzzer_sys::fuzz_target;
use persist::contents::{self, Extent};
use persist::dump::{dump, restore};
use persist::functions;
use persist::rdb::value::{Limits, ValueRef};

/// Those of Redis 7.0, Redis 7.4, Redis 8.8, Valkey 9 and our own.
const VERSIONS: [u16; 5] = [10, 12, 14, 80, 9000];

/// A byte of a compressed string makes 88, and two or more of those are an element, to which belong
/// a score and a deadline of eight bytes.
const GROWTH_MAX: usize = 88 * 9;

/// A group, a consumer or a producer of a few bytes takes so many times that.
const OVERHEAD_MAX: usize = 100;

fuzz_target!(|data: &[u8]| {
    let limits = limits();
    let _ = restore(data, b"key", None, &limits[0]);
    let entry = EntryBox::text(b"key", NewText::from_client(data), None);
    comes_back(&entry, &limits);
    let Some((which, content)) = data.split_last() else { return };
    let version = VERSIONS[usize::from(*which) % VERSIONS.len()];
    let mut sealed = content.to_vec();
    sealed.extend_from_slice(&version.to_le_bytes());
    sealed.extend_from_slice(&crc64(0, &sealed).to_le_bytes());
    let libraries = functions::restore(&sealed).unwrap_or_default();
    assert!(libraries.iter().map(Vec::len).sum::<usize>() <= data.len() * GROWTH_MAX);
    let [small, large] = limits.map(|limits| restore(&sealed, b"key", Some(5), &limits).ok());
    assert_eq!(small.is_some(), large.is_some(), "thresholds do not decide what is sound");
    if let (Some(small), Some(large)) = (small, large) {
        let elements = elements_of(&small);
        let bytes: usize = match small.borrow().kind() {
            // Entries of equal fields have them once.
            Kind::Stream => small.borrow().memory() / OVERHEAD_MAX,
            _ => elements.iter().flatten().map(Vec::len).sum(),
        };
        assert!(bytes <= data.len() * GROWTH_MAX + 20, "a value grows from the bytes at hand");
        assert_eq!(small.borrow().deadline(), Some(5));
        assert_eq!(elements_of(&large), elements);
        comes_back(&small, &limits);
        comes_back(&large, &limits);
    }
});

/// Thresholds of Redis, and such that nearly everything is large.
fn limits() -> [Limits; 2] {
    let settings = ContainerSettings::default();
    let usual = Limits::from(&settings);
    settings.hash_entries.set(2);
    settings.set_intset_entries.set(2);
    settings.set_entries.set(2);
    settings.sorted_set_entries.set(2);
    settings.list_size.store(2, Ordering::Relaxed);
    [usual, Limits::from(&settings)]
}

fn comes_back(entry: &EntryBox, limits: &[Limits]) {
    let payload = dump(entry.borrow(), true);
    for limits in limits {
        let restored = restore(&payload, b"other", None, limits).expect("its own payload");
        assert_eq!(restored.borrow().kind(), entry.borrow().kind());
        assert_eq!(elements_of(&restored), elements_of(entry));
    }
}

/// Each element with what belongs to it.
fn elements_of(entry: &EntryBox) -> Vec<Vec<Vec<u8>>> {
    let value = ValueRef::of(entry.borrow());
    let mut elements = Vec::new();
    contents::for_each(&value, Extent::All, |parts| {
        elements.push(parts.iter().map(|part| part.to_vec()).collect());
    });
    if !contents::is_ordered(&value) {
        elements.sort();
    }
    elements
}
