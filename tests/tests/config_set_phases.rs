//! Directives that act, changed while the server loads, saves, rewrites its log or ends.
//!
//! Invariant: OK means that it took effect, at the latest when the phase is over; then CONFIG GET,
//! INFO, threads and files agree, and everything that was acknowledged outlives a kill.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};

use proto::value::Value;
use rustix::process::Signal;
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::{Client, Server, check};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    LoadsSnapshot,
    LoadsLog,
    Saves,
    Rewrites,
}

const PHASES: [Phase; 4] = [Phase::LoadsSnapshot, Phase::LoadsLog, Phase::Saves, Phase::Rewrites];

/// A phase lasts until this is taken back.
const ENDLESS: &str = "100000000";
const LOAD_DELAY: &str = "key-load-delay";
const SAVE_DELAY: &str = "rdb-key-save-delay";

const KEYS: usize = 3;

fn config(client: &mut Client, name: &str) -> String {
    match client.call(&["CONFIG", "GET", name]) {
        Value::Array(pair) if pair.len() == 2 => text(&pair[1]),
        other => panic!("CONFIG GET {name}: {other:?}"),
    }
}

fn set(client: &mut Client, name: &str, value: &str) -> String {
    render(&client.call(&["CONFIG", "SET", name, value]))
}

fn connect(server: &Server) -> Client {
    let path = server.folder().join("socket");
    eventually("it listens", || std::os::unix::net::UnixStream::connect(&path).is_ok());
    Client::connect_unix(&path)
}

/// A server in the midst of a phase.
fn begin(phase: Phase) -> (Server, Client) {
    let has_log = matches!(phase, Phase::LoadsLog | Phase::Rewrites);
    let mut server = Server::start(&[
        "--unixsocket",
        "socket",
        "--save",
        "",
        "--appendonly",
        if has_log { "yes" } else { "no" },
        "--appendfsync",
        "always",
        "--enable-protected-configs",
        "yes",
        "--key-load-delay",
        ENDLESS,
    ]);
    let mut client = connect(&server);
    for key in 0..KEYS {
        check(&mut client, &format!("> SET before:{key} v\nOK"));
    }
    if has_log {
        client.call(&["BGREWRITEAOF"]);
        until_quiet(&mut client);
        check(&mut client, "> SET late v\nOK");
    } else {
        check(&mut client, "> SET late v\nOK\n> SAVE\nOK");
    }
    match phase {
        Phase::LoadsSnapshot | Phase::LoadsLog => {
            server.kill();
            server.restart_hastily();
            client = connect(&server);
            assert_eq!(client.info("loading"), "1");
        }
        Phase::Saves | Phase::Rewrites => {
            assert_eq!(set(&mut client, SAVE_DELAY, ENDLESS), "OK");
            let command = if has_log { "BGREWRITEAOF" } else { "BGSAVE" };
            client.call(&[command]);
            let field = if has_log { "aof_rewrite_in_progress" } else { "rdb_bgsave_in_progress" };
            eventually("it has begun", || client.info(field) == "1");
        }
    }
    (server, client)
}

/// As one report says: between two of them a rewrite may begin that was scheduled.
fn until_quiet(client: &mut Client) {
    let fields =
        ["loading", "rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    eventually("nothing is under way", || {
        let report = text(&client.call(&["INFO", "persistence"]));
        fields.iter().all(|field| report.contains(&format!("\n{field}:0\r")))
    });
}

fn finish(client: &mut Client) {
    for delay in [LOAD_DELAY, SAVE_DELAY] {
        assert_eq!(set(client, delay, "0"), "OK");
    }
    until_quiet(client);
}

/// Threads that write the log.
fn writers(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "aof")).count()
}

/// What CONFIG GET says of the log is so.
fn log_is_as_told(server: &Server, client: &mut Client, what: &str) {
    let is_on = config(client, "appendonly") == "yes";
    assert_eq!(client.info("aof_enabled"), if is_on { "1" } else { "0" }, "{what}");
    eventually("there is one writer at most", || writers(server) == usize::from(is_on));
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok", "{what}");
}

/// What was acknowledged is found by a server that starts in a folder.
fn outlives(mut server: Server, folder: &Path, is_logged: bool, what: &str) {
    server.kill();
    let from = folder.to_owned();
    let prepare = move |to: &Path| tests::folder::copy_folder(&from, to);
    let log = if is_logged { "yes" } else { "no" };
    let _ = std::fs::remove_file(server.folder().join("socket"));
    let again = Server::start_prepared(prepare, &["--appendonly", log, "--save", ""]);
    assert_eq!(again.client().call(&["DBSIZE"]), Value::Integer(KEYS as i64 + 2), "{what}");
}

/// Writes something more and kills it: what was loaded and what came then is there.
fn check_outlives(server: Server, client: &mut Client, folder: &Path, what: &str) {
    let is_logged = config(client, "appendonly") == "yes";
    check(client, "> SET after v\nOK");
    if !is_logged {
        check(client, "> SAVE\nOK");
    }
    outlives(server, folder, is_logged, what);
}

