//! The stream family: what it says to journal and listeners, how it waits, and what no server at
//! hand knows; that follows the published command pages, which the tests name.

mod counters;
mod redis;
mod redis_groups;

use crate::testing::{START, Session};

/// Lines of the form `request => what comes of it`; one that ends with a backslash goes on.
fn lines(script: &str) -> Vec<(String, String)> {
    let mut lines = vec![String::new()];
    for line in script.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let begun = lines.last_mut().expect("there is one");
        match line.strip_suffix('\\') {
            Some(part) => begun.push_str(part),
            None => {
                begun.push_str(line.trim_end());
                lines.push(String::new());
            }
        }
    }
    lines.pop();
    let parted = |line: &String| {
        let (request, outcome) = line.split_once(" =>").expect("a line has an outcome");
        (request.to_owned(), outcome.trim().to_owned())
    };
    lines.iter().map(parted).collect()
}

/// Runs lines of the form `request => reply`.
#[track_caller]
fn talk(session: &mut Session, script: &str) {
    for (request, reply) in lines(script) {
        assert_eq!(session.call(&request), reply, "{request}");
    }
}

/// Runs lines of the form `request => journal`, commands parted by semicolons.
#[track_caller]
fn journals(session: &mut Session, script: &str) {
    for (request, journal) in lines(script) {
        session.call(&request);
        assert_eq!(session.journal().join("; "), journal, "{request}");
    }
}

/// Runs lines of the form `request => events`, parted by commas.
#[track_caller]
fn reports(session: &mut Session, script: &str) {
    for (request, events) in lines(script) {
        session.call(&request);
        assert_eq!(session.events().join(", "), events, "{request}");
    }
}

#[test]
fn ids_come_from_the_clock_and_rise() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        XADD s * a b => "1700000000000-0"
        XADD s * a b => "1700000000000-1"
        XADD s 1700000000005-7 a b => "1700000000005-7"
        XADD s * a b => "1700000000005-8"
        XADD s 1700000000006-* a b => "1700000000006-0"
        "#,
    );
    session.advance(1000);
    assert_eq!(session.call("XADD s * a b"), format!("\"{}-0\"", START + 1000));
}

