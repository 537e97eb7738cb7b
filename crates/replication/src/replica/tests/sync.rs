//! All data: framing, loading, and what is left to go on from.

use super::{AGAIN, CACHED, ID, LOST, MARK, OTHER_ID, Session, at};
use crate::replica::action::{LoadMode, PrimaryChannel};
use crate::replica::link::LoadOutcome;
use crate::replica::phase::LinkState;
use crate::replica::settings::ReplicaSettings;

fn mode(load: LoadMode) -> ReplicaSettings {
    ReplicaSettings { load, ..ReplicaSettings::default() }
}

#[test]
fn data_of_known_length_and_the_stream_right_behind() {
    let mut session = Session::asking(mode(LoadMode::Disk), None);
    let answer = format!("log Full resync from master: {ID}:100");
    assert_eq!(session.hear(&format!("+FULLRESYNC {ID} 100\r\n\n\n")), [answer]);
    assert_eq!(
        session.hear("$8\r\nREDI"),
        [
            "log MASTER <-> REPLICA sync: receiving 8 bytes from master to disk",
            &format!("load Disk Length(8) {ID}:100"),
            "rdb REDI",
        ]
    );
    assert_eq!(session.hear("S001*1\r\n$4\r\nping\r\n*1"), ["rdb S001", "end of rdb"]);
    assert!(!session.link.is_reading(PrimaryChannel::Main));
    assert_eq!(session.rest, b"*1\r\n$4\r\nping\r\n*1");
    assert_eq!(
        session.loaded(LoadOutcome::Loaded { database: 4 }),
        [
            &format!("history {ID} 100 4"),
            "log MASTER <-> REPLICA sync: Finished with success",
            "> REPLCONF ACK 100",
            "stream to 114 in 4: ping",
        ]
    );
    assert_eq!(session.link.position(), Some(at(ID, 114, 4)));
}

#[test]
fn data_up_to_a_mark() {
    let mut session = Session::asking(mode(LoadMode::Swap), Some(at(ID, 7, 0)));
    session.hear(&format!("+FULLRESYNC {ID} 100\r\n"));
    let lines = session.hear(&format!("$EOF:{MARK}\r\nabc01234"));
    let log = "log MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to parser";
    assert_eq!(lines, [log, &format!("load Swap Marked {ID}:100 ours"), "rdb abc"]);
    assert_eq!(session.hear("0123"), ["rdb 01234"]);
    assert_eq!(session.hear(&format!("{}more", &MARK[4..])), ["end of rdb"]);
    assert_eq!(session.rest, b"more");
}

#[test]
fn a_snapshot_of_no_bytes_ends_at_once() {
    let mut session = Session::asking(mode(LoadMode::Disk), None);
    let lines = session.hear(&format!("+FULLRESYNC {ID} 100\r\n$0\r\n"));
    assert_eq!(lines[3], "end of rdb");
}

#[test]
fn a_primary_may_give_up_or_talk_of_something_else() {
    let table = [
        ("-ERR no memory", "MASTER aborted replication with an error: ERR no memory"),
        (
            "+PONG",
            "Bad protocol from MASTER: '+PONG' is no header of data (we asked for it: are you sure \
             the host and port are right?)",
        ),
        (&"$".repeat(1024), "Bad protocol from MASTER: a header of data does not end"),
    ];
    for (line, log) in table {
        let mut session = Session::asking(mode(LoadMode::Disk), Some(at(ID, 7, 0)));
        session.hear(&format!("+FULLRESYNC {OTHER_ID} 100\r\n"));
        assert_eq!(session.hear(&format!("{line}\r\n")), [&format!("log {log}"), "close"]);
        assert_eq!(session.link.position(), Some(at(ID, 7, 0)), "nothing is lost yet");
        assert!(session.pass(999).is_empty(), "one attempt per second");
        assert_eq!(session.pass(1)[1], "connect top:7000");
    }
}

