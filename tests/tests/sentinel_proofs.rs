//! Sentinels in whole groups of Apus nodes: partitions, primaries that come back, host names, and
//! failovers that lose nothing since the primary hands over itself.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicBool, Ordering};

use proto::value::Value;
use rustix::process::Signal;
use tests::proxy::Proxy;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::sentinel::{NAME, Sentinel, SentinelProgram, field_of, watch_lines};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server, check};

const APUS: SentinelProgram = SentinelProgram::Apus;
const REDIS82: SentinelProgram = SentinelProgram::Stock(Oracle::Redis82);
const VALKEY91: SentinelProgram = SentinelProgram::Stock(Oracle::Valkey91);

/// Nodes that keep their ports; all but the first follow that at `port`, or itself.
fn group(kinds: &[NodeKind], more: &[&str], port: impl FnOnce(&Server) -> u16) -> Vec<Server> {
    let start = |(index, kind): (usize, &NodeKind)| {
        let (own, priority) = (free_port().to_string(), (10 * index.max(1)).to_string());
        let mut arguments = vec!["--replica-priority", &priority];
        // Real ones keep theirs as they are.
        if *kind == NodeKind::Apus {
            arguments.extend(["--port", &own]);
        }
        kind.start(&[&arguments[..], more].concat())
    };
    let nodes: Vec<Server> = kinds.iter().enumerate().map(start).collect();
    let port = port(&nodes[0]);
    for below in &nodes[1..] {
        follow(below, port);
        await_replica(&nodes[0], below);
    }
    nodes
}

/// A reply, over one connection after the other: Sentinels close those of clients.
fn asked(server: &Server, words: &[&str]) -> String {
    let mut told = None;
    eventually("it is answered", || {
        let mut client = Client::connect(server.port());
        told = client.try_call(words).ok();
        told.is_some()
    });
    render(&told.unwrap())
}

/// What is done to a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    Stop,
    Partition,
}

/// Six Sentinels, three of each kind, of which four have to agree.
fn through(blow: Blow) {
    let mut proxy = None;
    let mut nodes = group(&[NodeKind::Apus; 3], &[], |primary| {
        proxy.insert(Proxy::start(primary.port())).port()
    });
    let proxy = proxy.unwrap();
    let lines = watch_lines(proxy.port(), 4);
    let programs = Oracle::ALL.map(SentinelProgram::Stock);
    let sentinels: Vec<Sentinel> =
        programs.into_iter().chain([APUS; 3]).map(|it| it.start(&lines)).collect();
    sentinels.iter().for_each(|sentinel| sentinel.meet(2, 5));
    let (port, is_over) = (nodes[0].port(), AtomicBool::new(false));
    let acknowledged = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_to_all(port, &is_over));
        std::thread::sleep(std::time::Duration::from_millis(300));
        match blow {
            Blow::Kill => nodes[0].kill(),
            Blow::Stop => nodes[0].signal(Signal::STOP),
            Blow::Partition => proxy.part(),
        }
        let new = nodes[1].port();
        let sees = |it: &Sentinel| it.primary_port() == Some(new) && it.field("flags") == "master";
        eventually("all see the same new primary", || sentinels.iter().all(sees));
        is_over.store(true, Ordering::Relaxed);
        match blow {
            Blow::Kill => {}
            Blow::Stop => nodes[0].signal(Signal::CONT),
            Blow::Partition => proxy.heal(),
        }
        writer.join().unwrap()
    });
    assert!(acknowledged > 0, "{blow:?}");
    let found = render(&nodes[1].client().call(&["GET", "counter"]));
    let found: i64 = found.trim_matches('"').parse().unwrap();
    assert!(found >= acknowledged, "{blow:?}: {found} < {acknowledged}");
    let epochs: Vec<String> = sentinels.iter().map(|it| it.field("config-epoch")).collect();
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
    let count = |event: &str| -> usize {
        sentinels.iter().map(|it| it.log().matches(&format!("{event} ")).count()).sum()
    };
    eventually("each tells of it once", || count("+switch-master") == sentinels.len());
    assert_eq!(count("+promoted-slave"), 1, "{blow:?}");
}

