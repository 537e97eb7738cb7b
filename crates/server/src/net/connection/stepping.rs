//! A session takes the steps of its request.
//!
//! Invariant: a session takes no step once its turn is over.

use std::task::Context as TaskContext;

use engine::runtime::counters;
use engine::session::life::StepEnd;
use engine::session::{StepOutcome, Steps};
use proto::Reply;

use super::{Connection, Suspension};

impl Connection {
    /// Takes the next step, if the session's turn is not over.
    pub(super) fn take_step(&mut self, cx: &mut TaskContext<'_>, mut steps: Box<Steps>) -> StepEnd {
        if self.worker.is_turn_over() {
            self.worker.yield_turn(cx.waker());
            self.suspension = Suspension::Steps(steps);
            return StepEnd::Wait;
        }
        self.worker.start_batch();
        let progress = steps.step(&self.worker, &mut self.session, &mut self.timer, cx);
        let done = &mut steps.done;
        let micros = u64::try_from(self.worker.tick()).unwrap_or(0);
        counters::add(&self.worker.counters.busy_us, micros);
        done.ran.micros += micros;
        self.worker.note_turn(0);
        match progress {
            StepOutcome::GoesOn => {
                self.worker.yield_turn(cx.waker());
                self.suspension = Suspension::Steps(steps);
                return StepEnd::Wait;
            }
            StepOutcome::Waits => {
                self.suspension = Suspension::Steps(steps);
                return StepEnd::Wait;
            }
            StepOutcome::Failed(refusal) => {
                let mut reply = Reply::new(&mut done.output, self.session.resp);
                self.worker.server.refuse(&refusal, &mut reply);
                done.ran.failed = true;
            }
            StepOutcome::Closes => self.session.close(),
            StepOutcome::Done => {}
        }
        self.pass_on_result(steps.done);
        StepEnd::Again
    }
}
