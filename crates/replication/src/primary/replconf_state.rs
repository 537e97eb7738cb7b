//! What a client announces of itself with REPLCONF before a sync.
//!
//! Invariant: pairs are applied from left to right up to the first bad one, whose error is the
//! reply; a word that is not known is never accepted, but a capability that is not known is.

use base::number::parse_i64;
use base::quote::split_arguments;

use super::attached::ReplicaId;

/// An address that is this long or longer is refused.
const IP_LEN_MAX: usize = 256;

/// The capability by which one Apus knows another: others pass over it.
pub const OWN_CAPABILITY: &[u8] = b"apus";

/// What a client has announced.
#[derive(Clone, Debug, Default)]
pub struct ReplconfState {
    /// The port that the client listens to; 0 if not announced.
    pub port: i64,
    /// The address to show in the place of the link's.
    pub ip: Option<Vec<u8>>,
    /// What the client knows of.
    pub capabilities: Capabilities,
    /// What a snapshot for the client must be like.
    pub requirements: Requirements,
    /// Whether the client wants a snapshot and nothing behind it.
    pub snapshot_only: bool,
    /// The replica whose snapshot this client fetches, on a connection of its own.
    pub main: Option<ReplicaId>,
    /// The connection on which this replica fetches its snapshot: Valkey has it named by this end.
    pub channel: Option<ReplicaId>,
    /// The client's name as a node of our cluster.
    pub cluster_node: Option<String>,
}

/// Whether a node of our cluster has this name.
pub type IsNode<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Which connections, and which nodes, may be named by others.
#[derive(Default)]
pub(super) struct Nameable<'a> {
    /// Whether snapshots may go to a connection of their own.
    pub(super) channels: bool,
    /// Replicas that wait for their snapshot on another connection; `None` where none ever does.
    pub(super) mains: Option<&'a dyn Fn(ReplicaId) -> bool>,
    /// Connections that take a snapshot and are not named yet; `None` where none ever is.
    pub(super) numbered: Option<&'a dyn Fn(ReplicaId) -> bool>,
    /// Nodes of our cluster; `None` outside one.
    pub(super) nodes: Option<IsNode<'a>>,
}

/// What a client of the protocol knows of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u8);

impl Capabilities {
    /// Snapshots of unknown length, between marks.
    pub const EOF: Self = Self(1);
    /// Ids that change while a link goes on.
    pub const PSYNC2: Self = Self(2);
    /// The snapshot on a second connection, as Redis 8 does.
    pub const RDB_CHANNEL: Self = Self(4);
    /// The snapshot on a second connection, as Valkey 8 does.
    pub const DUAL_CHANNEL: Self = Self(8);
    /// Snapshots without a checksum.
    pub const SKIP_CHECKSUM: Self = Self(16);

    /// What both know of.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What one of both knows of.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is known.
    pub fn has(self, other: Self) -> bool {
        self.common(other) == other
    }

    fn named(name: &[u8]) -> Self {
        let known: [(&[u8], Self); 5] = [
            (b"eof", Self::EOF),
            (b"psync2", Self::PSYNC2),
            (b"rdb-channel-repl", Self::RDB_CHANNEL),
            (b"dual-channel", Self::DUAL_CHANNEL),
            (b"skip-rdb-checksum", Self::SKIP_CHECKSUM),
        ];
        let found = known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map_or(Self(0), |(_, capability)| *capability)
    }
}

/// What a snapshot must be like; replicas share one only if theirs are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// With keys.
    pub keys: bool,
    /// With functions.
    pub functions: bool,
    /// With strings compressed where this pays.
    pub compressed: bool,
    /// With a checksum at the end.
    pub checksum: bool,
    /// What the client can read.
    pub reader: RdbReader,
    /// Whether the snapshot has a connection of its own, and the stream another one.
    pub channel: bool,
}

impl Default for Requirements {
    fn default() -> Self {
        Self {
            keys: true,
            functions: true,
            compressed: true,
            checksum: true,
            reader: RdbReader::Unknown,
            channel: false,
        }
    }
}

