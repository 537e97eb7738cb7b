//! What scripts call beside the data, how that is counted and shown, and which users may end a
//! script.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use rustix::process::Signal;
use tests::render::{render, text};
use tests::script::afresh;
use tests::server::eventually;
use tests::{Client, Oracle, Server, play};

#[test]
fn scripts_call_what_needs_no_session() {
    for server in &Oracle::Redis82.beside(&[]) {
        for protocol in ["2", "3"] {
            afresh(
                server,
                protocol,
                r##"
                > EVAL "return #redis.call('info') > 100" 0
                (integer) 1
                > SET k 1
                OK
                > EVAL "return string.match(redis.call('info', 'keyspace'), 'keys=%d+')" 0
                "keys=1"
                > EVAL "return redis.call('command', 'getkeys', 'get', 'k')" 0
                1) "k"
                > EVAL "return redis.call('command', 'info', 'get')[1][1]" 0
                "get"
                > EVAL "return redis.call('command', 'count') > 200" 0
                (integer) 1
                > EVAL "return redis.call('pubsub', 'numpat')" 0
                (integer) 0
                > EVAL "return redis.call('pubsub', 'numsub', 'a')[2]" 0
                (integer) 0
                > EVAL "return type(redis.call('lastsave'))" 0
                "number"
                > EVAL "return type(redis.call('memory', 'stats'))" 0
                "table"
                > EVAL "return #redis.call('lolwut') > 0" 0
                (integer) 1
                > EVAL "return redis.call('wait', 1, 100)" 0
                (integer) 0
                > EVAL "return redis.call('waitaof', 0, 1, 100)" 0
                1) (integer) 0
                2) (integer) 0
                > EVAL "return type(redis.call('client', 'help'))" 0
                "table"
                > EVAL "return type(redis.call('slowlog', 'len'))" 0
                "number"
                > EVAL "return redis.call('client', 'id')" 0
                ~ (error) ERR This Redis command is not allowed from script script: *
                > EVAL "return redis.call('config', 'get', 'port')" 0
                ~ (error) ERR This Redis command is not allowed from script script: *
                > EVAL "return redis.call('hello')" 0
                ~ (error) ERR This Redis command is not allowed from script script: *
                > EVAL "return redis.call('unwatch')" 0
                ~ (error) ERR This Redis command is not allowed from script script: *
                > EVAL "return redis.call('client', 'nosuch')" 0
                ~ (error) ERR Unknown Redis command called from script script: *
                > EVAL "return redis.call('client')" 0
                ~ (error) ERR Wrong number of args calling Redis command from script script: *
                > EVAL "return redis.acl_check_cmd('config', 'get', 'a')" 0
                (integer) 1
                > EVAL "return redis.acl_check_cmd('nosuch')" 0
                ~ (error) ERR Invalid command passed to redis.acl_check_cmd() script: *
                "##,
            );
        }
    }
}

/// The figures of a command, without its times.
fn figures(info: &str, command: &str) -> String {
    let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let line = line.unwrap_or_else(|| panic!("no {command} in {info}"));
    let parts = line.split([':', ',']).filter(|part| !part.starts_with("usec"));
    parts.collect::<Vec<_>>().join(" ")
}

/// Each counts once, though a script is run again when it meets a key that it did not declare, and
/// whichever thread it ends on.
#[test]
fn the_commands_of_scripts_are_counted() {
    for server in &Oracle::Redis82.beside(&[]) {
        let mut client = server.client();
        client.call(&["SET", "text", "x"]);
        client.call(&["CONFIG", "RESETSTAT"]);
        let busy = "local t = 0 for i = 1, 3000000 do t = t + i end";
        for work in ["", busy] {
            let script = format!(
                "redis.call('set', 'a', 1) redis.call('set', 'b', 2) {work}
                redis.pcall('incr', 'text') redis.pcall('get') redis.pcall('nosuch')
                redis.pcall('client', 'id') return redis.call('set', 'c', 3)"
            );
            assert_eq!(text(&client.call(&["EVAL", &script, "0"])), "OK");
        }
        client.call(&["MULTI"]);
        client.call(&["EVAL", "return redis.call('incrby', 'n', 2)", "0"]);
        client.call(&["EXEC"]);
        let info = text(&client.call(&["INFO", "commandstats"]));
        for (command, expected) in [
            ("eval", "calls=3 rejected_calls=0 failed_calls=0"),
            ("set", "calls=6 rejected_calls=0 failed_calls=0"),
            ("incr", "calls=2 rejected_calls=0 failed_calls=2"),
            ("incrby", "calls=1 rejected_calls=0 failed_calls=0"),
            ("get", "calls=0 rejected_calls=2 failed_calls=0"),
            ("client|id", "calls=0 rejected_calls=2 failed_calls=0"),
        ] {
            assert_eq!(figures(&info, command), format!("cmdstat_{command} {expected}"));
        }
        let errors = text(&client.call(&["INFO", "errorstats"]));
        assert!(errors.contains("errorstat_ERR:count=8\r\n"), "{errors}");
    }
}

