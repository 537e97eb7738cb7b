//! CLUSTER REBALANCE: the figures of all primaries, a plan of crate `cluster`, and the moves by
//! which the node that was asked has it carried out.
//!
//! Invariants: a node makes or carries out one plan at a time; a move that fails leaves its slots
//! where they were, and the others go on.

mod automatic;
mod execution;
mod figures;
mod source;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cluster::{NodeId, RebalanceBounds, RebalancePlan};

use self::execution::start_moves;
use self::figures::loads;
use crate::cluster::start::ClusterContext;

/// What is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RebalanceBy {
    Slots,
    Keys,
    Memory,
    /// The time that requests for a slot take.
    Load,
    /// As `Load`, of slots only that take much more than others.
    HotSlots,
}

impl RebalanceBy {
    pub(crate) const ALL: [Self; 5] =
        [Self::Slots, Self::Keys, Self::Memory, Self::Load, Self::HotSlots];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Keys => "keys",
            Self::Memory => "memory",
            Self::Load => "load",
            Self::HotSlots => "hotslots",
        }
    }
}

/// What a plan is made for.
#[derive(Clone, Debug)]
pub(crate) struct RebalanceOrder {
    pub(crate) by: RebalanceBy,
    pub(crate) bounds: RebalanceBounds,
    /// Weights that were named.
    pub(crate) weights: Vec<(NodeId, u16)>,
    /// Whether primaries that have no slot get some, too.
    pub(crate) fills_empty: bool,
    /// So long requests are watched where time counts.
    pub(crate) duration: Duration,
    /// Whether a plan is all that is wanted.
    pub(crate) is_dry: bool,
}

/// A plan, and how far it is carried out.
pub(crate) struct RebalanceRun {
    pub(crate) by: RebalanceBy,
    pub(crate) threshold: u8,
    pub(crate) plan: RebalancePlan,
    /// Whether a plan is all that was wanted.
    is_dry: bool,
    /// Of each move of the plan.
    progress: Mutex<Vec<StepProgress>>,
    /// Whether nothing is done for it any more.
    is_over: AtomicBool,
}

/// How far one move is.
#[derive(Clone, Debug)]
pub(crate) struct StepProgress {
    pub(crate) state: StepState,
    /// Why it failed.
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepState {
    /// In a plan that is not carried out.
    Planned,
    Waiting,
    Running,
    Success,
    Failed,
    Cancelled,
}

impl StepState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl RebalanceRun {
    fn new(order: &RebalanceOrder, plan: RebalancePlan) -> Self {
        let state = if order.is_dry { StepState::Planned } else { StepState::Waiting };
        let progress = vec![StepProgress { state, message: String::new() }; plan.moves.len()];
        Self {
            by: order.by,
            threshold: order.bounds.threshold,
            plan,
            is_dry: order.is_dry,
            progress: Mutex::new(progress),
            is_over: AtomicBool::new(false),
        }
    }

    /// The state of each move.
    pub(crate) fn progress(&self) -> Vec<StepProgress> {
        self.lock().clone()
    }

    /// The state of the whole: once all moves are over, what is worst of theirs.
    pub(crate) fn state(&self) -> StepState {
        let is_over = self.is_over.load(Ordering::Acquire);
        let all = self.lock();
        let any = |state| all.iter().any(|step| step.state == state);
        match () {
            () if self.is_dry => StepState::Planned,
            () if !is_over => StepState::Running,
            () if any(StepState::Cancelled) => StepState::Cancelled,
            () if any(StepState::Failed) => StepState::Failed,
            () => StepState::Success,
        }
    }

    /// The moves that are in a state.
    fn steps(&self, state: StepState) -> Vec<usize> {
        let all = self.lock();
        (0..all.len()).filter(|step| all[*step].state == state).collect()
    }

