//! The commands that are a Sentinel's own, or other there than in a server.
//!
//! Invariant: what a Sentinel says of itself is said on its own thread; here sessions only wait.

use commands::declare::{Command, Flags, Group, Spec, at_least};
use engine::session::{ExecutedCommand, Suspension};
use keyspace::Refusal;
use proto::{Args, OwnedArgs, Reply};
use tokio::sync::oneshot;

use super::requests::{RequestKind, SentinelRequest};
use super::subcommands::SUBCOMMANDS;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::pubsub::publish::PUBLISH;
use crate::control::replication::role::ROLE;
use crate::control::server::info::{INFO, is_wanted, text};

/// All of them.
pub(crate) const COMMANDS: &[&ControlCommand] = &[
    &SENTINEL,
    &Command { run: info, ..INFO },
    &Command { run: ask, ..PUBLISH },
    &Command { run: ask, ..ROLE },
];

const SENTINEL: ControlCommand = Command {
    spec: Spec {
        name: "SENTINEL",
        since: "2.8.4",
        group: Group::Sentinel,
        summary: "A container for Redis Sentinel commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        flags: Flags::ADMIN,
        ..Spec::BASE
    },
    subcommands: SUBCOMMANDS,
    run: ask,
};

/// The sections that a Sentinel has in common with a server.
const COMMON_SECTIONS: [&str; 4] = ["Server", "Clients", "Stats", "CPU"];

/// Has the Sentinel answer. The crate that does so knows no table, so commands come to it by the
/// names that they were declared by.
pub(super) fn ask(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let top = context.server.table.find(&args[0]);
    let name = top.map_or(&args[0], |entry| entry.spec.name.as_bytes());
    let declared: OwnedArgs = std::iter::once(name).chain(args.iter().skip(1)).collect();
    push(context, args, RequestKind::Command(declared))
}

fn info(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let asked = args.skip(1);
    let mut common = text(context, asked, |title| COMMON_SECTIONS.contains(&title));
    if !is_wanted("Sentinel", true, asked) {
        reply.verbatim(b"txt", common.as_bytes());
        return Ok(ControlOutcome::Done);
    }
    if !common.is_empty() {
        common.push_str("\r\n");
    }
    push(context, args, RequestKind::Info(common))
}

fn push(
    context: &mut Context<'_>,
    args: Args<'_>,
    kind: RequestKind,
) -> Result<ControlOutcome, Refusal> {
    let resp = context.session()?.resp;
    let (answer, receiver) = oneshot::channel();
    let ran = ExecutedCommand::begun(context.entry, args);
    context.server.sentinel.push(SentinelRequest { kind, resp, ran, answer });
    Ok(ControlOutcome::Wait(Suspension::Offload(receiver)))
}
