//! CLIENT PAUSE: which clients it holds, for how long, and how one gets out of it.

use std::time::{Duration, Instant};

use base::quote::split_arguments;
use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::samples::{SLOW_THAT_HOLDS, slow_pair};
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Oracle, Server, check, play};

/// The key is over, and counted until the pause is.
#[test]
fn nothing_expires_while_writes_are_held() {
    for server in Oracle::Redis82.beside(&[]) {
        play(
            &server,
            r#"
            > SET key value PX 20
            OK
            > CLIENT PAUSE 60000 WRITE
            OK
            counter> PFCOUNT absent
            counter<
            (silence)
            counter<
            (silence)
            counter<
            (silence)
            counter<
            (silence)
            > DBSIZE
            (integer) 1
            > CLIENT UNPAUSE
            OK
            counter<
            (integer) 0
            "#,
        );
        let mut client = server.client();
        eventually("it is removed", || render(&client.call(&["DBSIZE"])) == "(integer) 0");
    }
}

#[test]
fn a_pause_of_writes_holds_writes() {
    for server in Oracle::Redis82.beside(&[]) {
        play(
            &server,
            r#"
            > CLIENT PAUSE 60000 WRITE
            OK
            writer> SET a b
            writer<
            (silence)
            reader> GET a
            (nil)
            reader> PING
            PONG
            reader> SET
            (error) ERR wrong number of arguments for 'set' command
            > CLIENT LIST FOO
            (error) ERR syntax error
            > CLIENT UNBLOCK 1
            (integer) 0
            > CLIENT UNPAUSE
            OK
            writer<
            OK
            reader> GET a
            "b"
            "#,
        );
    }
}

const LIBRARY: &str = "#!lua name=lib
redis.register_function{function_name='reads', flags={'no-writes'},
    callback=function(keys) return redis.call('GET', keys[1]) end}
redis.register_function('writes', function(keys) return redis.call('SET', keys[1], 'v') end)";

/// Requests by whether a pause of writes holds them: scripts and functions go by what they declare.
const REQUESTS: &[(bool, &[&str])] = &[
    (true, &["SET k v"]),
    (true, &["PFCOUNT h"]),
    (true, &["PUBLISH c m"]),
    (true, &["BLPOP absent 0"]),
    (false, &["GET k"]),
    (false, &["EVAL '#!lua flags=no-writes\n return redis.call(\"GET\", KEYS[1])' 1 k"]),
    (true, &["EVAL '#!lua\n return redis.call(\"GET\", KEYS[1])' 1 k"]),
    (true, &["EVAL 'return redis.call(\"GET\", KEYS[1])' 1 k"]),
    (true, &["EVAL '#!lua flags=unknown\n return 1' 0"]),
    (false, &["EVAL_RO 'return redis.call(\"GET\", KEYS[1])' 1 k"]),
    (true, &["EVAL_RO '#!lua\n return 1' 0"]),
    (false, &["EVALSHA READING 0"]),
    (true, &["EVALSHA SILENT 0"]),
    (true, &["EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"]),
    (false, &["EVALSHA_RO SILENT 0"]),
    (false, &["FCALL reads 1 k"]),
    (false, &["FCALL READS 1 k"]),
    (true, &["FCALL writes 1 k"]),
    (true, &["FCALL absent 1 k"]),
    (false, &["FCALL_RO reads 1 k"]),
    (true, &["FCALL_RO writes 1 k"]),
    (false, &["MULTI", "GET k", "EXEC"]),
    (true, &["MULTI", "GET k", "SET k v", "EXEC"]),
    (false, &["MULTI", "EVAL '#!lua flags=no-writes\n return 1' 0", "FCALL reads 1 k", "EXEC"]),
    (true, &["MULTI", "EVAL 'return 1' 0", "EXEC"]),
    (true, &["MULTI", "FCALL writes 1 k", "EXEC"]),
    (true, &["MULTI", "PUBLISH c m", "EXEC"]),
];

