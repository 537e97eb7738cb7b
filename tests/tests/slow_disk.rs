//! A disk that takes its time: what waits for it evicts no key, and clients that send on keep it.

use std::thread;
use std::time::Duration;

use proto::value::Value;
use tests::client::encode;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::{Fault, Injector};
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Arrival, Client, Server};

const CLIENTS: usize = 4;
const KEYS: usize = 8000;
/// So often each client writes all keys, with values of a kilobyte: more than the log's queue has
/// room for.
const ROUNDS: usize = 2;

fn figure(client: &mut Client, name: &str) -> u64 {
    let info = text(&client.call(&["INFO", "everything"]));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("INFO tells {name}"))
}

#[test]
fn what_waits_for_a_slow_disk_evicts_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let row = row_of("sync a file");
    let own = [
        "--save",
        "",
        "--appendonly",
        "yes",
        "--auto-aof-rewrite-percentage",
        "0",
        "--maxmemory",
        "40mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ];
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let value = "x".repeat(1000);
    let all: Vec<u8> =
        (0..KEYS).flat_map(|key| encode(&["SET", &format!("key:{key}"), &value])).collect();
    let mut observer = Client::connect(subject.port());
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    observer.call(&["SET", "key:0", "first"]);
    eventually("the disk is waited for", || subject.injector.met() > 0);
    let port = subject.port();
    let writers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let all = all.clone();
            thread::spawn(move || {
                let mut client = Client::connect(port);
                for _ in 0..ROUNDS {
                    client.send_raw(&all);
                }
                (0..ROUNDS * KEYS).for_each(|_| drop(client.receive()));
            })
        })
        .collect();
    eventually("the log's queue is full", || figure(&mut observer, "aof_buffer_length") > 32 << 20);
    // One that has sent all it has to send, and ends its side, is served like the others.
    let mut leaving = Client::connect(port);
    (0..500).for_each(|number| leaving.send(&["SET", &format!("left:{number}"), "v"]));
    leaving.end_sending();
    for _ in 0..20 {
        assert_eq!(figure(&mut observer, "evicted_keys"), 0);
    }
    assert!(figure(&mut observer, "mem_not_counted_for_evict") > 16 << 20);
    subject.injector.disarm();
    writers.into_iter().for_each(|writer| writer.join().expect("all is answered"));
    assert_eq!(figure(&mut observer, "evicted_keys"), 0);
    assert_eq!(leaving.receive_to_close(), b"+OK\r\n".repeat(500));
    assert_eq!(observer.call(&["DBSIZE"]), Value::Integer(KEYS as i64 + 500));
}

/// What is read of a write that is not safe, by whatever command, is told when it is; what has
/// nothing to do with it is told at once.
#[test]
fn a_write_that_is_not_on_disk_yet_is_told_to_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let row = row_of("sync a file");
    let own = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let connect = || Client::connect(subject.port());
    let mut writer = connect();
    writer.call(&["SET", "before", "v"]);
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    writer.send(&["SET", "key", "v"]);
    eventually("the disk is waited for", || subject.injector.met() > 0);
    let reads: [&[&str]; 7] = [
        &["GET", "key"],
        &["DBSIZE"],
        &["KEYS", "*"],
        &["SCAN", "0", "COUNT", "1000"],
        &["EVAL", "return redis.call('DBSIZE')", "0"],
        &["EVAL", "return redis.call('EXISTS', 'key')", "0"],
        &["EVAL", "return #redis.call('KEYS', '*')", "0"],
    ];
    let mut readers: Vec<_> = reads.iter().map(|_| connect()).collect();
    readers.iter_mut().zip(reads).for_each(|(reader, words)| reader.send(words));
    let mut transaction = connect();
    transaction.call(&["MULTI"]);
    transaction.call(&["DBSIZE"]);
    transaction.send(&["EXEC"]);
    readers.push(transaction);
    let (mut other, mut drawer) = (connect(), connect());
    drawer.send(&["RANDOMKEY"]);
    for _ in 0..100 {
        assert_eq!(text(&other.call(&["GET", "before"])), "v");
    }
    for (reader, words) in readers.iter_mut().zip(reads.iter().chain([&&["EXEC"][..]])) {
        let arrival = reader.arrival(Duration::from_millis(10));
        assert_eq!(arrival.ok(), Some(Arrival::Silence), "{words:?}");
    }
    // What is drawn may be the other key, which is safe.
    let drawn = drawer.arrival(Duration::from_millis(10));
    let before = Arrival::Reply(Value::Bulk(b"before".to_vec()));
    assert!(drawn.is_ok_and(|drawn| drawn == Arrival::Silence || drawn == before));
    subject.injector.disarm();
    writer.receive();
    readers.into_iter().for_each(|mut reader| drop(reader.receive()));
}

