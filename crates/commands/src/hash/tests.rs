//! The hash family, line by line as Redis 8.2 answers, and what it says to journal and listeners.
//! Where fields' time is over, as Apus does: they are removed by the next change.

use crate::testing::{START, Session, check};

/// Runs lines of the form `request => reply`.
#[track_caller]
fn talk(session: &mut Session, script: &str) {
    for line in unfolded(script).lines().filter(|line| !line.is_empty()) {
        let (request, reply) = line.split_once(" => ").expect("a line has a reply");
        assert_eq!(session.call(request), reply, "{request}");
    }
}

/// A script without indentation, and with long replies, which have lines of their own, behind
/// their requests.
fn unfolded(script: &str) -> String {
    script.lines().map(str::trim).collect::<Vec<_>>().join("\n").replace("\n=> ", " => ")
}

/// Runs lines of the form `request => journal | events`, commands parted by semicolons.
#[track_caller]
fn tells(session: &mut Session, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, told) = line.split_once(" =>").expect("a line has something to tell");
        session.call(request);
        let events = session.events().join(", ");
        let said = format!("{} | {events}", session.journal().join("; "));
        assert_eq!(said.trim(), told.trim(), "{request}");
    }
}

#[test]
fn values_are_put_and_read() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 b 2 a 3 => :2
        HSET h a => -ERR wrong number of arguments for 'hset' command
        HSET h a 1 b => -ERR wrong number of arguments for 'hset' command
        HMSET h a 1 b => -ERR wrong number of arguments for 'hmset' command
        HMSET h a 1 c 4 => +OK
        HSETNX h a 9 => :0
        HSETNX h d 1 => :1
        HGET h a => "1"
        HGET x a => nil
        HGET h zz => nil
        HMGET h a x b => ["1" nil "2"]
        HMGET x a => [nil]
        HGETALL h => ["a" "1" "b" "2" "c" "4" "d" "1"]
        HGETALL x => []
        HKEYS h => ["a" "b" "c" "d"]
        HKEYS x => []
        HVALS h => ["1" "2" "4" "1"]
        HVALS x => []
        HLEN h => :4
        HLEN x => :0
        HSTRLEN h a => :1
        HSTRLEN x a => :0
        HEXISTS h a => :1
        HEXISTS h zz => :0
        HDEL h zz => :0
        HDEL h a a => :1
        HDEL h b c d => :3
        HDEL h q => :0
        EXISTS h => :0
        SET s 1 => +OK
        HSET s a 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        HSETNX s a 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGET s a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HLEN s => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETALL s => -WRONGTYPE Operation against a key holding the wrong kind of value
        HDEL s a => -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
    let mut session = Session::new().resp3();
    talk(
        &mut session,
        r#"
        HSET h a 1 b 2 => :2
        HGETALL h => {"a": "1", "b": "2"}
        HGETALL x => {}
        HKEYS h => ["a" "b"]
        HVALS h => ["1" "2"]
        HRANDFIELD h 5 WITHVALUES => [["a" "1"] ["b" "2"]]
        HSCAN h 0 => ["0" ["a" "1" "b" "2"]]
        HMGET h a q => ["1" nil]
        "#,
    );
}

#[test]
fn fields_are_counters() {
    check(
        r#"
        HINCRBY h n 5
        HINCRBY h n -7
        HINCRBY h n x
        HSET h t abc u " 1" m 9223372036854775807
        HINCRBY h t 1
        HINCRBY h u 1
        HINCRBY h m 1
        HINCRBYFLOAT h f 1.5
        HINCRBYFLOAT h f 0.1
        HINCRBYFLOAT h f x
        HINCRBYFLOAT h t x
        HINCRBYFLOAT h t 1
        HINCRBYFLOAT h f inf
        HINCRBYFLOAT h f nan
        HINCRBYFLOAT h f -inf
        HSET h big 1e4932
        HINCRBYFLOAT h big 1e4932
        HGET h big
        SET s 1
        HINCRBY s n x
        HINCRBY s n 1
        HINCRBYFLOAT s t x
        "#,
        r#"
        :5
        :-2
        -ERR value is not an integer or out of range
        :3
        -ERR hash value is not an integer
        -ERR hash value is not an integer
        -ERR increment or decrement would overflow
        "1.5"
        "1.6"
        -ERR value is not a valid float
        -ERR value is not a valid float
        -ERR hash value is not a float
        -ERR value is NaN or Infinity
        -ERR value is not a valid float
        -ERR value is NaN or Infinity
        :1
        -ERR increment would produce NaN or Infinity
        "1e4932"
        +OK
        -ERR value is not an integer or out of range
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR value is not a valid float
        "#,
    );
}

