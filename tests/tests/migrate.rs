//! MIGRATE: what it replies and does, beside the real servers, to them and from them.

use std::sync::atomic::{AtomicUsize, Ordering};

use proto::value::Value;
use tests::client::line;
use tests::render::render;
use tests::replication::{await_replica, follow};
use tests::samples::{digest, fill, run};
use tests::script::afresh;
use tests::server::eventually;
use tests::target::{FakeTarget, Said};
use tests::{Client, Oracle, Server, check};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// The order of KEYS, for `to` on this machine.
fn migrate_all<'a>(port: &'a str, options: &[&'a str], keys: &'a [String]) -> Vec<&'a str> {
    let head = ["MIGRATE", "127.0.0.1", port, "", "0", "5000"];
    let keys = keys.iter().map(String::as_str);
    head.into_iter().chain(options.iter().copied()).chain(["KEYS"]).chain(keys).collect()
}

fn keys(client: &mut Client) -> Vec<String> {
    let Value::Array(keys) = client.call(&["KEYS", "*"]) else { panic!("a list") };
    let text = |key: Value| key.as_bytes().map(|key| String::from_utf8_lossy(key).into_owned());
    let mut keys: Vec<String> = keys.into_iter().filter_map(text).collect();
    keys.sort();
    keys
}

const SESSION: &str = r#"
    > MSET a 1 b 2 c 3 d 4 e 5 "" empty KEYS words
    OK
    > PEXPIRE b 100000
    (integer) 1
    > MIGRATE 127.0.0.1 PORT absent 0 5000
    NOKEY
    > MIGRATE 127.0.0.1 PORT a 0 5000
    OK
    > EXISTS a
    (integer) 0
    > MIGRATE 127.0.0.1 PORT b 0 5000 COPY
    OK
    > EXISTS b
    (integer) 1
    > MIGRATE 127.0.0.1 PORT b 0 5000
    (error) ERR Target instance replied with error: BUSYKEY Target key name already exists.
    > MIGRATE 127.0.0.1 PORT b 0 5000 copy replace
    OK
    > MIGRATE 127.0.0.1 PORT "" 0 5000 REPLACE KEYS b absent c c
    OK
    > EXISTS b c
    (integer) 0
    > MIGRATE 127.0.0.1 PORT "" 3 5000 COPY KEYS d KEYS
    OK
    > MIGRATE 127.0.0.1 PORT "" 0 5000 AUTH2 default anything KEYS d
    OK
    > MIGRATE 127.0.0.1 PORT e 0 5000 AUTH secret
    ~ (error) ERR Target instance replied with error: ERR AUTH <password> called without any *
    > MIGRATE 127.0.0.1 PORT e 99 5000
    (error) ERR Target instance replied with error: ERR DB index is out of range
    > EXISTS e
    (integer) 1
    > MIGRATE 127.0.0.1 PORT "" 0 5000
    OK
    > DBSIZE
    (integer) 2
"#;

const ARRIVED: &str = r#"
    > MGET a b c d ""
    1) "1"
    2) "2"
    3) "3"
    4) "4"
    5) "empty"
    > PTTL b
    ~ (integer) [189]????*
    > PTTL c
    (integer) -1
    > DBSIZE
    (integer) 5
    > SELECT 3
    OK
    > MGET d KEYS
    1) "4"
    2) "words"
    > DBSIZE
    (integer) 2
"#;

#[test]
fn each_option_does_what_it_says() {
    let (source, target) = (Server::start(&[]), Server::start(&[]));
    for protocol in ["2", "3"] {
        check(&mut target.client(), "> FLUSHALL\nOK");
        afresh(&source, protocol, &SESSION.replace("PORT", &target.port().to_string()));
        check(&mut target.client(), ARRIVED);
    }
}