/// So it is with what was written, in whatever way the command came to run.
#[test]
fn no_way_of_running_tells_of_a_write_that_is_not_on_disk_yet() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let row = row_of("sync a file");
    let own = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let connect = || Client::connect(subject.port());
    let (mut observer, mut waiter, mut transaction) = (connect(), connect(), connect());
    let fields: Vec<String> = (0..5000).map(|number| format!("f{number}")).collect();
    let pairs = fields.iter().flat_map(|field| [field.as_str(), "v"]);
    observer.call(&["HSET", "hash"].into_iter().chain(pairs).collect::<Vec<_>>());
    // On a thread for heavy work.
    let names = fields.iter().map(String::as_str);
    let removal: Vec<&str> = ["HDEL", "hash"].into_iter().chain(names).collect();
    waiter.send(&["BLPOP", "queue", "0"]);
    eventually("it waits", || observer.info("blocked_clients") == "1");
    transaction.call(&["MULTI"]);
    transaction.call(&["SADD", "set", "member"]);
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    let writes: [(&str, &[&str]); 4] = [
        ("set", &["SET", "key", "v"]),
        ("eval", &["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "other"]),
        ("rpush", &["RPUSH", "queue", "v"]),
        ("hdel", &removal),
    ];
    let mut writers: Vec<(&str, Client)> = Vec::new();
    for (name, words) in writes {
        let mut writer = connect();
        writer.send(words);
        writers.push((name, writer));
    }
    transaction.send(&["EXEC"]);
    writers.extend([("blpop", waiter), ("exec", transaction)]);
    eventually("the disk is waited for", || subject.injector.met() > 0);
    for (name, writer) in &mut writers {
        let calls = format!("cmdstat_{name}:calls=");
        eventually(name, || text(&observer.call(&["INFO", "commandstats"])).contains(&calls));
        let arrival = writer.arrival(Duration::from_millis(10));
        assert_eq!(arrival.ok(), Some(Arrival::Silence), "{name}");
    }
    subject.injector.disarm();
    writers.into_iter().for_each(|(_, mut writer)| drop(writer.receive()));
}

/// What clients of a writable replica write is no part of its primary's stream, and is told to
/// nobody before it is on disk, either.
#[test]
fn a_write_beside_a_primary_that_is_not_on_disk_yet_is_told_to_nobody() {
    let top = Server::start(&["--save", "", "--repl-ping-replica-period", "3600"]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let (row, port) = (row_of("sync a file"), top.port().to_string());
    let own = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let follows = ["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"];
    let own = [&own[..], &follows].concat();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let connect = || Client::connect(subject.port());
    top.client().call(&["SET", "before", "v"]);
    let mut observer = connect();
    eventually("it has what the primary has", || {
        render(&observer.call(&["GET", "before"])) == "\"v\""
    });
    eventually("the log has a base", || {
        observer.info("aof_rewrite_in_progress") == "0"
            && observer.info("aof_rewrite_scheduled") == "0"
            && observer.info("aof_enabled") == "1"
    });
    for turn in 0..3 {
        let (mut writer, mut reader) = (connect(), connect());
        let met = subject.injector.met();
        subject.injector.arm(row, Fault::Held, 0, u64::MAX);
        writer.send(&["INCR", "own"]);
        eventually("the disk is waited for", || subject.injector.met() > met);
        reader.send(&["GET", "own"]);
        for _ in 0..20 {
            assert_eq!(text(&observer.call(&["GET", "before"])), "v");
        }
        for client in [&mut writer, &mut reader] {
            let arrival = client.arrival(Duration::from_millis(10));
            assert_eq!(arrival.ok(), Some(Arrival::Silence), "turn {turn}");
        }
        subject.injector.disarm();
        assert_eq!(writer.receive(), Value::Integer(turn + 1));
        assert_eq!(text(&reader.receive()), (turn + 1).to_string());
    }
    // The stream goes on at its own offsets.
    top.client().call(&["SET", "behind", "v"]);
    let end = top.client().info("master_repl_offset");
    eventually("it has all", || observer.info("slave_repl_offset") == end);
    let reply = render(&top.client().call(&["WAITAOF", "0", "1", "0"]));
    assert_eq!(reply, "1) (integer) 0\n2) (integer) 1");
}

/// The latency monitor is told of the log under Redis' names: of syncs, where each is waited for,
/// and of writes.
#[test]
fn what_the_log_waits_for_is_an_event_of_latency() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let rows = ["sync a file", "write a file"].map(row_of);
    let own = ["--save", "", "--appendonly", "yes", "--latency-monitor-threshold", "20"];
    for (row, fsync, events) in [
        (rows[0], "always", &["aof-fsync-always"][..]),
        (rows[1], "no", &["aof-write", "aof-write-alone"]),
    ] {
        let own = [&own[..], &["--appendfsync", fsync, "--aof-direct-writes", "no"]].concat();
        let mut subject = Subject::start(folder.path(), Injector::of(rows.to_vec()), &own);
        assert!(subject.serves(), "{}", subject.log());
        let mut client = Client::connect(subject.port());
        client.call(&["SET", "key", "before"]);
        client.call(&["LATENCY", "RESET"]);
        subject.injector.arm(row, Fault::Late(Duration::from_millis(50)), 0, 1);
        client.call(&["SET", "key", "late"]);
        for event in events {
            eventually(event, || {
                let history = render(&client.call(&["LATENCY", "HISTORY", event]));
                history != "(empty array)"
            });
        }
        let others = render(&client.call(&["LATENCY", "LATEST"]));
        assert_eq!(others.matches("aof-").count(), events.len(), "{others}");
    }
}
