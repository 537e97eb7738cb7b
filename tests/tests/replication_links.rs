//! Links as others see them, beside Redis 8.2: their lines in CLIENT LIST, which of them CLIENT
//! KILL USER finds, the lines of a replica's log, and what is told and waited for on either end.

use std::time::Duration;

use rustix::process::Signal;
use tests::client::field;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, outrun, promote};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const KINDS: [NodeKind; 2] = [NodeKind::Genuine(Oracle::Redis82), NodeKind::Apus];

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// A primary, and a replica that has all of it.
fn pair(kind: NodeKind, arguments: &[&str]) -> [Server; 2] {
    let pair = [kind.start(arguments), kind.start(arguments)];
    follow(&pair[1], pair[0].port());
    await_replica(&pair[0], &pair[1]);
    pair
}

/// The line of a link, or nothing.
fn line(server: &Server, kind: &str) -> String {
    let list = ask(&mut server.client(), &format!("CLIENT LIST TYPE {kind}"));
    list.trim_matches('"').trim_end_matches("\\n").to_owned()
}

#[test]
fn links_are_listed_as_the_real_server_lists_them() {
    let seen = KINDS.map(|kind| {
        let [top, below] = pair(kind, &[]);
        let mut client = top.client();
        check(&mut client, "> SET k v\nOK\n> INCR n\n(integer) 1");
        check(&mut client, "> MULTI\nOK\n> INCR n\nQUEUED\n> INCR n\nQUEUED");
        check(&mut client, "> EXEC\n1) (integer) 2\n2) (integer) 3");
        await_replica(&top, &below);
        let names = ["flags", "db", "cmd", "user", "multi", "resp", "io-thread"];
        let shown = |line: &str| names.map(|name| field(line, name).to_owned());
        let figure = |line: &str, name: &str| field(line, name).parse::<i64>().expect("a number");
        // Acknowledgements count for the primary, the stream for the replica.
        let before = figure(&line(&top, "replica"), "tot-cmds");
        eventually("the replica acknowledges", || {
            figure(&line(&top, "replica"), "tot-cmds") >= before + 2
        });
        // Each acknowledgement begins the time anew, however slow the machine is.
        eventually("the replica was just heard", || figure(&line(&top, "replica"), "idle") <= 1);
        let first = line(&top, "replica").replace("io-thread=1", "io-thread=0");
        let mut second = String::new();
        eventually("the last word of the stream is EXEC, or a later PING", || {
            second = line(&below, "master");
            ["exec", "ping"].contains(&field(&second, "cmd"))
        });
        // SET, INCR, MULTI, INCR, INCR, EXEC, and maybe SELECT and PING.
        let commands = figure(&second, "tot-cmds");
        assert!((6..=10).contains(&commands), "{second}");
        assert!((100..1000).contains(&figure(&second, "tot-net-in")), "{second}");
        assert!(figure(&second, "tot-net-out") > 0, "{second}");
        [shown(&first), shown(&second.replace("cmd=ping", "cmd=exec"))]
    });
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_user_that_is_killed_takes_its_replicas_along_and_no_primary() {
    for kind in KINDS {
        let [top, below] = pair(kind, &[]);
        check(&mut top.client(), "> ACL SETUSER rep on >pw +@all\nOK");
        let mut client = below.client();
        check(&mut client, "> CONFIG SET masteruser rep masterauth pw\nOK");
        promote(&below);
        follow(&below, top.port());
        await_replica(&top, &below);
        assert_eq!(field(&line(&top, "replica"), "user"), "rep");
        let id = |server: &Server, kind: &str| field(&line(server, kind), "id").to_owned();
        let (replica, primary) = (id(&top, "replica"), id(&below, "master"));
        // The link to a primary is of no user, and nobody can name it by one.
        ask(&mut client, "CLIENT KILL USER default SKIPME yes");
        check(&mut below.client(), "> ACL SETUSER (superuser) on nopass +@all\nOK");
        check(&mut client, "> CLIENT KILL USER (superuser)\n(integer) 0");
        check(&mut client, "> ACL DELUSER (superuser)\n(integer) 1");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(id(&below, "master"), primary);
        check(&mut top.client(), "> CLIENT KILL USER rep\n(integer) 1");
        eventually("another link is there", || {
            let line = line(&top, "replica");
            line.contains("id=") && field(&line, "id") != replica
        });
        await_replica(&top, &below);
        assert_eq!(top.client().info("sync_full"), "2");
    }
}

/// The lines that operators look for, with their levels; ids, ports and clients are left out.
fn told(log: &str) -> Vec<String> {
    const HEADS: [&str; 22] = [
        "Before turning into a replica",
        "Connecting to MASTER",
        "MASTER <-> REPLICA sync",
        "REPLICAOF ",
        "Non blocking connect",
        "Master replied to PING",
        "Trying a partial resynchronization",
        "Full resync from master",
        "Discarding previously cached",
        "Connection with master lost.",
        "Caching the disconnected master state.",
        "Reconnecting to MASTER",
        "Successful partial resynchronization",
        "Setting secondary replication ID",
        "MASTER MODE enabled",
        "Error condition on socket for SYNC",
        "I/O error trying to sync",
        "MASTER timeout",
        "Timeout",
        "Done loading RDB",
        "Unable to AUTH",
        "Loading RDB produced by version",
    ];
    let words = |line: &str| {
        let (level, text) = line
            .split(' ')
            .skip(5)
            .collect::<Vec<_>>()
            .join(" ")
            .split_once(' ')
            .map(|(level, text)| (level.to_owned(), text.to_owned()))?;
        HEADS.iter().any(|head| text.starts_with(head)).then(|| {
            let text = text.split(" (user request").next().unwrap_or_default();
            let plain = text.split(' ').map(|word| {
                let is_odd = word.contains(':') || word.len() > 38 || word.starts_with("1.");
                if is_odd { "..." } else { word.trim_end_matches(|it: char| it.is_ascii_digit()) }
            });
            format!("{level} {}", plain.collect::<Vec<_>>().join(" "))
        })
    };
    log.lines().filter_map(words).collect()
}

/// The same with each block of lines that follows itself told once: how often a replica tries again
/// is a matter of time.
fn without_retries(lines: Vec<String>) -> Vec<String> {
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        kept.push(line);
        let is_repeated = |length: &usize| {
            let (rest, last) = kept.split_at(kept.len() - length);
            rest.ends_with(last)
        };
        if let Some(length) = (1..=kept.len() / 2).take_while(|it| *it <= 6).find(is_repeated) {
            kept.truncate(kept.len() - length);
        }
    }
    kept
}