#[test]
fn what_is_left_depends_on_the_mode_and_on_how_far_it_came() {
    let kept = Some(at(ID, 7, 0));
    let table = [
        (LoadMode::Disk, None, kept),
        (LoadMode::Flush, None, None),
        (LoadMode::Swap, None, kept),
        (LoadMode::Disk, Some(LoadOutcome::Refused), kept),
        (LoadMode::Flush, Some(LoadOutcome::Refused), None),
        (LoadMode::Swap, Some(LoadOutcome::Refused), kept),
        (LoadMode::Disk, Some(LoadOutcome::Lost), None),
        (LoadMode::Flush, Some(LoadOutcome::Lost), None),
    ];
    for (load, outcome, position) in table {
        let mut session = Session::asking(mode(load), kept);
        session.hear(&format!("+FULLRESYNC {OTHER_ID} 100\r\n$4\r\nab"));
        session.now_ms += 5000;
        let lines = match outcome {
            None => session.closed(),
            Some(outcome) => {
                session.hear("cd");
                session.loaded(outcome)
            }
        };
        let abort = if outcome.is_none() { "abort load" } else { "close" };
        assert!(lines.contains(&abort.to_owned()), "{load:?} {outcome:?}: {lines:?}");
        assert!(lines.contains(&"connect top:7000".to_owned()), "at once, after a long transfer");
        assert_eq!(session.link.position(), position, "{load:?} {outcome:?}");
    }
}

#[test]
fn a_loader_may_refuse_early_but_not_be_done_early() {
    for (outcome, position) in
        [(LoadOutcome::Refused, Some(at(ID, 7, 0))), (LoadOutcome::Loaded { database: 0 }, None)]
    {
        let mut session = Session::asking(mode(LoadMode::Swap), Some(at(ID, 7, 0)));
        session.hear(&format!("+FULLRESYNC {OTHER_ID} 100\r\n$4\r\nab"));
        let failed = "log Failed trying to load the MASTER synchronization DB";
        assert_eq!(session.loaded(outcome), [failed, "close"]);
        assert_eq!(session.link.position(), position);
        assert_eq!(session.link.state(), LinkState::Connect);
    }
}

#[test]
fn a_primary_that_goes_while_its_data_is_loaded_is_found_again() {
    let mut session = Session::asking(mode(LoadMode::Disk), None);
    session.hear(&format!("+FULLRESYNC {ID} 100\r\n$1\r\nx"));
    session.now_ms += 5000;
    assert!(session.closed().is_empty(), "the load goes on");
    let lines = session.loaded(LoadOutcome::Loaded { database: 1 });
    assert_eq!(lines[2..6], [LOST, CACHED, AGAIN, "connect top:7000"]);
    assert_eq!(session.link.position(), Some(at(ID, 100, 1)));
}

#[test]
fn the_primary_hears_of_a_replica_that_loads() {
    for (load, receiving) in [(LoadMode::Disk, 0), (LoadMode::Flush, 1), (LoadMode::Swap, 1)] {
        let mut session = Session::asking(mode(load), None);
        session.hear(&format!("+FULLRESYNC {ID} 100\r\n$2\r\nx"));
        assert_eq!(session.pass(1000), vec!["> \\n"; receiving]);
        session.hear("y");
        assert_eq!(session.pass(1000), ["> \\n"]);
        assert!(session.pass(999).is_empty());
        session.now_ms += 1_000_000;
        assert_eq!(session.pass(1), ["> \\n"], "a load takes as long as it takes");
    }
}

#[test]
fn a_transfer_without_progress_ends() {
    let mut session = Session::asking(mode(LoadMode::Disk), None);
    session.hear(&format!("+FULLRESYNC {ID} 100\r\n"));
    assert!(session.pass(59_999).is_empty());
    session.hear("\n");
    assert!(session.pass(59_999).is_empty());
    session.hear("$5\r\nx");
    let lines = session.pass(60_000);
    assert_eq!(
        lines[..3],
        ["log Timeout receiving bulk data from MASTER...", "close", "abort load"]
    );
    assert_eq!(lines[4], "connect top:7000");
}
