//! The generic family, line by line as Redis 8.2 answers, and what it says to journal and
//! listeners.

use crate::testing::{START, Session};

/// Runs lines of the form `request => reply`.
#[track_caller]
fn talk(session: &mut Session, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, reply) = line.split_once(" => ").expect("a line has a reply");
        assert_eq!(session.call(request), reply, "{request}");
    }
}

/// Runs lines of the form `request => journal`, commands parted by semicolons.
#[track_caller]
fn journals(session: &mut Session, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, journal) = line.split_once(" =>").expect("a line has a journal");
        session.call(request);
        assert_eq!(session.journal().join("; "), journal.trim(), "{request}");
    }
}

/// Runs lines of the form `request => events`, parted by commas.
#[track_caller]
fn reports(session: &mut Session, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, events) = line.split_once(" =>").expect("a line has events");
        session.call(request);
        assert_eq!(session.events().join(", "), events.trim(), "{request}");
    }
}

#[test]
fn deleting_and_asking() {
    talk(
        &mut Session::new(),
        r#"
        SET a 1 => +OK
        SET b 2 => +OK
        EXISTS a b c a => :3
        TOUCH a b c a => :3
        TYPE a => +string
        TYPE c => +none
        DEL a c a => :1
        UNLINK b b => :1
        EXISTS a => :0
        DBSIZE => :0
        DEL => -ERR wrong number of arguments for 'del' command
        EXISTS => -ERR wrong number of arguments for 'exists' command
        TYPE a b => -ERR wrong number of arguments for 'type' command
        "#,
    );
}

#[test]
fn a_long_list_of_keys_leaves_the_worker() {
    let mut session = Session::new();
    let mut words: Vec<Vec<u8>> = vec![b"DEL".to_vec()];
    words.extend((0..100_000).map(|number: u32| number.to_string().into_bytes()));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    session.call("SET 77 x");
    assert_eq!(session.call_words(&words), ":1");
    assert!(session.ran_heavy());
    assert_eq!(session.call_words(&words[..10]), ":0");
    assert!(!session.ran_heavy());
}

#[test]
fn objects() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        OBJECT => -ERR wrong number of arguments for 'object' command
        OBJECT foo => -ERR unknown subcommand 'foo'. Try OBJECT HELP.
        OBJECT foo a => -ERR unknown subcommand 'foo'. Try OBJECT HELP.
        OBJECT ENCODING => -ERR wrong number of arguments for 'object|encoding' command
        OBJECT HELP x => -ERR wrong number of arguments for 'object|help' command
        OBJECT ENCODING a => nil
        OBJECT FREQ a => nil
        OBJECT IDLETIME a => nil
        OBJECT REFCOUNT a => nil
        SET a 12 => +OK
        SET b text => +OK
        SET c aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa => +OK
        OBJECT ENCODING a => "int"
        object encoding b => "embstr"
        OBJECT ENCODING c => "raw"
        OBJECT REFCOUNT a => :1
        "#,
    );
    session.advance(7000);
    talk(&mut session, "OBJECT IDLETIME a => :7\nEXISTS a => :1\nTTL a => :-1\nTYPE a => +string");
    talk(&mut session, "OBJECT IDLETIME a => :7\nTOUCH a => :1\nOBJECT IDLETIME a => :0");
    let advice = "Please note that when switching between policies at runtime LRU and LFU data \
        will take some time to adjust.";
    let refusal = "-ERR An LFU maxmemory policy is not selected, access frequency not tracked.";
    assert_eq!(session.call("OBJECT FREQ a"), format!("{refusal} {advice}"));
    let policy = &session.keyspace().settings().access_policy;
    policy.store(1, std::sync::atomic::Ordering::Relaxed);
    let refusal = "-ERR An LFU maxmemory policy is selected, idle time not tracked.";
    assert_eq!(session.call("OBJECT IDLETIME a"), format!("{refusal} {advice}"));
    session.call("SET new x");
    assert_eq!(session.call("OBJECT FREQ new"), ":5");
    let help = session.call("OBJECT HELP");
    assert!(help.starts_with("[+OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    assert!(help.ends_with("+HELP +    Print this help.]"));
}

