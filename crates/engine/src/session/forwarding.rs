//! Requests that another node of the cluster executes for a client of this one.
//!
//! Invariant: the requests of a batch are one session's, in the order in which its client sent
//! them, and each has its reply in that order, whatever became of the way there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use commands::Flags;
use proto::args::encode_command;
use proto::{Args, Resp};
use tokio::sync::oneshot;

use super::multi::MultiQueue;
use super::suspension::{ExecutedCommand, OffloadResult};
use crate::table::command_table::CommandEntry;

/// `lib-name` of the links by which nodes send requests on: what comes by one is sent on no
/// further.
pub const PROXY_LIBRARY: &[u8] = b"apus-cluster-proxy";

/// So many requests of a pipeline are sent on together.
const REQUESTS_MAX: usize = 64;

/// A batch of so many bytes takes no more requests.
const BYTES_MAX: usize = 256 << 10;

/// What sends requests on to other nodes.
pub trait ClusterProxy: Send + Sync {
    /// Sends a batch on. No worker waits for that: the replies come by the order's sender.
    fn forward(&'static self, order: ForwardOrder);
}

/// A batch, and where its replies go.
pub struct ForwardOrder {
    /// What is to be sent on.
    pub batch: Box<ForwardBatch>,
    /// Takes a result for each request, in order.
    pub sender: oneshot::Sender<ForwardedReplies>,
    /// CLIENT UNBLOCK of a client whose command waits there; true asks for an error.
    pub unblocked: oneshot::Receiver<bool>,
}

/// What came back, a result for each request, in order.
pub type ForwardedReplies = Vec<OffloadResult>;

/// Requests for one node.
pub struct ForwardBatch {
    /// The name of the node.
    pub node: Box<str>,
    /// Whether the node has the keys as their slot is on the move to it.
    pub asks: bool,
    /// The client's logical database.
    pub database: usize,
    /// The client's protocol.
    pub resp: Resp,
    /// The most that may wait to be sent to the client.
    pub ceiling: usize,
    /// The requests, at least one.
    pub requests: Vec<ForwardedRequest>,
    bytes: usize,
}

/// A request that is sent on.
pub struct ForwardedRequest {
    /// The request, for the books of its session's worker.
    pub ran: ExecutedCommand,
    /// What is sent for it.
    pub body: ForwardBody,
}

/// What is sent for a request.
pub enum ForwardBody {
    /// The request as it came.
    Plain,
    /// The same; the command may wait at its node for long.
    Blocking,
    /// The same, of EVALSHA, and the script if this node has it.
    Digest(Option<Arc<[u8]>>),
    /// What was queued for an EXEC.
    Transaction(QueuedRequests),
}

/// What was queued for an EXEC that is sent on.
pub struct QueuedRequests(Arc<MultiQueue>);

/// A blocking command that waits at another node.
pub struct ForwardedWait {
    receiver: oneshot::Receiver<ForwardedReplies>,
    unblock: Option<oneshot::Sender<bool>>,
}

impl ForwardBatch {
    /// A batch of one request.
    pub(crate) fn new(
        (node, asks): (Box<str>, bool),
        (database, resp, ceiling): (usize, Resp, usize),
        request: ForwardedRequest,
    ) -> Box<Self> {
        let bytes = request.ran.args.memory();
        Box::new(Self { node, asks, database, resp, ceiling, requests: vec![request], bytes })
    }

    /// Whether requests for the same node may go along. What has to be sent again in other words,
    /// waits, or is asked for a slot on the move goes alone, so that nothing overtakes it.
    pub(crate) fn may_grow(&self) -> bool {
        let is_plain = |it: &ForwardedRequest| matches!(it.body, ForwardBody::Plain);
        let few = self.requests.len() < REQUESTS_MAX && self.bytes < BYTES_MAX;
        few && !self.asks && self.requests.last().is_some_and(is_plain)
    }

    /// Adds a plain request.
    pub(crate) fn push(&mut self, entry: &'static CommandEntry, args: Args<'_>) {
        let ran = ExecutedCommand::begun(entry, args);
        self.bytes += ran.args.memory();
        self.requests.push(ForwardedRequest { ran, body: ForwardBody::Plain });
    }

    /// The command that waits at its node, if this is one that may.
    pub fn blocking(&self) -> Option<&ExecutedCommand> {
        let only = self.requests.first()?;
        matches!(only.body, ForwardBody::Blocking).then_some(&only.ran)
    }
}

impl ForwardedRequest {
    /// Appends what is sent for it, and says how many replies come before its own.
    pub fn encode(&self, out: &mut Vec<u8>) -> usize {
        match &self.body {
            ForwardBody::Plain | ForwardBody::Blocking | ForwardBody::Digest(_) => {
                self.ran.args.as_args().encode(out);
                0
            }
            ForwardBody::Transaction(queued) => queued.encode(out),
        }
    }

    /// The same with the script instead of its digest, if that is known here.
    pub fn encode_with_script(&self, out: &mut Vec<u8>) -> bool {
        let ForwardBody::Digest(Some(source)) = &self.body else { return false };
        let arguments = self.ran.args.as_args();
        let reads_only = self.ran.entry.spec.flags.has(Flags::READONLY);
        let name: &[u8] = if reads_only { b"EVAL_RO" } else { b"EVAL" };
        let words: Vec<&[u8]> =
            [name, source].into_iter().chain(arguments.skip(2).iter()).collect();
        encode_command(words.into_iter(), out);
        true
    }
}

impl QueuedRequests {
    pub(crate) fn new(queue: Arc<MultiQueue>) -> Self {
        Self(queue)
    }

    fn encode(&self, out: &mut Vec<u8>) -> usize {
        encode_command([b"MULTI".as_slice()].into_iter(), out);
        self.0.iter_from(0).for_each(|queued| queued.args.encode(out));
        encode_command([b"EXEC".as_slice()].into_iter(), out);
        self.0.len() + 1
    }
}

impl ForwardedWait {
    /// A wait that ends by a reply.
    pub(crate) fn new(
        receiver: oneshot::Receiver<ForwardedReplies>,
        unblock: oneshot::Sender<bool>,
    ) -> Self {
        Self { receiver, unblock: Some(unblock) }
    }

    /// Has the command end at its node; the reply that it has there is the client's.
    pub fn unblock(&mut self, with_error: bool) {
        if let Some(unblock) = self.unblock.take() {
            // Without a receiver the reply is on its way.
            let _ = unblock.send(with_error);
        }
    }

    /// The reply, once it has come; none if there will not be one.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<OffloadResult>> {
        Pin::new(&mut self.receiver).poll(cx).map(|replies| replies.ok()?.pop())
    }
}
