//! Groups that are steered into the moments in which one thing meets another: a change of role and
//! a load, a wait and what others write, users that go and ids that change beside links.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use rustix::process::Signal;
use tests::impostor::{primary_that_says, stream};
use tests::peer::Peer;
use tests::proxy::{Direction, Fault, Proxy};
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, outrun, promote};
use tests::server::eventually;
use tests::{Arrival, Client, Oracle, Server, check};

const LOADING: &str = "(error) LOADING Redis is loading the dataset in memory";

/// Holds the world off until `maxclients` is this.
const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

#[test]
fn a_user_that_is_deleted_takes_its_replicas_along() {
    let settings = ["--masteruser", "mover", "--masterauth", "secret"];
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, replica) = (kind.start(&[]), NodeKind::Apus.start(&settings));
        let mut client = top.client();
        check(&mut client, "> ACL SETUSER mover on >secret +psync +replconf +ping\nOK");
        follow(&replica, top.port());
        await_replica(&top, &replica);
        // The replica of a user that may not log in any more stays.
        check(&mut client, "> ACL SETUSER mover off\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        check(&mut client, "> ACL DELUSER mover\n(integer) 1");
        eventually("the link is closed", || client.info("connected_slaves") == "0");
        let mut below = replica.client();
        eventually("it is told", || below.info("master_link_status") == "down");
    }
}

#[test]
fn a_replica_that_asks_to_go_on_behind_a_change_of_the_id_gets_all_data() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, replica) = (kind.start(&[]), NodeKind::Apus.start(&[]));
        follow(&replica, top.port());
        await_replica(&top, &replica);
        let mut client = top.client();
        let before = client.info("master_replid");
        check(&mut client, "> DEBUG CHANGE-REPL-ID\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        assert_ne!(client.info("master_replid"), before);
        assert_eq!(client.info("master_replid2"), "0".repeat(40));
        check(&mut client, "> CLIENT KILL TYPE replica\n(integer) 1");
        eventually("all data are sent", || client.info("sync_full") == "2");
        await_replica(&top, &replica);
        assert_eq!(replica.client().info("master_replid"), client.info("master_replid"));
    }
}

#[test]
fn what_may_not_run_beside_a_load_is_refused_meanwhile() {
    let settings =
        ["--repl-diskless-load", "swapdb", "--loading-process-events-interval-bytes", "1024"];
    let top = NodeKind::Apus.start(&["--repl-backlog-size", "16384"]);
    check(&mut top.client(), "> DEBUG POPULATE 2000\nOK");
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let below = kind.start(&settings);
        follow(&below, top.port());
        await_replica(&top, &below);
        let mut client = below.client();
        assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 2000"), "OK");
        outrun(&top, &below, || {
            for _ in 0..50 {
                top.client().call(&["SET", "large", &"x".repeat(1000)]);
            }
        });
        eventually("data are loaded beside", || client.info("async_loading") == "1");
        for line in ["SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "SLAVEOF NO ONE", "SYNC"]
        {
            assert_eq!(ask(&mut client, line), LOADING, "{line}");
        }
        assert_eq!(ask(&mut client, "GET key:1"), "\"value:1\"");
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        assert_eq!(ask(&mut client, "BGSAVE"), LOADING);
        let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(ask(&mut client, "EXEC"), aborted);
        assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 0"), "OK");
        await_replica(&top, &below);
        assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
    }
}

/// Has a replica take all data anew, slowly: so long for each key.
fn load_slowly(top: &Server, below: &Server, micros: u32) {
    assert_eq!(ask(&mut below.client(), &format!("CONFIG SET key-load-delay {micros}")), "OK");
    outrun(top, below, || {
        for _ in 0..50 {
            top.client().call(&["SET", "large", &"x".repeat(1000)]);
        }
    });
}

/// Both wait for the same moment: whichever is first, a part of the data is nothing to lead with.
#[test]
fn a_replica_is_not_promoted_in_the_middle_of_a_load() {
    let top = NodeKind::Apus.start(&["--repl-backlog-size", "16384"]);
    check(&mut top.client(), "> SELECT 3\nOK\n> DEBUG POPULATE 1000\nOK");
    let settings =
        ["--repl-diskless-load", "flush-before-load", "--busy-reply-threshold", "100000000"];
    let below = NodeKind::Apus.start(&settings);
    follow(&below, top.port());
    await_replica(&top, &below);
    let (mut holder, mut promoter, mut client) = (below.client(), below.client(), below.client());
    holder.send(&["EVAL", HOLD, "1", "held"]);
    load_slowly(&top, &below, 5000);
    let flushes = || below.log().matches("MASTER <-> REPLICA sync: Flushing old data").count();
    eventually("the load waits for the script", || flushes() == 2);
    promoter.send(&["REPLICAOF", "NO", "ONE"]);
    assert!(promoter.is_silent());
    assert_eq!(ask(&mut client, "CONFIG SET maxclients 4321"), "OK");
    let reply = render(&promoter.receive());
    let is_promoted = match reply.as_str() {
        LOADING => false,
        reply => reply == "OK",
    };
    let role = if is_promoted { "master" } else { "slave" };
    assert_eq!((client.info("role").as_str(), reply == "OK"), (role, is_promoted), "{reply}");
    assert!(!is_promoted || client.info("loading") == "0", "it leads with a part of the data");
    assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 0"), "OK");
    if !is_promoted {
        await_replica(&top, &below);
    }
    check(&mut client, "> SELECT 3\nOK\n> DBSIZE\n(integer) 1000");
}