    fn set(&self, step: usize, state: StepState, message: String) {
        self.lock()[step] = StepProgress { state, message };
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StepProgress>> {
        self.progress.lock().expect("no critical section here panics")
    }
}

/// What this node rebalances.
#[derive(Default)]
pub(crate) struct Rebalancer {
    /// The mark by which what is planned or carried out is told to end, while anything is.
    underway: Mutex<Option<Arc<AtomicBool>>>,
    /// The last plan that was to be carried out.
    last: Mutex<Option<Arc<RebalanceRun>>>,
    /// How many plans were carried out, by how that ended.
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// When this node last looked without an order, on the monotonic clock.
    looked_us: AtomicI64,
}

/// The leave to plan and to move, given back when it goes.
struct RebalanceTurn {
    rebalancer: &'static Rebalancer,
    is_cancelled: Arc<AtomicBool>,
}

impl RebalanceTurn {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for RebalanceTurn {
    fn drop(&mut self) {
        self.rebalancer.lock_underway().take();
    }
}

const CANCELLED: &str = "ERR The rebalance was cancelled";

impl Rebalancer {
    /// Makes a plan, and begins to carry it out unless the order is dry. Not for workers: the lane
    /// is that of a background thread. An error is a line for the client.
    pub(crate) fn rebalance(
        start: ClusterContext,
        lane: usize,
        order: &RebalanceOrder,
    ) -> Result<Arc<RebalanceRun>, String> {
        let rebalancer = &start.node.rebalancer;
        let turn = rebalancer.take_turn().ok_or("ERR A rebalance is under way")?;
        let loads = loads(start, lane, order, &turn)?;
        if turn.is_cancelled() {
            return Err(CANCELLED.to_owned());
        }
        let plan = RebalancePlan::new(&loads, order.bounds);
        let run = Arc::new(RebalanceRun::new(order, plan));
        if !order.is_dry {
            rebalancer.lock_last().replace(Arc::clone(&run));
            match run.plan.moves.is_empty() {
                true => rebalancer.end(&run),
                false => start_moves(start, Arc::clone(&run), turn)?,
            }
        }
        Ok(run)
    }

    /// The last plan that was to be carried out here.
    pub(crate) fn last(&self) -> Option<Arc<RebalanceRun>> {
        self.lock_last().clone()
    }

    /// Whether a plan is made here, or carried out.
    pub(crate) fn is_underway(&self) -> bool {
        self.lock_underway().is_some()
    }

    /// How many moves of the last plan are not over.
    pub(crate) fn moves_left(&self) -> usize {
        let left = |run: Arc<RebalanceRun>| {
            run.steps(StepState::Waiting).len() + run.steps(StepState::Running).len()
        };
        self.last().map_or(0, left)
    }

    /// How many plans were carried out, by how that ended.
    pub(crate) fn ended(&self, state: StepState) -> u64 {
        self.counter(state).load(Ordering::Relaxed)
    }

    /// A plan is carried out.
    fn end(&self, run: &RebalanceRun) {
        run.is_over.store(true, Ordering::Release);
        self.counter(run.state()).fetch_add(1, Ordering::Relaxed);
    }

    fn counter(&self, state: StepState) -> &AtomicU64 {
        match state {
            StepState::Failed => &self.failed,
            StepState::Cancelled => &self.cancelled,
            _ => &self.succeeded,
        }
    }

    /// Has what is under way end; whether anything was.
    pub(crate) fn cancel(&self) -> bool {
        let underway = self.lock_underway();
        underway.iter().for_each(|mark| mark.store(true, Ordering::Relaxed));
        underway.is_some()
    }

    fn take_turn(&'static self) -> Option<RebalanceTurn> {
        let mut underway = self.lock_underway();
        if underway.is_some() {
            return None;
        }
        let is_cancelled = Arc::clone(underway.insert(Arc::default()));
        Some(RebalanceTurn { rebalancer: self, is_cancelled })
    }

    fn lock_underway(&self) -> MutexGuard<'_, Option<Arc<AtomicBool>>> {
        self.underway.lock().expect("no critical section here panics")
    }

    fn lock_last(&self) -> MutexGuard<'_, Option<Arc<RebalanceRun>>> {
        self.last.lock().expect("no critical section here panics")
    }
}
