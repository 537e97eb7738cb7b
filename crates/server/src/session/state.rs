//! What a session remembers between requests.
//!
//! Invariant: all of it may move to another worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::Lsn;
use proto::Resp;

use crate::clients::{Client, client_flags};
use crate::control::fieldsets::Fieldsets;
use crate::server::Server;
use crate::unit::Pending;

/// The state of one client's session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    /// The logical database.
    pub(crate) database: usize,
    pub(crate) resp: Resp,
    pub(crate) authenticated: bool,
    /// To be closed once the replies due have left.
    pub(crate) closing: bool,
    pub(crate) reply_mode: ReplyMode,
    /// What waits for EXEC, and what is watched.
    pub(crate) pending: Option<Box<Pending>>,
    /// `CLIENT NO-TOUCH`.
    pub(crate) no_touch: bool,
    /// What HIMPORT PREPARE has named.
    pub(crate) fieldsets: Fieldsets,
    /// The highest LSN that replies not yet held back have seen.
    pub(super) seen: Lsn,
    /// Whether the connection came by the Unix socket or the loopback interface.
    pub(crate) is_local: bool,
}

/// `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// The next command's reply is left out, then ON again.
    SkipNext,
    /// This command's reply is left out.
    Skipping,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool, is_local: bool) -> Self {
        client.live.authenticated.store(authenticated, Ordering::Relaxed);
        Self {
            client,
            database: 0,
            resp: Resp::Two,
            authenticated,
            closing: false,
            reply_mode: ReplyMode::On,
            pending: None,
            no_touch: false,
            fieldsets: Fieldsets::default(),
            seen: 0,
            is_local,
        }
    }

    /// Notes what a reply has seen: it leaves once the journal is safe up to there.
    #[inline]
    pub(crate) fn see(&mut self, lsn: Lsn) {
        self.seen = self.seen.max(lsn);
    }

    /// Ends the session once its replies have left.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.client.set_flag(client_flags::CLOSING, true);
    }

    /// Turns to another database.
    pub(crate) fn select(&mut self, database: usize) {
        self.database = database;
        self.client.live.database.store(database as u32, Ordering::Relaxed);
    }

    /// Changes the protocol of the replies.
    pub(crate) fn speak(&mut self, resp: Resp) {
        self.resp = resp;
        self.client.live.resp.store(if resp == Resp::Two { 2 } else { 3 }, Ordering::Relaxed);
    }

    /// Lets the client in, or not any more.
    pub(crate) fn authenticate(&mut self, is_known: bool) {
        self.authenticated = is_known;
        self.client.live.authenticated.store(is_known, Ordering::Relaxed);
    }

    /// Forgets what was queued and what is watched.
    pub(crate) fn end_transaction(&mut self, server: &'static Server) {
        if let Some(pending) = self.pending.take() {
            pending.end(server);
            self.show_pending();
        }
    }

    /// Shows in CLIENT LIST what is queued and watched.
    pub(crate) fn show_pending(&self) {
        Pending::show(self.pending.as_deref(), &self.client.live);
    }

    /// Whether commands are queued for EXEC.
    #[inline]
    pub(crate) fn is_queueing(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.is_queueing())
    }

    /// Whether what the present command writes reaches the client.
    pub(crate) fn replies(&self) -> bool {
        matches!(self.reply_mode, ReplyMode::On | ReplyMode::SkipNext)
    }

    /// Called after each command: moves SKIP on.
    pub(crate) fn command_done(&mut self) {
        self.reply_mode = match self.reply_mode {
            ReplyMode::SkipNext => ReplyMode::Skipping,
            ReplyMode::Skipping => ReplyMode::On,
            other => other,
        };
    }
}
