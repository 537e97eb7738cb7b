//! ACL LOG: what was denied to which client.
//!
//! Invariant: the newest come first.

use acl::Entry;
use commands::arguments::{integer, is};
use commands::declare::{Command, Flags, Spec, at_least};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::shared::{OF_USERS, at_most};
use crate::control::context::{Context, ControlCommand, ControlOutcome};

pub(super) const LOG: ControlCommand = Command {
    spec: Spec {
        name: "LOG",
        since: "6.0.0",
        syntax: "[count | RESET]",
        summary: "Lists recent security events generated due to ACL rules.",
        complexity: "O(N) with N being the number of entries shown.",
        arity: at_least(2),
        history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
        flags: OF_USERS.flags.and(Flags::CHANGES_NOTHING),
        ..OF_USERS
    },
    subcommands: &[],
    run: log,
};

fn log(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const SHOWN: i64 = 10;
    at_most(args, 3)?;
    let server = context.server;
    let count = match args.get(2) {
        Some(word) if is(word, "RESET") => {
            server.access.acl_log.clear();
            reply.ok();
            return Ok(ControlOutcome::Done);
        }
        Some(_) => integer(args, 2)?,
        None => SHOWN,
    };
    let now_ms = server.keyspace.clock().now_ms();
    let entries = server.access.acl_log.newest(usize::try_from(count).unwrap_or(0));
    reply.array(entries.len());
    entries.iter().for_each(|entry| reply_entry(entry, now_ms, reply));
    Ok(ControlOutcome::Done)
}

fn reply_entry(entry: &Entry, now_ms: i64, reply: &mut Reply<'_>) {
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    for (what, text) in [
        ("reason", entry.reason.name().as_bytes()),
        ("context", entry.context.name().as_bytes()),
        ("object", &entry.object),
        ("username", &entry.user),
    ] {
        reply.bulk(what.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - entry.updated_ms) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.as_bytes());
    for (what, number) in [
        ("entry-id", entry.id as i64),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.updated_ms),
    ] {
        reply.bulk(what.as_bytes());
        reply.integer(number);
    }
}
