//! Loading: snapshots of the real servers become the data set, damaged ones keep the server from
//! starting, and clients that come meanwhile are told so.

use std::path::Path;

use proto::value::Value;
use rustix::process::Signal;
use tests::render::{render, text};
use tests::samples::{digest, fill, run};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server, check};

fn snapshot_of(server: &Server) -> Vec<u8> {
    run(&mut server.client(), &["SAVE"]);
    std::fs::read(server.folder().join("dump.rdb")).expect("a saved server has a snapshot")
}

fn with_dump(bytes: &[u8]) -> impl Fn(&Path) {
    move |folder| std::fs::write(folder.join("dump.rdb"), bytes).expect("the folder is new")
}

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

#[test]
fn what_the_real_servers_saved_is_loaded() {
    for oracle in Oracle::ALL {
        let newer = oracle != Oracle::Redis70;
        let theirs = oracle.start(&[]);
        fill(&mut theirs.client(), newer);
        run(&mut theirs.client(), &["SET", "gone", "1", "PX", "1"]);
        eventually("the key expires", || {
            run(&mut theirs.client(), &["PTTL", "gone"]) == Value::Integer(-2)
        });
        let dump = snapshot_of(&theirs);
        let ours = Server::start_prepared(with_dump(&dump), &DEBUG);
        // The same commands give the same data, here.
        let same = Server::start(&DEBUG);
        fill(&mut same.client(), newer);
        let (mut ours, mut same) = (ours.client(), same.client());
        assert_eq!(digest(&mut ours), digest(&mut same), "{oracle:?}");
        assert_eq!(run(&mut ours, &["DBSIZE"]), run(&mut same, &["DBSIZE"]));
        for client in [&mut ours, &mut same] {
            check(
                client,
                "
                > PEXPIRETIME expires
                (integer) 4102444800999
                > OBJECT ENCODING hash
                \"listpack\"
                > OBJECT ENCODING large-ints
                \"hashtable\"
                > FCALL answer 0
                (integer) 42
                ",
            );
        }
        let persistence = render(&run(&mut ours, &["INFO", "persistence"]));
        assert!(persistence.contains("rdb_last_load_keys_loaded:6"), "{persistence}");
    }
}

