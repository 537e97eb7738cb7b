//! EVAL and its forms, SCRIPT, and what scripts do to data: as Redis has it, and exactly once.

use std::thread;
use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::script::afresh;
use tests::server::{Oracle, eventually};
use tests::{Arrival, Client, Server};

/// Ours and a real server.
fn both() -> [Server; 2] {
    Oracle::Redis82.beside(&[])
}

fn on_both(script: &str) {
    for server in &both() {
        for protocol in ["2", "3"] {
            afresh(server, protocol, script);
        }
    }
}

#[test]
fn scripts_call_commands_with_keys_and_arguments() {
    on_both(
        r##"
        > EVAL "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}" 2 k1 k2 a1 a2
        1) "k1"
        2) "k2"
        3) "a1"
        4) "a2"
        > EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 key value
        OK
        > EVAL "return redis.call('get', KEYS[1])" 1 key
        "value"
        > EVAL "return redis.call('incr', KEYS[1])" 1 key
        ~ (error) ERR value is not an integer or out of range script: *, on @user_script:1.
        > EVAL "return redis.pcall('incr', KEYS[1])" 1 key
        (error) ERR value is not an integer or out of range
        > EVAL "return redis.call('hset', 'hash', 'a', 1, 'b', 2.5)" 0
        (integer) 2
        > EVAL "return redis.call('hgetall', 'hash')" 0
        1) "a"
        2) "1"
        3) "b"
        4) "2.5"
        > EVAL "return redis.call('blpop', 'missing', 0)" 0
        (nil)
        > EVAL "redis.call('set', 'kept', 'yes') error('boom')" 0
        ~ (error) ERR user_script:1: boom script: *, on @user_script:1.
        > GET kept
        "yes"
        > EVAL "redis.call('select', 1) return redis.call('set', 'elsewhere', 1)" 0
        OK
        > EXISTS elsewhere
        (integer) 0
        > EVAL "redis.call('select', 1) return redis.call('del', 'elsewhere')" 0
        (integer) 1
        > EVAL "return {redis.call('ping'), redis.call('echo', 'hi'), #redis.call('time')}" 0
        1) PONG
        2) "hi"
        3) (integer) 2
        > EVAL "redis.call('flushall') return redis.call('dbsize')" 0
        (integer) 0
        "##,
    );
}

#[test]
fn what_is_wrong_with_a_request_is_told() {
    on_both(
        r##"
        > EVAL "return 1"
        (error) ERR wrong number of arguments for 'eval' command
        > EVAL "return 1" a
        (error) ERR value is not an integer or out of range
        > EVAL "return 1" -1
        (error) ERR Number of keys can't be negative
        > EVAL "return 1" 2 a
        (error) ERR Number of keys can't be greater than number of args
        > EVAL "x x" 0
        (error) ERR Error compiling script (new function): user_script:1: '=' expected near 'x'
        > EVAL "#!lua flags=foo\nreturn 1" 0
        (error) ERR Unexpected flag in script shebang: foo
        > EVALSHA 1234 0
        (error) NOSCRIPT No matching script. Please use EVAL.
        > EVAL_RO "return redis.call('set', 'a', 'b')" 0
        ~ (error) ERR Write commands are not allowed from read-only scripts. script: *
        > EVAL "#!lua flags=no-writes\nreturn redis.call('publish', 'a', 'b')" 0
        ~ (error) ERR Write commands are not allowed from read-only scripts. script: *
        > EVAL_RO "#!lua\nreturn 1" 0
        (error) ERR Can not execute a script with write flag using *_ro command.
        > EVAL_RO "#!lua flags=no-writes\nreturn 1" 0
        (integer) 1
        > EVAL "return redis.call('eval', 'return 1', 0)" 0
        ~ (error) ERR This Redis command is not allowed from script script: *
        > EVAL "return redis.call('script', 'flush')" 0
        ~ (error) ERR This Redis command is not allowed from script script: *
        > EVAL "return redis.call('multi')" 0
        ~ (error) ERR This Redis command is not allowed from script script: *
        > EVAL "return redis.call('nosuch')" 0
        ~ (error) ERR Unknown Redis command called from script script: *
        > EVAL "return redis.call('get')" 0
        ~ (error) ERR Wrong number of args calling Redis command from script script: *
        "##,
    );
}

#[test]
fn the_cache_keeps_scripts() {
    on_both(
        r##"
        > SCRIPT FLUSH
        OK
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        (error) NOSCRIPT No matching script. Please use EVAL.
        > SCRIPT LOAD "return 1"
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        > EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
        (integer) 1
        > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        (integer) 1
        > EVAL "return 'brought'" 0
        "brought"
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x ff
        1) (integer) 1
        2) (integer) 0
        3) (integer) 0
        > SCRIPT LOAD "x x"
        (error) ERR Error compiling script (new function): user_script:1: '=' expected near 'x'
        > SCRIPT FLUSH NEVER
        (error) ERR SCRIPT FLUSH only support SYNC|ASYNC option
        > SCRIPT FLUSH ASYNC
        OK
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        1) (integer) 0
        > SCRIPT KILL
        (error) NOTBUSY No scripts in execution right now.
        > SCRIPT DEBUG NO
        OK
        > SCRIPT DEBUG x
        (error) ERR Use SCRIPT DEBUG YES/SYNC/NO
        > SCRIPT NOSUCH
        (error) ERR unknown subcommand 'NOSUCH'. Try SCRIPT HELP.
        > SCRIPT HELP
        ~ *1) SCRIPT <subcommand> * Subcommands are:
        ~ *2) DEBUG (YES|SYNC|NO)
        ...
        "##,
    );
}

