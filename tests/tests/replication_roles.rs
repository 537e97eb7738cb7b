//! Roles: a replica of the real servers, what REPLICAOF says and does, what is told of a link, and
//! what a restart remembers.

use proto::value::Value;
use tests::client::field;
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server, check};

const SAVES: &[&str] = &["--repl-diskless-sync-delay", "0", "--save", "3600 1000000"];

fn follow(replica: &Server, primary: &Server) {
    let port = primary.port().to_string();
    let reply = replica.client().call(&["REPLICAOF", "127.0.0.1", &port]);
    assert!(render(&reply).starts_with("OK"), "{}", render(&reply));
}

fn await_equal(primary: &Server, replica: &Server) {
    let (mut above, mut below) = (primary.client(), replica.client());
    eventually("the replica has everything", || {
        below.info("master_link_status") == "up"
            && below.info("slave_repl_offset") == above.info("master_repl_offset")
    });
}

fn ask(client: &mut Client, line: &str) -> String {
    let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&client.call(&words))
}

/// Between the answer and the first look of the links' thread, too.
#[test]
fn a_replica_is_read_only_once_replicaof_is_answered() {
    let server = Server::start(&["--save", ""]);
    let (mut client, mut other) = (server.client(), server.client());
    for _ in 0..50 {
        check(&mut client, "> REPLICAOF 127.0.0.1 1\nOK");
        let said = "(error) READONLY You can't write against a read only replica.";
        assert_eq!(ask(&mut other, "SET k v"), said);
        check(&mut client, "> REPLICAOF NO ONE\nOK");
        assert_eq!(ask(&mut other, "SET k v"), "OK");
    }
}

/// A host is whatever it is given as: one that nobody has is not found, and nothing else.
#[test]
fn a_primary_may_have_any_name() {
    for host in ["a b", "", " ", "a\\nb", "a\\\"b", "no", "127.0.0.1 1\\nrequirepass x"] {
        let (ours, theirs) = (Server::start(&["--save", ""]), Oracle::Redis82.start(&[]));
        let replicaof = format!("REPLICAOF \"{host}\" 6379");
        for line in [&replicaof, "CONFIG GET replicaof", "CONFIG GET requirepass", "PING"] {
            let [ours, theirs] = [&ours, &theirs].map(|server| ask(&mut server.client(), line));
            assert_eq!(ours, theirs, "{host}: {line}");
        }
    }
}

#[test]
fn the_port_that_is_announced_is_that_of_now() {
    let (top, below) = (Oracle::Redis70.start(&[]), Server::start(&["--save", ""]));
    follow(&below, &top);
    await_equal(&top, &below);
    let (port, mut above) = (free_port(), top.client());
    check(&mut below.client(), &format!("> CONFIG SET port {port}\nOK"));
    check(&mut above, "> CLIENT KILL TYPE replica\n(integer) 1");
    eventually("it is told", || {
        ask(&mut above, "INFO replication").contains(&format!("port={port},"))
    });
}

#[test]
fn replicaof_is_answered_as_the_real_server_does() {
    let top = Oracle::Redis82.start(&["--repl-diskless-sync-delay", "0"]);
    let (ours, theirs) = (Server::start(&["--save", ""]), Oracle::Redis82.start(&["--save", ""]));
    let port = top.port();
    for line in [
        "REPLICAOF NO ONE",
        "REPLICAOF 127.0.0.1 port",
        "REPLICAOF 127.0.0.1 70000",
        "REPLICAOF 127.0.0.1",
        &format!("REPLICAOF 127.0.0.1 {port}"),
        &format!("SLAVEOF 127.0.0.1 {port}"),
        "IN STEP",
        "CONFIG GET replicaof",
        "CONFIG SET replicaof \"127.0.0.1 1\"",
        "EVAL \"return redis.pcall('REPLICAOF', 'NO', 'ONE')\" 0",
        "MULTI",
        "REPLICAOF NO ONE",
        "EXEC",
        "CONFIG GET replicaof",
        "ROLE",
    ] {
        if line == "IN STEP" {
            // Meanwhile either may say that it loads.
            [&ours, &theirs].into_iter().for_each(|replica| await_equal(&top, replica));
            continue;
        }
        let [ours, theirs] = [&ours, &theirs].map(|server| ask(&mut server.client(), line));
        if line.starts_with("ROLE") {
            assert!(ours.starts_with("1) \"master\"") || ours.contains("slave"), "{ours}");
            continue;
        }
        assert_eq!(ours, theirs, "{line}");
    }
}

