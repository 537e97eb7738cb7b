//! No worker waits for one client: a slow command, a lock that is taken, or the whole world keep
//! their own sessions waiting and no others.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use proto::value::Value;
use tests::client::field;
use tests::render::text;
use tests::samples::SLOW_THAT_HOLDS;
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Server, check};

/// A server whose sessions all share one worker.
fn one_worker() -> Server {
    let arguments = ["--worker-threads", "1", "--enable-debug-command", "yes"];
    // However slow the machine is, nobody is told BUSY.
    Server::start(&[&arguments[..], &["--busy-reply-threshold", "0"]].concat())
}

/// The length of strings that LCS compares for some tenths of a second.
const LENGTH: usize = 10_000;

/// Two strings whose longest common subsequence takes long to find.
fn slow_pair(server: &Server, one: &str, other: &str) {
    let mut client = server.client();
    let text = |step: usize| (0..LENGTH).map(move |at| (b'a' + (at * step % 23) as u8) as char);
    for (key, step) in [(one, 7), (other, 11)] {
        let value: String = text(step).collect();
        assert_eq!(client.call(&["SET", key, &value]), Value::Simple(b"OK".to_vec()));
    }
}

/// Asks until the slow client has its answer; returns how often. On a worker that was kept from its
/// others that would be once for each of them, as the first would have waited for the slow one.
fn ask_meanwhile(slow: &mut Client, others: &mut [Client], line: &[&str]) -> usize {
    let mut asked = 0;
    loop {
        for other in &mut *others {
            other.call(line);
            asked += 1;
        }
        match slow.arrival(Duration::from_micros(100)).expect("the stream is readable") {
            Arrival::Silence => {}
            Arrival::Reply(reply) => {
                assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
                return asked;
            }
            Arrival::Closed => panic!("the slow client was closed"),
        }
    }
}

#[test]
fn a_slow_command_leaves_the_worker_to_twenty_others() {
    let server = one_worker();
    slow_pair(&server, "a", "b");
    let mut slow = server.client();
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    slow.send(&["LCS", "a", "b", "LEN"]);
    let asked = ask_meanwhile(&mut slow, &mut others, &["INCR", "counter"]);
    assert!(asked > others.len(), "{asked}");
}

#[test]
fn a_client_that_names_a_held_key_waits_and_no_other() {
    let server = one_worker();
    slow_pair(&server, "a", "b");
    let (mut slow, mut rival) = (server.client(), server.client());
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    slow.send(&SLOW_THAT_HOLDS);
    // The slow command holds its locks once another one has to wait for them.
    std::thread::sleep(Duration::from_millis(20));
    rival.send(&["STRLEN", "a"]);
    rival.send(&["ECHO", "in order"]);
    assert_eq!(rival.arrival(Duration::from_millis(20)).unwrap(), Arrival::Silence);
    let asked = ask_meanwhile(&mut slow, &mut others, &["INCR", "counter"]);
    assert!(asked > others.len(), "{asked}");
    assert_eq!(rival.receive(), Value::Integer(LENGTH as i64));
    assert_eq!(rival.receive(), Value::Bulk(b"in order".to_vec()));
}

/// The command computes from copies: a client that reads or changes its keys waits for nothing.
#[test]
fn a_slow_command_that_only_reads_leaves_its_keys_to_others() {
    let server = one_worker();
    slow_pair(&server, "a", "b");
    let mut slow = server.client();
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    slow.send(&["LCS", "a", "b", "LEN"]);
    let asked = ask_meanwhile(&mut slow, &mut others, &["SETRANGE", "a", "0", "x"]);
    assert!(asked > others.len(), "{asked}");
}

