//! What is done for each command is done for what a memcached client asks: patience and scripts,
//! gates that are asked again behind a wait, and the books.
//!
//! Invariant: a command of Redis that meets the same is told the same.

use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

use super::{Talk, start};

const BUSY: &str = "SERVER_ERROR BUSY Redis is busy running a long command.\r\n";

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// What the statistics tell of a command: as "calls=1,usec=0,...".
fn told(client: &mut Client, command: &str) -> String {
    let stats = ask(client, "INFO commandstats");
    let name = format!("cmdstat_{command}:");
    let line = stats.split(&name[..]).nth(1).map(|rest| rest.split("\\r\\n").next());
    line.flatten().unwrap_or_default().to_owned()
}

fn start_briefly_patient() -> Server {
    start(&["--busy-reply-threshold", "50", "--enable-debug-command", "yes", "--save", ""])
}

#[test]
fn a_client_that_waits_too_long_for_the_world_is_told_busy() {
    let server = start_briefly_patient();
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    let mut stopper = server.client();
    stopper.send(&["DEBUG", "STOP-WORLD", "3"]);
    eventually("the world is stopped", || ask(&mut redis, "GET k").contains("BUSY"));
    let before = told(&mut redis, "set");
    assert!(before.is_empty(), "{before}");
    talk.ask("get k\r\n", BUSY);
    talk.ask("set k 0 0 1\r\nx\r\n", BUSY);
    talk.ask("get a b c\r\n", BUSY);
    talk.is_in_step();
    let set = told(&mut redis, "set");
    assert!(set.starts_with("calls=0,") && set.contains("rejected_calls=1,"), "{set}");
    assert!(stopper.is_silent(), "the world stands still");
    assert_eq!(render(&stopper.receive()), "OK");
    talk.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
}

#[test]
fn a_script_that_shuts_the_server_shuts_it_to_all() {
    let shut = ["--busy-scope", "server", "--busy-reply-threshold", "20", "--lua-time-limit", "20"];
    let server = start(&shut);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let mut runner = server.client();
    runner.send(&["EVAL", "while true do end", "1", "other"]);
    eventually("the server is shut", || ask(&mut redis, "GET k").contains("BUSY"));
    let busy = "SERVER_ERROR BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
        SHUTDOWN NOSAVE.\r\n";
    for request in ["get k\r\n", "set k 0 0 1\r\ny\r\n", "delete k\r\n", "stats\r\n"] {
        talk.ask(request, busy);
    }
    // What touches no data goes on.
    talk.is_in_step();
    assert_eq!(ask(&mut redis, "SCRIPT KILL"), "OK");
    assert!(render(&runner.receive()).contains("killed"));
    talk.ask("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn rights_are_asked_again_behind_a_wait() {
    let server = start(&["--busy-reply-threshold", "50"]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    let mut runner = server.client();
    runner.send(&["EVAL", "while true do end", "1", "k"]);
    eventually("the key is held", || ask(&mut redis, "GET k").contains("BUSY"));
    assert_eq!(ask(&mut redis, "CONFIG SET busy-reply-threshold 600000"), "OK");
    talk.send("set k 0 0 1\r\nx\r\n");
    let waits = || ask(&mut server.client(), "CLIENT LIST").contains("cmd=set");
    eventually("the client waits", waits);
    assert_eq!(ask(&mut redis, "ACL SETUSER default -set"), "OK");
    assert_eq!(ask(&mut redis, "SCRIPT KILL"), "OK");
    let denied = "CLIENT_ERROR User default has no permissions to run the 'set' command\r\n";
    talk.hear("the set that waited", denied.as_bytes());
    talk.ask("get k\r\n", "END\r\n");
    let set = told(&mut redis, "set");
    assert!(set.starts_with("calls=0,") && set.contains("rejected_calls=1,"), "{set}");
}

#[test]
fn a_pause_of_all_holds_reports_too() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    redis.call(&["CLIENT", "PAUSE", "3000", "ALL"]);
    talk.send("stats\r\n");
    talk.0.set_read_timeout(Some(Duration::from_millis(100))).expect("not zero");
    assert!(talk.read(1).is_empty(), "the pause has not ended");
    talk.0.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    talk.read_to("END");
    talk.is_in_step();
}

#[test]
fn long_requests_are_noted() {
    let server = start(&["--commandlog-request-larger-than", "1000"]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask(format!("set k 0 0 2000\r\n{}\r\n", "x".repeat(2000)), "STORED\r\n");
    talk.ask("set short 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(redis.call(&["COMMANDLOG", "LEN", "large-request"]), Value::Integer(1));
    let noted = ask(&mut redis, "COMMANDLOG GET 10 large-request");
    assert!(noted.contains("\"SET\"") && noted.contains("\"k\""), "{noted}");
}

#[test]
fn reports_and_administration_are_booked_by_what_stands_for_them() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.report("stats");
    talk.ask("stats reset\r\n", "RESET\r\n");
    talk.ask("cache_memlimit 100\r\n", "OK\r\n");
    talk.ask("flush_all\r\n", "OK\r\n");
    talk.send("lru_crawler metadump all\r\n");
    talk.read_to("END");
    for command in ["info", "config|resetstat", "config|set", "flushdb", "scan"] {
        let told = told(&mut redis, command);
        assert!(told.starts_with("calls=1,"), "{command}: {told}");
    }
}
