//! Streams that cannot be applied: why is told, the server goes on, and what came before is there.

use std::sync::atomic::Ordering;

use super::{Rig, encoded, words};

/// What a stream may not hold, and what is told of it.
#[test]
fn what_a_stream_may_not_hold_ends_it() {
    let table: &[(&[u8], &str)] = &[
        (b"PING\r\n", "not an array"),
        (b"*1\r\n$-7\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n", "does not end"),
        (&encoded(&["MULTI", "SET a 2"]), "does not end"),
        (&encoded(&["MULTI", "MULTI", "EXEC"]), "MULTI within MULTI"),
        (&encoded(&["EXEC"]), "did not begin"),
        (&encoded(&["NOSUCHCOMMAND a"]), "Unknown command 'NOSUCHCOMMAND'"),
        (&encoded(&["SET a"]), "Wrong number of arguments for 'set'"),
        (&encoded(&["SELECT 99"]), "'select' is answered with"),
    ];
    for (bytes, why) in table {
        let mut rig = Rig::new(2, 100);
        rig.push(&["SET a 1", "SET b 1"]);
        rig.settle().unwrap();
        rig.push_in(0, &[&encoded(&["SET b 2"]), *bytes].concat());
        let told = rig.settle().unwrap_err();
        assert!(told.contains(why), "{told}: {why}");
        assert_eq!(rig.ask(0, "MGET a b"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "{why}");
        let journal = rig.journal.text();
        assert!(journal.ends_with(&String::from_utf8(encoded(&["SET b 2"])).unwrap()), "{why}");
    }
}

#[test]
fn empty_lines_and_arrays_count_and_do_nothing() {
    let mut rig = Rig::new(2, 100);
    let transaction =
        [&encoded(&["MULTI"])[..], b"\r\n", &encoded(&["SET a 2"]), b"*0\r\n", &encoded(&["EXEC"])];
    for piece in [b"\n".to_vec(), b"*0\r\n\r\n".to_vec(), transaction.concat(), b"\n".to_vec()] {
        rig.push_in(0, &[&encoded(&["SET b 1"]), &piece[..]].concat());
        rig.settle().unwrap();
        assert!(rig.journal.text().ends_with(&String::from_utf8(piece).unwrap()));
    }
    assert_eq!(rig.ask(0, "MGET a b"), "*2\r\n$1\r\n2\r\n$1\r\n1\r\n");
}

#[test]
fn a_command_that_fails_is_told_and_the_stream_goes_on() {
    let mut rig = Rig::new(2, 0);
    rig.push(&["SET a 1", "LPUSH a x", "MULTI", "INCR a", "HSET a f v", "SET c 1", "EXEC"]);
    rig.settle().unwrap();
    assert_eq!(rig.server.stats.unexpected_errors.load(Ordering::Relaxed), 2);
    assert_eq!(rig.ask(0, "MGET a c"), "*2\r\n$1\r\n2\r\n$1\r\n1\r\n");
}

#[test]
fn a_command_that_fails_ends_the_stream_where_that_is_asked_for() {
    for behavior in ["panic", "panic-on-replicas"] {
        let mut rig = Rig::new(1, 0);
        let pair = [b"propagation-error-behavior".as_slice(), behavior.as_bytes()];
        rig.server.config.set_many(&pair, true).unwrap();
        rig.push(&["SET a 1"]);
        rig.settle().unwrap();
        rig.push(&["LPUSH a x", "SET b 1"]);
        assert!(rig.settle().unwrap_err().contains("'lpush' is answered with '-WRONGTYPE"));
        assert_eq!(rig.ask(0, "EXISTS b"), ":0\r\n");
    }
}

#[test]
fn memory_that_is_short_does_not_keep_a_replica_from_following() {
    let mut rig = Rig::new(1, 0);
    let server = rig.server;
    server.config.set_many(&[b"maxmemory", b"1"], true).unwrap();
    server.budget.configure(&server.config, &server.replica_role);
    assert_eq!((server.budget.limit(), server.budget.configured()), (0, 1));
    rig.push(&["SET a 1", "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 b 2"]);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "MGET a b"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn who_is_dropped_leaves_the_turn_to_the_next() {
    let mut rig = Rig::new(2, 0);
    rig.push(&["SET a 1"]);
    rig.settle().unwrap();
    let (sender, reports) = std::sync::mpsc::channel();
    let report = Box::new(move |report| _ = sender.send(report));
    let next = super::StreamApplier::by(rig.server, 2, String::new(), report).unwrap();
    rig.applier = next;
    rig.reports = reports;
    rig.push(&["SET a 2"]);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "GET a"), "$1\r\n2\r\n");
    assert_eq!(words("GET a").as_args().len(), 2);
}