impl Requirements {
    /// Whether something is left out.
    pub fn is_filtered(&self) -> bool {
        !(self.keys && self.functions)
    }
}

/// What versions of a snapshot a client can read, as far as the client says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdbReader {
    /// The client announces nothing: Redis before 8, KeyDB, a tool.
    Unknown,
    /// The client knows of Redis 8's second connection.
    Redis8,
    /// Up to version 11.
    Valkey8,
    /// Version 80, too.
    Valkey9,
    /// All that we can write: another Apus.
    Apus,
}

/// How a REPLCONF is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplconfReply {
    /// `+OK`.
    Ok,
    /// An error; the text begins with its code.
    Error(Vec<u8>),
    /// Never at all, and there is nothing to do.
    Silence,
    /// Never at all; this is for the link of an attached replica, and nothing otherwise.
    Ack(Ack),
}

/// How far a replica says to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Up to which offset the stream is applied.
    pub offset: u64,
    /// Up to which offset the stream is on disk, if the replica says so.
    pub fsynced: Option<u64>,
}

impl ReplconfState {
    /// Whether the client wants the stream, on this connection.
    pub fn wants_stream(&self) -> bool {
        !self.snapshot_only && self.main.is_none()
    }

    /// Applies a REPLCONF, whose name is not among `args`.
    pub(super) fn replconf(&mut self, args: &[&[u8]], nameable: &Nameable<'_>) -> ReplconfReply {
        let (pairs, odd) = args.as_chunks::<2>();
        if !odd.is_empty() {
            return ReplconfReply::Error(b"ERR syntax error".to_vec());
        }
        for (index, [word, value]) in pairs.iter().enumerate() {
            if word.eq_ignore_ascii_case(b"ack") {
                return Ack::read(value, pairs.get(index + 1))
                    .map_or(ReplconfReply::Silence, ReplconfReply::Ack);
            }
            if word.eq_ignore_ascii_case(b"getack") {
                return ReplconfReply::Silence;
            }
            if let Err(error) = self.apply(word, value, nameable) {
                return ReplconfReply::Error(error);
            }
        }
        ReplconfReply::Ok
    }

    fn apply(&mut self, word: &[u8], value: &[u8], nameable: &Nameable<'_>) -> Result<(), Vec<u8>> {
        match (&*word.to_ascii_lowercase(), nameable) {
            (b"rdb-channel", Nameable { channels: true, .. }) => {
                self.requirements.channel = zero_or_one(value)?;
            }
            (b"main-ch-client-id", Nameable { mains: Some(may_be_named), .. }) => {
                integer(value)?;
                self.main = named(value, may_be_named);
                if self.main.is_none() {
                    return Err([b"ERR Unrecognized RDB client id: ", value].concat());
                }
            }
            (b"set-rdb-client-id", Nameable { numbered: Some(may_be_named), .. }) => {
                integer(value)?;
                self.channel = named(value, may_be_named);
                if self.channel.is_none() {
                    return Err([b"ERR Unrecognized RDB client id ", value].concat());
                }
            }
            (b"set-cluster-node-id", Nameable { nodes: Some(is_node), .. }) => {
                if !is_node(value) {
                    return Err([b"ERR Unknown node ", value].concat());
                }
                self.cluster_node = Some(String::from_utf8_lossy(value).into_owned());
            }
            (lower, _) => return self.apply_known_to_all(lower, word, value),
        }
        Ok(())
    }