#[test]
fn what_declares_that_it_does_not_write_is_not_held_and_who_is_held_counts_as_blocked() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut observer = server.client();
        observer.call(&["FUNCTION", "LOAD", LIBRARY]);
        let mut load = |script| text(&observer.call(&["SCRIPT", "LOAD", script]));
        let reading = load("#!lua flags=no-writes\nreturn 5");
        let silent = load("return 5");
        for (is_held, lines) in REQUESTS {
            let mut client = server.client();
            let id = client.id();
            say(&mut observer, "CLIENT PAUSE 60000 WRITE");
            for line in *lines {
                let line = line.replace("READING", &reading).replace("SILENT", &silent);
                client.send(&split_arguments(line.as_bytes()).expect("quotes are balanced"));
            }
            if *is_held {
                eventually(&format!("{lines:?} is held, {}", server.is_oracle()), || {
                    text(&observer.call(&["INFO", "clients"])).contains("blocked_clients:1\r\n")
                });
                let told = text(&observer.call(&["CLIENT", "LIST", "ID", &id]));
                assert!(field(&told, "flags").contains('b'), "{lines:?}: {told}");
            } else {
                lines.iter().for_each(|_| _ = client.receive());
            }
            say(&mut observer, "CLIENT UNPAUSE");
            drop(client);
            eventually("nobody is blocked", || {
                text(&observer.call(&["INFO", "clients"])).contains("blocked_clients:0\r\n")
            });
        }
    }
}

/// Nor does a reader of a key remove it.
#[test]
fn a_key_whose_time_is_over_is_absent_and_stays_while_writes_are_held() {
    for server in Oracle::Redis82.beside(&["--enable-debug-command", "yes"]) {
        let mut client = server.client();
        check(&mut client, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK\n> SET a b PX 20\nOK");
        check(&mut client, "> CLIENT PAUSE 60000 WRITE\nOK");
        eventually("its time is over", || render(&client.call(&["GET", "a"])) == "(nil)");
        check(
            &mut client,
            "
            > EXISTS a
            (integer) 0
            > DBSIZE
            (integer) 1
            > CLIENT UNPAUSE
            OK
            > GET a
            (nil)
            > DBSIZE
            (integer) 0
            > DEBUG SET-ACTIVE-EXPIRE 1
            OK
            ",
        );
    }
}

#[test]
fn a_pause_of_everything_ends_by_its_time() {
    for server in Oracle::Redis82.beside(&[]) {
        let (mut first, mut second) = (server.client(), server.client());
        let begun = Instant::now();
        first.call(&["CLIENT", "PAUSE", "300"]);
        second.send(&["CLIENT", "UNPAUSE"]);
        assert_eq!(text(&first.call(&["PING"])), "PONG");
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
        assert_eq!(text(&second.receive()), "OK");
    }
}

/// A command that waited would make its client lose patience first.
#[test]
fn an_error_does_not_wait_for_the_end_of_a_pause() {
    for mut server in Oracle::Redis82.beside(&[]) {
        let (mut first, mut second) = (server.client(), server.client());
        first.call(&["CLIENT", "PAUSE", "1000000"]);
        assert_eq!(text(&second.call(&["FOO"])).split('\'').nth(1), Some("FOO"));
        // A client that asked the server how it was would wait for the end.
        server.kill();
    }
}

#[test]
fn paused_clients_can_be_killed_and_leave() {
    let server = Server::start(&[]);
    let (mut killer, mut victim) = (server.client(), server.client());
    let victim_id = victim.id();
    killer.call(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    victim.send(&["SET", "a", "b"]);
    eventually("the victim is held", || {
        field(&text(&killer.call(&["CLIENT", "LIST", "ID", &victim_id])), "flags") == "b"
    });
    assert_eq!(killer.call(&["CLIENT", "KILL", "ID", &victim_id]), Value::Integer(1));
    assert!(victim.is_closed());
    assert_eq!(text(&killer.call(&["CLIENT", "UNPAUSE"])), "OK");
    assert_eq!(killer.call(&["EXISTS", "a"]), Value::Integer(0));
}

/// Says whether `key` is there, again and again, and that it changes no more.
fn stays_as_it_is(client: &mut Client, key: &str) {
    let mut is_there = || client.call(&["EXISTS", key]);
    let first = is_there();
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(is_there(), first, "it changed in a pause");
    }
}

/// What gave its locks back to compute takes them again behind the pause, not in it.
#[test]
fn what_began_before_a_pause_writes_before_it_or_behind_it() {
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "600000"]);
    let (mut slow, mut admin) = (server.client(), server.client());
    for key in ["a", "b"] {
        let members: Vec<String> = (0..30_000).map(|number| format!("{key}:{number}")).collect();
        admin.call(&[&["SADD".to_owned(), key.to_owned()], &members[..]].concat());
    }
    for words in
        [vec!["ZUNIONSTORE", "out", "2", "a", "b"], vec!["SORT", "a", "ALPHA", "STORE", "out"]]
    {
        admin.call(&["DEL", "out"]);
        slow.send(&words);
        let name = format!("cmd={}", words[0].to_lowercase());
        eventually("it has begun", || text(&admin.call(&["CLIENT", "LIST"])).contains(&name));
        assert_eq!(render(&admin.call(&["CLIENT", "PAUSE", "600000", "WRITE"])), "OK");
        stays_as_it_is(&mut admin, "out");
        // The world does not wait for what is held.
        assert_eq!(render(&admin.call(&["SAVE"])), "OK");
        assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
        assert!(matches!(slow.receive(), Value::Integer(30_000..)));
        assert_eq!(render(&admin.call(&["EXISTS", "out"])), "(integer) 1");
    }
}

