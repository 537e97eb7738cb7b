//! A client that waits for several keys, which one transaction makes ready, is served by the order
//! of its own request, whichever came first, as in Redis 8.2 and Valkey 9.1. A client that reads
//! streams gets all.

use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

struct Case {
    waits: &'static str,
    /// What one transaction does.
    steps: &'static [&'static str],
    /// Whether Redis answers with an error where what an earlier key holds is no longer what its
    /// client waits for: here that key counts as not ready, as in Redis 7.0.
    is_served_here: Option<&'static str>,
}

const fn case(waits: &'static str, steps: &'static [&'static str]) -> Case {
    Case { waits, steps, is_served_here: None }
}

const LISTS: &[&str] = &["RPUSH new n", "RPUSH own o"];
const SETS: &[&str] = &["ZADD new 1 n", "ZADD own 1 o"];
const STREAMS: &[&str] = &["XADD new 1-1 f n", "XADD own 1-1 f o"];
const THREE: &[&str] = &["XADD new 1-1 f n", "XADD third 1-1 f t", "XADD own 1-1 f o"];

const CASES: &[Case] = &[
    case("BLPOP own new 0", LISTS),
    case("BRPOP own new 0", LISTS),
    case("BLPOP none own own new 0", LISTS),
    case("BLPOP new own 0", LISTS),
    case("BLMPOP 0 2 own new LEFT COUNT 2", LISTS),
    case("BZPOPMIN own new 0", SETS),
    case("BZPOPMAX own new 0", SETS),
    case("BZMPOP 0 2 own new MIN", SETS),
    case("XREAD BLOCK 0 STREAMS own new $ $", STREAMS),
    case("XREAD COUNT 1 BLOCK 0 STREAMS own none new third $ $ $ $", THREE),
    case("XREADGROUP GROUP g c BLOCK 0 STREAMS own new > >", STREAMS),
    case("XREADGROUP GROUP g c COUNT 2 NOACK BLOCK 0 STREAMS third own new > > >", THREE),
    // What came goes again.
    case("BLPOP own new 0", &["RPUSH new n", "RPUSH own o", "DEL new"]),
    case("BLPOP own new 0", &["RPUSH new n", "RPUSH own o", "DEL own"]),
    case("XREADGROUP GROUP g c BLOCK 0 STREAMS own new > >", &["XADD new 1-1 f n", "DEL own"]),
    case("XREADGROUP GROUP g c BLOCK 0 STREAMS own new > >", &["XADD new 1-1 f n", "SET own o"]),
    Case {
        waits: "BLPOP own new 0",
        steps: &["RPUSH new n", "SET own o"],
        is_served_here: Some("1) \"new\"\n2) \"n\""),
    },
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn wait(server: &Server, waits: &str, nth: &str) -> Client {
    let (mut client, mut waiter) = (server.client(), server.client());
    waiter.send(&words(waits));
    eventually("it waits", || client.info("blocked_clients") == nth);
    waiter
}

/// What the waiter gets, and what is left.
fn seen(server: &Server, case: &Case, protocol: &str) -> (String, Vec<String>) {
    let mut client = server.client();
    client.call(&["FLUSHALL"]);
    for key in ["own", "new", "third"].into_iter().filter(|_| case.waits.contains("GROUP")) {
        client.call(&["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"]);
    }
    let mut waiter = server.client();
    waiter.call(&["HELLO", protocol]);
    waiter.send(&words(case.waits));
    eventually("it waits", || client.info("blocked_clients") == "1");
    client.call(&["MULTI"]);
    case.steps.iter().for_each(|step| _ = client.call(&words(step)));
    client.call(&["EXEC"]);
    let reply = render(&waiter.receive());
    let left = ["own", "new", "third"].map(|key| {
        let kind = render(&client.call(&["TYPE", key]));
        let pending = render(&client.call(&["XPENDING", key, "g"]));
        format!("{key} {kind} {}", pending.lines().next().unwrap_or_default())
    });
    (reply, left.into())
}

#[test]
fn a_waiter_for_several_keys_is_served_by_the_order_of_its_arguments() {
    let [ours, theirs] = Oracle::Redis82.beside(&["--save", ""]);
    for case in CASES {
        for protocol in ["2", "3"] {
            let got = seen(&ours, case, protocol);
            let Some(here) = case.is_served_here else {
                assert_eq!(got, seen(&theirs, case, protocol), "{}, {:?}", case.waits, case.steps);
                continue;
            };
            assert_eq!(got.0, here);
            assert!(seen(&theirs, case, protocol).0.contains("WRONGTYPE"));
        }
    }
}

#[test]
fn a_waiter_served_from_another_key_leaves_the_first_to_those_behind() {
    for server in [Oracle::Redis82.start(&[]), Oracle::Valkey91.start(&[]), Server::start(&[])] {
        let mut client = server.client();
        let mut first = wait(&server, "BLPOP own new 0", "1");
        let mut of_own = wait(&server, "BLPOP own 0", "2");
        let mut of_new = wait(&server, "BLPOP new 0", "3");
        let script = "redis.call('RPUSH', KEYS[1], 'n') redis.call('RPUSH', KEYS[2], 'o')";
        client.call(&["EVAL", script, "2", "new", "own"]);
        assert_eq!(render(&first.receive()), "1) \"own\"\n2) \"o\"");
        assert_eq!(render(&of_new.receive()), "1) \"new\"\n2) \"n\"");
        assert!(of_own.is_silent());
        client.call(&["RPUSH", "own", "later"]);
        assert_eq!(render(&of_own.receive()), "1) \"own\"\n2) \"later\"");
    }
}

#[test]
fn what_was_served_by_its_own_order_is_in_the_log() {
    let mut server = Server::start(&["--save", "", "--appendonly", "yes"]);
    for case in CASES {
        let (_, left) = seen(&server, case, "2");
        let before = render(&server.client().call(&["DEBUG", "DIGEST"]));
        server.kill();
        server.restart();
        let again = render(&server.client().call(&["DEBUG", "DIGEST"]));
        assert_eq!(before, again, "{}: {left:?}", case.waits);
    }
}
