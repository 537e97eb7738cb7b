//! A snapshot on a connection of its own that is told its number, as Valkey has it.

use super::{Hand, announced, psync};
use crate::primary::{
    RdbReader, ReplconfReply, ReplconfState, ReplicaId, RoundId, SyncKind, SyncVerdict,
};

const MAIN: &str = "eof psync2 dual-channel version=9.1.2 listening-port=6380";

/// A primary that has told client 1 to ask on a second connection.
fn told() -> Hand {
    let mut hand = Hand::with_backlog(|settings| {
        settings.dual_channel = true;
        settings.diskless_delay_ms = 0;
    });
    let verdict = hand.ask(1, MAIN, psync("?", "-1"));
    assert_eq!(verdict, SyncVerdict::Told("DUALCHANNELSYNC"));
    assert_eq!((hand.replica_count(), hand.primary.counts().full), (0, 1));
    hand
}

/// What the second connection announces.
fn channel(hand: &Hand, words: &str) -> ReplconfState {
    let mut channel = announced(words);
    let words: [&[u8]; 4] = [b"rdb-only", b"1", b"rdb-channel", b"1"];
    assert_eq!(hand.primary.announce(&mut channel, &words, None), ReplconfReply::Ok);
    channel
}

/// Up to the cut: client 2 is the second connection.
fn cut() -> Hand {
    let mut hand = told();
    let channel = channel(&hand, "eof version=9.1.2");
    assert_eq!(hand.ask_announced(2, "", &channel, SyncKind::Sync), SyncVerdict::Attached);
    assert_eq!(hand.done(), ["start 1 socket [2]"]);
    hand.cut(1);
    assert_eq!(hand.done(), ["2: $ENDOFF:1000 #99 5 2|", "2: $EOF:#1|", "2: pin 1000"]);
    assert_eq!(hand.replica_count(), 0, "it is none before it asks for the stream");
    hand
}

fn name(hand: &Hand, number: &str) -> (ReplconfState, ReplconfReply) {
    let mut main = announced(MAIN);
    let words: [&[u8]; 2] = [b"set-rdb-client-id", number.as_bytes()];
    let reply = hand.primary.announce(&mut main, &words, None);
    (main, reply)
}

/// The first connection asks for the stream.
fn go_on(hand: &mut Hand) {
    let (main, reply) = name(hand, "2");
    assert_eq!(reply, ReplconfReply::Ok);
    let ours = super::id(99).to_string();
    let verdict = hand.ask_announced(1, "", &main, psync(&ours, "1001"));
    assert_eq!(verdict, SyncVerdict::Attached);
    let done = hand.done();
    assert_eq!(done[..4], ["1: +CONTINUE #99|", "1: pin 1000", "1: stream", "2: unpin"]);
}

fn states(hand: &Hand) -> Vec<&'static str> {
    hand.primary.rows(hand.now_ms).map(|row| row.state).collect()
}

#[test]
fn the_stream_is_asked_for_while_the_snapshot_comes() {
    let mut hand = cut();
    go_on(&mut hand);
    assert_eq!(states(&hand), ["send_bulk_and_stream"]);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    hand.primary.body_sent(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["2: #1", "2: note", "2: flush, close"]);
    assert_eq!(states(&hand), ["online"]);
    let counts = hand.primary.counts();
    assert_eq!((counts.full, counts.partial_ok, counts.partial_err), (1, 1, 0));
}

#[test]
fn the_stream_is_kept_for_who_asks_for_it_late() {
    let mut hand = cut();
    hand.primary.snapshot_streamed(RoundId(1), 0);
    hand.primary.body_sent(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["2: #1", "2: note"], "its place is kept");
    hand.tick(9_000);
    let (main, _) = name(&hand, "2");
    let ours = super::id(99).to_string();
    hand.ask_announced(1, "", &main, psync(&ours, "1001"));
    let done = ["1: +CONTINUE #99|", "1: pin 1000", "1: stream", "2: unpin", "2: flush, close"];
    assert_eq!(hand.done(), done);
    assert_eq!(states(&hand), ["online"]);
    let mut hand = cut();
    hand.primary.snapshot_streamed(RoundId(1), 0);
    hand.primary.body_sent(ReplicaId(2), 0);
    hand.done();
    hand.tick(60_001);
    assert_eq!(hand.done(), ["2: close"], "nobody asked");
}

