//! CLIENT TRACKING: a client that keeps copies of what it reads is told when they are old, as by
//! the real servers, and no copy is ever older than what it was told.

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Oracle, Server, check, play};

/// Ours, and every real one.
pub(crate) fn everywhere(script: &str) {
    play(&Server::start(&[]), script);
    for oracle in Oracle::ALL {
        play(&oracle.start(&[]), script);
    }
}

/// Ours, and those real ones that put a client's own invalidations behind its reply.
pub(crate) fn in_newer_ones(script: &str) {
    play(&Server::start(&[]), script);
    play(&Oracle::redis82(), script);
    play(&Oracle::valkey91(), script);
}

const COPIES: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON
    OK
    alice> CLIENT TRACKINGINFO
    1# "flags" => 1~ "on"
    2# "redirect" => (integer) 0
    3# "prefixes" => (empty array)
    alice> CLIENT GETREDIR
    (integer) 0
    alice> MGET a b missing
    1) (nil)
    2) (nil)
    3) (nil)
    > MSET b 1 a 1
    OK
    alice<
    1> "invalidate"
    2> 1) "b"
    alice<
    1> "invalidate"
    2> 1) "a"
    # Who was told is told no more until it reads again.
    > SET a 2
    OK
    alice> GET a
    "2"
    # Databases are not told apart.
    > SELECT 3
    OK
    > SET a elsewhere
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    > SELECT 0
    OK
    # A change to the same is a change; none is none.
    alice> MGET a b
    ...
    > SET a 2
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    > DEL a b nothing
    (integer) 2
    alice<
    1> "invalidate"
    2> 1) "b"
    alice> EXISTS l
    (integer) 0
    > DEL l
    (integer) 0
    > LREM l 0 x
    (integer) 0
    > RPUSH l 1 2
    (integer) 2
    alice<
    1> "invalidate"
    2> 1) "l"
    alice> LRANGE l 0 -1
    ...
    > LREM l 0 x
    (integer) 0
    > LPUSH l x
    (integer) 3
    alice<
    1> "invalidate"
    2> 1) "l"
    # Commands that write are not remembered.
    alice> GETEX l2
    (nil)
    > SET l2 1
    OK
    # What is moved about is altered at both ends.
    alice> MGET l l2 l3
    ...
    > RENAME l2 l3
    OK
    alice<
    1> "invalidate"
    2> 1) "l2"
    alice<
    1> "invalidate"
    2> 1) "l3"
    alice> MGET l3 l4
    ...
    > COPY l3 l4
    (integer) 1
    alice<
    1> "invalidate"
    2> 1) "l4"
    > EXPIRE l3 100
    (integer) 1
    alice<
    1> "invalidate"
    2> 1) "l3"
    # A transaction's changes come once it is over, each key once.
    alice> MGET a b
    ...
    > MULTI
    OK
    > SET a 1
    QUEUED
    > SET b 1
    QUEUED
    > SET a 2
    QUEUED
    alice<
    (silence)
    > EXEC
    ...
    alice<
    1> "invalidate"
    2> 1) "a"
    alice<
    1> "invalidate"
    2> 1) "b"
    # Nothing comes after the end.
    alice> MGET a b
    ...
    alice> CLIENT TRACKING OFF
    OK
    > SET a 1
    OK
    alice> CLIENT TRACKING ON
    OK
    alice> GET b
    "1"
    alice> RESET
    RESET
    > SET b 1
    OK
    alice> CLIENT TRACKINGINFO
    1) "flags"
    2) 1) "off"
    3) "redirect"
    4) (integer) -1
    5) "prefixes"
    6) (empty array)
    alice<
    (silence)
"#;

#[test]
fn a_client_that_read_a_key_is_told_once_when_it_changes() {
    everywhere(COPIES);
}

