//! A batch on its way: sent, redirected, answered.
//!
//! Invariants: each request has one reply, in the order of the requests. What is sent once more was
//! not sent before, or was answered by an error that says that nothing was done. Nothing is sent
//! once more behind a request of its slot that came later and was done, nor once a request of the
//! batch is lost: what was sent first takes effect first, or not at all.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
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
use proto::{Output, Reply, Resp};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::handle::RequestProxy;
use super::held_memory::HeldMemory;
use super::link::{LinkOrder, LinkReply, LinkRequest};
use super::node_wait::{NodeAnswer, NodeWait};
use super::pool::{LinkHandle, LinkKey, LinkPools, LinkPurpose};
use super::redirection::RedirectedTo;

/// A request is sent to no more nodes, one behind the other.
const HOPS_MAX: u32 = 16;

/// From the third node on each waits so much longer: the nodes are not of one mind yet.
const PAUSE: Duration = Duration::from_millis(10);

/// What is sent together and is so long has a link of its own: it holds up nobody else, and is
/// nobody's burden if its client goes.
const LONG: usize = 256 << 10;

/// How the reply to an EXEC begins, its first byte left out, that was refused for its own sake.
const DISCARDED: &[u8] = b"EXECABORT Transaction discarded because of: ";

/// What a client is told that was asked to wait no longer, where its node cannot be asked.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// What a client is told of a request that would overtake others.
const NOT_SENT_AGAIN: &str = "TRYAGAIN The request was not executed: its slot went to another node \
                              while a later request of the same pipeline was";

/// The same where nobody knows what became of another request.
const NOT_SENT_BEHIND: &str = "TRYAGAIN The request was not executed: the reply to another request \
                               of the same pipeline is lost";

/// A batch under way.
struct ForwardExchange {
    pools: Rc<LinkPools>,
    batch: Box<ForwardBatch>,
    is_encrypted: bool,
    /// The replies that are there.
    replies: Vec<Option<Output>>,
    held: Rc<HeldMemory>,
    /// Whether the reply to any request is lost, which may still be done.
    is_lost: bool,
}

/// The session that a batch is of.
struct BatchSession {
    sender: oneshot::Sender<ForwardedReplies>,
    /// Hears of CLIENT UNBLOCK, if the batch is a command that may wait.
    unblocked: Option<oneshot::Receiver<bool>>,
    /// What was heard: whether the wait ends with an error.
    ends: Option<bool>,
}

/// A request that is to be sent.
#[derive(Clone, Copy)]
struct ForwardAttempt {
    /// Its place in the batch.
    index: usize,
    to: NodeId,
    /// Whether the slot is on the move to that node.
    asks: bool,
    /// Whether a link has ended under it before.
    is_retry: bool,
}

/// An attempt, and what came of it; nothing if the request was not sent.
type AttemptResult = (ForwardAttempt, Option<LinkReply>);

/// What is done about a reply.
enum ReplyAction {
    /// The reply is the client's.
    Final(Output),
    /// The request is sent to another node; if there may be no more of them, the reply is the
    /// client's.
    Follow(ForwardAttempt, Output),
    /// The request is sent once more, as nothing of it was sent; if that may not be, this is why.
    Retry(ForwardAttempt, String),
}

