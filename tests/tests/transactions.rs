//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: what is queued runs at once or not at all, and a watch
//! is broken by whatever changes its key.

use tests::Server;
use tests::script::{afresh, play};

#[test]
fn commands_are_queued_and_run_together() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(
            &server,
            protocol,
            "
            > MULTI
            OK
            > SET a 1
            QUEUED
            > INCR a
            QUEUED
            > LPUSH a x
            QUEUED
            > BLPOP nothing 0
            QUEUED
            > SELECT 5
            QUEUED
            > SET a five
            QUEUED
            > UNWATCH
            QUEUED
            > EXEC
            1) OK
            2) (integer) 2
            3) (error) WRONGTYPE Operation against a key holding the wrong kind of value
            4) (nil)
            5) OK
            6) OK
            7) OK
            > GET a
            \"five\"
            > SELECT 0
            OK
            > GET a
            \"2\"
            > EXEC
            (error) ERR EXEC without MULTI
            > DISCARD
            (error) ERR DISCARD without MULTI
            > MULTI
            OK
            > EXEC
            (empty array)
            ",
        );
    }
}

#[test]
fn a_refused_command_spoils_the_transaction() {
    let server = Server::start(&[]);
    for refused in ["NOSUCH", "GET", "SHUTDOWN"] {
        let mut client = server.client();
        client.call(&["MULTI"]);
        client.call(&["SET", "a", "1"]);
        let error = tests::render::render(&client.call(&[refused]));
        assert!(error.starts_with("(error) ERR"), "{refused}: {error}");
        tests::script::check(
            &mut client,
            "> EXEC\n(error) EXECABORT Transaction discarded because of previous errors.\n\
             > GET a\n(nil)\n> EXEC\n(error) ERR EXEC without MULTI\n",
        );
    }
    afresh(
        &server,
        "2",
        "
        > MULTI
        OK
        > MULTI
        (error) ERR MULTI calls can not be nested
        > WATCH a
        (error) ERR WATCH inside MULTI is not allowed
        > SET a 1
        QUEUED
        > EXEC now
        ~ (error) EXECABORT Transaction discarded because of: wrong number of arg*'exec'*
        > EXEC
        (error) ERR EXEC without MULTI
        > MULTI
        OK
        > SET a 1
        QUEUED
        > DISCARD
        OK
        > GET a
        (nil)
        ",
    );
}

#[test]
fn a_watch_is_broken_by_every_kind_of_change() {
    let server = Server::start(&[]);
    let changes = [
        ("SET k 2", true),
        ("SADD s a", false),
        ("SADD s b", true),
        ("DEL k", true),
        ("RENAME k j", true),
        ("RENAME j k", true),
        ("EXPIRE k 100", true),
        ("PEXPIRE k -1", true),
        ("FLUSHALL", true),
        ("FLUSHDB", true),
        ("SWAPDB 0 1", true),
        ("MSET x 1 k 2", true),
        ("COPY j k REPLACE", true),
        ("GET k", false),
        ("SET other 1", false),
        ("LPOP absent", false),
    ];
    for (change, breaks) in changes {
        let mut other = server.client();
        for words in [&["FLUSHALL"][..], &["MSET", "k", "1", "j", "2"], &["SADD", "s", "a"]] {
            other.call(words);
        }
        let mut client = server.client();
        client.call(&["WATCH", "k", "s"]);
        other.call(&change.split(' ').collect::<Vec<_>>());
        client.call(&["MULTI"]);
        client.call(&["PING"]);
        let reply = tests::render::render(&client.call(&["EXEC"]));
        assert_eq!(reply == "(nil)", breaks, "{change}: {reply}");
    }
}

#[test]
fn a_watched_key_that_expires_breaks_the_watch() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    play(
        &server,
        "
        > DEBUG SET-ACTIVE-EXPIRE 0
        OK
        > SET k v PX 1000
        OK
        > WATCH k
        OK
        > DEBUG SLEEP 1.05
        OK
        > MULTI
        OK
        > PING
        QUEUED
        > EXEC
        (nil)
        > WATCH k
        OK
        > MULTI
        OK
        > PING
        QUEUED
        > EXEC
        1) PONG
        ",
    );
}

#[test]
fn unwatch_and_the_ends_of_transactions_forget_the_watch() {
    let server = Server::start(&[]);
    for end in ["UNWATCH", "RESET", "EXEC", "DISCARD"] {
        let mut client = server.client();
        client.call(&["WATCH", "k"]);
        if matches!(end, "EXEC" | "DISCARD") {
            client.call(&["MULTI"]);
        }
        client.call(&[end]);
        server.client().call(&["INCR", "k"]);
        tests::script::check(
            &mut client,
            "> CLIENT LIST\n~ *multi=-1 watch=0*\n> MULTI\nOK\n> PING\nQUEUED\n> EXEC\n1) PONG\n",
        );
    }
}

#[test]
fn long_transactions_leave_the_worker_alone() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    client.call(&["MULTI"]);
    for number in 0..5000 {
        client.call(&["RPUSH", "list", &number.to_string()]);
    }
    client.call(&["SORT", "list", "DESC", "LIMIT", "0", "1"]);
    let reply = tests::render::render(&client.call(&["EXEC"]));
    assert!(reply.ends_with("5001) 1) \"4999\""), "{}", &reply[reply.len() - 80..]);
    tests::script::check(&mut client, "> LLEN list\n(integer) 5000\n> MULTI\nOK\n");
}