#[test]
fn fields_are_drawn() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 => :1
        HRANDFIELD h => "a"
        HRANDFIELD x => nil
        HRANDFIELD h 1 => ["a"]
        HRANDFIELD x 1 => []
        HRANDFIELD x -9223372036854775807 => []
        HRANDFIELD h -9223372036854775807 => -ERR value is out of range
        HRANDFIELD h -3 => ["a" "a" "a"]
        HRANDFIELD h -3 WITHVALUES => ["a" "1" "a" "1" "a" "1"]
        HRANDFIELD h 3 withvalues => ["a" "1"]
        HRANDFIELD h 0 => []
        HRANDFIELD h x => -ERR value is not an integer or out of range
        HRANDFIELD h 1 foo => -ERR syntax error
        HRANDFIELD h 1 WITHVALUES x => -ERR syntax error
        HRANDFIELD h x foo => -ERR value is not an integer or out of range
        HRANDFIELD h 9223372036854775807 => ["a"]
        HRANDFIELD h 9223372036854775807 WITHVALUES => -ERR value is out of range
        HRANDFIELD h -4611686018427387905 WITHVALUES => -ERR value is out of range
        HRANDFIELD h -9223372036854775808
=> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        SET s 1 => +OK
        HRANDFIELD s => -WRONGTYPE Operation against a key holding the wrong kind of value
        HRANDFIELD s x => -ERR value is not an integer or out of range
        "#,
    );
    let mut session = Session::new();
    session.call("HSET h a 1 b 2 c 3 d 4");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        seen.insert(session.call("HRANDFIELD h 2"));
    }
    assert!(seen.len() >= 6, "each pair comes: {seen:?}");
    assert!(seen.iter().all(|pair| !["[\"a\" \"a\"]", "[\"b\" \"b\"]"].contains(&&**pair)));
}

#[test]
fn a_scan_reads_its_words_as_redis_does() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 => :1
        HSCAN h 0 => ["0" ["a" "1"]]
        HSCAN h 0 NOVALUES => ["0" ["a"]]
        HSCAN h 0 NOVALUES COUNT 1 MATCH a => ["0" ["a"]]
        HSCAN h 0 MATCH b* => ["0" []]
        HSCAN h 0 COUNT 0 => -ERR syntax error
        HSCAN h 0 COUNT x => -ERR value is not an integer or out of range
        HSCAN h 0 COUNT => -ERR syntax error
        HSCAN h 0 TYPE hash => -ERR syntax error
        HSCAN h x => -ERR invalid cursor
        HSCAN x 0 => ["0" []]
        HSCAN x x => -ERR invalid cursor
        HSCAN x 0 FOO => ["0" []]
        HSCAN h 5 => ["0" ["a" "1"]]
        HSCAN h 99999999999999999999 => -ERR invalid cursor
        SET s 1 => +OK
        HSCAN s 0 FOO => -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn a_scan_of_a_large_hash_tells_every_field_whatever_the_cursor() {
    let mut session = Session::new();
    for number in 0..3000 {
        session.call(&format!("HSET h f{number} v"));
    }
    let (mut cursor, mut calls) = ("0".to_owned(), 0);
    let mut seen = std::collections::BTreeSet::new();
    while calls == 0 || cursor != "0" {
        let reply = session.call(&format!("HSCAN h {cursor} NOVALUES COUNT 50"));
        let mut words = reply.split('"').skip(1).step_by(2);
        cursor = words.next().expect("there is a cursor").to_owned();
        seen.extend(words.map(str::to_owned));
        calls += 1;
        // Fields that come and go meanwhile change nothing for those that stay.
        session.call(&format!("HSET h x{calls} v"));
        session.call(&format!("HDEL h x{}", calls - 3));
    }
    assert!((0..3000).all(|number| seen.contains(&format!("f{number}"))));
    assert!((20..200).contains(&calls), "{calls}");
    for cursor in ["1", "9007199254740991", "9007199254740992", "18446744073709551615"] {
        let reply = session.call(&format!("HSCAN h {cursor} COUNT 1"));
        assert!(reply.starts_with("[\""), "{cursor}: {reply}");
    }
    session.call("HSCAN h 0 COUNT 9223372036854775807");
    assert!(session.ran_heavy());
}

