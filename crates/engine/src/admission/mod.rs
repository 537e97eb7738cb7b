//! What each client may do, and what may go on now: the gates, rights, logins.
//!
//! Invariant: a gate looks; what it refuses has changed nothing.

pub mod acl_check;
pub mod delayed_login;
pub mod gates;
pub mod password;
mod protected_command;
pub(crate) mod quota;
pub mod readmission;
pub mod redirection;
pub mod script_flags;
