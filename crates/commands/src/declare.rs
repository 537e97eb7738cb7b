//! How a command is declared: the one block from which everything else is derived.
//!
//! Invariant: nothing about a command is written anywhere else; lookup, arity errors, ACL
//! categories, lock plan, cluster slot, COMMAND INFO and DOCS, and the compatibility page read it
//! here.

use keyspace::Refusal;
use proto::Args;

use crate::keys::KeySpec;

/// A command and what runs it. Containers such as `CLIENT` carry their subcommands.
pub struct Command<H: 'static> {
    /// The declaration.
    pub spec: Spec,
    /// The subcommands of a container, in the order HELP prints them.
    pub subcommands: &'static [Command<H>],
    /// The handler; a container's own one answers what no subcommand does.
    pub run: H,
}

/// The declaration of a command. Fields follow the Redis documentation's page on COMMAND DOCS and
/// the one on COMMAND INFO.
pub struct Spec {
    /// Upper case; a subcommand's own word only.
    pub name: &'static str,
    /// The first version of Redis that has it (or of the rival it comes from).
    pub since: &'static str,
    /// Its family.
    pub group: Group,
    /// One line of Redis grammar: what follows the name.
    pub syntax: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Cost in the usual notation.
    pub complexity: &'static str,
    /// How many arguments, the name included.
    pub arity: Arity,
    /// What the command does and where it may run.
    pub flags: Flags,
    /// What the server itself knows it by.
    pub role: Role,
    /// Where its keys stand.
    pub keys: &'static [KeySpec],
    /// What the command locks.
    pub plan: LockPlan,
    /// Where its channels stand, for the rules of users.
    pub channels: Channels,
    /// Where the beginning of names stands, if it changes all keys that begin so: for the rules of
    /// users.
    pub prefix: Option<usize>,
    /// Which databases its requests touch, for the rules of users.
    pub databases: Databases,
    /// Which of its arguments nobody but the server may see.
    pub secrets: Secrets,
    /// ACL categories beyond those that flags and group imply, such as `@dangerous`.
    pub categories: &'static [&'static str],
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// Changes since: version and what changed.
    pub history: &'static [(&'static str, &'static str)],
    /// Since when one should use something else, and what.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// The servers that have it, when it is not Redis'.
    pub origin: &'static str,
}

/// What the server goes by where it must know a command: not its name, which may be changed, nor
/// its own word, which others may have in other containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server treats it as any other.
    Any,
    /// The command begins a transaction.
    Multi,
    /// The command executes a transaction.
    Exec,
    /// The command throws a transaction away.
    Discard,
    /// The command ends a watch; within a transaction it does nothing.
    Unwatch,
    /// The command turns to another database.
    Select,
    /// The command asks for a sign of life.
    Ping,
    /// The command publishes a message.
    Publish,
    /// The command publishes a message in a hash slot's channel.
    ShardPublish,
    /// The command is one of SCRIPT: in a stream, which has the effects of scripts, the command
    /// does nothing.
    Script,
    /// The command tells a primary of its replica, or asks a replica how far it is.
    Replconf,
    /// The command has a replica of a cluster take over, by the word of a client or of its primary.
    ClusterFailover,
    /// The command asks for the stream from a place on.
    Psync,
    /// The command asks for the stream from now on.
    Sync,
    /// The command asks for the time, which goes on for a script that runs for long.
    Time,
    /// The command is one of CLIENT, behind which CLIENT CACHING still holds.
    Client,
    /// The command looks into the server, for the clients that a directive of its own names.
    Debug,
    /// The command lets the next one use a hash slot that is on the move to this node.
    Asking,
    /// The command says how far a move of hash slots is; the answer is a command, too.
    SyncSlots,
    /// The command sends keys away, of whatever hash slot.
    Migrate,
    /// The command stores a string, which may have notes; GET among its options reads, too.
    StoreText,
    /// The command changes the libraries of functions, in one of four ways.
    DeleteLibrary,
    /// All of them go.
    FlushLibraries,
    /// One comes.
    LoadLibrary,
    /// Many come.
    RestoreLibraries,
    /// The command runs the script that is its first argument.
    RunScript,
    /// The command runs the script of a digest.
    RunDigest,
    /// The command runs a function of a library.
    RunFunction,
}

