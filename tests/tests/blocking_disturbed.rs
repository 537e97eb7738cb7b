//! Blocking commands beside what else goes on: clients evicted as they are served, saves, rewrites,
//! databases that change places, clients unblocked, workers that come and go. Each element is
//! delivered once or still there, and everybody is answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::Random;
use proto::value::Value;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// Pushes two elements that are more than the kernel takes for a client that does not read, and two
/// others. The client that asks for it sends little and gets little, and so stays.
const PUSH: &str = "
    local large = string.rep('x', 32 * 1024 * 1024)
    return redis.call('RPUSH', KEYS[1], large, large, 'small', 'left')";

fn figure(client: &mut Client, section: &str, name: &str) -> u64 {
    let info = text(&client.call(&["INFO", section]));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("INFO tells {name}"))
}

/// H100: the same push serves clients whose replies get them evicted, and one behind them.
#[test]
fn a_client_that_is_evicted_as_it_is_served_takes_nobody_along() {
    for server in [Oracle::Redis82.start(&[]), Server::start(&["--worker-threads", "4"])] {
        let mut pusher = server.client();
        pusher.call(&["CONFIG", "SET", "maxmemory-clients", "8mb"]);
        let mut waits = |words: &[&str]| {
            let before = figure(&mut pusher, "clients", "blocked_clients");
            let mut client = server.client();
            client.send(words);
            eventually("the client waits", || {
                figure(&mut pusher, "clients", "blocked_clients") > before
            });
            client
        };
        let mut greedy =
            [waits(&["BLPOP", "k", "0"]), waits(&["BLMOVE", "k", "to", "LEFT", "LEFT", "0"])];
        let mut patient = waits(&["BLPOP", "other", "k", "0"]);
        let pushed = pusher.call(&["EVAL", PUSH, "1", "k"]);
        assert_eq!(pushed, Value::Integer(4));
        assert_eq!(render(&patient.receive()), "1) \"k\"\n2) \"small\"");
        for client in &mut greedy {
            eventually("who does not read is closed", || client.is_closed());
        }
        assert_eq!(figure(&mut pusher, "stats", "evicted_clients"), 2);
        assert_eq!(figure(&mut pusher, "clients", "blocked_clients"), 0);
        assert_eq!(render(&pusher.call(&["LRANGE", "k", "0", "-1"])), "1) \"left\"");
        assert_eq!(render(&pusher.call(&["LLEN", "to"])), "(integer) 1");
        assert_eq!(render(&patient.call(&["BLPOP", "k", "0"])), "1) \"k\"\n2) \"left\"");
    }
}

const DATABASES: usize = 3;
const MOVERS: usize = 15;
const PUSHERS: usize = 4;
/// What each pusher pushes at least.
const ELEMENTS: usize = 400;
/// How many waiters are sent away at least.
const UNBLOCKED: usize = 20;

/// What goes on meanwhile, each by a client of its own, over and over again.
const DISTURBANCES: [&[&str]; 4] = [
    &["BGSAVE", "INFO persistence", "BGREWRITEAOF", "SAVE"],
    &["SWAPDB 0 1", "CLIENT LIST", "SWAPDB 2 1", "INFO everything"],
    &["CONFIG SET worker-threads 2", "PING", "CONFIG SET worker-threads 5", "PING"],
    &["SELECT 9", "SET x y", "KEYS *", "FLUSHDB", "SCAN 0", "RANDOMKEY"],
];

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    unblocked: AtomicUsize,
}

