//! Sessions with members whose time comes: no command sees them after.

use crate::testing::{START, Session, check};

#[test]
fn members_get_deadlines_and_lose_them() {
    let mut session = Session::new();
    session.check(
        "ZADD z 1 a 2 b 3 c
         ZEXPIRE z 10 MEMBERS 2 a x
         ZPEXPIRE z 20000 NX MEMBERS 2 a b
         ZEXPIREAT z 1700000005 GT MEMBERS 1 a
         ZPEXPIREAT z 1700000005000 LT MEMBERS 1 a
         ZTTL z MEMBERS 4 a b c x
         ZPTTL z MEMBERS 1 b
         ZEXPIRETIME z MEMBERS 1 a
         ZPEXPIRETIME z MEMBERS 2 a c
         ZPERSIST z MEMBERS 3 a c x
         ZTTL z MEMBERS 1 a
         ZTTL none MEMBERS 2 a b
         ZEXPIRE none 10 MEMBERS 1 a
         EXPIREMEMBER z a 10
         FIELDTTL z a
         OBJECT ENCODING z",
        ":3\n[:1 :-2]\n[:0 :1]\n[:0]\n[:1]\n[:5 :20 :-1 :-2]\n[:20000]\n[:1700000005]\n\
         [:1700000005000 :-1]\n[:1 :-1 :-2]\n[:-1]\n[:-2 :-2]\n[:-2]\n:1\n:10\n\"skiplist\"",
    );
    assert_eq!(session.call("ZEXPIRE z 1 MEMBERS 2 a x"), "[:1 :-2]");
    let at = START + 1000;
    assert_eq!(session.journal(), [format!("ZPEXPIREAT z {at} MEMBERS 1 a")]);
    assert_eq!(session.events(), ["zexpire z"]);
    assert_eq!(session.call("ZPERSIST z MEMBERS 1 a"), "[:1]");
    assert_eq!(session.events(), ["zpersist z"]);
    assert_eq!(session.call("ZEXPIRE z 0 MEMBERS 1 a"), "[:2]");
    assert_eq!(session.journal(), ["ZREM z a"]);
    assert_eq!(session.events(), ["zrem z"]);
    assert_eq!(session.call("ZEXPIREAT z 1 MEMBERS 2 b c"), "[:2 :2]");
    assert_eq!(session.events(), ["zrem z", "del z"]);
}

