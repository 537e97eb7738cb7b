//! What happens by the clock, and the counts that clients wait for.

use super::{Hand, id, psync};
use crate::history::KeptRange;
use crate::primary::{
    OutputLimit, PrimarySettings, ReplicaId, Role, RoundId, StreamView, SyncKind, SyncVerdict,
};

/// A primary with replica 1 online, at offset 1000.
fn online(change: impl FnOnce(&mut PrimarySettings)) -> Hand {
    let mut hand = Hand::with_backlog(change);
    join(&mut hand, 1);
    hand
}

fn join(hand: &mut Hand, number: u64) {
    let ours = id(99).to_string();
    let words = "listening-port=6380";
    assert_eq!(hand.ask(number, words, psync(&ours, "1001")), SyncVerdict::Attached);
    hand.done();
}

#[test]
fn a_silent_replica_is_closed_and_a_newline_is_a_sign_of_life() {
    let mut hand = online(|settings| settings.ping_period_ms = 1_000_000);
    hand.tick(60_000);
    assert_eq!(hand.done(), [""; 0]);
    hand.primary.newline(ReplicaId(1), 60_000);
    hand.tick(120_000);
    assert_eq!(hand.done(), [""; 0]);
    hand.ack(1, "1000");
    hand.tick(180_001);
    assert_eq!(hand.logged(), ["Disconnecting timedout replica (streaming sync): 10.0.0.1:6380"]);
    assert_eq!(hand.replica_count(), 0);
}

#[test]
fn a_client_of_sync_is_never_expected_to_speak() {
    let mut hand = Hand::with_backlog(|settings| settings.ping_period_ms = u64::MAX);
    hand.ask(1, "", SyncKind::Sync);
    hand.cut(1);
    hand.primary.snapshot_saved(RoundId(1), 5, 0);
    hand.primary.body_sent(ReplicaId(1), 0);
    hand.done();
    hand.tick(1_000_000_000);
    assert_eq!(hand.done(), [""; 0]);
}

#[test]
fn a_replica_that_takes_no_data_is_closed() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, "eof");
    hand.cut(1);
    hand.primary.stalled(ReplicaId(1), 1000);
    hand.primary.moved(ReplicaId(1));
    hand.primary.stalled(ReplicaId(1), 2000);
    hand.primary.stalled(ReplicaId(1), 50_000);
    hand.tick(62_000);
    assert_eq!(hand.replica_count(), 1);
    hand.done();
    hand.tick(62_001);
    assert_eq!(hand.done()[..2], ["1: close", "abort 1"]);
}

#[test]
fn a_replica_is_online_and_must_be_heard_of_when_it_has_all_data_and_not_before() {
    let mut hand = Hand::with_backlog(|settings| {
        (settings.diskless_delay_ms, settings.replicas_min) = (0, 1);
    });
    hand.attach(1, "eof");
    hand.cut(1);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    for seconds in 0..200 {
        hand.tick(seconds * 1000);
        assert_eq!(hand.primary.rows(hand.now_ms).next().unwrap().state, "wait_bgsave");
        assert!(!hand.primary.allows_writes(), "the replica has a part of the data");
    }
    hand.primary.body_sent(ReplicaId(1), 200_000);
    assert_eq!(hand.primary.rows(200_000).next().unwrap().state, "online");
    assert!(hand.primary.allows_writes());
    hand.tick(260_000);
    assert_eq!(hand.replica_count(), 1);
    hand.tick(261_000);
    assert_eq!(hand.replica_count(), 0, "nothing was heard of it");
}

