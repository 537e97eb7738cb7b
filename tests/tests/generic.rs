//! Keys of any type: as written, and atomic while others look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::{Client, Oracle, Server, check};

const TEXT: &str = r#"
    > SET a 1
    OK
    > SET b 2 EX 100
    OK
    > EXISTS a b c a
    (integer) 3
    > TOUCH a b c
    (integer) 2
    > TYPE a
    string
    > TYPE c
    none
    > RENAME c d
    (error) ERR no such key
    > RENAME b c
    OK
    > TTL c
    (integer) 100
    > RENAMENX a c
    (integer) 0
    > COPY a a
    (error) ERR source and destination objects are the same
    > COPY a c
    (integer) 0
    > COPY a c REPLACE
    (integer) 1
    > TTL c
    (integer) -1
    > COPY a x DB 16
    (error) ERR DB index is out of range
    > COPY a x DB 3 DB 2
    (integer) 1
    > MOVE x 2
    (integer) 0
    > MOVE c 99999999999
    (error) ERR value is out of range, value must between -2147483648 and 2147483647
    > MOVE c 2
    (integer) 1
    > SELECT 2
    OK
    > KEYS x
    1) "x"
    > DBSIZE
    (integer) 2
    > SELECT 0
    OK
    > SWAPDB 0 2
    OK
    > DBSIZE
    (integer) 2
    > SWAPDB 0 2
    OK
    > SWAPDB x 0
    (error) ERR invalid first DB index
    > EXPIRE a 100 NX GT
    (error) ERR NX and XX, GT or LT options at the same time are not compatible
    > EXPIRE a 100 FOO
    (error) ERR Unsupported option FOO
    > EXPIRE a 9223372036854775807
    (error) ERR invalid expire time in 'expire' command
    > PEXPIRE a 9223372036854775807
    (error) ERR invalid expire time in 'pexpire' command
    > EXPIRE a 100 XX
    (integer) 0
    > EXPIRE a 100 LT
    (integer) 1
    > TTL a
    (integer) 100
    > PEXPIREAT a 4102444800999 GT
    (integer) 1
    > EXPIRETIME a
    (integer) 4102444801
    > PEXPIRETIME a
    (integer) 4102444800999
    > PERSIST a
    (integer) 1
    > PERSIST a
    (integer) 0
    > TTL a
    (integer) -1
    > PTTL missing
    (integer) -2
    > EXPIREAT a 1
    (integer) 1
    > EXISTS a
    (integer) 0
    > OBJECT ENCODING missing
    (nil)
    > SET n 12345
    OK
    > OBJECT ENCODING n
    "int"
    > OBJECT FREQ n
    ~ (error) ERR An LFU maxmemory policy is not selected, access frequency not tracked. *
    > OBJECT FOO n
    (error) ERR unknown subcommand 'FOO'. Try OBJECT HELP.
    > RANDOMKEY
    "n"
    > SCAN 0
    1) "0"
    2) 1) "n"
    > SCAN 0 MATCH x* COUNT 1000 TYPE string
    1) "0"
    2) (empty array)
    > SCAN 0 COUNT
    (error) ERR syntax error
    > SCAN x
    (error) ERR invalid cursor
    > SCAN 18446744073709551616
    (error) ERR invalid cursor
    > KEYS *
    1) "n"
    > UNLINK n n
    (integer) 1
    > RANDOMKEY
    (nil)
    > FLUSHDB FOO
    (error) ERR syntax error
    > FLUSHALL ASYNC
    OK
"#;

#[test]
fn keys_of_any_type_answer_as_written() {
    let apus = Server::start(&[]);
    check(&mut apus.client(), TEXT);
    check(&mut apus.client3(), TEXT);
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        check(&mut oracle.start(&[]).client(), TEXT);
    }
}

/// Calls `change` again and again while `is_whole` must hold for what others see.
fn while_others_look(
    server: &Server,
    look: &[&str],
    is_whole: impl Fn(&Value) -> bool + Sync,
    mut change: impl FnMut(&mut Client),
) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                while !over.load(Ordering::Relaxed) {
                    let seen = client.call(look);
                    assert!(is_whole(&seen), "{look:?} sees {seen:?}");
                }
            });
        }
        let mut client = server.client();
        (0..400).for_each(|_| change(&mut client));
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_key_is_never_seen_in_two_places_or_none() {
    let server = Server::start(&["--worker-threads", "4"]);
    server.client().call(&["SET", "here", "x"]);
    let one = |seen: &Value| *seen == Value::Integer(1);
    while_others_look(&server, &["EXISTS", "here", "there"], one, |client| {
        client.call(&["RENAME", "here", "there"]);
        client.call(&["RENAMENX", "there", "here"]);
    });
}

