//! `preload-file`: a server begins with what lies elsewhere, and leaves it as it is.

use std::fs;
use std::path::Path;

use tests::render::text;
use tests::server::eventually;
use tests::{Client, Server, check};

const LOGGED: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

fn settle(client: &mut Client) {
    eventually("the log has its base", || {
        let info = text(&client.call(&["INFO", "persistence"]));
        info.contains("aof_rewrite_in_progress:0")
            && info.contains("aof_last_bgrewrite_status:ok")
            && info.contains("aof_rewrites:1")
    });
}

/// Files of a directory, with what they hold.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder)
        .expect("it is there")
        .map(|file| file.expect("a folder can be read").path());
    let mut contents: Vec<_> =
        files.map(|path| (path.clone(), fs::read(&path).expect("it is a file"))).collect();
    contents.sort();
    contents
}

#[test]
fn a_server_begins_with_a_snapshot_or_a_log_that_lies_elsewhere() {
    let source = Server::start(LOGGED);
    let mut client = source.client();
    check(&mut client, "> SET k v\nOK\n> HSET h f 1\n(integer) 1\n> SAVE\nOK\n");
    let log = source.folder().join("appendonlydir");
    let dump = source.folder().join("dump.rdb");
    let before = contents(&log);
    for preload in [
        format!("rdb:{}", dump.display()),
        format!("aof:{}/appendonly.aof.manifest", log.display()),
    ] {
        let mut server = Server::start(&["--preload-file", &preload]);
        check(&mut server.client(), "> GET k\n\"v\"\n> HGET h f\n\"1\"\n> DBSIZE\n(integer) 2\n");
        // The preload file is loaded at each start, whatever else there is.
        check(&mut server.client(), "> SET other 1\nOK\n> SAVE\nOK\n");
        server.kill();
        server.restart();
        check(&mut server.client(), "> DBSIZE\n(integer) 2\n");
        // A log begins with it, and goes on.
        let logged = Server::start(&[LOGGED, &["--preload-file", &preload]].concat());
        let mut client = logged.client();
        settle(&mut client);
        check(&mut client, "> SET other 2\nOK\n");
        let own =
            format!("aof:{}/appendonlydir/appendonly.aof.manifest", logged.folder().display());
        let copy = Server::start(&["--preload-file", &own]);
        check(&mut copy.client(), "> GET k\n\"v\"\n> GET other\n\"2\"\n> DBSIZE\n(integer) 3\n");
    }
    assert_eq!(contents(&log), before, "what was loaded is as it was");
}

#[test]
fn what_cannot_be_preloaded_keeps_the_server_from_starting() {
    for preload in ["rdb:/nowhere/dump.rdb", "aof:/nowhere/appendonly.aof.manifest", "aof:x", "x"] {
        let (status, output) = Server::refuses(&["--preload-file", preload]);
        assert!(!status.success(), "{preload}: {output}");
    }
}

#[test]
fn a_schedule_is_told_in_the_words_of_crontab() {
    let server = Server::start(&["--snapshot_cron", "*/5 * * * *"]);
    check(
        &mut server.client(),
        r#"
        > CONFIG GET snapshot-cron
        1) "snapshot-cron"
        2) "*/5 * * * *"
        > CONFIG SET snapshot_cron "0 3 * * sun"
        OK
        > CONFIG SET snapshot_cron "61 * * * *"
        ~ (error) ERR CONFIG SET failed*five fields
        > CONFIG SET snapshot_cron ""
        OK
        "#,
    );
}