#[test]
fn a_script_can_be_shown_and_the_oldest_makes_room() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(
            &server,
            protocol,
            r##"
            > SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
            (error) NOSCRIPT No matching script.
            > EVAL "return 1" 0
            (integer) 1
            > SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
            "return 1"
            > SCRIPT DEBUG YES
            (error) ERR There is no debugger of scripts here: SCRIPT DEBUG takes NO only
            > SCRIPT FLUSH
            OK
            "##,
        );
    }
    let mut client = server.client();
    for number in 0..510 {
        client.call(&["EVAL", &format!("return {number}"), "0"]);
    }
    let memory = render(&client.call(&["INFO", "memory"]));
    assert!(memory.contains("number_of_cached_scripts:500"), "{memory}");
    let stats = render(&client.call(&["INFO", "stats"]));
    assert!(stats.contains("evicted_scripts:10"), "{stats}");
}

#[test]
fn scripts_speak_both_protocols() {
    let script = r##"
        > EVAL "redis.call('hset', 'h', 'a', 1) redis.call('zadd', 'z', 1.5, 'm')" 0
        (nil)
        > EVAL "redis.setresp(3) return redis.call('hgetall', 'h').map.a" 0
        "1"
        > EVAL "redis.setresp(3) return type(redis.call('get', 'missing'))" 0
        "nil"
        > EVAL "return type(redis.call('get', 'missing'))" 0
        "boolean"
        > EVAL "redis.setresp(3) return cjson.encode(redis.call('zscore', 'z', 'm'))" 0
        "{\"double\":1.5}"
        > EVAL "return redis.call('zscore', 'z', 'm')" 0
        "1.5"
    "##;
    on_both(script);
}

#[test]
fn a_script_within_a_transaction_is_part_of_it() {
    on_both(
        r##"
        > MULTI
        OK
        > SET counter 1
        QUEUED
        > EVAL "return redis.call('incr', KEYS[1])" 1 counter
        QUEUED
        > EVAL "for i = 1, 1000000 do local s = i end return redis.call('incr', 'other')" 0
        QUEUED
        > EVAL "return redis.call('incr', 'counter')" 0
        QUEUED
        > EXEC
        1) OK
        2) (integer) 2
        3) (integer) 1
        4) (integer) 3
        "##,
    );
}

/// These go from key to key by themselves; a script must not lose what it has locked by that.
#[test]
fn a_script_may_walk_over_all_keys_amid_its_changes() {
    on_both(
        r##"
        > EVAL "redis.call('incr', 'a') return {redis.call('keys', '*'), redis.call('get', 'c')}" 0
        1) 1) "a"
        2) (nil)
        > EVAL "redis.call('incr', 'a') return {redis.call('randomkey'), redis.call('incr', 'b')}" 0
        1) "a"
        2) (integer) 1
        > EVAL "redis.call('del', 'a') return {redis.call('scan', 0), redis.call('get', 'c')}" 0
        1) 1) "0"
           2) 1) "b"
        2) (nil)
        > MGET a b
        1) (nil)
        2) "1"
        "##,
    );
}

/// A script sees nothing of how a set happens to lie: there its members are sorted, as bytes.
#[test]
fn a_script_sorts_what_others_find_as_it_lies() {
    on_both(
        r##"
        > SADD s 10 9 1 -2
        (integer) 4
        > SADD w banana a10 a9 Z b
        (integer) 5
        > EVAL "return redis.call('SORT', KEYS[1], 'BY', 'nosort')" 1 s
        1) "-2"
        2) "1"
        3) "10"
        4) "9"
        > EVAL "return redis.call('SORT_RO', KEYS[1], 'BY', 'nosort', 'DESC')" 1 s
        1) "9"
        2) "10"
        3) "1"
        4) "-2"
        > EVAL "return redis.call('SORT', KEYS[1], 'BY', 'nosort', 'LIMIT', 1, 3)" 1 w
        1) "a10"
        2) "a9"
        3) "b"
        > RPUSH l 3 1 2
        (integer) 3
        > EVAL "return redis.call('SORT', KEYS[1], 'BY', 'nosort')" 1 l
        1) "3"
        2) "1"
        3) "2"
        "##,
    );
}

/// However many keys one command names that its script did not declare, all of them come at once.
#[test]
fn a_command_of_many_undeclared_keys_does_not_stop_the_world() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    for (name, words, reply) in
        [("mset", 100, "OK"), ("mget", 50, "(integer) 50"), ("del", 100, "(integer) 50")]
    {
        let script = format!(
            "local words = {{}} for i = 1, {words} do words[i] = 'k' .. i end
            local reply = redis.call('{name}', unpack(words))
            return type(reply) == 'table' and not reply.ok and #reply or reply"
        );
        assert_eq!(render(&client.call(&["EVAL", &script, "0"])), reply, "{name}");
    }
    assert_eq!(client.figure("world_stops"), 0);
}