const CHOICES: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON OPTIN
    OK
    alice> GET a
    (nil)
    > SET a 1
    OK
    alice> CLIENT CACHING YES
    OK
    alice> CLIENT TRACKINGINFO
    1# "flags" =>
       1~ "on"
       2~ "optin"
       3~ "caching-yes"
    2# "redirect" => (integer) 0
    3# "prefixes" => (empty array)
    alice> GET a
    "1"
    alice> GET b
    (nil)
    > MSET b 1 a 1
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    # It is for the next command, which may be refused.
    alice> CLIENT CACHING YES
    OK
    alice> GET
    ...
    alice> GET a
    "1"
    > SET a 1
    OK
    # It is for a whole transaction, or for the rest of one.
    alice> CLIENT CACHING YES
    OK
    alice> MULTI
    OK
    alice> GET a
    QUEUED
    alice> GET b
    QUEUED
    alice> EXEC
    ...
    alice> MULTI
    OK
    alice> GET c
    QUEUED
    alice> CLIENT CACHING YES
    QUEUED
    alice> GET d
    QUEUED
    alice> EXEC
    ...
    > MSET a 1 b 1 c 1 d 1
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    alice<
    1> "invalidate"
    2> 1) "b"
    alice<
    1> "invalidate"
    2> 1) "d"
    alice> CLIENT CACHING NO
    (error) ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.
    alice> CLIENT TRACKING ON OPTOUT
    ...
    alice> CLIENT TRACKING OFF
    OK
    alice> CLIENT TRACKING ON OPTOUT
    OK
    alice> CLIENT CACHING NO
    OK
    alice> GET a
    "1"
    alice> GET b
    "1"
    > MSET a 1 b 1
    OK
    alice<
    1> "invalidate"
    2> 1) "b"
    alice<
    (silence)
"#;

#[test]
fn clients_may_choose_what_is_remembered() {
    everywhere(CHOICES);
}

const REFUSED: &str = r#"
    > CLIENT CACHING YES
    ~ (error) ERR CLIENT CACHING can be called only when the client is in tracking mode *
    > CLIENT TRACKING
    (error) ERR wrong number of arguments for 'client|tracking' command
    > CLIENT TRACKING MAYBE
    (error) ERR syntax error
    > CLIENT TRACKING ON SOON
    (error) ERR syntax error
    > CLIENT TRACKING ON PREFIX
    (error) ERR syntax error
    > CLIENT TRACKING ON REDIRECT x
    (error) ERR value is not an integer or out of range
    > CLIENT TRACKING ON REDIRECT -1
    (error) ERR The client ID you want redirect to does not exist
    > CLIENT TRACKING OFF REDIRECT 123456
    (error) ERR The client ID you want redirect to does not exist
    > CLIENT TRACKING ON PREFIX a
    (error) ERR PREFIX option requires BCAST mode to be enabled
    > CLIENT TRACKING ON BCAST OPTIN OPTOUT
    (error) ERR OPTIN and OPTOUT are not compatible with BCAST
    > CLIENT TRACKING ON OPTIN OPTOUT
    (error) ERR You can't specify both OPTIN mode and OPTOUT mode
    > CLIENT TRACKING ON BCAST PREFIX ab PREFIX a
    ~ (error) ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single *
    > CLIENT TRACKING ON BCAST PREFIX ab PREFIX b
    OK
    > CLIENT TRACKING ON BCAST PREFIX c PREFIX a
    ~ (error) ERR Prefix 'a' overlaps with an existing prefix 'ab'. Prefixes for a single *
    > CLIENT TRACKING ON
    ~ (error) ERR You can't switch BCAST mode on/off before disabling tracking for this client*
    > CLIENT CACHING YES
    (error) ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.
    > CLIENT TRACKING OFF PREFIX x OPTIN OPTOUT
    OK
    > CLIENT TRACKING ON OPTOUT
    OK
    > CLIENT CACHING MAYBE
    (error) ERR syntax error
    > CLIENT TRACKING ON OPTIN
    ~ (error) ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client*
    > CLIENT TRACKING ON NOLOOP
    OK
    > CLIENT TRACKINGINFO
    1) "flags"
    2) 1) "on"
       2) "noloop"
    3) "redirect"
    4) (integer) 0
    5) "prefixes"
    6) (empty array)
    > GET a
    (nil)
    > SET a 1
    OK
    <
    (silence)
