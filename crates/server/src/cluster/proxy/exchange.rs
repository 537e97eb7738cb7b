//! A batch on its way: sent, redirected, answered.
//!
//! Invariants: each request has one reply, in the order of the requests. What is sent once more was
//! not sent before, or was answered by an error that says that nothing was done. What was sent
//! behind it for the same slot had the same answer, and goes the same way behind it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use cluster::NodeId;
use config::settings::{TLS_CLUSTER, TLS_REPLICATION};
use engine::journal::ReplyLsn;
use engine::session::{
    AfterOffload, ExecutedCommand, ForwardBatch, ForwardBody, ForwardOrder, ForwardedReplies,
    ForwardedRequest, OffloadResult,
};
use proto::args::encode_command;
use proto::{Output, Reply, Resp};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::handle::RequestProxy;
use super::link::{LinkOrder, LinkReply, LinkRequest};
use super::pool::{LinkHandle, LinkKey, LinkPools};
use super::redirection::RedirectedTo;

/// A request is sent to no more nodes, one behind the other.
const HOPS_MAX: u32 = 16;

/// From the third node on each waits so much longer: the nodes are not of one mind yet.
const PAUSE: Duration = Duration::from_millis(10);

/// What a client is told that was asked to wait no longer, where its node cannot be asked.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// A batch under way.
struct ForwardExchange {
    pools: Rc<LinkPools>,
    batch: Box<ForwardBatch>,
    is_encrypted: bool,
    /// The replies that are there.
    replies: Vec<Option<Output>>,
}

/// A request that is to be sent.
#[derive(Clone, Copy)]
struct ForwardAttempt {
    /// Its place in the batch.
    index: usize,
    to: NodeId,
    /// Whether the slot is on the move to that node.
    asks: bool,
    /// Whether the script is sent instead of its digest.
    with_script: bool,
    /// Whether a link has ended under it before.
    is_retry: bool,
}

/// What is done about a reply.
enum ReplyAction {
    /// The reply is the client's.
    Final(Output),
    /// The request is sent once more; if that may not be, the reply is the client's.
    Again(ForwardAttempt, Output),
}

/// What a command that waits elsewhere is woken by.
enum Wake {
    Replies(Vec<LinkReply>),
    Unblock(bool),
    /// Its session is over.
    Gone,
}

/// Answers a batch that cannot be sent.
pub(super) fn refuse(proxy: &RequestProxy, order: ForwardOrder, why: &str) {
    let ForwardOrder { batch, sender, .. } = order;
    let count = batch.requests.len() as u64;
    proxy.stats.requests.fetch_add(count, Ordering::Relaxed);
    proxy.stats.errors.fetch_add(count, Ordering::Relaxed);
    let error = || error(&format!("ERR Can't send the request on: {why}"));
    let results = batch.requests.into_iter().map(|request| result(request, error(), 0));
    let _ = sender.send(results.collect());
}

/// Sends a batch on, and gives its session the replies.
pub(super) async fn run(pools: Rc<LinkPools>, order: ForwardOrder) {
    let ForwardOrder { batch, mut sender, unblocked } = order;
    let server = pools.context.server;
    let proxy = &pools.context.node.proxy;
    let began_us = server.keyspace.clock().monotonic_us();
    let Some(node) = NodeId::parse(batch.node.as_bytes()) else {
        let order = ForwardOrder { batch, sender, unblocked };
        return refuse(proxy, order, "the node has no name");
    };
    let (count, asks, waits) = (batch.requests.len(), batch.asks, batch.blocking().is_some());
    proxy.stats.requests.fetch_add(count as u64, Ordering::Relaxed);
    let is_encrypted = server.config.get(TLS_CLUSTER) || server.config.get(TLS_REPLICATION);
    let replies = (0..count).map(|_| None).collect();
    let mut exchange = ForwardExchange { pools: Rc::clone(&pools), batch, is_encrypted, replies };
    let hop = |index| ForwardAttempt { index, to: node, asks, with_script: false, is_retry: false };
    let mut due: Vec<ForwardAttempt> = (0..count).map(hop).collect();
    let mut unblocked = Some(unblocked).filter(|_| waits);
    for attempt in 0..HOPS_MAX {
        if attempt > 1 {
            sleep(PAUSE * (attempt - 1)).await;
        }
        // What nobody waits for is not begun.
        if sender.is_closed() {
            return;
        }
        let is_last = attempt + 1 == HOPS_MAX;
        let mut next = Vec::new();
        for hops in due.chunk_by(|one, other| one.to == other.to) {
            let replies = match &mut unblocked {
                None => exchange.send(hops).await,
                Some(unblocked) => {
                    let told = exchange.send_and_wait(hops, &mut sender, unblocked).await;
                    let Some(replies) = told else { return };
                    replies
                }
            };
            // What was lost may still be done, and nothing of its client may overtake that.
            let is_lost = replies.iter().any(|reply| matches!(reply, LinkReply::Lost(_)));
            let may_retry = !is_lost && !is_last;
            for (hop, reply) in hops.iter().zip(replies) {
                next.extend(exchange.settle(*hop, reply, (may_retry, is_last)));
            }
        }
        due = next;
        if due.is_empty() {
            break;
        }
    }
    let micros = u64::try_from(server.keyspace.clock().monotonic_us() - began_us).unwrap_or(0);
    let _ = sender.send(exchange.into_results(if waits { 0 } else { micros }));
}

