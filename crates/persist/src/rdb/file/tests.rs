//! Files in and out: what all servers write, hostile ones, and every one that is damaged a little.

use std::path::Path;

use base::crc::crc64;
use keyspace::{AccessClock, ContainerSettings, EntryBox, ItemNotes, NewText, Settings};
use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};

use super::{
    Access, Batch, BuiltEntry, ChunkWriter, Damage, End, FileError, FileWriter, LargeEntrySink,
    Options, RawEntry, Rules, Sink, Written, read_file,
};
use crate::aof::manifest::BaseForm;
use crate::dump::{restore, seal};
use crate::rdb::Writer;
use crate::rdb::length::write_length;
use crate::rdb::tests::{Contents, PAYLOADS, contents_of, from_hex, types_of_old};
use crate::rdb::value::Limits;
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{OpenMode, Storage, read_whole};

const PATH: &str = "dump.rdb";

/// What a file was found to hold.
#[derive(Debug, Default, PartialEq)]
struct Found {
    notes: Vec<(Vec<u8>, Vec<u8>)>,
    sizes: Vec<(u64, u64, u64)>,
    libraries: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    /// What memcached's clients noted, by key, where that is anything.
    flags: Vec<(Vec<u8>, u32)>,
    /// Keys that are never evicted.
    sticky: Vec<Vec<u8>>,
    /// Whether large entries are made while they are read, and how many were.
    gathers: bool,
    gathered: usize,
}

/// Database, key, deadline, last access and value.
type Entry = (u64, Vec<u8>, Option<i64>, Access, Contents);

impl Sink for Found {
    fn note(&mut self, name: &[u8], text: &[u8]) {
        self.notes.push((name.to_vec(), text.to_vec()));
    }

    fn sizes(&mut self, database: u64, keys: u64, volatile: u64) {
        self.sizes.push((database, keys, volatile));
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        self.libraries.push(code.to_vec());
        Ok(())
    }

    fn batch(&mut self, batch: Batch) -> Result<(), FileError> {
        let limits = Limits::from(&ContainerSettings::default());
        for raw in batch.entries() {
            let raw @ RawEntry { database, deadline, access, .. } = &raw?;
            let entry = raw.decode(&limits)?;
            assert_eq!((entry.borrow().deadline(), entry.borrow().key()), (*deadline, &*raw.key));
            self.add(*database, *access, &entry);
        }
        Ok(())
    }

    fn gatherer(&mut self) -> Option<&mut dyn LargeEntrySink> {
        if self.gathers { Some(self) } else { None }
    }
}

impl LargeEntrySink for Found {
    fn limits(&self) -> Limits {
        Limits::from(&ContainerSettings::default())
    }

    fn advance(&mut self, _: u64) {}

    fn entry(&mut self, made: BuiltEntry) -> Result<(), FileError> {
        self.gathered += 1;
        self.add(made.database, made.access, &made.entry);
        Ok(())
    }
}

impl Found {
    fn add(&mut self, database: u64, access: Access, entry: &EntryBox) {
        let (key, deadline) = (entry.borrow().key().to_vec(), entry.borrow().deadline());
        if entry.borrow().is_sticky() {
            self.sticky.push(key.clone());
        }
        match entry.borrow().notes().flags {
            0 => {}
            flags => self.flags.push((key.clone(), flags)),
        }
        self.entries.push((database, key, deadline, access, contents_of(entry)));
    }
}

fn read_by(found: Found, bytes: &[u8], rules: Rules) -> Result<(Found, End), FileError> {
    let disk = SimulatedDisk::new();
    disk.put(Path::new(PATH), bytes);
    let mut file = disk.open(Path::new(PATH), OpenMode::Read).unwrap();
    let mut found = found;
    let end = read_file(&mut *file, rules, &mut found)?;
    Ok((found, end))
}

/// Reads a file in both ways: they refuse the same, and find the same.
fn read_with(bytes: &[u8], rules: Rules) -> Result<(Found, End), FileError> {
    let gathering = Found { gathers: true, ..Found::default() };
    let (whole, gathered) =
        (read_by(Found::default(), bytes, rules), read_by(gathering, bytes, rules));
    match (&whole, gathered) {
        (Ok((whole, _)), Ok((gathered, _))) => {
            let plain = Found { gathers: false, gathered: 0, ..gathered };
            assert_eq!(*whole, plain);
        }
        (whole, gathered) => assert_eq!(whole.is_ok(), gathered.is_ok()),
    }
    whole
}

fn read(bytes: &[u8]) -> Result<Found, FileError> {
    read_with(bytes, Rules::default()).map(|(found, _)| found)
}

