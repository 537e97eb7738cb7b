//! Reading ahead: while commands of a log are run again, those behind them are read, checked and
//! taken apart by another thread.
//!
//! Invariants: units come in the order of the file; a few pieces of it are in memory at most, or
//! one unit where that is larger.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use persist::aof::{AofError, Place, Unit, UnitReader};

/// About how many bytes of the file are handed over at once.
const PIECE: u64 = 256 << 10;

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

/// Has all units of a file run, in their order. What cannot be read comes behind them.
pub(super) fn run_each(
    reader: UnitReader<'_>,
    mut run: impl FnMut(Unit) -> Result<(), String>,
) -> Result<Read, Stopped> {
    thread::scope(|scope| {
        let (sender, receiver): (_, Receiver<Vec<Unit>>) = sync_channel(AHEAD);
        let builder = thread::Builder::new().name("aof-reader".to_owned());
        let reading = builder.spawn_scoped(scope, move || read(reader, &sender));
        let reading = reading.map_err(Stopped::Alone)?;
        // Dropped where it returns, so that the other thread does not wait for ever.
        let mut units = receiver.into_iter().flatten();
        units.try_for_each(&mut run).map_err(Stopped::Refused)?;
        Ok(reading.join().expect("who reads a log does not panic"))
    })
}

fn read(mut reader: UnitReader<'_>, pieces: &SyncSender<Vec<Unit>>) -> Read {
    let (mut piece, mut begin) = (Vec::new(), reader.place().offset());
    let end = loop {
        match reader.next_unit() {
            Ok(Some(unit)) => {
                let end = unit.end;
                piece.push(unit);
                if end - begin < PIECE {
                    continue;
                }
                begin = end;
                if pieces.send(std::mem::take(&mut piece)).is_err() {
                    // Nobody runs them any more, and says why.
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // As above.
    let _ = pieces.send(piece);
    Read { end, place: reader.place(), number: reader.number() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use persist::aof::UnitReader;
    use persist::storage::simulated::Disk;
    use persist::storage::{How, Storage};

    use super::{PIECE, Stopped, run_each};

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
        const COUNT: usize = 80_000;
        let disk = disk(COUNT);
        let mut file = disk.open(Path::new("log"), How::Read).unwrap();
        let mut next = 0;
        let read = run_each(UnitReader::new(&mut *file), |unit| {
            let args = unit.commands[0].as_args();
            assert_eq!(&args[1], format!("{next:09}").as_bytes());
            next += 1;
            Ok(())
        });
        let Ok(read) = read else { panic!("it is run to its end") };
        assert_eq!(next, COUNT);
        assert!(read.end.is_err());
    }

    #[test]
    fn who_cannot_go_on_waits_for_nobody() {
        let disk = disk(80_000);
        let mut file = disk.open(Path::new("log"), How::Read).unwrap();
        let mut count = 0;
        let stopped = run_each(UnitReader::new(&mut *file), |_| {
            count += 1;
            if count < 3 { Ok(()) } else { Err("enough".to_owned()) }
        });
        assert!(matches!(stopped, Err(Stopped::Refused(why)) if why == "enough"));
        assert_eq!(count, 3);
    }
}