/// The lines of a watcher up to one with the word `end`, without times and addresses.
fn lines(watcher: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = text(&watcher.receive());
        if line.ends_with("\"end\"") {
            return lines;
        }
        let (_, rest) = line.split_once(" [").unwrap();
        let (place, command) = rest.split_once("] ").unwrap();
        let (database, source) = place.split_once(' ').unwrap();
        let source = if source.starts_with("127.0.0.1:") { "client" } else { source };
        lines.push(format!("[{database} {source}] {command}"));
    }
}

#[test]
fn watchers_see_a_script_and_then_its_commands() {
    let seen = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut watcher, mut client) = (server.client(), server.client());
        assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
        let script = "redis.call('select', 2) redis.call('set', 'k v', '1') redis.pcall('get')
            redis.call('get', 'other') redis.pcall('client', 'id') redis.pcall('slowlog', 'len')
            return redis.call('info', 'server')";
        client.call(&["EVAL", script, "0"]);
        client.call(&["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"]);
        client.call(&["EVALSHA", "short", "0"]);
        client.call(&["EVAL", "x x", "0"]);
        client.call(&["EVAL", "return 1"]);
        client.call(&["EVAL_RO", "return redis.call('get', 'a')", "0"]);
        client.call(&["MULTI"]);
        client.call(&["EVAL", "return redis.call('incrby', 'n', 2)", "0"]);
        client.call(&["EVALSHA", "short", "0"]);
        client.call(&["GET", "x"]);
        client.call(&["EXEC"]);
        let library = "#!lua name=lib\nredis.register_function('f', function()
            return redis.call('get', 'a') end)";
        client.call(&["FUNCTION", "LOAD", library]);
        client.call(&["FCALL", "f", "0"]);
        client.call(&["FCALL", "nosuch", "0"]);
        client.call(&["ECHO", "end"]);
        lines(&mut watcher)
    });
    let [ours, theirs] = seen;
    assert_eq!(ours, theirs);
    assert!(ours.contains(&"[2 lua] \"set\" \"k v\" \"1\"".to_owned()), "{ours:#?}");
}

/// Lines are held until the script is over, so there is an end to them; those that are shown are
/// the first ones, without a gap.
#[test]
fn watchers_see_so_much_of_a_script_only() {
    let server = Server::start(&[]);
    let (mut watcher, mut client) = (server.client(), server.client());
    assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
    let script = "redis.call('echo', 'first') redis.call('echo', ARGV[1])
        redis.call('echo', 'behind') return #ARGV[1]";
    let length = 300 << 10;
    let reply = client.call(&["EVAL", script, "0", &"x".repeat(length)]);
    assert_eq!(reply, Value::Integer(length as i64));
    client.call(&["EVAL", "for i = 1, 10000 do redis.call('ping') end", "0"]);
    client.call(&["ECHO", "end"]);
    let lines = lines(&mut watcher);
    let of_scripts: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("[0 lua] ")).collect();
    assert_eq!(of_scripts[0], "\"echo\" \"first\"");
    let pings = &of_scripts[1..];
    assert!(pings.iter().all(|line| *line == "\"ping\""), "{}", pings[0]);
    assert!((1_000..10_000).contains(&pings.len()), "{}", pings.len());
}

