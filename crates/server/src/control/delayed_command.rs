//! A command that runs later; meanwhile its client waits, and nobody else.
//!
//! Invariant: nothing of the command is done before its time has come.

use std::time::Duration;

use engine::session::{StepContext, StepOutcome, SteppedWork, Steps, Suspension};
use engine::table::command_table::CommandEntry;
use proto::{Args, Reply};

use super::context::{CallingSession, Context, ControlHandler, ControlOutcome};
use crate::server::Server;

/// Tells how long a command waits still, if it does.
pub(super) type TimeLeft = Box<dyn FnMut(&Server) -> Option<Duration> + Send>;

/// Has a handler run once there is no time left. So much of the wait is booked as the command's
/// own. For handlers that answer at once, and not within a unit.
pub(super) fn run_later(
    context: &mut Context<'_>,
    args: Args<'_>,
    (booked, time_left): (Duration, TimeLeft),
    handler: ControlHandler,
) -> ControlOutcome {
    let (server, entry) = (context.server, context.entry);
    let command = DelayedCommand { server, entry, time_left, handler };
    let mut steps = Steps::begin(entry, args, Box::new(command));
    steps.done.ran.micros = u64::try_from(booked.as_micros()).unwrap_or(u64::MAX);
    ControlOutcome::Wait(Suspension::Steps(steps))
}

struct DelayedCommand {
    server: &'static Server,
    entry: &'static CommandEntry,
    time_left: TimeLeft,
    handler: ControlHandler,
}

impl SteppedWork for DelayedCommand {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        if let Some(left) = (self.time_left)(self.server) {
            step_context.wait_for(left);
            return StepOutcome::Waits;
        }
        let StepContext { lane, session, args, out, .. } = step_context;
        let mut reply = Reply::new(out, session.resp);
        let asker = Some(CallingSession { lane, session });
        let mut context = Context { server: self.server, asker, entry: self.entry, unit: None };
        match (self.handler)(&mut context, *args, &mut reply) {
            Ok(ControlOutcome::Close) => StepOutcome::Closes,
            Ok(_) => StepOutcome::Done,
            Err(refusal) => StepOutcome::Failed(refusal),
        }
    }
}
