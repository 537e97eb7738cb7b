//! DELPREFIX, and the index of declared prefixes: what goes and what stays, who is told, and what
//! holds it up. Each promise is kept with the index and without.

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Server, check};

/// Without an index, and with one of prefixes that lead to the keys of the tests.
const WAYS: [&[&str]; 2] = [&[], &["--prefix-index", "user: user:vip: other:"]];

fn call(client: &mut Client, line: &str) -> Value {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

/// Keys of some prefixes, of several types, and some with a deadline.
fn fill(client: &mut Client) {
    let mut requests = Vec::new();
    for number in 0..1000 {
        requests.push(format!("SET user:{number} x"));
        requests.push(format!("RPUSH user:vip:{number} x"));
        requests.push(format!("SET other:{number} x EX 1000"));
        requests.push(format!("SET use{number} x"));
    }
    let requests: Vec<Vec<&str>> = requests.iter().map(|it| it.split(' ').collect()).collect();
    client.pipeline(&requests);
}

fn size(client: &mut Client) -> Value {
    call(client, "DBSIZE")
}

#[test]
fn all_keys_that_begin_so_go_and_no_other() {
    for way in WAYS {
        let server = Server::start(way);
        let mut client = server.client();
        call(&mut client, "SELECT 3");
        call(&mut client, "SET user:elsewhere x");
        call(&mut client, "SELECT 0");
        fill(&mut client);
        check(&mut client, "> DELPREFIX user:vip:\n(integer) 1000\n> DBSIZE\n(integer) 3000");
        check(&mut client, "> DELPREFIX user:99\n(integer) 11\n> DELPREFIX user:99\n(integer) 0");
        check(&mut client, "> DELPREFIX user:\n(integer) 989\n> DBSIZE\n(integer) 2000");
        check(&mut client, "> EXISTS use1 other:1\n(integer) 2\n> DELPREFIX o\n(integer) 1000");
        // What is not in its index is found by a look at all keys.
        check(&mut client, "> DELPREFIX use\n(integer) 1000\n> DBSIZE\n(integer) 0");
        check(&mut client, "> SELECT 3\nOK\n> EXISTS user:elsewhere\n(integer) 1");
    }
}

#[test]
fn names_are_bytes_and_no_patterns() {
    for way in [&[][..], &["--prefix-index", "a*b"]] {
        let server = Server::start(way);
        let mut client = server.client();
        for key in [&b"a*b1"[..], b"axb1", b"a*b", b"\xff\x00", b"\xff\x00x", b"\xff"] {
            client.call(&[b"SET", key, b"x"]);
        }
        check(&mut client, "> DELPREFIX a*b\n(integer) 2\n> EXISTS axb1\n(integer) 1");
        assert_eq!(client.call(&[&b"DELPREFIX"[..], b"\xff\x00"]), Value::Integer(2));
        assert_eq!(size(&mut client), Value::Integer(2));
    }
}

/// SCAN goes by the same index, whatever came, went and was replaced meanwhile.
#[test]
fn the_index_follows_the_keys() {
    let server = Server::start(&["--prefix-index", "user: user:vip:", "--appendonly", "yes"]);
    let mut client = server.client();
    fill(&mut client);
    call(&mut client, "FLUSHDB");
    fill(&mut client);
    for number in 0..500 {
        call(&mut client, &format!("DEL user:{number}"));
        call(&mut client, &format!("RENAME use{number} user:renamed:{number}"));
        call(&mut client, &format!("LPOP user:vip:{number}"));
        call(&mut client, &format!("PEXPIRE user:vip:{} 1", 500 + number));
    }
    call(&mut client, "MULTI");
    call(&mut client, "SET user:undone x");
    call(&mut client, "DISCARD");
    let found = |client: &mut Client, pattern: &str| {
        let words = ["SCAN", "0", "COUNT", "100000", "MATCH", pattern];
        let Value::Array(parts) = client.call(&words) else { panic!("SCAN gives an array") };
        assert_eq!(parts[0], Value::Bulk(b"0".to_vec()));
        let Value::Array(keys) = &parts[1] else { panic!("the second are keys") };
        keys.len()
    };
    eventually("what is over is gone", || found(&mut client, "user:vip:*") == 0);
    assert_eq!(found(&mut client, "user:*"), 1000);
    assert_eq!(found(&mut client, "user:renamed:*"), 500);
    // The log is run again, and the index is made as its keys come.
    let mut server = server;
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(found(&mut client, "user:*"), 1000);
    check(&mut client, "> DELPREFIX user:renamed:\n(integer) 500\n> SWAPDB 0 1\nOK");
    assert_eq!(found(&mut client, "user:*"), 0);
    check(&mut client, "> SELECT 1\nOK\n> DELPREFIX user:\n(integer) 500");
}

#[test]
fn delprefix_is_told_as_del() {
    for way in WAYS {
        let more = ["--notify-keyspace-events", "Eg", "--repl-diskless-sync-delay", "0"];
        let primary = Server::start(&[way, &more].concat());
        let replica = Server::start(&[]);
        let port = primary.port().to_string();
        replica.client().call(&["REPLICAOF", "127.0.0.1", &port]);
        let mut client = primary.client();
        call(&mut client, "MSET user:1 x user:2 x user:3 x other x");
        let mut watcher = primary.client();
        check(&mut watcher, "> WATCH user:2\nOK\n> MULTI\nOK\n> PING\nQUEUED");
        let mut listener = primary.client();
        call(&mut listener, "SUBSCRIBE __keyevent@0__:del");
        let mut tracker = primary.client3();
        call(&mut tracker, "CLIENT TRACKING ON");
        call(&mut tracker, "GET user:3");
        check(&mut client, "> DELPREFIX user:\n(integer) 3");
        let mut told: Vec<String> = (0..3).map(|_| last(&listener.receive())).collect();
        told.sort();
        assert_eq!(told, ["user:1", "user:2", "user:3"]);
        check(&mut watcher, "> EXEC\n(nil)");
        let Value::Push(invalidation) = tracker.receive() else { panic!("a push") };
        assert_eq!(invalidation[1], Value::Array(vec![Value::Bulk(b"user:3".to_vec())]));
        eventually("the replica has deleted them", || {
            call(&mut replica.client(), "DBSIZE") == Value::Integer(1)
        });
        let mut of_replica = replica.client();
        check(&mut of_replica, "> DELPREFIX o\n~ (error) READONLY *\n> EXISTS other\n(integer) 1");
    }
}

fn last(message: &Value) -> String {
    let (Value::Array(parts) | Value::Push(parts)) = message else { panic!("{message:?}") };
    String::from_utf8_lossy(parts.last().and_then(Value::as_bytes).unwrap_or_default()).into_owned()
}

#[test]
fn a_user_must_be_allowed_all_that_begins_so() {
    for way in WAYS {
        let server = Server::start(way);
        let mut client = server.client();
        call(&mut client, "MSET user:1 x user:vip:1 x use x");
        let rules = "on >word +@all -@admin resetkeys ~user:* %R~other:*";
        call(&mut client, &format!("ACL SETUSER ada {rules}"));
        call(&mut client, "ACL SETUSER bob on >word +@all -delprefix ~*");
        let mut ada = server.client();
        check(
            &mut ada,
            "
            > AUTH ada word
            OK
            > DELPREFIX use
            (error) NOPERM No permissions to access a key
            > DELPREFIX other:
            (error) NOPERM No permissions to access a key
            > DELPREFIX user:vip:
            (integer) 1
            > DELPREFIX user:
            (integer) 1
            ",
        );
        let mut bob = server.client();
        check(&mut bob, "> AUTH bob word\nOK\n> DELPREFIX u\n~ (error) NOPERM *");
        let dry = "User ada has no permissions to access the 'use' key";
        check(
            &mut client,
            &format!("> ACL DRYRUN ada DELPREFIX use\n\"{dry}\"\n> DBSIZE\n(integer) 1"),
        );
    }
}

#[test]
fn delprefix_is_for_no_transaction_and_waits_for_a_pause() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(
        &mut client,
        "
        > DELPREFIX
        (error) ERR wrong number of arguments for 'delprefix' command
        > DELPREFIX a b
        (error) ERR wrong number of arguments for 'delprefix' command
        > DELPREFIX \"\"
        (error) ERR an empty prefix is that of all keys, which FLUSHDB deletes
        > MSET a1 x a2 x
        OK
        > EVAL \"return redis.call('DELPREFIX', 'a')\" 0
        ~ (error) ERR This Redis command is not allowed from script *
        > MULTI
        OK
        > DELPREFIX a
        (error) ERR Command not allowed inside a transaction
        > DISCARD
        OK
        > CLIENT PAUSE 1000000 WRITE
        OK
        ",
    );
    let mut other = server.client();
    other.send(&["DELPREFIX", "a"]);
    eventually("it waits", || waits(&mut client));
    check(&mut client, "> DBSIZE\n(integer) 2\n> CLIENT UNPAUSE\nOK");
    assert_eq!(other.receive(), Value::Integer(2));
}

fn waits(client: &mut Client) -> bool {
    let Value::Bulk(list) = call(client, "CLIENT LIST") else { panic!("text") };
    String::from_utf8_lossy(&list).contains("cmd=delprefix")
}

/// Others are served while it goes over very many keys, and it ends with its client.
#[test]
fn other_clients_are_served_while_delprefix_runs() {
    for way in WAYS {
        let server = Server::start(&[way, &["--enable-debug-command", "yes"]].concat());
        let mut client = server.client();
        check(&mut client, "> DEBUG POPULATE 300000 user 20\nOK");
        let mut deleter = server.client();
        deleter.send(&["DELPREFIX", "user:"]);
        let mut number = 0;
        loop {
            call(&mut client, &format!("SET other{number} x"));
            number += 1;
            let Value::Integer(left) = size(&mut client) else { panic!("a number") };
            if left <= number {
                break;
            }
        }
        assert_eq!(deleter.receive(), Value::Integer(300_000));
        assert_eq!(size(&mut client), Value::Integer(number));
    }
}
