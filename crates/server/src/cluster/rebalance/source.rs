//! The node that gives slots, which is asked to begin moves and to tell of them: this node, or one
//! that is reached by its port for clients, in words that Valkey knows, too.
//!
//! Invariant: what is told of a move is of the newest one of the same slots to the same node.

use std::collections::BTreeMap;

use cluster::{NodeId, PlannedMove, Slot, SlotSet};
use proto::value::Value;

use super::StepState;
use crate::cluster::start::ClusterContext;
use crate::cluster::{
    MoveDirection, MoveState, PeerClient, RequestedExport, SlotMoves, begin_exports,
};

/// What a source tells of a move.
pub(super) struct ReportedMove {
    pub(super) state: StepState,
    pub(super) message: String,
    name: String,
}

/// The ways to sources, as far as they were needed.
pub(super) struct Sources {
    start: ClusterContext,
    me: Option<NodeId>,
    peers: BTreeMap<NodeId, PeerClient>,
}

impl Sources {
    pub(super) fn new(start: ClusterContext) -> Self {
        let me = start.node.with_engine(|cluster| cluster.my_id());
        Self { start, me, peers: BTreeMap::new() }
    }

    /// Has a move begun.
    pub(super) fn begin(&mut self, planned: &PlannedMove) -> Result<(), String> {
        let PlannedMove { source, target, slots, .. } = planned;
        if self.me == Some(*source) {
            let name = SlotMoves::new_name();
            let request = RequestedExport { slots: slots.clone(), target: *target, name };
            let begun = begin_exports(self.start, vec![request]);
            let line = |why: &keyspace::Refusal| why.line().unwrap_or_default().to_vec();
            return begun.map_err(|why| String::from_utf8_lossy(&line(&why)).into_owned());
        }
        let ranges = slots.ranges().into_iter();
        let bounds = ranges.flat_map(|(first, last)| [first, last]).map(|slot| slot.to_string());
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"].map(str::to_owned).into_iter();
        let words = words.chain(bounds).chain(["NODE".to_owned(), target.to_string()]);
        let words: Vec<String> = words.collect();
        self.ask(*source, &words.iter().map(String::as_bytes).collect::<Vec<_>>()).map(|_| ())
    }

    /// What the source tells of a move; nothing where it knows none.
    pub(super) fn look(&mut self, planned: &PlannedMove) -> Result<Option<ReportedMove>, String> {
        if self.me != Some(planned.source) {
            let jobs = self.ask(planned.source, &[b"CLUSTER", b"GETSLOTMIGRATIONS"])?;
            let Value::Array(jobs) = jobs else { return Ok(None) };
            return Ok(jobs.iter().find_map(|job| told(job, planned)));
        }
        let jobs = self.start.node.moves.all().into_iter();
        let mut jobs = jobs.filter(|job| {
            job.direction == MoveDirection::Export
                && job.target == planned.target
                && job.slots == planned.slots
        });
        Ok(jobs.next().map(|job| {
            let (state, message) = job.progress();
            let state = match state {
                MoveState::Success => StepState::Success,
                MoveState::Failed => StepState::Failed,
                MoveState::Cancelled => StepState::Cancelled,
                _ => StepState::Running,
            };
            ReportedMove { state, message, name: job.name.clone() }
        }))
    }

    /// Has a move that is under way ended. Valkey has no word for one move alone: there the move
    /// goes on to its end.
    pub(super) fn cancel(&mut self, planned: &PlannedMove) {
        let Ok(Some(told)) = self.look(planned) else { return };
        if self.me != Some(planned.source) {
            let name = told.name.as_bytes();
            // The end of the move is looked for in any case.
            let _ = self.ask(planned.source, &[b"CLUSTER", b"MIGRATION", b"CANCEL", b"ID", name]);
            return;
        }
        let jobs = self.start.node.moves.running().into_iter();
        let named: Vec<_> = jobs.filter(|job| job.name == told.name).collect();
        self.start.node.moves.cancel(self.start.server, &named);
    }

    /// Asks a node; the next request connects anew where the connection is of no use any more.
    fn ask(&mut self, node: NodeId, words: &[&[u8]]) -> Result<Value, String> {
        let mut peer = match self.peers.remove(&node) {
            Some(peer) => peer,
            None => PeerClient::connect(self.start, node)?,
        };
        let answer = peer.ask(words);
        if peer.is_usable() {
            self.peers.insert(node, peer);
        }
        answer
    }
}

/// A field of what is told as pairs.
pub(super) fn field<'a>(pairs: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(pairs) = pairs else { return None };
    let mut pairs = pairs.chunks_exact(2);
    pairs.find(|pair| pair[0].as_bytes() == Some(name.as_bytes())).map(|pair| &pair[1])
}

fn text<'a>(job: &'a Value, name: &str) -> &'a [u8] {
    field(job, name).and_then(Value::as_bytes).unwrap_or_default()
}

/// Whether a move that another node tells of has ended.
pub(super) fn is_over(job: &Value) -> bool {
    state(job) != StepState::Running
}

fn state(job: &Value) -> StepState {
    match text(job, "state") {
        b"success" => StepState::Success,
        b"failed" => StepState::Failed,
        b"cancelled" => StepState::Cancelled,
        _ => StepState::Running,
    }
}

/// What is told of a move, if it is this one.
fn told(job: &Value, planned: &PlannedMove) -> Option<ReportedMove> {
    let is_it = text(job, "operation") == b"EXPORT"
        && text(job, "target_node") == planned.target.as_str().as_bytes()
        && slots(text(job, "slot_ranges")) == planned.slots;
    let string = |name| String::from_utf8_lossy(text(job, name)).into_owned();
    is_it.then(|| ReportedMove {
        state: state(job),
        message: string("message"),
        name: string("name"),
    })
}

/// The slots of ranges with blanks between them.
fn slots(ranges: &[u8]) -> SlotSet {
    let ranges = String::from_utf8_lossy(ranges).into_owned();
    let numbers = ranges.split(' ').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    });
    numbers.flatten().filter_map(Slot::new).collect()
}