/// A transfer that broke is forgotten with the next one that did not.
#[test]
fn a_broken_transfer_costs_nothing_at_a_later_promotion() {
    let top = NodeKind::Apus.start(&[]);
    check(&mut top.client(), "> DEBUG POPULATE 3000 key 200\nOK");
    let proxy = Proxy::start(top.port());
    let settings = ["--repl-diskless-load", "flush-before-load"];
    let (below, beside) = (NodeKind::Apus.start(&settings), NodeKind::Apus.start(&[]));
    proxy.spoil_next(Fault::Cut(Direction::Down, 200_000));
    follow(&below, proxy.port());
    below.expect_log("Flushing old data");
    await_replica(&top, &below);
    follow(&beside, top.port());
    await_replica(&top, &beside);
    let old = top.client().info("master_replid");
    drop(top);
    promote(&below);
    let mut client = below.client();
    assert_eq!(client.info("master_replid2"), old);
    follow(&beside, below.port());
    await_replica(&below, &beside);
    assert_eq!(client.info("sync_full"), "0");
}

/// What a replica of a replica waits for begins behind the load, and not in its middle.
#[test]
fn a_snapshot_for_others_waits_for_the_end_of_a_load() {
    let top = NodeKind::Apus.start(&["--repl-backlog-size", "16384"]);
    check(&mut top.client(), "> DEBUG POPULATE 2000\nOK");
    let settings =
        ["--repl-diskless-load", "flush-before-load", "--repl-diskless-sync-delay", "3600"];
    let (middle, last) = (NodeKind::Apus.start(&settings), NodeKind::Apus.start(&[]));
    follow(&middle, top.port());
    await_replica(&top, &middle);
    follow(&last, middle.port());
    let mut client = middle.client();
    eventually("it waits for a snapshot", || {
        ask(&mut client, "INFO replication").contains("state=wait_bgsave")
    });
    load_slowly(&top, &middle, 10_000);
    eventually("all data are loaded anew", || client.info("loading") == "1");
    assert_eq!(ask(&mut client, "CONFIG SET repl-diskless-sync-delay 0"), "OK");
    // The clock of the links goes on meanwhile.
    let began = client.figure("uptime_in_seconds");
    eventually("time passes", || client.figure("uptime_in_seconds") > began + 1);
    assert_eq!(client.info("loading"), "1");
    assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 0"), "OK");
    await_replica(&top, &middle);
    await_replica(&middle, &last);
    let digest = |server: &Server| ask(&mut server.client(), "DEBUG DIGEST");
    assert_eq!(digest(&last), digest(&top));
    let log = middle.log();
    let (begun, loaded) = (log.find("Starting BGSAVE"), log.rfind("Finished with success"));
    assert!(begun > loaded && loaded.is_some(), "{log}");
}