#[test]
fn times_are_given_and_told() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        HSET h a 1 b 2 c 3 => :3
        HEXPIRE h 100 FIELDS 1 a => [:1]
        HEXPIRE h 100 NX FIELDS 2 a b => [:0 :1]
        HEXPIRE h 100 XX FIELDS 3 a c zz => [:1 :0 :-2]
        HEXPIRE h 200 GT FIELDS 3 a c zz => [:1 :0 :-2]
        HEXPIRE h 100 LT FIELDS 3 a b c => [:1 :0 :1]
        HEXPIRE h 100 LT FIELDS 1 c => [:0]
        HEXPIRE x 100 FIELDS 2 a b => [:-2 :-2]
        HPEXPIRE h 1300 FIELDS 1 a => [:1]
        HTTL h FIELDS 3 a b zz => [:2 :100 :-2]
        HPTTL h FIELDS 1 a => [:1300]
        HPEXPIREAT h 9999999999001 FIELDS 1 a => [:1]
        HEXPIRETIME h FIELDS 1 a => [:10000000000]
        HPEXPIRETIME h FIELDS 2 a q => [:9999999999001 :-2]
        HEXPIREAT h 2000000000 FIELDS 1 a => [:1]
        HPEXPIRETIME h FIELDS 1 a => [:2000000000000]
        HPTTL x FIELDS 2 a b => [:-2 :-2]
        HPERSIST h FIELDS 2 a zz => [:1 :-2]
        HPERSIST h FIELDS 1 a => [:-1]
        HPERSIST x FIELDS 1 a => [:-2]
        HTTL h FIELDS 1 a => [:-1]
        HPEXPIREAT h 70368744177663 FIELDS 1 a => [:1]
        HPEXPIREAT h 70368744177664 FIELDS 1 a => -ERR invalid expire time in 'hpexpireat' command
        HEXPIRE h 9223372036854775807 FIELDS 1 a => -ERR invalid expire time in 'hexpire' command
        HPEXPIRE h 9223372036854775807 FIELDS 1 a => -ERR invalid expire time in 'hpexpire' command
        HEXPIRE h 0 FIELDS 2 a a => [:2 :-2]
        HEXPIREAT h 0 FIELDS 2 b c => [:2 :2]
        EXISTS h => :0
        "#,
    );
}

#[test]
fn times_are_refused_as_redis_refuses_them() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 b 2 => :2
        SET s 1 => +OK
        HEXPIRE h 100 FIELDS 2 a
            => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 100 FIELDS 1 a b
            => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 100 FIELDS 0 a => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 100 FIELDS -1 a => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 100 FIELDS x a => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 100 FOO 1 a
            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 100 NX XX FIELDS 1 a
            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 100 FIELDS 1 a NX
            => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 NX FIELDS 1
            => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h x FIELDS 1 a => -ERR value is not an integer or out of range
        HEXPIRE h x FOO 1 a => -ERR value is not an integer or out of range
        HEXPIRE h -1 FIELDS 1 a => -ERR invalid expire time, must be >= 0
        HEXPIRE s x FIELDS 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HTTL h FIELDS 2 a => -ERR The `numfields` parameter must match the number of arguments
        HTTL h FIELDS 0 a => -ERR Number of fields must be a positive integer
        HTTL h FIELDS x a => -ERR Number of fields must be a positive integer
        HTTL h FOO x a => -ERR Mandatory argument FIELDS is missing or not at the right position
        HTTL s FOO x a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPERSIST h FOO 1 a => -ERR Mandatory argument FIELDS is missing or not at the right position
        HPERSIST s FIELDS 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETDEL h FIELDS 0 a => -ERR Number of fields must be a positive integer
        HGETDEL h FOO 1 a => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETDEL s FOO 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETEX h EX 100 PX 100 FIELDS 1 a
            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h PERSIST EX 1 a
            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h KEEPTTL FIELDS 1 a
            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h FIELDS 1 a PERSIST
            => -ERR The `numfields` parameter must match the number of arguments
        HGETEX h EX FIELDS 1 a => -ERR value is not an integer or out of range
        HGETEX h EX 1 FIELDS => -ERR wrong number of arguments for 'hgetex' command
        HGETEX h EX -1 FOO 1 a => -ERR invalid expire time, must be >= 0
        HGETEX h PXAT 70368744177664 FIELDS 1 b => -ERR invalid expire time in 'hgetex' command
        HGETEX s FOO x FIELDS 1 a
            => -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn values_with_times_are_refused_as_redis_refuses_them() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 b 2 => :2
        SET s 1 => +OK
        HSETEX h FNX FXX FIELDS 1 a 1 => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h FNX FNX FIELDS 1 a 1 => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h EX 100 KEEPTTL FIELDS 1 a 1
            => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h EX 100 EX 100 FIELDS 1 a 1
            => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h EX 10 FNX EX
            => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h FNX EX 10 FIELDS => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 2 a 1 b => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 1 a 1 FNX => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 0 a 1 => -ERR invalid number of fields
        HSETEX h FIELDS x a 1 => -ERR invalid number of fields
        HSETEX h EX FIELDS 1 a 1 => -ERR value is not an integer or out of range
        HSETEX h EX -5 FIELDS 1 a 1 => -ERR invalid expire time, must be >= 0
        HSETEX h PX 9223372036854775807 FIELDS 1 a 1 => -ERR invalid expire time in 'hsetex' command
        HSETEX h PERSIST FIELDS 1 a 1 => -ERR unknown argument: PERSIST
        HSETEX s EX x FIELDS 1 a 1 => -ERR value is not an integer or out of range
        HSETEX s EX 10 FIELDS 1 a 1
            => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETALL h => ["a" "1" "b" "2"]
        "#,
    );
}