/// Requests whose replies are each server's own, with `PORT` for that of a target that wants a
/// password, and what they are about.
const REQUESTS: &[&str] = &[
    "127.0.0.1 PORT k 0",
    "127.0.0.1 abc k 0 100",
    "127.0.0.1 0 k 0 100",
    "127.0.0.1 70000 k 0 100",
    "127.0.0.1 1 k 0 100",
    "no.such.host.invalid PORT k 0 100",
    "127.0.0.1 PORT k abc 100",
    "127.0.0.1 PORT k 0 abc",
    "127.0.0.1 PORT k 99999999999999999999 100",
    "127.0.0.1 PORT none x y",
    "127.0.0.1 PORT none 0 0",
    "127.0.0.1 PORT '' 0 0 KEYS x y",
    "127.0.0.1 PORT k 0 100 KEYS a",
    "127.0.0.1 PORT k 0 100 KEYS",
    "127.0.0.1 PORT '' 0 100 KEYS",
    "127.0.0.1 PORT '' 0 100",
    "127.0.0.1 PORT k 0 100 AUTH",
    "127.0.0.1 PORT k 0 100 AUTH2 u",
    "127.0.0.1 PORT k 0 100 bogus",
    "127.0.0.1 PORT k 0 100 bogus KEYS a",
    "127.0.0.1 PORT k 0 100",
    "127.0.0.1 PORT k 0 100 AUTH wrong",
    "127.0.0.1 PORT k 0 100 AUTH2 default wrong",
    "127.0.0.1 PORT k 99 100 AUTH pw",
    "127.0.0.1 PORT k 1 9223372036854775807 COPY AUTH pw",
    "127.0.0.1 PORT k 1 0 COPY AUTH2 default pw",
    "127.0.0.1 PORT k 1 -1 COPY REPLACE AUTH2 default pw",
    "127.0.0.1 PORT '' 1 5000 AUTH pw KEYS a k KEYS none",
    "127.0.0.1 PORT '' 1 5000 AUTH pw REPLACE KEYS a k KEYS none",
];

fn words<'a>(request: &'a str, port: &'a str) -> Vec<&'a str> {
    let word = |word: &'a str| match word {
        "PORT" => port,
        "''" => "",
        word => word,
    };
    ["MIGRATE"].into_iter().chain(request.split(' ').map(word)).collect()
}

#[test]
fn the_replies_are_those_of_the_real_servers() {
    for oracle in Oracle::ALL {
        let [ours, theirs] = oracle.beside(&[]);
        let targets = oracle.beside(&["--requirepass", "pw"]);
        let seen = [(&ours, &targets[0]), (&theirs, &targets[1])].map(|(source, target)| {
            let (mut client, port) = (source.client(), target.port().to_string());
            check(&mut client, "> MSET k 1 a 2 KEYS 3\nOK");
            let mut seen = Vec::new();
            for request in REQUESTS {
                let reply = render(&client.call(&words(request, &port)));
                seen.push(format!("{request}: {reply}, left {:?}", keys(&mut client)));
            }
            check(&mut client, "> MULTI\nOK\n> PING\nQUEUED\n> EXEC\n1) PONG");
            seen.push(client.info("cmdstat_migrate").split(',').next().unwrap_or("").to_owned());
            seen
        });
        assert_eq!(seen[0], seen[1], "{oracle:?}");
    }
}

#[test]
fn what_clients_are_told_of_the_command_is_what_redis_tells() {
    let [mut ours, mut theirs] =
        Oracle::Redis82.beside(&[]).map(|server| (server.client(), server));
    let mut both = |request: &[&str]| {
        let [ours, theirs] = [&mut ours.0, &mut theirs.0].map(|it| render(&it.call(request)));
        assert_eq!(ours, theirs, "{}", line(request));
    };
    both(&["COMMAND", "INFO", "MIGRATE"]);
    for options in [
        "k 0 100",
        "'' 0 100",
        "'' 0",
        "'' 0 100 KEYS a b",
        "'' 0 100 COPY REPLACE keys a b",
        "'' 0 100 KEYS KEYS KEYS",
        "'' 0 100 AUTH KEYS KEYS a b",
        "'' 0 100 AUTH2 KEYS KEYS KEYS a",
        "'' 0 100 AUTH2 u KEYS a",
        "'' 0 100 AUTH",
        "'' 0 100 KEYS",
        "'' 0 100 bogus KEYS a",
        "'' 0 100 COPY COPY KEYS a AUTH x",
        "k 0 100 KEYS a",
        "k 0 100 KEYS",
        "k 0 100 AUTH keys",
        "k 0 100 AUTH keys COPY",
    ] {
        let request = format!("h 1 {options}");
        for subcommand in ["GETKEYS", "GETKEYSANDFLAGS"] {
            both(&[&["COMMAND", subcommand], &words(&request, "")[..]].concat());
        }
    }
}

