//! HELP of the containers.
//!
//! Invariant: its form is that of the data commands' HELP.

use commands::text::reply_help;
use proto::Reply;

/// Replies the HELP of a container: a head line, the lines given, then HELP itself.
pub(crate) fn help(reply: &mut Reply<'_>, container: &str, lines: &[&str]) {
    reply_help(container, lines, reply);
}