/// Increments a counter until the primary is gone or says that it is alone; the newest value that
/// both replicas have.
fn write_to_all(port: u16, is_over: &AtomicBool) -> i64 {
    let (mut client, mut acknowledged) = (Client::connect(port), 0);
    while !is_over.load(Ordering::Relaxed) {
        let Ok(Value::Integer(value)) = client.try_call(&["INCR", "counter"]) else { break };
        match client.try_call(&["WAIT", "2", "1000"]) {
            Ok(Value::Integer(2)) => acknowledged = value,
            _ => break,
        }
    }
    acknowledged
}

#[test]
fn r10_37_six_sentinels_of_two_kinds_survive_a_killed_primary() {
    through(Blow::Kill);
}

#[test]
fn r10_37_six_sentinels_of_two_kinds_survive_a_stopped_primary() {
    through(Blow::Stop);
}

#[test]
fn r10_37_six_sentinels_of_two_kinds_survive_a_partition() {
    through(Blow::Partition);
}

/// A server that loads its data says so to PING, which is no silence.
#[test]
fn r10_33_a_primary_that_loads_is_not_failed_over() {
    let port = free_port().to_string();
    let settings = ["--port", &port, "--save", "3600 1", "--key-load-delay", "1000"];
    let mut primary = Server::start(&[&settings[..], &["--enable-debug-command", "yes"]].concat());
    let replica = NodeKind::Apus.start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    check(&mut primary.client(), "> DEBUG POPULATE 20000 key 10\nOK\n> SAVE\nOK");
    let sentinel = APUS.start(&watch_lines(primary.port(), 1));
    sentinel.meet(1, 0);
    primary.kill();
    primary.restart_hastily();
    eventually("it loads", || {
        let reply = Client::try_connect(primary.port()).and_then(|mut it| it.try_call(&["PING"]));
        reply.is_ok_and(|reply| render(&reply).contains("LOADING"))
    });
    // More than twice the time behind which a silent one is down.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(sentinel.primary_port(), Some(primary.port()));
    assert!(render(&primary.client().call(&["PING"])).contains("LOADING"), "it loads still");
    primary.client().call(&["CONFIG", "SET", "key-load-delay", "0"]);
    primary.become_ready();
    assert!(!sentinel.log().contains("+odown"), "{}", sentinel.log());
}

