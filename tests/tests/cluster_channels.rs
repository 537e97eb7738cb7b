//! Shard channels in a cluster: who may use them where, and what is told when their slot leaves.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, ask, ask_by, await_whole, create, id, meet, owners};
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);

/// The slot of `foo`.
const SLOT: i64 = 12182;

fn cluster_of(program: Program) -> ([Server; 3], usize) {
    let nodes = [program, program, program].map(|program| program.node(&[]));
    create(&nodes.each_ref(), 0);
    let owner = owners(&nodes[0]).into_iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
    let place = nodes.iter().position(|node| i64::from(node.port()) == owner.2).unwrap();
    (nodes, place)
}

fn subscribe(node: &Server, is_resp3: bool) -> Client {
    let mut client = if is_resp3 { node.client3() } else { node.client() };
    for (count, channel) in ["foo", "{foo}x"].into_iter().enumerate() {
        let said = render(&client.call(&["SSUBSCRIBE", channel]));
        assert!(said.contains(&format!("(integer) {}", count + 1)), "{said}");
    }
    client
}

/// All that comes to a subscriber when its slot has left.
fn farewell(client: &mut Client) -> Vec<String> {
    let mut heard = [render(&client.receive()), render(&client.receive())].to_vec();
    heard.sort_by_key(|it| !it.contains("(integer) 1"));
    let words = |it: &String| {
        // Which of the two goes first is nobody's promise.
        it.replace("{foo}x", "foo")
    };
    heard.iter().map(words).collect()
}

#[test]
fn subscribers_are_told_when_the_slot_leaves() {
    let told = [APUS, REDIS82].map(|program| {
        let (nodes, from) = cluster_of(program);
        let to = (from + 1) % 3;
        let mut clients = [false, true].map(|is_resp3| subscribe(&nodes[from], is_resp3));
        let mut other = nodes[to].client();
        let peer = id(&nodes[from]);
        assert_eq!(ask_by(&mut other, &format!("CLUSTER SETSLOT {SLOT} IMPORTING {peer}")), "OK");
        let line = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(&nodes[to]));
        assert_eq!(ask_by(&mut other, &line), "OK");
        assert_eq!(ask(&nodes[from], &line), "OK");
        let told = clients.each_mut().map(farewell);
        // The connections go on.
        for client in &mut clients {
            assert!(render(&client.call(&["PING"])).contains("PONG"));
        }
        let channels = ask(&nodes[from], "PUBSUB SHARDCHANNELS");
        assert_eq!(channels, "(empty array)");
        told
    });
    assert_eq!(told[0], told[1]);
}

/// What a node says of channels of its own slots, of others', and of several slots.
#[test]
fn channels_are_routed_as_in_redis() {
    const LINES: &[&str] = &[
        "SPUBLISH foo hello",
        "SPUBLISH bar hello",
        "SSUBSCRIBE foo bar",
        "SSUBSCRIBE bar",
        "SUNSUBSCRIBE bar",
        "PUBLISH bar hello",
        "MULTI",
        "SPUBLISH foo hello",
        "SET {foo}1 x",
        "EXEC",
        "MULTI",
        "SPUBLISH foo hello",
        "SET {a}1 x",
        "EXEC",
        "MULTI",
        "SSUBSCRIBE foo",
        "EXEC",
        "MULTI",
        "SPUBLISH bar hello",
        "EXEC",
        "PUBSUB SHARDNUMSUB foo bar",
        "EVAL \"return redis.call('SPUBLISH', 'foo', 'x')\" 0",
        "EVAL \"return redis.call('SPUBLISH', KEYS[1], 'x')\" 1 foo",
        "SSUBSCRIBE foo",
    ];
    let said = [APUS, REDIS82].map(|program| {
        let (nodes, place) = cluster_of(program);
        let mut client = nodes[place].client();
        let ports = nodes.each_ref().map(|node| node.port().to_string());
        let plain = |said: String| {
            let hidden = ports.iter().fold(said, |said, port| said.replace(port, "PORT"));
            hidden.split(" script: ").next().unwrap().to_owned()
        };
        LINES.iter().map(|line| (*line, plain(ask_by(&mut client, line)))).collect::<Vec<_>>()
    });
    assert_eq!(said[0], said[1]);
}

/// When a replica takes over, subscribers of either node are told what Redis tells them.
#[test]
fn a_failover_tells_subscribers_what_redis_tells_them() {
    let heard = [APUS, REDIS82].map(|program| {
        let nodes = [program.node(&[]), program.node(&[])];
        assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        meet(&nodes[1], &nodes[0]);
        await_whole(&nodes.each_ref(), 2);
        let line = format!("CLUSTER REPLICATE {}", id(&nodes[0]));
        assert_eq!(ask(&nodes[1], &line), "OK");
        eventually("the link is up", || nodes[1].client().info("master_link_status") == "up");
        eventually("the primary knows its replica", || {
            ask(&nodes[0], "CLUSTER NODES").contains("slave")
        });
        let mut clients = nodes.each_ref().map(|node| {
            let mut client = node.client();
            let said = render(&client.call(&["SSUBSCRIBE", "foo"]));
            assert!(said.contains("(integer) 1"), "{said}");
            client
        });
        assert_eq!(ask(&nodes[1], "CLUSTER FAILOVER TAKEOVER"), "OK");
        eventually("the roles are changed", || nodes[0].client().info("role") == "slave");
        clients.each_mut().map(|client| {
            client.send(&["PING"]);
            let first = render(&client.receive());
            let is_pong = first.to_lowercase().contains("pong");
            if is_pong { "nothing".to_owned() } else { first }
        })
    });
    assert_eq!(heard[0], heard[1]);
}
