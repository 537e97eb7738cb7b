//! One thread of the generator: its clients, their connections and the loop that serves them.
//!
//! Invariants: nothing blocks except the wait in `Alarm`; a client's `outstanding` counts its
//! requests that are under way or parked, and a client is finished when it has none and will send
//! none. A request leaves `outstanding` answered, unanswered with its age, or never sent. Latencies
//! run from just before the write that carries a request (in an open loop: from
//! when it was due) to just after the read that completed its reply; one time stamp serves all
//! requests of a write, and one all replies of a read.

mod connect;
mod receive;
mod send;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll};

use super::alarm::{self, Alarm};
use super::clock::{RunClock, nanos};
use super::cluster::SlotMap;
use super::dial::{Address, Greeting};
use super::encrypted::Encryptor;
use super::link::Link;
use super::live::Live;
use super::pace::Pace;
use super::record::{Recorder, Totals};
use super::starvation::Starvation;
use super::written::Written;
use crate::interrupt;
use crate::options::{Options, Ramp, Until};
use crate::workload::{Stream, Workload};

/// One read takes at most so much: the replies to a deep pipeline, small enough to stay cached.
const READ_SIZE: usize = 128 << 10;

/// Events that one wait may bring.
const EVENTS: usize = 1024;

/// How long replies are waited for after the run's time is over.
const DRAIN: Duration = Duration::from_secs(10);

/// The same where somebody has ended the run and waits for the figures.
const DRAIN_OF_INTERRUPTED: Duration = Duration::from_secs(1);

/// How often is looked whether the server is silent.
const SILENCE_CHECK: u64 = 100_000_000;

/// How often the progress is told.
const PUBLISH_EVERY: u64 = 20_000_000;

/// What a thread says that ended because of another.
pub(super) const GIVEN_UP: &str = "another thread of the run has failed";

/// What all threads of a phase share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) options: &'a Options,
    pub(super) workload: &'a Workload,
    pub(super) live: Live,
    pub(super) written: Option<&'a Written>,
    /// Whether this is the phase that reads back.
    pub(super) verifies: bool,
    /// Nodes and slots, in cluster mode.
    pub(super) map: Option<SlotMap>,
    pub(super) address: Address,
    /// What encrypts connections, where they are.
    pub(super) encryptor: Option<Encryptor>,
    /// A thread has failed: the others give up.
    pub(super) gives_up: AtomicBool,
}

/// What a thread brings home.
#[derive(Debug)]
pub(super) struct ThreadResult {
    pub(super) recorder: Recorder,
    /// One per client, where asked for.
    pub(super) clients: Vec<Recorder>,
    pub(super) connection_errors: u64,
    pub(super) refused: u64,
    pub(super) verify_errors: u64,
    pub(super) late: u64,
    pub(super) unsent: u64,
    /// When the last reply came, and no less than when the time was over, in nanoseconds of the
    /// run.
    pub(super) last: u64,
    /// How long there was nothing to do.
    pub(super) idle: Duration,
    /// How long it waited for a core.
    pub(super) starved: Duration,
}

/// One client: a stream of requests, and a connection to each node.
#[derive(Debug)]
struct Client {
    stream: Stream,
    /// Its own measurements, where asked for.
    recorder: Option<Recorder>,
    issued: u64,
    outstanding: u64,
    parked: usize,
    /// When `--rate-limiting` lets it send again.
    due: u64,
    /// Whether a timer is set for that.
    has_timer: bool,
    is_started: bool,
    /// Its stream has ended or its number of requests is reached.
    is_exhausted: bool,
    is_finished: bool,
    /// Whether the client is among those that an open loop takes from.
    is_ready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Try this link again.
    Retry(usize),
    /// This client may send again.
    Due(usize),
}

/// The state of a thread.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    shared: &'a Shared<'a>,
    poll: Poll,
    alarm: Alarm,
    clock: RunClock,
    greeting: Greeting,
    map: Option<SlotMap>,
    clients: Vec<Client>,
    /// That of client `c` to node `n` is number `n * clients.len() + c`.
    links: Vec<Link>,
    /// Links that wait for their turn to connect.
    to_open: VecDeque<usize>,
    /// Links that are being made.
    opening: usize,
    /// Links that have something to write.
    dirty: Vec<usize>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    pace: Pace,
    pipeline: usize,
    /// Requests per client.
    limit: u64,
    /// Requests per connection.
    reconnect_interval: u64,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    recorder: Recorder,
    published: Totals,
    published_at: u64,
    next_step: Option<u64>,
    deadline: Option<u64>,
    /// When the server's silence is looked at next.
    silence_check: u64,
    starvation: Starvation,
    is_running: bool,
    is_stopping: bool,
    unfinished: usize,
    /// Clients that will send more.
    issuers: usize,
    connection_errors: u64,
    refused: u64,
    verify_errors: u64,
    unsent: u64,
    last: u64,
}