#[test]
fn giving_keys_a_time_to_live() {
    talk(
        &mut Session::new(),
        r#"
        SET a 1 => +OK
        EXPIRE a => -ERR wrong number of arguments for 'expire' command
        EXPIRE a x => -ERR value is not an integer or out of range
        EXPIRE a x foo => -ERR Unsupported option foo
        EXPIRE a 10 nxx => -ERR Unsupported option nxx
        EXPIRE a 10 nx foo => -ERR Unsupported option foo
        EXPIRE a 10 nx xx => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 10 nx gt => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a x nx lt => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE none 1 gt lt => -ERR GT and LT options at the same time are not compatible
        EXPIRE a 10 xx => :0
        EXPIRE a 10 xx gt => :0
        EXPIRE a 10 xx lt => :0
        EXPIRE a 10 gt => :0
        EXPIRE a 100 lt => :1
        TTL a => :100
        EXPIRE a 50 gt => :0
        EXPIRE a 100 gt => :0
        EXPIRE a 100 lt => :0
        EXPIRE a 50 lt xx => :1
        EXPIRE a 200 GT XX => :1
        EXPIRE a 20 nx => :0
        EXPIRE a 0 gt => :0
        PERSIST a => :1
        PERSIST a => :0
        PERSIST none => :0
        EXPIRE a 20 nx NX => :1
        EXPIRE none 10 => :0
        PEXPIRE a 1499 => :1
        TTL a => :1
        PEXPIRE a 1500 => :1
        TTL a => :2
        PTTL a => :1500
        PEXPIREAT a 4102444800999 => :1
        EXPIRETIME a => :4102444801
        PEXPIRETIME a => :4102444800999
        EXPIREAT a 4102444800 => :1
        PEXPIRETIME a => :4102444800000
        TTL none => :-2
        PTTL none => :-2
        EXPIRETIME none => :-2
        PEXPIRETIME none => :-2
        PERSIST a => :1
        EXPIRETIME a => :-1
        "#,
    );
}

#[test]
fn times_at_the_limits() {
    talk(
        &mut Session::new(),
        r#"
        SET a 1 => +OK
        EXPIRE a 9223372036854775807 => -ERR invalid expire time in 'expire' command
        EXPIRE none 9223372036854775807 => -ERR invalid expire time in 'expire' command
        EXPIRE a -9223372036854775808 => -ERR invalid expire time in 'expire' command
        EXPIRE a 9223372036854775 => -ERR invalid expire time in 'expire' command
        PEXPIRE a 9223372036854775807 => -ERR invalid expire time in 'pexpire' command
        EXPIREAT a 9223372036854775807 => -ERR invalid expire time in 'expireat' command
        EXPIREAT a -9223372036854775807 => -ERR invalid expire time in 'expireat' command
        PEXPIRE a 99999999999999999999 => -ERR value is not an integer or out of range
        EXPIRE a 9223370000000000 => :1
        PTTL a => :9223370000000000000
        PEXPIREAT a 9223372036854775807 => :1
        PEXPIRETIME a => :9223372036854775807
        EXPIRETIME a => :9223372036854776
        PEXPIREAT a -9223372036854775808 => :1
        EXISTS a => :0
        "#,
    );
}

#[test]
fn a_time_that_is_over_removes_the_key() {
    let mut session = Session::new();
    talk(&mut session, "SET a 1 => +OK\nEXPIRE a 0 xx => :0\nEXPIRE a 0 => :1\nEXISTS a => :0");
    talk(&mut session, "SET a 1 => +OK\nEXPIRE a 100 => :1\nEXPIRE a -1 nx => :0");
    talk(&mut session, "EXPIRE a -1 lt => :1\nTTL a => :-2\nSET a 1 => +OK\nPEXPIRE a 10 => :1");
    session.advance(10);
    talk(&mut session, "DBSIZE => :1\nTTL a => :-2\nDBSIZE => :0\nPERSIST a => :0");
}

#[test]
fn renaming() {
    talk(
        &mut Session::new(),
        r#"
        RENAME none a => -ERR no such key
        RENAME none none => -ERR no such key
        RENAMENX none a => -ERR no such key
        RENAMENX none none => -ERR no such key
        SET a 1 => +OK
        RENAME a a => +OK
        RENAMENX a a => :0
        EXPIRE a 100 => :1
        SET b 2 => +OK
        RENAMENX a b => :0
        RENAME a b => +OK
        GET b => "1"
        TTL b => :100
        EXISTS a => :0
        RENAMENX b c => :1
        KEYS * => ["c"]
        TTL c => :100
        RENAME a => -ERR wrong number of arguments for 'rename' command
        "#,
    );
}

#[test]
fn copying_and_moving() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        SET a 1 PX 5000 => +OK
        SET b 2 => +OK
        COPY a => -ERR wrong number of arguments for 'copy' command
        COPY a a => -ERR source and destination objects are the same
        COPY none none => -ERR source and destination objects are the same
        COPY a a DB 0 REPLACE => -ERR source and destination objects are the same
        COPY a b => :0
        COPY a b replace => :1
        PTTL b => :5000
        COPY a c DB => -ERR syntax error
        COPY a c foo => -ERR syntax error
        COPY a c DB x => -ERR value is not an integer or out of range
        COPY a c DB 16 => -ERR DB index is out of range
        COPY a c DB -1 => -ERR DB index is out of range
        COPY a c DB 1 DB 77 => -ERR DB index is out of range
        COPY a c DB 77 DB 1 => -ERR DB index is out of range
        COPY a c DB 2147483647 => -ERR DB index is out of range
        COPY a c DB 99999999999999999999 => -ERR value is not an integer or out of range
        COPY none c DB 16 => -ERR DB index is out of range
        COPY none c => :0
        COPY a a DB 1 => :1
        COPY a a DB 1 => :0
        COPY a a DB 1 REPLACE REPLACE => :1
        COPY a c DB 3 DB 2 => :1
        EXISTS c => :0
        MOVE a 0 => -ERR source and destination objects are the same
        MOVE none 0 => -ERR source and destination objects are the same
        MOVE a x => -ERR value is not an integer or out of range
        MOVE a 16 => -ERR DB index is out of range
        MOVE a -1 => -ERR DB index is out of range
        MOVE none 5 => :0
        MOVE a 1 => :0
        MOVE a 4 => :1
        EXISTS a => :0
        "#,
    );
    for request in ["COPY a c DB 99999999999", "COPY a c DB -99999999999", "MOVE a 99999999999"] {
        let refusal = "-ERR value is out of range, value must between -2147483648 and 2147483647";
        assert_eq!(session.call(request), refusal);
    }
    session.select(2);
    talk(&mut session, "KEYS * => [\"c\"]\nPTTL c => :5000");
    session.select(4);
    talk(&mut session, "GET a => \"1\"\nPTTL a => :5000");
    session.select(3);
    talk(&mut session, "DBSIZE => :0");
}

