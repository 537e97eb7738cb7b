//! While CLIENT PAUSE holds writes, what is over is absent and stays: no read removes it, nothing
//! is told of it, and to watch it and see it go breaks no transaction. And a script that has
//! written is not stopped by what fails meanwhile.

use proto::value::Value;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// Waits until a key that has a deadline is absent; it stays, as all data stand still.
fn lapse(client: &mut Client, key: &str) {
    eventually("its time is over", || client.call(&["GET", key]) == Value::Null);
}

#[test]
fn a_key_that_was_over_when_it_was_watched_may_go() {
    for server in [Oracle::Redis82.start(&[]), Server::start(&["--worker-threads", "2"])] {
        let (mut client, mut other) = (server.client(), server.client());
        let exec = |client: &mut Client, words: &[&str]| {
            client.call(&["MULTI"]);
            client.call(words);
            render(&client.call(&["EXEC"]))
        };
        // What becomes of it before EXEC, what EXEC runs and what it says.
        type Case<'a> = (&'a [&'a [&'a str]], &'a [&'a str], &'a str);
        let cases: [Case<'_>; 5] = [
            (&[], &["GET", "y"], "1) (nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["GET", "x"]], &["SET", "z", "1"], "1) OK"),
            (&[&["CLIENT", "UNPAUSE"]], &["GET", "x"], "1) (nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["SET", "x", "2"]], &["SET", "z", "1"], "(nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["FLUSHALL"]], &["SET", "z", "1"], "1) OK"),
        ];
        for (becomes, words, expected) in cases {
            other.call(&["SET", "x", "1", "PX", "20"]);
            other.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
            lapse(&mut other, "x");
            client.call(&["WATCH", "x"]);
            becomes.iter().for_each(|words| drop(other.call(words)));
            assert_eq!(exec(&mut client, words), expected, "{becomes:?}");
            other.call(&["CLIENT", "UNPAUSE"]);
        }
        // One whose time is over behind WATCH has changed.
        other.call(&["SET", "x", "1", "PX", "200"]);
        client.call(&["WATCH", "x"]);
        other.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        lapse(&mut other, "x");
        assert_eq!(exec(&mut client, &["GET", "y"]), "(nil)");
        other.call(&["CLIENT", "UNPAUSE"]);
    }
}

#[test]
fn no_read_removes_anything_while_writes_are_paused() {
    // The size of the log is true at each reply.
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(&[&log[..], &["--worker-threads", "2"]].concat());
    let mut client = server.client();
    let members: Vec<String> = (0..400).map(|number| format!("m{number}")).collect();
    let pairs = members.iter().flat_map(|member| [member.as_str(), "1"]);
    let scored = members.iter().flat_map(|member| ["1", member.as_str()]);
    let names = || members.iter().map(String::as_str);
    client.call(&["HSET", "h"].into_iter().chain(pairs).collect::<Vec<_>>());
    client.call(&["SADD", "s"].into_iter().chain(names()).collect::<Vec<_>>());
    client.call(&["ZADD", "z"].into_iter().chain(scored).collect::<Vec<_>>());
    client.call(&["SET", "lives", "1"]);
    client.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    client.call(&["CLIENT", "UNPAUSE"]);
    client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    for number in 0..50 {
        client.call(&["SET", &format!("over{number}"), "1", "PX", "100"]);
    }
    client.call(
        &["HPEXPIRE", "h", "100", "FIELDS", "399"]
            .into_iter()
            .chain(names().skip(1))
            .collect::<Vec<_>>(),
    );
    for key in ["s", "z"] {
        for member in names().skip(1) {
            client.call(&["EXPIREMEMBER", key, member, "100", "ms"]);
        }
    }
    client.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    lapse(&mut client, "over49");
    eventually("members are over", || client.call(&["HGET", "h", "m399"]) == Value::Null);
    let figures = ["aof_current_size", "expired_keys", "expired_subkeys"];
    let before = figures.map(|figure| client.figure(figure));
    for words in [
        &["HRANDFIELD", "h"][..],
        &["HRANDFIELD", "h", "-5", "WITHVALUES"],
        &["HLEN", "h"],
        &["SCARD", "s"],
        &["SRANDMEMBER", "s", "5"],
        &["ZCARD", "z"],
        &["ZRANGE", "z", "0", "-1"],
        &["ZRANDMEMBER", "z", "3"],
        &["SORT_RO", "s", "BY", "nosort"],
        &["RANDOMKEY"],
        &["RANDOMKEY"],
        &["WATCH", "over1", "h"],
        &["UNWATCH"],
        &["SCAN", "0", "COUNT", "1000"],
        &["KEYS", "*"],
    ] {
        let reply = client.call(words);
        assert!(!matches!(reply, Value::Error(_)), "{words:?}: {reply:?}");
        assert_eq!(figures.map(|figure| client.figure(figure)), before, "{words:?}");
    }
}

/// Another's save fails before a script, between two of its writes, or behind it.
#[test]
fn a_script_is_done_or_not_whatever_fails_meanwhile() {
    let server = Server::start(&["--worker-threads", "2", "--save", "3600 1"]);
    let [mut admin, mut client] = [(); 2].map(|()| server.client());
    // The snapshot cannot take the place of a folder.
    std::fs::create_dir(server.folder().join("dump.rdb")).expect("it is new");
    let script = "redis.call('SET', KEYS[1], 1) for i = 1, 10000000 do end \
                  redis.call('SET', KEYS[2], 1) return 1";
    client.send(&["EVAL", script, "2", "from", "to"]);
    admin.call(&["BGSAVE"]);
    let is_done = client.receive() == Value::Integer(1);
    eventually("the save has failed", || {
        text(&admin.call(&["INFO", "persistence"])).contains("rdb_last_bgsave_status:err")
    });
    let expected = Value::Integer(if is_done { 2 } else { 0 });
    assert_eq!(admin.call(&["EXISTS", "from", "to"]), expected);
}
