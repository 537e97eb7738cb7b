//! A snapshot on a connection of its own, as Redis 8 has it.

use super::{Hand, announced, psync};
use crate::primary::{ReplconfReply, ReplconfState, ReplicaId, RoundId, SyncVerdict};

const MAIN: &str = "eof psync2 rdb-channel-repl listening-port=6380";

/// A primary with replica 1, whose snapshot is to be fetched by another client.
fn offered() -> Hand {
    let mut hand = Hand::with_backlog(|settings| {
        settings.rdb_channel = true;
        settings.diskless_delay_ms = 0;
    });
    hand.attach(1, MAIN);
    assert_eq!(hand.done(), ["1: +RDBCHANNELSYNC 1|"]);
    hand
}

/// What the second connection announces.
fn channel(hand: &Hand) -> ReplconfState {
    let mut channel = announced("eof rdb-only=1");
    let words: [&[u8]; 4] = [b"rdb-channel", b"1", b"main-ch-client-id", b"1"];
    assert_eq!(hand.primary.announce(&mut channel, &words, None), ReplconfReply::Ok);
    channel
}

fn attach_channel(hand: &mut Hand) {
    let channel = channel(hand);
    let verdict = hand.ask_announced(2, "", &channel, psync("?", "-1"));
    assert_eq!(verdict, SyncVerdict::Attached);
}

/// Up to the cut.
fn cut() -> Hand {
    let mut hand = offered();
    attach_channel(&mut hand);
    assert_eq!(hand.done(), ["start 1 socket [2]"]);
    hand.cut(1);
    assert_eq!(
        hand.done(),
        ["2: +FULLRESYNC #99 1000|", "2: $EOF:#1|", "1: pin 1000", "1: stream"]
    );
    hand
}

fn states(hand: &Hand) -> Vec<&'static str> {
    hand.primary.rows(hand.now_ms).map(|row| row.state).collect()
}

#[test]
fn the_stream_flows_beside_the_snapshot() {
    let mut hand = cut();
    assert_eq!(states(&hand), ["send_bulk_and_stream"]);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    assert_eq!(states(&hand), ["send_bulk_and_stream"]);
    hand.primary.body_sent(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["2: #1", "2: note", "2: flush, close"]);
    assert_eq!(states(&hand), ["online"]);
    assert_eq!((hand.replica_count(), hand.primary.counts().full), (1, 1));
    let mut hand = cut();
    hand.ack(1, "0");
    assert_eq!(states(&hand), ["online"]);
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 1"], "the replica has all data by then");
}

#[test]
fn neither_connection_is_left_alone() {
    let mut hand = cut();
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 1", "1: close"]);
    let mut hand = cut();
    hand.primary.closed(ReplicaId(1), 0);
    assert_eq!(hand.done(), ["2: close", "abort 1"]);
    for gone in [1, 2] {
        let mut hand = cut();
        hand.primary.snapshot_streamed(RoundId(1), 0);
        hand.done();
        hand.primary.closed(ReplicaId(gone), 0);
        assert_eq!(hand.done(), [format!("{}: close", 3 - gone)], "it has a part of the data");
    }
    let mut hand = cut();
    hand.primary.snapshot_failed(RoundId(1), 0);
    assert_eq!(hand.done(), ["2: close", "1: close"]);
    let mut hand = cut();
    hand.primary.drop_all(0);
    assert_eq!(hand.replica_count(), 0);
    let mut hand = offered();
    hand.tick(60_001);
    assert_eq!(hand.done(), ["1: close"], "its second connection never came");
}

#[test]
fn a_second_connection_takes_a_snapshot_and_nothing_else_whatever_it_says() {
    let mut hand = offered();
    let mut channel = ReplconfState::default();
    let words: [&[u8]; 4] = [b"main-ch-client-id", b"1", b"rdb-only", b"0"];
    assert_eq!(hand.primary.announce(&mut channel, &words, None), ReplconfReply::Ok);
    let ours = super::id(99).to_string();
    let verdict = hand.ask_announced(2, "", &channel, psync(&ours, "1001"));
    assert_eq!(verdict, SyncVerdict::Attached);
    hand.cut(1);
    hand.primary.snapshot_saved(RoundId(1), 5, 0);
    hand.primary.body_sent(ReplicaId(2), 0);
    let done = ["1: pin 1000", "1: stream", "2: $5|", "2: file", "2: note", "2: flush, close"];
    assert_eq!(hand.done()[2..], done);
    assert_eq!(states(&hand), ["online"]);
    assert_eq!((hand.primary.counts().full, hand.primary.counts().partial_ok), (1, 0));
    let mut hand = offered();
    attach_channel(&mut hand);
    let words: [&[u8]; 2] = [b"main-ch-client-id", b"1"];
    let error = b"ERR Unrecognized RDB client id: 1".to_vec();
    let reply = hand.primary.announce(&mut ReplconfState::default(), &words, None);
    assert_eq!(reply, ReplconfReply::Error(error), "one is enough");
}

#[test]
fn only_a_replica_that_waits_for_it_can_be_named() {
    let mut hand = cut();
    let mut other = ReplconfState::default();
    for number in ["1", "2", "7", "-7"] {
        let words: [&[u8]; 2] = [b"main-ch-client-id", number.as_bytes()];
        let error = format!("ERR Unrecognized RDB client id: {number}").into_bytes();
        let reply = hand.primary.announce(&mut other, &words, None);
        assert_eq!(reply, ReplconfReply::Error(error));
    }
    let mut hand = {
        hand.primary.drop_all(0);
        offered()
    };
    let channel = channel(&hand);
    hand.primary.closed(ReplicaId(1), 0);
    let verdict = hand.ask_announced(2, "", &channel, psync("?", "-1"));
    let error = b"ERR Unrecognized RDB client id: 1".to_vec();
    assert_eq!(verdict, SyncVerdict::Refused(error));
}

#[test]
fn a_primary_that_does_not_offer_it_takes_the_usual_way() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, MAIN);
    assert_eq!(hand.done(), ["start 1 socket [1]"]);
    let words: [&[u8]; 2] = [b"rdb-channel", b"1"];
    let error = b"ERR Unrecognized REPLCONF option: rdb-channel".to_vec();
    let reply = hand.primary.announce(&mut ReplconfState::default(), &words, None);
    assert_eq!(reply, ReplconfReply::Error(error));
}
