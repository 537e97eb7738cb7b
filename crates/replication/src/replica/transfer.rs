//! A primary's data on its way: the line in front, and where the data ends.
//!
//! Invariants: no byte of the mark is passed on as data, however the bytes are cut; what waits for
//! more bytes is shorter than a mark.

use base::number::parse_u64;

use super::action::RdbFraming;
use super::line::shown;

/// How long a mark is.
const MARK_LEN: usize = 40;

/// What the line in front of data says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// An empty line: the data will come.
    KeepAlive,
    /// The data follows.
    Data(Transfer),
    /// The primary gives up, or talks of something else: the line for the log.
    Fault(String),
}

impl Header {
    pub(super) fn parse(line: &[u8]) -> Self {
        let end = match line {
            [] => return Self::KeepAlive,
            [b'-', error @ ..] => {
                let error = shown(error);
                return Self::Fault(format!("MASTER aborted replication with an error: {error}"));
            }
            [b'$', b'E', b'O', b'F', b':', mark @ ..] => mark.try_into().ok().map(End::Mark),
            [b'$', length @ ..] => parse_u64(length)
                .filter(|length| i64::try_from(*length).is_ok())
                .map(|length| End::Length { length, left: length }),
            _ => None,
        };
        match end {
            Some(end) => Self::Data(Transfer { end, read: 0 }),
            None => Self::Fault(format!(
                "Bad protocol from MASTER: '{}' is no header of data (we asked for it: are you \
                 sure the host and port are right?)",
                shown(line)
            )),
        }
    }
}

/// Data that is being received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    end: End,
    /// How many bytes of data have come.
    read: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Length { length: u64, left: u64 },
    Mark([u8; MARK_LEN]),
}

/// What some bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// So many of the first ones are data.
    pub(super) data: usize,
    /// The bytes behind them that end it, if the end has come.
    pub(super) end: Option<usize>,
}

impl Transfer {
    /// Looks at the bytes that come next; those that are neither data nor its end are to be shown
    /// again, with more behind them.
    pub(super) fn take(&mut self, buf: &[u8]) -> Received {
        let received = match &mut self.end {
            End::Length { left, .. } => {
                let data = usize::try_from(*left).map_or(buf.len(), |left| left.min(buf.len()));
                *left -= data as u64;
                Received { data, end: (*left == 0).then_some(0) }
            }
            End::Mark(mark) => match position_of(mark, buf) {
                Some(data) => Received { data, end: Some(MARK_LEN) },
                None => Received { data: buf.len() - beginning_of(mark, buf), end: None },
            },
        };
        self.read += received.data as u64;
        received
    }

    pub(super) fn framing(&self) -> RdbFraming {
        match self.end {
            End::Length { length, .. } => RdbFraming::Length(length),
            End::Mark(_) => RdbFraming::Marked,
        }
    }

    pub(super) fn read(&self) -> u64 {
        self.read
    }
}

/// Where the mark is. Of most data only each fortieth byte is looked at: the search goes by the
/// last byte of where the mark might be, and that tells how far on it might be at the earliest
/// (Horspool's algorithm).
fn position_of(mark: &[u8; MARK_LEN], buf: &[u8]) -> Option<usize> {
    let mut steps = [MARK_LEN; 256];
    for (index, byte) in mark[..MARK_LEN - 1].iter().enumerate() {
        steps[usize::from(*byte)] = MARK_LEN - 1 - index;
    }
    let mut begin = 0;
    while let Some(place) = buf.get(begin..begin + MARK_LEN) {
        if place == mark {
            return Some(begin);
        }
        begin += steps[usize::from(place[MARK_LEN - 1])];
    }
    None
}

/// How many of the last bytes may be the beginning of the mark.
fn beginning_of(mark: &[u8; MARK_LEN], buf: &[u8]) -> usize {
    let longest = buf.len().min(MARK_LEN - 1);
    (1..=longest).rev().find(|len| buf.ends_with(&mark[..*len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{End, Header, MARK_LEN, Transfer};

    fn marked(mark: [u8; MARK_LEN]) -> Transfer {
        Transfer { end: End::Mark(mark), read: 0 }
    }

    #[test]
    fn every_line_in_front_of_data() {
        let sized =
            |length| Header::Data(Transfer { end: End::Length { length, left: length }, read: 0 });
        let mark = "0123456789abcdef0123456789abcdef01234567";
        let fault = |line: &[u8]| matches!(Header::parse(line), Header::Fault(_));
        assert_eq!(Header::parse(b""), Header::KeepAlive);
        assert_eq!(Header::parse(b"$0"), sized(0));
        assert_eq!(Header::parse(b"$9223372036854775807"), sized(i64::MAX as u64));
        let header = format!("$EOF:{mark}");
        let bytes = mark.as_bytes().try_into().expect("a mark");
        assert_eq!(Header::parse(header.as_bytes()), Header::Data(marked(bytes)));
        assert_eq!(
            Header::parse(b"-ERR no memory"),
            Header::Fault("MASTER aborted replication with an error: ERR no memory".to_owned())
        );
        for line in ["$", "$-1", "$1x", "$9223372036854775808", "$EOF:", "*1", "+OK", "$EOF:abc"] {
            assert!(fault(line.as_bytes()), "{line}");
        }
        assert!(fault(format!("{header}0").as_bytes()), "a mark of 41 bytes");
    }

    proptest! {
        #[test]
        fn cuts_do_not_hide_a_mark(
            data in vec(0..2_u8, 0..200),
            mark in vec(0..2_u8, MARK_LEN),
            cuts in vec(1..60_usize, 1..20),
        ) {
            let mark: [u8; MARK_LEN] = mark.try_into().expect("forty bytes");
            let stream = [&data[..], &mark, b"*1\r\n"].concat();
            let expected = stream.windows(MARK_LEN).position(|place| place == mark);
            let expected = expected.expect("the mark is in it");
            let mut transfer = marked(mark);
            let (mut begin, mut end, mut cuts) = (0, 0, cuts.iter().cycle());
            loop {
                end = stream.len().min(end + cuts.next().expect("a cycle"));
                let received = transfer.take(&stream[begin..end]);
                begin += received.data;
                prop_assert!(begin <= expected);
                if received.end.is_some() {
                    prop_assert_eq!((begin, transfer.read()), (expected, expected as u64));
                    break;
                }
                prop_assert!(end - begin < MARK_LEN);
            }
        }
    }
}
