//! A link to another node: requests out, one behind the other, and their replies in.
//!
//! Invariants: replies belong to requests in their order; what each request waits for is known
//! until it has its reply, so that the end of the link says of each whether it was sent. A link on
//! which anything was not as expected is not used again.

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::io_error_text::strerror;
use base::time::Clock;
use proto::{Output, Reply, ReplyScanner, Resp};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::client_identity::ClientIdentity;
use super::held_memory::HeldBytes;
use super::outgoing::{OutgoingBytes, SLICES_MAX};
use crate::net::connection::Stream;

/// So much is read at a time.
const CHUNK: usize = 64 * 1024;

/// After so many reads other links have their turns.
const READS_PER_TURN: usize = 8;

/// A buffer of more bytes is given back once it is empty.
const KEPT_CAPACITY: usize = 1 << 20;

/// How the reply to EXEC of one command begins.
const ARRAY_OF_ONE: &[u8] = b"*1\r\n";

/// No line of an error among replies that are left out is kept beyond this.
const LINE_MAX: usize = 1024;

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
    /// The client's figures, in which what is sent counts until the replies are there, and these
    /// count, too; nothing if no client asks.
    pub(super) held: Option<HeldBytes>,
    /// Takes what came of each, in order.
    pub(super) sender: oneshot::Sender<Vec<LinkReply>>,
}

/// A request in an order.
#[derive(Clone, Copy)]
pub(super) struct LinkRequest {
    /// Where it begins.
    pub(super) begin: usize,
    /// So many replies before its own are nobody's.
    pub(super) skipped: usize,
    /// Whether it is a program between MULTI and EXEC.
    pub(super) is_program: bool,
}

/// What came of a request.
pub(super) enum LinkReply {
    /// The reply; and the first error among those before it.
    Whole(Output, Option<Vec<u8>>),
    /// What a program replied, which is none of its node's words.
    OfProgram(Output),
    /// No byte of it was sent, as there is no link.
    Unreachable(String),
    /// No byte of it was sent when the link ended.
    Unsent(String),
    /// The request was sent, wholly or in part, and there will be no reply.
    Lost(String),
}

