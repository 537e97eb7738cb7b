//! Of which history the stream is: the two ids under which a replica may go on, when they change,
//! and whether a replica that asks to go on may do so.
//!
//! Invariant: under one id no two different bytes ever stand at one offset. So an id ends where
//! the stream might part from what others have of it, and stays valid, as the second one, only up
//! to there.

use std::fmt;

use base::number::{parse_i64, parse_u64};

use crate::ids::ReplicationId;

/// What is kept of the stream, by offsets: the number of bytes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRange {
    /// Before the first byte that is kept.
    pub first: u64,
    /// Behind the last byte there has been.
    pub end: u64,
}

impl KeptRange {
    /// How many bytes are kept.
    pub fn len(self) -> u64 {
        self.end - self.first
    }

    /// `repl_backlog_first_byte_offset`: the first byte that is kept, or the next one there will
    /// be.
    pub fn first_byte(self) -> u64 {
        self.first + 1
    }

    /// Whether nothing is kept.
    pub fn is_empty(self) -> bool {
        self.first == self.end
    }
}

/// The ids of a server's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    id: ReplicationId,
    second: Option<SecondId>,
}

/// The id that the stream had before, and how far this one is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondId {
    /// The id.
    pub id: ReplicationId,
    /// The offset where the id ended: no byte behind it belongs to this id.
    pub end: u64,
}

/// What of a stream is written down, so that a server may go on after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHistory {
    /// Of which id.
    pub id: ReplicationId,
    /// Up to which offset the saved data reaches.
    pub offset: u64,
    /// The database that is selected in the stream at this offset.
    pub database: u32,
    /// The id that the stream had before, where that is written down, too.
    pub second: Option<SecondId>,
}

/// Whether a replica that asked to go on does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsyncVerdict {
    /// From this offset on.
    Partial {
        /// How many bytes the replica has.
        from: u64,
    },
    /// Only with all data.
    Full(FullReason),
}

/// Why a replica needs all data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullReason {
    /// The replica has nothing to go on from, and says so.
    Wanted,
    /// Another history.
    OtherId,
    /// Our former history, but the replica went on with it beyond where ours parted.
    BeyondSecond,
    /// Nothing of the stream is kept.
    NoBacklog,
    /// What is missing is kept no more.
    TooOld,
    /// There has never been such a byte.
    TooNew,
    /// The replica cannot hold what is missing.
    Unmet,
}

impl History {
    /// A new one, of a server that has loaded nothing, or nothing that says of which history.
    pub fn new(fresh: ReplicationId) -> History {
        History { id: fresh, second: None }
    }

    /// That of a primary that loaded saved data: a new one which parts from the saved one there.
    /// Its backlog begins empty at the saved offset.
    pub fn of_primary(saved: SavedHistory, fresh: ReplicationId) -> History {
        History { id: fresh, second: Some(SecondId { id: saved.id, end: saved.offset }) }
    }

    /// That of a replica that loaded saved data and will ask to go on.
    pub fn of_replica(saved: SavedHistory) -> History {
        History { id: saved.id, second: saved.second }
    }

    /// The id of what is produced now.
    pub fn id(&self) -> ReplicationId {
        self.id
    }

    /// The id that is valid for the stream's beginning, if there is one.
    pub fn second(&self) -> Option<SecondId> {
        self.second
    }

    /// `master_replid2`: the second id, or zeros.
    pub fn second_id(&self) -> ReplicationId {
        self.second.map_or(ReplicationId::NONE, |second| second.id)
    }

    /// `second_repl_offset`: the first byte that is not of the second id, or -1.
    pub fn second_offset(&self) -> i64 {
        self.second.map_or(-1, |second| i64::try_from(second.end + 1).unwrap_or(i64::MAX))
    }

    /// A replica becomes a primary at this offset. Returns the line for the log.
    pub fn promote(&mut self, at: u64, fresh: ReplicationId) -> String {
        self.begin_history(at, fresh);
        format!(
            "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID \
             is {}",
            self.second_id(),
            self.second_offset(),
            self.id
        )
    }

    /// Our primary goes on under another id from this offset on. Returns whether that is one, so
    /// that our own replicas must be told by closing their links.
    pub fn shift_id(&mut self, at: u64, id: ReplicationId) -> bool {
        let is_other = id != self.id;
        if is_other {
            self.begin_history(at, id);
        }
        is_other
    }

    /// A full sync is done: we are of our primary's history.
    pub fn adopt(&mut self, id: ReplicationId) {
        *self = History::new(id);
    }

