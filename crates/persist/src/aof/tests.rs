//! Journals in and out: whole, torn at every byte, and damaged at every byte.

mod history;
mod padding;

use std::path::Path;

use super::{AofDamage, AofError, CutPoint, UnitReader, check_line};
use crate::storage::simulated::SimulatedDisk;
use crate::storage::{OpenMode, Storage, read_whole};

/// Commands of each unit, with the time.
type Units = Vec<(Vec<Vec<String>>, Option<i64>)>;

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    proto::args::encode_command(words.iter().map(|word| word.as_bytes()), &mut bytes);
    bytes
}

/// What a file was found to be.
struct Found {
    units: Units,
    /// Where each of them ended.
    ends: Vec<u64>,
    cut_point: CutPoint,
    error: Option<AofError>,
}

/// The units before an end or an error, and where each ended.
fn read(bytes: &[u8]) -> (Units, Vec<u64>, Option<AofError>) {
    let Found { units, ends, error, .. } = find(&disk(bytes));
    (units, ends, error)
}

fn disk(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.put(Path::new("aof"), bytes);
    disk
}

fn find(disk: &SimulatedDisk) -> Found {
    let mut file = disk.open(Path::new("aof"), OpenMode::Read).unwrap();
    let mut reader = UnitReader::new(&mut *file);
    let (mut units, mut ends) = (Units::new(), Vec::new());
    let error = loop {
        let unit = match reader.next_unit() {
            Ok(Some(unit)) => unit,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let words = |args: &proto::OwnedArgs| {
            let args = args.as_args();
            args.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        assert_eq!(unit.offset, ends.last().copied().unwrap_or(0));
        units.push((unit.commands.iter().map(words).collect(), unit.time));
        ends.push(unit.end);
    };
    Found { units, ends, cut_point: reader.cut_point(), error }
}

/// What is left of a journal that is cut off where its last whole unit ends. What was whole is read
/// again, by itself as with another batch behind it.
fn cut(bytes: &[u8]) -> Vec<u8> {
    let disk = disk(bytes);
    let Found { units: whole, cut_point, error, .. } = find(&disk);
    if let Some(error) = error {
        assert_eq!(error.offset, cut_point.offset());
    }
    assert_eq!(units(&bytes[..cut_point.offset() as usize]), whole);
    let length = cut_point.cut(&disk, Path::new("aof")).unwrap();
    let left = read_whole(&disk, Path::new("aof")).unwrap();
    assert_eq!(left.len() as u64, length);
    assert_eq!(units(&left), whole);
    let found = units(&[&left[..], &later()].concat());
    assert_eq!(found.split_last().unwrap(), (&(unit(&[&["SET", "later", "1"]]), None), &whole[..]));
    left
}

/// Another batch, longer than those of the journal.
fn later() -> Vec<u8> {
    let command = command(&["SET", "later", "1"]);
    let padding = format!("#{}\r\n", "x".repeat(500));
    let batch = [&command[..], padding.as_bytes()].concat();
    [check_line(&batch), batch].concat()
}

fn units(bytes: &[u8]) -> Units {
    let (units, _, error) = read(bytes);
    if let Some(error) = error {
        panic!("{error}");
    }
    units
}

fn unit(commands: &[&[&str]]) -> Vec<Vec<String>> {
    let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    commands.iter().map(words).collect()
}

/// Some are copied out of what was read, some take it with them.
#[test]
fn commands_of_all_lengths_are_read_one_behind_the_other() {
    for long in 0..400 {
        let lengths = [long, 3, 1000 - long, long / 2, 1, 2 * long];
        let commands = lengths.map(|length| vec!["SET".to_owned(), "x".repeat(length)]);
        let bytes = commands.iter().map(|words| command(&[&words[0], &words[1]]));
        let bytes: Vec<u8> = bytes.collect::<Vec<_>>().concat();
        let expected: Units = commands.map(|words| (vec![words], None)).to_vec();
        assert_eq!(units(&bytes), expected);
        assert_eq!(units(&[check_line(&bytes), bytes].concat()), expected);
    }
}

/// What is longer than any command may be is not read to its end.
#[test]
fn a_command_that_is_too_long_is_refused_where_it_becomes_so() {
    let begin = command(&["SET", "key", "value"]);
    let half = "x".repeat(2100);
    let parts = [format!("*3\r\n$3\r\nSET\r\n$2100\r\n{half}\r\n"), "$2100\r\n".to_owned()];
    let one = ["*2\r\n$3\r\nGET\r\n".to_owned(), format!("${}\r\n", u64::MAX / 4)];
    for [before, length] in [parts, one] {
        let file = [&begin[..], before.as_bytes(), length.as_bytes()].concat();
        let (units, _, error) = read(&file);
        assert_eq!(units.len(), 1);
        let error = error.unwrap();
        let at = begin.len() + before.len();
        assert_eq!(error.offset, begin.len() as u64);
        let is_told = matches!(error.damage, AofDamage::Malformed { at: told, why, .. }
            if told == at as u64 && why.contains("4 GiB"));
        assert!(is_told, "{error}");
    }
}

/// Two batches: a command; a transaction and another command.
fn journal() -> Vec<u8> {
    let one = command(&["SET", "key", "value"]);
    let two = [
        command(&["multi"]),
        command(&["INCR", "a"]),
        command(&["INCR", "b"]),
        command(&["EXEC"]),
        command(&["APPEND", "key", &"x".repeat(200)]),
    ];
    let two = two.concat();
    [check_line(&one), one, check_line(&two), two].concat()
}

fn journal_units() -> Units {
    vec![
        (unit(&[&["SET", "key", "value"]]), None),
        (unit(&[&["INCR", "a"], &["INCR", "b"]]), None),
        (unit(&[&["APPEND", "key", &"x".repeat(200)]]), None),
    ]
}

#[test]
fn units_come_in_order() {
    assert_eq!(units(b""), []);
    assert_eq!(units(&journal()), journal_units());
    let noted = [
        b"#TS:100\r\n#anything\r\n".to_vec(),
        command(&["PING"]),
        command(&["PING", ""]),
        b"#TS:200\r\n".to_vec(),
        command(&["MULTI"]),
        b"#TS:300\r\n".to_vec(),
        command(&["EXEC"]),
        b"#TS:400\r\n".to_vec(),
    ];
    let expected = [
        (unit(&[&["PING"]]), Some(100)),
        (unit(&[&["PING", ""]]), Some(100)),
        (unit(&[]), Some(300)),
    ];
    assert_eq!(units(&noted.concat()), expected);
}

#[test]
fn a_torn_journal_gives_its_whole_units_and_the_cut_point() {
    let bytes = journal();
    let (_, ends, _) = read(&bytes);
    let mut place = 0;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| {
        place += line.len() as u64;
        line.starts_with(b"#").then_some(place)
    });
    let annotation_ends: Vec<u64> = lines.collect();
    for len in 0..=bytes.len() {
        let (found, found_ends, error) = read(&bytes[..len]);
        let whole = ends.iter().filter(|end| **end <= len as u64).count();
        assert_eq!(found, journal_units()[..whole], "{len}");
        assert_eq!(found_ends, ends[..whole]);
        match error {
            None => {
                let len = len as u64;
                let is_whole = len == 0 || ends.contains(&len) || annotation_ends.contains(&len);
                assert!(is_whole, "{len} is within a unit");
            }
            Some(AofError { offset, damage: AofDamage::Torn }) => {
                assert_eq!(offset, found_ends.last().copied().unwrap_or(0), "{len}");
            }
            Some(error) => panic!("{len}: {error}"),
        }
    }
}

#[test]
fn what_is_appended_to_a_torn_batch_is_read() {
    let bytes = journal();
    let (_, ends, _) = read(&bytes);
    let more = command(&["SET", "later", "1"]);
    for end in ends {
        // We write a check line, others do not.
        for check in [check_line(&more), Vec::new()] {
            let appended = [&bytes[..end as usize], &check, &more, &check, &more].concat();
            let found = units(&appended);
            assert_eq!(found.last().unwrap().0, unit(&[&["SET", "later", "1"]]));
        }
    }
}

#[test]
fn no_byte_can_change() {
    let bytes = journal();
    expect_no_byte_can_change(&bytes);
    let (_, ends, _) = read(&bytes);
    // Within the second batch; what is left of it is as well guarded as a whole one.
    let torn = cut(&bytes[..ends[1] as usize + 7]);
    expect_no_byte_can_change(&torn);
    expect_no_byte_can_change(&[torn, later()].concat());
}

/// Whatever bit of a journal is turned around: its units are read as they were, or the place of
/// the damage is told, and a journal that is cut off there is sound.
fn expect_no_byte_can_change(bytes: &[u8]) {
    let whole = units(bytes);
    for (place, bit) in (0..bytes.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
        let mut flipped = bytes.to_vec();
        flipped[place] ^= 1 << bit;
        let (found, _, error) = read(&flipped);
        assert!(whole.starts_with(&found), "bit {bit} of byte {place}: {found:?}");
        let is_told = error.is_some() || found.len() == whole.len();
        assert!(is_told, "bit {bit} of byte {place} loses units");
        cut(&flipped);
    }
}

#[test]
fn a_journal_that_is_cut_off_is_sound_whatever_was_written_behind() {
    let bytes = journal();
    let foreign = command(&["SET", "foreign", "2"]);
    for len in 0..=bytes.len() {
        cut(&bytes[..len]);
        // Another server cuts off what is no command, and writes on without check lines.
        let (_, ends, _) = read(&bytes[..len]);
        let whole = &bytes[..ends.last().copied().unwrap_or(0) as usize];
        for count in 0..20 {
            let mixed = [whole, &foreign.repeat(count)].concat();
            cut(&mixed);
            cut(&[&mixed[..], &later()].concat());
            cut(&[&mixed[..], b"no command\r\n"].concat());
            cut(&mixed[..mixed.len() - mixed.len().min(3)]);
        }
    }
}

#[test]
fn damage_to_what_is_left_of_a_batch_is_told_with_its_place() {
    let bytes = journal();
    let (_, ends, _) = read(&bytes);
    let left = cut(&bytes[..ends[1] as usize + 7]);
    // In the first transaction of the second batch.
    let place = ends[1] as usize - 20;
    for behind in [Vec::new(), later()] {
        let mut damaged = [&left[..], &behind].concat();
        damaged[place] ^= 1;
        let (found, _, error) = read(&damaged);
        assert_eq!(found, journal_units()[..1]);
        let AofError { offset, damage } = error.unwrap();
        assert_eq!(offset, ends[0]);
        assert!(matches!(damage, AofDamage::Malformed { .. }), "{damage:?}");
    }
}

#[test]
fn what_is_no_journal_is_refused_with_the_place() {
    let good = command(&["PING"]);
    for (bytes, why) in [
        (&b"PING\r\n"[..], "neither a command nor an annotation"),
        (b"*0\r\n", "a command without a name"),
        (b"*x\r\n", "a length is expected"),
        (b"*-1\r\n", "a length is expected"),
        (b"*1\n", "a line does not end in CR LF"),
        (b"*1\r\n:1\r\n", "a length is expected"),
        (b"*1\r\n$1\r\nab\r\n", "an argument does not end in CR LF"),
        (b"*1\r\n$4\r\nEXEC\r\n", "EXEC without MULTI"),
        (b"#CHECK:4:0000000000000000\r\n*1\r\n", "the batch is not as its check line says"),
    ] {
        let bytes = [&good, bytes].concat();
        let (found, _, error) = read(&bytes);
        assert_eq!(found.len(), 1);
        let AofError { offset, damage } = error.unwrap();
        assert_eq!(offset, good.len() as u64);
        let AofDamage::Malformed { at, why: found, .. } = damage else { panic!("{damage:?}") };
        assert_eq!(found, why);
        assert!(at >= offset);
    }
    let endless = [b"#".as_slice(), &[b'x'; 2000]].concat();
    assert!(matches!(read(&endless).2.unwrap().damage, AofDamage::Malformed { .. }));
    let claimed = b"*9223372036854775807\r\n$1\r\na\r\n$4000\r\n";
    assert!(matches!(read(claimed).2.unwrap().damage, AofDamage::Torn));
}

#[test]
fn a_disk_that_fails_is_no_end() {
    let disk = SimulatedDisk::new();
    disk.put(Path::new("aof"), &journal());
    let mut file = disk.open(Path::new("aof"), OpenMode::Read).unwrap();
    let mut reader = UnitReader::new(&mut *file);
    disk.fail_at(disk.calls() + 2, crate::storage::simulated::Fault::Error(5));
    let error = loop {
        match reader.next_unit() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end was not reached"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.damage, AofDamage::Unread(_)));
}
