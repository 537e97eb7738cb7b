//! Replies wait for the journal and the snapshot file, on disks that take their time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use durability::testing::{HERE, await_end, end, new_disk, start_log};
use engine::clients::registry::Peer;
use engine::journal::{DurabilityLevel, JournalReader, ReaderId, ReaderWaker};
use engine::session::MemcachedState;
use engine::session::Session;
use keyspace::Lsn;
use persist::storage::simulated::{Fault, SimulatedDisk};

use crate::net::connection::{MovingSession, RawStream};
use crate::server::Server;
use crate::start::test_server_on;

struct Deaf;

impl JournalReader for Deaf {
    fn record(&mut self, _: Lsn, _: &[u8], _: bool) -> bool {
        false
    }
}

/// Attaches a reader to the server's journal, as which it is known there.
fn attach(
    server: &Server,
    reader: impl JournalReader + 'static,
    level: DurabilityLevel,
) -> ReaderId {
    let id = server.journal.new_reader_id();
    server.journal.attach(id, Box::new(reader), level);
    id
}

/// Leaves all records for the end of the gathering: how many it left, and how many are done.
#[derive(Clone, Default)]
struct Patient(Arc<Mutex<[u64; 2]>>);

impl JournalReader for Patient {
    fn record(&mut self, _: Lsn, _: &[u8], may_defer: bool) -> bool {
        self.0.lock().unwrap()[0] += 1;
        may_defer
    }

    fn flush(&mut self) -> Option<ReaderWaker> {
        let mut counts = self.0.lock().unwrap();
        counts[1] = counts[0];
        None
    }
}

#[test]
fn records_of_a_turn_may_wait_and_are_seen_to_behind_it() {
    let server = crate::start::test_server();
    let patient = Patient::default();
    attach(server, patient.clone(), DurabilityLevel::Disk);
    server.worker_pool.resize(server, 1).unwrap();
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
}

fn connect(server: &'static Server) -> UnixStream {
    connect_as(server, false)
}

/// A client of memcached's or of Redis' protocol.
fn connect_as(server: &'static Server, is_memcached: bool) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
    let mut session = Session::new(client, None, true);
    session.memcached = is_memcached.then(|| MemcachedState::new(server));
    let moving = MovingSession::fresh(RawStream::Unix(theirs), session);
    server.worker_pool.hand_over(server, Box::new(moving));
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
    let log = attach(server, Deaf, DurabilityLevel::Disk);
    server.worker_pool.resize(server, 1).unwrap();
    let (mut writer, mut reader) = (connect(server), connect(server));
    writer.write_all(b"SET k v\r\n").unwrap();
    assert!(is_silent(&mut writer), "the write is not safe yet");
    let written = server.journal.end();
    assert_ne!(written, 0, "the command ran all the same");
    writer.write_all(b"PING\r\n").unwrap();
    assert!(is_silent(&mut writer), "what comes later does not overtake");
    reader.write_all(b"GET k\r\n").unwrap();
    assert!(is_silent(&mut reader), "a read that saw the write waits for it too");
    server.journal.acknowledge(log, written);
    assert_eq!(receive(&mut writer, 12), "+OK\r\n+PONG\r\n");
    assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
    reader.write_all(b"GET k\r\n").unwrap();
    assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
    server.worker_pool.shut_down();
}

/// A write that is answered with nothing, or told of where nothing can be shown, and the reply to
/// the next one: whatever others are answered meanwhile, that waits for its own record.
#[test]
fn a_reply_behind_a_silent_one_waits_for_its_own_record() {
    let many = ["CLIENT REPLY SKIP", "SET a 1"].repeat(40);
    let quiet: [&[&str]; 6] = [
        &["CLIENT REPLY SKIP", "SET a 1"],
        &many,
        &["CLIENT REPLY OFF", "SET a 1", "CLIENT REPLY ON"],
        &["CLIENT REPLY OFF", "MULTI", "SET a 1", "EXEC", "CLIENT REPLY ON"],
        &["set a 0 0 1 noreply", "1"],
        &["ms a 1 q", "1"],
    ];
    for requests in quiet {
        let server = crate::start::test_server();
        let log = attach(server, Deaf, DurabilityLevel::Disk);
        server.worker_pool.resize(server, 1).unwrap();
        let is_memcached = requests.len() == 2 && requests[1] == "1";
        let mut writer = connect_as(server, is_memcached);
        let mut other = connect(server);
        writer.write_all((requests.join("\r\n") + "\r\n").as_bytes()).unwrap();
        await_end("a write", || server.journal.end() > 0);
        let first = server.journal.end();
        // Longer than all that the writer is told.
        other.write_all(format!("ECHO {}\r\n", "x".repeat(500)).as_bytes()).unwrap();
        receive(&mut other, 500);
        let (next, reply) = match is_memcached {
            true => ("set b 0 0 1\r\n2\r\n", "STORED\r\n"),
            false => ("SET b 2\r\n", "+OK\r\n"),
        };
        writer.write_all(next.as_bytes()).unwrap();
        await_end("another write", || server.keyspace.len(0) == 2);
        assert!(is_silent(&mut writer), "{requests:?}: no write is safe yet");
        server.journal.acknowledge(log, first);
        if requests.ends_with(&["CLIENT REPLY ON"]) {
            assert_eq!(receive(&mut writer, 5), "+OK\r\n", "{requests:?}: replies are on");
        }
        assert!(is_silent(&mut writer), "{requests:?}: the second write is not safe yet");
        server.journal.acknowledge(log, server.journal.end());
        assert_eq!(receive(&mut writer, reply.len()), reply, "{requests:?}");
        server.worker_pool.shut_down();
    }
}

