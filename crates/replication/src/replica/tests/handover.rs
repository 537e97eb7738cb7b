//! A primary hands over: whatever becomes of the connection on which it asks, it is a primary again
//! only if the other side cannot be one.

use super::{ID, Session, at, primary};
use crate::replica::action::PrimaryChannel;
use crate::replica::settings::ReplicaSettings;

const IS_PRIMARY: &str = "-ERR PSYNC FAILOVER can't be sent to a master.\r\n";

const IN_DOUBT: &str =
    "log The failover target may be the master by now, or not: it is asked again";

/// A primary at offset 9 that has just begun to connect to its successor.
fn begun() -> Session {
    let mut session = Session::idle(ReplicaSettings::default());
    session.link.hand_over(primary(), Some(at(ID, 9, 0)), session.now_ms);
    session.done();
    session
}

/// The next connection stands, and PSYNC is sent on it; what is sent last.
fn ask(session: &mut Session) -> String {
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    session.hear("+PONG\r\n+OK\r\n+OK\r\n").pop().expect("PSYNC is sent")
}

fn asked() -> Session {
    let mut session = begun();
    assert_eq!(ask(&mut session), format!("> PSYNC {ID} 10 FAILOVER"));
    assert_eq!(session.link.handed_over(), None);
    session
}

/// The same on a second connection, as the first one was lost.
fn asked_again() -> Session {
    let mut session = asked();
    assert!(session.closed().contains(&IN_DOUBT.to_owned()));
    session.pass(1000);
    assert_eq!(ask(&mut session), format!("> PSYNC {ID} 10 FAILOVER"));
    session
}

#[test]
fn a_connection_that_is_lost_before_anything_is_asked_changes_nothing() {
    let mut session = begun();
    session.link.connect_failed(PrimaryChannel::Main, "x", session.now_ms);
    assert_eq!(session.link.handed_over(), Some(false));
    let mut session = begun();
    session.closed();
    assert_eq!(session.link.handed_over(), Some(false));
    for heard in ["", "+PONG\r\n", "+PONG\r\n+OK\r\n", "-ERR no\r\n"] {
        let mut session = begun();
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        session.hear(heard);
        assert!(!session.closed().contains(&IN_DOUBT.to_owned()));
        assert_eq!(session.link.handed_over(), Some(false), "{heard}");
        assert!(!session.link.is_handover_in_doubt());
    }
}

#[test]
fn an_answer_decides() {
    let mut session = asked();
    session.hear("+CONTINUE\r\n");
    assert_eq!(session.link.handed_over(), Some(true));
    for refusal in [IS_PRIMARY, "-LOADING x\r\n", "-NOMASTERLINK x\r\n", "-ERR x\r\n"] {
        let mut session = asked();
        session.hear(refusal);
        assert_eq!(session.link.handed_over(), Some(false), "{refusal}");
    }
}

#[test]
fn what_is_lost_behind_the_request_is_asked_again() {
    let mut session = asked();
    // A part of the answer is none.
    session.hear("+CONT");
    session.closed();
    assert_eq!(session.link.handed_over(), None);
    assert!(session.link.is_handover_in_doubt());
    // So is silence, and no connection.
    session.pass(1000);
    session.link.connect_failed(PrimaryChannel::Main, "x", session.now_ms);
    session.pass(1000);
    ask(&mut session);
    session.pass(100_000);
    assert_eq!(session.link.handed_over(), None);
    session.pass(1000);
    assert_eq!(ask(&mut session), format!("> PSYNC {ID} 10 FAILOVER"));
    session.hear("+CONTINUE\r\n");
    assert_eq!(session.link.handed_over(), Some(true));
}

#[test]
fn a_successor_that_is_the_primary_already_is_followed() {
    let mut session = asked_again();
    assert_eq!(session.hear(IS_PRIMARY).pop(), Some(format!("> PSYNC {ID} 10")));
    assert_eq!(session.link.handed_over(), Some(true));
    session.hear("+CONTINUE\r\n");
    assert_eq!(session.link.state().name(), "connected");
}

#[test]
fn in_doubt_only_a_word_about_the_request_refuses_it() {
    for answer in ["-LOADING x\r\n", "-NOMASTERLINK x\r\n", "-ERR x\r\n", "nonsense\r\n"] {
        let mut session = asked_again();
        session.hear(answer);
        assert_eq!(session.link.handed_over(), None, "{answer}");
        assert!(session.link.is_handover_in_doubt());
    }
    let mut session = asked_again();
    session.hear("-ERR PSYNC FAILOVER replid must match my replid.\r\n");
    assert_eq!(session.link.handed_over(), Some(false));
}

#[test]
fn a_promotion_ends_the_doubt() {
    let mut session = asked_again();
    assert!(session.link.promote(session.now_ms).is_some());
    assert!(!session.link.is_handover_in_doubt());
    assert_eq!(session.link.handed_over(), Some(true));
}