impl<'a> Driver<'a> {
    /// A thread with all its clients, and no connection yet.
    pub(super) fn new(shared: &'a Shared<'a>, thread: u32) -> Result<Self, String> {
        let options = shared.options;
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let alarm = Alarm::new(&poll).map_err(|error| error.to_string())?;
        let clients: Vec<Client> =
            (0..options.clients).map(|client| Client::new(shared, thread, client)).collect();
        let limit = match options.until {
            Until::Requests(requests) => requests,
            Until::AllKeys | Until::Time(_) => u64::MAX,
        };
        let mut driver = Self {
            poll,
            alarm,
            clock: RunClock::start(),
            greeting: Greeting::of(options),
            map: shared.map.clone(),
            unfinished: clients.len(),
            issuers: clients.len(),
            links: Vec::new(),
            to_open: VecDeque::new(),
            opening: 0,
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            pace: Pace::of(options, thread),
            pipeline: options.pipeline.max(1) as usize,
            limit,
            reconnect_interval: options.reconnect_interval.unwrap_or(u64::MAX),
            buffer: vec![0; READ_SIZE],
            scratch: Vec::new(),
            recorder: Recorder::new(shared.workload.commands().len()),
            published: Totals::default(),
            published_at: 0,
            next_step: None,
            deadline: None,
            silence_check: SILENCE_CHECK,
            starvation: Starvation::default(),
            is_running: false,
            is_stopping: false,
            connection_errors: 0,
            refused: 0,
            verify_errors: 0,
            unsent: 0,
            last: 0,
            clients,
            shared,
        };
        driver.add_links();
        Ok(driver)
    }

