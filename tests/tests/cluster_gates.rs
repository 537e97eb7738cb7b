//! Whatever way a request goes, it asks whether its keys are served here: requests of any size,
//! those that leave their worker, those of memcached's clients, databases within transactions and
//! scripts.
//!
//! Invariant: no order of the two clients of a test lets a write be acknowledged by a node that has
//! lost its slot.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::thread;
use std::time::Duration;

use tests::cluster::{Program, ask, ask_by, await_whole, create, id, meet, state};
use tests::memcached::Connection;
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server};

use crate::cluster_moves::{Moving, SLOT};

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);

/// A command and so many keys of the slot of `foo`, with values if it takes them.
fn many(words: &[&str], keys: usize, has_values: bool) -> Vec<String> {
    let mut command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for key in 0..keys {
        command.push(format!("{{foo}}{key}"));
        command.extend(has_values.then(|| "v".to_owned()));
    }
    command
}

/// BLPOP of so many keys of the slot.
fn wait_for(keys: usize) -> Vec<String> {
    [many(&["BLPOP"], keys, false), vec!["0".to_owned()]].concat()
}

fn call(client: &mut Client, command: &[String]) -> String {
    let reply = render(&client.call(command));
    reply.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn requests_of_any_size_ask_for_keys_that_are_on_the_move() {
    const SIZES: [usize; 5] = [1, 60, 100, 1_400, 5_000];
    let moving = Moving::start([APUS, APUS, APUS]);
    let (from, to) = (moving.from(), &moving.nodes[moving.to]);
    assert_eq!(ask(to, &format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", id(from))), "OK");
    assert_eq!(ask(from, &format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", id(to))), "OK");
    let asks = format!("(error) ASK {SLOT} {}", tests::cluster::address(to));
    let again = "(error) TRYAGAIN Multiple keys request during rehashing of slot";
    let commands: [(&[&str], bool); 6] = [
        (&["MGET"], false),
        (&["DEL"], false),
        (&["EXISTS"], false),
        (&["MSET"], true),
        (&["WATCH"], false),
        (&["SUNIONSTORE"], false),
    ];
    for (words, has_values) in commands {
        for size in SIZES {
            let command = many(words, size.max(2), has_values);
            assert_eq!(call(&mut from.client(), &command), asks, "{words:?} of {size}");
            let mut client = to.client();
            assert_eq!(ask_by(&mut client, "ASKING"), "OK");
            assert_eq!(call(&mut client, &command), again, "{words:?} of {size} behind ASKING");
        }
    }
    [from, to].into_iter().for_each(|node| assert_eq!(ask(node, "DBSIZE"), "(integer) 0"));
}

/// A large request leaves its worker. The slot leaves beside it, at one moment or another.
#[test]
fn what_left_its_worker_is_not_acknowledged_behind_its_slot() {
    let moving = Moving::start([APUS, APUS, APUS]);
    let (from, to) = (moving.from(), &moving.nodes[moving.to]);
    let gives = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(to));
    let takes_back = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(from));
    for delay in [0, 5, 20, 60, 150, 300] {
        let (mut writing, mut reading) = (from.client(), from.client());
        writing.send(&many(&["MSET"], 150_000, true));
        reading.send(&wait_for(100_000));
        thread::sleep(Duration::from_millis(delay));
        let given = ask(from, &gives);
        let written = render(&writing.receive());
        // What Redis says of a slot with keys.
        let kept = given.contains("still hold keys");
        assert!(kept || given == "OK", "{given}");
        assert!(kept == (written == "OK"), "{delay}: SETSLOT {given}, MSET {written}");
        if kept {
            assert_eq!(ask(from, "FLUSHALL"), "OK");
            assert_eq!(ask(from, &gives), "OK");
        }
        let served = render(&reading.receive());
        assert!(served == moving.moved() || served.contains("WRONGTYPE"), "{delay}: {served}");
        assert_eq!(ask(from, "DBSIZE"), "(integer) 0");
        assert_eq!(ask(from, &takes_back), "OK");
    }
}

/// The requests of one way from the gates to the locks, sent together.
type Way = (&'static str, &'static [&'static [&'static str]]);

const WAYS: [Way; 6] = [
    ("a write", &[&["SET", "{foo}", "v"]]),
    ("several keys", &[&["MSET", "{foo}1", "v", "{foo}2", "v"]]),
    ("a transaction", &[&["MULTI"], &["SET", "{foo}", "v"], &["SET", "{foo}1", "v"], &["EXEC"]]),
    ("a script", &[&["EVAL", "return redis.call('SET',KEYS[1],'v')", "1", "{foo}"]]),
    ("a direct script", &[&["EVAL", "return redis.call('SET','{foo}','v')", "0"]]),
    ("a lock batch", &[&["SET", "{foo}", "v"], &["SET", "{foo}1", "v"], &["SET", "{foo}2", "v"]]),
];

/// Sends a way, and gives its replies.
fn run_way(node: &Server, (_, requests): Way) -> String {
    let requests: Vec<Vec<&str>> = requests.iter().map(|request| request.to_vec()).collect();
    let replies = node.client().pipeline(&requests);
    replies.iter().map(render).collect::<Vec<_>>().join(" ")
}

/// What the gates let pass before the table of slots changes writes nothing behind that, whatever
/// way it goes from there to its locks. `order` ends that the slot is this node's alone, and `back`
/// undoes that; `{to}` and `{from}` are the nodes.
fn nothing_is_written_behind(order: &str, back: &str) {
    const ROUNDS: usize = 4;
    let ports = [free_port(), free_port(), free_port()];
    let nodes = ports.map(|port| {
        APUS.node(&["--memcached-port", &port.to_string(), "--enable-debug-command", "local"])
    });
    create(&nodes.each_ref(), 0);
    let moving = Moving::of(nodes);
    let (from, to) = (moving.from(), &moving.nodes[moving.to]);
    let named = |line: &str| line.replace("{to}", &id(to)).replace("{from}", &id(from));
    let (order, back) = (named(order), named(back));
    assert_eq!(ask(from, "DEBUG FAILPOINT GATED 30"), "(integer) 0");
    let beside = |name: &str, run: &(dyn Fn() -> String + Sync)| {
        let mut came_between = 0;
        // The connection that orders may be of the same worker, and then comes behind.
        for _ in 0..10 * ROUNDS {
            let (reply, ordered, present) = thread::scope(|scope| {
                let running = scope.spawn(run);
                thread::sleep(Duration::from_millis(10));
                let (ordered, present) = (ask(from, &order), ask(from, "DBSIZE"));
                (running.join().unwrap(), ordered, present)
            });
            let is_kept = ordered.contains("still hold keys") || present != "(integer) 0";
            assert!(is_kept || ordered == "OK", "{ordered}");
            let later = ask(from, "DBSIZE");
            assert!(is_kept || later == present, "{name}: {later} behind the order, {reply}");
            came_between += usize::from(!is_kept);
            assert_eq!(ask(from, "FLUSHALL"), "OK");
            assert_eq!(ask(from, &back), "OK");
            if came_between == ROUNDS {
                return;
            }
        }
        panic!("{name}: the order never came between gates and locks");
    };
    for way in WAYS {
        beside(way.0, &|| run_way(from, way));
    }
    let large = many(&["MSET"], 20_000, true);
    beside("a large request", &|| call(&mut from.client(), &large));
    let port = ports[moving.from];
    beside("an item", &|| Connection::to(port).line("set {foo} 0 0 1\r\nx\r\n"));
}

#[test]
fn what_passed_the_gates_writes_nothing_when_its_slot_has_left() {
    let order = format!("CLUSTER SETSLOT {SLOT} NODE {{to}}");
    nothing_is_written_behind(&order, &format!("CLUSTER SETSLOT {SLOT} NODE {{from}}"));
}

#[test]
fn what_passed_the_gates_is_sent_after_its_keys_when_its_slot_was_opened() {
    let order = format!("CLUSTER SETSLOT {SLOT} MIGRATING {{to}}");
    nothing_is_written_behind(&order, &format!("CLUSTER SETSLOT {SLOT} STABLE"));
}

/// A client may begin to wait at the moment at which the slot leaves.
#[test]
fn a_wait_that_begins_as_its_slot_leaves_ends() {
    let moving = Moving::start([APUS, APUS, APUS]);
    let (from, to) = (moving.from(), &moving.nodes[moving.to]);
    let gives = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(to));
    let takes_back = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(from));
    let mut steering = from.client();
    for round in 0..60 {
        let mut waiting: Vec<Client> = (0..4).map(|_| from.client()).collect();
        for (number, client) in waiting.iter_mut().enumerate() {
            let keys = if number == 3 { 1_400 } else { 1 };
            client.send(&wait_for(keys));
        }
        assert_eq!(ask_by(&mut steering, &gives), "OK", "{round}");
        for client in &mut waiting {
            assert_eq!(render(&client.receive()), moving.moved(), "{round}");
        }
        assert_eq!(ask_by(&mut steering, &takes_back), "OK", "{round}");
    }
}

