//! Reading ahead: while units of a source are run again, those behind them are read, checked, taken
//! apart and partitioned by another thread.
//!
//! Invariants: units come in the order of the source; a few pieces of it are in memory at most, or
//! two units where they are larger: one that is run, and one that is read.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use persist::aof::{AofError, Unit};

use super::partitioner::{Partitioner, Segment};

/// About how many bytes of the source are handed over at once.
const PIECE: u64 = if cfg!(test) { 4 << 10 } else { 256 << 10 };

/// So many bytes wait to be run, or one piece that is larger.
const AHEAD: u64 = 4 * PIECE;

/// Where units come from, in their order.
pub(crate) trait UnitSource: Send {
    /// The next unit; `None` at the end.
    fn next_unit(&mut self) -> Result<Option<Unit>, AofError>;

    /// Where the last whole unit ends.
    fn position(&self) -> u64;
}

/// What a source was found to be.
pub(crate) struct SourceEnd<S> {
    /// Why it was not read to its end.
    pub(crate) end: Result<(), AofError>,
    /// The source, as far as it was read.
    pub(crate) source: S,
}

/// Why not all was done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplayStop {
    /// The log cannot be of ours or theirs.
    Malformed(String),
    /// A command of it was answered with an error.
    Refused(String),
    /// The same, and the operator wants the process to end then.
    Panicked(String),
    /// The system gives no thread, or one has ended that should not have.
    Alone(String),
}

/// A part of the source.
struct SourcePart {
    segments: Vec<Segment>,
    /// Where it ends.
    end: u64,
    bytes: u64,
}

/// What was handed over and is not run.
#[derive(Default)]
struct InFlight {
    amount: Mutex<Amount>,
    less: Condvar,
}

#[derive(Default)]
struct Amount {
    bytes: u64,
    /// Nothing is run any more.
    is_over: bool,
}

impl InFlight {
    /// Waits until so many bytes more may wait; `false` if nobody will run them.
    fn grow(&self, bytes: u64) -> bool {
        let is_full = |amount: &mut Amount| {
            !amount.is_over && amount.bytes > 0 && amount.bytes + bytes > AHEAD
        };
        let mut amount = self.less.wait_while(self.lock(), is_full).expect("nobody panics in it");
        amount.bytes += bytes;
        !amount.is_over
    }

    fn shrink(&self, bytes: u64) {
        self.lock().bytes -= bytes;
        self.less.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Amount> {
        self.amount.lock().expect("nobody panics in it")
    }
}

/// Ends it when dropped, however that comes about.
struct RunGuard<'a>(&'a InFlight);

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.less.notify_one();
    }
}

/// Has all of a source run, in its order. What cannot be read comes behind it. `run` is told where
/// in the source the segments end. Where the system gives no thread all is done by this one.
pub(crate) fn run_each<S: UnitSource>(
    source: S,
    partitioner: Partitioner,
    mut run: impl FnMut(Vec<Segment>, u64) -> Result<(), ReplayStop>,
) -> Result<SourceEnd<S>, ReplayStop> {
    let in_flight = InFlight::default();
    let source = Mutex::new(Some((source, partitioner)));
    let take = || source.lock().expect("nobody panics in it").take().expect("one thread reads");
    thread::scope(|scope| {
        let (sender, receiver): (_, Receiver<SourcePart>) = channel();
        let (builder, in_flight, take) =
            (thread::Builder::new().name("aof-reader".to_owned()), &in_flight, &take);
        let running = RunGuard(in_flight);
        let reading = builder.spawn_scoped(scope, move || {
            // Where nobody runs them any more that is said there.
            read(take(), |piece| in_flight.grow(piece.bytes) && sender.send(piece).is_ok())
        });
        let Ok(reading) = reading else { return run_alone(take(), run) };
        for SourcePart { segments, end, bytes } in receiver {
            run(segments, end)?;
            in_flight.shrink(bytes);
        }
        drop(running);
        Ok(reading.join().expect("who reads a log does not panic"))
    })
}

/// The same, piece by piece.
fn run_alone<S: UnitSource>(
    source: (S, Partitioner),
    mut run: impl FnMut(Vec<Segment>, u64) -> Result<(), ReplayStop>,
) -> Result<SourceEnd<S>, ReplayStop> {
    let mut result = Ok(());
    let read = read(source, |piece| {
        result = run(piece.segments, piece.end);
        result.is_ok()
    });
    result.map(|()| read)
}

