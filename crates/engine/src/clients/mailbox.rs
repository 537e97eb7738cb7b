//! Mailboxes: what threads owe the clients of a worker, left there and announced once.
//!
//! Each worker has one. A thread that owes the worker's clients something, a message for many or a
//! wake-up for one, leaves a letter, under whatever locks give the letters their order; after the
//! batch the thread wakes once at each worker that got any (`PendingWakes`). The worker hands the
//! letters out on its own thread, so a message to ten thousand subscribers costs its publisher a
//! letter and a wake per worker, and its bytes are shared until each session writes its own.
//!
//! Invariants: the letters of a mailbox are handed out in the order they came; a mailbox without a
//! worker is closed, and a letter to it is handed out at once by its sender.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use smallvec::SmallVec;

use crate::clients::invalidation::Invalidation;
use crate::clients::multicast::WorkerSubscribers;
use crate::clients::registry::{Client, Clients, Delivery, Signal};
use crate::runtime::lanes::MAX_WORKERS;
use crate::runtime::record_batch::RecordBatch;

/// The mailbox of clients that are between two workers; never open.
pub const IN_TRANSIT: usize = MAX_WORKERS;

/// One mailbox for each worker there may be.
pub struct Mailboxes {
    boxes: Box<[Mailbox]>,
}

#[derive(Default)]
#[repr(align(128))]
struct Mailbox(Mutex<LetterQueue>);

#[derive(Default)]
struct LetterQueue {
    /// Whether a worker empties it.
    is_open: bool,
    letters: VecDeque<Letter>,
    /// The worker's task, while it waits for letters.
    reader: Option<Waker>,
    stats: MailStats,
}

/// What a mailbox saw since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailStats {
    /// Letters that came, which also numbers them.
    pub letters: u64,
    /// How often the worker was woken for them.
    pub wakes: u64,
}

/// What is left for clients of a worker.
pub enum Letter {
    /// A published message for the subscribers that had joined when it came.
    Message {
        /// The number of the message among those of its channel or pattern.
        number: u64,
        /// The subscribers at this worker, each with the number that it joined at.
        subscribers: Arc<WorkerSubscribers>,
        /// The encoded reply.
        bytes: Arc<[u8]>,
    },
    /// Notices for one client.
    Notices(Arc<Client>, Vec<Invalidation>),
    /// Shard channels of these hash slots are another node's now.
    Rerouted(Arc<Client>, Arc<BTreeSet<u16>>),
    /// A client was asked something, and is to see to it.
    Wake(Arc<Client>),
}

/// What a thread leaves to the end of its batch.
#[derive(Default)]
pub struct PendingWakes {
    /// The mailboxes that letters were left in since workers were last woken.
    mailboxes: Cell<u128>,
    /// The records that wait for those behind them.
    pub records: RecordBatch,
}

impl PendingWakes {
    /// Whether a worker got any.
    #[inline]
    pub fn include(&self, lane: usize) -> bool {
        self.mailboxes.get() & 1 << lane != 0
    }
}

const _: () = assert!(MAX_WORKERS == u128::BITS as usize, "wakes have a bit for each worker");

/// The clients that there are, and the way to them.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    pub(crate) clients: &'a Clients,
    pub(crate) mailboxes: &'a Mailboxes,
}

/// The mailboxes as a thread leaves letters in them, which wakes workers at the end of its batch.
#[derive(Clone, Copy)]
pub struct Outbox<'a> {
    /// The mailboxes of all workers, by the number of the worker.
    pub mailboxes: &'a Mailboxes,
    /// The workers to wake when the sender's batch ends.
    pub wakes: &'a PendingWakes,
}

impl Mailboxes {
    pub(crate) fn new() -> Self {
        Self { boxes: (0..=IN_TRANSIT).map(|_| Mailbox::default()).collect() }
    }

    /// Leaves bytes for the members of a set of subscribers at a worker.
    pub(crate) fn post_message(
        &self,
        lane: usize,
        wakes: &PendingWakes,
        subscribers: &Arc<WorkerSubscribers>,
        bytes: &Arc<[u8]>,
    ) {
        let (subscribers, bytes) = (Arc::clone(subscribers), Arc::clone(bytes));
        self.post(lane, wakes, |number| Letter::Message { number, subscribers, bytes });
    }