/// As Redis 8.2 and Valkey have it; Redis 7.0 waited for all that was written by anybody.
#[test]
fn a_client_waits_for_what_it_has_written_itself() {
    let kinds =
        [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82), NodeKind::Genuine(Oracle::Valkey91)];
    for kind in kinds {
        let (top, below) = (kind.start(&["--appendonly", "yes"]), NodeKind::Apus.start(&[]));
        follow(&below, top.port());
        await_replica(&top, &below);
        let mut fresh = top.client();
        check(&mut top.client(), "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        below.signal(Signal::STOP);
        let mut writer = top.client();
        check(&mut writer, "> SET k w\nOK\n> WAIT 1 20\n(integer) 0");
        // A client waits for its own writes, not for those of others that it has read.
        check(&mut fresh, "> WAIT 1 0\n(integer) 1\n> WAIT 2 20\n(integer) 1");
        check(&mut fresh, "> GET k\n\"w\"\n> WAIT 1 0\n(integer) 1");
        check(&mut fresh, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 1");
        // In EXEC what came before it counts.
        check(&mut fresh, "> MULTI\nOK\n> SET k x\nQUEUED\n> WAIT 1 0\nQUEUED");
        assert_eq!(ask(&mut fresh, "EXEC"), "1) OK\n2) (integer) 1", "{kind:?}");
        check(&mut fresh, "> WAIT 1 20\n(integer) 0\n> MULTI\nOK\n> WAIT 1 0\nQUEUED");
        assert_eq!(ask(&mut fresh, "EXEC"), "1) (integer) 0", "{kind:?}");
        let script = "redis.call('SET', 'k', 'y') return redis.call('WAIT', '1', '0')";
        // In a script nothing does, but in Valkey what scripts before it have written.
        let reply = render(&writer.call(&["EVAL", script, "0"]));
        let is_as_there = kind == NodeKind::Genuine(Oracle::Valkey91) || reply == "(integer) 1";
        assert!(is_as_there, "{kind:?} {reply}");
        for line in
            ["PUBLISH channel message", "SADD set a", "EVAL return(redis.call('INCR','n')) 0"]
        {
            let mut client = top.client();
            ask(&mut client, "WAIT 0 0");
            ask(&mut client, line);
            assert_eq!(ask(&mut client, "WAIT 1 20"), "(integer) 0", "{kind:?} {line}");
        }
        below.signal(Signal::CONT);
        check(&mut writer, "> WAIT 1 0\n(integer) 1");
    }
}

/// What is changed beside the data is waited for like a write, by whatever way its command goes: a
/// long or slow library leaves the worker, and so does a message for very many patterns.
#[test]
fn a_client_waits_for_functions_and_messages_wherever_they_were_carried_out() {
    let lines = "-- so that it is long\n".repeat(2_000);
    let long = format!("#!lua name=long\n{lines}redis.register_function('f', function() end)");
    let slow = "#!lua name=slow\nlocal x = 0 for i = 1, 3000000 do x = x + i end\n\
                redis.register_function('s', function() end)";
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, below) = (kind.start(&[]), NodeKind::Apus.start(&[]));
        follow(&below, top.port());
        await_replica(&top, &below);
        let mut patterns = top.client();
        let names: Vec<String> = (0..2_500).map(|number| format!("{number}*")).collect();
        let words = ["PSUBSCRIBE"].into_iter().chain(names.iter().map(String::as_str));
        patterns.send(&words.collect::<Vec<_>>());
        eventually("all patterns are there", || top.client().info("pubsub_patterns") == "2500");
        top.client().call(&["FUNCTION", "LOAD", slow]);
        let dump = top.client().call(&["FUNCTION", "DUMP"]);
        let dump = dump.as_bytes().unwrap().to_vec();
        let load = |code: &str| {
            ["FUNCTION", "LOAD", "REPLACE", code].map(str::as_bytes).map(<[u8]>::to_vec)
        };
        let changes: [Vec<Vec<u8>>; 5] = [
            load(&long).to_vec(),
            load(slow).to_vec(),
            vec![b"FUNCTION".to_vec(), b"RESTORE".to_vec(), dump, b"FLUSH".to_vec()],
            [&b"PUBLISH"[..], b"channel", b"message"].map(<[u8]>::to_vec).to_vec(),
            [&b"FUNCTION"[..], b"FLUSH"].map(<[u8]>::to_vec).to_vec(),
        ];
        for (number, change) in changes.iter().enumerate() {
            for is_exec in [false, true] {
                let mut client = top.client();
                check(&mut client, "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
                below.signal(Signal::STOP);
                if is_exec {
                    check(&mut client, "> MULTI\nOK");
                    client.call(change);
                    ask(&mut client, "EXEC");
                } else {
                    client.call(change);
                }
                let waited = ask(&mut client, "WAIT 1 20");
                below.signal(Signal::CONT);
                assert_eq!(waited, "(integer) 0", "{kind:?} {number} {is_exec}");
            }
        }
    }
}

/// `appendonly no` holds, whatever comes of the load in whose midst it was said.
#[test]
fn a_log_that_is_turned_off_during_a_load_that_fails_is_off() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let top = NodeKind::Apus.start(&[]);
        check(&mut top.client(), "> DEBUG POPULATE 2000\nOK");
        let settings = [
            "--repl-diskless-load",
            "swapdb",
            "--appendonly",
            "yes",
            "--loading-process-events-interval-bytes",
            "1024",
            "--key-load-delay",
            "5000",
        ];
        let below = kind.start(&settings);
        follow(&below, top.port());
        let mut client = below.client();
        eventually("data are loaded", || client.info("loading") == "1");
        check(&mut client, "> CONFIG SET appendonly no\nOK");
        drop(top);
        eventually("the load has failed", || client.info("loading") == "0");
        eventually("there is no log", || client.info("aof_enabled") == "0");
        assert_eq!(client.info("master_link_status"), "down", "{kind:?}");
    }
}

