//! FUNCTION and FCALL: libraries of Lua functions, as Redis has them.

use proto::value::Value;
use tests::render::render;
use tests::script::afresh;
use tests::server::{Oracle, eventually};
use tests::{Client, Server};

const LIBRARY: &str = "#!lua name=lib
local count = 0
redis.register_function('echo', function(keys, args) return {keys, args} end)
redis.register_function('count', function() count = count + 1 return count end)
redis.register_function('fails', function() return redis.call('incr', 'text') end)
redis.register_function{function_name='reads', callback=function()
    return redis.call('set', 'a', 'b') end, flags={'no-writes'}, description='tells'}
redis.register_function{function_name='gets', callback=function(keys)
    return redis.call('get', keys[1]) end, flags={'no-writes'}}";

fn on_both(script: &str) {
    for server in &Oracle::Redis82.beside(&[]) {
        for protocol in ["2", "3"] {
            let mut client = server.client();
            client.call(&["FUNCTION", "FLUSH"]);
            client.call(&["FUNCTION", "LOAD", LIBRARY]);
            afresh(server, protocol, script);
        }
    }
}

#[test]
fn functions_are_called() {
    on_both(
        r##"
        > FCALL echo 1 key argument
        1) 1) "key"
        2) 1) "argument"
        > FCALL ECHO 0
        1) (empty array)
        2) (empty array)
        > FCALL count 0
        (integer) 1
        > FCALL count 0
        (integer) 2
        > SET text words
        OK
        > FCALL fails 0
        (error) ERR value is not an integer or out of range script: fails, on @user_function:5.
        > FCALL reads 0
        ~ (error) ERR Write commands are not allowed from read-only scripts. script: reads, *
        > FCALL_RO gets 1 text
        "words"
        > FCALL_RO echo 0
        (error) ERR Can not execute a script with write flag using *_ro command.
        > FCALL missing 0
        (error) ERR Function not found
        > FCALL echo x
        (error) ERR Bad number of keys provided
        > FCALL echo -1
        (error) ERR Number of keys can't be negative
        > FCALL echo 1
        (error) ERR Number of keys can't be greater than number of args
        > EVAL "return redis.call('fcall', 'echo', 0)" 0
        ~ (error) ERR This Redis command is not allowed from script script: *
        > MULTI
        OK
        > FUNCTION DELETE lib
        QUEUED
        > FCALL echo 0
        QUEUED
        > EXEC
        1) OK
        2) (error) ERR Function not found
        "##,
    );
}

#[test]
fn libraries_are_loaded_and_deleted() {
    on_both(
        r##"
        > FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function() end)"
        (error) ERR Library 'lib' already exists
        > FUNCTION LOAD "#!lua name=other\nredis.register_function('COUNT', function() end)"
        (error) ERR Function COUNT already exists
        > FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('f', function() end)"
        "lib"
        > FCALL count 0
        (error) ERR Function not found
        > FCALL f 0
        (nil)
        > FUNCTION LOAD NEVER "#!lua name=x\nx"
        (error) ERR Unknown option given: NEVER
        > FUNCTION LOAD "return 1"
        (error) ERR Missing library metadata
        > FUNCTION LOAD "#!lua name=x\nreturn 1"
        (error) ERR No functions registered
        > FUNCTION LOAD "#!lua name=x\nwhile true do end"
        (error) ERR Error registering functions: ERR FUNCTION LOAD timeout
        > FUNCTION DELETE other
        (error) ERR Library not found
        > FUNCTION DELETE lib
        OK
        > FUNCTION LIST
        (empty array)
        > FUNCTION FLUSH NEVER
        (error) ERR FUNCTION FLUSH only supports SYNC|ASYNC option
        > FUNCTION FLUSH SYNC x
        ~ (error) ERR unknown subcommand or wrong number of arguments for 'FLUSH'. *
        > FUNCTION FLUSH ASYNC
        OK
        > FUNCTION KILL
        (error) NOTBUSY No scripts in execution right now.
        > FUNCTION NOSUCH
        (error) ERR unknown subcommand 'NOSUCH'. Try FUNCTION HELP.
        "##,
    );
}

/// Libraries and functions come in no order, so one of each is looked at.
#[test]
fn libraries_are_listed() {
    let list = [
        "FUNCTION LIST LIBRARYNAME sol*",
        "FUNCTION LIST LIBRARYNAME SOLO WITHCODE",
        "FUNCTION LIST LIBRARYNAME nothing",
        "FUNCTION LIST LIBRARYNAME",
        "FUNCTION LIST NEVER",
        "FUNCTION LIST WITHCODE WITHCODE",
        "FUNCTION STATS",
        "FUNCTION HELP",
    ];
    let servers = Oracle::Redis82.beside(&[]);
    for open in [Server::client, Server::client3] {
        let answers = servers.each_ref().map(|server| {
            let mut client = open(server);
            client.call(&["FUNCTION", "FLUSH"]);
            client.call(&["FUNCTION", "LOAD", LIBRARY]);
            let solo = "#!lua name=solo\nredis.register_function{function_name='f',
                callback=function() end, flags={'no-writes', 'allow-oom'}, description='d'}";
            client.call(&["FUNCTION", "LOAD", solo]);
            list.map(|line| {
                let words: Vec<_> = line.split(' ').collect();
                render(&client.call(&words))
            })
        });
        let [ours, theirs] = answers;
        // Flags are a set, without an order either.
        let sorted = |text: &String| {
            let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
            lines.iter_mut().for_each(|line| *line = line.replace(['1', '2', ')', ' '], ""));
            lines.sort();
            lines
        };
        for (line, (ours, theirs)) in list.iter().zip(ours.iter().zip(&theirs)) {
            assert_eq!(sorted(ours), sorted(theirs), "{line}\n{ours}\n{theirs}");
        }
    }
}

