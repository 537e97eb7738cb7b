//! What sessions ask of the Sentinel's thread.
//!
//! Invariant: a session has one request under way and waits, so there are no more requests
//! than clients.

use std::sync::OnceLock;

use engine::session::{ExecutedCommand, OffloadResult};
use proto::{OwnedArgs, Resp};
use tokio::sync::{mpsc, oneshot};

/// What a session asks.
pub(crate) struct SentinelRequest {
    pub(crate) kind: RequestKind,
    /// What the session speaks.
    pub(crate) resp: Resp,
    /// The command, for the books of its worker.
    pub(crate) ran: ExecutedCommand,
    /// The way back.
    pub(crate) answer: oneshot::Sender<OffloadResult>,
}

/// What a session asks about.
pub(crate) enum RequestKind {
    /// This command.
    Command(OwnedArgs),
    /// The Sentinel's section of INFO, behind this text.
    Info(String),
}

/// Where requests are left; there is nobody to take them but in a Sentinel.
#[derive(Default)]
pub(crate) struct RequestQueue(OnceLock<mpsc::UnboundedSender<SentinelRequest>>);

impl RequestQueue {
    /// Has requests come from here on; they wait until somebody takes them.
    pub(crate) fn open(&self) -> mpsc::UnboundedReceiver<SentinelRequest> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.set(sender).expect("there is one Sentinel");
        receiver
    }

    /// Leaves a request. If nobody takes it, its session ends: then the process does, too.
    pub(crate) fn push(&self, request: SentinelRequest) {
        if let Some(sender) = self.0.get() {
            let _ = sender.send(request);
        }
    }
}
