//! MONITOR: every command that ran as a line for those who watch.
//!
//! Invariants: passwords are never shown; a client is in the list of watchers if and only if its
//! flag says so.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::quote::quote;
use commands::Flags;
use proto::Args;

use crate::clients::{Client, Peer, Signal, client_flags};
use crate::config::settings::UNIXSOCKET;
use crate::secrets;
use crate::session::Session;
use crate::table::Entry;
use crate::worker::Worker;

/// Lines that a watcher does not read beyond this many bytes close it.
const BACKLOG_LIMIT: usize = 32 << 20;

/// The clients that watch.
#[derive(Default)]
pub(crate) struct Watchers {
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Watchers {
    /// Whether anybody watches.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Makes a client a watcher.
    pub(crate) fn add(&self, client: &Arc<Client>) {
        let mut clients = self.clients();
        if !client.has_flag(client_flags::MONITOR) {
            client.set_flag(client_flags::MONITOR, true);
            clients.push(Arc::clone(client));
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    /// Makes a watcher an ordinary client again, or forgets one that is gone.
    pub(crate) fn remove(&self, client: &Client) {
        if client.has_flag(client_flags::MONITOR) {
            let mut clients = self.clients();
            clients.retain(|watcher| watcher.id != client.id);
            client.set_flag(client_flags::MONITOR, false);
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    /// Tells all watchers of a command.
    #[cold]
    pub(crate) fn tell(&self, worker: &Worker, session: &Session, entry: &Entry, args: Args<'_>) {
        if entry.spec.flags.has(Flags::SKIP_MONITOR) || entry.spec.flags.has(Flags::ADMIN) {
            return;
        }
        let line = line(worker, session, entry, args);
        for client in self.clients().iter() {
            if client.delivery_bytes() > BACKLOG_LIMIT {
                client.signal(Signal::Kill);
            } else {
                client.deliver(line.as_bytes());
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.clients.lock().expect("no critical section here panics")
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