#[test]
fn the_log_is_turned_on_and_off_in_every_phase() {
    for phase in PHASES {
        let (yes, no) = ("yes", "no");
        for turns in [&[no][..], &[yes], &[no, no], &[no, yes], &[yes, no], &[no, yes, no, yes]] {
            let what = format!("{phase:?}: {turns:?}");
            let (server, mut client) = begin(phase);
            for turn in turns {
                assert_eq!(set(&mut client, "appendonly", turn), "OK", "{what}");
                assert_eq!(config(&mut client, "appendonly"), *turn, "{what}");
                assert!(writers(&server) <= 1, "{what}");
            }
            finish(&mut client);
            assert_eq!(config(&mut client, "appendonly"), turns[turns.len() - 1], "{what}");
            log_is_as_told(&server, &mut client, &what);
            // And again, now that it is over.
            let folder = server.folder().to_owned();
            check_outlives(server, &mut client, &folder, &what);
        }
    }
}

/// A log stays where it is until its next base, as in Redis.
#[test]
fn the_directory_is_changed_in_every_phase() {
    for phase in PHASES {
        for rewrites in [false, true] {
            let what = format!("{phase:?}, rewritten: {rewrites}");
            let (server, mut client) = begin(phase);
            let other = server.folder().join("other");
            std::fs::create_dir(&other).unwrap();
            assert_eq!(set(&mut client, "dir", &other.display().to_string()), "OK", "{what}");
            finish(&mut client);
            let told = PathBuf::from(config(&mut client, "dir"));
            assert_eq!(told.canonicalize().unwrap(), other.canonicalize().unwrap(), "{what}");
            log_is_as_told(&server, &mut client, &what);
            let is_logged = config(&mut client, "appendonly") == "yes";
            if rewrites && is_logged {
                client.call(&["BGREWRITEAOF"]);
                until_quiet(&mut client);
            }
            // A base that was begun before the change may have its place in either.
            let stays = is_logged && !other.join("appendonlydir").exists();
            assert!(!stays || !rewrites, "{what}");
            let folder = if stays { server.folder().to_owned() } else { other };
            check_outlives(server, &mut client, &folder, &what);
        }
    }
}

#[test]
fn the_other_directives_take_effect_in_every_phase() {
    for phase in PHASES {
        let (server, mut client) = begin(phase);
        let port = free_port().to_string();
        let values = [
            ("save", "3600 1000"),
            ("dbfilename", "other.rdb"),
            ("maxmemory", "100000000"),
            ("maxmemory-policy", "allkeys-apus"),
            ("worker-threads", "3"),
            ("port", &port),
            ("appendfsync", "everysec"),
            ("appendfsync", "always"),
            ("maxclients", "1000"),
            ("notify-keyspace-events", "AKE"),
            ("aof-use-rdb-preamble", "no"),
            ("proto-max-bulk-len", "2000000"),
            ("hash-max-listpack-entries", "7"),
            ("requirepass", "secret"),
        ];
        for (name, value) in values {
            assert_eq!(set(&mut client, name, value), "OK", "{phase:?}: {name}");
        }
        finish(&mut client);
        for (name, value) in values {
            let value = if (name, value) == ("appendfsync", "everysec") { "always" } else { value };
            assert_eq!(config(&mut client, name), value, "{phase:?}: {name}");
        }
        assert_eq!(client.info("maxmemory"), "100000000");
        assert_eq!(client.info("maxmemory_policy"), "allkeys-apus");
        log_is_as_told(&server, &mut client, &format!("{phase:?}"));
        let mut stranger = Client::connect(port.parse().unwrap());
        let refused = "(error) NOAUTH Authentication required.";
        assert_eq!(render(&stranger.call(&["PING"])), refused, "{phase:?}");
        check(&mut stranger, "> AUTH secret\nOK");
        let long = "x".repeat(2_000_001);
        let reply = stranger.try_call(&["SET", "long", &long]);
        let is_refused = reply.as_ref().map_or(true, |it| matches!(it, Value::Error(_)));
        assert!(is_refused, "{phase:?}: {reply:?}");
        check(&mut client, "> SAVE\nOK");
        assert!(server.folder().join("other.rdb").exists(), "{phase:?}");
    }
}

#[test]
fn a_config_set_while_the_server_ends_is_answered_or_closed() {
    let values = [
        ("appendonly", "yes"),
        ("appendonly", "no"),
        ("save", ""),
        ("maxmemory", "100000000"),
        ("worker-threads", "1"),
        ("dbfilename", "other.rdb"),
    ];
    for (name, value) in values {
        let mut server = Server::start(&["--unixsocket", "socket", "--save", "3600 1"]);
        let mut client = connect(&server);
        check(&mut client, "> MSET a 1 b 2\nOK");
        assert_eq!(set(&mut client, SAVE_DELAY, "1000000"), "OK");
        let mut other = connect(&server);
        check(&mut other, "> PING\nPONG");
        server.signal(Signal::TERM);
        server.wait_for_log("User requested shutdown");
        let reply = other.try_call(&["CONFIG", "SET", name, value]);
        let is_closed = |error: &std::io::Error| error.kind() != std::io::ErrorKind::TimedOut;
        assert!(reply.as_ref().map_or_else(is_closed, |_| true), "{name} {value}: {reply:?}");
        eventually("it ends", || server.has_ended());
        let kept = ["dump.rdb", "other.rdb"].map(|file| server.folder().join(file).exists());
        // A client that was told that nothing is to be saved came before the save.
        let is_unwanted =
            name == "save" && reply.is_ok_and(|it| it == Value::Simple(b"OK".to_vec()));
        assert!(kept[0] || kept[1] || is_unwanted, "{name} {value}: it was saved");
    }
}
