//! What is told of clients, and what they are judged by: keys that they wait for, memory that
//! others keep for them, limits that hold though nothing more happens.

use proto::value::Value;
use tests::client::field;
use tests::render::text;
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Oracle, Server};

/// So many names a client holds, each of so many bytes.
const NAMES: usize = 2000;
const NAME_BYTES: usize = 100;

fn line_of(client: &mut Client, id: &str) -> String {
    text(&client.call(&["CLIENT", "LIST", "ID", id]))
}

fn figure(client: &mut Client, section: &str, name: &str) -> u64 {
    let report = text(&client.call(&["INFO", section]));
    let value = report.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    value.unwrap_or_else(|| panic!("no {name}")).trim().parse().expect("a number")
}

fn names() -> Vec<String> {
    (0..NAMES).map(|index| format!("{index:0NAME_BYTES$}")).collect()
}

/// A client that sends a command with all names, and behind them these words.
fn holder(server: &Server, head: &[&str], each: &[&str], tail: &[&str]) -> (Client, String) {
    let mut client = if head[0] == "CLIENT" { server.client3() } else { server.client() };
    let id = client.id();
    let names = names();
    let named = names.iter().flat_map(|name| each.iter().copied().chain([name.as_str()]));
    let words: Vec<&str> = head.iter().copied().chain(named).chain(tail.iter().copied()).collect();
    client.send(&words);
    (client, id)
}

#[test]
fn what_is_kept_for_a_client_is_its_memory() {
    let server = Server::start(&[]);
    let mut observer = server.client();
    for (head, each, tail) in [
        (&["WATCH"][..], &[][..], &[][..]),
        (&["SUBSCRIBE"], &[], &[]),
        (&["PSUBSCRIBE"], &[], &[]),
        (&["SSUBSCRIBE"], &[], &[]),
        (&["BLPOP"], &[], &["0"]),
        (&["CLIENT", "TRACKING", "ON", "BCAST"], &["PREFIX"], &[]),
    ] {
        let (_client, id) = holder(&server, head, each, tail);
        eventually("what it holds is in its memory", || {
            let line = line_of(&mut observer, &id);
            let total: usize = field(&line, "tot-mem").parse().expect("a number");
            // Buffers of the request alone are gone by then.
            field(&line, "qbuf") == "0" && total >= NAMES * NAME_BYTES
        });
    }
}

#[test]
fn what_was_kept_is_given_back() {
    let server = Server::start(&[]);
    let mut observer = server.client();
    for head in ["WATCH", "SUBSCRIBE", "BLPOP"] {
        let mut used = || figure(&mut observer, "memory", "used_memory");
        let before = used();
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let mut client = server.client();
                let keys = (0..20_000).map(|index| format!("{number}:{index}"));
                let tail = if head == "BLPOP" { vec!["0".to_owned()] } else { Vec::new() };
                let words: Vec<_> = [head.to_owned()].into_iter().chain(keys).chain(tail).collect();
                client.send(&words);
                client
            })
            .collect();
        eventually("they are kept", || used() > before + 6_000_000);
        drop(clients);
        eventually("they are given back", || used() < before + 2_000_000);
    }
}

#[test]
fn keys_that_are_waited_for_are_counted() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let mut observer = server.client();
        let mut counts = || {
            ["total_blocking_keys", "total_blocking_keys_on_nokey"]
                .map(|name| figure(&mut observer, "clients", name))
        };
        assert_eq!(counts(), [0, 0]);
        say(&mut server.client(), "XGROUP CREATE s g $ MKSTREAM; XGROUP CREATE t g $ MKSTREAM");
        let waiters = [
            "BLPOP a b 0",
            "BLPOP b c 0",
            "BZPOPMIN z 0",
            "XREAD BLOCK 0 STREAMS s $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >",
            "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
        ];
        let waiters = waiters.map(|line| {
            let mut client = server.client();
            client.send(&line.split(' ').collect::<Vec<_>>());
            client
        });
        eventually("all wait", || counts() == [6, 2]);
        let mut pusher = server.client();
        say(&mut pusher, "RPUSH b 1 2; XADD t 1-1 a b");
        eventually("some were served", || counts() == [2, 1]);
        drop(waiters);
        eventually("nobody waits", || counts() == [0, 0]);
    }
}