#[test]
fn what_was_chosen_reaches_the_journal() {
    let mut session = Session::new();
    journals(
        &mut session,
        r#"
        XADD s 1-1 a b => XADD s 1-1 a b
        XADD s 1-* a b => XADD s 1-2 a b
        XADD s * f g => XADD s 1700000000000-0 f g
        XADD s MAXLEN ~ 100 LIMIT 7 * f g => XADD s MAXLEN = 4 1700000000000-1 f g
        XADD s ACKED MINID ~ 1 * f g => XADD s 1700000000000-2 f g
        XADD s MAXLEN 4 1700000000000-3 f g => XADD s MAXLEN 4 1700000000000-3 f g
        XADD s NOMKSTREAM MAXLEN 4 * f g => XADD s MAXLEN = 4 1700000000000-4 f g
        XADD t NOMKSTREAM * f g =>
        XTRIM s MAXLEN ~ 1 =>
        XTRIM s MAXLEN 3 => XTRIM s MAXLEN 3
        XDEL s 9 =>
        XDEL s 1700000000000-4 9 => XDEL s 1700000000000-4 9
        XGROUP CREATE s g 0 => XGROUP CREATE s g 0
        XREADGROUP GROUP g c COUNT 1 STREAMS s > => XGROUP CREATECONSUMER s g c; \
            XCLAIM s g c 0 1700000000000-2 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID \
            LASTID 1700000000000-2; \
            XGROUP SETID s g 1700000000000-2 ENTRIESREAD -1
        XREADGROUP GROUP g c NOACK STREAMS s > => \
            XGROUP SETID s g 1700000000000-3 ENTRIESREAD -1
        XREADGROUP GROUP g c STREAMS s > =>
        XREADGROUP GROUP g c STREAMS s 0 =>
        XREADGROUP GROUP g d STREAMS s > => XGROUP CREATECONSUMER s g d
        XCLAIM s g d 0 1700000000000-2 IDLE 10 => \
            XCLAIM s g d 0 1700000000000-2 TIME 1699999999990 RETRYCOUNT 3 FORCE JUSTID \
            LASTID 1700000000000-3
        XCLAIM s g d 1000 1700000000000-2 =>
        XCLAIM s g d 1000 1700000000000-2 LASTID 1700000000000-5 => \
            XGROUP SETID s g 1700000000000-5 ENTRIESREAD -1
        XAUTOCLAIM s g e 5 0 => XGROUP CREATECONSUMER s g e; \
            XCLAIM s g e 0 1700000000000-2 TIME 1700000000000 RETRYCOUNT 4 FORCE JUSTID \
            LASTID 1700000000000-5
        XDEL s 1700000000000-2 => XDEL s 1700000000000-2
        XAUTOCLAIM s g e 0 0 => \
            XCLAIM s g e 0 1700000000000-2 TIME 1700000000000 RETRYCOUNT 4 FORCE JUSTID \
            LASTID 1700000000000-5
        XACK s g 1700000000000-2 =>
        XGROUP SETID s g $ => XGROUP SETID s g $
        XGROUP CREATECONSUMER s g e =>
        XGROUP DELCONSUMER s g e => XGROUP DELCONSUMER s g e
        XGROUP DESTROY s g => XGROUP DESTROY s g
        XGROUP DESTROY s g =>
        XSETID s 1800000000000-0 => XSETID s 1800000000000-0
        XADD s IDMP p 1 * a b => XADD s 1800000000000-1 a b; XIDMPRECORD s p 1 1800000000000-1
        XADD s IDMP p 1 * a b =>
        XCFGSET s IDMP-DURATION 5 => XCFGSET s IDMP-DURATION 5
        "#,
    );
}

#[test]
fn an_approximate_trim_is_exact_in_the_journal() {
    let mut session = Session::new();
    session.keyspace().settings().containers.stream_node_entries.set(2);
    (1..=7).for_each(|ms| _ = session.call(&format!("XADD s {ms} a b")));
    session.call("XADD t 1 a b");
    journals(
        &mut session,
        r#"
        XTRIM s MAXLEN ~ 4 => XTRIM s MAXLEN = 5
        XTRIM s MINID ~ 5 => XTRIM s MINID = 5-0
        XTRIM s MINID ~ 100 LIMIT 2 => XTRIM s MINID = 7-0
        XTRIM s MINID ~ 100 => XTRIM s MINID = 7-1
        XTRIM s MINID ~ 100 =>
        XTRIM t DELREF MAXLEN ~ 0 => XTRIM t MAXLEN = 0
        "#,
    );
}

/// Servers before Redis 8.2, and Valkey, would refuse the words about references.
#[test]
fn what_became_of_references_is_said_in_words_that_all_know() {
    let mut session = Session::new();
    for line in [
        "XADD s 1 a b",
        "XADD s 2 a b",
        "XADD s 3 a b",
        "XADD s 4 a b",
        "XADD s 5 a b",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s other 0",
        "XREADGROUP GROUP g c STREAMS s >",
        "XREADGROUP GROUP other c STREAMS s >",
        "XACK s g 1 2 4",
        "XACK s other 1 2 4",
    ] {
        session.call(line);
    }
    journals(
        &mut session,
        r#"
        XDELEX s ACKED IDS 2 2 3 => XDEL s 2-0
        XTRIM s MAXLEN 0 ACKED => XTRIM s MINID = 3-0; XDEL s 4-0; \
            XSETID s 5-0 ENTRIESADDED 5 MAXDELETEDID 2-0
        XACKDEL s g ACKED IDS 2 3 9 => XACK s g 3-0
        XACKDEL s g DELREF IDS 1 5 => XACK s g 5-0; XACK s other 5-0; XDEL s 5-0
        XADD s KEEPREF 6-0 a b => XADD s 6-0 a b
        XADD s MAXLEN 1 DELREF 7-0 a b => XADD s 7-0 a b; XTRIM s MAXLEN = 1; XACK s other 3-0
        XDELEX s DELREF IDS 1 6 =>
        XDELEX s KEEPREF IDS 1 7 => XDEL s 7-0
        XTRIM s MAXLEN 0 KEEPREF =>
        "#,
    );
}