#[test]
fn a_replica_refuses_what_the_real_one_refuses() {
    let top = Oracle::Redis82.start(&["--repl-diskless-sync-delay", "0"]);
    let (ours, theirs) = (Server::start(&["--save", ""]), Oracle::Redis82.start(&["--save", ""]));
    check(&mut top.client(), "> SET k v\nOK\n> RPUSH l a b\n(integer) 2");
    for server in [&ours, &theirs] {
        follow(server, &top);
        await_equal(&top, server);
    }
    let compare = |lines: &[&str]| {
        let (mut left, mut right) = (ours.client(), theirs.client());
        for line in lines {
            assert_eq!(ask(&mut left, line), ask(&mut right, line), "{line}");
        }
    };
    compare(&[
        "GET k",
        "SET k w",
        "LPOP l",
        "BLPOP l 1",
        "MULTI",
        "GET k",
        "SET k w",
        "EXEC",
        "EVAL \"return redis.call('GET', KEYS[1])\" 1 k",
        "EVAL \"return redis.call('SET', KEYS[1], 'w')\" 1 k",
        "EVAL \"return redis.pcall('SET', KEYS[1], 'w')\" 1 k",
        "PFCOUNT k",
        "PUBLISH c m",
        "FLUSHALL",
        "WAIT 0 0",
        "GETEX k",
        "SORT l",
        "SORT l ALPHA STORE m",
    ]);
    for server in [&ours, &theirs] {
        check(&mut server.client(), "> CONFIG SET replica-serve-stale-data no\nOK");
    }
    compare(&["GET k"]);
    drop(top);
    for server in [&ours, &theirs] {
        let mut client = server.client();
        eventually("the link is down", || client.info("master_link_status") == "down");
    }
    compare(&["GET k", "SET k w", "PING", "INFO nothing", "MULTI", "GET k", "EXEC", "PUBLISH c m"]);
    for server in [&ours, &theirs] {
        check(
            &mut server.client(),
            "> CONFIG SET replica-serve-stale-data yes\nOK\n> GET k\n\"v\"",
        );
        check(&mut server.client(), "> CONFIG SET replica-read-only no\nOK\n> SET k w\nOK");
        check(&mut server.client(), "> REPLICAOF NO ONE\nOK\n> SET k x\nOK\n> GET k\n\"x\"");
    }
}

