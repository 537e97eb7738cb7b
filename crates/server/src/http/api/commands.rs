//! The commands as their blocks declare them, for the console's completion: what COMMAND DOCS
//! tells, with the grammar in one line.
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
        family.map(describe)
    });
    array(entries)
}

fn describe(entry: &CommandEntry) -> String {
    let spec = entry.spec;
    let rights = match permission(entry) {
        Permission::Reads => "read",
        Permission::Changes => "write",
        Permission::Never(_) => "never",
    };
    object([
        ("name", quoted(&entry.full_name.replace('|', " ").to_uppercase())),
        ("syntax", quoted(&without_types(spec.syntax))),
        ("summary", quoted(spec.summary)),
        ("group", quoted(spec.group.name())),
        ("since", quoted(spec.since)),
        ("complexity", quoted(spec.complexity)),
        ("rights", quoted(rights)),
    ])
}

/// The grammar of a command as people write it: `timeout:double` is a `timeout`.
fn without_types(syntax: &str) -> String {
    let mut plain = String::with_capacity(syntax.len());
    let mut is_type = false;
    for letter in syntax.chars() {
        is_type = letter == ':' || is_type && (letter.is_ascii_lowercase() || letter == '-');
        if !is_type {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::without_types;

    #[test]
    fn a_grammar_is_shown_without_types() {
        let grammar = "key [key ...] timeout:double [LIMIT offset:integer count:integer]";
        assert_eq!(without_types(grammar), "key [key ...] timeout [LIMIT offset count]");
        assert_eq!(without_types("at:unix-time"), "at");
    }
}
