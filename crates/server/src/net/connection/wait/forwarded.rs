//! Waits for another node of the cluster, to which requests were sent on.
//!
//! Invariant: each request has one reply, in the order of the requests, and is booked with it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use engine::clients::registry::client_flags;
use engine::commit::accounting;
use engine::session::life::{StepEnd, Waits};
use engine::session::{ForwardedReplies, OffloadResult, Suspension};
use proto::Output;
use tokio::sync::oneshot;

use super::super::Connection;

impl Connection {
    /// Passes on what another node replied to the requests that were sent on to it.
    pub(super) fn await_forwarded(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut receiver: oneshot::Receiver<ForwardedReplies>,
    ) -> StepEnd {
        match Pin::new(&mut receiver).poll(cx) {
            Poll::Pending => {
                self.suspension = Suspension::Forwarded(receiver);
                StepEnd::Wait
            }
            Poll::Ready(Err(_)) => StepEnd::End,
            Poll::Ready(Ok(replies)) => {
                self.worker.start_batch();
                for mut done in replies {
                    if !self.session.replies() {
                        done.output = Output::new();
                    }
                    self.book(&done, accounting::account_forwarded);
                    self.pass_on_booked(done);
                }
                StepEnd::Again
            }
        }
    }

    /// Passes on the reply to a command that waited at another node. Without one its thread has
    /// panicked, and nobody knows the result.
    pub(super) fn reply_forwarded(&mut self, done: Option<OffloadResult>) {
        match done {
            Some(OffloadResult { output, ran, .. }) => {
                if let Suspension::Blocked(blocked) = &mut self.suspension {
                    blocked.ran.failed = ran.failed;
                }
                self.end_wait(output);
            }
            None => {
                self.cancel_wait();
                self.session.close();
            }
        }
    }

    /// A command that waited here for keys that another node serves now begins anew, and is sent on
    /// there.
    #[cold]
    pub(super) fn begin_anew(&mut self) {
        let Suspension::Blocked(blocked) = self.take_suspension() else { return };
        self.session.client.set_flag(client_flags::BLOCKED, false);
        self.forget_unblock();
        let args = blocked.ran.args.clone();
        self.leave_queues(*blocked);
        self.stand_first(args.as_args());
    }
}
