//! What happens to replicas and their primaries: full syncs under load, links that die within one,
//! restarts, promotions, what expires, what is refused meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::value::Value;
use rustix::process::Signal;
use tests::peer::Impostor;
use tests::proxy::{Direction, Fault, Proxy};
use tests::render::{render, text};
use tests::replication::{NodeKind, await_replica, follow, promote};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const APUS: NodeKind = NodeKind::Apus;

fn ask(client: &mut Client, line: &str) -> String {
    let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&client.call(&words))
}

/// The digest of what a server has, of a real one as its snapshot tells it to ours.
fn digest(server: &Server) -> String {
    if !server.is_oracle() {
        return ask(&mut server.client(), "DEBUG DIGEST");
    }
    let mut client = server.client();
    eventually("it saves", || ask(&mut client, "SAVE") == "OK");
    let again = Server::start_prepared(server.snapshot(), &["--enable-debug-command", "yes"]);
    ask(&mut again.client(), "DEBUG DIGEST")
}

/// Text that no compression makes shorter.
fn noise(length: usize, seed: u64) -> String {
    let mut random = base::random::Random::from_seed(seed);
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text += &format!("{:016x}", random.next_u64());
    }
    text.truncate(length);
    text
}

/// Some megabytes, as a replica is to get them.
fn load(client: &mut Client, megabytes: usize) {
    let value = noise(1 << 20, 1);
    for number in 0..megabytes {
        client.call(&["SET", &format!("big:{number}"), &value]);
    }
}

/// Apus with each real server as its replica and as its primary, and with itself.
fn both_ways() -> Vec<[NodeKind; 2]> {
    let genuine = Oracle::ALL.map(NodeKind::Genuine);
    let ways = genuine.into_iter().flat_map(|it| [[APUS, it], [it, APUS]]);
    ways.chain([[APUS; 2]]).collect()
}

#[test]
fn r10_08_a_hundred_megabytes_under_writes_are_the_same_on_each_peer() {
    for kinds in both_ways() {
        let [primary, replica] = kinds.map(|kind| kind.start(&[]));
        let mut client = primary.client();
        check(&mut client, "> DEBUG POPULATE 50000 key 2000\nOK");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut client = primary.client();
                for number in 0_u64.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("key:{}", number * 7919 % 50_000);
                    client.call(&["APPEND", &key, "more"]);
                    client.call(&["RPUSH", "log", &number.to_string()]);
                }
            });
            follow(&replica, primary.port());
            let mut below = replica.client();
            eventually("the link is up", || below.info("master_link_status") == "up");
            is_over.store(true, Ordering::Relaxed);
            writer.join().expect("the writer is answered");
        });
        await_replica(&primary, &replica);
        assert_eq!(digest(&primary), digest(&replica), "{kinds:?}");
    }
}

/// How a replica loads, and whether it has its old data when a transfer ends in the midst.
const MODES: [(&str, bool); 3] =
    [("disabled", true), ("swapdb", true), ("flush-before-load", false)];

#[test]
fn r10_11_a_link_that_is_killed_in_a_snapshot_comes_back_with_old_data_meanwhile() {
    for top in [APUS, NodeKind::Genuine(Oracle::Redis82)] {
        for (mode, keeps) in MODES {
            // What stands still is the connection that the data come on.
            let one = ["--repl-diskless-load", mode, "--repl-rdb-channel", "no"];
            let (primary, mut replica) = (top.start(&[]), APUS.start(&one));
            check(&mut replica.client(), "> SET old v\nOK");
            load(&mut primary.client(), 8);
            let proxy = Proxy::start(primary.port());
            // The connection stands still in the midst of the data.
            proxy.spoil_next(Fault::Silence(Direction::Down, 1 << 20));
            follow(&replica, proxy.port());
            replica.wait_for_log("streamed RDB from master");
            let mut client = replica.client();
            eventually("it is in the midst", || {
                client.info("master_sync_in_progress") == "1"
                    && client.figure("master_sync_read_bytes") > 500_000
            });
            check(&mut client, "> CLIENT KILL TYPE master\n(integer) 1");
            eventually("the transfer is given up", || proxy.accepted() == 2);
            await_replica(&primary, &replica);
            check(&mut client, "> GET old\n(nil)\n> STRLEN big:7\n(integer) 1048576");
            assert_eq!(digest(&primary), digest(&replica), "{top:?} {mode}");
            // And where nobody brings the data there are the old ones, or none.
            drop(proxy);
            promote(&replica);
            check(&mut client, "> FLUSHALL\nOK\n> SET old v\nOK");
            let impostor = Impostor::start();
            follow(&replica, impostor.port());
            let (mut link, _) = impostor.greet();
            // Some of what it is to get: enough that the old data have to make room.
            let keys = b"\0\x01k\x41\0".iter().copied().chain([b'v'; 256]);
            let some: Vec<u8> = keys.collect::<Vec<_>>().repeat(2000);
            link.say(format!("+FULLRESYNC {} 1\r\n$9000000\r\nREDIS0009", "c".repeat(40)));
            link.say([&b"\xfe\0"[..], &some].concat());
            eventually("it has begun", || keeps || ask(&mut client, "GET old").contains("LOADING"));
            drop(link);
            let (_link, _) = impostor.greet();
            if keeps {
                check(&mut client, "> GET old\n\"v\"");
            } else {
                eventually("they are gone", || ask(&mut client, "GET old") == "(nil)");
            }
        }
    }
}

