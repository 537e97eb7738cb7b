//! The handshake, line by line.

use super::{ID, OTHER_ID, Session, at};
use crate::replica::action::PrimaryChannel;
use crate::replica::link::LoadOutcome;
use crate::replica::phase::LinkState;
use crate::replica::settings::ReplicaSettings;

const SHORT: &str = "> REPLCONF listening-port 6379 | REPLCONF capa eof capa psync2 capa apus";

#[test]
fn the_words_depend_on_the_configuration() {
    let plain = ReplicaSettings::default;
    let password = || Some(b"secret".to_vec());
    let table = [
        (plain(), SHORT),
        (ReplicaSettings { user: Some(b"rex".to_vec()), ..plain() }, SHORT),
        (
            ReplicaSettings { password: password(), listening_port: 7001, ..plain() },
            "> AUTH secret | REPLCONF listening-port 7001 | \
             REPLCONF capa eof capa psync2 capa apus",
        ),
        (
            ReplicaSettings {
                user: Some(b"rex".to_vec()),
                password: password(),
                announced_ip: Some("10.1.2.3".to_owned()),
                valkey_version: Some("9.0.0"),
                ..plain()
            },
            "> AUTH rex secret | REPLCONF listening-port 6379 | REPLCONF ip-address 10.1.2.3 | \
             REPLCONF capa eof capa psync2 capa apus | REPLCONF version 9.0.0",
        ),
    ];
    for (settings, words) in table {
        let mut session = Session::begin(settings, None);
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        assert_eq!(session.done()[1], "> PING");
        let pong = "log Master replied to PING, replication can continue...";
        assert_eq!(session.hear("+PONG\r\n"), [pong, words]);
    }
}

