//! REPLICAOF, and the link as ROLE and INFO show it.

use super::{CACHED, ID, LOST, MARK, OTHER_ID, Session, at, command, primary};
use crate::replica::action::{LoadMode, PrimaryChannel};
use crate::replica::link::LoadOutcome;
use crate::replica::phase::LinkState;
use crate::replica::settings::ReplicaofReply;
use crate::replica::settings::{PrimaryAddress, ReplicaSettings, ReplicaofTarget};

fn to(host: &str, port: u16) -> PrimaryAddress {
    PrimaryAddress { host: host.to_owned(), port }
}

#[test]
fn the_arguments_of_replicaof() {
    let table: &[(&str, &str, Result<ReplicaofTarget, &str>)] = &[
        ("no", "ONE", Ok(ReplicaofTarget::NoOne)),
        ("No", "1", Ok(ReplicaofTarget::Primary(to("No", 1)))),
        ("a", "0", Ok(ReplicaofTarget::Primary(to("a", 0)))),
        ("a", "65535", Ok(ReplicaofTarget::Primary(to("a", 65535)))),
        ("a", "65536", Err("Invalid master port")),
        ("a", "-1", Err("Invalid master port")),
        ("a", "one", Err("Invalid master port")),
    ];
    for (host, port, target) in table {
        assert_eq!(ReplicaofTarget::parse(host.as_bytes(), port.as_bytes()), *target);
    }
}

const DISCARDED: &str = "log Discarding previously cached master state.";

#[test]
fn a_primary_becomes_a_replica_with_its_own_position() {
    let mut session = Session::idle(ReplicaSettings::default());
    assert_eq!(session.link.state(), LinkState::None);
    assert_eq!(session.link.report(0), None);
    let reply = session.link.replicaof(primary(), Some(at(ID, 9, 1)), Some("id=3"), 0);
    assert_eq!(reply.text(), "OK");
    assert_eq!(
        session.done(),
        [
            "log Before turning into a replica, using my own master parameters to synthesize a \
             cached master: I may be able to synchronize with the new master with just a partial \
             transfer.",
            "log Connecting to MASTER top:7000",
            "connect top:7000",
            "log MASTER <-> REPLICA sync started",
            "log REPLICAOF top:7000 enabled (user request from 'id=3')",
        ]
    );
    assert_eq!(session.link.position(), Some(at(ID, 9, 1)));
    let reply = session.link.replicaof(to("TOP", 7000), None, None, 0);
    assert_eq!(reply, ReplicaofReply::Already);
    assert_eq!(reply.text(), "OK Already connected to specified master");
    assert_eq!(session.done().len(), 1);
}

#[test]
fn another_primary_is_asked_to_go_on_from_where_the_last_one_was_left() {
    let mut session = Session::streaming(ReplicaSettings::default());
    session.hear_bytes(&[command("ping"), command("MULTI")].concat());
    session.link.replicaof(to("new", 1), None, None, session.now_ms);
    assert_eq!(session.done()[0], "close");
    session.rest.clear();
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    let lines = session.hear("+PONG\r\n+OK\r\n+OK\r\n");
    assert_eq!(lines.last(), Some(&format!("> PSYNC {ID} 115")));
}

#[test]
fn promotion_ends_whatever_goes_on_and_tells_where() {
    let mut session = Session::idle(ReplicaSettings::default());
    assert_eq!(session.link.promote(0), None, "a primary stays one");
    assert!(session.done().is_empty());

    let mut session = Session::streaming(ReplicaSettings::default());
    session.hear_bytes(&command("SELECT 7"));
    let end = session.link.promote(session.now_ms);
    assert_eq!(end, Some(Some(at(ID, 123, 7))));
    assert_eq!(session.done(), ["close", LOST, CACHED, DISCARDED]);
    assert_eq!(session.link.state(), LinkState::None);
    assert!(session.pass(100_000).is_empty());
    assert_eq!(session.link.received(PrimaryChannel::Main, b"late", 0), 4);

    let mut session = Session::asking(ReplicaSettings::default(), Some(at(ID, 9, 0)));
    session.hear(&format!("+FULLRESYNC {ID} 100\r\n$2\r\nx"));
    assert_eq!(session.link.promote(session.now_ms), Some(Some(at(ID, 9, 0))));
    assert_eq!(session.done()[..2], ["close", "abort load"]);
    let loaded = session.link.loaded(LoadOutcome::Loaded { database: 0 }, session.now_ms);
    assert!(!loaded, "the position that was told is of other data");
    assert!(session.done().is_empty(), "what comes late says nothing");
}