/// The real ones lose what they had.
#[test]
fn r10_12_a_snapshot_of_a_newer_version_is_refused_without_a_busy_loop() {
    let mut replica = APUS.start(&[]);
    check(&mut replica.client(), "> SET old v\nOK");
    let impostor = Impostor::start();
    follow(&replica, impostor.port());
    let began = std::time::Instant::now();
    for head in ["REDIS0099", "REDIS9999", "VALKEY099", "NOTHING00"] {
        let (mut link, words) = impostor.greet();
        assert_eq!(words[0], "PSYNC");
        link.say(format!("+FULLRESYNC {} 1\r\n$100\r\n{head}", "d".repeat(40)));
        link.say([0; 91]);
        assert!(link.is_closed(), "{head}");
        check(&mut replica.client(), "> GET old\n\"v\"");
    }
    replica.wait_for_log("RDB version 9999 is not known; the old data stay");
    assert!(began.elapsed() > Duration::from_secs(2), "it asks no more than once per second");
    check(&mut replica.client(), "> REPLICAOF NO ONE\nOK\n> SET k v\nOK\n> GET old\n\"v\"");
}

#[test]
fn r10_20_behind_a_failover_all_come_back_in_part() {
    for other in [APUS, NodeKind::Genuine(Oracle::Redis70), NodeKind::Genuine(Oracle::Valkey91)] {
        let (a, b, c) = (APUS.start(&[]), APUS.start(&[]), other.start(&[]));
        for below in [&b, &c] {
            follow(below, a.port());
            await_replica(&a, below);
        }
        check(&mut a.client(), "> SET k v\nOK\n> WAIT 2 0\n(integer) 2");
        await_replica(&a, &c);
        let id = a.client().info("master_replid");
        let to = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 30000", b.port());
        assert_eq!(ask(&mut a.client(), &to), "OK");
        await_replica(&b, &a);
        follow(&c, b.port());
        await_replica(&b, &c);
        let mut client = b.client();
        assert_eq!(client.info("role"), "master");
        assert_ne!(client.info("master_replid"), id);
        assert_eq!(client.info("master_replid2"), id);
        let [full, part] = ["sync_full", "sync_partial_ok"].map(|it| client.info(it));
        assert_eq!((full.as_str(), part.as_str()), ("0", "2"), "{other:?}");
        for below in [&a, &c] {
            let mut below = below.client();
            assert_eq!(below.info("master_replid"), client.info("master_replid"), "{other:?}");
            assert_eq!(below.info("master_replid2"), id, "{other:?}");
            let [ours, theirs] = [&mut client, &mut below].map(|it| it.info("second_repl_offset"));
            assert_eq!(ours, theirs, "{other:?}");
        }
        check(&mut client, "> APPEND k w\n(integer) 2\n> WAIT 2 0\n(integer) 2");
        for below in [&a, &c] {
            await_replica(&b, below);
            check(&mut below.client(), "> GET k\n\"vw\"");
        }
    }
}