#[test]
fn listeners_hear_what_became_of_a_stream() {
    let mut session = Session::new();
    reports(
        &mut session,
        r#"
        XADD s 1 a b => new s, xadd s
        XADD s MAXLEN 1 2 a b => xadd s, xtrim s
        XADD s MAXLEN 5 3 a b => xadd s
        XTRIM s MAXLEN 5 =>
        XTRIM s MAXLEN 1 => xtrim s
        XDEL s 1 =>
        XDEL s 3 => xdel s
        XGROUP CREATE s g 0 => xgroup-create s
        XGROUP CREATE n g $ MKSTREAM => new n, xgroup-create n
        XREADGROUP GROUP g c STREAMS s > => xgroup-createconsumer s
        XREADGROUP GROUP g c STREAMS s > =>
        XCLAIM s g d 0 1 => xgroup-createconsumer s
        XAUTOCLAIM s g e 0 0 => xgroup-createconsumer s
        XGROUP SETID s g 0 => xgroup-setid s
        XGROUP CREATECONSUMER s g f => xgroup-createconsumer s
        XGROUP DELCONSUMER s g f => xgroup-delconsumer s
        XGROUP DELCONSUMER s g f =>
        XADD s 9 a b => xadd s
        XREADGROUP GROUP g c STREAMS s > =>
        XACK s g 9 =>
        XDELEX s IDS 1 9 => xdel s
        XDELEX s IDS 1 9 =>
        XADD s 10 a b => xadd s
        XREADGROUP GROUP g c STREAMS s > =>
        XACKDEL s g IDS 1 10 => xdel s
        XACKDEL s g IDS 1 10 =>
        XSETID s 20 => xsetid s
        XGROUP DESTROY s g => xgroup-destroy s
        DEL s => del s
        "#,
    );
}

#[test]
fn readers_wait_for_what_comes_behind_an_id() {
    let mut session = Session::new();
    let requests = |session: &Session| -> Vec<String> {
        let waits = session.waits().expect("the request waits");
        let words = |nth| waits.awaited.request(nth).map(String::from_utf8_lossy);
        (0..waits.awaited.len()).map(|nth| words(nth).collect::<Vec<_>>().join(" ")).collect()
    };
    talk(
        &mut session,
        r#"
        XADD s 5-5 a b => "5-5"
        XREAD BLOCK 10 COUNT 3 MAXCOUNT 4 MAXSIZE 5 STREAMS s t u $ 7 + => +waits for 3 keys
        "#,
    );
    let limits = "XREAD COUNT 3 MAXCOUNT 4 MAXSIZE 5 BLOCK 0 STREAMS";
    let wanted = ["s 5-5", "t 7-0", "u 0-0"].map(|stream| format!("{limits} {stream}"));
    assert_eq!(requests(&session), wanted);
    let waits = session.waits().expect("the request waits");
    assert_eq!((waits.deadline, waits.wakes_on_deletion), (Some(START + 10), false));
    talk(
        &mut session,
        r#"
        XGROUP CREATE s g $ => +OK
        XREADGROUP GROUP g c BLOCK 0 STREAMS s > => +waits for 1 keys
        "#,
    );
    assert_eq!(session.events(), ["xgroup-createconsumer s"]);
    assert_eq!(requests(&session), ["XREADGROUP GROUP g c BLOCK 0 STREAMS s >"]);
    let waits = session.waits().expect("the request waits");
    assert_eq!((waits.deadline, waits.wakes_on_deletion), (None, true));
    talk(
        &mut session,
        r#"
        XREADGROUP GROUP g c NOACK COUNT 2 BLOCK 7 STREAMS s > => +waits for 1 keys
        XADD s 6 a b => "6-0"
        XREADGROUP GROUP g c NOACK COUNT 2 BLOCK 0 STREAMS s > => [["s" [["6-0" ["a" "b"]]]]]
        XREADGROUP GROUP g c BLOCK 7 STREAMS s 0 => [["s" []]]
        "#,
    );
}

