//! The words before a link stands: PING, AUTH and REPLCONF, PSYNC, and the reply to each.
//!
//! Invariants: PSYNC is sent when every other reply has come, since a primary refuses it with
//! replies pending; one reply belongs to one request, in their order.

use std::collections::VecDeque;

use proto::args::encode_command;

use super::action::Outbox;
use super::channel::ChannelDialect;
use super::handover::Handover;
use super::line::shown;
use super::psync::{PsyncReply, psync_request};
use super::settings::ReplicaSettings;
use crate::history::SavedHistory;
use crate::ids::ReplicationId;
use crate::primary::OWN_CAPABILITY;

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Whose replies are to come.
    pending: VecDeque<Request>,
    /// Whether PSYNC named a position.
    names_position: bool,
    /// Whether we know of a second connection as Redis 8 has it, and as Valkey has it.
    channels: (bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Ping,
    Auth,
    /// REPLCONF with this word.
    Replconf(&'static str),
    Psync,
}

/// How a handshake ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeEnd {
    /// Without a link; why is in the log.
    Failed,
    /// The same, and the peer said that it does not become the primary.
    Refused,
    /// The peer has become the primary before, and is to be asked for its stream.
    Promoted,
    /// The stream goes on.
    Continue(Option<ReplicationId>),
    /// All data comes, as of this id and offset, if the primary tells.
    Full(Option<(ReplicationId, u64)>),
    /// All data comes on a second connection.
    DualChannel(ChannelDialect),
    /// All data comes, by a primary that counts no offsets.
    Legacy,
}

impl Handshake {
    /// Begins one.
    pub(super) fn begin(out: &mut Outbox) -> Self {
        out.send(command(&[b"PING"]));
        let pending = [Request::Ping].into();
        Self { pending, names_position: false, channels: (false, false) }
    }

    /// Takes in one line of the primary.
    pub(super) fn line(
        &mut self,
        line: &[u8],
        settings: &ReplicaSettings,
        (position, handover): (Option<SavedHistory>, Handover),
        out: &mut Outbox,
    ) -> Option<HandshakeEnd> {
        if self.pending.front() == Some(&Request::Psync) {
            return self.answered(line, handover, out);
        }
        let is_error = line.first() == Some(&b'-');
        match self.pending.pop_front()? {
            Request::Ping if !is_alive(line) => {
                out.warning(format!("Error reply to PING from master: '{}'", shown(line)));
                return Some(HandshakeEnd::Failed);
            }
            Request::Ping => {
                out.notice("Master replied to PING, replication can continue...");
                self.introduce(settings, out);
            }
            Request::Auth if is_error => {
                out.warning(format!("Unable to AUTH to MASTER: {}", shown(line)));
                return Some(HandshakeEnd::Failed);
            }
            Request::Replconf("capa") if line == b"+OK active-replica" => {
                out.warning("The master takes writes of its own replicas: can't replicate it");
                return Some(HandshakeEnd::Failed);
            }
            Request::Replconf(word) if is_error => out.notice(format!(
                "(Non critical) Master does not understand REPLCONF {word}: {}",
                shown(line)
            )),
            Request::Auth | Request::Replconf(_) | Request::Psync => {}
        }
        if self.pending.is_empty() {
            self.ask(position, handover, out);
        }
        None
    }

