//! Whatever the cuts, the same is done; whatever the bytes, little is kept.

use proptest::collection::vec;
use proptest::{prop_assert_eq, prop_oneof, proptest, strategy::Strategy};

use super::{ID, MARK, command, primary};
use crate::replica::action::{PrimaryChannel, RdbFraming, ReplicaAction};
use crate::replica::check::{check_link, check_stream};
use crate::replica::link::{LoadOutcome, ReplicaLink};
use crate::replica::settings::ReplicaSettings;

/// All that a driver has seen in the end.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    data: Vec<u8>,
    stream: Vec<u8>,
    others: Vec<ReplicaAction>,
}

/// What is done with bytes that come in these pieces, each byte of the stream applied at once.
fn seen<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut link = ReplicaLink::new(ReplicaSettings::default());
    link.replicaof(primary(), None, None, 0);
    link.connected(PrimaryChannel::Main, 0);
    let (mut seen, mut rest) = (Seen::default(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let done = link.received(PrimaryChannel::Main, &rest, 0);
            let (mut is_whole, mut applied) = (false, None);
            for action in link.take_actions() {
                match action {
                    ReplicaAction::Rdb(range) => seen.data.extend(&rest[range]),
                    ReplicaAction::Stream { range, end, .. } => {
                        seen.stream.extend(&rest[range]);
                        applied = Some(end);
                    }
                    other => {
                        is_whole |= other == ReplicaAction::EndOfRdb;
                        seen.others.push(other);
                    }
                }
            }
            rest.drain(..done);
            if let Some(end) = applied {
                link.applied(end, 0);
                seen.others.extend(link.take_actions());
            }
            if !is_whole {
                break;
            }
            link.loaded(LoadOutcome::Loaded { database: 0 }, 0);
        }
    }
    seen
}

/// Data with beginnings of the mark in it.
const DATA: &str = "REDIS0011 0123456789 01234567890123456789 \r\n$EOF";

const STREAM: [&str; 7] =
    ["SELECT 3", "set a 1", "REPLCONF GETACK *", "MULTI", "del a", "EXEC", "ping"];

fn recorded(framing: RdbFraming) -> Vec<u8> {
    let shake = format!("+PONG\r\n-ERR odd\r\n+OK\r\n\n\n+FULLRESYNC {ID} 100\r\n\n");
    let data = match framing {
        RdbFraming::Length(_) => format!("${}\r\n{DATA}", DATA.len()),
        RdbFraming::Marked => format!("$EOF:{MARK}\r\n{DATA}{MARK}"),
    };
    let stream = STREAM.map(command).concat();
    [shake.as_bytes(), data.as_bytes(), &stream, b"*2\r\n$3\r\nget"].concat()
}

#[test]
fn every_cut_of_a_recorded_link_in_two_and_single_bytes_give_the_same() {
    for framing in [RdbFraming::Length(0), RdbFraming::Marked] {
        let bytes = recorded(framing);
        let whole = seen([&bytes[..]]);
        assert_eq!(whole.data, DATA.as_bytes());
        assert_eq!(whole.stream, STREAM.map(command).concat());
        assert_eq!(seen(bytes.chunks(1)), whole);
        for cut in 1..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(seen([first, second]), whole, "cut at {cut}");
        }
    }
}

/// Something that a primary might say, or nearly.
pub(super) fn words() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<Vec<u8>> = vec![
        b"+PONG\r\n".to_vec(),
        b"+OK\r\n".to_vec(),
        b"-ERR\r\n".to_vec(),
        b"\n".to_vec(),
        b"+CONTINUE\r\n".to_vec(),
        format!("+FULLRESYNC {ID} 5\r\n").into_bytes(),
        format!("+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC {ID} 5\r\n").into_bytes(),
        b"+PONG\r\n+OK\r\n+OK\r\n+RDBCHANNELSYNC 7\r\n".to_vec(),
        b"+PONG\r\n+OK\r\n+OK\r\n+DUALCHANNELSYNC\r\n".to_vec(),
        format!("+OK\r\n+FULLRESYNC {ID} 5\r\n$EOF:{MARK}\r\n").into_bytes(),
        format!("+OK\r\n$ENDOFF:5 {ID} 0 8\r\n$EOF:{MARK}\r\n").into_bytes(),
        b"$3\r\nabc".to_vec(),
        b"$9223372036854775807\r\n".to_vec(),
        format!("$EOF:{MARK}\r\n").into_bytes(),
        MARK.as_bytes().to_vec(),
        command("SELECT 3"),
        command("MULTI"),
        command("EXEC"),
        command("DISCARD"),
        command("REPLCONF GETACK *"),
        b"*2147483647\r\n".to_vec(),
        b"*1\r\n$4000\r\n".to_vec(),
        b"*1\r\n$536870912\r\n".to_vec(),
    ];
    prop_oneof![
        8 => proptest::sample::select(lines),
        1 => vec(proptest::num::u8::ANY, 0..400),
        1 => vec(b'x'..=b'x', 0..5000),
    ]
}

proptest! {
    #[test]
    fn hostile_bytes_leave_a_bounded_rest(cut in 0..255_u8, bytes in vec(words(), 0..30)) {
        check_link(&[&[cut][..], &bytes.concat()].concat());
    }

    #[test]
    fn a_hostile_link_begins_well(cut in 0..255_u8, bytes in vec(words(), 0..30)) {
        let begin = format!("+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC {ID} 5\r\n$1\r\nx");
        check_link(&[&[cut], begin.as_bytes(), &bytes.concat()].concat());
    }

    #[test]
    fn hostile_streams_do_not_depend_on_cuts(bytes in vec(words(), 0..30)) {
        check_stream(&bytes.concat());
    }

    #[test]
    fn several_cuts_give_the_same(cuts in vec(0..500_usize, 0..9)) {
        let bytes = recorded(RdbFraming::Marked);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(seen(pieces), seen([&bytes[..]]));
    }
}
