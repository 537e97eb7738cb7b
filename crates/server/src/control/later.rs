//! An answer that is ready and leaves later; meanwhile its client waits, and nobody else.
//!
//! Invariant: a session that is gone keeps no timer.

use std::time::Duration;

use engine::session::{Executed, OffloadResult, Suspension, Then};
use keyspace::Refusal;
use proto::{Args, Output, OwnedArgs, Reply};
use tokio::sync::oneshot;

use super::context::{Context, ControlHandler, Next};

/// Has a handler make its answer now, and gives it to the client after a time, which counts as the
/// command's own. Not for what runs within a unit.
pub(super) fn answer_later(
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
    let args = OwnedArgs::from(args);
    let (mut sender, receiver) = oneshot::channel();
    let listeners = context.server.listeners.get().expect("clients come by listeners");
    listeners.runtime.spawn(async move {
        let session_gone = sender.closed();
        if tokio::time::timeout(time, session_gone).await.is_ok() {
            return;
        }
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let ran = Executed { entry, args, micros, failed, program: None };
        // The session may have gone in this moment.
        let _ = sender.send(OffloadResult { output, seen: 0, ran, then: Then::Nothing });
    });
    Ok(Next::Wait(Suspension::Offload(receiver)))
}
