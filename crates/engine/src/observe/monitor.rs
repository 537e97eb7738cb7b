//! MONITOR: every command that ran as a line for monitors.
//!
//! Invariants: passwords are never shown; a client is among the subscribers if and only if its flag
//! says so.

use std::sync::Arc;

use base::quote::quote_to;
use commands::{Flags, Group};
use config::Config;
use config::settings::UNIXSOCKET;
use proto::Args;

use crate::clients::mailbox::{Mailboxes, Outbox};
use crate::clients::multicast::Subscribers;
use crate::clients::registry::{Client, Peer, client_flags};
use crate::observe::redact;
use crate::table::command_table::CommandEntry;

/// The clients that watch.
#[derive(Default)]
pub struct Monitors(Subscribers);

impl Monitors {
    /// Whether anybody watches.
    #[inline]
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Makes the client of the present session a watcher.
    pub fn add(&self, mailboxes: &Mailboxes, client: &Arc<Client>) {
        if !client.has_flag(client_flags::MONITOR) {
            client.set_flag(client_flags::MONITOR, true);
            self.0.join(mailboxes, client.lane(), client);
        }
    }

    /// Makes a watcher an ordinary client again, or forgets one that is gone. What it was not told
    /// yet it is told no more, as a line would look like a reply.
    pub fn remove(&self, client: &Client) {
        if client.has_flag(client_flags::MONITOR) {
            self.0.leave(client, || ());
            client.set_flag(client_flags::MONITOR, false);
            client.take_deliveries();
        }
    }

    /// The subscribers that a client belongs to, if it is a watcher.
    pub fn subscribers_of(&self, client: &Client) -> Option<&Subscribers> {
        client.has_flag(client_flags::MONITOR).then_some(&self.0)
    }

    /// Tells all watchers of a command that came from there, with when it began, in microseconds,
    /// and in which database.
    pub(crate) fn feed(
        &self,
        outbox: Outbox<'_>,
        source: &str,
        (began, database): (i64, usize),
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        self.publish(outbox, &line(began, database, source, entry, args));
    }

    /// The line of a command that a script calls, if it is shown.
    pub(crate) fn line_of_script(
        &self,
        (now, database): (i64, usize),
        entry: &CommandEntry,
        args: Args<'_>,
    ) -> Option<Arc<[u8]>> {
        (!is_hidden(entry)).then(|| line(now, database, "lua", entry, args))
    }

    /// Tells all watchers a line.
    pub(crate) fn publish(&self, outbox: Outbox<'_>, line: &Arc<[u8]>) {
        self.0.publish(outbox.mailboxes, outbox.wakes, line);
    }
}

/// Where a client's commands come from, as lines tell it.
pub(crate) fn source_of(client: &Client, config: &Config) -> String {
    match client.peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix => {
            let path = config.get(UNIXSOCKET);
            format!("unix:{}", String::from_utf8_lossy(&path))
        }
    }
}

/// Whether a command says itself when it is told: SCRIPT and FUNCTION are told of like any other.
pub(crate) fn reports_itself(entry: &CommandEntry) -> bool {
    entry.spec.flags.has(Flags::SKIP_MONITOR) && entry.spec.group == Group::Scripting
}

/// Whether monitors are not told of a command, or by itself only.
pub(crate) fn is_hidden(entry: &CommandEntry) -> bool {
    entry.spec.flags.has(Flags::SKIP_MONITOR) || entry.spec.flags.has(Flags::ADMIN)
}

fn line(
    now: i64,
    database: usize,
    source: &str,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Arc<[u8]> {
    let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{database} {source}]");
    for index in 0..args.len() {
        line.push(' ');
        quote_to(&mut line, redact::redacted(entry, args, index));
    }
    line.push_str("\r\n");
    Arc::from(line.into_bytes())
}
