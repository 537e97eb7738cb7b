//! Rounds: their start, the replicas that share one, framing, and their end.

use super::{Hand, psync};
use crate::primary::{CloseWhen, PrimaryAction, ReplicaId, RoundId, SyncKind};

/// The mark of the first round, if the backlog was there.
const HEADER: &str = "$EOF:#1|";

#[test]
fn a_round_to_sockets_begins_after_the_delay_and_gives_all_the_same_cut() {
    let mut hand = Hand::with_backlog(|_| {});
    hand.attach(1, "eof psync2");
    hand.tick(3000);
    hand.attach(2, "eof");
    assert_eq!(hand.done(), ["1: ~"]);
    hand.tick(4999);
    assert_eq!(hand.done(), ["1: ~", "2: ~"]);
    hand.tick(5000);
    assert_eq!(hand.done(), ["1: ~", "2: ~", "start 1 socket [1, 2]"]);
    hand.attach(3, "eof");
    let socket = "Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC";
    assert_eq!(hand.logged().last().unwrap(), socket);
    hand.tick(6000);
    assert_eq!(hand.done(), ["3: ~"], "nothing but data to those of the round");
    hand.end = 1234;
    hand.cut(1);
    assert_eq!(
        hand.done(),
        [
            "1: +FULLRESYNC #99 1234|",
            &format!("1: {HEADER}"),
            "1: pin 1234",
            "2: +FULLRESYNC #99 1234|",
            &format!("2: {HEADER}"),
            "2: pin 1234"
        ]
    );
    hand.tick(9000);
    hand.done();
    hand.primary.snapshot_streamed(RoundId(1), 10_000);
    let queued = ["1: #1", "1: note", "2: #1", "2: note", "start 2 socket [3]"];
    assert_eq!(hand.done(), queued);
    hand.primary.body_sent(ReplicaId(1), 10_000);
    hand.primary.body_sent(ReplicaId(2), 10_000);
    assert_eq!(hand.done(), [""; 0]);
    hand.ack(2, "1234");
    assert_eq!(hand.done(), ["2: stream"]);
    hand.ack(2, "1234");
    assert_eq!(hand.done(), [""; 0]);
    let states: Vec<&str> = hand.primary.rows(9000).map(|row| row.state).collect();
    assert_eq!(states, ["online", "online", "wait_bgsave"]);
}

#[test]
fn enough_replicas_end_the_delay() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_replicas_max = 2);
    hand.attach(1, "eof");
    hand.attach(2, "eof rdb-no-checksum=1");
    assert_eq!(hand.done(), [""; 0]);
    hand.attach(3, "eof");
    assert_eq!(hand.done(), ["start 1 socket [1, 3]"]);
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, "eof");
    assert_eq!(hand.done(), ["start 1 socket [1]"]);
}

#[test]
fn the_target_is_what_all_of_the_round_know() {
    for (diskless, first, second, started) in [
        (true, "eof", "", "start 1 disk [1, 2]"),
        (false, "eof", "eof", "start 1 disk [1]"),
        (true, "eof rdb-filter-only=", "", "start 1 disk [2]"),
        (true, "eof version=9.0.0", "", "start 1 disk [2]"),
    ] {
        let mut hand = Hand::with_backlog(|settings| settings.diskless = diskless);
        hand.attach(1, first);
        hand.attach(2, second);
        assert_eq!(hand.done(), [started], "{first} {second}");
    }
    let mut hand = Hand::with_backlog(|settings| settings.diskless = false);
    hand.attach(1, "eof rdb-filter-only=functions");
    hand.tick(5000);
    assert_eq!(hand.done(), ["1: ~", "start 1 socket [1]"], "filtered, never to a file");
}

#[test]
fn a_file_is_sent_behind_its_length_and_the_stream_at_once_behind_it() {
    let mut hand = Hand::with_backlog(|_| {});
    hand.attach(1, "psync2");
    assert_eq!(hand.logged().last().unwrap(), "Starting BGSAVE for SYNC with target: disk");
    hand.cut(1);
    hand.tick(1000);
    assert_eq!(hand.done(), ["1: +FULLRESYNC #99 1000|", "1: pin 1000", "1: ~"]);
    assert_eq!(hand.primary.rows(0).next().unwrap().state, "wait_bgsave");
    hand.primary.snapshot_saved(RoundId(1), 77, 1000);
    assert_eq!(hand.done(), ["1: $77|", "1: file", "1: note"]);
    assert_eq!(hand.primary.rows(0).next().unwrap().state, "send_bulk");
    hand.tick(2000);
    assert_eq!(hand.done(), [""; 0]);
    hand.primary.body_sent(ReplicaId(1), 2000);
    assert_eq!(hand.done(), ["1: stream"]);
    assert_eq!(hand.primary.rows(0).next().unwrap().state, "online");
}

