//! The records of the log's file.
//!
//! Invariant: a log is what its records make, one after the other; what follows a record counts
//! more than what stands before.

use quorum::wire::{Fields, WireError, put_u64};

use crate::codec::{Coded, number};
use crate::types::{Entry, LogId, Vote};

/// A record.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// For whom the node votes.
    Vote(openraft::Vote<crate::PeerId>),
    /// The next entry.
    Entry(openraft::Entry<crate::MapRaft>),
    /// The entries from this one on are none any more.
    Truncated(u64),
    /// The entries up to this one are in the snapshot.
    Purged(openraft::LogId<crate::PeerId>),
    /// The entries up to this one are committed, for sure.
    Committed(openraft::LogId<crate::PeerId>),
}

impl Record {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Record::Vote(vote) => {
                out.push(0);
                vote.put(&mut out);
            }
            Record::Entry(entry) => {
                out.push(1);
                entry.put(&mut out);
            }
            Record::Truncated(index) => {
                out.push(2);
                put_u64(&mut out, *index);
            }
            Record::Purged(last) => {
                out.push(3);
                last.put(&mut out);
            }
            Record::Committed(last) => {
                out.push(4);
                last.put(&mut out);
            }
        }
        out
    }

    /// The record of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Record, WireError> {
        let mut fields = Fields::new(bytes);
        let record = match fields.u8()? {
            0 => Record::Vote(Vote::read(&mut fields)?),
            1 => Record::Entry(Entry::read(&mut fields)?),
            2 => Record::Truncated(number(&mut fields)?),
            3 => Record::Purged(LogId::read(&mut fields)?),
            4 => Record::Committed(LogId::read(&mut fields)?),
            _ => return Err(WireError::Value("kind of record")),
        };
        fields.end().map(|()| record)
    }
}