#[test]
fn values_come_with_times() {
    talk(
        &mut Session::new(),
        r#"
        HSETEX h FIELDS 2 a 1 c 2 => :1
        HSETEX h EX 100 FIELDS 1 a 1 => :1
        HTTL h FIELDS 2 a c => [:100 :-1]
        HSETEX h KEEPTTL FIELDS 2 a 2 n 3 => :1
        HTTL h FIELDS 2 a n => [:100 :-1]
        HSETEX h PX 1500 FIELDS 1 a 1 => :1
        HPTTL h FIELDS 1 a => [:1500]
        HSETEX h EXAT 2000000000 FIELDS 1 a 1 => :1
        HEXPIRETIME h FIELDS 1 a => [:2000000000]
        HSETEX h PXAT 2000000000001 FIELDS 1 a 1 => :1
        HPEXPIRETIME h FIELDS 1 a => [:2000000000001]
        HSETEX h FIELDS 1 a 1 => :1
        HTTL h FIELDS 1 a => [:-1]
        HSETEX h FNX FIELDS 2 a 1 new 2 => :0
        HSETEX h FXX FIELDS 2 a 1 new 2 => :0
        HSETEX h FXX FIELDS 2 a 1 n 2 => :1
        HSETEX h FNX FIELDS 1 new 2 => :1
        HSETEX x FXX FIELDS 1 new 2 => :0
        HSETEX h NX FIELDS 1 a 7 => :0
        HSETEX x XX FIELDS 1 a 7 => :0
        HSETEX x NX FNX FIELDS 1 a 7 => :1
        HSETEX x XX FXX FIELDS 1 a 8 => :1
        HSETEX x NX XX FIELDS 1 a 8 => -ERR syntax error
        HSETEX y PXAT 1 FIELDS 1 a 1 => :1
        EXISTS y => :0
        HGETEX h FIELDS 2 a zz => ["1" nil]
        HGETEX h EX 100 FIELDS 2 a zz => ["1" nil]
        HTTL h FIELDS 1 a => [:100]
        HGETEX h PX 2500 FIELDS 1 a => ["1"]
        HPTTL h FIELDS 1 a => [:2500]
        HGETEX h EXAT 2000000000 FIELDS 1 a => ["1"]
        HGETEX h PXAT 2000000000001 FIELDS 1 a => ["1"]
        HPEXPIRETIME h FIELDS 1 a => [:2000000000001]
        HGETEX h PERSIST FIELDS 2 a c => ["1" "2"]
        HTTL h FIELDS 1 a => [:-1]
        HGETEX h EX 0 FIELDS 1 a => ["1"]
        HGETEX h PXAT 1 FIELDS 1 a => [nil]
        HGETEX q EX 10 FIELDS 1 a => [nil]
        HGETDEL h FIELDS 3 c c zz => ["2" nil nil]
        HGETDEL h FIELDS 2 n new => ["2" "2"]
        EXISTS h => :0
        HGETDEL h FIELDS 1 zz => [nil]
        "#,
    );
}