    /// A backlog is made where there was none: what was produced without one has no bytes, so that
    /// the ids end. Returns the line for the log.
    pub fn begin_backlog(&mut self, fresh: ReplicationId) -> String {
        self.adopt(fresh);
        format!(
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            self.id,
            self.second_id()
        )
    }

    /// The backlog is freed, and with it all ids that others may know.
    pub fn end_backlog(&mut self, fresh: ReplicationId) {
        self.adopt(fresh);
    }

    /// What to write down beside data that is complete up to this offset. Only a primary with a
    /// backlog writes this, or a replica that has or remembers its primary.
    pub fn saved(&self, offset: u64, database: u32) -> SavedHistory {
        SavedHistory { id: self.id, offset, database, second: self.second }
    }

    /// What a PSYNC with this id for this byte is answered.
    pub fn psync_verdict(&self, id: &[u8], byte: i64, kept: Option<KeptRange>) -> PsyncVerdict {
        use FullReason::{BeyondSecond, NoBacklog, OtherId, TooNew, TooOld, Wanted};
        if id.first() == Some(&b'?') {
            return PsyncVerdict::Full(Wanted);
        }
        let asked = ReplicationId::parse(id);
        if asked != Some(self.id) {
            match self.second {
                Some(second) if asked == Some(second.id) => {
                    if byte > self.second_offset() {
                        return PsyncVerdict::Full(BeyondSecond);
                    }
                }
                _ => return PsyncVerdict::Full(OtherId),
            }
        }
        let Some(kept) = kept else {
            return PsyncVerdict::Full(NoBacklog);
        };
        match u64::try_from(byte).ok().and_then(|byte| byte.checked_sub(1)) {
            Some(from) if from > kept.end => PsyncVerdict::Full(TooNew),
            Some(from) if from >= kept.first => PsyncVerdict::Partial { from },
            _ => PsyncVerdict::Full(TooOld),
        }
    }

    /// The line that answers a PSYNC which goes on; a replica that knows of changing ids is told
    /// the present one.
    pub fn continue_line(&self, knows_ids: bool) -> Vec<u8> {
        if knows_ids {
            format!("+CONTINUE {}\r\n", self.id).into_bytes()
        } else {
            b"+CONTINUE\r\n".to_vec()
        }
    }

    /// The line in front of all data as of this offset.
    pub fn full_line(&self, cut: u64) -> Vec<u8> {
        format!("+FULLRESYNC {} {cut}\r\n", self.id).into_bytes()
    }

    /// The same on a connection of its own, which is told its number, as Valkey has it.
    pub fn numbered_line(&self, cut: u64, client: u64, database: u32) -> Vec<u8> {
        format!("$ENDOFF:{cut} {} {database} {client}\r\n", self.id).into_bytes()
    }

    fn begin_history(&mut self, at: u64, fresh: ReplicationId) {
        self.second = Some(SecondId { id: self.id, end: at });
        self.id = fresh;
    }
}

impl SavedHistory {
    /// Reads the form that `Display` writes: id, offset and database, and maybe the second id and
    /// where that ended.
    pub fn parse(text: &[u8]) -> Option<SavedHistory> {
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        let (id, offset, database, second) = match words[..] {
            [id, offset, database] => (id, offset, database, None),
            [id, offset, database, second, end] => {
                let second = SecondId { id: ReplicationId::parse(second)?, end: parse_u64(end)? };
                (id, offset, database, Some(second))
            }
            _ => return None,
        };
        Some(SavedHistory { second, ..Self::from_aux(id, offset, database)? })
    }

    /// Reads the values of the fields `repl-id`, `repl-offset` and `repl-stream-db` of an RDB
    /// file. A database of -1 means that none is known, and is no history to go on from.
    pub fn from_aux(id: &[u8], offset: &[u8], database: &[u8]) -> Option<SavedHistory> {
        let id = ReplicationId::parse(id).filter(|id| *id != ReplicationId::NONE)?;
        // One less than the highest, since there is a byte behind it.
        let offset = parse_i64(offset).filter(|offset| *offset < i64::MAX)?;
        let database = parse_u64(database).filter(|it| *it <= i32::MAX as u64)?;
        Some(SavedHistory {
            id,
            offset: u64::try_from(offset).ok()?,
            database: u32::try_from(database).ok()?,
            second: None,
        })
    }
}

impl fmt::Display for SavedHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.id, self.offset, self.database)?;
        match self.second {
            Some(SecondId { id, end }) => write!(f, " {id} {end}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