/// All that Redis 7.0 can hold, there and back.
#[test]
fn every_value_goes_to_the_real_servers_and_comes_back() {
    for oracle in Oracle::ALL {
        let [ours, theirs] = [Server::start(DEBUG), oracle.start(DEBUG)];
        let mut client = ours.client();
        fill(&mut client, false);
        let (before, all) = (digest(&mut client), keys(&mut client));
        let there = theirs.port().to_string();
        check(&mut client, "> SELECT 9\nOK");
        let in_nine = ["MIGRATE", "127.0.0.1", &there, "text", "9", "5000"];
        assert_eq!(render(&client.call(&in_nine)), "OK", "{oracle:?}");
        check(&mut client, "> SELECT 0\nOK");
        for some in all.chunks(400) {
            let order = migrate_all(&there, &[], some);
            assert_eq!(render(&client.call(&order)), "OK", "{oracle:?}");
        }
        assert_eq!(client.figure("migrate_cached_sockets"), 1);
        check(&mut client, "> DBSIZE\n(integer) 0\n> RANDOMKEY\n(nil)");
        let (mut other, here) = (theirs.client(), ours.port().to_string());
        assert_eq!(keys(&mut other), all, "{oracle:?}");
        assert_eq!(render(&other.call(&migrate_all(&here, &[], &all))), "OK", "{oracle:?}");
        check(&mut other, "> SELECT 9\nOK");
        let in_nine = ["MIGRATE", "127.0.0.1", &here, "text", "9", "5000"];
        assert_eq!(render(&other.call(&in_nine)), "OK", "{oracle:?}");
        assert_eq!(digest(&mut client), before, "{oracle:?}");
    }
}

#[test]
fn what_only_newer_servers_hold_goes_between_ours_and_is_refused_by_others() {
    let [ours, other, old] =
        [Server::start(DEBUG), Server::start(DEBUG), Oracle::Redis70.start(&[])];
    let mut client = ours.client();
    fill(&mut client, true);
    let before = digest(&mut client);
    let all = keys(&mut client);
    let port = old.port().to_string();
    let order = ["MIGRATE", "127.0.0.1", &port, "timed", "0", "5000"];
    let said = "(error) ERR Target instance replied with error: ERR DUMP payload version or \
        checksum are wrong";
    assert_eq!(render(&client.call(&order)), said);
    let port = other.port().to_string();
    assert_eq!(render(&client.call(&migrate_all(&port, &[], &all))), "OK");
    check(&mut client, "> SELECT 9\nOK");
    let in_nine = ["MIGRATE", "127.0.0.1", &port, "text", "9", "5000"];
    assert_eq!(render(&client.call(&in_nine)), "OK");
    assert_eq!(digest(&mut other.client()), before);
}

/// More keys than are locked at once, and more bytes than are sent at once.
#[test]
fn many_keys_and_long_values_arrive_whole() {
    let [ours, other] = [Server::start(DEBUG), Server::start(DEBUG)];
    let mut client = ours.client();
    run(&mut client, &["DEBUG", "POPULATE", "5000", "key", "600"]);
    run(&mut client, &["SETRANGE", "key:7", "20000000", "end"]);
    for number in 0..20_000 {
        client.send(&["RPUSH", "key:8", &format!("{number}")]);
    }
    (0..20_000).for_each(|_| drop(client.receive()));
    let (before, all) = (digest(&mut client), keys(&mut client));
    let port = other.port().to_string();
    assert_eq!(render(&client.call(&migrate_all(&port, &["COPY"], &all))), "OK");
    assert_eq!(digest(&mut client), before, "copied keys stay");
    assert_eq!(digest(&mut other.client()), before);
    assert_eq!(render(&client.call(&migrate_all(&port, &["REPLACE"], &all))), "OK");
    check(&mut client, "> DBSIZE\n(integer) 0");
    assert_eq!(digest(&mut other.client()), before);
}

