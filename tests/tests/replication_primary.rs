//! Apus as the primary of the real servers: full syncs, the stream, syncs in part, what clients
//! wait for, and what is told of all that.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command as Process;

use proto::value::Value;
use rustix::process::Signal;
use tests::client::field;
use tests::differential::Command;
use tests::generator::{Generator, prologue, shared};
use tests::render::render;
use tests::replication::await_replica;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

use crate::append_only::{State, differences, forget_what_is_over, payloads, state};

const PRIMARY: &[&str] =
    &["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--save", ""];

/// A real server that follows ours.
fn replica(oracle: Oracle, primary: &Server, arguments: &[&str]) -> Server {
    let port = primary.port().to_string();
    let follows = ["--replicaof", "127.0.0.1", &port, "--save", "", "--repl-diskless-load"];
    oracle.start(&[&follows[..], &["disabled"], arguments].concat())
}

/// What a real server has, as its snapshot tells us.
pub(crate) fn state_of(replica: &Server) -> State {
    let mut client = replica.client();
    // One that goes on for replicas of its own keeps it from beginning.
    eventually("it saves", || render(&client.call(&["SAVE"])) == "OK");
    let dump = std::fs::read(replica.folder().join("dump.rdb")).expect("it was just saved");
    let again = Server::start_prepared(
        |folder| std::fs::write(folder.join("dump.rdb"), &dump).expect("the folder is new"),
        PRIMARY,
    );
    state(&mut again.client())
}

fn replicas_online(client: &mut Client) -> usize {
    let info = render(&client.call(&["INFO", "replication"]));
    info.matches("state=online").count()
}

#[test]
fn real_replicas_have_what_we_have() {
    for oracle in Oracle::ALL {
        let primary = Server::start(PRIMARY);
        let scratch = oracle.start(&["--enable-debug-command", "yes"]);
        let declared = shared(&mut primary.client(), &mut scratch.client());
        let payloads = payloads(&mut scratch.client());
        let mut generator = Generator::new(7, &declared, &payloads);
        let mut draw =
            || -> Vec<Command> { (0..400).map(|_| generator.draw().step.command).collect() };
        let mut client = primary.client();
        client.pipeline(&prologue(0, oracle != Oracle::Redis70));
        client.pipeline(&draw());
        let replica = replica(oracle, &primary, &["--enable-debug-command", "yes"]);
        await_replica(&primary, &replica);
        for _ in 0..3 {
            client.pipeline(&draw());
            check(&mut client, "> SELECT 0\nOK");
            client.call(&["CLIENT", "KILL", "TYPE", "REPLICA"]);
            client.pipeline(&draw());
        }
        check(&mut client, "> SELECT 0\nOK");
        await_replica(&primary, &replica);
        let mut expected = state(&mut primary.client());
        let mut found = state_of(&replica);
        forget_what_is_over([&mut expected, &mut found]);
        assert!(expected == found, "{oracle:?}: {}", differences(&expected, &found));
        // What was drawn may have reset the counts.
        primary.expect_log(": partial resync");
    }
}

#[test]
fn r10_07_replicas_that_come_together_share_one_walk() {
    let primary = Server::start(&[
        "--repl-diskless-sync-delay",
        "3600",
        "--save",
        "",
        "--repl-diskless-sync-max-replicas",
        "3",
        "--repl-rdb-channel",
        "no",
        "--enable-debug-command",
        "yes",
    ]);
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let alike = [Oracle::Redis70; 3];
    let replicas = alike.map(|oracle| replica(oracle, &primary, &[]));
    replicas.iter().for_each(|replica| await_replica(&primary, replica));
    assert_eq!(client.info("sync_full"), "3");
    primary.expect_log("Starting BGSAVE for SYNC");
    assert_eq!(primary.log().matches("Starting BGSAVE for SYNC").count(), 1, "{}", primary.log());
    let expected = state(&mut client);
    for replica in &replicas {
        let found = state_of(replica);
        assert!(expected == found, "{}", differences(&expected, &found));
    }
    check(&mut client, "> WAIT 3 0\n(integer) 3");
}