#[test]
fn the_table_of_copies_is_never_seen_above_its_limit() {
    let server = Server::start(&[]);
    let (mut reader, mut other) = (server.client3(), server.client());
    say(&mut reader, "CLIENT TRACKING ON");
    for index in 0..200 {
        say(&mut reader, &format!("GET key{index}"));
    }
    assert_eq!(figure(&mut other, "stats", "tracking_total_keys"), 200);
    say(&mut other, "CONFIG SET tracking-table-max-keys 50");
    assert!(figure(&mut other, "stats", "tracking_total_keys") <= 50);
    for index in 0..200 {
        reader.send(&["GET", &format!("more{index}")]);
        while matches!(reader.receive(), Value::Push(_)) {}
    }
    assert!(figure(&mut other, "stats", "tracking_total_keys") <= 50);
}

#[test]
fn a_soft_limit_ends_a_client_though_nothing_more_comes() {
    for is_lowered in [false, true] {
        for server in [Server::start(&[]), Oracle::redis82()] {
            let (mut observer, mut subscriber) = (server.client(), server.client());
            let id = subscriber.id();
            let limit = |soft: &str| format!("CONFIG SET client-output-buffer-limit \"{soft}\"");
            let strict = limit("pubsub 0 100000 1");
            say(&mut observer, &if is_lowered { limit("pubsub 0 0 0") } else { strict.clone() });
            say(&mut subscriber, "SUBSCRIBE news");
            // More than what the kernel takes for a client that does not read.
            let message = "x".repeat(1 << 20);
            for _ in 0..16 {
                observer.call(&["PUBLISH", "news", &message]);
            }
            if is_lowered {
                assert!(!line_of(&mut observer, &id).is_empty());
                say(&mut observer, &strict);
            }
            eventually("it is closed", || line_of(&mut observer, &id).is_empty());
        }
    }
}

#[test]
fn a_soft_limit_ends_a_client_whose_worker_retires_meanwhile() {
    let server = Server::start(&["--worker-threads", "4"]);
    let mut observer = server.client();
    say(&mut observer, "CONFIG SET client-output-buffer-limit \"pubsub 0 100000 1\"");
    let mut subscribers: Vec<_> = (0..8).map(|_| server.client()).collect();
    let ids: Vec<_> = subscribers.iter_mut().map(Client::id).collect();
    for subscriber in &mut subscribers {
        say(subscriber, "SUBSCRIBE news");
    }
    let message = "x".repeat(1 << 20);
    for _ in 0..16 {
        observer.call(&["PUBLISH", "news", &message]);
    }
    say(&mut observer, "CONFIG SET worker-threads 1");
    eventually("all are closed", || ids.iter().all(|id| line_of(&mut observer, id).is_empty()));
}

#[test]
fn a_client_that_tracks_and_does_not_read_is_closed_as_a_subscriber_is() {
    let server = Server::start(&[]);
    let (mut observer, mut tracker) = (server.client(), server.client3());
    let id = tracker.id();
    say(&mut observer, "CONFIG SET client-output-buffer-limit \"pubsub 4mb 0 0\"");
    say(&mut tracker, "CLIENT TRACKING ON BCAST");
    let key = "k".repeat(1 << 16);
    eventually("it is closed", || {
        observer.pipeline(&vec![vec!["SET", &key, "1"]; 64]);
        line_of(&mut observer, &id).is_empty()
    });
}

#[test]
fn a_request_alone_can_be_too_much() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut observer, mut client) = (server.client(), server.client());
        say(&mut observer, "CONFIG SET maxmemory-clients 10mb");
        let value = "x".repeat(10 << 20);
        // The client may be closed before all of it was taken.
        let _ = client.try_call(&["MSET", "k", &value]);
        eventually("it is evicted", || figure(&mut observer, "stats", "evicted_clients") == 1);
    }
}

#[test]
fn commands_of_scripts_are_commands_of_their_client() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut observer, mut client) = (server.client(), server.client());
        let id = client.id();
        let script =
            "for i = 1, 10 do redis.call('SET', KEYS[1], i) end return redis.call('GET', KEYS[1])";
        client.call(&["EVAL", script, "1", "k"]);
        client.call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"]);
        let line = line_of(&mut observer, &id);
        assert_eq!(field(&line, "tot-cmds"), "15", "{line}");
    }
}