/// Names of fields, with those of one server's own left out.
fn fields(client: &mut Client) -> Vec<String> {
    let info = render(&client.call(&["INFO", "replication"]));
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn info_has_the_fields_of_the_real_one_in_all_states() {
    let top = Oracle::Redis82.start(&["--repl-diskless-sync-delay", "0"]);
    let (ours, theirs) = (Server::start(&["--save", ""]), Oracle::Redis82.start(&["--save", ""]));
    let compare = |what: &str| {
        let [ours, theirs] = [&ours, &theirs].map(|server| fields(&mut server.client()));
        assert_eq!(ours, theirs, "{what}");
    };
    compare("a primary alone");
    for server in [&ours, &theirs] {
        follow(server, &top);
        await_equal(&top, server);
    }
    compare("a replica");
    drop(top);
    for server in [&ours, &theirs] {
        let mut client = server.client();
        eventually("the link is down", || client.info("master_link_status") == "down");
    }
    compare("a replica without its primary");
}

#[test]
fn r10_22_a_primary_that_comes_back_goes_on_with_its_replicas() {
    let mut top = Server::start(SAVES);
    let (ours, theirs) = (Server::start(&["--save", ""]), Oracle::Redis70.start(&["--save", ""]));
    check(&mut top.client(), "> SET k v\nOK");
    for server in [&ours, &theirs] {
        follow(server, &top);
        await_equal(&top, server);
    }
    let mut client = top.client();
    check(&mut client, "> SET k w\nOK\n> WAIT 2 0\n(integer) 2");
    client.send(&["SHUTDOWN", "SAVE"]);
    eventually("the server ends", || top.has_ended());
    top.restart();
    let mut client = top.client();
    check(&mut client, "> GET k\n\"w\"\n> SET k x\nOK");
    for server in [&ours, &theirs] {
        follow(server, &top);
        await_equal(&top, server);
        check(&mut server.client(), "> GET k\n\"x\"");
    }
    assert_eq!(["sync_full", "sync_partial_ok"].map(|it| client.info(it)), ["0", "2"]);
}

#[test]
fn r10_21_a_replica_that_comes_back_goes_on() {
    for oracle in Oracle::ALL {
        let top = oracle.start(&["--repl-diskless-sync-delay", "0", "--save", ""]);
        let port = top.port().to_string();
        let follows = [SAVES, &["--replicaof", "127.0.0.1", &port]].concat();
        let mut replica = Server::start(&follows);
        check(&mut top.client(), "> SELECT 3\nOK\n> SET k v\nOK");
        await_equal(&top, &replica);
        check(&mut top.client(), "> SELECT 3\nOK\n> SET k w\nOK\n> WAIT 1 0\n(integer) 1");
        let mut client = replica.client();
        client.send(&["SHUTDOWN", "SAVE"]);
        eventually("the server ends", || replica.has_ended());
        check(&mut top.client(), "> SELECT 3\nOK\n> APPEND k x\n(integer) 2");
        replica.restart();
        await_equal(&top, &replica);
        check(
            &mut replica.client(),
            "> SELECT 3\nOK\n> GET k\n\"wx\"\n> SET k y\n\
             (error) READONLY You can't write against a read only replica.",
        );
        assert_eq!(top.client().info("sync_full"), "1", "{oracle:?}");
        assert_eq!(top.client().info("sync_partial_ok"), "1", "{oracle:?}");
    }
}

#[test]
fn r10_31_the_file_says_whom_to_follow() {
    let top = Server::start(SAVES);
    let mut replica = Server::start_with_config("save \"\"\n", &[]);
    follow(&replica, &top);
    check(&mut replica.client(), "> CONFIG REWRITE\nOK");
    replica.kill();
    replica.restart();
    await_equal(&top, &replica);
    // As Sentinel says it.
    let mut client = replica.client();
    check(
        &mut client,
        "> MULTI\nOK\n> REPLICAOF NO ONE\nQUEUED\n> CONFIG REWRITE\nQUEUED\n\
         > CLIENT KILL TYPE normal\nQUEUED\n> CLIENT KILL TYPE pubsub\nQUEUED",
    );
    let done = render(&client.call(&["EXEC"]));
    assert_eq!(done, "1) OK\n2) OK\n3) (integer) 0\n4) (integer) 0");
    replica.kill();
    replica.restart();
    check(&mut replica.client(), "> SET k v\nOK");
    assert_eq!(replica.client().info("role"), "master");
}

#[test]
fn a_primary_with_users_lets_in_who_says_the_password() {
    for oracle in Oracle::ALL {
        let top = oracle.start(&["--repl-diskless-sync-delay", "0", "--requirepass", "secret"]);
        let mut replica = Server::start(&["--save", "", "--masterauth", "wrong"]);
        follow(&replica, &top);
        replica.wait_for_log("Unable to AUTH to MASTER: -WRONGPASS");
        check(&mut replica.client(), "> CONFIG SET masterauth secret\nOK");
        let mut client = replica.client();
        eventually("the link is up", || client.info("master_link_status") == "up");
        let user = "~* +psync +replconf +ping &* on >word";
        let words: Vec<&str> =
            ["ACL", "SETUSER", "link"].into_iter().chain(user.split(' ')).collect();
        let mut admin = top.client();
        admin.call(&["AUTH", "secret"]);
        assert_eq!(render(&admin.call(&words)), "OK");
        check(&mut client, "> CONFIG SET masteruser link masterauth word\nOK");
        admin.call(&["CLIENT", "KILL", "TYPE", "REPLICA"]);
        eventually("the user is in", || {
            render(&admin.call(&["CLIENT", "LIST", "TYPE", "REPLICA"])).contains("user=link")
        });
    }
}

#[test]
fn messages_reach_the_subscribers_of_replicas() {
    let top = Server::start(SAVES);
    let middle = Server::start(&["--save", ""]);
    let below = Oracle::Redis70.start(&["--save", ""]);
    follow(&middle, &top);
    await_equal(&top, &middle);
    follow(&below, &middle);
    await_equal(&middle, &below);
    let mut subscribers = [&middle, &below].map(|server| {
        let mut client = server.client();
        client.call(&["SUBSCRIBE", "c"]);
        client
    });
    let mut client = top.client();
    check(
        &mut client,
        "> PUBLISH c one\n(integer) 0\n> MULTI\nOK\n> SET k v\nQUEUED\n> PUBLISH c two\nQUEUED",
    );
    client.call(&["EXEC"]);
    client.call(&["EVAL", "return redis.call('PUBLISH', 'c', 'three')", "0"]);
    for subscriber in &mut subscribers {
        for word in ["one", "two", "three"] {
            assert!(render(&subscriber.receive()).contains(word));
        }
    }
    // What clients of a replica publish stays there.
    check(&mut middle.client(), "> PUBLISH c four\n(integer) 1");
    assert!(render(&subscribers[0].receive()).contains("four"));
    assert!(subscribers[1].is_silent());
}

#[test]
fn what_replicas_have_on_disk_is_waited_for() {
    let top = Server::start(SAVES);
    let replica = Server::start(&["--save", "", "--appendonly", "yes"]);
    follow(&replica, &top);
    await_equal(&top, &replica);
    check(&mut top.client(), "> SET k v\nOK\n> WAITAOF 0 1 0\n1) (integer) 0\n2) (integer) 1");
}

#[test]
fn failover_is_refused_as_the_real_server_refuses_it() {
    let (ours, theirs) = (Server::start(SAVES), Oracle::Redis82.start(&["--save", ""]));
    let below = Oracle::Redis82.start(&["--save", ""]);
    let compare = |lines: &[&str]| {
        for line in lines {
            let [ours, theirs] = [&ours, &theirs].map(|server| ask(&mut server.client(), line));
            assert_eq!(ours, theirs, "{line}");
        }
    };
    compare(&[
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER ABORT ABORT",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT x",
        "FAILOVER TO h x",
        "FAILOVER TO h",
        "FAILOVER TO h 1 FORCE",
        "FAILOVER nonsense",
    ]);
    for server in [&ours, &theirs] {
        follow(&below, server);
        await_equal(server, &below);
        for line in ["FAILOVER FORCE TIMEOUT 10", "FAILOVER TO h 1", "FAILOVER TO h 1 FORCE"] {
            let reply = ask(&mut server.client(), line);
            assert!(reply.contains("requires both a timeout") || reply.contains("not a replica"));
        }
    }
    follow(&ours, &below);
    await_equal(&below, &ours);
    let refused = ask(&mut ours.client(), "FAILOVER");
    assert_eq!(refused, "(error) ERR FAILOVER is not valid when server is a replica.");
}

/// The two change places, and nothing that was acknowledged is lost.
#[test]
fn r10_30_a_failover_changes_the_roles_under_load() {
    let genuine = [Oracle::Redis62, Oracle::Redis70, Oracle::Redis82, Oracle::Valkey91];
    for other in [None].into_iter().chain(genuine.map(Some)) {
        let start = |oracle: Option<Oracle>| match oracle {
            None => Server::start(SAVES),
            Some(oracle) => oracle.start(&["--repl-diskless-sync-delay", "0", "--save", ""]),
        };
        let version = if other == Some(Oracle::Redis62) { "9" } else { "0" };
        let own = [SAVES, &["--rdb-write-version", version]].concat();
        let (top, below) = (Server::start(&own), start(other));
        follow(&below, &top);
        await_equal(&top, &below);
        let mut writer = top.client();
        let mut written = 0;
        for turn in 0..2 {
            let (from, to) = if turn == 0 { (&top, &below) } else { (&below, &top) };
            for _ in 0..50 {
                written += 1;
                assert_eq!(writer.call(&["INCR", "counter"]), Value::Integer(written));
            }
            assert_eq!(ask(&mut from.client(), "FAILOVER TIMEOUT 30000"), "OK");
            // Writers wait meanwhile, and are told at the end.
            loop {
                let reply = render(&writer.call(&["INCR", "counter"]));
                if reply.contains("READONLY") {
                    break;
                }
                written += 1;
                assert_eq!(reply, format!("(integer) {written}"), "{other:?}, turn {turn}");
            }
            await_equal(to, from);
            assert_eq!(to.client().info("role"), "master");
            check(&mut to.client(), &format!("> GET counter\n\"{written}\""));
            assert_eq!(from.client().info("master_failover_state"), "no-failover");
            writer = to.client();
        }
        assert_eq!(top.client().info("sync_full"), "1", "{other:?}");
    }
}

#[test]
fn r10_30_a_failover_that_comes_to_nothing_leaves_a_primary() {
    let (mut top, below) = (Server::start(SAVES), Oracle::Redis70.start(&["--save", ""]));
    follow(&below, &top);
    await_equal(&top, &below);
    below.signal(rustix::process::Signal::STOP);
    let mut client = top.client();
    check(&mut client, "> SET k v\nOK\n> FAILOVER TIMEOUT 300\nOK\n> SET k w\nOK");
    top.wait_for_log("FAILOVER to any replica aborted: Replica never caught up before timeout");
    check(&mut client, "> FAILOVER\nOK\n> FAILOVER\n(error) ERR FAILOVER already in progress.");
    assert_eq!(client.info("master_failover_state"), "waiting-for-sync");
    let follows = client.call(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(render(&follows).contains("not allowed while failing over"));
    let mut writer = top.client();
    writer.send(&["SET", "k", "x"]);
    assert!(writer.is_silent());
    check(&mut client, "> FAILOVER ABORT\nOK");
    assert_eq!(render(&writer.receive()), "OK");
    eventually("it is over", || client.info("master_failover_state") == "no-failover");
    below.signal(rustix::process::Signal::CONT);
    await_equal(&top, &below);
    check(&mut below.client(), "> GET k\n\"x\"");
}

/// An operator asks a second time, or the system does beside one: who calls it off means all.
#[test]
fn an_abort_calls_off_every_end_that_was_asked_for() {
    let arguments = ["--save", "", "--shutdown-timeout", "60"];
    for top in [Server::start(&arguments), Oracle::Redis82.start(&arguments)] {
        let below = Oracle::Redis82.start(&["--save", ""]);
        follow(&below, &top);
        await_equal(&top, &below);
        below.signal(rustix::process::Signal::STOP);
        let mut client = top.client();
        check(&mut client, "> SET k v\nOK");
        let mut askers = [0; 3].map(|_| top.client());
        askers[0].send(&["SHUTDOWN"]);
        eventually("it waits", || {
            render(&client.call(&["INFO", "server"])).contains("shutdown_in_milliseconds")
        });
        askers[1].send(&["SHUTDOWN", "SAVE"]);
        askers[2].send(&["SHUTDOWN"]);
        eventually("all are there", || {
            let listed = render(&client.call(&["CLIENT", "LIST"]));
            listed.matches("cmd=shutdown").count() == 3
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        check(&mut client, "> SHUTDOWN ABORT\nOK");
        for mut asker in askers {
            let refused = "(error) ERR Errors trying to SHUTDOWN. Check logs.";
            assert_eq!(render(&asker.receive()), refused);
        }
        below.signal(rustix::process::Signal::CONT);
        await_equal(&top, &below);
        check(&mut client, "> SET k w\nOK");
    }
}

#[test]
fn a_shutdown_waits_for_replicas_that_lack_something() {
    let (mut top, below) = (Server::start(SAVES), Oracle::Redis70.start(&["--save", ""]));
    follow(&below, &top);
    await_equal(&top, &below);
    below.signal(rustix::process::Signal::STOP);
    let mut client = top.client();
    check(&mut client, "> SET k v\nOK\n> CONFIG SET shutdown-timeout 3600\nOK");
    let mut ender = top.client();
    ender.send(&["SHUTDOWN", "NOSAVE"]);
    top.wait_for_log("Waiting for replicas before shutting down.");
    let mut writer = top.client();
    writer.send(&["SET", "k", "w"]);
    assert!(writer.is_silent());
    let left: u64 = client.info("shutdown_in_milliseconds").parse().expect("it waits");
    assert!(left <= 3_600_000);
    check(&mut client, "> GET k\n\"v\"\n> SHUTDOWN ABORT\nOK");
    assert!(render(&ender.receive()).contains("Errors trying to SHUTDOWN"));
    assert_eq!(render(&writer.receive()), "OK");
    ender.send(&["SHUTDOWN", "NOSAVE"]);
    eventually("it waits again", || top.log().matches("Waiting for replicas").count() == 2);
    below.signal(rustix::process::Signal::CONT);
    eventually("it ends", || top.has_ended());
    check(&mut below.client(), "> GET k\n\"w\"");
    assert!(top.log().contains("1 of 1 replicas are in sync when shutting down."));
}

/// Valkey's words are about clusters: beside one they do nothing, or are refused.
#[test]
fn a_shutdown_knows_no_cluster() {
    const LINES: &[&str] = &[
        "SHUTDOWN SAFE ABORT",
        "SHUTDOWN FAILOVER ABORT",
        "SHUTDOWN FAILOVER SAVE NOSAVE",
        "SHUTDOWN FAILOVER",
        "SHUTDOWN SAFE FAILOVER NOSAVE NOW",
        "SHUTDOWN SAFE NOPE",
        "SHUTDOWN ABORT",
        "CONFIG SET shutdown-on-sigterm \"failover safe now\"",
        "CONFIG GET shutdown-on-sigterm",
        "CONFIG SET shutdown-on-sigterm \"safe no\"",
    ];
    let ours = || Server::start(&["--save", ""]);
    let theirs = || Oracle::Valkey91.start(&["--save", ""]);
    let (mut one, mut other) = (ours(), theirs());
    for line in LINES {
        let [ours, theirs] = [&one, &other].map(|server| ask(&mut server.client(), line));
        assert_eq!(ours, theirs, "{line}");
    }
    for server in [&mut one, &mut other] {
        server.signal(rustix::process::Signal::TERM);
        eventually("it ends", || server.has_ended());
    }
    for mut server in [ours(), theirs()] {
        let mut client = server.client();
        client.send(&["SHUTDOWN", "SAFE"]);
        assert_eq!(client.receive_to_close(), b"");
        eventually("it ends", || server.has_ended());
    }
}

#[test]
fn r10_26_whoever_is_blocked_is_told_when_the_server_becomes_a_replica() {
    let top = Oracle::Redis82.start(&["--repl-diskless-sync-delay", "0", "--save", ""]);
    let (ours, theirs) = (Server::start(SAVES), Oracle::Redis82.start(&["--save", ""]));
    for line in ["BLPOP l 0", "XREAD BLOCK 0 STREAMS s 0", "WAIT 1 0", "WAITAOF 0 1 0"] {
        let told = [&ours, &theirs].map(|server| {
            let (mut waiter, mut client) = (server.client(), server.client());
            waiter.send(&line.split(' ').collect::<Vec<_>>());
            eventually("it waits", || client.info("blocked_clients") == "1");
            follow(server, &top);
            let told = render(&waiter.receive());
            eventually("it is closed", || waiter.is_closed());
            assert_eq!(ask(&mut client, "REPLICAOF NO ONE"), "OK");
            told
        });
        assert_eq!(told[0], told[1], "{line}");
    }
}

#[test]
fn links_are_clients_that_no_clock_and_no_limit_closes() {
    let settings = ["--timeout", "1", "--maxmemory-clients", "100kb"];
    let (top, below) = (Server::start(&[SAVES, &settings].concat()), Server::start(&settings));
    follow(&below, &top);
    await_equal(&top, &below);
    let link = |server: &Server, kind: &str| {
        let list = render(&server.client().call(&["CLIENT", "LIST", "TYPE", kind]));
        [field(&list, "addr"), field(&list, "laddr")].join(" ")
    };
    let list = render(&below.client().call(&["CLIENT", "LIST", "TYPE", "master"]));
    assert_eq!(field(&list, "flags"), "M");
    let before = [link(&top, "replica"), link(&below, "master")];
    let mut idle = [top.client(), below.client()];
    for client in &mut idle {
        client.call(&["PING"]);
        eventually("who says nothing is closed", || client.is_closed());
    }
    assert_eq!([link(&top, "replica"), link(&below, "master")], before);
    // A client that closes the link by hand has it come back.
    check(&mut below.client(), "> CLIENT KILL TYPE master\n(integer) 1");
    eventually("there is another", || {
        below.client().info("master_link_status") == "up" && link(&below, "master") != before[1]
    });
    assert_eq!(top.client().info("sync_full"), "1");
}
