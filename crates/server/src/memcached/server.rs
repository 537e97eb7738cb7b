//! The server as the commands of memcached see it.
//!
//! Invariant: clients of Redis need nothing of it.

use std::ops::Deref;

use durability::durability::Durability;

use super::Memcached;

/// What the commands of memcached need: its [`Durability`] and more.
pub(crate) struct MemcachedServer {
    durability: Durability,
    pub(crate) memcached: Memcached,
}

impl Deref for MemcachedServer {
    type Target = Durability;

    #[inline]
    fn deref(&self) -> &Durability {
        &self.durability
    }
}

impl MemcachedServer {
    pub(crate) fn new(durability: Durability) -> Self {
        Self { durability, memcached: Memcached::default() }
    }
}
