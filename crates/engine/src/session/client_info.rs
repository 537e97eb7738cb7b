//! A client as others see it: what it takes, and its line in CLIENT LIST and in the log.
//!
//! Invariant: a line has Redis' fields in Redis' order; what does not exist here has the value of a
//! client that does not use it.

use std::io::Write;
use std::sync::atomic::Ordering;

use base::time::UnixMillis;
use config::settings::UNIXSOCKET;
use replication::backlog::{self, PIECE_BYTES};

use crate::clients::mailbox::IN_TRANSIT;
use crate::clients::registry::{Client, LOGGED_NAME_BYTES, Peer, SubscriptionKind, client_flags};
use crate::session;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// About what a session takes besides its record and its buffers: its task and its socket's.
const SESSION_BYTES: usize = 800;

/// What a client takes.
pub fn bytes_of(client: &Client) -> usize {
    let live = &client.live;
    let read = |counter: &std::sync::atomic::AtomicU64| {
        usize::try_from(counter.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    };
    let query = live.query_bytes.load(Ordering::Relaxed);
    size_of::<Client>()
        + SESSION_BYTES
        + live.query_room.load(Ordering::Relaxed).max(query) as usize
        + output_of(client)
        + read(&live.queued_bytes)
        + client.delivery_bytes()
        + held_for(client)
}

/// What waits to be sent to a client, or the stream that is kept for a replica: whole pieces, also
/// the one whose end it has, as in Redis.
fn output_of(client: &Client) -> usize {
    let unsent = client.live.output_bytes.load(Ordering::Relaxed);
    let unsent = usize::try_from(unsent).unwrap_or(usize::MAX);
    let pieces = pieces_of(client).map(|pieces| pieces.saturating_mul(PIECE_BYTES));
    pieces.unwrap_or(unsent)
}

/// The pieces of the stream that are kept for a client, if it is a replica.
fn pieces_of(client: &Client) -> Option<usize> {
    let unsent = client.live.output_bytes.load(Ordering::Relaxed);
    client.has_flag(client_flags::REPLICA).then(|| backlog::pieces_of(unsent))
}

/// What others keep for a client: keys that it waits for or watches, channels, prefixes.
fn held_for(client: &Client) -> usize {
    let names = client.names();
    let waits = client.has_flag(client_flags::BLOCKED);
    let waiter = names.waiter().filter(|_| waits);
    names.bytes() + names.held_memory.bytes() + waiter.map_or(0, |waiter| session::memory(&waiter))
}

/// The letters of a client's state, `N` if there is nothing to say.
pub fn flags_of(client: &Client) -> String {
    let has = |flag| client.has_flag(flag);
    let letters = [
        ('O', has(client_flags::MONITOR)),
        ('S', has(client_flags::REPLICA)),
        ('M', has(client_flags::PRIMARY)),
        ('P', has(client_flags::SUBSCRIBER)),
        ('r', has(client_flags::READONLY)),
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
pub fn address(server: &Shared, peer: Peer) -> String {
    match peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix => format!("{}:0", String::from_utf8_lossy(&server.config.get(UNIXSOCKET))),
    }
}

/// What `cmd=` says of a client that sent no command.
pub const NO_COMMAND: &str = "NULL";

/// A client's line, for a log: names are cut.
pub fn describe(server: &Shared, client: &Client, now: UnixMillis) -> String {
    let last = client.live.last_command.load(Ordering::Relaxed) as usize;
    let mut entries = server.table.entries().iter().flat_map(CommandEntry::family);
    let command = entries.find(|entry| entry.id == last);
    let command = command.map_or(NO_COMMAND, |entry| entry.full_name.as_str());
    let mut line = Vec::new();
    write_line(&mut line, server, client, now, (command, 0), LOGGED_NAME_BYTES);
    String::from_utf8_lossy(&line).into_owned()
}

/// Writes the line of a client whose latest command has this name, and this many bytes; no more
/// than `name_bytes` of each name that the client chose.
pub fn write_line(
    line: &mut Vec<u8>,
    server: &Shared,
    client: &Client,
    now: UnixMillis,
    (command, arguments): (&str, usize),
    name_bytes: usize,
) {
    let live = &client.live;
    let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let subscriptions = |kind| live.subscriptions[kind as usize].load(Ordering::Relaxed);
    let query = u64::from(live.query_bytes.load(Ordering::Relaxed));
    let unsent = number(&live.output_bytes) + client.delivery_bytes() as u64;
    let output = output_of(client) + client.delivery_bytes();
    let pieces = pieces_of(client).unwrap_or(usize::from(output > 0));
    let room = u64::from(live.query_room.load(Ordering::Relaxed)).saturating_sub(query);
    let total = bytes_of(client) + arguments;
    // What has changed once is watched no more.
    let watched = if client.has_broken_watch() { 0 } else { live.watched.load(Ordering::Relaxed) };
    let flags = flags_of(client);
    let names = client.names();
    // Writing to a Vec cannot fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={query} qbuf-free={room} argv-mem={arguments} multi-mem={} \
         rbs=0 rbp=0 obl=0 oll={pieces} omem={output} tot-mem={total} events={} cmd={command} \
         user=",
        client.id,
        address(server, client.peer),
        address(server, client.local),
        client.descriptor,
        text(&names.name, name_bytes),
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
        if unsent > 0 { "rw" } else { "r" },
    );
    // The one name that may be of any bytes.
    line.extend_from_slice(names.user());
    let _ = write!(
        line,
        " redir={} resp={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} \
         tot-cmds={}",
        live.redirect.load(Ordering::Relaxed),
        live.resp.load(Ordering::Relaxed),
        text(&names.library, name_bytes),
        text(&names.library_version, name_bytes),
        worker_of(client),
        number(&live.net_in),
        number(&live.net_out),
        number(&live.commands),
    );
    let tls_minor = live.tls_minor.load(Ordering::Relaxed);
    if tls_minor > 0 {
        let _ = write!(line, " tls=TLSv1.{tls_minor}");
    }
}

/// The worker that a client lives at; a link to our primary lives at none.
fn worker_of(client: &Client) -> u8 {
    let worker = client.live.worker.load(Ordering::Relaxed);
    if usize::from(worker) == IN_TRANSIT { 0 } else { worker }
}

/// The beginning of a name. Names are printable: they were checked when they came.
fn text(name: &[u8], most: usize) -> &str {
    std::str::from_utf8(&name[..name.len().min(most)]).unwrap_or_default()
}
