//! The memcached protocols as bytes: three codecs (text, meta, binary) over one set of requests
//! and responses, all without any input or output.
//!
//! A request says what is to be done ([`Operation`]) and how the client wants to be told
//! ([`Form`]); whoever executes it looks at the operation only, and answers with [`answer`], which
//! looks at the form only. Invariants: nothing is allocated for a request; a request borrows the
//! bytes it came in, and what they hold is checked before it is given out.

mod answer;
mod binary;
pub mod datagram;
mod flags;
mod key;
mod line;
mod meta;
mod numbers;
mod parser;
mod storage;
mod text;
#[cfg(test)]
mod tests;

pub use answer::{Item, Number, Response, Value, answer};
pub use flags::Flags;
pub use key::{KEY_LENGTH_MAX, Key, KeyBuffer, Keys};
pub use line::Words;
pub use parser::{Limits, Parser, Progress};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is to be done.
    pub operation: Operation<'a>,
    /// How the client speaks, and how much of an answer it wants.
    pub form: Form<'a>,
}

/// How a request came, which is how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// A classic text command.
    Text {
        /// Whether a hit is answered with its CAS value.
        with_cas: bool,
        /// Whether there is no answer at all.
        quiet: bool,
    },
    /// A meta command, answered with what its flags ask for.
    Meta(Flags<'a>),
    /// A binary command.
    Binary {
        /// The code of the command.
        opcode: u8,
        /// What the answer repeats.
        opaque: u32,
    },
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Read items: a hit or a miss for each key, then an end.
    Retrieve(Retrieve<'a>),
    /// Write an item.
    Store(Store<'a>),
    /// Remove an item, or mark it as stale.
    Delete(Delete<'a>),
    /// Add to the number that an item holds, or take from it.
    Arithmetic(Arithmetic<'a>),
    /// Change when an item expires.
    Touch {
        /// Whose.
        key: Key<'a>,
        /// To when.
        expiry: Expiry,
    },
    /// Describe an item for people (`me`).
    Inspect(Key<'a>),
    /// Forget all items, now or in so many seconds.
    Flush(Expiry),
    /// Nothing (`mn`, and Noop of the binary protocol).
    Nothing,
    /// The version.
    Version,
    /// Figures; the words name the report.
    Statistics(Words<'a>),
    /// Take no notice of how much to log.
    Verbosity,
    /// Close the connection.
    Quit,
    /// A text command of administration; its words, the first of which is its name.
    Administer(Administration, Words<'a>),
    /// Name the mechanisms of authentication.
    ListMechanisms,
    /// Authenticate by SASL.
    Authenticate {
        /// The name of the mechanism.
        mechanism: &'a [u8],
        /// What it is given.
        data: &'a [u8],
        /// Whether this goes on with an exchange that began before.
        continued: bool,
    },
    /// What cannot be done; to be answered with its failure.
    Refuse(Refusal<'a>),
}

/// A request that is refused before it reaches any data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// Why.
    pub failure: Failure<'a>,
    /// An item to be removed all the same: a value that was too large takes the old one with it.
    pub removes: Option<Key<'a>>,
    /// Whether nothing that follows can be understood, so that the connection closes.
    pub closes: bool,
}

/// Reads some items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieve<'a> {
    /// Whose.
    pub keys: Keys<'a>,
    /// When a hit is to expire from now on.
    pub touch: Option<Expiry>,
    /// Make an empty item on a miss, to expire then; the client has won the right to fill it.
    pub vivify: Option<Expiry>,
    /// Give the right to fill the item anew to the first client that finds less than so many
    /// seconds left.
    pub recache: Option<u64>,
    /// The CAS value of an item that is made.
    pub new_cas: Option<u64>,
    /// Whether the answer shows when the item was last read.
    pub shows_access: bool,
    /// Whether the answer holds the value.
    pub shows_value: bool,
}

/// Writes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Whose.
    pub key: Key<'a>,
    /// Under which condition, and to what.
    pub mode: StoreMode,
    /// What.
    pub value: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When the item expires.
    pub expiry: Expiry,
    /// Only where the item has this CAS value.
    pub compare: Option<u64>,
    /// The CAS value of the new item.
    pub new_cas: Option<u64>,
    /// Store over a newer CAS value also, but as stale.
    pub invalidates: bool,
    /// Make an item to append to, which expires then.
    pub vivify: Option<Expiry>,
}

/// When and how a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// In any case.
    Set,
    /// Only where there is none.
    Add,
    /// Only where there is one.
    Replace,
    /// Behind the one there is, whose flags and deadline stay.
    Append,
    /// Before the one there is, whose flags and deadline stay.
    Prepend,
}

/// Removes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Whose.
    pub key: Key<'a>,
    /// Only where the item has this CAS value.
    pub compare: Option<u64>,
    /// The CAS value of an item that is marked.
    pub new_cas: Option<u64>,
    /// Mark it as stale instead: its CAS value changes, and the next reader wins.
    pub invalidates: bool,
    /// When an item that is marked expires.
    pub expiry: Option<Expiry>,
    /// Empty the item instead: value and flags go, the rest stays.
    pub empties: bool,
}

/// Adds to a number, or takes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// Whose.
    pub key: Key<'a>,
    /// Whether to take, down to 0 at the least; additions wrap at 64 bits.
    pub decrements: bool,
    /// How much.
    pub delta: u64,
    /// The number that a missing item begins with, and when it expires.
    pub initial: Option<(u64, Expiry)>,
    /// When the item expires from now on.
    pub touch: Option<Expiry>,
    /// Only where the item has this CAS value.
    pub compare: Option<u64>,
    /// The CAS value of the changed item.
    pub new_cas: Option<u64>,
}

/// The text commands of administration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Administration {
    /// `cache_memlimit MEGABYTES`.
    CacheMemoryLimit,
    /// `lru_crawler ...`.
    LruCrawler,
    /// `lru ...`.
    Lru,
    /// `slabs ...`.
    Slabs,
    /// `extstore ...`.
    ExternalStore,
    /// `watch ...`.
    Watch,
    /// `shutdown [graceful]`.
    Shutdown,
    /// `refresh_certs`.
    RefreshCertificates,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'t> {
    /// There is no such command.
    Unknown,
    /// The arguments are not what the command takes.
    BadFormat,
    /// The arguments of a binary command are not what it takes.
    Invalid,
    /// A value is larger than an item may be.
    TooLarge,
    /// There is no memory, and nothing may be evicted.
    OutOfMemory,
    /// The item holds no number.
    NotANumber,
    /// The client must authenticate first.
    Unauthenticated,
    /// No such user, or another password.
    AuthenticationFailed,
    /// Some other fault of the client, in words.
    Client(&'t str),
    /// Some other fault of the server, in words.
    Server(&'t str),
}

/// When an item expires, as clients say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry(pub i64);

/// More seconds than these are a moment, counted from 1970.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// When an item expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Never.
    Never,
    /// It has expired already.
    Passed,
    /// At this moment, in milliseconds since 1970.
    At(i64),
}

impl Expiry {
    /// Never.
    pub const NEVER: Expiry = Expiry(0);

    /// The moment that is meant, if it is `now_ms` now.
    #[inline]
    pub fn deadline(self, now_ms: i64) -> Deadline {
        match self.0 {
            0 => Deadline::Never,
            ..0 => Deadline::Passed,
            seconds @ ..=RELATIVE_MAX_S => Deadline::At(now_ms + seconds * 1000),
            seconds => match seconds.saturating_mul(1000) {
                moment if moment <= now_ms => Deadline::Passed,
                moment => Deadline::At(moment),
            },
        }
    }
}
