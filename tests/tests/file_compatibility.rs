//! Directories of files, both ways: the real servers start on ours with all the data, and we start
//! on theirs.

use std::path::Path;

use proto::value::Value;
use tests::folder::with_log;
use tests::render::render;
use tests::samples::{digest, fill, run};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const LOGGED: &[&str] = &["--appendonly", "yes", "--enable-debug-command", "yes"];
const UNLOGGED: &[&str] = &["--enable-debug-command", "yes"];

/// Changes of all kinds that come after a base.
const AFTERWARDS: &[&str] = &[
    "SET afterwards 1",
    "INCRBYFLOAT afterwards 0.5",
    "HINCRBYFLOAT hash a 0.25",
    "SELECT 5",
    "RPUSH elsewhere a b c",
    "LMOVE elsewhere moved LEFT RIGHT",
    "SELECT 0",
    "MULTI",
    "SET one 1",
    "EXPIREAT one 4102444800",
    "ZADD sorted 7 seven",
    "EXEC",
    "EVAL return{redis.call('SET','scripted',KEYS[1]),redis.call('SADD','members','c')} 1 list",
    "XGROUP CREATE large-stream readers 10-1",
    // No readers: when they were last seen is told by no log.
    "XGROUP SETID large-stream readers 11-1",
    "SPOP large-ints 3",
    "GETEX text PXAT 4102444800999",
    "SORT list ALPHA STORE sorted-list",
    "RENAME counter counted",
    "DEL bits",
];

fn change(client: &mut Client) {
    for command in AFTERWARDS {
        run(client, &command.split(' ').collect::<Vec<_>>());
    }
}

/// Has the log begin anew, and waits until it has.
fn rewrite(client: &mut Client) {
    run(client, &["BGREWRITEAOF"]);
    eventually("the log is rewritten", || {
        let info = render(&run(client, &["INFO", "persistence"]));
        let is_over = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
        is_over.iter().all(|field| info.contains(field))
    });
}

/// Ends a server in good order, so that all it wrote is in its files.
fn end(server: &Server) {
    let mut client = server.client();
    client.send(&["SHUTDOWN", "NOSAVE"]);
    eventually("the server ends", || client.is_closed());
}

/// Copies the log of a server that has ended.
pub(crate) fn with_log_of(server: &Server) -> impl Fn(&Path) {
    with_log(server.folder().join("appendonlydir"))
}

/// What a snapshot of the server holds, as Apus sees it; the servers' own digests differ.
fn seen_here(server: &Server) -> String {
    run(&mut server.client(), &["SAVE"]);
    let dump = std::fs::read(server.folder().join("dump.rdb")).expect("it was saved just now");
    let copy = |folder: &Path| std::fs::write(folder.join("dump.rdb"), &dump).expect("it is new");
    digest(&mut Server::start_prepared(copy, UNLOGGED).client())
}

#[test]
fn the_real_servers_start_on_our_log_and_we_on_what_they_make_of_it() {
    for oracle in Oracle::ALL {
        for preamble in ["yes", "no"] {
            go_back_and_forth(oracle, preamble);
        }
    }
}

fn go_back_and_forth(oracle: Oracle, preamble: &str) {
    let own = [LOGGED, &["--aof-use-rdb-preamble", preamble]].concat();
    let ours = Server::start(&own);
    let mut client = ours.client();
    fill(&mut client, false);
    rewrite(&mut client);
    change(&mut client);
    let expected = digest(&mut client);
    end(&ours);
    let theirs = oracle.start_prepared(with_log_of(&ours), &own);
    let mut client = theirs.client();
    check(&mut client, "> FCALL answer 0\n(integer) 42\n");
    assert_eq!(seen_here(&theirs), expected, "{oracle:?} has loaded all of it, {preamble}");
    // The real server goes on with the log, in its words and files.
    run(&mut client, &["SET", "theirs", "1"]);
    rewrite(&mut client);
    run(&mut client, &["APPEND", "theirs", "2"]);
    let expected = seen_here(&theirs);
    end(&theirs);
    let again = Server::start_prepared(with_log_of(&theirs), &own);
    let mut client = again.client();
    assert_eq!(digest(&mut client), expected, "what {oracle:?} has written is all here");
    check(&mut client, "> GET theirs\n\"12\"\n> FCALL answer 0\n(integer) 42\n");
}

