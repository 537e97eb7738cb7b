//! PSYNC and SYNC: what is checked before a client becomes a replica, in this order, and whether
//! the client goes on from its own place.
//!
//! Invariant: a client that is refused is not attached, and one that is attached gets no reply but
//! what its sync sends.

use super::action::{LogLevel, PrimaryAction};
use super::attached::{Attached, Dialect, ReplicaId, Stage};
use super::registry::Primary;
use super::replconf_state::{Capabilities, RdbReader, ReplconfState, integer};
use crate::history::{FullReason, History, KeptRange, PsyncVerdict};

/// A client that asks for a sync.
#[derive(Debug)]
pub struct SyncRequest<'a> {
    /// The client's number.
    pub replica: ReplicaId,
    /// The address of its end of the link.
    pub peer: &'a str,
    /// The client as CLIENT LIST shows it.
    pub client: &'a str,
    /// What the client announced.
    pub announced: &'a ReplconfState,
    /// What the client asks for.
    pub ask: SyncKind<'a>,
    /// Whether the client watches all commands, as MONITOR lets clients do.
    pub is_monitor: bool,
    /// Whether replies to it have not been sent yet.
    pub has_output: bool,
    /// Whether what the client asks for is more than it can hold.
    pub asks_for_unmet: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub enum SyncKind<'a> {
    /// SYNC: all data, and the stream without acknowledgements.
    Sync,
    /// PSYNC.
    Psync {
        /// The history's id, or a question mark.
        id: &'a [u8],
        /// The first byte that the replica does not have.
        byte: &'a [u8],
        /// Whether this is an old primary that makes us the new one.
        failover: bool,
    },
}

/// What the server is while a sync is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRole {
    /// Its role.
    pub role: Role,
    /// Whether a FAILOVER of ours runs.
    pub fails_over: bool,
}

/// Primary or replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The top of its tree.
    Primary,
    /// A replica of another server.
    Replica {
        /// Whether the link to that server is up and its data loaded.
        is_connected: bool,
    },
}

/// The stream as of now.
#[derive(Debug)]
pub struct StreamView<'a> {
    /// Its ids, which change if a backlog begins or ends.
    pub history: &'a mut History,
    /// What the backlog keeps, if there is one.
    pub kept: Option<KeptRange>,
}

/// How a sync is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncVerdict {
    /// The client is a replica now; actions say the rest.
    Attached,
    /// By nothing at all.
    Ignored,
    /// By an error; the text begins with its code.
    Refused(Vec<u8>),
    /// By this line, behind its `+`: the client is none of ours yet, and goes on.
    Told(&'static str),
    /// We are to become a primary first; then the same is asked again, without `failover`.
    PromoteFirst,
}

impl Primary {
    /// A client asks for a sync.
    pub fn sync(
        &mut self,
        request: &SyncRequest<'_>,
        standing: ServerRole,
        stream: &mut StreamView<'_>,
        now_ms: u64,
    ) -> SyncVerdict {
        if self.index_of(request.replica).is_some() || request.is_monitor {
            return SyncVerdict::Ignored;
        }
        if let SyncKind::Psync { id, failover: true, .. } = request.ask {
            return self.answer_failover(request, id, standing, stream.history);
        }
        if let Some(main) = request.announced.main.filter(|main| !self.awaits_channel(*main)) {
            let error = format!("ERR Unrecognized RDB client id: {}", main.0);
            return SyncVerdict::Refused(error.into_bytes());
        }
        match obstacle(request, standing) {
            Some(error) => SyncVerdict::Refused(error.as_bytes().to_vec()),
            None => match self.sync_verdict(request, stream) {
                Ok(PsyncVerdict::Full(_)) if self.offers_number(request) => {
                    let name = Attached::new(
                        request.replica,
                        request.peer,
                        request.announced,
                        Dialect::Psync,
                        now_ms,
                    )
                    .name();
                    self.log(LogLevel::Notice, capable_line(&name, "dual channel"));
                    SyncVerdict::Told("DUALCHANNELSYNC")
                }
                Ok(verdict) => {
                    self.attach(request, verdict, stream, now_ms);
                    SyncVerdict::Attached
                }
                Err(error) => SyncVerdict::Refused(error),
            },
        }
    }

    fn answer_failover(
        &mut self,
        request: &SyncRequest<'_>,
        id: &[u8],
        standing: ServerRole,
        history: &History,
    ) -> SyncVerdict {
        let refused = |text: &str| SyncVerdict::Refused(text.as_bytes().to_vec());
        if standing.role == Role::Primary {
            return refused("ERR PSYNC FAILOVER can't be sent to a master.");
        }
        if !id.eq_ignore_ascii_case(history.id().as_bytes()) {
            return refused("ERR PSYNC FAILOVER replid must match my replid.");
        }
        let line = format!("MASTER MODE enabled (failover request from '{}')", request.client);
        self.log(LogLevel::Notice, line);
        SyncVerdict::PromoteFirst
    }

    /// Whether a full sync goes over a second connection.
    fn offers_channel(&self, dialect: Dialect, announced: &ReplconfState) -> bool {
        let knows_it = Capabilities::EOF.with(Capabilities::RDB_CHANNEL);
        self.settings.rdb_channel
            && self.settings.diskless
            && dialect == Dialect::Psync
            && announced.capabilities.has(knows_it)
            && announced.wants_stream()
    }

    /// Whether a client is to ask for its data on a second connection first, as Valkey has it. One
    /// that has done so, and cannot go on from there, gets them here.
    fn offers_number(&self, request: &SyncRequest<'_>) -> bool {
        let SyncRequest { announced, ask, .. } = request;
        let knows_it = Capabilities::EOF.with(Capabilities::DUAL_CHANNEL);
        let is_psync = matches!(ask, SyncKind::Psync { .. });
        self.settings.dual_channel
            && self.settings.diskless
            && is_psync
            && announced.capabilities.has(knows_it)
            && announced.wants_stream()
            && announced.channel.is_none()
            && !self.offers_channel(Dialect::Psync, announced)
    }