/// A script or a function that runs for long may be ended by the command for its kind only.
#[test]
fn the_kill_of_the_wrong_kind_is_told_the_right_one() {
    const ENDLESS: &str = "#!lua name=lib\nredis.register_function{function_name = 'f',
        callback = function() while true do end end, flags = {'no-writes'}}";
    for server in &Oracle::Redis82.beside(&["--busy-reply-threshold", "50"]) {
        let (mut client, mut other) = (server.client(), server.client());
        client.call(&["FUNCTION", "LOAD", ENDLESS]);
        for (call, right, wrong) in [
            (["EVAL", "while true do end", "0"], "SCRIPT", "FUNCTION"),
            (["FCALL", "f", "0"], "FUNCTION", "SCRIPT"),
        ] {
            client.send(&call);
            let expected = format!(
                "(error) BUSY Redis is busy running a script. You can only call {right} KILL or \
                 SHUTDOWN NOSAVE."
            );
            eventually("it runs for long", || render(&other.call(&[wrong, "KILL"])) == expected);
            assert_eq!(text(&other.call(&[right, "KILL"])), "OK");
            let error = render(&client.receive());
            assert!(error.contains("Script killed by user"), "{error}");
            let none = "(error) NOTBUSY No scripts in execution right now.";
            eventually("it is over", || render(&other.call(&[right, "KILL"])) == none);
            assert_eq!(render(&other.call(&[wrong, "KILL"])), none);
        }
    }
}

/// Has a script run for ever that cannot be ended, as it has written.
fn run_for_ever(server: &Server) -> Client {
    let (mut client, mut other) = (server.client(), server.client());
    client.send(&["EVAL", "redis.call('set', KEYS[1], 1) while true do end", "1", "k"]);
    let is_busy = |answer: String| answer.starts_with("(error) BUSY");
    eventually("it runs for long", || is_busy(render(&other.call(&["GET", "k"]))));
    client
}

#[test]
fn an_end_that_saves_is_refused_while_a_script_runs_for_long_and_one_that_does_not_comes() {
    for server in Oracle::Redis82.beside(&["--busy-reply-threshold", "50", "--save", "3600 1"]) {
        let _endless = run_for_ever(&server);
        let mut client = server.client();
        let busy = "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                    SHUTDOWN NOSAVE.";
        for how in [&["SHUTDOWN"][..], &["SHUTDOWN", "SAVE"], &["SHUTDOWN", "NOW", "FORCE"]] {
            assert_eq!(render(&client.call(how)), busy, "{how:?}");
        }
        client.send(&["SHUTDOWN", "NOSAVE"]);
        assert_eq!(client.receive_to_close(), b"");
        assert!(server.wait().success());
    }
}

#[test]
fn an_end_that_waits_for_a_script_gives_way_to_one_that_does_not_save() {
    let mut server = Server::start(&["--busy-reply-threshold", "50", "--save", "3600 1"]);
    let _endless = run_for_ever(&server);
    server.signal(Signal::TERM);
    server.wait_for_log("Saving the final RDB snapshot before exiting.");
    let mut client = server.client();
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(client.receive_to_close(), b"");
    let file = server.folder().join("dump.rdb");
    assert!(server.wait().success());
    assert!(!file.exists());
}

#[test]
fn a_library_that_there_is_is_not_run_again() {
    for server in &Oracle::Redis82.beside(&[]) {
        let mut client = server.client();
        let good = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        assert_eq!(text(&client.call(&["FUNCTION", "LOAD", good])), "lib");
        let reply = client.call(&["FUNCTION", "LOAD", "#!lua name=lib\nerror('it ran')"]);
        assert_eq!(render(&reply), "(error) ERR Library 'lib' already exists");
    }
}

#[test]
fn the_memory_of_interpreters_is_told() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.call(&["EVAL", "kept = nil return string.rep('x', 100)", "0"]);
    let info = text(&client.call(&["INFO", "memory"]));
    let bytes = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse::<usize>().unwrap()
    };
    assert!(bytes("used_memory_vm_total:") > 10_000, "{info}");
    assert_eq!(bytes("used_memory_vm_total:"), bytes("used_memory_lua:"));
    assert_eq!(bytes("used_memory_vm_functions:"), 0);
    let Value::Array(stats) = client.call(&["MEMORY", "STATS"]) else { panic!("a list") };
    let at = stats.iter().position(|it| *it == Value::Bulk(b"script.VMs".to_vec())).unwrap();
    assert!(matches!(stats[at + 1], Value::Integer(bytes) if bytes > 10_000), "{stats:?}");
}