#[test]
fn r10_36_what_left_is_deleted_from_the_log_and_on_replicas_and_told() {
    let arguments =
        ["--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KEA"];
    let mut source = Server::start(&arguments);
    let replica = Server::start(&[]);
    follow(&replica, source.port());
    await_replica(&source, &replica);
    let target = FakeTarget::of_lines(&["+OK", "-BUSYKEY Target key name already exists.", "+OK"]);
    let mut client = source.client();
    check(&mut client, "> MSET a 1 b 2 c 3\nOK");
    let mut listener = source.client();
    check(&mut listener, "> PSUBSCRIBE __keyevent*:del\n1) \"psubscribe\"\n...");
    let mut observer = replica.client();
    check(&mut observer, "> MONITOR\nOK");
    let all = ["a", "b", "c"].map(str::to_owned);
    let port = target.port().to_string();
    let said =
        "(error) ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    let order = migrate_all(&port, &["AUTH2", "me", "secret"], &all);
    assert_eq!(render(&client.call(&order)), said);
    for key in ["a", "c"] {
        let told = render(&listener.receive());
        assert!(told.contains("__keyevent@0__:del") && told.contains(key), "{told}");
    }
    check(&mut client, "> WAIT 1 0\n(integer) 1\n> KEYS *\n1) \"b\"");
    check(&mut replica.client(), "> KEYS *\n1) \"b\"");
    let told = render(&observer.receive());
    let told = if told.contains("\"DEL\"") { told } else { render(&observer.receive()) };
    assert!(told.ends_with("\"DEL\" \"a\" \"c\""), "{told}");
    source.kill();
    source.restart();
    check(&mut source.client(), "> KEYS *\n1) \"b\"");
}

#[test]
fn passwords_are_shown_to_nobody() {
    let source = Server::start(&["--slowlog-log-slower-than", "0"]);
    let target = FakeTarget::of_lines(&[]);
    let (mut client, mut observer) = (source.client(), source.client());
    check(&mut observer, "> MONITOR\nOK");
    for (options, shown) in [
        (&["AUTH", "KEYS", "KEYS", "AUTH", "x"][..], "AUTH (redacted) KEYS AUTH x"),
        (&["copy", "auth2", "me", "secret"], "copy auth2 (redacted) (redacted)"),
        (&["AUTH", "KEYS", "auth", "secret"], "AUTH (redacted) auth (redacted)"),
        // Refused, and a password all the same.
        (&["AUTH", "secret", "bogus"], "AUTH (redacted) bogus"),
    ] {
        let port = target.port().to_string();
        let order = [&["MIGRATE", "127.0.0.1", &port, "", "0", "1000"], options].concat();
        client.call(&order);
        let monitored = render(&observer.receive()).replace('"', "");
        assert!(monitored.ends_with(&format!("  0 1000 {shown}")), "{monitored}");
        let Value::Array(log) = client.call(&["SLOWLOG", "GET", "1"]) else { panic!("a list") };
        let shown: Vec<&str> = shown.split(' ').collect();
        let logged = render(&log[0]);
        assert!(shown.iter().all(|word| logged.contains(word)), "{logged}");
        assert!(!logged.contains("secret"), "{logged}");
    }
    assert!(!source.log().contains("secret"), "{}", source.log());
}

