//! What a worker does beside its sessions: its share of expiry and compaction, room where memory is
//! short and no command makes it, and a look whether to be courteous.
//!
//! Invariant: a round of it takes no longer than a session's, and leaves the rest to the next.

use std::rc::Rc;
use std::time::Duration;

use engine::reclaim::clock_renewal;
use engine::reclaim::defrag;
use engine::reclaim::evict;
use engine::reclaim::expiry::{self, ExpiryCycle};
use engine::reclaim::purge;
use engine::scripting;

use crate::net::batch_scheduling;
use crate::net::worker::Worker;

/// Pause after a cycle that left work behind; with `CYCLE_US` it bounds expiry to a fifth of a
/// core.
const BUSY_PAUSE: Duration = Duration::from_millis(4);

/// Pause while more memory is in use than may be: room is made for a third of the time.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// Pause while something may expire soon, and while nothing can.
const WATCHFUL_PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// Runs the worker's clock for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        worker.start_batch();
        let started = worker.ticked_us();
        let expired = expiry::cycle(&worker, &mut worker.sweep.borrow_mut());
        expiry::note_time(&worker, started);
        let is_short_of_memory = pay_debt(&worker);
        let is_aging = clock_renewal::cycle(&worker);
        let to_compact = defrag::cycle(&worker);
        scripting::tick(worker.server);
        purge::step(&worker);
        batch_scheduling::tick(&worker);
        let pause = match expired {
            _ if is_short_of_memory => SHORT_PAUSE,
            ExpiryCycle::LeftOver => BUSY_PAUSE,
            ExpiryCycle::AllDone if is_aging => BUSY_PAUSE,
            ExpiryCycle::AllDone if worker.server.keyspace.next_deadline().is_some() => {
                WATCHFUL_PAUSE
            }
            ExpiryCycle::AllDone => IDLE_PAUSE,
        };
        worker.end_turn();
        tokio::time::sleep(to_compact.map_or(pause, |rest| rest.min(pause))).await;
    }
}

/// Makes room where no command asks for it; whether more is to be made.
fn pay_debt(worker: &Worker) -> bool {
    let budget = &worker.server.memory.budget;
    if budget.is_exceeded(0) && !budget.is_settled(worker.ticked_us()) {
        evict::make_room(worker, 0);
    }
    evict::note_excess(worker);
    budget.is_exceeded(0) && !budget.is_out_of_memory(0)
}
