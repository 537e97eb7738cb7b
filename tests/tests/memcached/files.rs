//! Items outlive the process, flags and all, in files that other servers read.

use tests::{Oracle, Server};

use super::{Talk, start};

const STORE: &str = "set flagged 77 0 5\r\nhello\r\nset plain 0 0 5\r\nworld\r\n\
                     set number 4294967295 1000000 2\r\n12\r\n";

#[track_caller]
fn has_them(server: &Server) {
    let mut talk = Talk::to(server);
    talk.ask(
        "get flagged plain number\r\n",
        "VALUE flagged 77 5\r\nhello\r\nVALUE plain 0 5\r\nworld\r\n\
         VALUE number 4294967295 2\r\n12\r\nEND\r\n",
    );
    talk.send("mg number t\r\n");
    let line = talk.read_to("");
    let left: i64 = line.trim().strip_prefix("HD t").and_then(|it| it.parse().ok()).expect(&line);
    assert!((900_000..=1_000_000).contains(&left), "{line}");
}

fn store(server: &Server) {
    Talk::to(server).ask(STORE, "STORED\r\n".repeat(3));
}

#[test]
fn snapshots_hold_flags_and_other_servers_load_them() {
    let mut server = start(&["--save", ""]);
    store(&server);
    server.client().call(&["SAVE"]);
    let snapshot = server.snapshot();
    server.kill();
    server.restart();
    has_them(&server);
    for oracle in Oracle::ALL {
        let other = oracle.start_prepared(&snapshot, &[]);
        let value = other.client().call(&["GET", "flagged"]);
        assert_eq!(value.as_bytes(), Some(&b"hello"[..]), "{oracle:?}");
    }
}

#[test]
fn the_log_holds_flags_and_other_servers_run_it() {
    for preamble in ["yes", "no"] {
        let arguments = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let mut server = start(&[&arguments[..], &["--appendfsync", "always"]].concat());
        store(&server);
        let mut talk = Talk::to(&server);
        // Each kind of change, ending where it began.
        talk.ask("append flagged 0 0 1\r\n!\r\n", "STORED\r\n");
        talk.ask("set flagged 77 0 5\r\nhello\r\n", "STORED\r\n");
        talk.ask("set p 5 0 1\r\nb\r\nprepend p 0 0 1\r\na\r\n", "STORED\r\nSTORED\r\n");
        talk.ask("set n 6 0 1\r\n9\r\nincr n 1\r\ntouch n 1000\r\n", "STORED\r\n10\r\nTOUCHED\r\n");
        talk.ask("set gone 6 0 1\r\n9\r\ndelete gone\r\n", "STORED\r\nDELETED\r\n");
        drop(talk);
        let is_whole = |server: &Server| {
            has_them(server);
            let answer = "VALUE p 5 2\r\nab\r\nVALUE n 6 2\r\n10\r\nEND\r\n";
            Talk::to(server).ask("get p n gone\r\n", answer);
        };
        server.kill();
        server.restart();
        is_whole(&server);
        server.client().call(&["BGREWRITEAOF"]);
        tests::server::eventually("the log is rewritten", || {
            let reply = server.client().call(&["INFO", "persistence"]);
            let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
            text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrite_scheduled:0")
        });
        Talk::to(&server).ask("set late 8 0 1\r\nx\r\n", "STORED\r\n");
        server.kill();
        server.restart();
        is_whole(&server);
        Talk::to(&server).ask("get late\r\n", "VALUE late 8 1\r\nx\r\nEND\r\n");
        server.kill();
        let log = server.folder().join("appendonlydir");
        let copied = |folder: &std::path::Path| {
            let target = folder.join("appendonlydir");
            std::fs::create_dir(&target).expect("a new folder");
            for file in std::fs::read_dir(&log).expect("the log is there") {
                let file = file.expect("a file of the log");
                std::fs::copy(file.path(), target.join(file.file_name())).expect("room for it");
            }
        };
        for oracle in Oracle::ALL {
            let other = oracle.start_prepared(copied, &["--appendonly", "yes"]);
            let value = other.client().call(&["GET", "late"]);
            assert_eq!(value.as_bytes(), Some(&b"x"[..]), "{oracle:?}, preamble {preamble}");
            let value = other.client().call(&["GET", "flagged"]);
            assert_eq!(value.as_bytes(), Some(&b"hello"[..]), "{oracle:?}, preamble {preamble}");
        }
        server.restart();
    }
}

#[test]
fn what_is_answered_is_safe() {
    // With `always` an answer leaves when its write is on disk, so a kill loses nothing of it.
    let mut server = start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut talk = Talk::to(&server);
    for number in 0..300 {
        talk.ask(format!("set k{number} {number} 0 1\r\nv\r\n"), "STORED\r\n");
    }
    server.kill();
    server.restart();
    let mut talk = Talk::to(&server);
    for number in 0..300 {
        let answer = format!("VALUE k{number} {number} 1\r\nv\r\nEND\r\n");
        talk.ask(format!("get k{number}\r\n"), answer);
    }
}
