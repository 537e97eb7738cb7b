//! What a user's rules keep from a unit's commands.
//!
//! Invariant: what is denied within a unit is noted once that is final.

use acl::{Context, Denial};
use keyspace::Refusal;

use super::{DeferredLog, Unit};
use crate::session::{AclSubject, Denied, Request};

impl AclSubject {
    /// What keeps a command of a transaction from running though it was queued.
    pub(crate) fn refuse_queued(&self, unit: &mut Unit, request: Request<'_>) -> Option<Refusal> {
        let Some(denied) = self.denial(unit.server, Context::Multi, request) else {
            return self.refuse_pattern(request);
        };
        unit.defer_log(DeferredLog::Denied(denied.noted));
        let why = match denied.denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
            Denial::Database(_) => "no permission to access the database",
        };
        Some(Refusal::owned(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
             EXEC call. This command is no longer allowed for the following reason: {why}"
        )))
    }

    /// What keeps a command from a script.
    pub(crate) fn refuse_script_call(
        &self,
        unit: &mut Unit,
        request: Request<'_>,
    ) -> Option<Refusal> {
        match self.denial(unit.server, Context::Lua, request) {
            Some(Denied { text, noted, .. }) => {
                unit.defer_log(DeferredLog::Denied(noted));
                Some(Refusal::owned(format!("ERR ACL failure in script: {text}")))
            }
            None => self.refuse_pattern(request),
        }
    }
}
