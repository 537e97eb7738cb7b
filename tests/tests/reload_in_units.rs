//! DEBUG RELOAD and DEBUG LOADAOF as steps of transactions and scripts: the data come back within
//! the unit, at one moment for all others, as in Redis; memory and log agree behind it.

use tests::server::eventually;
use tests::{Oracle, Server, check};

/// Without a log.
const RELOADS: &[&str] = &[
    // What the transaction did before is saved with the rest.
    r"
    > SET kept 1
    OK
    > MULTI
    OK
    > SET a 1
    QUEUED
    > RPUSH list x y
    QUEUED
    > DEBUG RELOAD
    QUEUED
    > GET a
    QUEUED
    > INCR a
    QUEUED
    > LRANGE list 0 -1
    QUEUED
    > EXEC
    1) OK
    2) (integer) 2
    3) OK
    4) ~1~
    5) (integer) 2
    6) 1) ~x~
       2) ~y~
    > GET a
    ~2~
    > GET kept
    ~1~
    ",
    // What is not saved is gone.
    r"
    > SET a old
    OK
    > DEBUG RELOAD
    OK
    > MULTI
    OK
    > SET a new
    QUEUED
    > SET b new
    QUEUED
    > DEBUG RELOAD NOSAVE
    QUEUED
    > MGET a b
    QUEUED
    > DEBUG RELOAD WITHOUT
    QUEUED
    > SELECT 3
    QUEUED
    > SET c new
    QUEUED
    > DEBUG RELOAD
    QUEUED
    > GET c
    QUEUED
    > EXEC
    1) OK
    2) OK
    3) OK
    4) 1) ~old~
       2) (nil)
    5) (error) ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.
    6) OK
    7) OK
    8) OK
    9) ~new~
    > GET c
    ~new~
    > SELECT 0
    OK
    > KEYS *
    1) ~a~
    ",
    // Behind FLUSHALL, beside a watch that it breaks.
    r"
    > SET a 1
    OK
    > WATCH a
    OK
    > MULTI
    OK
    > FLUSHALL
    QUEUED
    > SET b 1
    QUEUED
    > DEBUG RELOAD
    QUEUED
    > KEYS *
    QUEUED
    > EXEC
    1) OK
    2) OK
    3) OK
    4) 1) ~b~
    ",
    // Within scripts, which may ask for it where that is allowed.
    r"
    > DEBUG SET-DISABLE-DENY-SCRIPTS 1
    OK
    > EVAL ~redis.call('SET', 'a', 1) redis.call('DEBUG', 'RELOAD') return 1~ 1 a
    (integer) 1
    > INCR a
    (integer) 2
    > MULTI
    OK
    > INCR a
    QUEUED
    > EVAL ~redis.call('INCR', 'a') redis.call('DEBUG', 'RELOAD') return 4~ 0
    QUEUED
    > GET a
    QUEUED
    > EXEC
    1) (integer) 3
    2) (integer) 4
    3) ~4~
    > DEBUG SET-DISABLE-DENY-SCRIPTS 0
    OK
    ",
];

/// With a log: what the transaction did before is not in it yet.
const LOADS: &[&str] = &[
    r"
    > SET a 5
    OK
    > MULTI
    OK
    > SET b 1
    QUEUED
    > INCR a
    QUEUED
    > DEBUG LOADAOF
    QUEUED
    > MGET a b
    QUEUED
    > INCR a
    QUEUED
    > EXEC
    1) OK
    2) (integer) 6
    3) OK
    4) 1) ~5~
       2) (nil)
    5) (integer) 6
    > GET a
    ~6~
    ",
    r"
    > MULTI
    OK
    > SET c 1
    QUEUED
    > DEBUG RELOAD
    QUEUED
    > INCR c
    QUEUED
    > EXEC
    1) OK
    2) OK
    3) (integer) 2
    ",
];

fn said(session: &str) -> String {
    session.replace('~', "\"")
}

#[test]
fn a_reload_is_a_step_like_any_other() {
    for server in Oracle::Redis82.beside(&["--save", "", "--enable-debug-command", "yes"]) {
        for session in RELOADS {
            let mut client = server.client();
            check(&mut client, "> FLUSHALL\nOK");
            check(&mut client, &said(session));
        }
    }
}

#[test]
fn memory_and_log_agree_behind_a_load_within_a_unit() {
    let own = ["--save", "", "--appendonly", "yes", "--enable-debug-command", "yes"];
    let [mut ours, theirs] = Oracle::Redis82.beside(&own);
    for server in [&ours, &theirs] {
        let mut client = server.client();
        eventually("no rewrite is under way", || client.info("aof_rewrite_in_progress") == "0");
        LOADS.iter().for_each(|session| check(&mut client, &said(session)));
    }
    ours.kill();
    ours.restart();
    let mut client = ours.client();
    check(&mut client, "> MGET a b c\n1) \"6\"\n2) (nil)\n3) \"2\"");
}

/// Where somebody waits, a transaction keeps what it would need to undo its changes.
#[test]
fn a_waiter_is_served_from_what_a_reload_brought_back() {
    let settings = ["--save", "", "--enable-debug-command", "yes", "--worker-threads", "2"];
    for server in [Oracle::Redis82.start(&settings[..4]), Server::start(&settings)] {
        let mut client = server.client();
        let (mut waiter, mut other) = (server.client(), server.client());
        waiter.send(&["BLPOP", "queue", "0"]);
        other.send(&["BLPOP", "nothing", "0"]);
        eventually("both wait", || client.info("blocked_clients") == "2");
        check(
            &mut client,
            &said(
                r"
                > SET a old
                OK
                > DEBUG RELOAD
                OK
                > SET a new
                OK
                > DEBUG RELOAD NOSAVE
                OK
                > GET a
                ~old~
                > MULTI
                OK
                > RPUSH queue x y
                QUEUED
                > DEBUG RELOAD
                QUEUED
                > LLEN queue
                QUEUED
                > EXEC
                1) (integer) 2
                2) OK
                3) (integer) 2
                > LRANGE queue 0 -1
                1) ~y~
                ",
            ),
        );
        check(&mut waiter, "<\n1) \"queue\"\n2) \"x\"");
        assert!(other.is_silent());
    }
}