/// The pages of Redis 8.6 on XADD, XCFGSET and XIDMPRECORD.
#[test]
fn what_a_producer_sends_twice_is_added_once() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        XADD s IDMP p 1 * a b => "1700000000000-0"
        XADD s IDMP p 1 * other fields => "1700000000000-0"
        XADD s IDMP p 2 * a b => "1700000000000-1"
        XADD s IDMP q 1 * a b => "1700000000000-2"
        XADD s IDMPAUTO p * a b => "1700000000000-3"
        XADD s IDMPAUTO p * a b => "1700000000000-3"
        XADD u IDMPAUTO o * c d a b => "1700000000000-0"
        XADD u IDMPAUTO o * a b c d => "1700000000000-0"
        XADD s IDMPAUTO p * ab "" => "1700000000000-4"
        XLEN s => :5
        XADD t NOMKSTREAM IDMP p 1 * a b => nil
        XADD s IDMP p 1 1-1 a b => -ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
        XADD s IDMPAUTO p 1-* a b => -ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
        XADD s IDMP p 1 IDMPAUTO p * a b => -ERR IDMP/IDMPAUTO specified multiple times
        XADD s IDMP p * a b => -ERR Invalid stream ID specified as stream command argument
        XADD s IDMP "" 1 * a b => -ERR IDMP/IDMPAUTO producer and idempotent IDs must not be empty
        XINFO STREAM s => ["length" :5 "radix-tree-keys" :1 "radix-tree-nodes" :2 \
            "last-generated-id" "1700000000000-4" "max-deleted-entry-id" "0-0" \
            "entries-added" :5 "recorded-first-entry-id" "1700000000000-0" \
            "idmp-duration" :100 "idmp-maxsize" :100 "pids-tracked" :2 "iids-tracked" :5 \
            "iids-added" :5 "iids-duplicates" :2 "groups" :0 \
            "first-entry" ["1700000000000-0" ["a" "b"]] \
            "last-entry" ["1700000000000-4" ["ab" ""]]]
        XCFGSET t IDMP-DURATION 5 => -ERR no such key
        XCFGSET s => -ERR syntax error
        XCFGSET s FOO 1 => -ERR syntax error
        XCFGSET s IDMP-DURATION => -ERR syntax error
        XCFGSET s IDMP-DURATION 0 => -ERR invalid duration
        XCFGSET s IDMP-DURATION 86401 => -ERR invalid duration
        XCFGSET s IDMP-MAXSIZE 0 => -ERR invalid maxsize
        XCFGSET s IDMP-MAXSIZE 10001 => -ERR invalid maxsize
        XCFGSET s IDMP-DURATION 5 IDMP-MAXSIZE 1 => +OK
        XADD s IDMP p 1 * a b => "1700000000000-5"
        XADD s IDMP p 2 * a b => "1700000000000-6"
        XADD s IDMP p 1 * a b => "1700000000000-7"
        XIDMPRECORD s p 1 1700000000000-7 => +OK
        XIDMPRECORD s p 9 1-1 => -ERR no such entry in the stream
        XIDMPRECORD s p 1 1700000000000-6 => -ERR the iid belongs to another entry
        XIDMPRECORD s "" 1 1-1 => -ERR pid and iid must not be empty
        XIDMPRECORD t p 1 1-1 => -ERR no such key
        "#,
    );
    session.advance(5001);
    assert_eq!(session.call("XADD s IDMP p 1 * a b"), format!("\"{}-0\"", START + 5001));
}