#[test]
fn keys_whose_time_was_over_are_not_loaded() {
    for oracle in Oracle::ALL {
        let theirs = oracle.start(&["--enable-debug-command", "yes"]);
        let mut client = theirs.client();
        // The key is kept although its time is over.
        run(&mut client, &["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        run(&mut client, &["SET", "gone", "1", "PX", "1"]);
        run(&mut client, &["SET", "stays", "1"]);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let dump = snapshot_of(&theirs);
        let ours = Server::start_prepared(with_dump(&dump), &[]);
        let again = oracle.start_prepared(with_dump(&dump), &[]);
        for server in [ours, again] {
            let mut client = server.client();
            assert_eq!(run(&mut client, &["DBSIZE"]), Value::Integer(1));
            let persistence = render(&run(&mut client, &["INFO", "persistence"]));
            for field in ["rdb_last_load_keys_expired:1", "rdb_last_load_keys_loaded:1"] {
                assert!(persistence.contains(field), "{field}: {persistence}");
            }
        }
    }
}

/// Starts a server that takes its time to load, and gives a client of it.
fn slow_start(mut server: Server, port: u16, dump: &[u8]) -> (Server, Client) {
    server.kill();
    with_dump(dump)(server.folder());
    start_slowly(server, port)
}

/// Starts a server again that takes its time to load, and gives a client of it.
fn start_slowly(mut server: Server, port: u16) -> (Server, Client) {
    server.kill();
    server.restart_hastily();
    let mut client = None;
    eventually("the server listens", || {
        client = Client::try_connect(port).ok();
        client.is_some()
    });
    (server, client.expect("it was just made"))
}

fn slow_start_of_ours(arguments: &[&str], dump: &[u8]) -> (Server, Client) {
    let port = free_port();
    let server = Server::start(&[arguments, &["--port", &port.to_string()]].concat());
    slow_start(server, port, dump)
}

#[test]
fn a_client_that_comes_while_data_are_loaded_is_told_so() {
    // Redis looks at its clients after so many bytes that it has loaded.
    let theirs = Oracle::Redis82.start(&["--rdbcompression", "no"]);
    let mut client = theirs.client();
    for number in 0..100 {
        run(&mut client, &["SET", &format!("key:{number}"), &"x".repeat(2000)]);
    }
    let dump = snapshot_of(&theirs);
    for is_oracle in [true, false] {
        // A tenth of a second for each key.
        let slow = ["--key-load-delay", "100000"];
        let (mut server, mut client) = match is_oracle {
            true => {
                let often = ["--loading-process-events-interval-bytes", "1024"];
                let server = Oracle::Redis82.start(&[slow, often].concat());
                let port = server.port();
                slow_start(server, port, &dump)
            }
            false => slow_start_of_ours(&slow, &dump),
        };
        check(
            &mut client,
            "
            > PING
            (error) LOADING Redis is loading the dataset in memory
            > GET key:1
            (error) LOADING Redis is loading the dataset in memory
            > SELECT 3
            OK
            > SET key value
            (error) LOADING Redis is loading the dataset in memory
            > DBSIZE
            (error) LOADING Redis is loading the dataset in memory
            > MULTI
            OK
            > SET key value
            (error) LOADING Redis is loading the dataset in memory
            > EXEC
            (error) EXECABORT Transaction discarded because of previous errors.
            ",
        );
        let persistence = render(&run(&mut client, &["INFO", "persistence"]));
        for field in [
            "loading:1",
            "loading_start_time:",
            &format!("loading_total_bytes:{}", dump.len()),
            "loading_rdb_used_mem:",
            "loading_loaded_bytes:",
            "loading_loaded_perc:",
            "loading_eta_seconds:",
        ] {
            assert!(persistence.contains(field), "{field}: {persistence}");
        }
        run(&mut client, &["CONFIG", "SET", "key-load-delay", "0"]);
        server.become_ready();
        let mut client = server.client();
        assert_eq!(run(&mut client, &["DBSIZE"]), Value::Integer(100));
        let persistence = render(&run(&mut client, &["INFO", "persistence"]));
        assert!(persistence.contains("loading:0") && !persistence.contains("loading_start_time"));
    }
}

/// What is there is a part: to save it, or to load something in its place, would lose the rest.
#[test]
fn nothing_is_reloaded_before_the_start_has_loaded_all() {
    for is_log in ["no", "yes"] {
        let port = free_port();
        let slow = ["--key-load-delay", "100000", "--appendonly", is_log];
        let server = Server::start(&[&DEBUG[..], &slow, &["--port", &port.to_string()]].concat());
        let mut client = server.client();
        for number in 0..100 {
            run(&mut client, &["SET", &format!("key:{number}"), "value"]);
        }
        if is_log == "yes" {
            run(&mut client, &["BGREWRITEAOF"]);
            eventually("the base holds them", || {
                let told = text(&run(&mut client, &["INFO", "persistence"]));
                told.contains("aof_rewrites:1") && told.contains("aof_rewrite_in_progress:0")
            });
        } else {
            run(&mut client, &["SAVE"]);
        }
        let (mut server, mut client) = start_slowly(server, port);
        let refused = "(error) LOADING Redis is loading the dataset in memory";
        for words in [
            &["DEBUG", "RELOAD"][..],
            &["DEBUG", "RELOAD", "NOSAVE"],
            &["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"],
            &["DEBUG", "LOADAOF"],
        ] {
            assert_eq!(render(&client.call(words)), refused, "log: {is_log}: {words:?}");
        }
        let persistence = render(&run(&mut client, &["INFO", "persistence"]));
        assert!(persistence.contains("loading:1"), "log: {is_log}: {persistence}");
        run(&mut client, &["CONFIG", "SET", "key-load-delay", "0"]);
        server.become_ready();
        let mut client = server.client();
        assert_eq!(run(&mut client, &["DBSIZE"]), Value::Integer(100), "log: {is_log}");
        assert_eq!(render(&client.call(&["DEBUG", "RELOAD"])), "OK", "log: {is_log}");
        assert_eq!(run(&mut client, &["DBSIZE"]), Value::Integer(100), "log: {is_log}");
    }
}

#[test]
fn loading_can_be_given_up() {
    let theirs = Oracle::redis70();
    let mut client = theirs.client();
    for number in 0..100 {
        run(&mut client, &["SET", &format!("key:{number}"), "value"]);
    }
    let dump = snapshot_of(&theirs);
    for by_signal in [false, true] {
        let (server, mut client) = slow_start_of_ours(&["--key-load-delay", "1000000"], &dump);
        let folder = server.folder().join("dump.rdb");
        if by_signal {
            server.signal(Signal::TERM);
        } else {
            client.send(&["SHUTDOWN", "NOSAVE"]);
        }
        eventually("the server ends", || client.is_closed());
        assert_eq!(std::fs::read(folder).expect("the snapshot stays"), dump);
        assert!(server.wait().success());
    }
}

/// What a server says that refuses to start with this snapshot.
fn refusal(dump: &[u8], arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    with_dump(dump)(folder.path());
    let path = folder.path().display().to_string();
    let common =
        ["--listen-on-any-port", "yes", "--port", "0", "--bind", "127.0.0.1", "--dir", &path];
    let (status, output) = Server::refuses(&[&common, arguments].concat());
    assert_eq!(status.code(), Some(1), "{output}");
    output
}

#[test]
fn a_damaged_snapshot_is_refused_with_the_place() {
    let theirs = Oracle::redis70();
    fill(&mut theirs.client(), false);
    let dump = snapshot_of(&theirs);
    assert!(refusal(&dump[..dump.len() / 2], &[]).contains("the file is cut off. Exiting."));
    let mut flipped = dump.clone();
    let place = dump.len() / 2;
    flipped[place] ^= 1;
    assert!(refusal(&flipped, &[]).contains("Fatal error loading the DB from dump.rdb, at offset"));
    assert!(refusal(b"", &[]).contains("at offset 0: wrong signature"));
    assert!(refusal(b"REDIS0099", &[]).contains("RDB version 99 is not known"));
    let twice = b"REDIS0010\xfe\x00\x00\x01a\x01b\x00\x01a\x01c\xff\0\0\0\0\0\0\0\0";
    assert!(refusal(twice, &[]).contains("at offset 16: the key is there twice"));
    let elsewhere = b"REDIS0010\xfe\x03\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0";
    let few = ["--databases", "3"];
    assert!(refusal(elsewhere, &few).contains("at offset 11: there is no database 3"));
    // A checksum that nobody wants checked does not matter.
    let mut other_sum = elsewhere.to_vec();
    *other_sum.last_mut().expect("it has bytes") = 1;
    assert!(refusal(&other_sum, &[]).contains("the checksum is wrong"));
    let prepare = with_dump(&other_sum);
    let server = Server::start_prepared(prepare, &["--rdbchecksum", "no"]);
    check(&mut server.client(), "> SELECT 3\nOK\n> GET a\n\"b\"\n");
}

/// The names of files that were damaged, what stands there instead (a directory where nothing
/// does), and what is said; all in a folder that a server with a log has left.
const DAMAGED: &[(&str, Option<&str>, &str)] = &[
    ("appendonlydir/log.manifest", Some(""), "line 1 of the AOF manifest: it is empty"),
    ("appendonlydir/log.manifest", Some("x\n"), "line 1 of the AOF manifest: it is invalid"),
    ("appendonlydir/log.manifest", Some("file a seq 1 type b"), "line 1 of the AOF manifest"),
    (
        "appendonlydir/log.manifest",
        Some("file log.9 seq 9 type i\n"),
        "appendonlydir/log.9: No such",
    ),
    ("appendonlydir/log.manifest", None, "appendonlydir/log.manifest: Is a directory"),
    ("appendonlydir/log.1.incr.aof", Some("nonsense\r\n"), "appendonlydir/log.1.incr.aof"),
    ("appendonlydir/log.1.incr.aof", Some("*1\r\n$5\r\nNOSUC\r\n"), "appendonlydir/log.1.incr.aof"),
    ("appendonlydir/log.1.incr.aof", None, "appendonlydir/log.1.incr.aof: Is a directory"),
    ("appendonlydir/log.1.base.rdb", Some("REDIS9999"), "log.1.base.rdb"),
    ("appendonlydir/log.1.base.rdb", None, "log.1.base.rdb: Is a directory"),
    ("users.acl", Some("user a on\nuser b nonsense\n"), "users.acl:2"),
    ("users.acl", None, "users.acl': Is a directory"),
];

#[test]
fn a_damaged_file_is_named_with_the_place_and_keeps_the_server_from_starting() {
    let common = ["--appendonly", "yes", "--appendfilename", "log", "--save", ""];
    let whole = Server::start(&common);
    run(&mut whole.client(), &["SET", "key", "value"]);
    let written = whole.folder().join("appendonlydir");
    for &(name, content, said) in DAMAGED {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let log = folder.path().join("appendonlydir");
        std::fs::create_dir(&log).expect("the folder is new");
        for file in std::fs::read_dir(&written).expect("the log is there") {
            let file = file.expect("the log is there");
            std::fs::copy(file.path(), log.join(file.file_name())).expect("there is room");
        }
        let damaged = folder.path().join(name);
        let _ = std::fs::remove_file(&damaged);
        match content {
            Some(content) => std::fs::write(&damaged, content).expect("there is room"),
            None => std::fs::create_dir(&damaged).expect("nothing is there"),
        }
        let (directory, acl) = (folder.path().to_str(), folder.path().join("users.acl"));
        let directory = directory.expect("the path is text");
        let mut arguments = [&common[..], &["--port", "0", "--listen-on-any-port", "yes"]].concat();
        arguments.extend(["--bind", "127.0.0.1", "--dir", directory]);
        if acl.exists() {
            arguments.extend(["--aclfile", acl.to_str().expect("the path is text")]);
        }
        let (status, output) = Server::refuses(&arguments);
        assert_eq!(status.code(), Some(1), "{name} {content:?}: {output}");
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_named = output.lines().any(|line| line.contains(said) && line.contains(file));
        let is_reference = content.is_some_and(|text| text.contains("log.9"));
        assert!(
            is_named || (is_reference && output.contains(said)),
            "{name} {content:?}: {output}"
        );
        assert_eq!(output.matches(said).count(), 1, "{name} {content:?}: {output}");
    }
}
