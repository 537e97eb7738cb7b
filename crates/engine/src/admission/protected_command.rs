//! Commands that look into the server: for the clients that the configuration names.
//!
//! Invariant: what is refused is refused by where its client is, whoever that is.

use commands::Role;
use config::DebugAccess;
use config::settings::{ENABLE_DEBUG_COMMAND, ENABLE_MODULE_COMMAND};
use keyspace::Refusal;

use crate::lane::Lane;
use crate::session::Session;
use crate::table::command_table::CommandEntry;

/// Why a client may not run one of them.
#[cold]
pub(super) fn protected_command_refusal(
    lane: &Lane,
    session: &Session,
    entry: &CommandEntry,
) -> Option<Refusal> {
    let config = &lane.shared.config;
    let (access, word): (DebugAccess, &str) = match entry.spec.role {
        Role::Debug => (config.get(ENABLE_DEBUG_COMMAND), "debug"),
        _ => (config.get(ENABLE_MODULE_COMMAND), "module"),
    };
    if access.allows(session.is_local) {
        return None;
    }
    Some(Refusal::owned(format!(
        "ERR {} command not allowed. If the enable-{word}-command option is set to \"local\", you \
         can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
        word.to_ascii_uppercase()
    )))
}
