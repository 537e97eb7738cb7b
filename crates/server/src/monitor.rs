//! MONITOR: every admitted command as a line for those who watch.
//!
//! Invariant: passwords are never shown.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use base::quote::quote;
use commands::Flags;
use proto::Args;

use crate::clients::{Peer, Signal, client_flags};
use crate::secrets;
use crate::config::settings::UNIXSOCKET;
use crate::server::Server;
use crate::session::Session;
use crate::table::Entry;
use crate::worker::Worker;

/// Lines that a watcher does not read beyond this many bytes close it.
const BACKLOG_LIMIT: usize = 32 << 20;

/// Tells all watchers of a command.
#[cold]
pub(crate) fn feed(worker: &Worker, session: &Session, entry: &Entry, args: Args<'_>) {
    if entry.spec.flags.has(Flags::SKIP_MONITOR) || entry.spec.flags.has(Flags::ADMIN) {
        return;
    }
    let line = line(worker, session, entry, args);
    for client in worker.server.clients.all() {
        if !client.has_flag(client_flags::MONITOR) {
            continue;
        }
        if client.delivery_bytes() > BACKLOG_LIMIT {
            client.signal(Signal::Kill);
        } else {
            client.deliver(line.as_bytes());
        }
    }
}

fn line(worker: &Worker, session: &Session, entry: &Entry, args: Args<'_>) -> String {
    let now = worker.server.keyspace.clock().now_us();
    let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{} ", session.database);
    // Writing to a String cannot fail.
    let _ = match session.client.peer {
        Peer::Tcp(address) => write!(line, "{address}]"),
        Peer::Unix => {
            let path = worker.server.config.get(UNIXSOCKET);
            write!(line, "unix:{}]", String::from_utf8_lossy(&path))
        }
    };
    for index in 0..args.len() {
        line.push(' ');
        line.push_str(&quote(secrets::shown(entry, args, index)));
    }
    line.push_str("\r\n");
    line
}

/// Makes a client a watcher.
pub(crate) fn watch(server: &Server, session: &Session) {
    if !session.client.has_flag(client_flags::MONITOR) {
        session.client.set_flag(client_flags::MONITOR, true);
        server.monitors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a watcher an ordinary client again (`RESET`).
pub(crate) fn unwatch(server: &Server, session: &Session) {
    if session.client.has_flag(client_flags::MONITOR) {
        session.client.set_flag(client_flags::MONITOR, false);
        server.monitors.fetch_sub(1, Ordering::Relaxed);
    }
}