/// The payload of all libraries.
fn dump(client: &mut Client) -> Vec<u8> {
    match client.call(&["FUNCTION", "DUMP"]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}

fn restore(client: &mut Client, payload: &[u8], policy: &str) -> String {
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", payload, policy.as_bytes()];
    render(&client.call(&words))
}

#[test]
fn libraries_are_exchanged_with_other_servers() {
    for oracle in Oracle::ALL {
        let servers = oracle.beside(&[]);
        for protocol in ["2", "3"] {
            let open = if protocol == "3" { Server::client3 } else { Server::client };
            let mut clients = servers.each_ref().map(open);
            for from in [0, 1] {
                clients.iter_mut().for_each(|client| {
                    client.call(&["FUNCTION", "FLUSH"]);
                });
                client_load(&mut clients[from]);
                let payload = dump(&mut clients[from]);
                let other = &mut clients[1 - from];
                assert_eq!(restore(other, &payload, "APPEND"), "OK");
                let called = render(&other.call(&["FCALL", "count", "0"]));
                assert_eq!(called, "(integer) 1", "{oracle:?}");
                let again = restore(other, &payload, "APPEND");
                assert_eq!(again, "(error) ERR Library lib already exists");
                assert_eq!(restore(other, &payload, "REPLACE"), "OK");
                assert_eq!(restore(other, &payload, "FLUSH"), "OK");
                let never = restore(other, &payload, "NEVER");
                assert!(never.starts_with("(error) ERR Wrong restore policy given"), "{never}");
                let broken = restore(other, &payload[1..], "FLUSH");
                assert_eq!(broken, "(error) ERR DUMP payload version or checksum are wrong");
            }
        }
    }
}

fn client_load(client: &mut Client) {
    assert_eq!(render(&client.call(&["FUNCTION", "LOAD", LIBRARY])), "\"lib\"");
}

const SPINNING: &str = "#!lua name=long\nredis.register_function('spin', function()
    while true do pcall(function() while true do end end) end end)";

#[test]
fn a_long_function_is_told_of_and_can_be_killed() {
    let server = Server::start(&["--busy-reply-threshold", "1000000"]);
    let mut client = server.client();
    client.call(&["FUNCTION", "LOAD", SPINNING]);
    client.send(&["FCALL", "spin", "1", "key", "argument"]);
    for open in [Server::client, Server::client3] {
        let mut other = open(&server);
        eventually("the function is told of", || {
            let stats = render(&other.call(&["FUNCTION", "STATS"]));
            ["\"spin\"", "\"FCALL\"", "\"argument\"", "duration_ms"]
                .iter()
                .all(|word| stats.contains(word))
        });
    }
    // What is told of can be ended, long before it keeps anybody waiting.
    let mut other = server.client();
    let script = render(&other.call(&["SCRIPT", "KILL"]));
    let expected = "(error) BUSY Redis is busy running a script. You can only call FUNCTION KILL \
                    or SHUTDOWN NOSAVE.";
    assert_eq!(script, expected);
    assert_eq!(render(&other.call(&["FUNCTION", "KILL"])), "OK");
    let error = render(&client.receive());
    let expected = "(error) ERR Script killed by user with SCRIPT KILL... script: spin, on ";
    assert!(error.starts_with(expected), "{error}");
    let memory = render(&client.call(&["INFO", "memory"]));
    assert!(memory.contains("number_of_functions:1") && memory.contains("number_of_libraries:1"));
}

#[test]
fn a_long_function_is_told_of_without_a_gap() {
    let server = Server::start(&["--busy-reply-threshold", "1000000"]);
    let (mut client, mut other) = (server.client(), server.client());
    client.call(&["FUNCTION", "LOAD", SPINNING]);
    for _ in 0..50 {
        client.send(&["FCALL", "spin", "1", "key", "argument"]);
        let mut tells = || render(&other.call(&["FUNCTION", "STATS"])).contains("\"spin\"");
        eventually("the function is told of", &mut tells);
        // It moves to another thread meanwhile.
        assert!((0..20).all(|_| tells()));
        assert_eq!(render(&other.call(&["FUNCTION", "KILL"])), "OK");
        let error = render(&client.receive());
        assert!(error.starts_with("(error) ERR Script killed by user"), "{error}");
    }
}