#[test]
fn late_replicas_join_a_round_to_a_file_if_its_snapshot_and_cut_can_be_theirs() {
    let joins = "Waiting for end of BGSAVE for SYNC";
    let waits = "Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC";
    for (first, is_cut, late, line, done) in [
        ("", true, "", joins, &["2: +FULLRESYNC #99 1000|", "2: pin 1000"][..]),
        ("", true, "eof psync2", joins, &["2: +FULLRESYNC #99 1000|", "2: pin 1000"]),
        ("psync2", true, "", waits, &[]),
        ("psync2", false, "", joins, &[]),
        ("", true, "version=8.0.0", waits, &[]),
        ("", false, "version=8.0.0", waits, &[]),
        ("rdb-only=1", true, "", waits, &[]),
        ("rdb-only=1", true, "rdb-only=1", joins, &["2: +FULLRESYNC #99 1000|"]),
        // A tool gets what it cannot read, too.
        ("", true, "rdb-only=1", waits, &[]),
        ("", false, "rdb-channel-repl", waits, &[]),
    ] {
        for shows_log in [true, false] {
            let mut hand = Hand::with_backlog(|_| {});
            hand.attach(1, first);
            if is_cut {
                hand.cut(1);
            }
            hand.end = 2000;
            hand.done();
            hand.attach(2, late);
            if shows_log {
                assert_eq!(hand.logged().last().unwrap(), line, "{first:?} {late:?}");
            } else {
                assert_eq!(hand.done(), done, "{first:?} {late:?}");
            }
        }
    }
}

#[test]
fn sync_gets_no_line_and_no_replica_that_is_gone_is_joined() {
    let mut hand = Hand::with_backlog(|_| {});
    hand.ask(1, "", SyncKind::Sync);
    hand.cut(1);
    hand.primary.snapshot_saved(RoundId(1), 5, 0);
    hand.primary.body_sent(ReplicaId(1), 0);
    let done = ["start 1 disk [1]", "1: pin 1000", "1: $5|", "1: file", "1: note", "1: stream"];
    assert_eq!(hand.done(), done);
    hand.attach(2, "");
    hand.cut(2);
    hand.done();
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 2"], "no place keeps what follows the cut");
    hand.attach(3, "");
    assert_eq!(hand.done(), ["start 3 disk [3]"]);
}

#[test]
fn replicas_that_want_a_snapshot_only_are_closed_behind_it() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, "eof rdb-only=1");
    hand.cut(1);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    assert_eq!(hand.replica_count(), 1, "who does not read is timed out");
    hand.primary.body_sent(ReplicaId(1), 0);
    let done = [
        "start 1 socket [1]",
        "1: +FULLRESYNC #99 1000|",
        "1: $EOF:#1|",
        "1: #1",
        "1: note",
        "1: flush, close",
    ];
    assert_eq!(hand.done(), done);
    assert_eq!(hand.replica_count(), 0);
    hand.attach(2, "rdb-only=1");
    hand.cut(2);
    hand.primary.snapshot_saved(RoundId(2), 5, 0);
    hand.primary.body_sent(ReplicaId(2), 0);
    assert_eq!(hand.done().last().unwrap(), "2: flush, close");
}

#[test]
fn an_acknowledgement_that_comes_early_is_not_lost() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, "eof");
    hand.ack(1, "0");
    hand.cut(1);
    hand.done();
    hand.primary.snapshot_streamed(RoundId(1), 0);
    hand.primary.body_sent(ReplicaId(1), 0);
    assert_eq!(hand.done(), ["1: #1", "1: note"], "what came before the cut says nothing");
    hand.ack(1, "1000");
    assert_eq!(hand.done(), ["1: stream"]);
    for (number, is_made) in [(2, false), (3, true)] {
        hand.attach(number, "eof");
        hand.cut(number);
        if !is_made {
            hand.ack(number, "1000");
        }
        hand.primary.snapshot_streamed(RoundId(number), 0);
        if is_made {
            hand.ack(number, "1000");
        }
        hand.done();
        hand.primary.body_sent(ReplicaId(number), 0);
        assert_eq!(hand.done(), [format!("{number}: stream")]);
    }
}

