//! Requests of a batch that are sent on to another node.
//!
//! Invariant: what stands behind a request for another node, and is for another one, waits.

use engine::execute::{join_forward, send_on};
use engine::session::ForwardBatch;

use super::Batch;
use crate::net::connection::Connection;

impl Batch<'_> {
    /// Sends a request on to another node, with those right behind it that are for the same node.
    #[cold]
    pub(super) fn forward(&mut self, serve: &mut Connection, mut batch: Box<ForwardBatch>) {
        loop {
            if self.window.is_empty() {
                let limits = self.worker.server.request_limits(serve.session.is_authenticated());
                self.window.fill(self.data, &limits);
            }
            let Some((args, located, end)) = self.window.first(self.data) else { break };
            let executor = self.worker.executor();
            if !join_forward(executor, &serve.session, &mut batch, args, located) {
                break;
            }
            self.window.advance(end);
            self.commands += 1;
        }
        serve.suspension = send_on(self.worker.executor(), &serve.session, batch);
    }
}
