//! All users of the server.
//!
//! Invariants: the default user is always there and always the same object; changes come one after
//! the other, each of them whole; a look-up of a user waits for a change no longer than a map is
//! changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::catalogue::Catalogue;
use crate::fault::RuleError;
use crate::password::Digest;
use crate::rules::{Defaults, Rules};
use crate::selector::is_blank;
use crate::user::User;

/// The name of the user that connections begin as.
pub const DEFAULT_USER: &[u8] = b"default";

/// The registry.
pub struct Users {
    catalogue: Arc<Catalogue>,
    default: Arc<User>,
    /// By name, the default one included.
    named: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    /// Held by the thread that changes something.
    turn: Mutex<()>,
    /// Whether new users may use all channels.
    all_channels: AtomicBool,
}

/// Users that were declared and are not known to anybody yet, by name.
pub type Declared = BTreeMap<Vec<u8>, Rules>;

/// Why a user was not declared.
#[derive(Debug, PartialEq, Eq)]
pub enum DeclareError {
    /// The name contains what names must not.
    Name,
    /// Another line declares the same.
    Twice,
    /// A rule is wrong.
    Rule(RuleError),
}

impl Users {
    /// A registry with the default user, which may do everything without a password.
    pub fn new(catalogue: Arc<Catalogue>) -> Users {
        let rules = Arc::new(Rules::unlimited(&catalogue));
        let default = Arc::new(User::new(DEFAULT_USER, rules));
        let named = BTreeMap::from([(DEFAULT_USER.into(), Arc::clone(&default))]);
        Users {
            catalogue,
            default,
            named: RwLock::new(named),
            turn: Mutex::default(),
            all_channels: AtomicBool::new(false),
        }
    }

    /// The commands that rules speak of.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Says whether users that are created from now on may use all channels.
    pub fn set_all_channels(&self, all: bool) {
        self.all_channels.store(all, Ordering::Relaxed);
    }

    /// The user that connections begin as.
    pub fn default_user(&self) -> Arc<User> {
        Arc::clone(&self.default)
    }

    /// The user of that name.
    pub fn named(&self, name: &[u8]) -> Option<Arc<User>> {
        self.read().get(name).cloned()
    }

    /// A user's name and rules, in words; a selector is as many as stand in it.
    pub fn words(&self, user: &User) -> Vec<Vec<u8>> {
        let mut words = user.rules().words(&self.catalogue);
        words.insert(0, user.name().to_vec());
        words
    }

    /// A user as a file and ACL LIST show it.
    pub fn line(&self, user: &User) -> Vec<u8> {
        [b"user ", &*self.words(user).join(&b' ')].concat()
    }

    /// All users, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.read().values().cloned().collect()
    }

    /// The user, if it is on and this is one of its passwords, or it needs none. How long this
    /// takes tells nothing about users or passwords.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let given = Digest::of(password);
        let user = self.named(name);
        // Where there is no such user, another one's passwords take the time.
        let rules = user.as_ref().unwrap_or(&self.default).rules();
        let fits = rules.has_password(&given) | rules.needs_no_password();
        user.filter(|_| rules.is_on() && fits)
    }

    /// Changes a user, or creates it: all of these rules or none.
    pub fn set(&self, name: &[u8], words: &[impl AsRef<[u8]>]) -> Result<Arc<User>, RuleError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.named(name);
        let mut rules = match &known {
            Some(user) => Rules::clone(&user.rules()),
            None => Rules::new(self.defaults()),
        };
        rules.apply(words, self.defaults())?;
        let rules = Arc::new(rules);
        Ok(match known {
            Some(user) => {
                user.set_rules(rules);
                user
            }
            None => {
                let user = Arc::new(User::new(name, rules));
                self.write().insert(name.into(), Arc::clone(&user));
                user
            }
        })
    }

    /// Gives the default user this one password, or lets everybody in without one.
    pub fn set_default_password(&self, password: Option<&[u8]>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = Rules::clone(&self.default.rules());
        rules.set_password(password);
        self.default.set_rules(Arc::new(rules));
    }

    /// Removes a user, whose clients are told so; never the default one.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT_USER {
            return None;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let user = self.write().remove(name)?;
        user.delete();
        Some(user)
    }

    /// Adds the declaration of a user, which begins with nothing even if it is known already.
    pub fn declare(
        &self,
        declared: &mut Declared,
        name: &[u8],
        words: &[impl AsRef<[u8]>],
    ) -> Result<(), DeclareError> {
        if !is_name(name) {
            return Err(DeclareError::Name);
        }
        if declared.contains_key(name) {
            return Err(DeclareError::Twice);
        }
        let mut rules = Rules::new(self.defaults());
        rules.apply(words, self.defaults()).map_err(DeclareError::Rule)?;
        declared.insert(name.to_vec(), rules);
        Ok(())
    }

    /// Puts the declared users in the place of all others: the users that were changed or removed.
    /// A user that is declared again stays the same object, whose clients stay; so does the default
    /// user. Where nothing is declared of that one it may do everything, with this password if
    /// there is one.
    pub fn replace_all(
        &self,
        mut declared: Declared,
        default_password: Option<&[u8]>,
    ) -> Vec<Arc<User>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        declared.entry(DEFAULT_USER.to_vec()).or_insert_with(|| {
            let mut rules = Rules::unlimited(&self.catalogue);
            rules.set_password(default_password);
            rules
        });
        let (mut touched, mut next) = (Vec::new(), BTreeMap::new());
        for (name, rules) in declared {
            let user = match self.named(&name) {
                Some(user) => {
                    if !self.is_same(&user, &rules) {
                        user.set_rules(Arc::new(rules));
                        touched.push(Arc::clone(&user));
                    }
                    user
                }
                None => Arc::new(User::new(&name, Arc::new(rules))),
            };
            next.insert(name.into(), user);
        }
        let before = std::mem::replace(&mut *self.write(), next.clone());
        for (_, user) in before.into_iter().filter(|(name, _)| !next.contains_key(name)) {
            user.delete();
            touched.push(user);
        }
        touched
    }

    fn is_same(&self, user: &User, rules: &Rules) -> bool {
        user.rules().words(&self.catalogue) == rules.words(&self.catalogue)
    }

    fn defaults(&self) -> Defaults<'_> {
        let all_channels = self.all_channels.load(Ordering::Relaxed);
        Defaults { catalogue: &self.catalogue, all_channels }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Box<[u8]>, Arc<User>>> {
        self.named.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Box<[u8]>, Arc<User>>> {
        self.named.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a user may be called so.
pub fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| is_blank(*byte))
}