impl ForwardExchange {
    fn key(&self, node: NodeId) -> LinkKey {
        let ForwardBatch { resp, database, .. } = *self.batch;
        LinkKey { node, resp, database, is_encrypted: self.is_encrypted }
    }

    /// Sends requests to one node, and waits for what comes of them.
    async fn send(&self, hops: &[ForwardAttempt]) -> Vec<LinkReply> {
        let (order, receiver) = self.order_of(hops);
        self.pools.send(self.key(hops[0].to), order);
        receiver.await.unwrap_or_else(|_| lost(hops.len()))
    }

    /// Sends a request that may wait at its node; nothing if its client has gone.
    async fn send_and_wait(
        &self,
        hops: &[ForwardAttempt],
        sender: &mut oneshot::Sender<ForwardedReplies>,
        unblocked: &mut oneshot::Receiver<bool>,
    ) -> Option<Vec<LinkReply>> {
        let key = self.key(hops[0].to);
        let link = self.pools.take(key);
        let (order, mut receiver) = self.order_of(hops);
        // An order that is given back is one whose receiver hears that.
        drop(link.send(order));
        loop {
            match self.wake(&mut receiver, sender, unblocked).await {
                Wake::Replies(replies) => {
                    self.pools.keep(key, link);
                    return Some(replies);
                }
                Wake::Gone => {
                    link.abort();
                    return None;
                }
                Wake::Unblock(with_error) => {
                    if !self.unblock(key, &link, with_error).await {
                        link.abort();
                        let told = unblocked_here(with_error, key.resp);
                        return Some(vec![LinkReply::Whole(told, None)]);
                    }
                }
            }
        }
    }

    async fn wake(
        &self,
        receiver: &mut oneshot::Receiver<Vec<LinkReply>>,
        sender: &mut oneshot::Sender<ForwardedReplies>,
        unblocked: &mut oneshot::Receiver<bool>,
    ) -> Wake {
        poll_fn(|cx| {
            if let Poll::Ready(replies) = Pin::new(&mut *receiver).poll(cx) {
                return Poll::Ready(Wake::Replies(replies.unwrap_or_else(|_| lost(1))));
            }
            if sender.poll_closed(cx).is_ready() {
                return Poll::Ready(Wake::Gone);
            }
            // What is heard once is not asked again.
            if !unblocked.is_terminated()
                && let Poll::Ready(Ok(with_error)) = Pin::new(&mut *unblocked).poll(cx)
            {
                return Poll::Ready(Wake::Unblock(with_error));
            }
            Poll::Pending
        })
        .await
    }

    /// Has a node end the wait of a link's command; whether the node has heard that, so that the
    /// reply comes by the link.
    async fn unblock(&self, key: LinkKey, link: &LinkHandle, with_error: bool) -> bool {
        let Some(id) = link.state.client_id.get() else { return false };
        let how: &[u8] = if with_error { b"ERROR" } else { b"TIMEOUT" };
        let id = id.to_string();
        let words: [&[u8]; 4] = [b"CLIENT", b"UNBLOCK", id.as_bytes(), how];
        let mut bytes = Vec::new();
        encode_command(words.into_iter(), &mut bytes);
        let requests = vec![LinkRequest { begin: 0, skipped: 0 }];
        let (sender, receiver) = oneshot::channel();
        self.pools.send(key, LinkOrder { bytes, requests, ceiling: usize::MAX, sender });
        let replies = receiver.await.unwrap_or_default();
        // 0 is said where the command waits no more: its reply is on the way.
        let Some(LinkReply::Whole(output, _)) = replies.first() else { return false };
        output.front().starts_with(b":")
    }

    fn order_of(&self, hops: &[ForwardAttempt]) -> (LinkOrder, oneshot::Receiver<Vec<LinkReply>>) {
        let (mut bytes, mut requests) = (Vec::new(), Vec::with_capacity(hops.len()));
        for hop in hops {
            let request = &self.batch.requests[hop.index];
            let begin = bytes.len();
            if hop.asks {
                encode_command([b"ASKING".as_slice()].into_iter(), &mut bytes);
            }
            let before = match hop.with_script && request.encode_with_script(&mut bytes) {
                true => 0,
                false => request.encode(&mut bytes),
            };
            requests.push(LinkRequest { begin, skipped: before + usize::from(hop.asks) });
        }
        let (sender, receiver) = oneshot::channel();
        let ceiling = self.batch.ceiling;
        (LinkOrder { bytes, requests, ceiling, sender }, receiver)
    }

