//! Hostile requests whose sender does not live to hear the answer, and words that name what is
//! meant twice or not at all: H57, H81, H84, H102.

use std::sync::atomic::{AtomicBool, Ordering};

use base::Random;
use proto::value::Value;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check};

/// How many clients send damaged payloads at once, and how many such clients each is in turn.
const SENDERS: u64 = 4;
const LIVES: usize = 40;

/// A value of each kind, by the request that makes it.
const MAKES: &[&str] = &[
    "SET k text",
    "RPUSH k a 1 b 2",
    "SADD k 1 2 3",
    "SADD k a b c",
    "HSET k f v g w",
    "ZADD k 1 a 2 b",
    "PFADD k a b c",
    "XADD k 1-1 f v",
];

/// What restores damaged payloads, over and over again.
fn request(payloads: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut payload = payloads[random.below(payloads.len() as u64) as usize].clone();
    let at = random.below(payload.len() as u64) as usize;
    payload[at] ^= 1 << random.below(8);
    let key = format!("r{}", random.below(20));
    tests::client::encode(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"])
}

/// H57: damaged payloads of clients that are killed, and evicted, amid their requests.
#[test]
fn h57_payloads_of_clients_that_do_not_live() {
    let server = Server::start(&["--maxmemory-clients", "4mb", "--sanitize-dump-payload", "no"]);
    let mut admin = server.client();
    admin.call(&["CLIENT", "NO-EVICT", "on"]);
    let payloads: Vec<Vec<u8>> = MAKES.iter().map(|make| payload_of(&mut admin, make)).collect();
    let are_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let senders = (0..SENDERS).map(|seed| {
            let (server, payloads) = (&server, &payloads);
            scope.spawn(move || {
                let mut random = Random::from_seed(seed);
                for life in 0..LIVES {
                    let mut client = server.client();
                    // The ends of both come at any byte of what is sent.
                    let mut bytes: Vec<u8> =
                        (0..200).flat_map(|_| request(payloads, &mut random)).collect();
                    if life % 4 == 0 {
                        let large = vec![b'x'; 6 << 20];
                        bytes.extend(tests::client::encode(&[b"RESTORE", &b"l"[..], b"0", &large]));
                    }
                    let _ = client.try_send_raw(&bytes);
                    let _ = client.try_call(&["PING"]);
                }
            })
        });
        let senders: Vec<_> = senders.collect();
        scope.spawn(|| {
            while !are_done.load(Ordering::Relaxed) {
                admin.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
        });
        senders.into_iter().for_each(|sender| sender.join().expect("a sender ends"));
        are_done.store(true, Ordering::Relaxed);
    });
    let mut client = server.client();
    for key in 0..20 {
        // What was restored is whole: a dump of it is restored as a key of another name.
        let payload = client.call(&["DUMP", &format!("r{key}")]);
        if let Some(payload) = payload.as_bytes() {
            let reply = client.call(&[b"RESTORE", &b"again"[..], b"0", payload, b"REPLACE"]);
            assert_eq!(reply, Value::Simple(b"OK".to_vec()), "r{key}");
        }
    }
    assert_eq!(render(&client.call(&["PING"])), "PONG");
}

fn payload_of(client: &mut Client, make: &str) -> Vec<u8> {
    client.call(&["DEL", "k"]);
    client.call(&make.split(' ').collect::<Vec<_>>());
    client.call(&["DUMP", "k"]).as_bytes().expect("it is there").to_vec()
}

/// Behind the name of a command.
const TAILS: &[&str] = &[
    "",
    "k",
    "k -1",
    "k 0",
    "k 1",
    "0",
    "-1",
    "2 k",
    "9223372036854775807 k",
    "18446744073709551616 k",
    "k 9223372036854775807 a",
    "k 2 a",
    "k numkeys 5 a",
    "k STORE",
    "k 0 0 1 m STORE",
    "k BY GET",
    "STREAMS",
    "GROUP g c STREAMS a b c",
    "STREAMS a b c",
    "host 1 KEYS 0 1 KEYS",
    "script 5 a",
    "script -5 a",
    "KEYS KEYS KEYS",
];

