//! Where a journal stands in a history: told only where it is certain, wherever it is cut off and
//! whichever server wrote behind it.

use std::path::Path;

use super::{check_line, command, disk};
use crate::aof::{HistoryPlace, StreamNote, UnitReader, history_line};
use crate::storage::{OpenMode, Storage};

/// Where a unit ends, and where the journal stands there.
type UnitEnd = (u64, Option<HistoryPlace>);

/// Where the units of a journal end, and where it stands there; at last where it stands in the end,
/// with the database that is selected.
fn places(bytes: &[u8]) -> (Vec<UnitEnd>, Option<HistoryPlace>, usize) {
    let disk = disk(bytes);
    let mut file = disk.open(Path::new("aof"), OpenMode::Read).unwrap();
    let (mut reader, mut all) = (UnitReader::new(&mut *file), Vec::new());
    while let Ok(Some(unit)) = reader.next_unit() {
        all.push((unit.end, reader.history().cloned()));
    }
    (all, reader.history().cloned(), reader.database())
}

fn place(note: &str, since: u64) -> Option<HistoryPlace> {
    Some(HistoryPlace { note: note.as_bytes().into(), since })
}

fn batch(parts: &[&[u8]]) -> Vec<u8> {
    let batch = parts.concat();
    [check_line(&batch), batch].concat()
}

/// Three batches: two histories, transactions, and notes of both kinds.
fn journal() -> Vec<u8> {
    let set = command(&["SET", "k", "v"]);
    let select = command(&["SELECT", "3"]);
    let group = [command(&["MULTI"]), set.clone(), set.clone(), command(&["EXEC"])].concat();
    let note = |stream, kept: &[u8]| StreamNote { stream, kept: kept.len() as u64 }.line();
    [
        batch(&[&set, &history_line(Some("first")), &set, &group]),
        batch(&[&set, &note(1000, &[]), &note(50, &group), &group, &set, &note(1, &[])]),
        batch(&[&history_line(None), &set, &history_line(Some("second")), &select, &set]),
    ]
    .concat()
}

#[test]
fn bytes_of_the_stream_are_counted_behind_the_last_note() {
    let set = command(&["SET", "k", "v"]).len() as u64;
    let group = 2 * set + (command(&["MULTI"]).len() + command(&["EXEC"]).len()) as u64;
    let select = command(&["SELECT", "3"]).len() as u64;
    let (all, end, database) = places(&journal());
    let first = set + group;
    let expected = [
        None,
        place("first", set),
        place("first", first),
        place("first", first + set),
        place("first", first + set + 1050),
        place("first", first + 2 * set + 1050),
        None,
        place("second", select),
        place("second", select + set),
    ];
    assert_eq!(all.into_iter().map(|(_, place)| place).collect::<Vec<_>>(), expected);
    assert_eq!((end, database), (place("second", select + set), 3));
}

#[test]
fn a_journal_that_is_cut_off_stands_where_it_ends_or_nowhere() {
    let bytes = journal();
    let whole = places(&bytes).0;
    let mut certain = 0;
    for length in 0..bytes.len() {
        let (all, end, _) = places(&bytes[..length]);
        for (unit, expected) in all.iter().zip(&whole) {
            assert!(unit.1.is_none() || unit == expected, "cut at {length}");
        }
        certain += usize::from(end.is_some());
    }
    assert!(certain > 0);
}

#[test]
fn what_another_server_wrote_stands_in_no_history() {
    let set = command(&["SET", "k", "v"]);
    let ours = [
        batch(&[&history_line(Some("first")), &set]),
        batch(&[&history_line(Some("first")), &set, &set]),
    ];
    let [first, second] = &ours;
    for foreign in [
        [&**first, &*set].concat(),
        [&**first, &*history_line(Some("third")), &*set].concat(),
        [&**first, &*set, &*batch(&[&set])].concat(),
        // What was torn is cut off, and something else stands in its place.
        [&**first, &second[..second.len() - set.len()], &*command(&["DEL", "k"])].concat(),
        [&**first, &second[..second.len() - 2 * set.len()], &*command(&["DEL", "k"])].concat(),
    ] {
        let (all, end, _) = places(&foreign);
        assert!(!all.is_empty());
        assert_eq!(end, None, "{}", String::from_utf8_lossy(&foreign));
    }
    let again = [&**first, &*set, &**second].concat();
    assert_eq!(places(&again).1, place("first", 2 * set.len() as u64), "a later note counts");
}