#[test]
fn a_replica_tells_its_log_what_the_real_one_tells() {
    let logs = KINDS.map(|kind| {
        // One connection for all data: what is told of two comes in any order.
        let settings = ["--repl-rdb-channel", "no", "--repl-backlog-size", "16kb"];
        let [mut top, below] = pair(kind, &settings);
        check(&mut top.client(), "> SET k v\nOK");
        await_replica(&top, &below);
        let pause = || std::thread::sleep(Duration::from_millis(1100));
        for (server, of) in [(&top, "replica"), (&below, "master")] {
            pause();
            check(&mut server.client(), &format!("> CLIENT KILL TYPE {of}\n(integer) 1"));
            eventually("the link is lost", || below.log().matches("master lost").count() > 0);
            pause();
            await_replica(&top, &below);
        }
        outrun(&top, &below, || {
            let long = "x".repeat(2000);
            (0..20).for_each(|_| _ = top.client().call(&["SET", "long", &long]));
        });
        await_replica(&top, &below);
        pause();
        let other = kind.start(&settings);
        follow(&below, other.port());
        await_replica(&other, &below);
        check(
            &mut below.client(),
            &format!(
                "> REPLICAOF 127.0.0.1 {}\nOK Already connected to \
            specified master",
                other.port()
            ),
        );
        promote(&below);
        top.kill();
        follow_nobody(&below, top.port());
        promote(&below);
        eventually("both promotions are told of", || {
            below.log().matches("MASTER MODE enabled").count() == 2
        });
        // A server of ours that never had a replica stands nowhere, and is told so at first.
        let told = without_retries(told(&below.log()));
        let first = told.iter().position(|line| line.ends_with("Finished with success"));
        told[first.expect("there was a full sync")..].join("\n")
    });
    assert_eq!(logs[0], logs[1]);
    assert!(logs[0].lines().count() > 50, "{}", logs[0]);
}

