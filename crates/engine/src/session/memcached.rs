//! What is remembered of a client that speaks one of memcached's protocols.
//!
//! Invariant: the state is what lies between two reads: where the parser stands, and what is
//! watched.

use config::settings::MEMCACHED_PROTOCOL;
use proto::memcached::Parser;

use crate::shared::Shared;

/// What a session remembers of a client that speaks a memcached protocol.
pub struct MemcachedState {
    /// The parser, as it is before the first byte that is not executed.
    pub parser: Parser,
    /// Whether the input ends within a request, which is the next one.
    pub is_incomplete: bool,
    /// Whether it ends within a value, which others are told.
    pub is_midway: bool,
    /// Whether it ends since the client sent what cannot be.
    pub is_broken: bool,
    /// What it watches; then it asks nothing more.
    pub watch: Option<Box<EventWatch>>,
}

impl MemcachedState {
    /// At its beginning.
    pub fn new(server: &Shared) -> Box<Self> {
        let parser = Parser::new(server.config.get(MEMCACHED_PROTOCOL).into());
        Box::new(Self {
            parser,
            is_incomplete: false,
            is_midway: false,
            is_broken: false,
            watch: None,
        })
    }
}

/// What may be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchClass {
    /// An item is looked up, for whatever purpose.
    Fetchers,
    /// An item is stored, or is not.
    Mutations,
    /// A key is evicted.
    Evictions,
    /// A client comes or goes.
    Connections,
    /// An item is deleted.
    Deletions,
}

/// Their names.
pub const CLASSES: [(WatchClass, &[u8]); 5] = [
    (WatchClass::Fetchers, b"fetchers"),
    (WatchClass::Mutations, b"mutations"),
    (WatchClass::Evictions, b"evictions"),
    (WatchClass::Connections, b"connevents"),
    (WatchClass::Deletions, b"deletions"),
];

/// Some classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchClasses(pub u8);

impl WatchClasses {
    /// Whether this is one of them.
    #[inline]
    pub fn has(self, class: WatchClass) -> bool {
        self.0 & 1 << class as u8 != 0
    }
}

/// What a session remembers that watches.
#[derive(Default)]
pub struct EventWatch {
    /// The classes of events that `watch` named.
    pub classes: WatchClasses,
    /// Lines that it was not told, of which it knows nothing yet.
    pub skipped: u64,
}
