//! Import mode: keys whose time is over stay until the source says that they go. The source sees
//! them, others do not, and a write to one removes it first. As Valkey 9.1 has it.

use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Apus and Valkey 9.1 in import mode, each with a source and another client.
fn imports() -> [(Server, Client, Client); 2] {
    [Server::start(&["--import-mode", "yes"]), Oracle::Valkey91.start(&["--import-mode", "yes"])]
        .map(|server| {
            let (mut source, other) = (server.client(), server.client());
            check(&mut source, "> CLIENT IMPORT-SOURCE ON\nOK");
            (server, source, other)
        })
}

#[test]
fn a_client_becomes_an_import_source_in_import_mode_only() {
    let script = "
        > CONFIG GET import-mode
        1) \"import-mode\"
        2) \"no\"
        > CLIENT IMPORT-SOURCE ON
        (error) ERR Server is not in import mode
        > CLIENT IMPORT-SOURCE x
        (error) ERR Server is not in import mode
        > CLIENT IMPORT-SOURCE OFF
        OK
        > CONFIG SET import-mode yes
        OK
        > CLIENT IMPORT-SOURCE x
        (error) ERR syntax error
        > CLIENT IMPORT-SOURCE
        (error) ERR wrong number of arguments for 'client|import-source' command
        > CLIENT IMPORT-SOURCE ON
        OK
    ";
    for server in [Server::start(&[]), Oracle::valkey91()] {
        let mut client = server.client();
        check(&mut client, script);
        let flags = |client: &mut Client| {
            field(&text(&client.call(&["CLIENT", "INFO"])), "flags").to_owned()
        };
        assert_eq!(flags(&mut client), "I");
        check(&mut client, "> CONFIG SET import-mode no\nOK");
        assert_eq!(flags(&mut client), "I");
        check(&mut client, "> SET k v PXAT 1\nOK\n> GET k\n(nil)\n> RESET\nRESET");
        assert_eq!(flags(&mut client), "N");
        check(&mut client, "> CONFIG SET import-mode yes\nOK\n> CLIENT IMPORT-SOURCE ON\nOK");
        check(&mut client, "> CLIENT IMPORT-SOURCE OFF\nOK");
        assert_eq!(flags(&mut client), "N");
    }
}

#[test]
fn a_watch_of_what_is_over_leaves_it_to_the_source() {
    for (_server, mut source, mut other) in imports() {
        check(&mut source, "> SET k v PXAT 1\nOK");
        check(&mut other, "> WATCH k\nOK\n> UNWATCH\nOK\n> DBSIZE\n(integer) 1");
        check(&mut source, "> GET k\n\"v\"");
    }
}

#[test]
fn a_source_sees_what_is_over() {
    for (_server, mut source, mut other) in imports() {
        let script = "
            > SET k v PXAT 1
            OK
            > GET k
            \"v\"
            > TTL k
            (integer) 0
            > EXPIRETIME k
            (integer) 0
            > EXISTS k
            (integer) 1
            > TYPE k
            string
            > KEYS *
            1) \"k\"
            > SCAN 0
            1) \"0\"
            2) 1) \"k\"
            > RANDOMKEY
            \"k\"
            > COPY k copy
            (integer) 1
            > PEXPIRETIME copy
            (integer) 1
            > RENAME copy renamed
            OK
            > GET renamed
            \"v\"
            > SET n 5 PXAT 1
            OK
            > INCR n
            (integer) 6
            > RPUSH l a
            (integer) 1
            > PEXPIREAT l 1
            (integer) 1
            > RPUSH l b
            (integer) 2
            > SET negative v
            OK
            > PEXPIREAT negative -1
            (integer) 1
            > EXISTS negative
            (integer) 1
            > GETEX negative PXAT 1
            \"v\"
            > GETEX negative PERSIST
            \"v\"
            > TTL negative
            (integer) -1
            > DBSIZE
            (integer) 5
        ";
        check(&mut source, script);
        check(&mut other, "> MGET k renamed n\n1) (nil)\n2) (nil)\n3) (nil)");
        check(
            &mut other,
            "> EXISTS l\n(integer) 0\n> TTL k\n(integer) -2\n> KEYS *\n1) \"negative\"",
        );
        check(&mut other, "> RANDOMKEY\n\"negative\"");
        assert_eq!(render(&other.call(&["DBSIZE"])), "(integer) 5", "reading removes nothing");
        check(&mut source, "> LRANGE l 0 -1\n1) \"a\"\n2) \"b\"\n> GET k\n\"v\"");
    }
}