"#;

#[test]
fn what_makes_no_sense_is_refused_as_redis_does() {
    everywhere(REFUSED);
}

const WAITING: &str = r#"
    alice> HELLO 3
    ...
    alice> CLIENT TRACKING ON
    OK
    alice> GET a
    (nil)
    alice> BLPOP queue 0
    > SET a 1
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    > RPUSH queue x
    (integer) 1
    alice<
    1) "queue"
    2) "x"
    # What serves somebody else alters the key as well.
    alice> LRANGE queue2 0 -1
    (empty array)
    bob> BLPOP queue 0
    > RPUSH queue y
    (integer) 1
    bob<
    1) "queue"
    2) "y"
    bob> BLMOVE queue1 queue2 LEFT LEFT 0
    > RPUSH queue1 z
    (integer) 1
    bob<
    "z"
    alice<
    1> "invalidate"
    2> 1) "queue2"
    # Pushes come whether replies are wanted or not.
    alice> GET a
    "1"
    alice> CLIENT REPLY OFF
    > SET a 1
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
    alice> GET a
    alice> CLIENT REPLY ON
    OK
    > SET a 2
    OK
    alice<
    1> "invalidate"
    2> 1) "a"
"#;

#[test]
fn a_tracking_client_that_waits_or_wants_no_replies_is_told() {
    everywhere(WAITING);
}

#[test]
fn swapped_databases_make_all_copies_old() {
    // Redis and Valkey say nothing, and leave clients with the other database's values.
    play(
        &Server::start(&[]),
        r#"
        alice> HELLO 3
        ...
        alice> CLIENT TRACKING ON
        OK
        alice> GET a
        (nil)
        > SWAPDB 0 1
        OK
        alice<
        1> "invalidate"
        2> (nil)
        "#,
    );
}

#[test]
fn invalidations_do_not_come_in_the_middle_of_a_reply() {
    const MEMBERS: usize = 300_000;
    let server = Server::start(&[]);
    let (mut writer, mut reader) = (server.client(), server.client3());
    let members: Vec<_> = (0..MEMBERS).map(|number| format!("member:{number:030}")).collect();
    for piece in members.chunks(10_000) {
        let words = [&["SADD".to_owned(), "big".to_owned()], piece].concat();
        writer.call(&words);
    }
    check(&mut reader, "> CLIENT TRACKING ON\nOK\n> GET a\n(nil)\n> SUBSCRIBE news\n...");
    let Value::Integer(id) = reader.call(&["CLIENT", "ID"]) else { panic!("a number") };
    reader.send(&["SMEMBERS", "big"]);
    eventually("the reply has begun", || {
        let line = render(&writer.call(&["CLIENT", "LIST", "ID", &id.to_string()]));
        let sent = line.split_once("tot-net-out=").and_then(|(_, rest)| rest.split(' ').next());
        sent.and_then(|sent| sent.parse().ok()).is_some_and(|sent: usize| sent > 100_000)
    });
    // Until the reader reads, the reply is not all made.
    for _ in 0..100 {
        writer.call(&["PUBLISH", "news", "x"]);
    }
    writer.call(&["SET", "a", "1"]);
    writer.call(&["SADD", "big", "one more"]);
    let (mut told, mut replies) = (Vec::new(), 0);
    while told.len() < 102 || replies < 1 {
        match reader.receive() {
            Value::Set(members) => {
                assert_eq!(members.len(), MEMBERS);
                replies += 1;
            }
            message => told.push((render(&message), replies)),
        }
    }
    let big = told.iter().find(|(message, _)| message.contains("\"big\""));
    assert_eq!(big.map(|(_, replies)| *replies), Some(1), "a read is told of before its reply");
}