#[test]
fn journal_and_events_say_what_happened() {
    let mut session = Session::new();
    let script = r#"
        HSET h a 1 b 2 => HSET h a 1 b 2 | new h, hset h
        HMSET h a 1 => HMSET h a 1 | hset h
        HSETNX h a 1 => |
        HSETNX h c 3 => HSETNX h c 3 | hset h
        HINCRBY h a 1 => HINCRBY h a 1 | hincrby h
        HINCRBYFLOAT h a 1.5 => HSET h a 3.5 | hincrbyfloat h
        HDEL h zz => |
        HEXPIRE h 100 NX FIELDS 3 a b zz => HPEXPIREAT h {100s} NX FIELDS 2 a b | hexpire h
        HINCRBYFLOAT h b 1 => HSETEX h KEEPTTL FIELDS 1 b 3 | hincrbyfloat h
        HEXPIRE h 100 NX FIELDS 1 a => |
        HPEXPIRE h 100000 FIELDS 1 a => HPEXPIREAT h {100s} FIELDS 1 a | hexpire h
        HPERSIST h FIELDS 1 a => HPERSIST h FIELDS 1 a | hpersist h
        HPERSIST h FIELDS 1 a => |
        HGETEX h FIELDS 1 a => |
        HGETEX h EX 100 FIELDS 2 a zz => HPEXPIREAT h {100s} FIELDS 1 a | hexpire h
        HGETEX h PERSIST FIELDS 2 a c => HPERSIST h FIELDS 1 a | hpersist h
        HGETEX h EX 0 FIELDS 1 a => HDEL h a | hdel h
        HSETEX h EX 100 FNX FIELDS 1 a 1 => HSETEX h PXAT {100s} FIELDS 1 a 1 | hset h, hexpire h
        HSETEX h KEEPTTL FIELDS 1 a 1 => HSETEX h KEEPTTL FIELDS 1 a 1 | hset h
        HSETEX h FIELDS 1 a 1 => HSET h a 1 | hset h
        HSETEX h FNX FIELDS 1 a 1 => |
        HSETEX h PXAT 1 FIELDS 1 a 1 => HDEL h a | hset h, hdel h
        HEXPIRE h 0 FIELDS 1 b => HDEL h b | hdel h
        HGETDEL h FIELDS 2 c zz => HDEL h c zz | hdel h, del h
        HSETEX y PXAT 1 FIELDS 1 a 1 => HDEL y a | new y, hset y, hdel y, del y
        HSET h a 1 => HSET h a 1 | new h, hset h
        HDEL h a => HDEL h a | hdel h, del h
        HSET h a 1 => HSET h a 1 | new h, hset h
        HPEXPIREAT h 1 FIELDS 1 a => HDEL h a | hdel h, del h
        "#;
    tells(&mut session, &script.replace("{100s}", &(START + 100_000).to_string()));
}

