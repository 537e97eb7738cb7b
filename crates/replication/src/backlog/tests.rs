//! The backlog against a naive one: all bytes there have been, in one row.

use base::Random;

use super::piece::PIECE_LEN;
use super::{Backlog, Place, SIZE_MIN, StreamSlice, pieces_of};

/// The bytes of slices, one after the other.
fn joined(slices: &[StreamSlice]) -> Vec<u8> {
    slices.iter().flat_map(|slice| slice.as_ref().iter().copied()).collect()
}

/// Bytes that differ at every place one may mistake for another.
fn bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn grow(backlog: &mut Backlog, len: usize) {
    let new = bytes(backlog.end(), len);
    backlog.append(&new);
}

#[test]
fn a_byte_is_kept_as_long_as_the_size_says() {
    let mut backlog = Backlog::new(1000, 0);
    assert_eq!(backlog.size(), SIZE_MIN);
    assert!(backlog.range().is_empty());
    assert_eq!(backlog.memory(), 0);
    grow(&mut backlog, 10);
    assert_eq!((backlog.range().first, backlog.end()), (1000, 1010));
    grow(&mut backlog, SIZE_MIN as usize);
    assert_eq!((backlog.range().first, backlog.end()), (1010, 1010 + SIZE_MIN));
    assert!(backlog.place_at(1009).is_none());
    assert!(backlog.place_at(backlog.end() + 1).is_none());
    let place = backlog.place_at(1010).unwrap();
    assert_eq!(joined(&backlog.read(&place, usize::MAX).unwrap()), bytes(1010, 16384));
    assert_eq!(backlog.last(256), bytes(backlog.end() - 256, 256));
    assert_eq!(backlog.last(usize::MAX), bytes(1010, 16384));
}

#[test]
fn ten_places_cost_one_buffer() {
    let mut backlog = Backlog::new(0, SIZE_MIN);
    let mut places: Vec<Place> = (0..10).map(|_| backlog.place_at(0).unwrap()).collect();
    let len = 64 * PIECE_LEN;
    grow(&mut backlog, len);
    let held: Vec<_> =
        places.iter().map(|place| backlog.read(place, usize::MAX).unwrap()).collect();
    assert!(held.iter().all(|slices| slices.len() == 64));
    assert!(backlog.memory() < len + 16 * 1024, "{}", backlog.memory());
    assert_eq!(backlog.kept_for_places(), len as u64 - SIZE_MIN);
    for place in &mut places {
        assert_eq!(backlog.charge(place), len as u64);
        place.advance(len);
        assert_eq!(backlog.charge(place), 0);
    }
    backlog.trim();
    assert_eq!(backlog.kept_for_places(), 0);
    assert!(backlog.memory() > len, "readers still hold all");
    drop(held);
    assert!(backlog.memory() < 3 * PIECE_LEN, "{}", backlog.memory());
}

#[test]
fn the_open_piece_is_there_in_any_case() {
    let len = PIECE_LEN as u64;
    let pieces = [0, 1, len - 1, len, 10 * len + 1].map(pieces_of);
    assert_eq!(pieces, [1, 1, 1, 2, 11]);
}

#[test]
fn readers_at_the_end_share_one_copy_of_each_batch() {
    let mut backlog = Backlog::new(0, SIZE_MIN);
    let mut places: Vec<Place> = (0..10).map(|_| backlog.place_at(0).unwrap()).collect();
    for batch in 1..=4 {
        grow(&mut backlog, 100);
        let before = backlog.memory();
        let read: Vec<_> = places.iter().map(|place| backlog.read(place, 1000).unwrap()).collect();
        assert!(read.iter().all(|slices| slices.len() == 1 && slices[0].as_ref().len() == 100));
        let first = read[0][0].as_ref().as_ptr();
        assert!(read.iter().all(|slices| slices[0].as_ref().as_ptr() == first));
        assert!(backlog.memory() < before + 500, "one copy for batch {batch}");
        places.iter_mut().for_each(|place| place.advance(100));
    }
    let late = backlog.place_at(150).unwrap();
    let slices = backlog.read(&late, 120).unwrap();
    assert_eq!((slices.len(), joined(&slices)), (2, bytes(150, 120)));
}

#[test]
fn a_slow_place_keeps_more_and_a_dropped_one_lets_go() {
    let mut backlog = Backlog::new(0, SIZE_MIN);
    let slow = backlog.place_at(0).unwrap();
    grow(&mut backlog, 10 * PIECE_LEN);
    assert_eq!(backlog.range().first, 0);
    let other = backlog.place_at(5).unwrap();
    drop(slow);
    assert_eq!(backlog.range().first, 5);
    drop(other);
    assert_eq!(backlog.range().first, backlog.end() - SIZE_MIN);
    backlog.resize(u64::MAX);
    assert!(backlog.range().first <= backlog.end() - SIZE_MIN);
    let before = backlog.memory();
    for _ in 0..10_000 {
        drop(backlog.place_at(backlog.end()));
        backlog.trim();
    }
    assert!(backlog.memory() < before + 100, "places that are dropped are forgotten");
}

