//! A turn of a session whose client speaks one of memcached's protocols.
//!
//! As with Redis' protocol, requests are parsed ahead, their keys fetched from memory together, and
//! replies leave in one write. Invariant: the parser that the session keeps is the one before the
//! first byte that is not executed, so a request that had to wait is parsed again as it was.

use std::rc::Rc;

use config::settings::PREFETCH_BATCH_MAX_SIZE;
use engine::clients::registry::client_flags;
use engine::lane::is_over;
use engine::session::MemcachedState;
use engine::session::life::BACKLOG_LIMIT;
use engine::session::{LockWaitEnd, Step};
use keyspace::Location;
use proto::Output;
use proto::memcached::{ItemLimits, Operation, ParseStatus, Parser, Request};
use smallvec::SmallVec;

use super::Connection;
use super::batch::{COMMAND_BUDGET, BatchEnd};
use super::window::WINDOW;
use crate::memcached;
use crate::net::worker::Worker;

/// A request that is not executed yet.
struct ParsedRequest<'a> {
    request: Request<'a>,
    /// Where the input goes on behind the request.
    end: usize,
    /// The parser behind it.
    parser: Parser,
}

/// Requests at one place of the input.
struct MemcachedBatch<'a> {
    worker: &'a Worker,
    data: &'a [u8],
    /// Bytes whose requests are done.
    executed: usize,
    /// Where the one key of the first request belongs, if that was located before.
    known: Option<Location>,
    grant: Option<LockWaitEnd>,
    commands: u32,
}

impl Connection {
    /// Executes the complete requests at the start of `data`; returns how many bytes they took.
    /// `known` is where the one key of the first belongs, if it was located before.
    pub(super) fn run_memcached(
        &mut self,
        data: &[u8],
        known: Option<Location>,
        grant: Option<LockWaitEnd>,
    ) -> (usize, BatchEnd) {
        let worker = Rc::clone(&self.worker);
        if self.memcached_state().watch.is_some() {
            // A client that watches asks nothing more, as in memcached.
            return (data.len(), BatchEnd::Drained);
        }
        // What was incomplete may be complete now, and may have to wait for something else.
        self.memcached_state().is_incomplete = false;
        let mut output = self.output();
        let started = worker.ticked_us();
        let mut batch =
            MemcachedBatch { worker: &worker, data, executed: 0, known, grant, commands: 0 };
        // What was granted is used though much waits to leave, and nothing behind it is executed.
        let budget = if output.len() > BACKLOG_LIMIT { 1 } else { COMMAND_BUDGET };
        let end = loop {
            if let Some(end) = batch.next_window(self, &mut output) {
                break end;
            }
            if batch.commands >= budget || is_over(worker.ticked_us() - started) {
                break BatchEnd::Yielded;
            }
        };
        self.comes_alone = batch.commands <= 1;
        let executed = batch.executed;
        self.keep_output(output);
        (executed, end)
    }

    fn memcached_state(&mut self) -> &mut MemcachedState {
        self.session.memcached.as_mut().expect("the client speaks memcached's protocols")
    }
}