    fn apply_known_to_all(
        &mut self,
        lower: &[u8],
        word: &[u8],
        value: &[u8],
    ) -> Result<(), Vec<u8>> {
        match lower {
            b"listening-port" => self.port = integer(value)?,
            b"ip-address" => {
                if value.len() >= IP_LEN_MAX {
                    return Err(format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} \
                         bytes",
                        value.len()
                    )
                    .into_bytes());
                }
                self.ip = Some(value.to_vec()).filter(|ip| !ip.is_empty());
            }
            b"capa" if value.eq_ignore_ascii_case(OWN_CAPABILITY) => {
                self.requirements.reader = RdbReader::Apus;
            }
            b"capa" => {
                let capability = Capabilities::named(value);
                let reader = &mut self.requirements.reader;
                if capability == Capabilities::RDB_CHANNEL && *reader == RdbReader::Unknown {
                    *reader = RdbReader::Redis8;
                }
                self.capabilities.0 |= capability.0;
            }
            b"rdb-only" => {
                self.snapshot_only = zero_or_one(value)?;
                // A tool keeps what comes, and reads nothing of it.
                if self.snapshot_only && self.requirements.reader == RdbReader::Unknown {
                    self.requirements.reader = RdbReader::Redis8;
                }
            }
            b"rdb-filter-only" => self.filter(value)?,
            b"rdb-no-compress" => self.requirements.compressed = !zero_or_one(value)?,
            b"rdb-no-checksum" => self.requirements.checksum = !zero_or_one(value)?,
            b"version" => {
                let major = major_version(value)
                    .ok_or_else(|| [b"ERR Unrecognized version format: ", value].concat())?;
                self.requirements.reader = match self.requirements.reader {
                    RdbReader::Apus => RdbReader::Apus,
                    _ if major < 9 => RdbReader::Valkey8,
                    _ => RdbReader::Valkey9,
                };
            }
            b"compression" => {
                integer(value)?;
                return Err(b"ERR Master has not enabled replication compression".to_vec());
            }
            b"set-cluster-node-id" => {
                return Err(b"ERR This instance has cluster support disabled".to_vec());
            }
            _ => return Err([b"ERR Unrecognized REPLCONF option: ", word].concat()),
        }
        Ok(())
    }

    /// Leaves out of the snapshot all that the list does not name.
    fn filter(&mut self, list: &[u8]) -> Result<(), Vec<u8>> {
        let Some(words) = split_arguments(list) else {
            return Err(b"ERR Missing rdb-filter-only values".to_vec());
        };
        self.requirements.keys = false;
        self.requirements.functions = false;
        for word in words {
            if !word.eq_ignore_ascii_case(b"functions") {
                return Err([b"ERR Unsupported rdb-filter-only option: ", &*word].concat());
            }
            self.requirements.functions = true;
        }
        Ok(())
    }
}

impl Ack {
    /// Reads the offset, and the one of the pair behind it if that is the offset on disk.
    fn read(offset: &[u8], next: Option<&[&[u8]; 2]>) -> Option<Ack> {
        let number = |text| parse_i64(text).and_then(|offset| u64::try_from(offset).ok());
        let fsynced = match next {
            Some([word, offset]) if word.eq_ignore_ascii_case(b"fack") => Some(number(offset)?),
            _ => None,
        };
        Some(Ack { offset: number(offset)?, fsynced })
    }
}

/// The connection with this number, if it may be named.
fn named(number: &[u8], may_be_named: &dyn Fn(ReplicaId) -> bool) -> Option<ReplicaId> {
    let number = parse_i64(number).and_then(|number| u64::try_from(number).ok());
    number.map(ReplicaId).filter(|id| may_be_named(*id))
}

/// Reads an integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Vec<u8>> {
    parse_i64(text).ok_or_else(|| b"ERR value is not an integer or out of range".to_vec())
}

fn zero_or_one(text: &[u8]) -> Result<bool, Vec<u8>> {
    match integer(text)? {
        number @ 0..=1 => Ok(number == 1),
        _ => Err(b"ERR value is out of range, value must between 0 and 1".to_vec()),
    }
}

/// The first number of three with dots between.
fn major_version(text: &[u8]) -> Option<i64> {
    let mut numbers = text.split(|byte| *byte == b'.').map(parse_i64);
    let mut next = || numbers.next().flatten().filter(|number| *number >= 0);
    let version = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(version.0)
}