#[test]
fn members_whose_time_is_over_are_seen_by_no_command() {
    // Each of these begins with four members of which one is over.
    for (request, reply) in [
        ("ZCARD z", ":3"),
        ("ZCOUNT z -inf inf", ":3"),
        ("ZLEXCOUNT z - +", ":3"),
        ("ZRANGE z 0 -1 WITHSCORES", r#"["a" "0" "c" "0" "d" "0"]"#),
        ("ZRANGE z 1 1", r#"["c"]"#),
        ("ZREVRANGE z 0 1", r#"["d" "c"]"#),
        ("ZRANGEBYSCORE z -inf inf LIMIT 1 1", r#"["c"]"#),
        ("ZRANGEBYLEX z [b +", r#"["c" "d"]"#),
        ("ZRANGESTORE e z 0 -1", ":3"),
        ("ZRANK z c", ":1"),
        ("ZREVRANK z a", ":2"),
        ("ZRANK z b", "nil"),
        ("ZSCORE z b", "nil"),
        ("ZMSCORE z a b", r#"["0" nil]"#),
        ("ZRANDMEMBER z -1", r#"["a"]"#),
        ("ZSCAN z 0 MATCH b", r#"["0" []]"#),
        ("ZPOPMIN z 2", r#"["a" "0" "c" "0"]"#),
        ("ZPOPMAX z 4", r#"["d" "0" "c" "0" "a" "0"]"#),
        ("ZMPOP 1 z MIN COUNT 9", r#"["z" [["a" "0"] ["c" "0"] ["d" "0"]]]"#),
        ("ZREM z b", ":0"),
        ("ZREMRANGEBYRANK z 1 1", ":1"),
        ("ZREMRANGEBYSCORE z -inf inf", ":3"),
        ("ZREMRANGEBYLEX z [b [c", ":1"),
        ("ZADD z XX CH 7 b", ":0"),
        ("ZADD z 7 b", ":1"),
        ("ZINCRBY z 7 b", "\"7\""),
        ("ZUNION 1 z", r#"["a" "c" "d"]"#),
        ("ZINTERCARD 2 z z", ":3"),
        ("ZDIFFSTORE e 1 z", ":3"),
        ("GEOPOS z b", "[nil-array]"),
        ("SORT z ALPHA LIMIT 1 2", r#"["c" "d"]"#),
        ("SORT_RO z BY nosort DESC", r#"["d" "c" "a"]"#),
        ("ZTTL z MEMBERS 1 b", "[:-2]"),
        ("ZEXPIRE z 10 MEMBERS 1 b", "[:-2]"),
        ("ZCOLLECT z", "+OK"),
    ] {
        let mut session = Session::new();
        session.call("ZADD z 0 a 0 b 0 c 0 d");
        session.call("ZPEXPIRE z 100 MEMBERS 1 b");
        session.advance(100);
        if request.starts_with("ZRANDMEMBER") {
            session.call("ZREM z c d");
        }
        assert_eq!(session.call(request), reply, "{request}");
        if !request.starts_with("ZRANDMEMBER") {
            assert_eq!(
                session.journal().first().map(String::as_str),
                Some("ZREM z b"),
                "{request}"
            );
            assert_eq!(session.events()[0], "zexpired z", "{request}");
        }
    }
}

#[test]
fn a_set_goes_with_its_last_member() {
    let mut session = Session::new();
    session.call("ZADD z 0 a");
    session.call("ZEXPIRE z 1 MEMBERS 1 a");
    session.advance(1000);
    assert_eq!(session.call("ZCARD z"), ":0");
    assert_eq!(session.events(), ["zexpired z", "del z", "keymiss z"]);
    assert_eq!(session.call("BZPOPMIN z 0"), "+waits for 1 keys");
    assert_eq!(session.call("EXISTS z"), ":0");
}

#[test]
fn a_score_changes_and_the_deadline_stays() {
    check(
        "ZADD z 1 a 2 b
         ZEXPIRE z 10 MEMBERS 1 a
         ZADD z 3 a
         ZINCRBY z 1 a
         ZTTL z MEMBERS 1 a
         COPY z y
         ZTTL y MEMBERS 2 a b",
        ":2\n[:1]\n:0\n\"4\"\n[:10]\n:1\n[:10 :-1]",
    );
}

#[test]
fn words_that_are_wrong_are_refused() {
    check(
        "SET text x
         ZADD z 1 a
         ZEXPIRE text 10 MEMBERS 1 a
         ZTTL text MEMBERS 1 a
         ZPERSIST text MEMBERS 1 a
         ZCOLLECT z text
         ZEXPIRE z 10 FIELDS 1 a
         ZEXPIRE z 10 MEMBERS 2 a
         ZEXPIRE z 10 MEMBERS 0 a
         ZEXPIRE z x MEMBERS 1 a
         ZEXPIRE z -1 MEMBERS 1 a
         ZEXPIRE z 9223372036854775807 MEMBERS 1 a
         ZEXPIRE z 10 NX GT MEMBERS 1 a
         ZTTL z MEMBERS x a
         ZTTL z MEMBERS 1
         ZCOLLECT *",
        "+OK
         :1
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -ERR Mandatory argument MEMBERS is missing or not at the right position
         -ERR The `numMembers` parameter must match the number of arguments
         -ERR Parameter `numMembers` should be greater than 0
         -ERR value is not an integer or out of range
         -ERR invalid expire time, must be >= 0
         -ERR invalid expire time in 'zexpire' command
         -ERR Mandatory argument MEMBERS is missing or not at the right position
         -ERR Parameter `numMembers` should be greater than 0
         -ERR wrong number of arguments for 'zttl' command
         +OK",
    );
}
