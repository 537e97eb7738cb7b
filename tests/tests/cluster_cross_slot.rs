//! Keys of several hash slots in one request: refused, or served where all of them are.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, address, ask, ask_by, await_whole, create, id, owners};
use tests::{Oracle, Server, check};

const APUS: Program = Program::Apus;

const CROSSSLOT: &str = "(error) CROSSSLOT Keys in request don't hash to the same slot";

fn lone(program: Program, further: &[&str]) -> Server {
    let node = program.node(further);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    await_whole(&[&node], 1);
    node
}

#[test]
fn keys_of_several_slots_are_used_together_where_that_is_allowed() {
    let node = lone(APUS, &[]);
    let mut client = node.client();
    assert_eq!(ask_by(&mut client, "MSET a 1 b 2"), CROSSSLOT);
    check(
        &mut client,
        "
         > CONFIG SET cluster-allow-cross-slot yes
         OK
         > MSET a 1 b 2
         OK
         > MGET a b c
         1) \"1\"
         2) \"2\"
         3) (nil)
         > RENAME a c
         OK
         > WATCH b c
         OK
         > MULTI
         OK
         > SET a 3
         QUEUED
         > GET c
         QUEUED
         > EXEC
         1) OK
         2) \"1\"
         > EVAL \"return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}\" 2 a b
         1) \"3\"
         2) \"2\"
         > DEL a b c
         (integer) 3",
    );
    // A watched key of another slot breaks the transaction.
    assert_eq!(ask_by(&mut client, "WATCH a b"), "OK");
    assert_eq!(ask(&node, "SET b x"), "OK");
    check(&mut client, "> MULTI\nOK\n> SET a 1\nQUEUED\n> EXEC\n(nil)");
    assert_eq!(ask(&node, "CONFIG SET cluster-allow-cross-slot no"), "OK");
    assert_eq!(ask_by(&mut client, "MGET a b"), CROSSSLOT);
}

/// One redirection serves all keys, or none is made.
#[test]
fn keys_that_live_elsewhere_are_told_by_one_redirection_or_none() {
    let nodes = [APUS, APUS, APUS].map(|it| it.node(&["--cluster-allow-cross-slot", "yes"]));
    create(&nodes.each_ref(), 0);
    let slot = |key: &str| {
        let said = ask(&nodes[0], &format!("CLUSTER KEYSLOT {key}"));
        said.strip_prefix("(integer) ").unwrap().parse::<i64>().unwrap()
    };
    let table = owners(&nodes[0]);
    let port = |key: &str| {
        let slot = slot(key);
        table.iter().find(|it| it.0 <= slot && slot <= it.1).unwrap().2
    };
    let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
    let here = i64::from(nodes[0].port());
    let of = |wanted: i64| keys.iter().filter(move |key| port(key) == wanted).collect::<Vec<_>>();
    let (ours, others) = (of(here), of(i64::from(nodes[1].port())));
    assert_eq!(ask(&nodes[0], &format!("MSET {} 1 {} 2", ours[0], ours[1])), "OK");
    let both = ask(&nodes[0], &format!("MGET {} {}", others[0], others[1]));
    assert_eq!(both, format!("(error) MOVED {} {}", slot(others[0]), address(&nodes[1])));
    assert_eq!(ask(&nodes[0], &format!("MGET {} {}", ours[0], others[0])), CROSSSLOT);
    assert_eq!(ask(&nodes[0], &format!("MGET {} {}", others[0], ours[0])), CROSSSLOT);
    // A slot on the move serves such requests while all of its keys are here.
    let line = format!("CLUSTER SETSLOT {} MIGRATING {}", slot(ours[0]), id(&nodes[1]));
    assert_eq!(ask(&nodes[0], &line), "OK");
    let got = ask(&nodes[0], &format!("MGET {} {}", ours[0], ours[1]));
    assert_eq!(got, "1) \"1\"\n2) \"2\"");
    let missing = format!("{{{}}}missing", ours[0]);
    let said = ask(&nodes[0], &format!("MGET {} {} {missing}", ours[0], ours[1]));
    assert_eq!(said, "(error) TRYAGAIN Multiple keys request during rehashing of slot");
}

/// What scripts are told, in the words of a real server. What names the script is left out.
const SCRIPTS: &[&str] = &[
    "EVAL \"return redis.call('GET', KEYS[1])\" 2 a b",
    "EVAL \"return redis.call('MSET', 'a', 1, 'b', 2)\" 0",
    "EVAL \"redis.call('SET', 'a', 1) return redis.call('SET', 'b', 2)\" 0",
    "EVAL \"#!lua\\nredis.call('SET', KEYS[1], 1) return redis.call('SET', 'b', 2)\" 1 a",
    "EVAL \"#!lua\\nredis.call('SET', 'a', 1) return redis.call('SET', 'b', 2)\" 0",
    "EVAL \"#!lua\\nredis.call('SET', 'a', 1) return redis.call('SET', '{a}b', 2)\" 0",
    "EVAL \"#!lua flags=allow-cross-slot-keys\\nredis.call('SET', 'a', 1) return redis.call('SET', \
     'b', 2)\" 0",
    "EVAL \"#!lua flags=allow-cross-slot-keys\\nreturn 1\" 2 a b",
    "EVAL \"#!lua flags=no-cluster\\nreturn 1\" 0",
    "EVAL \"#!lua flags=no-cluster\\nreturn 1\" 1 a",
];

#[test]
fn scripts_reach_slots_as_in_redis() {
    let nodes = [APUS, Program::Stock(Oracle::Redis82)].map(|program| lone(program, &[]));
    let mut clients = nodes.each_ref().map(Server::client);
    for line in SCRIPTS {
        let [ours, theirs] = clients.each_mut().map(|client| {
            let said = ask_by(client, line);
            said.split(" script: ").next().unwrap().to_owned()
        });
        assert_eq!(ours, theirs, "{line}");
    }
}
