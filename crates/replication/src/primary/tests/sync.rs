//! What is checked when a client asks for a sync, in order, and what a resync of part sends.

use super::{Hand, PRIMARY, id, psync};
use crate::primary::{Role, ServerRole, SyncCounts, SyncKind, SyncVerdict};

fn refused(text: &str) -> SyncVerdict {
    SyncVerdict::Refused(text.as_bytes().to_vec())
}

#[test]
fn obstacles_are_told_in_order() {
    let mut hand = Hand::with_backlog(|_| {});
    let alone = ServerRole { role: Role::Replica { is_connected: false }, fails_over: false };
    let failing = ServerRole { fails_over: true, ..alone };
    let connected = ServerRole { role: Role::Replica { is_connected: true }, fails_over: false };
    let filter = "rdb-filter-only=functions";
    let cases = [
        ("output rdb-filter-only=", failing, "NOMASTERLINK Can't SYNC while failing over"),
        ("output", alone, "NOMASTERLINK Can't SYNC while not connected with my master"),
        ("output", PRIMARY, "ERR SYNC and PSYNC are invalid with pending output"),
        (filter, connected, "ERR Filtered replica requires EOF capability"),
        ("", PRIMARY, "ERR value is not an integer or out of range"),
    ];
    for (words, standing, error) in cases {
        assert_eq!(hand.ask_as(1, words, psync("?", "x"), standing), refused(error));
        assert_eq!(hand.ask_as(1, "monitor", psync("?", "x"), standing), SyncVerdict::Ignored);
    }
    assert_eq!(hand.primary.counts(), SyncCounts::default());
    assert_eq!((hand.replica_count(), hand.done().len()), (0, 0));
    hand.attach(1, "eof");
    assert_eq!(hand.ask_as(1, "output", psync("?", "x"), failing), SyncVerdict::Ignored);
}

#[test]
fn a_failover_names_our_id_and_makes_us_primary_first() {
    let mut hand = Hand::with_backlog(|_| {});
    let (ours, other) = (id(99).to_string().to_uppercase(), id(1).to_string());
    let ask = |id| SyncKind::Psync { id, byte: b"1001", failover: true };
    let replica = ServerRole { role: Role::Replica { is_connected: true }, fails_over: false };
    assert_eq!(
        hand.ask(1, "", ask(ours.as_bytes())),
        refused("ERR PSYNC FAILOVER can't be sent to a master.")
    );
    assert_eq!(
        hand.ask_as(1, "", ask(other.as_bytes()), replica),
        refused("ERR PSYNC FAILOVER replid must match my replid.")
    );
    assert_eq!(hand.ask_as(1, "", ask(ours.as_bytes()), replica), SyncVerdict::PromoteFirst);
    assert_eq!(hand.logged(), ["MASTER MODE enabled (failover request from 'id=7')"]);
    hand.history.promote(1000, id(5));
    assert_eq!(hand.ask(1, "psync2", psync(&ours, "1001")), SyncVerdict::Attached);
    assert_eq!(hand.done(), ["1: +CONTINUE #5|", "1: pin 1000", "1: stream"]);
}

#[test]
fn a_replica_goes_on_at_the_byte_that_was_asked_for() {
    let ours = id(99).to_string();
    for (words, byte, done) in [
        ("psync2 eof", "1001", ["1: +CONTINUE #99|", "1: pin 1000", "1: stream"]),
        ("psync2", "901", ["1: +CONTINUE #99|", "1: pin 900", "1: stream"]),
        ("eof", "950", ["1: +CONTINUE|", "1: pin 949", "1: stream"]),
    ] {
        let mut hand = Hand::with_backlog(|_| {});
        assert_eq!(hand.ask(1, words, psync(&ours, byte)), SyncVerdict::Attached);
        assert_eq!(hand.done(), done);
        assert_eq!(hand.primary.counts().partial_ok, 1);
        assert_eq!(hand.primary.rows(0).next().unwrap().state, "online");
    }
}

#[test]
fn full_syncs_are_counted_by_what_was_asked() {
    let (ours, other) = (id(99).to_string(), id(1).to_string());
    let sync = SyncKind::Sync;
    for (ask, partial_err) in [
        (psync("?", "-1"), 0),
        (psync("?", "5"), 0),
        (sync, 0),
        (psync(&other, "950"), 1),
        (psync(&ours, "1002"), 1),
        (psync(&ours, "900"), 1),
        (psync(&ours, "0"), 1),
        (psync(&ours, "-1"), 1),
    ] {
        let mut hand = Hand::with_backlog(|_| {});
        assert_eq!(hand.ask(1, "eof", ask), SyncVerdict::Attached);
        let expected = SyncCounts { full: 1, partial_err, ..SyncCounts::default() };
        assert_eq!(hand.primary.counts(), expected, "{ask:?}");
        assert_eq!(hand.done(), [""; 0], "all wait for the delay: {ask:?}");
    }
}

#[test]
fn the_first_replica_begins_a_backlog_and_new_ids() {
    let mut hand = Hand::new(|_| {});
    let ours = id(99).to_string();
    assert_eq!(hand.ask(1, "eof", psync(&ours, "1001")), SyncVerdict::Attached);
    assert_eq!(hand.history.id(), id(1));
    let logged = hand.logged();
    let line = format!(
        "Replication backlog created, my new replication IDs are '{}' and '{}'",
        id(1),
        crate::ids::ReplicationId::NONE
    );
    assert!(logged.contains(&line), "{logged:?}");
    let mut hand = Hand::new(|_| {});
    hand.attach(1, "eof");
    assert_eq!(hand.done(), ["create"]);
    hand.attach(2, "eof");
    assert_eq!(hand.done(), [""; 0]);
}
