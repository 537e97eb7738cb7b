//! Blocking commands: a client that waits is served in order, once, and by the command that makes
//! its key ready; what has no waiter any more stays where it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proto::value::Value;
use tests::client::Arrival;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Server};

/// A server whose blocked clients are counted.
struct World {
    server: Server,
    watcher: Client,
}

impl World {
    fn new() -> Self {
        let server = Server::start(&["--worker-threads", "4"]);
        let watcher = server.client();
        Self { server, watcher }
    }

    fn blocked(&mut self) -> usize {
        let info = render(&self.watcher.call(&["INFO", "clients"]));
        let (_, after) = info.split_once("blocked_clients:").expect("INFO tells of the blocked");
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("it is a number")
    }

    /// A request of a client of its own, which is seen to wait.
    fn waits(&mut self, words: &[&str]) -> Client {
        let mut client = self.server.client();
        self.waits_in(&mut client, words);
        client
    }

    fn waits_in(&mut self, client: &mut Client, words: &[&str]) {
        let before = self.blocked();
        client.send(words);
        eventually("the client waits", || self.blocked() > before);
    }

    fn call(&mut self, words: &[&str]) -> String {
        render(&self.watcher.call(words))
    }

    fn all_are_served(&mut self) {
        eventually("nobody waits any more", || self.blocked() == 0);
    }
}

fn popped(key: &str, element: &str) -> String {
    format!("1) \"{key}\"\n2) \"{element}\"")
}

fn receives(client: &mut Client, expected: &str) {
    assert_eq!(render(&client.receive()), expected);
}

/// Whether a client got no reply by now. What others were told before may be on its way, so a
/// request of its own must be answered first.
fn is_silent(client: &mut Client) -> bool {
    matches!(client.arrival(Duration::from_millis(50)), Ok(Arrival::Silence))
}

#[test]
fn the_client_that_comes_first_is_served_first() {
    let mut world = World::new();
    let mut clients: Vec<_> = (0..5).map(|_| world.waits(&["BLPOP", "k", "0"])).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let element = number.to_string();
        assert_eq!(world.call(&["RPUSH", "k", &element]), "(integer) 1");
        receives(client, &popped("k", &element));
    }
    assert_eq!(world.call(&["EXISTS", "k"]), "(integer) 0");
}

