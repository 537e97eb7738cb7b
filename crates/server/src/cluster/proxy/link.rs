//! A link to another node: requests out, one behind the other, and their replies in.
//!
//! Invariants: replies belong to requests in their order; what each request waits for is known
//! until it has its reply, so that the end of the link says of each whether it was sent. A link on
//! which anything was not as expected is not used again.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::io_error_text::strerror;
use base::time::Clock;
use engine::clients::registry::Client;
use proto::{Output, Reply, ReplyScanner, Resp};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::outgoing::{OutgoingBytes, SLICES_MAX};
use crate::net::connection::Stream;

/// So much is read at a time.
const CHUNK: usize = 64 * 1024;

/// After so many reads other links have their turns.
const READS_PER_TURN: usize = 8;

/// A buffer of more bytes is given back once it is empty.
const KEPT_CAPACITY: usize = 1 << 20;

/// No line of an error among replies that are left out is kept beyond this.
const LINE_MAX: usize = 1024;

/// So many more bytes of replies are noted as their client's: few replies are as long.
const NOTED_STEP: usize = 64 << 10;

/// Requests that go by a link together.
pub(super) struct LinkOrder {
    /// What is sent.
    pub(super) bytes: Vec<u8>,
    /// The requests in it.
    pub(super) requests: Vec<LinkRequest>,
    /// A reply that is longer is cut, and its client closed.
    pub(super) ceiling: usize,
    /// Whether the reply may be long in coming, as its command waits for something.
    pub(super) may_wait: bool,
    /// Where replies count that have come, if they are a client's.
    pub(super) held: Option<Rc<HeldReplies>>,
    /// Takes what came of each, in order.
    pub(super) sender: oneshot::Sender<Vec<LinkReply>>,
}

/// The bytes of replies that wait for others of their batch, in their client's figures.
pub(super) struct HeldReplies {
    client: Arc<Client>,
    bytes: Cell<usize>,
    noted: Cell<usize>,
}

impl HeldReplies {
    pub(super) fn new(client: Arc<Client>) -> Rc<Self> {
        Rc::new(Self { client, bytes: Cell::default(), noted: Cell::default() })
    }

    fn add(&self, bytes: usize) {
        let bytes = self.bytes.get() + bytes;
        self.bytes.set(bytes);
        if bytes - self.noted.get() >= NOTED_STEP {
            self.noted.set(bytes);
            self.client.note_forwarded(bytes);
        }
    }
}

impl Drop for HeldReplies {
    fn drop(&mut self) {
        if self.noted.get() > 0 {
            self.client.note_forwarded(0);
        }
    }
}

/// A request in an order.
#[derive(Clone, Copy)]
pub(super) struct LinkRequest {
    /// Where it begins.
    pub(super) begin: usize,
    /// So many replies before its own are nobody's.
    pub(super) skipped: usize,
}

/// What came of a request.
pub(super) enum LinkReply {
    /// The reply; and the first error among those before it.
    Whole(Output, Option<Vec<u8>>),
    /// No byte of it was sent, as there is no link.
    Unreachable(String),
    /// No byte of it was sent when the link ended.
    Unsent(String),
    /// The request was sent, wholly or in part, and there will be no reply.
    Lost(String),
}

impl LinkReply {
    fn forget(&mut self) {
        if let Self::Whole(output, _) = self {
            *output = Output::new();
        }
    }
}

/// What is known of a link outside its task.
#[derive(Default)]
pub(super) struct LinkState {
    /// Orders that wait for replies.
    pub(super) outstanding: Cell<usize>,
    /// Whether it takes no more.
    pub(super) is_over: Cell<bool>,
    /// Whether the connection stands.
    pub(super) is_standing: Cell<bool>,
    /// Since when the first of these orders is the first, on the monotonic clock.
    pub(super) first_us: Cell<i64>,
    /// When it was used last, on the monotonic clock.
    pub(super) used_us: Cell<i64>,
    /// Its client's id at the other node.
    pub(super) client_id: Cell<Option<i64>>,
}

