//! The commands as their blocks declare them, for the console's completion: what COMMAND DOCS tells,
//! with the grammar in one line.
//!
//! Invariant: a command is told by the name that clients call.

use engine::table::command_table::CommandEntry;

use super::super::json::{array, object, quoted};
use super::console::{Permission, permission};
use crate::http::HttpState;

/// `/api/commands`.
pub(super) fn list(server: &HttpState) -> String {
    let entries = server.table.entries().iter().flat_map(|top| {
        // A container has nothing to run but its subcommands.
        let family = top.family().skip(usize::from(!top.subcommands.is_empty()));
        family.map(move |entry| told(top, entry))
    });
    array(entries)
}

fn told(top: &CommandEntry, entry: &CommandEntry) -> String {
    let spec = entry.spec;
    let rights = match permission(top, entry) {
        Permission::Reads => "read",
        Permission::Changes => "write",
        Permission::Never(_) => "never",
    };
    object([
        ("name", quoted(&entry.full_name.replace('|', " ").to_uppercase())),
        ("syntax", quoted(spec.syntax)),
        ("summary", quoted(spec.summary)),
        ("group", quoted(spec.group.name())),
        ("since", quoted(spec.since)),
        ("complexity", quoted(spec.complexity)),
        ("rights", quoted(rights)),
    ])
}