/// With `appendfsync always` the log ends with padding until the server ends.
#[test]
fn the_real_servers_start_on_what_a_kill_leaves_and_write_behind_it() {
    let own = [LOGGED, &["--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]].concat();
    let mut ours = Server::start(&own);
    let mut client = ours.client();
    fill(&mut client, false);
    rewrite(&mut client);
    change(&mut client);
    let expected = digest(&mut client);
    let folder = ours.folder().join("appendonlydir");
    drop(client);
    ours.kill();
    let increment = std::fs::read(folder.join("appendonly.aof.2.incr.aof")).expect("it is there");
    assert!(increment.ends_with(b"..|\r\n"), "nothing cuts the padding off");
    for oracle in Oracle::ALL {
        let theirs = oracle.start_prepared(with_log(folder.clone()), &own);
        let mut client = theirs.client();
        assert_eq!(seen_here(&theirs), expected, "{oracle:?} has loaded all of it");
        run(&mut client, &["SET", "theirs", "1"]);
        let expected = seen_here(&theirs);
        end(&theirs);
        let again = Server::start_prepared(with_log_of(&theirs), &own);
        let mut client = again.client();
        assert_eq!(digest(&mut client), expected, "what {oracle:?} wrote behind it is here");
        run(&mut client, &["APPEND", "theirs", "2"]);
        let expected = digest(&mut client);
        end(&again);
        let again = Server::start_prepared(with_log_of(&again), &own);
        assert_eq!(digest(&mut again.client()), expected, "and what came then");
    }
}

/// With `everysec` what is long is filled up to whole blocks of the disk.
#[test]
fn the_real_servers_start_on_what_went_past_the_memory_of_the_system() {
    let own = [LOGGED, &["--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"]];
    let own = own.concat();
    let mut ours = Server::start(&own);
    let mut client = ours.client();
    for burst in 0..20 {
        let value = |number: usize| format!("{number:0>width$}", width = 50 * (burst + 1));
        let commands = (0..1000).map(|number| {
            let key = format!("key:{burst}:{number}");
            ["SET".to_owned(), key, value(number)].to_vec()
        });
        client.pipeline(&commands.collect::<Vec<_>>());
        run(&mut client, &["SET", "short", &burst.to_string()]);
        if burst % 3 == 0 {
            check(&mut client, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0");
        }
    }
    check(&mut client, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0");
    let expected = digest(&mut client);
    let folder = ours.folder().join("appendonlydir");
    drop(client);
    ours.kill();
    let increment = std::fs::read(folder.join("appendonly.aof.1.incr.aof")).expect("it is there");
    let is_filler = |line: &[u8]| line.starts_with(b"#....");
    let lines = increment.split(|byte| *byte == b'\n').filter(|line| is_filler(line)).count();
    assert!(lines > 0, "nothing is filled up");
    for oracle in Oracle::ALL {
        let theirs = oracle.start_prepared(with_log(folder.clone()), &own);
        assert_eq!(seen_here(&theirs), expected, "{oracle:?} has loaded all of it");
    }
    ours.restart();
    assert_eq!(digest(&mut ours.client()), expected);
}

/// As the pages of Redis 8.10 have it: a base and an increment with their manifest.
#[test]
fn the_real_servers_start_on_our_backups() {
    for log in ["yes", "no"] {
        let ours = Server::start(&["--appendonly", log, "--enable-debug-command", "yes"]);
        let mut client = ours.client();
        fill(&mut client, false);
        run(&mut client, &["BACKUP", "START"]);
        eventually("the backup has its base", || {
            render(&run(&mut client, &["BACKUP", "STATUS"])).contains("incrementing")
        });
        change(&mut client);
        let expected = digest(&mut client);
        run(&mut client, &["BACKUP", "SEAL"]);
        run(&mut client, &["SET", "later", "1"]);
        let backup = || with_log(ours.folder().join("backupdir"));
        let again = Server::start_prepared(backup(), LOGGED);
        assert_eq!(digest(&mut again.client()), expected, "appendonly {log}");
        for oracle in Oracle::ALL {
            let theirs = oracle.start_prepared(backup(), LOGGED);
            check(&mut theirs.client(), "> FCALL answer 0\n(integer) 42\n");
            assert_eq!(seen_here(&theirs), expected, "{oracle:?}, appendonly {log}");
        }
    }
}

#[test]
fn we_start_on_the_logs_of_the_real_servers() {
    for oracle in Oracle::ALL {
        for preamble in ["yes", "no"] {
            let own = ["--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes"];
            let theirs = oracle.start(&[LOGGED, &own].concat());
            let mut client = theirs.client();
            fill(&mut client, false);
            rewrite(&mut client);
            change(&mut client);
            let expected = seen_here(&theirs);
            end(&theirs);
            let ours = Server::start_prepared(with_log_of(&theirs), LOGGED);
            let mut client = ours.client();
            assert_eq!(digest(&mut client), expected, "{oracle:?}, preamble {preamble}");
            check(&mut client, "> FCALL answer 0\n(integer) 42\n");
        }
    }
}

#[test]
fn the_log_of_an_older_server_is_one_file() {
    let log = |folder: &Path| {
        let text = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
        std::fs::write(folder.join("appendonly.aof"), text).expect("the folder is new");
    };
    let mut ours = Server::start_prepared(log, LOGGED);
    assert_eq!(run(&mut ours.client(), &["GET", "k"]), Value::Bulk(b"v".to_vec()));
    run(&mut ours.client(), &["APPEND", "k", "w"]);
    end(&ours);
    ours.kill();
    ours.restart();
    assert_eq!(run(&mut ours.client(), &["GET", "k"]), Value::Bulk(b"vw".to_vec()));
    let expected = digest(&mut ours.client());
    end(&ours);
    for oracle in Oracle::ALL {
        let theirs = oracle.start_prepared(with_log_of(&ours), LOGGED);
        assert_eq!(seen_here(&theirs), expected, "{oracle:?}");
    }
}
