//! Sessions of the commands that give members of any type a time to live.

use crate::testing::{START, Session, check};

#[test]
fn a_member_gets_a_deadline() {
    let mut session = Session::new();
    session.call("SADD s a b c");
    assert_eq!(session.call("EXPIREMEMBER s a 10"), ":1");
    assert_eq!(session.journal(), [format!("PEXPIREMEMBERAT s a {}", START + 10_000)]);
    assert!(session.events().is_empty());
    assert_eq!(session.call("EXPIREMEMBER s x 10"), ":0");
    assert!(session.journal().is_empty());
    session.check(
        "EXPIREMEMBER none a 10
         FIELDTTL s a
         EXPIREMEMBER s a 20 s
         FIELDTTL s a
         EXPIREMEMBER s a 30000 MS
         FIELDTTL s a
         EXPIREMEMBERAT s a 1700000040
         FIELDTTL s a
         PEXPIREMEMBERAT s a 1700000050000
         FIELDTTL s a
         FIELDTTL s b
         FIELDTTL s x
         FIELDTTL none x",
        ":0\n:10\n:1\n:20\n:1\n:30\n:1\n:40\n:1\n:50\n:-1\n:-3\n:-2",
    );
    session.advance(50_000);
    session.check("SMISMEMBER s a b c\nFIELDTTL s a", "[:0 :1 :1]\n:-3");
}

#[test]
fn a_deadline_that_has_passed_removes_the_member() {
    let mut session = Session::new();
    session.call("SADD s a b c d");
    for (request, member) in [
        ("EXPIREMEMBER s a 0", "a"),
        ("EXPIREMEMBERAT s b 1", "b"),
        ("PEXPIREMEMBERAT s c -5", "c"),
    ] {
        assert_eq!(session.call(request), ":1");
        assert_eq!(session.journal(), [format!("SREM s {member}")]);
        assert_eq!(session.events(), ["srem s"]);
    }
    assert_eq!(session.call("EXPIREMEMBER s d -1"), ":1");
    assert_eq!(session.events(), ["srem s", "del s"]);
    assert_eq!(session.call("EXISTS s"), ":0");
}

#[test]
fn several_fields_get_a_deadline() {
    let mut session = Session::new();
    session.call("SADD s a b");
    assert_eq!(session.call("FIELDEXPIRE s 10 a x b"), "[:1 :-2 :1]");
    let at = START + 10_000;
    let journal = [format!("PEXPIREMEMBERAT s a {at}"), format!("PEXPIREMEMBERAT s b {at}")];
    assert_eq!(session.journal(), journal);
    assert_eq!(session.call("FIELDEXPIRE none 10 a b"), "[:-2 :-2]");
    assert_eq!(session.call("FIELDEXPIRE s 0 a"), "[:2]");
    assert_eq!(session.journal(), ["SREM s a"]);
    session.advance(10_000);
    assert_eq!(session.call("FIELDEXPIRE s 10 b"), "[:-2]");
    assert_eq!(session.journal(), ["SREM s b"], "the member had expired");
    assert_eq!(session.call("EXISTS s"), ":0");
}

#[test]
fn fields_of_hashes_get_a_deadline() {
    let mut session = Session::new();
    session.call("HSET h a 1 b 2");
    assert_eq!(session.call("EXPIREMEMBER h a 10"), ":1");
    assert_eq!(session.journal(), [format!("HPEXPIREAT h {} FIELDS 1 a", START + 10_000)]);
    assert_eq!(session.events(), ["hexpire h"]);
    session.check(
        "FIELDTTL h a\nHTTL h FIELDS 1 a\nFIELDTTL h b\nFIELDTTL h x",
        ":10\n[:10]\n:-1\n:-3",
    );
    assert_eq!(session.call("FIELDEXPIRE h 0 a x"), "[:2 :-2]");
    assert_eq!(session.journal(), ["HDEL h a"]);
    assert_eq!(session.events(), ["hdel h"]);
    assert_eq!(session.call("EXPIREMEMBERAT h b 1"), ":1");
    assert_eq!(session.events(), ["hdel h", "del h"]);
}

