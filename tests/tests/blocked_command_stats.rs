//! How a command that waits is booked: when its wait is over and not before, with the time in
//! which it ran, as a real server does.

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Oracle, Server};

/// How a wait ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// By another client's commands.
    By(&'static str),
    /// By its own time.
    Time,
    /// By CLIENT UNBLOCK with this word.
    Unblock(&'static str),
    /// With its client.
    Kill,
}

const WAITS: &[(&str, End)] = &[
    ("BLPOP l 0", End::By("RPUSH l a")),
    ("BLPOP l 0", End::By("MULTI; RPUSH l a; EXEC")),
    ("BLPOP l 0", End::By("RPUSH l2 a; RENAME l2 l")),
    ("BLPOP l 0", End::By("EVAL \"return redis.call('RPUSH', KEYS[1], 'a')\" 1 l")),
    ("BRPOP l 0.2", End::Time),
    ("BLMOVE l d LEFT RIGHT 0", End::By("RPUSH l a")),
    ("BLMOVE l text LEFT RIGHT 0", End::By("RPUSH l a")),
    ("BRPOPLPUSH l d 0.2", End::Time),
    ("BLMPOP 0 1 l LEFT", End::By("RPUSH l a")),
    ("BZPOPMIN z 0", End::By("ZADD z 1 a")),
    ("BZPOPMAX z 0.2", End::Time),
    ("BZMPOP 0 1 z MIN", End::By("ZADD z 1 a")),
    ("XREAD BLOCK 0 STREAMS s 0", End::By("XADD s 1-1 a 1")),
    ("XREAD BLOCK 200 STREAMS s 0", End::Time),
    ("XREADGROUP GROUP g c BLOCK 0 STREAMS st >", End::By("XADD st 5-1 a 1")),
    ("XREADGROUP GROUP g c BLOCK 0 STREAMS st >", End::By("DEL st")),
    ("XREADGROUP GROUP g c BLOCK 200 STREAMS st >", End::Time),
    ("WAIT 1 200", End::Time),
    ("BLPOP l 0", End::Unblock("TIMEOUT")),
    ("BLPOP l 0", End::Unblock("ERROR")),
    ("BLPOP l 0", End::Kill),
    // Without memory: what takes some is refused when its element comes.
    ("BLPOP l 0", End::By("RPUSH l2 a; CONFIG SET maxmemory 1; RENAME l2 l")),
    ("BLMOVE l d LEFT LEFT 0", End::By("RPUSH l2 a; CONFIG SET maxmemory 1; RENAME l2 l")),
    ("BRPOPLPUSH l d 0", End::By("RPUSH l2 a; CONFIG SET maxmemory 1; RENAME l2 l")),
    (
        "BLMOVE l d LEFT LEFT 0",
        End::By("RPUSH l2 a; CONFIG SET maxmemory 1; MULTI; RENAME l2 l; EXEC"),
    ),
    (
        "BLMOVE l d LEFT LEFT 0",
        End::By(
            "RPUSH l2 a; CONFIG SET maxmemory 1; \
             EVAL \"return redis.call('RENAME', KEYS[1], KEYS[2])\" 2 l2 l",
        ),
    ),
    (
        "BLMOVE l d LEFT LEFT 0",
        End::By("SELECT 1; RPUSH l a; CONFIG SET maxmemory 1; MOVE l 0; SELECT 0"),
    ),
];

/// The count of all of them.
const COMMANDS: &str = "total_commands_processed";

/// What the books say of a command: without times, which differ.
fn booked(client: &mut Client, name: &str, id: &str) -> [String; 5] {
    let stats = text(&client.call(&["INFO", "commandstats"]));
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
    let calls = ["calls=", "rejected_calls=", "failed_calls="].map(|figure| {
        let counts = line.unwrap_or_default().split([':', ',']);
        counts.into_iter().find(|it| it.starts_with(figure)).unwrap_or_default().to_owned()
    });
    let timed = text(&client.call(&["INFO", "latencystats"]));
    let is_timed = timed.contains(&format!("latency_percentiles_usec_{name}:"));
    let slow = match client.call(&["SLOWLOG", "GET", "-1"]) {
        Value::Array(entries) => entries,
        other => panic!("{}", render(&other)),
    };
    let logged = slow.iter().filter_map(|entry| match entry {
        Value::Array(parts) => Some(render(&parts[3]).to_ascii_lowercase()),
        _ => None,
    });
    let logged = logged.filter(|words| words.contains(&format!("\"{name}\""))).count();
    let told = text(&client.call(&["CLIENT", "LIST", "ID", id]));
    let commands = if told.is_empty() { "gone" } else { field(&told, "tot-cmds") };
    let errors = text(&client.call(&["INFO", "errorstats"])).replace("# Errorstats\r\n", "");
    let logs = format!("slow {logged} timed {is_timed} of-client {commands}");
    let [calls, rejected, failed] = calls;
    [calls, rejected, failed, logs, errors]
}

/// The books while a client waits, and after.
fn books(server: &Server, wait: &str, end: End) -> [[String; 5]; 2] {
    let (mut other, mut client) = (server.client(), server.client());
    say(&mut other, "CONFIG SET slowlog-log-slower-than 0 maxmemory 0; FLUSHALL; SET text x");
    say(&mut other, "XADD st 1-1 a 1; XGROUP CREATE st g $");
    let id = client.id();
    say(&mut other, "CONFIG RESETSTAT; SLOWLOG RESET");
    let words: Vec<&str> = wait.split(' ').collect();
    client.send(&words);
    eventually("it waits", || {
        text(&other.call(&["INFO", "clients"])).contains("blocked_clients:1\r\n")
    });
    let name = words[0].to_ascii_lowercase();
    let before = booked(&mut other, &name, &id);
    match end {
        End::By(commands) => _ = say(&mut other, commands),
        End::Time => {}
        End::Unblock(how) => _ = other.call(&["CLIENT", "UNBLOCK", &id, how]),
        End::Kill => _ = other.call(&["CLIENT", "KILL", "ID", &id]),
    }
    if let End::Kill = end {
        assert!(client.is_closed());
    } else {
        client.receive();
    }
    eventually("nobody waits", || {
        text(&other.call(&["INFO", "clients"])).contains("blocked_clients:0\r\n")
    });
    [before, booked(&mut other, &name, &id)]
}

#[test]
fn a_command_that_waits_is_booked_when_its_wait_is_over() {
    let [ours, theirs] = [Server::start(&[]), Oracle::redis82()];
    for (wait, end) in WAITS {
        let expected = books(&theirs, wait, *end);
        assert_eq!(books(&ours, wait, *end), expected, "{wait} {end:?}");
    }
}

/// Apus refuses the command at once, Redis when somebody comes to serve it.
#[test]
fn a_command_that_rights_end_is_rejected_and_was_never_called() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut other, mut client) = (server.client(), server.client());
        say(&mut other, "ACL SETUSER u on nopass +@all ~*; CONFIG SET slowlog-log-slower-than 0");
        say(&mut client, "AUTH u x");
        let id = client.id();
        say(&mut other, "CONFIG RESETSTAT; SLOWLOG RESET");
        client.send(&["BLPOP", "l", "0"]);
        eventually("it waits", || {
            text(&other.call(&["INFO", "clients"])).contains("blocked_clients:1\r\n")
        });
        say(&mut other, "ACL SETUSER u -blpop; RPUSH l a");
        assert!(matches!(client.receive(), Value::Error(_)));
        let [calls, rejected, failed, logs, errors] = booked(&mut other, "blpop", &id);
        assert_eq!([calls, rejected, failed], ["calls=0", "rejected_calls=1", "failed_calls=0"]);
        assert!(logs.starts_with("slow 0 timed false"), "{logs}");
        assert_eq!(errors, "errorstat_NOPERM:count=1\r\n");
    }
}