#[test]
fn the_states_as_role_names_them() {
    let mut session = Session::begin(ReplicaSettings::default(), None);
    let mut names = vec![session.link.state().name()];
    session.link.connect_failed(PrimaryChannel::Main, "x", session.now_ms);
    names.push(session.link.state().name());
    session.pass(1000);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    names.push(session.link.state().name());
    for words in ["+PONG\r\n+OK\r\n+OK\r\n", &format!("+FULLRESYNC {ID} 1\r\n"), "$1\r\n", "x"] {
        session.hear(words);
        names.push(session.link.state().name());
    }
    session.loaded(LoadOutcome::Loaded { database: 0 });
    names.push(session.link.state().name());
    let (shake, sync) = ("handshake", "sync");
    assert_eq!(names, ["connecting", "connect", shake, shake, sync, sync, sync, "connected"]);
}

#[test]
fn figures_before_the_first_sync() {
    let session = Session::begin(ReplicaSettings::default(), None);
    let report = session.link.report(session.now_ms).expect("a primary");
    assert_eq!((report.host, report.port), ("top", 7000));
    assert_eq!((report.last_io_s, report.role_offset), (-1, -1));
    assert_eq!((report.read_offset, report.offset), (1, 1));
    assert_eq!((report.down_since_s, report.up_since_s), (Some(-1), None));
    assert_eq!(report.sync, None);
}

#[test]
fn figures_of_a_transfer() {
    for (header, total, left, percent) in
        [("$8".to_owned(), 8, 6, "25.00"), (format!("$EOF:{MARK}"), 0, -2, "0.00")]
    {
        let mut session = Session::asking(ReplicaSettings::default(), None);
        session.hear(&format!("+FULLRESYNC {ID} 100\r\n"));
        let progress = |session: &Session| {
            let report = session.link.report(session.now_ms).expect("a primary");
            report.sync.expect("a transfer")
        };
        assert_eq!((progress(&session).total, progress(&session).read), (-1, 0));
        session.hear(&format!("{header}\r\nab"));
        session.now_ms += 3000;
        let now = progress(&session);
        assert_eq!((now.total, now.read, now.left(), now.last_io_s), (total, 2, left, 3));
        assert_eq!(format!("{:.2}", now.percent()), percent);
    }
}

#[test]
fn figures_of_a_link_up_and_down() {
    let mut session = Session::streaming(ReplicaSettings::default());
    session.now_ms += 4000;
    let report = session.link.report(session.now_ms).expect("a primary");
    assert_eq!(report.state, LinkState::Connected);
    assert_eq!((report.last_io_s, report.role_offset, report.offset), (4, 100, 100));
    assert_eq!((report.up_since_s, report.down_since_s, report.sync), (Some(4), None, None));
    assert_eq!((report.attempts.current, report.attempts.total), (1, 1));
    session.closed();
    session.now_ms += 7000;
    let report = session.link.report(session.now_ms).expect("a primary");
    assert_eq!((report.last_io_s, report.role_offset, report.offset), (-1, -1, 100));
    assert_eq!((report.up_since_s, report.down_since_s), (None, Some(7)));
    assert_eq!((report.attempts.current, report.attempts.total), (1, 2));
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.done();
    session.hear("+PONG\r\n+OK\r\n+OK\r\n+CONTINUE\r\n");
    let report = session.link.report(session.now_ms + 9000).expect("a primary");
    assert_eq!((report.down_total_s, report.up_since_s), (7, Some(9)));
    assert_eq!((report.attempts.current, report.attempts.total), (1, 2), "as in Redis");
}

/// Whatever was there before: an offset is the primary's when that has said so.
#[test]
fn an_offset_is_of_the_primary_once_that_has_said_so() {
    let is_of_primary =
        |session: &Session| session.link.report(session.now_ms).expect("a primary").is_of_primary;
    let mut session = Session::asking(ReplicaSettings::default(), Some(at(ID, 9, 0)));
    assert!(!is_of_primary(&session));
    session.hear("+CONTINUE\r\n");
    assert!(is_of_primary(&session));
    session.closed();
    assert!(is_of_primary(&session), "the link is down, and the data are what they were");
    session.link.replicaof(to("new", 1), None, None, session.now_ms);
    session.done();
    assert!(!is_of_primary(&session), "another primary has said nothing yet");

    let settings = ReplicaSettings { load: LoadMode::Swap, ..ReplicaSettings::default() };
    for (id, is_known) in [(ID, true), (OTHER_ID, false)] {
        let mut session = Session::streaming(settings.clone());
        // The next attempt to connect is made at once.
        session.now_ms += 4000;
        session.closed();
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        session.done();
        session.hear("+PONG\r\n+OK\r\n+OK\r\n");
        session.hear(&format!("+FULLRESYNC {id} 50\r\n$3\r\nRD"));
        assert_eq!(is_of_primary(&session), is_known, "what was there is of another history");
        session.hear("B");
        session.loaded(LoadOutcome::Loaded { database: 0 });
        assert!(is_of_primary(&session));
    }
}