#[test]
fn arguments_are_checked_before_anything_changes() {
    check(
        "SET str v
         SADD s a
         EXPIREMEMBER str a 10
         EXPIREMEMBERAT str a 10
         PEXPIREMEMBERAT str a 10
         FIELDEXPIRE str 10 a
         FIELDTTL str a
         EXPIREMEMBER s a x
         EXPIREMEMBER s a 10 m
         EXPIREMEMBER s a 10 s s
         EXPIREMEMBER s a 9223372036854775807
         EXPIREMEMBERAT s a 9223372036854775807
         PEXPIREMEMBERAT s a x
         FIELDEXPIRE s x a
         FIELDEXPIRE s -1 a
         FIELDEXPIRE s 9223372036854775807 a
         EXPIREMEMBER s a
         EXPIREMEMBERAT s a
         PEXPIREMEMBERAT s a
         FIELDEXPIRE s 10
         FIELDTTL s
         FIELDTTL s a",
        "+OK
         :1
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -WRONGTYPE Operation against a key holding the wrong kind of value
         -ERR value is not an integer or out of range
         -ERR Invalid unit arg
         -ERR wrong number of arguments for 'expiremember' command
         -ERR invalid expire time in 'expiremember' command
         -ERR invalid expire time in 'expirememberat' command
         -ERR value is not an integer or out of range
         -ERR value is not an integer or out of range
         -ERR invalid expire time in 'fieldexpire' command
         -ERR invalid expire time in 'fieldexpire' command
         -ERR wrong number of arguments for 'expiremember' command
         -ERR wrong number of arguments for 'expirememberat' command
         -ERR wrong number of arguments for 'pexpirememberat' command
         -ERR wrong number of arguments for 'fieldexpire' command
         -ERR wrong number of arguments for 'fieldttl' command
         :-1",
    );
}

/// Fills a container of each type with `count` members, of which every `nth` is over after a
/// second: a hash `h`, a set `s` and a sorted set `z`.
fn filled(count: usize, nth: usize) -> Session {
    let mut session = Session::new();
    let members: Vec<String> = (0..count).map(|number| format!("member:{number}")).collect();
    let over: Vec<&str> = members.iter().step_by(nth).map(String::as_str).collect();
    session.call(&format!("HSET h {} v", members.join(" v ")));
    session.call(&format!("SADD s {}", members.join(" ")));
    session.call(&format!("ZADD z 1 {}", members.join(" 1 ")));
    for key in ["h", "s", "z"] {
        session.call(&format!("FIELDEXPIRE {key} 1 {}", over.join(" ")));
    }
    session.advance(1000);
    session
}

#[test]
fn commands_that_count_or_draw_members_remove_expired_ones_once() {
    for request in [
        "SCARD s",
        "SRANDMEMBER s",
        "SRANDMEMBER s 5",
        "SRANDMEMBER s -5",
        "SPOP s",
        "SPOP s 5",
        "HRANDFIELD h",
        "HRANDFIELD h 5",
        "HRANDFIELD h -5",
        "ZCARD z",
        "ZRANDMEMBER z",
        "ZRANK z member:1",
        "ZPOPMIN z",
    ] {
        let mut session = filled(2000, 2);
        session.call(request);
        let is_removal = |line: &&String| {
            line.starts_with("SREM") || line.starts_with("HDEL") || line.starts_with("ZREM")
        };
        let removed = session.journal().iter().filter(is_removal);
        let removed: usize = removed.map(|line| line.matches("member:").count()).sum();
        assert!(removed >= 1000, "{request} left what is over to the next: {removed}");
        session.call(request);
        let over = session.journal().iter().flat_map(|line| line.split(' ')).filter(|word| {
            let number = word.strip_prefix("member:").map(str::parse::<usize>);
            number.is_some_and(|number| number.expect("members are numbered") % 2 == 0)
        });
        assert_eq!(over.count(), 0, "{request} found something over again");
    }
}

#[test]
fn a_few_members_that_are_over_are_no_work_of_the_whole_container() {
    for request in [
        "SCARD s",
        "SPOP s",
        "SADD s member:1",
        "SREM s member:1",
        "HRANDFIELD h",
        "HSET h member:1 w",
        "HDEL h member:1",
        "ZCARD z",
        "ZADD z 2 member:1",
    ] {
        let mut session = filled(10_000, 5000);
        session.call(request);
        assert!(!session.ran_heavy(), "{request} goes by what is over, not by what is there");
    }
}

#[test]
fn very_many_members_that_are_over_are_removed_where_no_one_waits() {
    for request in ["SCARD s", "HRANDFIELD h", "ZCARD z", "SADD s member:1", "HSET h member:1 w"] {
        let mut session = filled(10_000, 1);
        session.call(request);
        assert!(session.ran_heavy(), "{request}");
    }
}