/// The clients of memcached know no cluster: what is served elsewhere is refused with its address.
#[test]
fn items_of_slots_that_are_served_elsewhere_are_refused() {
    let port = free_port().to_string();
    let node = APUS.node(&["--memcached-port", &port]);
    let mut connection = Connection::to(port.parse().unwrap());
    let mut line = |request: &str| connection.line(request).trim_end().to_owned();
    let set = "set foo 0 0 1\r\nx\r\n";
    assert_eq!(line(set), "SERVER_ERROR CLUSTERDOWN Hash slot not served");
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 12181 12183 16383"), "OK");
    let other = APUS.node(&[]);
    assert_eq!(ask(&other, &format!("CLUSTER ADDSLOTS {SLOT}")), "OK");
    tests::cluster::meet(&node, &other);
    tests::cluster::await_whole(&[&node, &other], 2);
    let moved = format!("SERVER_ERROR MOVED {SLOT} {}", tests::cluster::address(&other));
    assert_eq!(line(set), moved);
    assert_eq!(line("get bar foo\r\n"), moved);
    assert_eq!(line("set bar 0 0 1\r\nx\r\n"), "STORED");
    assert_eq!(ask(&node, "GET bar"), "\"x\"");
    assert_eq!(ask(&node, &format!("CLUSTER SETSLOT 5061 MIGRATING {}", id(&other))), "OK");
    let again = "SERVER_ERROR TRYAGAIN Multiple keys request during rehashing of slot";
    assert_eq!(line("get bar\r\n"), again);
    assert_eq!(ask(&node, "DBSIZE"), "(integer) 1");
}

