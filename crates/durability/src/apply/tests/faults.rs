//! Streams that cannot be applied: why is told, the server goes on, and what came before is there.
//! A command that fails is told of and passed over.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use persist::storage::simulated::Fault;

use super::super::StreamApplier;
use super::{Rig, ask, encoded, words};
use crate::aof::flush;
use crate::testing::{await_end, end, new_disk, start};

/// What a stream may not hold, and what is told of it.
#[test]
fn what_a_stream_may_not_hold_ends_it() {
    let table: &[(&[u8], &str)] = &[
        (b"PING\r\n", "not an array"),
        (b"*1\r\n$-7\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n", "does not end"),
        (&encoded(&["MULTI", "SET a 2"]), "does not end"),
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

/// A promotion gives up what a pause keeps from being applied; the pause's end brings nothing back.
#[test]
fn what_was_given_up_is_never_applied() {
    let mut rig = Rig::new(2, 100);
    let (server, pause) = (rig.server, rig.server.gates.pause.begin_own());
    rig.push(&["SET a 1"]);
    // By then the thread has it in hand, mostly; what is still queued is forgotten as well.
    (0..1000).for_each(|_| std::thread::yield_now());
    let (sender, reports) = channel();
    rig.applier = StreamApplier::by(
        server,
        2,
        "10.0.0.1:6379".to_owned(),
        Box::new(move |report| _ = sender.send(report)),
    )
    .unwrap();
    drop(pause);
    // The second one begins when the first one has ended.
    rig.reports = reports;
    rig.applied = rig.end;
    rig.push(&["SET b 1"]);
    rig.settle().unwrap();
    assert_eq!(rig.values("a b"), "- 1");
    assert!(!rig.journal.text().contains("$1\r\na\r\n"));
}

#[test]
fn a_command_without_a_name_is_one_that_nobody_knows() {
    let mut rig = Rig::new(2, 100);
    for nameless in [&b"*1\r\n$0\r\n\r\n"[..], b"*3\r\n$0\r\n\r\n$1\r\na\r\n$1\r\nb\r\n"] {
        let transaction = [&encoded(&["MULTI"])[..], nameless, &encoded(&["SET a 1", "EXEC"])];
        for piece in [nameless, &transaction.concat()] {
            rig.push_in(0, &[&encoded(&["SET b 1"]), piece, &encoded(&["INCR b"])].concat());
            rig.settle().unwrap();
            assert_eq!(rig.ask(0, "GET b"), "$1\r\n2\r\n");
        }
    }
    // A transaction with such a command does nothing.
    assert_eq!(rig.ask(0, "GET a"), "$-1\r\n");
}

/// Commands of a stream that fail, with how many errors that are, and what is there then of the
/// keys `a`, which was 1, and `b`, which was not.
pub(super) const FAILING: &[(&[&str], u64, &str)] = &[
    (&["LPUSH a x"], 1, "1 -"),
    (&["NOSUCHCOMMAND a b", "SET b 1"], 1, "1 1"),
    (&["OBJECT NOSUCH", "SET a"], 2, "1 -"),
    (&["SELECT 99", "SELECT x", "INCR a"], 2, "2 -"),
    (&["EXEC", "DISCARD", "CONFIG SET maxmemory 0", "QUIT"], 4, "1 -"),
    (&["MULTI", "INCR a", "HSET a f v", "SET b 1", "EXEC"], 1, "2 1"),
    (&["MULTI", "LPUSH a x", "SET b 1", "EXEC"], 1, "1 1"),
    (&["MULTI", "INCR a", "NOSUCH", "SET b 1", "EXEC"], 2, "1 -"),
    (&["MULTI", "INCR a", "SET b", "NOSUCH", "SET b 1", "EXEC"], 3, "1 -"),
    (&["MULTI", "MULTI", "SET b 1", "INCR a", "EXEC"], 1, "2 1"),
    (&["MULTI", "SET b 1", "DISCARD", "INCR a"], 0, "2 -"),
    (&["MULTI", "LPUSH a x", "EXEC", "INCR a"], 1, "2 -"),
];

#[test]
fn a_command_that_fails_is_told_and_the_stream_goes_on() {
    for (lines, errors, expected) in FAILING {
        for shares in [1, 2] {
            let mut rig = Rig::new(shares, 0);
            let stream = [&["SET a 1", "SET other 1"], *lines, &["INCR other", "PING"]].concat();
            rig.push(&stream);
            rig.settle().unwrap_or_else(|why| panic!("{lines:?}: {why}"));
            let counted = rig.server.observed.stats.unexpected_errors.load(Ordering::Relaxed);
            assert_eq!(counted, *errors, "{lines:?}");
            assert_eq!(rig.values("a b other"), format!("{expected} 2"), "{lines:?}");
            let journal = rig.journal.bytes();
            assert_eq!(journal, encoded(&stream), "it is passed on as it came");
        }
    }
}

/// Errors among units that several threads run.
#[test]
fn commands_that_fail_beside_others_are_found_each_in_its_place() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
    let lines: Vec<String> = (0..64)
        .flat_map(|key| {
            [format!("SET k{key} 1"), format!("LPUSH k{key} x"), format!("INCR k{key}")]
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    rig.push(&lines);
    rig.settle().unwrap();
    assert_eq!(rig.server.observed.stats.unexpected_errors.load(Ordering::Relaxed), 64);
    assert_eq!(rig.journal.bytes(), encoded(&lines));
    assert!(flush(rig.server));
    let first = rig.server;
    drop(rig);
    end(first);
    let again = start(&disk).unwrap();
    for key in 0..64 {
        assert_eq!(ask(again, 0, &format!("GET k{key}")), "$1\r\n2\r\n");
    }
    end(again);
}

#[test]
fn a_transaction_that_is_thrown_away_selects_what_the_primary_has_selected() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
    rig.push(&["MULTI", "SELECT 3", "NOSUCH", "EXEC"]);
    rig.push_in(3, &encoded(&["SET a 1"]));
    rig.settle().unwrap();
    assert_eq!(rig.ask(3, "GET a"), "$1\r\n1\r\n");
    assert!(flush(rig.server));
    let first = rig.server;
    drop(rig);
    end(first);
    let again = start(&disk).unwrap();
    assert_eq!(ask(again, 3, "GET a"), "$1\r\n1\r\n");
    end(again);
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
        assert!(rig.settle().unwrap_err().ends_with("after processing the command 'lpush'"));
        assert_eq!(rig.ask(0, "EXISTS b"), ":0\r\n");
    }
}

#[test]
fn a_disk_that_keeps_nothing_ends_the_process_or_is_told_of() {
    for goes_on in [false, true] {
        let disk = new_disk();
        let mut rig = Rig::on(start(&disk).unwrap(), 1, 0);
        let server = rig.server;
        let word: &[u8] = if goes_on { b"yes" } else { b"no" };
        let pair = [b"replica-ignore-disk-write-errors".as_slice(), word];
        server.config.set_many(&pair, true).unwrap();
        rig.push(&["SET a 1"]);
        rig.settle().unwrap();
        // Or the fault meets what the log has still to do for that.
        assert!(flush(server));
        disk.fail_from(disk.calls() + 1, Fault::Error(28));
        rig.push(&["SET a 2"]);
        rig.settle().unwrap();
        await_end("the log has failed", || {
            server.gates.write_refusals.is_disk_failing(&server.config)
        });
        rig.push(&["SET a 3"]);
        let settled = rig.settle();
        let expected = Err("Replica was unable to write command to disk.".to_owned());
        assert_eq!(settled, if goes_on { Ok(()) } else { expected });
        assert_eq!(rig.values("a"), if goes_on { "3" } else { "2" });
        disk.heal();
        drop(rig);
        end(server);
    }
}

#[test]
fn memory_that_is_short_does_not_keep_a_replica_from_following() {
    let mut rig = Rig::new(1, 0);
    let server = rig.server;
    server.config.set_many(&[b"maxmemory", b"1"], true).unwrap();
    server.memory.budget.configure(&server.config, &server.gates.replica_role);
    assert_eq!((server.memory.budget.limit(), server.memory.budget.configured()), (0, 1));
    rig.push(&["SET a 1", "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 b 2"]);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "MGET a b"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn an_applier_that_is_dropped_leaves_the_turn_to_the_next() {
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
