//! What a session remembers between requests.
//!
//! Invariant: all of it may move to another worker.

use std::sync::Arc;

use proto::Resp;

use crate::clients::Client;

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
    /// `CLIENT NO-TOUCH`.
    pub(crate) no_touch: bool,
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
        Self {
            client,
            database: 0,
            resp: Resp::Two,
            authenticated,
            closing: false,
            reply_mode: ReplyMode::On,
            no_touch: false,
            is_local,
        }
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
