//! CLIENT INFO and LIST: clients as lines of text.
//!
//! Invariant: a line has Redis' fields in Redis' order; what does not exist here has the value of a
//! client that does not use it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::Ordering;

use base::time::UnixMillis;
use commands::declare::{Command, Flags, Spec, at_least, exactly};
use config::settings::UNIXSOCKET;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::filter::{Filter, Purpose, Viewer};
use super::specs::{OF_ITSELF, OF_OTHERS};
use crate::client_memory;
use crate::clients::{Client, Peer, client_flags};
use crate::control::context::{Context, ControlCommand, Next};
use crate::pubsub::SubscriptionKind;
use crate::server::Server;
use crate::table::Entry;

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
        flags: OF_ITSELF.flags.and(Flags::REPEATABLE),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: info,
};

fn info(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let mut lines = Vec::new();
    let lister = Lister::new(Viewer::of(context)?, args);
    lister.write(&mut lines, &context.session()?.client);
    reply.verbatim(b"txt", &lines);
    Ok(Next::Done)
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
        flags: OF_OTHERS.flags.and(Flags::REPEATABLE),
        ..OF_OTHERS
    },
    subcommands: &[],
    run: list,
};

fn list(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    /// More lines than these take longer than one client may have a worker for.
    const LINES_OF_A_WORKER: usize = 128;
    let viewer = Viewer::of(context)?;
    if context.server.clients.len() > LINES_OF_A_WORKER {
        let work = move |_, args: Args<'_>, reply: &mut Reply<'_>| list_all(viewer, args, reply);
        return Ok(Next::elsewhere(work));
    }
    list_all(viewer, args, reply)?;
    Ok(Next::Done)
}

fn list_all(viewer: Viewer, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let filter = Filter::parse(viewer.server, args, Purpose::List)?;
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

/// The letters of a client's state, `N` if there is nothing to say.
pub(super) fn flags_of(client: &Client) -> String {
    let has = |flag| client.has_flag(flag);
    let letters = [
        ('O', has(client_flags::MONITOR)),
        ('P', has(client_flags::SUBSCRIBER)),
        ('x', client.live.queued.load(Ordering::Relaxed) >= 0),
        ('b', has(client_flags::BLOCKED) || has(client_flags::PAUSED)),
        ('t', has(client_flags::TRACKING)),
        ('R', has(client_flags::BROKEN_REDIRECT)),
        ('B', has(client_flags::BROADCAST)),
        ('d', client.has_broken_watch()),
        ('c', has(client_flags::CLOSING)),
        ('U', client.peer == Peer::Unix),
        ('e', has(client_flags::NO_EVICT)),
        ('T', has(client_flags::NO_TOUCH)),
        ('I', has(client_flags::IMPORT_SOURCE)),
    ];
    let shown: String = letters.iter().filter(|(_, on)| *on).map(|(letter, _)| letter).collect();
    if shown.is_empty() { "N".to_owned() } else { shown }
}

/// One end of a connection as Redis writes it.
pub(super) fn address(server: &Server, peer: Peer) -> String {
    match peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix => format!("{}:0", String::from_utf8_lossy(&server.config.get(UNIXSOCKET))),
    }
}

/// What the lines of one reply have in common.
struct Lister<'a> {
    viewer: Viewer,
    commands: HashMap<usize, &'static str>,
    args: Args<'a>,
}

impl<'a> Lister<'a> {
    fn new(viewer: Viewer, args: Args<'a>) -> Self {
        let entries = viewer.server.table.entries().iter().flat_map(Entry::family);
        let commands = entries.map(|entry| (entry.id, entry.full_name.as_str())).collect();
        Self { viewer, commands, args }
    }

    fn write(&self, line: &mut Vec<u8>, client: &Client) {
        let Viewer { server, id, now } = self.viewer;
        let command = client.live.last_command.load(Ordering::Relaxed) as usize;
        let command = self.commands.get(&command).copied().unwrap_or(NO_COMMAND);
        let arguments = if client.id == id { self.args.total_bytes() } else { 0 };
        write_line(line, server, client, now, command, arguments);
        line.push(b'\n');
    }
}

/// What `cmd=` says of a client that sent no command.
const NO_COMMAND: &str = "NULL";

/// A client's line, for the log.
pub(crate) fn describe(server: &Server, client: &Client, now: UnixMillis) -> String {
    let last = client.live.last_command.load(Ordering::Relaxed) as usize;
    let mut entries = server.table.entries().iter().flat_map(Entry::family);
    let command = entries.find(|entry| entry.id == last);
    let command = command.map_or(NO_COMMAND, |entry| entry.full_name.as_str());
    let mut line = Vec::new();
    write_line(&mut line, server, client, now, command, 0);
    String::from_utf8_lossy(&line).into_owned()
}

fn write_line(
    line: &mut Vec<u8>,
    server: &Server,
    client: &Client,
    now: UnixMillis,
    command: &str,
    arguments: usize,
) {
    let live = &client.live;
    let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let subscriptions = |kind| live.subscriptions[kind as usize].load(Ordering::Relaxed);
    let query = u64::from(live.query_bytes.load(Ordering::Relaxed));
    let output = number(&live.output_bytes) + client.delivery_bytes() as u64;
    let room = u64::from(live.query_room.load(Ordering::Relaxed)).saturating_sub(query);
    let total = client_memory::bytes_of(client) + arguments;
    // What has changed once is watched no more.
    let watched = if client.has_broken_watch() { 0 } else { live.watched.load(Ordering::Relaxed) };
    let flags = flags_of(client);
    let names = client.names();
    // Writing to a Vec cannot fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={query} qbuf-free={room} argv-mem={arguments} multi-mem={} \
         rbs=0 rbp=0 obl=0 oll={} omem={output} tot-mem={total} events={} cmd={command} user={} \
         redir={} resp={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} \
         tot-cmds={}",
        client.id,
        address(server, client.peer),
        address(server, client.local),
        client.descriptor,
        text(&names.name),
        (now - client.created).max(0) / 1000,
        (now - live.last_active.load(Ordering::Relaxed)).max(0) / 1000,
        flags,
        live.database.load(Ordering::Relaxed),
        subscriptions(SubscriptionKind::Channel),
        subscriptions(SubscriptionKind::Pattern),
        subscriptions(SubscriptionKind::ShardChannel),
        live.queued.load(Ordering::Relaxed),
        watched,
        number(&live.queued_bytes),
        u8::from(output > 0),
        if output > 0 { "rw" } else { "r" },
        text(names.user()),
        live.redirect.load(Ordering::Relaxed),
        live.resp.load(Ordering::Relaxed),
        text(&names.library),
        text(&names.library_version),
        live.worker.load(Ordering::Relaxed),
        number(&live.net_in),
        number(&live.net_out),
        number(&live.commands),
    );
}

/// Names are printable: they were checked when they came.
fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}