#[test]
fn a_watcher_cannot_be_made_within_a_transaction() {
    for server in &Oracle::Redis82.beside(&[]) {
        play(
            server,
            "
            > MULTI
            OK
            > MONITOR
            QUEUED
            > PING
            QUEUED
            > EXEC
            1) (error) ERR MONITOR isn't allowed for DENY BLOCKING client
            2) PONG
            > PING
            PONG
            ",
        );
    }
}

/// All that comes to requests, with another one behind them, until the connection is closed.
fn bytes_of(client: &mut Client, requests: &[&[&str]]) -> String {
    requests.iter().for_each(|request| client.send(request));
    client.send(&["PING"]);
    // A client that wants no replies is not closed.
    client.send(&["CLIENT", "REPLY", "ON"]);
    client.send(&["QUIT"]);
    String::from_utf8(client.receive_to_close()).unwrap()
}

#[test]
fn replies_may_be_turned_off_within_a_transaction() {
    let transactions: [&[&[&str]]; 4] = [
        &[&["SET", "x", "1"], &["CLIENT", "REPLY", "OFF"], &["GET", "x"], &["GET", "x"]],
        &[&["SET", "x", "1"], &["CLIENT", "REPLY", "SKIP"], &["GET", "x"], &["GET", "x"]],
        &[&["CLIENT", "REPLY", "OFF"], &["GET", "x"], &["CLIENT", "REPLY", "ON"], &["GET", "x"]],
        &[&["CLIENT", "REPLY", "ON"]],
    ];
    let [ours, theirs] = Oracle::Redis82.beside(&[]);
    for commands in transactions {
        for before in [None, Some(["CLIENT", "REPLY", "OFF"])] {
            let mut requests: Vec<&[&str]> = before.iter().map(<[&str; 3]>::as_slice).collect();
            requests.push(&["MULTI"]);
            requests.extend(commands);
            requests.push(&["EXEC"]);
            let [ours, theirs] =
                [&ours, &theirs].map(|server| bytes_of(&mut server.client(), &requests));
            assert_eq!(ours, theirs, "{requests:?}");
        }
    }
}

/// What interpreters hold of scripts and of libraries goes with those.
#[test]
fn interpreters_forget_what_was_flushed() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let bytes = |client: &mut Client, name: &str| {
        let info = text(&client.call(&["INFO", "memory"]));
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse::<usize>().unwrap()
    };
    let mut after = Vec::new();
    for round in 0..3 {
        for number in 0..2000 {
            let body = format!("local x{number} = {round} return {{x{number}, KEYS[1]}}");
            client.call(&["SCRIPT", "LOAD", &body]);
            client.call(&["EVAL", &body, "1", "k"]);
        }
        client.call(&["SCRIPT", "FLUSH"]);
        after.push(bytes(&mut client, "used_memory_lua:"));
    }
    assert!(after[2] < after[0] + after[0] / 4, "{after:?}");
    for number in 0..300 {
        let code = format!(
            "#!lua name=lib{number}\n
            redis.register_function('f{number}', function() return 1 end)"
        );
        client.call(&["FUNCTION", "LOAD", &code]);
        assert_eq!(client.call(&["FCALL", &format!("f{number}"), "0"]), Value::Integer(1));
    }
    assert!(bytes(&mut client, "used_memory_vm_functions:") > 10_000);
}

#[test]
fn a_library_that_cannot_be_added_changes_nothing() {
    for server in &Oracle::Redis82.beside(&[]) {
        play(
            server,
            r##"
            > FUNCTION LOAD "#!lua name=one\nredis.register_function('a', function() return 1 end)"
            "one"
            > FUNCTION LOAD "#!lua name=two\nredis.register_function('b', function() return 2 end)"
            "two"
            > FUNCTION LOAD REPLACE "#!lua name=two\nredis.register_function('a', function() end)"
            ~ (error) ERR Function a already exists
            > FCALL a 0
            (integer) 1
            > FCALL b 0
            (integer) 2
            > FUNCTION LOAD REPLACE "#!lua name=two\nredis.register_function('c', function() end)"
            "two"
            > FCALL c 0
            (nil)
            > FCALL b 0
            (error) ERR Function not found
            > FUNCTION DELETE two
            OK
            > FCALL c 0
            (error) ERR Function not found
            > FUNCTION LOAD "#!lua name=two\nredis.register_function('b', function() return 5 end)"
            "two"
            > FCALL b 0
            (integer) 5
            "##,
        );
    }
}
