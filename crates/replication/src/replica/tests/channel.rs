//! Full syncs whose data come on a second connection, as Redis 8 has it and as Valkey has it.

use proptest::collection::vec;
use proptest::{bool, proptest};

use super::cuts::words;
use super::{ID, MARK, OTHER_ID, Session, at, command};
use crate::replica::action::{LoadMode, PrimaryChannel, ReplicaAction};
use crate::replica::check::check_channels;
use crate::replica::link::{LoadOutcome, ReplicaLink};
use crate::replica::phase::LinkState;
use crate::replica::settings::ReplicaSettings;

const LOADED: LoadOutcome = LoadOutcome::Loaded { database: 3 };

fn settings() -> ReplicaSettings {
    ReplicaSettings { rdb_channel: true, dual_channel: true, ..ReplicaSettings::default() }
}

/// A replica whose second connection is made.
fn opened(answer: &str, settings: ReplicaSettings) -> (Session, Vec<String>) {
    let mut session = Session::asking(settings, None);
    let lines = session.hear(answer);
    let expected =
        ["log PSYNC is not possible, initialize RDB channel.", "channel connect top:7000"];
    assert_eq!(lines, expected);
    session.link.connected(PrimaryChannel::Rdb, session.now_ms);
    let lines = session.done();
    (session, lines)
}

/// A replica of Redis 8 whose data have begun to come.
fn redis(settings: ReplicaSettings) -> Session {
    let (mut session, lines) = opened("+RDBCHANNELSYNC 7\r\n", settings);
    let said = "channel > REPLCONF capa eof capa apus rdb-only 1 rdb-channel 1 main-ch-client-id 7 \
                listening-port 6379";
    assert_eq!(lines, [said]);
    assert_eq!(session.hear_on_channel("+OK\r\n"), ["channel > PSYNC ? -1"]);
    assert!(session.hear_on_channel("\n\n").is_empty());
    let lines = session.hear_on_channel(&format!("+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\nRDB"));
    assert_eq!(lines[0], "log Starting to receive RDB and replication stream in parallel.");
    let begun = format!("load Disk Marked {ID}:100");
    assert_eq!(lines[2..], [begun.as_str(), "rdb RDB"]);
    session
}

/// A replica of Valkey whose data have begun to come.
fn valkey(settings: ReplicaSettings) -> Session {
    let settings = ReplicaSettings { valkey_version: Some("9.0.0"), ..settings };
    let mut session = Session::begin(settings, None);
    session.link.connected(PrimaryChannel::Main, session.now_ms);
    session.hear("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n");
    session.hear("+DUALCHANNELSYNC\r\n");
    session.link.connected(PrimaryChannel::Rdb, session.now_ms);
    let said = "channel > REPLCONF capa eof capa apus rdb-only 1 rdb-channel 1 listening-port 6379 \
                version 9.0.0";
    assert_eq!(session.done(), [said]);
    assert_eq!(session.hear_on_channel("+OK\r\n"), ["channel > SYNC\\r\\n"]);
    assert!(session.hear("\n").is_empty());
    let lines = session.hear_on_channel(&format!("\n$ENDOFF:100 {ID} 0 8\r\n"));
    assert_eq!(lines, ["> REPLCONF set-rdb-client-id 8"]);
    session.hear_on_channel(&format!("$EOF:{MARK}\r\nRDB"));
    session
}

