//! What the port of HTTP reads of the server.
//!
//! Invariant: figures come from INFO's own text; what changes the server is a client's session.

use std::ops::Deref;
use std::sync::OnceLock;

use http_body_util::Full;
use hyper::StatusCode;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::answer_memory::AnswerMemory;
use super::response::{HttpResponse, PLAIN, text};
use crate::links::Links;
use crate::net::network::Network;

/// The network, the links, and what tells INFO's text.
pub(crate) struct HttpState {
    pub(crate) network: &'static Network,
    pub(crate) links: &'static Links,
    /// All sections of INFO that need no look at a key.
    pub(crate) info: Box<dyn Fn() -> String + Send + Sync>,
    /// The answers that are made or have not left.
    pub(super) answers: AnswerMemory,
    /// The thread on which answers are made that take long; there before the first request.
    pub(super) maker: OnceLock<Handle>,
}

impl HttpState {
    /// What is there to read; `info` tells all sections of INFO that need no look at a key.
    pub(crate) fn new(
        network: &'static Network,
        links: &'static Links,
        info: Box<dyn Fn() -> String + Send + Sync>,
    ) -> Self {
        Self { network, links, info, answers: AnswerMemory::default(), maker: OnceLock::new() }
    }

    /// Makes an answer on the other thread, as long as it is waited for.
    pub(super) async fn make(
        &self,
        answer: impl Future<Output = HttpResponse> + Send + 'static,
    ) -> HttpResponse {
        let maker = self.maker.get().expect("the thread is there before requests come");
        let mut task = WantedTask(maker.spawn(answer));
        (&mut task.0).await.unwrap_or_else(|_| {
            let why = "The answer could not be made.\n";
            text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, why).map(Full::new)
        })
    }
}

/// A task that ends with the wait for it.
struct WantedTask(JoinHandle<HttpResponse>);

impl Drop for WantedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Deref for HttpState {
    type Target = Network;

    fn deref(&self) -> &Network {
        self.network
    }
}
