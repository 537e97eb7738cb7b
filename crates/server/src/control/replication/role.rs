//! ROLE: what the server is among others, and how far these are.
//!
//! Invariant: all that is told is of one moment.

use commands::declare::{Command, Flags, Group, Spec, exactly};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

pub(crate) const ROLE: ControlCommand = Command {
    spec: Spec {
        name: "ROLE",
        since: "2.8.12",
        group: Group::Server,
        summary: "Returns the replication role.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::NOSCRIPT
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        categories: &["@admin", "@dangerous"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: role,
};

fn role(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let report = server.links.report(server);
    if let Some(link) = &report.link {
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(link.host.as_bytes());
        reply.integer(link.port.into());
        reply.bulk(link.state.name().as_bytes());
        reply.integer(link.role_offset);
        return Ok(ControlOutcome::Done);
    }
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(i64::try_from(report.offset).unwrap_or(i64::MAX));
    let online: Vec<_> = report.replicas.iter().filter(|row| row.state == "online").collect();
    reply.array(online.len());
    for row in online {
        reply.array(3);
        reply.bulk(row.ip.as_bytes());
        reply.bulk(row.port.to_string().as_bytes());
        reply.bulk(row.offset.to_string().as_bytes());
    }
    Ok(ControlOutcome::Done)
}
