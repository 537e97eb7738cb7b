//! Messages that clients here have published, on their way to the thread of the bus.
//!
//! Invariants: what waits is bounded: above one bound clients are held back before they publish
//! more, above another what is published all the same, by a script in its middle, is lost and
//! counted. The gate is shut and opened under the queue's lock, so none is held back for an empty
//! queue.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use cluster::PublishedMessage;
use engine::runtime::backpressure::Backpressure;

/// Publishers are held back while more bytes wait.
const HELD_ABOVE: usize = 4 << 20;

/// The publishers go on once no more wait.
const FREE_BELOW: usize = HELD_ABOVE / 2;

/// What would have more wait is lost.
const LOST_ABOVE: usize = 256 << 20;

/// What a message takes beside its bytes.
const OVERHEAD: usize = size_of::<PublishedMessage>() + 32;

/// So many messages, or a few more bytes, are taken at once.
const TAKEN_MAX: usize = 64;
const TAKEN_BYTES: usize = 256 << 10;

/// The queue.
pub(super) struct MessageQueue {
    backpressure: &'static Backpressure,
    waiting: Mutex<WaitingMessages>,
}

#[derive(Default)]
struct WaitingMessages {
    messages: VecDeque<PublishedMessage>,
    bytes: usize,
    /// The thread of the bus, when the queue was empty.
    waker: Option<Waker>,
}

impl MessageQueue {
    /// With the backpressure that holds publishers back.
    pub(super) fn new(backpressure: &'static Backpressure) -> Self {
        Self { backpressure, waiting: Mutex::default() }
    }

    /// Queues a message; `false` if it is lost.
    pub(super) fn push(&self, message: PublishedMessage) -> bool {
        let mut waiting = self.lock();
        let bytes = bytes_of(&message);
        // One message is never too long for an empty queue.
        if waiting.bytes > 0 && waiting.bytes + bytes > LOST_ABOVE {
            return false;
        }
        waiting.bytes += bytes;
        waiting.messages.push_back(message);
        if waiting.bytes > HELD_ABOVE {
            self.backpressure.begin();
        }
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
        true
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Takes some messages, or has the task woken when there are any.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Vec<PublishedMessage>> {
        let mut waiting = self.lock();
        if waiting.messages.is_empty() {
            waiting.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < TAKEN_MAX
            && bytes < TAKEN_BYTES
            && let Some(message) = waiting.messages.pop_front()
        {
            bytes += bytes_of(&message);
            taken.push(message);
        }
        waiting.bytes -= bytes;
        if waiting.bytes <= FREE_BELOW {
            self.backpressure.end();
        }
        Poll::Ready(taken)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingMessages> {
        self.waiting.lock().expect("no critical section here panics")
    }
}

fn bytes_of(message: &PublishedMessage) -> usize {
    message.channel.len() + message.message.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use cluster::PublishedMessage;
    use engine::runtime::backpressure::Backpressure;

    use super::{LOST_ABOVE, MessageQueue, TAKEN_MAX};

    fn message(len: usize) -> PublishedMessage {
        PublishedMessage { channel: Vec::new(), message: vec![0; len], is_sharded: false }
    }

    fn take(queue: &MessageQueue) -> usize {
        match queue.poll_take(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => taken.len(),
            Poll::Pending => 0,
        }
    }

    #[test]
    fn publishers_wait_while_much_does_and_no_longer() {
        let backpressure: &'static Backpressure = Box::leak(Box::default());
        let queue = MessageQueue::new(backpressure);
        let mut count = 0;
        while !backpressure.is_on() {
            assert!(queue.push(message(1000)));
            count += 1;
        }
        assert!(count > 2 * TAKEN_MAX);
        while backpressure.is_on() {
            count -= take(&queue);
        }
        assert!(count > 0, "the backpressure ends before the queue is empty");
        while !queue.is_empty() {
            count -= take(&queue);
        }
        assert_eq!((count, take(&queue)), (0, 0));
    }

    #[test]
    fn what_is_far_above_the_bound_is_lost_but_not_where_nothing_waits() {
        let backpressure: &'static Backpressure = Box::leak(Box::default());
        let queue = MessageQueue::new(backpressure);
        assert!(queue.push(message(LOST_ABOVE + 1)));
        assert!(!queue.push(message(1)));
        assert_eq!(take(&queue), 1);
        assert!(!backpressure.is_on() && queue.push(message(1)));
    }
}
