//! The second connection of a full sync, which the data come on while the stream comes on the
//! first one: as Redis 8 has it, and as Valkey has it.
//!
//! Invariants: nothing is guessed: a reply on either connection that is not the one that was asked
//! for ends the whole sync. What is held of the stream begins with the first byte behind the data.

use std::collections::VecDeque;

use base::number::{parse_i64, parse_u64};

use super::action::{Outbox, PrimaryChannel};
use super::handshake::command;
use super::line::shown;
use super::psync::{PsyncReply, known, offset_of, psync_request};
use super::settings::ReplicaSettings;
use crate::history::SavedHistory;
use crate::ids::ReplicationId;
use crate::primary::OWN_CAPABILITY;

/// Whose way it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelDialect {
    /// Redis 8: the second connection names the first one's number, and the stream flows on the
    /// first one from the cut on.
    Redis {
        /// The first connection's number.
        client: u64,
    },
    /// Valkey: the second connection is told its number, which the first one names when it asks for
    /// the stream behind the cut.
    Valkey,
}

/// What becomes of the stream meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainChannelState {
    /// Not asked for yet.
    Idle,
    /// The second connection's number is told, and the reply to come since this moment.
    Named { position: SavedHistory, since_ms: u64 },
    /// The stream is asked for, and the reply to come since this moment.
    Asked { position: SavedHistory, since_ms: u64 },
    /// The stream comes, and is held.
    Held,
}

/// A full sync whose data come on a second connection.
#[derive(Debug)]
pub(super) struct DualChannel {
    pub(super) dialect: ChannelDialect,
    pub(super) main: MainChannelState,
    /// Whether the second connection is there, or is being made.
    pub(super) is_open: bool,
    /// The data are loaded before the stream came, with this database selected behind them.
    pub(super) loaded: Option<u32>,
}

/// How much of a stream is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// `replica_full_sync_buffer_size`.
    pub size: u64,
    /// `replica_full_sync_buffer_peak`: the most since the sync began.
    pub peak: u64,
    /// How much there was when it began to flow.
    pub(super) flowing: u64,
}

impl DualChannel {
    /// Whether the main channel is not asked for the stream yet.
    pub(super) fn is_held(&self) -> bool {
        self.main == MainChannelState::Held
    }

    pub(super) fn new(dialect: ChannelDialect) -> Self {
        let main = match dialect {
            ChannelDialect::Redis { .. } => MainChannelState::Held,
            ChannelDialect::Valkey => MainChannelState::Idle,
        };
        Self { dialect, main, is_open: true, loaded: None }
    }

    /// Since when a reply on the first connection is to come.
    pub(super) fn waits_since(&self) -> Option<u64> {
        match self.main {
            MainChannelState::Named { since_ms, .. } | MainChannelState::Asked { since_ms, .. } => {
                Some(since_ms)
            }
            MainChannelState::Idle | MainChannelState::Held => None,
        }
    }

    /// The second connection has this number, and its data stand there: the stream is asked for.
    pub(super) fn name_channel(
        &mut self,
        client: u64,
        position: SavedHistory,
        now_ms: u64,
        out: &mut Outbox,
    ) {
        let number = client.to_string();
        out.send(command(&[b"REPLCONF", b"set-rdb-client-id", number.as_bytes()]));
        self.main = MainChannelState::Named { position, since_ms: now_ms };
    }

    /// Takes in a line of the first connection; the error is for the log.
    pub(super) fn line(
        &mut self,
        line: &[u8],
        now_ms: u64,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let odd = || Err(format!("Unexpected reply of MASTER beside its data: '{}'", shown(line)));
        match self.main {
            _ if line.is_empty() => {}
            MainChannelState::Named { position, .. } if line.first() == Some(&b'+') => {
                let SavedHistory { id, offset, .. } = position;
                out.notice(format!(
                    "Trying a partial resynchronization using main channel (request {id}:{}).",
                    offset + 1
                ));
                out.send(psync_request(Some(position), false));
                self.main = MainChannelState::Asked { position, since_ms: now_ms };
            }
            MainChannelState::Asked { position, .. } => match PsyncReply::parse(line) {
                PsyncReply::Continue(id) if id.is_none_or(|id| id == position.id) => {
                    out.notice(
                        "MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization, RDB \
                         load in background.",
                    );
                    self.main = MainChannelState::Held;
                }
                _ => return odd(),
            },
            MainChannelState::Named { .. } | MainChannelState::Idle | MainChannelState::Held => {
                return odd();
            }
        }
        Ok(())
    }
}

/// The words on the second connection before the data.
#[derive(Debug)]
pub(super) struct ChannelHandshake {
    dialect: ChannelDialect,
    /// Whose replies are to come.
    pending: VecDeque<&'static str>,
}

/// How they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelEnd {
    /// Without data; why is in the log.
    Failed,
    /// The data come, as of this id and offset.
    Full(ReplicationId, u64),
    /// The same, and the second connection has this number.
    Numbered(ReplicationId, u64, u64),
}