/// The end of the other's session is what it waits for here.
#[test]
fn a_command_that_ends_others_is_booked_once() {
    let books = |server: &Server| {
        let (mut other, mut client, mut victim) =
            (server.client(), server.client(), server.client());
        say(&mut other, "CONFIG SET slowlog-log-slower-than 0");
        let (id, its_id) = (client.id(), victim.id());
        say(&mut other, "CONFIG RESETSTAT; SLOWLOG RESET");
        client.call(&["CLIENT", "KILL", "ID", &its_id]);
        let (logged, count) = (render(&other.call(&["SLOWLOG", "LEN"])), other.info(COMMANDS));
        (logged, count, booked(&mut other, "client|kill", &id))
    };
    let [ours, theirs] = [Server::start(&[]), Oracle::redis82()].map(|server| books(&server));
    assert_eq!(ours, theirs);
}

#[test]
fn a_monitor_sees_a_command_when_its_wait_begins() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut other, mut client, mut monitor) =
            (server.client(), server.client(), server.client());
        monitor.call(&["MONITOR"]);
        client.send(&["BLPOP", "l", "0"]);
        let told = text(&monitor.receive());
        assert!(told.contains("\"BLPOP\" \"l\" \"0\""), "{told}");
        say(&mut other, "RPUSH l a");
        client.receive();
        let told = text(&monitor.receive());
        assert!(told.contains("\"RPUSH\""), "{told}");
        say(&mut other, "PING");
        let told = text(&monitor.receive());
        assert!(told.contains("\"PING\""), "{told}");
    }
}