/// A unit that begins again with more locks begins behind the pause, as one that is new.
#[test]
fn a_unit_that_begins_again_does_so_behind_a_pause() {
    const WIDEN: &str = "for turn = 1, 2000000 do end redis.call('GET', 'a')
        redis.call('SET', KEYS[1], 'v') return 2";
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "600000"]);
    let (mut holder, mut admin) = (server.client(), server.client());
    slow_pair(&mut admin, "a", "b", 8_000);
    let script = vec!["EVAL", WIDEN, "1", "out"];
    for words in [vec![script.clone()], vec![vec!["MULTI"], script, vec!["EXEC"]]] {
        admin.call(&["DEL", "out"]);
        holder.send(&SLOW_THAT_HOLDS);
        eventually("it is held", || text(&admin.call(&["CLIENT", "LIST"])).contains("cmd=eval"));
        let mut unit = server.client();
        words.iter().for_each(|words| unit.send(words));
        eventually("it has begun", || {
            let list = text(&admin.call(&["CLIENT", "LIST"]));
            list.matches("cmd=eval").count() + list.matches("cmd=exec").count() == 2
        });
        // A script that is quicker or slower than that writes before the pause or behind it, too.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(render(&admin.call(&["CLIENT", "PAUSE", "600000", "WRITE"])), "OK");
        assert!(matches!(holder.receive(), Value::Integer(1..)));
        stays_as_it_is(&mut admin, "out");
        assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
        words[1..].iter().for_each(|_| _ = unit.receive());
        unit.receive();
        assert_eq!(render(&admin.call(&["EXISTS", "out"])), "(integer) 1");
    }
}

/// What is under way when the pause comes ends before the pause is answered, on whatever thread the
/// one runs and in whatever form the other comes.
#[test]
fn a_pause_is_answered_when_what_was_under_way_is_over() {
    const LONG: &str = "for turn = 1, 20000000 do end redis.call('SET', 'out', 'v') return 2";
    const LIBRARY: &str = "#!lua name=long\nfor turn = 1, 5000000 do end
        redis.register_function('f', function() return 1 end)";
    const PAUSE: &[&str] = &["CLIENT", "PAUSE", "600000", "WRITE"];
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "600000"]);
    let mut admin = server.client();
    admin.call(&["FUNCTION", "LOAD", LIBRARY]);
    let Value::Bulk(dump) = admin.call(&["FUNCTION", "DUMP"]) else { panic!("no dump") };
    let script: Vec<&[u8]> = vec![b"EVAL", LONG.as_bytes(), b"1", b"in"];
    for (name, words) in [
        ("eval", vec![script.clone()]),
        ("exec", vec![vec![&b"MULTI"[..]], script, vec![b"EXEC"]]),
        ("function|load", vec![vec![b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]]),
        ("function|restore", vec![vec![b"FUNCTION", b"RESTORE", &dump]]),
    ] {
        for pause in [vec![PAUSE], vec![&["MULTI"], PAUSE, &["EXEC"]]] {
            admin.call(&["DEL", "out"]);
            admin.call(&["FUNCTION", "FLUSH"]);
            let mut unit = server.client();
            words.iter().for_each(|words| unit.send(words));
            eventually("it has begun", || {
                text(&admin.call(&["CLIENT", "LIST"])).contains(&format!("cmd={name}"))
            });
            let replies: Vec<_> = pause.iter().map(|words| render(&admin.call(words))).collect();
            assert!(replies.last().is_some_and(|last| last.ends_with("OK")), "{name} {replies:?}");
            let state = |client: &mut Client| {
                [&["EXISTS", "out"][..], &["FUNCTION", "LIST"]].map(|it| render(&client.call(it)))
            };
            let before = state(&mut admin);
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(before, state(&mut admin), "{name} beside {pause:?}");
            assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
            words.iter().for_each(|_| _ = unit.receive());
            assert_ne!(state(&mut admin), ["(integer) 0", "(empty array)"].map(String::from));
        }
    }
}

