//! DEBUG RELOAD and DEBUG LOADAOF while others write: nothing acknowledged is lost or undone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

const WRITERS: usize = 4;

/// Keys that are there before, so that a load takes its time.
const KEYS: usize = 20_000;

const ROUNDS: usize = 6;

/// Counts keys of its own up until it is told to stop; how far each is.
fn write(port: u16, writer: usize, is_over: &AtomicBool) -> Vec<u64> {
    let mut client = Client::connect(port);
    let mut counts = vec![0; 50];
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return counts;
        }
        let index = turn % counts.len();
        let key = format!("count:{writer}:{index}");
        let reply = match turn % 3 {
            0 => client.call(&["INCR", &key]),
            1 => client.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", &key]),
            _ => {
                let commands = [vec!["MULTI"], vec!["INCR", &key], vec!["EXEC"]];
                match client.pipeline(&commands).pop() {
                    Some(Value::Array(mut replies)) => replies.pop().expect("one was queued"),
                    other => other.expect("three were sent"),
                }
            }
        };
        match reply {
            Value::Integer(count) => {
                counts[index] += 1;
                assert_eq!(count as u64, counts[index], "{key} was undone or counted twice");
            }
            other => {
                let told = render(&other);
                assert!(told.contains("LOADING") || told.contains("EXECABORT"), "{told}");
            }
        }
    }
    unreachable!("there is always a next turn")
}

#[test]
fn a_load_at_run_time_beside_writers_loses_and_undoes_nothing() {
    for (command, arguments) in [
        (&["DEBUG", "RELOAD"][..], &["--save", ""][..]),
        (&["DEBUG", "RELOAD"], &["--appendonly", "yes", "--save", ""]),
        (&["DEBUG", "LOADAOF"], &["--appendonly", "yes", "--save", ""]),
    ] {
        let own = ["--enable-debug-command", "yes", "--worker-threads", "2"];
        let server = Server::start(&[&own, arguments].concat());
        let mut client = server.client();
        client.call(&["DEBUG", "POPULATE", &KEYS.to_string()]);
        if arguments[0] == "--appendonly" {
            // What DEBUG makes no log tells.
            client.call(&["BGREWRITEAOF"]);
            eventually("the log has a base", || {
                let info = render(&client.call(&["INFO", "persistence"]));
                info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrites:1")
            });
        }
        let (is_over, port) = (AtomicBool::new(false), server.port());
        let counts: Vec<Vec<u64>> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let is_over = &is_over;
                    scope.spawn(move || write(port, writer, is_over))
                })
                .collect();
            let replies: Vec<_> = (0..ROUNDS).map(|_| render(&client.call(command))).collect();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(replies, ["OK"; ROUNDS], "{command:?}, {arguments:?}");
            writers.into_iter().map(|writer| writer.join().expect("a writer ends well")).collect()
        });
        let mut total = KEYS;
        for (writer, counts) in counts.iter().enumerate() {
            for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let value = render(&client.call(&["GET", &format!("count:{writer}:{index}")]));
                assert_eq!(value, format!("\"{count}\""), "{command:?}, {arguments:?}");
                total += 1;
            }
        }
        assert_eq!(client.call(&["DBSIZE"]), Value::Integer(total as i64));
    }
}