    /// Makes the connections that stand from the first request on.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        let ramp = self.shared.options.ramp;
        self.start_clients(ramp.map_or(usize::MAX, |ramp| ramp.start as usize));
        let mut events = Events::with_capacity(EVENTS);
        let patience = nanos(DRAIN);
        let mut since = self.clock.now();
        loop {
            let opening = self.opening + self.to_open.len();
            self.open_waiting(since)?;
            if self.opening == 0 && self.to_open.is_empty() && self.timers.is_empty() {
                return Ok(());
            }
            let now = self.wait(&mut events)?;
            self.fire_timers(now)?;
            for event in &events {
                self.handle(event)?;
            }
            if self.opening + self.to_open.len() != opening {
                since = now;
            } else if now - since > patience {
                let name = self.shared.address.name();
                return Err(format!("{name} lets connections wait for {} s", DRAIN.as_secs()));
            }
        }
    }

    /// Sends and receives until every client is finished.
    pub(super) fn run(mut self, clock: RunClock) -> Result<ThreadResult, String> {
        let mut events = Events::with_capacity(EVENTS);
        self.begin(clock)?;
        while self.unfinished > 0 {
            let now = self.wait(&mut events)?;
            self.observe(now)?;
            for event in &events {
                self.handle(event)?;
            }
            self.dispatch()?;
            self.open_waiting(now)?;
            self.publish(now);
        }
        self.publish(u64::MAX);
        let standing = self.links.iter().filter(|link| link.is_open()).count() as u64;
        self.shared.live.connections.fetch_sub(standing, Ordering::Relaxed);
        let late = match &self.pace {
            Pace::Open(schedule) => schedule.late().saturating_sub(self.unsent),
            Pace::Closed | Pace::Limited(_) => 0,
        };
        Ok(ThreadResult {
            recorder: self.recorder,
            clients: self.clients.into_iter().filter_map(|client| client.recorder).collect(),
            connection_errors: self.connection_errors,
            refused: self.refused,
            verify_errors: self.verify_errors,
            late,
            unsent: self.unsent,
            last: self.last,
            idle: self.alarm.idle(),
            starved: self.starvation.since_begin(),
        })
    }

    fn begin(&mut self, clock: RunClock) -> Result<(), String> {
        self.alarm.begin();
        self.starvation = Starvation::begin();
        self.clock = clock;
        self.is_running = true;
        let options = self.shared.options;
        if let Until::Time(time) = options.until {
            self.deadline = Some(nanos(time));
        }
        self.next_step = options.ramp.map(|ramp| nanos(ramp.every));
        for client in 0..self.clients.len() {
            self.fill(client, 0);
            self.settle(client);
            self.flush()?;
        }
        self.dispatch()
    }

    fn wait(&mut self, events: &mut Events) -> Result<u64, String> {
        if self.shared.gives_up.load(Ordering::Relaxed) {
            return Err(GIVEN_UP.to_owned());
        }
        let wake = self.next_wake();
        let waited = self.alarm.wait(&mut self.poll, events, &self.clock, wake);
        waited.map_err(|error| format!("cannot wait for events: {error}"))
    }

    /// The next moment at which something is to be done without an event.
    fn next_wake(&self) -> Option<u64> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let due = match &self.pace {
            Pace::Open(schedule) if !schedule.ready.is_empty() => Some(schedule.due()),
            _ => None,
        };
        [timer, due, self.next_step, self.deadline].into_iter().flatten().min()
    }

    /// Does what the time alone asks for.
    fn observe(&mut self, now: u64) -> Result<(), String> {
        self.recorder.advance(now);
        let total = self.limit.saturating_mul(self.clients.len() as u64);
        if let Pace::Open(schedule) = &mut self.pace
            && schedule.was_full
            && self.issuers > 0
            && !self.is_stopping
        {
            schedule.count_missed(now, total);
        }
        if let (Some(step), Some(Ramp { step: clients, every, .. })) =
            (self.next_step, self.shared.options.ramp)
            && now >= step
        {
            self.start_clients(clients as usize);
            let all = self.clients.iter().all(|client| client.is_started);
            self.next_step = (!all).then_some(step + nanos(every));
        }
        self.fire_timers(now)?;
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return self.stop(now, DRAIN);
        }
        if interrupt::is_asked() && !self.is_stopping {
            return self.stop(now, DRAIN_OF_INTERRUPTED);
        }
        if now >= self.silence_check {
            self.silence_check = now + SILENCE_CHECK;
            if self.is_silent(now) {
                self.stop(now, Duration::ZERO)?;
                return self.stop(now, Duration::ZERO);
            }
        }
        Ok(())
    }

    /// Whether requests are under way and no reply has come for as long as the options allow.
    fn is_silent(&self, now: u64) -> bool {
        let limit = nanos(self.shared.options.silence_limit);
        if limit == 0 || self.deadline.is_some() || now.saturating_sub(self.last) < limit {
            return false;
        }
        let oldest = self.links.iter().filter_map(|link| link.inflight.front());
        oldest.map(|pending| pending.at).min().is_some_and(|at| now.saturating_sub(at) >= limit)
    }

    /// At the end of the time: no more requests. So long after it: no more waiting for replies.
    fn stop(&mut self, now: u64, drain: Duration) -> Result<(), String> {
        if !self.is_stopping {
            // What was to be tested has lasted until now, whatever has come. Nothing is due behind
            // the deadline, however late that is seen.
            let end = self.deadline.unwrap_or(now).min(now);
            self.last = self.last.max(end);
            self.give_up_unsent(end);
        }
        for index in 0..self.links.len() {
            if self.is_stopping && !self.links[index].inflight.is_empty() {
                self.reopen(index);
            }
            let parked = std::mem::take(&mut self.links[index].parked);
            let client = self.client_of(index);
            self.clients[client].parked -= parked.len();
            for parked in parked {
                self.give_up(client, &parked.pending, now);
            }
        }
        self.is_stopping = true;
        self.next_step = None;
        self.deadline = Some(now + nanos(drain));
        if let Pace::Open(schedule) = &mut self.pace {
            schedule.ready.clear();
        }
        for client in 0..self.clients.len() {
            self.settle(client);
        }
        Ok(())
    }

    fn fire_timers(&mut self, now: u64) -> Result<(), String> {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::Retry(index) => self.to_open.push_back(index),
                Timer::Due(client) => {
                    self.clients[client].has_timer = false;
                    self.fill(client, now);
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: &Event) -> Result<(), String> {
        if event.token() == alarm::TOKEN {
            return Ok(());
        }
        let index = event.token().0;
        if event.is_writable() || event.is_error() {
            self.became_writable(index)?;
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.receive(index, event.is_read_closed() || event.is_error())?;
        }
        self.flush()
    }

    /// Tells the watchers what came since the last time.
    fn publish(&mut self, now: u64) {
        if now - self.published_at < PUBLISH_EVERY {
            return;
        }
        self.published_at = now;
        let (totals, before) = (self.recorder.totals, self.published);
        self.published = totals;
        let live = &self.shared.live;
        live.requests.fetch_add(totals.requests - before.requests, Ordering::Relaxed);
        live.bytes.fetch_add(totals.bytes - before.bytes, Ordering::Relaxed);
        live.latency_us.fetch_add(totals.latency_us - before.latency_us, Ordering::Relaxed);
    }

    fn client_of(&self, index: usize) -> usize {
        index % self.clients.len()
    }

    /// Marks a client that has nothing to do any more.
    fn settle(&mut self, client: usize) {
        let state = &mut self.clients[client];
        let sends_no_more = state.is_exhausted || self.is_stopping;
        if sends_no_more && state.outstanding == 0 && !state.is_finished {
            state.is_finished = true;
            self.unfinished -= 1;
        }
    }
}

impl Client {
    fn new(shared: &Shared, thread: u32, client: u32) -> Self {
        let workload = shared.workload;
        let stream = if shared.verifies {
            workload.verify_stream(thread, client)
        } else {
            workload.stream(thread, client)
        };
        let has_recorder = shared.options.output.client_stats.is_some();
        Self {
            stream,
            recorder: has_recorder.then(|| Recorder::new(shared.workload.commands().len())),
            issued: 0,
            outstanding: 0,
            parked: 0,
            due: 0,
            has_timer: false,
            is_started: false,
            is_exhausted: shared.options.until == Until::Requests(0),
            is_finished: false,
            is_ready: false,
        }
    }
}
