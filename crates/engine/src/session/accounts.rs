//! What a session has looked up for its user: the rules, and the accounts that its requests are
//! booked to, the user's and the database's.
//!
//! Invariants: a session holds the account of its present user; that of a database is looked up
//! anew when another is asked for. What a part of a request took in another database is booked
//! there and not where the request stands; the user's account has the whole.

use std::sync::Arc;

use crate::limits::quotas::Account;
use crate::session::{AclSubject, Session};
use crate::shared::Shared;

/// What was looked up for a session's user: few sessions have any of it, so it lies apart.
#[derive(Default)]
pub(crate) struct SessionCaches {
    /// The user's rules.
    pub(crate) acl_subject: Option<Arc<AclSubject>>,
    accounts: SessionAccounts,
}

/// The accounts of a session, as far as they were looked up.
#[derive(Default)]
pub(crate) struct SessionAccounts {
    /// None for a client that has not logged in, where it has to.
    user: Option<Arc<Account>>,
    /// With the number of the database.
    database: Option<(usize, Arc<Account>)>,
    booked_elsewhere: OtherDatabaseUsage,
}

/// What of the request under way is booked in other databases than its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct OtherDatabaseUsage {
    /// The database in which the request began, if that may not be its session's any more.
    pub(crate) began_in: Option<usize>,
    pub(crate) reply_bytes: u64,
    pub(crate) micros: u64,
}

impl SessionAccounts {
    /// That of the user and that of the database, as far as there are any.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Account> {
        self.user.iter().chain(self.database.iter().map(|(_, account)| account)).map(|it| &**it)
    }

    /// That of the user.
    pub(crate) fn user(&self) -> Option<&Account> {
        self.user.as_deref()
    }

    /// That of the database.
    pub(crate) fn database(&self) -> Option<&Account> {
        self.database.as_ref().map(|(_, account)| &**account)
    }
}

impl Session {
    /// The database in which a request runs that comes now: behind MULTI the one that a queued
    /// SELECT leads to.
    pub(crate) fn next_database(&self) -> usize {
        let selected = self.multi.as_ref().and_then(|multi| multi.selected());
        selected.unwrap_or(self.database)
    }

    /// A part of the request under way is booked in another database.
    pub(crate) fn note_booked_elsewhere(&self, reply_bytes: u64, micros: u64) {
        self.edit_booked_elsewhere(|booked| {
            booked.reply_bytes += reply_bytes;
            booked.micros += micros;
        });
    }

    /// The request under way began in this database.
    pub(crate) fn note_request_began_in(&self, database: usize) {
        self.edit_booked_elsewhere(|booked| booked.began_in = Some(database));
    }

    /// What of the request under way is booked in other databases so far.
    pub(crate) fn booked_elsewhere(&self) -> OtherDatabaseUsage {
        self.edit_booked_elsewhere(|booked| *booked)
    }

    /// As `booked_elsewhere`; the next request begins anew.
    pub(crate) fn take_booked_elsewhere(&self) -> OtherDatabaseUsage {
        self.edit_booked_elsewhere(std::mem::take)
    }

    fn edit_booked_elsewhere<T>(&self, edit: impl FnOnce(&mut OtherDatabaseUsage) -> T) -> T {
        let mut looked_up = self.looked_up.take().unwrap_or_default();
        let result = edit(&mut looked_up.accounts.booked_elsewhere);
        self.looked_up.set(Some(looked_up));
        result
    }

    /// Looks at the accounts of the session's user and of a database.
    pub(crate) fn with_accounts<T>(
        &self,
        server: &Shared,
        database: usize,
        look: impl FnOnce(&SessionAccounts) -> T,
    ) -> T {
        let mut looked_up = self.looked_up.take().unwrap_or_default();
        let accounts = &mut looked_up.accounts;
        if accounts.user.is_none() {
            let user = self.effective_user(server);
            accounts.user =
                user.map(|user| server.gates.quotas.of_user(&server.access.users, user.name()));
        }
        if accounts.database.as_ref().is_none_or(|(known, _)| *known != database) {
            let account = server.gates.quotas.of_database(database);
            accounts.database = account.map(|account| (database, account));
        }
        let result = look(accounts);
        self.looked_up.set(Some(looked_up));
        result
    }
}
