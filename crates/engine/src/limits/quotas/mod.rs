//! Quotas: the accounts of users and databases, and what each of them may take.
//!
//! Invariants: where accounts are off and no quota is set, a request costs one load; an account,
//! once opened, stays the one of its name for as long as a session may hold it.

mod account;
mod token_bucket;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use acl::Users;
use config::settings::{DB_QUOTA, USAGE_ACCOUNTING, USER_QUOTA};
use config::{Config, MEMORY_LIMITED_DATABASES, QuotaLimit, QuotaRule};
use keyspace::Keyspace;

pub use account::{Account, RATES, Usage};
pub use token_bucket::Rate;

/// So many databases have accounts without having quotas: `databases` may be any number.
const DATABASES_MAX: usize = 1024;

/// All accounts.
#[derive(Default)]
pub struct Quotas {
    /// Whether requests are booked.
    is_accounting_on: AtomicBool,
    /// Whether anything is limited.
    has_quotas: AtomicBool,
    /// Whether the memory of any database is.
    is_memory_limited: AtomicBool,
    users: Mutex<BTreeMap<Box<[u8]>, Arc<Account>>>,
    databases: Mutex<BTreeMap<usize, Arc<Account>>>,
}

/// Databases of which a quota of memory is exceeded: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatabasesOverQuota(u128);

const _: () = assert!(MEMORY_LIMITED_DATABASES as u32 == u128::BITS, "each has a bit");

impl DatabasesOverQuota {
    /// None of them.
    pub(crate) const NONE: Self = Self(0);

    /// Whether there are any.
    pub(crate) fn are_there(self) -> bool {
        self.0 != 0
    }

    /// Whether one of them is this.
    pub(crate) fn has(self, database: usize) -> bool {
        database < MEMORY_LIMITED_DATABASES && self.0 >> database & 1 == 1
    }
}

impl Quotas {
    /// Reads anew whether accounts are kept, and all quotas.
    pub fn configure(&self, config: &Config, now_us: i64) {
        let (of_users, of_databases) = (config.get(USER_QUOTA), config.get(DB_QUOTA));
        let mut users = self.users();
        for QuotaRule { subject, .. } in &of_users {
            users.entry(subject.clone()).or_default();
        }
        for (name, account) in users.iter() {
            account.limit(of_users.iter().filter(|rule| rule.subject == *name), now_us);
        }
        drop(users);
        let mut databases = self.databases();
        let number = |rule: &QuotaRule| str::from_utf8(&rule.subject).ok()?.parse::<usize>().ok();
        for number in of_databases.iter().filter_map(number) {
            databases.entry(number).or_default();
        }
        for (database, account) in databases.iter() {
            let of_it = of_databases.iter().filter(|rule| number(rule) == Some(*database));
            account.limit(of_it, now_us);
        }
        drop(databases);
        let has_quotas = !of_users.is_empty() || !of_databases.is_empty();
        let is_memory_limited = of_databases.iter().any(|rule| rule.limit == QuotaLimit::Memory);
        self.is_memory_limited.store(is_memory_limited, Ordering::Relaxed);
        self.has_quotas.store(has_quotas, Ordering::Relaxed);
        self.is_accounting_on.store(has_quotas || config.get(USAGE_ACCOUNTING), Ordering::Relaxed);
    }

    /// Whether requests are booked.
    #[inline]
    pub fn is_accounting_on(&self) -> bool {
        self.is_accounting_on.load(Ordering::Relaxed)
    }

    /// Whether anything is limited.
    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        self.has_quotas.load(Ordering::Relaxed)
    }

    /// The account of a user. Whenever one is opened those go whose users are gone.
    #[cold]
    pub(crate) fn of_user(&self, users: &Users, name: &[u8]) -> Arc<Account> {
        let mut accounts = self.users();
        if let Some(account) = accounts.get(name) {
            return Arc::clone(account);
        }
        accounts.retain(|name, account| account.is_limited() || users.named(name).is_some());
        Arc::clone(accounts.entry(name.into()).or_default())
    }

    /// The account of a database, if it has one.
    #[cold]
    pub(crate) fn of_database(&self, database: usize) -> Option<Arc<Account>> {
        let mut accounts = self.databases();
        if accounts.len() < DATABASES_MAX {
            accounts.entry(database).or_default();
        }
        accounts.get(&database).cloned()
    }

    /// The databases that exceed their memory.
    #[inline]
    pub(crate) fn databases_over_quota(&self, keyspace: &Keyspace) -> DatabasesOverQuota {
        match self.is_memory_limited.load(Ordering::Relaxed) {
            true => self.find_full_databases(keyspace),
            false => DatabasesOverQuota::default(),
        }
    }

    #[cold]
    fn find_full_databases(&self, keyspace: &Keyspace) -> DatabasesOverQuota {
        let accounts = self.databases();
        let limited = accounts.iter().filter(|(database, account)| {
            **database < keyspace.database_count() && account.memory_max() > 0
        });
        let full = limited.filter(|(database, account)| {
            keyspace.database_memory(**database) as u64 > account.memory_max()
        });
        DatabasesOverQuota(full.fold(0, |bits, (database, _)| bits | 1_u128 << *database))
    }

    /// The accounts of users, by name.
    pub fn all_users(&self) -> Vec<(Box<[u8]>, Arc<Account>)> {
        self.users().iter().map(|(name, it)| (name.clone(), Arc::clone(it))).collect()
    }

    /// The accounts of databases, by number.
    pub fn all_databases(&self) -> Vec<(usize, Arc<Account>)> {
        self.databases().iter().map(|(number, it)| (*number, Arc::clone(it))).collect()
    }

    /// Counts from zero again; what rates have left stays.
    pub fn reset(&self) {
        self.users().values().for_each(|account| account.reset());
        self.databases().values().for_each(|account| account.reset());
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Arc<Account>>> {
        self.users.lock().expect("no critical section here panics")
    }

    fn databases(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Account>>> {
        self.databases.lock().expect("no critical section here panics")
    }
}
