//! What a Sentinel answers, field by field beside real ones that watch the same primary.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::quote::split_arguments;
use proto::value::Value;
use tests::render::render;
use tests::sentinel::{NAME, Sentinel, SentinelProgram, World, field_of};
use tests::server::eventually;
use tests::{Client, Oracle};

const APUS: SentinelProgram = SentinelProgram::Apus;

/// Fields of instances whose values depend on the time or on chance.
const PASSING: [&str; 12] = [
    "runid",
    "link-pending-commands",
    "last-ping-sent",
    "last-ok-ping-reply",
    "last-ping-reply",
    "info-refresh",
    "role-reported-time",
    "master-link-down-time",
    "slave-repl-offset",
    "last-hello-message",
    "port",
    "name",
];

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

/// An instance as lines, without what passes.
fn shown(instance: &Value) -> Vec<String> {
    let Value::Array(items) = instance else { panic!("{instance:?}") };
    let pairs = items.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1])));
    pairs
        .map(|(name, value)| {
            let passes = PASSING.contains(&name.as_str());
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            match (passes, is_number) {
                (true, true) => format!("{name}=NUMBER"),
                (true, false) if value.len() == 40 => format!("{name}=ID"),
                (true, false) => format!("{name}=TEXT"),
                (false, _) => format!("{name}={value}"),
            }
        })
        .collect()
}

/// Ours and a real one that watch one primary with two replicas, and know each other.
fn pair(oracle: Oracle) -> (World, [Sentinel; 2]) {
    let world = World::start(2, &[]);
    let both = [APUS, SentinelProgram::Stock(oracle)].map(|it| it.watch(&world, 2, ""));
    both.iter().for_each(|sentinel| sentinel.meet(2, 1));
    (world, both)
}

fn ask(sentinel: &Sentinel, line: &str) -> Value {
    sentinel.client().call(&split_arguments(line.as_bytes()).unwrap())
}

/// The same in a version of the protocol.
fn ask_in(version: &str, sentinel: &Sentinel, line: &str) -> Value {
    let mut client = sentinel.client();
    if version == "3" {
        client.call(&["HELLO", version]);
    }
    client.call(&split_arguments(line.as_bytes()).unwrap())
}

#[test]
fn instances_have_the_fields_of_redis_70() {
    instances_as(Oracle::Redis70);
}

#[test]
fn instances_have_the_fields_of_redis_82() {
    instances_as(Oracle::Redis82);
}

fn instances_as(oracle: Oracle) {
    let (_world, [ours, theirs]) = pair(oracle);
    let all = |sentinel: &Sentinel, line: &str| {
        let Value::Array(items) = ask(sentinel, line) else { panic!("{line}") };
        let mut shown: Vec<Vec<String>> = items.iter().map(shown).collect();
        shown.sort();
        shown
    };
    let lists = ["SENTINEL MASTERS", "SENTINEL REPLICAS watched", "SENTINEL SLAVES watched"];
    for line in lists.into_iter().chain(["SENTINEL SENTINELS watched"]) {
        // What both have heard of each other differs for a moment.
        eventually("both show the same", || all(&ours, line) == all(&theirs, line));
    }
    let one = |sentinel: &Sentinel| shown(&ask(sentinel, "SENTINEL MASTER watched"));
    assert_eq!(one(&ours), one(&theirs));
    let ids = [&ours, &theirs].map(|sentinel| text(&ask(sentinel, "SENTINEL MYID")));
    for (sentinel, other) in [(&ours, &ids[1]), (&theirs, &ids[0])] {
        let Value::Array(items) = ask(sentinel, "SENTINEL SENTINELS watched") else { panic!() };
        assert_eq!(field_of(&items[0], "runid").as_ref(), Some(other));
    }
    let Value::Array(items) = ask(&ours, "SENTINEL INFO-CACHE watched nobody") else { panic!() };
    let Value::Array(cached) = &items[1] else { panic!("{items:?}") };
    assert_eq!((text(&items[0]).as_str(), items.len(), cached.len()), (NAME, 2, 3));
    for node in cached {
        let Value::Array(node) = node else { panic!("{node:?}") };
        assert!(matches!(node[0], Value::Integer(age) if age < 60_000), "{node:?}");
        assert!(text(&node[1]).contains("run_id:"));
    }
}

