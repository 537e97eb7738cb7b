//! The stream that flows: acknowledgements, silence, faults.

use super::{AGAIN, CACHED, ID, LOST, Session, at, command};
use crate::replica::action::PrimaryChannel;
use crate::replica::phase::LinkState;
use crate::replica::settings::ReplicaSettings;

#[test]
fn whole_units_are_handed_over_and_half_of_one_is_asked_for_again() {
    let mut session = Session::streaming(ReplicaSettings::default());
    let transaction =
        ["MULTI", "SELECT 3", "set a b", "EXEC", "MULTI", "set c d"].map(command).concat();
    let whole = ["MULTI", "SELECT 3", "set a b", "EXEC"].map(command).concat().len();
    let end = 100 + whole as u64;
    assert_eq!(
        session.hear_bytes(&transaction),
        [format!("stream to {end} in 0: MULTI | SELECT 3 | set a b | EXEC")]
    );
    assert_eq!(session.rest.len(), transaction.len() - whole);
    let report = session.link.report(session.now_ms).expect("a primary");
    assert_eq!(report.read_offset, 100 + transaction.len() as u64);
    assert_eq!(report.offset, 100, "nothing is applied yet");
    session.closed();
    assert_eq!(session.link.position(), Some(at(ID, end, 3)));
}

#[test]
fn an_acknowledgement_every_second_tells_what_is_applied() {
    let mut session = Session::streaming(ReplicaSettings::default());
    session.hear_bytes(&command("ping"));
    assert!(session.pass(999).is_empty());
    assert_eq!(session.pass(1), ["> REPLCONF ACK 100"]);
    session.applied(114);
    assert_eq!(session.pass(1000), ["> REPLCONF ACK 114"]);
    session.link.configure(ReplicaSettings { has_aof: true, ..ReplicaSettings::default() });
    session.link.synced(110, session.now_ms);
    assert_eq!(session.pass(1000), ["> REPLCONF ACK 114 FACK 110"]);
}

/// A client may wait for the disk: that is told when it is so, and not by the next second's word.
#[test]
fn getack_is_answered_once_more_when_all_before_is_on_disk() {
    let settings = ReplicaSettings { has_aof: true, ..ReplicaSettings::default() };
    let mut session = Session::streaming(settings);
    let getack = command("REPLCONF GETACK *");
    session.hear_bytes(&[command("ping"), getack].concat());
    assert_eq!(session.applied(114), ["> REPLCONF ACK 114 FACK 0", "await the disk to 114"]);
    assert!(session.synced(113).is_empty());
    assert_eq!(session.synced(114), ["> REPLCONF ACK 114 FACK 114"]);
    assert!(session.synced(151).is_empty(), "once");
    session.hear_bytes(&command("REPLCONF GETACK *"));
    assert_eq!(session.applied(188), ["> REPLCONF ACK 151 FACK 151"], "it is there already");
}

#[test]
fn getack_is_answered_without_its_own_bytes_when_all_before_is_applied() {
    let getack = command("REPLCONF GETACK *");
    assert_eq!(getack.len(), 37);
    let mut session = Session::streaming(ReplicaSettings::default());
    assert_eq!(
        session.hear_bytes(&getack),
        ["stream to 137 in 0: REPLCONF GETACK *", "> REPLCONF ACK 100"]
    );
    session.hear_bytes(&command("ping"));
    assert_eq!(session.hear_bytes(&getack).len(), 1, "the ping is not applied");
    assert!(session.applied(150).is_empty());
    assert_eq!(session.applied(151), ["> REPLCONF ACK 151"]);
    assert!(session.applied(188).is_empty(), "once");
}

#[test]
fn getack_in_a_transaction_tells_the_offset_before_that() {
    let mut session = Session::streaming(ReplicaSettings::default());
    let inside = ["multi", "set a b", "replconf getack *"].map(command).concat();
    assert!(session.hear_bytes(&inside).is_empty());
    assert_eq!(session.hear_bytes(&command("exec"))[1], "> REPLCONF ACK 100");
}