/// A script reaches no key that its client could not, whether KEYS names it or not.
#[test]
fn keys_that_a_script_did_not_name_are_asked_for_like_others() {
    const READ: &str = "EVAL \"return redis.pcall('GET', '{foo}1')\" 0";
    const WRITE: &str = "EVAL \"return redis.pcall('SET', '{foo}1', 'x')\" 0";
    const IN_EXEC: [&str; 3] = ["MULTI", WRITE, "EXEC"];
    let answers = [APUS, Program::Stock(Oracle::Redis82)].map(|program| {
        let moving = Moving::start([program; 3]);
        let (from, to) = (moving.from(), &moving.nodes[moving.to]);
        let mut told = Vec::new();
        let mut note = |node: &Server, lines: &[&str]| {
            let mut client = node.client();
            for line in lines {
                let answer = ask_by(&mut client, line);
                // Which script it was stands behind the error.
                let words = answer.split(" script: ").next().unwrap_or_default().to_owned();
                told.push(format!("{lines:?}: {words}"));
            }
        };
        note(from, &[WRITE, READ]);
        ask(from, "DEL {foo}1");
        ask(to, &format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", id(from)));
        ask(from, &format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", id(to)));
        note(from, &[WRITE, READ]);
        note(from, &IN_EXEC);
        note(to, &[WRITE, "ASKING", WRITE, WRITE, "ASKING", READ]);
        note(to, &["READONLY", READ]);
        ask(from, &format!("CLUSTER DELSLOTS {SLOT}"));
        note(from, &[READ]);
        told
    });
    assert_eq!(answers[0], answers[1]);
}

/// There is one database in a cluster, whatever `databases` says.
#[test]
fn no_way_leads_to_a_database_that_a_cluster_has_not() {
    let nodes = [APUS, Program::Stock(Oracle::Redis82)].map(|program| {
        let node = program.node(&["--appendonly", "yes", "--appendfsync", "always"]);
        assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        tests::cluster::await_whole(&[&node], 1);
        node
    });
    const LINES: &[&str] = &[
        "SELECT 0",
        "SELECT 1",
        "SELECT x",
        "MULTI",
        "SET foo 1",
        "SELECT 1",
        "SELECT 2",
        "SET foo 2",
        "EXEC",
        "EVAL \"return redis.pcall('select', 1)\" 0",
        "EVAL \"redis.pcall('select', 2) return redis.call('set', KEYS[1], 3)\" 1 foo",
        "EVAL \"return redis.pcall('select', 0)\" 0",
        "GET foo",
        "DBSIZE",
    ];
    let answers = nodes.each_ref().map(|node| {
        let mut client = node.client();
        LINES.iter().map(|line| ask_by(&mut client, line)).collect::<Vec<String>>()
    });
    for (line, (ours, theirs)) in LINES.iter().zip(answers[0].iter().zip(&answers[1])) {
        assert_eq!(ours, theirs, "{line}");
    }
    // What the node wrote down can be read again.
    let mut node = nodes.into_iter().next().unwrap();
    node.kill();
    node.restart();
    tests::cluster::await_whole(&[&node], 1);
    assert_eq!(ask(&node, "GET foo"), "\"3\"");
}

#[test]
fn items_are_kept_in_a_database_that_a_cluster_has() {
    let port = free_port().to_string();
    let words = ["--cluster-enabled", "yes", "--memcached-port", &port];
    let (_, refused) = Server::refuses(&[&words[..], &["--memcached-database", "1"]].concat());
    assert!(refused.contains("memcached-database 1: there are 1 databases"), "{refused}");
}

/// Keys that a pattern makes may be on other nodes: what such a SORT would read here is not the
/// answer.
#[test]
fn sort_names_keys_of_its_own_slot_or_none() {
    const PATTERNS: &[&str] = &[
        "x", "w_*", "{t}w_*", "?{t}*", "{t}?*", "{t?}*", "w_*{t}", "{t*}", "{}*", "{t}[a]*",
        "\\\\{t}*", "{t", "{t*", "{t}", "t", "t*", "{t}h*->f", "x->f", "h*->f", "a{t}*", "a{}{t}*",
        "[{t}*", "}{t}*", "{{t}*", "#", "{t}a*{u}", "{u}{t}*", "\"\"",
    ];
    const LINES: &[&str] = &[
        "SORT {t}none GET w*",
        "SORT {t}text GET w*",
        "SORT {t}list BY w* LIMIT 0 0",
        "SORT {t}list GET w* LIMIT x y",
        "SORT {t}list LIMIT x 1 GET w*",
        "SORT {t}list GET w* BOGUS",
        "SORT {t}list GET w* BY w*",
        "SORT {t}list BY w* BY nosort",
        "SORT {t}list GET w* STORE {t}d",
        "SORT {t}list BY {t}w_* GET # GET {t}w_* STORE {t}d",
        "LRANGE {t}d 0 -1",
        "SORT_RO {t}list GET w*",
        "MULTI",
        "SORT {t}list GET w*",
        "EXEC",
    ];
    let of_patterns = PATTERNS
        .iter()
        .flat_map(|pattern| ["BY", "GET"].map(|word| format!("SORT {{t}}list {word} {pattern}")));
    let lines: Vec<String> =
        of_patterns.chain(LINES.iter().map(|line| (*line).to_owned())).collect();
    let [apus, redis] = [APUS, REDIS82].map(|program| {
        let node = program.node(&[]);
        assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        eventually("the slots are served", || state(&node, "cluster_state") == "ok");
        let mut client = node.client();
        for line in ["RPUSH {t}list 2 1 3", "SET {t}text x", "MSET {t}w_1 c {t}w_2 b {t}w_3 a"] {
            ask_by(&mut client, line);
        }
        lines.iter().map(|line| (line.clone(), ask_by(&mut client, line))).collect::<Vec<_>>()
    });
    for (ours, theirs) in apus.iter().zip(&redis) {
        assert_eq!(ours, theirs);
    }
}

/// A client that reads from a replica is sent to the primary with whatever may write.
#[test]
fn programs_that_may_write_are_sent_from_a_replica_to_its_primary() {
    const LINES: &[&str] = &[
        "READONLY",
        "GET foo",
        "EVAL \"#!lua\nreturn redis.call('GET', KEYS[1])\" 1 foo",
        "EVAL \"#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])\" 1 foo",
        "EVAL_RO \"return redis.call('GET', KEYS[1])\" 1 foo",
        "EVAL \"return redis.call('GET', KEYS[1])\" 1 foo",
        "EVAL \"#!lua\nreturn 1\" 0",
        "FCALL f 1 foo",
        "FCALL_RO f 1 foo",
        "FCALL g 1 foo",
        "FCALL_RO g 1 foo",
        "MULTI",
        "EVAL \"#!lua\nreturn redis.call('GET', KEYS[1])\" 1 foo",
        "EXEC",
        "MULTI",
        "FCALL g 1 foo",
        "EXEC",
        "READWRITE",
        "FCALL g 1 foo",
    ];
    const LIBRARY: &str = "#!lua name=library\n\
        redis.register_function('f', function(keys) return redis.call('GET', keys[1]) end)\n\
        redis.register_function{function_name='g', flags={'no-writes'}, \
        callback=function(keys) return redis.call('GET', keys[1]) end}";
    let [apus, redis] = [APUS, REDIS82].map(|program| {
        let nodes = [program.node(&[]), program.node(&[])];
        assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        meet(&nodes[1], &nodes[0]);
        await_whole(&nodes.each_ref(), 2);
        assert_eq!(ask(&nodes[1], &format!("CLUSTER REPLICATE {}", id(&nodes[0]))), "OK");
        nodes[0].client().call(&["FUNCTION", "LOAD", LIBRARY]);
        nodes[0].client().call(&["SET", "foo", "value"]);
        let mut client = nodes[1].client();
        assert_eq!(ask_by(&mut client, "READONLY"), "OK");
        eventually("the data have come", || {
            ask_by(&mut client, "GET foo") == "\"value\""
                && ask_by(&mut client, "FUNCTION LIST").contains("library")
        });
        let port = nodes[0].port().to_string();
        let said = |line: &&str| ask_by(&mut client, line).replace(&port, "PORT");
        LINES.iter().map(said).collect::<Vec<_>>()
    });
    for (index, (ours, theirs)) in apus.iter().zip(&redis).enumerate() {
        assert_eq!(ours, theirs, "{}", LINES[index]);
    }
    assert!(apus[2].contains("MOVED"), "{}", apus[2]);
}
