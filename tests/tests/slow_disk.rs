//! A disk that takes its time: what waits for it evicts no key, and clients that send on keep it.

use std::thread;

use proto::value::Value;
use tests::Client;
use tests::client::encode;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::{Fault, Injector};
use tests::render::text;
use tests::server::eventually;

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
    for _ in 0..20 {
        assert_eq!(figure(&mut observer, "evicted_keys"), 0);
    }
    assert!(figure(&mut observer, "mem_not_counted_for_evict") > 16 << 20);
    subject.injector.disarm();
    writers.into_iter().for_each(|writer| writer.join().expect("all is answered"));
    assert_eq!(figure(&mut observer, "evicted_keys"), 0);
    assert_eq!(observer.call(&["DBSIZE"]), Value::Integer(KEYS as i64));
}