/// Follows a server that is not there, and waits until that is told.
fn follow_nobody(replica: &Server, port: u16) {
    check(&mut replica.client(), &format!("> REPLICAOF 127.0.0.1 {port}\nOK"));
    replica.expect_log("Error condition on socket for SYNC: Connection refused");
}

/// Data take the place of what a pause keeps from being applied: the pause holds writers, and no
/// full sync.
#[test]
fn a_paused_replica_takes_a_full_sync_in() {
    for kind in KINDS {
        let [top, below] = pair(kind, &["--repl-backlog-size", "16kb"]);
        check(&mut top.client(), "> SET k 1\nOK");
        await_replica(&top, &below);
        check(&mut below.client(), "> CLIENT PAUSE 600000 WRITE\nOK");
        check(&mut top.client(), "> SET k 2\nOK");
        eventually("it has come, and is not applied", || {
            let mut client = below.client();
            client.figure("slave_read_repl_offset") > client.figure("slave_repl_offset")
        });
        check(&mut below.client(), "> GET k\n\"1\"");
        check(&mut top.client(), "> DEBUG CHANGE-REPL-ID\nOK\n> SET k 3\nOK");
        check(&mut top.client(), "> CLIENT KILL TYPE replica\n(integer) 1");
        eventually("the new data are there", || ask(&mut below.client(), "GET k") == "\"3\"");
        check(&mut top.client(), "> SET k 4\nOK");
        std::thread::sleep(Duration::from_millis(50));
        check(&mut below.client(), "> GET k\n\"3\"\n> CLIENT UNPAUSE\nOK");
        await_replica(&top, &below);
        check(&mut below.client(), "> GET k\n\"4\"");
    }
}

/// With `swapdb` the data of a full sync serve clients that wait for them.
#[test]
fn data_that_are_swapped_in_serve_clients_that_wait() {
    for kind in KINDS {
        let settings = ["--repl-diskless-load", "swapdb", "--replica-read-only", "no"];
        let [top, below] = [kind.start(&settings), kind.start(&settings)];
        check(&mut top.client(), "> XADD s 1-1 f v\n\"1-1\"\n> RPUSH l a b\n(integer) 2");
        check(&mut top.client(), "> ZADD z 1 m\n(integer) 1");
        // To become a replica ends waits, so that is done first, and the data come later.
        top.signal(Signal::STOP);
        follow(&below, top.port());
        let waits = [
            ("XREAD BLOCK 0 STREAMS s 0", "1-1"),
            ("BLPOP none l 0", "\"a\""),
            ("BZPOPMIN z 0", "\"m\""),
        ];
        let mut clients = waits.map(|_| below.client());
        for (client, (line, _)) in clients.iter_mut().zip(waits) {
            client.send(&line.split(' ').collect::<Vec<_>>());
        }
        eventually("all wait", || below.client().info("blocked_clients") == "3");
        top.signal(Signal::CONT);
        for (client, (line, expected)) in clients.iter_mut().zip(waits) {
            let reply = render(&client.receive());
            assert!(reply.contains(expected), "{line}: {reply}");
        }
        await_replica(&top, &below);
        check(&mut below.client(), "> LRANGE l 0 -1\n1) \"b\"\n> EXISTS z\n(integer) 0");
    }
}

