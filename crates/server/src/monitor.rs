//! MONITOR: every command that ran as a line for those who watch.
//!
//! Invariants: passwords are never shown; a client is in the audience if and only if its flag says
//! so.

use std::sync::Arc;

use base::quote::quote_to;
use commands::{Flags, Group};
use config::settings::UNIXSOCKET;
use proto::Args;

use crate::audience::Audience;
use crate::clients::{Client, Peer, client_flags};
use crate::mailbox::Mailboxes;
use crate::secrets;
use crate::server::Server;
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
        if is_hidden(entry) {
            return;
        }
        let now = worker.server.keyspace.clock().now_us();
        self.tell_all(worker, session, (now, database), entry, args);
    }

    /// As `tell`, of a command that says itself when it is told: when it began, in microseconds,
    /// and the database that it began in.
    #[cold]
    pub(crate) fn tell_all(
        &self,
        worker: &Worker,
        session: &Session,
        (now, database): (i64, usize),
        entry: &Entry,
        args: Args<'_>,
    ) {
        let server = worker.server;
        let source = match session.client.peer {
            Peer::Tcp(address) => address.to_string(),
            Peer::Unix => {
                let path = server.config.get(UNIXSOCKET);
                format!("unix:{}", String::from_utf8_lossy(&path))
            }
        };
        self.publish(worker, &line(now, database, &source, entry, args));
    }

    /// Tells all watchers of a script that did not even begin: it is shown all the same.
    pub(crate) fn tell_unbegun(
        &self,
        worker: &Worker,
        session: &Session,
        database: usize,
        entry: &Entry,
        args: Args<'_>,
    ) {
        // SCRIPT and FUNCTION are told of like any command.
        let tells_itself = entry.spec.flags.has(Flags::SKIP_MONITOR);
        if self.any() && tells_itself && entry.spec.group == Group::Scripting {
            let now = worker.server.keyspace.clock().now_us();
            self.tell_all(worker, session, (now, database), entry, args);
        }
    }

    /// The line of a command that a script calls, if it is shown.
    pub(crate) fn line_of_script(
        &self,
        server: &Server,
        database: usize,
        entry: &Entry,
        args: Args<'_>,
    ) -> Option<Arc<[u8]>> {
        let now = server.keyspace.clock().now_us();
        (!is_hidden(entry)).then(|| line(now, database, "lua", entry, args))
    }

    /// Tells all watchers a line.
    pub(crate) fn publish(&self, worker: &Worker, line: &Arc<[u8]>) {
        self.0.publish(&worker.server.mailboxes, &worker.rounds, line);
    }
}

fn is_hidden(entry: &Entry) -> bool {
    entry.spec.flags.has(Flags::SKIP_MONITOR) || entry.spec.flags.has(Flags::ADMIN)
}

fn line(now: i64, database: usize, source: &str, entry: &Entry, args: Args<'_>) -> Arc<[u8]> {
    let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{database} {source}]");
    for index in 0..args.len() {
        line.push(' ');
        quote_to(&mut line, secrets::shown(entry, args, index));
    }
    line.push_str("\r\n");
    Arc::from(line.into_bytes())
}
