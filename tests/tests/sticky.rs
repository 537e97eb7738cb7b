//! Keys that are never evicted stay so over a restart, in files that other servers load.
//!
//! Invariant: STICK itself tells whether a key was sticky before: its reply counts those that were
//! not.

use tests::folder::with_log;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Sticky keys of several types and databases, one with flags of memcached's clients, one that was
/// sticky once, and one that was made long only when it was sticky.
const STICK: &str = r#"
    > SET string 1
    OK
    > RPUSH list a b
    (integer) 2
    > SET once 1
    OK
    > SET plain 1
    OK
    > STICK string list once nosuch
    (integer) 3
    > UNSTICK once plain
    (integer) 1
    > SETRANGE string 5000 x
    (integer) 5001
    > SELECT 3
    OK
    > SET "other base=1" 1 EX 100000
    OK
    > MULTI
    OK
    > STICK "other base=1"
    QUEUED
    > SET late 1
    QUEUED
    > EXEC
    1) (integer) 1
    2) OK
    > SELECT 0
    OK
"#;

/// Those that are not sticky are made so, which says that they were not.
#[track_caller]
fn are_as_they_were(server: &Server) {
    check(
        &mut server.client(),
        r#"
        > STICK string list
        (integer) 0
        > STICK once plain
        (integer) 2
        > UNSTICK once plain
        (integer) 2
        > GETRANGE string 5000 -1
        "x"
        > SELECT 3
        OK
        > STICK "other base=1"
        (integer) 0
        > STICK late
        (integer) 1
        > UNSTICK late
        (integer) 1
        "#,
    );
}

/// What other servers find.
#[track_caller]
fn is_all_there(server: &Server) {
    check(
        &mut server.client(),
        r#"
        > MGET once plain
        1) "1"
        2) "1"
        > LLEN list
        (integer) 2
        > STRLEN string
        (integer) 5001
        > SELECT 3
        OK
        > GET "other base=1"
        "1"
        "#,
    );
}

fn await_rewrite(client: &mut Client) {
    eventually("the log is rewritten", || {
        let reply = client.call(&["INFO", "persistence"]);
        let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
        text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrite_scheduled:0")
    });
}

#[test]
fn snapshots_say_so() {
    let mut server = Server::start(&["--save", ""]);
    check(&mut server.client(), STICK);
    server.client().call(&["SAVE"]);
    let snapshot = server.snapshot();
    server.kill();
    server.restart();
    are_as_they_were(&server);
    for oracle in Oracle::ALL {
        is_all_there(&oracle.start_prepared(&snapshot, &[]));
    }
}

#[test]
fn a_key_that_changes_before_it_is_saved_is_saved_as_it_was() {
    let mut server = Server::start(&["--save", ""]);
    let mut client = server.client();
    check(&mut client, STICK);
    // The snapshot takes its time, so all has changed before it is over.
    let slowly =
        "> CONFIG SET rdb-key-save-delay 300000\nOK\n> BGSAVE\nBackground saving started\n";
    check(&mut client, slowly);
    check(&mut client, "> UNSTICK string list\n(integer) 2\n> STICK once plain\n(integer) 2\n");
    check(&mut client, "> SELECT 3\nOK\n> UNSTICK \"other base=1\"\n(integer) 1\n");
    check(&mut client, "> STICK late\n(integer) 1\n");
    eventually("the snapshot is there", || {
        let reply = client.call(&["INFO", "persistence"]);
        let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
        text.contains("rdb_bgsave_in_progress:0")
    });
    server.kill();
    server.restart();
    are_as_they_were(&server);
}

#[test]
fn the_log_says_so() {
    for preamble in ["yes", "no"] {
        let arguments = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let mut server = Server::start(&[&arguments[..], &["--appendfsync", "always"]].concat());
        check(&mut server.client(), STICK);
        server.kill();
        server.restart();
        are_as_they_were(&server);
        let mut client = server.client();
        client.call(&["BGREWRITEAOF"]);
        await_rewrite(&mut client);
        check(&mut client, "> SET late 1\nOK\n> STICK late\n(integer) 1\n");
        server.kill();
        server.restart();
        are_as_they_were(&server);
        check(&mut server.client(), "> STICK late\n(integer) 0\n");
        server.kill();
        for oracle in Oracle::ALL {
            let log = with_log(server.folder().join("appendonlydir"));
            is_all_there(&oracle.start_prepared(log, &["--appendonly", "yes"]));
        }
        server.restart();
    }
}

#[test]
fn backups_say_so() {
    for log in ["yes", "no"] {
        let server = Server::start(&["--appendonly", log]);
        let mut client = server.client();
        check(&mut client, "> SET before 1\nOK\n> STICK before\n(integer) 1\n> BACKUP START\nOK\n");
        eventually("the backup has its base", || {
            let status = client.call(&["BACKUP", "STATUS"]);
            tests::render::render(&status).contains("incrementing")
        });
        check(&mut client, STICK);
        check(&mut client, "> BACKUP SEAL\nOK\n");
        let backup = || with_log(server.folder().join("backupdir"));
        let again = Server::start_prepared(backup(), &["--appendonly", "yes"]);
        are_as_they_were(&again);
        check(&mut again.client(), "> STICK before\n(integer) 0\n");
        for oracle in Oracle::ALL {
            is_all_there(&oracle.start_prepared(backup(), &["--appendonly", "yes"]));
        }
    }
}
