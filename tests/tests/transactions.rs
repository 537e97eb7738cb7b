//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: what is queued runs at once or not at all, and a watch
//! is broken by whatever changes its key.

use tests::script::{afresh, play};
use tests::{Client, Server};

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

/// Each command is short enough for a worker, and all of them together are not.
#[test]
fn transactions_that_are_long_by_their_sum_leave_the_worker_alone() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let members: Vec<String> = (0..2000).map(|member| format!("member:{member}")).collect();
    for key in ["a", "b"] {
        let mut request = vec!["SADD", key];
        request.extend(members.iter().map(String::as_str));
        client.call(&request);
    }
    let elsewhere = |client: &mut Client| -> u64 {
        let line = client.info("worker_0");
        let count = line.split(',').find_map(|part| part.strip_prefix("elsewhere="));
        count.and_then(|count| count.parse().ok()).expect("it is a number")
    };
    for of_session in [false, true] {
        let before = elsewhere(&mut client);
        client.call(&["MULTI"]);
        for number in 0..400 {
            client.call(&["SINTERCARD", "2", "a", "b"]);
            if of_session && number % 100 == 50 {
                client.call(&["CLIENT", "SETNAME", "name"]);
            }
        }
        let replies = tests::render::render(&client.call(&["EXEC"]));
        let count = replies.matches("(integer) 2000").count();
        assert_eq!(count, 400, "all of them ran");
        assert!(elsewhere(&mut client) > before, "with commands of the session: {of_session}");
    }
}

/// The commands ran elsewhere, and are booked at their worker piece by piece.
#[test]
fn all_commands_of_a_long_transaction_are_booked() {
    const COUNT: usize = 5500;
    let server =
        Server::start(&["--worker-threads", "1", "--commandlog-request-larger-than", "100"]);
    let (mut client, mut monitor) = (server.client(), server.client());
    client.call(&["CONFIG", "SET", "commandlog-large-request-max-len", "100000"]);
    client.call(&["MULTI"]);
    let long = "x".repeat(200);
    for number in 0..COUNT {
        client.call(&["SET", &number.to_string(), &long]);
    }
    monitor.call(&["MONITOR"]);
    let replies = tests::render::render(&client.call(&["EXEC"]));
    assert_eq!(replies.matches(") OK").count(), COUNT);
    let is_of = |line: &str, number: usize| line.contains(&format!("\"SET\" \"{number}\" "));
    for number in 0..COUNT {
        let line = tests::render::text(&monitor.receive());
        assert!(is_of(&line, number), "{number}: {line}");
    }
    assert!(tests::render::text(&monitor.receive()).ends_with("\"EXEC\""));
    assert!(client.info("cmdstat_set").starts_with(&format!("calls={COUNT},")));
    assert!(client.info("cmdstat_exec").starts_with("calls=1,"));
    let remembered = tests::render::render(&client.call(&["COMMANDLOG", "LEN", "large-request"]));
    assert_eq!(remembered, format!("(integer) {COUNT}"));
}
