//! DEBUG RELOAD and DEBUG LOADAOF while others write: nothing acknowledged is lost or undone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::render::render;
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
            tests::server::eventually("the log has a base", || {
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
/// the locks: neither keeps the other waiting for ever, with nobody who would be told BUSY.
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