/// H105: blocking commands in several databases, in chains, beside all of that.
#[test]
fn blocking_clients_go_on_beside_disturbances_and_lose_no_element() {
    let server = Server::start(&["--worker-threads", "4", "--appendonly", "yes"]);
    let shared = Shared::default();
    let mut movers: Vec<Client> = (0..MOVERS).map(|_| server.client()).collect();
    let ids: Vec<String> = movers.iter_mut().map(Client::id).collect();
    let (mut pushed, mut found) = (0, BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        let shared = &shared;
        let numbered = movers.into_iter().enumerate();
        let movers: Vec<_> = numbered
            .map(|(number, client)| scope.spawn(move || move_on(client, number, shared)))
            .collect();
        for requests in DISTURBANCES {
            let client = server.client();
            scope.spawn(move || disturb(client, requests, shared));
        }
        let client = server.client();
        scope.spawn(move || unblock(client, &ids, shared));
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|number| {
                let client = server.client();
                scope.spawn(move || push(client, number, shared))
            })
            .collect();
        let counts = pushers.into_iter().map(|pusher| pusher.join().expect("no pusher fails"));
        pushed = counts.sum();
        shared.stops.store(true, Ordering::SeqCst);
        for mover in movers {
            for element in mover.join().expect("no mover fails") {
                *found.entry(element).or_default() += 1;
            }
        }
    });
    let mut client = server.client();
    for database in 0..DATABASES {
        client.call(&["SELECT", &database.to_string()]);
        for key in ["a", "b", "c"] {
            for element in elements(&client.call(&["LRANGE", key, "0", "-1"])) {
                *found.entry(element).or_default() += 1;
            }
        }
    }
    assert_eq!(found.len(), pushed, "none is lost");
    assert!(found.values().all(|times| *times == 1), "none came twice");
    assert_eq!(figure(&mut client, "clients", "blocked_clients"), 0);
}

/// Hands elements on from list to list, or takes them for good, and returns those it took.
fn move_on(mut client: Client, number: usize, shared: &Shared) -> Vec<String> {
    client.call(&["SELECT", &(number % DATABASES).to_string()]);
    let (takes, request): (bool, &[&str]) = match number / DATABASES {
        0 => (false, &["BLMOVE", "a", "b", "LEFT", "RIGHT", "0.05"]),
        1 => (false, &["BLMOVEM", "b", "c", "LEFT", "RIGHT", "0.05", "COUNT", "3", "BULK"]),
        2 => (false, &["BRPOPLPUSH", "a", "b", "0.05"]),
        3 => (true, &["BLPOP", "c", "a", "0.05"]),
        _ => (true, &["BLMPOP", "0.05", "2", "c", "b", "LEFT", "COUNT", "2"]),
    };
    let mut taken = Vec::new();
    loop {
        let stops = shared.stops.load(Ordering::SeqCst);
        match client.call(request) {
            Value::NullArray if stops => return taken,
            Value::NullArray => {}
            Value::Error(text) => assert!(text.starts_with(b"UNBLOCKED"), "{text:?}"),
            Value::Array(reply) if takes => taken.extend(elements(&reply[1])),
            Value::Array(_) | Value::Bulk(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The texts in a reply of one or several.
fn elements(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(items) => items.iter().map(text).collect(),
        item => vec![text(item)],
    }
}

/// Pushes to any database until enough were pushed and enough waiters sent away; how many.
fn push(mut client: Client, number: usize, shared: &Shared) -> usize {
    let mut random = Random::from_seed(number as u64);
    let mut count = 0;
    while count < ELEMENTS || shared.unblocked.load(Ordering::SeqCst) < UNBLOCKED {
        let database = random.below(DATABASES as u64).to_string();
        client.call(&["SELECT", &database]);
        let element = format!("{number}:{count}");
        assert!(matches!(client.call(&["RPUSH", "a", &element]), Value::Integer(_)));
        count += 1;
    }
    count
}

/// Sends the requests in turn, the last round after the last push; some are refused for another
/// that is under way.
fn disturb(mut client: Client, requests: &[&str], shared: &Shared) {
    loop {
        let stops = shared.stops.load(Ordering::SeqCst);
        for request in requests {
            let words: Vec<&str> = request.split(' ').collect();
            client.call(&words);
        }
        if stops {
            return;
        }
    }
}

/// Sends waiters away, as after their time or with an error.
fn unblock(mut client: Client, ids: &[String], shared: &Shared) {
    let reasons = ["TIMEOUT", "ERROR"].iter().cycle();
    for (id, reason) in ids.iter().cycle().zip(reasons) {
        if shared.stops.load(Ordering::SeqCst) {
            return;
        }
        if client.call(&["CLIENT", "UNBLOCK", id, reason]) == Value::Integer(1) {
            shared.unblocked.fetch_add(1, Ordering::SeqCst);
        }
    }
}
