//! What keeps the data, with what memcached's clients need beside it.
//!
//! Invariant: clients of Redis need nothing of it.

use std::ops::Deref;

use durability::durability::Durability;

use super::Memcached;

/// The memcached front: its [`Durability`] and more.
pub(crate) struct Front {
    durability: Durability,
    pub(crate) memcached: Memcached,
}

impl Deref for Front {
    type Target = Durability;

    #[inline]
    fn deref(&self) -> &Durability {
        &self.durability
    }
}

impl Front {
    pub(crate) fn new(durability: Durability) -> Self {
        Self { durability, memcached: Memcached::default() }
    }
}
