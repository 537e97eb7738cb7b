//! Requests that another node of the cluster executes for a client of this one.
//!
//! Invariant: the requests of a batch are one session's, in the order in which its client sent
//! them, and each has its reply in that order, whatever became of the way there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::hash_slot::hash_slot;
use commands::Flags;
use proto::Resp;
use proto::args::encode_command;
use tokio::sync::oneshot;

use super::multi::MultiQueue;
use super::suspension::{ExecutedCommand, OffloadResult};
use crate::clients::registry::Client;

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
    /// The client, in whose figures the replies count that are here already.
    pub client: Arc<Client>,
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
    /// A script or a function, as the one command of a transaction: what its node says of it stands
    /// elsewhere among the replies than what the program says. A script that came as its digest goes in its own words
    /// if this node has them, as its owner may not.
    Program(Option<Arc<[u8]>>),
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
        client: &Arc<Client>,
        (database, resp, ceiling): (usize, Resp, usize),
        request: ForwardedRequest,
    ) -> Box<Self> {
        let (client, bytes) = (Arc::clone(client), request.memory());
        let requests = vec![request];
        Box::new(Self { node, asks, client, database, resp, ceiling, requests, bytes })
    }

    /// What its requests take, as this node keeps them.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Whether requests for the same node may go along. What waits, is a transaction or is asked
    /// for a slot on the move goes alone, so that nothing overtakes it.
    pub(crate) fn may_grow(&self) -> bool {
        let few = self.requests.len() < REQUESTS_MAX && self.bytes < BYTES_MAX;
        few && !self.asks && self.requests.last().is_some_and(|last| last.body.may_go_along())
    }

    /// Adds a request that may go along.
    pub(crate) fn push(&mut self, request: ForwardedRequest) {
        self.bytes += request.memory();
        self.requests.push(request);
    }

    /// The command that waits at its node, if this is one that may.
    pub fn blocking(&self) -> Option<&ExecutedCommand> {
        let only = self.requests.first()?;
        matches!(only.body, ForwardBody::Blocking).then_some(&only.ran)
    }
}

impl ForwardBody {
    /// Whether it may go with others, in one write.
    pub(crate) fn may_go_along(&self) -> bool {
        matches!(self, Self::Plain | Self::Program(_))
    }
}

impl ForwardedRequest {
    /// Appends what is sent for it, and says how many replies come before its own. The node is told
    /// that the slot is on the move to it if `asks`. The MULTI of a transaction is not in it.
    pub fn encode(&self, asks: bool, out: &mut Vec<u8>) -> usize {
        match &self.body {
            ForwardBody::Plain | ForwardBody::Blocking => {
                let before = encode_asking(asks, out);
                self.ran.args.as_args().encode(out);
                before
            }
            ForwardBody::Program(source) => {
                let before = Self::encode_multi(asks, out);
                match source {
                    Some(source) => self.encode_with_source(source, out),
                    None => self.ran.args.as_args().encode(out),
                }
                encode_exec(out);
                // Those to MULTI and to the program itself.
                before + 2
            }
            ForwardBody::Transaction(queued) => queued.encode(out),
        }
    }

    /// Appends what begins a transaction, and says how many replies come before that to MULTI.
    pub fn encode_multi(asks: bool, out: &mut Vec<u8>) -> usize {
        let before = encode_asking(asks, out);
        encode_command([b"MULTI".as_slice()].into_iter(), out);
        before
    }

    fn encode_with_source(&self, source: &[u8], out: &mut Vec<u8>) {
        let reads_only = self.ran.entry.spec.flags.has(Flags::READONLY);
        let name: &[u8] = if reads_only { b"EVAL_RO" } else { b"EVAL" };
        let arguments = self.ran.args.as_args().skip(2);
        let words: Vec<&[u8]> = [name, source].into_iter().chain(arguments.iter()).collect();
        encode_command(words.into_iter(), out);
    }

    /// The slot of its first key.
    pub fn slot(&self) -> Option<u16> {
        self.keys().first().map(|key| hash_slot(key))
    }

    /// Its keys, in its own words.
    pub fn keys(&self) -> Vec<&[u8]> {
        let (args, mut keys) = (self.ran.args.as_args(), Vec::new());
        // A count that lies has the node refuse the request.
        let _ = self.ran.entry.spec.visit_keys(args, |index| keys.extend(args.get(index)));
        keys
    }

    fn memory(&self) -> usize {
        let args = self.ran.args.memory();
        match &self.body {
            ForwardBody::Plain | ForwardBody::Program(None) => args,
            // Its session has them once more.
            ForwardBody::Blocking => args * 2,
            ForwardBody::Program(Some(source)) => args + source.len(),
            ForwardBody::Transaction(QueuedRequests(queue)) => args + queue.memory(),
        }
    }
}

fn encode_asking(asks: bool, out: &mut Vec<u8>) -> usize {
    if asks {
        encode_command([b"ASKING".as_slice()].into_iter(), out);
    }
    usize::from(asks)
}

fn encode_exec(out: &mut Vec<u8>) {
    encode_command([b"EXEC".as_slice()].into_iter(), out);
}

impl QueuedRequests {
    pub(crate) fn new(queue: Arc<MultiQueue>) -> Self {
        Self(queue)
    }

    fn encode(&self, out: &mut Vec<u8>) -> usize {
        self.0.iter_from(0).for_each(|queued| queued.args.encode(out));
        encode_exec(out);
        self.0.len()
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