/// A file of this head and these items, with a right checksum.
fn file_of(head: &str, items: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [head.as_bytes(), &items.concat(), b"\xff"].concat();
    bytes.extend_from_slice(&crc64(0, &bytes).to_le_bytes());
    bytes
}

fn options() -> Options {
    let form = BaseForm::Snapshot;
    Options { form, compresses: true, sums: true, access: None, version: 0, syncs: false }
}

/// A file that we write of these chunks.
fn written(
    options: Options,
    fill: impl Fn(&mut ChunkWriter) -> Vec<super::Chunk>,
) -> std::io::Result<(Vec<u8>, Written)> {
    let disk = SimulatedDisk::new();
    let file = disk.open(Path::new(PATH), OpenMode::Create)?;
    let notes = [("redis-ver", "7.0.0"), ("redis-bits", "64")];
    let mut writer = FileWriter::begin(file, &notes, options.clone())?;
    for chunk in fill(&mut ChunkWriter::new(options)) {
        writer.push(&chunk)?;
    }
    let written = writer.finish()?;
    let bytes = read_whole(&disk, Path::new(PATH))?;
    assert_eq!(bytes.len() as u64, written.bytes);
    Ok((bytes, written))
}

fn text(key: &str, value: &str, deadline: Option<i64>) -> EntryBox {
    EntryBox::text(key.as_bytes(), NewText::from_client(value.as_bytes()), deadline)
}

/// Two databases in three chunks.
fn small(chunk: &mut ChunkWriter) -> Vec<super::Chunk> {
    let mut chunks = Vec::new();
    chunk.library(b"#!lua name=one\nredis.register_function('f', function() end)");
    chunk.select(0);
    chunk.sizes(2, 1);
    chunk.entry(text("a", "1", None).borrow());
    chunks.push(chunk.finish());
    chunk.select(7);
    chunk.sizes(1, 0);
    chunk.entry(text("a", &"long".repeat(100), None).borrow());
    chunk.select(0);
    chunks.push(chunk.finish());
    chunk.select(0);
    chunk.entry(text("12", "", Some(4_102_444_800_000)).borrow());
    chunks.push(chunk.finish());
    chunks
}

fn small_found() -> Found {
    let entry = |database, key: &str, value: &str, deadline| {
        let (key, contents) = (key.into(), vec![vec![value.into()]]);
        (database, key, deadline, Access::Unknown, contents)
    };
    Found {
        notes: vec![
            (b"redis-ver".to_vec(), b"7.0.0".to_vec()),
            (b"redis-bits".to_vec(), b"64".to_vec()),
        ],
        sizes: vec![(0, 2, 1), (7, 1, 0)],
        libraries: vec![b"#!lua name=one\nredis.register_function('f', function() end)".to_vec()],
        entries: vec![
            entry(0, "a", "1", None),
            entry(7, "a", &"long".repeat(100), None),
            entry(0, "12", "", Some(4_102_444_800_000)),
        ],
        ..Found::default()
    }
}

#[test]
fn what_was_written_is_read() {
    for compresses in [false, true] {
        for sums in [false, true] {
            let options = Options { compresses, sums, syncs: true, ..options() };
            let (bytes, end) = written(options, small).unwrap();
            assert_eq!(end.version, 10);
            assert_eq!(&bytes[..9], b"REDIS0010");
            assert_eq!(bytes.ends_with(&[0; 8]), !sums);
            assert_eq!(read(&bytes).unwrap(), small_found());
        }
    }
}

#[test]
fn what_redis_has_no_words_for_comes_back_with_its_entry() {
    let fill = |chunk: &mut ChunkWriter| {
        chunk.select(0);
        let value = NewText::from_client(b"value");
        let flagged = EntryBox::item(b"flagged", value, Some(9), ItemNotes::of_flags(u32::MAX));
        flagged.borrow().set_sticky(true);
        chunk.entry(flagged.borrow());
        chunk.entry(text("plain", "value", None).borrow());
        vec![chunk.finish()]
    };
    let found = read(&written(options(), fill).unwrap().0).unwrap();
    assert_eq!(found.flags, [(b"flagged".to_vec(), u32::MAX)]);
    assert_eq!(found.sticky, [b"flagged".to_vec()]);
    assert_eq!(found.entries.len(), 2);
    assert_eq!(found.notes, small_found().notes, "what is about an entry is not about the file");
}

