//! Moves from here, as somebody orders them.
//!
//! Invariant: an order that is refused has begun no move.

use std::sync::Arc;

use base::io_error_text::strerror;
use cluster::{Cluster, NodeId, SlotSet};
use keyspace::Refusal;

use super::{MoveDirection, MoveJob, MoveRequest, MoveState};
use crate::cluster::start::ClusterContext;

/// Slots that are to go to a node.
pub(crate) struct RequestedExport {
    pub(crate) slots: SlotSet,
    pub(crate) target: NodeId,
    /// What the move is to be called.
    pub(crate) name: String,
}

/// Begins moves, all or none.
pub(crate) fn begin_exports(
    start: ClusterContext,
    requests: Vec<RequestedExport>,
) -> Result<(), Refusal> {
    const NO_NODE: Refusal = Refusal::error("ERR This instance has cluster support disabled");
    let ClusterContext { server, node, .. } = start;
    let look = |cluster: &mut Cluster| {
        let mut all = SlotSet::empty();
        for RequestedExport { slots, target, .. } in &requests {
            check(cluster, slots, *target)?;
            if !all.and(slots).is_empty() {
                return Err(Refusal::error("ERR Slot ranges in migrations overlap"));
            }
            all = all.or(slots);
        }
        Ok(cluster.my_id())
    };
    let source = node.with_engine(look).ok_or(NO_NODE)??;
    let jobs = requests.into_iter().map(|RequestedExport { slots, target, name }| {
        let request = MoveRequest { name, slots, source, target };
        node.moves.new_job(server, request, MoveDirection::Export, None)
    });
    let jobs: Vec<Arc<MoveJob>> = jobs.collect();
    let busy = |slot| Refusal::owned(format!("ERR I am already migrating slot {slot}."));
    node.moves.add(server, &jobs).map_err(busy)?;
    node.moves.exports.push(start, &jobs).map_err(|error| {
        let why = strerror(&error);
        jobs.iter().for_each(|job| job.set(server, MoveState::Failed, &why));
        Refusal::owned(format!("ERR {why}"))
    })
}

/// Whether slots may go from here to a node.
fn check(cluster: &Cluster, slots: &SlotSet, node: NodeId) -> Result<(), Refusal> {
    if cluster.offset(node).is_none() {
        return Err(Refusal::owned(format!("ERR Unknown node name: {node}")));
    }
    if !slots.minus(cluster.my_slots()).is_empty() {
        return Err(Refusal::error("ERR Slots are not served by this node."));
    }
    if node == cluster.my_id() {
        return Err(Refusal::error("ERR Target node can not be this node."));
    }
    if cluster.granted_epochs(slots).is_some() {
        return Err(Refusal::error("ERR Slot export in progress."));
    }
    if cluster.open_slots().next().is_some() {
        return Err(Refusal::error("ERR Slots are being manually migrated"));
    }
    Ok(())
}
