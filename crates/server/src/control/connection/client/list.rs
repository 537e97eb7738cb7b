//! CLIENT INFO and LIST: clients as lines of text.
//!
//! Invariant: a line has Redis' fields in Redis' order; what does not exist here has the value of a
//! client that does not use it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use commands::declare::{Command, Flags, Spec, at_least, exactly};
use engine::clients::registry::Client;
use engine::session::client_info::{NO_COMMAND, write_line};
use engine::table::command_table::CommandEntry;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::filter::{ClientFilter, Purpose, Viewer};
use super::specs::{OF_ITSELF, OF_OTHERS};
use crate::control::context::{Context, ControlCommand, ControlOutcome};

const LIST_SYNTAX: &str = "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id \
    [client-id ...]] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>] \
    [MAXAGE maxage] [IDLE idle] [FLAGS flags] [NAME name] [LIB-NAME libname] [LIB-VER libver] \
    [DB db] [CAPA capability] [IP ip] [NOT-TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] \
    [NOT-ID client-id [client-id ...]] [NOT-USER username] [NOT-ADDR ip:port] \
    [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] \
    [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capability] [NOT-IP ip]";

pub(super) const INFO: ControlCommand = Command {
    spec: Spec {
        name: "INFO",
        since: "6.2.0",
        summary: "Returns information about the connection.",
        complexity: "O(1)",
        arity: exactly(2),
        tips: &["nondeterministic_output"],
        flags: OF_ITSELF.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: info,
};

fn info(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let mut lines = Vec::new();
    let lister = Lister::new(Viewer::of(context)?, args);
    lister.write(&mut lines, &context.session()?.client);
    reply.verbatim(b"txt", &lines);
    Ok(ControlOutcome::Done)
}

pub(super) const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        since: "2.4.0",
        syntax: LIST_SYNTAX,
        summary: "Lists open connections.",
        complexity: "O(N) where N is the number of client connections",
        arity: at_least(2),
        tips: &["nondeterministic_output"],
        history: &[
            ("2.8.12", "Added unique client `id` field."),
            ("5.0.0", "Added optional `TYPE` filter."),
            ("6.0.0", "Added `user` field."),
            (
                "6.2.0",
                "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` \
                 filter.",
            ),
            ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
            ("7.0.3", "Added `ssub` field."),
            ("7.2.0", "Added `lib-name` and `lib-ver` fields."),
            ("7.4.0", "Added `watch` field."),
            ("8.0.0", "Added `io-thread` field."),
        ],
        flags: OF_OTHERS.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_OTHERS
    },
    subcommands: &[],
    run: list,
};

fn list(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    /// More lines than these take longer than one client may have a worker for.
    const LINES_OF_A_WORKER: usize = 128;
    let viewer = Viewer::of(context)?;
    if context.server.clients.count() > LINES_OF_A_WORKER {
        let work = move |_, args: Args<'_>, reply: &mut Reply<'_>| list_all(viewer, args, reply);
        return Ok(ControlOutcome::offload(work));
    }
    list_all(viewer, args, reply)?;
    Ok(ControlOutcome::Done)
}

fn list_all(viewer: Viewer, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let filter = ClientFilter::parse(viewer.server, args, Purpose::List)?;
    let lister = Lister::new(viewer, args);
    let mut lines = Vec::new();
    for client in viewer.server.clients.all() {
        if filter.admits(viewer, &client) {
            lister.write(&mut lines, &client);
        }
    }
    reply.verbatim(b"txt", &lines);
    Ok(())
}

/// What the lines of one reply have in common.
struct Lister<'a> {
    viewer: Viewer,
    commands: HashMap<usize, &'static str>,
    args: Args<'a>,
}

impl<'a> Lister<'a> {
    fn new(viewer: Viewer, args: Args<'a>) -> Self {
        let entries = viewer.server.table.entries().iter().flat_map(CommandEntry::family);
        let commands = entries.map(|entry| (entry.id, entry.full_name.as_str())).collect();
        Self { viewer, commands, args }
    }

    fn write(&self, line: &mut Vec<u8>, client: &Client) {
        let Viewer { server, id, now } = self.viewer;
        let command = client.live.last_command.load(Ordering::Relaxed) as usize;
        let command = self.commands.get(&command).copied().unwrap_or(NO_COMMAND);
        let arguments = if client.id == id { self.args.total_bytes() } else { 0 };
        write_line(line, server, client, now, (command, arguments), usize::MAX);
        line.push(b'\n');
    }
}