/// What a command that waits elsewhere is woken by.
enum Wake {
    Replies(Vec<LinkReply>),
    Unblock(bool),
    /// Its session is over.
    Gone,
    /// The node is to be asked again.
    Look,
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
    let ForwardOrder { batch, sender, unblocked } = order;
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
    let unblocked = Some(unblocked).filter(|_| waits);
    let mut session = BatchSession { sender, unblocked, ends: None };
    let mut exchange = ForwardExchange {
        pools: Rc::clone(&pools),
        held: HeldMemory::new(Arc::clone(&batch.client), batch.memory()),
        batch,
        is_encrypted,
        replies: (0..count).map(|_| None).collect(),
        is_lost: false,
    };
    let hop = |index| ForwardAttempt { index, to: node, asks, is_retry: false };
    let mut due: Vec<ForwardAttempt> = (0..count).map(hop).collect();
    for attempt in 0..HOPS_MAX {
        if attempt > 1 {
            sleep(PAUSE * (attempt - 1)).await;
        }
        let Some(results) = exchange.send_all(&due, &mut session).await else { return };
        due = exchange.settle(results, attempt + 1 == HOPS_MAX);
        if due.is_empty() {
            break;
        }
    }
    let micros = u64::try_from(server.keyspace.clock().monotonic_us() - began_us).unwrap_or(0);
    let _ = session.sender.send(exchange.into_results(if waits { 0 } else { micros }));
}

impl BatchSession {
    /// The replies to an order; nothing if the session is over before.
    async fn await_replies(
        &mut self,
        mut receiver: oneshot::Receiver<Vec<LinkReply>>,
        count: usize,
    ) -> Option<Vec<LinkReply>> {
        poll_fn(|cx| {
            if let Poll::Ready(replies) = Pin::new(&mut receiver).poll(cx) {
                return Poll::Ready(Some(replies.unwrap_or_else(|_| lost(count))));
            }
            self.sender.poll_closed(cx).map(|()| None)
        })
        .await
    }

    /// What comes first for a command that waits elsewhere.
    async fn wake(
        &mut self,
        receiver: &mut oneshot::Receiver<Vec<LinkReply>>,
        pause: Duration,
    ) -> Wake {
        let mut timer = pin!(sleep(pause));
        poll_fn(|cx| {
            if let Poll::Ready(replies) = Pin::new(&mut *receiver).poll(cx) {
                return Poll::Ready(Wake::Replies(replies.unwrap_or_else(|_| lost(1))));
            }
            if self.sender.poll_closed(cx).is_ready() {
                return Poll::Ready(Wake::Gone);
            }
            if let Some(unblocked) = &mut self.unblocked
                && let Poll::Ready(heard) = Pin::new(unblocked).poll(cx)
            {
                // What is heard once is not asked again.
                self.unblocked = None;
                if let Ok(with_error) = heard {
                    return Poll::Ready(Wake::Unblock(with_error));
                }
            }
            timer.as_mut().poll(cx).map(|()| Wake::Look)
        })
        .await
    }
}

impl ForwardExchange {
    fn key(&self, node: NodeId, purpose: LinkPurpose) -> LinkKey {
        let ForwardBatch { resp, database, .. } = *self.batch;
        LinkKey { node, resp, database, is_encrypted: self.is_encrypted, purpose }
    }

    /// Sends what is due, to one node after the other; nothing if its client has gone.
    async fn send_all(
        &mut self,
        due: &[ForwardAttempt],
        session: &mut BatchSession,
    ) -> Option<Vec<AttemptResult>> {
        let mut results = Vec::with_capacity(due.len());
        for hops in due.chunk_by(|one, other| one.to == other.to) {
            // What nobody waits for is not begun.
            if session.sender.is_closed() {
                return None;
            }
            if self.is_lost {
                results.extend(hops.iter().map(|hop| (*hop, None)));
                continue;
            }
            let replies = match &self.batch.requests[hops[0].index].body {
                ForwardBody::Blocking => self.send_and_wait(hops, session).await?,
                ForwardBody::Transaction(_) => self.send_transaction(hops, session).await?,
                ForwardBody::Plain | ForwardBody::Program(_) => {
                    self.send_together(hops, session).await?
                }
            };
            self.is_lost |= replies.iter().any(|reply| matches!(reply, LinkReply::Lost(_)));
            results.extend(hops.iter().copied().zip(replies.into_iter().map(Some)));
        }
        Some(results)
    }

