//! Replies wait for the journal and the snapshot file, on disks that take their time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use keyspace::Lsn;
use persist::storage::simulated::{Disk, Fault};

use crate::aof::tests::{await_end, end, new_disk, start};
use crate::clients::Peer;
use crate::journal::{JournalReader, Reliance};
use crate::server::Server;
use crate::session::{Moving, RawStream, Session};
use crate::start::test_server_on;

struct Deaf;

impl JournalReader for Deaf {
    fn record(&mut self, _: Lsn, _: &[u8], _: bool) -> bool {
        false
    }
}

/// Leaves all records for the end of the gathering: how many it left, and how many are done.
#[derive(Clone, Default)]
struct Patient(Arc<Mutex<[u64; 2]>>);

impl JournalReader for Patient {
    fn record(&mut self, _: Lsn, _: &[u8], may_wait: bool) -> bool {
        self.0.lock().unwrap()[0] += 1;
        may_wait
    }

    fn rest(&mut self) -> Option<Arc<Condvar>> {
        let mut counts = self.0.lock().unwrap();
        counts[1] = counts[0];
        None
    }
}

#[test]
fn records_of_a_turn_may_wait_and_are_seen_to_behind_it() {
    let server = crate::start::test_server();
    server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    let patient = Patient::default();
    server.journal.attach(Box::new(patient.clone()), Reliance::Disk);
    server.crew.resize(server, 1).unwrap();
    let mut writers: Vec<UnixStream> = (0..3).map(|_| connect(server)).collect();
    for round in 1..=5 {
        for writer in &mut writers {
            writer.write_all(b"SET k v\r\nSET l w\r\n").unwrap();
        }
        let began = Instant::now();
        while *patient.0.lock().unwrap() != [6 * round; 2] {
            let counts = *patient.0.lock().unwrap();
            assert!(began.elapsed() < Duration::from_secs(60), "{counts:?} of {}", 6 * round);
            std::thread::yield_now();
        }
    }
    server.journal.append(b"by a thread that has no turns");
    assert_eq!(*patient.0.lock().unwrap(), [31, 30]);
    assert!(!crate::gathering::is_open());
}

fn connect(server: &'static Server) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
    let session = Session::new(client, None, true);
    let moving = Moving::fresh(RawStream::Unix(theirs), session);
    server.crew.hand_over(server, Box::new(moving));
    ours
}

fn receive(stream: &mut UnixStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Whether nothing comes for a while.
fn is_silent(stream: &mut UnixStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let result = stream.read(&mut [0]);
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    result.is_err()
}

#[test]
fn replies_leave_in_order_once_the_journal_is_safe() {
    let server = crate::start::test_server();
    server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    server.journal.attach(Box::new(Deaf), Reliance::Disk);
    server.crew.resize(server, 1).unwrap();
    let (mut writer, mut reader) = (connect(server), connect(server));
    writer.write_all(b"SET k v\r\n").unwrap();
    assert!(is_silent(&mut writer), "the write is not safe yet");
    let written = server.journal.end();
    assert_ne!(written, 0, "the command ran all the same");
    writer.write_all(b"PING\r\n").unwrap();
    assert!(is_silent(&mut writer), "what comes later does not overtake");
    reader.write_all(b"GET k\r\n").unwrap();
    assert!(is_silent(&mut reader), "a read that saw the write waits for it too");
    server.journal.acknowledge(written);
    assert_eq!(receive(&mut writer, 12), "+OK\r\n+PONG\r\n");
    assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
    reader.write_all(b"GET k\r\n").unwrap();
    assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
    server.crew.dismiss();
}

#[test]
fn replies_wait_while_the_journal_is_late_and_for_no_longer() {
    let server = crate::start::test_server();
    server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
    server.journal.attach(Box::new(Deaf), Reliance::System);
    server.crew.resize(server, 1).unwrap();
    let (mut writer, mut reader) = (connect(server), connect(server));
    writer.write_all(b"SET k v\r\n").unwrap();
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    // As a worker does that finds the oldest record unwritten for long.
    server.journal.look(i64::MAX - 1);
    writer.write_all(b"SET k w\r\n").unwrap();
    assert!(is_silent(&mut writer), "nobody is told of what a kill takes");
    reader.write_all(b"GET k\r\n").unwrap();
    assert!(is_silent(&mut reader), "nor shown it");
    reader.write_all(b"PING\r\n").unwrap();
    let now_us = server.keyspace.clock().monotonic_us();
    server.journal.note_written(server.journal.end(), now_us);
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    assert_eq!(receive(&mut reader, 14), "$1\r\nw\r\n+PONG\r\n");
    server.crew.dismiss();
}

/// Longer than records may wait for a disk before replies wait for them.
const LATE: Duration = Duration::from_millis(600);

/// A server with one worker, whose log lies on a disk and is synced as this says.
fn start_with_log(disk: &Disk, policy: &[u8]) -> &'static Server {
    let server = start(disk).unwrap();
    let _ = server.config.set_many(&[b"appendfsync", policy], true).unwrap();
    server.aof.policy_changed(server);
    server.crew.resize(server, 1).unwrap();
    server
}

