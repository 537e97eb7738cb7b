//! The timer of a session, on its worker's event loop.
//!
//! Invariant: the timer rings no later than the earliest time that it was asked for since it rang
//! last.

use std::future::Future;
use std::pin::Pin;
use std::task::Context as TaskContext;
use std::time::Duration;

use engine::session::timer::Timer;
use tokio::time::Sleep;

/// One timer; nothing before it is first asked.
#[derive(Default)]
pub(super) struct SessionTimer(Option<Pin<Box<Sleep>>>);

impl Timer for SessionTimer {
    fn wake_in(&mut self, cx: &mut TaskContext<'_>, left: Duration) {
        let next = tokio::time::sleep(left);
        let deadline = next.deadline();
        let sleep = self.0.get_or_insert_with(|| Box::pin(next));
        let is_earlier = sleep.deadline() > deadline;
        if is_earlier || sleep.as_mut().poll(cx).is_ready() {
            sleep.as_mut().reset(deadline);
            if sleep.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}
