//! Which request goes when, and on which connection. Invariant: a connection never has more
//! requests without a reply than the pipeline allows (an ASKING beside its request not counted).

use std::cmp::Reverse;

use super::super::dial::append_request;
use super::super::link::{Parked, Pending, State, UNSTAMPED};
use super::super::pace::{CATCH_UP, Pace};
use super::{Driver, Timer};

/// Requests of one client that may wait for busy nodes while others are served.
const PARKED_MAX: usize = 256;

impl Driver<'_> {
    /// After room has come: what was parked goes first, then new requests, as the pace allows.
    pub(super) fn refill(&mut self, client: usize, now: u64) {
        if self.clients[client].parked > 0 {
            self.unpark(client);
        }
        self.fill(client, now);
        self.settle(client);
    }

    /// Sends as much as the pace allows.
    pub(super) fn fill(&mut self, client: usize, now: u64) {
        match &self.pace {
            Pace::Closed => while self.can_issue(client) && self.issue(client, UNSTAMPED) {},
            Pace::Limited(interval) => {
                let interval = *interval;
                self.fill_limited(client, now, interval);
            }
            Pace::Open(_) => self.offer(client),
        }
    }

    fn fill_limited(&mut self, client: usize, now: u64, interval: u64) {
        while self.can_issue(client) {
            let due = self.clients[client].due.max(now.saturating_sub(CATCH_UP));
            if due > now {
                if !self.clients[client].has_timer {
                    self.clients[client].has_timer = true;
                    self.timers.push(Reverse((due, Timer::Due(client))));
                }
                return;
            }
            self.clients[client].due = due + interval;
            self.issue(client, UNSTAMPED);
        }
    }

    /// Lets an open loop take a client that has room.
    fn offer(&mut self, client: usize) {
        if self.clients[client].is_ready || !self.can_issue(client) {
            return;
        }
        if let Pace::Open(schedule) = &mut self.pace {
            schedule.ready.push_back(client);
            self.clients[client].is_ready = true;
        }
    }

    /// Sends the requests of an open loop that are due.
    pub(super) fn dispatch(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        while let Pace::Open(schedule) = &mut self.pace
            && let due = schedule.due()
            && due <= now
            && let Some(client) = schedule.ready.pop_front()
        {
            self.clients[client].is_ready = false;
            // Its room may have gone with its connection since it was offered.
            if self.can_issue(client) && self.issue(client, due) {
                if let Pace::Open(schedule) = &mut self.pace {
                    schedule.advance();
                }
                self.offer(client);
            }
        }
        if let Pace::Open(schedule) = &mut self.pace {
            schedule.was_full = schedule.ready.is_empty();
        }
        self.flush()
    }

    /// At the end of an open loop: the requests that were due before it and found no free slot
    /// count as if they had been sent in time and got no reply. The clients take them in turn.
    pub(super) fn give_up_unsent(&mut self, end: u64) {
        let mut client = 0;
        let mut without = 0;
        while let Pace::Open(schedule) = &mut self.pace
            && let due = schedule.due()
            && due < end
            && without < self.clients.len()
        {
            let clients = self.clients.len();
            let state = &mut self.clients[client];
            client = (client + 1) % clients;
            self.scratch.clear();
            let sends_more = state.is_started && !state.is_exhausted;
            let Some(sent) = sends_more.then(|| state.stream.next(&mut self.scratch)).flatten()
            else {
                without += 1;
                continue;
            };
            without = 0;
            schedule.advance();
            self.unsent += 1;
            self.recorder.give_up(sent.command, (end - due) / 1000);
        }
    }

    #[inline]
    fn can_issue(&self, client: usize) -> bool {
        let state = &self.clients[client];
        self.is_running
            && state.is_started
            && !state.is_exhausted
            && !self.is_stopping
            && state.parked < PARKED_MAX
            && self.has_room(client)
    }

    #[inline]
    fn has_room(&self, client: usize) -> bool {
        let is_free =
            |index: usize| self.links[index].has_room(self.pipeline, self.reconnect_interval);
        match self.map {
            None => is_free(client),
            Some(_) => (client..self.links.len()).step_by(self.clients.len()).any(is_free),
        }
    }

    /// Takes one request from the client's stream: `false` at its end.
    #[inline]
    fn issue(&mut self, client: usize, at: u64) -> bool {
        let state = &mut self.clients[client];
        let (sent, length) = if self.map.is_some() {
            self.scratch.clear();
            (state.stream.next(&mut self.scratch), self.scratch.len())
        } else {
            let out = self.links[client].out.end();
            let before = out.len();
            (state.stream.next(out), out.len() - before)
        };
        let Some(sent) = sent else {
            state.is_exhausted = true;
            self.issuers -= 1;
            return false;
        };
        state.outstanding += 1;
        state.issued += 1;
        if state.issued == self.limit {
            state.is_exhausted = true;
            self.issuers -= 1;
        }
        let pending =
            Pending { sent, at, length: length as u32, is_asking: false, redirections: 0 };
        if let Some(map) = &self.map {
            let index = map.owner(sent.slot) * self.clients.len() + client;
            let bytes = std::mem::take(&mut self.scratch);
            let is_parked = !self.place(index, pending, &bytes, false);
            self.scratch = bytes;
            if let (true, Pace::Open(schedule)) = (is_parked, &mut self.pace) {
                schedule.add_late();
            }
        } else {
            self.links[client].push(pending);
            self.mark_dirty(client);
        }
        true
    }

    /// Puts a request on a connection, or parks it until there is room: `false`.
    pub(super) fn place(
        &mut self,
        index: usize,
        pending: Pending,
        bytes: &[u8],
        asks: bool,
    ) -> bool {
        let link = &mut self.links[index];
        if link.has_room(self.pipeline, self.reconnect_interval) && link.parked.is_empty() {
            self.append(index, pending, bytes, asks);
            return true;
        }
        link.parked.push_back(Parked { pending, bytes: bytes.to_vec(), asks });
        let is_unborn = link.state == State::Closed && link.attempts == 0;
        let client = self.client_of(index);
        self.clients[client].parked += 1;
        if is_unborn {
            self.to_open.push_back(index);
        }
        false
    }

    fn append(&mut self, index: usize, pending: Pending, bytes: &[u8], asks: bool) {
        let link = &mut self.links[index];
        if asks {
            let out = link.out.end();
            let before = out.len();
            append_request(out, &["ASKING"]);
            let length = (out.len() - before) as u32;
            link.push(Pending { is_asking: true, length, ..pending });
        }
        link.out.end().extend_from_slice(bytes);
        link.push(pending);
        self.mark_dirty(index);
    }

    /// Sends what was parked, as far as there is room now.
    fn unpark(&mut self, client: usize) {
        for index in (client..self.links.len()).step_by(self.clients.len()) {
            while self.links[index].has_room(self.pipeline, self.reconnect_interval)
                && let Some(parked) = self.links[index].parked.pop_front()
            {
                self.clients[client].parked -= 1;
                self.append(index, parked.pending, &parked.bytes, parked.asks);
            }
        }
    }

    #[inline]
    fn mark_dirty(&mut self, index: usize) {
        if !self.links[index].is_dirty {
            self.links[index].is_dirty = true;
            self.dirty.push(index);
        }
    }

    /// Hands everything that is to be written to the system: one write per connection.
    #[inline]
    pub(super) fn flush(&mut self) -> Result<(), String> {
        while let Some(index) = self.dirty.pop() {
            let now = self.clock.now();
            let link = &mut self.links[index];
            link.is_dirty = false;
            link.stamp(now);
            if let Err(error) = link.write() {
                self.connection_lost(index, &error.to_string())?;
            }
        }
        Ok(())
    }
}
