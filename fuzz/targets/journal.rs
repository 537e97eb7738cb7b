//! Journals and manifests of any bytes: units that can be written and read again up to the place
//! that an error names, and manifests that come back.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use persist::aof::manifest::Manifest;
use persist::aof::{UnitReader, check_line};
use persist::storage::simulated::Disk;
use persist::storage::{How, Storage};

/// The commands of each unit.
type Units = Vec<Vec<Vec<u8>>>;

fuzz_target!(|data: &[u8]| {
    if let Ok(manifest) = Manifest::parse(data) {
        let again = Manifest::parse(&manifest.encode());
        assert_eq!(again.expect("our own text").encode(), manifest.encode());
    }
    let (units, offset) = read(data);
    assert!(offset <= data.len() as u64);
    // What is whole is whole by itself; but a batch that was taken for a torn one, for what follows
    // it, is a damaged one where nothing follows.
    let (alone, end) = read(&data[..offset as usize]);
    assert!(end == offset && alone == units || end < offset && units.starts_with(&alone));
    let mut journal = Vec::new();
    for unit in &units {
        let batch = match &unit[..] {
            [only] => only.clone(),
            several => [b"*1\r\n$5\r\nMULTI\r\n", &several.concat()[..], b"*1\r\n$4\r\nEXEC\r\n"]
                .concat(),
        };
        journal.extend_from_slice(&check_line(&batch));
        journal.extend_from_slice(&batch);
    }
    assert_eq!(read(&journal), (units, journal.len() as u64));
});

/// The whole units, and where the last one ends.
fn read(bytes: &[u8]) -> (Units, u64) {
    let disk = Disk::new();
    disk.put(Path::new("aof"), bytes);
    let mut file = disk.open(Path::new("aof"), How::Read).expect("it was just put there");
    let mut reader = UnitReader::new(&mut *file);
    let mut units = Units::new();
    loop {
        match reader.next_unit() {
            Ok(Some(unit)) => {
                let encoded = unit.commands.iter().map(|args| {
                    let mut bytes = Vec::new();
                    args.as_args().encode(&mut bytes);
                    bytes
                });
                units.push(encoded.collect());
            }
            Ok(None) => return (units, reader.offset()),
            Err(error) => return (units, error.offset),
        }
    }
}