/// Requests whose replies are the same, letter by letter. `PORT` is the primary's port.
const ALIKE: &[&str] = &[
    "PING",
    "PING text",
    "ROLE",
    "GET key",
    "QUIT",
    "MULTI",
    "CONFIG GET port",
    "PUBLISH channel text",
    "PUBLISH __sentinel__:hello nonsense",
    "PUBLISH channel",
    "SENTINEL",
    "SENTINEL NOTHING",
    "SENTINEL MASTER",
    "SENTINEL MASTER nobody",
    "SENTINEL REPLICAS nobody",
    "SENTINEL SENTINELS nobody",
    "SENTINEL CKQUORUM watched",
    "SENTINEL CKQUORUM nobody",
    "SENTINEL GET-MASTER-ADDR-BY-NAME watched",
    "SENTINEL GET-MASTER-ADDR-BY-NAME nobody",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 PORT 0 *",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 0 *",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 PORT x *",
    "SENTINEL FAILOVER nobody",
    "SENTINEL PENDING-SCRIPTS",
    "SENTINEL FLUSHCONFIG",
    "SENTINEL REMOVE nobody",
    "SENTINEL RESET nobody*",
    "SENTINEL INFO-CACHE nobody",
    "SENTINEL MONITOR watched 127.0.0.1 PORT 2",
    "SENTINEL MONITOR other 127.0.0.1 x 2",
    "SENTINEL MONITOR other 127.0.0.1 PORT 0",
    "SENTINEL MONITOR other 127.0.0.1 PORT x",
    "SENTINEL MONITOR other localhost PORT 2",
    "SENTINEL MONITOR other 127.0.0.1 70000 2",
    "SENTINEL MONITOR other 127.0.0.1 PORT 1",
    "SENTINEL GET-MASTER-ADDR-BY-NAME other",
    "SENTINEL SET other down-after-milliseconds 5000",
    "SENTINEL SET other failover-timeout 6000 parallel-syncs 3 quorum 7",
    "SENTINEL SET other down-after-milliseconds 0",
    "SENTINEL SET other down-after-milliseconds x",
    "SENTINEL SET other failover-timeout -1",
    "SENTINEL SET other parallel-syncs x",
    "SENTINEL SET other quorum 0",
    "SENTINEL SET other auth-pass secret",
    "SENTINEL SET other auth-user me",
    "SENTINEL SET other rename-command CONFIG GUESSME",
    "SENTINEL SET other notification-script /nowhere",
    "SENTINEL SET other client-reconfig-script /nowhere",
    "SENTINEL SET other master-reboot-down-after-period 0",
    "SENTINEL SET other master-reboot-down-after-period x",
    "SENTINEL SET other nothing 1",
    "SENTINEL SET other quorum",
    "SENTINEL SET nobody quorum 1",
    "SENTINEL CKQUORUM other",
    "SENTINEL REMOVE other",
    "SENTINEL MASTER other",
    "SENTINEL CONFIG",
    "SENTINEL CONFIG GET",
    "SENTINEL CONFIG SET announce-port",
    "SENTINEL CONFIG SET",
    "SENTINEL CONFIG NOTHING x",
    "SENTINEL CONFIG GET nothing",
    "SENTINEL CONFIG GET announce-port",
    "SENTINEL CONFIG SET announce-port 70000",
    "SENTINEL CONFIG SET announce-port x",
    "SENTINEL CONFIG SET resolve-hostnames maybe",
    "SENTINEL CONFIG SET nothing x",
    "SENTINEL CONFIG SET sentinel-user me",
    "SENTINEL CONFIG GET sentinel-user",
    "SENTINEL CONFIG SET sentinel-user \"\"",
    "SENTINEL SIMULATE-FAILURE help",
    "SENTINEL SIMULATE-FAILURE nothing",
    "SENTINEL DEBUG nothing 1",
    "SENTINEL DEBUG info-period x",
    "SENTINEL DEBUG info-period 0",
    "SENTINEL DEBUG info-period 9000",
    "CLIENT GETNAME",
    "ACL WHOAMI",
    "ACL USERS",
    "AUTH x",
    "SUBSCRIBE +sdown",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE",
    "COMMAND COUNT",
];

