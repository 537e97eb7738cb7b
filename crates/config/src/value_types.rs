//! What the values of special forms mean to the server: `config.get(SAVE)` is a list of points.

use std::sync::Arc;

use super::special::{KEY_EVENT_LETTERS, key_event_bits};
use super::store::{Config, Readable, Shape};

/// A pair of `save`: a snapshot is due when both are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot.
    pub seconds: u64,
    /// Changes since the last snapshot.
    pub changes: u64,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindAddress {
    /// The address, or `*` for all of IPv4, or `::*` for all of IPv6.
    pub address: String,
    /// Whether the server starts without it where the machine does not have it.
    pub optional: bool,
}

/// The limits of one client class's unread replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// Bytes at which a client is closed at once; 0 is no limit.
    pub hard: u64,
    /// Bytes at which a client is closed after a while; 0 is no limit.
    pub soft: u64,
    /// How long that while is.
    pub soft_seconds: u64,
}

/// The limits of all client classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Of ordinary clients.
    pub normal: OutputBufferLimit,
    /// Of replicas.
    pub replica: OutputBufferLimit,
    /// Of subscribers.
    pub pubsub: OutputBufferLimit,
}

/// Which changes of keys are published, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEvents(i64);

/// How a signal shuts the server down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags {
    /// Save even without save points.
    pub save: bool,
    /// Do not save.
    pub nosave: bool,
    /// Do not wait for replicas.
    pub now: bool,
    /// Go even when saving fails.
    pub force: bool,
    /// Stay where a cluster would miss this server: a primary that has slots.
    pub safe: bool,
    /// Have a replica take over in a cluster.
    pub failover: bool,
}

impl KeyEvents {
    /// Whether the class of that letter is published.
    pub fn has(self, letter: u8) -> bool {
        debug_assert!(KEY_EVENT_LETTERS.contains(&letter));
        self.0 & key_event_bits(&[letter]) != 0
    }

    /// Whether nothing is published, the usual case.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Readable for KeyEvents {
    const SHAPE: Shape = Shape::Numbers(1);

    #[inline]
    fn read(config: &Config, cell: usize) -> KeyEvents {
        KeyEvents(config.number(cell))
    }
}

impl Readable for OutputBufferLimits {
    const SHAPE: Shape = Shape::Numbers(9);

    fn read(config: &Config, cell: usize) -> OutputBufferLimits {
        let number = |place| u64::try_from(config.number(cell + place)).unwrap_or_default();
        let limit = |place| OutputBufferLimit {
            hard: number(place),
            soft: number(place + 1),
            soft_seconds: number(place + 2),
        };
        OutputBufferLimits { normal: limit(0), replica: limit(3), pubsub: limit(6) }
    }
}

impl Readable for ShutdownFlags {
    const SHAPE: Shape = Shape::Numbers(1);

    fn read(config: &Config, cell: usize) -> ShutdownFlags {
        let flags = config.number(cell);
        let has = |bit: u32| flags >> bit & 1 == 1;
        ShutdownFlags {
            save: has(0),
            nosave: has(1),
            now: has(2),
            force: has(3),
            safe: has(4),
            failover: has(5),
        }
    }
}

impl Readable for Vec<SavePoint> {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Vec<SavePoint> {
        let numbers: Vec<u64> = words(config, cell).filter_map(|word| word.parse().ok()).collect();
        let (pairs, _) = numbers.as_chunks::<2>();
        pairs
            .iter()
            .map(|[seconds, changes]| SavePoint { seconds: *seconds, changes: *changes })
            .collect()
    }
}

impl Readable for Vec<f64> {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Vec<f64> {
        words(config, cell).filter_map(|word| word.parse().ok()).collect()
    }
}

impl Readable for Vec<BindAddress> {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Vec<BindAddress> {
        let address = |word: String| match word.strip_prefix('-') {
            Some(address) => BindAddress { address: address.to_owned(), optional: true },
            None => BindAddress { address: word, optional: false },
        };
        words(config, cell).map(address).collect()
    }
}

fn words(config: &Config, cell: usize) -> impl Iterator<Item = String> {
    let text: Arc<[u8]> = Readable::read(config, cell);
    let words: Vec<String> =
        String::from_utf8_lossy(&text).split_ascii_whitespace().map(str::to_owned).collect();
    words.into_iter()
}