#[test]
fn psync_follows_the_last_reply() {
    let mut session = Session::begin(ReplicaSettings::default(), Some(at(ID, 41, 2)));
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("+PONG\r\n");
    assert!(session.hear("+OK\r\n+O").is_empty());
    let asked = format!("log Trying a partial resynchronization (request {ID}:42).");
    assert_eq!(session.hear("K\r\n"), [asked, format!("> PSYNC {ID} 42")]);

    let mut session = Session::begin(ReplicaSettings::default(), None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("+PONG\r\n");
    let nothing = "log Partial resynchronization not possible (no cached master)";
    assert_eq!(session.hear("+OK\r\n+OK\r\n"), [nothing, "> PSYNC ? -1"]);
}

#[test]
fn only_some_errors_to_ping_are_signs_of_life() {
    for line in ["+", "+PONG", "-NOAUTH x", "-NOPERM x", "-ERR operation not permitted"] {
        let mut session = Session::begin(ReplicaSettings::default(), None);
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        session.done();
        assert_eq!(session.hear(&format!("{line}\r\n"))[1], SHORT, "{line}");
    }
    for line in ["-LOADING x", "-MASTERDOWN x", "-BUSY x", "-DENIED x", "$4", "-ERR x", ""] {
        let mut session = Session::begin(ReplicaSettings::default(), None);
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        session.done();
        let log = format!("log Error reply to PING from master: '{line}'");
        assert_eq!(session.hear(&format!("{line}\r\n")), [&log, "close"]);
        assert_eq!(session.link.state(), LinkState::Connect);
        assert!(session.pass(999).is_empty(), "the next attempt comes at 1 Hz");
        assert_eq!(session.pass(1)[1], "connect top:7000");
    }
}

#[test]
fn an_error_to_auth_is_fatal_and_others_are_not() {
    let settings = ReplicaSettings { password: Some(b"x".to_vec()), ..Default::default() };
    let mut session = Session::begin(settings, None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("-NOAUTH Authentication required.\r\n");
    let log = "log Unable to AUTH to MASTER: -WRONGPASS no";
    assert_eq!(session.hear("-WRONGPASS no\r\n+OK\r\n+OK\r\n"), [log, "close"]);
    assert!(session.rest.is_empty(), "nothing of a closed connection is kept");

    let mut session = Session::begin(ReplicaSettings::default(), None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("+PONG\r\n");
    let log = |word: &str| {
        format!("log (Non critical) Master does not understand REPLCONF {word}: -ERR odd")
    };
    let lines = session.hear("-ERR odd\r\n-ERR odd\r\n");
    assert_eq!(lines[..2], [log("listening-port"), log("capa")]);
    assert_eq!(lines[3], "> PSYNC ? -1");
}

#[test]
fn a_primary_that_takes_its_replicas_writes_is_refused() {
    let mut session = Session::begin(ReplicaSettings::default(), None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("+PONG\r\n+OK\r\n");
    assert_eq!(session.hear("+OK active-replica\r\n")[1], "close");
}

#[test]
fn a_line_too_long_ends_the_attempt() {
    let mut session = Session::begin(ReplicaSettings::default(), None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    assert!(session.hear(&"+".repeat(255)).is_empty());
    assert_eq!(session.hear("+")[1], "close");
}

#[test]
fn each_reply_has_its_time() {
    let mut session = Session::begin(ReplicaSettings::default(), None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    assert!(session.pass(4999).is_empty());
    session.hear("+PONG\r\n");
    assert!(session.pass(4999).is_empty());
    session.hear("+OK\r\n+OK\r\n");
    for _ in 0..10 {
        assert!(session.pass(4000).is_empty());
        assert!(session.hear("\n").is_empty(), "empty lines keep a link alive");
    }
    let log = "log Master did not respond to command during SYNC handshake";
    assert_eq!(session.pass(5000), [log, "close"]);
    assert!(session.pass(999).is_empty());
    assert_eq!(session.pass(1)[1], "connect top:7000");
}

#[test]
fn the_stream_goes_on_under_the_same_id_or_another() {
    for answer in ["+CONTINUE\r\n".to_owned(), format!("+CONTINUE {ID}\r\n")] {
        let mut session = Session::asking(ReplicaSettings::default(), Some(at(ID, 41, 2)));
        let lines = session.hear(&answer);
        assert_eq!(lines[0], "log Successful partial resynchronization with master.");
        assert_eq!(lines.len(), 2);
        assert_eq!(session.hear("*1\r\n$4\r\nping\r\n"), ["stream to 55 in 2: ping"]);
    }
    let mut session = Session::asking(ReplicaSettings::default(), Some(at(ID, 41, 2)));
    let lines = session.hear(&format!("+CONTINUE {OTHER_ID}\r\n"));
    assert_eq!(lines[1], format!("log Master replication ID changed to {OTHER_ID}"));
    assert_eq!(lines[2], format!("follow {OTHER_ID} at 41"));
    assert_eq!(session.link.position(), Some(at(OTHER_ID, 41, 2)));
}

#[test]
fn a_primary_without_psync_is_asked_for_all_data_and_told_nothing() {
    for (own, line) in [
        (None, "-ERR unknown command 'PSYNC'".to_owned()),
        (None, "+CONTINUE".to_owned()),
        (Some(at(ID, 41, 2)), "+RDBCHANNELSYNC 7".to_owned()),
    ] {
        let mut session = Session::asking(ReplicaSettings::default(), own);
        let shown =
            format!("log Master does not support PSYNC or is in error state (reply: {line})");
        let retry = "log Retrying with SYNC...";
        let lines = session.hear(&format!("{line}\r\n"));
        assert_eq!(lines, [&shown, retry, "> SYNC\\r\\n"]);
        session.hear("\n\n$3\r\nabc");
        let lines = session.loaded(LoadOutcome::Loaded { database: 3 });
        assert_eq!(lines[0], "history unknown");
        assert_eq!(session.hear("*1\r\n$4\r\nping\r\n"), ["stream to 14 in 3: ping"]);
        assert!(session.pass(1000).is_empty(), "no acknowledgements");
        session.closed();
        assert_eq!(session.link.position(), None, "and nothing to go on from");
    }
}

#[test]
fn a_primary_that_cannot_now_is_asked_later() {
    for line in ["-NOMASTERLINK Can't SYNC", "-LOADING x"] {
        let mut session = Session::asking(ReplicaSettings::default(), Some(at(ID, 41, 2)));
        let log =
            format!("log Master is currently unable to PSYNC but should be in the future: {line}");
        assert_eq!(session.hear(&format!("{line}\r\n")), [&log, "close"]);
        assert!(session.pass(999).is_empty());
        assert_eq!(session.pass(1)[1], "connect top:7000");
        assert_eq!(session.link.position(), Some(at(ID, 41, 2)));
    }
}

#[test]
fn a_full_answer_that_cannot_be_read_still_brings_data() {
    let mut session = Session::asking(ReplicaSettings::default(), None);
    let log = "log Master replied with wrong +FULLRESYNC syntax.";
    assert_eq!(session.hear("+FULLRESYNC ? ?\r\n"), [log]);
    session.hear("$1\r\nx");
    assert_eq!(session.loaded(LoadOutcome::Loaded { database: 0 })[0], "history unknown");
}