#[test]
fn a_snapshot_goes_by_a_file_where_that_is_configured() {
    let primary = Server::start(&[PRIMARY, &["--repl-diskless-sync", "no"]].concat());
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let replicas = Oracle::ALL.map(|oracle| replica(oracle, &primary, &[]));
    for replica in &replicas {
        await_replica(&primary, replica);
        let (expected, found) = (state(&mut client), state_of(replica));
        assert!(expected == found, "{}", differences(&expected, &found));
    }
    primary.expect_log("Starting BGSAVE for SYNC with target: disk");
    eventually("no file is left", || {
        let names = std::fs::read_dir(primary.folder()).expect("it has a folder");
        let names = names.map(|entry| entry.expect("it can be read").file_name());
        !names.map(|name| name.to_string_lossy().into_owned()).any(|it| it.ends_with(".rdb"))
    });
}

#[test]
fn redis_8_fetches_its_snapshot_on_a_second_connection() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    tests::samples::fill(&mut client, true);
    let replica = replica(Oracle::Redis82, &primary, &["--repl-rdb-channel", "yes"]);
    await_replica(&primary, &replica);
    primary.expect_log("replicas sockets (rdb-channel)");
    let (expected, found) = (state(&mut client), state_of(&replica));
    assert!(expected == found, "{}", differences(&expected, &found));
    assert_eq!(client.info("connected_slaves"), "1");
}

#[test]
fn writers_wait_for_as_many_replicas_as_they_say() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    check(&mut client, "> WAIT 0 0\n(integer) 0\n> SET k v\nOK\n> WAIT 1 10\n(integer) 0");
    let fast = replica(Oracle::Redis82, &primary, &["--appendonly", "yes"]);
    let slow = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &slow);
    await_replica(&primary, &fast);
    eventually("both are online", || replicas_online(&mut client) == 2);
    check(
        &mut client,
        "> SET k w\nOK\n> WAIT 2 0\n(integer) 2\n> WAITAOF 0 1 0\n1) (integer) 0\n2) (integer) 1",
    );
    slow.signal(Signal::STOP);
    check(&mut client, "> SET k x\nOK\n> WAIT 1 0\n(integer) 1\n> WAIT 2 200\n(integer) 1");
    check(&mut client, "> MULTI\nOK\n> SET k y\nQUEUED\n> WAIT 2 0\nQUEUED");
    assert!(matches!(client.call(&["EXEC"]), Value::Array(_)));
    let mut waits = primary.client();
    check(&mut waits, "> SET k z\nOK");
    waits.send(&["WAIT", "2", "0"]);
    assert!(waits.is_silent());
    slow.signal(Signal::CONT);
    assert_eq!(waits.receive(), Value::Integer(2));
}

#[test]
fn r10_29_writes_are_refused_while_too_few_replicas_are_near() {
    let primary = Server::start(&[PRIMARY, &["--min-replicas-to-write", "1"]].concat());
    let mut client = primary.client();
    let refused = "(error) NOREPLICAS Not enough good replicas to write.";
    check(
        &mut client,
        &format!(
            "> SET k v\n{refused}\n> GET k\n(nil)\n> MULTI\nOK\n> SET k v\n{refused}\n> EXEC\n\
         (error) EXECABORT Transaction discarded because of previous errors.\n> PING\nPONG"
        ),
    );
    let script = client.call(&["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k"]);
    assert!(render(&script).contains("NOREPLICAS"), "{}", render(&script));
    assert_eq!(client.info("min_slaves_good_slaves"), "0");
    let replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    eventually("it counts", || client.info("min_slaves_good_slaves") == "1");
    check(&mut client, "> SET k v\nOK\n> CONFIG SET min-replicas-to-write 2\nOK");
    check(
        &mut client,
        &format!("> SET k v\n{refused}\n> CONFIG SET min-replicas-to-write 0\nOK\n> SET k v\nOK"),
    );
}