#[test]
fn a_failed_snapshot_closes_its_replicas_and_the_others_get_the_next_one() {
    let mut hand = Hand::with_backlog(|_| {});
    hand.attach(1, "");
    hand.attach(2, "version=9.0.0");
    hand.done();
    hand.primary.snapshot_failed(RoundId(1), 0);
    let error = "1: -ERR BGSAVE failed, replication can't continue|";
    assert_eq!(hand.done(), [error, "1: flush, close", "start 2 disk [2]"]);
    hand.cut(2);
    hand.done();
    hand.primary.snapshot_failed(RoundId(1), 0);
    assert_eq!(hand.done(), [""; 0], "that one is over");
    hand.primary.snapshot_failed(RoundId(2), 0);
    let actions = hand.primary.take_actions();
    let closed = PrimaryAction::Close { replica: ReplicaId(2), when: CloseWhen::Now };
    assert!(matches!(&actions[..], [PrimaryAction::Log { line, .. }, other] if *other == closed
        && line == "SYNC failed. BGSAVE child returned an error"));
}

/// A replica that cannot hold what there is asks again and again.
#[test]
fn a_round_that_fails_again_begins_later_each_time() {
    let mut hand = Hand::with_backlog(|_| {});
    let (mut now_ms, mut pauses) = (0, Vec::new());
    for number in 1..=9 {
        hand.attach(number, "");
        let _ = hand.primary.take_actions();
        let asked_ms = now_ms;
        while hand.primary.round.is_none() {
            now_ms += 1000;
            hand.tick(now_ms);
        }
        pauses.push((now_ms - asked_ms) / 1000);
        hand.primary.snapshot_failed(RoundId(number), now_ms);
        hand.primary.closed(ReplicaId(number), now_ms);
    }
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    hand.attach(10, "");
    hand.tick(now_ms + 60_000);
    hand.primary.snapshot_saved(RoundId(10), 1, now_ms + 60_000);
    hand.attach(11, "");
    hand.done();
    assert!(hand.primary.round.is_some(), "a success ends that");
}

#[test]
fn a_round_ends_with_its_last_replica() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_replicas_max = 2);
    hand.attach(1, "eof");
    hand.attach(2, "eof");
    hand.attach(3, "eof");
    hand.done();
    hand.primary.closed(ReplicaId(1), 0);
    assert_eq!(hand.done(), [""; 0]);
    hand.tick(5000);
    hand.done();
    hand.primary.closed(ReplicaId(2), 5000);
    assert_eq!(hand.done(), ["abort 1", "start 2 socket [3]"]);
    hand.cut(1);
    hand.primary.snapshot_streamed(RoundId(1), 5000);
    assert_eq!(hand.done(), [""; 0], "that one is over");
}

#[test]
fn all_replicas_are_dropped_when_the_history_changes() {
    let mut hand = Hand::with_backlog(|_| {});
    hand.attach(1, "");
    let ours = super::id(99).to_string();
    hand.ask(2, "", psync(&ours, "1001"));
    hand.done();
    hand.primary.drop_all(0);
    assert_eq!(hand.done(), ["1: close", "abort 1", "2: close"]);
    assert_eq!(hand.replica_count(), 0);
}

#[test]
fn two_rounds_have_two_marks() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, "eof");
    hand.cut(1);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    hand.attach(2, "eof");
    hand.cut(2);
    hand.primary.snapshot_streamed(RoundId(2), 0);
    let done = hand.done();
    assert!(done.contains(&"1: #1".to_owned()) && done.contains(&"2: #2".to_owned()));
}

/// Redis 6.2 introduces itself as Redis 7.0 does, and leaves where it cannot load its data.
#[test]
fn a_replica_that_leaves_with_its_data_unloaded_is_told_of() {
    let told_of = |words: &str, writes_redis_6: bool, loads: bool| {
        let mut hand = Hand::with_backlog(|settings| {
            (settings.diskless_delay_ms, settings.writes_redis_6) = (0, writes_redis_6);
        });
        hand.attach(1, words);
        hand.cut(1);
        hand.primary.snapshot_streamed(RoundId(1), 0);
        hand.primary.body_sent(ReplicaId(1), 0);
        if loads {
            hand.ack(1, "1000");
        }
        hand.logged();
        hand.primary.closed(ReplicaId(1), 0);
        let is_told =
            hand.logged().iter().any(|line| line.ends_with("they want rdb-write-version 9 here"));
        hand.attach(2, words);
        assert_eq!(hand.done().is_empty(), is_told, "the next round waits a while");
        is_told
    };
    assert!(told_of("eof psync2", false, false));
    assert!(!told_of("eof psync2", false, true), "it has loaded them");
    assert!(!told_of("eof psync2", true, false), "it was given what it loads");
    assert!(!told_of("eof psync2 version=9.0.0", false, false), "it is Valkey");
}