    /// Sends requests in one write; nothing if their client has gone.
    async fn send_together(
        &self,
        hops: &[ForwardAttempt],
        session: &mut BatchSession,
    ) -> Option<Vec<LinkReply>> {
        let (order, receiver) = self.order_of(hops);
        if order.bytes.len() < LONG {
            self.pools.send(self.key(hops[0].to, self.purpose_of(hops)), order);
            return session.await_replies(receiver, hops.len()).await;
        }
        let key = self.key(hops[0].to, LinkPurpose::Alone);
        let link = self.pools.take(key);
        let Some(replies) = self.send_by(&link, (order, receiver), session).await else {
            link.abort();
            return None;
        };
        self.pools.keep(key, link);
        Some(replies)
    }

    /// What links have to be for that may send these.
    fn purpose_of(&self, hops: &[ForwardAttempt]) -> LinkPurpose {
        let of_one = |hop: &ForwardAttempt| {
            let request = &self.batch.requests[hop.index];
            match &request.body {
                ForwardBody::Program(_) => LinkPurpose::Programs,
                _ if request.ran.entry.may_write() => LinkPurpose::Writes,
                _ => LinkPurpose::Reads,
            }
        };
        hops.iter().map(of_one).max().unwrap_or(LinkPurpose::Writes)
    }

    /// Sends a transaction: MULTI first, and the rest once its node has said that MULTI counts, as
    /// each of the commands would be done by itself without. Nothing else goes by that link
    /// meanwhile.
    async fn send_transaction(
        &self,
        hops: &[ForwardAttempt],
        session: &mut BatchSession,
    ) -> Option<Vec<LinkReply>> {
        let key = self.key(hops[0].to, LinkPurpose::Alone);
        let link = self.pools.take(key);
        let mut bytes = Vec::new();
        let skipped = ForwardedRequest::encode_multi(hops[0].asks, &mut bytes);
        let order = self.order(bytes, vec![LinkRequest { begin: 0, skipped, is_program: false }]);
        let mut opened = self.send_by(&link, order, session).await?;
        match opened.pop() {
            Some(LinkReply::Whole(output, _)) if output.front() == b"+OK\r\n" => {}
            // No command was sent.
            Some(LinkReply::Lost(why)) => return Some(vec![LinkReply::Unsent(why)]),
            refused => {
                self.pools.keep(key, link);
                return Some(refused.into_iter().collect());
            }
        }
        let Some(replies) = self.send_by(&link, self.order_of(hops), session).await else {
            link.abort();
            return None;
        };
        // What EXEC has not ended would take in whatever comes next.
        if replies.iter().all(ends_transaction) {
            self.pools.keep(key, link);
        }
        Some(replies)
    }

    /// Sends an order by a link of its own; nothing if the session is over before the replies.
    async fn send_by(
        &self,
        link: &LinkHandle,
        (order, receiver): (LinkOrder, oneshot::Receiver<Vec<LinkReply>>),
        session: &mut BatchSession,
    ) -> Option<Vec<LinkReply>> {
        let count = order.requests.len();
        match self.pools.send_by(link, order) {
            None => session.await_replies(receiver, count).await,
            Some(_) => Some(unsent(count)),
        }
    }

