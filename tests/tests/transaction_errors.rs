//! What MULTI, EXEC, DISCARD, WATCH and UNWATCH refuse and how they say so, and what a transaction
//! makes of commands that mean something else outside of one. Both protocols, and the same scripts
//! on real servers.

use proto::value::Value;
use tests::client::field;
use tests::render::text;
use tests::script::afresh;
use tests::{Client, Oracle, Server, check, play};

fn servers() -> impl Iterator<Item = Server> {
    let oracles = Oracle::ALL.iter().map(|oracle| oracle.start(&[]));
    [Server::start(&[])].into_iter().chain(oracles)
}

/// Apus and those that it takes after where they differ.
fn servers_like_redis() -> impl Iterator<Item = Server> {
    servers().take(Oracle::ALL.len())
}

#[track_caller]
fn everywhere(script: &str) {
    for server in servers() {
        for protocol in ["2", "3"] {
            afresh(&server, protocol, script);
        }
    }
}

#[test]
fn each_command_has_its_place() {
    everywhere(
        r#"
        > EXEC
        (error) ERR EXEC without MULTI
        > DISCARD
        (error) ERR DISCARD without MULTI
        > UNWATCH
        OK
        > WATCH a b
        OK
        > MULTI
        OK
        > SET a 1
        QUEUED
        > EXEC
        1) OK
        > EXEC
        (error) ERR EXEC without MULTI
        > MULTI
        OK
        > SET a 2
        QUEUED
        > DISCARD
        OK
        > DISCARD
        (error) ERR DISCARD without MULTI
        > GET a
        "1"
        > MULTI
        OK
        > EXEC
        (empty array)
        "#,
    );
}

/// Valkey 9 has another error for these, and gives the transaction up.
#[test]
fn what_does_not_belong_within_leaves_a_transaction_whole() {
    for server in servers_like_redis() {
        for protocol in ["2", "3"] {
            afresh(
                &server,
                protocol,
                r#"
                > MULTI
                OK
                > MULTI
                (error) ERR MULTI calls can not be nested
                > WATCH a
                (error) ERR WATCH inside MULTI is not allowed
                > SET a 1
                QUEUED
                > EXEC
                1) OK
                "#,
            );
        }
    }
}

#[test]
fn each_command_counts_its_arguments() {
    everywhere(
        r#"
        > MULTI x
        (error) ERR wrong number of arguments for 'multi' command
        > EXEC x
        ~ (error) EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' *
        > DISCARD x
        (error) ERR wrong number of arguments for 'discard' command
        > UNWATCH x
        (error) ERR wrong number of arguments for 'unwatch' command
        > WATCH
        (error) ERR wrong number of arguments for 'watch' command
        > MULTI
        OK
        > EXEC x
        ~ (error) EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' *
        > EXEC
        (error) ERR EXEC without MULTI
        > MULTI
        OK
        > MULTI x
        (error) ERR wrong number of arguments for 'multi' command
        > DISCARD x
        (error) ERR wrong number of arguments for 'discard' command
        > WATCH
        (error) ERR wrong number of arguments for 'watch' command
        > DISCARD
        OK
        > EXEC
        (error) ERR EXEC without MULTI
        "#,
    );
}

#[test]
fn what_is_refused_while_queueing_aborts() {
    everywhere(
        r#"
        > MULTI
        OK
        > SET k 1
        QUEUED
        > NOSUCH a b
        (error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' 
        > SET k 2
        QUEUED
        > EXEC
        (error) EXECABORT Transaction discarded because of previous errors.
        > GET k
        (nil)
        > MULTI
        OK
        > GET
        (error) ERR wrong number of arguments for 'get' command
        > EXEC
        (error) EXECABORT Transaction discarded because of previous errors.
        > MULTI
        OK
        > CONFIG NOSUCH
        (error) ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.
        > EXEC
        (error) EXECABORT Transaction discarded because of previous errors.
        > MULTI
        OK
        > OBJECT FREQ
        (error) ERR wrong number of arguments for 'object|freq' command
        > DISCARD
        OK
        > MULTI
        OK
        > SET k 3
        QUEUED
        > EXEC
        1) OK
        "#,
    );
}

#[test]
fn what_fails_within_undoes_nothing() {
    everywhere(
        r#"
        > MULTI
        OK
        > SET k a
        QUEUED
        > INCR k
        QUEUED
        > LPOP k
        QUEUED
        > SET k x EX 0
        QUEUED
        > OBJECT FREQ k
        QUEUED
        > CONFIG SET nosuch 1
        QUEUED
        > SELECT 99
        QUEUED
        > APPEND k b
        QUEUED
        > EXEC
        1) OK
        2) (error) ERR value is not an integer or out of range
        3) (error) WRONGTYPE Operation against a key holding the wrong kind of value
        4) (error) ERR invalid expire time in 'set' command
        ~ 5) (error) ERR An LFU maxmemory policy is not selected, access frequency not tracked. *
        6) (error) ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
        7) (error) ERR DB index is out of range
        8) (integer) 2
        > GET k
        "ab"
        "#,
    );
}