#[test]
fn fields_whose_time_is_over_are_passed_over_and_go_with_the_next_change() {
    let mut session = Session::new();
    session.call("HSET h a 1 b 2 c 3");
    session.call("HPEXPIRE h 10 FIELDS 2 a b");
    session.advance(9);
    talk(&mut session, "HMGET h a b c => [\"1\" \"2\" \"3\"]\nHPTTL h FIELDS 1 a => [:1]");
    session.advance(1);
    talk(
        &mut session,
        r#"
        HLEN h => :3
        HGETALL h => ["c" "3"]
        HKEYS h => ["c"]
        HVALS h => ["3"]
        HSCAN h 0 => ["0" ["c" "3"]]
        HRANDFIELD h => "c"
        HRANDFIELD h 10 => ["c"]
        HRANDFIELD h -2 WITHVALUES => ["c" "3" "c" "3"]
        HEXISTS h a => :0
        HSTRLEN h a => :0
        HTTL h FIELDS 1 a => [:-2]
        HMGET h a c => [nil "3"]
        HGETEX h FIELDS 1 a => [nil]
        HLEN h => :3
        "#,
    );
    tells(
        &mut session,
        "HSETNX h c 1 => |\nHSET h d 4 => HDEL h b a; HSET h d 4 | hexpired h, hset h",
    );
    talk(&mut session, "HLEN h => :2\nHGETALL h => [\"c\" \"3\" \"d\" \"4\"]");

    session.call("HPEXPIRE h 10 FIELDS 2 c d");
    session.advance(10);
    talk(
        &mut session,
        "EXISTS h => :1\nHRANDFIELD h => nil\nHRANDFIELD h -3 => []\nHGETALL h => []",
    );
    tells(
        &mut session,
        "HINCRBY h c 5 => HDEL h d c; HINCRBY h c 5 | hexpired h, del h, new h, hincrby h",
    );
    for request in [
        "HDEL h c",
        "HGETDEL h FIELDS 1 c",
        "HEXPIRE h 100 FIELDS 1 c",
        "HPERSIST h FIELDS 1 c",
        "HGETEX h EX 100 FIELDS 1 c",
    ] {
        session.call("HSET h c 5");
        session.call("HPEXPIRE h 10 FIELDS 1 c");
        session.advance(10);
        tells(&mut session, &format!("{request} => HDEL h c | hexpired h, del h"));
        assert_eq!(session.call("EXISTS h"), ":0", "{request}");
    }
    session.call("HSET h b 1 c 2");
    session.call("HPEXPIRE h 10 FIELDS 1 c");
    session.advance(10);
    talk(
        &mut session,
        "HSETEX h FXX FIELDS 1 c 1 => :0\nHSETEX h FNX FIELDS 1 c 9 => :1\nHGET h c => \"9\"",
    );
}

#[test]
fn a_value_put_anew_lives_on_and_a_counter_keeps_its_time() {
    talk(
        &mut Session::new(),
        r#"
        HSET h a 1 b 2 => :2
        HEXPIRE h 100 FIELDS 2 a b => [:1 :1]
        HSET h a 5 => :0
        HTTL h FIELDS 1 a => [:-1]
        HINCRBY h b 5 => :7
        HINCRBYFLOAT h b 0.5 => "7.5"
        HTTL h FIELDS 1 b => [:100]
        "#,
    );
}

#[test]
fn encodings_follow_the_limits() {
    let mut session = Session::new();
    session.keyspace().settings().containers.hash_entries.set(3);
    let long = "x".repeat(65);
    let script = r#"
        HSET h a 1 b 2 c 3 => :3
        OBJECT ENCODING h => "listpack"
        HSET h a 1 b 2 c 3 a 4 => :0
        OBJECT ENCODING h => "hashtable"
        DEL h => :1
        HSETEX h EX 100 FIELDS 4 a 1 a 1 a 1 a 1 => :1
        OBJECT ENCODING h => "hashtable"
        DEL h => :1
        HSET h a 1 b 2 c 3 => :3
        HEXPIRE h 100 FIELDS 1 a => [:1]
        OBJECT ENCODING h => "listpackex"
        HPERSIST h FIELDS 1 a => [:1]
        OBJECT ENCODING h => "listpackex"
        HINCRBY h d 1 => :1
        OBJECT ENCODING h => "hashtable"
        DEL h => :1
        HSET h a 1 => :1
        HSET h a {long} => :0
        OBJECT ENCODING h => "hashtable"
        HDEL h a => :1
        EXISTS h => :0
        "#;
    talk(&mut session, &script.replace("{long}", &long));
}

#[test]
fn a_large_hash_is_read_in_pieces_or_off_the_worker() {
    let mut session = Session::new();
    for number in 0..3000 {
        session.call(&format!("HSET h f{number} {number}"));
    }
    assert_eq!(session.call("HGET h f2999"), "\"2999\"");
    assert!(!session.ran_heavy());
    for request in ["HGETALL h", "HKEYS h", "HVALS h"] {
        session.call(request);
        assert!(session.streamed() && !session.ran_heavy(), "{request}");
    }
    for request in ["HRANDFIELD h -3000", "HRANDFIELD h 3000"] {
        session.call(request);
        assert!(session.ran_heavy(), "{request}");
    }
    session.call("HPEXPIRE h 10 FIELDS 1 f1");
    session.advance(10);
    tells(&mut session, "HSET h f1 x => HDEL h f1; HSET h f1 x | hexpired h, hset h");
    assert_eq!(session.call("HLEN h"), ":3000");
}