    /// Sends a request that may wait at its node; nothing if its client has gone.
    async fn send_and_wait(
        &self,
        hops: &[ForwardAttempt],
        session: &mut BatchSession,
    ) -> Option<Vec<LinkReply>> {
        let key = self.key(hops[0].to, LinkPurpose::Alone);
        if let Some(with_error) = session.ends {
            return Some(unblocked_here(with_error, key.resp));
        }
        let link = self.pools.take(key);
        let (order, mut receiver) = self.order_of(hops);
        if self.pools.send_by(&link, order).is_some() {
            return Some(unsent(1));
        }
        let asked = LinkKey { purpose: LinkPurpose::Questions, ..key };
        let mut wait = NodeWait::new(&self.pools, asked, &link);
        let given_up = loop {
            match session.wake(&mut receiver, wait.pause()).await {
                Wake::Replies(replies) => {
                    self.pools.keep(key, link);
                    return Some(replies);
                }
                Wake::Gone => {
                    link.abort();
                    return None;
                }
                Wake::Unblock(with_error) => {
                    session.ends = Some(with_error);
                    wait.end(with_error);
                }
                Wake::Look => {}
            }
            match wait.look().await {
                NodeAnswer::Waits => {}
                NodeAnswer::Refuses => {
                    break unblocked_here(session.ends.unwrap_or_default(), key.resp);
                }
                NodeAnswer::Lost(why) => break vec![LinkReply::Lost(why)],
            }
        };
        // A reply that has come meanwhile is the reply.
        let replies = receiver.try_recv().unwrap_or(given_up);
        link.abort();
        Some(replies)
    }

    fn order_of(&self, hops: &[ForwardAttempt]) -> (LinkOrder, oneshot::Receiver<Vec<LinkReply>>) {
        let (mut bytes, mut requests) = (Vec::new(), Vec::with_capacity(hops.len()));
        for hop in hops {
            let begin = bytes.len();
            let request = &self.batch.requests[hop.index];
            let skipped = request.encode(hop.asks, &mut bytes);
            let is_program = matches!(request.body, ForwardBody::Program(_));
            requests.push(LinkRequest { begin, skipped, is_program });
        }
        self.order(bytes, requests)
    }

    fn order(
        &self,
        bytes: Vec<u8>,
        requests: Vec<LinkRequest>,
    ) -> (LinkOrder, oneshot::Receiver<Vec<LinkReply>>) {
        let (sender, receiver) = oneshot::channel();
        let (ceiling, may_wait) = (self.batch.ceiling, self.batch.blocking().is_some());
        let held = Some(self.held.with_sent(bytes.len()));
        (LinkOrder { bytes, requests, ceiling, may_wait, held, sender }, receiver)
    }

    /// Keeps replies, and says what is sent once more, in the order of the requests.
    fn settle(&mut self, results: Vec<AttemptResult>, is_last: bool) -> Vec<ForwardAttempt> {
        let node = self.pools.context.node;
        let stats = &node.proxy.stats;
        let refuse = |text: &str| {
            stats.errors.fetch_add(1, Ordering::Relaxed);
            error(text)
        };
        let (mut next, mut done) = (Vec::new(), Vec::new());
        for (hop, reply) in results.into_iter().rev() {
            let action = match reply {
                Some(reply) => self.judge(hop, reply),
                None => ReplyAction::Final(refuse(NOT_SENT_BEHIND)),
            };
            let told = match action {
                ReplyAction::Final(output) => {
                    done.push(hop.index);
                    output
                }
                ReplyAction::Follow(_, output) if is_last => output,
                ReplyAction::Follow(..) if self.is_lost => refuse(NOT_SENT_BEHIND),
                ReplyAction::Follow(again, _) if self.is_overtaken(again, &done) => {
                    refuse(NOT_SENT_AGAIN)
                }
                ReplyAction::Retry(again, why)
                    if is_last || self.is_lost || self.is_overtaken(again, &done) =>
                {
                    refuse(&why)
                }
                ReplyAction::Follow(again, _) | ReplyAction::Retry(again, _) => {
                    stats.redirections.fetch_add(u64::from(again.to != hop.to), Ordering::Relaxed);
                    next.push(again);
                    continue;
                }
            };
            self.replies[hop.index] = Some(told);
        }
        next.reverse();
        next
    }

    /// Whether a request would come behind one that its client sent later. A slot that has moved
    /// has all its keys at one node; while it moves, each key is at one.
    fn is_overtaken(&self, again: ForwardAttempt, done: &[usize]) -> bool {
        let request = &self.batch.requests[again.index];
        done.iter().any(|later| {
            let later = &self.batch.requests[*later];
            match again.asks {
                true => request.keys().iter().any(|key| later.keys().contains(key)),
                false => request.slot() == later.slot(),
            }
        })
    }