/// WAIT is about what the client itself has written, and not about what it was shown of others,
/// nor about a command that may write and did not.
#[test]
fn what_wrote_nothing_is_not_waited_for() {
    const ASKED: [(&str, bool); 12] = [
        ("SET other 2 NX", false),
        ("SETNX other 2", false),
        ("RENAMENX own other", false),
        ("COPY own other", false),
        ("XREADGROUP GROUP g c STREAMS s 0", false),
        ("EVAL return(redis.call('set',KEYS[1],2,'nx')) 1 other", false),
        ("EVAL return(redis.call('get',KEYS[1])) 1 other", false),
        ("GET other", false),
        ("SET other 2 XX", true),
        ("EVAL return(redis.call('set',KEYS[1],2)) 1 other", true),
        ("EXISTS over", true),
        ("DEL other", true),
    ];
    for kind in KINDS {
        let [top, below] = pair(kind, &[]);
        let mut others = top.client();
        check(&mut others, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK\n> SET over v PX 1\nOK");
        check(
            &mut others,
            "> XGROUP CREATE s g $ MKSTREAM\nOK\n> XREADGROUP GROUP g c STREAMS s >\n(nil)",
        );
        let mut clients = ASKED.map(|_| top.client());
        for client in &mut clients {
            check(client, "> SET own v\nOK");
        }
        await_replica(&top, &below);
        check(&mut clients[0], "> WAIT 1 0\n(integer) 1");
        below.signal(Signal::STOP);
        check(&mut others, "> SET other 1\nOK\n> XADD s 1-1 f v\n\"1-1\"");
        for (client, (line, writes)) in clients.iter_mut().zip(ASKED) {
            ask(client, line);
            let expected = if writes { "(integer) 0" } else { "(integer) 1" };
            assert_eq!(ask(client, "WAIT 1 20"), expected, "{line}");
        }
        // Of a transaction, too.
        let mut client = top.client();
        check(
            &mut client,
            "> MULTI\nOK\n> SET other 1\nQUEUED\n> EXEC\n1) OK\n> WAIT 1 20\n(integer) 0",
        );
        below.signal(Signal::CONT);
        check(&mut client, "> WAIT 1 0\n(integer) 1");
        below.signal(Signal::STOP);
        check(&mut others, "> SET other 2\nOK");
        check(
            &mut client,
            "> MULTI\nOK\n> SET other 1 NX\nQUEUED\n> EXEC\n1) (nil)\n> WAIT 1 20\n(integer) 1",
        );
        below.signal(Signal::CONT);
    }
}

/// What is over stays until the primary says that it goes, and is told of as in Redis.
#[test]
fn what_is_over_is_shown_to_who_looks_at_what_is_stored() {
    for kind in KINDS {
        let [top, below] = pair(kind, &[]);
        check(&mut top.client(), "> DEBUG SET-ACTIVE-EXPIRE 0\nOK\n> SET k v PX 50\nOK");
        await_replica(&top, &below);
        let present = ask(&mut below.client(), "DEBUG DIGEST-VALUE k");
        let whole = ask(&mut below.client(), "DEBUG DIGEST");
        eventually("it is over", || ask(&mut below.client(), "TTL k") == "(integer) -2");
        // Where nothing else is there, RANDOMKEY shows it; the primary removes it for that.
        check(&mut below.client(), "> RANDOMKEY\n\"k\"");
        for server in [&top, &below] {
            assert_eq!(ask(&mut server.client(), "DEBUG DIGEST"), whole, "{kind:?}");
        }
        check(&mut below.client(), "> DBSIZE\n(integer) 1\n> SCAN 0\n1) \"0\"\n2) (empty array)");
        for server in [&top, &below] {
            let mut client = server.client();
            assert!(ask(&mut client, "DEBUG OBJECT k").starts_with("Value at:"));
            assert!(ask(&mut client, "MEMORY USAGE k").starts_with("(integer) "));
            assert_eq!(ask(&mut client, "DEBUG DIGEST-VALUE k"), present);
        }
        let mut client = below.client();
        check(&mut client, "> OBJECT ENCODING k\n(nil)\n> DUMP k\n(nil)\n> GET k\n(nil)");
        check(&mut client, "> DEBUG OBJECT none\n(error) ERR no such key");
        check(&mut client, "> MEMORY USAGE none\n(nil)");
        // What is there is drawn rather.
        check(&mut top.client(), "> SET other v\nOK");
        await_replica(&top, &below);
        for _ in 0..20 {
            check(&mut client, "> RANDOMKEY\n\"other\"");
        }
        // The primary removes it when somebody asks.
        check(&mut top.client(), "> GET k\n(nil)\n> DEBUG OBJECT k\n(error) ERR no such key");
        check(&mut top.client(), "> DEL other\n(integer) 1\n> RANDOMKEY\n(nil)");
        await_replica(&top, &below);
        check(&mut client, "> DEBUG OBJECT k\n(error) ERR no such key\n> RANDOMKEY\n(nil)");
        check(&mut client, "> DEBUG DIGEST\n0000000000000000000000000000000000000000");
    }
}