    /// Sends what can be sent without waiting.
    fn introduce(&mut self, settings: &ReplicaSettings, out: &mut Outbox) {
        let mut bytes = Vec::new();
        let mut say = |request, words: &[&[u8]]| {
            self.pending.push_back(request);
            bytes.extend(command(words));
        };
        if let Some(words) = settings.login() {
            say(Request::Auth, &words);
        }
        let mut tell = |word: &'static str, rest: &[&[u8]]| {
            let words = [&[b"REPLCONF", word.as_bytes()], rest].concat();
            say(Request::Replconf(word), &words);
        };
        tell("listening-port", &[settings.listening_port.to_string().as_bytes()]);
        if let Some(ip) = &settings.announced_ip {
            tell("ip-address", &[ip.as_bytes()]);
        }
        let mut capabilities: Vec<&[u8]> =
            vec![b"eof", b"capa", b"psync2", b"capa", OWN_CAPABILITY];
        self.channels = (settings.rdb_channel, settings.dual_channel);
        if settings.rdb_channel {
            capabilities.extend([&b"capa"[..], b"rdb-channel-repl"]);
        }
        if settings.dual_channel {
            capabilities.extend([&b"capa"[..], b"dual-channel"]);
        }
        tell("capa", &capabilities);
        if let Some(version) = settings.valkey_version {
            tell("version", &[version.as_bytes()]);
        }
        if let Some(node) = &settings.cluster_node {
            tell("SET-CLUSTER-NODE-ID", &[node.as_bytes()]);
        }
        out.send(bytes);
    }

    /// Whether PSYNC was sent.
    pub(super) fn has_asked(&self) -> bool {
        self.pending.back() == Some(&Request::Psync)
    }

    /// Sends PSYNC, with all replies before it here.
    pub(super) fn ask(
        &mut self,
        position: Option<SavedHistory>,
        handover: Handover,
        out: &mut Outbox,
    ) {
        match position {
            Some(SavedHistory { id, offset, .. }) => out.notice(format!(
                "Trying a partial resynchronization (request {id}:{}).",
                offset + 1
            )),
            None => out.notice("Partial resynchronization not possible (no cached master)"),
        }
        self.names_position = position.is_some();
        self.pending = [Request::Psync].into();
        out.send(psync_request(position, handover.is_underway()));
    }

    fn answered(
        &mut self,
        line: &[u8],
        handover: Handover,
        out: &mut Outbox,
    ) -> Option<HandshakeEnd> {
        match PsyncReply::parse(line) {
            PsyncReply::KeepAlive => None,
            PsyncReply::Full(of) => {
                match of {
                    Some((id, offset)) => {
                        out.notice(format!("Full resync from master: {id}:{offset}"));
                    }
                    None => out.warning("Master replied with wrong +FULLRESYNC syntax."),
                }
                Some(HandshakeEnd::Full(of))
            }
            PsyncReply::Continue(id) if self.names_position => {
                out.notice("Successful partial resynchronization with master.");
                Some(HandshakeEnd::Continue(id))
            }
            PsyncReply::DualChannel(dialect) if self.has_announced(dialect) => {
                out.notice("PSYNC is not possible, initialize RDB channel.");
                Some(HandshakeEnd::DualChannel(dialect))
            }
            PsyncReply::Later if handover == Handover::Asked => {
                Some(answer_to_handover(line, handover, out))
            }
            PsyncReply::Later => {
                out.notice(format!(
                    "Master is currently unable to PSYNC but should be in the future: {}",
                    shown(line)
                ));
                Some(HandshakeEnd::Failed)
            }
            PsyncReply::Unsupported | PsyncReply::Continue(_) | PsyncReply::DualChannel(_)
                if handover.is_underway() =>
            {
                Some(answer_to_handover(line, handover, out))
            }
            // What was not asked for is as good as no answer.
            PsyncReply::Unsupported | PsyncReply::Continue(_) | PsyncReply::DualChannel(_) => {
                out.notice(format!(
                    "Master does not support PSYNC or is in error state (reply: {})",
                    shown(line)
                ));
                out.notice("Retrying with SYNC...");
                out.send(*b"SYNC\r\n");
                Some(HandshakeEnd::Legacy)
            }
        }
    }
}

impl Handshake {
    fn has_announced(&self, dialect: ChannelDialect) -> bool {
        match dialect {
            ChannelDialect::Redis { .. } => self.channels.0,
            ChannelDialect::Valkey => self.channels.1,
        }
    }
}

/// What a reply to PSYNC with FAILOVER says that is no link. Where the peer may have done what was
/// asked before, only a reply to that very request says that it has, or has not.
fn answer_to_handover(line: &[u8], handover: Handover, out: &mut Outbox) -> HandshakeEnd {
    let of_request = line.strip_prefix(b"-ERR PSYNC FAILOVER ");
    let is_primary = of_request.is_some_and(|rest| rest.starts_with(b"can't be sent to a "));
    if is_primary && handover.is_in_doubt() {
        out.notice("The failover target is the master by now.");
        return HandshakeEnd::Promoted;
    }
    out.warning(format!("Failover target rejected psync request: {}", shown(line)));
    let is_refusal = match handover.is_in_doubt() {
        true => of_request.is_some(),
        false => line.starts_with(b"-"),
    };
    if is_refusal { HandshakeEnd::Refused } else { HandshakeEnd::Failed }
}

/// Whether a reply to PING means that commands are answered, perhaps after AUTH.
fn is_alive(line: &[u8]) -> bool {
    let alive: [&[u8]; 4] = [b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"];
    alive.iter().any(|beginning| line.starts_with(beginning))
}

pub(super) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(words.iter().copied(), &mut bytes);
    bytes
}