#[test]
fn a_replica_that_does_not_take_the_rest_is_closed_whatever_it_says_and_wants() {
    for words in ["eof", "eof rdb-only=1"] {
        for stalls_before in [true, false] {
            let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
            hand.attach(1, words);
            hand.cut(1);
            if stalls_before {
                hand.primary.stalled(ReplicaId(1), 1000);
            }
            hand.primary.snapshot_streamed(RoundId(1), 1000);
            if !stalls_before {
                hand.primary.stalled(ReplicaId(1), 1000);
            }
            hand.primary.newline(ReplicaId(1), 60_000);
            hand.tick(61_000);
            assert_eq!(hand.replica_count(), 1);
            hand.done();
            hand.tick(61_001);
            assert_eq!(hand.done(), ["1: close"], "{words}");
        }
    }
}

#[test]
fn pings_and_questions_are_records_of_the_top_only() {
    let mut hand = online(|_| {});
    hand.tick(9_999);
    assert_eq!(hand.done(), [""; 0]);
    hand.tick(10_000);
    assert_eq!(hand.done(), ["append *1|$4|ping|"]);
    hand.tick(11_000);
    assert_eq!(hand.done(), [""; 0]);
    let mut view = StreamView { history: &mut hand.history, kept: hand.kept };
    hand.primary.tick(Role::Primary, true, &mut view, 20_000);
    hand.primary.tick(Role::Replica { is_connected: true }, false, &mut view, 20_000);
    assert_eq!(hand.done(), [""; 0]);

    hand.primary.end_of_turn(Role::Primary, false);
    assert_eq!(hand.done(), [""; 0]);
    hand.primary.want_acks();
    hand.primary.want_acks();
    hand.primary.end_of_turn(Role::Primary, true);
    assert_eq!(hand.done(), [""; 0]);
    hand.primary.end_of_turn(Role::Primary, false);
    hand.primary.end_of_turn(Role::Primary, false);
    let asked = "append *3|$8|REPLCONF|$6|GETACK|$1|*|";
    assert_eq!(hand.done(), [asked]);
    assert_eq!(asked.len() - "append ".len() + asked.matches('|').count(), 37);
}

#[test]
fn a_backlog_that_nobody_needs_is_freed_and_its_ids_end() {
    let mut hand = online(|settings| settings.backlog_ttl_ms = 5_000);
    hand.primary.closed(ReplicaId(1), 1_000);
    hand.tick(6_000);
    assert_eq!(hand.done(), [""; 0]);
    let mut view = StreamView { history: &mut hand.history, kept: hand.kept };
    hand.primary.tick(Role::Replica { is_connected: true }, false, &mut view, 9_000);
    assert_eq!(hand.done(), [""; 0], "a replica keeps its backlog");
    hand.tick(9_000);
    assert_eq!(hand.done(), ["free"]);
    assert_eq!(hand.history.id(), id(1));
    hand.tick(99_000);
    assert_eq!(hand.done(), [""; 0]);
    let mut hand = online(|settings| settings.backlog_ttl_ms = 0);
    hand.primary.closed(ReplicaId(1), 1_000);
    hand.tick(u64::MAX);
    assert_eq!(hand.done(), [""; 0]);
    assert_eq!(hand.kept, Some(KeptRange { first: 900, end: 1000 }));
}

#[test]
fn acknowledged_offsets_only_grow() {
    let mut hand = online(|_| {});
    join(&mut hand, 2);
    hand.attach(3, "eof");
    assert_eq!((hand.acked_by(0), hand.acked_by(1000)), (2, 0));
    hand.ack(1, "1000");
    hand.ack(1, "900");
    hand.ack(2, "900");
    hand.ack(3, "5000");
    assert_eq!((hand.acked_by(900), hand.acked_by(901)), (2, 1));
    assert_eq!((hand.fsynced_by(0), hand.fsynced_by(1)), (2, 0));
    let args: [&[u8]; 4] = [b"ack", b"1000", b"fack", b"800"];
    hand.primary.replconf(ReplicaId(2), &args, "id=7", 0);
    hand.ack(2, "1000");
    assert_eq!((hand.fsynced_by(800), hand.fsynced_by(801)), (1, 0));
    assert_eq!(hand.acked_by(1000), 2);
}

