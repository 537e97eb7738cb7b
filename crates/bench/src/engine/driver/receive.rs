//! What comes back: each reply is counted under the request at the front of its connection, or
//! sends that request elsewhere. Invariant: a request leaves `outstanding` exactly once.

use std::io::{self, Read};

use super::super::cluster::Redirection;
use super::super::link::{Pending, State, UNSTAMPED};
use super::super::record::{Answer, Mark};
use super::super::reply::{Nature, Reply};
use super::Driver;
use crate::options::Verify;
use crate::workload::ReplyKind;

/// A request that was sent on so often goes in a circle, as two nodes hold each other for the owner
/// of its slot: where they disagree for a moment it comes through. Its redirection is its reply.
const REDIRECTIONS_MAX: u16 = 5000;

impl Driver<'_> {
    /// Reads what has come. A read that does not fill the buffer has emptied the socket, so that
    /// one call is enough unless the server is closing.
    pub(super) fn receive(&mut self, index: usize, is_closing: bool) -> Result<(), String> {
        match self.links[index].state {
            State::Closed => return Ok(()),
            State::Connecting => self.connect_on(index)?,
            State::Greeting(_) | State::Open => {}
        }
        if !matches!(self.links[index].state, State::Greeting(_) | State::Open) {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = Ok(());
        while let Some(socket) = &mut self.links[index].socket {
            match socket.read(&mut buffer) {
                Ok(0) => {
                    done = self.connection_lost(index, "it was closed by the server");
                    break;
                }
                Ok(taken) => {
                    done = self.take_replies(index, &buffer[..taken]);
                    if done.is_err() || (taken < buffer.len() && !is_closing) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    done = self.connection_lost(index, &error.to_string());
                    break;
                }
            }
        }
        self.buffer = buffer;
        done
    }

    fn take_replies(&mut self, index: usize, mut input: &[u8]) -> Result<(), String> {
        let now = self.clock.now();
        let client = self.client_of(index);
        if self.is_running {
            self.recorder.advance(now);
            if let Some(recorder) = &mut self.clients[client].recorder {
                recorder.advance(now);
            }
            self.last = now;
        }
        loop {
            let link = &mut self.links[index];
            let reply = link.scanner.scan(&mut input);
            let reply = reply.map_err(|error| format!("the server's reply: {error}"))?;
            let Some(reply) = reply else { break };
            if link.state == State::Open {
                self.answered(index, client, &reply, now)?;
            } else {
                self.greeted(index, &reply)?;
            }
        }
        let link = &self.links[index];
        if link.is_open() && link.issued >= self.reconnect_interval && link.inflight.is_empty() {
            self.reopen(index);
        }
        self.refill(client, now);
        Ok(())
    }

    #[inline]
    fn answered(
        &mut self,
        index: usize,
        client: usize,
        reply: &Reply,
        now: u64,
    ) -> Result<(), String> {
        let link = &mut self.links[index];
        let Some(pending) = link.inflight.pop_front() else {
            return Err(self.unasked(index, reply));
        };
        if reply.nature == Nature::Error
            && self.map.is_some()
            && let Some(redirection) = Redirection::parse(link.scanner.text())
            && !pending.is_asking
            && pending.redirections < REDIRECTIONS_MAX
        {
            return self.redirect(index, pending, &redirection);
        }
        link.out.answer(pending.length);
        if pending.is_asking {
            return Ok(());
        }
        let reply = &reply.as_answer_to(pending.sent.reply);
        self.count(client, &pending, reply, now);
        if reply.nature == Nature::Error {
            let text = self.links[index].scanner.text();
            self.recorder.keep_error(pending.sent.command, text);
        }
        self.verify(index, client, &pending, reply);
        self.clients[client].outstanding -= 1;
        Ok(())
    }

    /// What a reply means that no request waits for: a server that has no room for one more client
    /// says so unasked.
    fn unasked(&self, index: usize, reply: &Reply) -> String {
        let name = self.address(index).name();
        match reply.nature {
            Nature::Error => {
                let text = String::from_utf8_lossy(self.links[index].scanner.text()).into_owned();
                format!("{name}: {text}")
            }
            Nature::Value | Nature::Null => {
                format!("{name} sent a reply that nothing had asked for")
            }
        }
    }

    #[inline]
    fn count(&mut self, client: usize, pending: &Pending, reply: &Reply, now: u64) {
        let (hits, misses) = match (pending.sent.reply, reply.nature) {
            (ReplyKind::Read | ReplyKind::ReadPart, Nature::Value) => (1, 0),
            (ReplyKind::Read | ReplyKind::ReadPart, Nature::Null) => (0, 1),
            (ReplyKind::MultiRead, Nature::Value) => (reply.hits, reply.misses),
            _ => (0, 0),
        };
        let answer = Answer {
            command: pending.sent.command,
            latency_us: now.saturating_sub(pending.at) / 1000,
            bytes_sent: u64::from(pending.length),
            bytes_received: reply.bytes,
            hits: u64::from(hits),
            misses: u64::from(misses),
            is_error: reply.nature == Nature::Error,
        };
        self.recorder.count(&answer);
        if let Some(recorder) = &mut self.clients[client].recorder {
            recorder.count(&answer);
        }
    }

    /// Follows which keys were written; in the second phase compares their values.
    #[inline]
    fn verify(&mut self, index: usize, client: usize, pending: &Pending, reply: &Reply) {
        let (key, written) = (pending.sent.key, self.shared.written);
        if !self.shared.verifies {
            let is_write = pending.sent.command == 0 && pending.sent.reply == ReplyKind::Plain;
            if let (Some(written), true, Nature::Value) = (written, is_write, reply.nature) {
                written.insert(key);
            }
            return;
        }
        let is_right = match reply.nature {
            Nature::Value => {
                self.clients[client].stream.check(key, self.links[index].scanner.text())
            }
            Nature::Null => match written {
                Some(written) => !written.contains(key),
                None => self.may_be_missing(),
            },
            Nature::Error => false,
        };
        self.verify_errors += u64::from(!is_right);
    }

    /// Whether a value may be absent where nothing is known of what was written: a run that only
    /// reads wants what an earlier one wrote.
    fn may_be_missing(&self) -> bool {
        let load = &self.shared.options.load;
        load.verify != Verify::Only || load.values.expiry.is_some()
    }

    /// Sends a request once more, to the node that serves it.
    fn redirect(&mut self, index: usize, pending: Pending, to: &Redirection) -> Result<(), String> {
        let client = self.client_of(index);
        let by = index / self.clients.len();
        let request = self.links[index].out.answer(pending.length);
        let request = request.expect("a cluster's outboxes retain their requests").to_vec();
        let map = self.map.as_mut().expect("only a cluster redirects");
        let node = map.follow(to, by)?;
        let pending = Pending { redirections: pending.redirections + 1, ..pending };
        self.add_links();
        self.mark(client, pending.sent.command, if to.is_ask { Mark::Ask } else { Mark::Moved });
        self.place(node * self.clients.len() + client, pending, &request, to.is_ask);
        Ok(())
    }

    /// A request that gets no reply counts with its age.
    pub(super) fn give_up(&mut self, client: usize, pending: &Pending, now: u64) {
        let command = pending.sent.command;
        // What was never handed to the system has no age.
        let age_us =
            if pending.at == UNSTAMPED { 0 } else { now.saturating_sub(pending.at) / 1000 };
        self.recorder.give_up(command, age_us);
        if let Some(recorder) = &mut self.clients[client].recorder {
            recorder.give_up(command, age_us);
        }
        self.clients[client].outstanding -= 1;
    }

    /// Counts an incident for the thread and for the client.
    pub(super) fn mark(&mut self, client: usize, command: usize, mark: Mark) {
        self.recorder.mark(command, mark);
        if let Some(recorder) = &mut self.clients[client].recorder {
            recorder.mark(command, mark);
        }
    }
}
