//! What is told of a transaction that is refused, in whole or in part: its replies, MONITOR's
//! lines, the figures of commands and of errors.
//!
//! Invariant: all of it is as Redis 8.2 tells it, so what never ran is never shown as if it had.

use tests::render::{render, text};
use tests::{Client, Oracle, Server};

/// Each scene: what it is, and who says what. `c` has the transaction, `a` steers. Only what `c`
/// is replied is compared.
const SCENES: &[(&str, &[&str])] = &[
    ("a command is refused as it is queued", &["c MULTI", "c SET k", "c EXEC"]),
    ("no command", &["c MULTI", "c NOSUCH k", "c EXEC"]),
    ("a watch is broken", &["c WATCH k", "a SET k w", "c MULTI", "c GET k", "c EXEC"]),
    (
        "a command is denied by EXEC",
        &["c AUTH u x", "c MULTI", "c SET k 1", "c GET k", "a ACL SETUSER u -set", "c EXEC"],
    ),
    (
        "the last command is denied by EXEC",
        &["c AUTH u x", "c MULTI", "c SET k 1", "c GET k", "a ACL SETUSER u -get", "c EXEC"],
    ),
    (
        "a script is denied by EXEC",
        &[
            "c AUTH u x",
            "c MULTI",
            "c EVAL return{1} 0",
            "c GET k",
            "a ACL SETUSER u -eval",
            "c EXEC",
        ],
    ),
    ("EXEC is denied", &["c AUTH u x", "c MULTI", "c SET k 2", "a ACL SETUSER u -exec", "c EXEC"]),
    ("EXEC is denied without MULTI", &["c AUTH u x", "a ACL SETUSER u -exec", "c EXEC"]),
    (
        "memory is out behind the queue",
        &["c MULTI", "c SET k 1", "a CONFIG SET maxmemory 1", "c EXEC"],
    ),
    (
        "memory is out before the queue",
        &["c MULTI", "a CONFIG SET maxmemory 1", "c SET k 1", "c EXEC"],
    ),
    (
        "the server has become a replica",
        &["c MULTI", "c SET k 1", "a REPLICAOF 127.0.0.1 1", "c EXEC"],
    ),
    (
        "replicas are missing",
        &["c MULTI", "c SET k 1", "a CONFIG SET min-replicas-to-write 1", "c EXEC"],
    ),
    ("a command fails", &["c MULTI", "c SET k 1", "c INCR n", "c LPUSH k 1", "c EXEC"]),
    ("nothing was begun", &["c EXEC", "c DISCARD", "c MULTI", "c MULTI", "c WATCH k", "c EXEC"]),
    ("a command that is not for transactions", &["c MULTI", "c SAVE", "c SET k 1", "c EXEC"]),
    ("SUBSCRIBE in RESP2", &["c MULTI", "c SUBSCRIBE s", "c EXEC"]),
];

#[test]
fn a_refused_transaction_is_told_as_redis_tells_it() {
    let [ours, theirs] = [Server::start(&[]), Oracle::redis82()];
    for (name, steps) in SCENES {
        assert_eq!(tell(&ours, steps), tell(&theirs, steps), "{name}");
    }
}

/// Plays a scene; what `c` was replied, the lines of MONITOR, and the figures.
fn tell(server: &Server, steps: &[&str]) -> [Vec<String>; 3] {
    let (mut steering, mut client, mut monitor) =
        (server.client(), server.client(), server.client());
    for line in [
        "REPLICAOF NO ONE",
        "CONFIG SET maxmemory 0 min-replicas-to-write 0",
        "FLUSHALL",
        "SET k v",
        "ACL SETUSER u on nopass ~* &* +@all",
        "CONFIG RESETSTAT",
    ] {
        say(&mut steering, line);
    }
    monitor.call(&["MONITOR"]);
    let mut replies = Vec::new();
    for step in steps {
        match step.split_once(' ').expect("a step has words") {
            ("c", line) => replies.push(say(&mut client, line)),
            (_, line) => _ = say(&mut steering, line),
        }
    }
    let figures = ["commandstats", "errorstats"].iter().flat_map(|section| {
        let report = text(&steering.call(&["INFO", section]));
        let mut lines: Vec<String> =
            report.lines().filter_map(figure).filter(|it| !it.contains("monitor")).collect();
        lines.sort();
        lines
    });
    let figures = figures.collect();
    say(&mut steering, "ECHO end");
    let lines = std::iter::repeat_with(|| text(&monitor.receive()))
        .map(|line| line.split_once("] ").expect("a line names its client").1.to_owned())
        .take_while(|line| line != "\"ECHO\" \"end\"")
        .filter(|line| !line.starts_with("\"INFO\""))
        .collect();
    [replies, lines, figures]
}

/// Says one command; its reply.
fn say(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// A line of figures without times, which differ; nothing of what steers.
fn figure(line: &str) -> Option<String> {
    let (name, figures) = line.split_once(':')?;
    let steers = ["cmdstat_config|", "cmdstat_info", "cmdstat_acl|"];
    let counts = figures.split(',').filter(|it| !it.starts_with("usec"));
    let is_told = !steers.iter().any(|it| name.starts_with(it));
    is_told.then(|| format!("{name}:{}", counts.collect::<Vec<_>>().join(",")))
}
