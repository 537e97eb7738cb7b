//! Journals that end with padding: whole, torn in any blocks, damaged, and written on by others.

use super::{command, cut, expect_no_byte_can_change, find, journal, journal_units, read, unit};
use super::{disk, later, units};
use crate::aof::padding::{Padding, line_end, pad_line};
use crate::aof::{
    AofDamage, PADDING_LINE, check_line, filler, filler_length, pad_lines, padding, spacer,
};

/// A smaller block than any disk has.
const BLOCK: usize = PADDING_LINE as usize;

/// What a file becomes whose padding a batch is written over, and where the batch ends.
fn write_over(file: &mut [u8], at: usize, batch: &[u8]) -> usize {
    let spacer = spacer((at + batch.len()) as u64);
    let mut piece = [spacer, batch].concat();
    let end = at + piece.len();
    pad_line(end as u64, &mut piece);
    file[at..at + piece.len()].copy_from_slice(&piece);
    end
}

/// Something that ends where padding can begin.
fn spaced(journal: &[u8]) -> Vec<u8> {
    [journal, spacer(journal.len() as u64)].concat()
}

fn padded(journal: &[u8]) -> Vec<u8> {
    [journal, &padding(journal.len() as u64, 1000)].concat()
}

#[test]
fn lines_end_in_their_places_and_only_the_last_one_has_its_sign() {
    for (from, count) in (0..200).flat_map(|from| [0, 1, 64, 65, 1000].map(|count| (from, count))) {
        let from = from + spacer(from).len() as u64;
        let bytes = padding(from, count);
        assert!(bytes.len() >= count);
        let mut end = from;
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            assert_eq!(end + line.len() as u64, line_end(end));
            end = line_end(end);
            assert_eq!(end % PADDING_LINE, 0);
            let kind = Padding::parse(line.strip_suffix(b"\r\n").unwrap());
            let expected = if lines.peek().is_some() { Padding::Line } else { Padding::Last };
            assert_eq!(kind, Some(expected), "{from} {count}");
        }
    }
    for other in [&b"#PAD.x"[..], b"#PAD||", b"#PA", b"#PADDING", b"#TS:1"] {
        assert_eq!(Padding::parse(other), None);
    }
}

#[test]
fn padding_is_no_part_of_what_was_written() {
    let bytes = spaced(&journal());
    let padded = padded(&bytes);
    assert_eq!(find(&disk(&padded)).cut_point.offset(), bytes.len() as u64);
    assert_eq!(cut(&padded), bytes);
    for len in bytes.len()..padded.len() {
        assert_eq!(cut(&padded[..len]), bytes, "{len}");
    }
    expect_no_byte_can_change(&padded);
}

/// Of a batch that was written over padding any blocks may be on disk.
#[test]
fn a_batch_over_padding_is_there_whole_or_not_at_all_whatever_blocks_are_lost() {
    let mut journal = journal();
    for shift in 0..BLOCK {
        let bytes = spaced(&journal);
        // Each command of it is one that could stand alone, and ends anywhere in its block.
        let begin = command(&["SET", "shift", &"x".repeat(shift)]);
        let batch = [&begin[..], &command(&["SET", "key", "value"]).repeat(6)].concat();
        let batch = [check_line(&batch), batch].concat();
        let before = padded(&bytes);
        let mut after = before.clone();
        let end = write_over(&mut after, bytes.len(), &batch);
        let blocks = bytes.len() / BLOCK..end / BLOCK + 1;
        let whole = units(&bytes);
        assert_eq!(units(&after).len(), whole.len() + 7);
        for lost in 1..1_u32 << blocks.len() {
            let mut left = after.clone();
            for (_, block) in blocks.clone().enumerate().filter(|(bit, _)| lost >> bit & 1 == 1) {
                let range = block * BLOCK..(block + 1) * BLOCK;
                left[range.clone()].copy_from_slice(&before[range]);
            }
            let found = read(&left).0;
            let is_all = left == after && found.len() == whole.len() + 7;
            assert!(found == whole || is_all, "{shift} {lost:b}: {found:?}");
            cut(&left);
        }
        // The next one begins elsewhere.
        journal.extend_from_slice(b"#\r\n");
    }
}

#[test]
fn commands_of_a_writer_without_padding_are_read_behind_padding() {
    let foreign = command(&["SET", "foreign", "2"]);
    let mixed = [padded(&spaced(&journal())), foreign.clone()].concat();
    let expected = [journal_units(), vec![(unit(&[&["SET", "foreign", "2"]]), None)]].concat();
    assert_eq!(units(&mixed), expected);
    assert_eq!(cut(&mixed), mixed);
    let ours = spaced(&[&mixed[..], &later()].concat());
    assert_eq!(units(&ours).len(), expected.len() + 1);
    assert_eq!(cut(&padded(&ours)), ours);
}

#[test]
fn nothing_stands_behind_padding_that_goes_on() {
    let bytes = spaced(&journal());
    let mut lines = Vec::new();
    pad_line(bytes.len() as u64, &mut lines);
    for behind in [command(&["PING"]), later(), b"#annotation\r\n".to_vec()] {
        let (found, _, error) = read(&[&bytes[..], &lines, &behind].concat());
        assert_eq!(found, journal_units());
        let error = error.unwrap();
        assert_eq!(error.offset, bytes.len() as u64);
        let why = "the beginning of a batch is not there";
        assert!(matches!(error.damage, AofDamage::Malformed { why: told, .. } if told == why));
    }
}

/// What stands between a batch and the end of its block is what stood there before.
#[test]
fn lines_up_to_a_block_are_those_of_padding() {
    for from in (0..4 * PADDING_LINE).filter(|from| spacer(*from).is_empty()) {
        let lines = pad_lines(from, 4 * BLOCK);
        assert_eq!(from as usize + lines.len(), if from == 0 { 0 } else { 4 * BLOCK });
        assert!(padding(from, 8 * BLOCK).starts_with(&lines), "{from}");
    }
}

#[test]
fn filler_is_as_long_as_is_asked_for_and_its_lines_are_as_others_take_them() {
    for count in (3..1100).chain([4093, 4096, 8190]) {
        let bytes = filler(count);
        assert_eq!(bytes.len(), count);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let dots = line.strip_prefix(b"#").and_then(|rest| rest.strip_suffix(b"\r\n")).unwrap();
            assert!(line.len() < 1024 && dots.iter().all(|byte| *byte == b'.'), "{count}");
        }
    }
    assert!(filler(0).is_empty());
    for from in 0..500 {
        let length = filler_length(from, BLOCK);
        assert!((from as usize + length).is_multiple_of(BLOCK) && length < BLOCK + 3);
        assert!(!matches!(length, 1 | 2));
    }
}

#[test]
fn what_is_filled_up_says_the_same() {
    let batch = command(&["SET", "after", "filler"]);
    for count in [0, 3, 64, 600] {
        let parts = [&*journal(), &filler(count), &check_line(&batch), &batch, &filler(count)];
        let bytes = parts.concat();
        let mut expected = journal_units();
        expected.push((unit(&[&["SET", "after", "filler"]]), None));
        assert_eq!(units(&bytes), expected);
        expect_no_byte_can_change(&bytes);
    }
}