#[test]
fn the_version_is_the_lowest_that_will_do() {
    // A hash with a deadline, which Redis knows since 7.4.
    let hash = PAYLOADS.iter().find(|(_, encoding, ..)| *encoding == "listpackex").unwrap().3;
    let limits = Limits::from(&ContainerSettings::default());
    let hash = restore(&from_hex(hash), b"hash", None, &limits).unwrap();
    let fill = |chunk: &mut ChunkWriter| {
        chunk.select(0);
        chunk.entry(hash.borrow());
        let mut chunks = vec![chunk.finish()];
        chunks.append(&mut small(chunk));
        chunks
    };
    let (bytes, end) = written(options(), fill).unwrap();
    assert_eq!((&bytes[..9], end.version), (&b"REDIS0012"[..], 12));
    assert_eq!(read(&bytes).unwrap().entries.len(), 4);
    let error = written(Options { version: 11, ..options() }, fill).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a key of type hash needs RDB version 12, and 11 is to be written"
    );
    // Valkey has another form for such a hash.
    let (bytes, end) = written(Options { version: 80, ..options() }, fill).unwrap();
    assert_eq!((&bytes[..9], end.version), (&b"VALKEY080"[..], 80));
    let as_for_redis = read(&written(options(), fill).unwrap().0).unwrap();
    assert_eq!(read(&bytes).unwrap().entries, as_for_redis.entries);
    for (version, head) in [(9, b"REDIS0009"), (11, b"REDIS0011"), (80, b"VALKEY080")] {
        let (bytes, _) = written(Options { version, ..options() }, small).unwrap();
        assert_eq!(&bytes[..9], head);
        let mut expected = small_found();
        if version < 10 {
            // Redis 6.2 has no functions.
            expected.libraries.clear();
        }
        assert_eq!(read(&bytes).unwrap(), expected);
    }
}

#[test]
fn the_last_access_is_told_by_the_policy() {
    use std::sync::atomic::Ordering::Relaxed;
    let (settings, now) = (Settings::default(), 1_000_000_000);
    for by_frequency in [false, true] {
        settings.access_policy.store(by_frequency.into(), Relaxed);
        let clock = AccessClock::new(&settings, now);
        let old = if by_frequency { clock.with_frequency(99) } else { clock.with_idle_seconds(99) };
        let options = Options { access: Some(clock), ..options() };
        let fill = |chunk: &mut ChunkWriter| {
            let mut entry = text("key", "value", Some(1));
            entry.set_access_clock(old);
            chunk.select(0);
            chunk.entry(entry.borrow());
            vec![chunk.finish()]
        };
        let (bytes, _) = written(options, fill).unwrap();
        let expected = if by_frequency { Access::Frequency(99) } else { Access::Idle(99) };
        assert_eq!(read(&bytes).unwrap().entries[0].3, expected);
    }
}

#[test]
fn every_type_ends_where_it_ends() {
    let foreign = PAYLOADS.iter().map(|(.., hex)| {
        let payload = from_hex(hex);
        let version = u16::from_le_bytes([payload[payload.len() - 10], payload[payload.len() - 9]]);
        (payload[..payload.len() - 10].to_vec(), version)
    });
    let old = types_of_old().into_iter().map(|(.., content, version)| (content, version));
    for (content, version) in foreign.chain(old) {
        let head = match version {
            80.. if version < 100 => format!("VALKEY{version:03}"),
            _ => format!("REDIS{version:04}"),
        };
        let entry = |key: &[u8]| [&content[..1], key, &content[1..]].concat();
        let bytes = file_of(&head, &[&entry(b"\x01a"), &entry(b"\x01b")]);
        let entries =
            read(&bytes).unwrap_or_else(|error| panic!("{error}: {content:02x?}")).entries;
        assert_eq!(entries.len(), 2, "{content:02x?}");
        assert_eq!(entries[0].4, entries[1].4);
    }
}

/// H35: slots that no cluster has among them.
#[test]
fn items_of_other_servers_are_known() {
    let items: &[&[u8]] = &[
        b"\xfa\x0aredis-bits\xc0\x40",
        // A slot and its sizes, and deadlines in seconds.
        b"\xfe\x00\xf4\x05\x01\x00\xfb\x01\x01",
        // H35: slots that no cluster has.
        b"\xf4\x80\xff\xff\xff\xff\x01\x00",
        b"\xf4\x81\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\x00",
        b"\xfd\x40\x42\x0f\x00\x00\x01a\x01b",
        b"\xfc\x01\x00\x00\x00\x00\x00\x00\x00\xf9\x07\x00\x01b\x01c",
    ];
    let found = read(&file_of("REDIS0012", items)).unwrap();
    assert_eq!(found.notes, [(b"redis-bits".to_vec(), b"64".to_vec())]);
    let known: Vec<_> = found.entries.iter().map(|entry| (entry.2, entry.3)).collect();
    let expected = [(Some(1_000_000_000), Access::Unknown), (Some(1), Access::Frequency(7))];
    assert_eq!(known, expected);
    // Before version 5 there is no checksum.
    assert_eq!(read(b"REDIS0003\xfe\x00\x00\x01a\x01b\xff").unwrap().entries.len(), 1);
}