#[test]
fn what_the_backlog_keeps_is_told_and_its_end_costs_a_full_sync() {
    let primary = Server::start(&[PRIMARY, &["--repl-backlog-size", "16kb"]].concat());
    let mut client = primary.client();
    assert_eq!(client.info("repl_backlog_active"), "0");
    let replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    let told = ["repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset"];
    assert_eq!(told.map(|name| client.info(name)), ["1", "16384", "1"]);
    assert_eq!(client.info("repl_backlog_histlen"), client.info("master_repl_offset"));
    let [id, theirs] = [&mut client, &mut replica.client()].map(|it| it.info("master_replid"));
    assert_eq!(id, theirs);
    replica.signal(Signal::STOP);
    client.call(&["CLIENT", "KILL", "TYPE", "REPLICA"]);
    for number in 0..100 {
        client.call(&["SET", "k", &"v".repeat(1000 + number)]);
    }
    assert_eq!(client.info("repl_backlog_histlen"), "16384");
    replica.signal(Signal::CONT);
    await_replica(&primary, &replica);
    eventually("it is another full sync", || client.info("sync_full") == "2");
    assert_eq!(client.info("sync_partial_err"), "1");
    let memory = client.figure("mem_replication_backlog");
    assert!((16_384..100_000).contains(&memory), "{memory}");
    check(&mut client, "> CONFIG SET repl-backlog-ttl 1\nOK");
    drop(replica);
    eventually("it is freed", || client.info("repl_backlog_active") == "0");
    assert_ne!(client.info("master_replid"), id);
}

#[test]
fn r10_34_a_replica_that_takes_nothing_is_closed_by_its_limits() {
    let limits = ["--client-output-buffer-limit", "replica 1mb 0 0"];
    let primary = Server::start(&[PRIMARY, &limits].concat());
    let mut client = primary.client();
    let replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    replica.signal(Signal::STOP);
    let value = "v".repeat(100_000);
    eventually("it is closed", || {
        client.call(&["SET", "k", &value]);
        client.info("connected_slaves") == "0"
    });
    primary.expect_log("scheduled to be closed ASAP for overcoming of output buffer");
    replica.signal(Signal::CONT);
    await_replica(&primary, &replica);
    check(&mut replica.client(), "> STRLEN k\n(integer) 100000");
}

/// The walk goes on at its own speed, and so do writers.
#[test]
fn a_slow_replica_holds_neither_the_snapshot_nor_writers() {
    let primary =
        Server::start(&[PRIMARY, &["--client-output-buffer-limit", "replica 0 0 0"]].concat());
    let mut client = primary.client();
    check(&mut client, "> DEBUG POPULATE 40000 key 2000\nOK");
    let mut lazy = primary.client();
    lazy.send(&["REPLCONF", "capa", "eof", "capa", "psync2"]);
    lazy.receive();
    lazy.send(&["PSYNC", "?", "-1"]);
    eventually("the walk is over", || primary.log().contains("terminated with success"));
    for number in 0..1000 {
        client.call(&["SET", &format!("key:{number}"), "changed"]);
    }
    assert!(primary.resident() < 200 << 20, "{}", primary.resident());
    let head = lazy.receive_raw(12);
    assert_eq!(head, b"+FULLRESYNC ");
    // All of it comes in the end, and its mark behind it.
    let line = until_line_end(&mut lazy);
    assert_eq!(line.split(' ').count(), 2, "{line}");
    let mark = until_line_end(&mut lazy);
    let mark = mark.strip_prefix("$EOF:").expect("the mark of the end").to_owned();
    let mut last = Vec::new();
    while !last.ends_with(mark.as_bytes()) {
        last.extend_from_slice(&lazy.receive_raw(1));
        let cut = last.len().saturating_sub(40);
        last.drain(..cut);
    }
}

