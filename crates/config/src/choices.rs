//! Choices: the enums of options whose value is one word of a list.

use proto::memcached::Dialect;

use super::store::{Config, Readable, Shape};

/// An enum of the words of a choice, in the order of its numbers.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$case_doc])* $case,)*
        }

        impl $name {
            /// The words that a configuration says for them.
            pub const WORDS: &[&str] = &[$($word),*];
            const CASES: &[$name] = &[$($name::$case),*];
        }

        impl Readable for $name {
            const SHAPE: Shape = Shape::Choice($name::WORDS);

            #[inline]
            fn read(config: &Config, cell: usize) -> $name {
                let place = usize::try_from(config.number(cell)).expect("a place in WORDS");
                $name::CASES[place]
            }
        }
    };
}

choice! {
    /// `cluster-config-save-behavior`
    SaveBehavior {
        /// The process ends when the file cannot be written.
        Sync = "sync",
        /// The node goes on, tries again, and gives no vote until the file is written.
        BestEffort = "best-effort",
    }
}

choice! {
    /// How much the log says.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Much that is rarely needed.
        Verbose = "verbose",
        /// What an operator wants to see.
        Notice = "notice",
        /// Only what went wrong.
        Warning = "warning",
        /// Nothing.
        Nothing = "nothing",
    }
}

choice! {
    /// How nodes of a cluster are named to clients.
    EndpointType {
        /// By their addresses.
        Ip = "ip",
        /// By their host names.
        Hostname = "hostname",
        /// Not at all: clients go by the address that they know.
        Unknown = "unknown-endpoint",
    }
}

choice! {
    /// By what a cluster is rebalanced without an order.
    AutoRebalance {
        /// By nothing.
        No = "no",
        /// By how many slots a primary has.
        Slots = "slots",
        /// By how many keys.
        Keys = "keys",
        /// By what its keys take.
        Memory = "memory",
        /// By the time that requests take.
        Load = "load",
        /// By the time that requests for hot slots take.
        HotSlots = "hotslots",
    }
}

choice! {
    /// How a replica loads a full sync.
    DisklessLoad {
        /// By way of a file.
        Disabled = "disabled",
        /// The data are loaded as they come, where there is nothing yet.
        OnEmptyDb = "on-empty-db",
        /// The data are loaded as they come, beside what is there.
        SwapDb = "swapdb",
        /// The data are loaded as they come, in the place of what was there.
        FlushBeforeLoad = "flush-before-load",
        /// The same, in the word of Redis 8.
        FlushDb = "flushdb",
    }
}

choice! {
    /// The clients that a script that has run for long makes BUSY.
    BusyScope {
        /// The clients that want a key that it holds.
        Keys = "keys",
        /// All clients, as in Redis.
        Server = "server",
    }
}

choice! {
    /// Which commands the console of HTTP runs.
    HttpCommands {
        /// None.
        None = "none",
        /// Those that change nothing.
        Read = "read",
        /// All that the caller's user may run.
        All = "all",
    }
}