#[test]
fn writers_find_nothing_where_the_time_is_over() {
    for (_server, mut source, mut other) in imports() {
        check(&mut source, "> SET n 5 PXAT 1\nOK\n> SET s v PXAT 1\nOK\n> SET d v PXAT 1\nOK");
        check(
            &mut other,
            "> INCR n\n(integer) 1\n> TTL n\n(integer) -1\n> APPEND s x\n(integer) 1",
        );
        check(&mut other, "> SET own v PXAT 1\nOK\n> GET own\n(nil)");
        check(&mut source, "> GET n\n\"1\"\n> GET s\n\"x\"\n> GET own\n\"v\"\n> GET d\n\"v\"");
        check(&mut source, "> CONFIG SET import-mode no\nOK\n> GET own\n(nil)\n> GET d\n(nil)");
    }
}

/// Members of containers as keys: a client that is no source has what is over removed before it
/// writes, and that is in the log.
#[test]
fn a_write_to_a_container_meets_no_member_that_is_over() {
    let log = ["--import-mode", "yes", "--appendonly", "yes", "--appendfsync", "always"];
    for mut server in [Server::start(&log), Oracle::Valkey91.start(&log)] {
        let (mut source, mut other) = (server.client(), server.client());
        check(
            &mut source,
            "> CLIENT IMPORT-SOURCE ON\nOK\n> HSET h a 1 b 2 c 3 d 4 e 5 f 6 z 9\n(integer) 7",
        );
        check(&mut source, "> HSET g b 2 z 9\n(integer) 2");
        for words in ["h 1 FIELDS 6 a b c d e f", "g 1 FIELDS 1 b"] {
            let request = format!("HPEXPIRE {words}");
            source.call(&request.split(' ').collect::<Vec<_>>());
        }
        eventually("they are over", || {
            render(&other.call(&["HMGET", "h", "a", "f"])) == "1) (nil)\n2) (nil)"
        });
        check(&mut source, "> HLEN h\n(integer) 7\n> HLEN g\n(integer) 2");
        check(
            &mut other,
            "
            > HSETNX h a x
            (integer) 1
            > HGETDEL h FIELDS 1 b
            1) (nil)
            > HDEL h c
            (integer) 0
            > HINCRBY h d 1
            (integer) 1
            > HGETEX h PERSIST FIELDS 1 e
            1) (nil)
            > HINCRBYFLOAT h f 1.5
            \"1.5\"
            > HMGET h a b c d e f z
            1) \"x\"
            2) (nil)
            3) (nil)
            4) \"1\"
            5) (nil)
            6) \"1.5\"
            7) \"9\"
            > HDEL g z
            (integer) 1
            ",
        );
        server.kill();
        server.restart();
        let expected = "1) \"x\"\n2) (nil)\n3) (nil)\n4) \"1\"\n5) (nil)\n6) \"1.5\"\n7) \"9\"";
        check(&mut server.client(), &format!("> HMGET h a b c d e f z\n{expected}"));
    }
}

/// The same for types whose members have lifetimes here only.
#[test]
fn commands_that_take_or_store_members_meet_none_that_is_over() {
    let log = ["--import-mode", "yes", "--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(&log);
    let (mut source, mut other) = (server.client(), server.client());
    check(&mut source, "> CLIENT IMPORT-SOURCE ON\nOK");
    for key in ["s", "t", "u"] {
        check(&mut source, &format!("> SADD {key} old live\n(integer) 2"));
        check(&mut source, &format!("> EXPIREMEMBER {key} old 1 ms\n(integer) 1"));
    }
    check(
        &mut source,
        "> ZADD z 1 old 2 live\n(integer) 2\n> EXPIREMEMBER z old 1 ms\n(integer) 1",
    );
    eventually("they are over", || render(&other.call(&["SCARD", "u"])) == "(integer) 1");
    check(
        &mut other,
        "
        > SUNIONSTORE both s
        (integer) 1
        > SPOP t 5
        1) \"live\"
        > SADD u old
        (integer) 1
        > ZPOPMIN z
        1) \"live\"
        2) \"2\"
        ",
    );
    server.kill();
    server.restart();
    check(
        &mut server.client(),
        "
        > SMEMBERS both
        1) \"live\"
        > EXISTS t z
        (integer) 0
        > SCARD u
        (integer) 2
        ",
    );
}
