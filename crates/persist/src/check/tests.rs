//! What is said about sound and damaged files, and what is left of them.

use std::path::Path;

use super::{Operator, run};
use crate::aof::check_line;
use crate::aof::manifest::{BaseForm, Manifest};
use crate::rdb::file::{ChunkWriter, FileWriter, Options};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{OpenMode, Storage, read_whole};

/// What a check says, with whether all is well, where the operator agrees to everything.
fn check(disk: &SimulatedDisk, arguments: &[&str]) -> (bool, String) {
    check_answered(disk, arguments, "y\n")
}

/// As `check`, with what the operator answers.
fn check_answered(disk: &SimulatedDisk, arguments: &[&str], answer: &str) -> (bool, String) {
    let mut out = Vec::new();
    let library = &|_: &[u8]| Ok(());
    let operator = Operator { answers: &mut answer.as_bytes(), out: &mut out, library };
    let is_well = run(arguments.iter().map(Into::into), disk, operator);
    (is_well, String::from_utf8(out).unwrap())
}

fn content(disk: &SimulatedDisk, path: &str) -> Vec<u8> {
    read_whole(disk, Path::new(path)).unwrap()
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    proto::args::encode_command(words.iter().map(|word| word.as_bytes()), &mut bytes);
    bytes
}

fn snapshot(disk: &SimulatedDisk, path: &str) {
    let form = BaseForm::Snapshot;
    let options =
        Options { form, compresses: true, sums: true, access: None, version: 0, syncs: false };
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    let notes = [("redis-ver", "7.0.0"), ("by\u{7}", "a\u{1b}[2J\n[info] 9 keys read")];
    let mut writer = FileWriter::begin(file, &notes, options.clone()).unwrap();
    let mut chunk = ChunkWriter::new(options);
    chunk.select(0);
    for (key, deadline) in [(b"a", None), (b"b", Some(1)), (b"c", Some(i64::MAX))] {
        let text = keyspace::NewText::Integer(1);
        chunk.entry(keyspace::EntryBox::text(key, text, deadline).borrow());
    }
    writer.push(&chunk.finish()).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_snapshot_is_told_from_a_damaged_one() {
    let disk = SimulatedDisk::new();
    snapshot(&disk, "dump.rdb");
    let (is_well, text) = check(&disk, &["rdb", "dump.rdb"]);
    assert!(is_well, "{text}");
    for line in ["3 keys read", "2 expires", "1 already expired", "RDB looks OK", "redis-ver"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // What the file says of itself neither makes lines nor gives orders to a terminal.
    let note = r"[info] AUX FIELD by\a = 'a\x1b[2J\n[info] 9 keys read'";
    assert!(text.lines().any(|line| line == note), "{text}");
    let mut bytes = content(&disk, "dump.rdb");
    *bytes.last_mut().unwrap() ^= 1;
    disk.put(Path::new("dump.rdb"), &bytes);
    let (is_well, text) = check(&disk, &["rdb", "dump.rdb"]);
    assert!(!is_well && text.contains("the checksum is wrong"), "{text}");
    assert!(!check(&disk, &["rdb", "missing.rdb"]).0);
}

#[test]
fn the_end_of_a_journal_is_repaired_on_demand_only() {
    let disk = SimulatedDisk::new();
    let whole = [command(&["SET", "a", "1"]), command(&["INCR", "a"])].concat();
    let torn = [&whole[..], &command(&["MULTI"]), &command(&["INCR", "a"])].concat();
    disk.put(Path::new("a.aof"), &torn);
    let (is_well, text) = check(&disk, &["aof", "a.aof"]);
    assert!(!is_well && text.contains("Use the --fix option"), "{text}");
    assert_eq!(content(&disk, "a.aof"), torn);
    let (is_well, text) = check(&disk, &["aof", "--fix", "a.aof"]);
    assert!(is_well && text.contains("Successfully truncated AOF a.aof"), "{text}");
    assert_eq!(content(&disk, "a.aof"), whole);
    let (is_well, text) = check(&disk, &["aof", "a.aof"]);
    assert!(is_well && text.contains("AOF a.aof is valid"), "{text}");
}

/// As redis-check-aof asks, and only where there is something to lose.
#[test]
fn nothing_is_cut_off_before_the_operator_agrees() {
    let disk = SimulatedDisk::new();
    let whole = command(&["SET", "a", "1"]);
    let torn = [&whole[..], b"*1\r\n$4\r\nPI"].concat();
    let shrink = format!(
        "This will shrink the AOF a.aof from {} bytes, with 10 bytes, to {} bytes\n\
         Continue? [y/N]: ",
        torn.len(),
        whole.len()
    );
    for refusal in ["", "\n", "n\n", "no\n", " y\n"] {
        disk.put(Path::new("a.aof"), &torn);
        let (is_well, text) = check_answered(&disk, &["aof", "--fix", "a.aof"], refusal);
        assert!(!is_well && text.ends_with(&format!("{shrink}Aborting...\n")), "{text}");
        assert_eq!(content(&disk, "a.aof"), torn, "{refusal:?}");
    }
    for consent in ["y", "yes\n", "Y\n"] {
        disk.put(Path::new("a.aof"), &torn);
        let (is_well, text) = check_answered(&disk, &["aof", "--fix", "a.aof"], consent);
        assert!(is_well && text.contains(&format!("{shrink}Successfully truncated")), "{text}");
        assert!(content(&disk, "a.aof").starts_with(&whole), "{consent:?}");
        assert_ne!(content(&disk, "a.aof"), torn, "{consent:?}");
        // What is sound is left alone, and nobody is asked.
        let (is_well, text) = check_answered(&disk, &["aof", "--fix", "a.aof"], "");
        assert!(is_well && !text.contains("Continue?"), "{text}");
    }
}

#[test]
fn a_journal_can_be_taken_back_to_a_time() {
    let disk = SimulatedDisk::new();
    let [first, second] = ["1", "2"].map(|value| command(&["SET", "a", value]));
    let early = [b"#TS:100\r\n".as_slice(), &check_line(&first), &first].concat();
    let late = [b"#TS:200\r\n".as_slice(), &check_line(&second), &second].concat();
    let all = [&early[..], &late].concat();
    disk.put(Path::new("a.aof"), &all);
    let (is_well, text) = check(&disk, &["aof", "--truncate-to-timestamp", "99", "a.aof"]);
    assert!(!is_well && text.contains("has nothing before timestamp 99, aborting..."), "{text}");
    assert_eq!(content(&disk, "a.aof"), all);
    for (until, left) in [("100", &early), ("199", &early), ("200", &all)] {
        disk.put(Path::new("a.aof"), &all);
        let (is_well, text) = check(&disk, &["aof", "--truncate-to-timestamp", until, "a.aof"]);
        assert!(is_well, "{text}");
        assert_eq!(content(&disk, "a.aof"), *left, "{until}");
    }
}

#[test]
fn of_several_files_only_the_last_is_repaired() {
    let disk = SimulatedDisk::new();
    let mut manifest = Manifest::default();
    let base = manifest.next_base(b"a", BaseForm::Snapshot);
    snapshot(&disk, "a.1.base.rdb");
    manifest.install_base(base, 1);
    manifest.add_increment(b"a");
    manifest.add_increment(b"a");
    disk.put(Path::new("a.manifest"), &manifest.encode());
    let [whole, torn] = [command(&["PING"]), b"*1\r\n$4\r\nPI".to_vec()];
    disk.put(Path::new("a.1.incr.aof"), &whole);
    disk.put(Path::new("a.2.incr.aof"), &torn);
    assert!(!check(&disk, &["aof", "a.manifest"]).0);
    let (is_well, text) = check(&disk, &["aof", "--fix", "a.manifest"]);
    assert!(is_well && text.contains("All AOF files and manifest are valid"), "{text}");
    assert_eq!(content(&disk, "a.2.incr.aof"), b"");
    disk.put(Path::new("a.1.incr.aof"), &torn);
    let (is_well, text) = check(&disk, &["aof", "--fix", "a.manifest"]);
    assert!(!is_well && text.contains("cannot be repaired"), "{text}");
    assert_eq!(content(&disk, "a.1.incr.aof"), torn);
    disk.put(Path::new("a.manifest"), b"file a seq 1 type b");
    let (is_well, text) = check(&disk, &["aof", "a.manifest"]);
    assert!(
        !is_well && text.contains("a.manifest: line 1 of the AOF manifest: it is cut off"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_understood_is_answered_with_the_usage() {
    for arguments in [
        &[][..],
        &["rdb"],
        &["x", "file"],
        &["rdb", "--fix", "file"],
        &["aof", "a", "b"],
        &["aof", "--truncate-to-timestamp", "x", "a"],
    ] {
        let (is_well, text) = check(&SimulatedDisk::new(), arguments);
        assert!(!is_well && text.starts_with("Usage: apus check rdb FILE"), "{arguments:?}");
    }
}