fn replies_as(oracle: Oracle, except: &[&str]) {
    let (world, [ours, theirs]) = pair(oracle);
    let port = world.primary().port().to_string();
    let mut wrong = Vec::new();
    let lines = ALIKE.iter().filter(|line| !except.contains(line));
    for (line, version) in lines.flat_map(|line| [(line, "2"), (line, "3")]) {
        let line = line.replace("PORT", &port);
        let [mine, real] =
            [&ours, &theirs].map(|sentinel| render(&ask_in(version, sentinel, &line)));
        if mine != real {
            wrong.push(format!("RESP{version} {line}\n  ours:   {mine}\n  theirs: {real}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn replies_are_those_of_redis_70() {
    // Later versions have other words for these.
    let later = ["GET", "SET", "SET announce-port", "NOTHING x"];
    let later = later.map(|words| format!("SENTINEL CONFIG {words}"));
    replies_as(Oracle::Redis70, &later.each_ref().map(String::as_str));
}

#[test]
fn replies_are_those_of_redis_82() {
    replies_as(Oracle::Redis82, &[]);
}

#[test]
fn replies_are_those_of_valkey() {
    replies_as(Oracle::Valkey91, &[]);
}

/// The names that Valkey has for what Redis calls otherwise.
#[test]
fn names_of_valkey_mean_the_same() {
    let (world, [ours, theirs]) = pair(Oracle::Valkey91);
    let port = world.primary().port();
    for (name, of_redis) in [
        ("GET-PRIMARY-ADDR-BY-NAME watched", "GET-MASTER-ADDR-BY-NAME watched"),
        ("PRIMARY nobody", "MASTER nobody"),
        (
            &format!("IS-PRIMARY-DOWN-BY-ADDR 127.0.0.1 {port} 0 *"),
            &format!("IS-MASTER-DOWN-BY-ADDR 127.0.0.1 {port} 0 *"),
        ),
    ] {
        for version in ["2", "3"] {
            let said = |sentinel: &Sentinel, words: &str| {
                render(&ask_in(version, sentinel, &format!("SENTINEL {words}")))
            };
            assert_eq!(said(&ours, name), said(&ours, of_redis));
            assert_eq!(said(&ours, name), said(&theirs, name));
        }
    }
    for version in ["2", "3"] {
        let said = |words: &str| ask_in(version, &ours, &format!("SENTINEL {words}"));
        for list in ["MASTERS", "PRIMARIES", "SLAVES watched", "REPLICAS watched"] {
            assert!(matches!(said(list), Value::Array(items) if !items.is_empty()), "{list}");
        }
        for one in ["MASTER watched", "PRIMARY watched"] {
            assert_eq!(field_of(&said(one), "name").as_deref(), Some(NAME));
        }
        assert_eq!(text(&said("MYID")).len(), 40);
        let help = render(&said("HELP"));
        assert!(help.contains("SENTINEL <subcommand>") && help.contains("FLUSHCONFIG"), "{help}");
        assert!(matches!(said("DEBUG"), Value::Map(_) | Value::Array(_)));
    }
}

/// A replica that says `replica-announced no` is known, and shown to no client: by Sentinels of
/// each kind over replicas of each kind.
#[test]
fn a_replica_that_is_not_announced_is_shown_to_no_client() {
    let world = World::of(&[None, None, Some(Oracle::Redis82)]);
    let programs = [APUS, SentinelProgram::Stock(Oracle::Redis82)];
    let sentinels = programs.map(|program| program.watch(&world, 2, ""));
    sentinels.iter().for_each(|sentinel| sentinel.meet(2, 1));
    let shown = |sentinel: &Sentinel| {
        let listed = ask(sentinel, &format!("SENTINEL REPLICAS {NAME}"));
        let Value::Array(replicas) = listed else { panic!("{listed:?}") };
        let ports = replicas.iter().map(|replica| field_of(replica, "port").unwrap());
        let mut ports: Vec<u16> = ports.map(|port| port.parse().unwrap()).collect();
        ports.sort_unstable();
        ports
    };
    let mut all = vec![world.port(1), world.port(2)];
    all.sort_unstable();
    for hidden in [1, 2] {
        let mut client = Client::connect(world.port(hidden));
        for (announced, expected) in [("no", vec![world.port(3 - hidden)]), ("yes", all.clone())] {
            client.call(&["CONFIG", "SET", "replica-announced", announced]);
            for sentinel in &sentinels {
                eventually("INFO tells it", || shown(sentinel) == expected);
                assert_eq!(sentinel.field("num-slaves"), "2");
            }
        }
    }
}

#[test]
fn info_and_hello_say_that_it_is_a_sentinel() {
    let (_world, [ours, theirs]) = pair(Oracle::Redis82);
    let heads = |sentinel: &Sentinel, line: &str| {
        let info = text(&ask(sentinel, line));
        let heads = info.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
        heads.collect::<Vec<_>>()
    };
    for line in ["INFO", "INFO all", "INFO sentinel", "INFO server nothing", "INFO keyspace"] {
        assert_eq!(heads(&ours, line), heads(&theirs, line), "{line}");
    }
    assert!(text(&ask(&ours, "INFO server")).contains("redis_mode:sentinel\r\n"));
    let section = |sentinel: &Sentinel| text(&ask(sentinel, "INFO sentinel"));
    assert_eq!(section(&ours), section(&theirs));
    for version in ["2", "3"] {
        let names = |sentinel: &Sentinel| match ask(sentinel, &format!("HELLO {version}")) {
            Value::Map(pairs) => pairs.iter().map(|(name, _)| text(name)).collect::<Vec<_>>(),
            Value::Array(items) => items.chunks(2).map(|pair| text(&pair[0])).collect(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names(&ours), names(&theirs));
    }
}

#[test]
fn commands_are_those_of_a_real_sentinel() {
    let ours = APUS.start("");
    let theirs = SentinelProgram::Stock(Oracle::Redis70).start("");
    let names = |sentinel: &Sentinel| {
        let Value::Array(items) = ask(sentinel, "COMMAND LIST") else { panic!() };
        items.iter().map(text).filter(|name| !name.contains('|')).collect::<Vec<_>>()
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(names(&ours)), sorted(names(&theirs)));
    let facts = |sentinel: &Sentinel| {
        let Value::Array(items) = ask(sentinel, "COMMAND INFO SENTINEL") else { panic!() };
        let Value::Array(facts) = &items[0] else { panic!("{items:?}") };
        let Value::Array(subcommands) = &facts[9] else { panic!("{facts:?}") };
        let mut subcommands: Vec<String> = subcommands
            .iter()
            .map(|it| {
                let Value::Array(facts) = it else { panic!("{it:?}") };
                let [name, arity, flags] = &facts[..3] else { panic!("{facts:?}") };
                format!("{} {} {} {}", text(name), render(arity), render(flags), render(&facts[6]))
            })
            // What Valkey has beyond Redis.
            .filter(|line| !line.contains("primar") && !line.contains("|failover "))
            .collect();
        subcommands.sort();
        subcommands
    };
    for (ours, theirs) in facts(&ours).iter().zip(&facts(&theirs)) {
        assert_eq!(ours, theirs);
    }
}
