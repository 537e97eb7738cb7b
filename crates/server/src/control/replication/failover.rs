//! FAILOVER: has a replica take the primary's place.
//!
//! Invariant: the command is answered when the failover has begun; INFO and the log say how that
//! ends.

use base::number::parse_i64;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least};
use commands::errors::{NOT_AN_INTEGER, SYNTAX};
use keyspace::Refusal;
use proto::{Args, Reply};
use replication::replica::PrimaryAddress;

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::links::FailoverRequest;

pub(super) const FAILOVER: ControlCommand = Command {
    spec: Spec {
        name: "FAILOVER",
        since: "6.2.0",
        group: Group::Server,
        syntax: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        summary: "Starts a coordinated failover from a server to one of its replicas.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE),
        ..Spec::BASE
    },
    subcommands: &[],
    run: fail_over,
};

fn fail_over(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    if server.cluster.is_on() {
        return Err(Refusal::error(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    if args.len() == 2 && is(&args[1], "ABORT") {
        if !server.links.abort_failover() {
            return Err(Refusal::error("ERR No failover in progress."));
        }
        reply.ok();
        return Ok(ControlOutcome::Done);
    }
    let request = read(args)?;
    let begun = server.links.fail_over(server, request);
    begun.map_err(|why| Refusal::owned(format!("ERR {why}")))?;
    reply.ok();
    Ok(ControlOutcome::Done)
}

fn read(args: Args<'_>) -> Result<FailoverRequest, Refusal> {
    let mut request = FailoverRequest::default();
    let mut index = 1;
    while index < args.len() {
        let left = args.len() - index;
        index += match &args[index] {
            word if is(word, "TIMEOUT") && left >= 2 && request.timeout_ms.is_none() => {
                let timeout = parse_i64(&args[index + 1]).ok_or(NOT_AN_INTEGER)?;
                let timeout = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0);
                let timeout =
                    timeout.ok_or(Refusal::error("ERR FAILOVER timeout must be greater than 0"))?;
                request.timeout_ms = Some(timeout);
                2
            }
            word if is(word, "TO") && left >= 3 && request.to.is_none() => {
                let port = parse_i64(&args[index + 2]).ok_or(NOT_AN_INTEGER)?;
                let host = String::from_utf8_lossy(&args[index + 1]).into_owned();
                // A port that is none is that of no replica.
                let port = u16::try_from(port).unwrap_or(0);
                request.to = Some(PrimaryAddress { host, port });
                3
            }
            word if is(word, "FORCE") && !request.is_forced => {
                request.is_forced = true;
                1
            }
            _ => return Err(SYNTAX),
        };
    }
    Ok(request)
}
