//! The console: one command from a caller, as the caller's user.
//!
//! Invariants: `http-commands` says what may be run, beside the user's own rights; what would wait,
//! or change what later commands of a session mean, is refused, as there is no later command.

use commands::{Flags, Group};
use config::HttpCommands;
use config::settings::HTTP_COMMANDS;
use engine::table::command_table::CommandEntry;
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use proto::OwnedArgs;
use proto::value::Value;

use super::super::command_session::{Caller, Words};
use super::super::json::{object, reply};
use super::super::query::Query;
use super::super::response::Failure;
use super::open;

/// The longest command.
const BYTES_MOST: usize = 1 << 20;

/// What the console may do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// The command only looks.
    Reads,
    /// The command changes something, or tells secrets.
    Changes,
    /// The command is nothing for a console, for this reason.
    Never(&'static str),
}

/// `/api/command`: the command stands in the body, as redis-cli would read it.
pub(super) async fn run(caller: &Caller, query: &Query, body: Incoming) -> Result<String, Failure> {
    let body = Limited::new(body, BYTES_MOST).collect().await.map_err(|_| {
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "The command is longer than 1 MB.")
    })?;
    let words = base::quote::split_arguments(&body.to_bytes());
    let words =
        words.ok_or_else(|| Failure::of_caller("Invalid argument(s): quotes do not match."))?;
    if words.is_empty() {
        return Err(Failure::of_caller("There is no command."));
    }
    check(caller, &words)?;
    let mut session = open(caller, query).await?;
    let answer = session.run(&[words]).await?.pop().unwrap_or(Value::Null);
    Ok(object([("reply", reply(&answer))]))
}

/// Whether the console may run a request. One that names no command gets its error by running.
fn check(caller: &Caller, words: &Words) -> Result<(), Failure> {
    let server = caller.server;
    let args: OwnedArgs = words.iter().map(Vec::as_slice).collect();
    let allowed = server.config.get(HTTP_COMMANDS);
    let refuse = |why: String| Err(Failure::new(StatusCode::FORBIDDEN, why));
    if allowed == HttpCommands::None {
        return refuse("The directive http-commands allows no commands here.".to_owned());
    }
    let Ok(entry) = server.table.resolve(args.as_args()) else { return Ok(()) };
    match permission(entry) {
        Permission::Reads => (),
        Permission::Changes if allowed == HttpCommands::All => (),
        Permission::Changes => {
            let why = "The directive http-commands allows only commands that read.";
            return refuse(why.to_owned());
        }
        Permission::Never(why) => return refuse(why.to_owned()),
    }
    // The streams' readers wait only where they are told to.
    let waits = words.iter().skip(1).any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
    match entry.spec.flags.has(Flags::BLOCKING) && waits {
        true => refuse("A command that waits is nothing for the console.".to_owned()),
        false => Ok(()),
    }
}

/// What the console may do with a command.
pub(super) fn permission(entry: &CommandEntry) -> Permission {
    let flags = entry.spec.flags;
    let reads_streams = entry.spec.group == Group::Stream;
    if flags.has(Flags::BLOCKING) && !reads_streams || flags.has(Flags::NOT_IN_UNIT) {
        return Permission::Never("A command that waits is nothing for the console.");
    }
    if flags.has(Flags::SESSION) || entry.answers_with_messages() {
        return Permission::Never(
            "A command for a session that goes on is nothing for the console.",
        );
    }
    let only_reads = flags.has(Flags::READONLY) && !entry.may_write();
    match only_reads || flags.has(Flags::CHANGES_NOTHING) {
        true => Permission::Reads,
        false => Permission::Changes,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use engine::table::command_table::CommandEntry;

    use super::{Permission, permission};
    use crate::start::test_server;

    fn permissions() -> BTreeMap<String, Permission> {
        let entries = test_server().table.entries().iter();
        let all = entries.flat_map(CommandEntry::family);
        all.map(|entry| (entry.full_name.clone(), permission(entry))).collect()
    }

    #[test]
    fn what_changes_or_waits_is_no_read() {
        let there = permissions();
        for name in "get xread scan eval_ro object|freq object|help acl|help client|list \
             client|id config|get slowlog|get command command|docs pubsub|numsub acl|log \
             acl|getuser function|list script|exists memory|usage memory|stats \
             latency|graph module|list info ping role select time"
            .split(' ')
        {
            assert_eq!(there[name], Permission::Reads, "{name}");
        }
        for name in "set eval flushall config|set xreadgroup debug shutdown client|kill \
             acl|setuser script|flush slowlog|reset publish cluster|info"
            .split(' ')
        {
            assert_eq!(there[name], Permission::Changes, "{name}");
        }
        for name in "blpop subscribe monitor wait migrate multi exec discard watch unwatch \
             client|reply client|setname client|tracking auth hello reset quit sync psync \
             replconf asking readonly"
            .split(' ')
        {
            assert!(matches!(there[name], Permission::Never(_)), "{name}");
        }
    }
}
