//! CLUSTER SLOT-STATS beside the real servers.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, await_whole};
use tests::{Client, Oracle, Server};

const APUS: Program = Program::Apus;
const PEERS: [Program; 2] = [Program::Stock(Oracle::Redis82), Program::Stock(Oracle::Valkey91)];

fn lone(program: Program, is_on: &str) -> Server {
    let node = program.node(&["--cluster-slot-stats-enabled", is_on]);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    await_whole(&[&node], 1);
    node
}

/// Requests of all kinds. Real servers count replies of a transaction twice, and of a script that
/// calls commands neither its request nor its time: that is not done here.
const WORK: &[&str] = &[
    "SET foo 12345",
    "GET foo",
    "MGET foo {foo}1",
    "GET bar",
    "INCR foo",
    "LPUSH bar x",
    "PING",
    "EVAL \"return 1\" 1 foo",
    "WATCH foo",
    "SET foo",
    "LPUSH foo x",
    "SPUBLISH foo hello",
    "LPUSH {foo}l a b c",
    "BLPOP {foo}l 0",
    "MSET foo 1 bar 2",
];

/// What is told of the slots of `foo`, `bar` and another, but for the time, which is only told to
/// be above 0.
fn figures(client: &mut Client) -> Vec<(i64, Vec<(String, i64)>)> {
    let mut told = Vec::new();
    for slot in ["12182", "5061", "1"] {
        let reply = client.call(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", slot, slot]);
        let Value::Array(rows) = reply else { panic!("{reply:?}") };
        let Value::Array(row) = &rows[0] else { panic!("{rows:?}") };
        let Value::Integer(number) = row[0] else { panic!("{row:?}") };
        let Value::Array(pairs) = &row[1] else { panic!("{row:?}") };
        let pairs = pairs.chunks(2).map(|pair| {
            let name = String::from_utf8_lossy(pair[0].as_bytes().unwrap()).into_owned();
            let Value::Integer(figure) = pair[1] else { panic!("{pair:?}") };
            let shown = if name == "cpu-usec" { figure.min(1) } else { figure };
            (name, shown)
        });
        told.push((number, pairs.collect()));
    }
    told
}

#[test]
fn figures_are_those_of_real_servers() {
    for peer in PEERS {
        let nodes = [lone(APUS, "yes"), lone(peer, "yes")];
        let told = nodes.each_ref().map(|node| {
            let mut client = node.client();
            // Subscriptions count, and messages, too.
            let mut listener = node.client();
            listener.call(&["SSUBSCRIBE", "foo"]);
            let mut told = vec![("nothing", figures(&mut client))];
            for line in WORK {
                ask_by(&mut client, line);
                let mut now = figures(&mut client);
                // A short command may take less than a microsecond here.
                now.iter_mut().for_each(|(_, pairs)| pairs.retain(|(name, _)| name != "cpu-usec"));
                told.push((line, now));
            }
            ask_by(&mut client, "CONFIG RESETSTAT");
            told.push(("reset", figures(&mut client)));
            told
        });
        assert_eq!(told[0], told[1], "{peer:?}");
    }
}

/// Shapes and errors, with the figures and without.
#[test]
fn what_is_asked_wrongly_is_refused_as_by_real_servers() {
    const LINES: &[&str] = &[
        "CLUSTER SLOT-STATS",
        "CLUSTER SLOT-STATS SLOTSRANGE",
        "CLUSTER SLOT-STATS SLOTSRANGE 1",
        "CLUSTER SLOT-STATS SLOTSRANGE 1 2 3",
        "CLUSTER SLOT-STATS SLOTSRANGE 1 2",
        "CLUSTER SLOT-STATS SLOTSRANGE x 2",
        "CLUSTER SLOT-STATS SLOTSRANGE 1 16384",
        "CLUSTER SLOT-STATS SLOTSRANGE -1 1",
        "CLUSTER SLOT-STATS SLOTSRANGE 3 2",
        "CLUSTER SLOT-STATS ORDERBY",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3 ASC",
        "CLUSTER SLOT-STATS ORDERBY key-count ASC LIMIT 3",
        "CLUSTER SLOT-STATS ORDERBY key-count DESC ASC",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 LIMIT 2",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT x",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 16385",
        "CLUSTER SLOT-STATS ORDERBY key-count LIMIT",
        "CLUSTER SLOT-STATS ORDERBY key-count SIDEWAYS",
        "CLUSTER SLOT-STATS ORDERBY cpu-usec LIMIT 1",
        "CLUSTER SLOT-STATS ORDERBY network-bytes-in LIMIT 1",
        "CLUSTER SLOT-STATS ORDERBY network-bytes-out LIMIT 2 ASC",
        "CLUSTER SLOT-STATS ORDERBY memory-bytes LIMIT 2",
        "CLUSTER SLOT-STATS ORDERBY keys",
        "CLUSTER SLOT-STATS EVERYTHING",
    ];
    for (peer, is_on) in PEERS.into_iter().zip(["yes", "no"]).chain([(PEERS[0], "no")]) {
        let nodes = [lone(APUS, is_on), lone(peer, is_on)];
        let mut clients =
            [nodes[0].client(), nodes[1].client(), nodes[0].client3(), nodes[1].client3()];
        for line in LINES {
            let [ours, theirs, ours3, theirs3] =
                clients.each_mut().map(|client| ask_by(client, line));
            assert_eq!(ours, theirs, "{line} {peer:?} {is_on}");
            assert_eq!(ours3, theirs3, "{line} {peer:?} {is_on}");
        }
    }
}

#[test]
fn figures_are_kept_from_when_they_are_wanted() {
    let node = lone(APUS, "no");
    let mut client = node.client();
    assert_eq!(ask_by(&mut client, "SET foo 1"), "OK");
    assert_eq!(figures(&mut client)[0].1, [("key-count".to_owned(), 1)]);
    assert_eq!(ask_by(&mut client, "CONFIG SET cluster-slot-stats-enabled yes"), "OK");
    assert_eq!(ask_by(&mut client, "GET foo"), "\"1\"");
    let told = figures(&mut client);
    let names: Vec<&str> = told[0].1.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["key-count", "cpu-usec", "network-bytes-in", "network-bytes-out"]);
    assert_eq!(told[0].1[2].1, 22);
    assert_eq!(told[0].1[3].1, 7);
}