/// Families of commands, as COMMAND DOCS names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Any type of key.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Streams.
    Stream,
    /// Bits of strings.
    Bitmap,
    /// HyperLogLogs, which are strings.
    HyperLogLog,
    /// Places, which are sorted sets.
    Geo,
    /// Arrays.
    Array,
    /// The connection itself.
    Connection,
    /// The server.
    Server,
    /// Redis Cluster.
    Cluster,
    /// MULTI and EXEC.
    Transactions,
    /// Publish and subscribe.
    PubSub,
    /// Lua.
    Scripting,
    /// What a Sentinel is asked.
    Sentinel,
}

/// How many arguments a command takes, its name included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity(i16);

/// What a command locks before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPlan {
    /// The partitions of its declared keys; none if it has none.
    Keys,
    /// Everything.
    World,
    /// Nothing at first: the command visits partitions one by one (`SCAN`).
    Visits,
    /// Within a unit everything, if the word behind the name is one of these; alone the command
    /// locks what it needs itself (`DEBUG`).
    OfWords(&'static [&'static str]),
}

/// Where the channels of a command stand that its user must be allowed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Nowhere.
    None,
    /// One at this index.
    At(usize),
    /// All arguments from this index on.
    From(usize),
    /// As `From`, and they are patterns.
    PatternsFrom(usize),
}

/// Which logical databases a request touches, which its user must be allowed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// The present one, if the command is about data.
    Present,
    /// Those that stand at these indexes.
    At(&'static [usize]),
    /// The present one, and the one at this index.
    PresentAndAt(usize),
    /// The present one, and each that stands behind this word, looked for from an index on.
    PresentAndBehind(&'static str, usize),
    /// All of them.
    All,
}

/// Which arguments are secret: MONITOR and SLOWLOG show a placeholder for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// None.
    None,
    /// All from this index on.
    From(usize),
    /// The values of the option `secret`, where each of the options has so many values, and options
    /// stand from index `first` on. A word that is none of them is hidden with all behind it: it
    /// may be a secret in the wrong place.
    Options {
        /// Where the options begin.
        first: usize,
        /// Each option, and how many values it has.
        options: &'static [(&'static str, usize)],
        /// The option whose values are secret.
        secret: &'static str,
    },
    /// The values of directives that the configuration calls sensitive: names and values stand in
    /// turn from this index on.
    DirectivesFrom(usize),
    /// The values of the options before the keys, where keys may stand behind a word.
    OptionValues,
}

/// Flags of a command; the names are those of COMMAND INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Spec {
    /// Where the first member stands that is looked up by its name in the value of the first key,
    /// if there is one: a guess that is right for nearly all commands of these families.
    #[must_use]
    pub fn member_index(&self) -> Option<usize> {
        matches!(self.group, Group::Set | Group::Hash).then_some(2)
    }

    /// Calls `visit` with the index of every key of a request, in the order of the declaration, as
    /// far as no count of keys lies: the error is that of the first that does.
    #[inline]
    pub fn visit_keys(&self, args: Args<'_>, mut visit: impl FnMut(usize)) -> Result<(), Refusal> {
        self.keys.iter().try_for_each(|keys| keys.visit(args, &mut visit))
    }

    /// What a declaration may leave out.
    pub const BASE: Self = Self {
        name: "",
        since: "",
        group: Group::Generic,
        syntax: "",
        summary: "",
        complexity: "",
        arity: exactly(1),
        flags: Flags::NONE,
        role: Role::Any,
        keys: &[],
        plan: LockPlan::Keys,
        channels: Channels::None,
        prefix: None,
        databases: Databases::Present,
        secrets: Secrets::None,
        categories: &[],
        tips: &[],
        history: &[],
        deprecated: None,
        origin: "redis",
    };
}

/// Exactly this many arguments, the name included.
#[must_use]
pub const fn exactly(arguments: i16) -> Arity {
    Arity(arguments)
}

/// At least this many arguments, the name included.
#[must_use]
pub const fn at_least(arguments: i16) -> Arity {
    Arity(-arguments)
}

impl Arity {
    /// Whether a request of this many arguments is right.
    #[must_use]
    pub fn admits(self, arguments: usize) -> bool {
        let wanted = usize::from(self.0.unsigned_abs());
        if self.0 >= 0 { arguments == wanted } else { arguments >= wanted }
    }

    /// As COMMAND INFO prints it: negative for "at least".
    #[must_use]
    pub fn as_integer(self) -> i64 {
        i64::from(self.0)
    }
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        /// The flags. WRITE xor READONLY holds for every data command with keys.
        #[allow(missing_docs, reason = "the names are Redis' own, see COMMAND INFO")]
        impl Flags {
            pub const NONE: Self = Self(0);
            /// Each of them.
            pub const ALL: Self = Self(u32::MAX);
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*