#[test]
fn several_elements_serve_several_in_order() {
    let mut world = World::new();
    let mut first = world.waits(&["BLPOP", "k", "0"]);
    let mut second = world.waits(&["BRPOP", "k", "0"]);
    let mut third = world.waits(&["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "2"]);
    let mut fourth = world.waits(&["BLMOVE", "k", "to", "LEFT", "LEFT", "0"]);
    assert_eq!(world.call(&["RPUSH", "k", "a", "b", "c", "d", "e", "f"]), "(integer) 6");
    receives(&mut first, &popped("k", "a"));
    receives(&mut second, &popped("k", "f"));
    receives(&mut third, "1) \"k\"\n2) 1) \"b\"\n   2) \"c\"");
    receives(&mut fourth, "\"d\"");
    assert_eq!(world.call(&["LRANGE", "k", "0", "-1"]), "1) \"e\"");
    assert_eq!(world.call(&["LRANGE", "to", "0", "-1"]), "1) \"d\"");
}

#[test]
fn a_timeout_may_be_a_fraction_of_a_second() {
    let server = Server::start(&[]);
    let requests: [&[&str]; 6] = [
        &["BLPOP", "k", "0.01"],
        &["BRPOP", "k", "j", "0.0001"],
        &["BLMPOP", "0.02", "2", "k", "j", "RIGHT"],
        &["BLMOVE", "k", "j", "LEFT", "RIGHT", "0.01"],
        &["BRPOPLPUSH", "k", "j", "0.01"],
        &["BLMOVEM", "k", "j", "LEFT", "RIGHT", "0.01", "EXACTLY", "2", "OBO"],
    ];
    let (mut two, mut three) = (server.client(), server.client3());
    for request in requests {
        assert_eq!(two.call(request), Value::NullArray, "{request:?}");
        assert_eq!(three.call(request), Value::Null, "{request:?}");
    }
    let began = Instant::now();
    two.call(&["BLPOP", "k", "0.2"]);
    assert!(began.elapsed() >= Duration::from_millis(200), "it waits as long as it is told");
}

#[test]
fn a_client_that_waits_for_several_keys_gets_one_element() {
    let mut world = World::new();
    let mut client = world.waits(&["BLPOP", "a", "b", "c", "b", "0"]);
    world.call(&["RPUSH", "b", "1"]);
    receives(&mut client, &popped("b", "1"));
    for key in ["a", "b", "c"] {
        assert_eq!(world.call(&["RPUSH", key, "2"]), "(integer) 1");
        assert_eq!(world.call(&["LLEN", key]), "(integer) 1", "{key}");
    }
    assert_eq!(render(&client.call(&["BLPOP", "c", "a", "0"])), popped("c", "2"));
}

#[test]
fn a_client_that_waits_for_two_thousand_keys_is_served_by_each() {
    let mut world = World::new();
    let names: Vec<_> = (0..2000).map(|number| format!("key:{number}")).collect();
    let mut words = vec!["BLPOP"];
    words.extend(names.iter().map(String::as_str));
    words.push("0");
    for key in ["key:0", "key:1234", "key:1999"] {
        let mut client = world.waits(&words);
        world.call(&["RPUSH", key, "x"]);
        receives(&mut client, &popped(key, "x"));
        world.all_are_served();
        assert_eq!(render(&client.call(&["PING"])), "PONG");
    }
    assert_eq!(world.call(&["DBSIZE"]), "(integer) 0");
}

/// Four wait for many keys each: half of them are their neighbours', too.
#[test]
fn very_many_awaited_keys_come_at_once_and_their_queues_are_left_behind() {
    const KEYS: usize = 3000;
    let mut world = World::new();
    let keys = |first: usize| (first..first + KEYS).map(|n| format!("k{n}")).collect::<Vec<_>>();
    let waits = |first: usize| [vec!["BLPOP".into()], keys(first), vec!["0".into()]].concat();
    let mut clients: Vec<_> = (0..4)
        .map(|n| {
            let request = waits(n * KEYS / 2);
            world.waits(&request.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    // Backwards, so that the last key of all comes first, which is of the last client alone.
    let fill = "for n = 5 * 1500 - 1, 0, -1 do redis.call('RPUSH', 'k' .. n, n) end return 'done'";
    assert_eq!(world.call(&["SELECT", "1"]), "OK");
    assert_eq!(world.call(&["EVAL", fill, "0"]), "\"done\"");
    assert_eq!(world.call(&["SWAPDB", "0", "1"]), "OK");
    world.all_are_served();
    for client in &mut clients {
        let Value::Array(popped) = client.receive() else { panic!("a key and an element") };
        assert_eq!(format!("k{}", text(&popped[1])), text(&popped[0]));
    }
    world.call(&["SELECT", "0"]);
    assert_eq!(world.call(&["DBSIZE"]), format!("(integer) {}", 5 * 1500 - 4));
    // A script that sets them serves each client by the first of its own, as in Redis 8.2.
    world.call(&["FLUSHALL"]);
    for (n, client) in clients.iter_mut().enumerate() {
        let request = waits(n * KEYS / 2);
        world.waits_in(client, &request.iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(world.call(&["EVAL", fill, "0"]), "\"done\"");
    world.all_are_served();
    let replies: Vec<_> = clients.iter_mut().map(|client| render(&client.receive())).collect();
    let first = [0, 1500, 3000, 4500].map(|n| popped(&format!("k{n}"), &n.to_string()));
    assert_eq!(replies, first);
    eventually("the queues are left", || {
        world.call(&["INFO", "clients"]).contains("total_blocking_keys:0")
    });
}

#[test]
fn unblocked_is_as_timed_out_or_an_error() {
    let mut world = World::new();
    let mut client = world.server.client();
    let id = render(&client.call(&["CLIENT", "ID"])).replace("(integer) ", "");
    assert_eq!(world.call(&["CLIENT", "UNBLOCK", &id]), "(integer) 0");
    let cases: [(&[&str], Value); 3] = [
        (&["CLIENT", "UNBLOCK", &id], Value::NullArray),
        (&["CLIENT", "UNBLOCK", &id, "TIMEOUT"], Value::NullArray),
        (
            &["CLIENT", "UNBLOCK", &id, "ERROR"],
            Value::Error((*b"UNBLOCKED client unblocked via CLIENT UNBLOCK").into()),
        ),
    ];
    for (request, expected) in cases {
        world.waits_in(&mut client, &["BLPOP", "k", "0"]);
        assert_eq!(world.call(request), "(integer) 1");
        assert_eq!(client.receive(), expected);
        assert_eq!(world.call(&["RPUSH", "k", "x"]), "(integer) 1");
        assert_eq!(world.call(&["LPOP", "k"]), "\"x\"", "nobody waits any more");
    }
}

#[test]
fn an_element_is_not_lost_to_a_client_that_is_gone() {
    let mut world = World::new();
    let gone = world.waits(&["BLPOP", "k", "other", "0"]);
    let mut stays = world.waits(&["BLPOP", "k", "0"]);
    drop(gone);
    eventually("one is gone", || world.blocked() == 1);
    world.call(&["RPUSH", "k", "a", "b"]);
    receives(&mut stays, &popped("k", "a"));
    assert_eq!(world.call(&["LRANGE", "k", "0", "-1"]), "1) \"b\"");
    world.call(&["RPUSH", "other", "c"]);
    assert_eq!(world.call(&["LLEN", "other"]), "(integer) 1");
}

#[test]
fn a_killed_client_takes_nothing() {
    let mut world = World::new();
    let mut client = world.server.client();
    let id = render(&client.call(&["CLIENT", "ID"])).replace("(integer) ", "");
    world.waits_in(&mut client, &["BLPOP", "k", "0"]);
    assert_eq!(world.call(&["CLIENT", "KILL", "ID", &id]), "(integer) 1");
    world.all_are_served();
    world.call(&["RPUSH", "k", "a"]);
    assert_eq!(world.call(&["LLEN", "k"]), "(integer) 1");
}

#[test]
fn a_waiter_that_is_served_serves_the_next() {
    let mut world = World::new();
    for round in 0..20 {
        let key = |step: usize| format!("chain:{round}:{step}");
        // Each step is in another partition, and waiters come in any order.
        let mut chain = Vec::new();
        for step in [3, 1, 4, 0, 2] {
            let (from, to) = (key(step), key(step + 1));
            chain.push(world.waits(&["BLMOVE", &from, &to, "LEFT", "RIGHT", "0"]));
        }
        let mut last = world.waits(&["BLPOP", &key(5), "0"]);
        assert_eq!(world.call(&["RPUSH", &key(0), "x"]), "(integer) 1");
        // The pusher's reply comes after all of it.
        for step in 0..=5 {
            assert_eq!(world.call(&["EXISTS", &key(step)]), "(integer) 0");
        }
        chain.iter_mut().for_each(|client| receives(client, "\"x\""));
        receives(&mut last, &popped(&key(5), "x"));
    }
}

#[test]
fn two_who_feed_each_other_end() {
    let mut world = World::new();
    let mut there = world.waits(&["BLMOVE", "a", "b", "LEFT", "RIGHT", "0"]);
    let mut back = world.waits(&["BRPOPLPUSH", "b", "a", "0"]);
    let mut around = world.waits(&["BLMOVE", "a", "a", "LEFT", "RIGHT", "0"]);
    world.call(&["RPUSH", "a", "x"]);
    for client in [&mut there, &mut back, &mut around] {
        receives(client, "\"x\"");
    }
    assert_eq!(world.call(&["LRANGE", "a", "0", "-1"]), "1) \"x\"");
}

#[test]
fn a_key_of_another_type_serves_nobody() {
    let mut world = World::new();
    let mut client = world.waits(&["BLPOP", "k", "0"]);
    world.call(&["SET", "k", "string"]);
    world.call(&["APPEND", "k", "more"]);
    assert!(is_silent(&mut client) && world.blocked() == 1);
    world.call(&["DEL", "k"]);
    world.call(&["RPUSH", "k", "x"]);
    receives(&mut client, &popped("k", "x"));
}

#[test]
fn what_cannot_be_put_at_its_destination_stays() {
    let mut world = World::new();
    let mut client = world.waits(&["BLMOVE", "k", "to", "LEFT", "RIGHT", "0"]);
    world.call(&["SET", "to", "string"]);
    assert_eq!(world.call(&["RPUSH", "k", "x"]), "(integer) 1");
    let reply = render(&client.receive());
    assert!(reply.contains("WRONGTYPE"), "{reply}");
    assert_eq!(world.call(&["LRANGE", "k", "0", "-1"]), "1) \"x\"");
}

#[test]
fn a_list_that_comes_from_elsewhere_serves_too() {
    let mut world = World::new();
    let ways: [&[&[&str]]; 5] = [
        &[&["RPUSH", "old", "x"], &["RENAME", "old", "k"]],
        &[&["RPUSH", "old", "x"], &["RENAMENX", "old", "k"]],
        &[&["RPUSH", "old", "x"], &["COPY", "old", "k"], &["DEL", "old"]],
        &[&["SELECT", "3"], &["RPUSH", "k", "x"], &["MOVE", "k", "0"]],
        &[&["SELECT", "3"], &["RPUSH", "k", "x"], &["SWAPDB", "0", "3"], &["SELECT", "0"]],
    ];
    for way in ways {
        let mut client = world.waits(&["BLPOP", "k", "0"]);
        for request in way {
            let reply = world.call(request);
            assert!(!reply.starts_with("(error)"), "{request:?}: {reply}");
        }
        receives(&mut client, &popped("k", "x"));
        world.call(&["SELECT", "0"]);
        assert_eq!(world.call(&["DBSIZE"]), "(integer) 0", "{way:?}");
    }
}

#[test]
fn a_client_that_waits_in_another_database_is_served_there() {
    let mut world = World::new();
    let mut client = world.server.client();
    client.call(&["SELECT", "5"]);
    world.waits_in(&mut client, &["BLMOVE", "k", "to", "LEFT", "LEFT", "0"]);
    world.call(&["RPUSH", "k", "here"]);
    assert_eq!(world.call(&["LLEN", "k"]), "(integer) 1");
    world.call(&["SELECT", "5"]);
    world.call(&["RPUSH", "k", "there"]);
    receives(&mut client, "\"there\"");
    assert_eq!(world.call(&["LRANGE", "to", "0", "-1"]), "1) \"there\"");
    world.call(&["SELECT", "0"]);
    assert_eq!(world.call(&["LRANGE", "k", "0", "-1"]), "1) \"here\"");
    assert_eq!(world.call(&["EXISTS", "to"]), "(integer) 0");
}

#[test]
fn each_waiter_is_answered_in_its_own_protocol() {
    let mut world = World::new();
    let mut three = world.server.client3();
    let mut two = world.server.client();
    let request = ["BLMOVEM", "k", "to", "LEFT", "LEFT", "0", "COUNT", "2", "OBO"];
    world.waits_in(&mut three, &request);
    world.waits_in(&mut two, &request);
    world.call(&["RPUSH", "k", "a", "b", "c", "d"]);
    receives(&mut three, "1) \"b\"\n2) \"a\"");
    receives(&mut two, "1) \"d\"\n2) \"c\"");
}

#[test]
fn requests_behind_a_waiting_one_wait_too() {
    let mut world = World::new();
    let mut client = world.server.client();
    world.waits_in(&mut client, &["BLPOP", "k", "0"]);
    client.send(&["RPUSH", "done", "1"]);
    client.send(&["BLPOP", "k", "0"]);
    client.send(&["ECHO", "last"]);
    assert_eq!(world.call(&["EXISTS", "done"]), "(integer) 0");
    world.call(&["RPUSH", "k", "a"]);
    receives(&mut client, &popped("k", "a"));
    receives(&mut client, "(integer) 1");
    eventually("it waits again", || world.blocked() == 1);
    world.call(&["RPUSH", "k", "b"]);
    receives(&mut client, &popped("k", "b"));
    receives(&mut client, "\"last\"");
}

#[test]
fn a_request_that_is_completed_behind_a_waiting_one_is_executed() {
    let mut world = World::new();
    let mut client = world.server.client();
    client.send_raw(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n*2\r\n$4\r\nECHO\r\n$4\r\nla");
    eventually("the client waits", || world.blocked() == 1);
    client.send_raw(b"te\r\n");
    for _ in 0..10 {
        world.call(&["PING"]);
    }
    world.call(&["RPUSH", "k", "a"]);
    receives(&mut client, &popped("k", "a"));
    receives(&mut client, "\"late\"");
}

#[test]
fn a_waiting_client_is_shown_as_such() {
    let mut world = World::new();
    let mut client = world.server.client();
    let id = render(&client.call(&["CLIENT", "ID"])).replace("(integer) ", "");
    world.waits_in(&mut client, &["BLPOP", "k", "0"]);
    assert_eq!(world.blocked(), 1);
    let shown = world.call(&["CLIENT", "LIST", "ID", &id]);
    assert!(shown.contains(" flags=b ") && shown.contains(" cmd=blpop "), "{shown}");
    world.call(&["RPUSH", "k", "x"]);
    client.receive();
    assert_eq!(world.blocked(), 0);
    let shown = world.call(&["CLIENT", "LIST", "ID", &id]);
    assert!(shown.contains(" flags=N "), "{shown}");
}

#[test]
fn a_client_that_needs_many_waits_on_while_one_that_needs_less_is_served() {
    let mut world = World::new();
    let request = ["BLMOVEM", "k", "to", "LEFT", "RIGHT", "0", "EXACTLY", "3", "BULK"];
    let mut three = world.waits(&request);
    world.call(&["RPUSH", "k", "a"]);
    world.call(&["RPUSH", "k", "b"]);
    assert!(is_silent(&mut three) && world.blocked() == 1);
    world.call(&["RPUSH", "k", "c", "d"]);
    receives(&mut three, "1) \"a\"\n2) \"b\"\n3) \"c\"");
    assert_eq!(world.call(&["LRANGE", "k", "0", "-1"]), "1) \"d\"");
    let mut again = world.waits(&request);
    // Behind the client that needs three waits one that is content with less.
    let mut one = world.server.client();
    assert_eq!(render(&one.call(&["BLPOP", "k", "0"])), popped("k", "d"));
    world.waits_in(&mut one, &["BLPOP", "k", "0"]);
    world.call(&["RPUSH", "k", "e"]);
    receives(&mut one, &popped("k", "e"));
    world.call(&["RPUSH", "k", "f", "g", "h"]);
    receives(&mut again, "1) \"f\"\n2) \"g\"\n3) \"h\"");
}

#[test]
fn the_number_of_workers_changes_under_those_who_wait() {
    let mut world = World::new();
    let mut clients = Vec::new();
    for number in 0..24 {
        clients.push(world.waits(&["BLPOP", "k", &format!("k:{number}"), "0"]));
    }
    for (round, workers) in ["1", "3", "2", "4"].into_iter().enumerate() {
        assert_eq!(world.call(&["CONFIG", "SET", "worker-threads", workers]), "OK");
        let served = &mut clients[round * 6..round * 6 + 6];
        for (number, client) in served.iter_mut().enumerate() {
            let element = format!("{round}:{number}");
            world.call(&["RPUSH", "k", &element]);
            receives(client, &popped("k", &element));
        }
    }
    world.all_are_served();
    assert_eq!(world.call(&["DBSIZE"]), "(integer) 0");
}

/// What the stress leaves to be counted.
#[derive(Default)]
struct Tally {
    stops: AtomicBool,
    pushed: AtomicUsize,
}

const PAIRS: usize = 50;

#[test]
fn each_element_is_delivered_once_and_none_is_lost() {
    let world = World::new();
    let tally = Tally::default();
    let mut got: HashMap<String, usize> = HashMap::new();
    std::thread::scope(|scope| {
        let poppers: Vec<_> = (0..PAIRS)
            .map(|number| {
                scope.spawn({
                    let (tally, client) = (&tally, world.server.client());
                    move || pop_until_stopped(client, number, tally)
                })
            })
            .collect();
        let pushers: Vec<_> = (0..PAIRS)
            .map(|number| {
                scope.spawn({
                    let (tally, client) = (&tally, world.server.client());
                    move || push_for_a_while(client, number, tally)
                })
            })
            .collect();
        pushers.into_iter().for_each(|pusher| pusher.join().expect("no pusher fails"));
        tally.stops.store(true, Ordering::SeqCst);
        for popper in poppers {
            for element in popper.join().expect("no popper fails") {
                *got.entry(element).or_default() += 1;
            }
        }
    });
    let mut client = world.server.client();
    for key in ["q:0", "q:1", "q:2", "moved"] {
        let rest = client.call(&["LRANGE", key, "0", "-1"]);
        let Value::Array(rest) = rest else { panic!("{rest:?}") };
        for element in rest {
            let element = element.as_bytes().expect("elements are bytes");
            *got.entry(String::from_utf8_lossy(element).into_owned()).or_default() += 1;
        }
    }
    let pushed = tally.pushed.load(Ordering::SeqCst);
    assert!(pushed > PAIRS, "the pushers pushed");
    assert_eq!(got.len(), pushed, "none is lost");
    assert!(got.values().all(|times| *times == 1), "none came twice");
}

/// Three in four pop; one in four moves elements to a list where others wait for them.
fn pop_until_stopped(mut client: Client, number: usize, tally: &Tally) -> Vec<String> {
    let key = format!("q:{}", number % 3);
    let request: Vec<&str> = match number % 4 {
        0 => vec!["BLMOVE", &key, "moved", "LEFT", "RIGHT", "0.05"],
        1 => vec!["BLPOP", "moved", "q:2", "q:0", "0.05"],
        2 => vec!["BRPOP", &key, "0.05"],
        _ => vec!["BLMPOP", "0.05", "2", "moved", &key, "LEFT", "COUNT", "3"],
    };
    let mut got = Vec::new();
    loop {
        let stops = tally.stops.load(Ordering::SeqCst);
        match client.call(&request) {
            // Nothing came any more after the last push.
            Value::NullArray if stops => return got,
            Value::NullArray => {}
            Value::Array(reply) => match &reply[1] {
                Value::Array(elements) => got.extend(elements.iter().map(text)),
                element => got.push(text(element)),
            },
            Value::Bulk(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn push_for_a_while(mut client: Client, number: usize, tally: &Tally) {
    let key = format!("q:{}", number % 3);
    let until = Instant::now() + Duration::from_secs(3);
    let mut count = 0;
    while Instant::now() < until {
        let elements: Vec<_> =
            (0..1 + count % 3).map(|part| format!("{number}:{count}:{part}")).collect();
        let mut words = vec![if count % 2 == 0 { "RPUSH" } else { "LPUSH" }, &key];
        words.extend(elements.iter().map(String::as_str));
        assert!(matches!(client.call(&words), Value::Integer(_)));
        tally.pushed.fetch_add(elements.len(), Ordering::SeqCst);
        count += 1;
        std::thread::sleep(Duration::from_micros(500));
    }
}
