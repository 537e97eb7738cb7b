//! Arguments that nobody but the server may see: MONITOR and SLOWLOG show a placeholder for them.
//!
//! Invariant: commands are known by their declaration, so renaming one does not lay its secrets
//! open.

use commands::Group;
use commands::keys::BeginSearch;
use config::ConfigOption;
use proto::Args;

use crate::table::command_table::CommandEntry;

/// What is shown for a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// The argument at an index as others may see it.
pub fn redacted<'a>(entry: &CommandEntry, args: Args<'a>, index: usize) -> &'a [u8] {
    let argument = args.get(index).unwrap_or_default();
    if is_secret(entry, args, index) { REDACTED } else { argument }
}

fn is_secret(entry: &CommandEntry, args: Args<'_>, index: usize) -> bool {
    match (entry.spec.group, entry.spec.name) {
        (Group::Connection, "AUTH") => index >= 1,
        (Group::Connection, "HELLO") => {
            let credentials = args.iter().position(|word| word.eq_ignore_ascii_case(b"AUTH"));
            credentials.is_some_and(|auth| index == auth + 1 || index == auth + 2)
        }
        (Group::Server, "SETUSER" | "DELUSER" | "GETUSER") => index >= 2,
        // What a user is asked to be allowed may be a login.
        (Group::Server, "DRYRUN") => index >= 4,
        (Group::Server, "SET") => {
            let names_a_secret = |name| ConfigOption::named(name).is_some_and(|it| it.sensitive);
            index >= 3 && index % 2 == 1 && args.get(index - 1).is_some_and(names_a_secret)
        }
        (Group::Generic, "MIGRATE") => entry.spec.keys.iter().any(|keys| match keys.begin {
            BeginSearch::Tail(tail) => tail.word.is_value(args, index),
            _ => false,
        }),
        _ => false,
    }
}