/// H81: the keys of requests that are malformed are told or refused, by one reply each.
#[test]
fn h81_keys_of_malformed_requests() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let names = client.call(&["COMMAND", "LIST"]);
    let Value::Array(names) = names else { panic!("a list, not {names:?}") };
    for name in names.iter().map(text) {
        for tail in TAILS {
            let words: Vec<&str> = std::iter::once(&*name)
                .chain(tail.split(' ').filter(|word| !word.is_empty()))
                .collect();
            for asks in [&["COMMAND", "GETKEYS"][..], &["COMMAND", "GETKEYSANDFLAGS"]] {
                let reply = client.call(&[asks, &words].concat());
                let is_told = matches!(&reply, Value::Array(_));
                let is_refused = matches!(&reply, Value::Error(line) if line.starts_with(b"ERR "));
                assert!(is_told || is_refused, "{words:?}: {reply:?}");
            }
            let reply = client.call(&[&["ACL", "DRYRUN", "default"], &words[..]].concat());
            let is_judged = matches!(reply, Value::Simple(_) | Value::Bulk(_) | Value::Error(_));
            assert!(is_judged, "{words:?}: {reply:?}");
        }
    }
    assert_eq!(render(&client.call(&["PING"])), "PONG");
}

/// H84: databases that are named twice, or are none.
#[test]
fn h84_databases_named_twice() {
    let lines = "
        SET k v
        COPY k l DB 1 DB 2
        COPY k l DB 2 DB 1 REPLACE REPLACE
        COPY k k DB 1 DB 0
        COPY k k DB 0
        COPY k k DB 3 REPLACE
        COPY k k DB 3 DB
        COPY k k DB
        COPY k l DB 16
        COPY k l DB -1
        COPY k l DB 18446744073709551617
        COPY k l DB 1 DB 16
        COPY k l DB 16 DB 1
        COPY k l DB x
        SELECT 1
        KEYS *
        SELECT 2
        KEYS *
        SELECT 3
        KEYS *
        SELECT 0
        KEYS *
        MOVE k 0
        MOVE k 16
        SWAPDB 0 16
        SWAPDB 0 0
        KEYS *
    ";
    for oracle in [Oracle::Redis82, Oracle::Valkey91] {
        let [ours, theirs] = oracle.beside(&[]);
        Duel::new(ours.client(), theirs.client(), 0).run_lines(lines);
    }
}

/// H102: clients that others still know of are evicted: subscribers, watchers of keys, of tracked
/// keys, and those that queue.
#[test]
fn h102_evicted_clients_that_others_know() {
    let server = Server::start(&["--maxmemory-clients", "8mb"]);
    let mut admin = server.client();
    check(&mut admin, "> CLIENT NO-EVICT on\nOK");
    let roles: [&[&[&str]]; 5] = [
        &[&["SUBSCRIBE", "c", "d"]],
        &[&["CLIENT", "TRACKING", "ON", "BCAST"]],
        &[&["CLIENT", "TRACKING", "ON"], &["GET", "k"]],
        &[&["MULTI"], &["SET", "queued", "1"]],
        &[&["WATCH", "k"]],
    ];
    for (number, role) in roles.into_iter().enumerate() {
        let mut client = server.client3();
        role.iter().for_each(|words| client.send(words));
        // A request that is not complete, of which too much has come.
        let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 16 << 20);
        let _ = client.try_send_raw(head.as_bytes());
        let _ = client.try_send_raw(&vec![b'x'; 14 << 20]);
        let evicted = i64::try_from(number).expect("a few") + 1;
        eventually("it is evicted", || admin.figure("evicted_clients") == evicted);
        // All that would have been told it.
        for words in
            [&["PUBLISH", "c", "x"][..], &["SET", "k", "1"], &["DEL", "k"], &["CLIENT", "LIST"]]
        {
            let reply = admin.call(words);
            assert!(!matches!(reply, Value::Error(_)), "{words:?}: {reply:?}");
        }
        eventually("nothing is left of it", || admin.figure("connected_clients") == 1);
        for figure in ["pubsub_clients", "tracking_clients", "watching_clients"] {
            assert_eq!(admin.figure(figure), 0, "{role:?}: {figure}");
        }
    }
    check(&mut admin, "> EXISTS queued\n(integer) 0");
}