/// The same behind a message that RESP2 cannot show.
#[test]
fn a_reply_behind_a_message_that_cannot_be_shown_waits_for_its_own_record() {
    let server = crate::start::test_server();
    let log = attach(server, Deaf, DurabilityLevel::Disk);
    server.worker_pool.resize(server, 1).unwrap();
    let [mut own, mut other, mut third] = [(); 3].map(|()| connect(server));
    own.write_all(b"CLIENT TRACKING ON\r\nGET a\r\n").unwrap();
    assert_eq!(receive(&mut own, 10), "+OK\r\n$-1\r\n");
    other.write_all(b"SET a 1\r\n").unwrap();
    await_end("the write", || server.journal.end() > 0);
    let first = server.journal.end();
    assert_eq!(ask(&mut third, &format!("ECHO {}\r\n", "x".repeat(99))), "$99\r\n");
    line(&mut third);
    own.write_all(b"SET b 2\r\n").unwrap();
    await_end("the other write", || server.journal.end() > first);
    server.journal.acknowledge(log, first);
    assert!(is_silent(&mut own), "its own write is not safe");
    server.journal.acknowledge(log, server.journal.end());
    assert_eq!(receive(&mut own, 5), "+OK\r\n");
    server.worker_pool.shut_down();
}

#[test]
fn what_was_seen_before_a_reply_is_waited_for_in_any_output() {
    let server = crate::start::test_server();
    let log = attach(server, Deaf, DurabilityLevel::Disk);
    server.worker_pool.resize(server, 1).unwrap();
    server.threads.background.begin().unwrap();
    let [mut loader, mut caller, mut other] = [(); 3].map(|()| connect(server));
    let body = "function() for turn = 1, 3e6 do end return 1 end";
    let library = format!("#!lua name=l\\nredis.register_function('f', {body})");
    loader.write_all(format!("FUNCTION LOAD \"{library}\"\r\n").as_bytes()).unwrap();
    assert!(is_silent(&mut loader), "it is not safe yet");
    // Of the outputs that the worker has, the next has had many bytes, and the one behind it none.
    for _ in 0..20 {
        caller.write_all(b"PING\r\n").unwrap();
        assert_eq!(receive(&mut caller, 7), "+PONG\r\n");
    }
    caller.write_all(b"FCALL f 0\r\n").unwrap();
    // While the function runs elsewhere another client has the first of them.
    other.write_all(b"FUNCTION STATS\r\n").unwrap();
    assert!(is_silent(&mut other));
    assert!(is_silent(&mut caller), "the library is not safe");
    while server.scripts.running.any_since(i64::MAX) {
        std::thread::yield_now();
    }
    assert!(is_silent(&mut caller), "the library is not safe");
    server.journal.acknowledge(log, server.journal.end());
    assert_eq!(receive(&mut caller, 4), ":1\r\n");
    server.worker_pool.shut_down();
}

#[test]
fn replies_wait_while_the_journal_is_late_and_for_no_longer() {
    let server = crate::start::test_server();
    let log = attach(server, Deaf, DurabilityLevel::Os);
    server.worker_pool.resize(server, 1).unwrap();
    let (mut writer, mut reader) = (connect(server), connect(server));
    writer.write_all(b"SET k v\r\n").unwrap();
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    // As a worker does that finds the oldest record unwritten for long.
    server.journal.check_lag(i64::MAX - 1);
    writer.write_all(b"SET k w\r\n").unwrap();
    assert!(is_silent(&mut writer), "nobody is told of what a kill takes");
    reader.write_all(b"GET k\r\n").unwrap();
    assert!(is_silent(&mut reader), "nor shown it");
    reader.write_all(b"PING\r\n").unwrap();
    let now_us = server.keyspace.clock().monotonic_us();
    server.journal.note_written(log, server.journal.end(), now_us);
    assert_eq!(receive(&mut writer, 5), "+OK\r\n");
    assert_eq!(receive(&mut reader, 14), "$1\r\nw\r\n+PONG\r\n");
    server.worker_pool.shut_down();
}

