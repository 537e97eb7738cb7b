//! A `get` or `gat` of very many keys, which is done in steps.
//!
//! Invariant: each item is read, and touched, as if its key had come alone; they need not be of one
//! moment, as in memcached.

use engine::execute::{ForeignRequest, PartOutcome};
use engine::session::{StepContext, StepOutcome, SteppedWork};
use engine::table::command_table::CommandEntry;
use keyspace::PartitionSet;
use proto::memcached::{Expiry, Form, Keys, Operation, Request, Response, Retrieve, answer};

use super::MemcachedServer;
use super::body::RequestBody;
use super::command_map::keys_of;

/// So many keys are read together, as of one moment.
const TOGETHER: usize = 1000;

/// The keys of a request, one after the other.
struct EachItem {
    server: &'static MemcachedServer,
    entry: &'static CommandEntry,
    with_cas: bool,
    /// When a hit is to expire from now on.
    touch: Option<Expiry>,
    /// The argument that comes next.
    next: usize,
}

/// The request in steps, if its keys are too many to be locked together.
pub(super) fn in_steps(
    server: &'static MemcachedServer,
    request: &Request<'_>,
    entry: &'static CommandEntry,
) -> Option<Box<dyn SteppedWork>> {
    let (Operation::Retrieve(retrieve), Form::Text { with_cas, .. }) =
        (&request.operation, &request.form)
    else {
        return None;
    };
    let is_long = keys_of(&request.operation).nth(TOGETHER).is_some();
    is_long.then(|| -> Box<dyn SteppedWork> {
        let touch = retrieve.touch;
        Box::new(EachItem { server, entry, with_cas: *with_cas, touch, next: 1 })
    })
}

impl EachItem {
    fn request_for<'a>(&self, keys: Keys<'a>) -> Request<'a> {
        let retrieve = Retrieve { touch: self.touch, ..Retrieve::of(keys) };
        let operation = Operation::Retrieve(retrieve);
        Request { operation, form: Form::Text { with_cas: self.with_cas, quiet: false } }
    }
}

impl SteppedWork for EachItem {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let server = self.server;
        while let Some(key) = step_context.args.get(self.next) {
            let request = self.request_for(Keys::plain(key).expect("the parser has looked at it"));
            let location = server.keyspace.locate(key);
            let locks = step_context.acquire(|| PartitionSet::from_slice(&[location.partition()]));
            let Some(locks) = locks else { return StepOutcome::Waits };
            let (lane, session, entry) =
                (step_context.lane, &mut *step_context.session, self.entry);
            let body = RequestBody::new(server, lane, session, &request, Some(location));
            let (body, out) = (&mut body.into_part(), &mut *step_context.out);
            let mut part = ForeignRequest { lane, session, entry, body, out };
            match part.run_part(locks) {
                PartOutcome::Done => self.next += 1,
                PartOutcome::Refused => return StepOutcome::Done,
                PartOutcome::Widen(wider) => step_context.park(wider),
                PartOutcome::Postponed => {
                    step_context.wait_for_gate();
                    return StepOutcome::Waits;
                }
            }
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        answer(step_context.out, &self.request_for(Keys::default()), Response::End);
        StepOutcome::Done
    }
}

#[cfg(test)]
mod tests {
    use proto::memcached::{Dialect, ItemLimits, ParseStatus, Parser};

    use super::{TOGETHER, in_steps};
    use crate::start::test_server;

    #[test]
    fn whatever_is_asked_of_very_many_keys_is_done_in_steps() {
        let server = test_server();
        let entry = server.table.find(b"GETEX").expect("it is a command");
        let limits = ItemLimits { value: 0, is_strict: false };
        for name in ["get", "gets", "gat 0", "gats 100"] {
            for (count, is_long) in [(TOGETHER, false), (TOGETHER + 1, true)] {
                let line = format!("{name}{}\r\n", " k".repeat(count));
                let parsed = Parser::new(Dialect::Any).advance(line.as_bytes(), &limits);
                let ParseStatus::Complete { request, .. } = parsed else { panic!("{parsed:?}") };
                let steps = in_steps(server, &request, entry);
                assert_eq!(steps.is_some(), is_long, "{name} of {count} keys");
            }
        }
    }
}
