//! SCRIPT KILL and FUNCTION KILL at any moment of a script: either it has written nothing and ends,
//! or it has written and goes on to its end; and with one worker they are always read.

use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::samples::{SLOW_THAT_HOLDS, hold_for_good, slow_pair};
use tests::server::eventually;
use tests::{Arrival, Client, Server};

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// More commands than a worker runs in one EXEC.
const LONG: usize = 520;

/// Long enough to be found by the client that kills, then a read in which nobody looks for that,
/// then writes.
const SLOW_THEN_WRITES: &str = "for turn = 1, 20000 do end \
    redis.call('LCS', 'a', 'b', 'LEN') \
    for turn = 1, 3000 do redis.call('RPUSH', 'out', turn) end \
    return 'done'";

#[test]
fn a_script_that_is_killed_has_written_nothing() {
    let server = Server::start(&["--worker-threads", "2"]);
    let (mut client, mut killer) = (server.client(), server.client());
    slow_pair(&mut client, "a", "b", 3_000);
    let library = format!(
        "#!lua name=slow\nredis.register_function('slow', function() {SLOW_THEN_WRITES} end)"
    );
    assert_eq!(render(&client.call(&["FUNCTION", "LOAD", &library])), "\"slow\"");
    let eval = ["EVAL", SLOW_THEN_WRITES, "3", "a", "b", "out"];
    let fcall = ["FCALL", "slow", "3", "a", "b", "out"];
    for (request, kill) in [(eval, "SCRIPT KILL"), (fcall, "FUNCTION KILL")] {
        for delay_ms in [0, 10, 20, 40, 80] {
            client.call(&["DEL", "out"]);
            client.send(&request);
            std::thread::sleep(Duration::from_millis(delay_ms));
            let mut answers = Vec::new();
            let reply = loop {
                answers.push(ask(&mut killer, kill));
                match client.arrival(Duration::ZERO) {
                    Ok(Arrival::Silence) => {}
                    Ok(Arrival::Reply(reply)) => break render(&reply),
                    other => panic!("{other:?}"),
                }
            };
            let is_killed = reply.contains("Script killed by user");
            assert!(is_killed || reply == "\"done\"", "{reply}");
            let left = if is_killed { 0 } else { 3000 };
            assert_eq!(client.call(&["LLEN", "out"]), Value::Integer(left), "{answers:?}");
            if !is_killed {
                assert!(!answers.contains(&"OK".to_owned()), "{answers:?}");
            }
        }
    }
}

/// An EXEC begins again for a key that nobody declared: what was killed in it stays so. The EXEC is
/// too long for a worker, so that it begins elsewhere, where nobody takes such a key's lock in
/// passing.
#[test]
fn an_exec_that_begins_again_ends_what_was_killed_in_it() {
    let server = Server::start(&["--worker-threads", "2"]);
    let (mut client, mut killer) = (server.client(), server.client());
    for turn in 1..=2 {
        client.call(&["MULTI"]);
        let before = vec![vec!["SET", "before", "1"]; LONG];
        client.pipeline(&before);
        for request in [
            &["EVAL", "while true do end", "0"],
            &["EVAL", "return redis.call('INCR', 'nobody-declared-it')", "0"],
        ] {
            client.call(request);
        }
        client.send(&["EXEC"]);
        eventually("the script is killed", || ask(&mut killer, "SCRIPT KILL") == "OK");
        let Value::Array(replies) = client.receive() else { panic!("EXEC answers") };
        let replies: Vec<_> = replies.iter().map(render).collect();
        assert_eq!(replies[LONG - 1], "OK");
        assert!(replies[LONG].contains("Script killed by user"), "{replies:?}");
        assert_eq!(replies[LONG + 1], format!("(integer) {turn}"));
    }
}

#[test]
fn a_script_that_was_undone_can_be_killed() {
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "20"]);
    let (mut client, mut killer) = (server.client(), server.client());
    let mut holder = server.client();
    slow_pair(&mut client, "a", "b", 10_000);
    holder.send(&SLOW_THAT_HOLDS);
    eventually("its keys are held", || ask(&mut killer, "STRLEN a").contains("BUSY"));
    assert_eq!(ask(&mut killer, "CONFIG SET busy-reply-threshold 0"), "OK");
    // The script writes, takes long, and turns out to need a key that it has to wait for.
    let script = "redis.call('SET', KEYS[1], 'v') for turn = 1, 1000000 do end \
        return redis.call('STRLEN', ARGV[1])";
    client.send(&["EVAL", script, "1", "k", "a"]);
    eventually("it is killed", || ask(&mut killer, "SCRIPT KILL") == "OK");
    assert!(holder.is_silent(), "the key was held");
    let reply = render(&client.receive());
    assert!(reply.contains("Script killed by user"), "{reply}");
    assert_eq!(ask(&mut killer, "EXISTS k"), "(integer) 0");
    assert!(matches!(holder.receive(), Value::Integer(_)));
}

