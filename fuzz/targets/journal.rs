//! Journals and manifests of any bytes: units that can be written and read again up to the place
//! that an error names, files that are sound once they are cut off there, and manifests that come
//! back.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use persist::aof::manifest::Manifest;
use persist::aof::{CutPoint, UnitReader, check_line};
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{OpenMode, Storage, read_whole};

/// What the file is called.
const NAME: &str = "aof";

/// The commands of each unit.
type Units = Vec<Vec<Vec<u8>>>;

fuzz_target!(|data: &[u8]| {
    if let Ok(manifest) = Manifest::parse(data) {
        let again = Manifest::parse(&manifest.encode());
        assert_eq!(again.expect("our own text").encode(), manifest.encode());
    }
    let disk = disk(data);
    let (units, cut_point) = read(&disk);
    let offset = cut_point.offset();
    assert!(offset <= data.len() as u64);
    // What is whole is whole by itself, and with a line behind it that says so.
    expect(&data[..offset as usize], &units);
    cut_point.cut(&disk, Path::new(NAME)).expect("the disk is sound");
    let left = read_whole(&disk, Path::new(NAME)).expect("it was just written");
    expect(&left, &units);
    let mut more = units.clone();
    more.push(vec![b"*1\r\n$4\r\nPING\r\n".to_vec()]);
    expect(&[&left[..], &batch(&more[units.len()])].concat(), &more);
    let journal: Vec<u8> = units.iter().flat_map(|unit| batch(unit)).collect();
    expect(&journal, &units);
});

/// A unit as we write it.
fn batch(unit: &[Vec<u8>]) -> Vec<u8> {
    let batch = match unit {
        [only] => only.clone(),
        several => {
            [b"*1\r\n$5\r\nMULTI\r\n", &several.concat()[..], b"*1\r\n$4\r\nEXEC\r\n"].concat()
        }
    };
    [check_line(&batch), batch].concat()
}

fn disk(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.put(Path::new(NAME), bytes);
    disk
}

/// These bytes are a sound journal of these units.
fn expect(bytes: &[u8], units: &Units) {
    let (found, cut_point) = read(&disk(bytes));
    assert_eq!((&found, cut_point.offset()), (units, bytes.len() as u64));
}

/// The whole units, and where the last one ends.
fn read(disk: &SimulatedDisk) -> (Units, CutPoint) {
    let mut file = disk.open(Path::new(NAME), OpenMode::Read).expect("it was just put there");
    let mut reader = UnitReader::new(&mut *file);
    let mut units = Units::new();
    while let Ok(Some(unit)) = reader.next_unit() {
        let encoded = unit.commands.iter().map(|args| {
            let mut bytes = Vec::new();
            args.as_args().encode(&mut bytes);
            bytes
        });
        units.push(encoded.collect());
    }
    (units, reader.cut_point())
}