    /// The verdict on the ids and offsets, counted; an error if the offset is none.
    fn sync_verdict(
        &mut self,
        request: &SyncRequest<'_>,
        stream: &StreamView<'_>,
    ) -> Result<PsyncVerdict, Vec<u8>> {
        let wanted = PsyncVerdict::Full(FullReason::Wanted);
        let verdict = match request.ask {
            SyncKind::Sync => wanted,
            SyncKind::Psync { id, byte, .. } => {
                let verdict = match stream.history.psync_verdict(id, integer(byte)?, stream.kept) {
                    PsyncVerdict::Partial { .. } if request.asks_for_unmet => {
                        PsyncVerdict::Full(FullReason::Unmet)
                    }
                    verdict => verdict,
                };
                if request.announced.wants_stream() { verdict } else { wanted }
            }
        };
        match verdict {
            PsyncVerdict::Partial { .. } => self.counts.partial_ok += 1,
            // The second connection of a replica is a part of the first one's sync.
            PsyncVerdict::Full(_) if request.announced.main.is_some() => {}
            PsyncVerdict::Full(_) if self.is_numbered(request) => {}
            PsyncVerdict::Full(reason) => {
                self.counts.full += 1;
                self.counts.partial_err += u64::from(reason != FullReason::Wanted);
            }
        }
        Ok(verdict)
    }

    /// Whether this is a connection for a snapshot only that is to be told its number.
    fn is_numbered(&self, request: &SyncRequest<'_>) -> bool {
        let announced = request.announced;
        self.settings.dual_channel
            && matches!(request.ask, SyncKind::Sync)
            && announced.requirements.channel
            && announced.snapshot_only
            && announced.main.is_none()
    }

    fn attach(
        &mut self,
        request: &SyncRequest<'_>,
        verdict: PsyncVerdict,
        stream: &mut StreamView<'_>,
        now_ms: u64,
    ) {
        let dialect = match request.ask {
            SyncKind::Sync if self.is_numbered(request) => Dialect::Numbered,
            SyncKind::Sync => Dialect::Sync,
            SyncKind::Psync { .. } => Dialect::Psync,
        };
        let (id, announced) = (request.replica, request.announced);
        let mut replica = Attached::new(id, request.peer, announced, dialect, now_ms);
        let reader = &mut replica.announced.requirements.reader;
        if dialect == Dialect::Numbered && *reader == RdbReader::Redis8 {
            // A Valkey that does not say its version here is one before 9.
            *reader = RdbReader::Valkey8;
        }
        let name = replica.name();
        self.replicas.push(replica);
        self.alone_since_ms = None;
        match verdict {
            PsyncVerdict::Partial { from } => {
                let knows_ids = announced.capabilities.has(Capabilities::PSYNC2);
                self.log(
                    LogLevel::Notice,
                    format!("Replica {name} goes on from offset {from}: partial resync"),
                );
                self.send(id, stream.history.continue_line(knows_ids));
                self.push_action(PrimaryAction::Pin { replica: id, from });
                self.start_stream(self.replicas.len() - 1, now_ms);
                self.take_channel(id, announced.channel, now_ms);
            }
            PsyncVerdict::Full(reason) => {
                let why = reason_text(reason);
                self.log(LogLevel::Notice, format!("Replica {name} needs a full resync: {why}"));
                // A second connection is behind one that has seen to it.
                if stream.kept.is_none() && announced.main.is_none() {
                    let line = stream.history.begin_backlog(self.fresh_id());
                    self.log(LogLevel::Notice, line);
                    self.push_action(PrimaryAction::CreateBacklog);
                }
                if self.offers_channel(dialect, announced) {
                    self.replicas.last_mut().expect("pushed").stage = Stage::AwaitsChannel;
                    self.log(LogLevel::Notice, capable_line(&name, "rdb channel"));
                    self.send(id, format!("+RDBCHANNELSYNC {}\r\n", id.0));
                } else {
                    self.join_or_wait(self.replicas.len() - 1, stream.history, now_ms);
                }
            }
        }
    }
}

/// The line that says how a replica's data will come.
fn capable_line(name: &str, way: &str) -> String {
    format!(
        "Replica {name} is capable of {way} synchronization, and partial sync isn't possible. Full \
         sync will continue with dedicated RDB channel."
    )
}

/// What is in the way of any sync.
fn obstacle(request: &SyncRequest<'_>, standing: ServerRole) -> Option<&'static str> {
    if standing.fails_over {
        return Some("NOMASTERLINK Can't SYNC while failing over");
    }
    if standing.role == (Role::Replica { is_connected: false }) {
        return Some("NOMASTERLINK Can't SYNC while not connected with my master");
    }
    if request.has_output {
        return Some("ERR SYNC and PSYNC are invalid with pending output");
    }
    let announced = request.announced;
    if announced.requirements.is_filtered() && !announced.capabilities.has(Capabilities::EOF) {
        return Some("ERR Filtered replica requires EOF capability");
    }
    None
}

fn reason_text(reason: FullReason) -> &'static str {
    match reason {
        FullReason::Wanted => "nothing to go on from",
        FullReason::OtherId => "of another history",
        FullReason::BeyondSecond => "went on beyond where the histories part",
        FullReason::NoBacklog => "no backlog",
        FullReason::TooOld => "what is missing is not in the backlog any more",
        FullReason::Unmet => "what is missing stores what the replica cannot hold",
        FullReason::TooNew => "asks for what has never been written",
    }
}
