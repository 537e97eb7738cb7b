//! What a session has looked up for its user: the rules, and the accounts that its requests are
//! booked to, the user's and the database's.
//!
//! Invariant: a session holds the account of its present user; that of a database is looked up
//! anew when the session has turned to another.

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
    /// Looks at the session's accounts.
    pub(crate) fn with_accounts<T>(
        &self,
        server: &Shared,
        look: impl FnOnce(&SessionAccounts) -> T,
    ) -> T {
        let mut looked_up = self.looked_up.take().unwrap_or_default();
        let accounts = &mut looked_up.accounts;
        if accounts.user.is_none() {
            let user = self.effective_user(server);
            accounts.user =
                user.map(|user| server.gates.quotas.of_user(&server.access.users, user.name()));
        }
        if accounts.database.as_ref().is_none_or(|(database, _)| *database != self.database) {
            let account = server.gates.quotas.of_database(self.database);
            accounts.database = account.map(|account| (self.database, account));
        }
        let result = look(accounts);
        self.looked_up.set(Some(looked_up));
        result
    }
}
