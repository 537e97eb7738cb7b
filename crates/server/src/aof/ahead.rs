//! Reading ahead: while commands of a log are run again, those behind them are read, checked, taken
//! apart and sorted by another thread.
//!
//! Invariants: units come in the order of the file; a few pieces of it are in memory at most, or
//! one unit where that is larger.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use persist::aof::{AofError, Place, UnitReader};

use super::sort::{Sorter, Stretch};

/// About how many bytes of the file are handed over at once.
const PIECE: u64 = if cfg!(test) { 4 << 10 } else { 256 << 10 };

/// Pieces that wait to be run.
const AHEAD: usize = 4;

/// What a file was found to be.
pub(super) struct Read {
    /// Why it was not read to its end.
    pub(super) end: Result<(), AofError>,
    /// Where the last whole unit ends.
    pub(super) place: Place,
    /// What its sync marks are known by, as far as it was read.
    pub(super) number: Option<u64>,
}

/// Why not all was done.
pub(super) enum Stopped {
    /// Whoever was to run the units could not.
    Refused(String),
    /// The system gives no thread.
    Alone(io::Error),
}

/// A part of the file, and where it ends.
type Piece = (Vec<Stretch>, u64);

/// Has all of a file run, in its order. What cannot be read comes behind it. `run` is told where
/// in the file the stretches end.
pub(super) fn run_each(
    reader: UnitReader<'_>,
    sorter: Sorter,
    mut run: impl FnMut(Vec<Stretch>, u64) -> Result<(), String>,
) -> Result<Read, Stopped> {
    thread::scope(|scope| {
        let (sender, receiver): (_, Receiver<Piece>) = sync_channel(AHEAD);
        let builder = thread::Builder::new().name("aof-reader".to_owned());
        let reading = builder.spawn_scoped(scope, move || read(reader, sorter, &sender));
        let reading = reading.map_err(Stopped::Alone)?;
        // Dropped where it returns, so that the other thread does not wait for ever.
        let mut pieces = receiver.into_iter();
        let ran = pieces.try_for_each(|(stretches, end)| run(stretches, end));
        ran.map_err(Stopped::Refused)?;
        Ok(reading.join().expect("who reads a log does not panic"))
    })
}

fn read(mut reader: UnitReader<'_>, mut sorter: Sorter, pieces: &SyncSender<Piece>) -> Read {
    let mut begin = reader.place().offset();
    let end = loop {
        match reader.next_unit() {
            Ok(Some(unit)) => {
                let end = unit.end;
                sorter.add(unit);
                if end - begin < PIECE {
                    continue;
                }
                begin = end;
                if pieces.send((sorter.take(), end)).is_err() {
                    // Nobody runs them any more, and says why.
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // As above.
    let _ = pieces.send((sorter.take(), reader.place().offset()));
    Read { end, place: reader.place(), number: reader.number() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use persist::aof::UnitReader;
    use persist::storage::simulated::Disk;
    use persist::storage::{How, Storage};

    use super::{PIECE, Sorter, Stopped, Stretch, run_each};
    use crate::start::test_server;

    /// A file of this many commands, several pieces of them, and a torn one.
    fn disk(count: usize) -> Disk {
        let mut text = Vec::new();
        for number in 0..count {
            text.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n$9\r\n{number:09}\r\n").as_bytes());
        }
        assert!(text.len() as u64 > 8 * PIECE);
        text.extend_from_slice(b"*2\r\n$3\r\nGET");
        let disk = Disk::new();
        disk.put(Path::new("log"), &text);
        disk
    }

    #[test]
    fn units_come_in_their_order_and_the_damage_behind_them() {
        const COUNT: usize = 2_000;
        let disk = disk(COUNT);
        let mut file = disk.open(Path::new("log"), How::Read).unwrap();
        let (mut next, mut last) = (0, 0);
        let reader = UnitReader::new(&mut *file);
        let read = run_each(reader, Sorter::new(test_server(), 1), |stretches, end| {
            for stretch in stretches {
                let Stretch::Together(tasks) = stretch else { panic!("one thread runs it") };
                for task in tasks {
                    let args = task.unit.commands[0].as_args();
                    assert_eq!(&args[1], format!("{next:09}").as_bytes());
                    assert!(last < task.unit.end && task.unit.end <= end);
                    (next, last) = (next + 1, task.unit.end);
                }
            }
            Ok(())
        });
        let Ok(read) = read else { panic!("it is run to its end") };
        assert_eq!(next, COUNT);
        assert!(read.end.is_err());
    }

    #[test]
    fn who_cannot_go_on_waits_for_nobody() {
        let disk = disk(2_000);
        let mut file = disk.open(Path::new("log"), How::Read).unwrap();
        let mut count = 0;
        let reader = UnitReader::new(&mut *file);
        let stopped = run_each(reader, Sorter::new(test_server(), 1), |_, _| {
            count += 1;
            if count < 3 { Ok(()) } else { Err("enough".to_owned()) }
        });
        assert!(matches!(stopped, Err(Stopped::Refused(why)) if why == "enough"));
        assert_eq!(count, 3);
    }
}
