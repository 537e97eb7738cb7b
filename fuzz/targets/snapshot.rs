//! Snapshots of any bytes, bare and with a head and a right checksum: entries that can be written
//! and read again, or an error with a place inside the file, in bounded memory.
#![no_main]

use std::path::Path;

use base::crc::crc64;
use keyspace::{ContainerSettings, EntryBox};
use libfuzzer_sys::fuzz_target;
use persist::aof::manifest::BaseForm;
use persist::rdb::file::{
    Batch, ChunkWriter, FileError, FileWriter, Options, Rules, Sink, read_file,
};
use persist::rdb::value::Limits;
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{OpenMode, Storage, read_whole};

const PATH: &str = "dump.rdb";

const HEADS: [&str; 4] = ["REDIS0010", "REDIS0014", "VALKEY080", "REDIS9000"];

fuzz_target!(|data: &[u8]| {
    let _ = entries_of(data);
    let Some((which, items)) = data.split_last() else { return };
    let head = HEADS[usize::from(*which) % HEADS.len()];
    let mut file = [head.as_bytes(), items, b"\xff"].concat();
    file.extend_from_slice(&crc64(0, &file).to_le_bytes());
    if let Some(entries) = entries_of(&file) {
        let again = entries_of(&written(&entries)).expect("our own file");
        assert_eq!(entries.len(), again.len());
        for ((database, entry), (same, other)) in entries.iter().zip(&again) {
            let (entry, other) = (entry.borrow(), other.borrow());
            assert_eq!((database, entry.key()), (same, other.key()));
            assert_eq!((entry.kind(), entry.deadline()), (other.kind(), other.deadline()));
        }
    }
});

/// The entries of a file, if it is sound.
fn entries_of(bytes: &[u8]) -> Option<Vec<(u64, EntryBox)>> {
    let disk = SimulatedDisk::new();
    disk.put(Path::new(PATH), bytes);
    let mut file = disk.open(Path::new(PATH), OpenMode::Read).expect("it was just put there");
    let limits = Limits::from(&ContainerSettings::default());
    let mut found = Found { limits, entries: Vec::new() };
    let rules = Rules { skips_modules: true, ..Rules::default() };
    match read_file(&mut *file, rules, &mut found) {
        Ok(_) => Some(found.entries),
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64, "{error}");
            None
        }
    }
}

fn written(entries: &[(u64, EntryBox)]) -> Vec<u8> {
    let disk = SimulatedDisk::new();
    let form = BaseForm::Snapshot;
    let options =
        Options { form, compresses: true, sums: true, access: None, version: 0, syncs: false };
    let file = disk.open(Path::new(PATH), OpenMode::Create).expect("the disk is sound");
    let mut writer = FileWriter::begin(file, &[], options.clone()).expect("the disk is sound");
    let mut chunk = ChunkWriter::new(options);
    for (database, entry) in entries {
        chunk.select(*database as usize);
        chunk.entry(entry.borrow());
    }
    writer.push(&chunk.finish()).expect("the disk is sound");
    writer.finish().expect("the disk is sound");
    read_whole(&disk, Path::new(PATH)).expect("the disk is sound")
}

struct Found {
    limits: Limits,
    entries: Vec<(u64, EntryBox)>,
}

impl Sink for Found {
    fn library(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn batch(&mut self, batch: Batch) -> Result<(), FileError> {
        for raw in batch.entries() {
            let raw = raw?;
            self.entries.push((raw.database, raw.decode(&self.limits)?));
        }
        Ok(())
    }
}