#[test]
fn r10_23_a_backlog_that_is_freed_ends_its_id() {
    let primary = APUS.start(&["--repl-backlog-ttl", "1"]);
    let replica = APUS.start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let mut client = primary.client();
    let id = client.info("master_replid");
    check(&mut client, "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
    replica.signal(Signal::STOP);
    client.call(&["CLIENT", "KILL", "TYPE", "REPLICA"]);
    eventually("it is freed", || client.info("repl_backlog_active") == "0");
    let next = client.info("master_replid");
    assert_ne!(next, id);
    assert_eq!(client.info("master_replid2"), "0".repeat(40));
    check(&mut client, "> SET k w\nOK");
    let full = client.figure("sync_full");
    replica.signal(Signal::CONT);
    await_replica(&primary, &replica);
    assert_eq!(client.figure("sync_full"), full + 1);
    check(&mut replica.client(), "> GET k\n\"w\"");
    assert_eq!(replica.client().info("master_replid"), client.info("master_replid"));
}

#[test]
fn r10_24_a_flush_in_a_full_sync_leaves_an_empty_replica() {
    for kinds in both_ways() {
        // What is slow is the connection that the data come on.
        let one = |kind| if kind == APUS { &["--repl-rdb-channel", "no"][..] } else { &[] };
        let [primary, replica] = kinds.map(|kind| kind.start(one(kind)));
        let mut client = primary.client();
        load(&mut client, 8);
        let proxy = Proxy::start(primary.port());
        proxy.spoil_next(Fault::Throttle(Direction::Down, 4 << 20));
        follow(&replica, proxy.port());
        eventually("it is sent its data", || {
            ask(&mut client, "INFO replication").contains("state=send_bulk")
                || ask(&mut client, "INFO replication").contains("state=wait_bgsave")
        });
        check(&mut client, "> FLUSHALL\nOK\n> SET last v\nOK");
        await_replica(&primary, &replica);
        check(&mut replica.client(), "> DBSIZE\n(integer) 1\n> GET last\n\"v\"");
    }
}

/// The clock of the replica is an hour ahead of that of its primary, so what the primary has for
/// half an hour is over there, and is not deleted.
#[test]
fn r10_25_what_has_expired_on_a_replica_is_hidden_and_stays() {
    let (primary, replica) = (APUS.start(&[]), APUS.start(&[]));
    check(&mut replica.client(), "> DEBUG JUMP-CLOCK 3600000\nOK");
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let mut client = primary.client();
    check(
        &mut client,
        "> SET k v EX 1800\nOK\n> SET lasting v\nOK\n> SET n 5 EX 1800\nOK\n\
         > HSET h f v g w\n(integer) 2\n> HEXPIRE h 1800 FIELDS 1 f\n1) (integer) 1\n\
         > INCR n\n(integer) 6\n> APPEND k w\n(integer) 2",
    );
    await_replica(&primary, &replica);
    let mut below = replica.client();
    check(
        &mut below,
        "> GET k\n(nil)\n> EXISTS k\n(integer) 0\n> TOUCH k\n(integer) 0\n> STRLEN k\n(integer) 0\n\
         > TTL k\n(integer) -2\n> PTTL k\n(integer) -2\n> EXPIRETIME k\n(integer) -2\n\
         > TYPE k\nnone\n> OBJECT ENCODING k\n(nil)\n> DUMP k\n(nil)\n> KEYS k\n(empty array)\n\
         > MGET k lasting\n1) (nil)\n2) \"v\"\n> DBSIZE\n(integer) 4\n> HGET h f\n(nil)\n\
         > HMGET h f g\n1) (nil)\n2) \"w\"\n\
         > SET k w\n(error) READONLY You can't write against a read only replica.",
    );
    assert!(!ask(&mut below, "SCAN 0 COUNT 1000").contains("\"k\""));
    for _ in 0..50 {
        assert_ne!(ask(&mut below, "RANDOMKEY"), "\"k\"");
    }
    // What the primary says of them is done, as they are there.
    check(
        &mut client,
        "> INCR n\n(integer) 7\n> APPEND k x\n(integer) 3\n> PERSIST k\n(integer) 1\n\
         > PERSIST n\n(integer) 1\n> HPERSIST h FIELDS 1 f\n1) (integer) 1",
    );
    await_replica(&primary, &replica);
    check(&mut below, "> GET k\n\"vwx\"\n> GET n\n\"7\"\n> HGET h f\n\"v\"");
    // And what comes with an end that is past is stored.
    check(&mut client, "> SET brief v PX 1800000\nOK");
    await_replica(&primary, &replica);
    check(&mut below, "> GET brief\n(nil)\n> DBSIZE\n(integer) 5");
    check(&mut client, "> PERSIST brief\n(integer) 1");
    await_replica(&primary, &replica);
    check(&mut below, "> GET brief\n\"v\"");
    assert_eq!(below.info("expired_keys"), "0");
    assert_eq!(digest(&primary), digest(&replica));
}

#[test]
fn r10_28_waitaof_follows_the_log_of_a_replica_on_and_off() {
    let (primary, replica) = (APUS.start(&[]), APUS.start(&[]));
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let (mut client, mut below) = (primary.client(), replica.client());
    let lacks =
        "(error) ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    check(&mut client, &format!("> SET k v\nOK\n> WAITAOF 1 0 0\n{lacks}"));
    check(&mut client, "> WAITAOF 0 1 300\n1) (integer) 0\n2) (integer) 0");
    check(&mut below, "> CONFIG SET appendonly yes\nOK");
    check(&mut client, "> SET k w\nOK\n> WAITAOF 0 1 0\n1) (integer) 0\n2) (integer) 1");
    check(&mut client, "> CONFIG SET appendonly yes\nOK");
    check(&mut client, "> SET k x\nOK\n> WAITAOF 1 1 0\n1) (integer) 1\n2) (integer) 1");
    check(&mut below, "> CONFIG SET appendonly no\nOK");
    eventually("the replica says no more of it", || {
        client.call(&["SET", "k", "y"]);
        ask(&mut client, "WAITAOF 1 1 100") == "1) (integer) 1\n2) (integer) 0"
    });
    // A client that waits for a log that is switched off is told.
    check(&mut client, "> SET k z\nOK");
    client.send(&["WAITAOF", "1", "1", "0"]);
    let mut other = primary.client();
    eventually("it waits", || other.info("blocked_clients") == "1");
    check(&mut other, "> CONFIG SET appendonly no\nOK");
    assert_eq!(render(&client.receive()), lacks);
}

#[test]
fn r10_29_scripts_are_refused_while_too_few_replicas_are_near() {
    let answers = [APUS, NodeKind::Genuine(Oracle::Redis82)].map(|kind| {
        let primary = kind.start(&["--min-replicas-to-write", "1"]);
        let mut client = primary.client();
        let lines = [
            "EVAL \"return redis.call('SET', KEYS[1], 'v')\" 1 k",
            "EVAL \"return redis.pcall('SET', KEYS[1], 'v')['err']\" 1 k",
            "EVAL \"#!lua\\nreturn redis.call('GET', KEYS[1])\" 1 k",
            "EVAL \"#!lua flags=no-writes\\nreturn redis.call('GET', KEYS[1])\" 1 k",
            "EVAL \"return redis.call('GET', KEYS[1])\" 1 k",
            "BLPOP l 1",
            "LPOP l",
            "GET k",
            "PUBLISH c m",
            "CONFIG SET min-replicas-to-write 0",
            "SET k v",
        ];
        let shown = |reply: String| reply.split(" script:").next().unwrap_or_default().to_owned();
        lines.map(|line| (line, shown(ask(&mut client, line))))
    });
    assert_eq!(answers[0], answers[1]);
}

/// A target that never catches up takes over nevertheless; what was written meanwhile is refused.
#[test]
fn r10_30_a_failover_by_force_leaves_behind_what_the_target_lacks() {
    for kind in [APUS, NodeKind::Genuine(Oracle::Redis70)] {
        let (top, below) = (APUS.start(&[]), kind.start(&[]));
        follow(&below, top.port());
        await_replica(&top, &below);
        check(&mut top.client(), "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        below.signal(Signal::STOP);
        check(&mut top.client(), "> SET k late\nOK");
        let to = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 100", below.port());
        assert_eq!(ask(&mut top.client(), &to), "OK");
        let mut writer = top.client();
        writer.send(&["SET", "k", "later"]);
        let mut client = top.client();
        eventually("it goes on by force", || {
            client.info("master_failover_state") == "failover-in-progress"
        });
        assert!(writer.is_silent());
        below.signal(Signal::CONT);
        assert!(render(&writer.receive()).contains("READONLY"), "{kind:?}");
        await_replica(&below, &top);
        assert_eq!(below.client().info("role"), "master");
        let [ours, theirs] = [&top, &below].map(|it| ask(&mut it.client(), "GET k"));
        assert_eq!(ours, theirs, "{kind:?}");
    }
}

/// What may be said to a replica without its link, of all commands there are.
#[test]
fn r10_32_what_a_stale_replica_refuses_is_what_the_real_one_refuses() {
    let replicas = [APUS, NodeKind::Genuine(Oracle::Redis82)].map(|kind| {
        let replica =
            kind.start(&["--replica-serve-stale-data", "no", "--replicaof", "127.0.0.1", "1"]);
        eventually("it is a replica", || {
            ask(&mut replica.client(), "INFO replication").contains("master_link_status:down")
        });
        replica
    });
    let names = replicas.each_ref().map(|it| names(&mut it.client()));
    let mut told = String::new();
    for (name, arity) in names[0].iter().filter(|it| names[1].contains(it)) {
        // What ends or blocks the connection is no question.
        if ["shutdown", "monitor", "psync", "sync", "debug", "quit", "failover"]
            .contains(&name.as_str())
        {
            continue;
        }
        let length = usize::try_from(arity.abs()).expect("it is small").max(1);
        let words: Vec<&str> = [name.as_str()].into_iter().chain(vec!["1"; length - 1]).collect();
        let is_stale = |it: &Server| render(&it.client().call(&words)).contains("MASTERDOWN");
        let stale = replicas.each_ref().map(is_stale);
        if stale[0] != stale[1] {
            told += &format!("{words:?}: ours {}, theirs {}\n", stale[0], stale[1]);
        }
    }
    assert!(told.is_empty(), "{told}");
    let lines = [
        "PING",
        "GET k",
        "MULTI",
        "EVAL \"return 1\" 0",
        "EVAL \"#!lua flags=allow-stale\\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes,allow-stale\\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes,allow-stale\\nreturn redis.pcall('GET', 'k')['err']\" 0",
        "EVAL \"#!lua flags=no-writes,allow-stale\\nreturn redis.pcall('SET', 'k', 'v')['err']\" 0",
        "EVAL \"#!lua flags=no-writes,allow-stale\\nreturn redis.call('ECHO', 'k')\" 0",
        "INFO nothing",
        "CONFIG GET replica-serve-stale-data",
    ];
    for line in lines {
        let [ours, theirs] = replicas.each_ref().map(|it| ask(&mut it.client(), line));
        assert_eq!(ours, theirs, "{line}");
    }
}

/// All commands with their arity.
fn names(client: &mut Client) -> Vec<(String, i64)> {
    let Value::Array(commands) = client.call(&["COMMAND"]) else { panic!("a list") };
    let name = |command: Value| match command {
        Value::Array(parts) => match parts[1] {
            Value::Integer(arity) => (text(&parts[0]), arity),
            _ => panic!("an arity"),
        },
        _ => panic!("a command"),
    };
    commands.into_iter().map(name).collect()
}

#[test]
fn r10_33_a_replica_that_loads_says_so() {
    let replica = APUS.start(&["--key-load-delay", "1000"]);
    let impostor = Impostor::start();
    follow(&replica, impostor.port());
    let donor = APUS.start(&[]);
    check(&mut donor.client(), "> DEBUG POPULATE 20000 key 10\nOK\n> SAVE\nOK");
    let data = std::fs::read(donor.folder().join("dump.rdb")).expect("it was just saved");
    let (mut link, _) = impostor.greet();
    link.say(format!("+FULLRESYNC {} 1\r\n${}\r\n", "e".repeat(40), data.len()));
    link.say(&data);
    let mut client = replica.client();
    eventually("it loads", || ask(&mut client, "PING").contains("LOADING"));
    let loading = "(error) LOADING Redis is loading the dataset in memory";
    check(
        &mut client,
        &format!("> GET k\n{loading}\n> REPLICAOF NO ONE\n{loading}\n> WAIT 0 0\n{loading}"),
    );
    assert_eq!(client.info("loading"), "1");
    assert!(ask(&mut client, "INFO replication").contains("master_sync_in_progress:1"));
    check(&mut client, "> ECHO here\n\"here\"\n> SELECT 0\nOK");
}

#[test]
fn r10_35_replicas_of_two_versions_each_get_a_snapshot_that_they_read() {
    let primary = APUS.start(&["--repl-diskless-sync-delay", "2"]);
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let kinds = Oracle::ALL.map(NodeKind::Genuine);
    let replicas = [kinds[0], kinds[1], kinds[2], APUS].map(|kind| kind.start(&[]));
    replicas.iter().for_each(|it| follow(it, primary.port()));
    for replica in &replicas {
        await_replica(&primary, replica);
        assert_eq!(digest(&primary), digest(replica));
    }
    assert_eq!(client.info("sync_full"), "4");
    // The replicas did not come to it by being refused first.
    assert!(!primary.log().contains("were to be written as"));
}
