//! `watch`: what happens, line by line.
//!
//! The lines are those of memcached 1.6, but for their numbers.

use std::io::{Read, Write};

use super::{Talk, start};

/// The next line of a watcher, from behind its time and number, without the descriptor.
#[track_caller]
fn line(watcher: &mut Talk) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        let byte = watcher.read(1);
        assert!(!byte.is_empty(), "no line comes after {line:?}");
        line.push(char::from(byte[0]));
    }
    let words = line.trim_end().split(' ').filter(|word| {
        !["ts=", "gid=", "cfd=", "rport="].iter().any(|changing| word.starts_with(changing))
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn lines(watcher: &mut Talk, expected: &[&str]) {
    for expected in expected {
        assert_eq!(line(watcher), *expected);
    }
}

#[test]
fn what_is_done_to_items() {
    let server = start(&[]);
    let (mut talk, mut watcher) = (Talk::to(&server), Talk::to(&server));
    watcher.ask("watch fetchers mutations deletions\r\n", "OK\r\n");
    talk.ask("set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    let seen = "type=item_get key=a status=found clsid=1 size=3";
    lines(
        &mut watcher,
        &[
            "type=item_get key=a status=not_found clsid=0 size=0",
            "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 size=3",
        ],
    );
    talk.ask("get a b\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    lines(&mut watcher, &[seen, "type=item_get key=b status=not_found clsid=0 size=0"]);
    talk.ask("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    lines(
        &mut watcher,
        &[seen, "type=item_store key=a status=not_stored cmd=add ttl=0 clsid=1 size=1"],
    );
    talk.ask("append a 0 0 1\r\nd\r\n", "STORED\r\n");
    lines(
        &mut watcher,
        &[seen, "type=item_store key=a status=stored cmd=append ttl=0 clsid=1 size=4"],
    );
    let seen = "type=item_get key=a status=found clsid=1 size=4";
    talk.ask("cas a 0 0 1 1\r\nx\r\n", "EXISTS\r\n");
    lines(
        &mut watcher,
        &[seen, "type=item_store key=a status=exists cmd=cas ttl=0 clsid=1 size=1"],
    );
    talk.ask("ms a 2 T100\r\nno\r\n", "HD\r\n");
    lines(
        &mut watcher,
        &[seen, "type=item_store key=a status=stored cmd=set ttl=100 clsid=1 size=2"],
    );
    talk.ask("delete a\r\n", "DELETED\r\n");
    let seen = "type=item_get key=a status=found clsid=1 size=2";
    lines(&mut watcher, &[seen, "type=deleted key=a cmd=delete clsid=1 size=2"]);
    // What is marked as stale stays, and is deleted later.
    talk.ask("ms a 2\r\nno\r\nmd a I\r\n", "HD\r\nHD\r\n");
    lines(
        &mut watcher,
        &[
            "type=item_get key=a status=not_found clsid=0 size=0",
            "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 size=2",
            seen,
        ],
    );
    talk.ask("md a x\r\nmd a\r\n", "HD\r\nHD\r\n");
    lines(&mut watcher, &[seen, "type=deleted key=a cmd=md clsid=1 size=0"]);
    let empty = "type=item_get key=a status=found clsid=1 size=0";
    lines(&mut watcher, &[empty, "type=deleted key=a cmd=md clsid=1 size=0"]);
    talk.ask("ma n N0 J7\r\n", "HD\r\n");
    lines(
        &mut watcher,
        &[
            "type=item_get key=n status=not_found clsid=0 size=0",
            "type=item_store key=n status=stored cmd=add ttl=0 clsid=1 size=1",
        ],
    );
    // No byte of a key looks like the end of a word.
    talk.ask("ms IGEK 1 b\r\nx\r\n", "HD\r\n");
    assert_eq!(line(&mut watcher), "type=item_get key=%20a%0A status=not_found clsid=0 size=0");
}

#[test]
fn a_watcher_is_told_of_its_classes_alone_and_asks_no_more() {
    let server = start(&[]);
    let (mut talk, mut watcher) = (Talk::to(&server), Talk::to(&server));
    // Of the proxy nothing is ever told.
    watcher.ask("watch mutations proxyreqs\r\nget a\r\n", "OK\r\n");
    watcher.send("get a\r\nnonsense\r\n");
    talk.ask("get a\r\nset a 0 0 1\r\nx\r\n", "END\r\nSTORED\r\n");
    let stored = "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 size=1";
    assert_eq!(line(&mut watcher), stored);
    talk.ask("watch nonsense\r\nwatch fetchers nonsense\r\n", "ERROR\r\nERROR\r\n");
    assert_eq!(talk.figure("log_watchers"), "1");
    drop(watcher);
    tests::server::eventually("nobody watches any more", || talk.figure("log_watchers") == "0");
    // A class that nobody watches leaves no line.
    let lines = talk.figure("log_worker_written");
    talk.ask("set a 0 0 1\r\ny\r\n", "STORED\r\n");
    assert_eq!(talk.figure("log_worker_written"), lines);
    // Without a class it is the fetchers.
    let mut fetcher = Talk::to(&server);
    fetcher.ask("watch\r\n", "OK\r\n");
    talk.ask("touch a 0\r\n", "TOUCHED\r\n");
    assert_eq!(line(&mut fetcher), "type=item_get key=a status=found clsid=1 size=1");
}

#[test]
fn connections_that_come_and_go_are_told_to_watchers() {
    let server = start(&[]);
    let mut watcher = Talk::to(&server);
    watcher.ask("watch connevents\r\n", "OK\r\n");
    let mut visitor = Talk::to(&server);
    assert_eq!(line(&mut watcher), "type=conn_new rip=unix transport=local");
    visitor.send("quit\r\n");
    assert_eq!(line(&mut watcher), "type=conn_close rip=unix transport=local reason=normal");
    let mut hostile = Talk::to(&server);
    assert_eq!(line(&mut watcher), "type=conn_new rip=unix transport=local");
    hostile.send(b"\x80\x01\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00");
    hostile.send([0; 12]);
    assert_eq!(line(&mut watcher), "type=conn_close rip=unix transport=local reason=error");
}

#[test]
fn what_is_evicted() {
    let server = start(&["--maxmemory-policy", "allkeys-random"]);
    let (mut talk, mut watcher) = (Talk::to(&server), Talk::to(&server));
    watcher.ask("watch evictions\r\n", "OK\r\n");
    for number in 0..10 {
        talk.ask(format!("set k{number} 0 0 1000\r\n{}\r\n", "x".repeat(1000)), "STORED\r\n");
    }
    server.client().call(&["CONFIG", "SET", "maxmemory", "1"]);
    let told = line(&mut watcher);
    let (before, after) = told.split_once(" fetch=no ttl=-1 la=").expect(&told);
    assert!(before.starts_with("type=eviction key=k"), "{told}");
    assert!(after.ends_with(" clsid=1 size=1000"), "{told}");
    tests::server::eventually("all are evicted", || talk.figure("curr_items") == "0");
    assert_eq!(talk.figure("evictions"), "10");
    assert_eq!(talk.figure("evicted_unfetched"), "10");
}

/// Lines that a watcher does not read are not kept for ever: the watcher is told how many it
/// missed.
#[test]
fn a_watcher_that_does_not_read_misses_lines_and_is_told_so() {
    let server = start(&[]);
    let (mut talk, mut watcher) = (Talk::to(&server), Talk::to(&server));
    watcher.ask("watch fetchers\r\n", "OK\r\n");
    let keys: String = (0..100).map(|number| format!(" {}{number}", "k".repeat(200))).collect();
    tests::server::eventually("lines are missed", || {
        talk.ask(format!("get{keys}\r\n"), "END\r\n");
        talk.figure("log_watcher_skipped") != "0"
    });
    let mut seen = Vec::new();
    while !seen.windows(8).any(|bytes| bytes == b"skipped=") {
        // With room again the next line says what was missed before.
        talk.ask("get one\r\n", "END\r\n");
        let mut chunk = [0; 64 << 10];
        let count = watcher.0.read(&mut chunk).expect("lines come");
        seen.extend_from_slice(&chunk[..count]);
    }
    let text = String::from_utf8_lossy(&seen);
    let missed = text.lines().find_map(|line| line.strip_prefix("skipped=")).expect("a line");
    assert!(missed.parse::<u64>().is_ok_and(|lines| lines > 0), "{missed}");
}

#[test]
fn no_more_than_twenty_clients_watch() {
    let server = start(&[]);
    let mut watchers: Vec<Talk> = (0..20).map(|_| Talk::to(&server)).collect();
    watchers.iter_mut().for_each(|watcher| watcher.ask("watch fetchers\r\n", "OK\r\n"));
    let mut late = Talk::to(&server);
    late.ask("watch fetchers\r\n", "WATCHER_TOO_MANY log watcher limit reached\r\n");
    late.is_in_step();
    watchers.pop();
    tests::server::eventually("there is room", || {
        late.0.write_all(b"stats\r\n").expect("it reads");
        late.read_to("END").contains("STAT log_watchers 19\r\n")
    });
    late.ask("watch fetchers\r\n", "OK\r\n");
}
