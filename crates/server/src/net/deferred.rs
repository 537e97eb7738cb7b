//! Second turns: what sessions leave until all sessions that are ready have had their turn.
//!
//! Requests that come alone are executed then (`connection/deferred.rs`): the keys of many are
//! fetched from memory together. And the replies of a batch leave then: a client with several
//! connections that sleeps is woken once for many replies, and to wake it costs the server as much
//! as some requests. One task takes all second turns: to run the task of each session again would
//! cost as much as to execute its request.
//!
//! Invariants: each session in line is seen to by that task; no batch waits behind sessions whose
//! first turns came later than `WAIT_US` after the first of the sessions that wait with replies.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::num::NonZeroU16;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

use engine::runtime::panics::contain;
use keyspace::Location;
use smallvec::SmallVec;

use crate::net::connection::{Connection, Slot};
use crate::net::worker::Worker;

/// A batch that takes longer writes at once: to wake the client is little beside it.
const BATCH_US: i64 = 50;
/// Longer replies leave at once: to wake the client is little beside them, too, and they would take
/// memory.
const BYTES: usize = 64 * 1024;
/// Where the first has waited for so long, others do not join.
const WAIT_US: i64 = 500;

/// The bytes of requests that are deferred; one request more may be.
pub(crate) const DEFERRED_MAX: usize = 128 * 1024;

/// Each deferred request begins at a multiple of so many bytes.
pub(crate) const GRAIN: usize = 64;

/// The requests whose keys are fetched from memory together.
const TOGETHER: usize = 32;

/// The requests that are kept as they were parsed.
const PARSED: u8 = 128;

/// A request that waits for its session's second turn, in the worker's read buffer.
#[derive(Clone, Copy)]
pub(crate) struct DeferredRequest {
    /// Where the request begins in the buffer, in units of `GRAIN`.
    begin: u16,
    /// Its bytes.
    length: u16,
    database: usize,
    found: Found,
}

/// What was found out about a request before it is deferred.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Where its one key belongs, if it has just one.
    pub(crate) location: Option<Location>,
    /// Where the parsed request is kept, if one is.
    pub(crate) parsed: Option<u8>,
}

/// Which of a worker's deferred requests one is. Sessions have little room for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeferredNumber(NonZeroU16);

const _: () = assert!(DEFERRED_MAX / GRAIN < u16::MAX as usize, "each takes a grain or more");

impl DeferredRequest {
    /// Where the request lies in the worker's read buffer.
    fn range(&self) -> Range<usize> {
        let begin = usize::from(self.begin) * GRAIN;
        begin..begin + usize::from(self.length)
    }
}

/// A session that stands in line.
struct Waiting {
    serve: Rc<RefCell<Connection>>,
    request: Option<DeferredNumber>,
}

/// What a worker knows of the second turns of its sessions.
#[derive(Default)]
pub(crate) struct DeferredSessions {
    /// Since when the first of the sessions that wait with replies does.
    since_us: Cell<Option<i64>>,
    /// The sessions that wait.
    line: RefCell<Vec<Waiting>>,
    /// Bytes of the worker's read buffer with requests that are deferred.
    bytes: Cell<usize>,
    /// The requests that are deferred there.
    requests: RefCell<Vec<DeferredRequest>>,
    /// That of the session that joins next.
    joining: Cell<Option<DeferredNumber>>,
    /// Some of them as they were parsed; and a parser for those that are too many.
    parsed: RefCell<Vec<Slot>>,
    /// How many these are.
    parsed_count: Cell<u8>,
    /// The task that sees to them, while nobody waits.
    waker: Cell<Option<Waker>>,
}

impl DeferredSessions {
    /// Whether the replies of a batch that began and ended then are to wait, if they have so many
    /// bytes.
    #[inline]
    pub(crate) fn may_defer_replies(&self, bytes: usize, began_us: i64, now_us: i64) -> bool {
        if bytes > BYTES || now_us - began_us > BATCH_US {
            return false;
        }
        let since_us = self.since_us.get().unwrap_or(now_us);
        self.since_us.set(Some(since_us));
        now_us - since_us <= WAIT_US
    }

