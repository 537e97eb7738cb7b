//! What a restart must not part: a primary and the replicas that go on where they stood, and a
//! replica and its own log. And WAIT, whose word has to hold for whatever has a record.
//!
//! Invariant: what two servers hold is compared as clients see it, with deadlines.

use proto::value::Value;
use rustix::process::Signal;
use tests::contents::contents;
use tests::folder::with_log;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Oracle, Server};

/// Ends a server by SHUTDOWN SAVE.
fn shut_down(server: &mut Server) {
    server.client().send(&["SHUTDOWN", "SAVE"]);
    eventually("it has ended", || server.has_ended());
}

/// A primary on a port of its own, which it has again after a restart.
fn primary(arguments: &[&str]) -> Server {
    let port = tests::server::free_port().to_string();
    NodeKind::Apus.start(&[&["--port", &port], arguments].concat())
}

#[test]
fn keys_whose_time_ends_while_their_primary_is_down_end_for_replicas_too() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let mut primary = primary(&[]);
        let replica = kind.start(&[]);
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        let mut client = primary.client();
        say(&mut client, "SET k1 old PX 900; SET k2 old PX 900; SET k3 old PX 900; LPUSH k4 old");
        say(&mut client, "PEXPIRE k4 900; SET k5 old PX 900; SET stays 1; HSET h f 1 g 2");
        await_replica(&primary, &replica);
        let Value::Integer(ends) = client.call(&["PEXPIRETIME", "k5"]) else { panic!("a time") };
        shut_down(&mut primary);
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
        eventually("their time is over", || now() as i64 > ends + 20);
        primary.restart();
        let mut client = primary.client();
        eventually("it goes on", || client.figure("sync_partial_ok") == 1);
        for line in ["APPEND k1 new", "SET k2 new NX", "INCR k3", "SADD k4 new", "SETRANGE k5 1 x"]
        {
            assert!(!render(&say(&mut client, line)).contains("error"), "{line}");
        }
        await_replica(&primary, &replica);
        assert_eq!(contents(&mut client), contents(&mut replica.client()), "{kind:?}");
        tests::replication::promote(&replica);
        assert_eq!(contents(&mut client), contents(&mut replica.client()), "{kind:?}, promoted");
    }
}

#[test]
fn what_a_replica_evicts_is_gone_behind_its_restart_too() {
    let primary = NodeKind::Apus.start(&[]);
    let mut replica =
        NodeKind::Apus.start(&["--appendonly", "yes", "--replica-ignore-maxmemory", "no"]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let mut client = primary.client();
    let value = "x".repeat(20_000);
    for number in 0..200 {
        client.call(&["SET", &format!("k{number}"), &value]);
    }
    await_replica(&primary, &replica);
    let mut steering = replica.client();
    say(&mut steering, "CONFIG SET maxmemory-policy allkeys-random; CONFIG SET maxmemory 1mb");
    say(&mut client, "SET q 1; SET r 2");
    eventually("it evicts", || steering.figure("evicted_keys") > 0);
    say(&mut steering, "CONFIG SET maxmemory 0");
    await_replica(&primary, &replica);
    say(&mut steering, "REPLICAOF NO ONE");
    let before = contents(&mut steering);
    say(&mut steering, "WAITAOF 1 0 0");
    replica.kill();
    eventually("it has ended", || replica.has_ended());
    replica.restart();
    assert_eq!(contents(&mut replica.client()), before);
}

#[test]
fn a_log_of_which_commands_were_passed_over_stands_in_no_history() {
    let mut whole = primary(&["--appendonly", "yes"]);
    let replica = NodeKind::Apus.start(&[]);
    follow(&replica, whole.port());
    await_replica(&whole, &replica);
    say(&mut whole.client(), "SELECT 9; SET a 1; SELECT 0; SET b 1; WAITAOF 1 0 0");
    await_replica(&whole, &replica);
    whole.kill();
    eventually("it has ended", || whole.has_ended());
    let port = whole.port().to_string();
    let partial = Server::start_prepared(
        with_log(whole.folder().join("appendonlydir")),
        &[
            &["--appendonly", "yes", "--aof-load-errors", "ignore", "--databases", "4"][..],
            &["--port", &port, "--enable-debug-command", "yes"],
        ]
        .concat(),
    );
    let mut client = partial.client();
    eventually("the replica is back", || client.info("connected_slaves") == "1");
    await_replica(&partial, &replica);
    assert_eq!(client.figure("sync_partial_ok"), 0);
    let keys = |client: &mut Client| render(&client.call(&["DBSIZE"]));
    assert_eq!(keys(&mut client), keys(&mut replica.client()));
}

/// What has a record, whatever way it went.
const RECORDED: &[&str] = &[
    "SET a 1",
    "FUNCTION LOAD \"#!lua name=q1\\nredis.register_function('q1', function() return 1 end)\"",
    "FUNCTION DELETE q1",
    "MULTI; FUNCTION LOAD \"#!lua name=q2\\nredis.register_function('q2', function() return 1 \
     end)\"; EXEC",
    "FUNCTION FLUSH",
    "PUBLISH c m",
    "MULTI; PUBLISH c m; EXEC",
    "EVAL \"return redis.call('PUBLISH', 'c', 'm')\" 0",
    "EVAL \"return redis.call('SET', 'a', 'b')\" 0",
    "MULTI; SET a 2; CLIENT SETNAME n; EXEC",
    "FLUSHALL",
    "SWAPDB 0 1",
    "SWAPDB 0 1",
];

#[test]
fn wait_counts_no_replica_that_lacks_what_its_client_did() {
    let primary = NodeKind::Apus.start(&[]);
    let replica = NodeKind::Apus.start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let mut client = primary.client();
    for commands in RECORDED {
        say(&mut client, "SET before 1");
        assert_eq!(render(&client.call(&["WAIT", "1", "0"])), "(integer) 1");
        replica.signal(Signal::STOP);
        say(&mut client, commands);
        let copies = render(&client.call(&["WAIT", "1", "150"]));
        replica.signal(Signal::CONT);
        assert_eq!(copies, "(integer) 0", "{commands}");
        assert_eq!(render(&client.call(&["WAIT", "1", "0"])), "(integer) 1", "{commands}");
    }
}

#[test]
fn hello_tells_the_role() {
    let [upstream, follower] = [(); 2].map(|()| NodeKind::Apus.start(&[]));
    let genuine = NodeKind::Genuine(Oracle::Redis82).start(&[]);
    let role = |client: &mut Client| {
        let told = render(&client.call(&["HELLO", "2"]));
        told.lines()
            .find(|line| line.contains("master") || line.contains("replica"))
            .map(|line| line.split('"').nth(1).expect("it is quoted").to_owned())
    };
    for server in [&follower, &genuine] {
        assert_eq!(role(&mut server.client()).as_deref(), Some("master"));
        follow(server, upstream.port());
        assert_eq!(role(&mut server.client()).as_deref(), Some("replica"));
        tests::replication::promote(server);
        assert_eq!(role(&mut server.client()).as_deref(), Some("master"));
    }
}
