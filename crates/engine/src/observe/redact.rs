//! Arguments that nobody but the server may see: MONITOR and SLOWLOG show a placeholder for them.
//!
//! Invariant: commands are known by their declaration, so renaming one does not lay its secrets
//! open.

use commands::Secrets;
use commands::arguments::is;
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
    match entry.spec.secrets {
        Secrets::None => false,
        Secrets::From(first) => index >= first,
        Secrets::Options { first, options, secret } => {
            let mut next = first;
            while next <= index {
                let option = options.iter().find(|(word, _)| is(&args[next], word));
                let Some((word, values)) = option else { return true };
                if next == index {
                    return false;
                }
                let end = next + values;
                if end >= args.len() {
                    // A value is missing, so another may stand in the wrong place.
                    return true;
                }
                if index <= end {
                    return *word == secret;
                }
                next = end + 1;
            }
            false
        }
        Secrets::DirectivesFrom(first) => {
            let names_a_secret = |name| ConfigOption::named(name).is_some_and(|it| it.sensitive);
            let is_value = index > first && (index - first) % 2 == 1;
            is_value && args.get(index - 1).is_some_and(names_a_secret)
        }
        Secrets::OptionValues => entry.spec.keys.iter().any(|keys| match keys.begin {
            BeginSearch::Tail(tail) => tail.word.is_value(args, index),
            _ => false,
        }),
    }
}