impl LinkReply {
    fn forget(&mut self) {
        if let Self::Whole(output, _) | Self::OfProgram(output) = self {
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
    /// What it is called at the other node.
    pub(super) identity: OnceCell<ClientIdentity>,
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
    /// The beginning of the one of them that is read, or of a reply to EXEC.
    line: Vec<u8>,
    refused: Option<Vec<u8>>,
    program: ProgramReply,
    /// So many replies are left that come behind those of all requests that were answered.
    trailing: usize,
    /// Whether the link may still be in a transaction.
    leaves_transaction: bool,
    output: Output,
    ceiling: usize,
    may_wait: bool,
    held: Option<HeldBytes>,
    sender: oneshot::Sender<Vec<LinkReply>>,
}

/// Where the reply to a program is among those to MULTI, the program and EXEC.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgramReply {
    /// The reply to EXEC, or what is in its array; the first bytes will tell.
    ToExec,
    /// The element of that array.
    InArray,
    /// EXEC was refused, and this is how.
    Refusal,
    /// The reply to the program itself, as MULTI was refused and the program ran alone.
    Alone,
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
        self.take_back(cx);
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
        let order = WaitingOrder::new(begin, requests, (ceiling, may_wait, held), sender);
        self.waiting.push_back(order);
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

    /// Takes back what nobody waits for any more, if none of it is sent.
    fn take_back(&mut self, cx: &mut Context<'_>) {
        let sent = self.output.sent();
        let mut place = self.waiting.len();
        while place > 0 && self.waiting[place - 1].begin >= sent {
            place -= 1;
            let order = &mut self.waiting[place];
            if order.sender.poll_closed(cx).is_ready() && self.output.take_back(order.begin) {
                self.waiting.remove(place);
                self.state.outstanding.set(self.state.outstanding.get() - 1);
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
                let is_open = order.leaves_transaction;
                // The session may be gone.
                let _ = order.sender.send(order.replies);
                if is_open {
                    return Err("a transaction by it has not ended".to_owned());
                }
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
    fn new(
        begin: u64,
        requests: Vec<LinkRequest>,
        (ceiling, may_wait, held): (usize, bool, Option<HeldBytes>),
        sender: oneshot::Sender<Vec<LinkReply>>,
    ) -> Self {
        let skipped = requests.first().map_or(0, |first| first.skipped);
        Self {
            begin,
            requests,
            replies: Vec::new(),
            skipped,
            line: Vec::new(),
            refused: None,
            program: ProgramReply::ToExec,
            trailing: 0,
            leaves_transaction: false,
            output: fresh_output(ceiling),
            ceiling,
            may_wait,
            held,
            sender,
        }
    }

    /// Takes a piece of what was read, which may be the end of a reply.
    fn take(&mut self, piece: &[u8], is_whole: bool) {
        if self.trailing > 0 {
            self.trailing -= usize::from(is_whole);
        } else if self.skipped > 0 {
            self.skip(piece, is_whole);
        } else if self.is_program() && self.program == ProgramReply::ToExec {
            self.take_of_exec(piece, is_whole);
        } else {
            self.take_own(piece, is_whole);
        }
    }

    fn is_program(&self) -> bool {
        self.requests.get(self.replies.len()).is_some_and(|request| request.is_program)
    }

    fn skip(&mut self, piece: &[u8], is_whole: bool) {
        let room = LINE_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        if !is_whole {
            return;
        }
        let line = std::mem::take(&mut self.line);
        self.skipped -= 1;
        let Some(error) = line.strip_prefix(b"-") else { return };
        if self.refused.is_none() {
            self.refused = Some(error.trim_ascii_end().to_vec());
        }
        // What follows a MULTI that was refused is done by itself.
        if self.is_program() && self.skipped == 1 {
            (self.skipped, self.program) = (0, ProgramReply::Alone);
        }
    }

    /// Takes the beginning of a reply to EXEC: the head of its array is nobody's.
    fn take_of_exec(&mut self, piece: &[u8], is_whole: bool) {
        self.line.extend_from_slice(piece);
        if self.line.len() < ARRAY_OF_ONE.len() && !is_whole {
            return;
        }
        let line = std::mem::take(&mut self.line);
        let own = line.strip_prefix(ARRAY_OF_ONE);
        self.program = own.map_or(ProgramReply::Refusal, |_| ProgramReply::InArray);
        let own = own.unwrap_or(&line);
        if !own.is_empty() {
            self.take_own(own, is_whole);
        }
    }

    fn take_own(&mut self, piece: &[u8], is_whole: bool) {
        if self.sender.is_closed() {
            // No session waits for it any more: what is held goes, and the rest comes and goes.
            self.output = fresh_output(self.ceiling);
            self.replies.iter_mut().for_each(LinkReply::forget);
            self.held = None;
        } else {
            let before = self.output.len();
            Reply::new(&mut self.output, Resp::Two).raw(piece);
            if let Some(held) = &self.held {
                held.count_reply(self.output.len() - before);
            }
        }
        if is_whole {
            self.end_reply();
        }
    }

    fn end_reply(&mut self) {
        // What the replies take together counts, as they wait for each other.
        self.ceiling = self.ceiling.saturating_sub(self.output.len());
        let output = std::mem::replace(&mut self.output, fresh_output(self.ceiling));
        let (program, refused) = (self.program, self.refused.take());
        self.program = ProgramReply::ToExec;
        let reply = match program {
            _ if !self.is_program() => LinkReply::Whole(output, refused),
            ProgramReply::InArray => LinkReply::OfProgram(output),
            ProgramReply::Alone => {
                // That to EXEC is still to come.
                self.trailing = 1;
                LinkReply::OfProgram(output)
            }
            ProgramReply::ToExec | ProgramReply::Refusal => {
                let front = output.front();
                self.leaves_transaction |= front.starts_with(b"-") && !is_of_ended_exec(front);
                LinkReply::Whole(output, refused)
            }
        };
        self.replies.push(reply);
        let next = self.requests.get(self.replies.len());
        self.skipped = next.map_or(0, |next| next.skipped);
    }

    fn is_complete(&self) -> bool {
        self.replies.len() == self.requests.len() && self.trailing == 0
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

/// Whether an error in reply to EXEC, the `-` included, says that the transaction is over: it was
/// discarded, or its keys are not here.
fn is_of_ended_exec(error: &[u8]) -> bool {
    let code = error.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
    let ends: [&[u8]; 6] =
        [b"-EXECABORT", b"-MOVED", b"-ASK", b"-TRYAGAIN", b"-CLUSTERDOWN", b"-CROSSSLOT"];
    ends.contains(&code)
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
    use super::{LinkReply, LinkRequest, WaitingOrder};
    use proto::Output;
    use tokio::sync::oneshot;

    type Receiver = oneshot::Receiver<Vec<LinkReply>>;

    fn order_of(begin: u64, requests: Vec<LinkRequest>) -> (WaitingOrder, Receiver) {
        let (sender, receiver) = oneshot::channel();
        (WaitingOrder::new(begin, requests, (usize::MAX, false, None), sender), receiver)
    }

    fn order(begin: u64, requests: &[(usize, usize)]) -> (WaitingOrder, Receiver) {
        let request = |&(begin, skipped)| LinkRequest { begin, skipped, is_program: false };
        order_of(begin, requests.iter().map(request).collect())
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

    /// What a program can say never stands where its node sends requests elsewhere.
    #[test]
    fn what_a_program_says_is_told_from_what_its_node_says() {
        for (replies, said, by_program, leaves_transaction) in [
            ("+OK +QUEUED *1 :7", ":7", true, false),
            ("+OK +QUEUED *1 -MOVED", "-MOVED", true, false),
            ("+OK +QUEUED *1 *-1", "*-1", true, false),
            ("+OK +QUEUED -MOVED", "-MOVED", false, false),
            ("+OK -MOVED -EXECABORT", "-EXECABORT", false, false),
            ("+OK +QUEUED -EXECABORT", "-EXECABORT", false, false),
            ("+OK +QUEUED -NOPERM", "-NOPERM", false, true),
            // It ran by itself.
            ("-NOPERM -MOVED -ERR", "-MOVED", true, false),
            ("-NOPERM :7 -ERR", ":7", true, false),
        ] {
            let request = LinkRequest { begin: 0, skipped: 2, is_program: true };
            let (mut order, _receiver) = order_of(0, vec![request]);
            let lines: Vec<&str> = replies.split(' ').collect();
            for (number, line) in lines.iter().enumerate() {
                assert!(!order.is_complete(), "{replies}");
                // Byte by byte, as a slow network would.
                let bytes = format!("{line}\r\n").into_bytes();
                for (place, byte) in bytes.iter().enumerate() {
                    let is_last = place + 1 == bytes.len();
                    let is_head = *line == "*1" && number + 1 < lines.len();
                    order.take(&[*byte], is_last && !is_head);
                }
            }
            assert!(order.is_complete(), "{replies}");
            assert_eq!(order.leaves_transaction, leaves_transaction, "{replies}");
            let (output, is_programs) = match order.replies.pop() {
                Some(LinkReply::OfProgram(output)) => (output, true),
                Some(LinkReply::Whole(output, _)) => (output, false),
                _ => panic!("{replies}"),
            };
            assert_eq!((&*text(&output), is_programs), (&*format!("{said}\r\n"), by_program));
        }
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
                LinkReply::Whole(..) | LinkReply::OfProgram(_) => "whole",
                LinkReply::Unreachable(_) => "unreachable",
                LinkReply::Unsent(_) => "unsent",
                LinkReply::Lost(_) => "lost",
            })
            .collect();
        assert_eq!(kinds, ["whole", "lost", "lost", "unsent"]);
    }
}
