//! WATCH in races: no change is missed however close it comes, and no two clients that watch both
//! act.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto::value::Value;
use tests::render::{render, text};
use tests::watching::{is_aborted, say, servers};
use tests::{Client, Oracle, Server};

/// How many races of each kind Apus runs.
const RACES: usize = 2_000;
/// How many a real server runs, to see that the tests ask for what is there.
const OF_ORACLES: usize = 200;
/// How long a fault may stay unseen: its chance to show is good in every round.
const PATIENCE: Duration = Duration::from_secs(60);

fn races(server: &Server) -> usize {
    if server.is_oracle() {
        return OF_ORACLES;
    }
    let asked = std::env::var("APUS_RACES").ok();
    asked.map_or(RACES, |number| number.parse().expect("APUS_RACES is a number"))
}

#[test]
fn counters_lose_nothing() {
    for server in servers() {
        const CLIENTS: usize = 8;
        let each = races(&server);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = server.client();
                    (0..each).for_each(|_| increment(&mut client));
                });
            }
        });
        let sum = text(&server.client().call(&["GET", "counter"]));
        assert_eq!(sum, (CLIENTS * each).to_string());
    }
}

/// Adds one, however often it takes.
fn increment(client: &mut Client) {
    loop {
        say(client, "WATCH counter");
        let reply = client.call(&["GET", "counter"]);
        let number = if reply == Value::Null { "0".to_owned() } else { text(&reply) };
        let next = number.parse::<u64>().expect("only numbers were set") + 1;
        say(client, &format!("MULTI; SET counter {next}"));
        if !is_aborted(&client.call(&["EXEC"])) {
            return;
        }
    }
}

#[test]
fn two_watchers_do_not_both_act() {
    for server in servers() {
        let mut clients = ["a", "b"].map(|own| (own, server.client()));
        let mut judge = server.client();
        for round in 0..races(&server) {
            say(&mut judge, "MSET a on b on");
            thread::scope(|scope| {
                for (own, client) in &mut clients {
                    scope.spawn(|| switch_off(client, own));
                }
            });
            let left = say(&mut judge, "MGET a b");
            assert!(render(&left).contains("\"on\""), "round {round}: both are off");
        }
    }
}

/// Switches one off if both are on.
fn switch_off(client: &mut Client, own: &str) {
    say(client, "WATCH a b");
    let Value::Array(both) = client.call(&["MGET", "a", "b"]) else { panic!("MGET") };
    if both.iter().all(|one| text(one) == "on") {
        say(client, &format!("MULTI; SET {own} off; EXEC"));
    } else {
        say(client, "UNWATCH");
    }
}

/// A way to change `k` again and again, and how `k` is read. `#` stands for a new number.
const RACED: &[(&str, &str)] = &[
    ("SET k #", "GET k"),
    ("MULTI; SET k #; SET j #; EXEC", "GET k"),
    ("EVAL \"redis.call('SET', KEYS[1], ARGV[1])\" 1 k #", "GET k"),
    ("EVAL \"redis.call('DEL', 'k') redis.call('SET', 'k', ARGV[1])\" 0 #", "GET k"),
    ("SET k # PX 1", "GET k"),
    ("DEL k; SET k #", "GET k"),
    ("FLUSHALL; SET k #", "GET k"),
    ("FLUSHDB ASYNC; SET k #", "GET k"),
    ("SELECT 1; SET k #; SWAPDB 0 1; SELECT 0", "GET k"),
    ("SET o #; RENAME o k", "GET k"),
    ("SET o #; COPY o k REPLACE", "GET k"),
    ("SELECT 1; SET k #; SELECT 0; DEL k; SELECT 1; MOVE k 0; SELECT 0", "GET k"),
    ("MSET j # k # i #", "GET k"),
    ("RPUSH k #; LTRIM k -3 -1", "LRANGE k 0 -1"),
    ("RPUSH o #; LMOVE o k LEFT RIGHT; LTRIM k -3 -1", "LRANGE k 0 -1"),
    ("HSET k f #", "HGETALL k"),
    ("DEL k; SADD o #; SUNIONSTORE k o; DEL o", "SMEMBERS k"),
    ("ZADD k # a", "ZRANGE k 0 -1 WITHSCORES"),
];

#[test]
fn no_change_is_missed_in_a_race() {
    for server in servers() {
        for (change, read) in RACED {
            let change = |client: &mut Client, number: usize| {
                say(client, &change.replace('#', &number.to_string()));
            };
            let missed = race(&server, &[&change], "WATCH k", read, races(&server));
            assert_eq!(missed, None);
        }
    }
}

#[test]
fn no_service_is_missed_in_a_race() {
    for server in servers() {
        let push = |client: &mut Client, number: usize| {
            say(client, &format!("RPUSH source {number}; LTRIM k -3 -1"));
        };
        let wait = |client: &mut Client, _: usize| {
            say(client, "BLMOVE source k LEFT RIGHT 0.01");
        };
        let read = "LRANGE k 0 -1";
        let missed = race(&server, &[&push, &wait, &wait], "WATCH k", read, races(&server));
        assert_eq!(missed, None);
    }
}

/// A client that does not watch sees that another client was there; else these races would prove
/// nothing.
#[test]
fn a_client_that_does_not_watch_misses_changes() {
    let server = Oracle::redis70();
    let change = |client: &mut Client, number: usize| {
        say(client, &format!("SET k {number}"));
    };
    let begin = Instant::now();
    let is_missed = |()| race(&server, &[&change], "PING", "GET k", 1_000).is_some();
    let mut rounds = std::iter::repeat(()).take_while(|()| begin.elapsed() < PATIENCE);
    assert!(rounds.any(is_missed));
}

type Change<'a> = &'a (dyn Fn(&mut Client, usize) + Sync);

/// Watches, reads, and reads again in a transaction, so often, while others change what is read;
/// the first reads that differ although EXEC went through.
fn race(
    server: &Server,
    changes: &[Change],
    watch: &str,
    read: &str,
    attempts: usize,
) -> Option<String> {
    say(&mut server.client(), "FLUSHALL");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for change in changes {
            let over = &over;
            scope.spawn(move || {
                let mut client = server.client();
                (1..).take_while(|_| !over.load(Ordering::Relaxed)).for_each(|number| {
                    change(&mut client, number);
                });
            });
        }
        let watcher = scope.spawn(|| {
            let mut client = server.client();
            (0..attempts).find_map(|_| attempt(&mut client, watch, read))
        });
        let result = watcher.join();
        over.store(true, Ordering::Relaxed);
        result.expect("the watcher reports instead of panicking")
    })
}

/// What was seen before and within a transaction that went through, if it is not the same.
fn attempt(client: &mut Client, watch: &str, read: &str) -> Option<String> {
    say(client, watch);
    let before = say(client, read);
    match say(client, &format!("MULTI; {read}; EXEC")) {
        Value::Array(replies) if replies[0] != before => {
            Some(format!("{read}: {} and then {}", render(&before), render(&replies[0])))
        }
        Value::Array(_) | Value::NullArray | Value::Null => None,
        other => panic!("EXEC: {other:?}"),
    }
}
