//! Import mode: keys whose time is over stay until the source says that they go. The source sees
//! them, others do not, and whoever writes to one removes it first. As Valkey 9.1 has it.

use tests::client::field;
use tests::render::{render, text};
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
fn who_is_a_source_says_so_in_import_mode() {
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