fn whole(session: &mut Session) {
    let lines = session.hear_on_channel(MARK);
    assert_eq!(lines, ["end of rdb", "channel close"]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("ASCII")
}

#[test]
fn the_stream_is_held_until_the_data_are_loaded() {
    let mut session = redis(settings());
    let set = text(&command("SET a 1"));
    assert_eq!(session.hear(&set), [format!("hold {}", set.escape_default())]);
    assert_eq!(session.link.state(), LinkState::Sync);
    whole(&mut session);
    assert_eq!(session.hear(&set[..10]), ["hold *3\\r\\n$3\\r\\nSE"]);
    let held = session.link.report(0).expect("a primary").held;
    assert_eq!((held.size, held.peak), (set.len() as u64 + 10, set.len() as u64 + 10));
    assert!(session.link.is_holding());
    let lines = session.loaded(LOADED);
    assert_eq!(lines[0], format!("history {ID} 100 3"));
    assert!(lines[2].ends_with("Starting to stream replication buffer into the db (37 bytes)."));
    assert_eq!(lines[3..], ["> REPLCONF ACK 100"]);
    assert!(!session.link.is_holding());
    session.link.released(37);
    assert!(session.done()[0].ends_with("replication buffer into the db (37 bytes in total)"));
    let lines = session.hear(&(set.clone() + &set[..10]));
    assert_eq!(lines, ["stream to 127 in 3: SET a 1"]);
    let lines = session.hear(&set[10..]);
    assert_eq!(lines, ["stream to 154 in 3: SET a 1"]);
    let held = session.link.report(0).expect("a primary").held;
    assert_eq!((held.size, held.peak), (0, 37));
    assert_eq!(session.link.position(), Some(at(ID, 154, 3)));
}

#[test]
fn what_is_held_is_bounded() {
    let mut session = redis(ReplicaSettings { held_max: 20, ..settings() });
    assert!(
        session.link.is_reading(PrimaryChannel::Main)
            && session.link.is_reading(PrimaryChannel::Rdb)
    );
    session.hear("*1\r\n$4\r\nping\r\n");
    assert!(session.link.is_reading(PrimaryChannel::Main));
    session.hear("*1\r\n$4\r\nping\r\n");
    assert!(
        !session.link.is_reading(PrimaryChannel::Main)
            && session.link.is_reading(PrimaryChannel::Rdb)
    );
    whole(&mut session);
    assert!(!session.link.is_reading(PrimaryChannel::Rdb));
    session.loaded(LOADED);
    assert!(session.link.is_reading(PrimaryChannel::Main));
}

#[test]
fn a_primary_of_valkey_is_asked_for_the_stream_behind_the_data() {
    let mut session = valkey(settings());
    let asked = session.hear("+OK\r\n");
    assert_eq!(asked[1], format!("> PSYNC {ID} 101"));
    let set = text(&command("SET a 1"));
    let lines = session.hear(&format!("\n+CONTINUE {ID}\r\n{set}"));
    assert!(lines[0].contains("accepted a Partial Resynchronization, RDB load in background"));
    assert_eq!(lines[1..], [format!("hold {}", set.escape_default())]);
    whole(&mut session);
    session.loaded(LOADED);
    assert_eq!(session.hear(&set), ["stream to 127 in 3: SET a 1"]);
}

#[test]
fn data_that_are_loaded_before_the_stream_comes_wait_for_it() {
    let mut session = valkey(settings());
    whole(&mut session);
    assert!(session.loaded(LOADED).is_empty());
    assert_eq!(session.link.state(), LinkState::Sync);
    session.hear("+OK\r\n");
    let set = text(&command("SET a 1"));
    let lines = session.hear(&format!("+CONTINUE\r\n{set}"));
    assert_eq!(lines[1], format!("history {ID} 100 3"));
    assert_eq!(lines[3..], ["> REPLCONF ACK 100", "stream to 127 in 3: SET a 1"]);
}

#[test]
fn a_stream_that_goes_on_does_not_hide_that_its_data_do_not() {
    let mut session = redis(settings());
    for _ in 0..59 {
        assert!(session.pass(1000).is_empty());
        assert_eq!(session.hear("*1\r\n$4\r\nping\r\n").len(), 1);
    }
    assert_eq!(session.pass(1000)[1..4], ["close", "channel close", "abort load"]);
    let mut session = redis(settings());
    for _ in 0..100 {
        assert!(session.pass(1000).is_empty(), "the first one may say nothing meanwhile");
        assert_eq!(session.hear_on_channel("x"), ["rdb x"]);
    }
}

/// The data are there, and the next link goes on from them.
#[test]
fn data_that_are_loaded_count_whatever_becomes_of_the_first_connection() {
    for end in ["closed", "silent", "odd"] {
        let mut session = valkey(settings());
        whole(&mut session);
        session.loaded(LOADED);
        session.now_ms += 3000;
        let lines = match end {
            "closed" => session.closed(),
            "silent" => session.pass(5000),
            _ => session.hear("-ERR Unrecognized RDB client id 8\r\n"),
        };
        assert!(lines.contains(&format!("history {ID} 100 3")), "{lines:?}");
        assert!(!lines.contains(&"abort load".to_owned()), "{lines:?}");
        assert_eq!(session.link.position(), Some(at(ID, 100, 3)), "{end}");
    }
}

#[test]
fn a_first_connection_that_breaks_while_its_data_are_loaded_is_made_again_behind_them() {
    let mut session = redis(settings());
    session.hear("*1\r\n$4\r\nping\r\n");
    whole(&mut session);
    session.now_ms += 3000;
    assert!(session.closed().is_empty());
    let lines = session.loaded(LOADED);
    assert_eq!(lines[0], format!("history {ID} 100 3"));
    assert!(lines.contains(&"connect top:7000".to_owned()), "{lines:?}");
    assert_eq!(session.link.position(), Some(at(ID, 100, 3)));
    assert_eq!(session.link.report(0).expect("a primary").held.size, 0);
}

#[test]
fn neither_connection_is_left_alone_before_all_data_have_come() {
    let lost = ["channel close", "abort load"];
    let mut session = redis(settings());
    let lines = session.closed();
    assert_eq!(lines[1..], lost, "the first one broke");
    let mut session = redis(settings());
    session.link.closed(PrimaryChannel::Rdb, session.now_ms);
    assert_eq!(session.done()[1..], ["close", "abort load"], "the second one broke");
    let mut session = redis(settings());
    assert_eq!(session.pass(60_000)[1..4], ["close", "channel close", "abort load"], "both silent");
    let mut session = redis(settings());
    session.link.loaded(LoadOutcome::Refused, session.now_ms);
    assert_eq!(session.done()[1..], ["close", "channel close"], "the data are of no use");
    let mut session = redis(settings());
    session.link.promote(session.now_ms);
    assert_eq!(
        session.done()[..3],
        ["close", "channel close", "abort load"],
        "not wanted any more"
    );
    let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", settings());
    session.link.closed(PrimaryChannel::Rdb, session.now_ms);
    assert_eq!(session.done()[1..], ["close"]);
    let mut session = Session::asking(settings(), None);
    session.hear("+RDBCHANNELSYNC 7\r\n");
    session.link.connect_failed(PrimaryChannel::Rdb, "refused", session.now_ms);
    let refused = "log Error condition on socket for the RDB channel: refused";
    assert_eq!(session.done(), [refused, "close"]);
}

#[test]
fn a_reply_that_was_not_asked_for_ends_both() {
    let both = ["close", "channel close"];
    for reply in ["-ERR Unrecognized RDB client id: 7", "-NOAUTH Authentication required."] {
        let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", settings());
        assert_eq!(session.hear_on_channel(&format!("{reply}\r\n"))[1..], both, "{reply}");
    }
    for reply in [
        "-ERR no".to_owned(),
        format!("+CONTINUE {ID}"),
        "+FULLRESYNC".to_owned(),
        format!("$ENDOFF:100 {ID} 0 8"),
        "+RDBCHANNELSYNC 7".to_owned(),
        "x".repeat(300),
    ] {
        let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", settings());
        session.hear_on_channel("+OK\r\n");
        assert_eq!(session.hear_on_channel(&format!("{reply}\r\n"))[1..], both, "{reply}");
    }
    let ends = ["close", "channel close", "abort load"];
    for (before, reply) in [
        ("", "+CONTINUE\r\n".to_owned()),
        ("", "-ERR Unrecognized RDB client id 8\r\n".to_owned()),
        ("+OK\r\n", format!("+CONTINUE {OTHER_ID}\r\n")),
        ("+OK\r\n", format!("+FULLRESYNC {ID} 100\r\n")),
        ("+OK\r\n", "+DUALCHANNELSYNC\r\n".to_owned()),
        ("+OK\r\n", "x".repeat(300)),
    ] {
        let mut session = valkey(settings());
        session.hear(before);
        let lines = session.hear(&reply);
        // A reply that is none of these counts as none, or ends both at once.
        let is_named = before.is_empty() && reply.starts_with('+');
        match is_named {
            true => assert!(lines[1].starts_with("> PSYNC"), "{lines:?}"),
            false => assert_eq!(lines[1..], ends, "{reply}"),
        }
    }
}

#[test]
fn replies_on_either_connection_may_take_so_long() {
    let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", settings());
    assert!(session.pass(4999).is_empty());
    assert_eq!(session.pass(1)[1..3], ["close", "channel close"]);
    let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", settings());
    session.hear_on_channel("+OK\r\n");
    assert!(session.pass(59_999).is_empty(), "the round may begin late");
    assert_eq!(session.pass(1)[1..3], ["close", "channel close"]);
    let mut session = valkey(settings());
    assert_eq!(session.pass(5000)[1..4], ["close", "channel close", "abort load"]);
}

#[test]
fn a_channel_that_was_not_announced_is_no_answer() {
    for answer in ["+RDBCHANNELSYNC 7\r\n", "+DUALCHANNELSYNC\r\n"] {
        let mut session = Session::asking(ReplicaSettings::default(), None);
        let lines = session.hear(answer);
        assert_eq!(lines[1..], ["log Retrying with SYNC...", "> SYNC\\r\\n"], "{answer}");
    }
}

#[test]
fn signs_of_life_go_to_who_expects_them() {
    let flush = || ReplicaSettings { load: LoadMode::Flush, ..settings() };
    let mut session = valkey(flush());
    assert!(session.pass(1000).is_empty(), "a client like any other");
    session.hear("+OK\r\n");
    session.hear("+CONTINUE\r\n");
    assert_eq!(session.pass(1000), ["> \\n"]);
    let (mut session, _) = opened("+RDBCHANNELSYNC 7\r\n", flush());
    session.hear_on_channel(&format!("+OK\r\n+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\nRDB"));
    assert_eq!(session.pass(1000), ["> \\n"]);
}

/// All that a driver has seen in the end.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    data: Vec<u8>,
    held: Vec<u8>,
    stream: Vec<u8>,
    position: Option<String>,
}