#[test]
fn neither_connection_is_left_alone_once_they_are_known() {
    let both = || {
        let mut hand = cut();
        go_on(&mut hand);
        hand
    };
    let mut hand = both();
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 1", "1: close"]);
    let mut hand = both();
    hand.primary.closed(ReplicaId(1), 0);
    assert_eq!(hand.done(), ["2: close", "abort 1"]);
    let mut hand = both();
    hand.primary.snapshot_failed(RoundId(1), 0);
    assert_eq!(hand.done(), ["2: close", "1: close"]);
    let mut hand = both();
    hand.ack(1, "1000");
    assert_eq!(states(&hand), ["online"]);
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 1"], "the replica has all data by then");
    let mut hand = cut();
    hand.primary.closed(ReplicaId(2), 0);
    assert_eq!(hand.done(), ["abort 1"], "the first one is a client like any other");
}

#[test]
fn only_a_connection_that_nobody_has_named_can_be_named() {
    let mut hand = cut();
    let error = |number: &str| {
        let text = format!("ERR Unrecognized RDB client id {number}");
        ReplconfReply::Error(text.into_bytes())
    };
    for number in ["1", "3", "-2"] {
        assert_eq!(name(&hand, number).1, error(number));
    }
    let error_of_number = b"ERR value is not an integer or out of range".to_vec();
    assert_eq!(name(&hand, "x").1, ReplconfReply::Error(error_of_number));
    let (other, reply) = name(&hand, "2");
    assert_eq!(reply, ReplconfReply::Ok);
    go_on(&mut hand);
    assert_eq!(name(&hand, "2").1, error("2"), "one is enough");
    // A replica that had named it before goes on as one that has not.
    let ours = super::id(99).to_string();
    assert_eq!(hand.ask_announced(3, "", &other, psync(&ours, "1001")), SyncVerdict::Attached);
    assert_eq!(hand.done(), ["3: +CONTINUE #99|", "3: pin 1000", "3: stream"]);
    hand.primary.closed(ReplicaId(3), 0);
    assert!(hand.done().is_empty());
}

/// A replica that has been told once is told no second time: the data come where they are asked
/// for.
#[test]
fn a_place_that_is_gone_costs_a_full_sync_on_one_connection() {
    let mut hand = cut();
    let (main, _) = name(&hand, "2");
    let verdict = hand.ask_announced(1, "", &main, psync("?", "-1"));
    assert_eq!(verdict, SyncVerdict::Attached);
    hand.primary.snapshot_streamed(RoundId(1), 0);
    assert_eq!(hand.done(), ["2: #1", "2: note", "start 2 socket [1]"]);
}

#[test]
fn a_second_connection_gets_what_its_replica_can_read() {
    for (words, reader) in [
        ("eof version=9.1.2", RdbReader::Valkey9),
        ("eof version=8.0.1", RdbReader::Valkey8),
        ("eof", RdbReader::Valkey8),
        ("eof apus", RdbReader::Apus),
    ] {
        let mut hand = told();
        let channel = channel(&hand, words);
        hand.ask_announced(2, "", &channel, SyncKind::Sync);
        let readers = hand.primary.take_actions().into_iter().filter_map(|action| match action {
            crate::primary::PrimaryAction::StartSnapshot { requirements, .. } => {
                Some(requirements.reader)
            }
            _ => None,
        });
        assert_eq!(readers.collect::<Vec<_>>(), [reader], "{words}");
    }
}

#[test]
fn a_primary_that_does_not_offer_it_takes_the_usual_way() {
    let mut hand = Hand::with_backlog(|settings| settings.diskless_delay_ms = 0);
    hand.attach(1, MAIN);
    assert_eq!(hand.done(), ["start 1 socket [1]"]);
    let error = b"ERR Unrecognized REPLCONF option: set-rdb-client-id".to_vec();
    assert_eq!(name(&hand, "1").1, ReplconfReply::Error(error));
    let mut hand = Hand::with_backlog(|settings| {
        (settings.dual_channel, settings.rdb_channel) = (true, true);
    });
    hand.attach(1, &format!("{MAIN} rdb-channel-repl"));
    assert_eq!(
        hand.done(),
        ["1: +RDBCHANNELSYNC 1|"],
        "of both ways the one that takes less turns"
    );
}
