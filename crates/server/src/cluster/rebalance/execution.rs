//! The execution of a plan: sources are asked to move slots, one move at a time for each node.
//!
//! Invariants: a node gives or takes by one move of the plan at a time; each move is told of as
//! over once, and the run is over when all are.

use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::Duration;

use base::io_error_text::strerror;
use cluster::{NodeFlags, NodeId, PlannedMove};
use engine::runtime::log::{log_notice, log_warning};

use super::source::Sources;
use super::{RebalanceRun, RebalanceTurn, StepState};
use crate::cluster::start::ClusterContext;

/// Between two looks at what is under way.
const LOOK: Duration = Duration::from_millis(20);

/// A source is asked once in so many looks.
const LOOKS_PER_QUESTION: u64 = 10;

/// A source that cannot be asked so often in a row has lost its move.
const MISSES_MAX: u32 = 25;

/// Begins the thread that has the moves done.
pub(super) fn start_moves(
    start: ClusterContext,
    run: Arc<RebalanceRun>,
    turn: RebalanceTurn,
) -> Result<(), String> {
    let (log, by, count) = (&start.server.log, run.by.name(), run.plan.moves.len());
    log_notice!(log, "Rebalance by {by}: {count} moves of hash slots are planned");
    let shown = Arc::clone(&run);
    let work = move || {
        let (sources, misses) = (Sources::new(start), vec![0; run.plan.moves.len()]);
        MovesUnderWay { start, run: Arc::clone(&run), sources, misses }.execute(&turn);
        // What is told to be over leaves room for the next.
        drop(turn);
        start.node.rebalancer.end(&run);
        log_notice!(start.server.log, "Rebalance by {by}: {}", run.state().name());
    };
    let begun = Builder::new().name("rebalance".to_owned()).spawn(work);
    begun.map(|_| ()).map_err(|error| {
        let why = strerror(&error);
        (0..count).for_each(|step| shown.set(step, StepState::Failed, why.clone()));
        start.node.rebalancer.end(&shown);
        format!("ERR {why}")
    })
}

struct MovesUnderWay {
    start: ClusterContext,
    run: Arc<RebalanceRun>,
    sources: Sources,
    /// How often in a row nothing was heard of each move.
    misses: Vec<u32>,
}

impl MovesUnderWay {
    fn execute(mut self, turn: &RebalanceTurn) {
        for look in 0_u64.. {
            let is_cancelled = turn.is_cancelled();
            let asks = look.is_multiple_of(LOOKS_PER_QUESTION);
            for step in self.run.steps(StepState::Running) {
                if asks && is_cancelled {
                    self.sources.cancel(&self.run.plan.moves[step]);
                }
                self.poll(step, asks);
            }
            match is_cancelled {
                true => self.cancel_waiting(),
                false => self.begin_idle(),
            }
            let is_left = |state| !self.run.steps(state).is_empty();
            if !is_left(StepState::Running) && !is_left(StepState::Waiting) {
                return;
            }
            sleep(LOOK);
        }
    }

    fn cancel_waiting(&self) {
        let waiting = self.run.steps(StepState::Waiting).into_iter();
        waiting.for_each(|step| self.run.set(step, StepState::Cancelled, String::new()));
    }

    /// Begins the moves whose nodes have no other to do.
    fn begin_idle(&mut self) {
        let ends = |planned: &PlannedMove| [planned.source, planned.target];
        let running = self.run.steps(StepState::Running).into_iter();
        let mut busy: Vec<NodeId> =
            running.flat_map(|step| ends(&self.run.plan.moves[step])).collect();
        for step in self.run.steps(StepState::Waiting) {
            let planned = self.run.plan.moves[step].clone();
            if ends(&planned).iter().any(|node| busy.contains(node)) {
                continue;
            }
            let begun = match ends(&planned).into_iter().find(|node| self.has_failed(*node)) {
                Some(node) => Err(format!("The node {node} is failing")),
                None => self.sources.begin(&planned),
            };
            match begun {
                Ok(()) => {
                    busy.extend(ends(&planned));
                    self.run.set(step, StepState::Running, String::new());
                }
                Err(why) => self.end(step, StepState::Failed, why),
            }
        }
    }

    /// Finds out how far a move is: by what the bus says, and by what the source says when asked.
    fn poll(&mut self, step: usize, asks: bool) {
        let planned = self.run.plan.moves[step].clone();
        if self.is_done(&planned) {
            return self.end(step, StepState::Success, String::new());
        }
        if !asks {
            return;
        }
        let miss = match self.sources.look(&planned) {
            Ok(Some(told)) if told.state == StepState::Running => {
                self.misses[step] = 0;
                return;
            }
            Ok(Some(told)) => return self.end(step, told.state, told.message),
            Ok(None) => "The source does not know the move any more".to_owned(),
            Err(why) => format!("The source cannot be asked: {why}"),
        };
        self.misses[step] += 1;
        if self.misses[step] > MISSES_MAX || self.has_failed(planned.source) {
            self.end(step, StepState::Failed, miss);
        }
    }

    fn end(&self, step: usize, state: StepState, message: String) {
        let PlannedMove { source, target, .. } = &self.run.plan.moves[step];
        if state == StepState::Failed {
            let log = &self.start.server.log;
            log_warning!(log, "Rebalance: slots did not go from {source} to {target}: {message}");
        }
        self.run.set(step, state, message);
    }

    /// Whether all slots of a move are where they were to go.
    fn is_done(&self, planned: &PlannedMove) -> bool {
        let target = Some(planned.target);
        let look = |cluster: &mut cluster::Cluster| {
            planned.slots.iter().all(|slot| cluster.owner(slot) == target)
        };
        self.start.node.with_engine(look) == Some(true)
    }

    /// Whether a node does not answer others, or is known no more.
    fn has_failed(&self, node: NodeId) -> bool {
        let records = self.start.node.with_engine(|cluster| cluster.records()).unwrap_or_default();
        let record = records.iter().find(|record| record.id == node);
        let failing = NodeFlags::PFAIL.with(NodeFlags::FAIL);
        record.is_none_or(|record| record.flags.intersects(failing))
    }
}
