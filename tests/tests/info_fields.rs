//! INFO, field by field, after the same load as Redis 8.2: what counts there counts here, or
//! docs/decisions/info-fields.md says why it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// The fields in the first column of a table of the document.
fn documented(title: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/decisions/info-fields.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, section) = text.split_once(&format!("## {title}\n")).expect("its section");
    let section = section.split("\n## ").next().expect("there is a first");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split('|').next());
    let names = cells.flat_map(|cell| cell.split('`').step_by(2));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The fields, and whether each was ever another than 0.
type Seen = BTreeMap<String, bool>;

fn look(client: &mut Client, seen: &mut Seen) {
    let reply = client.call(&["INFO", "everything"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let counts = !value.is_empty() && !value.trim_matches(['0', '.', 'B']).is_empty();
        *seen.entry(name.to_owned()).or_default() |= counts;
    }
}

/// What is called with words.
fn call(client: &mut Client, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words);
}

/// Something of all kinds of work.
fn load(client: &mut Client) {
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    client.call(&["FUNCTION", "LOAD", "REPLACE", library]);
    client.call(&["FCALL", "f", "0"]);
    let value = "v".repeat(100);
    for number in 0..500 {
        client.call(&["SET", &format!("k{number}"), &value]);
        client.call(&["GET", &format!("k{number}")]);
        client.call(&["GET", &format!("none{number}")]);
        client.call(&["SET", &format!("e{number}"), "x", "PX", "1"]);
        client.call(&["RPUSH", "line", &value]);
    }
    for line in [
        "HSET h a 1 b 2",
        "HPEXPIRE h 1 FIELDS 1 a",
        "ZADD z 1 a",
        "SADD s 1 a",
        "XADD x * a b",
        "EVAL return(1) 0",
        "EVALSHA 0000000000000000000000000000000000000000 0",
        "MULTI",
        "SET a 1",
        "EXEC",
        "GET",
        "NOSUCH",
        "SELECT 1",
        "SET q 1",
        "SELECT 0",
        "PUBLISH ch m",
        "AUTH bad bad",
        "UNLINK line",
        "BGSAVE",
        "BGREWRITEAOF",
        "CONFIG SET maxmemory 4mb maxmemory-policy allkeys-lru",
    ] {
        call(client, line);
    }
    let large = "v".repeat(1000);
    for number in 0..3000 {
        client.call(&["SET", &format!("ev{number}"), &large]);
    }
    call(client, "CONFIG SET maxmemory 0");
    client.call(&["SET", "large", &"v".repeat(3_000_000)]);
    call(client, "GET large");
    call(client, "UNLINK large");
}

/// Clients that wait, watch and listen.
fn company(server: &Server) -> Vec<Client> {
    let with = |line: &str| {
        let mut client = server.client3();
        let words: Vec<&str> = line.split(' ').collect();
        client.send(&words);
        client
    };
    [
        "WATCH a",
        "SUBSCRIBE ch",
        "PSUBSCRIBE c*",
        "SSUBSCRIBE sh",
        "BLPOP nolist 0",
        "MONITOR",
        "CLIENT TRACKING ON",
    ]
    .map(with)
    .into()
}

#[test]
fn what_counts_in_redis_counts_here_or_is_documented() {
    let more = ["--appendonly", "yes", "--latency-monitor-threshold", "1"];
    let [ours, theirs] = Oracle::Redis82.beside(&more);
    let servers = [&ours, &theirs];
    let _company = servers.map(company);
    let mut clients = servers.map(Server::client);
    let mut seen = [Seen::new(), Seen::new()];
    let (zero, of_moment) = (documented("Fields that stay 0"), documented("Fields of a moment"));
    assert!(zero.len() > 10 && of_moment.len() > 5, "{zero:?} {of_moment:?}");
    eventually("each field that counts in Redis counts here", || {
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            load(client);
            look(client, seen);
        }
        let [ours, theirs] = &seen;
        // Fields by command, error or database are of those that were called.
        let mine = |name: &String| ours.get(name).copied();
        let missing: Vec<&String> = theirs
            .iter()
            .filter(|(name, counts)| **counts && mine(name) == Some(false))
            .map(|(name, _)| name)
            .filter(|name| !zero.contains(*name) && !of_moment.contains(*name))
            .collect();
        if !missing.is_empty() {
            eprintln!("0 here and not in Redis: {missing:?}");
        }
        missing.is_empty()
    });
    let mut all = zero.iter().chain(&of_moment);
    assert_eq!(all.find(|name| !seen[0].contains_key(*name)), None, "documented, and no field");
    let counts: Vec<_> = zero.iter().filter(|name| seen[0][*name]).collect();
    assert!(counts.is_empty(), "documented to stay 0, and do not: {counts:?}");
}
