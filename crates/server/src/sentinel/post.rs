//! What sessions leave for the Sentinel's thread.
//!
//! Invariant: a session leaves one question at a time and waits, so there are no more questions
//! than clients.

use std::sync::OnceLock;

use engine::session::{Executed, OffloadResult};
use proto::{OwnedArgs, Resp};
use tokio::sync::{mpsc, oneshot};

/// What a session asks.
pub(crate) struct Question {
    pub(crate) matter: Matter,
    /// What the session speaks.
    pub(crate) resp: Resp,
    /// The command, for the books of its worker.
    pub(crate) ran: Executed,
    /// The way back.
    pub(crate) answer: oneshot::Sender<OffloadResult>,
}

/// What a session asks about.
pub(crate) enum Matter {
    /// This command.
    Command(OwnedArgs),
    /// The Sentinel's section of INFO, behind this text.
    Info(String),
}

/// Where questions are left; there is nobody to take them but in a Sentinel.
#[derive(Default)]
pub(crate) struct Post(OnceLock<mpsc::UnboundedSender<Question>>);

impl Post {
    /// Has questions come from here on; they wait until somebody takes them.
    pub(crate) fn open(&self) -> mpsc::UnboundedReceiver<Question> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.set(sender).expect("there is one Sentinel");
        receiver
    }

    /// Leaves a question. If nobody takes it, its session ends: then the process does, too.
    pub(crate) fn leave(&self, question: Question) {
        if let Some(sender) = self.0.get() {
            let _ = sender.send(question);
        }
    }
}