/// How long a node may be silent while a reply is due.
pub(super) type Patience = Box<dyn Fn() -> Duration>;

/// A link that stands.
pub(super) struct Link {
    stream: Stream,
    orders: UnboundedReceiver<LinkOrder>,
    state: Rc<LinkState>,
    clock: &'static Clock,
    patience: Patience,
    output: OutgoingBytes,
    input: Vec<u8>,
    scanner: ReplyScanner,
    /// Whether what is read answers nothing.
    is_push: bool,
    waiting: VecDeque<WaitingOrder>,
    /// When something came last, or the first of what waits was sent.
    progress_us: i64,
    timer: Option<Pin<Box<Sleep>>>,
}

/// An order whose replies have not all come.
struct WaitingOrder {
    /// Where the order begins in all that the link ever sent.
    begin: u64,
    requests: Vec<LinkRequest>,
    replies: Vec<LinkReply>,
    /// So many replies are left that come before that of the present request.
    skipped: usize,
    /// The beginning of the one of them that is read.
    line: Vec<u8>,
    refused: Option<Vec<u8>>,
    output: Output,
    ceiling: usize,
    may_wait: bool,
    held: Option<Rc<HeldReplies>>,
    sender: oneshot::Sender<Vec<LinkReply>>,
}

/// Answers all orders of a link that never stood.
pub(super) fn refuse_all(mut orders: UnboundedReceiver<LinkOrder>, state: &LinkState, why: &str) {
    state.is_over.set(true);
    orders.close();
    while let Ok(order) = orders.try_recv() {
        let replies = order.requests.iter().map(|_| LinkReply::Unreachable(why.to_owned()));
        let _ = order.sender.send(replies.collect());
    }
}