/// Both connections come in such steps, one after the other or the other way round.
fn seen(main: &[u8], channel: &[u8], steps: (usize, usize), main_first: bool) -> Seen {
    let mut link = ReplicaLink::new(settings());
    link.replicaof(super::primary(), None, None, 0);
    link.connected(PrimaryChannel::Main, 0);
    let mut seen = Seen::default();
    let (mut rests, mut is_whole) = ([Vec::new(), Vec::new()], false);
    let mut feed = |link: &mut ReplicaLink, wire: PrimaryChannel, bytes: &[u8]| {
        let rest = &mut rests[wire as usize];
        rest.extend_from_slice(bytes);
        let done = link.received(wire, rest, 0);
        for action in link.take_actions() {
            match action {
                ReplicaAction::Rdb(range) => seen.data.extend(&rest[range]),
                ReplicaAction::Hold(range) => seen.held.extend(&rest[range]),
                ReplicaAction::Stream { range, .. } => seen.stream.extend(&rest[range]),
                ReplicaAction::EndOfRdb => is_whole = true,
                ReplicaAction::Connect { wire: PrimaryChannel::Rdb, .. } => link.connected(wire, 0),
                _ => {}
            }
        }
        rest.drain(..done);
        std::mem::take(&mut is_whole)
    };
    let greeting = b"+PONG\r\n+OK\r\n+OK\r\n+RDBCHANNELSYNC 7\r\n";
    greeting.chunks(steps.0).for_each(|piece| _ = feed(&mut link, PrimaryChannel::Main, piece));
    link.connected(PrimaryChannel::Rdb, 0);
    let mut mains = main.chunks(steps.0);
    let mut channels = channel.chunks(steps.1);
    if main_first {
        mains.by_ref().for_each(|piece| _ = feed(&mut link, PrimaryChannel::Main, piece));
    }
    for piece in channels.by_ref() {
        if feed(&mut link, PrimaryChannel::Rdb, piece) {
            link.loaded(LOADED, 0);
        }
        if let Some(piece) = mains.next() {
            feed(&mut link, PrimaryChannel::Main, piece);
        }
    }
    mains.for_each(|piece| _ = feed(&mut link, PrimaryChannel::Main, piece));
    let position = link.position().map(|position| position.to_string());
    seen.position = position;
    seen
}