    fn judge(&self, hop: ForwardAttempt, reply: LinkReply) -> ReplyAction {
        let node = self.pools.context.node;
        let name = || {
            node.link_address(hop.to, self.is_encrypted)
                .map_or_else(|| hop.to.as_str().to_owned(), |address| address.to_string())
        };
        let fail = |text: String| {
            node.proxy.stats.errors.fetch_add(1, Ordering::Relaxed);
            ReplyAction::Final(error(&text))
        };
        match reply {
            LinkReply::Whole(output, refused) => self.judge_reply(hop, output, refused),
            LinkReply::OfProgram(output) => ReplyAction::Final(output),
            LinkReply::Unreachable(why) => fail(format!(
                "CLUSTERDOWN The node {} that serves the key cannot be reached: {why}",
                name()
            )),
            LinkReply::Unsent(why) => {
                let text = format!(
                    "CLUSTERDOWN The link to the node {} that serves the key ended before the \
                     command was sent: {why}",
                    name()
                );
                match hop.is_retry {
                    false => ReplyAction::Retry(ForwardAttempt { is_retry: true, ..hop }, text),
                    true => fail(text),
                }
            }
            LinkReply::Lost(why) => fail(format!(
                "ERR No reply from the node {} that serves the key, so the command may or may not \
                 have taken effect: {why}",
                name()
            )),
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
        let body = &self.batch.requests[hop.index].body;
        // What was refused first is the cause of what follows.
        let said = refused.as_deref().unwrap_or(own);
        if let Some(redirected) = RedirectedTo::parse(said) {
            let found = redirected.find(self.pools.context.node, hop.to);
            let asks = redirected.asks;
            let told = match refused {
                Some(line) => error(&String::from_utf8_lossy(&line)),
                None => output,
            };
            return match found {
                Some(to) => ReplyAction::Follow(ForwardAttempt { to, asks, ..hop }, told),
                None => ReplyAction::Final(told),
            };
        }
        match (body, refused) {
            (ForwardBody::Transaction(_), Some(cause)) if own.starts_with(b"EXECABORT") => {
                let cause = String::from_utf8_lossy(&cause);
                let told = format!("EXECABORT Transaction discarded because of: {cause}");
                ReplyAction::Final(error(&told))
            }
            // Its client has sent no EXEC.
            (ForwardBody::Program(_), cause) => {
                let cause = cause.as_deref().unwrap_or(own);
                let cause = cause.strip_prefix(DISCARDED).unwrap_or(cause).trim_ascii_end();
                ReplyAction::Final(error(&String::from_utf8_lossy(cause)))
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

/// Whether a reply to EXEC says that its link is in no transaction any more.
fn ends_transaction(reply: &LinkReply) -> bool {
    let LinkReply::Whole(output, _) = reply else { return false };
    !output.front().starts_with(b"-") || output.front().starts_with(b"-EXECABORT ")
}

/// What a client is told whose command is given up, as its node cannot be asked to end it.
fn unblocked_here(with_error: bool, resp: Resp) -> Vec<LinkReply> {
    let told = match with_error {
        true => error(UNBLOCKED),
        false => {
            let mut output = Output::new();
            Reply::new(&mut output, resp).null_array();
            output
        }
    };
    vec![LinkReply::Whole(told, None)]
}

/// Of requests that a link did not take any more it is known that they were not sent.
fn unsent(count: usize) -> Vec<LinkReply> {
    (0..count).map(|_| LinkReply::Unsent("the link has ended".to_owned())).collect()
}

/// Of requests whose link has ended without a word nothing is known.
fn lost(count: usize) -> Vec<LinkReply> {
    (0..count).map(|_| LinkReply::Lost("the link has ended".to_owned())).collect()
}