/// Holds a key for good: the script has written, so nobody can end it.
fn hold(server: &Server, killer: &mut Client, key: &str) -> Client {
    let mut holder = server.client();
    hold_for_good(&mut holder, killer, key);
    holder
}

/// The keys that it waits for never come.
#[test]
fn a_script_that_waits_for_locks_is_killed_at_once() {
    for workers in ["1", "3"] {
        let arguments = ["--worker-threads", workers, "--busy-reply-threshold", "0"];
        let server = Server::start(&arguments);
        let (mut client, mut killer) = (server.client(), server.client());
        let _holder = hold(&server, &mut killer, "held");
        let script = "for turn = 1, 1000000 do end local all = {} \
            for turn, key in ipairs(ARGV) do all[turn] = redis.call('GET', key) end return all";
        let library =
            "#!lua name=slow\nredis.register_function('slow', function(KEYS, ARGV) BODY end)";
        let library = library.replace("BODY", script);
        assert_eq!(render(&client.call(&["FUNCTION", "LOAD", &library])), "\"slow\"");
        for delay_ms in [0, 5, 20, 60] {
            for (request, kill) in [
                (["EVAL", script, "1", "mine", "other", "held"], "SCRIPT KILL"),
                (["FCALL", "slow", "1", "mine", "other", "held"], "FUNCTION KILL"),
            ] {
                client.send(&request);
                std::thread::sleep(Duration::from_millis(delay_ms));
                eventually("it is killed", || ask(&mut killer, kill) == "OK");
                let reply = render(&client.receive());
                assert!(reply.contains("Script killed by user"), "{reply}");
                assert_eq!(ask(&mut client, "SET mine v"), "OK", "it holds nothing");
            }
        }
    }
}

/// A script that is killed while it waits for the world begins without locks, not beside the client
/// that has the world.
#[test]
fn a_script_that_waits_for_the_world_is_killed() {
    let server = Server::start(&["--worker-threads", "2", "--enable-debug-command", "yes"]);
    let (mut client, mut stopper, mut killer) = (server.client(), server.client(), server.client());
    // Long enough that the other asks for the world first.
    let script = "for turn = 1, 30000000 do end return #redis.call('KEYS', '*')";
    eventually("it is killed in its wait", || {
        client.send(&["EVAL", script, "0"]);
        eventually("it runs", || ask(&mut killer, "INFO stats").contains("total_commands"));
        stopper.send(&["DEBUG", "STOP-WORLD", "0.3"]);
        let mut is_killed = false;
        let reply = loop {
            is_killed |= ask(&mut killer, "SCRIPT KILL") == "OK";
            match client.arrival(Duration::ZERO) {
                Ok(Arrival::Silence) => {}
                Ok(Arrival::Reply(reply)) => break render(&reply),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(render(&stopper.receive()), "OK");
        assert_eq!(is_killed, reply.contains("Script killed by user"), "{reply}");
        is_killed
    });
    assert_eq!(ask(&mut client, "SET k v"), "OK");
}

/// Each of them can neither be undone nor put off, so the script goes on where it runs it.
#[test]
fn a_script_that_cannot_begin_again_is_killed_with_one_worker() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, mut killer) = (server.client(), server.client());
    for command in ["'SLOWLOG', 'RESET'", "'COMMANDLOG', 'RESET', 'slow'", "'MEMORY', 'PURGE'"] {
        let script = format!("redis.call({command}) while true do end");
        let begun = format!("redis.call('GET', 'k') {script}");
        for (script, is_in_exec) in [(&script, false), (&begun, false), (&script, true)] {
            if is_in_exec {
                assert_eq!(ask(&mut client, "MULTI"), "OK");
                assert_eq!(ask(&mut client, "SET k v"), "QUEUED");
            }
            client.send(&["EVAL", script, "0"]);
            if is_in_exec {
                assert_eq!(render(&client.receive()), "QUEUED");
                client.send(&["EXEC"]);
            }
            assert_eq!(ask(&mut killer, "PING"), "PONG");
            eventually("it is killed", || ask(&mut killer, "SCRIPT KILL") == "OK");
            let reply = render(&client.receive());
            assert!(reply.contains("Script killed by user"), "{script}: {reply}");
        }
    }
}
