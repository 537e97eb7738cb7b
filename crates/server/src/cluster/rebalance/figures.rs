//! What each slot of each primary carries, as the primaries say.
//!
//! Invariant: a plan is made of the figures of all primaries that have slots, or not at all.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use cluster::{Cluster, NodeFlags, NodeId, NodeLoad, NodeRecord, Slot, SlotSet};
use engine::observe::key_survey::memory_of;
use proto::value::Value;

use super::source::{field, is_over};
use super::{CANCELLED, RebalanceBy, RebalanceOrder, RebalanceTurn};
use crate::cluster::PeerClient;
use crate::cluster::start::ClusterContext;

/// So long a primary may take to say what its keys take: a look at every key is needed for that.
const SURVEY_PATIENCE: Duration = Duration::from_secs(120);

/// So long any other answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks whether the client still wants the plan.
const LOOK: Duration = Duration::from_millis(50);

/// A slot is hot where it carries so many times what the mean of all slots does.
const HOT: u64 = 4;

/// A figure for each slot of a node that has one.
type SlotFigures = Vec<(u16, u64)>;

/// A primary, and the way to it; none to this node itself.
struct AskedNode {
    id: NodeId,
    slots: SlotSet,
    weight: u16,
    peer: Option<PeerClient>,
}

impl AskedNode {
    fn failed(&self, why: &str) -> String {
        format!("ERR node {}: {why}", self.id)
    }
}

/// What a plan is made of. An error is a line for the client.
pub(super) fn loads(
    start: ClusterContext,
    lane: usize,
    order: &RebalanceOrder,
    turn: &RebalanceTurn,
) -> Result<Vec<NodeLoad>, String> {
    let mut nodes = primaries(start, order)?;
    if !order.is_dry {
        check_idle(start, &mut nodes)?;
    }
    let figures = match order.by {
        RebalanceBy::Slots => vec![Vec::new(); nodes.len()],
        RebalanceBy::Keys | RebalanceBy::Memory => ask_all(start, lane, order.by, &mut nodes)?,
        RebalanceBy::Load | RebalanceBy::HotSlots => {
            let before = ask_all(start, lane, order.by, &mut nodes)?;
            wait(start, order.duration, turn)?;
            growth(&before, ask_all(start, lane, order.by, &mut nodes)?)
        }
    };
    let least = match order.by {
        RebalanceBy::HotSlots => HOT * mean(&figures),
        _ => 0,
    };
    let loads = nodes.into_iter().zip(figures).map(|(node, figures)| {
        let mut of_slot = vec![u64::from(order.by == RebalanceBy::Slots); cluster::SLOTS.into()];
        for (slot, figure) in figures {
            if let Some(place) = of_slot.get_mut(usize::from(slot)) {
                *place = if figure >= least { figure } else { 0 };
            }
        }
        let slots = node.slots.iter().map(|slot| (slot, of_slot[slot.index()])).collect();
        NodeLoad { id: node.id, weight: node.weight, slots }
    });
    Ok(loads.collect())
}

/// The mean of all slots, the least that is anything.
fn mean(figures: &[SlotFigures]) -> u64 {
    let whole: u64 = figures.iter().flatten().map(|(_, figure)| figure).sum();
    (whole / u64::from(cluster::SLOTS)).max(1)
}

/// All primaries, with their weights; each is reached.
fn primaries(start: ClusterContext, order: &RebalanceOrder) -> Result<Vec<AskedNode>, String> {
    const DOWN: &str = "CLUSTERDOWN The cluster is down";
    let look =
        |cluster: &mut Cluster| cluster.is_ok().then(|| (cluster.my_id(), cluster.records()));
    let (me, records) = start.node.with_engine(look).flatten().ok_or(DOWN)?;
    let is_primary = |record: &&NodeRecord| record.flags.contains(NodeFlags::PRIMARY);
    for (id, _) in &order.weights {
        match records.iter().find(|record| record.id == *id) {
            None => return Err(format!("ERR Unknown node {id}")),
            Some(record) if is_primary(&record) => {}
            Some(_) => return Err(format!("ERR The node {id} is not a master")),
        }
    }
    let mut nodes = Vec::new();
    for record in records.iter().filter(is_primary) {
        let id = record.id;
        let named = order.weights.iter().rev().find(|(named, _)| *named == id);
        let is_given = order.fills_empty || !record.slots.is_empty();
        let weight = named.map_or(u16::from(is_given), |(_, weight)| *weight);
        let is_failing = record.flags.intersects(NodeFlags::PFAIL.with(NodeFlags::FAIL));
        // A node that has nothing and gets nothing is not asked.
        if record.slots.is_empty() && (weight == 0 || is_failing) {
            continue;
        }
        let mut node = AskedNode { id, slots: record.slots.clone(), weight, peer: None };
        if is_failing {
            return Err(node.failed("the node is failing"));
        }
        if id != me {
            let peer = PeerClient::connect(start, id).map_err(|why| node.failed(&why))?;
            node.peer = Some(peer);
        }
        nodes.push(node);
    }
    match nodes.iter().any(|node| node.weight > 0) {
        true => Ok(nodes),
        false => Err("ERR No node may have slots by these weights".to_owned()),
    }
}

