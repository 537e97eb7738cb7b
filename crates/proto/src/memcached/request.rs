//! What clients of memcached ask for, whichever of its protocols they speak.
//!
//! Invariant: a request borrows the bytes it came in, and what they hold is checked before.

use super::{Flags, Key, Keys, Words};

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
        /// What the mechanism is given.
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
    /// Whether that goes by what was left before the touch.
    pub recaches_first: bool,
    /// Whether the answer tells what was left before the touch.
    pub shows_ttl_first: bool,
    /// The CAS value of an item that is made.
    pub new_cas: Option<u64>,
    /// Whether the client takes part in the contest for the right to fill a stale item anew.
    pub can_win: bool,
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
    /// Whether the item is marked as stale instead: its CAS value changes, and the next reader
    /// wins.
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
    /// The item has expired already.
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

impl<'a> Operation<'a> {
    /// Nothing but a failure.
    pub(super) fn refuse(failure: Failure<'a>) -> Operation<'a> {
        Operation::Refuse(Refusal::of(failure))
    }

    /// Gives a store the value that came behind its line.
    #[inline]
    pub(super) fn set_value(&mut self, value: &'a [u8]) {
        if let Operation::Store(store) = self {
            store.value = value;
        }
    }

    /// The key, or the first one.
    pub fn key(&self) -> Option<Key<'a>> {
        match *self {
            Operation::Retrieve(mut retrieve) => retrieve.keys.next(),
            Operation::Store(Store { key, .. })
            | Operation::Delete(Delete { key, .. })
            | Operation::Arithmetic(Arithmetic { key, .. })
            | Operation::Touch { key, .. }
            | Operation::Inspect(key) => Some(key),
            _ => None,
        }
    }
}

impl<'a> Refusal<'a> {
    /// A refusal that changes nothing.
    pub(super) fn of(failure: Failure<'a>) -> Refusal<'a> {
        Refusal { failure, removes: None, closes: false }
    }
}

impl<'a> Retrieve<'a> {
    /// Reads the values and changes nothing.
    #[inline]
    pub fn of(keys: Keys<'a>) -> Retrieve<'a> {
        Retrieve {
            keys,
            touch: None,
            vivify: None,
            recache: None,
            recaches_first: false,
            shows_ttl_first: false,
            new_cas: None,
            can_win: false,
            shows_access: false,
            shows_value: true,
        }
    }
}

impl<'a> Store<'a> {
    /// Stores nothing, for ever.
    #[inline]
    pub(super) fn of(key: Key<'a>, mode: StoreMode) -> Store<'a> {
        Store {
            key,
            mode,
            value: b"",
            flags: 0,
            expiry: Expiry::NEVER,
            compare: None,
            new_cas: None,
            invalidates: false,
            vivify: None,
        }
    }
}

impl<'a> Delete<'a> {
    /// Removes the item, whatever it is.
    pub(super) fn of(key: Key<'a>) -> Delete<'a> {
        Delete {
            key,
            compare: None,
            new_cas: None,
            invalidates: false,
            expiry: None,
            empties: false,
        }
    }
}

impl<'a> Arithmetic<'a> {
    /// Changes the number of an item that is there.
    pub(super) fn of(key: Key<'a>, decrements: bool, delta: u64) -> Arithmetic<'a> {
        Arithmetic {
            key,
            decrements,
            delta,
            initial: None,
            touch: None,
            compare: None,
            new_cas: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadline, Expiry};

    #[test]
    fn small_expiries_count_from_now_and_large_ones_from_1970() {
        const NOW_MS: i64 = 1_700_000_000_500;
        const MONTH_S: i64 = 30 * 24 * 60 * 60;
        let table = [
            (0, Deadline::Never),
            (-1, Deadline::Passed),
            (i64::from(i32::MIN), Deadline::Passed),
            (1, Deadline::At(NOW_MS + 1000)),
            (MONTH_S, Deadline::At(NOW_MS + MONTH_S * 1000)),
            (MONTH_S + 1, Deadline::Passed),
            (1_700_000_000, Deadline::Passed),
            (1_700_000_001, Deadline::At(1_700_000_001_000)),
            (i64::from(u32::MAX), Deadline::At(i64::from(u32::MAX) * 1000)),
        ];
        for (seconds, expected) in table {
            assert_eq!(Expiry(seconds).deadline(NOW_MS), expected, "{seconds}");
        }
    }
}