#[test]
fn a_copy_of_a_big_value_is_its_own() {
    let mut session = Session::new();
    let big = vec![b'x'; 300_000];
    session.call_words(&[b"SET", b"a", &big]);
    talk(&mut session, "COPY a b => :1\nAPPEND b y => :300001\nSTRLEN a => :300000");
    talk(&mut session, "RENAME b a => +OK\nSTRLEN a => :300001\nDEL a => :1");
}

#[test]
fn flushing_and_swapping() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        SWAPDB 0 => -ERR wrong number of arguments for 'swapdb' command
        SWAPDB x 1 => -ERR invalid first DB index
        SWAPDB 0 x => -ERR invalid second DB index
        SWAPDB 99999999999 0 => -ERR invalid first DB index
        SWAPDB 0 16 => -ERR DB index is out of range
        SWAPDB -1 0 => -ERR DB index is out of range
        SET a 1 => +OK
        SWAPDB 0 0 => +OK
        SWAPDB 0 5 => +OK
        DBSIZE => :0
        SET b 1 => +OK
        FLUSHALL foo => -ERR syntax error
        FLUSHALL ASYNC SYNC => -ERR syntax error
        FLUSHDB foo => -ERR syntax error
        FLUSHDB sync => +OK
        DBSIZE => :0
        "#,
    );
    session.select(5);
    talk(&mut session, "GET a => \"1\"\nFLUSHDB ASYNC => +OK\nSET c 1 => +OK\nFLUSHALL => +OK");
    talk(
        &mut session,
        "DBSIZE => :0\nDBSIZE x => -ERR wrong number of arguments for 'dbsize' command",
    );
}

#[test]
fn the_journal_gets_what_gives_the_same_whenever_it_is_run() {
    let mut session = Session::new();
    let later = START + 100_000;
    journals(
        &mut session,
        &format!(
            r#"
            SET a 1 => SET a 1
            EXPIRE a 100 nx => PEXPIREAT a {later}
            EXPIRE a 100 nx =>
            PERSIST a => PERSIST a
            PERSIST a =>
            PEXPIRE a 100000 => PEXPIREAT a {later}
            EXPIREAT a 1 => DEL a
            EXPIRE none 1 =>
            SET a 1 => SET a 1
            RENAME a b => RENAME a b
            RENAME b b =>
            RENAME none b =>
            COPY b c DB 2 => COPY b c DB 2
            COPY b c DB 2 =>
            MOVE b 3 => MOVE b 3
            DEL b =>
            SET b 1 => SET b 1
            DEL a b => DEL a b
            SWAPDB 0 1 => SWAPDB 0 1
            FLUSHALL => FLUSHALL
            SET x 1 => SET x 1
            RM 0 => DEL x
            RM 0 =>
            SET v 1 PX 10 => SET v 1 PXAT {}
            "#,
            START + 10
        ),
    );
    session.advance(10);
    journals(&mut session, "RENAME v w => DEL v\nTOUCH v =>");
}

#[test]
fn listeners_hear_what_redis_tells() {
    let mut session = Session::new();
    reports(
        &mut session,
        r#"
        SET a 1 => new a, set a
        SET b 1 => new b, set b
        RENAME a b => new b, rename_from a, rename_to b, overwritten b
        RENAMENX b c => new c, rename_from b, rename_to c
        COPY c d => new d, copy_to d
        COPY c d =>
        COPY c d REPLACE => new d, copy_to d, overwritten d
        MOVE c 2 => new c, move_from c, move_to c
        EXPIRE d 100 => expire d
        PERSIST d => persist d
        PERSIST d =>
        EXPIRE d -1 => del d
        SET e 1 => new e, set e
        DEL e d => del e
        TOUCH none => keymiss none
        EXISTS none => keymiss none
        TYPE none => keymiss none
        TTL none => keymiss none
        OBJECT ENCODING none =>
        COPY none x => keymiss none
        RENAME none x =>
        SET p 1 PX 1 => new p, set p, expire p
        "#,
    );
    session.advance(1);
    reports(&mut session, "DEL p => expired p\nKEYS * =>\nFLUSHALL =>");
}