#[test]
fn what_follows_the_end_is_given_back() {
    for rest in [&b""[..], b"*1\r\n", &[b'x'; 1000]] {
        let (bytes, written) = written(options(), small).unwrap();
        let (_, end) = read_with(&[&bytes, rest].concat(), Rules::default()).unwrap();
        assert_eq!(end.offset, written.bytes);
        assert!(rest.starts_with(&end.rest));
    }
}

#[test]
fn modules_are_refused_or_passed_over() {
    // The numbers of Redis' modules are nine characters and a version: this is "ReJSON-RL", 3.
    let id = b"\x81\x45\xe2\x44\x8e\x0d\xf9\x12\x03";
    let value =
        [b"\x07\x01k", &id[..], b"\x05\x03abc\x01\x05\x02\x06\x04\0\0\0\0\0\0\xf0?\0"].concat();
    let note = [b"\xf7", &id[..], b"\x02\x01\x05\x01x\x00"].concat();
    for item in [&value, &note] {
        let bytes = file_of("REDIS0012", &[item, b"\x00\x01a\x01b"]);
        let error = read(&bytes).unwrap_err();
        assert!(matches!(&error.damage, Damage::Module(name) if name.len() == 9), "{error}");
        assert_eq!(error.offset, 9);
        let rules = Rules { skips_modules: true, ..Rules::default() };
        let (found, end) = read_with(&bytes, rules).unwrap();
        assert_eq!((found.entries.len(), end.skipped), (1, 1));
    }
}

#[test]
fn versions_that_are_not_known_are_refused() {
    let any = Rules { any_version: true, ..Rules::default() };
    for head in ["REDIS0000", "REDIS0017", "REDIS0080", "VALKEY011", "VALKEY082", "REDIS9001"] {
        let bytes = file_of(head, &[b"\x00\x01a\x01b"]);
        let error = read(&bytes).unwrap_err();
        assert!(matches!(error.damage, Damage::Version(_)), "{head}: {error}");
        let (found, _) = read_with(&bytes, any).unwrap();
        assert_eq!(found.entries.len(), 1);
    }
    for head in ["", "REDIS", "REDIS00x1", "redis0011", "*1\r\n$4\r\nPING\r\n"] {
        let error = read_with(head.as_bytes(), any).unwrap_err();
        assert!(matches!(error.damage, Damage::Head), "{head}: {error}");
    }
}

#[test]
fn hostile_items_are_named_with_their_place() {
    let items: &[(&[u8], &str)] = &[
        (b"\x06", "a value of a module of Redis 4.0 or older cannot be read (type 6)"),
        (b"\x1c\x01a", "an array of Redis cannot be read (type 28)"),
        (b"\xf3", "what modules know of keys cannot be read (type 243)"),
        (b"\x64", "there is no type 100"),
        (b"\xfc\0\0\0\0\0\0\0\0\xfe\x01", "the bytes are malformed"),
        (b"\x00\xc5", "the bytes are malformed"),
        (b"\xf5\xc3\x01\x05\x00", "the bytes are malformed"),
        (b"\x00\xc3\x01\x05\x00\x01a", "the bytes are malformed"),
        (b"\x02\x01a\x02\x01x\x01x", "the value is malformed (Set)"),
        (b"\x00\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff", "the file is cut off"),
        (b"\x04\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff", "the bytes are malformed"),
    ];
    for (item, expected) in items {
        let bytes = file_of("REDIS0011", &[b"\x00\x01z\x01z", item]);
        let error = read(&bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("at offset 14: {expected}"), "{item:02x?}");
    }
}

#[test]
fn no_byte_can_change_and_none_be_missing() {
    let (bytes, _) = written(options(), small).unwrap();
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "cut off at {len}");
    }
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            assert!(read(&flipped).is_err(), "bit {bit} of byte {place}");
        }
    }
}