/// Longer than records may wait for a disk before replies wait for them.
const LATE: Duration = Duration::from_millis(600);

/// A server with one worker, whose log lies on a disk and is synced as this says.
fn start_with_log(disk: &SimulatedDisk, policy: &[u8]) -> &'static Server {
    let server = test_server_on(Box::new(disk.clone()));
    start_log(server, HERE).unwrap();
    server.config.set_many(&[b"appendfsync", policy], true).unwrap();
    server.aof.policy_changed(server);
    server.worker_pool.resize(server, 1).unwrap();
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
    server.worker_pool.shut_down();
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
    server.worker_pool.shut_down();
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
        server.config.set_many(&[b"save", b"3600 1"], true).unwrap();
        server.worker_pool.resize(server, 1).unwrap();
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
        server.worker_pool.shut_down();
        server.saves.wait();
    }
}

#[test]
fn a_flush_is_told_of_where_the_snapshot_file_cannot_follow() {
    let disk = new_disk();
    let server = test_server_on(Box::new(disk.clone()));
    server.config.set_many(&[b"save", b"3600 1"], true).unwrap();
    server.worker_pool.resize(server, 1).unwrap();
    disk.fail_from(0, Fault::Error(libc::EIO));
    let mut flusher = connect(server);
    flusher.write_all(b"FLUSHALL\r\n").unwrap();
    assert_eq!(receive(&mut flusher, 5), "+OK\r\n", "as in Redis: the log tells of it");
    server.worker_pool.shut_down();
    server.saves.wait();
}

/// Another key, in another partition, so that its readers see nothing of this one.
fn key_apart(server: &Server, key: &str) -> String {
    let partition = |key: &str| server.keyspace.locate(key.as_bytes()).partition();
    let apart = |other: &String| partition(other) != partition(key);
    (0..).map(|number| format!("safe{number}")).find(apart).expect("there are many partitions")
}

fn line(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

fn ask(stream: &mut UnixStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    line(stream)
}

/// What fails is the first write that the disk does not take: later ones are refused at the gate.
#[test]
fn a_write_that_is_not_safe_is_shown_to_nobody_before_it_is_by_whatever_road_it_came() {
    let roads = [
        ("one command", "INCR k\r\n", ""),
        ("MULTI", "MULTI\r\nINCR k\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n"),
        ("a script", "EVAL \"return redis.call('INCR',KEYS[1])\" 1 k\r\n", ""),
        ("a direct script", "EVAL \"return redis.call('incr','k')\" 0\r\n", ""),
        ("a pipeline", "INCR k\r\nINCR k\r\n", ""),
    ];
    for (road, request, before) in roads {
        let disk = new_disk();
        let server = start_with_log(&disk, b"always");
        let (mut writer, mut reader) = (connect(server), connect(server));
        let safe = key_apart(server, "k");
        assert_eq!(ask(&mut writer, &format!("SET {safe} v\r\n")), "+OK\r\n");
        assert_eq!(ask(&mut writer, "SET k 7\r\n"), "+OK\r\n");
        disk.fail_from(disk.calls(), Fault::Error(libc::ENOSPC));
        writer.write_all(request.as_bytes()).unwrap();
        assert_eq!(receive(&mut writer, before.len()), before, "{road}");
        let unsafe_line = line(&mut writer);
        assert!(
            unsafe_line.starts_with("-UNSAFE Errors writing to the AOF file: No space"),
            "{road}"
        );
        // The thread of the log may come between the two: the gates know by then.
        let second = if road == "a pipeline" { line(&mut writer) } else { "-MISCONF".to_owned() };
        let ran_twice = second.starts_with("-UNSAFE ");
        assert!(ran_twice || second.starts_with("-MISCONF"), "{road}: {second}");
        for read in ["GET k\r\n", "EVAL \"return redis.call('GET',KEYS[1])\" 1 k\r\n", "DUMP k\r\n"]
        {
            assert_eq!(ask(&mut reader, read), unsafe_line, "{road}: {read}");
        }
        reader.write_all(b"MULTI\r\nGET k\r\nEXEC\r\n").unwrap();
        assert_eq!(receive(&mut reader, 14), "+OK\r\n+QUEUED\r\n");
        assert_eq!(line(&mut reader), unsafe_line, "{road}");
        assert_eq!(ask(&mut reader, &format!("GET {safe}\r\n")), "$1\r\n", "others are served");
        assert_eq!(line(&mut reader), "v\r\n");
        assert!(ask(&mut writer, "INCR k\r\n").starts_with("-MISCONF "), "nothing is done");
        disk.heal();
        await_end("the failure", || !server.journal.has_failed());
        let expected = if ran_twice { "9" } else { "8" };
        assert_eq!(ask(&mut reader, "GET k\r\n"), "$1\r\n", "{road}");
        assert_eq!(line(&mut reader), format!("{expected}\r\n"), "{road}");
        server.worker_pool.shut_down();
        end(server);
    }
}

#[test]
fn a_waiter_that_was_served_by_a_write_that_is_not_safe_is_told_so() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"always");
    let (mut waiter, mut writer) = (connect(server), connect(server));
    assert_eq!(ask(&mut writer, "SET before v\r\n"), "+OK\r\n");
    waiter.write_all(b"BLPOP q 0\r\n").unwrap();
    await_end("a client waits", || server.keyspace.any_waiters());
    disk.fail_from(disk.calls(), Fault::Error(libc::ENOSPC));
    assert!(ask(&mut writer, "RPUSH q a\r\n").starts_with("-UNSAFE "));
    assert!(line(&mut waiter).starts_with("-UNSAFE "));
    disk.heal();
    await_end("the failure", || !server.journal.has_failed());
    assert_eq!(ask(&mut writer, "LLEN q\r\n"), ":0\r\n", "the waiter has it, if anybody");
    server.worker_pool.shut_down();
    end(server);
}