/// Slots are not on the move already, by somebody else's order.
fn check_idle(start: ClusterContext, nodes: &mut [AskedNode]) -> Result<(), String> {
    for node in nodes {
        let are_moving = match &mut node.peer {
            None => !start.node.moves.running().is_empty(),
            Some(peer) => {
                let asked = peer.ask(&[b"CLUSTER", b"GETSLOTMIGRATIONS"]);
                match asked.map_err(|why| node.failed(&why))? {
                    Value::Array(jobs) => jobs.iter().any(|job| !is_over(job)),
                    _ => return Err(node.failed(STRANGE)),
                }
            }
        };
        if are_moving {
            return Err(node.failed("slots are on the move"));
        }
    }
    Ok(())
}

const STRANGE: &str = "the answer is not understood";

/// Lets requests run.
fn wait(start: ClusterContext, time: Duration, turn: &RebalanceTurn) -> Result<(), String> {
    let clock = start.server.keyspace.clock();
    let until_us = clock.monotonic_us() + time.as_micros() as i64;
    while clock.monotonic_us() < until_us {
        if turn.is_cancelled() {
            return Err(CANCELLED.to_owned());
        }
        sleep(LOOK);
    }
    Ok(())
}

/// What has come to the figures of each node.
fn growth(before: &[SlotFigures], mut after: Vec<SlotFigures>) -> Vec<SlotFigures> {
    for (after, before) in after.iter_mut().zip(before) {
        let earlier: HashMap<u16, u64> = before.iter().copied().collect();
        for (slot, figure) in after {
            let earlier = earlier.get(slot).copied().unwrap_or(0);
            // Figures that were reset meanwhile begin anew.
            *figure = figure.checked_sub(earlier).unwrap_or(*figure);
        }
    }
    after
}

/// Asks all nodes at once.
fn ask_all(
    start: ClusterContext,
    lane: usize,
    by: RebalanceBy,
    nodes: &mut [AskedNode],
) -> Result<Vec<SlotFigures>, String> {
    let (words, patience): (&[&[u8]], Duration) = match by {
        RebalanceBy::Memory => (&[b"CLUSTER", b"REBALANCE", b"SLOT-MEMORY"], SURVEY_PATIENCE),
        _ => (&[b"CLUSTER", b"SLOT-STATS", b"SLOTSRANGE", b"0", b"16383"], PATIENCE),
    };
    for node in &mut *nodes {
        let sent = node.peer.as_mut().map_or(Ok(()), |peer| peer.send(words));
        sent.map_err(|why| node.failed(&why))?;
    }
    let mut all = Vec::new();
    for node in &mut *nodes {
        let read = match &mut node.peer {
            None => own(start, lane, by, &node.slots),
            Some(peer) => peer.receive(patience).and_then(|value| told(by, &value)),
        };
        all.push(read.map_err(|why| node.failed(&why))?);
    }
    Ok(all)
}

const NOT_KEPT: &str = "cluster-slot-stats-enabled is off";

/// The figures of this node.
fn own(
    start: ClusterContext,
    lane: usize,
    by: RebalanceBy,
    slots: &SlotSet,
) -> Result<SlotFigures, String> {
    let server = start.server;
    let slots = slots.iter().map(Slot::get);
    let stats = &server.observed.slot_stats;
    match by {
        RebalanceBy::Memory => {
            let sizes = memory_of(server.keyspace, lane, slots);
            sizes.map_err(|_| "keys of this node are held for too long".to_owned())
        }
        RebalanceBy::Load | RebalanceBy::HotSlots if !stats.is_on() => Err(NOT_KEPT.to_owned()),
        RebalanceBy::Load | RebalanceBy::HotSlots => {
            Ok(slots.map(|slot| (slot, stats.usage(slot).cpu_us)).collect())
        }
        RebalanceBy::Slots | RebalanceBy::Keys => {
            Ok(slots.map(|slot| (slot, server.keyspace.population(slot) as u64)).collect())
        }
    }
}

/// The figures that another node has told.
fn told(by: RebalanceBy, answer: &Value) -> Result<SlotFigures, String> {
    let Value::Array(rows) = answer else { return Err(STRANGE.to_owned()) };
    let name = match by {
        RebalanceBy::Memory => "memory-bytes",
        RebalanceBy::Load | RebalanceBy::HotSlots => "cpu-usec",
        RebalanceBy::Slots | RebalanceBy::Keys => "key-count",
    };
    let figure = |row: &Value| match row {
        Value::Array(row) => match &row[..] {
            [Value::Integer(slot), figures] => {
                let slot = u16::try_from(*slot).ok().and_then(Slot::new).ok_or(STRANGE)?;
                let Some(Value::Integer(figure)) = field(figures, name) else {
                    return Err(if name == "cpu-usec" { NOT_KEPT } else { STRANGE });
                };
                Ok((slot.get(), u64::try_from(*figure).unwrap_or(0)))
            }
            _ => Err(STRANGE),
        },
        _ => Err(STRANGE),
    };
    rows.iter().map(figure).collect::<Result<_, _>>().map_err(str::to_owned)
}
