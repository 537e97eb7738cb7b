//! Requests parsed ahead of their execution.
//!
//! A pipelining client sends many requests at once. Parsing a few of them before the first runs
//! lets their keys be fetched from memory at the same time.
//!
//! Invariants: requests are given out in order; `executed` counts the bytes of those that are done,
//! so whatever happens in between, the input goes on right behind them.

use engine::execute::{BatchedRequest, BatchedRequests, Located, Resolved};
use proto::{Args, Limits, Progress, ProtocolError, RequestParser};

/// How many requests are parsed ahead.
pub(crate) const WINDOW: usize = 16;

/// A run of complete requests at one place of the input, and what stands behind them.
#[derive(Default)]
pub(crate) struct Window {
    /// Complete requests, then idle parsers.
    slots: Vec<Slot>,
    next: usize,
    complete: usize,
    /// Bytes of the input that are parsed.
    parsed: usize,
    /// Bytes of the input whose requests are done.
    pub(super) executed: usize,
    /// The parser of the incomplete request behind the complete ones.
    partial: Option<Box<RequestParser>>,
    error: Option<ProtocolError>,
}

/// A request that is parsed, or an idle parser.
#[derive(Default)]
pub(crate) struct Slot {
    parser: Box<RequestParser>,
    start: usize,
    /// Behind the request.
    end: usize,
    /// What was found out of the request.
    pub(super) located: Located,
}

impl Slot {
    /// Parses an input that is one request; `None` if there is more, or less.
    pub(super) fn parse_only<'a>(
        &'a mut self,
        data: &'a [u8],
        limits: &Limits,
    ) -> Option<Args<'a>> {
        self.parser.reset();
        match self.parser.advance(data, limits) {
            Ok(Progress::Complete { consumed }) if consumed == data.len() => {
                (self.start, self.end) = (0, consumed);
                self.located.clear();
                Some(self.parser.args(data))
            }
            _ => None,
        }
    }
}

impl Window {
    /// Turns to a new input, which may begin with a request that `partial` has seen a part of.
    pub(super) fn begin(&mut self, partial: Option<Box<RequestParser>>) {
        self.partial = partial;
        self.error = None;
        (self.next, self.complete, self.parsed, self.executed) = (0, 0, 0, 0);
    }

    /// Turns to a new input, which is one request that was parsed before; a parser is left for it.
    pub(super) fn begin_parsed(&mut self, slot: &mut Slot) {
        self.begin(None);
        if self.slots.is_empty() {
            self.slots.push(Slot::default());
        }
        std::mem::swap(&mut self.slots[0], slot);
        (self.complete, self.parsed) = (1, self.slots[0].end);
    }

    /// Gives up what is not executed. Returns the parser of an incomplete request, if the input
    /// left begins with it.
    pub(super) fn end(&mut self) -> Option<Box<RequestParser>> {
        let partial = self.partial.take();
        partial.filter(|_| self.is_empty() && self.executed == self.parsed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next == self.complete
    }

    pub(super) fn len(&self) -> usize {
        self.complete - self.next
    }

    /// Parses on in `data`, the same input as ever since `begin`.
    pub(super) fn fill(&mut self, data: &[u8], limits: &Limits) {
        (self.next, self.complete) = (0, 0);
        // A client that is not authenticated may log in with the next request, which changes the
        // limits.
        let most = if limits.authenticated { WINDOW } else { 1 };
        while self.complete < most && self.parsed < data.len() && self.error.is_none() {
            if self.slots.len() == self.complete {
                self.slots.push(Slot::default());
            }
            let slot = &mut self.slots[self.complete];
            match self.partial.take() {
                Some(parser) => slot.parser = parser,
                None => slot.parser.reset(),
            }
            match slot.parser.advance(&data[self.parsed..], limits) {
                Ok(Progress::Complete { consumed }) => {
                    (slot.start, slot.end) = (self.parsed, self.parsed + consumed);
                    slot.located.clear();
                    self.parsed = slot.end;
                    self.complete += 1;
                }
                Ok(Progress::Empty { consumed }) => {
                    self.parsed += consumed;
                    if self.complete == 0 {
                        self.executed = self.parsed;
                    }
                }
                Ok(Progress::Incomplete { .. }) => {
                    self.partial = Some(std::mem::take(&mut slot.parser));
                    return;
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// The next request, what was found out of it, and where it ends.
    pub(super) fn first<'a>(&'a self, data: &'a [u8]) -> Option<(Args<'a>, &'a Located, usize)> {
        let slot = self.slots[..self.complete].get(self.next)?;
        Some((slot.parser.args(&data[slot.start..]), &slot.located, slot.end))
    }

    /// The next requests, each with what was found out of it.
    pub(super) fn ahead<'a>(
        &'a self,
        data: &'a [u8],
    ) -> impl Iterator<Item = (Args<'a>, Option<Resolved>)> + Clone {
        let ready = &self.slots[self.next..self.complete];
        ready.iter().map(|slot| (slot.parser.args(&data[slot.start..]), slot.located.resolved()))
    }

    /// The next requests as far as they may be of one lock batch, at most so many.
    pub(super) fn batched<'a>(&'a self, data: &'a [u8], most: usize) -> BatchedRequests<'a> {
        let ready = &self.slots[self.next..self.complete];
        let batched = ready.iter().map_while(|slot| {
            let Resolved { entry, location } =
                slot.located.resolved().filter(|resolved| resolved.entry.is_brief)?;
            Some(BatchedRequest {
                args: slot.parser.args(&data[slot.start..]),
                entry,
                location: location?,
            })
        });
        batched.take(most).collect()
    }

    /// All requests that are ready, each with room to note what is found out of it.
    pub(super) fn requests<'a>(
        &'a mut self,
        data: &'a [u8],
    ) -> impl Iterator<Item = (Args<'a>, &'a mut Located)> {
        let ready = &mut self.slots[self.next..self.complete];
        ready.iter_mut().map(|slot| {
            let Slot { parser, start, located, .. } = slot;
            (parser.args(&data[*start..]), located)
        })
    }

    /// The first request is done, and all bytes up to its end with it.
    pub(super) fn advance(&mut self, end: usize) {
        self.executed = end;
        self.next = (self.next + 1).min(self.complete);
        if self.is_empty() {
            // Empty requests behind the last one are done with it.
            self.executed = self.executed.max(self.parsed);
        }
    }

    /// As `advance`, for several requests, at least one.
    pub(super) fn advance_past(&mut self, count: usize) {
        self.next += count - 1;
        self.advance(self.slots[self.next].end);
    }

    /// The error behind the last complete request; the connection ends with it.
    pub(super) fn take_error(&mut self) -> Option<ProtocolError> {
        self.error.take()
    }
}
