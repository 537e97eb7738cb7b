//! Strings and help on their way to the client.
//!
//! Invariant: a long string is pinned, not copied: its tree's root goes into the reply.

use keyspace::Text;
use proto::Reply;

/// Replies a string value.
#[inline]
pub fn reply_text(text: Text<'_>, reply: &mut Reply<'_>) {
    match text {
        Text::Integer(number) => reply.bulk_integer(number),
        Text::Inline(bytes) => reply.bulk(bytes),
        Text::Large(blob) => reply.bulk_shared(Box::new(blob.clone())),
    }
}

/// Replies what `HELP` of a container prints: its subcommands, then `HELP` itself.
pub fn reply_help(container: &str, lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len() + 3);
    reply.simple(&format!(
        "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    lines.iter().chain(&["HELP", "    Print this help."]).for_each(|line| reply.simple(line));
}