/// The page of Redis 8.8 on XNACK.
#[test]
fn entries_are_given_back_to_their_group() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        XADD s 1 a 1 => "1-0"
        XADD s 2 a 2 => "2-0"
        XADD s 3 a 3 => "3-0"
        XGROUP CREATE s g 0 => +OK
        XREADGROUP GROUP g c COUNT 2 STREAMS s > => \
            [["s" [["1-0" ["a" "1"]] ["2-0" ["a" "2"]]]]]
        XNACK s g FAIL IDS 2 1 3 => :1
        XNACK s g SILENT IDS 1 2 => :1
        XPENDING s g - + 10 => [["1-0" "" :-1 :1] ["2-0" "" :-1 :0]]
        XPENDING s g => [:2 "1-0" "2-0" []]
        XNACK s g FATAL IDS 1 2 => :1
        XNACK s g FAIL IDS 1 1 RETRYCOUNT 5 => :1
        XNACK s g FAIL IDS 2 3 9 FORCE => :1
        XPENDING s g - + 10 => \
            [["1-0" "" :-1 :5] ["2-0" "" :-1 :9223372036854775807] ["3-0" "" :-1 :0]]
        XCLAIM s g d 1000000 1 => [["1-0" ["a" "1"]]]
        XAUTOCLAIM s g d 1000000 0 JUSTID => ["0-0" ["2-0" "3-0"] []]
        XNACK s g BAD IDS 1 1 => -ERR mode must be SILENT, FAIL, or FATAL
        XNACK s g FAIL IDS 0 1 => -ERR Number of IDs must be a positive integer
        XNACK s g FAIL IDS 1 1 RETRYCOUNT x => \
            -ERR Invalid RETRYCOUNT option argument for XNACK
        XNACK s g FAIL IDS 1 1 FOO => -ERR syntax error
        XNACK t g FAIL IDS 1 1 => -NOGROUP No such key 't' or consumer group 'g'
        "#,
    );
    journals(&mut session, "XNACK s g FAIL IDS 1 1 => XNACK s g FAIL IDS 1 1");
}

/// The page of Redis 8.4 on XREADGROUP.
#[test]
fn idle_entries_are_claimed_before_new_ones_are_read() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        XADD s 1 a 1 => "1-0"
        XADD s 2 a 2 => "2-0"
        XADD s 3 a 3 => "3-0"
        XGROUP CREATE s g 0 => +OK
        XREADGROUP GROUP g c COUNT 1 STREAMS s > => [["s" [["1-0" ["a" "1"]]]]]
        "#,
    );
    session.advance(50);
    session.call("XREADGROUP GROUP g c COUNT 1 STREAMS s >");
    session.call("XCLAIM s g c 0 1 TIME 1700000000040 JUSTID");
    session.advance(50);
    talk(
        &mut session,
        r#"
        XREADGROUP GROUP g d CLAIM 1000 COUNT 1 STREAMS s 0 => [["s" []]]
        XREADGROUP GROUP g d CLAIM 60 COUNT 1 STREAMS s > => [["s" [["1-0" ["a" "1"] :60 :1]]]]
        XREADGROUP GROUP g d CLAIM 50 STREAMS s > => \
            [["s" [["2-0" ["a" "2"] :50 :1] ["3-0" ["a" "3"] :0 :0]]]]
        XREADGROUP GROUP g d CLAIM 50 STREAMS s > => nil-array
        XREADGROUP GROUP g d CLAIM x STREAMS s > => \
            -ERR min-idle-time must be a positive integer
        XPENDING s g => [:3 "1-0" "3-0" [["d" "3"]]]
        "#,
    );
    journals(
        &mut session,
        r#"
        XREADGROUP GROUP g e CLAIM 0 COUNT 1 STREAMS s > => XGROUP CREATECONSUMER s g e; \
            XCLAIM s g e 0 1-0 TIME 1700000000100 RETRYCOUNT 3 FORCE JUSTID LASTID 3-0
        "#,
    );
}