/// What the old primary took from clients that were with it in the partition is gone: this is what
/// asynchronous replication does not promise.
#[test]
fn r10_39_an_old_primary_with_writes_of_its_own_is_demoted_and_forgets_them() {
    for program in [APUS, VALKEY91] {
        let mut proxy = None;
        let nodes = group(&[NodeKind::Apus; 2], &[], |primary| {
            proxy.insert(Proxy::start(primary.port())).port()
        });
        let proxy = proxy.unwrap();
        let sentinel = program.start(&watch_lines(proxy.port(), 1));
        sentinel.meet(1, 0);
        let mut old = nodes[0].client();
        check(&mut old, "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        proxy.part();
        for number in 0..500 {
            old.call(&["SET", &format!("extra:{number}"), "v"]);
        }
        let new = nodes[1].port();
        eventually("there is another primary", || sentinel.primary_port() == Some(new));
        check(&mut nodes[1].client(), "> SET k w\nOK\n> SET theirs v\nOK");
        check(&mut old, "> SET k x\nOK");
        proxy.heal();
        eventually("it is demoted", || {
            let told = asked(&nodes[0], &["INFO", "replication"]);
            told.contains("role:slave") && told.contains("master_link_status:up")
        });
        await_replica(&nodes[1], &nodes[0]);
        let mut old = nodes[0].client();
        check(&mut old, "> GET k\n\"w\"\n> GET extra:7\n(nil)\n> DBSIZE\n(integer) 2");
        let digest = |it: &Server| render(&it.client().call(&["DEBUG", "DIGEST"]));
        assert_eq!(digest(&nodes[0]), digest(&nodes[1]));
        assert_eq!(old.info("master_port"), new.to_string());
    }
}

/// Where names are asked for, all that is told has names.
#[test]
fn names_of_hosts_are_resolved_and_told_as_real_sentinels_do() {
    let told = [REDIS82, VALKEY91, APUS].map(|program| {
        let mut nodes =
            group(&[NodeKind::Apus; 3], &["--replica-announce-ip", "localhost"], Server::port);
        let lines = watch_lines(nodes[0].port(), 1).replace("127.0.0.1", "localhost");
        let names = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n";
        let sentinel = program.start(&format!("{names}{lines}"));
        sentinel.meet(2, 0);
        let ports: Vec<u16> = nodes.iter().map(Server::port).collect();
        let without_ports = |text: String| {
            let places = ports.iter().enumerate();
            places.fold(text, |text, (at, port)| {
                text.replace(&port.to_string(), &format!("PORT{at}"))
            })
        };
        let address = || {
            let reply = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
            without_ports(render(&reply))
        };
        let replicas = || {
            let Value::Array(items) = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]) else {
                panic!("a list")
            };
            let names = ["name", "ip", "master-host"];
            let shown = |item: &Value| names.map(|name| field_of(item, name).unwrap_or_default());
            let mut all: Vec<String> =
                items.iter().map(|item| without_ports(shown(item).join(" "))).collect();
            all.sort();
            all
        };
        eventually("it has asked them all", || !replicas().concat().contains('?'));
        let before = (address(), replicas());
        nodes[0].kill();
        let new = ports[1];
        eventually("there is another primary", || sentinel.primary_port() == Some(new));
        eventually("the other one follows", || {
            let told = asked(&nodes[2], &["INFO", "replication"]);
            told.contains(&format!("master_port:{new}")) && told.contains("master_link_status:up")
        });
        let file: Vec<String> = sentinel
            .file()
            .lines()
            .filter(|line| line.contains("monitor") || line.contains("known-replica"))
            .map(|line| without_ports(line.to_owned()))
            .collect();
        let mut file = file;
        file.sort();
        let info = asked(&nodes[2], &["INFO", "replication"]);
        let host = info.split("\\r\\n").find(|line| line.starts_with("master_host")).unwrap();
        (before, address(), host.to_owned(), file)
    });
    assert_eq!(told[2].1, "1) \"localhost\"\n2) \"PORT1\"");
    assert_eq!(told[0], told[2]);
    assert_eq!(told[1], told[2]);
}

/// SENTINEL FAILOVER COORDINATED of Valkey: no write that was answered is lost, as the primary
/// hands over when its replica has all.
#[test]
fn a_coordinated_failover_loses_nothing_without_wait() {
    let genuine = NodeKind::Genuine;
    for (program, kinds) in [
        (VALKEY91, [NodeKind::Apus; 2]),
        (APUS, [NodeKind::Apus; 2]),
        (APUS, [genuine(Oracle::Valkey91); 2]),
        (APUS, [genuine(Oracle::Redis70), NodeKind::Apus]),
    ] {
        let nodes = group(&kinds, &[], Server::port);
        let sentinel = program.start(&watch_lines(nodes[0].port(), 1));
        sentinel.meet(1, 0);
        let is_over = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut client, mut written) = (nodes[0].client(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    match client.try_call(&["INCR", "counter"]) {
                        Ok(Value::Integer(value)) => written = value,
                        _ => break,
                    }
                }
                written
            });
            // The failover begins when the Sentinel has heard enough of the replica.
            eventually("it begins", || {
                let reply = sentinel.ask(&["SENTINEL", "FAILOVER", NAME, "COORDINATED"]);
                render(&reply) == "OK"
            });
            let new = nodes[1].port();
            eventually("it is over", || sentinel.primary_port() == Some(new));
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(written > 0, "{program:?} {kinds:?}");
        let found = asked(&nodes[1], &["GET", "counter"]);
        let found: i64 = found.trim_matches('"').parse().unwrap();
        assert!(found >= written, "{program:?} {kinds:?}: {found} < {written}");
        assert!(found <= written + 1, "only the last was not heard of: {found}, {written}");
        eventually("the old primary follows", || {
            let told = asked(&nodes[0], &["INFO", "replication"]);
            told.contains("role:slave") && told.contains("master_link_status:up")
        });
        asked(&nodes[1], &["SET", "later", "v"]);
        eventually("it hears of writes", || asked(&nodes[0], &["GET", "later"]) == "\"v\"");
    }
}