/// Nor does one that takes nothing keep another one from it.
#[test]
fn replicas_are_synced_where_no_file_can_be_written() {
    let settings = [
        ["--client-output-buffer-limit", "replica 0 0 0"],
        ["--enable-protected-configs", "yes"],
        ["--repl-diskless-sync-max-replicas", "2"],
        ["--repl-diskless-sync-delay", "3600"],
        ["--rdbcompression", "no"],
    ];
    let primary = Server::start(&[PRIMARY, settings.as_flattened()].concat());
    let mut client = primary.client();
    check(&mut client, "> DEBUG POPULATE 40000 key 2000\nOK");
    let gone = primary.folder().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let name = gone.to_str().unwrap();
    assert_eq!(render(&client.call(&["CONFIG", "SET", "dir", name])), "OK");
    std::fs::remove_dir(&gone).unwrap();
    let _lazy = asking(&primary);
    eventually("it is attached", || client.info("connected_slaves") == "1");
    let replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    check(&mut replica.client(), "> DBSIZE\n(integer) 40000");
    assert_eq!(client.info("sync_full"), "2");
}

/// A replica that has asked for all data and reads nothing.
fn asking(primary: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("it listens");
    stream.write_all(b"REPLCONF capa eof\r\n").expect("it reads on");
    stream.read_exact(&mut [0; 5]).expect("it answers OK");
    stream.write_all(b"PSYNC ? -1\r\n").expect("it reads on");
    stream
}

fn until_line_end(client: &mut Client) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend_from_slice(&client.receive_raw(1));
    }
    String::from_utf8(line).expect("it is text").trim().to_owned()
}

#[test]
fn a_pause_is_no_silence() {
    let primary = Server::start(&[PRIMARY, &["--repl-ping-replica-period", "1"]].concat());
    let replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    let mut client = primary.client();
    check(&mut client, "> CLIENT PAUSE 3600000 WRITE\nOK");
    let began = client.figure("master_repl_offset");
    eventually("it is pinged", || replica.client().figure("slave_repl_offset") > began);
}

#[test]
fn what_a_replica_cannot_hold_ends_its_sync_with_a_line() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    assert_eq!(client.call(&["ARSET", "array", "0", "v"]), Value::Integer(1));
    let replica = replica(Oracle::Redis70, &primary, &[]);
    eventually("the log says why", || {
        let why = "a key of type array needs RDB version 9000, and 10 is to be written";
        primary.log().contains(why)
    });
    assert_eq!(replica.client().info("master_link_status"), "down");
    client.call(&["DEL", "array"]);
    await_replica(&primary, &replica);
}

#[test]
fn redis_cli_fetches_snapshots() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let fetch = |option: &str, path: &Path| {
        let run = Process::new("redis-cli")
            .args(["-p", &primary.port().to_string(), option])
            .arg(path)
            .output()
            .expect("redis-cli is there");
        assert!(run.status.success(), "{run:?}");
        std::fs::read(path).expect("it was written")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let all = fetch("--rdb", &folder.path().join("all.rdb"));
    let again = Server::start_prepared(
        |folder| std::fs::write(folder.join("dump.rdb"), &all).expect("the folder is new"),
        PRIMARY,
    );
    let (expected, found) = (state(&mut client), state(&mut again.client()));
    assert!(expected == found, "{}", differences(&expected, &found));
    let functions = fetch("--functions-rdb", &folder.path().join("functions.rdb"));
    assert!(functions.len() < 1000, "only functions are in it: {}", functions.len());
    let again = Server::start_prepared(
        |folder| std::fs::write(folder.join("dump.rdb"), &functions).expect("the folder is new"),
        PRIMARY,
    );
    let mut again = again.client();
    check(&mut again, "> DBSIZE\n(integer) 0\n> FCALL answer 0\n(integer) 42");
}