fn set(stream: &mut UnixStream, value: &str) {
    stream.write_all(format!("SET k {value}\r\n").as_bytes()).unwrap();
}

#[test]
fn with_everysec_nobody_is_told_of_more_than_half_a_second_that_the_disk_has_not_taken() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"everysec");
    let (mut writer, mut reader) = (connect(server), connect(server));
    set(&mut writer, "before");
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    // The record of that is written by then: from here on the disk takes nothing.
    await_end("a write", || server.aof.queued() == 0);
    let halt = disk.halt();
    let before = server.journal.end();
    set(&mut writer, "v");
    await_end("a command", || server.journal.end() > before);
    std::thread::sleep(LATE);
    // Whatever is executed now finds the oldest record too old.
    set(&mut reader, "w");
    assert!(is_silent(&mut reader), "nobody is told of what a kill takes");
    let mut other = connect(server);
    other.write_all(b"GET k\r\n").unwrap();
    assert!(is_silent(&mut other), "nor shown it");
    drop(halt);
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    assert_eq!(receive(&mut reader, 5), "+OK\r\n");
    assert_eq!(receive(&mut other, 7), "$1\r\nw\r\n");
    set(&mut writer, "x");
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    server.crew.dismiss();
    end(server);
}

#[test]
fn with_always_a_flush_is_told_of_when_it_is_on_disk() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"always");
    let mut writer = connect(server);
    set(&mut writer, "v");
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    let halt = disk.halt();
    writer.write_all(b"FLUSHALL\r\n").unwrap();
    assert!(is_silent(&mut writer));
    drop(halt);
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    assert_eq!(server.journal.safe(), server.journal.end());
    server.crew.dismiss();
    end(server);
}

#[test]
fn a_flush_is_told_of_when_the_snapshot_file_has_followed() {
    let flushes = [
        "FLUSHALL\r\n",
        "FLUSHALL ASYNC\r\n",
        "MULTI\r\nFLUSHALL\r\nEXEC\r\n",
        "EVAL \"return redis.call('flushall')\" 0\r\n",
    ];
    for (flush, replies) in flushes.into_iter().zip([
        ("", "+OK\r\n"),
        ("", "+OK\r\n"),
        ("+OK\r\n+QUEUED\r\n", "*1\r\n+OK\r\n"),
        ("", "+OK\r\n"),
    ]) {
        let disk = new_disk();
        let server = test_server_on(Box::new(disk.clone()));
        let _ = server.config.set_many(&[b"save", b"3600 1"], true).unwrap();
        server.crew.resize(server, 1).unwrap();
        let (mut flusher, mut reader) = (connect(server), connect(server));
        let halt = disk.halt();
        flusher.write_all(flush.as_bytes()).unwrap();
        assert_eq!(receive(&mut flusher, replies.0.len()), replies.0, "{flush}");
        assert!(is_silent(&mut flusher), "{flush}: the file still holds what was there");
        reader.write_all(b"GET k\r\n").unwrap();
        assert_eq!(receive(&mut reader, 5), "$-1\r\n", "{flush}: readers do not wait");
        set(&mut reader, "v");
        assert!(is_silent(&mut reader), "{flush}: writers wait for the file");
        drop(halt);
        assert_eq!(receive(&mut flusher, replies.1.len()), replies.1, "{flush}");
        assert_eq!(receive(&mut reader, 5), "+OK\r\n", "{flush}");
        server.crew.dismiss();
        server.saves.wait();
    }
}

#[test]
fn a_flush_is_told_of_where_the_snapshot_file_cannot_follow() {
    let disk = new_disk();
    let server = test_server_on(Box::new(disk.clone()));
    let _ = server.config.set_many(&[b"save", b"3600 1"], true).unwrap();
    server.crew.resize(server, 1).unwrap();
    disk.fail_from(0, Fault::Error(libc::EIO));
    let mut flusher = connect(server);
    flusher.write_all(b"FLUSHALL\r\n").unwrap();
    assert_eq!(receive(&mut flusher, 5), "+OK\r\n", "as in Redis: the log tells of it");
    server.crew.dismiss();
    server.saves.wait();
}
