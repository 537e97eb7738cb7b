//! How connections come and go. Invariant: a link is in at most one of `to_open`, `timers` and the
//! poll; its requests are given up exactly when its socket is.

use std::cmp::Reverse;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::{Interest, Token};

use super::super::clock::nanos;
use super::super::dial::Address;
use super::super::link::{Link, State};
use super::super::reply::{Nature, Reply};
use super::{Driver, Timer};

/// Connections that one thread makes at a time, so that a backlog does not overflow.
const OPENING_MAX: usize = 64;

/// How long after a failure the next attempt comes, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// How long a server may be away before the run is given up.
const AWAY_MAX: Duration = Duration::from_secs(10);

impl Driver<'_> {
    /// Adds the links to nodes that have become known.
    pub(super) fn add_links(&mut self) {
        let nodes = self.map.as_ref().map_or(1, |map| map.addresses().len());
        let retains = self.map.is_some();
        let wanted = nodes * self.clients.len();
        let verifies = self.shared.verifies;
        while self.links.len() < wanted {
            let protocol = self.shared.options.protocol;
            self.links.push(Link::new(protocol, retains, verifies));
        }
    }

    pub(super) fn address(&self, index: usize) -> &Address {
        match &self.map {
            Some(map) => &map.addresses()[index / self.clients.len()],
            None => &self.shared.address,
        }
    }

    /// Lets so many more clients begin.
    pub(super) fn start_clients(&mut self, count: usize) {
        let started = self.clients.iter().filter(|client| client.is_started).count();
        let end = started.saturating_add(count).min(self.clients.len());
        for client in started..end {
            self.clients[client].is_started = true;
            let links = (client..self.links.len()).step_by(self.clients.len());
            self.to_open.extend(links);
        }
    }

    /// Begins to make connections, a few at a time.
    pub(super) fn open_waiting(&mut self, now: u64) -> Result<(), String> {
        while self.opening < OPENING_MAX
            && let Some(index) = self.to_open.pop_front()
        {
            if !self.is_wanted(index) || self.links[index].state != State::Closed {
                continue;
            }
            self.open(index, now)?;
        }
        self.flush()
    }

    fn is_wanted(&self, index: usize) -> bool {
        let client = &self.clients[self.client_of(index)];
        client.is_started && !client.is_finished
    }

    fn open(&mut self, index: usize, now: u64) -> Result<(), String> {
        let (attempt, encryptor) = (self.links[index].attempts, self.shared.encryptor.as_ref());
        let connected = self.address(index).connect(attempt, encryptor).and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, Token(index), interest)?;
            Ok(socket)
        });
        let link = &mut self.links[index];
        if link.attempts == 0 {
            link.down_since = now;
        }
        self.opening += 1;
        match connected {
            Ok(socket) => {
                link.attempts += 1;
                link.socket = Some(socket);
                link.state = State::Connecting;
                Ok(())
            }
            // The backlog of a Unix socket is full; that is no failure.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.opening -= 1;
                self.timers.push(Reverse((now + 1_000_000, Timer::Retry(index))));
                Ok(())
            }
            Err(error) => {
                link.attempts += 1;
                link.state = State::Connecting;
                self.fail(index, &error.to_string())
            }
        }
    }

    /// The socket can be written to, as it has connected or has room again.
    pub(super) fn became_writable(&mut self, index: usize) -> Result<(), String> {
        let link = &mut self.links[index];
        if link.state == State::Connecting {
            return self.connect_on(index);
        }
        match link.write() {
            Ok(()) => Ok(()),
            Err(error) => self.connection_lost(index, &error.to_string()),
        }
    }

    /// Goes on with a connection that is being made.
    pub(super) fn connect_on(&mut self, index: usize) -> Result<(), String> {
        let link = &mut self.links[index];
        let Some(socket) = &mut link.socket else { return Ok(()) };
        match socket.go_on() {
            Ok(false) => Ok(()),
            Err(error) => self.fail(index, &error.to_string()),
            Ok(true) => {
                link.state = State::Greeting(0);
                link.out.end().extend_from_slice(&self.greeting.bytes);
                if let Err(error) = link.write() {
                    return self.fail(index, &error.to_string());
                }
                if self.greeting.steps.is_empty() {
                    self.opened(index);
                }
                Ok(())
            }
        }
    }

    /// A reply to the greeting came.
    pub(super) fn greeted(&mut self, index: usize, reply: &Reply) -> Result<(), String> {
        let State::Greeting(done) = self.links[index].state else {
            return Err("a reply came before the greeting".to_owned());
        };
        let step = self.greeting.steps.get(done).copied().unwrap_or("greeting");
        if reply.nature == Nature::Error {
            let text = String::from_utf8_lossy(self.links[index].scanner.text()).into_owned();
            return Err(format!("{}: {step} failed: {text}", self.address(index).name()));
        }
        self.links[index].state = State::Greeting(done + 1);
        if done + 1 == self.greeting.steps.len() {
            self.opened(index);
        }
        Ok(())
    }

    fn opened(&mut self, index: usize) {
        let link = &mut self.links[index];
        link.state = State::Open;
        link.attempts = 0;
        link.out.clear();
        self.opening -= 1;
        self.shared.live.connections.fetch_add(1, Ordering::Relaxed);
        if self.is_running {
            let client = self.client_of(index);
            let now = self.clock.now();
            self.refill(client, now);
        }
    }

    /// A connection could not be made. Before the run that ends it; in the run it is tried again.
    fn fail(&mut self, index: usize, reason: &str) -> Result<(), String> {
        self.opening -= 1;
        self.links[index].reset();
        let attempts = self.links[index].attempts;
        let address = self.address(index);
        if attempts < address.len() {
            self.to_open.push_front(index);
            return Ok(());
        }
        let complaint = format!("cannot connect to {}: {reason}", address.name());
        let now = self.clock.now();
        if !self.is_running || now - self.links[index].down_since > nanos(AWAY_MAX) {
            return Err(complaint);
        }
        self.refused += 1;
        let doublings = attempts.min(10) as u32;
        let pause = (RETRY_FIRST * 2_u32.pow(doublings)).min(RETRY_LAST);
        self.timers.push(Reverse((now + nanos(pause), Timer::Retry(index))));
        Ok(())
    }

    /// A connection has ended that was not meant to.
    pub(super) fn connection_lost(&mut self, index: usize, reason: &str) -> Result<(), String> {
        match self.links[index].state {
            State::Closed => return Ok(()),
            State::Connecting | State::Greeting(_) => return self.fail(index, reason),
            State::Open => {}
        }
        if !self.is_running {
            return Err(format!("{} closed a connection: {reason}", self.address(index).name()));
        }
        self.connection_errors += 1;
        self.reopen(index);
        Ok(())
    }

    /// Ends a connection and makes it anew; requests that had no reply get none.
    pub(super) fn reopen(&mut self, index: usize) {
        let client = self.client_of(index);
        self.shared.live.connections.fetch_sub(1, Ordering::Relaxed);
        let (unanswered, now) = (self.links[index].reset(), self.clock.now());
        for pending in unanswered.iter().filter(|pending| !pending.is_asking) {
            self.give_up(client, pending, now);
        }
        self.to_open.push_back(index);
        self.settle(client);
    }
}