#[test]
fn many_keys_go_and_come_at_once() {
    let server = Server::start(&["--worker-threads", "4"]);
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let with = |name: &str| {
        let words = std::iter::once(name.to_owned()).chain(keys.iter().cloned());
        words.collect::<Vec<_>>()
    };
    let (exists, del) = (with("EXISTS"), with("DEL"));
    let exists: Vec<&str> = exists.iter().map(String::as_str).collect();
    let mut mset = vec!["MSET"];
    keys.iter().for_each(|key| mset.extend([key, "x"]));
    let all_or_none = |seen: &Value| matches!(seen, Value::Integer(0 | 100));
    while_others_look(&server, &exists, all_or_none, |client| {
        client.call(&mset);
        assert_eq!(client.call(&del), Value::Integer(100));
    });
}

#[test]
fn databases_are_swapped_and_flushed_whole() {
    let server = Server::start(&["--worker-threads", "4"]);
    let mut client = server.client();
    client.call(&["MSET", "a", "0", "b", "0", "c", "0"]);
    client.call(&["SELECT", "1"]);
    client.call(&["MSET", "a", "1", "b", "1", "c", "1"]);
    let alike = |seen: &Value| {
        let Value::Array(values) = seen else { return false };
        values.iter().all(|value| *value == values[0])
    };
    let mut round = 0;
    while_others_look(&server, &["MGET", "a", "b", "c"], alike, |client| {
        round += 1;
        client.call(&["SWAPDB", "0", "1"]);
        if round % 10 == 0 {
            client.call(&["FLUSHDB"]);
            client.call(&["MSET", "a", "2", "b", "2", "c", "2"]);
        }
    });
}

#[test]
fn a_scan_misses_nothing_while_others_write() {
    let server = Server::start(&["--worker-threads", "4"]);
    let mut client = server.client();
    let stable: Vec<Vec<String>> = (0..2000)
        .map(|number| vec!["SET".to_owned(), format!("stable:{number}"), "x".to_owned()])
        .collect();
    client.pipeline(&stable);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (over, server) = (&over, &server);
            scope.spawn(move || {
                let mut client = server.client();
                let key = |number: u32| format!("{writer}:{number}");
                while !over.load(Ordering::Relaxed) {
                    let sets: Vec<_> =
                        (0..500).map(|n| vec!["SET".to_owned(), key(n), "x".to_owned()]).collect();
                    client.pipeline(&sets);
                    let dels: Vec<_> = (0..500).map(|n| vec!["DEL".to_owned(), key(n)]).collect();
                    client.pipeline(&dels);
                }
            });
        }
        for _ in 0..3 {
            let mut found = std::collections::HashSet::new();
            let mut cursor = b"0".to_vec();
            loop {
                let reply = client.call(&[b"SCAN", &cursor[..], b"COUNT", b"50"]);
                let Value::Array(parts) = reply else { panic!("{reply:?}") };
                let Value::Array(keys) = &parts[1] else { panic!("{parts:?}") };
                found.extend(keys.iter().map(|key| key.as_bytes().unwrap().to_vec()));
                cursor = parts[0].as_bytes().unwrap().to_vec();
                if cursor == b"0" {
                    break;
                }
            }
            let is_found = |words: &&Vec<String>| found.contains(words[1].as_bytes());
            assert_eq!(stable.iter().filter(is_found).count(), stable.len());
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Dragonfly's documentation page on RM: a cursor and how many keys were removed.
#[test]
fn rm_deletes_what_matches() {
    let server = Server::start(&[]);
    for mut client in [server.client(), server.client3()] {
        client.call(&["MSET", "user:1", "a", "user:2", "b", "item:1", "c"]);
        let script = r#"
            > RM 0 MATCH user:* COUNT 100000 TYPE string
            1) "0"
            2) (integer) 2
            > EXISTS user:1 user:2 item:1
            (integer) 1
            > RM 0 COUNT
            (error) ERR syntax error
            > RM nothing
            (error) ERR invalid cursor
        "#;
        check(&mut client, script);
    }
}

/// Redis draws until it has a key or none is left, and removes what it meets on the way.
#[test]
fn expired_keys_that_randomkey_meets_are_removed() {
    let debug = ["--enable-debug-command", "yes"];
    for server in [Server::start(&debug), Oracle::Redis82.start(&debug)] {
        let mut client = server.client();
        check(&mut client, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK");
        for key in ["a", "b", "c", "d", "e"] {
            client.call(&["SET", key, "x", "PX", "1"]);
        }
        thread::sleep(std::time::Duration::from_millis(10));
        check(&mut client, "> DBSIZE\n(integer) 5\n> RANDOMKEY\n(nil)\n> DBSIZE\n(integer) 0");
    }
}
