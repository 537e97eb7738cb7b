//! All users of the server.
//!
//! Invariants: the default user is always there and always the same object; a name that is asked
//! for is never kept waiting by a change for longer than a map is changed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::catalogue::Catalogue;
use crate::password::Digest;
use crate::rules::Rules;
use crate::user::User;

/// The name of the user that connections begin as.
pub const DEFAULT_USER: &[u8] = b"default";

/// The registry.
pub struct Users {
    catalogue: Catalogue,
    default: Arc<User>,
    /// By name, the default one included.
    named: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
}

impl Users {
    /// A registry with the default user, who may do everything without a password.
    pub fn new(catalogue: Catalogue) -> Users {
        let default = Arc::new(User::new(DEFAULT_USER, Rules::unlimited()));
        let named = BTreeMap::from([(DEFAULT_USER.into(), Arc::clone(&default))]);
        Users { catalogue, default, named: RwLock::new(named) }
    }

    /// The commands that rules speak of.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The user that connections begin as.
    pub fn default_user(&self) -> Arc<User> {
        Arc::clone(&self.default)
    }

    /// The user of that name.
    pub fn named(&self, name: &[u8]) -> Option<Arc<User>> {
        self.read().get(name).cloned()
    }

    /// The user, if it is on and this is one of its passwords, or it needs none. How long this
    /// takes tells nothing about users or passwords.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let given = Digest::of(password);
        let user = self.named(name);
        let rules = user.as_ref().map(|user| user.rules());
        let passwords = rules.as_ref().map_or(&[][..], |rules| &rules.passwords);
        let fits = passwords.iter().fold(false, |fits, password| fits | password.is(&given));
        let may_enter = rules.is_some_and(|it| it.is_on && (it.needs_no_password || fits));
        user.filter(|_| may_enter)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Box<[u8]>, Arc<User>>> {
        self.named.read().unwrap_or_else(PoisonError::into_inner)
    }
}