#[test]
fn another_stream_ends_all_places() {
    let mut backlog = Backlog::new(0, SIZE_MIN);
    grow(&mut backlog, 100);
    let old = backlog.place_at(50).unwrap();
    let held = backlog.read(&old, 10).unwrap();
    backlog.restart(40);
    grow(&mut backlog, 100);
    assert!(backlog.read(&old, 10).is_none());
    assert_eq!(backlog.charge(&old), 0);
    assert_eq!(backlog.range().first, 40);
    assert_eq!(joined(&held), bytes(50, 10));
    let mut other = Backlog::new(0, SIZE_MIN);
    grow(&mut other, 100);
    assert!(other.read(&old, 10).is_none(), "a place is in one backlog only");
    drop((old, held));
    backlog.restart(7);
    assert_eq!(backlog.memory(), 0);
}

/// A link: its place, and what was read at this place and is not let go of.
struct Reader {
    place: Place,
    held: Vec<(u64, StreamSlice)>,
}

/// One random life of a backlog.
fn live(seed: u64) {
    let mut random = Random::from_seed(seed);
    let origin = random.below(100_000);
    let mut stream = Vec::new();
    let mut size = SIZE_MIN;
    let mut backlog = Backlog::new(origin, size);
    let mut readers: Vec<Reader> = Vec::new();
    for _ in 0..60 {
        match random.below(10) {
            0..4 => {
                let most = [50, 3000, 40_000][random.below(3) as usize];
                let len = random.below(most) as usize;
                let new: Vec<u8> =
                    (0..len / 8 + 1).flat_map(|_| random.next_u64().to_le_bytes()).collect();
                stream.extend_from_slice(&new);
                backlog.append(&new);
            }
            4 => {
                let range = backlog.range();
                let offset = range.first + random.below(range.len() + 1);
                let place = backlog.place_at(offset).expect("within the range");
                readers.push(Reader { place, held: Vec::new() });
            }
            5 if !readers.is_empty() => {
                readers.swap_remove(random.below(readers.len() as u64) as usize);
            }
            6 => {
                size = SIZE_MIN + random.below(100_000);
                backlog.resize(size);
            }
            7 => {
                backlog.trim();
                check_memory(&backlog, &readers);
            }
            _ if !readers.is_empty() => {
                let index = random.below(readers.len() as u64) as usize;
                read(&mut readers[index], &mut backlog, &mut random);
            }
            _ => {}
        }
        check(&backlog, &readers, &stream, origin, size);
    }
    readers.clear();
    backlog.resize(0);
    assert!(backlog.memory() < 4 * PIECE_LEN + 4096, "{}", backlog.memory());
}

fn read(reader: &mut Reader, backlog: &mut Backlog, random: &mut Random) {
    let most = random.below(50_000) as usize;
    let mut at = reader.place.offset();
    let slices = backlog.read(&reader.place, most).expect("the place is of this stream");
    let len: usize = slices.iter().map(|slice| slice.as_ref().len()).sum();
    assert_eq!(len, most.min((backlog.end() - at) as usize));
    reader.held.clear();
    for slice in slices {
        at += slice.as_ref().len() as u64;
        reader.held.push((at, slice));
    }
    reader.place.advance(random.below(len as u64 + 1) as usize);
}

fn check(backlog: &Backlog, readers: &[Reader], stream: &[u8], origin: u64, size: u64) {
    let range = backlog.range();
    assert_eq!(range.end, origin + stream.len() as u64);
    let wanted = range.end.saturating_sub(size).max(origin);
    let lowest = readers.iter().map(|reader| reader.place.offset()).min().unwrap_or(u64::MAX);
    assert!(range.first <= lowest);
    // A backlog that has been smaller has less.
    assert!(range.first <= wanted || range.len() < size);
    for (end, slice) in readers.iter().flat_map(|reader| &reader.held) {
        let (end, bytes) = ((end - origin) as usize, slice.as_ref());
        assert!(stream[end - bytes.len()..end] == *bytes);
    }
    let last = backlog.last(300);
    assert!(stream.ends_with(&last));
}

/// Not more than what is kept, its tips, and what readers still hold.
fn check_memory(backlog: &Backlog, readers: &[Reader]) {
    let range = backlog.range();
    let pieces = (range.len() as usize).div_ceil(PIECE_LEN) + 2;
    let held: usize =
        readers.iter().flat_map(|reader| &reader.held).map(|(_, slice)| slice.as_ref().len()).sum();
    let most = (pieces + 1) * (PIECE_LEN + 200) + 2 * held + readers.len() * 4 * PIECE_LEN;
    assert!(backlog.memory() <= most + 8192, "{} of {most}", backlog.memory());
}

#[test]
fn the_backlog_is_the_naive_one() {
    for seed in 0..200 {
        live(seed);
    }
}