#[test]
fn endless_requests_for_acknowledgements_are_not_all_kept() {
    let mut session = Session::streaming(ReplicaSettings::default());
    let getack = command("REPLCONF GETACK *");
    session.hear_bytes(&[command("ping"), getack.repeat(1000)].concat());
    let end = 114 + 37 * 1000;
    let answers = session.applied(end);
    assert_eq!(answers.len(), 64);
    assert_eq!(answers[63], format!("> REPLCONF ACK {}", end - 37), "the newest is answered");
}

/// What is kept of a unit has a bound. All data, which have what it did, are asked for then: the
/// stream would come with it again and again.
#[test]
fn a_unit_that_is_too_long_costs_a_full_sync_and_no_more_memory() {
    let settings = ReplicaSettings { unit_len_max: 1000, ..ReplicaSettings::default() };
    let fault = "log Protocol error from MASTER: a command or transaction of more than 1000 bytes, \
                 the most there may be";
    let many = [command("multi"), command("set k v").repeat(40)].concat();
    for unit in [&b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1001\r\n"[..], &many] {
        let mut session = Session::streaming(settings.clone());
        let lines = session.hear_bytes(unit);
        assert_eq!(lines[..2], [fault, "close"]);
        assert_eq!(session.link.position(), None, "there is nothing to go on from");
    }
}

#[test]
fn a_silent_primary_is_left() {
    let mut session = Session::streaming(ReplicaSettings::default());
    session.pass(59_999);
    session.hear_bytes(&command("ping"));
    session.pass(59_999);
    let lines = session.pass(1);
    let silent = "log MASTER timeout: no data nor PING received...";
    assert_eq!(lines[..6], [silent, "close", LOST, CACHED, AGAIN, "connect top:7000"]);
    assert_eq!(session.link.position(), Some(at(ID, 114, 0)));
    let lines = session.pass(60_000);
    assert_eq!(lines[..2], ["log Timeout connecting to the MASTER...", "close"]);
    assert_eq!(lines[2..4], [format!("{AGAIN} after failure"), "connect top:7000".to_owned()]);
}

/// The driver shows what is left whenever it looks, and that is no sign of life.
#[test]
fn what_was_shown_before_is_not_heard_again() {
    let mut session = Session::streaming(ReplicaSettings::default());
    let half = &command("ping")[..5];
    session.hear_bytes(half);
    for _ in 0..59 {
        session.pass(1000);
        assert!(session.hear_bytes(b"").is_empty());
    }
    let lines = session.pass(1000);
    assert_eq!(lines[0], "log MASTER timeout: no data nor PING received...");
}

#[test]
fn after_a_fault_nothing_is_known_of_where_we_stand() {
    let mut session = Session::streaming(ReplicaSettings::default());
    let ping = command("ping");
    let lines = session.hear_bytes(&[&ping[..], b"PING\r\n", &ping].concat());
    let fault = "log Protocol error from MASTER: a command that is not an array";
    assert_eq!(lines, ["stream to 114 in 0: ping", fault, "close", LOST]);
    assert_eq!(session.link.position(), None);
    assert!(session.rest.is_empty());
}

#[test]
fn a_lost_link_is_made_again_at_once_but_not_more_than_once_per_second() {
    let mut session = Session::streaming(ReplicaSettings::default());
    session.now_ms += 1000;
    assert_eq!(session.closed()[..4], [LOST, CACHED, AGAIN, "connect top:7000"]);
    session.link.connect_failed(PrimaryChannel::Main, "Connection refused", session.now_ms);
    assert_eq!(session.done(), ["log Error condition on socket for SYNC: Connection refused"]);
    assert_eq!(session.link.state(), LinkState::Connect);
    assert!(session.pass(999).is_empty());
    assert_eq!(session.pass(1)[..2], ["log Connecting to MASTER top:7000", "connect top:7000"]);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    session.hear("+PONG\r\n+OK\r\n+OK\r\n+CONTINUE\r\n");
    assert_eq!(session.closed(), [LOST, CACHED], "the attempt was just now");
    assert_eq!(session.pass(1000)[..2], [AGAIN, "connect top:7000"]);
}