#[test]
fn replconf_is_answered_as_the_real_server_does() {
    let (ours, theirs) = (Server::start(PRIMARY), Oracle::redis82());
    for line in [
        "REPLCONF",
        "REPLCONF listening-port",
        "REPLCONF listening-port 7000 capa eof",
        "REPLCONF listening-port x",
        "REPLCONF ip-address 10.0.0.1",
        &format!("REPLCONF ip-address {}", "1".repeat(300)),
        "REPLCONF capa eof capa psync2 capa nonsense",
        "REPLCONF rdb-only 1 rdb-only 0",
        "REPLCONF rdb-only 2",
        "REPLCONF rdb-filter-only functions",
        "REPLCONF rdb-filter-only keys",
        "REPLCONF rdb-filter-only \"functions functions\"",
        "REPLCONF main-ch-client-id 12345",
        "REPLCONF main-ch-client-id x",
        "REPLCONF set-rdb-client-id 12345",
        "REPLCONF rdb-channel 1",
        "REPLCONF rdb-channel x",
        "REPLCONF nonsense 1",
    ] {
        let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
        let reply = |server: &Server| render(&server.client().call(&words));
        assert_eq!(reply(&ours), reply(&theirs), "{line}");
    }
}

/// What is not answered leaves the client as it was.
#[test]
fn a_client_that_may_not_sync_is_told_and_goes_on() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    check(
        &mut client,
        "> MULTI\nOK\n> PSYNC ? -1\n(error) ERR Command not allowed inside a transaction\n\
         > DISCARD\nOK\n> PSYNC ? x\n(error) ERR value is not an integer or out of range\n\
         > PSYNC ? -1 FAILOVER\n(error) ERR PSYNC FAILOVER can't be sent to a master.\n\
         > PING\nPONG",
    );
    assert_eq!(client.info("connected_slaves"), "0");
    // Acknowledgements of a client that is no replica are not answered.
    client.send_raw(b"REPLCONF ACK 5\r\nREPLCONF GETACK *\r\nPING\r\n");
    assert_eq!(render(&client.receive()), "PONG");
}

#[test]
fn a_replica_is_told_as_one() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    let replica = replica(Oracle::Redis70, &primary, &["--replica-announce-ip", "10.1.2.3"]);
    await_replica(&primary, &replica);
    eventually("it acknowledges", || {
        let list = render(&client.call(&["CLIENT", "LIST", "TYPE", "REPLICA"]));
        assert_eq!(field(&list, "flags"), "S");
        field(&list, "cmd") == "replconf"
    });
    check(&mut client, "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
    let role = render(&client.call(&["ROLE"]));
    assert!(role.contains("\"10.1.2.3\"") && role.contains("\"master\""), "{role}");
    let [offset, port] = [client.info("master_repl_offset"), replica.port().to_string()];
    assert!(role.contains(&port) && role.contains(&offset), "{role}");
    let row = client.info("slave0");
    assert!(row.starts_with(&format!("ip=10.1.2.3,port={port},state=online,offset=")), "{row}");
    assert!(client.info("connected_clients").parse::<u32>().expect("a number") < 4);
}

/// A replica ends its process where it meets a value that it does not know, so none is sent.
#[test]
fn what_an_old_replica_does_not_know_is_told_in_its_words_or_not_sent() {
    let mut primary = Server::start(PRIMARY);
    let mut client = primary.client();
    check(
        &mut client,
        "> XGROUP CREATE s g $ MKSTREAM\nOK\n> XGROUP CREATECONSUMER s g c\n(integer) 1",
    );
    let mut replica = replica(Oracle::Redis70, &primary, &[]);
    await_replica(&primary, &replica);
    let told = render(&replica.client().call(&["XINFO", "CONSUMERS", "s", "g"]));
    assert!(told.contains("\"c\""), "{told}");
    check(&mut replica.client(), "> REPLICAOF NO ONE\nOK");
    check(
        &mut client,
        "> HSET h f v\n(integer) 1\n> HPEXPIREAT h 4102444800999 FIELDS 1 f\n1) (integer) 1",
    );
    let port = primary.port().to_string();
    replica.client().call(&["REPLICAOF", "127.0.0.1", &port]);
    primary.wait_for_log("a key of type hash needs RDB version 12, and 10 is to be written");
    assert!(!replica.has_ended());
    client.call(&["DEL", "h"]);
    await_replica(&primary, &replica);
}