/// A key whose time is over is gone for all readers, whatever the disk does.
#[test]
fn a_key_whose_expiry_cannot_be_recorded_stays_and_reads_as_gone() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"always");
    let (mut writer, mut reader) = (connect(server), connect(server));
    let apart = key_apart(server, "k");
    server.memory.set_active_expiry(false);
    assert_eq!(ask(&mut writer, &format!("SET {apart} v PX 100\r\n")), "+OK\r\n");
    disk.fail_from(disk.calls(), Fault::Error(libc::ENOSPC));
    assert!(ask(&mut writer, "SET k v\r\n").starts_with("-UNSAFE "));
    std::thread::sleep(Duration::from_millis(150));
    let end_before = server.journal.end();
    assert_eq!(ask(&mut reader, &format!("GET {apart}\r\n")), "$-1\r\n");
    assert_eq!(server.journal.end(), end_before, "it is not removed");
    disk.heal();
    await_end("the failure", || !server.journal.has_failed());
    assert_eq!(ask(&mut reader, &format!("GET {apart}\r\n")), "$-1\r\n");
    assert_ne!(server.journal.end(), end_before, "it is removed now");
    server.worker_pool.shut_down();
    end(server);
}

/// With `everysec` what was acknowledged may be lost anyway, and is shown.
#[test]
fn readers_are_served_while_the_disk_fails_where_replies_do_not_wait_for_it() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"everysec");
    let (mut writer, mut reader) = (connect(server), connect(server));
    disk.fail_from(disk.calls(), Fault::Error(libc::ENOSPC));
    assert_eq!(ask(&mut writer, "SET k v\r\n"), "+OK\r\n");
    await_end("a failure", || server.journal.has_failed());
    assert_eq!(ask(&mut reader, "GET k\r\n"), "$1\r\n");
    assert_eq!(line(&mut reader), "v\r\n");
    assert!(ask(&mut writer, "SET k w\r\n").starts_with("-MISCONF "));
    disk.heal();
    server.worker_pool.shut_down();
    end(server);
}

/// A client with copies gets messages behind its replies, which are something else.
#[test]
fn a_tracked_client_learns_that_its_write_is_not_safe() {
    let disk = new_disk();
    let server = start_with_log(&disk, b"always");
    let mut writer = connect(server);
    writer.write_all(b"HELLO 3\r\nCLIENT TRACKING ON\r\nPING\r\n").unwrap();
    while line(&mut writer) != "+PONG\r\n" {}
    disk.fail_from(disk.calls(), Fault::Error(libc::ENOSPC));
    assert!(ask(&mut writer, "SET k v\r\n").starts_with("-UNSAFE "));
    disk.heal();
    server.worker_pool.shut_down();
    end(server);
}
