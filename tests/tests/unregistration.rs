//! What clients that are done leave behind at keys is taken off, on whatever way they went, and no
//! client waits for that.
//!
//! Invariant: once nobody waits or watches, INFO counts no key that somebody waits for or watches.

use tests::client::encode;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

/// Does nothing for ever, with its key held.
const ENDLESS: &str = "redis.call('EXISTS', KEYS[1]) while true do end";

/// Keys of a request that runs on another thread for their number alone.
const MANY: usize = 3000;

fn say(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

fn figure(client: &mut Client, name: &str) -> i64 {
    let text = say(client, "INFO everything");
    let start = text.find(name).unwrap_or_else(|| panic!("{name} is missing"));
    let rest = &text[start + name.len() + 1..];
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}

fn nothing_is_left(observer: &mut Client) {
    for name in ["total_blocking_keys", "total_watched_keys"] {
        eventually("nothing is left", || figure(observer, name) == 0);
    }
}

/// Holds the key until the value is dropped.
struct Holder<'a> {
    server: &'a Server,
    runner: Client,
}

impl<'a> Holder<'a> {
    fn of(server: &'a Server, key: &str) -> Self {
        let mut runner = server.client();
        runner.send(&["EVAL", ENDLESS, "1", key]);
        let mut observer = server.client();
        eventually("it runs", || figure(&mut observer, "number_of_cached_scripts") > 0);
        Self { server, runner }
    }

    /// Ends the script that holds the key.
    fn end(mut self) {
        let mut killer = self.server.client();
        eventually("it is killed", || say(&mut killer, "SCRIPT KILL") == "OK");
        self.runner.receive();
    }
}

#[test]
fn a_client_that_goes_while_its_request_runs_elsewhere_stands_nowhere() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut observer = server.client();
    for is_killed in [false, true] {
        for round in 0..8 {
            let mut client = server.client();
            let id = client.id();
            let keys = (0..MANY).map(|index| format!("queue:{round}:{index}"));
            let words: Vec<_> = std::iter::once("BLPOP".to_owned())
                .chain(keys)
                .chain(std::iter::once("0".to_owned()))
                .collect();
            client.send_raw(&encode(&words));
            if is_killed {
                say(&mut observer, &format!("CLIENT KILL ID {id}"));
            }
            drop(client);
        }
        eventually("all are gone", || figure(&mut observer, "connected_clients") == 1);
        nothing_is_left(&mut observer);
        assert_eq!(say(&mut observer, "RPUSH queue:0:0 element"), "(integer) 1");
        assert_eq!(say(&mut observer, "LPOP queue:0:0"), "\"element\"");
    }
}

#[test]
fn whatever_clients_left_at_a_held_key_others_are_told_busy_and_directives_change() {
    let arguments = ["--worker-threads", "4", "--busy-reply-threshold", "100"];
    let server = Server::start(&arguments);
    let mut observer = server.client();
    let watchers: Vec<_> = (0..40)
        .map(|_| {
            let mut client = server.client();
            assert_eq!(say(&mut client, "WATCH held other"), "OK");
            client
        })
        .collect();
    let waiters: Vec<_> = (0..40)
        .map(|_| {
            let mut client = server.client();
            client.send(&["BLPOP", "held", "second", "0"]);
            client
        })
        .collect();
    eventually("all wait", || figure(&mut observer, "blocked_clients") == 40);
    let holder = Holder::of(&server, "held");
    drop((watchers, waiters));
    eventually("all are gone", || figure(&mut observer, "connected_clients") == 2);
    assert_eq!(say(&mut observer, "CONFIG SET worker-threads 1"), "OK");
    let mut client = server.client();
    for line in ["SAVE", "BGSAVE"] {
        assert!(say(&mut client, line).contains("BUSY"), "{line}");
    }
    assert_eq!(say(&mut client, "CONFIG SET hz 11"), "OK");
    assert_eq!(say(&mut client, "SET elsewhere 1"), "OK");
    holder.end();
    nothing_is_left(&mut observer);
    assert_eq!(say(&mut client, "SAVE"), "OK");
}

#[test]
fn a_client_that_is_done_with_many_keys_leaves_them_all() {
    let server = Server::start(&["--worker-threads", "2"]);
    let (mut observer, mut client, mut pusher) =
        (server.client(), server.client(), server.client());
    let keys: Vec<_> = (0..MANY).map(|index| format!("queue:{index}")).collect();
    let names: Vec<_> = keys.iter().map(String::as_str).collect();
    for way in ["served", "timed out", "unblocked", "watched", "discarded"] {
        let id = client.id();
        let timeout = if way == "timed out" { "0.01" } else { "0" };
        match way {
            "watched" | "discarded" => {
                client.call(&[&["WATCH"], &names[..]].concat());
                if way == "discarded" {
                    say(&mut client, "MULTI");
                }
                let end = if way == "discarded" { "DISCARD" } else { "UNWATCH" };
                assert_eq!(say(&mut client, end), "OK");
            }
            _ => {
                client.send(&[&["BLPOP"], &names[..], &[timeout]].concat());
                if way == "served" {
                    eventually("it waits", || figure(&mut observer, "blocked_clients") == 1);
                    say(&mut pusher, "RPUSH queue:7 element");
                } else if way == "unblocked" {
                    let line = format!("CLIENT UNBLOCK {id}");
                    eventually("it is", || say(&mut pusher, &line) == "(integer) 1");
                }
                client.receive();
            }
        }
        nothing_is_left(&mut observer);
    }
}