impl<'a> MemcachedBatch<'a> {
    /// Executes the next requests that are complete; `Some` ends the batch.
    fn next_window(&mut self, serve: &mut Connection, output: &mut Output) -> Option<BatchEnd> {
        let server = self.worker.server;
        let limits = memcached::limits(server, &serve.session);
        // A client that is not known may log in with the next request, which changes the limits.
        let is_known = memcached::is_authenticated(server, &serve.session);
        let most = if is_known { WINDOW } else { 1 };
        let mut requests = SmallVec::<[ParsedRequest<'a>; WINDOW]>::new();
        let mut parser = serve.memcached_state().parser;
        let behind = self.parse(&mut parser, &limits, most, &mut requests);
        let locations = self.locate(&requests, serve.session.database);
        for (ahead, location) in requests.iter().zip(locations) {
            self.commands += 1;
            let (grant, begun) = (self.grant.take(), output.appended());
            let may_log_in = !is_known || is_login(&ahead.request);
            let delay = || memcached::delay_login(server, &serve.session, &ahead.request);
            let step = match may_log_in.then(delay).flatten() {
                Some(wait) => Step::Wait(wait),
                None => memcached::execute(
                    server,
                    self.worker,
                    &mut serve.session,
                    &ahead.request,
                    location,
                    output,
                    grant,
                ),
            };
            serve.hold(output, begun);
            if let Step::Postpone(suspension) = step {
                // The request stays in the input, to be parsed again when it is its turn.
                serve.suspension = suspension;
                return Some(BatchEnd::Waits);
            }
            self.executed = ahead.end;
            let state = serve.memcached_state();
            state.parser = ahead.parser;
            if state.watch.is_some() {
                self.executed = self.data.len();
                return Some(BatchEnd::Drained);
            }
            match step {
                Step::Close => {
                    state.is_broken = !matches!(ahead.request.operation, Operation::Quit);
                    return Some(BatchEnd::Closing);
                }
                Step::Wait(suspension) => {
                    serve.suspension = suspension;
                    return Some(BatchEnd::Waits);
                }
                Step::Done | Step::Postpone(_) => {}
            }
        }
        let is_over = behind.is_some();
        if is_over {
            let state = serve.memcached_state();
            state.parser = parser;
            state.is_incomplete = self.executed < self.data.len();
            let is_midway = parser.awaits_rest();
            if is_midway != std::mem::replace(&mut state.is_midway, is_midway) {
                serve.session.client.set_flag(client_flags::MIDWAY, is_midway);
            }
            let state = serve.memcached_state();
            state.is_broken = matches!(behind, Some(BatchEnd::Closing));
        }
        behind
    }

    /// Parses ahead. Returns what comes behind the requests, if it is known.
    fn parse(
        &mut self,
        parser: &mut Parser,
        limits: &ItemLimits,
        most: usize,
        requests: &mut SmallVec<[ParsedRequest<'a>; WINDOW]>,
    ) -> Option<BatchEnd> {
        let (data, mut at) = (self.data, self.executed);
        while requests.len() < most {
            if at == data.len() {
                return Some(BatchEnd::Drained);
            }
            match parser.advance(&data[at..], limits) {
                ParseStatus::Complete { request, consumed } => {
                    at += consumed;
                    requests.push(ParsedRequest { request, end: at, parser: *parser });
                }
                ParseStatus::Skipped { consumed } => {
                    at += consumed;
                    match requests.last_mut() {
                        Some(last) => (last.end, last.parser) = (at, *parser),
                        None => self.executed = at,
                    }
                }
                ParseStatus::Incomplete { .. } => return Some(BatchEnd::Drained),
                ParseStatus::Broken => return Some(BatchEnd::Closing),
            }
        }
        None
    }

    /// Finds where keys belong, and has them on their way from memory while the first requests run.
    fn locate(
        &mut self,
        requests: &[ParsedRequest<'_>],
        database: usize,
    ) -> SmallVec<[Option<Location>; WINDOW]> {
        let server = self.worker.server;
        let mut known = self.known.take();
        let locate = |ahead: &ParsedRequest<'_>| {
            known.take().or_else(|| memcached::locate(server, &ahead.request))
        };
        let found = requests.iter().map(locate);
        let found: SmallVec<[Option<Location>; WINDOW]> = found.collect();
        let is_asked = requests.len() > 1 && server.config.get(PREFETCH_BATCH_MAX_SIZE) > 0;
        // With its locks granted the worker is inside, and must not go out before they are used.
        if is_asked && (self.grant.is_some() || self.worker.enter()) {
            let known: SmallVec<[Location; WINDOW]> = found.iter().flatten().copied().collect();
            server.keyspace.prefetch(self.worker.number, &known, database);
        }
        found
    }
}

/// Whether a client logs in, again or without need.
#[inline]
fn is_login(request: &Request<'_>) -> bool {
    matches!(request.operation, Operation::Authenticate { .. })
}