/// What a script did with keys that it had not declared is undone before it runs again with them.
#[test]
fn undeclared_keys_change_exactly_once_under_contention() {
    const CLIENTS: usize = 6;
    const CALLS: usize = 300;
    let script = "redis.call('incr', 'total')
        local at = redis.call('incr', 'cursor')
        redis.call('rpush', 'list:' .. at % 7, ARGV[1])
        redis.call('hincrby', 'hash:' .. at % 11, ARGV[1], 1)
        return redis.call('incr', 'total2')";
    let server = Server::start(&["--worker-threads", "4"]);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for _ in 0..CALLS {
                    client.call(&["EVAL", script, "0", &format!("client{number}")]);
                }
            });
        }
    });
    let mut client = server.client();
    let calls = (CLIENTS * CALLS).to_string();
    for counter in ["total", "total2", "cursor"] {
        assert_eq!(render(&client.call(&["GET", counter])), format!("\"{calls}\""));
    }
    let sum = |client: &mut Client, script: &str| render(&client.call(&["EVAL", script, "0"]));
    let lists = "local n = 0 for i = 0, 6 do n = n + redis.call('llen', 'list:' .. i) end return n";
    assert_eq!(sum(&mut client, lists), format!("(integer) {calls}"));
    let hashes = "local n = 0 for i = 0, 10 do
        for _, v in ipairs(redis.call('hvals', 'hash:' .. i)) do n = n + v end end return n";
    assert_eq!(sum(&mut client, hashes), format!("(integer) {calls}"));
}

#[test]
fn a_long_script_does_all_once_and_keeps_nobody_waiting() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let script = "local s = redis.call('incr', KEYS[1])
        for i = 1, 20000000 do s = s + i end
        return redis.call('incr', KEYS[1])";
    client.send(&["EVAL", script, "1", "slow"]);
    let mut other = server.client();
    assert_eq!(render(&other.call(&["SET", "quick", "1"])), "OK");
    assert_eq!(render(&client.receive()), "(integer) 2");
    assert_eq!(render(&client.call(&["GET", "slow"])), "\"2\"");
}

/// H69: a script that catches all errors is ended, too.
#[test]
fn a_script_that_only_reads_can_be_killed() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'get', 'x') end",
    ] {
        let server = Server::start(&["--busy-reply-threshold", "100"]);
        let mut client = server.client();
        client.send(&["EVAL", script, "0"]);
        let mut other = server.client();
        eventually("the script is killed", || render(&other.call(&["SCRIPT", "KILL"])) == "OK");
        let error = render(&client.receive());
        let expected = "(error) ERR Script killed by user with SCRIPT KILL... script: ";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(render(&client.call(&["PING"])), "PONG");
    }
}

#[test]
fn a_script_that_has_written_cannot_be_killed() {
    let server = Server::start(&["--busy-reply-threshold", "50"]);
    let mut client = server.client();
    let script = "redis.call('set', 'a', 'b')
        while redis.call('get', 'a') == 'b' do
            local clock = os.clock() + 3 while os.clock() < clock do end
            redis.call('set', 'a', 'c')
        end return 'over'";
    client.send(&["EVAL", script, "1", "a"]);
    let mut other = server.client();
    eventually("the script is found", || {
        let error = render(&other.call(&["SCRIPT", "KILL"]));
        if error == "OK" {
            // That was before it wrote.
            client.receive();
            client.send(&["EVAL", script, "1", "a"]);
        }
        error.starts_with("(error) UNKILLABLE Sorry the script already executed write commands")
    });
    // That is its own time, of which a busy machine may give it little.
    let arrival = client.arrival(Duration::from_secs(60)).expect("the connection stays");
    assert_eq!(arrival, Arrival::Reply(Value::Bulk(b"over".to_vec())));
}

#[test]
fn what_a_user_of_few_rights_does_to_the_world_of_scripts_is_nothing_to_others() {
    on_both(
        r##"
        > SET secret hidden
        OK
        > ACL SETUSER low on nopass ~low:* +eval +get +set
        OK
        > AUTH low any
        OK
        > EVAL "local _, t = pairs(_G); t.foo = 1; return 1" 0
        ~ (error) ERR user_script:1: Attempt to modify a readonly table script: *
        > EVAL "local _, t = pairs(redis) t.call = function() return 'mine' end" 0
        ~ (error) ERR user_script:1: Attempt to modify a readonly table script: *
        > EVAL "return redis.call('GET', 'secret')" 0
        ~ (error) * script: *
        > AUTH default any
        OK
        > EVAL "return foo" 0
        ~ (error) ERR user_script:1: Script attempted to access nonexistent global*
        > EVAL "return redis.call('GET', 'secret')" 0
        "hidden"
        > ACL DELUSER low
        (integer) 1
        "##,
    );
}
