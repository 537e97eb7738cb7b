//! MONITOR: every command that ran as a line for those who watch.
//!
//! Invariants: passwords are never shown; a client is in the audience if and only if its flag says
//! so.

use std::fmt::Write;
use std::sync::Arc;

use base::quote::quote;
use commands::Flags;
use proto::Args;

use crate::audience::Audience;
use crate::clients::{Client, Peer, client_flags};
use crate::config::settings::UNIXSOCKET;
use crate::mailbox::Mailboxes;
use crate::secrets;
use crate::session::Session;
use crate::table::Entry;
use crate::worker::Worker;

/// The clients that watch.
#[derive(Default)]
pub(crate) struct Watchers(Audience);

impl Watchers {
    /// Whether anybody watches.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Makes the client of the present session a watcher.
    pub(crate) fn add(&self, mailboxes: &Mailboxes, client: &Arc<Client>) {
        if !client.has_flag(client_flags::MONITOR) {
            client.set_flag(client_flags::MONITOR, true);
            self.0.join(mailboxes, client.lane(), client);
        }
    }

    /// Makes a watcher an ordinary client again, or forgets one that is gone. What it was not told
    /// yet it is told no more, as a line would look like a reply.
    pub(crate) fn remove(&self, client: &Client) {
        if client.has_flag(client_flags::MONITOR) {
            self.0.leave(client, || ());
            client.set_flag(client_flags::MONITOR, false);
            client.take_deliveries();
        }
    }

    /// The audience that a client belongs to, if it is a watcher.
    pub(crate) fn audience_of(&self, client: &Client) -> Option<&Audience> {
        client.has_flag(client_flags::MONITOR).then_some(&self.0)
    }

    /// Tells all watchers of a command.
    #[cold]
    pub(crate) fn tell(
        &self,
        worker: &Worker,
        session: &Session,
        database: usize,
        entry: &Entry,
        args: Args<'_>,
    ) {
        if entry.spec.flags.has(Flags::SKIP_MONITOR) || entry.spec.flags.has(Flags::ADMIN) {
            return;
        }
        let line = Arc::from(line(worker, session, database, entry, args).into_bytes());
        self.0.publish(&worker.server.mailboxes, &worker.rounds, &line);
    }
}

fn line(
    worker: &Worker,
    session: &Session,
    database: usize,
    entry: &Entry,
    args: Args<'_>,
) -> String {
    let now = worker.server.keyspace.clock().now_us();
    let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{database} ");
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