/// The pages of Redis 8.10 on XREAD and XREADGROUP.
#[test]
fn a_reply_is_bounded_over_all_streams() {
    let mut session = Session::new();
    for key in ["s", "t"] {
        (1..=3).for_each(|ms| _ = session.call(&format!("XADD {key} {ms} a b")));
    }
    // An entry takes 4 + 9 + 4 + 7 + 7 bytes.
    talk(
        &mut session,
        r#"
        XREAD COUNT 2 MAXCOUNT 3 STREAMS s t 0 0 => \
            [["s" [["1-0" ["a" "b"]] ["2-0" ["a" "b"]]]] ["t" [["1-0" ["a" "b"]]]]]
        XREAD MAXCOUNT 2 STREAMS s t 0 0 => [["s" [["1-0" ["a" "b"]] ["2-0" ["a" "b"]]]]]
        XREAD MAXSIZE 1 STREAMS s t 0 0 => [["s" [["1-0" ["a" "b"]]]]]
        XREAD MAXSIZE 62 STREAMS s t 1 0 => [["s" [["2-0" ["a" "b"]] ["3-0" ["a" "b"]]]]]
        XREAD MAXSIZE 61 STREAMS s t 1 0 => [["s" [["2-0" ["a" "b"]]]]]
        XREAD MAXCOUNT 0 STREAMS s 0 => -ERR MAXCOUNT must be a positive integer
        XREAD MAXSIZE 0 STREAMS s 0 => -ERR MAXSIZE must be a positive integer
        XREAD COUNT 3 MAXCOUNT 2 STREAMS s 0 => \
            -ERR MAXCOUNT must be greater than or equal to COUNT
        XGROUP CREATE s g 0 => +OK
        XGROUP CREATE t g 0 => +OK
        XREADGROUP GROUP g c MAXCOUNT 4 STREAMS s t > > => \
            [["s" [["1-0" ["a" "b"]] ["2-0" ["a" "b"]] ["3-0" ["a" "b"]]]] \
            ["t" [["1-0" ["a" "b"]]]]]
        XREADGROUP GROUP g c MAXSIZE 40 STREAMS s t 0 > => [["s" [["1-0" ["a" "b"]]]]]
        XREADGROUP GROUP g c STREAMS t > => [["t" [["2-0" ["a" "b"]] ["3-0" ["a" "b"]]]]]
        "#,
    );
}

#[test]
fn a_group_replayed_from_the_journal_is_the_same() {
    let mut session = Session::new();
    let mut journal: Vec<String> = Vec::new();
    let requests = [
        "XADD s 1 a 1",
        "XADD s MAXLEN ~ 50 * a 2",
        "XADD s IDMP p 1 * a 3",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h $",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XREADGROUP GROUP g n NOACK STREAMS s >",
        "XCLAIM s g d 0 1 IDLE 5",
        "XACK s g 1700000000000-0",
        "XADD s * a 4",
        "XREADGROUP GROUP g e CLAIM 3 STREAMS s >",
        "XDEL s 1",
        "XAUTOCLAIM s g f 0 0",
        "XNACK s g FAIL IDS 1 1700000000000-2",
    ];
    for request in requests {
        assert!(!session.call(request).starts_with('-'), "{request}");
        journal.extend_from_slice(session.journal());
    }
    let mut replica = Session::new();
    for command in &journal {
        assert!(!replica.call(command).starts_with('-'), "{command}");
    }
    for look in ["XINFO GROUPS s", "XPENDING s g - + 10", "XRANGE s - +", "XPENDING s g"] {
        assert_eq!(replica.call(look), session.call(look), "{look}");
    }
    assert_eq!(replica.call("XADD s IDMP p 1 * a 3"), session.call("XADD s IDMP p 1 * a 3"));
}

