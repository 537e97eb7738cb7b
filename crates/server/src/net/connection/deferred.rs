//! A request that comes alone may be deferred: its session executes it in the second turn.
//!
//! One request waits for memory several times: for its key's lock, bucket, entry and value. Those
//! of all sessions that are ready are fetched together instead, as those of one pipelining client
//! are. Meanwhile the request stays in the worker's read buffer, behind those of others.
//!
//! Invariant: in a turn of its own a session has nothing deferred, but at the end of it; so all
//! that was read and not executed is found in a session's input.

use std::rc::Rc;

use config::settings::PREFETCH_BATCH_MAX_SIZE;
use engine::execute::Resolved;
use proto::memcached::ParseStatus;

use super::batch::End;
use super::window::Slot;
use super::{Connection, DeferralState};
use crate::memcached;
use crate::net::deferred::{DEFERRED_MAX, Found, GRAIN};

/// Longer requests are not deferred: to undefer one copies it.
pub(crate) const REQUEST_MAX: usize = 2048;

const _: () = assert!((DEFERRED_MAX + REQUEST_MAX) / GRAIN <= u16::MAX as usize);

impl Connection {
    /// Defers what was read to where the worker's buffer is free, if it is one request; `false`
    /// if it is to be executed at once.
    pub(super) fn defer(&mut self, data: &[u8]) -> bool {
        let worker = &self.worker;
        if !self.comes_alone
            || self.place != DeferralState::Nowhere
            || data.len() > REQUEST_MAX
            || !self.session.may_batch()
            || !self.session.is_authenticated()
            || worker.server.config.get(PREFETCH_BATCH_MAX_SIZE) == 0
            || !worker.deferred.has_room(worker.ticked_us())
        {
            return false;
        }
        let Some(found) = self.peek_request(data) else { return false };
        worker.server.keyspace.prefetch_locks(found.location.as_slice());
        let length = data.len() as u16;
        self.deferred = Some(worker.deferred.keep(found, self.session.database, length));
        true
    }

    /// What the request there is is about, if it is one and nothing else.
    fn peek_request(&self, data: &[u8]) -> Option<Found> {
        let server = self.worker.server;
        if let Some(state) = &self.session.memcached {
            if state.watch.is_some() || state.is_incomplete {
                return None;
            }
            let mut parser = state.parser;
            let limits = memcached::limits(server, &self.session);
            let ParseStatus::Complete { request, consumed } = parser.advance(data, &limits) else {
                return None;
            };
            let location = memcached::locate(server, &request);
            let found = Found { location, parsed: None };
            return (consumed == data.len()).then_some(found);
        }
        self.worker.deferred.parse(|slot| {
            let args = slot.parse_only(data, &server.request_limits(true))?;
            let resolved = Resolved::of(server, args).ok();
            if let Some(resolved) = resolved {
                slot.located.set_resolved(resolved);
            }
            Some(resolved.and_then(|resolved| resolved.location))
        })
    }

    /// Takes back what was deferred.
    #[inline]
    pub(super) fn undefer(&mut self) {
        if let Some(number) = self.deferred.take() {
            let buffer = self.worker.input.borrow();
            let range = self.worker.deferred.range(number);
            self.input.extend_from_slice(&buffer[range]);
            self.executed = 0;
        }
    }

    /// Executes what was deferred, in a batch that the worker has begun. The replies are left to
    /// the second turn.
    pub(crate) fn execute_deferred(&mut self, parsed: Option<&mut Slot>) {
        let Some(number) = self.deferred.take() else { return };
        let worker = Rc::clone(&self.worker);
        let buffer = worker.input.borrow();
        let data = &buffer[worker.deferred.range(number)];
        let (consumed, end) = match parsed {
            Some(slot) => self.run_parsed(data, slot),
            None if self.session.memcached.is_some() => {
                self.run_memcached(data, worker.deferred.location(number), None)
            }
            None => self.run_batch(data, None),
        };
        self.input.extend_from_slice(&data[consumed..]);
        self.executed = 0;
        self.note_batch();
        if matches!(end, BatchEnd::Closing) {
            self.session.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::Poll;
    use std::time::{Duration, Instant};

    use engine::clients::registry::Peer;
    use engine::session::Session;

    use crate::net::connection::{Connection, ConnectionTask, MovingSession, RawStream};
    use crate::net::worker::Worker;

    /// A turn of the session, which is to go on.
    async fn take_turn(serving: &mut ConnectionTask) {
        let turn = poll_fn(|cx| Poll::Ready(Pin::new(&mut *serving).poll(cx))).await;
        assert!(turn.is_pending());
    }

    #[test]
    fn what_was_deferred_is_executed_where_its_session_is_woken_before_its_second_turn() {
        let server = crate::start::test_server();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let worker = Rc::new(Worker::new(server, 0));
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
            let session = Session::new(client, Some(server.access.users.default_user()), true);
            let moving = MovingSession::fresh(RawStream::Unix(theirs), session);
            let mut serving =
                ConnectionTask::new(Connection::new(Rc::clone(&worker), moving).unwrap());
            for request in ["SET k v\r\n", "GET k\r\n"] {
                ours.write_all(request.as_bytes()).unwrap();
                let began = Instant::now();
                while serving.0.borrow().deferred.is_none() {
                    assert!(began.elapsed() < Duration::from_secs(60), "it is never deferred");
                    take_turn(&mut serving).await;
                    tokio::task::yield_now().await;
                }
                // As another thread's letter has it.
                take_turn(&mut serving).await;
                assert!(serving.0.borrow().deferred.is_none(), "nothing is, in a turn of its own");
                worker.deferred.drain(&worker);
            }
            let mut replies = [0; 64];
            let length = ours.read(&mut replies).unwrap();
            assert_eq!(&replies[..length], b"+OK\r\n$1\r\nv\r\n", "each once");
        });
    }
}
