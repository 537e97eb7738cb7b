//! Users and what they may do: rules as ACL SETUSER takes them, and their check.
//!
//! Sans-I/O: the crate knows commands by their numbers only and sees no session, file or clock.
//! Invariants: a user's rules change all at once or not at all; of a password only its digest is
//! kept; what neither the root nor one selector alone allows is denied.
#![forbid(unsafe_code)]

mod catalogue;
mod check;
mod commands;
mod fault;
mod file;
mod log;
mod ordered;
mod password;
mod patterns;
mod rules;
mod selector;
#[cfg(test)]
mod tests;
mod user;
mod users;

pub use catalogue::{Catalogue, CatalogueEntry};
pub use check::{AccessRequest, Database, Denial, KeyAccess};
pub use fault::{Fault, RuleError};
pub use log::{Context, Entry, Event, Log, Reason};
pub use rules::{Permissions, Rules};
pub use user::User;
pub use users::{DEFAULT_USER, DeclareError, Declared, Users, is_name};
