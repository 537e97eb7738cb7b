//! A tracking client's own changes: they are told behind its reply, or not at all (NOLOOP). What is
//! changed for another client that waited is none of them.

use tests::Server;
use tests::render::render;

use crate::tracking::{everywhere, in_newer_ones};

const OWN: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON
    OK
    alice> MGET a b
    ...
    alice> SET a 1
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    alice> SET a 2
    OK
    # What is read in a transaction before it is changed there is old at its end.
    alice> MULTI
    OK
    alice> GET a
    QUEUED
    alice> SET a 3
    QUEUED
    alice> GET a
    QUEUED
    alice> EXEC
    1) "2"
    2) OK
    3) "3"
    alice<
    1> "invalidate"
    2> 1) "a"
    > SET a 4
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    alice> MULTI
    OK
    alice> GET a
    QUEUED
    alice> SET a 3
    QUEUED
    alice> EXEC
    1) "4"
    2) OK
    alice<
    1> "invalidate"
    2> 1) "a"
    > SET a 4
    OK
    # Nobody is told of his own changes who wants to hear nothing of them, and the key is forgotten.
    alice> CLIENT TRACKING ON NOLOOP
    OK
    alice> GET a
    "4"
    alice> SET a 5
    OK
    > SET a 6
    OK
    alice> GET a
    "6"
    > SET a 7
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    # A flush is told to everyone.
    alice> GET a
    "7"
    > FLUSHALL
    OK
    alice<
    1> "invalidate"
    2> (nil)
    > SELECT 9
    OK
    > FLUSHDB
    OK
    alice<
    1> "invalidate"
    2> (nil)
    alice<
    (silence)
"#;

#[test]
fn own_changes_are_told_behind_the_reply_unless_they_are_not_wanted() {
    in_newer_ones(OWN);
}

const SERVED: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON NOLOOP
    OK
    alice> LRANGE dst 0 -1
    (empty array)
    bob> BLMOVE src dst LEFT RIGHT 0
    # Her push has bob served; what he changes is no change of hers.
    alice> RPUSH src x
    (integer) 1
    bob<
    "x"
    alice<
    1> "invalidate"
    2> 1) "dst"
    alice> LRANGE dst 0 -1
    1) "x"
    bob> BLMOVE src dst LEFT RIGHT 0
    alice> MULTI
    OK
    alice> RPUSH src y
    QUEUED
    alice> EXEC
    1) (integer) 1
    bob<
    "y"
    alice<
    1> "invalidate"
    2> 1) "dst"
    carol> HELLO 3
    ...
    carol> CLIENT TRACKING ON BCAST NOLOOP PREFIX dst
    OK
    bob> BLMOVE src dst LEFT RIGHT 0
    carol> RPUSH src z
    (integer) 1
    bob<
    "z"
    carol<
    1> "invalidate"
    2> 1) "dst"
    # Nor is it a change of the one that pushed to the client that is served.
    dave> HELLO 3
    ...
    dave> CLIENT TRACKING ON NOLOOP
    OK
    dave> LLEN own
    (integer) 0
    dave> BLMOVE src own LEFT RIGHT 0
    > RPUSH src z
    (integer) 1
    dave<
    "z"
    dave<
    (silence)
"#;

#[test]
fn what_is_changed_for_a_client_that_waited_is_its_own_change() {
    everywhere(SERVED);
}

/// Another thread commits while this client's session has not looked up yet.
#[test]
fn own_changes_that_another_thread_makes_are_told_behind_the_reply() {
    const LIBRARY: &str = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client3();
    client.call(&["CLIENT", "TRACKING", "ON"]);
    for _ in 0..2000 {
        for words in [
            &["GET", "k"][..],
            &["MULTI"],
            &["SET", "k", "v"],
            &["FUNCTION", "LOAD", "REPLACE", LIBRARY],
        ] {
            client.call(words);
        }
        client.send(&["EXEC"]);
        assert_eq!(render(&client.receive()), "1) OK\n2) \"l\"");
        assert_eq!(render(&client.receive()), "1> \"invalidate\"\n2> 1) \"k\"");
    }
}