    /// Where the worker's read buffer is free from.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether another request may be deferred.
    #[inline]
    pub(crate) fn has_room(&self, now_us: i64) -> bool {
        let since_us = self.since_us.get().unwrap_or(now_us);
        self.bytes.get() < DEFERRED_MAX && now_us - since_us <= WAIT_US
    }

    /// Has a request parsed where it can stay until it is executed, if there is room. The
    /// caller that returns where its key belongs defers it.
    #[inline]
    pub(crate) fn parse(
        &self,
        parse: impl FnOnce(&mut Slot) -> Option<Option<Location>>,
    ) -> Option<Found> {
        let (count, mut slots) = (self.parsed_count.get(), self.parsed.borrow_mut());
        if slots.len() == usize::from(count) {
            slots.push(Slot::default());
        }
        let location = parse(&mut slots[usize::from(count)])?;
        if count == PARSED {
            return Some(Found { location, parsed: None });
        }
        self.parsed_count.set(count + 1);
        Some(Found { location, parsed: Some(count) })
    }

    /// Defers a request of so many bytes that was read to where the buffer is free, of the
    /// session that lines up next.
    #[inline]
    pub(crate) fn keep(&self, found: Found, database: usize, length: u16) -> DeferredNumber {
        let begin = self.bytes.get();
        self.bytes.set(begin + usize::from(length).next_multiple_of(GRAIN));
        let mut requests = self.requests.borrow_mut();
        let begin = (begin / GRAIN) as u16;
        requests.push(DeferredRequest { begin, length, database, found });
        let number = NonZeroU16::new(requests.len() as u16).expect("it is the last of some");
        let number = DeferredNumber(number);
        self.joining.set(Some(number));
        number
    }

    /// The request of this number.
    #[inline]
    fn request(&self, number: DeferredNumber) -> DeferredRequest {
        self.requests.borrow()[usize::from(number.0.get()) - 1]
    }

    /// Where the one key of a request belongs, if it has just one.
    #[inline]
    pub(crate) fn location(&self, number: DeferredNumber) -> Option<Location> {
        self.request(number).found.location
    }

    /// Where a request lies in the worker's read buffer.
    #[inline]
    pub(crate) fn range(&self, number: DeferredNumber) -> Range<usize> {
        self.request(number).range()
    }

