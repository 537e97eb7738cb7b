//! The request to go on from an offset, and what a primary says to that.
//!
//! Invariant: only an answer that leaves no doubt of the history lets a replica go on.

use base::number::{parse_i64, parse_u64};
use proto::args::encode_command;

use super::channel::ChannelDialect;
use crate::history::SavedHistory;
use crate::ids::ReplicationId;

/// What a primary answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PsyncReply {
    /// An empty line: the answer will come.
    KeepAlive,
    /// All data comes, as of this id and offset; `None` if they cannot be read.
    Full(Option<(ReplicationId, u64)>),
    /// The stream goes on, under this id if one is told.
    Continue(Option<ReplicationId>),
    /// All data comes on a second connection.
    DualChannel(ChannelDialect),
    /// Not now.
    Later,
    /// PSYNC is not known there, or the answer is not known here.
    Unsupported,
}

impl PsyncReply {
    pub(super) fn parse(line: &[u8]) -> Self {
        let mut words = line.split(|byte| *byte == b' ');
        match words.next().unwrap_or_default() {
            b"" if line.is_empty() => Self::KeepAlive,
            b"+FULLRESYNC" => Self::Full(position_of(words)),
            b"+CONTINUE" => match (words.next(), words.next()) {
                (None, _) => Self::Continue(None),
                (Some(id), None) => {
                    known(id).map_or(Self::Unsupported, |id| Self::Continue(Some(id)))
                }
                _ => Self::Unsupported,
            },
            b"+RDBCHANNELSYNC" => {
                let client = words.next().and_then(parse_u64).filter(|_| words.next().is_none());
                let dialect = client.map(|client| ChannelDialect::Redis { client });
                dialect.map_or(Self::Unsupported, Self::DualChannel)
            }
            b"+DUALCHANNELSYNC" if words.next().is_none() => {
                Self::DualChannel(ChannelDialect::Valkey)
            }
            b"-NOMASTERLINK" | b"-LOADING" => Self::Later,
            _ => Self::Unsupported,
        }
    }
}

fn position_of<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<(ReplicationId, u64)> {
    let id = known(words.next()?)?;
    let offset = offset_of(words.next()?)?;
    words.next().is_none().then_some((id, offset))
}

/// An offset behind which there may be a byte.
pub(super) fn offset_of(text: &[u8]) -> Option<u64> {
    let offset = parse_i64(text).filter(|offset| *offset < i64::MAX)?;
    u64::try_from(offset).ok()
}

pub(super) fn known(id: &[u8]) -> Option<ReplicationId> {
    ReplicationId::parse(id).filter(|id| *id != ReplicationId::NONE)
}

/// The request for the byte behind a position, or for all data. A primary that hands over has the
/// other side become the primary first.
pub(super) fn psync_request(position: Option<SavedHistory>, hands_over: bool) -> Vec<u8> {
    let (id, byte) = match position {
        Some(SavedHistory { id, offset, .. }) => (id.to_string(), (offset + 1).to_string()),
        None => ("?".to_owned(), "-1".to_owned()),
    };
    let mut request = Vec::new();
    let mut words = vec![&b"PSYNC"[..], id.as_bytes(), byte.as_bytes()];
    words.extend(hands_over.then_some(&b"FAILOVER"[..]));
    encode_command(words.into_iter(), &mut request);
    request
}

#[cfg(test)]
mod tests {
    use super::{PsyncReply, psync_request};
    use crate::history::SavedHistory;
    use crate::ids::ReplicationId;
    use crate::replica::channel::ChannelDialect;
    use crate::replica::psync::PsyncReply::{
        Continue, DualChannel, Full, KeepAlive, Later, Unsupported,
    };

    #[test]
    fn every_answer_of_a_primary() {
        let id = ReplicationId::parse(&[b'a'; 40]).expect("forty digits");
        let far = i64::MAX;
        let table: &[(String, PsyncReply)] = &[
            (String::new(), KeepAlive),
            (format!("+FULLRESYNC {id} 0"), Full(Some((id, 0)))),
            (format!("+FULLRESYNC {id} 4711"), Full(Some((id, 4711)))),
            (format!("+FULLRESYNC {id}"), Full(None)),
            (format!("+FULLRESYNC {id} -1"), Full(None)),
            (format!("+FULLRESYNC {id} {far}"), Full(None)),
            (format!("+FULLRESYNC {} 1", ReplicationId::NONE), Full(None)),
            ("+FULLRESYNC".to_owned(), Full(None)),
            ("+CONTINUE".to_owned(), Continue(None)),
            (format!("+CONTINUE {id}"), Continue(Some(id))),
            ("+CONTINUE x".to_owned(), Unsupported),
            (format!("+CONTINUE {id} 7"), Unsupported),
            (format!("+CONTINUE {}", ReplicationId::NONE), Unsupported),
            ("+CONTINUES".to_owned(), Unsupported),
            ("-NOMASTERLINK Can't SYNC while not connected with my master".to_owned(), Later),
            ("-LOADING Redis is loading the dataset in memory".to_owned(), Later),
            ("+RDBCHANNELSYNC 7".to_owned(), DualChannel(ChannelDialect::Redis { client: 7 })),
            ("+RDBCHANNELSYNC".to_owned(), Unsupported),
            ("+RDBCHANNELSYNC -7".to_owned(), Unsupported),
            ("+RDBCHANNELSYNC 7 8".to_owned(), Unsupported),
            ("+DUALCHANNELSYNC".to_owned(), DualChannel(ChannelDialect::Valkey)),
            ("+DUALCHANNELSYNC 7".to_owned(), Unsupported),
            ("-ERR unknown command 'PSYNC'".to_owned(), Unsupported),
            (" ".to_owned(), Unsupported),
        ];
        for (line, reply) in table {
            assert_eq!(PsyncReply::parse(line.as_bytes()), *reply, "{line}");
        }
    }

    #[test]
    fn the_byte_that_is_asked_for_is_the_next_one() {
        let id = ReplicationId::parse(&[b'7'; 40]).expect("forty digits");
        let position = SavedHistory { id, offset: 99, database: 3, second: None };
        let request = format!("*3\r\n$5\r\nPSYNC\r\n$40\r\n{id}\r\n$3\r\n100\r\n");
        assert_eq!(psync_request(Some(position), false), request.as_bytes());
        assert_eq!(psync_request(None, false), b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
    }
}