            /// The names of the flags that are set and that COMMAND INFO prints, in its order.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Self::$name, $text)),*]
                    .into_iter()
                    .filter(move |&(flag, _)| self.has(flag) && !Self::INTERNAL.has(flag))
                    .map(|(_, name)| name)
            }
        }
    };
}

flags! {
    WRITE = 0, "write";
    READONLY = 1, "readonly";
    DENYOOM = 2, "denyoom";
    ADMIN = 3, "admin";
    PUBSUB = 4, "pubsub";
    NOSCRIPT = 5, "noscript";
    BLOCKING = 6, "blocking";
    LOADING = 7, "loading";
    STALE = 8, "stale";
    SKIP_MONITOR = 9, "skip_monitor";
    SKIP_SLOWLOG = 10, "skip_slowlog";
    ASKING = 11, "asking";
    FAST = 12, "fast";
    NO_AUTH = 13, "no_auth";
    MAY_REPLICATE = 14, "may_replicate";
    NO_ASYNC_LOADING = 15, "no_async_loading";
    NO_MULTI = 16, "no_multi";
    MOVABLEKEYS = 17, "movablekeys";
    ALLOW_BUSY = 18, "allow_busy";
    NO_MANDATORY_KEYS = 19, "no_mandatory_keys";
    PROTECTED = 20, "protected";
    TOUCHES_ARBITRARY_KEYS = 21, "touches_arbitrary_keys";
    SENTINEL = 22, "sentinel";
    USES_FIELDSET = 23, "uses_fieldset";
    /// The command runs when it arrives, also within MULTI, which does not queue it.
    IMMEDIATE = 24, "immediate";
    /// A subscriber may send it in RESP2.
    SUBSCRIBED = 25, "subscribed";
    /// A control command that only looks, or leaves what it does to the unit that it is part of:
    /// run twice it does what it does once.
    IDEMPOTENT = 26, "idempotent";
    /// A data command that computes what it stores by `Tx::compute`, which takes no locks where it
    /// takes long.
    OPTIMISTIC = 27, "optimistic";
    /// The command waits for others, so the gates refuse it where locks would be held
    /// meanwhile: within transactions and scripts.
    NOT_IN_UNIT = 28, "not_in_unit";
    /// Not `READONLY`, as it reads no keys, and it changes nothing, or no more than where its own
    /// session looks.
    CHANGES_NOTHING = 29, "changes_nothing";
    /// What it does is for the requests behind it, or for the far end of its connection.
    SESSION = 30, "session";
}

impl Flags {
    /// What COMMAND INFO does not print.
    const INTERNAL: Self = Self::PROTECTED
        .and(Self::MAY_REPLICATE)
        .and(Self::TOUCHES_ARBITRARY_KEYS)
        .and(Self::USES_FIELDSET)
        .and(Self::IMMEDIATE)
        .and(Self::SUBSCRIBED)
        .and(Self::IDEMPOTENT)
        .and(Self::OPTIMISTIC)
        .and(Self::NOT_IN_UNIT)
        .and(Self::CHANGES_NOTHING)
        .and(Self::SESSION);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` is set.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Group {
    /// As COMMAND DOCS prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::Stream => "stream",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
            Self::Array => "array",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::Transactions => "transactions",
            Self::PubSub => "pubsub",
            Self::Scripting => "scripting",
            Self::Sentinel => "sentinel",
        }
    }

    /// The ACL category that the family implies.
    #[must_use]
    pub const fn category(self) -> Option<&'static str> {
        match self {
            Self::Generic => Some("@keyspace"),
            Self::String => Some("@string"),
            Self::List => Some("@list"),
            Self::Set => Some("@set"),
            Self::SortedSet => Some("@sortedset"),
            Self::Hash => Some("@hash"),
            Self::Stream => Some("@stream"),
            Self::Bitmap => Some("@bitmap"),
            Self::HyperLogLog => Some("@hyperloglog"),
            Self::Geo => Some("@geo"),
            Self::Array => Some("@array"),
            Self::Connection => Some("@connection"),
            // That a command is of `@pubsub` its flag says.
            Self::Server | Self::Cluster | Self::PubSub | Self::Sentinel => None,
            Self::Transactions => Some("@transaction"),
            Self::Scripting => Some("@scripting"),
        }
    }
}
