//! A user, as sessions hold on to it: its rules change under them.
//!
//! Invariant: the bits of `state` follow from the rules, and change with them; a user that was
//! deleted stays so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::rules::Rules;

/// A user.
pub struct User {
    name: Box<[u8]>,
    /// The bits below, and above them how often the rules have changed.
    state: AtomicU64,
    rules: RwLock<Arc<Rules>>,
}

const UNLIMITED: u64 = 1;
const OPEN: u64 = 2;
const DELETED: u64 = 4;
const ONE_VERSION: u64 = 8;

impl User {
    pub(crate) fn new(name: &[u8], rules: Arc<Rules>) -> User {
        let state = AtomicU64::new(bits(&rules));
        User { name: name.into(), state, rules: RwLock::new(rules) }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether the user may do everything: all commands, keys, channels and databases. A user that
    /// is gone may not.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.state.load(Ordering::Relaxed) & (UNLIMITED | DELETED) == UNLIMITED
    }

    /// Whether a connection that has said nothing may act as this user, which then is on and needs
    /// no password.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Whether the user has been removed, or replaced by another of its name.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Relaxed) & DELETED != 0
    }

    /// A number that changes with the rules, for holders of a copy of them: a holder that has seen
    /// the number and then asks for the rules gets those that it counts, or later ones.
    #[inline]
    pub fn version(&self) -> u64 {
        self.state.load(Ordering::Acquire) / ONE_VERSION
    }

    /// The rules of now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the user other rules; no other thread may do so at the same time.
    pub(crate) fn set_rules(&self, rules: Arc<Rules>) {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.load(Ordering::Relaxed);
        let version = state / ONE_VERSION * ONE_VERSION + ONE_VERSION;
        // A reader that sees the new version finds the lock held, or the new rules.
        self.state.store(version | state & DELETED | bits(&rules), Ordering::Release);
        *current = rules;
    }

    /// Says that nobody is this user any more.
    pub(crate) fn delete(&self) {
        self.state.fetch_or(DELETED, Ordering::Relaxed);
    }
}

fn bits(rules: &Rules) -> u64 {
    let unlimited = if rules.allow_everything() { UNLIMITED } else { 0 };
    let open = if rules.is_on() && rules.needs_no_password() { OPEN } else { 0 };
    unlimited | open
}