#[test]
fn writes_need_as_many_good_replicas_as_is_said() {
    let mut hand = online(|settings| {
        settings.replicas_min = 1;
        settings.ping_period_ms = u64::MAX;
    });
    assert_eq!((hand.primary.good_replicas(), hand.primary.allows_writes()), (Some(1), true));
    hand.tick(10_999);
    assert!(hand.primary.allows_writes());
    hand.tick(11_000);
    assert_eq!((hand.primary.good_replicas(), hand.primary.allows_writes()), (Some(0), false));
    hand.ack(1, "1000");
    hand.tick(12_000);
    assert!(hand.primary.allows_writes());
    hand.primary.closed(ReplicaId(1), 12_000);
    assert!(!hand.primary.allows_writes());
    for change in [
        |it: &mut PrimarySettings| it.lag_max_ms = 0,
        |it: &mut PrimarySettings| it.replicas_min = 0,
    ] {
        let mut settings = PrimarySettings { replicas_min: 3, ..PrimarySettings::default() };
        change(&mut settings);
        hand.primary.configure(settings, 0);
        assert_eq!((hand.primary.good_replicas(), hand.primary.allows_writes()), (None, true));
    }
}

#[test]
fn rows_show_what_was_announced_and_heard() {
    let mut hand = online(|_| {});
    hand.attach(2, "ip-address=a\x01b listening-port=7");
    hand.attach(3, "eof ip-address=::1");
    hand.ack(1, "950");
    let rows: Vec<String> = hand.primary.rows(3_500).map(|row| row.to_string()).collect();
    assert_eq!(
        rows,
        [
            "ip=10.0.0.1,port=6380,state=online,offset=950,lag=3",
            r"ip=a\x01b,port=7,state=wait_bgsave,offset=0,lag=0",
            "ip=::1,port=0,state=wait_bgsave,offset=0,lag=0",
        ]
    );
    assert_eq!(hand.replica_count(), 3);
}

#[test]
fn a_replica_that_asks_for_a_reply_is_closed() {
    let mut hand = online(|_| {});
    hand.primary.replconf(ReplicaId(1), &[b"capa", b"eof"], "id=7 S", 0);
    let line = "Replica generated a reply to command 'replconf', disconnecting it: id=7 S";
    assert_eq!(hand.logged(), [line]);
    join(&mut hand, 2);
    hand.primary.replconf(ReplicaId(2), &[b"getack", b"*"], "id=7", 0);
    assert_eq!(hand.done(), [""; 0]);
    hand.primary.misbehaved(ReplicaId(2), "get", "id=7", 0);
    assert_eq!(hand.done(), ["2: close"]);
}

#[test]
fn a_debt_beyond_the_limit_closes_the_link() {
    let limit = OutputLimit { hard: 1_000, soft: 500, soft_ms: 2_000 };
    let backlog_size = 5_000;
    for (debts, is_closed) in [
        (&[(0, 4_999), (1_000, 499), (9_000, 4_999)][..], false),
        (&[(0, 5_000)], true),
        (&[(0, 500), (2_000, 500)], false),
        (&[(0, 500), (2_001, 500)], true),
        (&[(0, 500), (1_000, 499), (2_001, 500)], false),
    ] {
        let mut hand = online(|_| {});
        for (now_ms, debt) in debts {
            let id = ReplicaId(1);
            hand.primary.weigh(id, *debt, limit, backlog_size, "id=7", *now_ms);
        }
        assert_eq!(hand.primary.counts().overweight, u64::from(is_closed), "{debts:?}");
        let line = "Client id=7 scheduled to be closed ASAP for overcoming of output buffer \
                    limits.";
        assert_eq!(hand.logged(), [line][..usize::from(is_closed)]);
    }
    let mut hand = online(|_| {});
    let none = OutputLimit { hard: 0, soft: 0, soft_ms: 0 };
    hand.primary.weigh(ReplicaId(1), u64::MAX, none, 0, "id=7", 0);
    assert_eq!(hand.replica_count(), 1);
}
