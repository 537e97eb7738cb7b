//! Sessions of the set commands; what they say beyond replies stands beside them.

mod algebra;
mod expiry;

use std::collections::BTreeSet;

use base::Random;
use proto::value::Value;

use crate::testing::{Session, check};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// The members that a reply tells, sorted.
#[track_caller]
fn members_of(session: &mut Session, request: &str) -> Vec<String> {
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let (Value::Array(members) | Value::Set(members)) = session.value_of(&words) else {
        panic!("{request} replies members");
    };
    let text = |member: &Value| {
        String::from_utf8(member.as_bytes().expect("a member is bytes").to_vec()).unwrap()
    };
    let mut members: Vec<String> = members.iter().map(text).collect();
    members.sort();
    members
}

/// Journal and events of the last request; that a key was missed is not what these tests are about.
#[track_caller]
fn told(session: &Session, journal: &[&str], events: &[&str]) {
    assert_eq!(session.journal(), journal);
    let told = session.events().iter().filter(|event| !event.starts_with("keymiss "));
    assert_eq!(told.collect::<Vec<_>>(), events);
}

fn fill(session: &mut Session, key: &str, numbers: impl Iterator<Item = u32>, prefix: &str) {
    let members: Vec<String> = numbers.map(|number| format!("{prefix}{number}")).collect();
    for members in members.chunks(1000) {
        session.call(&format!("SADD {key} {}", members.join(" ")));
    }
}

#[test]
fn members_come_and_go() {
    let mut session = Session::new();
    assert_eq!(session.call("SADD s b a b"), ":2");
    told(&session, &["SADD s b a b"], &["new s", "sadd s"]);
    assert_eq!(session.call("SADD s a"), ":0");
    told(&session, &[], &[]);
    assert_eq!(session.call("SREM s zz"), ":0");
    told(&session, &[], &[]);
    assert_eq!(session.call("SREM s a zz"), ":1");
    told(&session, &["SREM s a zz"], &["srem s"]);
    assert_eq!(session.call("SREM s b x"), ":1");
    told(&session, &["SREM s b x"], &["srem s", "del s"]);
    session.check(
        "EXISTS s
         SREM s a
         SADD
         SADD s
         SREM s
         SADD s 1 2 3
         OBJECT ENCODING s
         SADD s x
         OBJECT ENCODING s
         SCARD s",
        ":0
         :0
         -ERR wrong number of arguments for 'sadd' command
         -ERR wrong number of arguments for 'sadd' command
         -ERR wrong number of arguments for 'srem' command
         :3
         \"intset\"
         :1
         \"listpack\"
         :4",
    );
}