impl ChannelHandshake {
    /// Begins them.
    pub(super) fn begin(
        dialect: ChannelDialect,
        settings: &ReplicaSettings,
        out: &mut Outbox,
    ) -> Self {
        let mut pending = VecDeque::new();
        let mut bytes = Vec::new();
        if let Some(words) = settings.login() {
            pending.push_back("AUTH");
            bytes.extend(command(&words));
        }
        let port = settings.listening_port.to_string();
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"capa", b"eof", b"capa", OWN_CAPABILITY];
        words.extend([&b"rdb-only"[..], b"1", b"rdb-channel", b"1"]);
        let number = match dialect {
            ChannelDialect::Redis { client } => client.to_string(),
            ChannelDialect::Valkey => String::new(),
        };
        if let ChannelDialect::Redis { .. } = dialect {
            words.extend([&b"main-ch-client-id"[..], number.as_bytes()]);
        }
        words.extend([&b"listening-port"[..], port.as_bytes()]);
        if let Some(ip) = &settings.announced_ip {
            words.extend([&b"ip-address"[..], ip.as_bytes()]);
        }
        if let (ChannelDialect::Valkey, Some(version)) = (dialect, settings.valkey_version) {
            words.extend([&b"version"[..], version.as_bytes()]);
        }
        pending.push_back("REPLCONF");
        bytes.extend(command(&words));
        out.send_on(PrimaryChannel::Rdb, bytes);
        Self { dialect, pending }
    }

    /// Whether the data are asked for: the primary may take its time from here on.
    pub(super) fn has_asked(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes in one line of the primary.
    pub(super) fn line(&mut self, line: &[u8], out: &mut Outbox) -> Option<ChannelEnd> {
        let Some(word) = self.pending.pop_front() else { return self.answered(line, out) };
        if line.first() != Some(&b'+') {
            out.warning(format!(
                "Master did not respond to {word} on the RDB channel as it should: '{}'",
                shown(line)
            ));
            return Some(ChannelEnd::Failed);
        }
        if self.pending.is_empty() {
            out.send_on(
                PrimaryChannel::Rdb,
                match self.dialect {
                    ChannelDialect::Redis { .. } => psync_request(None, false),
                    ChannelDialect::Valkey => b"SYNC\r\n".to_vec(),
                },
            );
        }
        None
    }

    fn answered(&self, line: &[u8], out: &mut Outbox) -> Option<ChannelEnd> {
        if line.is_empty() {
            return None;
        }
        let end = match self.dialect {
            ChannelDialect::Redis { .. } => match PsyncReply::parse(line) {
                PsyncReply::Full(Some((id, offset))) => Some(ChannelEnd::Full(id, offset)),
                _ => None,
            },
            ChannelDialect::Valkey => numbered(line),
        };
        if end.is_none() {
            out.warning(format!(
                "Unexpected reply of MASTER on the RDB channel: '{}'",
                shown(line)
            ));
        }
        Some(end.unwrap_or(ChannelEnd::Failed))
    }
}

/// Reads `$ENDOFF:<offset> <id> <database> <number>`. The data themselves say which database is
/// selected behind them.
fn numbered(line: &[u8]) -> Option<ChannelEnd> {
    let mut words = line.strip_prefix(b"$ENDOFF:")?.split(|byte| *byte == b' ');
    let offset = offset_of(words.next()?)?;
    let id = known(words.next()?)?;
    parse_i64(words.next()?)?;
    let client = parse_u64(words.next()?)?;
    words.next().is_none().then_some(ChannelEnd::Numbered(id, offset, client))
}

impl HeldBytes {
    pub(super) fn add(&mut self, count: u64) {
        self.size += count;
        self.peak = self.peak.max(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelEnd, numbered};
    use crate::ids::ReplicationId;

    #[test]
    fn every_line_that_numbers_a_connection() {
        let id = ReplicationId::parse(&[b'a'; 40]).expect("forty digits");
        let good = format!("$ENDOFF:51 {id} 0 8");
        assert_eq!(numbered(good.as_bytes()), Some(ChannelEnd::Numbered(id, 51, 8)));
        let good = format!("$ENDOFF:0 {id} -1 18446744073709551615");
        assert_eq!(numbered(good.as_bytes()), Some(ChannelEnd::Numbered(id, 0, u64::MAX)));
        let none = ReplicationId::NONE;
        for bad in [
            String::new(),
            "$ENDOFF:".to_owned(),
            format!("$ENDOFF:51 {id} 0"),
            format!("$ENDOFF:51 {id} 0 8 9"),
            format!("$ENDOFF:51 {id} x 8"),
            format!("$ENDOFF:51 {id} 0 -8"),
            format!("$ENDOFF:-1 {id} 0 8"),
            format!("$ENDOFF:{} {id} 0 8", i64::MAX),
            format!("$ENDOFF:51 {none} 0 8"),
            format!("$endoff:51 {id} 0 8"),
            format!("+FULLRESYNC {id} 51"),
        ] {
            assert_eq!(numbered(bad.as_bytes()), None, "{bad}");
        }
    }
}