/// A file with every type of value.
fn wide() -> Vec<u8> {
    let limits = Limits::from(&ContainerSettings::default());
    let payloads = PAYLOADS.iter().map(|(.., hex)| from_hex(hex));
    let entries = payloads.enumerate().map(|(index, payload)| {
        restore(&payload, index.to_string().as_bytes(), None, &limits).unwrap()
    });
    let entries: Vec<EntryBox> = entries.collect();
    let fill = |chunk: &mut ChunkWriter| {
        let mut chunks = small(chunk);
        chunk.select(1);
        entries.iter().for_each(|entry| chunk.entry(entry.borrow()));
        chunks.push(chunk.finish());
        chunks
    };
    written(options(), fill).unwrap().0
}

proptest! {
    #[test]
    fn what_is_sealed_again_is_read_or_refused_at_a_place(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut bytes = wide();
        bytes.truncate(bytes.len() - 9);
        if is_cut {
            bytes.truncate(9 + cut.index(bytes.len() - 9));
        }
        for (place, byte) in changes {
            let place = 9 + place.index(bytes.len() - 8);
            if let Some(changed) = bytes.get_mut(place) {
                *changed = byte;
            }
        }
        bytes.push(0xff);
        bytes.extend_from_slice(&crc64(0, &bytes).to_le_bytes());
        if let Err(error) = read(&bytes) {
            prop_assert!(error.offset <= bytes.len() as u64, "{error}");
        }
    }
}

/// Entries whose values are far too large for one piece, of each type that has such.
fn large_entries() -> Vec<EntryBox> {
    let limits = Limits::from(&ContainerSettings::default());
    let texts: Vec<Vec<u8>> =
        (0..2000_u32).map(|number| format!("{number:x}-element").into_bytes()).collect();
    let payload = |byte: u8, parts: &[&[u8]]| {
        let mut out = Writer::new(false);
        out.push(byte);
        write_length(&mut out, texts.len() as u64);
        for text in &texts {
            out.extend(&[text.len() as u8]);
            out.extend(text);
            parts.iter().for_each(|part| out.extend(part));
        }
        seal(out.into_bytes(), 9)
    };
    let score = 1.5_f64.to_le_bytes();
    let payloads =
        [payload(1, &[]), payload(2, &[]), payload(5, &[&score]), payload(4, &[b"\x01v"])];
    let containers = payloads.iter().enumerate().map(|(index, payload)| {
        restore(payload, format!("container:{index}").as_bytes(), Some(1 << 42), &limits).unwrap()
    });
    let noise: Vec<u8> =
        (0..100_000_u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let strings = [noise, b"over and over again. ".repeat(9_000)];
    let strings = strings.iter().enumerate().map(|(index, text)| {
        let noted = ItemNotes::of_flags(77);
        EntryBox::text(format!("s:{index}").as_bytes(), NewText::from_client(text), None)
            .with_notes(noted)
    });
    containers.chain(strings).collect()
}

#[test]
fn large_values_are_made_while_they_are_read() {
    for compresses in [false, true] {
        let entries = large_entries();
        let written = written(Options { compresses, ..options() }, |chunk| {
            chunk.select(3);
            entries.iter().for_each(|entry| chunk.entry(entry.borrow()));
            vec![chunk.finish()]
        });
        let (bytes, _) = written.unwrap();
        let gathering = Found { gathers: true, ..Found::default() };
        let (found, _) = read_by(gathering, &bytes, Rules::default()).unwrap();
        assert_eq!(found.gathered, entries.len());
        let (whole, _) = read_with(&bytes, Rules::default()).unwrap();
        assert_eq!(whole.entries.len(), entries.len());
        // Cut off anywhere, it is refused.
        for end in (0..bytes.len()).step_by(997) {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
        let mut random = base::random::Random::from_seed(u64::from(compresses));
        for _ in 0..200 {
            let mut changed = bytes.clone();
            let at = 9 + random.below(bytes.len() as u64 - 9 - 8) as usize;
            changed[at] ^= 1 << random.below(8);
            // Whatever the bytes are now, both ways agree about them.
            let rules = Rules { ignores_sum: true, ..Rules::default() };
            let _ = read_with(&changed, rules);
        }
    }
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let claims: [&[u8]; 4] = [
        // A string of four exabytes, plain and compressed, a list and a hash of as many elements.
        b"\x00\x01k\x81\x40\0\0\0\0\0\0\0",
        b"\x00\x01k\xc3\x81\x40\0\0\0\0\0\0\0\x81\x40\0\0\0\0\0\0\0",
        b"\x01\x01k\x81\x40\0\0\0\0\0\0\0",
        b"\x04\x01k\x81\x40\0\0\0\0\0\0\0",
    ];
    for claim in claims {
        let bytes = [b"REDIS0010", claim, &b"\x01a".repeat(500)].concat();
        assert!(read(&bytes).is_err(), "{claim:?}");
    }
}