/// Where the load ends between two bytes of the stream is all that cuts may change.
#[test]
fn cuts_of_either_connection_change_nothing() {
    let main = ["SELECT 5", "SET a 1", "MULTI", "DEL a", "EXEC"].map(command).concat();
    let data = "REDIS0011 0123456789 01234567890123456789 \r\n$EOF";
    let channel = format!("+OK\r\n\n+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\n{data}{MARK}");
    for step in 1..channel.len() {
        for main_first in [true, false] {
            let steps = (1 + step % main.len(), step);
            let seen = seen(&main, channel.as_bytes(), steps, main_first);
            assert_eq!(seen.data, data.as_bytes(), "{steps:?}");
            let all = [&seen.held[..], &seen.stream].concat();
            assert!(all.ends_with(&main[main.len() - seen.stream.len()..]), "{steps:?}");
            assert!(main.starts_with(&seen.held), "{steps:?}");
            if main_first {
                assert_eq!((&seen.held, seen.stream.len()), (&main, 0), "{steps:?}");
            }
        }
    }
}

/// Pieces of what is said on either connection, as `check_channels` reads them.
fn pieces(said: &[(bool, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (on_channel, words) in said {
        for piece in words.chunks(127) {
            bytes.push((piece.len() as u8) << 1 | u8::from(*on_channel));
            bytes.extend_from_slice(piece);
        }
        // Words without a length are an end.
        if words.is_empty() {
            bytes.push(u8::from(*on_channel));
        }
    }
    bytes
}

proptest! {
    #[test]
    fn hostile_words_on_either_connection(said in vec((bool::ANY, words()), 0..40)) {
        check_channels(&pieces(&said));
    }

    #[test]
    fn hostile_words_behind_a_good_beginning(
        redis in bool::ANY,
        said in vec((bool::ANY, words()), 0..40),
    ) {
        let (main, channel) = match redis {
            true => ("+RDBCHANNELSYNC 7", format!("+OK\r\n+FULLRESYNC {ID} 5\r\n")),
            false => ("+DUALCHANNELSYNC", format!("+OK\r\n$ENDOFF:5 {ID} 0 8\r\n")),
        };
        let main = format!("+PONG\r\n+OK\r\n+OK\r\n{main}\r\n");
        let mut all = vec![(false, main.into_bytes()), (true, channel.into_bytes())];
        all.push((true, format!("$EOF:{MARK}\r\n").into_bytes()));
        if !redis {
            all.push((false, format!("+OK\r\n+CONTINUE {ID}\r\n").into_bytes()));
        }
        all.extend(said);
        check_channels(&pieces(&all));
    }
}