/// A pause that would wait too long is refused, and holds nobody.
#[test]
fn a_pause_beside_a_script_without_end_is_refused_and_not_on() {
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "100"]);
    let (mut holder, mut admin) = (server.client(), server.client());
    holder.send(&["EVAL", "while true do end", "1", "key"]);
    eventually("it runs", || render(&admin.call(&["GET", "key"])).contains("BUSY"));
    let paused = admin.call(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    assert!(render(&paused).contains("BUSY"), "{}", render(&paused));
    eventually("it ends", || render(&admin.call(&["SCRIPT", "KILL"])) == "OK");
    holder.receive();
    assert_eq!(render(&admin.call(&["SET", "key", "v"])), "OK");
}

/// A pause that is refused leaves the one that was on as it was: as long, and of writes only.
#[test]
fn a_refused_pause_leaves_the_one_that_was_on() {
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "100"]);
    let (mut holder, mut admin) = (server.client(), server.client());
    assert_eq!(render(&admin.call(&["CLIENT", "PAUSE", "600000", "WRITE"])), "OK");
    holder.send(&["EVAL_RO", "while true do end", "1", "key"]);
    eventually("it runs", || render(&admin.call(&["GET", "key"])).contains("BUSY"));
    let paused = render(&admin.call(&["CLIENT", "PAUSE", "1200000", "ALL"]));
    assert!(paused.contains("BUSY"), "{paused}");
    eventually("it ends", || render(&admin.call(&["SCRIPT", "KILL"])) == "OK");
    holder.receive();
    let mut writer = server.client();
    writer.send(&["SET", "key", "v"]);
    assert_eq!(render(&admin.call(&["GET", "key"])), "(nil)");
    assert!(writer.is_silent(), "writes are not held on");
    assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
    assert_eq!(render(&writer.receive()), "OK");
}

/// A pause that has waited for longer than it was to last has all its time before it.
#[test]
fn the_time_of_a_pause_begins_with_its_answer() {
    let server = Server::start(&["--enable-debug-command", "yes", "--busy-reply-threshold", "0"]);
    let (mut holder, mut admin, mut writer) = (server.client(), server.client(), server.client());
    for words in [&["MULTI"][..], &["SET", "key", "v"], &["DEBUG", "SLEEP", "2.5"], &["EXEC"]] {
        holder.send(words);
    }
    eventually("it runs", || text(&admin.call(&["CLIENT", "LIST"])).contains("cmd=exec"));
    assert_eq!(render(&admin.call(&["CLIENT", "PAUSE", "2000", "WRITE"])), "OK");
    writer.send(&["SET", "other", "v"]);
    assert!(writer.is_silent(), "it was not held");
    assert_eq!(render(&writer.receive()), "OK");
}

/// However many changes of libraries a pause meets, it is answered, and they are made behind it.
#[test]
fn a_pause_does_not_wait_for_the_libraries_that_it_holds() {
    const CLIENTS: usize = 24;
    let server = Server::start(&["--worker-threads", "2", "--busy-reply-threshold", "600000"]);
    let mut admin = server.client();
    // Too long to be compiled on a worker.
    let body = "do local n = 0 end ".repeat(300);
    let load = |number| {
        let code = format!(
            "#!lua name=l{number}\nfor turn = 1, 300000 do end
            redis.register_function('f{number}', function() {body} return 1 end)"
        );
        let mut client = server.client();
        client.send(&["FUNCTION", "LOAD", &code]);
        client
    };
    let loaders: Vec<_> = (0..CLIENTS).map(load).collect();
    assert_eq!(render(&admin.call(&["CLIENT", "PAUSE", "600000", "WRITE"])), "OK");
    let count = |client: &mut Client| match client.call(&["FUNCTION", "LIST"]) {
        Value::Array(libraries) => libraries.len(),
        other => panic!("{}", render(&other)),
    };
    let before = count(&mut admin);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count(&mut admin), before);
    assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
    for (number, mut client) in loaders.into_iter().enumerate() {
        assert_eq!(render(&client.receive()), format!("\"l{number}\""));
    }
    assert_eq!(count(&mut admin), CLIENTS);
}
