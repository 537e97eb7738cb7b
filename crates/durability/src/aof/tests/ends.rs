//! The end of a file of the log: torn, padded, or not what was synced.

use std::path::PathBuf;

use persist::storage::simulated::SimulatedDisk;

use super::{append, end, flush, has, new_disk, start, write};

#[test]
fn a_torn_end_is_cut_off_where_that_is_allowed_and_only_at_the_end() {
    let disk = new_disk();
    let server = start(&disk).unwrap();
    assert!(write(server, 1));
    end(server);
    let directory = std::env::current_dir().unwrap().join("appendonlydir");
    let path = directory.join("appendonly.aof.1.incr.aof");
    let whole = persist::storage::read_whole(&disk, &path).unwrap();
    let torn = [&*whole, b"*3\r\n$3\r\nSET\r\n$5\r\nkey:2\r\n$1"].concat();
    disk.put(&path, &torn);
    let server = start(&disk).unwrap();
    assert!(has(server, 1) && !has(server, 2));
    assert!(write(server, 3));
    end(server);
    let server = start(&disk).unwrap();
    assert!(has(server, 1) && has(server, 3));
    end(server);
}

const COMMAND: &[u8] = b"*3\r\n$3\r\nSET\r\n$5\r\nkey:9\r\n$1\r\nv\r\n";

/// What the file of a first life holds while it goes on, and where each of its batches ends.
fn written_in_three_batches(disk: &SimulatedDisk) -> (PathBuf, Vec<u8>, Vec<usize>) {
    let server = start(disk).unwrap();
    let path = std::env::current_dir().unwrap().join("appendonlydir/appendonly.aof.1.incr.aof");
    let read = || persist::storage::read_whole(disk, &path).unwrap();
    let mut ends = Vec::new();
    for number in 1..=3 {
        assert!(write(server, number));
        ends.push(end_of_batches(&read()));
    }
    let bytes = read();
    end(server);
    (path, bytes, ends)
}

/// Where the padding begins at the end of a file.
pub(super) fn end_of_batches(bytes: &[u8]) -> usize {
    let end = bytes.windows(6).position(|window| window == b"\r\n#PAD");
    end.expect("a file whose batches are synced one by one is padded") + 2
}

#[test]
fn what_a_power_loss_can_leave_of_the_first_batch_behind_a_start_keeps_nothing_from_starting() {
    let disk = new_disk();
    let (path, bytes, _) = written_in_three_batches(&disk);
    let ended_well = persist::storage::read_whole(&disk, &path).unwrap();
    let server = start(&disk).unwrap();
    assert!(write(server, 4));
    let longer = persist::storage::read_whole(&disk, &path).unwrap();
    end(server);
    // The longer file ends with a mark, which says that all before it is on disk.
    assert!(longer.starts_with(&ended_well) && ended_well.len() > end_of_batches(&bytes));
    // Behind the mark that was synced with the padding.
    let begin = longer.windows(6).rposition(|window| window == b"#SYNC:").unwrap();
    assert!(begin > ended_well.len());
    for place in begin..end_of_batches(&longer) {
        let mut damaged = longer.clone();
        damaged[place] ^= 1;
        disk.put(&path, &damaged);
        let server = start(&disk).unwrap_or_else(|why| panic!("{place}: {why}"));
        assert!(has(server, 3), "{place}");
        end(server);
    }
}

#[test]
fn padding_goes_when_the_log_ends_or_is_not_synced_any_more() {
    let disk = new_disk();
    let (path, bytes, ends) = written_in_three_batches(&disk);
    assert!(bytes.len() > ends[2] && bytes.ends_with(b".|\r\n"));
    let read = || persist::storage::read_whole(&disk, &path).unwrap();
    let has_padding = |bytes: &[u8]| bytes.windows(4).any(|window| window == b"#PAD");
    assert!(!has_padding(&read()));
    let server = start(&disk).unwrap();
    let policy = |name: &[u8]| {
        server.config.set_many(&[b"appendfsync", name], true).unwrap();
        server.aof.policy_changed(server);
    };
    assert!(write(server, 1));
    assert!(has_padding(&read()));
    policy(b"everysec");
    // What is left of it is written over.
    for _ in 0..40 {
        assert!(append(server, 1).is_some());
        flush(server);
    }
    assert!(!has_padding(&read()));
    policy(b"always");
    assert!(write(server, 5));
    assert!(has_padding(&read()));
    end(server);
    assert!(!has_padding(&read()));
    let server = start(&disk).unwrap();
    assert!(has(server, 1) && has(server, 5));
    end(server);
}

#[test]
fn the_size_that_is_told_is_that_of_the_files_without_padding() {
    let disk = new_disk();
    let directory = std::env::current_dir().unwrap().join("appendonlydir");
    let read = |name: &str| persist::storage::read_whole(&disk, &directory.join(name)).unwrap();
    // In each life padding begins at another place within a line.
    for life in 0..40 {
        let server = start(&disk).unwrap();
        assert!(write(server, 10_usize.pow(life % 7)));
        let increment = end_of_batches(&read("appendonly.aof.1.incr.aof"));
        // As in Redis, the base of an empty start does not count before the next one.
        let base = if life == 0 { 0 } else { read("appendonly.aof.1.base.rdb").len() };
        assert_eq!(server.aof.stats.sizes().0, (base + increment) as u64, "{life}");
        end(server);
    }
}

#[test]
fn what_a_power_loss_can_leave_keeps_nothing_from_starting() {
    let disk = new_disk();
    let (path, bytes, ends) = written_in_three_batches(&disk);
    // The last batch was written when two were known to be on disk.
    for place in (ends[1]..ends[2]).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[place] = if place % 2 == 0 { 0 } else { bytes[place] ^ 1 };
        disk.put(&path, &damaged);
        let server = start(&disk).unwrap_or_else(|why| panic!("{place}: {why}"));
        assert!(has(server, 1) && has(server, 2), "{place}");
        assert!(write(server, 4));
        end(server);
        let server = start(&disk).unwrap_or_else(|why| panic!("{place}: {why}"));
        assert!(has(server, 2) && has(server, 4), "{place}");
        end(server);
    }
    // Only the length was on disk; or a later batch is there whole, though an earlier one is not.
    let zeros = [0; 5000];
    let later = [&persist::aof::check_line(COMMAND), COMMAND].concat();
    for tail in [&[][..], &later] {
        disk.put(&path, &[&bytes[..ends[1]], &zeros, tail].concat());
        let server = start(&disk).unwrap();
        assert!(has(server, 2) && !has(server, 3) && !has(server, 9));
        end(server);
    }
}

#[test]
fn damage_to_what_was_synced_is_refused() {
    let disk = new_disk();
    let (path, bytes, ends) = written_in_three_batches(&disk);
    let ended_well = persist::storage::read_whole(&disk, &path).unwrap();
    for (whole, end) in [(&bytes, ends[1]), (&ended_well, ends[2])] {
        let mut damaged = whole.clone();
        // Within the value.
        damaged[end - 4] ^= 1;
        disk.put(&path, &damaged);
        let error = start(&disk).err().unwrap_or_else(|| panic!("{end}: it starts"));
        assert!(error.contains("is not as its check line says"), "{error}");
    }
    // A file that nobody marked says nothing of what was synced.
    disk.put(&path, &[COMMAND, b"no command\r\n"].concat());
    let error = start(&disk).err().unwrap();
    assert!(error.contains(&format!("at offset {}", COMMAND.len())), "{error}");
}