/// Reads a source to its end, or until a piece is not taken.
fn read<S: UnitSource>(
    (mut source, mut partitioner): (S, Partitioner),
    mut take: impl FnMut(SourcePart) -> bool,
) -> SourceEnd<S> {
    let mut begin = source.position();
    let mut goes_on = true;
    let end = loop {
        match source.next_unit() {
            Ok(Some(unit)) => {
                let end = unit.end;
                partitioner.add(unit);
                if end - begin < PIECE {
                    continue;
                }
                let bytes = end - std::mem::replace(&mut begin, end);
                goes_on = take(SourcePart { segments: partitioner.take(), end, bytes });
                if !goes_on {
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if goes_on {
        // What is left is less than a piece.
        take(SourcePart { segments: partitioner.take(), end: source.position(), bytes: 0 });
    }
    SourceEnd { end, source }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use persist::aof::UnitReader;
    use persist::storage::simulated::SimulatedDisk;
    use persist::storage::{OpenMode, Storage};

    use super::super::partitioner::TaskCommands;
    use super::thread;
    use super::{
        AHEAD, InFlight, PIECE, Partitioner, ReplayStop, RunGuard, Segment, run_alone, run_each,
    };
    use crate::testing::durability;

    /// A file of this many commands, several pieces of them, and a torn one.
    fn disk(count: usize) -> SimulatedDisk {
        let mut text = Vec::new();
        for number in 0..count {
            text.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n$9\r\n{number:09}\r\n").as_bytes());
        }
        assert!(text.len() as u64 > 8 * PIECE);
        text.extend_from_slice(b"*2\r\n$3\r\nGET");
        let disk = SimulatedDisk::new();
        disk.put(Path::new("log"), &text);
        disk
    }

    #[test]
    fn units_come_in_their_order_and_the_damage_behind_them() {
        const COUNT: usize = 2_000;
        let disk = disk(COUNT);
        let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
        let (mut next, mut last) = (0, 0);
        let reader = UnitReader::new(&mut *file);
        let read = run_each(reader, Partitioner::new(durability(), 1), |segments, end| {
            for segment in segments {
                let Segment::Serial(tasks) = segment else { panic!("one thread runs it") };
                for task in tasks {
                    let TaskCommands::Own(commands) = &task.commands else { unreachable!() };
                    let args = commands[0].as_args();
                    assert_eq!(&args[1], format!("{next:09}").as_bytes());
                    assert!(last < task.end && task.end <= end);
                    (next, last) = (next + 1, task.end);
                }
            }
            Ok(())
        });
        let Ok(read) = read else { panic!("it is run to its end") };
        assert_eq!(next, COUNT);
        assert!(read.end.is_err());
    }

    #[test]
    fn without_a_thread_all_is_run_in_the_same_order() {
        let disk = disk(2_000);
        let mut ends = [Vec::new(), Vec::new()];
        for (is_alone, ends) in ends.iter_mut().enumerate() {
            let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
            let source = (UnitReader::new(&mut *file), Partitioner::new(durability(), 1));
            let run = |segments: Vec<Segment>, end| {
                ends.push((segments.len(), end));
                Ok(())
            };
            let read = match is_alone {
                0 => run_each(source.0, source.1, run),
                _ => run_alone(source, run),
            };
            assert!(read.is_ok_and(|read| read.end.is_err()));
        }
        assert!(ends[0].len() > 3);
        assert_eq!(ends[0], ends[1]);
        let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
        let (source, mut count) =
            ((UnitReader::new(&mut *file), Partitioner::new(durability(), 1)), 0);
        let stopped = run_alone(source, |_, _| {
            count += 1;
            if count < 3 { Ok(()) } else { Err(ReplayStop::Alone("enough".to_owned())) }
        });
        assert!(stopped.is_err());
        assert_eq!(count, 3, "nothing is run behind what failed");
    }

    #[test]
    fn a_large_piece_waits_alone() {
        let in_flight = InFlight::default();
        assert!(in_flight.grow(AHEAD - 1) && in_flight.grow(1));
        thread::scope(|scope| {
            let large = scope.spawn(|| in_flight.grow(10 * AHEAD));
            in_flight.shrink(1);
            assert!(!large.is_finished(), "there is another");
            in_flight.shrink(AHEAD - 1);
            assert!(large.join().unwrap());
            let next = scope.spawn(|| in_flight.grow(1));
            drop(RunGuard(&in_flight));
            assert!(!next.join().unwrap(), "nobody will run it");
        });
    }

    #[test]
    fn a_replay_that_cannot_go_on_waits_for_nobody() {
        let disk = disk(2_000);
        let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
        let mut count = 0;
        let reader = UnitReader::new(&mut *file);
        let stopped = run_each(reader, Partitioner::new(durability(), 1), |_, _| {
            count += 1;
            if count < 3 { Ok(()) } else { Err(ReplayStop::Alone("enough".to_owned())) }
        });
        assert!(matches!(stopped, Err(ReplayStop::Alone(why)) if why == "enough"));
        assert_eq!(count, 3);
    }
}