    /// Keeps a reply, or says how the request is sent once more.
    fn settle(
        &mut self,
        hop: ForwardAttempt,
        reply: LinkReply,
        (may_retry, is_last): (bool, bool),
    ) -> Option<ForwardAttempt> {
        match self.judge(hop, reply, may_retry) {
            ReplyAction::Again(next, _) if !is_last => {
                let stats = &self.pools.context.node.proxy.stats;
                stats.redirections.fetch_add(u64::from(next.to != hop.to), Ordering::Relaxed);
                Some(next)
            }
            ReplyAction::Again(_, output) | ReplyAction::Final(output) => {
                self.replies[hop.index] = Some(output);
                None
            }
        }
    }

    fn judge(&self, hop: ForwardAttempt, reply: LinkReply, may_retry: bool) -> ReplyAction {
        let node = self.pools.context.node;
        let name = || {
            node.link_address(hop.to, self.is_encrypted)
                .map_or_else(|| hop.to.as_str().to_owned(), |address| address.to_string())
        };
        let fail = |text: String| {
            node.proxy.stats.errors.fetch_add(1, Ordering::Relaxed);
            error(&text)
        };
        match reply {
            LinkReply::Whole(output, refused) => self.judge_reply(hop, output, refused),
            LinkReply::Unreachable(why) => ReplyAction::Final(fail(format!(
                "CLUSTERDOWN The node {} that serves the key cannot be reached: {why}",
                name()
            ))),
            LinkReply::Unsent(why) => {
                let text = format!(
                    "CLUSTERDOWN The link to the node {} that serves the key ended before the \
                     command was sent: {why}",
                    name()
                );
                match may_retry && !hop.is_retry {
                    true => {
                        ReplyAction::Again(ForwardAttempt { is_retry: true, ..hop }, error(&text))
                    }
                    false => ReplyAction::Final(fail(text)),
                }
            }
            LinkReply::Lost(why) => ReplyAction::Final(fail(format!(
                "ERR No reply from the node {} that serves the key, so the command may or may not \
                 have taken effect: {why}",
                name()
            ))),
        }
    }

    /// What a reply says that has come: an error may send the request elsewhere.
    fn judge_reply(
        &self,
        hop: ForwardAttempt,
        output: Output,
        refused: Option<Vec<u8>>,
    ) -> ReplyAction {
        let Some(own) = output.front().strip_prefix(b"-") else {
            return ReplyAction::Final(output);
        };
        let line = refused.as_deref().unwrap_or(own);
        if let Some(redirected) = RedirectedTo::parse(line) {
            let found = redirected.find(self.pools.context.node, hop.to);
            let Some(to) = found else { return ReplyAction::Final(output) };
            let next = ForwardAttempt { to, asks: redirected.asks, ..hop };
            let told = match refused {
                Some(line) => error(&String::from_utf8_lossy(&line)),
                None => output,
            };
            return ReplyAction::Again(next, told);
        }
        let body = &self.batch.requests[hop.index].body;
        let has_script = matches!(body, ForwardBody::Digest(Some(_)));
        if has_script && !hop.with_script && own.starts_with(b"NOSCRIPT") {
            return ReplyAction::Again(ForwardAttempt { with_script: true, ..hop }, output);
        }
        match refused {
            Some(cause) if own.starts_with(b"EXECABORT") => {
                let cause = String::from_utf8_lossy(&cause);
                let told = format!("EXECABORT Transaction discarded because of: {cause}");
                ReplyAction::Final(error(&told))
            }
            _ => ReplyAction::Final(output),
        }
    }

    fn into_results(self, micros: u64) -> ForwardedReplies {
        let without = || error("ERR The request was sent on, and its reply is lost");
        let replies = self.replies.into_iter().map(|reply| reply.unwrap_or_else(without));
        let both = self.batch.requests.into_iter().zip(replies);
        both.map(|(request, output)| result(request, output, micros)).collect()
    }
}

fn result(request: ForwardedRequest, output: Output, micros: u64) -> OffloadResult {
    let failed = matches!(output.front().first(), Some(b'-' | b'!'));
    let ran = ExecutedCommand { micros, failed, ..request.ran };
    OffloadResult { output, seen: ReplyLsn::default(), ran, then: AfterOffload::Nothing }
}

fn error(text: &str) -> Output {
    let mut output = Output::new();
    Reply::new(&mut output, Resp::Two).error(text);
    output
}

/// What a client is told whose command is given up, as its node cannot be asked to end it.
fn unblocked_here(with_error: bool, resp: Resp) -> Output {
    if with_error {
        return error(UNBLOCKED);
    }
    let mut output = Output::new();
    Reply::new(&mut output, resp).null_array();
    output
}

/// Of requests whose link has ended without a word nothing is known.
fn lost(count: usize) -> Vec<LinkReply> {
    (0..count).map(|_| LinkReply::Lost("the link has ended".to_owned())).collect()
}