#[test]
fn a_transaction_may_change_its_database() {
    everywhere(
        r#"
        > SET k zero
        OK
        > MULTI
        OK
        > SELECT 1
        QUEUED
        > SET k one
        QUEUED
        > SELECT 0
        QUEUED
        > GET k
        QUEUED
        > SWAPDB 0 1
        QUEUED
        > GET k
        QUEUED
        > MOVE k 2
        QUEUED
        > SELECT 2
        QUEUED
        > EXEC
        1) OK
        2) OK
        3) OK
        4) "zero"
        5) OK
        6) "one"
        7) (integer) 1
        8) OK
        > GET k
        "one"
        > FLUSHALL
        OK
        "#,
    );
}

#[test]
fn blocking_commands_do_not_wait_within_exec() {
    everywhere(
        r#"
        > RPUSH l x
        (integer) 1
        > MULTI
        OK
        > BLPOP l 0
        QUEUED
        > BLPOP l 0
        QUEUED
        > BRPOPLPUSH l o 0
        QUEUED
        > BLMOVE l o LEFT RIGHT 0
        QUEUED
        > BLMPOP 0 2 l o LEFT
        QUEUED
        > BZPOPMIN z 0
        QUEUED
        > BZMPOP 0 1 z MIN
        QUEUED
        > XREAD BLOCK 0 STREAMS s $
        QUEUED
        > WAIT 1 0
        QUEUED
        > BLPOP l -1
        QUEUED
        > EXEC
         1) 1) "l"
            2) "x"
         2) (nil)
         3) (nil)
         4) (nil)
         5) (nil)
         6) (nil)
         7) (nil)
         8) (nil)
         9) (integer) 0
        10) (error) ERR timeout is negative
        "#,
    );
}

/// In RESP2 there are two nulls.
#[test]
fn blocking_commands_within_exec_reply_the_null_of_their_kind() {
    for server in servers() {
        let mut client = server.client();
        check(&mut client, "> MULTI\nOK\n> BLPOP l 0\nQUEUED\n> BLMOVE l o LEFT RIGHT 0\nQUEUED");
        check(&mut client, "> BRPOPLPUSH l o 0\nQUEUED\n> BLMPOP 0 1 l LEFT\nQUEUED");
        let nulls = [Value::NullArray, Value::Null, Value::Null, Value::NullArray];
        assert_eq!(client.call(&["EXEC"]), Value::Array(nulls.to_vec()));
    }
}

#[test]
fn a_waiter_is_served_after_the_whole_transaction() {
    for server in servers() {
        play(
            &server,
            r#"
            > WATCH nothing
            OK
            waiter> BLPOP l 0
            waiter<
            (silence)
            > MULTI
            OK
            > RPUSH l a
            QUEUED
            > LPOP l
            QUEUED
            > RPUSH l b c
            QUEUED
            > LLEN l
            QUEUED
            > EXEC
            1) (integer) 1
            2) "a"
            3) (integer) 2
            4) (integer) 2
            waiter<
            1) "l"
            2) "b"
            > LRANGE l 0 -1
            1) "c"
            # What is gone again at the end serves nobody.
            waiter> BLPOP j 0
            > MULTI
            OK
            > RPUSH j a
            QUEUED
            > DEL j
            QUEUED
            > EXEC
            1) (integer) 1
            2) (integer) 1
            waiter<
            (silence)
            > RPUSH j d
            (integer) 1
            waiter<
            1) "j"
            2) "d"
            "#,
        );
    }
}

#[test]
fn some_commands_are_not_allowed_within() {
    for server in servers() {
        for mut client in [server.client(), server.client3()] {
            check(&mut client, "> MULTI\nOK");
            let refused = text(&client.call(&["SHUTDOWN", "NOSAVE"]));
            // The other is Valkey's.
            let texts = [
                "ERR Command not allowed inside a transaction",
                "ERR Command 'shutdown' not allowed inside a transaction",
            ];
            assert!(texts[..texts.len() - usize::from(!server.is_oracle())].contains(&&*refused));
            check(
                &mut client,
                r#"
                > EXEC
                (error) EXECABORT Transaction discarded because of previous errors.
                "#,
            );
        }
    }
}

#[test]
fn a_transaction_ends_with_its_connection() {
    for server in servers() {
        let mut other = server.client();
        for end in ["QUIT", "RESET", ""] {
            check(&mut other, "> FLUSHALL\nOK");
            let mut client = server.client();
            check(&mut client, "> WATCH w\nOK\n> MULTI\nOK\n> SET k 1\nQUEUED");
            match end {
                "RESET" => check(
                    &mut client,
                    "> RESET\nRESET\n> EXEC\n(error) ERR EXEC without MULTI\n> PING\nPONG",
                ),
                "QUIT" => check(&mut client, "> QUIT\nOK\n<\n(closed)"),
                _ => drop(client),
            }
            check(&mut other, "> EXISTS k\n(integer) 0");
        }
        // What was watched before RESET does not matter after it.
        play(
            &server,
            r#"
            > WATCH w
            OK
            other> SET w 1
            OK
            > RESET
            RESET
            > MULTI
            OK
            > EXEC
            (empty array)
            "#,
        );
    }
}