    /// Leaves notices for a client.
    pub(crate) fn post_invalidations(
        &self,
        client: &Arc<Client>,
        notices: Vec<Invalidation>,
        wakes: &PendingWakes,
    ) {
        // As with signals, the worker that hands them out finds the client wherever it is.
        self.post(client.lane(), wakes, |_| Letter::Notices(Arc::clone(client), notices));
    }

    /// Tells a client that shard channels of some slots are another node's now, behind the messages
    /// to them that were published before.
    pub(crate) fn post_rerouted(
        &self,
        client: &Arc<Client>,
        slots: &Arc<BTreeSet<u16>>,
        wakes: &PendingWakes,
    ) {
        let (client, slots) = (Arc::clone(client), Arc::clone(slots));
        self.post(client.lane(), wakes, |_| Letter::Rerouted(client, slots));
    }

    /// Asks something of a client; whether that is new.
    pub fn signal(&self, client: &Arc<Client>, signal: Signal, wakes: &PendingWakes) -> bool {
        let is_first = client.ask(signal);
        // The client may move meanwhile: the worker that hands the letter out wakes it where it is.
        self.post(client.lane(), wakes, |_| Letter::Wake(Arc::clone(client)));
        is_first
    }

    fn post(&self, lane: usize, wakes: &PendingWakes, letter: impl FnOnce(u64) -> Letter) {
        let mut queue = self.queue(lane);
        queue.stats.letters += 1;
        let letter = letter(queue.stats.letters);
        if queue.is_open {
            queue.letters.push_back(letter);
            wakes.mailboxes.set(wakes.mailboxes.get() | 1 << lane);
        } else {
            drop(queue);
            deliver_all(VecDeque::from([letter]));
        }
    }

    /// Tells all workers that got letters, each once.
    #[inline]
    pub fn wake(&self, wakes: &PendingWakes) {
        if wakes.mailboxes.get() != 0 {
            self.wake_all(wakes.mailboxes.take());
        }
    }

    #[cold]
    fn wake_all(&self, mut lanes: u128) {
        while lanes != 0 {
            let mut queue = self.queue(lanes.trailing_zeros() as usize);
            // Without a reader the worker is up already, or was told by somebody else.
            let reader = queue.reader.take();
            queue.stats.wakes += u64::from(reader.is_some());
            drop(queue);
            reader.into_iter().for_each(Waker::wake);
            lanes &= lanes - 1;
        }
    }

    /// The number that the last letter to a worker had.
    pub(crate) fn last_number(&self, lane: usize) -> u64 {
        self.queue(lane).stats.letters
    }

    /// A worker begins to empty its mailbox.
    pub fn open(&self, lane: usize) {
        self.queue(lane).is_open = true;
    }

    /// A worker stops doing so; what is left is handed out.
    pub fn close(&self, lane: usize) {
        let left = {
            let mut queue = self.queue(lane);
            queue.is_open = false;
            std::mem::take(&mut queue.letters)
        };
        deliver_all(left);
    }

    /// Takes all letters of a worker, in order; if there are none, this waker is woken when there
    /// are.
    pub fn poll(&self, lane: usize, waker: &Waker) -> Poll<VecDeque<Letter>> {
        let mut queue = self.queue(lane);
        if queue.letters.is_empty() {
            queue.reader = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut queue.letters))
    }

    /// Takes all letters of a worker that there are.
    pub fn collect(&self, lane: usize) -> VecDeque<Letter> {
        std::mem::take(&mut self.queue(lane).letters)
    }

    /// What came to a worker.
    pub fn stats(&self, lane: usize) -> MailStats {
        self.queue(lane).stats
    }

    fn queue(&self, lane: usize) -> MutexGuard<'_, LetterQueue> {
        self.boxes[lane].0.lock().expect("no critical section here panics")
    }
}

/// Gives letters to their clients and wakes them.
fn deliver_all(mut letters: VecDeque<Letter>) {
    while deliver_next(&mut letters, &mut |client| client.wake()).is_some() {}
}