/// Those that beat it go on until they are killed, so that nobody is answered by the end of one.
#[test]
fn a_large_request_that_is_beaten_again_and_again_holds_nothing_while_it_waits() {
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "0"]);
    let (mut large, mut killer) = (server.client(), server.client());
    // So many that the large one is beaten by some of them.
    let mut beaters: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for beater in &mut beaters {
        beater.send(&["EVAL", "while true do end", "1", "z"]);
    }
    std::thread::sleep(Duration::from_millis(20));
    let keys: Vec<_> = (0..3000).map(|number| format!("k{number}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    large.send(&["MSET"].into_iter().chain(pairs).chain(["z", "v"]).collect::<Vec<_>>());
    for round in 0..6 {
        let mut others: Vec<Client> = (0..40).map(|_| server.client()).collect();
        for (other, key) in others.iter_mut().zip(&keys) {
            other.send(&["GET", key]);
        }
        // Some may share a partition with the key that is held.
        eventually(&format!("others go on in round {round}"), || {
            others.retain_mut(|other| {
                other.arrival(Duration::from_millis(1)).unwrap() == Arrival::Silence
            });
            others.len() < 10
        });
        let left = beaters.len() - 1;
        kill_until(left, &mut killer, &mut beaters);
    }
    kill_until(0, &mut killer, &mut beaters);
    assert_eq!(large.receive(), Value::Simple(b"OK".to_vec()));
}

/// Kills scripts until no more than so many of them are left.
fn kill_until(left: usize, killer: &mut Client, scripts: &mut Vec<Client>) {
    eventually("scripts are killed", || {
        killer.call(&["SCRIPT", "KILL"]);
        scripts.retain_mut(|script| {
            let arrival = script.arrival(Duration::from_millis(1)).unwrap();
            assert!(matches!(arrival, Arrival::Silence | Arrival::Reply(Value::Error(_))));
            arrival == Arrival::Silence
        });
        scripts.len() <= left
    });
}

#[test]
fn a_long_list_of_keys_is_made_elsewhere() {
    let server = one_worker();
    let mut slow = server.client();
    check(&mut slow, "> DEBUG POPULATE 400000\nOK");
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    slow.send(&["KEYS", "*"]);
    let asked = ask_meanwhile(&mut slow, &mut others, &["GET", "key:1"]);
    assert!(asked > others.len(), "{asked}");
}

#[test]
fn a_waiting_session_can_be_killed() {
    let server = one_worker();
    slow_pair(&server, "a", "b");
    let (mut slow, mut rival, mut admin) = (server.client(), server.client(), server.client());
    let Value::Integer(id) = rival.call(&["CLIENT", "ID"]) else { panic!("an id") };
    slow.send(&SLOW_THAT_HOLDS);
    std::thread::sleep(Duration::from_millis(20));
    rival.send(&["STRLEN", "a"]);
    assert_eq!(rival.arrival(Duration::from_millis(10)).unwrap(), Arrival::Silence);
    check(&mut admin, &format!("> CLIENT KILL ID {id}\n(integer) 1"));
    assert_eq!(rival.arrival(Duration::from_secs(5)).unwrap(), Arrival::Closed);
    // The lock that it waited for goes to the next one.
    let mut next = server.client();
    next.send(&["STRLEN", "a"]);
    assert!(matches!(slow.receive(), Value::Integer(_)));
    assert_eq!(next.receive(), Value::Integer(LENGTH as i64));
}

#[test]
fn the_world_waits_for_heavy_work_and_nobody_with_it() {
    let server = one_worker();
    slow_pair(&server, "a", "b");
    let (mut slow, mut flusher, mut later) = (server.client(), server.client(), server.client());
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    slow.send(&SLOW_THAT_HOLDS);
    std::thread::sleep(Duration::from_millis(20));
    flusher.send(&["FLUSHALL"]);
    assert_eq!(flusher.arrival(Duration::from_millis(20)).unwrap(), Arrival::Silence);
    // More heavy work comes behind the flush, so it cannot keep it waiting.
    slow_pair(&server, "c", "d");
    later.send(&["LCS", "c", "d", "LEN"]);
    let asked = ask_meanwhile(&mut slow, &mut others, &["GET", "c"]);
    assert!(asked > others.len(), "{asked}");
    assert_eq!(flusher.receive(), Value::Simple(b"OK".to_vec()));
    assert_eq!(later.receive(), Value::Integer(0), "it saw the flush");
    check(&mut others[0], "> DBSIZE\n(integer) 0");
}

#[test]
fn streams_of_world_operations_and_of_heavy_work_both_come_through() {
    // However long it takes here, it has to come to its end.
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "0"]);
    slow_pair(&server, "a", "b");
    let mut heavy: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut swappers: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut heavy {
        (0..3).for_each(|_| client.send(&["LCS", "a", "b", "LEN"]));
    }
    for client in &mut swappers {
        (0..300).for_each(|_| client.send(&["SWAPDB", "1", "2"]));
    }
    for client in &mut heavy {
        (0..3).for_each(|_| assert!(matches!(client.receive(), Value::Integer(1..))));
    }
    for client in &mut swappers {
        (0..300).for_each(|_| assert_eq!(client.receive(), Value::Simple(b"OK".to_vec())));
    }
}

/// Asks for a short value again and again, with nothing else under way, and reads nothing until the
/// socket has no room left; then every reply is there.
fn ask_without_reading(server: &Server, mut client: Client) {
    /// Less than what would leave before the others have had their turns.
    const VALUE: usize = 2000;
    const BEYOND: usize = 20;
    let (id, mut other) = (client.id(), server.client());
    let value = vec![b'v'; VALUE];
    other.call(&[b"SET", &b"value"[..], &value]);
    let mut list = || text(&other.call(&["CLIENT", "LIST", "ID", &id]));
    let before: usize = field(&list(), "tot-cmds").parse().unwrap();
    let (mut sent, mut unsent) = (0, 0);
    while unsent < BEYOND {
        client.send(&["GET", "value"]);
        sent += 1;
        let line = loop {
            let line = list();
            if field(&line, "tot-cmds").parse() == Ok(before + sent) {
                break line;
            }
        };
        unsent += usize::from(field(&line, "omem") != "0");
    }
    for _ in 0..sent {
        assert_eq!(client.receive(), Value::Bulk(value.clone()));
    }
    check(&mut client, "> PING\nPONG");
}

#[test]
fn replies_that_the_socket_has_no_room_for_come_when_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, port) = (folder.path().join("s"), free_port().to_string());
    let path = socket.display().to_string();
    let server = Server::start(&["--port", &port, "--worker-threads", "1", "--unixsocket", &path]);
    ask_without_reading(&server, Client::connect_unix(&socket));
    ask_without_reading(&server, server.client());
}