/// A transaction that changes the configuration waits for its turn with its locks, and a load for
/// the locks: neither keeps the other waiting for ever, with nobody that would be told BUSY.
#[test]
fn a_load_beside_transactions_that_change_the_configuration_ends() {
    let common = ["--worker-threads", "3", "--enable-debug-command", "yes"];
    let own = ["--save", "", "--appendonly", "yes", "--busy-reply-threshold", "0"];
    let server = Server::start(&[&common[..], &own].concat());
    let (port, is_over) = (server.port(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let change = || {
            let mut client = Client::connect(port);
            while !is_over.load(Ordering::Relaxed) {
                for words in
                    [&["MULTI"][..], &["CONFIG", "SET", "maxmemory", "0"], &["SET", "k", "v"]]
                {
                    client.call(words);
                }
                // While data are loaded it is refused.
                client.call(&["EXEC"]);
            }
        };
        scope.spawn(change);
        scope.spawn(change);
        let mut client = server.client();
        for turn in 0..60 {
            let how = if turn % 3 == 0 { "LOADAOF" } else { "RELOAD" };
            assert_eq!(client.call(&["DEBUG", how]), Value::Simple("OK".into()), "{turn}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Loads and deletes a library of its own until it is told to stop; whether it is there then. The
/// code runs for a while, so that a load begins in the middle.
fn change_library(port: u16, writer: usize, is_over: &AtomicBool) -> bool {
    let mut client = Client::connect(port);
    let name = format!("own{writer}");
    let code = format!(
        "#!lua name={name}\nlocal i = 0 while i < 20000 do i = i + 1 end \
         redis.register_function('{name}', function() return 1 end)"
    );
    let mut is_there = false;
    while !is_over.load(Ordering::Relaxed) {
        let (words, done) = match is_there {
            true => (["FUNCTION", "DELETE", &name], "OK".to_owned()),
            false => (["FUNCTION", "LOAD", &code], format!("\"{name}\"")),
        };
        let told = render(&client.call(&words));
        if told.contains("LOADING") {
            continue;
        }
        assert_eq!(told, done, "what was acknowledged is undone");
        is_there = !is_there;
    }
    is_there
}

fn libraries(client: &mut Client) -> usize {
    match client.call(&["FUNCTION", "LIST"]) {
        Value::Array(libraries) => libraries.len(),
        other => panic!("{}", render(&other)),
    }
}

/// Libraries change without the locks of keys: they stand still with the rest nevertheless.
#[test]
fn libraries_that_change_beside_a_load_are_neither_lost_nor_back() {
    for command in ["RELOAD", "LOADAOF", "RELOAD in EXEC"] {
        let own = ["--enable-debug-command", "yes", "--worker-threads", "2"];
        let logs = ["--appendonly", "yes", "--save", "", "--busy-reply-threshold", "0"];
        let mut server = Server::start(&[&own[..], &logs].concat());
        let mut client = server.client();
        client.call(&["DEBUG", "POPULATE", &KEYS.to_string()]);
        let (is_over, port) = (AtomicBool::new(false), server.port());
        let (there, replies): (Vec<bool>, _) = thread::scope(|scope| {
            let start = |writer| {
                let is_over = &is_over;
                scope.spawn(move || change_library(port, writer, is_over))
            };
            let writers: Vec<_> = (0..WRITERS).map(start).collect();
            let replies: Vec<_> = (0..ROUNDS)
                .map(|_| match command.split_once(' ') {
                    None => render(&client.call(&["DEBUG", command])),
                    Some((word, _)) => {
                        let commands = [vec!["MULTI"], vec!["DEBUG", word], vec!["EXEC"]];
                        render(&client.pipeline(&commands)[2])
                    }
                })
                .collect();
            is_over.store(true, Ordering::Relaxed);
            let ends = writers.into_iter().map(thread::ScopedJoinHandle::join);
            (ends.map(|end| end.expect("a writer ends well")).collect(), replies)
        });
        assert!(replies.iter().all(|told| told.contains("OK")), "{command}: {replies:?}");
        let expected = there.iter().filter(|is_there| **is_there).count();
        assert_eq!(libraries(&mut client), expected, "{command}: {there:?}");
        // WAITAOF waits for what its own client has written last, and so for all before that.
        client.call(&["SET", "last", "v"]);
        client.call(&["WAITAOF", "1", "0", "0"]);
        server.kill();
        server.restart();
        assert_eq!(libraries(&mut server.client()), expected, "{command}, again: {there:?}");
    }
}

/// What a final save does not have is not acknowledged.
#[test]
fn a_library_that_was_acknowledged_before_the_end_is_there_after_it() {
    let mut server = Server::start(&["--save", "3600 1", "--worker-threads", "2"]);
    let mut client = server.client();
    for key in 0..50 {
        client.call(&["SETRANGE", &format!("key:{key}"), "1000000", "x"]);
    }
    let mut first = 1;
    for round in 0..4 {
        let port = server.port();
        let acknowledged = thread::scope(|scope| {
            let writer = scope.spawn(move || replace_library(port, first));
            let mut client = server.client();
            eventually("the writer has begun", || {
                render(&client.call(&["FCALL", "f", "0"])).starts_with("(integer)")
            });
            let ended = client.try_call(&["SHUTDOWN", "SAVE"]);
            assert!(ended.is_err(), "{ended:?}");
            writer.join().expect("a writer ends well")
        });
        eventually("the process ends", || server.has_ended());
        server.restart();
        match server.client().call(&["FCALL", "f", "0"]) {
            Value::Integer(found) => {
                assert!(found >= acknowledged, "round {round}: {found}, not {acknowledged}");
                first = found + 1;
            }
            other => panic!("round {round}: {}", render(&other)),
        }
    }
}

/// Has a function return ever more until the server is gone; the last number that was acknowledged.
fn replace_library(port: u16, first: i64) -> i64 {
    let mut client = Client::connect(port);
    let mut number = first;
    loop {
        let code =
            format!("#!lua name=one\nredis.register_function('f', function() return {number} end)");
        match client.try_call(&["FUNCTION", "LOAD", "REPLACE", &code]) {
            Ok(told) if render(&told) == "\"one\"" => number += 1,
            Ok(told) => assert!(render(&told).contains("LOADING"), "{}", render(&told)),
            Err(_) => return number - 1,
        }
    }
}
