//! Access: the users, what was denied to them, and from where passwords are guessed.
//!
//! Invariant: what a user may do is decided by `acl`; this only keeps it.

use std::sync::Arc;

use acl::Catalogue;
use acl::Users;

use crate::limits::auth_failures::AuthFailures;

/// The users, and what is known of denials and failed logins.
pub struct Access {
    /// The users, and what each of them may do.
    pub users: Users,
    /// What was denied to which client: ACL LOG.
    pub acl_log: acl::Log,
    /// From where passwords are guessed.
    pub auth_failures: AuthFailures,
}

impl Access {
    pub(crate) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            users: Users::new(catalogue),
            acl_log: acl::Log::default(),
            auth_failures: AuthFailures::default(),
        }
    }
}