impl Link {
    pub(super) fn new(
        stream: Stream,
        orders: UnboundedReceiver<LinkOrder>,
        state: Rc<LinkState>,
        (clock, patience): (&'static Clock, Patience),
    ) -> Self {
        Self {
            stream,
            orders,
            state,
            clock,
            patience,
            output: OutgoingBytes::default(),
            input: Vec::new(),
            scanner: ReplyScanner::default(),
            is_push: false,
            waiting: VecDeque::new(),
            progress_us: clock.monotonic_us(),
            timer: None,
        }
    }

    /// Serves until nobody has orders for it any more, or the connection ends.
    pub(super) async fn run(mut self) {
        let ended = poll_fn(|cx| self.poll(cx)).await;
        self.state.is_over.set(true);
        if let Err(why) = ended {
            self.give_up(&why);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        let is_unwanted = self.take_orders(cx);
        if let Err(why) = self.write(cx) {
            return Poll::Ready(Err(why));
        }
        if let Poll::Ready(why) = self.read(cx) {
            return Poll::Ready(Err(why));
        }
        if is_unwanted && self.waiting.is_empty() {
            self.stream.shut_down();
            return Poll::Ready(Ok(()));
        }
        self.poll_patience(cx).map(Err)
    }

    /// Takes what is to be sent; whether nothing more will come.
    fn take_orders(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.orders.poll_recv(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => return true,
                Poll::Ready(Some(order)) => self.accept(order),
            }
        }
    }

    fn accept(&mut self, order: LinkOrder) {
        let LinkOrder { bytes, requests, ceiling, may_wait, held, sender } = order;
        if self.waiting.is_empty() {
            self.progress_us = self.clock.monotonic_us();
        }
        let begin = self.output.push(bytes);
        let skipped = requests.first().map_or(0, |first| first.skipped);
        self.waiting.push_back(WaitingOrder {
            begin,
            requests,
            replies: Vec::new(),
            skipped,
            line: Vec::new(),
            refused: None,
            output: fresh_output(ceiling),
            ceiling,
            may_wait,
            held,
            sender,
        });
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let filled = self.output.io_slices(&mut slices);
            if filled == 0 {
                return Ok(());
            }
            match self.stream.poll_write(cx, &slices[..filled]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(strerror(&ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.output.consume(count),
                Poll::Ready(Err(error)) => return Err(strerror(&error)),
            }
        }
    }

    /// Takes the replies that have come; why the connection has ended.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        for _ in 0..READS_PER_TURN {
            self.input.reserve(CHUNK);
            match ready!(self.stream.poll_read_more(cx, &mut self.input)) {
                Ok(0) => return Poll::Ready("it closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Poll::Ready(strerror(&error)),
            }
            self.progress_us = self.clock.monotonic_us();
            if let Err(why) = self.digest() {
                return Poll::Ready(why);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Gives what was read to the requests that it answers.
    fn digest(&mut self) -> Result<(), String> {
        let mut at = 0;
        while at < self.input.len() {
            if !self.scanner.is_midway() {
                self.is_push = self.input[at] == b'>';
            }
            let scanned = self.scanner.advance(&self.input[at..]).map_err(|it| it.to_string())?;
            let piece = &self.input[at..at + scanned.bytes];
            at += scanned.bytes;
            if self.is_push {
                continue;
            }
            let Some(order) = self.waiting.front_mut() else {
                return Err("it answered what nobody had asked".to_owned());
            };
            order.take(piece, scanned.is_whole);
            if order.is_complete()
                && let Some(order) = self.waiting.pop_front()
            {
                self.state.outstanding.set(self.state.outstanding.get() - 1);
                self.state.used_us.set(self.progress_us);
                self.state.first_us.set(self.progress_us);
                // The session may be gone.
                let _ = order.sender.send(order.replies);
            }
        }
        clear(&mut self.input);
        Ok(())
    }

    /// Whether a reply is overdue.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        // A command that waits has a link of its own, and whoever sent it asks for its node.
        while self.waiting.front().is_some_and(|order| !order.may_wait) {
            let patience = (self.patience)();
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
            ready!(timer.as_mut().poll(cx));
            let silent_us = self.clock.monotonic_us() - self.progress_us;
            let silent = Duration::from_micros(u64::try_from(silent_us).unwrap_or(0));
            let left = patience.saturating_sub(silent);
            if left.is_zero() {
                return Poll::Ready("it has not answered in time".to_owned());
            }
            self.timer = Some(Box::pin(sleep(left)));
        }
        Poll::Pending
    }

    /// Says of each request without a reply what is known of it.
    fn give_up(mut self, why: &str) {
        for order in std::mem::take(&mut self.waiting) {
            order.give_up(self.output.sent(), why);
        }
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            let replies = order.requests.iter().map(|_| LinkReply::Unsent(why.to_owned()));
            let _ = order.sender.send(replies.collect());
        }
    }
}

impl WaitingOrder {
    /// Takes a piece of what was read, which may be the end of a reply.
    fn take(&mut self, piece: &[u8], is_whole: bool) {
        if self.skipped > 0 {
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if is_whole {
                let line = std::mem::take(&mut self.line);
                if self.refused.is_none()
                    && let Some(error) = line.strip_prefix(b"-")
                {
                    self.refused = Some(error.trim_ascii_end().to_vec());
                }
                self.skipped -= 1;
            }
            return;
        }
        if self.sender.is_closed() {
            // No session waits for it any more: what is held goes, and the rest comes and goes.
            self.output = fresh_output(self.ceiling);
            self.replies.iter_mut().for_each(LinkReply::forget);
            self.held = None;
        } else {
            let before = self.output.len();
            Reply::new(&mut self.output, Resp::Two).raw(piece);
            if let Some(held) = &self.held {
                held.add(self.output.len() - before);
            }
        }
        if is_whole {
            // What the replies take together counts, as they wait for each other.
            self.ceiling = self.ceiling.saturating_sub(self.output.len());
            let output = std::mem::replace(&mut self.output, fresh_output(self.ceiling));
            self.replies.push(LinkReply::Whole(output, self.refused.take()));
            let next = self.requests.get(self.replies.len());
            self.skipped = next.map_or(0, |next| next.skipped);
        }
    }

    fn is_complete(&self) -> bool {
        self.replies.len() == self.requests.len()
    }

    /// Ends with what is known, where so much was sent by the link.
    fn give_up(self, sent: u64, why: &str) {
        let Self { begin, requests, mut replies, sender, .. } = self;
        let rest = requests.iter().skip(replies.len());
        let rest = rest.map(|request| match begin + (request.begin as u64) < sent {
            true => LinkReply::Lost(why.to_owned()),
            false => LinkReply::Unsent(why.to_owned()),
        });
        let rest: Vec<LinkReply> = rest.collect();
        replies.extend(rest);
        let _ = sender.send(replies);
    }
}

fn fresh_output(ceiling: usize) -> Output {
    let mut output = Output::new();
    output.set_ceiling(ceiling);
    output
}

fn clear(buffer: &mut Vec<u8>) {
    match buffer.capacity() > KEPT_CAPACITY {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LinkReply, LinkRequest, WaitingOrder, fresh_output};
    use proto::Output;
    use tokio::sync::oneshot;

    type Receiver = oneshot::Receiver<Vec<LinkReply>>;

    fn order(begin: u64, requests: &[(usize, usize)]) -> (WaitingOrder, Receiver) {
        let (sender, receiver) = oneshot::channel();
        let requests: Vec<_> =
            requests.iter().map(|&(begin, skipped)| LinkRequest { begin, skipped }).collect();
        let order = WaitingOrder {
            begin,
            skipped: requests[0].skipped,
            requests,
            replies: Vec::new(),
            line: Vec::new(),
            refused: None,
            output: fresh_output(usize::MAX),
            ceiling: usize::MAX,
            may_wait: false,
            held: None,
            sender,
        };
        (order, receiver)
    }

    fn text(output: &Output) -> String {
        String::from_utf8_lossy(output.front()).into_owned()
    }

    #[test]
    fn replies_before_its_own_are_left_out_and_their_first_error_is_told() {
        let (mut order, _receiver) = order(0, &[(0, 2), (10, 0)]);
        for (piece, is_whole) in [
            ("+O", false),
            ("K\r\n", true),
            ("-MOVED 1 a:1", false),
            ("\r\n", true),
            ("*1\r\n", false),
            (":1\r\n", true),
            ("+b\r\n", true),
        ] {
            assert!(!order.is_complete());
            order.take(piece.as_bytes(), is_whole);
        }
        assert!(order.is_complete());
        let [LinkReply::Whole(first, refused), LinkReply::Whole(second, None)] = &*order.replies
        else {
            panic!("both have replies")
        };
        assert_eq!((&*text(first), &*text(second)), ("*1\r\n:1\r\n", "+b\r\n"));
        assert_eq!(refused.as_deref(), Some(b"MOVED 1 a:1".as_slice()));
    }

    #[test]
    fn what_was_not_sent_is_known_when_the_link_ends() {
        let (mut order, mut receiver) = order(100, &[(0, 0), (10, 0), (20, 0), (30, 0)]);
        order.take(b"+a\r\n", true);
        order.give_up(121, "gone");
        let replies = receiver.try_recv().expect("they were sent");
        let kinds: Vec<_> = replies
            .iter()
            .map(|reply| match reply {
                LinkReply::Whole(..) => "whole",
                LinkReply::Unreachable(_) => "unreachable",
                LinkReply::Unsent(_) => "unsent",
                LinkReply::Lost(_) => "lost",
            })
            .collect();
        assert_eq!(kinds, ["whole", "lost", "lost", "unsent"]);
    }
}