impl HttpCommands {
    /// The word that a configuration says for it.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

choice! {
    /// How a line of the log is written.
    LogFormat {
        /// As Redis writes it.
        Legacy = "legacy",
        /// As key=value pairs.
        Logfmt = "logfmt",
        /// As one JSON object.
        Json = "json",
    }
}

choice! {
    /// How the log writes the time.
    LogTimestampFormat {
        /// As Redis writes it.
        Legacy = "legacy",
        /// As ISO 8601.
        Iso8601 = "iso8601",
        /// As milliseconds since 1970.
        Milliseconds = "milliseconds",
    }
}

choice! {
    /// When the journal reaches the disk.
    AppendFsync {
        /// Once a second.
        Everysec = "everysec",
        /// Before each reply.
        Always = "always",
        /// When the system pleases.
        No = "no",
    }
}

choice! {
    /// What is evicted when memory is full.
    MaxmemoryPolicy {
        /// The least recently used key that expires.
        VolatileLru = "volatile-lru",
        /// The least frequently used key that expires.
        VolatileLfu = "volatile-lfu",
        /// A random key that expires.
        VolatileRandom = "volatile-random",
        /// The least recently changed key that expires.
        VolatileLrm = "volatile-lrm",
        /// The key that expires soonest.
        VolatileTtl = "volatile-ttl",
        /// The least recently used key.
        AllkeysLru = "allkeys-lru",
        /// The least frequently used key.
        AllkeysLfu = "allkeys-lfu",
        /// The least recently changed key.
        AllkeysLrm = "allkeys-lrm",
        /// The key that is worth least, by how often it was used and how long ago.
        AllkeysApus = "allkeys-apus",
        /// A random key.
        AllkeysRandom = "allkeys-random",
        /// Nothing: writes are refused.
        Noeviction = "noeviction",
    }
}

choice! {
    /// The clients that may use a dangerous facility.
    DebugAccess {
        /// No client.
        No = "no",
        /// Everybody.
        Yes = "yes",
        /// Clients of this machine.
        Local = "local",
    }
}

impl DebugAccess {
    /// Whether a client may use it; `local` says whether it is on this machine.
    pub fn allows(self, local: bool) -> bool {
        match self {
            DebugAccess::No => false,
            DebugAccess::Yes => true,
            DebugAccess::Local => local,
        }
    }
}

choice! {
    /// The supervisor of the process.
    Supervised {
        /// Upstart, by stopping itself once.
        Upstart = "upstart",
        /// systemd, by its notification socket.
        Systemd = "systemd",
        /// Whichever the environment names.
        Auto = "auto",
        /// None.
        No = "no",
    }
}

choice! {
    /// The syslog facility.
    SyslogFacility {
        /// LOG_USER.
        User = "user",
        /// LOG_LOCAL0.
        Local0 = "local0",
        /// LOG_LOCAL1.
        Local1 = "local1",
        /// LOG_LOCAL2.
        Local2 = "local2",
        /// LOG_LOCAL3.
        Local3 = "local3",
        /// LOG_LOCAL4.
        Local4 = "local4",
        /// LOG_LOCAL5.
        Local5 = "local5",
        /// LOG_LOCAL6.
        Local6 = "local6",
        /// LOG_LOCAL7.
        Local7 = "local7",
    }
}

choice! {
    /// Whether the out-of-memory scores are set.
    OomScoreAdj {
        /// The scores are not set.
        No = "no",
        /// As `relative`.
        Yes = "yes",
        /// Added to the score that the process was born with.
        Relative = "relative",
        /// As they stand.
        Absolute = "absolute",
    }
}

choice! {
    /// Which channels a new user may use.
    AclPubsubDefault {
        /// All.
        AllChannels = "allchannels",
        /// None.
        ResetChannels = "resetchannels",
    }
}

choice! {
    /// Which protocols clients of memcached may speak.
    MemcachedProtocol {
        /// Whichever their first byte says.
        Auto = "auto",
        /// Text and meta commands.
        Text = "text",
        /// Binary commands.
        Binary = "binary",
    }
}

impl From<MemcachedProtocol> for Dialect {
    fn from(protocol: MemcachedProtocol) -> Self {
        match protocol {
            MemcachedProtocol::Auto => Dialect::Any,
            MemcachedProtocol::Text => Dialect::Text,
            MemcachedProtocol::Binary => Dialect::Binary,
        }
    }
}

choice! {
    /// What becomes of a log with a command that is answered with an error.
    AofLoadErrors {
        /// The server does not start.
        Refuse = "refuse",
        /// The log is loaded without that.
        Ignore = "ignore",
    }
}

choice! {
    /// What a command of the primary does that fails here.
    PropagationErrorBehavior {
        /// The log tells it.
        Ignore = "ignore",
        /// The stream ends.
        Panic = "panic",
        /// The stream ends.
        PanicOnReplicas = "panic-on-replicas",
    }
}

choice! {
    /// Which versions of snapshots are loaded.
    RdbVersionCheck {
        /// Those that are known.
        Strict = "strict",
        /// Any: what a version means that is not known is found out by trying.
        Relaxed = "relaxed",
    }
}

choice! {
    /// Whether clients must show a certificate.
    TlsAuthClients {
        /// Clients need none.
        No = "no",
        /// Clients must.
        Yes = "yes",
        /// One that they show must be right.
        Optional = "optional",
    }
}

choice! {
    /// What of a client's certificate names its user.
    TlsAuthClientsUser {
        /// The subject's common name.
        Cn = "CN",
        /// A URI among its other names.
        Uri = "URI",
        /// Nothing.
        Off = "off",
    }
}
