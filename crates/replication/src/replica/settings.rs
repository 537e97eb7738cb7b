//! What the configuration says of the link to a primary, which server REPLICAOF names and what is
//! answered.
//!
//! Invariant: a password is never part of a line for the log.

use base::number::parse_u64;

use super::action::LoadMode;

/// The directives that a link looks at; a change counts from the next use on.
#[derive(Clone)]
pub struct ReplicaSettings {
    /// `masteruser`.
    pub user: Option<Vec<u8>>,
    /// `masterauth`; without a password no user is sent either.
    pub password: Option<Vec<u8>>,
    /// `replica-announce-port`, or the port that is listened to.
    pub listening_port: u16,
    /// `replica-announce-ip`.
    pub announced_ip: Option<String>,
    /// The version of Valkey whose data files can be read, for primaries that choose by it.
    pub valkey_version: Option<&'static str>,
    /// Our name as a node of a cluster.
    pub cluster_node: Option<String>,
    /// `repl-timeout`.
    pub timeout_ms: u64,
    /// `repl-diskless-load`; for `on-empty-db` the driver says what that means now.
    pub load: LoadMode,
    /// `repl-rdb-channel`: the data of a full sync may come on a second connection, as Redis 8 does
    /// it.
    pub rdb_channel: bool,
    /// `dual-channel-replication-enabled`: the same as Valkey does it.
    pub dual_channel: bool,
    /// `replica-full-sync-buffer-limit`: with so many bytes of the stream held nothing more of it
    /// is read before the data are loaded.
    pub held_max: u64,
    /// `appendonly`: acknowledgements tell what is on disk.
    pub has_aof: bool,
    /// How many databases there are.
    pub databases: u32,
    /// The greatest length of a command in the stream, or of a transaction.
    pub unit_len_max: usize,
}

impl ReplicaSettings {
    /// What logs us in, if that is needed.
    pub(super) fn login(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_deref()?;
        let user = self.user.as_deref();
        Some([&b"AUTH"[..]].into_iter().chain(user).chain([password]).collect())
    }
}

impl Default for ReplicaSettings {
    fn default() -> Self {
        Self {
            user: None,
            password: None,
            listening_port: 6379,
            announced_ip: None,
            valkey_version: None,
            cluster_node: None,
            timeout_ms: 60_000,
            load: LoadMode::Disk,
            rdb_channel: false,
            dual_channel: false,
            held_max: u64::MAX,
            has_aof: false,
            databases: 16,
            unit_len_max: 4 << 30,
        }
    }
}

/// Where a primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryAddress {
    /// Its host's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl PrimaryAddress {
    /// Whether both mean the same place; names are compared without case.
    pub fn is_same(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// What REPLICAOF asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaofTarget {
    /// To be a primary.
    NoOne,
    /// To be a replica of this one.
    Primary(PrimaryAddress),
}

impl ReplicaofTarget {
    /// Reads the two arguments; the error is what to answer behind `-ERR `.
    pub fn parse(host: &[u8], port: &[u8]) -> Result<Self, &'static str> {
        if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
            return Ok(Self::NoOne);
        }
        let port = parse_u64(port).and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or("Invalid master port")?;
        // A name that is no text is one that nobody has.
        let host = String::from_utf8_lossy(host).into_owned();
        Ok(Self::Primary(PrimaryAddress { host, port }))
    }
}

/// What REPLICAOF with a host is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaofReply {
    /// The change is made, and work goes on.
    Done,
    /// That is our primary already.
    Already,
}

impl ReplicaofReply {
    /// The line behind the `+`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Done => "OK",
            Self::Already => "OK Already connected to specified master",
        }
    }
}
