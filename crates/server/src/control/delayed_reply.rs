//! An answer that is ready and leaves later; meanwhile its client waits, and nobody else.
//!
//! Invariant: what the command does is done at once.

use std::time::Duration;

use engine::session::Executed;
use keyspace::Refusal;
use proto::{Args, Output, OwnedArgs, Reply};

use super::context::{Context, ControlHandler, Next};

/// Has a handler make its answer now, and gives it to the client after a time, which counts as the
/// command's own. Not for what runs within a unit.
pub(super) fn delay_reply(
    context: &mut Context<'_>,
    args: Args<'_>,
    time: Duration,
    handler: ControlHandler,
) -> Result<Next, Refusal> {
    let (entry, resp) = (context.entry, context.session()?.resp);
    let mut output = Output::new();
    let answered = handler(context, args, &mut Reply::new(&mut output, resp));
    let failed = answered.is_err();
    if let Err(refusal) = answered {
        output = Output::new();
        context.server.refuse(&refusal, &mut Reply::new(&mut output, resp));
    }
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let ran = Executed { entry, args: OwnedArgs::from(args), micros, failed, program: None };
    Ok(Next::Wait(context.server.delay_reply(time, output, ran)))
}