#[test]
fn the_protocol_may_change_within() {
    for server in servers() {
        let mut client = server.client();
        check(
            &mut client,
            r#"
            > HSET h f v
            (integer) 1
            > MULTI
            OK
            > HGETALL h
            QUEUED
            > HELLO 3
            QUEUED
            > HGETALL h
            QUEUED
            > GET nosuch
            QUEUED
            "#,
        );
        let Value::Array(replies) = client.call(&["EXEC"]) else { panic!("EXEC is an array") };
        assert!(matches!(&replies[0], Value::Array(_)), "{replies:?}");
        assert!(matches!(&replies[1], Value::Map(_)), "{replies:?}");
        assert!(matches!(&replies[2], Value::Map(_)), "{replies:?}");
        assert_eq!(replies[3], Value::Null);
        check(&mut client, "> HGETALL h\n1# \"f\" => \"v\"");
    }
}

#[test]
fn replies_of_a_transaction_can_be_left_out() {
    for server in servers() {
        for mut client in [server.client(), server.client3()] {
            client.send(&["CLIENT", "REPLY", "OFF"]);
            client.send(&["MULTI"]);
            client.send(&["SET", "k", "1"]);
            client.send(&["EXEC"]);
            client.send(&["CLIENT", "REPLY", "ON"]);
            assert_eq!(text(&client.receive()), "OK");
            check(&mut client, "> GET k\n\"1\"\n> DEL k\n(integer) 1");
            client.send(&["CLIENT", "REPLY", "SKIP"]);
            client.send(&["MULTI"]);
            check(&mut client, "> SET k 2\nQUEUED\n> EXEC\n1) OK\n> DEL k\n(integer) 1");
        }
    }
}

/// CLIENT LIST of Redis 8.2 and of Apus about the same connection.
#[test]
fn lines_about_clients_tell_of_transactions() {
    let lines = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut client, mut other) = (server.client(), server.client());
        let id = client.id();
        let mut lines = Vec::new();
        let mut look = |other: &mut Client| {
            let line = text(&other.call(&["CLIENT", "LIST", "ID", &id]));
            let fields = ["flags", "multi", "watch", "cmd", "db"];
            lines.push(fields.map(|name| format!("{name}={}", field(&line, name))).join(" "));
        };
        look(&mut other);
        check(&mut client, "> WATCH a b a\nOK");
        look(&mut other);
        check(&mut client, "> MULTI\nOK");
        look(&mut other);
        check(&mut client, "> SET k 1\nQUEUED");
        look(&mut other);
        check(&mut client, "> GET k\nQUEUED");
        look(&mut other);
        check(&mut client, "> EXEC\n1) OK\n2) \"1\"");
        look(&mut other);
        check(&mut client, "> MULTI\nOK\n> GET\n...");
        look(&mut other);
        check(&mut client, "> DISCARD\nOK");
        look(&mut other);
        lines
    });
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn info_counts_who_watches() {
    let told = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut client, mut other) = (server.client(), server.client());
        let mut told = Vec::new();
        let mut look = |other: &mut Client| {
            let info = text(&other.call(&["INFO", "clients"]));
            let fields = info.lines().filter(|line| line.contains("watch"));
            told.push(fields.map(str::to_owned).collect::<Vec<_>>());
        };
        look(&mut other);
        check(&mut client, "> WATCH a b\nOK");
        check(&mut other, "> WATCH a\nOK");
        look(&mut other);
        check(&mut client, "> UNWATCH\nOK");
        look(&mut other);
        check(&mut other, "> MULTI\nOK\n> EXEC\n(empty array)");
        look(&mut other);
        told
    });
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_monitor_sees_transactions() {
    let seen = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut watcher, mut client) = (server.client(), server.client());
        check(&mut watcher, "> MONITOR\nOK");
        check(
            &mut client,
            r#"
            > WATCH w
            OK
            > MULTI
            OK
            > SET k 1
            QUEUED
            > INCR k
            QUEUED
            > EXEC
            1) OK
            2) (integer) 2
            > MULTI
            OK
            > SET k 5
            QUEUED
            > DISCARD
            OK
            > ECHO end
            "end"
            "#,
        );
        let mut seen = Vec::new();
        while seen.last().is_none_or(|line: &String| !line.contains("end")) {
            let line = text(&watcher.receive());
            let (_, words) = line.split_once("] ").expect("a line names its client");
            seen.push(words.to_owned());
        }
        seen
    });
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_transaction_may_be_long() {
    const COUNT: usize = 20_000;
    for server in servers() {
        let mut client = server.client();
        let mut commands = vec![vec!["MULTI"]];
        commands.extend((0..COUNT).map(|_| vec!["INCR", "counter"]));
        let replies = client.pipeline(&commands);
        assert!(replies[1..].iter().all(|reply| text(reply) == "QUEUED"));
        let Value::Array(replies) = client.call(&["EXEC"]) else { panic!("EXEC is an array") };
        let expected: Vec<Value> = (1..=COUNT as i64).map(Value::Integer).collect();
        assert_eq!(replies, expected);
    }
}