#[test]
fn other_types_are_refused_wherever_they_stand() {
    let mut session = Session::new();
    session.call("SET str v");
    session.call("SADD s a");
    for request in [
        "SADD str a",
        "SADDEX str 10 a",
        "SREM str a",
        "SISMEMBER str a",
        "SMISMEMBER str a",
        "SCARD str",
        "SMEMBERS str",
        "SPOP str",
        "SPOP str 0",
        "SPOP str 2",
        "SRANDMEMBER str",
        "SRANDMEMBER str 1",
        "SMOVE str d m",
        "SMOVE str str m",
        "SMOVE s str m",
        "SMOVE s str a",
        "SINTER none str",
        "SINTER s none str",
        "SUNION none str",
        "SDIFF none str",
        "SDIFF s str",
        "SINTERSTORE s none str",
        "SUNIONSTORE s none str",
        "SDIFFSTORE s none str",
        "SINTERCARD 2 none str",
        "SUNIONCARD 2 none str",
        "SUNIONCARD 2 none str APPROX",
        "SDIFFCARD 2 none str",
        "SSCAN str 0",
        "SSCAN str 0 FOO",
    ] {
        assert_eq!(session.call(request), WRONG_TYPE, "{request}");
        told(&session, &[], &[]);
    }
    assert_eq!(session.call("SMEMBERS s"), r#"["a"]"#);
    assert_eq!(session.call("SMOVE none str m"), ":0", "the destination is not looked at");
}

#[test]
fn membership_is_asked_for_one_or_many() {
    check(
        "SISMEMBER none a
         SMISMEMBER none a b
         SADD s a 1
         SISMEMBER s a
         SISMEMBER s b
         SMISMEMBER s a b 1 01
         SCARD none
         SMEMBERS none
         SISMEMBER s
         SMISMEMBER s
         SCARD
         SMEMBERS",
        ":0
         [:0 :0]
         :2
         :1
         :0
         [:1 :0 :1 :0]
         :0
         []
         -ERR wrong number of arguments for 'sismember' command
         -ERR wrong number of arguments for 'smismember' command
         -ERR wrong number of arguments for 'scard' command
         -ERR wrong number of arguments for 'smembers' command",
    );
}

#[test]
fn sets_are_sets_in_resp3() {
    Session::new().resp3().check(
        "SMEMBERS none
         SADD s a
         SMEMBERS s
         SINTER s s
         SINTER none
         SUNION s none
         SDIFF s none
         SRANDMEMBER s 2
         SRANDMEMBER none 2
         SRANDMEMBER none
         SMISMEMBER s a
         SSCAN s 0
         SPOP none
         SPOP none 1
         SPOP s 0
         SPOP s 1",
        r#"~[]
         :1
         ~["a"]
         ~["a"]
         ~[]
         ~["a"]
         ~["a"]
         ["a"]
         []
         nil
         [:1]
         ["0" ["a"]]
         nil
         ~[]
         ~[]
         ~["a"]"#,
    );
}

#[test]
fn spop_journals_what_it_took() {
    let mut session = Session::new();
    session.call("SADD s a");
    assert_eq!(session.call("SPOP s"), "\"a\"");
    told(&session, &["SREM s a"], &["spop s", "del s"]);
    session.call("SADD s a b c d e");
    let popped = members_of(&mut session, "SPOP s 2");
    assert_eq!(session.journal().len(), 1);
    let journalled: BTreeSet<&str> = session.journal()[0].split(' ').collect();
    let expected: BTreeSet<&str> = ["SREM", "s", &popped[0], &popped[1]].into();
    assert_eq!(journalled, expected);
    assert_eq!(session.events(), ["spop s"]);
    assert_eq!(members_of(&mut session, "SPOP s 10").len(), 3);
    told(&session, &["DEL s"], &["spop s", "del s"]);
    session.call("SADD s a");
    assert_eq!(session.call("SPOP s 1"), r#"["a"]"#);
    told(&session, &["DEL s"], &["spop s", "del s"]);
    fill(&mut session, "s", 0..3000, "m");
    assert_eq!(members_of(&mut session, "SPOP s 2500").len(), 2500);
    assert_eq!(session.journal().len(), 3, "in pieces of 1024");
    assert_eq!(session.call("SCARD s"), ":500");
}

#[test]
fn counts_are_read_as_redis_reads_them() {
    check(
        "SADD s a
         SPOP s x
         SPOP s -1
         SPOP s 1.5
         SPOP s 9223372036854775808
         SPOP none x
         SPOP s 1 2
         SPOP s 0
         SPOP none
         SPOP none 0
         SPOP none 5
         SRANDMEMBER s x
         SRANDMEMBER none x
         SRANDMEMBER s 1 2
         SRANDMEMBER s 0
         SRANDMEMBER none -5
         SRANDMEMBER s -9223372036854775808
         SRANDMEMBER s 9223372036854775808
         SRANDMEMBER s 9223372036854775807
         SRANDMEMBER none -9223372036854775807
         SRANDMEMBER s -3
         SPOP s 9223372036854775807",
        r#":1
         -ERR value is out of range, must be positive
         -ERR value is out of range, must be positive
         -ERR value is out of range, must be positive
         -ERR value is out of range, must be positive
         -ERR value is out of range, must be positive
         -ERR syntax error
         []
         nil
         []
         []
         -ERR value is not an integer or out of range
         -ERR value is not an integer or out of range
         -ERR syntax error
         []
         []
         -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         -ERR value is not an integer or out of range
         ["a"]
         []
         ["a" "a" "a"]
         ["a"]"#,
    );
}

/// Rows of the kind of CVE-2023-22458: gigabytes of reply from one member.
#[test]
fn a_small_set_gives_no_huge_reply() {
    let mut session = Session::new();
    session.call("SADD s a");
    for count in ["-9223372036854775807", "-4611686018427387905", "-100000000"] {
        let reply = session.call(&format!("SRANDMEMBER s {count}"));
        assert_eq!(reply, "-ERR value is out of range, the reply would exceed 512 MB");
    }
}

/// The chance that chi square exceeds its mean by five deviations is below one in 10,000.
#[track_caller]
fn is_uniform(times: &[u64]) {
    let expected = times.iter().sum::<u64>() as f64 / times.len() as f64;
    let squares = times.iter().map(|&times| (times as f64 - expected).powi(2));
    let freedom = times.len() as f64 - 1.0;
    let chi_square = squares.sum::<f64>() / expected;
    assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "{chi_square}");
}

#[test]
fn every_member_is_as_likely() {
    for (size, request) in [
        (5, "SRANDMEMBER s"),
        (5, "SRANDMEMBER s 2"),
        (5, "SRANDMEMBER s -2"),
        (900, "SRANDMEMBER s 90"),
        (900, "SRANDMEMBER s 500"),
        (900, "SRANDMEMBER s -90"),
    ] {
        let mut session = Session::new();
        fill(&mut session, "s", 0..size, "");
        let mut times = vec![0; size as usize];
        for _ in 0..200 {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let drawn = match session.value_of(&words) {
                Value::Array(members) => members,
                member => vec![member],
            };
            for member in drawn {
                let member = String::from_utf8(member.as_bytes().unwrap().to_vec()).unwrap();
                times[member.parse::<usize>().unwrap()] += 1_u64;
            }
        }
        is_uniform(&times);
    }
    let mut times = vec![0; 8];
    for _ in 0..800 {
        let mut session = Session::new();
        fill(&mut session, "s", 0..8, "");
        for member in members_of(&mut session, "SPOP s 2") {
            times[member.parse::<usize>().unwrap()] += 1;
        }
    }
    is_uniform(&times);
}

#[test]
fn a_positive_count_draws_no_member_twice() {
    let mut session = Session::new();
    fill(&mut session, "small", 0..100, "m");
    fill(&mut session, "large", 0..1000, "m");
    for (key, len) in [("small", 100), ("large", 1000)] {
        for count in [1, 7, len / 2, len - 1, len, len + 1] {
            let drawn = members_of(&mut session, &format!("SRANDMEMBER {key} {count}"));
            assert_eq!(drawn.len(), count.min(len), "{key} {count}");
            assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        }
    }
}

#[test]
fn smove_tells_of_both_keys() {
    let mut session = Session::new();
    session.call("SADD s a b c");
    session.check("SMOVE none d a\nSMOVE s d x\nSMOVE s s a\nSMOVE s s x", ":0\n:0\n:1\n:0");
    told(&session, &[], &[]);
    assert_eq!(session.call("SMOVE s d a"), ":1");
    told(&session, &["SMOVE s d a"], &["srem s", "new d", "sadd d"]);
    session.call("SADD d b");
    assert_eq!(session.call("SMOVE s d b"), ":1");
    told(&session, &["SMOVE s d b"], &["srem s"]);
    assert_eq!(session.call("SMOVE s d c"), ":1");
    told(&session, &["SMOVE s d c"], &["srem s", "del s", "sadd d"]);
    assert_eq!(members_of(&mut session, "SMEMBERS d"), ["a", "b", "c"]);
    assert_eq!(session.call("SMOVE s"), "-ERR wrong number of arguments for 'smove' command");
}

#[test]
fn work_on_many_members_leaves_the_worker() {
    let mut session = Session::new();
    fill(&mut session, "large", 0..10_000, "m");
    fill(&mut session, "small", 0..10, "m");
    for request in [
        "SUNION large small",
        "SUNIONSTORE d large small",
        "SDIFF large small",
        "SINTER large large",
        "SUNIONCARD 2 large small",
        "SUNIONCARD 2 large small APPROX",
        "SRANDMEMBER large 9000",
        "SRANDMEMBER small -9000",
        "SSCAN large 0 COUNT 100000",
        "SPOP large 9000",
    ] {
        session.call(request);
        assert!(session.ran_heavy(), "{request}");
    }
    for request in [
        "SINTER small large",
        "SINTERCARD 2 large small",
        "SDIFF small large",
        "SRANDMEMBER large 10",
        "SPOP large 10",
        "SPOP large",
        "SSCAN large 0",
        "SCARD large",
        "SMEMBERS large",
    ] {
        session.call(request);
        assert!(!session.ran_heavy(), "{request}");
    }
}

#[test]
fn a_scan_reads_its_options() {
    check(
        "SADD s a b 1
         SSCAN s 0
         SSCAN s 99 COUNT 1
         SSCAN s 18446744073709551615
         SSCAN s 0 MATCH a*
         SSCAN s 0 MATCH * COUNT 1
         SSCAN s 0 MATCH 1 MATCH b
         SSCAN none 7
         SSCAN none 0 COUNT 0
         SSCAN none x
         SSCAN s x
         SSCAN s -1
         SSCAN s 18446744073709551616
         SSCAN s 0 COUNT
         SSCAN s 0 COUNT x
         SSCAN s 0 COUNT 0
         SSCAN s 0 MATCH
         SSCAN s 0 TYPE set
         SSCAN s 0 FOO
         SSCAN s 0 NOVALUES
         SSCAN s",
        r#":3
         ["0" ["a" "b" "1"]]
         ["0" ["a" "b" "1"]]
         ["0" ["a" "b" "1"]]
         ["0" ["a"]]
         ["0" ["a" "b" "1"]]
         ["0" ["b"]]
         ["0" []]
         ["0" []]
         -ERR invalid cursor
         -ERR invalid cursor
         -ERR invalid cursor
         -ERR invalid cursor
         -ERR syntax error
         -ERR value is not an integer or out of range
         -ERR syntax error
         -ERR syntax error
         -ERR syntax error
         -ERR syntax error
         -ERR NOVALUES option can only be used in HSCAN
         -ERR wrong number of arguments for 'sscan' command"#,
    );
}

/// Tells what a scan step found: the next cursor and members.
fn scan(session: &mut Session, words: &[&[u8]]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let Value::Array(parts) = session.value_of(words) else { panic!("SSCAN gives an array") };
    let [Value::Bulk(cursor), Value::Array(members)] = &parts[..] else { panic!("of two") };
    (cursor.clone(), members.iter().map(|member| member.as_bytes().unwrap().to_vec()).collect())
}

#[test]
fn a_scan_tells_what_is_there_all_the_while() {
    for seed in 0..6 {
        let (mut session, mut random) = (Session::new(), Random::from_seed(seed));
        fill(&mut session, "s", 0..300, "stable");
        fill(&mut session, "s", 0..2000, "passing");
        let (mut cursor, mut calls, mut seen) = (b"0".to_vec(), 0, BTreeSet::new());
        while calls == 0 || cursor != b"0" {
            for _ in 0..random.below(60) {
                let command = ["SADD", "SREM"][random.below(2) as usize];
                session.call(&format!("{command} s passing{}", random.below(4000)));
            }
            let count = (1 + random.below(40)).to_string();
            let words = [b"SSCAN", &b"s"[..], &cursor, b"COUNT", count.as_bytes()];
            let (next, members) = scan(&mut session, &words);
            seen.extend(members.into_iter().filter(|member| member.starts_with(b"stable")));
            (cursor, calls) = (next, calls + 1);
            assert!(calls < 10_000, "a scan gets ahead");
        }
        assert_eq!(seen.len(), 300, "seed {seed}");
    }
    let mut session = Session::new();
    fill(&mut session, "s", 0..1000, "m");
    for cursor in ["9007199254740992", "9223372036854775808", "18446744073709551615"] {
        let words = [b"SSCAN", &b"s"[..], cursor.as_bytes()];
        let (next, _) = scan(&mut session, &words);
        assert_eq!(next, b"0", "{cursor}");
    }
}

#[test]
fn long_and_odd_members_survive() {
    let mut session = Session::new();
    let long = vec![b'x'; 100_000];
    let members: [&[u8]; 5] = [&long, b"", b"\x00\xff\r\n", b"007", b"-0"];
    for member in members {
        assert_eq!(session.call_words(&[b"SADD", b"s", member]), ":1");
        assert_eq!(session.call_words(&[b"SADD", b"s", member]), ":0");
    }
    for member in members {
        assert_eq!(session.call_words(&[b"SISMEMBER", b"s", member]), ":1");
        assert_eq!(session.call_words(&[b"SMOVE", b"s", b"d", member]), ":1");
    }
    assert_eq!(session.call("SCARD d"), ":5");
    let (_, found) = scan(&mut session, &[b"SSCAN", b"d", b"0", b"MATCH", b"xxx*"]);
    assert_eq!(found, [long]);
    assert_eq!(session.call("SUNIONSTORE e d none"), ":5");
    assert_eq!(session.call("SDIFF d e"), "[]");
}