/// H22, H27: counts at their limits, and many IDs.
#[test]
fn hostile_counts_and_many_ids_do_no_harm() {
    let mut session = Session::new();
    session.call("XADD s 1 a b");
    session.call("XGROUP CREATE s g 0");
    for count in [1_i64, 8, 9, 1024, 20_000] {
        let number = count.to_string();
        let ids: Vec<String> = (1..=count).map(|id| format!("{id}-1")).collect();
        let ids = ids.join(" ");
        let reply = session.call(&format!("XACKDEL s g IDS {number} {ids}"));
        assert_eq!(reply.matches(":-1").count() as i64, count);
        let reply = session.call(&format!("XDELEX s IDS {number} {ids}"));
        assert_eq!(reply.matches(":-1").count() as i64, count);
        assert_eq!(session.call(&format!("XACK s g {ids}")), ":0");
    }
    assert!(session.ran_heavy(), "20,000 IDs are too many for a worker");
    talk(
        &mut session,
        r#"
        XAUTOCLAIM s g c 0 0 COUNT 576460752303423487 => ["0-0" [] []]
        XAUTOCLAIM s g c 0 0 COUNT 576460752303423488 => -ERR COUNT must be > 0
        XPENDING s g - + 9223372036854775807 => []
        XRANGE s - + COUNT 9223372036854775807 => [["1-0" ["a" "b"]]]
        XREAD COUNT 9223372036854775807 STREAMS s 0 => [["s" [["1-0" ["a" "b"]]]]]
        XTRIM s MAXLEN ~ 9223372036854775807 LIMIT 9223372036854775807 => :0
        XTRIM s MAXLEN 9223372036854775807 => :0
        XDELEX s IDS 9223372036854775807 1 => \
            -ERR The `numids` parameter must match the number of arguments
        XCLAIM s g c 0 1 FORCE IDLE -9223372036854775808 TIME 9223372036854775807 => \
            [["1-0" ["a" "b"]]]
        XPENDING s g IDLE -9223372036854775808 - + 10 => [["1-0" "c" :0 :2]]
        XCLAIM s g c 9223372036854775807 1 RETRYCOUNT 9223372036854775807 => []
        XCLAIM s g c 0 1 RETRYCOUNT 9223372036854775807 JUSTID => ["1-0"]
        XREADGROUP GROUP g c COUNT 9223372036854775807 STREAMS s 0 => \
            [["s" [["1-0" ["a" "b"]]]]]
        "#,
    );
}

#[test]
fn a_stream_without_entries_stays() {
    let mut session = Session::new();
    talk(
        &mut session,
        r#"
        XGROUP CREATE s g $ MKSTREAM => +OK
        XGROUP DESTROY s g => :1
        EXISTS s => :1
        COPY s t => :1
        XADD t 1 a b => "1-0"
        XLEN s => :0
        XDEL t 1 => :1
        XLEN t => :0
        RENAME t u => +OK
        XADD u 1 a b => \
            -ERR The ID specified in XADD is equal or smaller than the target stream top item
        "#,
    );
}

/// The reply is made while it is sent, wherever the command runs: by the worker of another client,
/// too, which made the stream.
#[test]
fn a_long_xread_keeps_no_thread() {
    for mut session in [Session::new(), Session::new().resp3()] {
        for (key, count) in [("one", 3000), ("few", 2), ("two", 3000)] {
            for number in 1..=count {
                session.call(&format!("XADD {key} {number} field value:{number}"));
            }
        }
        session.call("XDEL one 1500 3000");
        for count in [1, 3, 1400, 5000] {
            let request = format!("COUNT {count} STREAMS one none few two 4 0 0 2");
            let long = session.call(&format!("XREAD {request}"));
            let is_long = session.streamed();
            assert!(!session.ran_heavy(), "COUNT {count}");
            assert_eq!(is_long, count >= 1400, "COUNT {count}");
            // A limit that is never met has the reply made at once.
            let whole = session.call(&format!("XREAD MAXSIZE 1000000000 {request}"));
            assert!(!session.streamed());
            assert!(long == whole, "COUNT {count}");
        }
        let nothing = session.call("XREAD STREAMS one two 3000 3000");
        assert_eq!(nothing, session.call("XREAD STREAMS none 0"));
    }
}
