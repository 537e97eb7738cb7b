//! The log on a disk that fails, tears and forgets: what was acknowledged is there again.

mod backups;
mod direct;
mod ends;
mod replay;
mod status;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use engine::commit::publish::publish;
use engine::journal::DurabilityLevel;
use engine::journal::journal_copy::JournalCopy;
use engine::runtime::record_batch::RecordBatch;
use keyspace::{Acquisition, Lifetime, Lsn, NewText, PartitionSet, Tx, TxOptions};
use persist::aof::manifest::Manifest;
use persist::storage::simulated::{Fault, SimulatedDisk};
use proto::OwnedArgs;

use super::{flush, switch_off, switch_on};
use crate::durability::Durability;
use crate::save::SaveMode;
use crate::testing::{HERE, await_end, end, new_disk, start, start_in};

/// Writes of a run, a rewrite in the middle of them.
const WRITES: usize = 8;

/// The lane of the test's own thread.
const LANE: usize = 0;

/// What may go wrong with a call.
const FAULTS: [Fault; 6] = [
    Fault::Error(libc::EIO),
    Fault::Error(libc::ENOSPC),
    Fault::Error(libc::EROFS),
    Fault::Short,
    Fault::Full,
    Fault::Delay,
];

/// What a server is taken through; which of its writes were acknowledged as being on disk.
type Trace = fn(&'static Durability) -> Vec<usize>;

/// All of them.
const TRACES: [(&str, Trace); 6] = [
    ("a rewrite", run),
    ("a move", move_away),
    ("off and on again", switch_off_and_on),
    ("everysec", |server| sync_now_and_then(server, b"value")),
    ("everysec, past the memory of the system", |server| sync_now_and_then(server, &LONG)),
    ("the end", write_and_close),
];

/// A value that makes a batch as long as those that are written past the memory of the system.
const LONG: [u8; 3000] = [b'v'; 3000];

const ELSEWHERE: &[u8] = b"elsewhere";

/// Servers that are tried at once: mostly each waits until it tries to write again.
const AT_ONCE: usize = 48;

fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// Runs `work` on a key as a transaction does that a client asked for.
fn on_key<T>(server: &'static Durability, key: &[u8], work: impl FnOnce(&mut Tx) -> T) -> T {
    let partition = server.keyspace.locate(key).partition();
    while !server.keyspace.enter(LANE) {
        thread::yield_now();
    }
    let partitions = PartitionSet::from_slice(&[partition]);
    let mut grant = Acquisition::of_partitions(server.keyspace, partitions);
    while !grant.attempt() {
        thread::yield_now();
    }
    let options = TxOptions::internal(LANE, server.keyspace.clock().now_ms());
    let mut tx = Tx::begin(grant, options);
    let result = work(&mut tx);
    tx.seal();
    drop(tx);
    server.keyspace.leave(LANE);
    result
}

/// Writes a key; whether a client would be told that it is done.
fn write(server: &'static Durability, number: usize) -> bool {
    let Some(seen) = append(server, number) else { return false };
    await_end("a write", || server.journal.is_durable(seen) || server.journal.has_failed());
    server.journal.is_durable(seen)
}

/// Writes a key, if writes are not refused; where the journal ends behind it.
fn append(server: &'static Durability, number: usize) -> Option<Lsn> {
    append_value(server, number, b"value")
}

fn append_value(server: &'static Durability, number: usize, value: &[u8]) -> Option<Lsn> {
    if server.journal.has_failed() {
        return None;
    }
    let key = key(number);
    let words: [&[u8]; 3] = [b"SET", &key, value];
    let args: OwnedArgs = words.into_iter().collect();
    Some(on_key(server, &key, |tx| {
        tx.put_text(&key, NewText::from_client(value), Lifetime::Forever).unwrap();
        tx.finish();
        publish(&server.journal, &RecordBatch::default(), tx, args.as_args()).lsn
    }))
}

fn has(server: &'static Durability, number: usize) -> bool {
    let key = key(number);
    on_key(server, &key, |tx| tx.exists(&key).unwrap())
}

/// A run of writes with a rewrite in between; which of them were acknowledged.
fn run(server: &'static Durability) -> Vec<usize> {
    let mut acknowledged = Vec::new();
    for number in 0..WRITES {
        if number == WRITES / 2 {
            super::begin_rewrite(server);
        }
        if write(server, number) {
            acknowledged.push(number);
        }
    }
    let rewrite = &server.aof.rewrite;
    await_end("a rewrite", || !rewrite.status(0).is_underway || server.journal.has_failed());
    acknowledged
}

/// Writes, has the log turned off and on again, and writes on.
fn switch_off_and_on(server: &'static Durability) -> Vec<usize> {
    let mut acknowledged: Vec<_> = (0..3).filter(|number| write(server, *number)).collect();
    switch_off(server);
    // Not recorded: the base that follows holds it.
    append(server, 3);
    // A test that is refused asks again. A disk that fails for good keeps the log off.
    let is_asked = (0..3).any(|_| switch_on(server).is_ok());
    let is_over = || server.aof.is_on() || server.aof.rewrite.status(0).failures > 2;
    await_end("a switch", || !is_asked || is_over());
    if server.aof.is_on() {
        acknowledged.push(3);
        acknowledged.extend((4..WRITES).filter(|number| write(server, *number)));
    }
    acknowledged
}

/// A run of writes, in the middle of which the log moves to another directory, as it does with the
/// next base after CONFIG SET dir.
fn move_away(server: &'static Durability) -> Vec<usize> {
    let mut acknowledged: Vec<_> =
        (0..WRITES / 2).filter(|number| write(server, *number)).collect();
    server.config.put(b"appenddirname", ELSEWHERE);
    super::begin_rewrite(server);
    acknowledged.extend((WRITES / 2..WRITES).filter(|number| write(server, *number)));
    let rewrite = &server.aof.rewrite;
    await_end("a move", || !rewrite.status(0).is_underway || server.journal.has_failed());
    acknowledged
}

/// Writes with `everysec`, and takes for acknowledged what WAITAOF would say is on disk.
fn sync_now_and_then(server: &'static Durability, value: &[u8]) -> Vec<usize> {
    server.config.set_many(&[b"appendfsync", b"everysec"], true).unwrap();
    server.aof.policy_changed(server);
    let mut written = Vec::new();
    for number in 0..WRITES {
        written.extend(append_value(server, number, value).map(|lsn| (number, lsn)));
        if number % 3 == 2 {
            flush(server);
        }
    }
    flush(server);
    let safe = server.journal.safe();
    server.config.set_many(&[b"appendfsync", b"always"], true).unwrap();
    server.aof.policy_changed(server);
    written.into_iter().filter(|(_, lsn)| *lsn <= safe).map(|(number, _)| number).collect()
}

/// Writes and ends well.
fn write_and_close(server: &'static Durability) -> Vec<usize> {
    let acknowledged = (0..WRITES).filter(|number| write(server, *number)).collect();
    switch_off(server);
    acknowledged
}

/// After a crash, what was acknowledged is there: in the directory of the log, or all of it where
/// that has moved to, if anything is there.
fn check_after_crash(
    (server, disk): (&'static Durability, &SimulatedDisk),
    seed: u64,
    acknowledged: &[usize],
    what: &str,
) {
    // From here on the old server reaches nothing: its end leaves no trace.
    disk.fail_from(disk.calls(), Fault::Error(libc::EIO));
    disk.crash(seed);
    end(server);
    disk.heal();
    let start = |directory| {
        let started = start_in(disk, directory);
        started.unwrap_or_else(|why| panic!("{what}: it does not start: {why}"))
    };
    let moved = start(ELSEWHERE);
    let has_moved = (0..=WRITES).any(|number| has(moved, number));
    let server = if has_moved { moved } else { start(HERE) };
    for number in acknowledged {
        let where_to = if has_moved { "where it moved to" } else { "where it was" };
        assert!(has(server, *number), "{what}: {number} was acknowledged and is not {where_to}");
    }
    if !has_moved {
        await_tidiness(disk, what);
        end(server);
    }
    end(moved);
}

/// Waits until nothing is left of bases and increments that came before.
fn await_tidiness(disk: &SimulatedDisk, what: &str) {
    let directory = std::env::current_dir().unwrap().join("appendonlydir");
    let text = persist::storage::read_whole(disk, &directory.join("appendonly.aof.manifest"));
    let manifest = Manifest::parse(&text.unwrap()).unwrap();
    await_end(&format!("{what}: tidying"), || {
        let names = persist::storage::Storage::list(disk, &directory).unwrap();
        !names.iter().any(|name| manifest.is_left(b"appendonly.aof", name.as_bytes()))
    });
}

/// How many calls to the disk a trace makes if none fails.
fn calls_of(name: &str, trace: Trace) -> u64 {
    let disk = new_disk();
    let server = start(&disk).unwrap();
    let first = disk.calls();
    assert_eq!(trace(server).len(), WRITES, "{name}: a sound disk keeps all");
    let calls = disk.calls() - first;
    end(server);
    assert!(calls > 3, "{name}: {calls} calls are few");
    calls
}

/// Runs some work for each of these, several at once.
fn for_each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}

#[test]
fn what_was_acknowledged_outlives_a_crash_at_any_call() {
    for (name, trace) in TRACES {
        let calls: Vec<u64> = (0..calls_of(name, trace)).collect();
        for_each(&calls, |&call| {
            let disk = new_disk();
            let server = start(&disk).unwrap();
            disk.fail_from(disk.calls() + call, Fault::Error(libc::EIO));
            let acknowledged = trace(server);
            // Nothing heals it: the process would be killed now.
            let what = format!("{name}, call {call}");
            check_after_crash((server, &disk), call, &acknowledged, &what);
        });
    }
}

#[test]
fn a_disk_that_fails_once_is_never_believed_and_is_written_again() {
    for (name, trace) in TRACES {
        let calls = 0..calls_of(name, trace);
        let all: Vec<_> = calls.flat_map(|call| FAULTS.map(|fault| (call, fault))).collect();
        for_each(&all, |&(call, fault)| {
            let what = format!("{name}, {fault:?} at call {call}");
            let disk = new_disk();
            let server = start(&disk).unwrap();
            disk.fail_at(disk.calls() + call, fault);
            let mut acknowledged = trace(server);
            // The run may have made fewer calls than before: then the fault is met here.
            let resumes = || {
                await_end(&what, || !server.journal.has_failed());
                write(server, WRITES)
            };
            if name != "the end" {
                assert!(server.aof.is_on() && (resumes() || resumes()), "{what}: writes resume");
                acknowledged.push(WRITES);
                // One more batch is written and not synced: the crash tears it.
                disk.fail_from(disk.calls() + 1, Fault::Error(libc::EIO));
                append(server, WRITES + 1);
                await_end(&what, || server.journal.has_failed());
            }
            check_after_crash((server, &disk), call, &acknowledged, &what);
        });
    }
}

#[test]
fn a_start_on_a_disk_that_fails_is_refused_or_finds_everything() {
    let single = Path::new(&std::env::current_dir().unwrap()).join("appendonly.aof");
    for is_single in [false, true] {
        let new = || {
            let disk = new_disk();
            if is_single {
                disk.put(&single, b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$1\r\n1\r\n");
            } else {
                let server = start(&disk).unwrap();
                run(server);
                end(server);
            }
            disk
        };
        let disk = new();
        let first = disk.calls();
        end(start(&disk).unwrap());
        let calls = 0..disk.calls() - first;
        let all: Vec<_> = calls.flat_map(|call| FAULTS.map(|fault| (call, fault))).collect();
        for_each(&all, |&(call, fault)| {
            let what = format!("{fault:?} at call {call}, one file: {is_single}");
            let disk = new();
            disk.fail_at(disk.calls() + call, fault);
            for _ in 0..2 {
                if let Ok(server) = start(&disk) {
                    assert!(has(server, 1), "{what}: it starts without what was there");
                    end(server);
                }
                disk.heal();
            }
            let server = start(&disk).unwrap_or_else(|why| panic!("{what}: {why}"));
            assert!(has(server, 1), "{what}: the failed start lost something");
            end(server);
        });
    }
}

#[test]
fn nothing_is_synced_while_a_snapshot_keeps_the_disk_busy_if_that_is_wanted() {
    let disk = new_disk();
    let server = start(&disk).unwrap();
    assert!(write(server, 1));
    await_end("a sync", || server.journal.safe() == server.journal.end());
    let pairs: [&[u8]; 4] =
        [b"no-appendfsync-on-rewrite", b"yes", b"rdb-key-save-delay", b"100000000"];
    server.config.set_many(&pairs, true).unwrap();
    assert!(server.saves.begin(server, SaveMode::Background, None).is_ok());
    assert!(write(server, 2), "who writes need not wait for a sync");
    assert!(server.journal.safe() < server.journal.end(), "and is not told that there was one");
    server.saves.cancel();
    await_end("a sync", || server.journal.safe() == server.journal.end());
    end(server);
}

#[test]
fn a_log_of_one_file_is_taken_over() {
    let disk = new_disk();
    let old = Path::new(&std::env::current_dir().unwrap()).join("appendonly.aof");
    disk.put(&old, b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$1\r\n1\r\n");
    let server = start(&disk).unwrap();
    assert!(has(server, 1));
    assert!(write(server, 2));
    end(server);
    let server = start(&disk).unwrap();
    assert!(has(server, 1) && has(server, 2));
    end(server);
}

/// The log comes and goes beside a reader that stays.
#[test]
fn another_reader_is_given_the_whole_stream_whatever_becomes_of_the_log() {
    let disk = new_disk();
    let server = start(&disk).unwrap();
    let (reader, copy) = JournalCopy::attach(&server.journal, DurabilityLevel::None);
    let acknowledged = switch_off_and_on(server);
    assert_eq!(acknowledged.len(), WRITES, "nothing fails");
    switch_off(server);
    assert!(write(server, WRITES), "nobody is waited for");
    let text = copy.text();
    assert_eq!(server.journal.end(), text.len() as u64, "and no byte is missing");
    for number in 0..=WRITES {
        assert_eq!(text.matches(&*format!("key:{number}\r\n")).count(), 1, "{number}");
    }
    server.journal.detach(reader);
    append(server, 0);
    assert_eq!(server.journal.end(), text.len() as u64, "nobody is there to be told");
    let again = start(&disk).unwrap();
    assert!(
        (0..WRITES).all(|number| has(again, number)),
        "the log has all that came while it was on"
    );
}
