//! What is answered is in effect: a client that was killed, unblocked or has quit has nothing and
//! hears of nothing from the reply on, wherever its session lives. Beside Redis 8.2.

use std::collections::BTreeSet;

use proto::value::Value;
use tests::render::render;
use tests::server::{Oracle, eventually};
use tests::{Client, Server};

/// How often each race is run: one in twenty or so was lost before.
const RUNS: usize = 200;

fn each(test: impl Fn(&Server, &mut Client, usize)) {
    for server in &Oracle::Redis82.beside(&["--io-threads", "4"]) {
        let mut watcher = server.client();
        (0..RUNS).for_each(|run| test(server, &mut watcher, run));
    }
}

fn call(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// A client that waits.
fn waits(server: &Server, watcher: &mut Client, line: &str) -> (Client, String) {
    let mut client = server.client();
    let id = client.id();
    client.send(&line.split(' ').collect::<Vec<_>>());
    eventually("the client waits", || call(watcher, "INFO clients").contains("blocked_clients:1"));
    (client, id)
}

/// A client that hears of a channel.
fn hears(server: &Server, channel: &str) -> (Client, String) {
    let mut client = server.client();
    let id = client.id();
    client.call(&["SUBSCRIBE", channel]);
    (client, id)
}

fn none_waits(watcher: &mut Client) {
    eventually("nobody waits", || call(watcher, "INFO clients").contains("blocked_clients:0"));
}

#[test]
fn a_killed_client_is_served_no_more() {
    const CASES: [(&str, &str, &str, &str); 5] = [
        ("BLPOP k 0", "RPUSH k v", "LLEN k", "(integer) 1"),
        ("BLMOVE k other LEFT RIGHT 0", "RPUSH k v", "LLEN k", "(integer) 1"),
        ("BZPOPMIN k 0", "ZADD k 1 v", "ZCARD k", "(integer) 1"),
        ("BZPOPMIN k other 0", "ZADD k 1 v", "ZCARD k", "(integer) 1"),
        ("XREADGROUP GROUP g c BLOCK 0 STREAMS k >", "XADD k 1-1 a b", "XPENDING k g", ""),
    ];
    each(|server, watcher, run| {
        let (wait, write, look, expected) = CASES[run % CASES.len()];
        call(watcher, "DEL k other");
        if wait.starts_with("XREADGROUP") {
            call(watcher, "XGROUP CREATE k g $ MKSTREAM");
        }
        let (mut client, id) = waits(server, watcher, wait);
        assert_eq!(call(watcher, &format!("CLIENT KILL ID {id}")), "(integer) 1");
        call(watcher, write);
        let seen = call(watcher, look);
        let is_right = match expected {
            "" => seen.starts_with("1) (integer) 0"),
            _ => seen == expected,
        };
        assert!(is_right, "{wait}, killed, {write}, {look}: {seen}");
        assert!(client.is_closed(), "{wait}");
        none_waits(watcher);
    });
}

#[test]
fn an_unblocked_client_is_served_no_more() {
    each(|server, watcher, run| {
        call(watcher, "DEL k");
        let (mut client, id) = waits(server, watcher, "BLPOP k 0");
        let reason = ["TIMEOUT", "ERROR"][run % 2];
        let unblock = format!("CLIENT UNBLOCK {id} {reason}");
        assert_eq!(call(watcher, &unblock), "(integer) 1");
        assert_eq!(call(watcher, &unblock), "(integer) 0", "it waits no more");
        assert_eq!(call(watcher, "RPUSH k v"), "(integer) 1");
        assert_eq!(call(watcher, "LLEN k"), "(integer) 1");
        let reply = render(&client.receive());
        let expected = match reason {
            "TIMEOUT" => "(nil)",
            _ => "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK",
        };
        assert_eq!(reply, expected);
        // What ended this wait is not meant for the next.
        assert_eq!(call(&mut client, "BLPOP k 0"), "1) \"k\"\n2) \"v\"");
        none_waits(watcher);
    });
}

/// Both at once: the reply of UNBLOCK and that of the wait tell of the same end.
#[test]
fn unblocked_or_served() {
    each(|server, watcher, _| {
        let (mut client, id) = waits(server, watcher, "BLPOP k 0");
        let mut pusher = server.client();
        pusher.send(&["RPUSH", "k", "v"]);
        let unblocked = call(watcher, &format!("CLIENT UNBLOCK {id}"));
        assert_eq!(pusher.receive(), Value::Integer(1));
        let reply = render(&client.receive());
        let left = call(watcher, "LLEN k");
        match &*unblocked {
            "(integer) 1" => assert_eq!((&*reply, &*left), ("(nil)", "(integer) 1")),
            _ => assert_eq!((&*reply, &*left), ("1) \"k\"\n2) \"v\"", "(integer) 0")),
        }
        call(watcher, "DEL k");
        none_waits(watcher);
    });
}

#[test]
fn a_killed_client_hears_no_more() {
    each(|server, watcher, run| {
        let channel = format!("news-{run}");
        let (mut client, id) = hears(server, &channel);
        let by = [format!("ID {id}"), "TYPE pubsub".to_owned()];
        assert_eq!(call(watcher, &format!("CLIENT KILL {}", by[run % 2])), "(integer) 1");
        let counted = call(watcher, &format!("PUBSUB NUMSUB {channel}"));
        assert_eq!(counted, format!("1) \"{channel}\"\n2) (integer) 0"));
        assert_eq!(call(watcher, &format!("PUBLISH {channel} x")), "(integer) 0");
        assert!(client.is_closed());
    });
}

#[test]
fn a_subscriber_that_has_quit_hears_no_more() {
    each(|server, watcher, run| {
        let channel = format!("news-{run}");
        let (mut client, _) = hears(server, &channel);
        // What was said before is heard before.
        assert_eq!(call(watcher, &format!("PUBLISH {channel} x")), "(integer) 1");
        client.send(&["QUIT"]);
        let heard = format!("1) \"message\"\n2) \"{channel}\"\n3) \"x\"");
        assert_eq!(render(&client.receive()), heard);
        assert_eq!(render(&client.receive()), "OK");
        let counted = call(watcher, &format!("PUBSUB NUMSUB {channel}"));
        assert_eq!(counted, format!("1) \"{channel}\"\n2) (integer) 0"));
        assert!(client.is_closed());
    });
}

/// Two clients that kill each other do not wait for each other.
#[test]
fn clients_may_kill_each_other() {
    each(|server, watcher, _| {
        let mut clients = [server.client(), server.client()];
        let ids: Vec<_> = clients.iter_mut().map(Client::id).collect();
        clients[0].send(&["CLIENT", "KILL", "ID", &ids[1]]);
        clients[1].send(&["CLIENT", "KILL", "ID", &ids[0]]);
        let list = |watcher: &mut Client| {
            let listed = call(watcher, "CLIENT LIST");
            ids.iter().filter(|id| listed.contains(&format!("id={id} "))).count()
        };
        eventually("one of them is gone", || list(watcher) <= 1);
    });
}

/// In a transaction nobody waits; and a client that kills itself, too, has its reply first.
#[test]
fn killed_within_a_transaction_and_with_oneself() {
    for server in &Oracle::Redis82.beside(&["--io-threads", "4"]) {
        let mut watcher = server.client();
        let (mut client, id) = waits(server, &mut watcher, "BLPOP k 0");
        let transaction = ["MULTI", &format!("CLIENT KILL ID {id}"), "RPUSH k v", "LLEN k", "EXEC"];
        let replies = transaction.map(|line| call(&mut watcher, line));
        assert_eq!(replies[4], "1) (integer) 1\n2) (integer) 1\n3) (integer) 1");
        assert!(client.is_closed());
        let mut other = server.client();
        other.id();
        assert_eq!(call(&mut watcher, "CLIENT KILL TYPE normal SKIPME no"), "(integer) 2");
        assert!(watcher.is_closed() && other.is_closed());
    }
}

#[test]
fn time_in_a_script_is_exact_and_stands_still() {
    const SCRIPT: &str = "local a = redis.call('TIME') for i = 1, 100000 do end \
        local b = redis.call('TIME') return {a[1] * 1000000 + a[2], b[1] * 1000000 + b[2]}";
    for server in &Oracle::Redis82.beside(&["--io-threads", "2"]) {
        let mut client = server.client();
        let both = |value: Value| {
            let Value::Array(times) = value else { panic!("{value:?}") };
            let [Value::Integer(first), Value::Integer(second)] = times[..] else {
                panic!("{times:?}")
            };
            assert_eq!(first, second, "one moment for a script");
            first
        };
        let mut times: Vec<_> =
            (0..50).map(|_| both(client.call(&["EVAL", SCRIPT, "0"]))).collect();
        let script =
            client.call(&["SCRIPT", "LOAD", "for i = 1, 5000 do end return redis.call('TIME')[2]"]);
        let sha = render(&script).trim_matches('"').to_owned();
        let calls = vec![vec!["EVALSHA", &*sha, "0"]; 50];
        let pipelined = client.pipeline(&calls);
        let whole = times.iter().filter(|time| *time % 1000 == 0).count();
        assert!(whole < 10, "microseconds are told: {times:?}");
        times.dedup();
        assert_eq!(times.len(), 50, "each script has its own time");
        let ends: BTreeSet<_> = pipelined.iter().map(render).collect();
        assert_eq!(ends.len(), 50, "pipelined ones, too: none is over in a microsecond");
        let requests = ["MULTI", "TIME", "EVAL", "TIME", "EXEC"].map(|word| match word {
            "EVAL" => vec!["EVAL", SCRIPT, "0"],
            word => vec![word],
        });
        let replies = client.pipeline(&requests);
        let Value::Array(results) = &replies[4] else { panic!("{:?}", replies[4]) };
        assert_eq!(results[0], results[2], "one moment for a transaction");
    }
}