    /// A session lines up.
    #[inline]
    pub(crate) fn join(&self, serve: Rc<RefCell<Connection>>) {
        let request = self.joining.take();
        self.line.borrow_mut().push(Waiting { serve, request });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether nobody stands in line.
    pub(crate) fn is_over(&self) -> bool {
        self.line.borrow().is_empty()
    }

    /// A session that comes from now on stands in a new line.
    fn begin(&self) -> Vec<Waiting> {
        self.since_us.set(None);
        self.line.take()
    }

    /// The turns of those in line have come.
    pub(crate) fn drain(&self, worker: &Worker) {
        let mut line = self.begin();
        let written = if self.bytes.get() > 0 { execute(worker, &line) } else { 0 };
        self.bytes.set(0);
        self.requests.borrow_mut().clear();
        self.parsed_count.set(0);
        line[written..].iter().for_each(|waiting| guard(&waiting.serve, Connection::write_pending));
        line.clear();
        // A session lines up in no turn but one of its own.
        self.line.replace(line);
    }
}

/// Executes what those in line have deferred. Returns how many of them have written their replies:
/// where that takes long they do not wait for the others.
fn execute(worker: &Worker, line: &[Waiting]) -> usize {
    let (mut written, mut began_us) = (0, None);
    let mut slots = worker.deferred.parsed.borrow_mut();
    for (index, Waiting { serve, request }) in line.iter().enumerate() {
        if index % TOGETHER == 0 {
            fetch(worker, &line[index..line.len().min(index + TOGETHER)]);
        }
        // To read the clocks for each request would be a twentieth of its instructions.
        if index % TOGETHER == 0 || began_us.is_none() {
            worker.start_batch();
        }
        let parsed = request.and_then(|number| worker.deferred.request(number).found.parsed);
        let parsed = parsed.map(|place| &mut slots[usize::from(place)]);
        guard(serve, |serve| serve.execute_deferred(parsed));
        let now_us = worker.ticked_us();
        let took_us = now_us - *began_us.get_or_insert(worker.batch_began().us());
        if took_us > BATCH_US || serve.borrow().unsent() > BYTES {
            worker.leave();
            let done = &line[written..=index];
            done.iter().for_each(|waiting| guard(&waiting.serve, Connection::write_pending));
            (written, began_us) = (index + 1, None);
        }
    }
    worker.leave();
    written
}

/// Has the keys of requests that were deferred on their way from memory.
fn fetch(worker: &Worker, line: &[Waiting]) {
    let requests = line.iter().filter_map(|it| it.request);
    let mut left: SmallVec<[DeferredRequest; TOGETHER]> =
        requests.map(|number| worker.deferred.request(number)).collect();
    if left.len() < 2 || !worker.enter() {
        return;
    }
    while let Some(&DeferredRequest { database, .. }) = left.first() {
        let here = left.iter().filter(|request| request.database == database);
        let locations: SmallVec<[Location; TOGETHER]> =
            here.filter_map(|request| request.found.location).collect();
        worker.server.keyspace.prefetch(worker.number, &locations, database);
        left.retain(|request| request.database != database);
    }
}

/// Does something for a session that is no turn of its own. A panic ends the session.
pub(crate) fn guard(serve: &RefCell<Connection>, step: impl FnOnce(&mut Connection)) {
    let mut serve = serve.borrow_mut();
    if contain(|| step(&mut serve)).is_err() {
        serve.abort();
    }
}

/// Gives second turns, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    let turns = &worker.deferred;
    loop {
        poll_fn(|cx| {
            if turns.line.borrow().is_empty() {
                turns.waker.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        worker.wakes.records.open();
        turns.drain(&worker);
        worker.end_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_US, BYTES, DEFERRED_MAX, DeferredSessions, Found, GRAIN, PARSED, WAIT_US};

    #[test]
    fn short_replies_of_short_batches_wait_while_the_first_does_not_wait_for_long() {
        let turns = DeferredSessions::default();
        assert!(!turns.may_defer_replies(1, 0, BATCH_US + 1), "a long batch");
        assert!(!turns.may_defer_replies(BYTES + 1, 0, 0), "long replies");
        assert!(turns.may_defer_replies(BYTES, 1000, 1000 + BATCH_US), "the first");
        let last = 1000 + BATCH_US + WAIT_US;
        assert!(turns.may_defer_replies(1, last, last));
        assert!(!turns.may_defer_replies(1, last + 1, last + 1), "the first waits for too long");
        turns.begin();
        assert!(turns.may_defer_replies(1, last + 2, last + 2));
    }

    #[test]
    fn requests_are_deferred_while_there_is_room_and_the_first_does_not_wait_for_long() {
        let turns = DeferredSessions::default();
        let found = Found { location: None, parsed: None };
        assert_eq!(turns.bytes(), 0);
        let first = turns.keep(found, 0, 1);
        let grain = GRAIN as u16;
        let second = turns.keep(found, 0, grain);
        turns.keep(found, 0, grain + 1);
        assert_eq!((turns.range(first), turns.range(second)), (0..1, GRAIN..2 * GRAIN));
        assert_eq!(turns.bytes(), 4 * GRAIN, "each begins at a multiple of it");
        assert!(turns.has_room(0), "nobody waits with a reply");
        assert!(turns.may_defer_replies(1, 7, 7));
        assert!(turns.has_room(7 + WAIT_US));
        assert!(!turns.has_room(8 + WAIT_US), "the first waits for too long");
        while turns.bytes() + GRAIN < DEFERRED_MAX {
            turns.keep(found, 0, grain);
        }
        assert!(turns.has_room(7), "for the last");
        turns.keep(found, 0, grain);
        assert!(!turns.has_room(7), "the buffer is full");
    }

    #[test]
    fn the_first_requests_that_are_deferred_are_kept_as_they_were_parsed() {
        let turns = DeferredSessions::default();
        let place = || turns.parse(|_| Some(None)).and_then(|found| found.parsed);
        assert!(turns.parse(|_| None).is_none(), "it is no request");
        assert!((0..PARSED).all(|number| place() == Some(number)));
        assert_eq!((place(), place()), (None, None));
    }
}