#[test]
fn rights_are_asked_for_the_keys_that_are_meant() {
    let source = Server::start(&[]);
    let target = FakeTarget::of_lines(&[]);
    let script = r#"
        > ACL SETUSER some on nopass ~k* +@all
        OK
        > MSET k1 1 k2 2 a 3 KEYS 4
        OK
        > AUTH some any
        OK
        > MIGRATE 127.0.0.1 PORT a 0 5000
        (error) NOPERM No permissions to access a key
        > MIGRATE 127.0.0.1 PORT "" 0 5000 KEYS k1 a
        (error) NOPERM No permissions to access a key
        > MIGRATE 127.0.0.1 PORT "" 0 5000 KEYS KEYS k1
        (error) NOPERM No permissions to access a key
        > MIGRATE 127.0.0.1 PORT k1 0 5000 AUTH KEYS KEYS a
        (error) ERR When using MIGRATE KEYS option, the key argument must be set to the empty string
        > MIGRATE 127.0.0.1 PORT "" 0 5000 AUTH KEYS KEYS k1 k2
        OK
        > AUTH default any
        OK
        > ACL SETUSER some -@dangerous
        OK
        > AUTH some any
        OK
        > MIGRATE 127.0.0.1 PORT k1 0 5000
        (error) NOPERM User some has no permissions to run the 'migrate' command
    "#;
    check(&mut source.client(), &script.replace("PORT", &target.port().to_string()));
}

#[test]
fn migrate_is_refused_where_locks_would_be_held_and_on_replicas() {
    let source = Server::start(&[]);
    let target = FakeTarget::of_lines(&[]);
    let script = r#"
        > SET k v
        OK
        > MULTI
        OK
        > MIGRATE 127.0.0.1 PORT k 0 5000
        (error) ERR Command not allowed inside a transaction
        > DEL k
        QUEUED
        > EXEC
        (error) EXECABORT Transaction discarded because of previous errors.
        > EVAL "return redis.pcall('MIGRATE', '127.0.0.1', 'PORT', KEYS[1], '0', '5000').err" 1 k
        "ERR This Redis command is not allowed from script"
        > REPLICAOF 127.0.0.1 1
        OK
        > MIGRATE 127.0.0.1 PORT k 0 5000
        (error) READONLY You can't write against a read only replica.
        > MIGRATE 127.0.0.1 PORT absent 0 5000 COPY
        (error) READONLY You can't write against a read only replica.
        > REPLICAOF NO ONE
        OK
        > GET k
        "v"
    "#;
    check(&mut source.client(), &script.replace("PORT", &target.port().to_string()));
    assert_eq!(target.accepted(), 0);
}

#[test]
fn r10_36_connections_stay_for_ten_seconds_and_one_that_went_is_replaced_in_silence() {
    let source = Server::start(&[]);
    let mut target = Server::start(&[]);
    let (mut client, port) = (source.client(), target.port().to_string());
    let order = ["MIGRATE", "127.0.0.1", &port, "k", "0", "5000", "REPLACE"];
    let mut observer = target.client();
    let before = observer.figure("total_connections_received");
    for _ in 0..3 {
        check(&mut client, "> SET k v\nOK");
        assert_eq!(render(&client.call(&order)), "OK");
        assert_eq!(client.figure("migrate_cached_sockets"), 1);
    }
    assert_eq!(observer.figure("total_connections_received"), before + 1);
    target.kill();
    check(&mut client, "> SET k v\nOK");
    let said = "(error) IOERR error or timeout writing to target instance";
    assert_eq!(render(&client.call(&order)), said);
    let count = AtomicUsize::new(0);
    // SELECT, RESTORE; then the kept connection ends at the second RESTORE.
    let fixed = FakeTarget::start(move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
        2 => Said::Nothing,
        _ => Said::ok(),
    });
    let port = fixed.port().to_string();
    let order = ["MIGRATE", "127.0.0.1", &port, "k", "0", "5000", "REPLACE"];
    for _ in 0..2 {
        check(&mut client, "> SET k v\nOK");
        assert_eq!(render(&client.call(&order)), "OK");
    }
    assert_eq!(fixed.accepted(), 2);
    eventually("idle connections are closed", || client.figure("migrate_cached_sockets") == 0);
}