fn stream_of_script(script: &str) -> Vec<u8> {
    let mut bytes = stream(&["SELECT 0"]);
    proto::args::encode_command([&b"EVAL"[..], script.as_bytes(), b"0"].into_iter(), &mut bytes);
    bytes
}

/// What a primary accepted is neither refused nor ended on a replica that only the primary writes
/// to, by a command or by a script.
#[test]
fn scripts_of_the_stream_are_run_to_their_end() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let below = kind.start(&["--busy-reply-threshold", "1"]);
        follow(&below, primary_that_says(&stream_of_script("return redis.call('SET', 'k', 'v')")));
        let mut client = below.client();
        eventually("it has run", || ask(&mut client, "EXISTS k") == "(integer) 1");
        let endless = "redis.call('SET', 'k', 'w') while true do end";
        for script in ["while true do end", endless] {
            let below = kind.start(&["--busy-reply-threshold", "1"]);
            follow(&below, primary_that_says(&stream_of_script(script)));
            let mut client = below.client();
            eventually("it is under way", || {
                let reply = ask(&mut client, "SCRIPT KILL");
                assert_ne!(reply, "OK", "{kind:?} {script}");
                reply.starts_with("(error) UNKILLABLE The busy script was sent by a master")
            });
        }
    }
}

/// The role that counts is the one that the transaction has come to.
#[test]
fn what_exec_promotes_its_scripts_may_write_to() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let below = kind.start(&[]);
        follow(&below, 1);
        let mut client = below.client();
        check(&mut client, "> MULTI\nOK\n> REPLICAOF NO ONE\nQUEUED");
        let script = "return redis.call('SET', 'k', 'v')";
        assert_eq!(render(&client.call(&["EVAL", script, "0"])), "QUEUED");
        assert_eq!(render(&client.call(&["EXEC"])), "1) OK\n2) OK", "{kind:?}");
        check(&mut client, "> MULTI\nOK\n> REPLICAOF 127.0.0.1 1\nQUEUED");
        assert_eq!(render(&client.call(&["EVAL", script, "0"])), "QUEUED");
        let reply = render(&client.call(&["EXEC"]));
        assert!(reply.contains("READONLY"), "{kind:?} {reply}");
        check(&mut client, "> REPLICAOF NO ONE\nOK");
    }
}

/// A change of role that cannot begin as a script runs is told so, and has done nothing.
#[test]
fn a_change_of_role_behind_a_long_script_is_busy() {
    let server = NodeKind::Apus.start(&["--busy-reply-threshold", "1000"]);
    let mut holder = server.client();
    holder.send(&["EVAL", "while true do end", "1", "held"]);
    let (mut client, mut probe) = (server.client(), server.client());
    eventually("the script runs", || {
        probe.send(&["EXISTS", "held"]);
        match probe.arrival(Duration::from_millis(300)).unwrap() {
            Arrival::Reply(value) => render(&value).starts_with("(error) BUSY"),
            arrival => arrival == Arrival::Silence,
        }
    });
    client.send(&["REPLICAOF", "127.0.0.1", "1"]);
    let busy = render(&client.receive());
    assert!(busy.starts_with("(error) BUSY"), "{busy}");
    eventually("it is killed", || ask(&mut client, "SCRIPT KILL") == "OK");
    eventually("it goes on", || ask(&mut client, "PING") == "PONG");
    assert_eq!(client.info("role"), "master");
}

/// Words are no progress: a link whose socket takes nothing is closed, however much it says.
#[test]
fn a_replica_that_talks_and_takes_nothing_is_closed() {
    let settings = [
        ["--client-output-buffer-limit", "replica 0 0 0"],
        ["--rdbcompression", "no"],
        ["--repl-timeout", "2"],
    ];
    let top = NodeKind::Apus.start(settings.as_flattened());
    check(&mut top.client(), "> DEBUG POPULATE 40000 key 2000\nOK");
    for (number, diskless) in ["yes", "no"].into_iter().enumerate() {
        let set = format!("CONFIG SET repl-diskless-sync {diskless}");
        assert_eq!(ask(&mut top.client(), &set), "OK");
        let mut peer = Peer::connect(top.port());
        assert_eq!(peer.ask("REPLCONF capa eof"), "+OK");
        peer.tell("PSYNC ? -1");
        eventually("it is closed", || {
            std::thread::sleep(Duration::from_millis(5));
            peer.try_say("\n").is_err()
        });
        eventually("the log says why", || {
            top.log().matches("Disconnecting timedout replica (full sync)").count() == number + 1
        });
    }
}