/// Gives the first letter, and those right behind it that are for the same members, to their
/// clients: to them they are one bundle. A client that is to be woken for what it was given goes to
/// `wake`. Returns for how many clients the letters were.
pub(crate) fn deliver_next(
    letters: &mut VecDeque<Letter>,
    wake: &mut dyn FnMut(&Arc<Client>),
) -> Option<usize> {
    /// Of so many, so that the members have their turns in between.
    const BUNDLE_MAX: usize = 256;
    let (number, subscribers, bytes) = match letters.pop_front()? {
        Letter::Message { number, subscribers, bytes } => (number, subscribers, bytes),
        Letter::Notices(client, notices) => {
            if client.deliver(Delivery::Notices(notices)) {
                wake(&client);
            }
            return Some(1);
        }
        Letter::Rerouted(client, slots) => {
            if client.deliver(Delivery::Rerouted(slots)) {
                wake(&client);
            }
            return Some(1);
        }
        Letter::Wake(client) => {
            client.wake();
            return Some(1);
        }
    };
    let mut messages = SmallVec::<[_; 8]>::from_iter([(number, bytes)]);
    while messages.len() < BUNDLE_MAX
        && let Some(Letter::Message { number, subscribers: next, bytes }) = letters.front()
        && Arc::ptr_eq(next, &subscribers)
    {
        messages.push((*number, Arc::clone(bytes)));
        letters.pop_front();
    }
    Some(subscribers.deliver(&messages, wake))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::{IN_TRANSIT, MailStats, Mailboxes, PendingWakes, deliver_all, deliver_next};
    use crate::clients::multicast::{Subscribers, migrate};
    use crate::clients::registry::{Client, Clients, Delivery, Peer, Signal};
    use crate::runtime::counting_waker::CountingWaker;

    const LANES: usize = 4;

    struct Rig {
        clients: Clients,
        mailboxes: Mailboxes,
        subscribers: Subscribers,
        /// Woken once at each worker.
        wakers: [Arc<CountingWaker>; LANES],
    }

    impl Rig {
        fn new() -> Self {
            let rig = Self {
                clients: Clients::default(),
                mailboxes: Mailboxes::new(),
                subscribers: Subscribers::default(),
                wakers: Default::default(),
            };
            for lane in 0..LANES {
                rig.mailboxes.open(lane);
                rig.wait(lane);
            }
            rig
        }

        /// The worker finds its mailbox empty.
        fn wait(&self, lane: usize) {
            let waker = Waker::from(Arc::clone(&self.wakers[lane]));
            assert!(self.mailboxes.poll(lane, &waker).is_pending());
        }

        fn join(&self, lane: usize) -> Arc<Client> {
            let client = self.clients.register(Peer::Unix, Peer::Unix, 0, 0);
            client.set_lane(lane);
            self.subscribers.join(&self.mailboxes, lane, &client);
            client
        }

        fn publish(&self, wakes: &PendingWakes, text: &str) {
            self.subscribers.publish(&self.mailboxes, wakes, &Arc::from(text.as_bytes()));
        }

        fn empty(&self, lane: usize) -> usize {
            let letters = self.mailboxes.collect(lane);
            let count = letters.len();
            deliver_all(letters);
            count
        }

        fn woken(&self) -> [usize; LANES] {
            self.wakers.each_ref().map(|bell| bell.count())
        }
    }

    fn read(client: &Client) -> String {
        let deliveries = client.take_deliveries();
        let messages = deliveries.iter().flat_map(Delivery::messages);
        messages.map(|bytes| String::from_utf8_lossy(bytes)).collect()
    }

    #[test]
    fn ten_thousand_subscribers_cost_a_letter_and_a_wake_per_worker() {
        let rig = Rig::new();
        let clients: Vec<_> = (0..10_000).map(|number| rig.join(number % LANES)).collect();
        let (wakes, message) = (PendingWakes::default(), Arc::<[u8]>::from(&b"hello"[..]));
        rig.subscribers.publish(&rig.mailboxes, &wakes, &message);
        assert_eq!(Arc::strong_count(&message), 1 + LANES);
        assert_eq!(rig.woken(), [0; LANES], "nobody is woken before the batch is over");
        rig.mailboxes.wake(&wakes);
        rig.mailboxes.wake(&wakes);
        assert_eq!(rig.woken(), [1; LANES]);
        for lane in 0..LANES {
            assert_eq!(rig.mailboxes.stats(lane), MailStats { letters: 1, wakes: 1 });
            assert_eq!(rig.empty(lane), 1);
        }
        assert_eq!(Arc::strong_count(&message), 1 + LANES, "bundled and shared, not copied");
        assert_eq!(clients[0].delivery_bytes(), 5);
        assert!(clients.iter().all(|client| read(client) == "hello"));
    }

    #[test]
    fn a_batch_of_many_messages_wakes_once_and_keeps_their_order() {
        let rig = Rig::new();
        let (one, wakes) = (rig.join(2), PendingWakes::default());
        for number in 0..10 {
            rig.publish(&wakes, &number.to_string());
        }
        rig.mailboxes.wake(&wakes);
        rig.publish(&wakes, "!");
        rig.mailboxes.wake(&wakes);
        assert_eq!(rig.woken(), [0, 0, 1, 0], "who is awake is not woken, who got nothing neither");
        assert_eq!((rig.empty(2), read(&one).as_str()), (11, "0123456789!"));
        rig.wait(2);
        rig.publish(&wakes, "more");
        rig.mailboxes.wake(&wakes);
        assert_eq!(rig.woken(), [0, 0, 2, 0]);
    }

    #[test]
    fn a_subscriber_that_joins_or_leaves_between_gets_what_is_meant_for_it() {
        let rig = Rig::new();
        let (wakes, early) = (PendingWakes::default(), rig.join(0));
        rig.publish(&wakes, "a");
        let late = rig.join(0);
        rig.publish(&wakes, "b");
        rig.subscribers.leave(&early, || ());
        assert_eq!(rig.empty(0), 2);
        assert_eq!((read(&early), read(&late)), (String::new(), "b".to_owned()));
        rig.subscribers.leave(&late, || ());
        assert!(rig.subscribers.is_empty());
    }

    #[test]
    fn messages_that_follow_each_other_are_one_bundle_of_which_each_gets_its_part() {
        let rig = Rig::new();
        let (wakes, early) = (PendingWakes::default(), rig.join(0));
        rig.publish(&wakes, "a");
        rig.publish(&wakes, "b");
        let late = rig.join(0);
        rig.publish(&wakes, "c");
        rig.mailboxes.signal(&early, Signal::Served, &wakes);
        rig.publish(&wakes, "d");
        rig.empty(0);
        let sizes = |client: &Client| {
            client.take_deliveries().iter().map(|it| it.messages().len()).collect::<Vec<_>>()
        };
        assert_eq!((sizes(&early), sizes(&late)), (vec![3, 1], vec![1, 1]));
    }

    #[test]
    fn a_client_that_was_woken_and_has_not_looked_yet_is_not_woken_again() {
        let rig = Rig::new();
        let (client, wakes) = (rig.join(1), PendingWakes::default());
        let woken_for = |texts: &[&str]| {
            texts.iter().for_each(|text| rig.publish(&wakes, text));
            let (mut letters, mut woken) = (rig.mailboxes.collect(1), 0);
            while deliver_next(&mut letters, &mut |_| woken += 1).is_some() {}
            woken
        };
        assert_eq!((woken_for(&["a", "b"]), woken_for(&["c"])), (1, 0));
        assert!(client.take(Signal::Deliver));
        assert_eq!(read(&client), "abc");
        assert_eq!(woken_for(&["d"]), 1);
    }

    #[test]
    fn a_client_that_moves_misses_no_message_and_sees_no_other_order() {
        let rig = Rig::new();
        let (wakes, client) = (PendingWakes::default(), rig.join(0));
        rig.publish(&wakes, "a");
        let settle = || assert_eq!(rig.empty(0), 1, "the worker that it leaves");
        migrate(vec![&rig.subscribers], &rig.mailboxes, &client, IN_TRANSIT, settle);
        assert_eq!(read(&client), "a");
        rig.publish(&wakes, "b");
        assert_eq!(read(&client), "b", "in transit there is nobody to leave letters with");
        migrate(vec![&rig.subscribers], &rig.mailboxes, &client, 1, || ());
        rig.publish(&wakes, "c");
        assert_eq!((rig.empty(1), read(&client).as_str()), (1, "c"));
        rig.mailboxes.close(1);
        rig.publish(&wakes, "d");
        assert_eq!(read(&client), "d", "nobody empties this mailbox any more");
    }

    #[test]
    fn signals_to_many_clients_of_a_worker_wake_it_once() {
        let rig = Rig::new();
        let (bell, wakes) = (Arc::new(CountingWaker::default()), PendingWakes::default());
        let clients: Vec<_> = (0..50).map(|_| rig.join(3)).collect();
        for client in &clients {
            client.set_waker(&Waker::from(Arc::clone(&bell)));
            rig.mailboxes.signal(client, Signal::Kill, &wakes);
            assert!(client.is_asked(Signal::Kill));
        }
        rig.mailboxes.wake(&wakes);
        assert_eq!((rig.woken()[3], bell.count()), (1, 0));
        rig.empty(3);
        assert_eq!(bell.count(), 50);
    }
}
