//! Commands of a primary's stream that fail on a replica: what is told of them, what becomes of the
//! stream, and what a start has of it.

use tests::impostor::{primary_that_goes_on, primary_that_says, stream};
use tests::render::render;
use tests::replication::follow;
use tests::server::eventually;
use tests::{Oracle, Server, check};

const SETTINGS: &[&str] = &["--save", "", "--repl-diskless-sync-delay", "0"];

/// What fails, between what does not.
const STREAM: &[&str] = &[
    "SELECT 0",
    "SET s v",
    "NOSUCHCOMMAND a \"b\" c",
    "SET a",
    "SELECT 99",
    "SELECT x",
    "LPUSH s x",
    "EXEC",
    "DISCARD",
    "MULTI",
    "NOSUCH",
    "SET b 2",
    "EXEC",
    "MULTI",
    "LPUSH s x",
    "SET c 2",
    "EXEC",
    "MULTI",
    "SET a",
    "SET d 2",
    "EXEC",
    "MULTI",
    "MULTI",
    "SET e 1",
    "EXEC",
    "MULTI",
    "SET f 1",
    "DISCARD",
    "OBJECT NOSUCH",
    "GETRANGE s 1 x",
    "LSET none 1 1",
    "LINSERT s before x y",
    "SET s v EX",
    "INCRBY s 1",
    "SET s w",
];

/// Has a server follow a primary that says all of this, and waits until it has it.
fn feed(server: &Server, lines: &[&str]) {
    let bytes = stream(lines);
    let end = bytes.len().to_string();
    follow(server, primary_that_says(&bytes));
    let mut client = server.client();
    eventually("the stream is applied", || client.info("slave_repl_offset") == end);
}

/// What a log says of errors.
fn told(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| {
        let begin = line.find("== CRITICAL ==").or_else(|| line.find("Latest backlog is"))?;
        Some(line[begin..].to_owned())
    });
    lines.collect()
}

#[test]
fn errors_are_told_as_the_real_server_tells_them_and_the_stream_goes_on() {
    let (mut ours, mut theirs) = (Server::start(SETTINGS), Oracle::Redis82.start(SETTINGS));
    for server in [&ours, &theirs] {
        feed(server, STREAM);
    }
    let last = "processing the command 'incrby'";
    ours.wait_for_log(last);
    theirs.wait_for_log(last);
    let [our_log, their_log] = [&ours, &theirs].map(|server| told(&server.log()));
    for (ours, theirs) in our_log.iter().zip(&their_log) {
        assert_eq!(ours, theirs);
    }
    assert!(our_log.len().abs_diff(their_log.len()) <= 1, "the last line may be to come");
    for field in ["unexpected_error_replies", "errorstat_ERR", "errorstat_WRONGTYPE"] {
        let [ours, theirs] = [&ours, &theirs].map(|server| server.client().info(field));
        assert_eq!(ours, theirs, "{field}");
    }
    for key in ["s", "a", "b", "c", "d", "e", "f"] {
        let [ours, theirs] =
            [&ours, &theirs].map(|server| render(&server.client().call(&["GET", key])));
        assert_eq!(ours, theirs, "{key}");
    }
}

/// What changes no data is not run here, though the primary sends it.
#[test]
fn a_stream_steers_no_replica() {
    let server = Server::start(SETTINGS);
    let lines =
        ["SET a 1", "CONFIG SET maxmemory 1", "REPLICAOF NO ONE", "QUIT", "SHUTDOWN", "SET b 1"];
    feed(&server, &lines);
    check(
        &mut server.client(),
        "> MGET a b\n1) \"1\"\n2) \"1\"\n> CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"0\"",
    );
    assert_eq!(server.client().info("unexpected_error_replies"), "4");
    assert_eq!(server.client().info("role"), "slave");
}

#[test]
fn the_process_ends_where_the_operator_wants_it() {
    for behavior in ["panic", "panic-on-replicas"] {
        let settings = [SETTINGS, &["--propagation-error-behavior", behavior]].concat();
        let (ours, theirs) = (Server::start(&settings), Oracle::Redis82.start(&settings));
        for mut server in [ours, theirs] {
            server.may_panic();
            follow(&server, primary_that_says(&stream(&["SET s v", "LPUSH s x", "SET s w"])));
            server.wait_for_log(
                "This replica panicked sending an error to its master after processing the \
                 command 'lpush'",
            );
            eventually("it ends", || server.has_ended());
        }
    }
    // A replica that may be written to goes on.
    let settings = ["--propagation-error-behavior", "panic", "--replica-read-only", "no"];
    let server = Server::start(&[SETTINGS, &settings].concat());
    feed(&server, &["SET s v", "LPUSH s x", "SET s w"]);
    check(&mut server.client(), "> GET s\n\"w\"");
}

/// A log has what was done, so that each server starts from it.
#[test]
fn a_start_from_the_log_has_what_was_there() {
    let mut server = Server::start(&[SETTINGS, &["--appendonly", "yes"]].concat());
    feed(&server, &["SET g 1"]);
    let mut client = server.client();
    eventually("the log has a base", || {
        client.info("aof_rewrite_in_progress") == "0" && client.info("aof_enabled") == "1"
    });
    let (before, bytes) = (client.figure("slave_repl_offset"), stream(STREAM));
    follow(&server, primary_that_goes_on(&bytes));
    let end = before + i64::try_from(bytes.len()).expect("it is short");
    eventually("the stream is applied", || client.figure("slave_repl_offset") == end);
    let content = "> MGET s a b c d e f\n1) \"w\"\n2) (nil)\n3) (nil)\n4) \"2\"\n5) (nil)\n\
                   6) \"1\"\n7) (nil)";
    check(&mut server.client(), content);
    client.send(&["SHUTDOWN", "NOSAVE"]);
    eventually("it ends", || server.has_ended());
    let folder = server.folder().join("appendonlydir");
    let copy = |to: &std::path::Path| {
        let target = to.join("appendonlydir");
        std::fs::create_dir(&target).expect("a new folder");
        for file in std::fs::read_dir(&folder).expect("the log is there") {
            let file = file.expect("a name");
            std::fs::copy(file.path(), target.join(file.file_name())).expect("a copy");
        }
    };
    let theirs = Oracle::Redis82.start_prepared(copy, &["--appendonly", "yes"]);
    check(&mut theirs.client(), content);
    server.restart();
    check(&mut server.client(), content);
}
