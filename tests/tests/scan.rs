//! SCAN: what is there all the time is found, whatever comes and goes meanwhile; and worlds of a
//! million keys, which expire or are flushed without anybody waiting for it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto::value::Value;
use tests::{Client, Oracle, Server};

const STABLE: usize = 5_000;
const COMING_AND_GOING: usize = 100_000;

/// One step: the next cursor and the keys.
fn step(client: &mut Client, cursor: &[u8], options: &[&str]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let words = [b"SCAN", cursor].into_iter().chain(options.iter().map(|word| word.as_bytes()));
    let reply = client.call(&words.collect::<Vec<_>>());
    let Value::Array(parts) = &reply else { panic!("{reply:?}") };
    let [cursor, Value::Array(keys)] = &parts[..] else { panic!("{reply:?}") };
    let bytes = |value: &Value| value.as_bytes().expect("keys are strings").to_vec();
    (bytes(cursor), keys.iter().map(bytes).collect())
}

/// All keys of a scan, as often as they come.
fn scan(client: &mut Client, options: &[&str]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut cursor = b"0".to_vec();
    loop {
        let (next, keys) = step(client, &cursor, options);
        found.extend(keys);
        cursor = next;
        if cursor == b"0" {
            return found;
        }
    }
}

fn fill(client: &mut Client, prefix: &str, count: usize, more: &[&str]) {
    for first in (0..count).step_by(10_000) {
        let command = |number: usize| {
            let key = format!("{prefix}{number}");
            let words = ["SET", &key, "v"].into_iter().chain(more.iter().copied());
            words.map(str::to_owned).collect::<Vec<String>>()
        };
        let commands: Vec<_> = (first..count.min(first + 10_000)).map(command).collect();
        client.pipeline(&commands);
    }
}

#[test]
fn keys_that_stay_are_found_while_others_come_and_go() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    fill(&mut client, "stable:", STABLE, &[]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !over.load(Ordering::Relaxed) {
                fill(&mut client, "passing:", COMING_AND_GOING, &[]);
                let del = |number| vec!["DEL".to_owned(), format!("passing:{number}")];
                let commands: Vec<_> = (0..COMING_AND_GOING).map(del).collect();
                client.pipeline(&commands);
            }
        });
        for count in ["100", "1000", "100000"] {
            let found: HashSet<Vec<u8>> =
                scan(&mut client, &["MATCH", "stable:*", "COUNT", count]).into_iter().collect();
            assert_eq!(found.len(), STABLE, "COUNT {count}");
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_quiet_world_is_told_exactly_once() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    fill(&mut client, "key:", 20_000, &[]);
    for options in [&[][..], &["COUNT", "1"], &["COUNT", "777"], &["TYPE", "string"]] {
        let found = scan(&mut client, options);
        let distinct: HashSet<_> = found.iter().collect();
        assert_eq!((found.len(), distinct.len()), (20_000, 20_000), "{options:?}");
    }
    assert_eq!(scan(&mut client, &["TYPE", "list"]).len(), 0);
    assert_eq!(scan(&mut client, &["MATCH", "key:1999?"]).len(), 10);
    assert_eq!(
        scan(&mut client, &["MATCH", "key:19*", "COUNT", "50", "TYPE", "STRING"]).len(),
        1_111
    );
}

/// A cursor is a place, not a possession: others may use it, later, after anything.
#[test]
fn a_cursor_survives() {
    let server = Server::start(&[]);
    let mut client = server.client();
    fill(&mut client, "key:", 10_000, &[]);
    let (cursor, first) = step(&mut client, b"0", &["COUNT", "5000"]);
    assert_ne!(cursor, b"0");
    fill(&mut client, "more:", 50_000, &[]);
    let mut other = server.client();
    let mut found: HashSet<Vec<u8>> = first.into_iter().collect();
    let mut at = cursor.clone();
    loop {
        let (next, keys) = step(&mut other, &at, &["COUNT", "500"]);
        found.extend(keys);
        at = next;
        if at == b"0" {
            break;
        }
    }
    let originals = found.iter().filter(|key| key.starts_with(b"key:")).count();
    assert_eq!(originals, 10_000);
    client.call(&["FLUSHALL"]);
    assert_eq!(step(&mut client, &cursor, &[]), (b"0".to_vec(), Vec::new()));
}

/// Expired keys vanish by themselves: nobody asks for them here.
#[test]
fn a_million_keys_expire_by_themselves() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let begun = Instant::now();
    fill(&mut client, "key:", 1_000_000, &["PX", "3000"]);
    client.call(&["SET", "stays", "v"]);
    let filled = begun.elapsed();
    // The last one has expired three seconds from here.
    thread::sleep(Duration::from_secs(3));
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.call(&["DBSIZE"]) != Value::Integer(1) {
        let left = client.call(&["DBSIZE"]);
        assert!(Instant::now() < deadline, "{left:?} are left; filling took {filled:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn many_keys_are_flushed_in_every_form() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for form in [&["FLUSHALL"][..], &["FLUSHALL", "SYNC"], &["FLUSHDB"], &["FLUSHDB", "ASYNC"]] {
        fill(&mut client, "key:", 250_000, &[]);
        assert_eq!(client.call(form), Value::Simple(b"OK".to_vec()));
        assert_eq!(client.call(&["DBSIZE"]), Value::Integer(0));
    }
}

/// Short times to live, on every server alike: there before, gone after.
#[test]
fn short_lives_end() {
    let apus = Server::start(&[]);
    for server in [apus].into_iter().chain(Oracle::ALL.map(|oracle| oracle.start(&[]))) {
        let mut client = server.client();
        let commands: [&[&str]; 7] = [
            &["SET", "a", "v", "PX", "400"],
            &["PSETEX", "b", "400", "v"],
            &["SET", "c", "v"],
            &["PEXPIRE", "c", "400"],
            &["SET", "d", "v"],
            &["GETEX", "d", "PX", "400"],
            &["SET", "e", "v", "PX", "400"],
        ];
        for command in commands {
            client.call(command);
        }
        client.call(&["PERSIST", "e"]);
        client.call(&["RENAME", "a", "f"]);
        client.call(&["COPY", "b", "g"]);
        let mut exists = |keys: &[&str]| client.call(&[&["EXISTS"], keys].concat());
        assert_eq!(exists(&["b", "c", "d", "e", "f", "g"]), Value::Integer(6));
        thread::sleep(Duration::from_millis(500));
        assert_eq!(exists(&["b", "c", "d", "f", "g"]), Value::Integer(0));
        assert_eq!(exists(&["e"]), Value::Integer(1));
        assert_eq!(client.call(&["DBSIZE"]), Value::Integer(1));
    }
}
